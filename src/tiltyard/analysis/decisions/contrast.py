"""How far one strength lies above another, and how well that is known: what every decision rests on.

A `Contrast` is in logits. Its interval is the one that a board anchored at the second model prints; the probability
that it is positive is one minus the one-sided p-value of the same t, so the two never disagree.

Whoever is shown first wins a little more often. Where one of the two was shown first more often than the other, a part
of the difference is the side's. Two numbers decide what to do about it. The *lean* is how many logits the difference
moves for every logit that the first side is worth: 0 where sides are balanced, 1 where the new one always sat first in
battles between the two. Where it is large against the standard error, the side's advantage is fitted with the
difference. That takes battles that tell the two apart, the model and its side: how many the difference then rests on is
(Σv)²/Σv² over what each battle adds to its variance. With too few there is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.analysis.boards import BradleyTerry, Solved, first_share, known_models, with_sides
from tiltyard.data.battles import BattleTable
from tiltyard.errors import NotConnected, OptionError, RatingError
from tiltyard.stats import (
    ANYTIME_SPREAD,
    FIRST_LOOK,
    OWN_CLUSTER,
    POINTS_PER_LOGIT,
    Reach,
    ScoreEstimate,
    anytime_half_width,
    chance_at_any_time,
    normal_quantile,
    response,
    sum_by,
    t_below,
    t_quantile,
)
from tiltyard.types import Floats


class Contrast(msgspec.Struct, frozen=True):
    """A difference of two strengths in logits.

    Parameters:
        value: The difference.
        variance: Its variance over prompts and voters, or over single battles.
        own_variance: Its variance by the model alone, where one of the two has few battles or clusters; else 0.
        degrees: Degrees of freedom of `variance`; 0 where there are too few clusters for an interval.
        clustered: Whether battles were counted as dependent.
        battles: Battles of the model that has fewer.
        no_low: Whether nothing in the battles bounds the difference from below.
        no_high: Whether nothing in the battles bounds it from above.
    """

    value: float
    variance: float
    own_variance: float
    degrees: float
    clustered: bool
    battles: float
    no_low: bool = False
    no_high: bool = False

    @property
    def points(self) -> float:
        """The difference in rating points."""
        return POINTS_PER_LOGIT * self.value

    @property
    def known(self) -> bool:
        """Whether there are enough clusters for an interval."""
        return self.degrees > 0.0

    @property
    def error(self) -> float:
        """The standard error in rating points, the larger of the two."""
        return POINTS_PER_LOGIT * math.sqrt(max(self.variance, self.own_variance))

    def half_width(self, level: float, *, anytime: bool = False) -> float:
        """Half the width of the interval in logits; infinite where there is none."""
        if not self.known:
            return math.inf
        if anytime:
            if self.battles < FIRST_LOOK:
                return math.inf
            degrees = self.degrees if self.clustered else math.inf
            return anytime_half_width(max(self.variance, self.own_variance), level, degrees)
        student = float(t_quantile(level, np.array(self.degrees))) * math.sqrt(self.variance)
        return max(student, normal_quantile(level) * math.sqrt(self.own_variance))

    def cut(self, level: float) -> float:
        """Half the width of the interval in standard errors."""
        return POINTS_PER_LOGIT * self.half_width(level) / self.error

    def ends(self, level: float, *, anytime: bool = False) -> tuple[float | None, float | None]:
        """The ends of the interval in rating points; None where nothing bounds it."""
        half = self.half_width(level, anytime=anytime)
        if math.isinf(half):
            return None, None
        low, high = POINTS_PER_LOGIT * (self.value - half), POINTS_PER_LOGIT * (self.value + half)
        return None if self.no_low else low, None if self.no_high else high

    def bound(self, least: float, level: float, *, anytime: bool = False) -> float | None:  # noqa: ARG002
        """The lower end of the interval, for a claim that the difference lies above a number of points."""
        return self.ends(level, anytime=anytime)[0]

    def error_at(self, least: float) -> float:  # noqa: ARG002
        """The standard error for such a claim: the same for every number."""
        return self.error

    def doubt(self, *, above: bool | None = None, anytime: bool = False) -> None:  # noqa: ARG002
        """Why an interval is not to be believed, as a difference of scores has it: what stands here are obstacles."""
        return

    def probability_above(self, points: float = 0.0, *, anytime: bool = False) -> float | None:
        """How sure one can be that the difference is above a number of points, at one look or at any.

        At one look it is one minus the one-sided p-value.
        """
        if not self.known:
            return None
        above = self.value - points / POINTS_PER_LOGIT
        if anytime:
            variance = max(self.variance, self.own_variance)
            if self.battles < FIRST_LOOK or variance <= 0.0:
                return None
            degrees = self.degrees if self.clustered else math.inf
            return chance_at_any_time(above / math.sqrt(variance), ANYTIME_SPREAD**2 / variance, degrees)
        chances = []
        if self.variance > 0.0:
            chances.append(t_below(above / math.sqrt(self.variance), self.degrees))
        if self.own_variance > 0.0:
            chances.append(t_below(above / math.sqrt(self.own_variance), math.inf))
        return min(chances, key=lambda chance: abs(chance - 0.5)) if chances else 0.5


AnyContrast = Contrast | ScoreEstimate
"""A difference of two strengths, or of two mean scores."""


def contrast(solved: Solved, new: str, old: str) -> Contrast:
    """The difference of two models of a fit."""
    table, covariance = solved.fit_input.selected.table, solved.covariance
    for name in (new, old):
        if name not in table.models:
            raise OptionError(f"{name!r} is in none of the rated battles. {known_models(table)}")
    assert covariance is not None, "a difference needs intervals"
    i, j = table.models.index(new), table.models.index(old)
    zero = np.zeros(len(table.models))
    zero[j] = 1.0
    return contrast_of(
        ((solved, i), (solved, j)),
        float(solved.fit.parameters.strength[i] - solved.fit.parameters.strength[j]),
        float(covariance.variances(zero)[i]),
        float(covariance.fisher_variances(zero)[i]),
    )


def contrast_of(sides: Sequence[tuple[Solved, int]], value: float, variance: float, own_variance: float) -> Contrast:
    """A difference of two strengths: of each its fit and its place there."""
    covariances = [(solved.covariance, place) for solved, place in sides if solved.covariance is not None]
    (new, i), (old, j) = sides
    top, bottom = (Reach.UNBEATEN, Reach.APART), (Reach.WINLESS, Reach.APART)
    return Contrast(
        value=value,
        variance=variance,
        own_variance=own_variance,
        degrees=min(float(one.degrees[at]) if one.known[at] else 0.0 for one, at in covariances),
        clustered=any(bool(one.ways) for one, _ in covariances),
        battles=min(float(solved.fit_input.rows.battles_per_model()[at]) for solved, at in sides),
        no_low=bool(new.state[i] in bottom or old.state[j] in top),
        no_high=bool(new.state[i] in top or old.state[j] in bottom),
    )


def even_odds(points: float) -> float:
    """The chance that a model this many points ahead wins a battle that is not a tie."""
    return 1.0 / (1.0 + math.exp(-points / POINTS_PER_LOGIT))


BALANCED = 0.5
"""Sides are balanced where a side worth a whole logit would move the difference by less than this many errors."""
BALANCED_MIXTURE = 1.25
"""The same where battles without sides are among them, so that no advantage is fitted: sides that a coin chose are
further apart than this in one case of a hundred."""
FEWEST_BATTLES = 10.0
"""On fewer battles than these, effectively, no difference rests that is fitted together with its side."""
FEWEST_CLUSTERS = 5.0
"""The same for prompts and voters."""
LARGEST = 4.0
"""No side is worth so many logits (98 : 2): a larger estimate has run away, because one of the two orders has but one
result."""
COSTS = 1.1
"""A side that widens the variance by less than this factor is well enough known, however few battles there are."""


class SideFit(msgspec.Struct, frozen=True, eq=False):
    """The fit that a difference is read from, and what the first side is worth in points, where that was fitted."""

    solved: Solved
    advantage: float | None = None
    remarks: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()


def fit_sides(
    plain: Solved, new: str, old: str, estimator: BradleyTerry, solve: Callable[[BradleyTerry], Solved]
) -> SideFit:
    """The fit to read the difference from: the plain one where sides are balanced or unknown, else one with the side.

    `solve` fits the same battles by another estimator; one with `slot=False` leaves sides alone.
    """
    sided = with_sides(plain.fit_input.selected.table)
    if estimator.slot is False or not sided.any():
        return SideFit(plain)
    found = contrast(plain, new, old)
    if not plain.fit_input.slot:
        lean = side_lean(plain, sided, _weights(plain, new, old))
        if is_balanced(lean, found) and not estimator.slot:
            return SideFit(plain)
        if not sided.all():
            if is_balanced(lean, found, BALANCED_MIXTURE):
                return SideFit(plain)
            what = f"{_shown_first(plain, sided, new, old)} that have sides, and others have none"
            mend = "take those with sides alone, or pass --no-slot if sides do not say who was shown first"
            return SideFit(plain, obstacles=(f"{what}, so the side's advantage is not fitted ({mend})",))
    confounded = SideFit(plain, obstacles=(f"{_shown_first(plain, sided, new, old)}{CONFOUNDED}",))
    try:
        joint = plain if plain.fit_input.slot else solve(replace(estimator, slot=True))
        if not is_identified(joint, _weights(joint, new, old)):
            return confounded
    except (RatingError, OptionError):
        return confounded
    advantage = float(joint.fit.parameters.coefficient[0])
    return SideFit(joint, POINTS_PER_LOGIT * advantage, (side_remark(advantage),))


CONFOUNDED = (
    ", so its strength cannot be told from the side's advantage (battles that show it on the other side would tell; "
    "pass --no-slot if the order in a row does not say who was shown first)"
)


def solve_plainly(table: BattleTable, estimator: BradleyTerry) -> Solved:
    """The fit by an estimator; without the first side's advantage where the battles cannot tell it from the models."""
    try:
        return estimator.solve(table)
    except NotConnected:
        raise
    except RatingError:
        if estimator.slot is False:
            raise
    return replace(estimator, slot=False).solve(table)


