"""What the runners take: an `Ask` with a key, a sink that keeps every reply and says what to ask next, and settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.llm.records import Reply, Request


@dataclass(frozen=True, slots=True)
class Ask:
    """One question on its way: `key` names what is wanted (it stays when the request is asked again, more loosely)."""

    key: str
    """Names what is wanted; it stays when the request is asked again, more loosely."""
    request: Request
    """What is sent."""
    group: str
    """Which part of the work it belongs to (a dimension, an entrant): for progress, prices and budgets."""
    attempt: int = 1
    """Which attempt this is."""


class Sink(Protocol):
    """Keeps replies: a reply is on disk when it returns, and the same reply twice does no harm."""

    def __call__(self, ask: Ask, reply: Reply) -> Ask | None:
        """Keep a reply; give back a further ask (a larger token budget, one more try) or None when this one is done."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of the work, for whoever shows it.

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
"""A function that is told of progress."""
Recall = Callable[[str], Ask]
"""Makes the first ask of a key again, so that its texts need not be held while a provider has them."""


BATCH_FLOOR = 1000
"""Where somebody waits for the result, fewer questions than this go out directly: a batch may take a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingSettings:
    """Everything a caller may set about asking, checked once.

    `batch` None means: in batches where the provider takes them. Fewer pending asks than `batch_floor` go directly all
    the same: 0 for a tournament, which runs overnight; `BATCH_FLOOR` for a placement, which someone waits for.
    """

    batch: bool | None = None
    """In batches; – means where the provider takes them."""
    batch_floor: int = 0
    """Fewer pending questions than this go directly all the same. A placement sets 1000."""
    concurrency: int = 16
    """Direct calls at a time."""
    max_batch: int | None = None
    """Requests per batch; None is as many as the provider takes."""
    max_open: int = 200_000
    """Requests in open batches at one time. A judge holds less than a kilobyte for each; where asks cannot be made
    again, their texts are held too."""
    poll_initial_seconds: float = 30.0
    """First pause between two looks at a batch."""
    poll_max_seconds: float = 300.0
    """Longest pause."""
    budget_usd: float | None = None
    """Stop before this much is spent."""
    max_tries: int = 6
    """How often one call is tried when the provider says `TryLater`."""
    max_resubmits: int = 2
    """How often an entry that expired, was canceled, erred or went missing is sent once more."""
    adoption_grace_seconds: float = 60.0
    """How long after it was sent a batch may still be missing from the provider's list."""
    interrupt_grace_seconds: float = 10.0
    """How long an interrupt waits for the replies that are on their way."""

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
