"""Quantiles of the normal, Student's t and the studentized range: what intervals and rank intervals are cut at.

`scipy.special` has the first two. The studentized range is integrated here in a few lines, because importing
`scipy.stats` for it would cost every command more time than rating a million battles; the tests compare the two.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def normal_quantile(level: float) -> float:
    """The half-width of a two-sided normal interval, in standard errors: 1.96 for 0.95."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + 0.5 * level))


def t_quantile(level: float, degrees: Floats) -> Floats:
    """The half-width of a two-sided t interval, in standard errors, for each number of degrees of freedom."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(degrees, 0.5 + 0.5 * level))


@lru_cache(maxsize=256)
def studentized_range_quantile(level: float, n_means: int, degrees: float = math.inf) -> float:
    """The value that the range of `n_means` normal means, in standard errors, stays below with chance `level`.

    The standard error is estimated with `degrees` degrees of freedom; infinity means that it is known.
    """
    low, high = 0.0, 2.0
    while studentized_range_cdf(high, n_means, degrees) < level:
        low, high = high, 2.0 * high
    while high - low > 1e-8 * high:
        middle = 0.5 * (low + high)
        if studentized_range_cdf(middle, n_means, degrees) < level:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(160)


def studentized_range_cdf(q: float, n_means: int, degrees: float = math.inf) -> float:
    """The chance that the studentized range of `n_means` means stays below `q` (Lund and Lund 1983, AS 190)."""
    from scipy.special import gammaln

    if math.isinf(degrees):
        return float(_range_cdf(np.array([q]), n_means)[0])
    # s = (estimated / true standard error) has density ∝ s^(ν−1) exp(−ν s²/2), narrow around 1 when ν is large.
    spread = 9.0 / math.sqrt(2.0 * degrees)
    start, end = max(0.0, 1.0 - spread), 1.0 + max(spread, 3.0 / math.sqrt(degrees))
    s = 0.5 * (end - start) * (_NODES + 1.0) + start
    log_density = (
        0.5 * degrees * math.log(degrees)
        - float(gammaln(0.5 * degrees))
        - (0.5 * degrees - 1.0) * math.log(2.0)
        + (degrees - 1.0) * np.log(s)
        - 0.5 * degrees * s * s
    )
    return float(0.5 * (end - start) * _WEIGHTS @ (np.exp(log_density) * _range_cdf(q * s, n_means)))


def _range_cdf(width: Floats, n_means: int) -> Floats:
    """P(range of n standard normals < width) = n ∫ φ(z) (Φ(z + width) − Φ(z))^(n−1) dz, z the smallest of them."""
    from scipy.special import ndtr

    z = 8.5 * _NODES
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    inside = ndtr(z[None, :] + width[:, None]) - ndtr(z)[None, :]
    return np.asarray(8.5 * n_means * (inside ** (n_means - 1)) @ (_WEIGHTS * density))