def side_remark(advantage: float) -> str:
    """What the first side is worth, in words."""
    wins = 1.0 / (1.0 + math.exp(-advantage))
    return (
        f"the first side wins {100 * wins:.0f} % of decided battles between equals; fitted, and not in the difference"
    )


def is_balanced(lean: float, result: Contrast, errors: float = BALANCED) -> bool:
    """Whether sides are so balanced that their advantage hardly matters to the difference."""
    return abs(lean) <= errors * result.error / POINTS_PER_LOGIT


def side_lean(solved: Solved, sided: NDArray[np.bool_], weights: Floats) -> float:
    """By how many logits a difference of strengths moves for every logit that the first side is worth."""
    rows, counted, fit = solved.fit_input.rows, solved.fit_input.counted, solved.fit
    moves = response(fit, weights)[: rows.n_models]
    bend = _per_battle(solved)[counted.cell] * rows.weight * sided
    return float((bend * (moves[rows.first] - moves[rows.second])).sum())


def _per_battle(solved: Solved) -> Floats:
    """The curvature of one battle in each cell, the half-win prior left out."""
    cells = solved.fit_input.counted.cells
    n = cells.counts.sum(axis=1)
    return np.asarray(solved.fit.curvature().delta[: len(cells)] / np.maximum(n, 1e-300))


