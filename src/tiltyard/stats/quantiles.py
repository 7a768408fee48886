"""Quantiles of the normal, Student's t and the studentized range: what intervals and rank intervals are cut at.

They are computed here in a few lines, because importing `scipy.special` (0.2 s) or `scipy.stats` (1 s) for them would
cost every command more time than rating a hundred thousand battles; the tests compare them with SciPy.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from tiltyard.types import Floats

MANY_DEGREES = 1000.0
"""From here on Student's t is expanded around the normal, in powers of 1 / degrees (Fisher and Cornish 1960)."""

FEWEST_DEGREES = 0.1
"""Below this Student's t has no finite cut worth the name: beyond 10¹⁸ at a level of 0.95."""

MANY_VALUES = 40
"""So many different degrees of freedom are computed by SciPy: importing it takes less time."""

ROUNDS = 200
"""The most rounds of Newton's method, which needs five, and terms of a continued fraction, which needs sixty."""


def normal_quantile(level: float) -> float:
    """The half-width of a two-sided normal interval, in standard errors: 1.96 for 0.95."""
    return _normal_cut(0.5 * (1.0 - level))


@lru_cache(maxsize=256)
def _normal_cut(tail: float) -> float:
    """What a standard normal exceeds with chance `tail`: Newton's method on ln P, which is concave, from above."""
    if not 0.0 < tail <= 0.5:
        return math.inf if tail == 0.0 else math.nan
    cut = math.sqrt(-2.0 * math.log(2.0 * tail))
    for _ in range(ROUNDS):
        beyond = 0.5 * math.erfc(cut / math.sqrt(2.0))
        step = math.log(beyond / tail) * beyond * math.sqrt(2.0 * math.pi) * math.exp(0.5 * cut * cut)
        cut += step
        if abs(step) <= 1e-15 * cut:
            break
    return cut


def t_quantile(level: float, degrees: Floats) -> Floats:
    """The half-width of a two-sided t interval, in standard errors, for each number of degrees of freedom."""
    tail = 0.5 * (1.0 - level)
    each, place = np.unique(np.asarray(degrees, dtype=np.float64), return_inverse=True)
    cut = np.where(each > 0.0, np.inf, np.nan)
    many = each >= MANY_DEGREES
    cut[many] = [_expanded_t_cut(tail, one) for one in each[many].tolist()]
    few = (each >= FEWEST_DEGREES) & ~many
    if few.sum() >= MANY_VALUES:
        from scipy.special import stdtrit

        cut[few] = -stdtrit(each[few], tail)
    else:
        cut[few] = [_t_cut(tail, one) for one in each[few].tolist()]
    return np.asarray(cut[place].reshape(np.shape(degrees)))


def _expanded_t_cut(tail: float, degrees: float) -> float:
    """The cut of Student's t with many degrees of freedom, from that of the normal."""
    z = _normal_cut(tail)
    s, n = z * z, 1.0 / degrees
    fourth = ((((79.0 * s + 776.0) * s + 1482.0) * s - 1920.0) * s - 945.0) / 92160.0
    third = (((3.0 * s + 19.0) * s + 17.0) * s - 15.0) / 384.0
    second = ((5.0 * s + 16.0) * s + 3.0) / 96.0
    return z * (1.0 + n * ((s + 1.0) / 4.0 + n * (second + n * (third + n * fourth))))


@lru_cache(maxsize=4096)
def _t_cut(tail: float, degrees: float) -> float:
    """What Student's t exceeds with chance `tail`: Newton's method on ln P as a function of ln t.

    It is concave and falls, so that from the second round on the root is approached from above.
    """
    log_t = math.log(max(_expanded_t_cut(tail, max(degrees, 4.0)), 1e-300))
    for _ in range(ROUNDS):
        t = math.exp(log_t)
        beyond, density = _t_beyond(t, degrees)
        step = math.log(beyond / tail) * beyond / (t * density)
        log_t += step
        if abs(step) <= 1e-13 * max(1.0, abs(log_t)):
            break
    return math.exp(log_t)


def t_below(value: float, degrees: float) -> float:
    """The chance that Student's t stays below a value; with infinite degrees of freedom, a standard normal."""
    if math.isinf(value):
        return 1.0 if value > 0.0 else 0.0
    if math.isinf(degrees):
        return 0.5 * math.erfc(-math.sqrt(0.5) * value)
    if not degrees > 0.0 or math.isnan(value):
        return math.nan
    beyond = _t_beyond(abs(value), degrees)[0]
    return beyond if value < 0.0 else 1.0 - beyond


