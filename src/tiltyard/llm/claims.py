"""Which asks are with a provider already: the requests of open intents, found again by key."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiltyard.llm.asking import Ask
    from tiltyard.llm.journal import Entry, OpenIntent


@dataclass(slots=True)
class Held:
    """An open intent with those of its requests that this run asks for, by custom id."""

    open: OpenIntent
    asks: dict[str, tuple[Ask, Entry]] = field(default_factory=dict)
    known_at: float = 0.0
    """When this process learnt of it: from then on counts the grace in which its batch may still appear."""


class Claims:
    """The requests of open intents by key. Of several for one key, the highest attempt counts, then the latest."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[OpenIntent, Entry]] = {}
        self._remaining: Counter[str] = Counter()

    def add(self, intent: OpenIntent) -> None:
        """Take in the requests of an intent."""
        for entry in intent.intent.entries:
            older = self._by_key.get(entry.key)
            if older is not None and older[1].attempt > entry.attempt:
                continue
            if older is not None:
                self._remaining[older[0].id] -= 1
            self._by_key[entry.key] = (intent, entry)
            self._remaining[intent.id] += 1

    def find(self, ask: Ask) -> tuple[OpenIntent, Entry, Ask] | None:
        """The intent and entry that hold this ask (or a later attempt at it), and the ask as it was sent."""
        held = self._by_key.get(ask.key)
        restored = held[1].restored(ask) if held is not None else None
        return None if held is None or restored is None else (held[0], held[1], restored)

    def supersede(self, ask: Ask) -> OpenIntent | None:
        """The intent that held an earlier attempt at this ask, whose reply is kept already: it holds it no longer."""
        held = self._by_key.get(ask.key)
        if held is None or held[1].attempt >= ask.attempt:
            return None
        self.drop(ask.key)
        return held[0]

    def drop(self, key: str) -> None:
        """This key's request is answered, or must be sent again."""
        intent, _ = self._by_key.pop(key)
        self._remaining[intent.id] -= 1

    def remaining(self, intent: OpenIntent) -> int:
        """How many requests of an intent are still to be answered or asked for."""
        return self._remaining[intent.id]
