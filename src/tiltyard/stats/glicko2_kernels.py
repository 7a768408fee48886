"""The loop of Glicko-2, written once to run plain or compiled; `glicko2` is the front.

Steps are those of Glickman, "Example of the Glicko-2 system" (2012, revised 2022). Ratings and deviations stay on the
1500 scale in the arrays, and step 2 is done where a number is used: going back and forth once per run would make a
log split in two end in other bits than one run.

A battle of weight w is a rating period of length w: its surprise, its information and the drift of that period all
count w times. Drift must shrink too, or a flood of weightless battles would raise a deviation without end. A weight of
1 gives the same bits as no weight.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tiltyard.stats.comparisons import Codes
from tiltyard.stats.compiled import compiled
from tiltyard.types import Floats

NO_INFORMATION = 1e-20
"""Less information than this in a game (a gap above 8,000 points) counts as this much, so that step 4 stays finite."""


class Rules(NamedTuple):
    """The settings that the loops need, in a form that numba takes."""

    scale: float
    tau: float
    deviation_min: float
    deviation_max: float
    epsilon: float
    max_iterations: int


def seen_from(
    rating: float, rival_rating: float, rival_deviation: float, score: float, scale: float
) -> tuple[float, float]:
    """One game's surprise g·(s − E) and information g²·E·(1 − E): the terms that steps 3, 4 and 7 add up.

    E is taken from exp(−|z|), which cannot overflow, and E(1 − E) from it too: as a product it would be 0 at z = 37.
    """
    phi = rival_deviation / scale
    g = 1.0 / math.sqrt(1.0 + 3.0 * phi * phi / (math.pi * math.pi))
    z = g * (rating - rival_rating) / scale
    odds = math.exp(-abs(z))
    expected = 1.0 / (1.0 + odds) if z >= 0.0 else odds / (1.0 + odds)
    return g * (score - expected), g * g * odds / ((1.0 + odds) * (1.0 + odds))


def slope(x: float, a: float, phi2: float, v: float, delta2: float, tau: float) -> float:
    """The function f of step 5.1, whose root is the logarithm of the new squared volatility."""
    e = math.exp(x)
    total = phi2 + v + e
    return (e / total) * ((delta2 - phi2 - v - e) / (2.0 * total)) - (x - a) / (tau * tau)


def new_volatility(phi2: float, v: float, delta2: float, volatility: float, rules: Rules) -> float:
    """Step 5: the new volatility, by the Illinois method, finished by bisection if that takes too long.

    The loop that seeks the second end ends, because the first term of f is never below −1/2. The paper returns A; the
    last point, B, is nearer to the root at no cost. That matters here: A is off by up to epsilon, to the same side each
    time, and thousands of battles add it up (after 10,000, the volatility was off by 0.1 %).
    """
    tau = rules.tau
    a = math.log(volatility * volatility)  # step 5.1
    A, f_A = a, slope(a, a, phi2, v, delta2, tau)
    if delta2 > phi2 + v:  # step 5.2
        B = math.log(delta2 - phi2 - v)
        f_B = (a - B) / (tau * tau)  # the first term of f is 0 there
    else:
        B = a - tau
        f_B = slope(B, a, phi2, v, delta2, tau)
        while f_B < 0.0:
            B -= tau
            f_B = slope(B, a, phi2, v, delta2, tau)
    for _ in range(rules.max_iterations):  # step 5.4
        if abs(B - A) <= rules.epsilon:
            return math.exp(0.5 * B)
        C = A + (A - B) * f_A / (f_B - f_A)
        f_C = slope(C, a, phi2, v, delta2, tau)
        if f_C * f_B <= 0.0:
            A, f_A = B, f_B
        else:
            f_A *= 0.5
        B, f_B = C, f_C
    return math.exp(0.5 * bisected(A, B, a, phi2, v, delta2, tau))


def bisected(A: float, B: float, a: float, phi2: float, v: float, delta2: float, tau: float) -> float:
    """The root of f between A and B, where f has different signs; halving the bracket down to nothing cannot fail."""
    positive_at_A = slope(A, a, phi2, v, delta2, tau) > 0.0
    middle = 0.5 * (A + B)
    while middle not in (A, B):
        if (slope(middle, a, phi2, v, delta2, tau) > 0.0) == positive_at_A:
            A = middle
        else:
            B = middle
        middle = 0.5 * (A + B)
    return middle


def clamped(deviation: float, rules: Rules) -> float:
    """The deviation, kept within its limits."""
    return min(max(deviation, rules.deviation_min), rules.deviation_max)


def updated(
    rating: float,
    deviation: float,
    volatility: float,
    surprise: float,
    information: float,
    length: float,
    rules: Rules,
) -> tuple[float, float, float]:
    """Steps 3 to 8 for one model, from the sums of surprise and information over its games.

    `length` is how much of a rating period passed: the share of the volatility that is added in step 6.
    """
    phi = deviation / rules.scale
    phi2 = phi * phi
    v = 1.0 / max(information, NO_INFORMATION)  # step 3
    delta = v * surprise  # step 4
    sigma = new_volatility(phi2, v, delta * delta, volatility, rules)  # step 5
    phi2_new = 1.0 / (1.0 / (phi2 + length * (sigma * sigma)) + information)  # steps 6 and 7
    moved = rating + rules.scale * phi2_new * surprise  # steps 7 and 8
    return moved, clamped(rules.scale * math.sqrt(phi2_new), rules), sigma


@compiled
def rate_one_by_one(
    a: Codes,
    b: Codes,
    score_a: Floats,
    weight: Floats,
    ratings: Floats,
    deviations: Floats,
    volatilities: Floats,
    rules: Rules,
    history: Floats,
) -> None:
    """Every battle is its own rating period for its two models, both updated from their states before it.

    `weight` has a weight above 0 for each battle, or no rows: then all weigh 1. Row t of `history`, if it has rows,
    becomes the two ratings and the two deviations after battle t.
    """
    keep = history.shape[0] > 0
    weighted = weight.shape[0] > 0
    for t in range(a.shape[0]):
        i, j = a[t], b[t]
        w = weight[t] if weighted else 1.0
        surprise, information = seen_from(ratings[i], ratings[j], deviations[j], score_a[t], rules.scale)
        after_i = updated(ratings[i], deviations[i], volatilities[i], w * surprise, w * information, w, rules)
        surprise, information = seen_from(ratings[j], ratings[i], deviations[i], 1.0 - score_a[t], rules.scale)
        after_j = updated(ratings[j], deviations[j], volatilities[j], w * surprise, w * information, w, rules)
        ratings[i], deviations[i], volatilities[i] = after_i
        ratings[j], deviations[j], volatilities[j] = after_j
        if keep:
            history[t, 0], history[t, 1] = ratings[i], ratings[j]
            history[t, 2], history[t, 3] = deviations[i], deviations[j]
