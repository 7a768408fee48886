"""Ranks, a range of ranks for every model that holds for all models at once, and how alike two orders are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiltyard.ratings.quantiles import studentized_range_quantile, t_quantile

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


def rank_intervals(ratings: Floats, apart: Floats) -> RankIntervals:
    """The places each model could hold, given by how much every two models must differ to be told apart.

    They hold for all models together with the chance with which no two are told apart in the wrong order.
    """
    beaten_by = (ratings[None, :] - ratings[:, None]) > apart
    np.fill_diagonal(beaten_by, val=False)
    return RankIntervals(1 + beaten_by.sum(axis=1), len(ratings) - beaten_by.sum(axis=0))


def tukey_cut(n_models: int, level: float, degrees: float = math.inf) -> float:
    """How many standard errors tell any two of the models apart, if all differences are equally well known (Tukey)."""
    return studentized_range_quantile(level, n_models, degrees) / math.sqrt(2.0) if n_models > 1 else math.inf


def bonferroni_cuts(degrees: Floats, level: float) -> Floats:
    """How many standard errors tell each two models apart, as (models, models), if each pair has its own degrees.

    Bonferroni's bound over all pairs, with Student's t of the smaller degrees of freedom of the two.
    """
    m = len(degrees)
    if m < 2:
        return np.full((m, m), np.inf)
    cut = np.full(m, np.inf)
    known = degrees > 0.0
    cut[known] = t_quantile(1.0 - 2.0 * (1.0 - level) / (m * (m - 1)), degrees[known])
    return np.asarray(np.maximum(cut[:, None], cut[None, :]))


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
