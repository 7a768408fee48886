"""Asking in batches that survive a crash: claim, submit, wait, collect.

Every batch is written to the journal before it is submitted, and its requests are never sent again while it is open. A
restart finds the open batches, waits for them and collects them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import chain, count, islice

import msgspec

from tiltyard.errors import BudgetReached, ModelError, Refused, TryLater
from tiltyard.judge.llm.asking import (
    NO_TOKENS,
    NOTHING,
    PATIENCE_SECONDS,
    AskingParts,
    CostEstimate,
    Keeper,
    Recall,
    backoff_seconds,
)
from tiltyard.judge.llm.journal import Entry, Journal, OpenIntent, intent_of
from tiltyard.judge.llm.provider import UNREADABLE, Ask, BatchProvider, BatchState, Reply
from tiltyard.render import plural

READINGS = 3
"""How often results with unreadable lines are read: lines that were garbled on their way are whole the next time."""
EQUAL_FAILURES = 5
"""When what came for a batch was cut off or garbled so often, one time after the other, waiting does not mend it."""
OUTAGE_SECONDS = 3600.0
"""How long all calls about a batch may fail, with no reply arriving, before we stop waiting for it."""
CLOCK_SKEW_SECONDS = 300.0
"""How much the provider's clock may differ from ours."""
ACCEPT_WINDOW_SECONDS = 3600.0
"""How long after the last try a provider may still accept a batch: large files take their time."""
RESULTS_KEPT_SECONDS = 28 * 86_400.0
"""How long a batch can still be collected: providers keep results for 29 or 30 days."""
POLL_GROWTH = 1.5
FEWEST_ALONE = 10
"""A group with fewer asks than this shares a batch with the next: one query per rubric, sent ahead, is one batch."""
SMALLEST_CUT = 0.1
"""A batch cut short by the budget is sent only if it has at least this fraction of the first such batch's requests."""
COMFORTABLE_BYTES = 64_000_000
"""A batch is closed at this size even if the provider allows more: an SDK keeps several copies of the body while
sending it, and a broken connection then costs less."""


