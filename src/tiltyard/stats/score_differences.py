"""Differences of mean scores: a t interval by prompt, as if two more prompts had been asked, one going each way.

The two count only as far as differences are alike. Where no two are, it is the paired t interval; where all are (two
models that never differ in ten answers), the interval still has a width. For scores of 0 and 1 it is close to the
interval of Bonett and Price (2012, Journal of Educational and Behavioral Statistics 37:479) with Student's t. The
coverage is computed in `tests/stats/test_score_differences.py`.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tiltyard.stats.quantiles import t_below, t_quantile
from tiltyard.stats.ranks import RankIntervals, chance_at_any_time
from tiltyard.types import AnyInts, Floats, Ints

FEWEST = 10
"""Scores of fewer prompts decide nothing: equal models were called different in up to 25 % of cases."""
FEWEST_UNBOUNDED = 30
"""The same for scores without bounds, whose rare large values fewer prompts may not have met."""
MOST_SKEWED, MOST_SKEWED_ANYTIME = 1 / 6, 1 / 7
"""How skewed a mean of unbounded scores may be for a claim that its tail eases: skewness of differences / √n."""
Doubt = Literal["few", "few unbounded", "skewed"]
"""Why an interval is not to be believed: too few prompts, too few without bounds, or a tail that eases the claim."""

ANYTIME_RATE = 0.08
"""How the anytime cut's mixture grows with the number of prompts: it is sharpest between 50 and 500. Fixed before any
look."""

DIGITS = 9
"""Differences are alike if they are equal to so many digits of the range of scores."""

MOST_PROMPTS = 10_000_000
"""A plan that needs more prompts than this is none."""


class ScoreEstimate(msgspec.Struct, frozen=True):
    """A mean score, or a difference of two, with its standard error.

    Parameters:
        value: The mean, or the difference.
        error: Its standard error.
        degrees: Degrees of freedom; 0 where there is no interval.
        size: How many equally large prompts or clusters it is worth.
        lowest: What it cannot be below, where scores have bounds.
        highest: What it cannot be above.
        scale: The highest score that there can be minus the lowest; infinite where scores have no bounds.
        skewness: How skewed the mean is, as far as its data show: that of single differences divided by √n.
        smaller: Of two samples, the answers of the smaller one; else infinite.
    """

    value: float
    error: float
    degrees: float
    size: float
    lowest: float = -math.inf
    highest: float = math.inf
    scale: float = math.inf
    skewness: float = 0.0
    smaller: float = math.inf

    @property
    def points(self) -> float:
        """The difference, under the name that a difference of ratings has."""
        return self.value

    @property
    def known(self) -> bool:
        return self.degrees > 0.0

    @property
    def units(self) -> float:
        """How many equally large prompts or clusters there are, or answers of the smaller of two samples."""
        return self.size if math.isinf(self.smaller) else self.smaller

    @property
    def bounded(self) -> bool:
        """Whether scores have bounds, known or seen."""
        return math.isfinite(self.scale)

    @property
    def fewest(self) -> int:
        """The fewest prompts or clusters on which anything is decided."""
        return FEWEST if self.bounded else FEWEST_UNBOUNDED

    def doubt(self, *, above: bool | None = None, anytime: bool = False) -> Doubt | None:
        """Why it may not be claimed that the difference lies above (or below) a number; None where it may.

        Without `above`, what stands against any claim. A tail of rare large differences that were not seen yet makes a
        mean too far from the tail, and its error too small.
        """
        if self.units < self.fewest:
            return "few" if self.units < FEWEST else "few unbounded"
        if above is None or self.bounded:
            return None
        tail = -self.skewness if above else self.skewness
        return "skewed" if tail > (MOST_SKEWED_ANYTIME if anytime else MOST_SKEWED) else None

    def cut(self, level: float, *, anytime: bool = False) -> float:
        """Half the width of the interval in standard errors."""
        if not self.known or (anytime and self.doubt() is not None):
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

    def error_at(self, least: float) -> float:
        """The standard error for a claim that the difference lies above (or below) a number.

        Scores of 0 and 1 whose true difference is m vary at least as m(1 − m), however alike those look that were seen.
        """
        return max(self.error, least_deviation(least, self.scale) / math.sqrt(self.units))

    def bound(self, least: float, level: float, *, anytime: bool = False) -> float | None:
        """The lower end of the interval, for a claim that the difference lies above a number; None: there is none."""
        half = self.cut(level, anytime=anytime) * self.error_at(least)
        return max(self.value - half, self.lowest) if math.isfinite(half) else None

    def probability_above(self, least: float = 0.0, *, anytime: bool = False) -> float | None:
        """How sure one can be that it is above a number: one minus the one-sided p-value, at one look or at any."""
        if not self.known or (anytime and self.doubt() is not None):
            return None
        errors = (self.value - least) / self.error_at(least)
        if anytime:
            return chance_at_any_time(errors, ANYTIME_RATE * self.size, self.degrees)
        return t_below(errors, self.degrees)


def least_deviation(mean: float, scale: float) -> float:
    """How much differences of scores vary at least whose true mean is this, where scores of a scale are at its ends."""
    part = min(abs(mean) / scale, 1.0) if 0.0 < scale < math.inf else 0.0
    return scale * math.sqrt(part * (1.0 - part)) if part else 0.0


class Alike(msgspec.Struct, frozen=True):
    """How alike some differences are: the share of pairs with the commonest one, and the size of an added one."""

    share: float
    square: float


def alike(differences: Floats, spread: float, mean_size: float = 1.0) -> Alike:
    """How far two more prompts count (τ), and how large the difference on each would be (m²).

    Where x and −x are equally common, and nothing nearer to 0 is, m² is the mean of what either gives: which of the two
    models is the new one makes no difference.
    """
    rounded = np.round(differences / spread, DIGITS)
    values, count = np.unique(rounded, return_counts=True)
    most = values[count == count.max()]
    squares = []
    for common in most[np.abs(most) == np.abs(most).min()].tolist():
        apart = differences[rounded != common] - common * spread
        squares.append((spread * spread / mean_size + exact_sum(apart * apart)) / (1 + len(apart)))
    return Alike((int(count.max()) - 1) / (len(differences) - 1), sum(squares) / len(squares))


def exact_sum(values: Floats) -> float:
    """The sum, rounded once: the same in every order."""
    return math.fsum(values.tolist())


def exact_variance(values: Floats) -> float:
    """The variance of a sample, the same in every order."""
    return exact_sum(np.square(values - exact_sum(values) / len(values))) / (len(values) - 1)


def cluster_means(values: Floats, codes: AnyInts) -> tuple[Floats, Floats]:
    """The mean of the values of each cluster, the same in every order, and how many values it has."""
    order = np.argsort(codes, kind="stable")
    _, start = np.unique(codes[order], return_index=True)
    sizes = np.diff(start, append=len(codes)).astype(float)
    return np.array([exact_sum(some) for some in np.split(values[order], start[1:])]) / sizes, sizes


def score_difference(
    differences: Floats,
    spread: float,
    *,
    sizes: Floats | None = None,
    range_of_scores: float = math.inf,
    bounded: bool = False,
) -> ScoreEstimate:
    """The mean of the differences of prompts, or of clusters of so many prompts (`sizes`).

    Parameters:
        differences: On each prompt, the mean of the new model's scores minus that of the old one's; or the mean of
            these over the prompts of each cluster.
        spread: The highest score that was seen minus the lowest; 0 gives no interval.
        sizes: How many prompts each cluster has.
        range_of_scores: The highest possible score minus the lowest, where scores have bounds.
        bounded: Whether scores have bounds though nobody stated them: then they are those that were seen.
    """
    return _within(_mean(differences, spread, sizes, added=2.0), range_of_scores, spread, bounded=bounded)


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
    return replace(one, value=one.value + base, lowest=lowest, highest=highest, scale=highest - lowest)


def unpaired_difference(
    new: Floats,
    old: Floats,
    spread: float,
    *,
    range_of_scores: float = math.inf,
    bounded: bool = False,
) -> ScoreEstimate:
    """The difference of two means on different prompts: one more prompt on each side, and Welch's degrees."""
    sides = [_mean(new, spread, None, added=1.0), _mean(old, spread, None, added=1.0)]
    value, variances = sides[0].value - sides[1].value, [side.error**2 for side in sides]
    if not all(side.known for side in sides):
        return ScoreEstimate(value, math.nan, 0.0, 0.0, smaller=float(min(len(new), len(old))))
    total = sum(variances)
    degrees = total**2 / sum(part**2 / side.degrees for part, side in zip(variances, sides, strict=True))
    thirds = [side.skewness * side.error**3 for side in sides]
    one = ScoreEstimate(
        value,
        math.sqrt(total),
        degrees,
        1.0 / sum(1.0 / side.size for side in sides),
        skewness=(thirds[0] - thirds[1]) / total**1.5,
        smaller=min(side.size for side in sides),
    )
    return _within(one, range_of_scores, spread, bounded=bounded)


