"""Vote counts, as integers, so that votes can be removed in any order without residue."""

from __future__ import annotations

from struct import Struct
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.events import Choice

Ints = NDArray[np.int32]

T = TypeVar("T")

Pair = tuple[int, int]
"""Two model numbers, the smaller first."""

CODES = {Choice.A: 0, Choice.B: 1, Choice.TIE: 2, Choice.BOTH_BAD: 3}

WON_BY_A, WON_BY_B, TIED, FAILED_BOTH = range(4)

_VOTE = Struct("5i")
"""A vote that waits to be counted: both models, prompt, code and sign."""

SETTLED_AT = 1 << 16
"""How many votes may be queued: enough to make array operations cheap, few enough to keep in memory."""

WORTH_ARRAYS = 24
"""From this many waiting votes on, adding them as arrays is faster than one by one."""


def pair_of(a: int, b: int) -> Pair:
    """The pair of two models, regardless of sides."""
    return (a, b) if a < b else (b, a)


class Grid:
    """A table of counts with room to grow; `view` is the part in use, and can be written to."""

    def __init__(self, rows: int = 0, columns: int = 0) -> None:
        self._room = np.zeros((max(rows, 8), max(columns, 8)), dtype=np.int32)
        self._rows = rows
        self._columns = columns
        self.view: Ints = self._room[:rows, :columns]

    def grow(self, rows: int, columns: int) -> None:
        if (rows, columns) == (self._rows, self._columns):
            return
        there = self._room.shape
        if rows > there[0] or columns > there[1]:
            room = np.zeros(
                [size if size <= old else max(size, 2 * old) for size, old in zip((rows, columns), there, strict=True)],
                dtype=np.int32,
            )
            room[: self._rows, : self._columns] = self.view
            self._room = room
        self._rows, self._columns = rows, columns
        self.view = self._room[:rows, :columns]

    def add(self, rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.int64] | int) -> None:
        """Add values to cells, some of which may occur more than once."""
        width = self._room.shape[1]
        np.add.at(self._room.reshape(-1), rows * width + columns, np.asarray(values, dtype=np.int32))


