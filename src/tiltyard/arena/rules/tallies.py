"""Vote counts, as integers, so that votes can be removed in any order without residue."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.rules.events import Choice

Ints = NDArray[np.int32]

Pair = tuple[int, int]
"""Two model numbers, the smaller first."""


def pair_of(a: int, b: int) -> Pair:
    """The pair of two models, regardless of sides."""
    return (a, b) if a < b else (b, a)


class Grid:
    """A table of counts with room to grow; `view` is the part in use, and can be written to."""

    def __init__(self) -> None:
        self._room = np.zeros((8, 8), dtype=np.int32)
        self.view: Ints = self._room[:0, :0]

    def grow(self, rows: int, columns: int) -> None:
        before = self.view
        if before.shape == (rows, columns):
            return
        there = self._room.shape
        if rows > there[0] or columns > there[1]:
            size = [
                old if need <= old else max(need, 2 * old) for need, old in zip((rows, columns), there, strict=True)
            ]
            self._room = np.zeros(size, dtype=np.int32)
            self._room[: before.shape[0], : before.shape[1]] = before
        self.view = self._room[:rows, :columns]


class Tallies:
    """Counts of the votes that count. Decisive means A or B; rated means A, B or TIE.

    `wins.view[i, j]` are the votes for i over j, `ties` and `both_bad` count by pair both ways. By prompt (model,
    prompt): `decisive_on`, `rated_on`, `both_bad_on`, and `half_points_on` (2 for a win, 1 for a tie).
    `pair_prompts[pair]` counts decisive votes by prompt.
    """

    def __init__(self) -> None:
        self.wins, self.ties, self.both_bad = Grid(), Grid(), Grid()
        self.decisive_on, self.rated_on, self.both_bad_on, self.half_points_on = Grid(), Grid(), Grid(), Grid()
        self.pair_prompts: dict[Pair, dict[int, int]] = {}
        self.decisive_votes = 0
        self.revision = 0
        """A number that grows whenever a count changes."""
        self.revised: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """By model: the revision at which its counts last changed."""

    def grow(self, models: int, prompts: int) -> None:
        if models > len(self.revised):
            self.revised = np.concatenate([self.revised, np.zeros(models - len(self.revised), dtype=np.int64)])
        for grid in (self.wins, self.ties, self.both_bad):
            grid.grow(models, models)
        for grid in (self.decisive_on, self.rated_on, self.both_bad_on, self.half_points_on):
            grid.grow(models, prompts)

    def count(self, a: int, b: int, prompt: int, choice: Choice, *, sign: int = 1) -> None:
        """Count a vote, or remove one with sign −1."""
        self.revision += 1
        self.revised[a] = self.revised[b] = self.revision
        if choice is Choice.BOTH_BAD:
            for i, j in ((a, b), (b, a)):
                self.both_bad.view[i, j] += sign
                self.both_bad_on.view[i, prompt] += sign
            return
        self.rated_on.view[a, prompt] += sign
        self.rated_on.view[b, prompt] += sign
        if choice is Choice.TIE:
            for i, j in ((a, b), (b, a)):
                self.ties.view[i, j] += sign
                self.half_points_on.view[i, prompt] += sign
            return
        winner, loser = (a, b) if choice is Choice.A else (b, a)
        self.decisive_votes += sign
        self.wins.view[winner, loser] += sign
        self.half_points_on.view[winner, prompt] += 2 * sign
        self.decisive_on.view[a, prompt] += sign
        self.decisive_on.view[b, prompt] += sign
        count_by_prompt(self.pair_prompts, pair_of(a, b), prompt, sign)

    @property
    def decisive(self) -> Ints:
        return np.asarray(self.wins.view.sum(axis=1) + self.wins.view.sum(axis=0), dtype=np.int32)

    @property
    def rated(self) -> Ints:
        """Rated votes of each model: decisive ones and ties."""
        return np.asarray(self.decisive + self.ties.view.sum(axis=1), dtype=np.int32)

    def pair_decisive(self, a: int, b: int) -> int:
        wins = self.wins.view
        return int(wins[a, b] + wins[b, a])

    def distinct_prompts(self, a: int, b: int) -> int:
        """On how many prompts two models have a decisive vote between them."""
        return len(self.pair_prompts.get(pair_of(a, b), ()))


def count_by_prompt(by_pair: dict[Pair, dict[int, int]], pair: Pair, prompt: int, n: int) -> None:
    """Add to the count of a pair on a prompt; prompts and pairs whose count is 0 are left out."""
    prompts = by_pair.setdefault(pair, {})
    result = prompts.get(prompt, 0) + n
    if result:
        prompts[prompt] = result
        return
    prompts.pop(prompt, None)
    if not prompts:
        del by_pair[pair]
