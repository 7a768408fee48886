"""Filling batches: asks of one model, as many as fit into one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiltyard.llm.asking import Ask
    from tiltyard.llm.provider import BatchProvider


COMFORTABLE_BYTES = 64_000_000
"""A batch is closed at this size even where the provider takes more: an SDK holds its body several times over while it
is sent, and a connection that breaks then costs less."""


@dataclass(slots=True)
class Parcel:
    """Asks that will go out as one batch, with the money set aside for them."""

    asks: dict[str, Ask] = field(default_factory=dict)
    bytes: int = 0
    promised: float = 0.0

    def add(self, ask: Ask, size: int, promised: float) -> None:
        """Put an ask in."""
        self.asks[ask.key] = ask
        self.bytes += size
        self.promised += promised


class Packer:
    """The limits of one batch: the provider's, the caller's, and what is comfortable."""

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
