"""How large a sample a goal takes: the chance of reaching it, and the variance that assumptions lead to.

A difference δ̂ with standard error s is called when δ̂ is more than c·s away from what it is held against, c Student's t
with the degrees of freedom of the sample. The chance of that is a tail of the noncentral t, so few prompts are reckoned
with: they make c larger and s uncertain. Everything that a sample has grows together, so its variance falls as 1/size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import msgspec
import numpy as np

from tiltyard.analysis.boards import check_number, check_whole
from tiltyard.errors import OptionError
from tiltyard.options import GoalOptions
from tiltyard.stats import FEWEST_CLUSTERS, FIRST_LOOK, POINTS_PER_LOGIT, anytime_cuts, t_quantile
from tiltyard.types import Floats

MOST_MODELS = 1000
COUNTED = 240
"""Up to this many verdicts of two models, all results are counted out instead of taking the noncentral t."""
NODES = 24
"""Nodes of each Gauss–Hermite sum over prompts: exact to a thousandth up to a spread of 3 logits."""


@dataclass(frozen=True, kw_only=True)
class Goal(GoalOptions):
    """What a sample should show, and how surely.

    Parameters:
        power: The chance of the wanted verdict, if the difference is as assumed.
        alpha: The error rate: how often equal models may be called different.
        one_sided: Whether to look for `better` only.
        margin: The new model is to be not worse by more than this, in rating points; None: to be called better.
        anytime: Whether intervals hold however often one looks.
    """

    margin: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 0.5:
            raise OptionError(f"alpha is {self.alpha:g}: expected an error rate between 0 and 0.5, such as 0.05.")
        if not 0.5 <= self.power < 1.0:
            raise OptionError(f"power is {self.power:g}: expected a chance from 0.5 to below 1, such as 0.8.")
        if self.margin is not None:
            check_number("margin", self.margin, least=0.0, most=2000.0)
            if self.one_sided:
                raise OptionError("a margin is one-sided already: leave one_sided out.")

    @property
    def level(self) -> float:
        """The confidence level of the two-sided interval whose lower end decides."""
        return 1.0 - (2.0 * self.alpha if self.one_sided or self.margin is not None else self.alpha)

    def away(self, points: float) -> float:
        """How far a true difference lies above what it is held against, in logits."""
        away = points + (self.margin or 0.0)
        if away <= 0.0:
            against = "zero" if self.margin is None else f"minus the margin of {self.margin:g}"
            raise OptionError(f"difference is {points:g}: no sample shows that {points:g} points are above {against}.")
        return away / POINTS_PER_LOGIT

    def cuts(self, variances: Floats, degrees: float) -> Floats:
        """How many standard errors away an estimate must be; infinite where there is no interval."""
        if degrees < FEWEST_CLUSTERS - 1.0:
            return np.full(variances.shape, np.inf)
        if self.anytime:
            return anytime_cuts(variances, self.level, degrees=degrees)
        return np.full(variances.shape, float(t_quantile(self.level, np.array(degrees))))

    def chance(self, points: float, variance: float, degrees: float) -> float:
        """The chance that a sample shows it."""
        cut = float(self.cuts(np.array([variance]), degrees)[0])
        return chance_beyond(self.away(points) / math.sqrt(variance), cut, degrees)


def chance_beyond(away: float, cut: float, degrees: float) -> float:
    """The chance that Student's t, moved by `away`, exceeds `cut`."""
    from scipy.special import nctdtr, ndtr

    if math.isinf(cut):
        return 0.0
    if degrees > 1e6 or away > 30.0:
        return float(ndtr(away - cut))
    return 1.0 - float(nctdtr(degrees, away, cut))


def size_for(
    chance: Callable[[float], float], power: float, *, most: float = 1e15, tolerance: float = 1e-6
) -> float | None:
    """The smallest size at which a growing chance reaches the power; None where it does not up to `most`."""
    low, high = 0.0, 1.0
    while chance(high) < power:
        low, high = high, 2.0 * high
        if low > most:
            return None
    while high - low > tolerance * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if chance(middle) >= power else (middle, high)
    return high


