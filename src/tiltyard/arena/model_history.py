"""A model over time, from the counted votes: its rating and deviation after each, its recent delta, its both-bad trend.

A store that keeps snapshots need not replay for this; here everything comes from the votes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiltyard.ratings.glicko2 import rate_battles_history
from tiltyard.ratings.quantiles import normal_quantile
from tiltyard.validity.agreement import wilson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.arena.policy import RatingRules
    from tiltyard.arena.vote_table import VoteTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RECENT = 20


@dataclass(frozen=True, slots=True, eq=False)
class RatingPath:
    """A model's rating and deviation after each of its rated votes, and when they were cast (microseconds)."""

    start: float
    at: Ints
    rating: Floats
    deviation: Floats

    def recent_delta(self, last: int = RECENT) -> float | None:
        """How far the rating moved over the last rated votes, or since the start if there are fewer; None if none."""
        if not len(self.rating):
            return None
        before = self.rating[-last - 1] if len(self.rating) > last else self.start
        return float(self.rating[-1] - before)


def rating_path(votes: VoteTable, rules: RatingRules, model: int) -> RatingPath:
    """The path of a model through all counted votes; it ends at the rating that the live board shows."""
    rated = votes.rated
    a, b = votes.model_a[rated], votes.model_b[rated]
    history = rate_battles_history(a, b, votes.score_a()[rated], start=len(votes.models), settings=rules.glicko2())
    own = (a == model) | (b == model)
    side = (b[own] == model).astype(np.intp)[:, None]
    return RatingPath(
        rules.rating,
        votes.at[rated][own],
        np.take_along_axis(history.rating[own], side, axis=1)[:, 0],
        np.take_along_axis(history.deviation[own], side, axis=1)[:, 0],
    )


@dataclass(frozen=True, slots=True)
class BothBadPiece:
    """A stretch of time: the model's votes in it, those that found both bad, and the rate with its 95 % interval."""

    since: int
    until: int
    votes: int
    both_bad: int
    rate: float | None
    low: float | None
    high: float | None


def both_bad_trend(votes: VoteTable, model: int, edges: Sequence[int]) -> tuple[BothBadPiece, ...]:
    """The both-bad rate of a model in each stretch between two edges (microseconds), the later edge not included."""
    own = (votes.model_a == model) | (votes.model_b == model)
    at, bad = votes.at[own], ~votes.rated[own]
    pieces = []
    for since, until in pairwise(edges):
        inside = (at >= since) & (at < until)
        n, k = int(inside.sum()), int((inside & bad).sum())
        low, high = wilson(k, n, normal_quantile(0.95)) if n else (None, None)
        pieces.append(BothBadPiece(since, until, n, k, k / n if n else None, low, high))
    return tuple(pieces)
