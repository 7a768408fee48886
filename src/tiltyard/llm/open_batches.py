"""Submitted batches: which asks they hold, and how they are collected when they have ended.

Each reply goes to the sink; what must be asked again is kept for the next round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from tiltyard.errors import ModelError, TryLater
from tiltyard.llm.accounting import NO_TOKENS, NOTHING, CostEstimate, Keeper
from tiltyard.llm.asking import Ask, Recall, plural
from tiltyard.llm.journal import Entry, Journal, OpenIntent
from tiltyard.llm.provider import BatchProvider
from tiltyard.llm.records import UNREADABLE, Reply

READINGS = 3
"""How often results with unreadable lines are read: lines that were garbled on their way are whole the next time."""
EQUAL_FAILURES = 5
"""When what came for a batch was cut off or garbled so often in the same way, waiting does not mend it."""
OUTAGE_SECONDS = 3600.0
"""How long all calls about a batch may fail, with no reply arriving, before we stop waiting for it."""


@dataclass(slots=True)
class Trouble:
    """Failures of calls about one batch, one after the other: since when, the last one, and how often it came."""

    since: float
    error: TryLater
    times: int = 1

    def again(self, error: TryLater) -> None:
        """One more failure."""
        self.times = self.times + 1 if str(error) == str(self.error) else 1
        self.error = error

    def is_lasting(self, now: float) -> bool:
        """Whether to stop waiting."""
        equal = self.error.damaged and self.times >= EQUAL_FAILURES
        return equal or now - self.since > OUTAGE_SECONDS


@dataclass(slots=True)
class OpenBatch:
    """An open intent with those of its requests that this run asks for, by custom id.

    If asks can be recalled, their texts are not kept in memory while the provider has them, which may take a day.
    """

    open: OpenIntent
    recall: Recall | None = None
    known_at: float = 0.0
    """When this process learnt of it: the grace period for its batch to appear starts here."""
    readings: int = 0
    """How often its results were read to the end."""
    trouble: Trouble | None = None
    """What has kept it from being polled or collected, since it last went well."""
    _entries: dict[str, Entry] = field(default_factory=dict)
    _asks: dict[str, Ask] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, custom_id: str) -> bool:
        return custom_id in self._entries

    def put(self, entry: Entry, ask: Ask) -> None:
        """Attach an ask that was sent as this entry."""
        self._entries[entry.custom_id] = entry
        if self.recall is None:
            self._asks[entry.custom_id] = ask

    def get(self, custom_id: str) -> tuple[Ask, Entry] | None:
        """The ask with this custom id and its entry."""
        entry = self._entries.get(custom_id)
        return None if entry is None else (self._ask(entry), entry)

    def drop(self, custom_id: str) -> None:
        """This ask is done."""
        del self._entries[custom_id]
        self._asks.pop(custom_id, None)

    def drain(self) -> Iterator[tuple[Ask, Entry]]:
        """Every remaining ask, each dropped once it is done."""
        for custom_id, entry in list(self._entries.items()):
            yield self._ask(entry), entry
            self.drop(custom_id)

    def _ask(self, entry: Entry) -> Ask:
        if self.recall is None:
            return self._asks[entry.custom_id]
        ask = entry.restored(self.recall(entry.key))
        if ask is None:
            raise ModelError(
                f"the request {entry.key[:12]} is no longer what was sent in batch {self.open.batch_id}. "
                "Run the same command again."
            )
        return ask


class Claims:
    """The requests of open intents by key. Of several for one key, the highest attempt counts, then the latest."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[OpenIntent, Entry]] = {}
        self._remaining: Counter[str] = Counter()

    def add(self, intent: OpenIntent) -> None:
        """Add the requests of an intent."""
        for entry in intent.intent.entries:
            older = self._by_key.get(entry.key)
            if older is not None and older[1].attempt > entry.attempt:
                continue
            if older is not None:
                self._remaining[older[0].id] -= 1
            self._by_key[entry.key] = (intent, entry)
            self._remaining[intent.id] += 1

    def find(self, ask: Ask) -> tuple[OpenIntent, Entry, Ask] | None:
        """The intent and entry that hold this ask (or a later attempt at it), and the ask as it was sent."""
        held = self._by_key.get(ask.key)
        restored = held[1].restored(ask) if held is not None else None
        return None if held is None or restored is None else (held[0], held[1], restored)

    def supersede(self, ask: Ask) -> OpenIntent | None:
        """Remove an earlier attempt at this ask, whose reply is already saved, from its intent; return that intent."""
        held = self._by_key.get(ask.key)
        if held is None or held[1].attempt >= ask.attempt:
            return None
        self.drop(ask.key)
        return held[0]

    def drop(self, key: str) -> None:
        """Remove a key whose request is answered, or must be sent again."""
        intent, _ = self._by_key.pop(key)
        self._remaining[intent.id] -= 1

    def remaining(self, intent: OpenIntent) -> int:
        """How many requests of an intent are still to be answered or asked for."""
        return self._remaining[intent.id]


