"""Ranks, a range of ranks for every model that holds for all models at once, and how alike two orders are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiltyard.ratings.quantiles import studentized_range_quantile

if TYPE_CHECKING:
    from tiltyard.ratings.comparisons import Floats

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RankIntervals:
    """The best (`low`) and worst (`high`) place each model could hold."""

    low: Places
    high: Places


def ranks(ratings: Floats) -> Places:
    """Place 1 for the highest rating; equal ratings keep their order."""
    place = np.empty(len(ratings), dtype=np.int64)
    place[np.argsort(-ratings, kind="stable")] = np.arange(1, len(ratings) + 1)
    return place


def rank_intervals(ratings: Floats, variances: Floats, *, level: float, degrees: float = math.inf) -> RankIntervals:
    """Rank intervals that hold for all models together with chance at least `level`.

    `variances` are those of all differences of two ratings. Two models are told apart when their difference exceeds c
    standard errors of that difference, c being the studentized range's quantile over √2 (Tukey's honest significance,
    here over all pairs of models).
    """
    m = len(ratings)
    if m < 2:
        return RankIntervals(np.ones(m, dtype=np.int64), np.ones(m, dtype=np.int64))
    cut = studentized_range_quantile(level, m, degrees) / math.sqrt(2.0)
    beaten_by = (ratings[None, :] - ratings[:, None]) > cut * np.sqrt(variances)
    np.fill_diagonal(beaten_by, val=False)
    return RankIntervals(1 + beaten_by.sum(axis=1), m - beaten_by.sum(axis=0))


def kendall_tau(left: Floats, right: Floats) -> float:
    """Kendall's tau-b: pairs in the same order minus pairs in opposite order, corrected for ties (NaN if constant)."""
    upper = np.triu_indices(len(left), 1)
    a = np.sign(left[:, None] - left[None, :])[upper]
    b = np.sign(right[:, None] - right[None, :])[upper]
    scale = np.sqrt(np.abs(a).sum() * np.abs(b).sum())
    return float((a * b).sum() / scale) if scale > 0 else float("nan")


def spearman_rho(left: Floats, right: Floats) -> float:
    """Spearman's rho: the correlation of the ranks, equal values sharing their mean rank (NaN if constant)."""
    a, b = _mean_ranks(left), _mean_ranks(right)
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else float("nan")


def _mean_ranks(values: Floats) -> Floats:
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - 0.5 * (count - 1))[inverse]
