"""How the judge behaved: flip rate and first-slot rate with Wilson intervals, in all and by judge, pair and source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.judging.records import Said
from tiltyard.ratings.quantiles import normal_quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tiltyard.report.bouts import Bout

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `n`, with its Wilson interval."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """The share itself; None of nothing."""
        return self.hits / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval at 95 %: never outside 0 and 1, sensible at both ends."""
        return wilson(self.hits, self.n)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A judge's habits over some judgments.

    `flips`: of the judgments with two readable verdicts, those where the two differ; `opposite` of them name two
    different winners, the others say tie one way round. `first_slot`: of all verdicts that name a winner, those that
    name the answer shown first; without position bias the expected share is a half, as every pair is shown both ways.
    """

    flips: Share
    opposite: int
    first_slot: Share


def wilson(hits: float, n: float, level: float = LEVEL) -> tuple[float, float] | None:
    """Wilson's score interval of a share (E. B. Wilson 1927); None of nothing."""
    if not n:
        return None
    z = normal_quantile(level)
    p, spread = hits / n, z * z / n
    centre = (p + spread / 2) / (1 + spread)
    half = math.sqrt(p * (1 - p) * spread + (spread / 2) ** 2) / (1 + spread)
    return (0.0 if hits == 0 else centre - half, 1.0 if hits == n else centre + half)


def behaviour(bouts: Iterable[Bout]) -> Behaviour:
    """The habits of the judge over these judgments."""
    both = differ = opposite = first = decided = 0
    for bout in bouts:
        first += sum(word is Said.A for word in bout.slots)
        decided += sum(word in (Said.A, Said.B) for word in bout.slots)
        if len(bout.said) == 2 and all(word.readable for word in bout.said):
            both += 1
            differ += bout.said[0] != bout.said[1]
            opposite += set(bout.said) == {Said.A, Said.B}
    return Behaviour(Share(differ, both), opposite, Share(first, decided))


def behaviour_by(bouts: Iterable[Bout], key: Callable[[Bout], str]) -> dict[str, Behaviour]:
    """The habits of the judge per group, in the order in which the groups appear."""
    groups: dict[str, list[Bout]] = {}
    for bout in bouts:
        groups.setdefault(key(bout), []).append(bout)
    return {name: behaviour(group) for name, group in groups.items()}
