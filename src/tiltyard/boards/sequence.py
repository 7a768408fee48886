"""Battles in the order they happened: what Elo and Glicko-2 read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.battles.outcome import Outcome
from tiltyard.errors import RatingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tiltyard.battles.table import BattleTable, Floats, Int32s

SCORE_A = np.array([1.0, 0.0, 0.5, np.nan])
"""The first model's score for each `Outcome`; both-bad has none."""


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """Battles one by one: the two models and the first one's score; `row` is each battle's row in the table."""

    a: Int32s
    b: Int32s
    score_a: Floats
    row: NDArray[np.intp]


def in_order(table: BattleTable, remarks: list[str]) -> Sequence:
    """The battles by `timestamp` where every battle has one, else as they stand; a row of weight n is n battles."""
    order = np.arange(len(table))
    when = table.columns.get("timestamp")
    if isinstance(when, np.ndarray):
        missing = int(np.isnan(when).sum())
        if missing:
            remarks.append(f"{missing:,} battles have no timestamp: the order of the file was used")
        else:
            order = np.argsort(when, kind="stable")
    repeats = table.weight[order]
    if (repeats != np.floor(repeats)).any():
        raise RatingError(
            "a battle has a weight that is not a whole number: rate it with --method bt, which can weigh."
        )
    row = np.repeat(order, repeats.astype(np.intp))
    score = SCORE_A[table.outcome]
    if table.score_a is not None:
        score = np.where(np.isnan(table.score_a), score, table.score_a)
    return Sequence(table.model_a[row], table.model_b[row], score[row], row)


def decisive(table: BattleTable) -> NDArray[np.bool_]:
    """Which rows one model won."""
    return np.asarray((table.outcome == Outcome.A) | (table.outcome == Outcome.B))
