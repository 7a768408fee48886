"""Accounting of requests: a `Budget`, totals by group, and the `Keeper` that every reply passes through.

The keeper passes a reply to the sink first, then adds it to the totals and the budget.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tiltyard.errors import BudgetReached, OptionError
from tiltyard.llm.asking import Ask, Progress, Sink, Watch
from tiltyard.llm.prices import PriceTable, add_costs, how_to_state_prices, most_usage
from tiltyard.llm.records import Reply, Usage

NO_TOKENS = Usage()


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The most that a request can cost, as far as its tokens are estimated rightly, in USD."""

    model: str = ""
    input_usd: float = 0.0
    output_usd: float = 0.0
    tokens: Usage = NO_TOKENS


NOTHING = CostEstimate()


@dataclass(slots=True)
class _InFlight:
    """What the requests to one model that have no reply yet are estimated at, and how its provider counts tokens."""

    input_usd: float = 0.0
    output_usd: float = 0.0
    input_ratio: float = 1.0
    """The highest ratio of counted to estimated tokens so far, at least 1."""
    output_ratio: float = 1.0

    def cost(self, more: CostEstimate = NOTHING) -> float:
        """The most that these requests and one more can cost, the way tokens were counted so far."""
        given, answered = self.input_usd + more.input_usd, self.output_usd + more.output_usd
        return max(0.0, given * self.input_ratio) + max(0.0, answered * self.output_ratio)

    def observe(self, estimated: Usage, counted: Usage) -> None:
        """Learn from a reply how tokens are counted."""
        if _all_input(estimated):
            self.input_ratio = max(self.input_ratio, _all_input(counted) / _all_input(estimated))
        if estimated.output_tokens:
            self.output_ratio = max(self.output_ratio, counted.output_tokens / estimated.output_tokens)


def _all_input(usage: Usage) -> int:
    return usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens


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
        self._observed: set[str] = set()

    @property
    def limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.limit_usd is not None

    @property
    def promised(self) -> float:
        """What is reserved for requests without a reply."""
        reserved = sum(one.cost() for one in self._models.values())
        return reserved if reserved > 1e-12 else 0.0

    def knows(self, model: str) -> bool:
        """Whether a reply of this model has shown how its provider counts tokens, or nobody has to know."""
        return not self.limited or model in self._observed

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
        elif usage != NO_TOKENS:
            mine.observe(request.tokens, usage)
        if usage != NO_TOKENS:
            self._observed.add(request.model)
        self.spent += cost

    def reached(self) -> BudgetReached:
        """The error to raise when the budget is reached."""
        return BudgetReached(
            f"the budget of ${self.limit_usd:.2f} is reached: ${self.spent:.2f} are spent by this command, and the "
            f"next request could pass it{self._counts_more()}. Everything answered so far is kept: run the same again "
            "with a budget for the rest."
        )

    def _counts_more(self) -> str:
        highest = max((one.input_ratio for one in self._models.values()), default=1.0)
        return f" (up to {highest:.1f} times the estimated tokens were counted)" if highest >= 1.5 else ""


@dataclass(frozen=True, slots=True)
class GroupTotals:
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
        return GroupTotals(
            self.sent + other.sent,
            self.found + other.found,
            self.done + other.done,
            self.failed + other.failed,
            self.usage + other.usage,
            add_costs(self.cost, other.cost),
            self.replies + other.replies,
            self.without_usage + other.without_usage,
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of asking, by group and overall."""

    groups: Mapping[str, GroupTotals] = field(default_factory=dict)

    @property
    def all(self) -> GroupTotals:
        """All groups together."""
        return sum(self.groups.values(), GroupTotals())

    def __add__(self, other: Totals) -> Totals:
        both: dict[str, GroupTotals] = dict(self.groups)
        for group, totals in other.groups.items():
            both[group] = both.get(group, GroupTotals()) + totals
        return Totals(both)


@dataclass(slots=True)
class _Count:
    """Running totals of one group, updated in place because every reply changes them."""

    sent: int = 0
    found: int = 0
    done: int = 0
    failed: int = 0
    input: int = 0
    output: int = 0
    written: int = 0
    read: int = 0
    cost: float | None = 0.0
    replies: int = 0
    without_usage: int = 0

    def add(self, more: GroupTotals) -> None:
        self.sent += more.sent
        self.found += more.found
        self.done += more.done
        self.failed += more.failed
        self.replies += more.replies
        self.without_usage += more.without_usage
        self.add_tokens(more.usage, more.cost)

    def add_tokens(self, usage: Usage, cost: float | None) -> None:
        self.input += usage.input_tokens
        self.output += usage.output_tokens
        self.written += usage.cache_creation_input_tokens
        self.read += usage.cache_read_input_tokens
        self.cost = add_costs(self.cost, cost)

    def totals(self) -> GroupTotals:
        usage = Usage(
            input_tokens=self.input,
            output_tokens=self.output,
            cache_creation_input_tokens=self.written,
            cache_read_input_tokens=self.read,
        )
        return GroupTotals(
            self.sent, self.found, self.done, self.failed, usage, self.cost, self.replies, self.without_usage
        )


class RunningTotals:
    """The running totals. Pass one in to know what was done even if asking ends with an error or an interrupt."""

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch
        self._counts: defaultdict[str, _Count] = defaultdict(_Count)

    def sent(self, group: str, count: int = 1, *, found: bool = False) -> None:
        """Count asks that were sent, or found in a batch sent earlier."""
        counts = self._counts[group]
        counts.sent += count
        counts.found += count if found else 0
        if self._watch is not None:
            self._watch(Progress(group, sent=count))

    def reply(self, group: str, usage: Usage | None, cost: float | None, *, done: int = 0, failed: int = 0) -> None:
        """Count a reply: its tokens (None: not stated), its price, and whether it completed a key."""
        unstated = int(usage is None)
        counts = self._counts[group]
        counts.done += done
        counts.failed += failed
        counts.replies += 1
        counts.without_usage += unstated
        counts.add_tokens(usage or NO_TOKENS, cost)
        if self._watch is not None:
            self._watch(Progress(group, done=done, failed=failed, cost=cost, without_usage=unstated))

    def add(self, totals: Totals) -> None:
        """Add the totals of another tally, which has already reported them."""
        for group, more in totals.groups.items():
            self._counts[group].add(more)

    def totals(self) -> Totals:
        """The totals so far."""
        return Totals({group: counts.totals() for group, counts in self._counts.items()})


class Keeper:
    """Saves replies and counts their cost. Shared by direct calls and batches."""

    def __init__(self, sink: Sink, tally: RunningTotals, budget: Budget, prices: PriceTable) -> None:
        self._sink = sink
        self.tally = tally
        self.budget = budget
        self._prices = prices

    def most(self, ask: Ask, *, batched: bool) -> CostEstimate:
        """The most an ask can cost, for the budget; nothing if there is no limit."""
        if not self.budget.limited:
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
        """Add a reply to the tally and the budget; without stated tokens it is charged the full reserved amount."""
        cost = self._prices.cost(ask.request.model, reply.usage or NO_TOKENS, reply.batched)
        self.budget.settle(promised, reply.usage, cost or 0.0)
        self.tally.reply(ask.group, reply.usage, cost, done=done, failed=failed)