class Growth(msgspec.Struct, frozen=True):
    """How a difference becomes better known as its sample grows.

    Parameters:
        variance: Its variance, in logits², at size 1 by the true difference in points.
        worth: How many independent clusters size 1 is worth.
        battles: How many battles size 1 has.
        clustered: Whether battles were counted as dependent.
        exact: The chance of reaching a goal by difference and whole size, where it can be counted out; None: nowhere.
    """

    variance: Callable[[float], float]
    worth: float
    battles: float
    clustered: bool = True
    exact: Callable[[Goal, float, int], float] | None = None

    def chance(self, goal: Goal, points: float, size: float) -> float:
        """The chance of reaching a goal."""
        if goal.anytime and size * self.battles < FIRST_LOOK:
            return 0.0
        if self.exact is not None and size == round(size) <= COUNTED:
            return self.exact(goal, points, round(size))
        degrees = self.worth * size - 1.0
        if goal.anytime and not self.clustered:
            degrees = math.inf
        return goal.chance(points, self.variance(points) / size, degrees)

    def size(self, goal: Goal, points: float) -> float:
        """The size that reaches a goal."""
        result = size_for(lambda size: self.chance(goal, points, size), goal.power)
        if result is None:
            raise OptionError(f"difference is {points:g}: no sample that could be gathered shows so little.")
        if self.exact is None:
            return result
        size = math.ceil(result)
        if size > COUNTED // 2:
            return size
        # Counted out, the chance goes up and down with the size: the first one from which on it is reached.
        chances = np.array([self.chance(goal, points, float(n)) for n in range(1, max(2 * size, 10))])
        short = np.flatnonzero(chances < goal.power)
        return float(short[-1] + 2 if len(short) else 1)

    def smallest(self, goal: Goal, size: float) -> float | None:
        """The smallest difference in rating points that a sample of this size shows; None where none up to 2000 is."""
        least = 1e-6 - (goal.margin or 0.0)
        result = size_for(lambda above: self.chance(goal, least + above, size), goal.power, most=1000.0)
        return None if result is None else least + result


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is assumed of battles that have not been fought.

    Parameters:
        ties: Share of battles that are ties between equal models.
        flips: Share of judgments whose two orders disagree, so that they become ties; 0 for people.
        spread: How much a model's strength varies from prompt to prompt (or from voter to voter): the standard
            deviation in logits. It matters where a prompt has several verdicts.
        repeats: Verdicts of a pair on each prompt (or votes of each voter on it), both orders counting as one.
        models: How many models all meet each other on each prompt.
    """

    ties: float = 0.15
    flips: float = 0.15
    spread: float = 1.0
    repeats: int = 1
    models: int = 2

    def __post_init__(self) -> None:
        check_number("ties", self.ties, least=0.0, most=0.99)
        check_number("flips", self.flips, least=0.0, most=0.99)
        if self.ties + self.flips > 0.99:
            raise OptionError(
                f"ties {self.ties:g} and flips {self.flips:g} leave nothing decided: both are shares of all battles."
            )
        check_number("spread", self.spread, least=0.0, most=3.0)
        check_whole("repeats", self.repeats, least=1, most=100_000)
        check_whole("models", self.models, least=2, most=MOST_MODELS)

    @property
    def battles_per_prompt(self) -> int:
        """Battles on each prompt: all pairs, as often as they are repeated."""
        return self.repeats * self.models * (self.models - 1) // 2

    def variance(self, points: float) -> float:
        """Variance of the difference of two models, in logits², that one prompt leaves.

        The two stand that many points apart on the board, the other models in the middle between them. A verdict scores
        s = (won − lost − expected)/2. In the direction that moves the two apart a prompt's score is
        Q = 2 s(new, old) + Σ s(new, k) + s(k, old), and the variance of the difference 4 E[Q²]/I², I the information.
        """
        return _variance(self, float(points))

    def win_rate(self, points: float) -> float:
        """What the model that is so many points ahead gets on average: 1 for a win, a half for a tie."""
        gap = points / POINTS_PER_LOGIT
        return 0.5 + 0.5 * float(_share(gap, _population(self, gap)[1])[0])

    def growth(self) -> Growth:
        """How the difference becomes better known with the number of prompts."""
        alone = self.battles_per_prompt == 1
        return Growth(self.variance, 1.0, self.battles_per_prompt, exact=self.exact_chance if alone else None)

    def exact_chance(self, goal: Goal, points: float, prompts: int) -> float:
        """The chance of reaching a goal where two models meet once on each prompt, summed over all results.

        With W won and L lost of n the difference is ln(W/L), its variance n/(n − 1)·(1/W + 1/L). A model that lost (or
        won) nothing has half a loss (or win) for that.
        """
        from scipy.special import gammaln, xlogy

        shift = goal.away(points) - points / POINTS_PER_LOGIT
        if prompts < 3:
            return 0.0
        odds, nu = points / POINTS_PER_LOGIT, _population(self, points / POINTS_PER_LOGIT)[1]
        net, decided = _share(odds, nu)
        won, lost = np.divmod(np.arange((prompts + 1) ** 2), prompts + 1)
        inside = won + lost <= prompts
        won, lost = won[inside], lost[inside]
        tied = prompts - won - lost
        logs = gammaln(prompts + 1) - gammaln(won + 1) - gammaln(lost + 1) - gammaln(tied + 1)
        logs += xlogy(won, 0.5 * (decided + net)) + xlogy(lost, 0.5 * (decided - net)) + xlogy(tied, 1.0 - decided)
        wins, losses = np.maximum(won, 0.5), np.maximum(lost, 0.5)
        variances = prompts / (prompts - 1.0) * (1.0 / wins + 1.0 / losses)
        reached = np.log(wins / losses) + shift > goal.cuts(variances, prompts - 1.0) * np.sqrt(variances)
        return float(np.exp(logs[reached & (won + lost > 0)]).sum())


@cache
def _variance(assumed: Assumptions, points: float) -> float:
    others, gap = assumed.models - 2, points / POINTS_PER_LOGIT
    (nodes, weight), own = _hermite(), _own_ties(assumed)
    true_gap, fitted = _population(assumed, gap)
    new, old = assumed.spread * nodes[:, None, None], assumed.spread * nodes[None, :, None]
    mass = weight[:, None] * weight[None, :]
    expected, half = _share(gap, fitted), _share(0.5 * gap, fitted)
    net, decided = _chances(true_gap + new - old, own, assumed.flips)
    score = (net - expected[0])[:, :, 0]
    spent = 4.0 * float((mass * (decided - net**2)[:, :, 0]).sum())
    information = 4.0 * (expected[1] - expected[0] ** 2)
    varied = 0.0
    if others:
        third = assumed.spread * nodes[None, None, :]
        to_new, by_new = _chances(0.5 * true_gap + new - third, own, assumed.flips)
        to_old, by_old = _chances(0.5 * true_gap + third - old, own, assumed.flips)
        both = to_new + to_old - 2.0 * half[0]
        mean = both @ weight
        varied = others * float((mass * ((both - mean[:, :, None]) ** 2 @ weight)).sum())
        score = score + 0.5 * others * mean
        spent += others * float((mass * ((by_new - to_new**2 + by_old - to_old**2) @ weight)).sum())
        information += 2.0 * others * (half[1] - half[0] ** 2)
    between = 4.0 * float((mass * score**2).sum()) + varied
    # Scores and information lack the same factors 1/2 and 1/4: Q = score/2, I = information/4.
    return 4.0 * 4.0 * (between + spent / assumed.repeats) / information**2


@cache
def _hermite() -> tuple[Floats, Floats]:
    """The nodes, and the weights of prompts."""
    node, weight = np.polynomial.hermite_e.hermegauss(NODES)
    return np.asarray(node), np.asarray(weight / weight.sum())


def _own_ties(assumed: Assumptions) -> float:
    """Davidson's ν on each prompt that makes as many ties between equals as assumed."""
    (nodes, weight), wanted = _hermite(), assumed.ties / (1.0 - assumed.flips)
    if wanted == 0.0:
        return 0.0
    spread = 2.0 * np.cosh(0.5 * math.sqrt(2.0) * assumed.spread * nodes)
    return _root(lambda nu: float(weight @ (nu / (spread + nu))) - wanted, 1e-9, 1e9)


