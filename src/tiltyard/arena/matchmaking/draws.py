"""Drawing by weight and taking the best, each with the probability of the result."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    Floats = NDArray[np.float64]

LEVEL = 1e-6
"""Scores this close are tied: they differ only by rounding."""


def draw(rng: np.random.Generator, weights: Floats) -> int:
    """A position drawn in proportion to its weight; one of weight 0 is never drawn."""
    up_to = weights.cumsum()
    place = int(up_to.searchsorted(rng.random() * up_to[-1], side="right"))
    return place if place < len(weights) else int(weights.nonzero()[0][-1])


def draw_few(rng: np.random.Generator, weights: Sequence[float]) -> int:
    """The same for a few plain numbers, for which arrays would be slower."""
    up_to = list(accumulate(weights))
    place = bisect_right(up_to, rng.random() * up_to[-1])
    return place if place < len(up_to) else max(place for place, weight in enumerate(weights) if weight)


def tied_best(scores: Floats) -> NDArray[np.intp]:
    """The positions of the highest score."""
    best: float = np.maximum.reduce(scores)
    return (scores >= best - LEVEL).nonzero()[0]


def draw_one(rng: np.random.Generator, positions: NDArray[np.intp]) -> int:
    """One of the positions, all equally likely."""
    return int(positions[0]) if len(positions) == 1 else int(positions[int(rng.random() * len(positions))])
