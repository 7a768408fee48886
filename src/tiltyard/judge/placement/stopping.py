"""When to stop asking the judge: what `until` means, and what looking several times costs.

Stopping because the interval is narrow costs nothing: its width hardly depends on the model's rating, so its coverage
stays the same (from `FIRST_STOP` battles on). Stopping because the model can be told apart from its neighbours depends
on the estimate itself: with enough looks, a lucky streak separates equal models. So with a rank rule every look uses a
wider interval (Pocock 1977). Its constant depends on the planned number of looks, so that number is fixed before the
first verdict.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np

from tiltyard.errors import OptionError
from tiltyard.stats import normal_quantile
from tiltyard.types import Floats

FIRST_STOP = 60
"""The fewest judged battles at which a run may stop: with fewer, the width itself is too noisy."""

FIRST_ROUND = 10
"""The fewest battles of the first round: fewer say too little to choose the next opponents."""

OPENING = (10, 20, 40)
"""Where a first round of at least twice as many battles is split: the earlier a first estimate, the fewer battles are
wasted on opponents far away. A run may not stop at any of these."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_PLACES = re.compile(r"rank: *([0-9]+)")


class Until(msgspec.Struct, frozen=True):
    """The stopping rule of a placement: an interval of at most `limit` points, or a rank interval of `limit` places.

    A rank interval from place 3 to place 7 holds five places; `rank:1` asks for the exact place.
    """

    kind: Literal["width", "rank"]
    """`width` of the interval in points, or `rank`: places."""
    limit: float
    """Points of the interval, or places of the rank interval, at most."""

    @classmethod
    def parse(cls, text: str) -> Until:
        """The rule that a user wrote: `80` for an interval's width in points, `rank:5` for places."""
        if (places := _PLACES.fullmatch(text.strip())) and int(places[1]) > 0:
            return cls("rank", int(places[1]))
        if _NUMBER.fullmatch(text.strip()) and 0.0 < float(text) < math.inf:
            return cls("width", float(text))
        raise OptionError(
            f"until {text!r} is neither a width nor a number of places. "
            "Write the points that the interval may be wide (80), or the places that it may span (rank:5)."
        )

    def __str__(self) -> str:
        return f"rank:{self.limit:.0f}" if self.kind == "rank" else f"{self.limit:g}"


def decide(
    until: Until | None,
    *,
    battles: int,
    interval: tuple[float | None, float | None],
    ranks: tuple[int, int],
) -> str | None:
    """Why to stop after this look, or None to continue.

    `battles` are those judged so far (below `FIRST_STOP` nothing stops). `interval` is the rating's, in points, None if
    a side is open; `ranks` the best and worst place. For a rank rule both must have been made with the level of
    `level_at_each_look`, for a width rule with the ordinary one.
    """
    if until is None or battles < FIRST_STOP:
        return None
    if until.kind == "rank":
        best, worst = ranks
        if worst - best + 1 <= until.limit:
            places = "1 place" if until.limit == 1 else f"{until.limit:.0f} places"
            return f"the rank interval spans no more than {places}"
        return None
    low, high = interval
    if low is not None and high is not None and high - low <= until.limit:
        return f"the interval is no wider than {until.limit:g} points"
    return None


def round_sizes(n_battles: int, looks: int, *, opening: Sequence[int] = OPENING) -> tuple[int, ...]:
    """How many battles to judge in each round: `looks` rounds of about equal size, the first no smaller than ten.

    After each round the rating is computed, the next opponents are chosen and, from `FIRST_STOP` battles on, the run
    may stop. A large first round is split at the battles of `opening`, so that not all of it is chosen blindly: 100
    battles in 5 looks are 10, 10, 20, 20, 20, 20. Few battles make fewer rounds: 12 battles in 5 looks are 10, 1, 1.
    """
    if n_battles < 1 or looks < 1:
        raise OptionError(f"{n_battles} battles in {looks} looks cannot be planned. Ask for at least one of each.")
    first = min(n_battles, max(FIRST_ROUND, math.ceil(n_battles / looks)))
    marks = [0, *(mark for mark in opening if 2 * mark <= first), first]
    rest = n_battles - first
    later = min(looks - 1, rest)
    even = (rest // later + (place < rest % later) for place in range(later))
    return (*(end - start for start, end in pairwise(marks)), *even)


def stopping_looks(sizes: Sequence[int]) -> int:
    """After how many of these rounds a run may stop, the last included: the looks that Pocock's constant counts."""
    judged = np.cumsum(sizes)
    return max(1, int((judged >= FIRST_STOP).sum()))


def level_at_each_look(level: float, looks: int) -> float:
    """The level of the interval at each look, so that all looks together have coverage `level`.

    0.95 for one look, 0.9842 for five. It applies to quantiles of the normal, of t and of the studentized range alike.
    """
    return math.erf(critical(level, looks) / math.sqrt(2.0))


@lru_cache(maxsize=256)
def critical(level: float, looks: int) -> float:
    """Pocock's constant: the half-width of the interval at each look, in standard errors.

    Whenever the run stops, the interval then contains the true value with probability at least `level`: 1.960 for one
    look, 2.413 for five, 2.555 for ten (two-sided 0.95). Looks after equal amounts of information are assumed; a first
    look that comes later than that (never before `FIRST_STOP` battles), and errors that all looks share (the judge's
    idiosyncrasy, the opponents' own ratings), make the looks more alike and the constant conservative.

    Parameters:
        level: Confidence level.
        looks: How many looks were planned.
    """
    if looks < 1 or not 0.0 < level < 1.0:
        raise OptionError(f"{looks} looks at level {level:g} have no critical value. At least one look, 0 < level < 1.")
    low, high = normal_quantile(level), normal_quantile(1.0 - (1.0 - level) / looks)
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if chance_to_stay_inside(middle, looks) < level:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def chance_to_stay_inside(cut: float, looks: int) -> float:
    """P(|S_k| < cut·√k for k = 1 … looks), S_k the sum of k independent standard normals.

    By recursion over the looks (Armitage, McPherson and Rowe 1969): the density of the sums that have stayed inside so
    far is kept on the nodes of a Gauss–Legendre rule, and convolved with one more normal at each look.
    """
    nodes, weights = np.polynomial.legendre.leggauss(int(24 + 3 * cut * math.sqrt(looks)))
    sums = cut * nodes
    density = _normal_density(sums)
    for look in range(2, looks + 1):
        carried = cut * math.sqrt(look - 1) * weights * density
        reached = cut * math.sqrt(look) * nodes
        density = _normal_density(reached[:, None] - sums[None, :]) @ carried
        sums = reached
    return float(cut * math.sqrt(looks) * weights @ density)


def _normal_density(z: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi))
