"""Ranks, a range of ranks for every model that holds for all models at once, and how alike two orders are.

A board that is looked at every day has a new chance of a false order every day. `anytime_cuts` says how many standard
errors tell two models apart however often one looks: the normal-mixture sequence (Robbins 1970, Annals of Mathematical
Statistics 41:1397) over every pair, in the large-sample form that uses an estimated standard error.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.stats.quantiles import studentized_range_quantile, t_quantile
from tiltyard.types import Floats

Places = NDArray[np.int64]

ANYTIME_SPREAD = 0.4
"""The differences, in logits, that anytime-valid cuts are sharpest for: 70 Elo points. Fixed before any look."""

FIRST_LOOK = 20
"""A model with fewer battles is told apart from nobody at any time: its standard error is no large-sample one yet."""

FARTHEST_CUT = 20.0
"""A cut of more standard errors than this tells nothing apart: the standard error alone is beyond 2 logits there."""


class RankIntervals(msgspec.Struct, frozen=True, eq=False):
    """The best (`low`) and worst (`high`) place each model could hold.

    `below[i, j]` says that model i is told apart from j and stands below it; None where no table of pairs was made.
    """

    low: Places
    high: Places
    below: NDArray[np.bool_] | None = None

    def among(self, chosen: Places) -> RankIntervals:
        """The places that some of the models could hold among themselves; without a table of pairs, among all."""
        if self.below is None:
            return RankIntervals(self.low[chosen], self.high[chosen])
        below = self.below[np.ix_(chosen, chosen)]
        return RankIntervals(1 + below.sum(axis=1), len(chosen) - below.sum(axis=0), below)


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
    return RankIntervals(1 + beaten_by.sum(axis=1), len(ratings) - beaten_by.sum(axis=0), beaten_by)


def places_of_intervals(low: Floats, high: Floats) -> RankIntervals:
    """The places each model could hold, given intervals of strengths that hold for all models at once.

    A model is told apart from those whose interval lies wholly above or below its own: one sort, no table of pairs.
    """
    m = len(low)
    above = m - np.searchsorted(np.sort(low), high, side="right")
    below = np.searchsorted(np.sort(high), low, side="left")
    return RankIntervals((1 + above).astype(np.int64), (m - below).astype(np.int64))


def tukey_cut(n_models: int, level: float, degrees: float = math.inf) -> float:
    """How many standard errors tell any two of the models apart, if all differences are equally well known (Tukey)."""
    return studentized_range_quantile(level, n_models, degrees) / math.sqrt(2.0)


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


def anytime_cuts(
    variances: Floats, level: float, *, n_pairs: float = 1.0, degrees: Floats | float = math.inf
) -> Floats:
    """How many standard errors tell two models apart at whatever time, and however often, one looks.

    b² = (1 + r)/r · [2 ln(N/α) + ln(1 + r)], r = ρ²/variance, for N pairs at once: with chance `level` no pair is ever
    told apart in the wrong order. With clusters the cut has Student's tail instead of the normal one: T⁻¹(Φ(b)).

    Parameters:
        variances: The variance of each difference, in logits².
        level: Confidence level, 1 − α.
        n_pairs: How many differences are watched at once: 1 for a single one.
        degrees: Degrees of freedom of each difference; infinity without clusters.
    """
    from scipy.special import ndtr, stdtrit

    ratio = ANYTIME_SPREAD**2 / np.maximum(np.asarray(variances, dtype=np.float64), 1e-18)
    cut = np.sqrt((1.0 + 1.0 / ratio) * (2.0 * math.log(n_pairs / (1.0 - level)) + np.log1p(ratio)))
    degrees = np.broadcast_to(degrees, cut.shape)
    cut[(cut > FARTHEST_CUT) | (degrees <= 0.0)] = np.inf
    student = np.isfinite(cut) & np.isfinite(degrees)
    # The lower tails are the small ones: 1 − Φ(b) is rounded to 0 from b = 8.3 on.
    cut[student] = -stdtrit(degrees[student], ndtr(-cut[student]))
    return cut


def anytime_half_width(variance: float, level: float, degrees: float = math.inf) -> float:
    """Half the width of an interval for one difference that holds at every time at which one looks; infinite early on.

    A rule that looks at one side only, such as a gate, keeps its error rate α with the level 1 − 2α.

    Parameters:
        variance: The variance of the difference, in logits².
        level: Confidence level.
        degrees: Degrees of freedom of its standard error; infinity without clusters.
    """
    return float(anytime_cuts(np.array([variance]), level, degrees=degrees)[0]) * math.sqrt(variance)


def chance_at_any_time(errors: float, ratio: float, degrees: float = math.inf) -> float:
    """How sure one can be of a difference's sign however often one looks: the sequence of `anytime_cuts` turned round.

    An interval with α in both tails that just reaches 0 is 1 − α/2 sure; one half where every interval holds 0.

    Parameters:
        errors: The difference in standard errors; negative below 0.
        ratio: The mixture's variance divided by that of the difference.
        degrees: Degrees of freedom of the standard error; infinity without clusters.
    """
    from scipy.special import ndtri, stdtr

    normal = abs(errors) if math.isinf(degrees) else -float(ndtri(stdtr(degrees, -abs(errors))))
    normal = min(normal, FARTHEST_CUT)
    tail = 0.5 * min(1.0, math.sqrt(1.0 + ratio) * math.exp(-0.5 * normal * normal * ratio / (1.0 + ratio)))
    return tail if errors < 0.0 else 1.0 - tail


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
