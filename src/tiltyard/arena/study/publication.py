"""What a reader is told about trust: a model's confidence and badge, and whether the board is officially stable.

The board's status follows from the policy's three rules over its first models, each shown with its number. Three of
ours say how far the order itself is known; they are shown beside and decide nothing.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Literal

import msgspec


class Badge(enum.StrEnum):
    """How settled a model's place is. Provisional models are shown, but no claim about the top rests on them."""

    PROVISIONAL = "Provisional"
    ESTABLISHED = "Established"
    STABLE = "Stable"


class Floor(msgspec.Struct, frozen=True):
    """What a badge asks for: decisive votes and prompt coverage of at least, a deviation of at most.

    With `places` it also asks for a range of ranks of at most so many places; 0 asks for none.
    """

    decisive: int
    coverage: float
    deviation: float
    places: int = 0

    def met_by(self, decisive: int, coverage: float, deviation: float, places: int | None = None) -> bool:
        """Whether all of them hold; a range of ranks that is not known yet is not a narrow one."""
        narrow = self.places == 0 or (places is not None and places <= self.places)
        return decisive >= self.decisive and coverage >= self.coverage and deviation <= self.deviation and narrow


def badge(
    decisive: int, coverage: float, deviation: float, places: int | None = None, *, established: Floor, stable: Floor
) -> Badge:
    """The highest badge whose floor, and every floor below it, is met.

    Parameters:
        decisive: The model's decisive votes.
        coverage: Its prompt coverage.
        deviation: Its deviation.
        places: How many places its range of ranks has; None while there is no range.
        established: What `Established` asks for.
        stable: What `Stable` asks for.
    """
    if not established.met_by(decisive, coverage, deviation, places):
        return Badge.PROVISIONAL
    return Badge.STABLE if stable.met_by(decisive, coverage, deviation, places) else Badge.ESTABLISHED


CONFIDENCE_POINTS = 25.0
"""Confidence is about a rating being this near to the truth: a difference of 25 points is a preference of 54 to 46."""


def confidence_percent(deviation: float) -> int:
    """The chance, in percent, that a rating is within 25 points of the truth: 2Φ(25/RD) − 1, rounded half up.

    It is derived from the deviation alone, as if that were a standard error; how well it holds is measured
    (`confidence_calibration`).

    Parameters:
        deviation: Glicko-2 deviation (RD).
    """
    return 100 if deviation <= 0.0 else math.floor(100.0 * within_points(deviation) + 0.5)


def within_points(deviation: float) -> float:
    """2Φ(25/RD) − 1: the chance that a normal error with this standard deviation is at most 25 points."""
    return math.erf(CONFIDENCE_POINTS / (deviation * math.sqrt(2.0)))


Status = Literal["officially stable", "calibrating"]
Unit = Literal["points", "share", "places", "models"]


class Rule(msgspec.Struct, frozen=True):
    """A rule of publication."""

    name: str
    value: float | None
    """What was found; null where there is nothing to look at."""
    needed: float
    at_most: bool
    """Whether the value must not exceed what is needed; else it must not fall below."""
    detail: str
    """In words."""
    unit: Unit = "share"
    """`points`, `share`, `places` or `models`."""
    ours: bool = False
    """Whether the rule is ours, beyond the policy's three: it does not affect `status`."""
    met: bool = False
    """Whether it holds; what cannot be looked at does not."""

    def __post_init__(self) -> None:
        if self.value is not None:
            met = self.value <= self.needed if self.at_most else self.value >= self.needed
            msgspec.structs.force_setattr(self, "met", met)


class Publication(msgspec.Struct, frozen=True):
    """Whether a board may be called stable, and every rule."""

    status: Status | None
    """`officially stable` when every rule of the policy is met, else `calibrating`; null while it is not public."""
    top: int
    """How many models the rules consider."""
    rules: tuple[Rule, ...]

    @property
    def deciding(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if not rule.ours)

    @property
    def beside(self) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if rule.ours)


def publication(
    deviations: Sequence[float],
    coverages: Sequence[float],
    adjacent_met: Sequence[bool],
    *,
    median_deviation: float,
    adjacent_share: float,
    mean_coverage: float,
    ours: Sequence[Rule] = (),
) -> Publication:
    """The status of a board from its first models, best first, and from the pairs next to each other among them.

    Parameters:
        deviations: Deviations of the first models.
        coverages: Their prompt coverages.
        adjacent_met: For each two neighbours among them, whether they have met their floor.
        median_deviation: The median may be at most this.
        adjacent_share: Share of neighbours that must have met.
        mean_coverage: The mean must be at least this.
        ours: Rules beyond the policy's three, which are shown beside them.
    """
    share = sum(adjacent_met) / len(adjacent_met) if adjacent_met else None
    deciding = (
        Rule(
            "median deviation",
            median(deviations) if deviations else None,
            median_deviation,
            at_most=True,
            detail=f"over the top {len(deviations)} models",
            unit="points",
        ),
        Rule(
            "adjacent pairs compared enough",
            share,
            adjacent_share,
            at_most=False,
            detail=f"{sum(adjacent_met)} of {len(adjacent_met)} adjacent pairs have enough votes",
        ),
        Rule(
            "mean prompt coverage",
            fmean(coverages) if coverages else None,
            mean_coverage,
            at_most=False,
            detail=f"over the top {len(coverages)} models",
        ),
    )
    status: Status = "officially stable" if all(rule.met for rule in deciding) else "calibrating"
    return Publication(status, len(deviations), (*deciding, *ours))


def voter_rule(share: float | None, most: float) -> Rule:
    """No single voter casts more than this share of the counted votes."""
    return Rule(
        "largest share of one voter", share, most, at_most=True, detail="of all counted votes", unit="share", ours=True
    )


def places_rule(widths: Sequence[int] | None, most: int) -> Rule:
    """The median range of ranks of the first models is narrow; None before ranges are known."""
    result = median(widths) if widths else None
    detail = "no ranges of ranks yet" if widths is None else f"over the top {len(widths)} models"
    return Rule("median range of ranks", result, most, at_most=True, detail=detail, unit="places", ours=True)


def order_rule(
    order: Sequence[str],
    ranges: Mapping[str, tuple[int, int]],
    earlier: Sequence[Mapping[str, int]] | None,
    window: int,
) -> Rule:
    """Over the last matchups, no model of the top stood outside the range of ranks that it has now."""
    name = "models outside their range lately"
    if earlier is None:
        detail = f"known once there are {window:,} counted votes"
        return Rule(name, None, 0, at_most=True, detail=detail, unit="models", ours=True)

    def inside(model: str, past: Mapping[str, int]) -> bool:
        return model in ranges and model in past and ranges[model][0] <= past[model] <= ranges[model][1]

    left = [model for model in order if not all(inside(model, past) for past in earlier)]
    detail = f"of the top {len(order)}, over the last {window:,} matchups" + (f": {', '.join(left)}" if left else "")
    return Rule(name, len(left), 0, at_most=True, detail=detail, unit="models", ours=True)
