"""The keys of very many questions in a few bytes each, and finding a question by its key."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np

KEY_BYTES = 32
"""A key is a SHA-256, written in 64 hexadecimal digits."""


class QuestionKeys(Sequence[tuple[str, ...]]):
    """By case, the keys of its questions: forward first, then swapped where both orders are asked.

    A question's number is its place among all: `per_case` times the case's, plus one for the swapped. Cases with the
    same texts share keys; `number_of` then says the first.
    """

    def __init__(self, pairs: Iterable[Sequence[str]], per_case: int) -> None:
        self.per_case = per_case
        self._bytes = bytearray()
        for pair in pairs:
            for key in pair:
                self._bytes += bytes.fromhex(key)
        heads = np.frombuffer(self._bytes, ">u8")[:: KEY_BYTES // 8].astype(np.uint64)
        order = np.argsort(heads, kind="stable")
        self._heads = array("Q", heads[order].tobytes())
        self._order = array("I", order.astype(np.uint32).tobytes())

    @property
    def n_questions(self) -> int:
        """How many questions there are, those with the same key counted each."""
        return len(self._order)

    def __len__(self) -> int:
        return len(self._order) // self.per_case

    @overload
    def __getitem__(self, place: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> list[tuple[str, ...]]: ...
    def __getitem__(self, place: int | slice) -> tuple[str, ...] | list[tuple[str, ...]]:
        numbers = range(len(self))[place]
        return self._pair(numbers) if isinstance(numbers, int) else [self._pair(number) for number in numbers]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return map(self._pair, range(len(self)))

    def key(self, number: int) -> str:
        """The key of a question."""
        return self._raw(number).hex()

    def number_of(self, key: str) -> int | None:
        """The first question with this key, or None."""
        try:
            raw = bytes.fromhex(key)
        except ValueError:
            return None
        head = int.from_bytes(raw[:8])
        place = bisect_left(self._heads, head)
        while place < len(self._heads) and self._heads[place] == head:
            if self._raw(self._order[place]) == raw:
                return self._order[place]
            place += 1
        return None

    def is_first(self, number: int) -> bool:
        """Whether no question before this one has its key."""
        return self.number_of(self.key(number)) == number

    def _raw(self, number: int) -> bytes:
        return bytes(self._bytes[KEY_BYTES * number : KEY_BYTES * (number + 1)])

    def _pair(self, place: int) -> tuple[str, ...]:
        first = self.per_case * place
        return tuple(self.key(number) for number in range(first, first + self.per_case))
