"""What a table of battles holds, in numbers: `battle_stats`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltyard.data.battles.battle import OUTCOME_LABELS, SOURCE_LABELS, Outcome
from tiltyard.data.battles.table import MISSING, BattleTable
from tiltyard.types import occurring


@dataclass(frozen=True, slots=True)
class BattleStats:
    """The numbers of a table of battles; every count of battles is a sum of weights.

    Parameters:
        models: How many models there are.
        rows: Rows of the table.
        battles: The sum of the weights.
        sources: Battles by who decided.
        outcomes: Battles by outcome.
        decisive: Battles that one model won.
        soft: Battles with a soft score.
        inconsistent: Judgments that changed with the order.
        battles_per_model: Fewest, median and most battles of a model.
        pairs_met: Pairs of models that met.
        pairs_possible: Pairs of models there are.
        islands: The groups of models that met one another, directly or through others, the largest first; a battle
            in which both were bad does not count as a meeting.
        never_won: Models without a decisive win.
        never_lost: Models without a decisive loss.
        prompts: The number of distinct question ids, None when there are none.
        dimensions: Dimensions that are named.
        judges: Judges that are named.
        skipped: Bad rows left out, by reason.
    """

    models: int
    rows: int
    battles: float
    sources: Mapping[str, float]
    outcomes: Mapping[str, float]
    decisive: float
    soft: float
    inconsistent: float
    battles_per_model: Mapping[str, float]
    pairs_met: int
    pairs_possible: int
    islands: tuple[tuple[str, ...], ...]
    never_won: tuple[str, ...]
    never_lost: tuple[str, ...]
    prompts: int | None
    dimensions: tuple[str, ...]
    judges: tuple[str, ...]
    skipped: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain values for JSON: whole counts as integers."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def battle_stats(table: BattleTable) -> BattleStats:
    """Count what a table holds and who met whom.

    Parameters:
        table: A table of battles.
    """
    n = len(table.models)
    outcomes = np.bincount(table.outcome, weights=table.weight, minlength=len(OUTCOME_LABELS))
    sources = np.bincount(table.source, weights=table.weight, minlength=len(SOURCE_LABELS))
    sides = np.concatenate([table.model_a, table.model_b])
    per_model = np.bincount(sides, weights=np.tile(table.weight, 2), minlength=n)
    a_won, b_won = table.outcome == Outcome.A.code, table.outcome == Outcome.B.code
    won = occurring(table.model_a[a_won], n) | occurring(table.model_b[b_won], n)
    lost = occurring(table.model_b[a_won], n) | occurring(table.model_a[b_won], n)
    inconsistent = table.columns.get("inconsistent", np.zeros(len(table)))
    pairs = _pairs_met(table)
    spread = (per_model.min(), np.median(per_model), per_model.max()) if n else (0.0, 0.0, 0.0)
    return BattleStats(
        models=n,
        rows=len(table),
        battles=table.n_battles,
        sources={label: float(sources[code]) for code, label in enumerate(SOURCE_LABELS) if sources[code]},
        outcomes={label: float(outcomes[code]) for code, label in enumerate(OUTCOME_LABELS)},
        decisive=float(outcomes[Outcome.A.code] + outcomes[Outcome.B.code]),
        soft=0.0 if table.score_a is None else float(table.weight[~np.isnan(table.score_a)].sum()),
        inconsistent=float(table.weight[inconsistent == 1.0].sum()),
        battles_per_model=dict(zip(("min", "median", "max"), map(float, spread), strict=True)),
        pairs_met=len(pairs),
        pairs_possible=n * (n - 1) // 2,
        islands=_islands(table.models, pairs),
        never_won=tuple(name for name, did in zip(table.models, won, strict=True) if not did),
        never_lost=tuple(name for name, did in zip(table.models, lost, strict=True) if not did),
        prompts=len(_values(table, "question_id")) if "question_id" in table.columns else None,
        dimensions=_values(table, "dimension"),
        judges=_values(table, "judge_model"),
        skipped=dict(table.skipped),
    )


def _pairs_met(table: BattleTable) -> NDArray[np.int64]:
    """The pairs that met, one row each with the smaller code first; both-bad battles do not count."""
    met = table.outcome != Outcome.BOTH_BAD.code
    low = np.minimum(table.model_a, table.model_b)[met].astype(np.int64)
    high = np.maximum(table.model_a, table.model_b)[met].astype(np.int64)
    width = max(len(table.models), 1)
    return np.stack(np.divmod(np.unique(low * width + high), width), axis=1)


def _islands(models: tuple[str, ...], pairs: NDArray[np.int64]) -> tuple[tuple[str, ...], ...]:
    group = {name: [name] for name in models}
    for one, other in ((group[models[a]], group[models[b]]) for a, b in pairs.tolist()):
        if one is not other:
            small, large = sorted((one, other), key=len)
            large += small
            group |= dict.fromkeys(small, large)
    distinct = {id(names): tuple(sorted(names)) for names in group.values()}
    return tuple(sorted(distinct.values(), key=lambda names: (-len(names), names)))


def _values(table: BattleTable, name: str) -> tuple[str, ...]:
    if name not in table.columns:
        return ()
    column = table.text_column(name)
    return tuple(sorted(column.labels[code] for code in np.unique(column.codes).tolist() if code != MISSING))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value
