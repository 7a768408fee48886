"""Agreement and shares, each with an interval that knows which rows belong together.

Rows about one prompt are not independent. Where clusters are given, the variance sums what rows of a cluster have in
common (linearization: Kish 1965 for shares; for kappa it equals Fleiss, Cohen and Everitt 1969 without clusters).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tiltyard.stats.quantiles import normal_quantile, t_quantile

if TYPE_CHECKING:
    Floats = NDArray[np.float64]


class Estimate(msgspec.Struct, frozen=True):
    """A number, its interval, and how many rows it rests on; what cannot be said is None.

    Parameters:
        value: The number; None where there is nothing to say.
        low: Lower end of its interval.
        high: Upper end of its interval.
        n: How many rows it rests on.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int

    def __str__(self) -> str:
        if self.value is None:
            return f"– (n={self.n})"
        if self.low is None or self.high is None:
            return f"{self.value:.3f} (n={self.n})"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] (n={self.n})"


NO_ESTIMATE = Estimate(None, None, None, 0)
"""What nothing was counted for."""

LEVEL = 0.95
"""The confidence level of all of these."""


def wilson(hits: float, n: float, quantile: float) -> tuple[float, float]:
    """Wilson's score interval (1927) for a share of `hits` in `n`, inside 0 and 1; `quantile` is 1.96 for 95 %.

    Parameters:
        hits: How many of them are hits.
        n: How many there are.
        quantile: 1.96 for 95 %.
    """
    share, z2 = hits / n, quantile**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = quantile / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def share(hits: Sequence[bool], clusters: Sequence[Hashable] | None = None) -> Estimate:
    """The share of hits with Wilson's interval; with clusters, that of as many independent rows as these are worth.

    The worth is n / d, where d ≥ 1 is the variance with clusters over that without (the design effect); the quantile is
    Student's with one degree of freedom less than there are clusters. One cluster says nothing about another: the
    interval is then left open, from 0 to 1.

    Parameters:
        hits: Whether each row is a hit.
        clusters: What rows belong together (a prompt); None where they are independent.
    """
    n = len(hits)
    if n == 0:
        return Estimate(None, None, None, 0)
    values = np.asarray(hits, float)
    value = float(values.mean())
    if clusters is None or len(set(clusters)) == n:
        low, high = wilson(float(values.sum()), n, normal_quantile(LEVEL))
        return Estimate(value, low, high, n)
    sums, sizes = _cluster_sums(values - value, clusters)
    if len(sums) == 1:
        return Estimate(value, 0.0, 1.0, n)
    effective = n / _design_effect(value, sums, sizes)
    quantile = float(t_quantile(LEVEL, np.array(len(sums) - 1.0)))
    low, high = wilson(value * effective, effective, quantile)
    return Estimate(value, low, high, n)


def win_rate(scores: Floats, clusters: NDArray[np.integer]) -> Estimate:
    """The mean of results between 0 (lost) and 1 (won), ties a half, with an interval by cluster that stays inside.

    Each end is the outer one of two intervals with Student's quantile for one degree of freedom less than there are
    clusters: that of the logit, with each cluster's residual as it would be without the cluster (CR3); and Wilson's,
    for as many results as these are worth when one cluster that was won and one that was lost are added. The first is
    too narrow where nearly all results are alike, and there is none where all are; the second is too narrow where
    losses are rare and come together. One cluster says nothing about another: the interval is then open, from 0 to 1.
    """
    n = len(scores)
    if n == 0:
        return Estimate(None, None, None, 0)
    value = float(scores.mean())
    _, codes = np.unique(clusters, return_inverse=True)
    sizes = np.bincount(codes).astype(np.float64)
    sums = np.bincount(codes, weights=scores).astype(np.float64)
    groups = len(sizes)
    if groups == 1:
        return Estimate(value, 0.0, 1.0, n)
    quantile = float(t_quantile(LEVEL, np.array(groups - 1.0)))
    low, high = _wilson_by_cluster(sums, sizes, quantile)
    left_out = (sums - value * sizes) / (1.0 - sizes / n)
    error = math.sqrt(float((left_out**2).sum())) / n
    if error > 0.0 and 0.0 < value < 1.0:
        logit, half = math.log(value / (1.0 - value)), quantile * error / (value * (1.0 - value))
        low, high = min(low, _logistic(logit - half)), max(high, _logistic(logit + half))
    return Estimate(value, min(low, value), max(high, value), n)