@cache
def _population(assumed: Assumptions, gap: float) -> tuple[float, float]:
    """How far apart the two are on a prompt of the middle kind, and the ν of a fit that finds them `gap` apart."""
    others, own, (nodes, weight) = assumed.models - 2, _own_ties(assumed), _hermite()
    between = math.sqrt(2.0) * assumed.spread * nodes
    pairs = ((1.0, 1.0), (2.0 * others, 0.5), (0.5 * others * (others - 1), 0.0))

    def seen(true_gap: float) -> list[tuple[float, float, float, float]]:
        rows = []
        for count, part in pairs:
            net, decided = _chances(part * true_gap + between, own, assumed.flips)
            rows.append((count, part, float(weight @ net), 1.0 - float(weight @ decided)))
        return rows

    def fitted(rows: list[tuple[float, float, float, float]]) -> float:
        if assumed.ties + assumed.flips == 0.0:
            return 0.0
        return _root(
            lambda nu: sum(n * (1.0 - _share(part * gap, nu)[1] - tied) for n, part, _, tied in rows), 1e-9, 1e9
        )

    def excess(true_gap: float) -> float:
        rows = seen(true_gap)
        nu = fitted(rows)
        return sum(n * part * (net - _share(part * gap, nu)[0]) for n, part, net, _ in rows)

    true_gap = 0.0
    if gap != 0.0:
        result = _root(lambda size: excess(math.copysign(size, gap)) * math.copysign(1.0, gap), 1e-9, 100.0)
        true_gap = math.copysign(result, gap)
    return true_gap, fitted(seen(true_gap))


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function is zero, by halving ratios."""
    while high > (1.0 + 1e-10) * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if rising(middle) >= 0.0 else (middle, high)
    return math.sqrt(low * high)


def _chances(gap: Floats, nu: float, flips: float) -> tuple[Floats, Floats]:
    """Won minus lost, and decided, as shares by the gap on a prompt: Davidson's chances, flips apart."""
    cosh, sinh = 2.0 * np.cosh(0.5 * gap), 2.0 * np.sinh(0.5 * gap)
    return (1.0 - flips) * sinh / (cosh + nu), (1.0 - flips) * cosh / (cosh + nu)


def _share(gap: float, nu: float) -> tuple[float, float]:
    """The same as a fit expects them."""
    cosh, sinh = 2.0 * math.cosh(0.5 * gap), 2.0 * math.sinh(0.5 * gap)
    return sinh / (cosh + nu), cosh / (cosh + nu)
