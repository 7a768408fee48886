"""How far one strength lies above another, and how well that is known: what every decision rests on.

A `Contrast` is in logits. Its interval is the one that a board anchored at the second model prints; the probability
that it is positive is one minus the one-sided p-value of the same t, so the two never disagree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tiltyard.boards.certainty import Solved
from tiltyard.boards.selection import known_models
from tiltyard.errors import OptionError
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.graph import Reach
from tiltyard.ratings.quantiles import normal_quantile, t_quantile
from tiltyard.ratings.ranks import FIRST_LOOK, anytime_half_width


@dataclass(frozen=True, slots=True)
class Contrast:
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
        """Half the width of the interval in logits; infinite where there is none.

        Parameters:
            level: Confidence level.
            anytime: Whether it holds however often one looks while battles come in.
        """
        if not self.known:
            return math.inf
        if anytime:
            if self.battles < FIRST_LOOK:
                return math.inf
            degrees = self.degrees if self.clustered else math.inf
            return anytime_half_width(max(self.variance, self.own_variance), level, degrees)
        student = float(t_quantile(level, np.array(self.degrees))) * math.sqrt(self.variance)
        return max(student, normal_quantile(level) * math.sqrt(self.own_variance))

    def ends(self, level: float, *, anytime: bool = False) -> tuple[float | None, float | None]:
        """The ends of the interval in rating points; None where nothing bounds it.

        Parameters:
            level: Confidence level.
            anytime: Whether it holds however often one looks while battles come in.
        """
        half = self.half_width(level, anytime=anytime)
        if math.isinf(half):
            return None, None
        low, high = POINTS_PER_LOGIT * (self.value - half), POINTS_PER_LOGIT * (self.value + half)
        return None if self.no_low else low, None if self.no_high else high

    def probability_above(self, points: float = 0.0) -> float | None:
        """How sure one can be that the difference is above a number of points: one minus the one-sided p-value.

        Parameters:
            points: The number of rating points.
        """
        from scipy.special import ndtr, stdtr

        if not self.known:
            return None
        above = self.value - points / POINTS_PER_LOGIT
        chances = []
        if self.variance > 0.0:
            chances.append(float(stdtr(self.degrees, above / math.sqrt(self.variance))))
        if self.own_variance > 0.0:
            chances.append(float(ndtr(above / math.sqrt(self.own_variance))))
        return min(chances, key=lambda chance: abs(chance - 0.5)) if chances else 0.5


def contrast(solved: Solved, new: str, old: str) -> Contrast:
    """The difference of two models of a fit.

    Parameters:
        solved: The fit with its errors.
        new: The model that stands first.
        old: The model it is compared with.
    """
    table = solved.fit_input.selected.table
    for name in (new, old):
        if name not in table.models:
            raise OptionError(f"{name!r} is in none of the rated battles. {known_models(table)}")
    models = table.models
    i, j = models.index(new), models.index(old)
    covariance = solved.covariance
    assert covariance is not None, "a difference needs intervals"
    zero = np.zeros(len(models))
    zero[j] = 1.0
    strength, battles = solved.fit.parameters.strength, solved.fit_input.rows.battles_per_model()
    degrees = float(min(covariance.degrees[i], covariance.degrees[j]))
    enough = bool(covariance.known[i] and covariance.known[j])
    top, bottom = (Reach.UNBEATEN, Reach.APART), (Reach.WINLESS, Reach.APART)
    return Contrast(
        value=float(strength[i] - strength[j]),
        variance=float(covariance.variances(zero)[i]),
        own_variance=float(covariance.fisher_variances(zero)[i]),
        degrees=degrees if enough else 0.0,
        clustered=bool(covariance.ways),
        battles=float(min(battles[i], battles[j])),
        no_low=bool(solved.state[i] in bottom or solved.state[j] in top),
        no_high=bool(solved.state[i] in top or solved.state[j] in bottom),
    )
