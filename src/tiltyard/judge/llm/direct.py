"""Asking with direct calls: as many at a time as the provider allows, each reply saved as it arrives."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from tiltyard.errors import ModelError, QuestionRefused, Refused, TiltyardError, TryLater
from tiltyard.judge.llm.asking import (
    NO_TOKENS,
    PATIENCE_SECONDS,
    AskingParts,
    ConcurrencyLimit,
    CostEstimate,
    Keeper,
    RequestPace,
    backoff_seconds,
)
from tiltyard.judge.llm.keys import redact
from tiltyard.judge.llm.provider import Ask, Provider, Reply, Usage
from tiltyard.judge.llm.providers.wire import one_line
from tiltyard.render import plural

GIVE_UP_AFTER = 20
"""If this many first questions all fail, the questions are hardly to blame: nothing more is asked."""

_LONGEST_QUOTE = 300


class FailureSummary(msgspec.Struct, frozen=True):
    """A summary of the failures: how many, and the most common one with its name, count and quoted message."""

    total: int
    name: str
    why: str
    count: int
    quoted: str


class Trial(msgspec.Struct):
    """How the questions to a model ended so far, until the first success.

    `give_up` makes the error that is raised once `enough` have failed.
    """

    give_up: Callable[[FailureSummary], TiltyardError]
    enough: int = GIVE_UP_AFTER
    _passed: bool = False
    _kinds: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    _examples: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)

    def succeeded(self) -> None:
        self._passed = True

    def failed(self, name: str, why: str, words: str = "") -> None:
        """A question failed under this name; `words` are the model's or the provider's message."""
        if not self._passed:
            self._kinds[name, why] += 1
            self._examples.setdefault((name, why), words)

    def failures_left(self) -> float:
        """How many more questions may fail; raises if none may."""
        total = self._kinds.total()
        if self._passed or total < self.enough:
            return float("inf") if self._passed else self.enough - total
        (name, why), count = self._kinds.most_common(1)[0]
        words = " ".join(redact(self._examples[name, why]).split())
        quoted = f" (“{'…' if len(words) > _LONGEST_QUOTE else ''}{words[-_LONGEST_QUOTE:]}”)" if words else ""
        raise self.give_up(FailureSummary(total, name, redact(why), count, quoted))


class DirectAsking:
    """A pool of workers. Each takes an ask, completes it and its follow-ups, and takes the next.

    Worker number n pauses while the concurrency limit is n or less. Asks are taken from their iterator one by one, so
    at most one per worker is in memory. Until something has been answered, no more asks are started than `trial`
    allows; and only one if there is a budget, since a provider may count more tokens than estimated.
    """

    def __init__(
        self,
        provider: Provider,
        keeper: Keeper,
        parts: AskingParts,
        pace: RequestPace,
        trial: Trial | None = None,
    ) -> None:
        self._provider = provider
        self._keeper = keeper
        self._parts = parts
        self._settings = parts.settings
        self._pace = pace
        self._trial = trial
        self._begun = 0
        self._limit = ConcurrencyLimit(parts.settings.concurrency)
        self._out = 0
        self._not_before = float("-inf")
        self._exhausted = False
        self._stopped = asyncio.Event()
        self._changed = asyncio.Event()
        self._failure: Exception | None = None
        self._reached = False
        """Whether anybody has answered anything."""
        self._unreached_reported = False
        self._in_vain_since: float | None = None
        """When the provider first said `TryLater` since it last replied."""

    async def run(self, asks: Iterator[Ask]) -> None:
        """Wait until every ask is answered or has failed; raise the first error once outstanding calls are done."""
        workers = [asyncio.create_task(self._work(number, asks)) for number in range(self._settings.concurrency)]
        try:
            await asyncio.wait(workers)
        except asyncio.CancelledError:  # start nothing new, wait a moment for outstanding replies, then cancel
            self._stop()
            grace = self._settings.interrupt_grace_seconds
            if self._out:
                self._parts.notice(
                    f"interrupted: waiting up to {grace:g} s for {plural(self._out, 'reply')} on the way."
                )
            try:
                await asyncio.wait(workers, timeout=grace)
            finally:
                for worker in workers:
                    worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            raise
        if self._failure is not None:
            raise self._failure

    async def _work(self, number: int, asks: Iterator[Ask]) -> None:
        try:
            while await self._turn(number):
                ask = next(asks, None)
                self._exhausted = self._exhausted or ask is None
                self._begun += 1
                while ask is not None:
                    ask = await self._see_through(ask)
                self._begun -= 1
        except Exception as error:  # `run` raises it once all outstanding calls have finished
            self._failure = self._failure or error
            self._stop()
        self._wake()

    async def _turn(self, number: int) -> bool:
        while not (over := self._exhausted or self._stopped.is_set()):
            # until something was answered, only as many may be outstanding as may still fail
            most = float("inf") if self._trial is None else self._trial.failures_left()
            if number < self._limit.now and self._begun < most:
                break
            await self._changed.wait()
        return not over

    async def _see_through(self, ask: Ask) -> Ask | None:
        promised = await self._promise(ask)
        if self._stopped.is_set():
            return None
        self._keeper.budget.promise(promised)
        self._keeper.tally.sent(ask.group)
        self._out += 1
        reply = None
        try:
            reply = await self._reply(ask, promised)
        finally:
            self._out -= 1
            if reply is None:
                self._keeper.budget.settle(promised, NO_TOKENS, 0.0)
        if reply is None:
            return None
        further = self._keeper.keep(ask, reply, promised=promised)
        self._wake()
        return further

    async def _promise(self, ask: Ask) -> CostEstimate:
        """The amount to reserve for an ask. If it does not fit, wait: outstanding calls may cost less than reserved.

        While the first call under a budget is outstanding, wait too: its reply shows how tokens are counted.
        """
        most = self._keeper.most(ask, batched=False)
        budget = self._keeper.budget
        while not self._stopped.is_set():
            if self._out == 0 and not budget.fits(most):
                raise budget.reached()
            if budget.fits(most) and (self._out == 0 or budget.knows(most.model)):
                break
            await self._changed.wait()
        return most

    async def _reply(self, ask: Ask, promised: CostEstimate) -> Reply | None:
        """The reply to an ask, after as many tries as allowed; None if everything was stopped meanwhile.

        A question that the provider refuses gets a failed reply, and the others continue. If nobody was reached at all,
        the address is to blame: everything ends.
        """
        tries = 0
        while await self._pause(self._pace.take(ask.request)) and await self._pause(
            self._not_before - self._parts.now()
        ):
            sent_at = self._parts.now()
            retry_after = None
            bug = ""
            try:
                reply = await self._provider.ask(ask.request)
            except TryLater as error:
                self._check_reached(error, tries + 1)
                retry_after = error.retry_after
                self._check_patience(error, retry_after or 0.0)
                if not error.damaged:
                    self._limit.back_off(sent_at, self._parts.now())
                if retry_after is not None:  # it applies to all workers
                    self._not_before = max(self._not_before, self._parts.now() + retry_after)
                paid = error.damaged or error.timed_out
                usage = None if paid else Usage()
                reply = Reply(
                    error=f"no answer in {tries + 1} {'tries' if tries else 'try'}", text=str(error), usage=usage
                )
                allowed = 1 if error.timed_out else self._settings.max_tries
            except QuestionRefused as error:
                self._replied()
                usage = None if error.paid else Usage()
                return Reply(error=f"errored: {error.name}", text=error.words, final=True, usage=usage)
            except TiltyardError:
                raise
            except Exception as error:  # not of a built-in provider; it may hold the key, so it goes no further
                bug = (
                    f"{self._provider.name}, asked for {ask.request.model}, failed with {type(error).__name__}: {error}"
                )
            else:
                self._replied()
                self._pace.replied(ask.request, reply.usage)
                allowed = self._settings.max_resubmits + 1
            if bug:
                raise ModelError(one_line(bug, "Its provider should raise one of `tiltyard.errors`: report it there."))
            tries += 1
            if reply.error is None or reply.final or tries >= allowed:
                return reply
            await self._pay_for_another(ask, reply, promised)
            if not await self._pause(backoff_seconds(tries, retry_after, self._parts.rng)):
                return None
        return None

    def _replied(self) -> None:
        self._reached, self._in_vain_since = True, None
        self._limit.replied()

    def _check_patience(self, error: TryLater, pause: float) -> None:
        """Raise if the provider has said `TryLater` to everything for too long, or wants that."""
        if self._in_vain_since is None:
            self._in_vain_since = self._parts.now()
        if self._parts.now() + pause - self._in_vain_since > PATIENCE_SECONDS:
            raise TryLater(
                f"{error} Nothing is waited for longer than {PATIENCE_SECONDS / 60:g} minutes. Everything answered so "
                "far is kept: run the same again later; if this was a rate limit, set `judge.requests_per_minute`, "
                "`judge.tokens_per_minute` or a lower `judge.concurrency`."
            )

    def _check_reached(self, error: TryLater, tries: int) -> None:
        """Say once that nobody is there; raise if nobody was in all the tries of a question, nor before."""
        self._reached = self._reached or not error.unreachable
        if self._reached:
            return
        if tries >= self._settings.max_tries:
            raise Refused(f"{error} Nobody was there in {tries} tries: check the address, and that the server runs.")
        if not self._unreached_reported:
            self._unreached_reported = True
            self._parts.notice(f"{error} Trying again for a while.")

    async def _pay_for_another(self, ask: Ask, reply: Reply, promised: CostEstimate) -> None:
        """Count a reply that is asked for again, and reserve the same amount for the next one as soon as it fits."""
        self._keeper.ask_again(ask, reply, promised=promised)
        self._out -= 1
        self._wake()
        try:
            await self._promise(ask)
        finally:
            self._out += 1
            self._keeper.budget.promise(promised)

    async def _pause(self, seconds: float) -> bool:
        if seconds > 0 and not self._stopped.is_set():
            waits = [asyncio.ensure_future(self._parts.sleep(seconds)), asyncio.ensure_future(self._stopped.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        return not self._stopped.is_set()

    def _stop(self) -> None:
        self._stopped.set()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
