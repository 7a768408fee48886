"""From a method's arrays to a `Leaderboard`: sort, count, describe; and the simplest one, the win-rate board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.opened import BattleData
from tiltyard.battles.reading import oddities, read_battles
from tiltyard.battles.table import MISSING, BattleTable
from tiltyard.boards.estimator import FEWER, PAIR_BYTES, WIN_RATE_TABLES, EstimatorParameters, check_memory
from tiltyard.boards.leaderboard import Leaderboard, RatingEntry
from tiltyard.boards.preparation import comparisons
from tiltyard.boards.selection import Selected, Selection, fixed_order, known_models, per_model, select
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import explains
from tiltyard.ratings.comparisons import WinRates, count_pairs, sum_by_both, win_rates
from tiltyard.ratings.ranks import RankIntervals, ranks
from tiltyard.types import Floats

Column = Sequence[float | None]


def build_board(
    selected: Selected,
    *,
    rating: NDArray[np.float64],
    settings: Mapping[str, Any],
    low: Column | None = None,
    high: Column | None = None,
    places: RankIntervals | None = None,
    evaluated: str | None = None,
    notes: Sequence[str | None] | None = None,
    extra: Mapping[str, Column] | None = None,
    remarks: Sequence[str] = (),
    details: Mapping[str, Any] | None = None,
    arrays: Mapping[str, NDArray[np.generic]] | None = None,
) -> Leaderboard:
    """The board of a method: columns come in the order of the models, entries leave best first."""
    table: BattleTable = selected.table
    counts = count_by_model(selected)
    sources = _sources(table, evaluated)
    rank = ranks(rating)
    order = np.argsort(rank)
    entries = tuple(
        RatingEntry(
            model=table.models[i],
            rating=float(rating[i]),
            ci_low=None if low is None else low[i],
            ci_high=None if high is None else high[i],
            n_battles=float(counts.battles[i]),
            source=sources[i],
            rank=int(rank[i]),
            rank_low=None if places is None else int(places.low[i]),
            rank_high=None if places is None else int(places.high[i]),
            wins=float(counts.wins[i]),
            losses=float(counts.losses[i]),
            ties=float(counts.ties[i]),
            both_bad=float(counts.both_bad[i]),
            note=None if notes is None else notes[i],
            extra={name: column[i] for name, column in (extra or {}).items()},
        )
        for i in order.tolist()
    )
    return Leaderboard(
        entries=entries,
        settings={**settings, "evaluated": evaluated, "judge_model": _judge_name(table)},
        n_battles=table.n_battles + selected.both_bad.n_battles,
        left_out=selected.left_out,
        remarks=tuple(remarks),
        details=dict(details or {}),
        arrays=ordered_arrays({"models": np.array(table.models), **(arrays or {})}, order),
    )


PAIR_ARRAYS = ("difference_errors", "below", "win_rate_matrix", "battle_matrix")
"""Arrays of a board that have a line and a column for every model; the others have one value, or one column."""


def ordered_arrays(arrays: Mapping[str, NDArray[Any]], order: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
    """Arrays of a board with their models in this order."""
    return {name: one[order][:, order] if name in PAIR_ARRAYS else one[..., order] for name, one in arrays.items()}


class ModelCounts(msgspec.Struct, frozen=True, eq=False):
    """What each model did: wins, losses, ties, both-bad, and all of them together."""

    wins: Floats
    losses: Floats
    ties: Floats
    both_bad: Floats

    @property
    def battles(self) -> Floats:
        """Everything the model took part in."""
        return self.wins + self.losses + self.ties + self.both_bad


def count_by_model(selected: Selected) -> ModelCounts:
    """Count by model."""
    table, m = selected.table, len(selected.table.models)
    shape = m, len(Outcome)
    in_a, in_b = (sum_by_both(side, table.outcome, table.weight, shape).T for side in (table.model_a, table.model_b))
    return ModelCounts(
        wins=in_a[Outcome.A.code] + in_b[Outcome.B.code],
        losses=in_a[Outcome.B.code] + in_b[Outcome.A.code],
        ties=in_a[Outcome.TIE.code] + in_b[Outcome.TIE.code],
        both_bad=per_model(selected.both_bad, selected.both_bad.weight),
    )


def _sources(table: BattleTable, evaluated: str | None) -> list[str]:
    """`evaluated` for the model under test, `human` for the others.

    Where no model is named, those that no person ever judged are the evaluated ones: in a file that says that a judge
    decided, all; where only its format suggests so, none.
    """
    if evaluated is None:
        shape = len(table.models), len(Source)
        in_a, in_b = (sum_by_both(side, table.source, table.weight, shape) for side in (table.model_a, table.model_b))
        by_people = (in_a + in_b)[:, Source.HUMAN.code] > 0
        known = table.source_named or by_people.any()
        return ["human" if judged or not known else "evaluated" for judged in by_people.tolist()]
    if evaluated not in table.models:
        raise OptionError(f"the evaluated model {evaluated!r} is in none of the rated battles. {known_models(table)}")
    return ["evaluated" if name == evaluated else "human" for name in table.models]


def _judge_name(table: BattleTable) -> str | None:
    """Who judged, as the rows say: one name, several joined by ` + ` in the order of the alphabet, or None."""
    if "judge_model" not in table.columns:
        return None
    codes = table.text_column("judge_model")
    used = np.unique(codes.codes)
    return " + ".join(sorted(codes.labels[code] for code in used.tolist() if code != MISSING)) or None


REMARK = "a win rate depends on who was met: compare with Bradley–Terry (method bt), which allows for the opponents"


@explains(selection="Which battles are rated.")
@dataclass(frozen=True, slots=True, kw_only=True)
class WinRate(EstimatorParameters):
    """Average win rate over opponents; the extra column `overall` counts every battle once."""

    evaluated: str | None = None
    selection: Selection = field(default_factory=Selection)

    def fit(self, table: BattleData, *, memory: float | None = None) -> Leaderboard:
        """Rate the battles, in at most `memory` bytes (None: what the machine has)."""
        selected = select(fixed_order(read_battles(table)), self.selection)
        models = len(selected.table.models)
        check_memory(
            f"win rates of all pairs of {models:,} models",
            float(PAIR_BYTES) * WIN_RATE_TABLES * models * models,
            ("Use ", OptionValue("method", "bt"), " with ", OptionValue("ci", "none"), ", or ", *FEWER),
            memory,
        )
        rates = pairwise(selected.table)
        return build_board(
            selected,
            rating=rates.average,
            settings={**self.selection.settings("winrate"), "interval": {"kind": "none"}},
            evaluated=self.evaluated,
            extra={"overall": rates.overall.tolist(), "score": rates.score.tolist()},
            remarks=[REMARK, *oddities(selected.table)],
            arrays={"win_rate_matrix": rates.matrix, "battle_matrix": rates.battles},
        )


def pairwise(table: BattleTable) -> WinRates:
    """Win rates of every pair in a table that holds no both-bad rows."""
    return win_rates(count_pairs(comparisons(table)).cells)
