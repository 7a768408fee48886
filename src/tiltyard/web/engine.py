"""The arena for the event loop: nothing here waits in a thread for a commit, so many visitors cost little."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tiltyard.arena.commands import SAFE_ID, Command, EnterVoter, ReadState
from tiltyard.arena.group_commit import SHORT_LINE
from tiltyard.arena.service import Arena, clock
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store import matchup_table
from tiltyard.arena.store.matchup_table import ShownMatchup
from tiltyard.web.shedding import LONGEST_WAIT_SECONDS, admit

R = TypeVar("R")

LAG_WEIGHT = 0.3
"""The weight of one group of answers in the estimate of how late the event loop is."""


VOTERS_REMEMBERED = 50_000
"""How many voters a process remembers as having voted, to ask the database less."""


class Engine:
    """An `Arena` for coroutines. A submitted command is executed whether or not the visitor waits for the answer.

    A command that would wait longer than `longest_wait` seconds (votes: several times as long) is refused at once.
    """

    def __init__(self, arena: Arena, longest_wait: float = LONGEST_WAIT_SECONDS) -> None:
        self.arena = arena
        self._longest_wait = longest_wait
        self._mailbox: LoopMailbox | None = None
        self._have_voted: set[str] = set()

    async def run(self, command: Command[R]) -> R:
        """The answer to a command, once it is committed."""
        loop = asyncio.get_running_loop()
        if self._mailbox is None or self._mailbox.loop is not loop:
            self._mailbox = LoopMailbox(loop)
        admit(command, self.arena.load(), self._longest_wait, self._mailbox.lag_seconds)
        self.arena.post(command, self._mailbox)
        # Not too late: the answer arrives through this loop, which goes on only when this coroutine waits.
        await self._mailbox.expect(command)
        return command.result()

    def check_room(self, cookie_hash: str) -> None:
        """Refuse a visitor whom this process does not know, if a new matchup would wait too long.

        A refusal is cheap only if it comes before the database is asked who that is: most of a crowd is refused
        several times, and comes back.
        """
        lag = 0.0 if self._mailbox is None else self._mailbox.lag_seconds
        admit(EnterVoter(cookie_hash), self.arena.load(), self._longest_wait, lag)

    async def read(self, look: Callable[[ArenaState], R]) -> R:
        """The result of `look` on the state; the writer waits meanwhile."""
        return await self.run(ReadState(look))

    async def known_voter(self, cookie_hash: str) -> str | None:
        """The voter's key for this cookie, if it was seen before."""
        return await asyncio.to_thread(self.arena.store.known_voter, cookie_hash)

    async def renew(self, older_hash: str, newer_hash: str) -> str | None:
        """The voter key of the older cookie, now moved to the newer one; None if it had none."""
        return await asyncio.to_thread(self.arena.store.renew_voter, older_hash, newer_hash, clock())

    async def forget(self, cookie_hash: str) -> bool:
        """Forget the voter of this cookie. Whether it had one."""
        return await asyncio.to_thread(self.arena.store.forget_voter, cookie_hash)

    async def shown(self, matchup_id: str, voter: str) -> ShownMatchup | None:
        """A matchup that was served to this voter."""
        if not SAFE_ID.match(matchup_id):
            return None
        return await asyncio.to_thread(matchup_table.shown_matchup, self.arena.store, matchup_id, voter)

    async def has_voted(self, voter: str) -> bool:
        """Whether this voter has voted before."""
        if voter in self._have_voted:
            return True
        if result := await asyncio.to_thread(matchup_table.has_voted, self.arena.store, voter):
            if len(self._have_voted) >= VOTERS_REMEMBERED:
                self._have_voted.clear()
            self._have_voted.add(voter)
        return result

    async def open_matchup(self, voter: str, now: int) -> ShownMatchup | None:
        """The matchup that waits for this voter's vote."""
        return await asyncio.to_thread(matchup_table.open_matchup, self.arena.store, voter, now)


class LoopMailbox:
    """Outstanding commands of one event loop; the loop is woken once for all that finish together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: dict[Command[Any], asyncio.Future[None]] = {}
        self._lag = 0.0

    @property
    def lag_seconds(self) -> float:
        """How long the loop takes to turn to a finished command; 0 while few wait: then no crowd is the cause."""
        return self._lag if len(self._waiting) > SHORT_LINE else 0.0

    def expect(self, command: Command[R]) -> asyncio.Future[None]:
        """A future that is done once the command is."""
        done = self._waiting[command] = self.loop.create_future()
        return done

    def take(self, done: Sequence[Command[Any]]) -> None:
        """Notify those who wait; called in the writing thread. A closed loop has no one to notify."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._tell, done, time.monotonic())

    def _tell(self, done: Sequence[Command[Any]], finished: float) -> None:
        self._lag += LAG_WEIGHT * (time.monotonic() - finished - self._lag)
        for command in done:
            waiting = self._waiting.pop(command)
            if not waiting.done():
                waiting.set_result(None)