def _mean(values: Floats, spread: float, sizes: Floats | None, added: float) -> ScoreEstimate:
    count = len(values)
    if count == 0:
        return ScoreEstimate(math.nan, math.nan, 0.0, 0.0)
    weights = np.full(count, 1.0 / count) if sizes is None else np.asarray(sizes) / np.sum(sizes)
    value = exact_sum(values) / count if sizes is None else exact_sum(weights * values)
    if count < 2 or not spread > 0.0:
        return ScoreEstimate(value, math.nan, 0.0, float(count))
    away = weights * (values - value)
    moves = (count - 1) * away / (1.0 - weights)
    common = alike(values, spread, 1.0 if sizes is None else float(np.mean(sizes)))
    total = count + added * common.share
    variance = (exact_sum(moves * moves) + added * common.share * common.square) / (total * (total - 1.0))
    size = float(count) if sizes is None else float(np.sum(sizes)) ** 2 / exact_sum(np.square(sizes))
    if variance <= 0.0:  # all differ, and by nothing: only rounding can lead here
        return ScoreEstimate(value, math.nan, 0.0, size)
    squares = exact_sum(away * away)
    skewness = exact_sum(away * away * away) / squares**1.5 if squares > 0.0 else 0.0
    return ScoreEstimate(value, math.sqrt(variance), size + added * common.share - 1.0, size, skewness=skewness)


