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

    `by-pair` draws from each stratum (a pair of models) in proportion to its size; what does not divide evenly goes to
    strata at random. So every matchup has the same probability, as people's labels need it, and no pair is forgotten.

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
    shares = n * sizes / total
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