def _t_beyond(t: float, degrees: float) -> tuple[float, float]:
    """The chance that Student's t exceeds `t`, which is not negative; and its density there."""
    half = 0.5 * degrees
    log_beta = math.lgamma(half + 0.5) - math.lgamma(half) - 0.5 * math.log(math.pi)
    log_inside = -math.log1p(t * t / degrees)  # ln x, x = ν / (ν + t²)
    density = math.exp(log_beta + (half + 0.5) * log_inside) / math.sqrt(degrees)
    x = math.exp(log_inside)
    if x < (half + 1.0) / (half + 2.5):
        return t * density * _beta_fraction(half, 0.5, x) / (2.0 * half), density
    return 0.5 - t * density * _beta_fraction(0.5, half, -math.expm1(log_inside)), density


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function I_x(a, b) (DLMF 8.17.22), by Lentz's method."""
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, ROUNDS + 1):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / (1.0 + term * d)
            c = 1.0 + term / c
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


@lru_cache(maxsize=256)
def studentized_range_quantile(level: float, n_means: int, degrees: float = math.inf) -> float:
    """The value that the range of `n_means` normal means, in standard errors, stays below with chance `level`.

    The standard error is estimated with `degrees` degrees of freedom; infinity means that it is known.
    """
    low, high = 0.0, 2.0
    short, over = -level, studentized_range_cdf(high, n_means, degrees) - level
    while over < 0.0:
        low, high, short = high, 2.0 * high, over
        over = studentized_range_cdf(high, n_means, degrees) - level
    low_moved = True
    for _ in range(ROUNDS):
        at = (low * over - high * short) / (over - short)
        off = studentized_range_cdf(at, n_means, degrees) - level
        if abs(off) <= 1e-12 or high - low <= 1e-12 * high:
            return at
        # An end that stays twice has its distance halved, so that it moves too (the rule of Illinois).
        if off < 0.0:
            low, short, over = at, off, 0.5 * over if low_moved else over
        else:
            high, over, short = at, off, short if low_moved else 0.5 * short
        low_moved = off < 0.0
    return 0.5 * (low + high)


@lru_cache(maxsize=1)
def _nodes() -> tuple[Floats, Floats]:
    """Where, and with what weights, a function is looked at to be integrated from −1 to 1 (Gauss and Legendre)."""
    return np.polynomial.legendre.leggauss(160)


def studentized_range_cdf(q: float, n_means: int, degrees: float = math.inf) -> float:
    """The chance that the studentized range of `n_means` means stays below `q` (Lund and Lund 1983, AS 190)."""
    if math.isinf(degrees):
        return float(_range_cdf(np.array([q]), n_means)[0])
    # s = (estimated / true standard error) has density ∝ s^(ν−1) exp(−ν s²/2), narrow around 1 when ν is large.
    nodes, weights = _nodes()
    spread = 9.0 / math.sqrt(2.0 * degrees)
    start, end = max(0.0, 1.0 - spread), 1.0 + max(spread, 3.0 / math.sqrt(degrees))
    s = 0.5 * (end - start) * (nodes + 1.0) + start
    log_density = (
        0.5 * degrees * math.log(degrees)
        - math.lgamma(0.5 * degrees)
        - (0.5 * degrees - 1.0) * math.log(2.0)
        + (degrees - 1.0) * np.log(s)
        - 0.5 * degrees * s * s
    )
    return float(0.5 * (end - start) * weights @ (np.exp(log_density) * _range_cdf(q * s, n_means)))


def _range_cdf(width: Floats, n_means: int) -> Floats:
    """P(range of n standard normals < width) = n ∫ φ(z) (Φ(z + width) − Φ(z))^(n−1) dz, z the smallest of them."""
    nodes, weights = _nodes()
    z = 8.5 * nodes
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    inside = _below(z[None, :] + width[:, None]) - _below(z)[None, :]
    return np.asarray(8.5 * n_means * (inside ** (n_means - 1)) @ (weights * density))


def _below(z: Floats) -> Floats:
    """The chance that a standard normal stays below each value; from 8.4 on it is 1 to the last bit."""
    chance, some = np.ones(z.shape), z < 8.4
    chance[some] = 0.5 * np.fromiter(map(math.erfc, (-math.sqrt(0.5) * z[some]).tolist()), np.float64)
    return chance