def _weights(solved: Solved, new: str, old: str) -> Floats:
    models = solved.fit_input.selected.table.models
    weights = np.zeros(len(models))
    weights[models.index(new)], weights[models.index(old)] = 1.0, -1.0
    return weights


def is_identified(joint: Solved, weights: Floats) -> bool:
    """Whether enough battles, prompts and voters tell a difference of strengths from the side's advantage."""
    rows, counted, fit = joint.fit_input.rows, joint.fit_input.counted, joint.fit
    if abs(fit.parameters.coefficient[0]) > LARGEST:
        return False
    moves = response(fit, weights)
    m, side = rows.n_models, moves[rows.n_models]
    bend = _per_battle(joint)[counted.cell]
    along = moves[rows.first] - moves[rows.second]
    design = counted.cells.design[counted.cell] @ moves[m : m + counted.cells.design.shape[1]]
    each = bend * (along + design) ** 2
    variance = float((rows.weight * each).sum())
    side_variance = float(response(fit, np.eye(m + 1)[m])[m])
    if variance <= COSTS * (variance - side * side / side_variance):
        return True
    if variance**2 / float((rows.weight * each**2).sum()) < FEWEST_BATTLES:
        return False
    for codes in rows.clusters:
        single, values = codes == OWN_CLUSTER, rows.weight * each
        shared = sum_by(codes[~single], values[~single], int(codes.max(initial=0)) + 1)
        if values.sum() ** 2 / ((values[single] ** 2).sum() + (shared**2).sum()) < FEWEST_CLUSTERS:
            return False
    return True


def _shown_first(solved: Solved, sided: NDArray[np.bool_], new: str, old: str) -> str:
    """How often the one of the two whose sides are less balanced was shown first."""
    table = solved.fit_input.selected.table
    shares = {name: first_share(table, sided, table.models.index(name)) for name in (new, old)}
    name, share = max(shares.items(), key=lambda item: abs(item[1] - 0.5))
    return f"{name} was shown first in {100 * share:.0f} % of its battles"
