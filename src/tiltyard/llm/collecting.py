"""Collecting a batch: each reply to the sink, and what must be asked again kept for the next round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tiltyard.llm.records import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from tiltyard.llm.asking import Ask
    from tiltyard.llm.claims import Claims, OpenBatch
    from tiltyard.llm.journal import Entry, Journal, OpenIntent
    from tiltyard.llm.keeping import Keeper
    from tiltyard.llm.provider import BatchProvider


class Collector:
    """Takes replies out of ended batches.

    An intent whose replies led to further asks is closed only when those are safe (in an intent of their own, or
    answered): a crash in between collects it once more, and the sink asks the same again.
    """

    def __init__(
        self,
        provider: BatchProvider,
        journal: Journal,
        claims: Claims,
        keeper: Keeper,
        *,
        max_resubmits: int,
        notice: Callable[[str], None],
    ) -> None:
        self._provider = provider
        self._journal = journal
        self._claims = claims
        self._keeper = keeper
        self._max_resubmits = max_resubmits
        self._notice = notice
        self._tries: dict[str, int] = {}
        self._again: list[Ask] = []
        self._indebted: dict[str, OpenIntent] = {}

    def tries(self, ask: Ask) -> int:
        """How often an ask will have been in a batch when it is in the next."""
        return self._tries.get(ask.key, 1)

    def next_round(self) -> tuple[list[Ask], list[OpenIntent]]:
        """What to ask next, and the intents that can be closed once that is safe."""
        asks, intents = self._again, list(self._indebted.values())
        self._again, self._indebted = [], {}
        return asks, intents

    async def collect(self, held: OpenBatch, batch_id: str) -> None:
        """Keep every reply of an ended batch that this run asks for; interrupted, it can be begun anew."""
        strangers = 0
        async for custom_id, reply in self._provider.results(batch_id):
            found = held.get(custom_id)
            if found is not None:
                self._take(held.open, *found, reply)
                held.drop(custom_id)
            elif not held.open.owns(custom_id):
                strangers += 1
        for ask, entry in held.drain():
            self._take(held.open, ask, entry, Reply(error="missing from the batch's results"))
        if strangers:
            self._notice(f"batch {batch_id} held {strangers} replies to requests that are not ours: ignored.")
        if self._claims.remaining(held.open) == 0 and held.open.id not in self._indebted:
            self._journal.collected(held.open)

    def keep(self, ask: Ask, reply: Reply, *, promised: float = 0.0) -> bool:
        """Keep a reply; whether the sink asks something further."""
        further = self._keeper.keep(ask, reply, promised=promised)
        if further is not None:
            self._again.append(further)
        return further is not None

    def owe(self, intent: OpenIntent) -> None:
        """Something further is asked because of what this intent brought: close it only once that is safe."""
        self._indebted[intent.id] = intent

    def give_up(self, held: OpenBatch, why: str) -> None:
        """The intent came to nothing: ask its requests again, as if they had never gone out."""
        self._journal.abandoned(held.open, why)
        for ask, entry in held.drain():
            self._claims.drop(ask.key)
            self._keeper.budget.settle(self._keeper.most(ask, batched=True), 0.0)
            self._tries[ask.key] = entry.tries
            self._again.append(ask)

    def close(self, intents: list[OpenIntent]) -> None:
        """What these intents led to is safe now."""
        for intent in intents:
            if self._claims.remaining(intent) == 0:
                self._journal.collected(intent)

    def _take(self, intent: OpenIntent, ask: Ask, entry: Entry, reply: Reply) -> None:
        reply = reply if reply.batched else msgspec.structs.replace(reply, batched=True)
        promised = self._keeper.most(ask, batched=True)
        self._claims.drop(ask.key)
        self._tries.pop(ask.key, None)
        if reply.error is not None and not reply.final and entry.tries <= self._max_resubmits:
            self._keeper.ask_again(ask, reply, promised=promised)
            self._tries[ask.key] = entry.tries + 1
            self._again.append(ask)
            self.owe(intent)
        elif self.keep(ask, reply, promised=promised):
            self.owe(intent)
