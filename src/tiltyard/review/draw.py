"""Which matchups a team reviews: all of them or a random draw, with the probability that each had of being drawn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from tiltyard.errors import OptionError

DrawMethod = Literal["simple", "by-pair"]


class Drawn(NamedTuple):
    """One matchup that was drawn: its place among all, and how probable that was."""

    place: int
    probability: float


def draw(strata: Sequence[Hashable], n: int | None, method: DrawMethod, rng: np.random.Generator) -> list[Drawn]:
    """N of the matchups in random order; all of them if there are no more, or if n is None.

    `by-pair` draws from each stratum (a pair of models) in proportion to its size, and at least one of each if n allows
    it; what does not divide evenly goes to strata at random. So the probability is that of the stratum: the number of
    places that it expected to get, divided by its size.

    Parameters:
        strata: The stratum of each matchup.
        n: How many to draw.
        method: `simple` or `by-pair`.
        rng: The source of randomness.
    """
    total = len(strata)
    if n is not None and n < 1:
        raise OptionError(f"{n} matchups cannot be reviewed. Say at least 1, or leave it out for all of them.")
    if n is None or n >= total:
        return [Drawn(int(place), 1.0) for place in rng.permutation(total)]
    if method == "simple":
        return [Drawn(int(place), n / total) for place in rng.choice(total, n, replace=False)]
    members: dict[Hashable, list[int]] = {}
    for place, stratum in enumerate(strata):
        members.setdefault(stratum, []).append(place)
    sizes = np.array([len(places) for places in members.values()], dtype=np.float64)
    shares = _shares(sizes, n)
    places = np.floor(shares + 1e-9).astype(np.int64)
    left = n - int(places.sum())
    if left:
        # Systematic sampling: each stratum gets its one more place with exactly the probability that is left over.
        over = rng.permutation(len(sizes))
        ends = np.cumsum((shares - places)[over])
        picked = np.searchsorted(ends, rng.random() + np.arange(left)).clip(max=len(sizes) - 1)
        places[over[picked]] += 1
    drawn = [
        Drawn(int(place), float(share / len(among)))
        for among, count, share in zip(members.values(), places.tolist(), shares.tolist(), strict=True)
        for place in rng.choice(among, count, replace=False)
    ]
    return [drawn[place] for place in rng.permutation(n)]


def _shares(sizes: np.ndarray, n: int) -> np.ndarray:
    """How many places each stratum expects: in proportion to its size, and one at least where n is enough for that."""
    shares = n * sizes / sizes.sum()
    if n < len(sizes):
        return np.asarray(shares)
    small = shares < 1.0
    while True:
        rest = n - int(small.sum())
        shares = np.where(small, 1.0, rest * sizes / sizes[~small].sum() if (~small).any() else 1.0)
        fewer = small | (shares < 1.0)
        if (fewer == small).all():
            return np.asarray(shares)
        small = fewer
