"""Asking in batches that survive a crash: claim, submit, wait, collect.

Every batch is written to the journal before it is submitted, and its requests are never sent again while it is open. A
restart finds the open batches, waits for them and collects them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from tiltyard.errors import ModelError, Refused, TryLater
from tiltyard.llm.asking import NO_TOKENS, NOTHING, Ask, AskingParts, CostEstimate, Keeper, Recall, plural
from tiltyard.llm.journal import Entry, Journal, OpenIntent, intent_of
from tiltyard.llm.pacing import backoff_seconds
from tiltyard.llm.provider import UNREADABLE, BatchProvider, BatchState, Reply

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
            asked = held.get(custom_id)
            seen[custom_id] += 1
            if reply.error == UNREADABLE:
                unreadable.append((custom_id, reply))
            elif asked is not None:
                self._take(held.open, *asked, reply)
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


RESULTS_KEPT_SECONDS = 28 * 86_400.0
"""How long a batch can still be collected: providers keep results for 29 or 30 days."""
POLL_GROWTH = 1.5
FEWEST_ALONE = 10
"""A group with fewer asks than this shares a batch with the next: one query per rubric, sent ahead, is one batch."""
SMALLEST_CUT = 0.1
"""A batch cut short by the budget is sent only if it has at least this fraction of the first such batch's requests."""


