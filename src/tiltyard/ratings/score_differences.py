"""Differences of mean scores: a t interval by prompt, as if two more prompts had been asked, one going each way.

The two count only as far as differences are alike. Where no two are, it is the paired t interval; where all are (two
models that never differ in ten answers), the interval still has a width. For scores of 0 and 1 it is close to the
interval of Bonett and Price (2012, Journal of Educational and Behavioral Statistics 37:479) with Student's t. The
coverage is computed in `tests/ratings/test_score_differences.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiltyard.ratings.quantiles import t_below, t_quantile
from tiltyard.ratings.ranks import RankIntervals
from tiltyard.types import Floats, Ints

ANYTIME_RATE = 0.08
"""How the anytime cut's mixture grows with the number of prompts: it is sharpest between 50 and 500. Fixed before any
look."""

DIGITS = 9
"""Differences are alike if they are equal to so many digits of the range of scores."""

MOST_PROMPTS = 10_000_000
"""A plan that needs more prompts than this is none."""


@dataclass(frozen=True, slots=True)
class ScoreEstimate:
    """A mean score, or a difference of two, with its standard error.

    Parameters:
        value: The mean, or the difference.
        error: Its standard error.
        degrees: Degrees of freedom; 0 where there is no interval.
        size: How many equally large prompts or clusters it is worth.
        lowest: What it cannot be below, where scores have bounds.
        highest: What it cannot be above.
    """

    value: float
    error: float
    degrees: float
    size: float
    lowest: float = -math.inf
    highest: float = math.inf

    @property
    def points(self) -> float:
        """The difference, under the name that a difference of ratings has."""
        return self.value

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return self.degrees > 0.0

    def cut(self, level: float, *, anytime: bool = False) -> float:
        """Half the width of the interval in standard errors."""
        if not self.known:
            return math.inf
        if anytime:
            return anytime_cut(self.size, self.degrees, level)
        return float(t_quantile(level, np.array(self.degrees)))

    def ends(self, level: float, *, anytime: bool = False) -> tuple[float | None, float | None]:
        """The ends of the interval, within the bounds of scores; None where there is none."""
        half = self.cut(level, anytime=anytime) * self.error
        if not math.isfinite(half):
            return None, None
        return max(self.value - half, self.lowest), min(self.value + half, self.highest)

    def probability_above(self, least: float = 0.0) -> float | None:
        """How sure one can be that it is above a number: one minus the one-sided p-value."""
        return t_below((self.value - least) / self.error, self.degrees) if self.known else None


@dataclass(frozen=True, slots=True)
class Alike:
    """How alike some differences are: the share of pairs with the commonest one, and the size of an added one."""

    share: float
    square: float


def alike(differences: Floats, spread: float, mean_size: float = 1.0) -> Alike:
    """How far two more prompts count (τ), and how large the difference on each would be (m²)."""
    rounded = np.round(differences / spread, DIGITS)
    values, count = np.unique(rounded, return_counts=True)
    most = np.flatnonzero(count == count.max())
    common = most[np.argmin(np.abs(values[most]))]
    apart = differences[rounded != values[common]] - values[common] * spread
    square = (spread * spread / mean_size + float(apart @ apart)) / (1 + len(apart))
    return Alike((int(count[common]) - 1) / (len(differences) - 1), square)


def score_difference(
    differences: Floats, spread: float, *, sizes: Floats | None = None, range_of_scores: float = math.inf
) -> ScoreEstimate:
    """The mean of the differences of prompts, or of clusters of so many prompts (`sizes`).

    Parameters:
        differences: On each prompt, the mean of the new model's scores minus that of the old one's; or the mean of
            these over the prompts of each cluster.
        spread: The highest score that was seen minus the lowest; 0 gives no interval.
        sizes: How many prompts each cluster has.
        range_of_scores: The highest possible score minus the lowest, where scores have bounds.
    """
    estimate = _mean(differences, spread, sizes, added=2.0)
    return _within(estimate, -range_of_scores, range_of_scores)


def mean_score(
    scores: Floats,
    spread: float,
    *,
    sizes: Floats | None = None,
    lowest: float = -math.inf,
    highest: float = math.inf,
) -> ScoreEstimate:
    """The mean of the scores of prompts, or of clusters, by the same rule."""
    base = lowest if math.isfinite(lowest) else float(scores.min()) if len(scores) else 0.0
    one = _mean(scores - base, spread, sizes, added=2.0)
    return _within(ScoreEstimate(one.value + base, one.error, one.degrees, one.size), lowest, highest)


def unpaired_difference(
    new: Floats,
    old: Floats,
    spread: float,
    *,
    new_sizes: Floats | None = None,
    old_sizes: Floats | None = None,
    range_of_scores: float = math.inf,
) -> ScoreEstimate:
    """The difference of two means on different prompts: one more prompt on each side, and Welch's degrees."""
    sides = [_mean(new, spread, new_sizes, added=1.0), _mean(old, spread, old_sizes, added=1.0)]
    value, variances = sides[0].value - sides[1].value, [side.error**2 for side in sides]
    if not all(side.known for side in sides):
        return ScoreEstimate(value, math.nan, 0.0, 0.0)
    total = sum(variances)
    degrees = total**2 / sum(part**2 / side.degrees for part, side in zip(variances, sides, strict=True))
    size = 1.0 / sum(1.0 / side.size for side in sides)
    return _within(ScoreEstimate(value, math.sqrt(total), degrees, size), -range_of_scores, range_of_scores)


