"""Names of the arrays that most modules pass around, and the order of large ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Int32s = NDArray[np.int32]


def order_of(codes: NDArray[np.integer[Any]]) -> Ints:
    """The order in which whole numbers from 0 on rise, equal ones as they stand: `argsort`, in a third of the time.

    Numbers and places are packed into one and sorted together, for which processors have instructions. Large numbers
    lose their last bits to that; the few that are equal but for these bits are sorted again.
    """
    bits = len(codes).bit_length()
    lost = max(int(codes.max(initial=0)).bit_length() + bits - 63, 0)
    packed = (codes >> lost).astype(np.int64, copy=False) << bits
    packed |= np.arange(len(codes))
    packed.sort()
    order = packed & ((1 << bits) - 1)
    if lost:
        packed >>= bits
        ordered = codes[order]
        mixed = packed[1:][(packed[1:] == packed[:-1]) & (ordered[1:] != ordered[:-1])]
        inside = np.zeros(len(codes) + 1, dtype=np.int8)
        inside[np.searchsorted(packed, mixed)] = 1
        inside[np.searchsorted(packed, mixed, side="right")] -= 1
        at = np.flatnonzero(np.cumsum(inside, dtype=np.int8))
        order[at] = order[at][np.argsort(ordered[at], kind="stable")]
    return order
