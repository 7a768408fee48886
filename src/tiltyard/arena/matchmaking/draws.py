"""Drawing by weight and taking the best, each with how likely the result was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEVEL = 1e-6
"""Scores this close are a tie: they differ by rounding only."""


def draw(rng: np.random.Generator, weights: Floats) -> int:
    """A position drawn in proportion to its weight; one of weight 0 is never drawn."""
    up_to = weights.cumsum()
    place = int(up_to.searchsorted(rng.random() * up_to[-1], side="right"))
    return place if place < len(weights) else int(weights.nonzero()[0][-1])


def tied_best(scores: Floats) -> NDArray[np.intp]:
    """The positions of the highest score."""
    return np.flatnonzero(scores >= scores.max() - LEVEL)


def draw_one(rng: np.random.Generator, positions: NDArray[np.intp]) -> int:
    """One of the positions, each as likely as the others."""
    return int(positions[0]) if len(positions) == 1 else int(positions[int(rng.random() * len(positions))])