class Collector:
    """Collects replies from ended batches.

    An intent whose replies led to further asks is closed only when those are safe (recorded in another intent, or
    answered): after a crash in between it is collected again, and the sink returns the same asks.
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
        """How often an ask will have been in a batch, the next one included."""
        return self._tries.get(ask.key, 1)

    def next_round(self) -> tuple[list[Ask], list[OpenIntent]]:
        """What to ask next, and the intents that can be closed once that is safe."""
        asks, intents = self._again, list(self._indebted.values())
        self._again, self._indebted = [], {}
        return asks, intents

    async def collect(self, held: OpenBatch, batch_id: str, *, unanswered: str | None = None) -> None:
        """Save every reply of an ended batch that this run asks for; if interrupted, it can be repeated."""
        without_result = Reply(error=unanswered or "missing from the batch's results")
        strangers = 0
        seen: Counter[str] = Counter()
        unreadable: list[tuple[str, Reply]] = []
        async for custom_id, reply in self._provider.results(batch_id):
            found = held.get(custom_id)
            seen[custom_id] += 1
            if reply.error == UNREADABLE:
                unreadable.append((custom_id, reply))
            elif found is not None:
                self._take(held.open, *found, reply)
                held.drop(custom_id)
            elif not held.open.owns(custom_id):
                strangers += 1
        held.readings += 1
        if unreadable:
            self._check_unreadable(held, batch_id, unreadable)
        by_id = dict(unreadable)
        nameless = [reply for custom_id, reply in unreadable if custom_id not in held]
        if len(held) and not unreadable and unanswered is None:
            missing, most = plural(len(held), "request"), plural(self._max_resubmits, "time")
            self._notice(f"batch {batch_id}: {missing} without a reply in its results: asked again, at most {most}.")
        for ask, entry in held.drain():
            reply = by_id.get(entry.custom_id) or (nameless.pop() if nameless else without_result)
            self._take(held.open, ask, entry, reply)
        twice = sum(count > 1 and held.open.owns(custom_id) for custom_id, count in seen.items())
        if twice:
            self._notice(
                f"batch {batch_id} answered {plural(twice, 'request')} more than once: the first reply counts."
            )
        if strangers:
            self._notice(f"batch {batch_id} held {plural(strangers, 'reply')} to requests that are not ours: ignored.")
        if self._claims.remaining(held.open) == 0 and held.open.id not in self._indebted:
            self._journal.collected(held.open)

    def _check_unreadable(self, held: OpenBatch, batch_id: str, unreadable: list[tuple[str, Reply]]) -> None:
        """Say which lines cannot be read; `TryLater` if another reading may help, because a reply is still missing."""
        lines = plural(len(unreadable), "line")
        what = f"batch {batch_id}: {lines} of its results cannot be read: {unreadable[0][1].text}."
        if not len(held):
            self._notice(f"{what} No reply that this run asks for is missing.")
        elif held.readings < READINGS:
            raise TryLater(what, damaged=True)
        else:
            missing = plural(len(held), "question")
            most = plural(self._max_resubmits, "time")
            self._notice(f"{what} Read {READINGS} times; {missing} without a reply: asked again, at most {most}.")

    def keep(self, ask: Ask, reply: Reply, *, promised: CostEstimate = NOTHING) -> bool:
        """Save a reply; whether the sink asks something further."""
        further = self._keeper.keep(ask, reply, promised=promised)
        if further is not None:
            self._again.append(further)
        return further is not None

    def owe(self, intent: OpenIntent) -> None:
        """A reply of this intent led to a further ask: close the intent only once that is safe."""
        self._indebted[intent.id] = intent

    def give_up(self, held: OpenBatch, why: str) -> None:
        """The intent never became a batch: ask its requests again, as if they had never been sent."""
        self._journal.abandoned(held.open, why)
        for ask, entry in held.drain():
            self._claims.drop(ask.key)
            self._keeper.budget.settle(self._keeper.most(ask, batched=True), NO_TOKENS, 0.0)
            self._tries[ask.key] = entry.tries
            self._again.append(ask)

    def close(self, intents: list[OpenIntent]) -> None:
        """The follow-up asks of these intents are safe now."""
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
