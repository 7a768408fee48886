"""Finding a batch whose id was never recorded, because the process ended just as it was accepted.

With a provider that stores our tag, this is immediate. Otherwise every batch of the right time and size that is not in
the journal is a candidate; its custom ids identify it, but only once it has ended. So an intent is found, certainly
absent, or undecided for now.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from tiltyard.errors import Refused
from tiltyard.llm.journal import Journal, OpenIntent, intent_of
from tiltyard.llm.open_batches import OpenBatch
from tiltyard.llm.provider import BatchProvider, BatchState

Item = TypeVar("Item")

CLOCK_SKEW_SECONDS = 300.0
"""How much the provider's clock may differ from ours."""
ACCEPT_WINDOW_SECONDS = 3600.0
"""How long after the last try a provider may still accept a batch: large files take their time."""


class Adoption:
    """Looks for lost batches among those of the account."""

    def __init__(
        self, provider: BatchProvider, journal: Journal, *, grace_seconds: float, now: Callable[[], float]
    ) -> None:
        self._provider = provider
        self._journal = journal
        self._grace_seconds = grace_seconds
        self._now = now
        self._owners: dict[str, str | None] = {}

    async def look(self, lost: Sequence[OpenBatch]) -> dict[str, str | None]:
        """The batch id of each intent that was found, None for each that has no batch; the others are undecided."""
        asked_at = self._now()
        candidates = await self._candidates(min(held.open.first_try_at for held in lost) - CLOCK_SKEW_SECONDS)
        decided: dict[str, str | None] = {}
        for held in lost:
            batch_id, waiting = await self._recognise(held.open, candidates)
            if batch_id is not None:
                decided[held.open.id] = batch_id
                candidates = [state for state in candidates if state.batch_id != batch_id]
            elif not waiting and asked_at >= self._listed_by(held):
                decided[held.open.id] = None
        return decided

    def _listed_by(self, held: OpenBatch) -> float:
        """The time from which an existing batch is certainly listed."""
        return min(held.open.last_try_at + ACCEPT_WINDOW_SECONDS, held.known_at) + self._grace_seconds

    async def _candidates(self, since: float) -> list[BatchState]:
        candidates = []
        async with _closing(self._provider.recent_batches()) as batches:
            async for state in batches:
                if state.created_at < since:
                    break
                if state.batch_id not in self._journal.batch_ids:
                    candidates.append(state)
        return candidates

    async def _recognise(self, intent: OpenIntent, candidates: Sequence[BatchState]) -> tuple[str | None, bool]:
        """The batch of this intent, and whether a possible candidate is still running."""
        waiting = False
        for state in candidates:
            if state.tag == intent.id:
                return state.batch_id, False
            if state.tag is not None or not _may_be(intent, state):
                continue
            if not await self._has_ended(state):
                waiting = True
                continue
            if await self._owner(state.batch_id) == intent.id:
                return state.batch_id, False
        return None, waiting

    async def _has_ended(self, state: BatchState) -> bool:
        """Whether a candidate has ended; a batch we may not access counts as ended."""
        try:
            return state.ended or (await self._provider.state(state.batch_id)).ended
        except Refused:
            return True

    async def _owner(self, batch_id: str) -> str | None:
        """The open intent that a batch's custom ids name; None if there is none, or we may not access it."""
        if batch_id not in self._owners:
            owner = None
            try:
                async with _closing(self._provider.results(batch_id)) as results:
                    async for custom_id, _ in results:
                        if intent_of(custom_id) in self._journal.open:
                            owner = intent_of(custom_id)
                            break
            except Refused:
                owner = None
            self._owners[batch_id] = owner
        return self._owners[batch_id]


@asynccontextmanager
async def _closing(stream: AsyncIterator[Item]) -> AsyncIterator[AsyncIterator[Item]]:
    """A stream that is closed at the end of the block, whether or not it was read completely."""
    try:
        yield stream
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()


def _may_be(intent: OpenIntent, state: BatchState) -> bool:
    """Whether time and size allow a batch to be this intent's. A size of 0 is not known yet."""
    in_time = (
        intent.first_try_at - CLOCK_SKEW_SECONDS
        <= state.created_at
        <= intent.last_try_at + ACCEPT_WINDOW_SECONDS + CLOCK_SKEW_SECONDS
    )
    return in_time and (not state.size or state.size == len(intent.intent.entries))
