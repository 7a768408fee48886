"""What the runners take: an `Ask` with a key, and a sink that keeps every reply and says what to ask next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tiltyard.llm.records import Reply, Request


@dataclass(frozen=True, slots=True)
class Ask:
    """One question on its way: `key` names what is wanted (it stays when the request is asked again, more loosely)."""

    key: str
    request: Request
    group: str
    """Which part of the work it belongs to (a dimension, an entrant): for progress, prices and budgets."""
    attempt: int = 1


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
Recall = Callable[[str], Ask]
"""Makes the first ask of a key again, so that its texts need not be held while a provider has them."""
