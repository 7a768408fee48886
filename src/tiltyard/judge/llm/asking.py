"""What asking needs and counts: a sink that saves replies, settings, a `Budget`, and totals.

Every reply passes through the `Keeper`, which gives it to the sink first, then adds it to the totals and the budget.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from tiltyard.errors import BudgetReached, OptionError
from tiltyard.judge.llm.prices import Price, PriceTable, add_fields, how_to_state_prices, most_usage, user_price_file
from tiltyard.judge.llm.provider import TIMEOUT_SECONDS, Ask, Reply, Request, Usage

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
PATIENCE_SECONDS = 900.0
"""How long a provider may say `TryLater` to everything before asking stops."""
FIRST_WIDTH = 4.0


def backoff_seconds(tries: int, retry_after: float | None, rng: random.Random) -> float:
    """The pause after the given number of failed tries: 1, 2, 4 … 60 seconds, reduced at random by up to half.

    If the provider says how long, it is that long plus up to a tenth more, so that clients do not all return at once.
    """
    if retry_after is not None:
        return retry_after * (1 + 0.1 * rng.random())
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(tries - 1, 16))
    return longest * (1 - 0.5 * rng.random())


class Rate:
    """So many per minute, evenly spread: each that is taken moves the time of the next by its share of a minute."""

    def __init__(self, per_minute: float | None, now: Callable[[], float]) -> None:
        self._seconds_each = 0.0 if per_minute is None else 60.0 / per_minute
        self._now = now
        self._free_at = float("-inf")

    def take(self, count: float = 1.0) -> float:
        """Take some, and return how many seconds to wait before using them."""
        now = self._now()
        start = max(now, self._free_at)
        self._free_at = start + count * self._seconds_each
        return start - now

    def correct(self, taken: float, used: float) -> None:
        self._free_at += (used - taken) * self._seconds_each


class RequestPace:
    """How fast direct requests may follow each other: by their number and by their tokens."""

    def __init__(
        self, requests_per_minute: float | None, tokens_per_minute: float | None, now: Callable[[], float]
    ) -> None:
        self._requests = Rate(requests_per_minute, now)
        self._tokens = Rate(tokens_per_minute, now)

    def take(self, request: Request) -> float:
        """How many seconds to wait before sending a request. Its tokens are estimated, with a reply of full length."""
        return max(self._requests.take(), self._tokens.take(_tokens(most_usage(request))))

    def replied(self, request: Request, usage: Usage | None) -> None:
        if usage is not None:
            self._tokens.correct(_tokens(most_usage(request)), _tokens(usage))


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.cache_creation_input_tokens + usage.output_tokens


class ConcurrencyLimit:
    """How many requests may run at once: it grows while all goes well and halves when the provider says to slow down.

    The rule is TCP's. Before the first refusal each reply raises the limit by one, so that it doubles every round trip;
    afterwards each reply raises it by 1/limit, so that it grows by one every round trip. A refusal halves it, once for
    all the requests that were running at the time.
    """

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._width = min(FIRST_WIDTH, self._most)
        self._calm = True
        self._halved_at = float("-inf")

    @property
    def now(self) -> int:
        """The current limit: at least one, at most the configured maximum."""
        return int(self._width)

    def replied(self) -> None:
        self._width = min(self._most, self._width + (1.0 if self._calm else 1.0 / self._width))

    def back_off(self, sent_at: float, now: float) -> None:
        if sent_at < self._halved_at:
            return
        self._calm = False
        self._halved_at = now
        self._width = max(1.0, self._width / 2)


class Sink(Protocol):
    """Saves replies: a reply is in its file when the call returns, and saving the same reply twice does no harm."""

    def __call__(self, ask: Ask, reply: Reply) -> Ask | None:
        """Save a reply; return a further ask (a larger token limit, one more try), or None when this one is done."""
        ...


class Progress(msgspec.Struct, frozen=True):
    """One step of progress, for display.

    `cached` are the questions that need not be asked. `without_usage` counts replies whose tokens, and so whose cost,
    the provider did not state.
    """

    group: str
    sent: int = 0
    done: int = 0
    failed: int = 0
    cost: float | None = 0.0
    cached: int = 0
    without_usage: int = 0


Watch = Callable[[Progress], None]
"""A function called on progress."""
Notice = Callable[[str], None]
"""Called with one-line messages for the user."""
Recall = Callable[[str], Ask]
"""Recreates the first ask of a key, so that its texts need not be kept in memory while a provider has them."""


BATCH_FLOOR = 1000
"""When someone is waiting for the result, fewer questions than this are sent directly, because a batch may take a
day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingSettings:
    """Everything a caller may set about asking, checked once."""

    batch: bool | None = None
    """Ask in batches; – means if the provider supports them."""
    batch_floor: int = 0
    """If fewer questions than this are pending, they are sent directly anyway. A placement sets 1000."""
    concurrency: int = 16
    """Concurrent direct calls."""
    max_batch: int | None = None
    """Requests per batch; None means as many as the provider allows."""
    max_open: int = 200_000
    """Requests in open batches at one time. A judge needs less than a kilobyte of memory for each; if asks cannot be
    recreated, their texts are kept in memory too."""
    poll_initial_seconds: float = 30.0
    """First pause between two polls of a batch."""
    poll_max_seconds: float = 300.0
    """Longest pause."""
    budget_usd: float | None = None
    """Stop before this much is spent."""
    timeout_seconds: float = TIMEOUT_SECONDS
    """How long one request may take in all."""
    requests_per_minute: float | None = None
    """Direct calls per minute, at most; None is no limit."""
    tokens_per_minute: float | None = None
    """Tokens of direct calls and their replies per minute, at most; None is no limit."""
    max_tries: int = 6
    """How often one call is tried when the provider says `TryLater`."""
    max_resubmits: int = 2
    """How many times an entry that expired, was canceled, failed or is missing is sent again."""
    adoption_grace_seconds: float = 60.0
    """How long after it was sent a batch may still be missing from the provider's list."""
    interrupt_grace_seconds: float = 10.0
    """How long an interrupt waits for outstanding replies."""

    def __post_init__(self) -> None:
        at_least = {
            "batch_floor": 0,
            "concurrency": 1,
            "max_batch": 1,
            "max_open": 1,
            "poll_initial_seconds": 0,
            "poll_max_seconds": self.poll_initial_seconds,
            "budget_usd": 0,
            "max_tries": 1,
            "max_resubmits": 0,
        }
        for name, least in at_least.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise OptionError(f"{name} is {value}; it must be at least {least}.")
        for name in ("timeout_seconds", "requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise OptionError(f"{name} is {value}; it must be a number above 0.")

    def pace(self, now: Callable[[], float]) -> RequestPace:
        """How fast direct calls may follow each other."""
        return RequestPace(self.requests_per_minute, self.tokens_per_minute, now)


NO_TOKENS = Usage()


class CostEstimate(msgspec.Struct, frozen=True):
    """The most that a request can cost, as far as its tokens are estimated rightly, in USD."""

    model: str = ""
    input_usd: float = 0.0
    output_usd: float = 0.0
    tokens: Usage = NO_TOKENS


NOTHING = CostEstimate()


class _InFlight(msgspec.Struct):
    """What the requests to one model that have no reply yet are estimated at, and how its provider counts tokens.

    A ratio is the highest of counted to estimated tokens so far, at least 1; `known` says that there was a reply.
    """

    input_usd: float = 0.0
    output_usd: float = 0.0
    input_ratio: float = 1.0
    output_ratio: float = 1.0
    known: bool = False

    def cost(self, more: CostEstimate = NOTHING) -> float:
        """The most that these requests and one more can cost, the way tokens were counted so far."""
        given, answered = self.input_usd + more.input_usd, self.output_usd + more.output_usd
        return max(0.0, given * self.input_ratio) + max(0.0, answered * self.output_ratio)


class Budget:
    """Money for one run; pass the same budget to several calls and they share it. A limit of None allows everything.

    Before a request is sent, the most it can cost is reserved; its reply replaces that by the actual cost. Where a
    provider counts more tokens than estimated, everything reserved for that model grows by the highest ratio so far.
    So `spent` plus `promised` exceeds the limit only by what requests in flight cost beyond that ratio.

    Parameters:
        limit_usd: The most that may be spent; None is no limit.
    """

    def __init__(self, limit_usd: float | None) -> None:
        self.limit_usd = limit_usd
        self.spent = 0.0
        self._models: defaultdict[str, _InFlight] = defaultdict(_InFlight)

    @property
    def promised(self) -> float:
        """What is reserved for requests without a reply."""
        reserved = sum(one.cost() for one in self._models.values())
        return reserved if reserved > 1e-12 else 0.0

    def knows(self, model: str) -> bool:
        """Whether a reply of this model has shown how its provider counts tokens, or nobody has to know."""
        return self.limit_usd is None or self._models[model].known

    def fits(self, request: CostEstimate) -> bool:
        """Whether one more request may be sent, with a tolerance of a millionth of a cent for rounding."""
        if self.limit_usd is None:
            return True
        mine = self._models[request.model]
        return self.spent + self.promised - mine.cost() + mine.cost(request) <= self.limit_usd + 1e-8

    def promise(self, request: CostEstimate) -> None:
        """Reserve money for a request that is about to be sent, or was sent."""
        mine = self._models[request.model]
        mine.input_usd += request.input_usd
        mine.output_usd += request.output_usd

    def settle(self, request: CostEstimate, usage: Usage | None, cost: float) -> None:
        """Replace what was reserved by the actual cost; without stated tokens (None) it costs what was reserved."""
        mine = self._models[request.model]
        mine.input_usd -= request.input_usd
        mine.output_usd -= request.output_usd
        if usage is None:
            cost = request.input_usd * mine.input_ratio + request.output_usd * mine.output_ratio
        else:
            estimated = request.tokens
            if estimated.all_input:
                mine.input_ratio = max(mine.input_ratio, usage.all_input / estimated.all_input)
            if estimated.output_tokens:
                mine.output_ratio = max(mine.output_ratio, usage.output_tokens / estimated.output_tokens)
        mine.known = mine.known or usage != NO_TOKENS
        self.spent += cost

    def reached(self) -> BudgetReached:
        """The error to raise when the budget is reached."""
        highest = max((one.input_ratio for one in self._models.values()), default=1.0)
        more = f" (up to {highest:.1f} times the estimated tokens were counted)" if highest >= 1.5 else ""
        return BudgetReached(
            f"the budget of ${self.limit_usd:.2f} is reached: ${self.spent:.2f} are spent by this command, and the "
            f"next request could pass it{more}. Everything answered so far is kept: run the same again "
            "with a budget for the rest."
        )


class GroupTotals(msgspec.Struct, frozen=True):
    """Totals of one group.

    `sent` counts the asks passed to the provider, `found` those of them that were already in a batch of an earlier run.
    A `done` ask ended with a reply, a `failed` one without; every key ends as one of the two. An ask that was followed
    by another (with a larger token limit) is neither, but its tokens and cost are included. `cost` is None if a price
    is unknown. `replies` counts all replies, including those that were asked for again; the provider did not state the
    tokens of those `without_usage`, so neither `usage` nor `cost` includes them.
    """

    sent: int = 0
    found: int = 0
    done: int = 0
    failed: int = 0
    usage: Usage = NO_TOKENS
    cost: float | None = 0.0
    replies: int = 0
    without_usage: int = 0

    def __add__(self, other: GroupTotals) -> GroupTotals:
        return add_fields(self, other)


class Totals:
    """The totals of asking, by group and overall, as they grow.

    Pass one in to know what was done even if asking ends with an error or an interrupt.
    """

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch
        self.groups: defaultdict[str, GroupTotals] = defaultdict(GroupTotals)

    @property
    def all(self) -> GroupTotals:
        return sum(self.groups.values(), GroupTotals())

    def sent(self, group: str, count: int = 1, *, found: bool = False) -> None:
        """Count asks that were sent, or found in a batch sent earlier."""
        self.groups[group] += GroupTotals(sent=count, found=count if found else 0)
        if self._watch is not None:
            self._watch(Progress(group, sent=count))

    def reply(self, group: str, usage: Usage | None, cost: float | None, *, done: int = 0, failed: int = 0) -> None:
        """Count a reply: its tokens (None: not stated), its price, and whether it completed a key."""
        unstated = int(usage is None)
        self.groups[group] += GroupTotals(
            0, 0, done, failed, usage or NO_TOKENS, cost, replies=1, without_usage=unstated
        )
        if self._watch is not None:
            self._watch(Progress(group, done=done, failed=failed, cost=cost, without_usage=unstated))

    def add(self, other: Totals) -> None:
        """Add other totals, which have already been reported."""
        for group, more in other.groups.items():
            self.groups[group] += more


class Keeper:
    """Saves replies and counts their cost. Shared by direct calls and batches."""

    def __init__(self, sink: Sink, tally: Totals, budget: Budget, prices: PriceTable, sync: Callable[[], None]) -> None:
        self._sink = sink
        self.sync = sync
        """Brings what the sink saved to the disk."""
        self.tally = tally
        self.budget = budget
        self._prices = prices

    def most(self, ask: Ask, *, batched: bool) -> CostEstimate:
        if self.budget.limit_usd is None:
            return NOTHING
        model = ask.request.model
        tokens = most_usage(ask.request)
        whole = self._prices.cost(model, tokens, batched)
        answer = self._prices.cost(model, Usage(output_tokens=tokens.output_tokens), batched)
        if whole is None or answer is None:
            raise OptionError(f"a budget was set, but {how_to_state_prices([model])}")
        return CostEstimate(model, whole - answer, answer, tokens)

    def keep(self, ask: Ask, reply: Reply, *, promised: CostEstimate = NOTHING) -> Ask | None:
        """Pass a reply to the sink, count it, and return what the sink asks next."""
        further = self._sink(ask, reply)
        ended = further is None
        failed = reply.error is not None
        self._count(ask, reply, promised, done=int(ended and not failed), failed=int(ended and failed))
        return further

    def ask_again(self, ask: Ask, reply: Reply, *, promised: CostEstimate) -> None:
        """Count a reply that is discarded because its request is sent again: it may have cost something."""
        if reply.usage == NO_TOKENS:
            self.budget.settle(promised, NO_TOKENS, 0.0)
        else:
            self._count(ask, reply, promised)

    def _count(self, ask: Ask, reply: Reply, promised: CostEstimate, *, done: int = 0, failed: int = 0) -> None:
        cost = self._prices.cost(ask.request.model, reply.usage or NO_TOKENS, reply.batched)
        self.budget.settle(promised, reply.usage, cost or 0.0)
        self.tally.reply(ask.group, reply.usage, cost, done=done, failed=failed)


DEFAULT_SETTINGS = AskingSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingParts:
    """Everything asking needs besides the questions, as one object."""

    prices: PriceTable
    """What tokens cost."""
    settings: AskingSettings = DEFAULT_SETTINGS
    """How to ask."""
    budget: Budget | None = None
    """What may be spent, shared by all requests of a command."""
    tally: Totals | None = None
    """Counts what is asked."""
    notice: Notice = logging.getLogger("tiltyard.judge.llm").info
    """Called with one-line messages for the user."""
    now: Callable[[], float] = time.time
    """The clock."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """How to wait."""
    rng: random.Random = field(default_factory=random.Random)
    """Random numbers, for pauses."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further headers for the judge's server, such as a gateway; a value may name variables: `${NAME}`."""

    @classmethod
    def for_command(
        cls,
        settings: AskingSettings,
        notice: Notice,
        prices_path: Path | None = None,
        *,
        stated: Mapping[str, Price] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AskingParts:
        """The parts of one command, with one budget for everything it asks, and the user's own prices."""
        prices = PriceTable.load(prices_path, user_file=user_price_file(), stated=stated)
        budget = Budget(settings.budget_usd)
        return cls(prices=prices, settings=settings, budget=budget, notice=notice, headers=headers or {})
