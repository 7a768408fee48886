"""What votes add up to: whole numbers, so that a vote can be taken out again in any order without a trace."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.arena.events import Choice
from tiltyard.arena.grid import Grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int32]

Pair = tuple[int, int]
"""Two model numbers, the smaller first."""


def pair_of(a: int, b: int) -> Pair:
    """The pair of two models, whichever side they sat on."""
    return (a, b) if a < b else (b, a)


class Tallies:
    """Counts of the votes that count. Decisive means A or B; rated means A, B or TIE.

    `wins.view[i, j]` are the votes for i over j, `ties` and `both_bad` count by pair both ways. By prompt (model,
    prompt): `decisive_on`, `rated_on`, `both_bad_on`, and `half_points_on` (2 for a win, 1 for a tie).
    `pair_prompts[pair]` counts decisive votes by prompt.
    """

    def __init__(self) -> None:
        self.wins, self.ties, self.both_bad = Grid(), Grid(), Grid()
        self.decisive_on, self.rated_on, self.both_bad_on, self.half_points_on = Grid(), Grid(), Grid(), Grid()
        self.pair_prompts: dict[Pair, Counter[int]] = {}

    def grow(self, models: int, prompts: int) -> None:
        """Make room for more models and prompts."""
        for grid in (self.wins, self.ties, self.both_bad):
            grid.grow(models, models)
        for grid in (self.decisive_on, self.rated_on, self.both_bad_on, self.half_points_on):
            grid.grow(models, prompts)

    def count(self, a: int, b: int, prompt: int, choice: Choice, *, sign: int = 1) -> None:
        """Count a vote, or with sign −1 take one out."""
        if choice is Choice.BOTH_BAD:
            for i, j in ((a, b), (b, a)):
                self.both_bad.view[i, j] += sign
                self.both_bad_on.view[i, prompt] += sign
            return
        for i in (a, b):
            self.rated_on.view[i, prompt] += sign
        if choice is Choice.TIE:
            for i, j in ((a, b), (b, a)):
                self.ties.view[i, j] += sign
                self.half_points_on.view[i, prompt] += sign
            return
        winner, loser = (a, b) if choice is Choice.A else (b, a)
        self.wins.view[winner, loser] += sign
        self.half_points_on.view[winner, prompt] += 2 * sign
        self.decisive_on.view[a, prompt] += sign
        self.decisive_on.view[b, prompt] += sign
        self._count_pair(pair_of(a, b), prompt, sign)

    def _count_pair(self, pair: Pair, prompt: int, sign: int) -> None:
        prompts = self.pair_prompts.setdefault(pair, Counter())
        prompts[prompt] += sign
        if not prompts[prompt]:
            del prompts[prompt]

    @property
    def decisive(self) -> Ints:
        """Decisive votes of each model."""
        return np.asarray(self.wins.view.sum(axis=1) + self.wins.view.sum(axis=0), dtype=np.int32)

    @property
    def rated(self) -> Ints:
        """Rated votes of each model: decisive ones and ties."""
        return np.asarray(self.decisive + self.ties.view.sum(axis=1), dtype=np.int32)

    @property
    def decisive_pairs(self) -> Ints:
        """Decisive votes of each pair, both ways."""
        return np.asarray(self.wins.view + self.wins.view.T)

    def pair_decisive(self, a: int, b: int) -> int:
        """Decisive votes between two models."""
        return int(self.wins.view[a, b] + self.wins.view[b, a])

    def distinct_prompts(self, a: int, b: int) -> int:
        """On how many prompts two models have a decisive vote between them."""
        return len(self.pair_prompts.get(pair_of(a, b), ()))