class Batches:
    """The batches of one folder and one provider."""

    def __init__(
        self,
        provider: BatchProvider,
        journal: Journal,
        keeper: Keeper,
        parts: AskingParts,
        recall: Recall | None = None,
    ) -> None:
        settings = parts.settings
        self._provider = provider
        self._journal = journal
        self._keeper = keeper
        self._settings = settings
        self._notice = parts.notice
        self._now = parts.now
        self._sleep = parts.sleep
        self._rng = parts.rng
        self._recall = recall
        self._opened_at = parts.now()
        self._claims = Claims()
        self._held: dict[str, OpenBatch] = {}
        self._parcels: dict[str, Parcel] = {}
        self._packer = Packer(provider, settings.max_batch)
        self._adoption = Adoption(provider, journal, grace_seconds=settings.adoption_grace_seconds, now=parts.now)
        self.collector = Collector(
            provider, journal, self._claims, keeper, max_resubmits=settings.max_resubmits, notice=parts.notice
        )
        self._lost_in_a_row = 0
        self._first_cut: int | None = None
        self._take_up()

    def _take_up(self) -> None:
        """Claim what earlier runs left open. An intent whose requests are all in later intents is closed."""
        mine = [
            intent
            for intent in self._journal.open.values()
            if intent.intent.provider == self._provider.name
            and self._opened_at - intent.first_try_at < RESULTS_KEPT_SECONDS
        ]
        for intent in mine:
            self._claims.add(intent)
        if all(intent.batch_id is not None for intent in mine):
            self.collector.close(mine)

    @property
    def under_way(self) -> int:
        """How many batches of this run are open."""
        return len(self._held)

    @property
    def any_lost(self) -> bool:
        """Whether there is a batch that may or may not have been accepted."""
        return any(held.open.batch_id is None for held in self._held.values())

    def claim(self, asks: Iterable[Ask]) -> Iterator[Ask]:
        """The asks that have not been submitted yet; the others are attached to the batch that holds them."""
        for ask in asks:
            answered = self._claims.supersede(ask)
            if answered is not None:
                self.collector.owe(answered)
            claimed = self._claims.find(ask)
            if claimed is None:
                yield ask
                continue
            intent, entry, restored = claimed
            held = self._hold(intent)
            if entry.custom_id not in held:
                held.put(entry, restored)
                self._keeper.budget.promise(self._keeper.most(restored, batched=True))
                self._keeper.tally.sent(restored.group, found=True)

    async def submit(self, asks: Iterator[Ask]) -> None:
        """Submit all asks, in as many batches as needed; if too many are open, some are collected first.

        A batch holds asks of one group, so that a group is complete as soon as its own batches have ended; only a few
        asks go along with those of the next group.
        """
        group = None
        for ask in asks:
            if group not in (None, ask.group) and self._packed >= FEWEST_ALONE:
                await self._hand_over_all()
            group = ask.group
            size = self._packer.size(ask)
            if size is None:
                self.collector.keep(ask, Reply(error="too large for a batch", final=True))
                continue
            parcel = self._parcels.setdefault(ask.request.model, Parcel())
            if ask.key in parcel.asks:
                continue
            if not self._packer.has_room(parcel, size):
                await self._hand_over(ask.request.model)
            promised = await self._promise(ask)
            self._parcels.setdefault(ask.request.model, Parcel()).add(ask, size, promised)
        await self._hand_over_all()

    async def settle(self) -> None:
        """Wait for every batch of this run to end, and collect it."""
        pause = self._settings.poll_initial_seconds
        while self._held:
            await self._poll()
            if self._held:
                await self._sleep(pause)
                pause = min(self._settings.poll_max_seconds, pause * POLL_GROWTH)

    def drop_parcels(self) -> None:
        """Drop what was packed but not submitted: there is no budget for it."""
        for parcel in self._parcels.values():
            for promised in parcel.promised:
                self._keeper.budget.settle(promised, NO_TOKENS, 0.0)
        self._parcels.clear()

    def _hold(self, intent: OpenIntent) -> OpenBatch:
        if intent.id not in self._held:
            if intent.batch_id is not None:
                self._notice(f"batch {intent.batch_id} of an earlier run is taken up again.")
            self._held[intent.id] = OpenBatch(intent, self._recall, known_at=self._opened_at)
        return self._held[intent.id]

    async def _promise(self, ask: Ask) -> CostEstimate:
        """Money reserved for an ask.

        If it does not fit, the packed asks are submitted first, since they may cost less than reserved.
        """
        most = self._keeper.most(ask, batched=True)
        while not self._keeper.budget.fits(most):
            packed = self._packed
            first_cut = self._first_cut = self._first_cut or packed
            if packed and packed >= first_cut * SMALLEST_CUT:
                await self._hand_over_all()
            elif not packed and self._held:
                await self._collect_some()
            else:
                raise self._keeper.budget.reached()
        self._keeper.budget.promise(most)
        return most

    @property
    def _packed(self) -> int:
        return sum(len(parcel.asks) for parcel in self._parcels.values())

    async def _hand_over_all(self) -> None:
        for model in list(self._parcels):
            await self._hand_over(model)

    async def _hand_over(self, model: str) -> None:
        """Write a parcel to the journal, then submit it. An unclear submission is resolved later."""
        parcel = self._parcels.pop(model)
        while self._held and sum(map(len, self._held.values())) + len(parcel.asks) > self._settings.max_open:
            await self._collect_some()
        asks = list(parcel.asks.values())
        intent = self._journal.intend(self._provider.name, [(ask, self.collector.tries(ask)) for ask in asks])
        self._claims.add(intent)
        held = OpenBatch(intent, self._recall)
        for entry, ask in zip(intent.intent.entries, asks, strict=True):
            held.put(entry, ask)
        for group, count in Counter(ask.group for ask in asks).items():
            self._keeper.tally.sent(group, count)
        await self._submit(held, asks)

    async def _submit(self, held: OpenBatch, asks: list[Ask]) -> None:
        entries = held.open.intent.entries
        requests = [(entry.custom_id, ask.request) for entry, ask in zip(entries, asks, strict=True)]
        tries = 0
        while True:
            try:
                batch_id = await self._provider.submit(requests, held.open.id)
            except TryLater as error:
                tries += 1
                if error.retry_after is None and not error.unreachable:
                    await self._unclear(held, error)
                    return
                await self._later(held, error, tries)
                self._journal.trying(held.open)
            except Refused:
                self._journal.abandoned(held.open, "refused")
                raise
            else:
                self._lost_in_a_row = 0
                self._journal.submitted(held.open, batch_id)
                self._held[held.open.id] = held
                return

    async def _unclear(self, held: OpenBatch, error: TryLater) -> None:
        """There was no response, so the batch may have been accepted: the provider's list will tell."""
        held.known_at = self._now()
        self._held[held.open.id] = held
        self._lost_in_a_row += 1
        self._notice(f"unclear whether a batch was accepted ({error}): looking for it before anything is sent again.")
        if self._lost_in_a_row >= self._settings.max_tries:
            raise error
        await self._sleep(backoff_seconds(self._lost_in_a_row, None, self._rng))

    async def _later(self, held: OpenBatch, error: TryLater, tries: int) -> None:
        """The provider accepts no batch now. If others are open, there may be room when they end."""
        if tries < self._settings.max_tries:
            await self._sleep(backoff_seconds(tries, error.retry_after, self._rng))
        elif self._held:
            await self._collect_some()
        else:
            self._journal.abandoned(held.open, "not taken")
            raise error

    async def _collect_some(self) -> None:
        before = len(self._held)
        pause = self._settings.poll_initial_seconds
        while len(self._held) >= before:
            await self._poll()
            if len(self._held) >= before:
                await self._sleep(pause)
                pause = min(self._settings.poll_max_seconds, pause * POLL_GROWTH)

    async def _poll(self) -> None:
        """Check every batch once: find the lost ones, collect those that have ended."""
        lost = [held for held in self._held.values() if held.open.batch_id is None]
        try:
            await self._find_lost(lost)
        except TryLater as error:
            for held in lost:
                self._failed(held, error)
        else:
            for held in lost:
                held.trouble = None
        for held in list(self._held.values()):
            if held.open.batch_id is None:
                continue
            waiting = len(held)
            try:
                await self._collect_if_ended(held, held.open.batch_id)
                held.trouble = None
            except TryLater as error:
                if len(held) < waiting:
                    held.trouble = None
                self._failed(held, error)
        self._end_if_hopeless()

    async def _collect_if_ended(self, held: OpenBatch, batch_id: str) -> None:
        try:
            state = await self._provider.state(batch_id)
            if state.ended:
                await self.collector.collect(held, batch_id, unanswered=state.unanswered)
                del self._held[held.open.id]
        except Refused as error:
            folder = self._journal.path.parent
            raise Refused(
                f"{error} Batch {batch_id} is open in {self._journal.path}: use the key it was submitted with. If "
                f"it is gone for good, `tiltyard judge journal {folder}` can forget it: its requests are sent again."
            ) from None

    async def _find_lost(self, lost: list[OpenBatch]) -> None:
        if not lost:
            return
        for intent_id, batch_id in (await self._adoption.look(lost)).items():
            if batch_id is not None:
                self._lost_in_a_row = 0
                self._notice(f"batch {batch_id} had been accepted after all: taken up.")
                self._journal.submitted(self._held[intent_id].open, batch_id, adopted=True)
            else:
                self.collector.give_up(self._held.pop(intent_id), "never accepted")

    def _failed(self, held: OpenBatch, error: TryLater) -> None:
        """A call about a batch failed: say so the first time, and every few times that it fails in the same way."""
        if held.trouble is None:
            held.trouble = Trouble(self._now(), error)
        else:
            held.trouble.again(error)
        if held.trouble.times == 1:
            self._notice(f"{error} Open batches continue; checking again later.")
        elif held.trouble.times % EQUAL_FAILURES == 0:
            self._notice(
                f"{error} It failed {held.trouble.times} times in the same way; checking again, for an hour at most. "
                "You may stop it: nothing is lost, and the same command goes on."
            )

    def _end_if_hopeless(self) -> None:
        """Raise once waiting helps no open batch: one that still may end is waited for first."""
        now = self._now()
        troubles = [held.trouble for held in self._held.values() if held.trouble and held.trouble.is_lasting(now)]
        if troubles and len(troubles) == len(self._held):
            trouble = troubles[0]
            raise TryLater(
                f"{trouble.error} It failed {trouble.times} times in the same way. Everything answered so far is kept, "
                f"and {plural(len(self._held), 'open batch')} in {self._journal.path}: run the same again later. If "
                f"this stays, `tiltyard judge journal {self._journal.path.parent}` can forget the batch: its requests "
                "are sent again."
            )


