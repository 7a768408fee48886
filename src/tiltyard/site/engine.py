"""The arena for the event loop: nothing here waits in a thread for a commit, so many visitors cost little."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from tiltyard.arena import (
    AppendEvents,
    Arena,
    ArenaState,
    Command,
    EnterVoter,
    Load,
    MatchupCommand,
    ProbeWriter,
    ReadState,
    ServeMatchup,
    TooBusy,
)
from tiltyard.site.failures import What, busy

R = TypeVar("R")

MOST_WAITING = {"matchup": 64, "page": 64, "vote": 1024}
"""So many requests may wait for the writer; then further ones of this kind are refused."""

VOTES_WAIT = 5.0
"""Votes, skips and undos may wait this many times as long as new matchups."""

PATIENCE_SECONDS = 3.0
"""How long an answer of `/healthz` waits for the writer and the database."""

PROBE_SECONDS = 1.0
"""How long a trial write's result is reused, so that there is at most one a second."""

STUCK_SECONDS = 30.0
"""A writer that works on one group of requests for this long is broken, not busy: a commit takes milliseconds."""


class TrialWrite(msgspec.Struct, frozen=True):
    """The result of the trial write: the seconds until it was committed, None while it waits; or why it failed."""

    load: Load
    seconds: float | None = None
    trouble: str | None = None

    @property
    def works(self) -> bool:
        """Whether it writes, however slowly."""
        return self.trouble is None and self.load.group_seconds < STUCK_SECONDS


class Engine:
    """An `Arena` for coroutines. A submitted command is executed whether or not the visitor waits for the answer.

    It is refused if too many wait before it, or if the writer has not turned to it within `longest_wait` seconds.
    """

    def __init__(self, arena: Arena, longest_wait: float) -> None:
        self.arena = arena
        self._longest_wait = longest_wait
        self._mailbox: LoopMailbox | None = None
        self._trial: Future[int] | None = None
        self._trial_began = 0.0
        self._trial_ended: float | None = None

    async def run(self, command: Command[R]) -> R:
        """The answer to a command, once it is committed."""
        what = _what(command)
        self.check_room(what)
        command.needs_cookie = True
        command.deadline = time.monotonic() + self._longest_wait * (VOTES_WAIT if what == "vote" else 1.0)
        loop = asyncio.get_running_loop()
        if self._mailbox is None or self._mailbox.loop is not loop:
            self._mailbox = LoopMailbox(loop)
        self.arena.post(command, self._mailbox)
        # Not too late: the answer arrives through this loop, which goes on only when this coroutine waits.
        await self._mailbox.expect(command)
        try:
            return command.result()
        except TooBusy:
            raise busy(what) from None

    def check_room(self, what: What) -> None:
        """Refuse if too many wait. That is cheap only before the database is asked who somebody is."""
        if self.arena.load().waiting >= MOST_WAITING[what]:
            raise busy(what)

    async def read(self, look: Callable[[ArenaState], R]) -> R:
        """The result of `look` on the state; the writer waits meanwhile."""
        return await self.run(ReadState(look))

    async def writer(self) -> TrialWrite:
        """The state of the writer by a trial write, after at most the timeout. All who ask share one trial."""
        ended = self._trial_ended
        try:
            if self._trial is None or (ended is not None and time.monotonic() - ended >= PROBE_SECONDS):
                self._trial_began, self._trial_ended = time.monotonic(), None
                self._trial = self.arena.submit(ProbeWriter())
                self._trial.add_done_callback(self._end_trial)
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._trial)), PATIENCE_SECONDS)
        except TimeoutError:
            return TrialWrite(self.arena.load())
        except Exception as error:  # any error that prevents writing
            return TrialWrite(self.arena.load(), trouble=str(error) or type(error).__name__)
        return TrialWrite(self.arena.load(), (self._trial_ended or time.monotonic()) - self._trial_began)

    def _end_trial(self, _: Future[int]) -> None:
        self._trial_ended = time.monotonic()


def _what(command: Command[Any]) -> What:
    if isinstance(command, MatchupCommand) or (isinstance(command, AppendEvents) and command.bodies):
        return "vote"
    return "matchup" if isinstance(command, ServeMatchup | EnterVoter) else "page"


class LoopMailbox:
    """Outstanding commands of one event loop; the loop is woken once for all that finish together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: dict[Command[Any], asyncio.Future[None]] = {}

    def expect(self, command: Command[R]) -> asyncio.Future[None]:
        """A future that is done once the command is."""
        done = self._waiting[command] = self.loop.create_future()
        return done

    def take(self, done: Sequence[Command[Any]]) -> None:
        """Notify those who wait; called in the writing thread. A closed loop has no one to notify."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._tell, done)

    def _tell(self, done: Sequence[Command[Any]]) -> None:
        for command in done:
            waiting = self._waiting.pop(command)
            if not waiting.done():
                waiting.set_result(None)