def _mean(values: Floats, spread: float, sizes: Floats | None, added: float) -> ScoreEstimate:
    count = len(values)
    if count == 0:
        return ScoreEstimate(math.nan, math.nan, 0.0, 0.0)
    weights = np.full(count, 1.0 / count) if sizes is None else np.asarray(sizes) / np.sum(sizes)
    value = float(weights @ values)
    if count < 2 or not spread > 0.0:
        return ScoreEstimate(value, math.nan, 0.0, float(count))
    moves = (count - 1) * weights * (values - value) / (1.0 - weights)
    common = alike(values, spread, 1.0 if sizes is None else float(np.mean(sizes)))
    total = count + added * common.share
    variance = (float(moves @ moves) + added * common.share * common.square) / (total * (total - 1.0))
    size = 1.0 / float(weights @ weights)
    if variance <= 0.0:  # all differ, and by nothing: only rounding can lead here
        return ScoreEstimate(value, math.nan, 0.0, size)
    return ScoreEstimate(value, math.sqrt(variance), size + added * common.share - 1.0, size)


def _within(one: ScoreEstimate, lowest: float, highest: float) -> ScoreEstimate:
    return ScoreEstimate(one.value, one.error, one.degrees, one.size, lowest, highest)


def anytime_cut(size: float, degrees: float, level: float) -> float:
    """How many standard errors hold however often one looks: a normal mixture, as a quantile of Student's t.

    The mixture is Robbins's (1970, Annals of Mathematical Statistics 41:1397).
    """
    from scipy.special import ndtr, stdtrit

    rate = ANYTIME_RATE * size
    normal = math.sqrt((1.0 + rate) / rate * (2.0 * math.log(1.0 / (1.0 - level)) + math.log1p(rate)))
    return -float(stdtrit(degrees, float(ndtr(-normal))))


def holm_ranks(estimates: dict[tuple[int, int], ScoreEstimate], models: int, level: float) -> RankIntervals:
    """The places that each model could hold, all at once: Holm's test (1979) of every pair.

    `estimates` are the differences of pairs (i, j), i < j: the score of i minus that of j.
    """
    pairs = [(pair, one) for pair, one in estimates.items() if one.known]
    p = [2.0 * t_below(-abs(one.value) / one.error, one.degrees) for _, one in pairs]
    below = np.zeros((models, models), dtype=np.bool_)
    total = models * (models - 1) // 2
    for step, at in enumerate(np.argsort(p, kind="stable").tolist()):
        if p[at] > (1.0 - level) / (total - step):
            break
        (i, j), one = pairs[at]
        below[(i, j) if one.value < 0 else (j, i)] = True
    return RankIntervals(1 + below.sum(axis=1), models - below.sum(axis=0), below)


