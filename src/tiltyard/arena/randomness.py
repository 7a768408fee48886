"""Random ids and seeds, drawn from the system many at a time.

A draw is a call of the system, which lets other threads run: the writer would wait for its turn again after each one.
A process that is forked starts with an empty stock, so that no two processes have the same numbers.
"""

from __future__ import annotations

import base64
import os

ID_BYTES = 18
"""144 random bits."""

SEED_BYTES = 8
SEED_BITS = 62

AT_ONCE = 256

_ids: list[str] = []
_seeds: list[int] = []


def random_id() -> str:
    """An unguessable name: 144 random bits."""
    while True:
        try:
            return _ids.pop()
        except IndexError:  # another thread may empty it again before this one takes its own
            letters = base64.urlsafe_b64encode(os.urandom(ID_BYTES * AT_ONCE)).decode()
            length = len(letters) // AT_ONCE
            _ids.extend(letters[start : start + length] for start in range(0, len(letters), length))


def random_seed() -> int:
    """A seed of 62 random bits."""
    while True:
        try:
            return _seeds.pop()
        except IndexError:
            drawn = os.urandom(SEED_BYTES * AT_ONCE)
            pieces = (drawn[start : start + SEED_BYTES] for start in range(0, len(drawn), SEED_BYTES))
            _seeds.extend(int.from_bytes(piece, "big") >> (8 * SEED_BYTES - SEED_BITS) for piece in pieces)


def forget_stock() -> None:
    """Throw away what was drawn ahead."""
    _ids.clear()
    _seeds.clear()


os.register_at_fork(after_in_child=forget_stock)
