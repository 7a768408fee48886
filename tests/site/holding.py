"""Keeping the writer busy, for tests of what happens meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.forked import PATIENCE_SECONDS
from tiltyard.arena import Arena
from tiltyard.arena.writing import commands


@contextmanager
def held(arena: Arena, waiting: int = 0) -> Iterator[None]:
    """While the block runs the writer is at one request, and so many more wait for it."""
    started, go_on = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        started.set()
        go_on.wait(PATIENCE_SECONDS)

    asked = [arena.submit(commands.ReadState(hold))]
    assert started.wait(PATIENCE_SECONDS)
    asked += [arena.submit(commands.ReadState(lambda _: None)) for _ in range(waiting)]
    try:
        yield
    finally:
        go_on.set()
        for one in asked:
            one.result(PATIENCE_SECONDS)
