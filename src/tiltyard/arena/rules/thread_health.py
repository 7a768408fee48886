"""Threads that survive failures: what went wrong is logged, counted and shown until a pass succeeds."""

from __future__ import annotations

import logging

from tiltyard.errors import TiltyardError

_log = logging.getLogger("tiltyard.arena")


class ThreadHealth:
    """How often the passes of one thread failed, and what is wrong with it now.

    The same failure again and again is logged at the 1st, 2nd, 4th, 8th … time, so that it cannot fill a disk.
    """

    def __init__(self, thread: str) -> None:
        self.thread = thread
        self.total = 0
        self.trouble: str | None = None
        """The error of the latest pass; None once a pass succeeds."""
        self._in_a_row = 0

    def note(self, error: BaseException) -> None:
        message = str(error) or type(error).__name__
        self._in_a_row = self._in_a_row + 1 if message == self.trouble else 1
        self.total += 1
        self.trouble = message
        if self._in_a_row & (self._in_a_row - 1) == 0:
            known = isinstance(error, TiltyardError)
            _log.error("the %s failed and continues: %s", self.thread, message, exc_info=None if known else error)

    def clear(self) -> None:
        self.trouble = None
        self._in_a_row = 0

    def pause_seconds(self, shortest: float, longest: float = 30.0) -> float:
        """How long to wait before the next pass: longer after each failure in a row."""
        return float(min(longest, shortest * 2 ** min(self._in_a_row, 10)))
