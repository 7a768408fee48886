"""From judgments to numbers: permutation Elo, Bradley–Terry and win rates, per dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.battles import Outcome
from tiltyard.boards import BradleyTerry, EloReport
from tiltyard.errors import TiltyardError
from tiltyard.ratings import elo
from tiltyard.tournament.settled import SettledBattles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tiltyard.battles import Battle, BattleTable
    from tiltyard.judging.records import Judgment
    from tiltyard.tournament.config import EloSettings

Floats = NDArray[np.float64]


class EloLine(msgspec.Struct, frozen=True):
    """One entrant's permutation Elo: mean, shuffle error, and the interval that other prompts could have given."""

    entrant_id: str
    mean: float
    sem: float
    ci95_low: float
    ci95_high: float
    sampling_low: float | None = None
    sampling_high: float | None = None


class PairTally(msgspec.Struct, frozen=True):
    """How two entrants, in alphabetical order, did against each other in a dimension: a row of `pairwise_winrates.csv`.

    An inconsistent judgment is also a tie; a failed one is in no count.
    """

    dimension: str
    entrant_a: str
    entrant_b: str
    a_wins: int = 0
    b_wins: int = 0
    ties: int = 0
    inconsistent: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class DimensionRatings:
    """The numbers of one dimension. Without a decisive match `elo`, `sweep` and `traces` are empty."""

    dimension: str
    n_decisive: int
    elo: Mapping[str, EloLine]
    sweep: Mapping[float, Mapping[str, EloLine]]
    traces: Floats
    entrants: tuple[str, ...]
    pairs: tuple[PairTally, ...]
    battles: Sequence[Battle]
    board: EloReport | None
    board_missing: str | None
    """Why there is no Bradley–Terry board, where there is none."""


def rate_dimension(
    dimension: str, judgments: Iterable[Judgment], settings: EloSettings, judge: str
) -> DimensionRatings:
    """Rate one dimension: permutation Elo over the decisive judgments, Bradley–Terry over all settled ones.

    The judgments are walked once and may be more than memory holds: some thirty bytes are kept of each.
    """
    battles = SettledBattles(dimension, judgments)
    table = battles.table()
    board, why = _board(dimension, table, judge)
    decisive = table.take(table.outcome != Outcome.TIE).compact()
    lines: dict[str, EloLine] = {}
    sweep: dict[float, dict[str, EloLine]] = {}
    traces = np.empty((0, 0))
    if len(decisive):
        lines, sweep, traces = _permutation_elo(decisive, settings)
    return DimensionRatings(
        dimension=dimension,
        n_decisive=len(decisive),
        elo=lines,
        sweep=sweep,
        traces=traces,
        entrants=decisive.models if len(decisive) else (),
        pairs=_tallies(dimension, battles),
        battles=battles,
        board=board,
        board_missing=why,
    )


def _permutation_elo(
    decisive: BattleTable, settings: EloSettings
) -> tuple[dict[str, EloLine], dict[float, dict[str, EloLine]], Floats]:
    a, b, a_won = decisive.model_a, decisive.model_b, decisive.outcome == Outcome.A
    result = elo.permutation_elo(
        a,
        b,
        a_won,
        n_models=len(decisive.models),
        k=settings.default_k,
        k_sweep=settings.k_factor_sweep,
        initial_rating=settings.initial_rating,
        n_perms=settings.n_perms,
        seed=settings.shuffle_seed,
    )
    clusters = _by_appearance(decisive.text_column("question_id").codes)
    sampling = None
    if clusters.max() > 0:
        sampling = elo.sampling_interval(
            a, b, a_won, result.default.mean, clusters=clusters, k=settings.default_k, seed=settings.shuffle_seed
        )
    lines = _lines(result.default, decisive.models, sampling)
    sweep = {trace.k: _lines(trace, decisive.models, None) for trace in result.sweep}
    return lines, sweep, result.default.ratings


def _by_appearance(codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """The same groups, numbered in the order in which they first appear: resamples depend on the numbering."""
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[group], dtype=np.int64)


def _lines(
    trace: elo.EloTraces, entrants: tuple[str, ...], sampling: elo.SamplingInterval | None
) -> dict[str, EloLine]:
    return {
        name: EloLine(
            entrant_id=name,
            mean=float(trace.mean[i]),
            sem=float(trace.sem[i]),
            ci95_low=float(trace.ci95_low[i]),
            ci95_high=float(trace.ci95_high[i]),
            sampling_low=None if sampling is None else _end(sampling.low[i]),
            sampling_high=None if sampling is None else _end(sampling.high[i]),
        )
        for i, name in enumerate(entrants)
    }


def _end(value: float) -> float | None:
    """An end of an interval; None for an entrant that has none, since it only won or only lost."""
    return None if np.isnan(value) else float(value)


def _board(dimension: str, table: BattleTable, judge: str) -> tuple[EloReport | None, str | None]:
    """Bradley–Terry with intervals by prompt, or why there is none: a dimension without an answer ends no run."""
    if not len(table):
        return None, "no judgment was settled"
    try:
        board = BradleyTerry(only_connected=True).fit(table)
    except TiltyardError as error:
        return None, str(error)
    return EloReport.of(board, arena=dimension, judge_model=judge), None


def _tallies(dimension: str, battles: SettledBattles) -> tuple[PairTally, ...]:
    table = battles.table()
    first, second = np.minimum(table.model_a, table.model_b), np.maximum(table.model_a, table.model_b)
    first_won = (table.outcome == Outcome.A) == (table.model_a == first)
    tied = table.outcome == Outcome.TIE
    pairs, group = np.unique(np.stack([first, second]), axis=1, return_inverse=True)
    kinds = (first_won & ~tied, ~first_won & ~tied, tied, battles.inconsistent())
    counts = [np.bincount(group.ravel(), kind, pairs.shape[1]).astype(int).tolist() for kind in kinds]
    names = [[table.models[code] for code in side] for side in pairs]
    return tuple(PairTally(dimension, *row) for row in zip(*names, *counts, strict=True))
