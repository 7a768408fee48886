"""Checks whether an answer is right, before its speed matters. Plain Python, so that the reporting process stays
small."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Z95 = 1.959964


def largest_gap(one: Mapping[str, float], two: Mapping[str, float]) -> float:
    """The largest difference between two sets of ratings after both are centred."""
    mean_one, mean_two = statistics.fmean(one.values()), statistics.fmean(two.values())
    if one.keys() != two.keys():
        return math.inf
    return max(abs((one[name] - mean_one) - (two[name] - mean_two)) for name in one)


def by_place(values: Sequence[float]) -> dict[str, float]:
    """A list as a mapping, so that lists can be compared like ratings."""
    return {str(place): value for place, value in enumerate(values)}


def largest_difference(one: Sequence[float], two: Sequence[float]) -> float:
    """The largest difference of two lists, place by place."""
    return max(abs(x - y) for x, y in zip(one, two, strict=True))


def mean_square_z(ratings: Mapping[str, float], half_widths: Mapping[str, float], truth: Mapping[str, float]) -> float:
    """The mean squared error in units of the claimed standard error: near 1 when both ratings and errors are right."""
    centre = statistics.fmean(ratings[name] - truth[name] for name in ratings)
    return statistics.fmean(
        ((ratings[name] - truth[name] - centre) / (half / Z95)) ** 2 for name, half in half_widths.items()
    )


def correlation(one: Sequence[float], two: Sequence[float]) -> float:
    """Pearson's correlation."""
    return statistics.correlation(one, two)