COMFORTABLE_BYTES = 64_000_000
"""A batch is closed at this size even if the provider allows more: an SDK keeps several copies of the body while
sending it, and a broken connection then costs less."""


@dataclass(slots=True)
class Parcel:
    """Asks that will be sent as one batch, with the money reserved for them."""

    asks: dict[str, Ask] = field(default_factory=dict)
    bytes: int = 0
    promised: list[CostEstimate] = field(default_factory=list)

    def add(self, ask: Ask, size: int, promised: CostEstimate) -> None:
        """Put an ask in."""
        self.asks[ask.key] = ask
        self.bytes += size
        self.promised.append(promised)


class Packer:
    """The limits of one batch: the provider's, the caller's, and our own size limit."""

    def __init__(self, provider: BatchProvider, max_batch: int | None) -> None:
        limits = provider.batch_limits
        self._provider = provider
        self._most_requests = min(limits.requests, max_batch or limits.requests)
        self._largest_ask = limits.bytes
        self._most_bytes = min(limits.bytes, COMFORTABLE_BYTES)

    def size(self, ask: Ask) -> int | None:
        """How many bytes an ask takes; None when it is too large for any batch."""
        size = self._provider.encoded_size(ask.request)
        return size if size <= self._largest_ask else None

    def has_room(self, parcel: Parcel, size: int) -> bool:
        """Whether one more ask of that size fits; an empty parcel takes any that a batch can hold."""
        if not parcel.asks:
            return True
        return len(parcel.asks) < self._most_requests and parcel.bytes + size <= self._most_bytes
