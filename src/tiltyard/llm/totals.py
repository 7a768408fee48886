"""What asking came to, group by group: `RunningTotals` while it runs, `Totals` when it has ended."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tiltyard.llm.asking import Progress, Watch
from tiltyard.llm.records import Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_TOKENS = Usage()


@dataclass(frozen=True, slots=True)
class GroupTotals:
    """What one group came to.

    `sent` counts the asks handed to the provider, `found` those of them that a batch of an earlier run already held.
    A `done` ask ended with a reply, a `failed` one without; every key ends as one of the two. An ask that was
    followed by another (a larger token budget) is neither, but its tokens and its money are in. `cost` is None where
    a price is unknown. `replies` counts all that came in, also those that were asked for again; the tokens of those
    `without_usage` were not stated by the provider, and neither `usage` nor `cost` holds them.
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
    """What asking came to, by group and in all."""

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


def add_costs(first: float | None, second: float | None) -> float | None:
    """The sum of two prices; unknown when either is."""
    return None if first is None or second is None else first + second


@dataclass(slots=True)
class _Count:
    """What one group has come to so far: numbers that change in place, since every reply changes them."""

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
    """The running count. Hand one in to know what was done even when asking ends with an error or an interrupt."""

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch
        self._counts: defaultdict[str, _Count] = defaultdict(_Count)

    def sent(self, group: str, count: int = 1, *, found: bool = False) -> None:
        """Asks went out, or were found in a batch that had gone out before."""
        counts = self._counts[group]
        counts.sent += count
        counts.found += count if found else 0
        if self._watch is not None:
            self._watch(Progress(group, sent=count))

    def reply(self, group: str, usage: Usage | None, cost: float | None, *, done: int = 0, failed: int = 0) -> None:
        """A reply came: its tokens (None: not stated), its price, and whether it ended a key."""
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
        """Take in what another tally has counted, and shown."""
        for group, more in totals.groups.items():
            self._counts[group].add(more)

    def totals(self) -> Totals:
        """What there is so far."""
        return Totals({group: counts.totals() for group, counts in self._counts.items()})
