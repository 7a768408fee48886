"""Anchors for tests: strengths that are certain, or known with independent errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tiltyard.stats import Anchors

Floats = NDArray[np.float64]


def exact_anchors(strength: Floats) -> Anchors:
    """Anchors whose strengths are taken as certain."""
    return Anchors(strength, np.zeros((len(strength), len(strength))))


def independent_anchors(strength: Floats, variance: Floats) -> Anchors:
    """Anchors of which only each one's variance is known."""
    return Anchors(strength, np.diag(variance))
