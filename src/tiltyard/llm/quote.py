"""What asking will cost, before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tiltyard.llm.prices import Price, PriceTable, estimate_tokens
from tiltyard.llm.records import Usage
from tiltyard.llm.totals import add_costs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tiltyard.llm.asking import Ask


@dataclass(frozen=True, slots=True)
class GroupQuote:
    """About what one group will take. The four prices are in USD, None where a model's price is unknown.

    `cached` prices suppose that the provider keeps each shared system text after it was sent once; in a batch that is
    the best case, since its requests run side by side. Where nothing is to be cached, both prices are the same.
    """

    queries: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    direct: float | None = 0.0
    direct_cached: float | None = 0.0
    batch: float | None = 0.0
    batch_cached: float | None = 0.0

    def __add__(self, other: GroupQuote) -> GroupQuote:
        return GroupQuote(
            self.queries + other.queries,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            add_costs(self.direct, other.direct),
            add_costs(self.direct_cached, other.direct_cached),
            add_costs(self.batch, other.batch),
            add_costs(self.batch_cached, other.batch_cached),
        )


@dataclass(frozen=True, slots=True)
class Quote:
    """About what asking will take, by group and in all, at prices `as_of` a date."""

    as_of: str
    groups: Mapping[str, GroupQuote] = field(default_factory=dict)
    unknown_models: frozenset[str] = frozenset()
    too_short_to_cache: frozenset[str] = frozenset()
    """Groups whose system text is to be cached but is shorter than the provider caches."""

    @property
    def all(self) -> GroupQuote:
        """All groups together."""
        return sum(self.groups.values(), GroupQuote())


def quote(asks: Iterable[Ask], prices: PriceTable, *, output_tokens: Mapping[str, int] | None = None) -> Quote:
    """The quote for these asks, by the rule of thumb of `estimate_tokens`.

    A reply is taken to be as long as it may be (`max_tokens`), so that a quote is on the safe side; where it is known
    how long the replies of a group are, say so in `output_tokens`. Earlier turns are input, each time they are sent.
    Follow-up asks (a larger budget, one more try) are not in it.
    """
    lengths = output_tokens or {}
    groups: dict[str, GroupQuote] = {}
    unknown, short = set(), set()
    system_tokens: dict[str, int] = {}
    sent: set[tuple[str, str]] = set()
    for ask in asks:
        request = ask.request
        system = system_tokens.get(request.system)
        if system is None:
            system = system_tokens[request.system] = estimate_tokens(request.system)
        spoken = sum(estimate_tokens(words) for _, words in request.messages)
        output = lengths.get(ask.group, request.max_tokens)
        price = prices.price(request.model)
        if price is None:
            unknown.add(request.model)
        elif request.cache_system and system < price.cache_minimum_tokens:
            short.add(ask.group)
        again = (request.model, request.system) in sent
        sent.add((request.model, request.system))
        step = _one(price, system, spoken, output, cache=request.cache_system, again=again)
        groups[ask.group] = groups.get(ask.group, GroupQuote()) + step
    return Quote(prices.as_of, groups, frozenset(unknown), frozenset(short))


def _one(price: Price | None, system: int, spoken: int, output: int, *, cache: bool, again: bool) -> GroupQuote:
    """The quote of one ask, whose system text was sent before (`again`) or not."""
    if price is None:
        return GroupQuote(1, system + spoken, output, None, None, None, None)
    plain = Usage(input_tokens=system + spoken, output_tokens=output)
    cached = plain
    if cache and system >= price.cache_minimum_tokens:
        written, read = (0, system) if again else (system, 0)
        cached = Usage(
            input_tokens=spoken,
            output_tokens=output,
            cache_creation_input_tokens=written,
            cache_read_input_tokens=read,
        )
    return GroupQuote(
        1,
        system + spoken,
        output,
        price.cost(plain, batched=False),
        price.cost(cached, batched=False),
        price.cost(plain, batched=True),
        price.cost(cached, batched=True),
    )
