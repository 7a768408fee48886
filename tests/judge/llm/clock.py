"""Time that passes only when everyone waits: an hour of polling takes a millisecond, always the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")
START = 1_000.0
"""Small, so that a sum of seconds is exact to the nanosecond by which a loop compares."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next appointment instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_now = START
        really_select = self._selector.select

        def select(timeout: float | None = None) -> Any:
            events = really_select(0)
            if not events and timeout is None:
                raise RuntimeError("everyone waits, and nothing will ever happen")
            if not events and timeout is not None and timeout > 0:
                self._virtual_now += timeout
            return events

        self._selector.select = select

    def time(self) -> float:
        return self._virtual_now


def run_virtually(work: Callable[[Callable[[], float]], Coroutine[Any, Any, Answer]]) -> Answer:
    """What `work(now)` gives, run on a virtual clock."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work(loop.time))
