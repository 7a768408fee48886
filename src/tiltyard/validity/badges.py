"""What a reader is told about how far to trust a model's place: a confidence and a badge."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass


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
    """The highest badge whose floor, and every floor below it, is met."""
    if not established.met_by(decisive, coverage, deviation):
        return Badge.PROVISIONAL
    return Badge.STABLE if stable.met_by(decisive, coverage, deviation) else Badge.ESTABLISHED


def confidence_percent(deviation: float, *, least: float = 10.0, most: float = 350.0) -> int:
    """The deviation as a percentage, 100 at the least deviation and 0 at the most, rounded half up.

    It is derived from the deviation alone and is not the probability of anything.
    """
    if most <= least:
        return 100 if deviation <= least else 0
    share = 1.0 - (deviation - least) / (most - least)
    return math.floor(100.0 * min(max(share, 0.0), 1.0) + 0.5)
