"""Whether the writer can write, tested by a trial write: at most one a second, shared by all requests."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.arena.commands import ProbeWriter
from tiltyard.arena.group_commit import Load
from tiltyard.arena.service import Arena

if TYPE_CHECKING:
    from concurrent.futures import Future

PATIENCE_SECONDS = 3.0
"""How long an answer of `/healthz` waits for the writer and the database."""

PROBE_SECONDS = 1.0
"""How long a trial write's result is reused, so that there is at most one a second."""

STUCK_SECONDS = 30.0
"""A writer that works on one group of requests for this long is broken, not busy: a commit takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The result of the trial write: the seconds until it was committed, None while it waits; or why it failed."""

    load: Load
    seconds: float | None = None
    trouble: str | None = None

    @property
    def works(self) -> bool:
        """Whether it writes, however slowly."""
        return self.trouble is None and self.load.group_seconds < STUCK_SECONDS


class Probes:
    """The latest trial write of a site."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: Future[int] | None = None
        self._began = 0.0
        self._ended: float | None = None

    async def writer(self, arena: Arena) -> Writer:
        """The state of the writer, after at most the timeout."""
        try:
            asked = self._latest(arena)
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(asked)), PATIENCE_SECONDS)
        except TimeoutError:
            return Writer(arena.load())
        except Exception as error:  # any error that prevents writing
            return Writer(arena.load(), trouble=str(error) or type(error).__name__)
        ended = self._ended
        return Writer(arena.load(), max(0.0, (time.monotonic() if ended is None else ended) - self._began))

    def _latest(self, arena: Arena) -> Future[int]:
        """The current or most recent trial if it is still fresh; else a new one."""
        with self._lock:
            ended = self._ended
            if self._asked is not None and (ended is None or time.monotonic() - ended < PROBE_SECONDS):
                return self._asked
            began, asked = time.monotonic(), arena.submit(ProbeWriter())
            self._asked, self._began, self._ended = asked, began, None
        asked.add_done_callback(self._note_end)
        return asked

    def _note_end(self, _: Future[int]) -> None:
        self._ended = time.monotonic()