@dataclass(frozen=True, slots=True)
class ScoreSpread:
    """How differences vary from prompt to prompt: what a plan needs.

    Parameters:
        variance: The variance of the differences.
        alike: How far two more prompts would count, and how large their differences would be.
    """

    variance: float
    alike: Alike

    @classmethod
    def of(cls, differences: Floats, spread: float, mean_size: float = 1.0) -> ScoreSpread:
        """The spread of differences that were seen."""
        return cls(float(np.var(differences, ddof=1)), alike(differences, spread, mean_size))

    @classmethod
    def of_shares(cls, difference: float, answered_differently: float) -> ScoreSpread:
        """The spread of scores of 0 and 1 of which the two models answer a share differently."""
        return cls(answered_differently - difference**2, Alike(1.0 - answered_differently, 1.0))

    def power(self, prompts: int, away: float, tail: float) -> float:
        """The chance that the interval with this much in a tail leaves out a value that the truth is away from."""
        from scipy.special import nctdtr, stdtrit

        added = 2.0 * self.alike.share
        total = prompts + added
        squares = (prompts - 1) * self.variance + added * self.alike.square
        error = math.sqrt(squares / (total * (total - 1.0)))
        if error == 0.0:
            return 1.0 if away > 0.0 else tail
        cut = -float(stdtrit(total - 1.0, tail))
        return 1.0 - float(nctdtr(total - 1.0, away / error, cut))

    def prompts(self, away: float, tail: float, power: float) -> int | None:
        """The fewest prompts with that chance; None where there is no such number."""
        if not away > 0.0:
            return None
        low, high = 1, 2
        while not self.power(high, away, tail) >= power:
            low, high = high, 2 * high
            if high > MOST_PROMPTS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.power(middle, away, tail) >= power else (middle, high)
        return high

    def smallest(self, prompts: int, tail: float, power: float) -> float:
        """The smallest difference that so many prompts show with that chance."""
        low, high = 0.0, 1.0
        while self.power(prompts, high, tail) < power:
            high *= 2.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.power(prompts, middle, tail) >= power else (middle, high)
        return high


@dataclass(frozen=True, slots=True)
class RepeatNoise:
    """Where the variance of differences comes from: from prompts that differ, and from answers that vary.

    Parameters:
        between: Variance of the true differences between prompts.
        within: Variance that comes from answers of one prompt that vary, at the repeats that there are.
        repeats: Mean number of answers of a model to a prompt.
    """

    between: float
    within: float
    repeats: float

    def best_repeats(self, prompt_costs_answers: float = 1.0) -> float | None:
        """How many repeats of each prompt are best for the money; None where prompts do not differ.

        `prompt_costs_answers` is what a new prompt costs, before anybody answers it, in answers.
        """
        if self.between <= 0.0:
            return None
        return math.sqrt(prompt_costs_answers * self.repeats * self.within / (2.0 * self.between))


def repeat_noise(
    differences: Floats, variances: tuple[Floats, Floats], repeats: tuple[Ints, Ints]
) -> RepeatNoise | None:
    """Prompts or repeats: from the variances of answers to each prompt by the new and by the old model.

    None with one repeat: answers to one prompt then show no variance. Prompts with one answer are left out.
    """
    both: NDArray[np.bool_] = (repeats[0] > 1) & (repeats[1] > 1)
    if both.sum() < 2:
        return None
    noise = float(np.mean(sum(s[both] / r[both] for s, r in zip(variances, repeats, strict=True))))
    between = max(0.0, float(np.var(differences[both], ddof=1)) - noise)
    return RepeatNoise(between, noise, float(np.mean([np.mean(one[both]) for one in repeats])))
