"""What a reader is told about trust: a model's confidence and badge, and whether the board is officially stable.

The board's status follows from three rules over its first models, each shown with its number.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence


class Badge(enum.StrEnum):
    """How settled a model's place is. Provisional models are shown, but no claim about the top rests on them."""

    PROVISIONAL = "Provisional"
    ESTABLISHED = "Established"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Floor:
    """What a badge asks for: decisive votes and prompt coverage of at least, a deviation of at most."""

    decisive: int
    coverage: float
    deviation: float

    def met_by(self, decisive: int, coverage: float, deviation: float) -> bool:
        """Whether all three hold."""
        return decisive >= self.decisive and coverage >= self.coverage and deviation <= self.deviation


def badge(decisive: int, coverage: float, deviation: float, *, established: Floor, stable: Floor) -> Badge:
    """The highest badge whose floor, and every floor below it, is met.

    Parameters:
        decisive: The model's decisive votes.
        coverage: Its prompt coverage.
        deviation: Its deviation.
        established: What `Established` asks for.
        stable: What `Stable` asks for.
    """
    if not established.met_by(decisive, coverage, deviation):
        return Badge.PROVISIONAL
    return Badge.STABLE if stable.met_by(decisive, coverage, deviation) else Badge.ESTABLISHED


def confidence_percent(deviation: float, *, least: float = 10.0, most: float = 350.0) -> int:
    """The deviation as a percentage, 100 at the least deviation and 0 at the most, rounded half up.

    It is derived from the deviation alone and is not the probability of anything.

    Parameters:
        deviation: Glicko-2 deviation (RD).
        least: The deviation that is 100 %.
        most: The deviation that is 0 %.
    """
    if most <= least:
        return 100 if deviation <= least else 0
    share = 1.0 - (deviation - least) / (most - least)
    return math.floor(100.0 * min(max(share, 0.0), 1.0) + 0.5)


Status = Literal["officially stable", "calibrating"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what it looks at, the number found (None where there is nothing to look at), and what is needed."""

    name: str
    value: float | None
    needed: float
    at_most: bool
    """Whether the value must not exceed `needed`; else it must not fall below."""
    detail: str

    @property
    def met(self) -> bool:
        """Whether it holds; what cannot be looked at does not."""
        if self.value is None:
            return False
        return self.value <= self.needed if self.at_most else self.value >= self.needed


@dataclass(frozen=True, slots=True)
class Publication:
    """The status of a board and the rules behind it."""

    top: int
    """How many models the rules looked at."""
    rules: tuple[Rule, ...]

    @property
    def status(self) -> Status:
        """`officially stable` when every rule is met, else `calibrating`."""
        return "officially stable" if all(rule.met for rule in self.rules) else "calibrating"


def publication(
    deviations: Sequence[float],
    coverages: Sequence[float],
    adjacent_met: Sequence[bool],
    *,
    median_deviation: float,
    adjacent_share: float,
    mean_coverage: float,
) -> Publication:
    """The status of a board from its first models, best first, and from the pairs next to each other among them.

    Parameters:
        deviations: Deviations of the first models.
        coverages: Their prompt coverages.
        adjacent_met: For each two neighbours among them, whether they have met their floor.
        median_deviation: The median may be at most this.
        adjacent_share: Share of neighbours that must have met.
        mean_coverage: The mean must be at least this.
    """
    share = sum(adjacent_met) / len(adjacent_met) if adjacent_met else None
    return Publication(
        len(deviations),
        (
            Rule(
                "median deviation",
                median(deviations) if deviations else None,
                median_deviation,
                at_most=True,
                detail=f"over the top {len(deviations)} models",
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
        ),
    )
