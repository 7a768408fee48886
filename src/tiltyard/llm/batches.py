"""Asking in batches that survive a crash: claim, submit, wait, collect.

Every batch is written to the journal before it is submitted, and its requests are never sent again while it is open. A
restart finds the open batches, waits for them and collects them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tiltyard.errors import Refused, TryLater
from tiltyard.llm.accounting import NO_TOKENS, CostEstimate, Keeper
from tiltyard.llm.asking import Ask, AskingSettings, Recall, plural
from tiltyard.llm.journal import Journal, OpenIntent
from tiltyard.llm.lost_batches import Adoption
from tiltyard.llm.open_batches import EQUAL_FAILURES, Claims, Collector, OpenBatch, Trouble
from tiltyard.llm.pacing import backoff_seconds
from tiltyard.llm.provider import BatchProvider
from tiltyard.llm.records import Reply

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
        settings: AskingSettings,
        *,
        notice: Callable[[str], None],
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
        recall: Recall | None = None,
    ) -> None:
        self._provider = provider
        self._journal = journal
        self._keeper = keeper
        self._settings = settings
        self._notice = notice
        self._now = now
        self._sleep = sleep
        self._rng = rng
        self._recall = recall
        self._opened_at = now()
        self._claims = Claims()
        self._held: dict[str, OpenBatch] = {}
        self._parcels: dict[str, Parcel] = {}
        self._packer = Packer(provider, settings.max_batch)
        self._adoption = Adoption(provider, journal, grace_seconds=settings.adoption_grace_seconds, now=now)
        self.collector = Collector(
            provider, journal, self._claims, keeper, max_resubmits=settings.max_resubmits, notice=notice
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
            found = self._claims.find(ask)
            if found is None:
                yield ask
                continue
            intent, entry, restored = found
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
        """How many asks are packed but not submitted."""
        return sum(len(parcel.asks) for parcel in self._parcels.values())

    async def _hand_over_all(self) -> None:
        for model in list(self._parcels):
            await self._hand_over(model)

    async def _hand_over(self, model: str) -> None:
        """Write a parcel to the journal, then submit it. An unclear submission is resolved later."""
        parcel = self._parcels.pop(model)
        while self._held and self._requests_out + len(parcel.asks) > self._settings.max_open:
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

    @property
    def _requests_out(self) -> int:
        return sum(map(len, self._held.values()))

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
        """Wait until at least one open batch has ended."""
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