def _within(one: ScoreEstimate, reach: float, spread: float, *, bounded: bool) -> ScoreEstimate:
    scale = spread if bounded and math.isinf(reach) else reach
    return replace(one, lowest=-reach, highest=reach, scale=scale)


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


class ScoreSpread(msgspec.Struct, frozen=True):
    """How differences vary from prompt to prompt: what a plan needs.

    Parameters:
        variance: The variance of the differences.
        alike: How far two more prompts would count, and how large their differences would be.
    """

    variance: float
    alike: Alike

    @classmethod
    def of(cls, differences: Floats, spread: float, mean_size: float = 1.0) -> ScoreSpread:
        return cls(exact_variance(differences), alike(differences, spread, mean_size))

    @classmethod
    def of_shares(cls, difference: float, answered_differently: float) -> ScoreSpread:
        """The spread of scores of 0 and 1 of which the two models answer a share differently."""
        return cls(answered_differently - difference**2, Alike(1.0 - answered_differently, 1.0))

    def power(self, prompts: int, away: float, tail: float, least: float = 0.0) -> float:
        """The chance that the interval with this much in a tail leaves out a value that the truth is away from.

        `least` is the standard deviation of single differences that the interval assumes at least (`least_deviation`).
        """
        from scipy.special import nctdtr, stdtrit

        added = 2.0 * self.alike.share
        total = prompts + added
        squares = (prompts - 1) * self.variance + added * self.alike.square
        error = math.sqrt(squares / (total * (total - 1.0)))
        if error == 0.0:
            return 1.0 if away > 0.0 else tail
        cut = -float(stdtrit(total - 1.0, tail)) * max(1.0, least / math.sqrt(prompts) / error)
        return 1.0 - float(nctdtr(total - 1.0, away / error, cut))

    def prompts(self, away: float, tail: float, power: float, least: float = 0.0) -> int | None:
        """The fewest prompts with that chance; None where there is no such number."""
        if not away > 0.0:
            return None
        low, high = 1, 2
        while not self.power(high, away, tail, least) >= power:
            low, high = high, 2 * high
            if high > MOST_PROMPTS:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.power(middle, away, tail, least) >= power else (middle, high)
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


class RepeatNoise(msgspec.Struct, frozen=True):
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
    noise = exact_sum(variances[0][both] / repeats[0][both] + variances[1][both] / repeats[1][both]) / int(both.sum())
    between = max(0.0, exact_variance(differences[both]) - noise)
    return RepeatNoise(between, noise, float(np.mean([np.mean(one[both]) for one in repeats])))
