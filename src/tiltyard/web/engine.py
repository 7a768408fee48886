"""The arena as the event loop asks it: nothing here waits in a thread for a commit, so many visitors cost little."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

from tiltyard.arena import asks, steps
from tiltyard.arena.service import clock
from tiltyard.arena.store import showing
from tiltyard.web.shedding import LONGEST_WAIT_SECONDS, admit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tiltyard.arena.asks import Receipt, Served
    from tiltyard.arena.effect import Effect
    from tiltyard.arena.events import Choice
    from tiltyard.arena.group_commit import Ask
    from tiltyard.arena.service import Arena
    from tiltyard.arena.state import ArenaState
    from tiltyard.arena.store.showing import ShownMatchup
    from tiltyard.arena.store.visitors import Quota

R = TypeVar("R")

EFFECTS_KEPT = 20_000
"""Votes whose effect this process can still tell: a voter looks at it within seconds."""


class Engine:
    """An `Arena` for coroutines. What is asked is done, whether or not the visitor waits for the answer.

    What would wait longer than `longest_wait` seconds (votes: several times as long) is refused at once.
    """

    def __init__(self, arena: Arena, longest_wait: float = LONGEST_WAIT_SECONDS) -> None:
        self.arena = arena
        self._longest_wait = longest_wait
        self._mailbox: LoopMailbox | None = None
        self._effects: OrderedDict[str, Effect] = OrderedDict()

    async def serve(self, voter: str, quotas: Sequence[Quota]) -> Served:
        """A matchup for this voter, committed."""
        return await self._ask(steps.serve(voter, quotas))

    async def vote(
        self, matchup_id: str, voter: str, choice: Choice, quotas: Sequence[Quota], *, reveal: bool
    ) -> Receipt:
        """The names, once the vote is committed; without `reveal`, until when it can be undone."""
        return await self._ask(steps.vote(matchup_id, voter, choice, quotas, reveal=reveal))

    async def reveal(self, matchup_id: str, voter: str) -> Receipt:
        """The names of a vote, once it is committed that they were shown."""
        return await self._ask(steps.reveal(matchup_id, voter))

    def effect(self, matchup_id: str, compute: Callable[[], Effect | None]) -> Effect | None:
        """What a vote did, fixed when it was asked for first: figures that were published before the vote counted."""
        found = self._effects.get(matchup_id)
        if found is None and (found := compute()) is not None:
            self._effects[matchup_id] = found
            while len(self._effects) > EFFECTS_KEPT:
                self._effects.popitem(last=False)
        return found

    async def skip(self, matchup_id: str, voter: str, quotas: Sequence[Quota]) -> None:
        """Pass a matchup."""
        await self._ask(steps.skip(matchup_id, voter, quotas))

    async def undo(self, matchup_id: str, voter: str, quotas: Sequence[Quota]) -> None:
        """Take back a fresh vote whose names were held back."""
        await self._ask(steps.undo(matchup_id, voter, quotas))

    async def enter(self, cookie_hash: str, address: str, quotas: Sequence[Quota]) -> str:
        """The key of whoever holds this cookie; a new one on the first visit, if the quotas allow one more."""
        return await self._ask(steps.enter(cookie_hash, address, quotas))

    async def read(self, look: Callable[[ArenaState], R]) -> R:
        """What `look` makes of the state; the writer waits meanwhile."""
        return await self._ask(asks.Read(look))

    async def settle(self) -> None:
        """Give everything that was acknowledged its place in the log, other processes' votes included."""
        await self._ask(asks.Append(()))

    async def known_voter(self, cookie_hash: str) -> str | None:
        """The key of whoever holds this cookie, if it was seen before."""
        return await asyncio.to_thread(self.arena.store.known_voter, cookie_hash)

    async def renew(self, older_hash: str, newer_hash: str) -> str | None:
        """The key of whoever held the older cookie, which from now on belongs to the newer one; None if nobody did."""
        return await asyncio.to_thread(self.arena.store.renew_voter, older_hash, newer_hash, clock())

    async def forget(self, cookie_hash: str) -> bool:
        """Forget who holds this cookie. Whether anybody did."""
        return await asyncio.to_thread(self.arena.store.forget_voter, cookie_hash)

    async def shown(self, matchup_id: str, voter: str) -> ShownMatchup | None:
        """A matchup that was served to this voter."""
        if not steps.SAFE_ID.match(matchup_id):
            return None
        return await asyncio.to_thread(showing.shown_matchup, self.arena.store, matchup_id, voter)

    async def open_matchup(self, voter: str, now: int) -> ShownMatchup | None:
        """The matchup that waits for this voter's vote."""
        return await asyncio.to_thread(showing.open_matchup, self.arena.store, voter, now)

    async def _ask(self, ask: Ask[R]) -> R:
        admit(ask, self.arena.load(), self._longest_wait)
        loop = asyncio.get_running_loop()
        if self._mailbox is None or self._mailbox.loop is not loop:
            self._mailbox = LoopMailbox(loop)
        self.arena.post(ask, self._mailbox)
        await self._mailbox.expect(ask)  # in time: the loop hears of answers only when this waits
        return ask.result()


class LoopMailbox:
    """Requests of one event loop that are on their way; the loop is woken once for all that are done together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: dict[Ask[Any], asyncio.Future[None]] = {}

    def expect(self, ask: Ask[R]) -> asyncio.Future[None]:
        """What is done when the request is."""
        done = self._waiting[ask] = self.loop.create_future()
        return done

    def take(self, done: Sequence[Ask[Any]]) -> None:
        """Called in the writing thread. A loop that is closed has nobody left to tell."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._tell, done)

    def _tell(self, done: Sequence[Ask[Any]]) -> None:
        for ask in done:
            waiting = self._waiting.pop(ask)
            if not waiting.done():
                waiting.set_result(None)
