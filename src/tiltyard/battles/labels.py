"""Text columns by the million: codes from 64-bit hashes, without ever seeing the texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.table import MISSING, Int32s

Hashes = NDArray[np.uint64]
BLOCK = 1 << 20


class HashedLabels(Sequence[str]):
    """The labels of a column of which only the hashes are known; a label is the hash in hexadecimal."""

    def __init__(self, hashes: Hashes) -> None:
        self.hashes = hashes

    def __len__(self) -> int:
        return len(self.hashes)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> HashedLabels: ...
    def __getitem__(self, at: int | slice) -> str | HashedLabels:
        if isinstance(at, slice):
            return HashedLabels(self.hashes[at])
        return f"{int(self.hashes[at]):016x}"


def dense_codes(hashes: Hashes) -> tuple[Int32s, Hashes]:
    """Codes 0, 1, … of hash values (0 stands for missing), and the distinct hashes in order.

    A hash is spread evenly, so its leading bits are nearly the address of its code: a table indexed by them answers
    most rows at once, and only those whose leading bits are shared by two values are looked up by bisection.
    """
    distinct = _distinct(hashes)
    if not len(distinct):
        return np.full(len(hashes), MISSING, dtype=np.int32), distinct
    bits = max(1, int(np.ceil(np.log2(len(distinct)))) + 3)
    shift = np.uint64(64 - bits)
    slots = (distinct >> shift).astype(np.int64)
    table = np.full(1 << bits, MISSING, dtype=np.int32)
    table[slots] = np.arange(len(distinct), dtype=np.int32)
    codes = np.empty(len(hashes), dtype=np.int32)
    for start in range(0, len(hashes), BLOCK):
        codes[start : start + BLOCK] = _look_up(hashes[start : start + BLOCK], distinct, table, shift)
    return codes, distinct


def _distinct(hashes: Hashes) -> Hashes:
    """The distinct hashes in order, without the one for missing; block by block, to sort little at a time."""
    blocks = [_sorted_once(hashes[start : start + BLOCK]) for start in range(0, len(hashes), BLOCK)]
    distinct = _sorted_once(np.concatenate(blocks)) if blocks else hashes
    given: Hashes = distinct[distinct != 0]
    return given


def _sorted_once(hashes: Hashes) -> Hashes:
    """The distinct hashes in order: a plain sort, which is several times faster here than `numpy.unique`'s hashing."""
    ordered = np.sort(hashes)
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    once: Hashes = ordered[new]
    return once


def _look_up(hashes: Hashes, distinct: Hashes, table: Int32s, shift: np.uint64) -> Int32s:
    codes = table[(hashes >> shift).astype(np.int64)]
    unsure = np.flatnonzero(distinct[codes] != hashes)
    codes[unsure] = np.searchsorted(distinct, hashes[unsure])
    codes[hashes == 0] = MISSING
    return codes
