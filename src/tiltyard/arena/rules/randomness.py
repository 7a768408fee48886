"""Random ids and seeds, drawn from the system many at a time.

A draw is a call of the system, which lets other threads run: the writer would wait for its turn again after each one.
A process that is forked starts with an empty stock, so that no two processes have the same numbers.
"""

from __future__ import annotations

import base64
import os

ID_BYTES = 18
SEED_BITS = 62
AT_ONCE = 256

_stock: list[bytes] = []


def random_id() -> str:
    """An unguessable name: 144 random bits."""
    return base64.urlsafe_b64encode(_draw()).decode()


def random_seed() -> int:
    """A seed of 62 random bits."""
    return int.from_bytes(_draw()) >> (8 * ID_BYTES - SEED_BITS)


def _draw() -> bytes:
    while True:
        try:
            return _stock.pop()
        except IndexError:  # another thread may empty it again before this one takes its own
            drawn = os.urandom(ID_BYTES * AT_ONCE)
            _stock.extend(drawn[start : start + ID_BYTES] for start in range(0, len(drawn), ID_BYTES))


os.register_at_fork(after_in_child=_stock.clear)
