"""How far people agree who said which of two answers is better: Krippendorff's α, Cohen's κ, each against the rest.

Ratings are a table, one row an item and one column a person: the number of a category (0, 1, 2, …), or −1 where the
person said nothing of the item.
"""

from __future__ import annotations

import itertools
import math
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from tiltyard.stats.quantiles import t_quantile
from tiltyard.stats.score_differences import mean_score
from tiltyard.types import Floats, Ints

Metric = Literal["nominal", "ordinal"]

FEWEST_ITEMS = 5
"""With fewer items that two people rated there is no interval."""


class Estimated(msgspec.Struct, frozen=True):
    """A number with its interval, from `n` items; NaN where there is none."""

    value: float
    low: float
    high: float
    n: int

    @property
    def known(self) -> bool:
        return not math.isnan(self.value)


def krippendorff_alpha(ratings: Ints, metric: Metric = "nominal", *, level: float = 0.95) -> Estimated:
    """Krippendorff's α, with an interval by the jackknife over items, and once more with an item added.

    α = 1 − observed / expected disagreement (Krippendorff 2011, Computing Krippendorff's alpha-reliability): 1 is
    agreement throughout, 0 what chance gives. `ordinal` takes the categories for ordered, so a tie is half way between
    the two answers. NaN if everybody says the same of everything: then nothing can be told apart from chance.

    Few items may hold no disagreement by chance, and then they do not vary. The low end is therefore the lower one of
    two: that of these items, and that with one more, on which two people disagree in the way that lowers it most.
    """
    counts = _counts(ratings)
    if not len(counts):
        return Estimated(math.nan, math.nan, math.nan, 0)
    found = _jackknifed(counts, metric, level)
    if math.isnan(found.low):
        return found
    lows = [found.low]
    for two in itertools.combinations(np.flatnonzero(counts.any(axis=0)).tolist(), 2):
        disagreement = np.zeros((1, counts.shape[1]))
        disagreement[0, two] = 1.0
        lows.append(_jackknifed(np.vstack([counts, disagreement]), metric, level).low)
    return replace(found, low=max(-1.0, min(lows)))


def _jackknifed(counts: Floats, metric: Metric, level: float) -> Estimated:
    n = len(counts)
    raters = counts.sum(axis=1)
    pairs = (counts[:, :, None] * counts[:, None, :] - np.eye(counts.shape[1]) * counts[:, :, None]) / (
        raters[:, None, None] - 1.0
    )
    whole = pairs.sum(axis=0)
    value = float(_alpha(whole[None], metric)[0])
    if n < FEWEST_ITEMS or math.isnan(value):
        return Estimated(value, math.nan, math.nan, n)
    left_out = _alpha(whole[None] - pairs, metric)
    if np.isnan(left_out).any():
        return Estimated(value, math.nan, math.nan, n)
    # The square root of 1 − α is closer to symmetric than α, which ends at 1.
    root, roots = math.sqrt(max(1.0 - value, 0.0)), np.sqrt(np.maximum(1.0 - left_out, 0.0))
    error = math.sqrt((n - 1) / n * float(((roots - roots.mean()) ** 2).sum()))
    reach = float(t_quantile(level, np.array([n - 1.0]))[0]) * error
    return Estimated(value, 1.0 - (root + reach) ** 2, 1.0 - max(root - reach, 0.0) ** 2, n)


def _counts(ratings: Ints) -> Floats:
    """How often each category was given to each item that at least two people rated."""
    table = np.asarray(ratings)
    if table.size == 0:
        return np.zeros((0, 1))
    counts = (table[:, :, None] == np.arange(max(int(table.max()), 0) + 1)).sum(axis=1).astype(np.float64)
    return np.asarray(counts[counts.sum(axis=1) >= 2])


def _alpha(coincidences: Floats, metric: Metric) -> Floats:
    """α of each of several tables of coincidences."""
    totals = coincidences.sum(axis=2)
    n = totals.sum(axis=1)
    if metric == "ordinal":
        below = np.cumsum(totals, axis=1) - totals / 2.0
        distance = (below[:, :, None] - below[:, None, :]) ** 2
    else:
        distance = np.broadcast_to(1.0 - np.eye(totals.shape[1]), coincidences.shape)
    observed = (coincidences * distance).sum(axis=(1, 2))
    expected = (totals[:, :, None] * totals[:, None, :] * distance).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(expected > 0.0, 1.0 - (n - 1.0) * observed / expected, np.nan))


def pair_kappa(first: Ints, second: Ints) -> tuple[float, int]:
    """Cohen's κ of two people on the items that both rated, and how many these are (Cohen 1960)."""
    both = (first >= 0) & (second >= 0)
    n = int(both.sum())
    if n == 0:
        return math.nan, 0
    one, two = first[both], second[both]
    categories = np.arange(int(max(one.max(), two.max())) + 1)
    by_chance = float(((one[:, None] == categories).mean(axis=0) * (two[:, None] == categories).mean(axis=0)).sum())
    agreed = float((one == two).mean())
    return ((agreed - by_chance) / (1.0 - by_chance) if by_chance < 1.0 else math.nan), n


def share_estimate(scores: Floats, *, level: float = 0.95) -> Estimated:
    """A mean of shares between 0 and 1, one an item, with an interval by item."""
    n = len(scores)
    if n == 0:
        return Estimated(math.nan, math.nan, math.nan, 0)
    one = mean_score(np.asarray(scores, dtype=np.float64), 1.0, lowest=0.0, highest=1.0)
    if not one.known:
        return Estimated(one.value, math.nan, math.nan, n)
    reach = float(t_quantile(level, np.array([one.degrees]))[0]) * one.error
    return Estimated(one.value, max(0.0, one.value - reach), min(1.0, one.value + reach), n)


class AgainstTheRest(msgspec.Struct, frozen=True):
    """How often one person says the same as the others on the same item, and how often those agree without them."""

    own: Estimated
    others: Estimated
    disagreed: tuple[int, ...]
    """The items on which nobody else said the same."""

    @property
    def stands_out(self) -> bool:
        """Whether this person agrees with the others clearly less than the others do with one another."""
        reach = math.hypot(self.own.high - self.own.value, self.others.value - self.others.low)
        return self.others.value - self.own.value > reach  # False where either is unknown


def against_the_rest(ratings: Ints, person: int) -> AgainstTheRest:
    """One person against all the others."""
    table = np.asarray(ratings)
    mine = table[:, person]
    rest = np.delete(table, person, axis=1)
    shared = (mine >= 0) & (rest >= 0).any(axis=1)
    same = ((rest == mine[:, None]) & (rest >= 0)).sum(axis=1)[shared] / (rest >= 0).sum(axis=1)[shared]
    alone = np.flatnonzero(shared)[same == 0.0]
    return AgainstTheRest(share_estimate(same), share_estimate(_agreed(rest)), tuple(alone.tolist()))


def _agreed(table: Ints) -> Floats:
    """Of each item that two people rated, the share of pairs of people who said the same."""
    pairs = list(itertools.combinations(range(table.shape[1]), 2))
    shape = (len(pairs), len(table))
    both = np.array([(table[:, i] >= 0) & (table[:, j] >= 0) for i, j in pairs], dtype=bool).reshape(shape)
    same = np.array([table[:, i] == table[:, j] for i, j in pairs], dtype=bool).reshape(shape) & both
    rated = both.any(axis=0)
    return np.asarray(same.sum(axis=0)[rated] / both.sum(axis=0)[rated])
