"""Whether the top of a board moves more than its own confidence allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import msgspec
import numpy as np

BAND = 2.0
"""A confidence band is the rating ± this many deviations; its lower end is the conservative score."""


class Known(NamedTuple):
    """A model's rating and deviation at some time."""

    rating: float
    deviation: float

    @property
    def low(self) -> float:
        return self.rating - BAND * self.deviation

    @property
    def high(self) -> float:
        return self.rating + BAND * self.deviation


Standings = dict[str, Known]
"""What is known of each model at one time."""


class Swap(msgspec.Struct, frozen=True):
    """Two models of the top changed places between two looks; `look` numbers the later one."""

    look: int
    rose: str
    fell: str
    within_bands: bool
    """Whether their bands overlapped before: then no order was claimed, and the swap is not a surprise."""


class Churn(msgspec.Struct, frozen=True):
    """What moved in the top."""

    looks: int
    """Samples of the board."""
    top: int
    """How many models."""
    swaps: tuple[Swap, ...]
    entered: tuple[str, ...]
    """In the top at the end, not at the start."""
    left: tuple[str, ...]
    """The other way round."""
    beyond_bands: int
    """Swaps that the bands had ruled out."""


def top_order(standings: Mapping[str, Known], top: int) -> list[str]:
    """The first models by the lower end of their bands; equal ones in the order given."""
    return sorted(standings, key=lambda model: -standings[model].low)[:top]


def top_churn(looks: Sequence[Mapping[str, Known]], top: int) -> Churn:
    """Every change of places among the first `top` models from look to look.

    A pair counts when both are on both boards and at least one of the two is in the top before and after: so a model
    that leaves the top swaps with those that pass it inside, not with everybody below.

    Parameters:
        looks: What was known of each model at several times, oldest first.
        top: How many models the top has.
    """
    swaps = []
    for number, (before, after) in enumerate(pairwise(looks), start=1):
        was, now = top_order(before, top), top_order(after, top)
        looked_at = [model for model in dict.fromkeys([*was, *now]) if model in before and model in after]
        for i, j in combinations(looked_at, 2):
            if not ((i in was or j in was) and (i in now or j in now)):
                continue
            ahead, behind = (i, j) if before[i].low >= before[j].low else (j, i)
            if after[behind].low > after[ahead].low:
                overlapped = before[ahead].low <= before[behind].high
                swaps.append(Swap(number, rose=behind, fell=ahead, within_bands=overlapped))
    first = top_order(looks[0], top) if looks else []
    last = top_order(looks[-1], top) if looks else []
    return Churn(
        len(looks),
        top,
        tuple(swaps),
        tuple(model for model in last if model not in first),
        tuple(model for model in first if model not in last),
        sum(not swap.within_bands for swap in swaps),
    )


class ConfidenceStability(msgspec.Struct, frozen=True):
    """Whether ratings stayed where their confidence said."""

    models: int
    """Known at both ends."""
    median_deviation_before: float | None
    median_deviation_after: float | None
    left_band: tuple[str, ...]
    """Models whose rating left its band: about 1 in 20 or fewer where bands hold."""
    share_left_band: float | None


def confidence_stability(before: Mapping[str, Known], after: Mapping[str, Known]) -> ConfidenceStability:
    """The stability of all models known at both times."""
    both = [model for model in after if model in before]
    if not both:
        return ConfidenceStability(0, None, None, (), None)
    left = tuple(model for model in both if not before[model].low <= after[model].rating <= before[model].high)
    return ConfidenceStability(
        len(both),
        float(np.median([before[model].deviation for model in both])),
        float(np.median([after[model].deviation for model in both])),
        left,
        len(left) / len(both),
    )
