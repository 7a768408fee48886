"""Scores by a judge: corrected by people's scores on some prompts, and set against verdicts on pairs.

The correction is that of Angelopoulos, Duchi and Zrnic (2023, arXiv:2311.01453), on differences by prompt. Coverage is
computed in `tests/stats/test_judged_scores.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from tiltyard.stats.score_differences import Alike, ScoreEstimate, alike, score_difference
from tiltyard.types import Floats, Ints

FEWEST_LABELLED = 20
"""Prompts with people's scores that a correction needs: below, coverage was not computed."""
RESAMPLES = 1000


class CorrectedDifference(msgspec.Struct, frozen=True):
    """A difference of mean scores on people's scale.

    Parameters:
        estimate: The difference, with its standard error.
        weight: How much the judge's scores count (λ): 0 not at all, 1 as much as people's.
        labelled: Prompts with people's scores.
        unlabelled: Prompts with the judge's only.
    """

    estimate: ScoreEstimate
    weight: float
    labelled: int
    unlabelled: int


def corrected_difference(
    people: Floats, judge: Floats, judge_only: Floats, spread: float, *, range_of_scores: float = math.inf
) -> CorrectedDifference:
    """The difference of two models as people would score it, from their scores on some prompts and the judge's on all.

    d = mean(a − λb) over labelled prompts + λ·mean(b) over the others, with a and b people's and the judge's difference
    on a prompt; λ = Cov(a, b)/Var(b)/(1 + n/N), between 0 and 1. It is right whatever the judge does, if the labelled
    prompts are a random draw: a judge that says nothing gets λ near 0, and people's scores stand alone. The mean of
    the others, and not of all prompts, keeps the two parts independent: with all, the interval held only 90 % at n of
    100 and N of 150.

    λ comes from the labels that it weighs. Where the judge's differences are a curve of people's, d is therefore a
    little off, and varies more than with a λ that was known before. The jackknife over labelled prompts, λ anew each
    time, takes the first off d, and its error holds the second; the error is never below that of a known λ.

    Parameters:
        people: People's difference on each labelled prompt.
        judge: The judge's difference on the same prompts.
        judge_only: The judge's difference on every other prompt.
        spread: The highest score seen minus the lowest.
        range_of_scores: The highest possible score minus the lowest.
    """
    n, others = len(people), len(judge_only)
    everything = np.concatenate([judge, judge_only])
    weight = 0.0
    if n > 1 and others and np.ptp(judge) > 0.0:
        slope = float(np.cov(people, judge)[0, 1] / np.var(judge, ddof=1))
        weight = min(max(slope / (1.0 + n / others), 0.0), 1.0)
    rest = score_difference(people - weight * judge, spread)
    if not weight or not rest.known:
        return CorrectedDifference(score_difference(people, spread, range_of_scores=range_of_scores), 0.0, n, others)
    value, without = rest.value + weight * float(judge_only.mean()), _without_each(people, judge, judge_only)
    squared_error = max(rest.error**2, (n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    estimate = ScoreEstimate(
        n * value - (n - 1) * float(without.mean()),
        math.sqrt(squared_error + weight**2 * float(np.var(everything, ddof=1)) / others),
        rest.degrees,
        rest.size,
        -range_of_scores,
        range_of_scores,
    )
    return CorrectedDifference(estimate, weight, n, others)


def _without_each(people: Floats, judge: Floats, judge_only: Floats) -> Floats:
    """The corrected difference without each labelled prompt in turn, with the slope of the rest in λ."""
    n, a, b = len(people), people - people.mean(), judge - judge.mean()
    rest = n / (n - 1)
    squares = float(b @ b) - rest * b**2
    varied = squares > ROUNDING * float(b @ b)  # leaving out the one prompt that varies leaves nothing to weigh
    slopes = np.divide(float(a @ b) - rest * a * b, squares, out=np.zeros(n), where=varied)
    weights = np.clip(slopes / (1.0 + n / len(judge_only)), 0.0, 1.0)
    return np.asarray(people.mean() - a / (n - 1) + weights * (judge_only.mean() - judge.mean() + b / (n - 1)))


ROUNDING = 1e-9
"""Squared differences below this part of all are rounding."""


class Separation(msgspec.Struct, frozen=True):
    """How far scores and verdicts on pairs tell models apart for the same money.

    Parameters:
        ratio: What pairs cost, divided by what scores cost, for the same certainty: above 1, scores are cheaper. None
            where neither tells models apart.
        low: The lower end of its 95 % interval, by prompt.
        high: The upper end.
    """

    ratio: float | None
    low: float | None
    high: float | None


Judged = tuple[Sequence[Floats], float, float]
"""One way to judge: for each pair of models the difference on each prompt, the spread of scores, and what it cost."""


def separation(scores: Judged, pairs: Judged, rng: np.random.Generator) -> Separation:
    """Which of two ways to judge the same prompts separates models at lower cost.

    A way's worth is Σ mean²/variance of its differences by prompt over all pairs of models, less what chance gives: the
    number of prompts to a given certainty is inversely proportional to it. Variances are those of `score_difference`.

    Parameters:
        scores: The differences of scores.
        pairs: For the same pairs and prompts, what the verdicts gave the first model, minus a half; the spread is 1.
        rng: Draws the resamples of prompts.
    """
    ways = [_Way.of(*scores), _Way.of(*pairs)]
    prompts = ways[0].differences.shape[1] if ways[0].differences.ndim == 2 else 0
    unknown = Separation(None, None, None)
    if prompts < FEWEST_LABELLED or not all(way.cost > 0.0 for way in ways):
        return unknown
    every = np.arange(prompts)
    one, other = (way.worth(every, 1.0) / way.cost for way in ways)
    if not (one > 0.0 and other > 0.0):
        return unknown
    ratios = []
    for _ in range(RESAMPLES):
        drawn = rng.integers(prompts, size=prompts)
        first, second = (max(way.worth(drawn, 2.0), SMALLEST) / way.cost for way in ways)
        ratios.append(first / second)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return Separation(one / other, float(low), float(high))


SMALLEST = 1e-6
"""The least a way can be worth in a resample."""


class _Way(msgspec.Struct, frozen=True, eq=False):
    differences: Floats
    shares: Floats
    squares: Floats
    cost: float

    @classmethod
    def of(cls, differences: Sequence[Floats], spread: float, cost: float) -> _Way:
        kinds = [alike(one, spread) if len(one) > 1 and spread > 0.0 else Alike(0.0, 0.0) for one in differences]
        shares, squares = (np.array([getattr(one, name) for one in kinds]) for name in ("share", "square"))
        return cls(np.array(differences), shares, squares, cost)

    def worth(self, drawn: Ints, chance: float) -> float:
        """Σ mean²/variance over the pairs, less what it is where nothing differs: 1/n, and 2/n in a resample."""
        values = self.differences[:, drawn]
        n, means = values.shape[1], values.mean(axis=1)
        squares = ((values - means[:, None]) ** 2).sum(axis=1) + 2.0 * self.shares * self.squares
        variances = squares / (n + 2.0 * self.shares - 1.0)
        varied = variances > 0.0
        return max(0.0, float(np.sum(means[varied] ** 2 / variances[varied] - chance / n)))
