"""How alike two orders are: Kendall's tau-b and Spearman's rho."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tiltyard.ratings.comparisons import Floats


def kendall_tau(left: Floats, right: Floats) -> float:
    """Kendall's tau-b: pairs in the same order minus pairs in opposite order, corrected for ties (NaN if constant)."""
    upper = np.triu_indices(len(left), 1)
    a = np.sign(left[:, None] - left[None, :])[upper]
    b = np.sign(right[:, None] - right[None, :])[upper]
    scale = np.sqrt(np.abs(a).sum() * np.abs(b).sum())
    return float((a * b).sum() / scale) if scale > 0 else float("nan")


def spearman_rho(left: Floats, right: Floats) -> float:
    """Spearman's rho: the correlation of the ranks, equal values sharing their mean rank (NaN if constant)."""
    a, b = _mean_ranks(left), _mean_ranks(right)
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else float("nan")


def _mean_ranks(values: Floats) -> Floats:
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - 0.5 * (count - 1))[inverse]
