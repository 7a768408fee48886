"""The inputs of the runners: an `Ask` with a key, a sink that saves replies and says what to ask next, and settings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tiltyard.errors import OptionError
from tiltyard.llm.pacing import RequestPace
from tiltyard.llm.provider import TIMEOUT_SECONDS
from tiltyard.llm.records import Reply, Request


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to ask. `key` identifies it, and stays the same when it is asked again with looser limits."""

    key: str
    """Identifies the question; stays the same when it is asked again with looser limits."""
    request: Request
    """What is sent."""
    group: str
    """Which part of the work it belongs to (a dimension, an entrant): for progress, prices and budgets."""
    attempt: int = 1
    """Which attempt this is."""


class Sink(Protocol):
    """Saves replies: a reply is on disk when the call returns, and saving the same reply twice does no harm."""

    def __call__(self, ask: Ask, reply: Reply) -> Ask | None:
        """Save a reply; return a further ask (a larger token limit, one more try), or None when this one is done."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
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
Recall = Callable[[str], Ask]
"""Recreates the first ask of a key, so that its texts need not be kept in memory while a provider has them."""


def plural(count: int, noun: str) -> str:
    """How many of something: 1 reply, 12 replies, 2 batches.

    Parameters:
        count: How many.
        noun: What, in the singular.
    """
    if count == 1:
        return f"{count} {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("ly") else f"{count:,} {noun}{'es' if noun[-1] == 'h' else 's'}"


BATCH_FLOOR = 1000
"""When someone is waiting for the result, fewer questions than this are sent directly, because a batch may take a
day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingSettings:
    """Everything a caller may set about asking, checked once.

    `batch` None means in batches if the provider supports them. If fewer than `batch_floor` asks are pending, they are
    sent directly anyway: 0 for a tournament, which runs overnight; `BATCH_FLOOR` for a placement, where someone is
    waiting.
    """

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
        """How fast direct calls may follow each other.

        Parameters:
            now: The clock.
        """
        return RequestPace(self.requests_per_minute, self.tokens_per_minute, now)