class _OpenBatch(msgspec.Struct):
    """An open batch with those of its requests that this run asks for, by custom id.

    `asks` is empty if asks can be recalled. `known_at` is when this process learnt of the batch. `failing_since`,
    `failures` and `error` are about calls that failed since it last went well: `failures` counts equal ones in a row.
    """

    open: OpenIntent
    known_at: float
    entries: dict[str, Entry] = msgspec.field(default_factory=dict)
    asks: dict[str, Ask] = msgspec.field(default_factory=dict)
    readings: int = 0
    failing_since: float = 0.0
    failures: int = 0
    error: TryLater | None = None

    def given_up(self, now: float) -> bool:
        if self.error is None:
            return False
        return (self.error.damaged and self.failures >= EQUAL_FAILURES) or now - self.failing_since > OUTAGE_SECONDS


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
        self._provider = provider
        self._journal = journal
        self._keeper = keeper
        self._parts = parts
        self._settings = parts.settings
        self._recall = recall
        self._opened_at = parts.now()
        self._claims: dict[str, tuple[OpenIntent, Entry]] = {}
        """By key, the request of an open batch: of several, the highest attempt, then the latest."""
        self._left: Counter[str] = Counter()
        """By intent, how many of those are still to be answered or asked for."""
        self._held: dict[str, _OpenBatch] = {}
        self._packed: dict[str, Ask] = {}
        self._packed_bytes = 0
        self._again: list[Ask] = []
        self._tries: dict[str, int] = {}
        self._with_follow_ups: dict[str, OpenIntent] = {}
        """Intents whose replies led to further asks: closed only when those are recorded in another, or answered."""
        self._owners: dict[str, str | None] = {}
        self._lost_in_a_row = 0
        self._first_cut = 0
        mine = [
            intent
            for intent in journal.open.values()
            if intent.intent.provider == provider.name
            and self._opened_at - intent.intent.created_at < RESULTS_KEPT_SECONDS
        ]
        for intent in mine:
            self._add_claims(intent)
        if all(intent.batch_id is not None for intent in mine):
            self._close(mine)

    async def run(self, asks: Iterable[Ask], ask_directly: Callable[[Iterator[Ask]], Awaitable[None]]) -> None:
        """Rounds of asking, each with the follow-ups of the one before, until nothing is left."""
        to_close: list[OpenIntent] = []
        while True:
            try:
                fresh, least = self._claim(asks), self._settings.batch_floor
                head = list(islice(fresh, max(1, least)))
                if head and (self._settings.batch is False or len(head) < least):
                    await ask_directly(chain(head, fresh))
                elif head:
                    await self._submit_all(chain(head, fresh))
                if all(held.open.batch_id is not None for held in self._held.values()):
                    self._close(to_close)
                    to_close = []
                await self._wait(0)
            except BudgetReached:
                for ask in self._packed.values():
                    self._keeper.budget.settle(self._keeper.most(ask, batched=True), NO_TOKENS, 0.0)
                await self._wait(0)
                raise
            except asyncio.CancelledError:
                if self._held:
                    self._parts.notice(
                        f"interrupted: {plural(len(self._held), 'batch')} under way without us. Run the same again to "
                        "collect the replies."
                    )
                raise
            to_close += self._with_follow_ups.values()
            asks, self._again, self._with_follow_ups = self._again, [], {}
            if not asks:
                self._close(to_close)
                return

    def _claim(self, asks: Iterable[Ask]) -> Iterator[Ask]:
        """The asks that have not been submitted yet; the others are attached to the batch that holds them."""
        for ask in asks:
            claimed = self._claims.get(ask.key)
            if claimed is not None and claimed[1].attempt < ask.attempt:  # the reply to that attempt is saved already
                self._drop_claim(ask.key)
                self._with_follow_ups[claimed[0].id] = claimed[0]
                claimed = None
            restored = None if claimed is None else claimed[1].restored(ask)
            if claimed is None or restored is None:
                yield ask
                continue
            intent, entry = claimed
            if intent.id not in self._held:
                if intent.batch_id is not None:
                    self._parts.notice(f"batch {intent.batch_id} of an earlier run is taken up again.")
                self._held[intent.id] = _OpenBatch(intent, self._opened_at)
            held = self._held[intent.id]
            if entry.custom_id not in held.entries:
                self._attach(held, entry, restored)
                self._keeper.budget.promise(self._keeper.most(restored, batched=True))
                self._keeper.tally.sent(restored.group, found=True)

    def _attach(self, held: _OpenBatch, entry: Entry, ask: Ask) -> None:
        held.entries[entry.custom_id] = entry
        if self._recall is None:
            held.asks[entry.custom_id] = ask

    def _detach(self, held: _OpenBatch, custom_id: str) -> tuple[Ask, Entry]:
        """Take an ask off a batch; one that was not kept in memory is made again."""
        entry = held.entries[custom_id]
        ask = held.asks.pop(custom_id) if self._recall is None else entry.restored(self._recall(entry.key))
        if ask is None:
            raise ModelError(
                f"the request {entry.key[:12]} is no longer what was sent in batch {held.open.batch_id}. "
                "Run the same command again."
            )
        del held.entries[custom_id]
        return ask, entry

    def _add_claims(self, intent: OpenIntent) -> None:
        for entry in intent.intent.entries:
            older = self._claims.get(entry.key)
            if older is not None and older[1].attempt > entry.attempt:
                continue
            if older is not None:
                self._left[older[0].id] -= 1
            self._claims[entry.key] = (intent, entry)
            self._left[intent.id] += 1

    def _drop_claim(self, key: str) -> None:
        intent, _ = self._claims.pop(key)
        self._left[intent.id] -= 1

    def _close(self, intents: Sequence[OpenIntent]) -> None:
        """Mark as collected what has no request left; the follow-up asks of these intents are safe."""
        for intent in intents:
            if self._left[intent.id] == 0:
                self._keeper.sync()  # after a power cut nobody collects it once more
                self._journal.collected(intent)

    async def _submit_all(self, asks: Iterator[Ask]) -> None:
        """Submit all asks, in as many batches as needed; if too many are open, some are collected first.

        A batch holds asks of one group, so that a group is complete as soon as its own batches have ended; only a few
        asks go along with those of the next group.
        """
        limits = self._provider.batch_limits
        most_requests = min(limits.requests, self._settings.max_batch or limits.requests)
        most_bytes = min(limits.bytes, COMFORTABLE_BYTES)
        for ask in asks:
            if ask.key in self._packed:
                continue
            size = self._provider.encoded_size(ask.request)
            if size > limits.bytes:
                self._keep(ask, Reply(error="too large for a batch", final=True))
                continue
            if self._packed:
                last = next(reversed(self._packed.values()))
                full = len(self._packed) >= most_requests or self._packed_bytes + size > most_bytes
                next_group = ask.group != last.group and len(self._packed) >= FEWEST_ALONE
                if full or next_group or ask.request.model != last.request.model:
                    await self._hand_over()
            await self._promise(ask)
            self._packed[ask.key] = ask
            self._packed_bytes += size
        await self._hand_over()

    async def _promise(self, ask: Ask) -> None:
        """Reserve money for an ask; if it does not fit, send what is packed, which may cost less than reserved."""
        most = self._keeper.most(ask, batched=True)
        while not self._keeper.budget.fits(most):
            self._first_cut = self._first_cut or len(self._packed)
            if self._packed and len(self._packed) >= self._first_cut * SMALLEST_CUT:
                await self._hand_over()
            elif not self._packed and self._held:
                await self._wait(len(self._held) - 1)
            else:
                raise self._keeper.budget.reached()
        self._keeper.budget.promise(most)

    async def _hand_over(self) -> None:
        asks = list(self._packed.values())
        self._packed, self._packed_bytes = {}, 0
        if not asks:
            return
        while self._held and sum(len(held.entries) for held in self._held.values()) + len(asks) > (
            self._settings.max_open
        ):
            await self._wait(len(self._held) - 1)
        intent = self._journal.intend(self._provider.name, [(ask, self._tries.get(ask.key, 1)) for ask in asks])
        self._add_claims(intent)
        held = _OpenBatch(intent, self._opened_at)
        for entry, ask in zip(intent.intent.entries, asks, strict=True):
            self._attach(held, entry, ask)
        for group, number in Counter(ask.group for ask in asks).items():
            self._keeper.tally.sent(group, number)
        await self._submit(held, asks)

    async def _submit(self, held: _OpenBatch, asks: Sequence[Ask]) -> None:
        intent = held.open
        requests = [(entry.custom_id, ask.request) for entry, ask in zip(intent.intent.entries, asks, strict=True)]
        for tries in count(1):
            try:
                batch_id = await self._provider.submit(requests, intent.id)
            except TryLater as error:
                if error.retry_after is None and not error.unreachable:
                    await self._look_for_it_later(held, error)
                    return
                if tries < self._settings.max_tries and (error.retry_after or 0.0) <= PATIENCE_SECONDS:
                    await self._parts.sleep(backoff_seconds(tries, error.retry_after, self._parts.rng))
                elif self._held:  # there may be room when others end
                    await self._wait(len(self._held) - 1)
                else:
                    self._journal.abandoned(intent, "not taken")
                    raise TryLater(f"{error} Everything answered so far is kept: run the same again later.") from None
                self._journal.trying(intent)
            except Refused:
                self._journal.abandoned(intent, "refused")
                raise
            else:
                self._lost_in_a_row = 0
                self._journal.submitted(intent, batch_id)
                self._held[intent.id] = held
                return

    async def _look_for_it_later(self, held: _OpenBatch, error: TryLater) -> None:
        """There was no response, so the batch may have been accepted: the provider's list will tell."""
        held.known_at = self._parts.now()
        self._held[held.open.id] = held
        self._lost_in_a_row += 1
        self._parts.notice(
            f"unclear whether a batch was accepted ({error}): looking for it before anything is sent again."
        )
        if self._lost_in_a_row >= self._settings.max_tries:
            raise error
        await self._parts.sleep(backoff_seconds(self._lost_in_a_row, None, self._parts.rng))

    async def _wait(self, most: int) -> None:
        pause = self._settings.poll_initial_seconds
        while len(self._held) > most:
            await self._poll()
            if len(self._held) > most:
                await self._parts.sleep(pause)
                pause = min(self._settings.poll_max_seconds, pause * POLL_GROWTH)

    async def _poll(self) -> None:
        """Check every batch once: find the lost ones, collect those that have ended; raise if none can be waited for.

        While one batch may still end, those that are failing do not stop the run.
        """
        lost = [held for held in self._held.values() if held.open.batch_id is None]
        if lost:
            try:
                await self._find(lost)
            except TryLater as error:
                for held in lost:
                    self._failed(held, error)
            else:
                for held in lost:
                    held.error = None
        for held in list(self._held.values()):
            batch_id, waiting = held.open.batch_id, len(held.entries)
            if batch_id is None:
                continue
            try:
                state = await self._provider.state(batch_id)
                if state.ended:
                    await self._collect(held, batch_id, state.unanswered)
                    del self._held[held.open.id]
                held.error = None
            except Refused as error:
                raise Refused(
                    f"{error} Batch {batch_id} is open in {self._journal.path}: use the key it was submitted with. If "
                    f"it is gone for good, `tiltyard judge journal {self._journal.path.parent}` can forget it: its "
                    "requests are sent again."
                ) from None
            except TryLater as error:
                if len(held.entries) < waiting:
                    held.error = None
                self._failed(held, error)
        failing = [held for held in self._held.values() if held.given_up(self._parts.now())]
        if failing and len(failing) == len(self._held):
            raise TryLater(
                f"{failing[0].error} It failed {failing[0].failures} times in the same way. Everything answered so "
                f"far is kept, and {plural(len(self._held), 'open batch')} in {self._journal.path}: run the same again "
                f"later. If this stays, `tiltyard judge journal {self._journal.path.parent}` can forget the batch: its "
                "requests are sent again."
            )

    def _failed(self, held: _OpenBatch, error: TryLater) -> None:
        """A call about a batch failed: say so the first time, and every few times that it fails in the same way."""
        before = held.error
        if before is None:
            held.failing_since = self._parts.now()
        old, new = ((kind.damaged, kind.timed_out, kind.unreachable) for kind in (before or error, error))
        held.failures = held.failures + 1 if before is not None and old == new else 1
        held.error = error
        if held.failures == 1:
            self._parts.notice(f"{error} Open batches continue; checking again later.")
        elif held.failures % EQUAL_FAILURES == 0:
            self._parts.notice(
                f"{error} It failed {held.failures} times in the same way; checking again, for an hour at most. "
                "You may stop it: nothing is lost, and the same command goes on."
            )

    async def _collect(self, held: _OpenBatch, batch_id: str, unanswered: str | None) -> None:
        """Save every reply of an ended batch that this run asks for; if interrupted, it can be repeated."""
        intent, strangers = held.open, 0
        seen: Counter[str] = Counter()
        unreadable: list[tuple[str, Reply]] = []
        async for custom_id, reply in self._provider.results(batch_id):
            seen[custom_id] += 1
            if reply.error == UNREADABLE:
                unreadable.append((custom_id, reply))
            elif custom_id in held.entries:
                self._take(intent, *self._detach(held, custom_id), reply)
            elif intent_of(custom_id) != intent.id:
                strangers += 1
        held.readings += 1
        self._tell_missing(held, batch_id, unreadable, unanswered)
        by_id = dict(unreadable)
        nameless = [reply for custom_id, reply in unreadable if custom_id not in held.entries]
        without_result = Reply(error=unanswered or "missing from the batch's results")
        for custom_id in list(held.entries):
            reply = by_id.get(custom_id) or (nameless.pop() if nameless else without_result)
            self._take(intent, *self._detach(held, custom_id), reply)
        twice = sum(number > 1 and intent_of(custom_id) == intent.id for custom_id, number in seen.items())
        if twice:
            self._parts.notice(
                f"batch {batch_id} answered {plural(twice, 'request')} more than once: the first reply counts."
            )
        if strangers:
            self._parts.notice(
                f"batch {batch_id} held {plural(strangers, 'reply')} to requests that are not ours: ignored."
            )
        if intent.id not in self._with_follow_ups:
            self._close([intent])

    def _tell_missing(
        self, held: _OpenBatch, batch_id: str, unreadable: Sequence[tuple[str, Reply]], unanswered: str | None
    ) -> None:
        """Say what cannot be read and what is missing; `TryLater` if another reading may bring a missing reply."""
        again = f"asked again, at most {plural(self._settings.max_resubmits, 'time')}."
        missing = len(held.entries)
        if not unreadable:
            if missing and unanswered is None:
                self._parts.notice(
                    f"batch {batch_id}: {plural(missing, 'request')} without a reply in its results: {again}"
                )
            return
        lines = plural(len(unreadable), "line")
        what = f"batch {batch_id}: {lines} of its results cannot be read: {unreadable[0][1].text}."
        if not missing:
            self._parts.notice(f"{what} No reply that this run asks for is missing.")
        elif held.readings < READINGS:
            raise TryLater(what, damaged=True)
        else:
            self._parts.notice(f"{what} Read {READINGS} times; {plural(missing, 'question')} without a reply: {again}")

    def _take(self, intent: OpenIntent, ask: Ask, entry: Entry, reply: Reply) -> None:
        """Save a reply, or have its request sent again."""
        reply = reply if reply.batched else msgspec.structs.replace(reply, batched=True)
        promised = self._keeper.most(ask, batched=True)
        self._drop_claim(ask.key)
        self._tries.pop(ask.key, None)
        if reply.error is not None and not reply.final and entry.tries <= self._settings.max_resubmits:
            self._keeper.ask_again(ask, reply, promised=promised)
            self._tries[ask.key] = entry.tries + 1
            self._again.append(ask)
            self._with_follow_ups[intent.id] = intent
        elif self._keep(ask, reply, promised):
            self._with_follow_ups[intent.id] = intent

    def _keep(self, ask: Ask, reply: Reply, promised: CostEstimate = NOTHING) -> bool:
        further = self._keeper.keep(ask, reply, promised=promised)
        if further is not None:
            self._again.append(further)
        return further is not None

    async def _find(self, lost: Sequence[_OpenBatch]) -> None:
        """Look for lost batches among those of the account; one that is not there is asked again."""
        asked_at = self._parts.now()
        since = min(held.open.intent.created_at for held in lost) - CLOCK_SKEW_SECONDS
        candidates: list[BatchState] = []
        async with aclosing(self._provider.recent_batches()) as batches:
            async for state in batches:
                if state.created_at < since:
                    break
                if state.batch_id not in self._journal.batch_ids:
                    candidates.append(state)
        for held in lost:
            intent = held.open
            batch_id, waiting = await self._recognise(intent, candidates)
            listed_by = min(intent.last_try_at + ACCEPT_WINDOW_SECONDS, held.known_at)
            if batch_id is not None:
                candidates = [state for state in candidates if state.batch_id != batch_id]
                self._lost_in_a_row = 0
                self._parts.notice(f"batch {batch_id} had been accepted after all: taken up.")
                self._journal.submitted(intent, batch_id, adopted=True)
            elif not waiting and asked_at >= listed_by + self._settings.adoption_grace_seconds:
                del self._held[intent.id]
                self._journal.abandoned(intent, "never accepted")
                for custom_id in list(held.entries):
                    ask, entry = self._detach(held, custom_id)
                    self._drop_claim(ask.key)
                    self._keeper.budget.settle(self._keeper.most(ask, batched=True), NO_TOKENS, 0.0)
                    self._tries[ask.key] = entry.tries
                    self._again.append(ask)

    async def _recognise(self, intent: OpenIntent, candidates: Sequence[BatchState]) -> tuple[str | None, bool]:
        """The batch of this intent, by its tag or its custom ids; and whether one that may be it is still running."""
        first = intent.intent.created_at - CLOCK_SKEW_SECONDS
        last = intent.last_try_at + ACCEPT_WINDOW_SECONDS + CLOCK_SKEW_SECONDS
        waiting = False
        for state in candidates:
            if state.tag == intent.id:
                return state.batch_id, False
            same_size = not state.size or state.size == len(intent.intent.entries)  # 0 is not known yet
            if state.tag is not None or not same_size or not first <= state.created_at <= last:
                continue
            try:
                if not (state.ended or (await self._provider.state(state.batch_id)).ended):
                    waiting = True
                elif await self._owner(state.batch_id) == intent.id:
                    return state.batch_id, False
            except Refused:  # somebody else's, which we may not read
                self._owners[state.batch_id] = None
        return None, waiting

    async def _owner(self, batch_id: str) -> str | None:
        if batch_id not in self._owners:
            owner = None
            async with aclosing(self._provider.results(batch_id)) as results:
                async for custom_id, _ in results:
                    if intent_of(custom_id) in self._journal.open:
                        owner = intent_of(custom_id)
                        break
            self._owners[batch_id] = owner
        return self._owners[batch_id]