class UpToDate(Generic[T]):
    """An attribute `x` of something that queues changes: they are settled before `_x` is read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, instance: Any, owner: type) -> T:
        instance._settle()
        value: T = getattr(instance, self._name)
        return value


class Tallies:
    """Counts of the votes that count. Decisive means A or B; rated means A, B or TIE.

    `wins.view[i, j]` are the votes for i over j, `ties` and `both_bad` count by pair both ways. By prompt (model,
    prompt): `decisive_on`, `rated_on`, `both_bad_on`, and `half_points_on` (2 for a win, 1 for a tie).
    `pair_prompts[pair]` counts decisive votes by prompt. Votes are queued until a count is read: a replay
    then adds them thousands at a time.
    """

    revision = UpToDate[int]()
    """A number that grows whenever a count changes."""
    revised = UpToDate[NDArray[np.int64]]()
    """By model: the revision at which its counts last changed."""
    decisive_votes = UpToDate[int]()
    wins = UpToDate[Grid]()
    ties = UpToDate[Grid]()
    both_bad = UpToDate[Grid]()
    decisive_on = UpToDate[Grid]()
    rated_on = UpToDate[Grid]()
    both_bad_on = UpToDate[Grid]()
    half_points_on = UpToDate[Grid]()
    pair_prompts = UpToDate[dict[Pair, dict[int, int]]]()

    def __init__(self) -> None:
        self._wins, self._ties, self._both_bad = Grid(), Grid(), Grid()
        self._decisive_on, self._rated_on, self._both_bad_on, self._half_points_on = Grid(), Grid(), Grid(), Grid()
        self._pair_prompts: dict[Pair, dict[int, int]] = {}
        self._decisive_votes = 0
        self._waiting = bytearray()
        self._revision = 0
        self._revised: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def grow(self, models: int, prompts: int) -> None:
        if models > len(self._revised):
            self._revised = np.concatenate([self._revised, np.zeros(models - len(self._revised), dtype=np.int64)])
        for grid in (self._wins, self._ties, self._both_bad):
            grid.grow(models, models)
        for grid in (self._decisive_on, self._rated_on, self._both_bad_on, self._half_points_on):
            grid.grow(models, prompts)

    def count(self, a: int, b: int, prompt: int, choice: Choice, *, sign: int = 1) -> None:
        """Count a vote, or remove one with sign −1."""
        self._waiting += _VOTE.pack(a, b, prompt, CODES[choice], sign)
        if len(self._waiting) >= _VOTE.size * SETTLED_AT:
            self._settle()

    def restored(self) -> None:
        """Sum up what a saved state has put into the tables."""
        self._decisive_votes = int(self._wins.view.sum())

    @property
    def decisive(self) -> Ints:
        """Decisive votes of each model."""
        return np.asarray(self.wins.view.sum(axis=1) + self.wins.view.sum(axis=0), dtype=np.int32)

    @property
    def rated(self) -> Ints:
        """Rated votes of each model: decisive ones and ties."""
        return np.asarray(self.decisive + self.ties.view.sum(axis=1), dtype=np.int32)

    def pair_decisive(self, a: int, b: int) -> int:
        """Decisive votes between two models."""
        wins = self.wins.view
        return int(wins[a, b] + wins[b, a])

    def distinct_prompts(self, a: int, b: int) -> int:
        """On how many prompts two models have a decisive vote between them."""
        return len(self.pair_prompts.get(pair_of(a, b), ()))

    def _settle(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = np.frombuffer(self._waiting, dtype=np.intc).reshape(-1, 5), bytearray()
        self._revision += len(waiting)
        if len(waiting) >= WORTH_ARRAYS:
            self._count_arrays(waiting.astype(np.int64))
            return
        for a, b, prompt, code, sign in waiting.tolist():
            self._count_one(a, b, prompt, code, sign)
            self._revised[a] = self._revised[b] = self._revision

    def _count_one(self, a: int, b: int, prompt: int, code: int, sign: int) -> None:
        if code == FAILED_BOTH:
            for i, j in ((a, b), (b, a)):
                self._both_bad.view[i, j] += sign
                self._both_bad_on.view[i, prompt] += sign
            return
        self._rated_on.view[a, prompt] += sign
        self._rated_on.view[b, prompt] += sign
        if code == TIED:
            for i, j in ((a, b), (b, a)):
                self._ties.view[i, j] += sign
                self._half_points_on.view[i, prompt] += sign
            return
        winner, loser = (a, b) if code == WON_BY_A else (b, a)
        self._decisive_votes += sign
        self._wins.view[winner, loser] += sign
        self._half_points_on.view[winner, prompt] += 2 * sign
        self._decisive_on.view[a, prompt] += sign
        self._decisive_on.view[b, prompt] += sign
        count_by_prompt(self._pair_prompts, *pair_of(a, b), prompt, sign)

    def _count_arrays(self, votes: NDArray[np.int64]) -> None:
        a, b, prompt, code, sign = (np.ascontiguousarray(column) for column in votes.T)
        self._revised[a] = self._revised[b] = self._revision
        bad, tied, decisive = code == FAILED_BOTH, code == TIED, code <= WON_BY_B
        for here, pairs, on in ((bad, self._both_bad, self._both_bad_on), (tied, self._ties, self._half_points_on)):
            for i, j in ((a, b), (b, a)):
                pairs.add(i[here], j[here], sign[here])
                on.add(i[here], prompt[here], sign[here])
        for i in (a, b):
            self._rated_on.add(i[~bad], prompt[~bad], sign[~bad])
            self._decisive_on.add(i[decisive], prompt[decisive], sign[decisive])
        winner, loser = np.where(code == WON_BY_A, a, b)[decisive], np.where(code == WON_BY_A, b, a)[decisive]
        self._decisive_votes += int(sign[decisive].sum())
        self._wins.add(winner, loser, sign[decisive])
        self._half_points_on.add(winner, prompt[decisive], 2 * sign[decisive])
        for counted in _summed(winner, loser, prompt[decisive], sign[decisive]):
            count_by_prompt(self._pair_prompts, *counted)


def count_by_prompt(by_pair: dict[Pair, dict[int, int]], low: int, high: int, prompt: int, n: int) -> None:
    """Add to the count of a pair on a prompt; prompts and pairs whose count is 0 are left out."""
    prompts = by_pair.get((low, high))
    if prompts is None:
        prompts = by_pair[low, high] = {}
    result = prompts.get(prompt, 0) + n
    if result:
        prompts[prompt] = result
        return
    prompts.pop(prompt, None)
    if not prompts:
        del by_pair[low, high]


def _summed(
    i: NDArray[np.int64], j: NDArray[np.int64], prompt: NDArray[np.int64], sign: NDArray[np.int64]
) -> list[tuple[int, int, int, int]]:
    """Each pair and prompt that occurs, the smaller model first, with the sum of its signs."""
    triples = np.stack([np.minimum(i, j), np.maximum(i, j), prompt], axis=1)
    if not len(triples):
        return []
    width = triples.max(axis=0) + 1
    keys, places = np.unique((triples[:, 0] * width[1] + triples[:, 1]) * width[2] + prompt, return_inverse=True)
    sums = np.bincount(places, weights=sign).astype(np.int64)
    models, prompts = np.divmod(keys, width[2])
    lows, highs = np.divmod(models, width[1])
    return list(zip(lows.tolist(), highs.tolist(), prompts.tolist(), sums.tolist(), strict=True))