def _wilson_by_cluster(sums: Floats, sizes: Floats, quantile: float) -> tuple[float, float]:
    """Wilson's interval for as many results as these clusters are worth, with one won and one lost cluster added."""
    n, groups = float(sizes.sum()), len(sizes)
    size = n / groups
    all_n = n + 2.0 * size
    middle = (float(sums.sum()) + size) / all_n
    spread = float(((sums - middle * sizes) ** 2).sum()) * groups / (groups - 1)
    spread += size**2 * ((1.0 - middle) ** 2 + middle**2)
    worth = middle * (1.0 - middle) * all_n**2 / spread
    return wilson(float(sums.sum()) / n * worth, worth, quantile)


def _logistic(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit)) if logit > 0 else math.exp(logit) / (1.0 + math.exp(logit))


def mean_of(values: Sequence[float], clusters: Sequence[Hashable] | None = None, *, level: float = LEVEL) -> Estimate:
    """The mean of some values with its interval."""
    if not len(values):
        return NO_ESTIMATE
    numbers = np.asarray(values, float)
    mean = float(numbers.mean())
    half = _half_width(numbers - mean, clusters, level)
    return Estimate(mean, None if half is None else mean - half, None if half is None else mean + half, len(numbers))


def cohen_kappa(
    first: Sequence[Hashable], second: Sequence[Hashable], clusters: Sequence[Hashable] | None = None
) -> Estimate:
    """Cohen's kappa: agreement beyond what two raters with these habits would reach by chance (1960).

    None when both always say the same one word: chance alone then explains everything. Few rows may hold no or hardly
    any disagreement by chance: the low end is the lower one of two, that of these rows, and that with one more row, on
    which the two disagree in the way that lowers it most.

    Parameters:
        first: What the first rater said of each row.
        second: What the second said.
        clusters: What rows belong together (a prompt); None where they are independent.
    """
    found = _kappa(first, second, clusters)
    if found.low is None:
        return found
    together = None if clusters is None else [*clusters, object()]
    pairs = itertools.permutations(dict.fromkeys([*first, *second]), 2)
    lows = [_kappa([*first, one], [*second, other], together).low for one, other in pairs]
    return replace(found, low=min(found.low, *(low for low in lows if low is not None)))


def _kappa(first: Sequence[Hashable], second: Sequence[Hashable], clusters: Sequence[Hashable] | None) -> Estimate:
    n = len(first)
    words = {word: place for place, word in enumerate(dict.fromkeys([*first, *second]))}
    a = np.array([words[word] for word in first], int)
    b = np.array([words[word] for word in second], int)
    if n == 0 or len(words) < 2:
        return Estimate(None, None, None, n)
    row, column = np.bincount(a, minlength=len(words)) / n, np.bincount(b, minlength=len(words)) / n
    observed, expected = float((a == b).mean()), float(row @ column)
    value = 1 - (1 - observed) / (1 - expected)
    influence = ((a == b) - observed) / (1 - expected) - (1 - observed) / (1 - expected) ** 2 * (
        column[a] + row[b] - 2 * expected
    )
    half = _half_width(influence, clusters, LEVEL)
    if half is None:
        return Estimate(value, None, None, n)
    low = value - half
    if observed == 1.0:  # no disagreement was seen: how much there may be is what the share of agreement says
        least = share([True] * n, clusters).low or 0.0
        low = 1 - (1 - least) / (1 - expected)
    return Estimate(value, max(-1.0, low), min(1.0, value + half), n)


def _half_width(influence: Floats, clusters: Sequence[Hashable] | None, level: float) -> float | None:
    """Half the interval of a mean-like number, from what each row moves it by; None where there is one cluster."""
    n = len(influence)
    sums = influence if clusters is None else _cluster_sums(influence, clusters)[0]
    if len(sums) < 2:
        return None
    spread = math.sqrt(float((sums**2).sum()) * len(sums) / (len(sums) - 1)) / n
    grouped = len(sums) < n
    quantile = float(t_quantile(level, np.array(len(sums) - 1.0))) if grouped else normal_quantile(level)
    return quantile * spread


def _cluster_sums(values: Floats, clusters: Sequence[Hashable]) -> tuple[Floats, Floats]:
    places = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    codes = np.array([places[name] for name in clusters], int)
    sums = np.bincount(codes, weights=values, minlength=len(places))
    return sums.astype(np.float64), np.bincount(codes, minlength=len(places)).astype(np.float64)


def _design_effect(value: float, sums: Floats, sizes: Floats) -> float:
    """How much clusters inflate the variance of a share; where all rows agree, as if whole clusters were copies."""
    n, groups = float(sizes.sum()), len(sums)
    plain = value * (1 - value)
    if plain == 0:
        return float((sizes**2).sum() / n)
    return max(1.0, float((sums**2).sum()) / n * groups / (groups - 1) / plain)
