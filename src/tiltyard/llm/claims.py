"""Which asks are with a provider already: the requests of open intents, found again by key."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tiltyard.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiltyard.llm.asking import Ask, Recall
    from tiltyard.llm.journal import Entry, OpenIntent


@dataclass(slots=True)
class OpenBatch:
    """An open intent with those of its requests that this run asks for, by custom id.

    Where asks can be recalled, their texts are not held while they are with the provider, which may be for a day.
    """

    open: OpenIntent
    recall: Recall | None = None
    known_at: float = 0.0
    """When this process learnt of it: from then on counts the grace in which its batch may still appear."""
    _entries: dict[str, Entry] = field(default_factory=dict)
    _asks: dict[str, Ask] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, custom_id: str) -> bool:
        return custom_id in self._entries

    def put(self, entry: Entry, ask: Ask) -> None:
        """Hold an ask that went out as this entry."""
        self._entries[entry.custom_id] = entry
        if self.recall is None:
            self._asks[entry.custom_id] = ask

    def get(self, custom_id: str) -> tuple[Ask, Entry] | None:
        """The ask with this custom id and its entry."""
        entry = self._entries.get(custom_id)
        return None if entry is None else (self._ask(entry), entry)

    def drop(self, custom_id: str) -> None:
        """This ask has been seen to."""
        del self._entries[custom_id]
        self._asks.pop(custom_id, None)

    def drain(self) -> Iterator[tuple[Ask, Entry]]:
        """Every ask that is left, each dropped once it has been seen to."""
        for custom_id, entry in list(self._entries.items()):
            yield self._ask(entry), entry
            self.drop(custom_id)

    def _ask(self, entry: Entry) -> Ask:
        if self.recall is None:
            return self._asks[entry.custom_id]
        ask = entry.restored(self.recall(entry.key))
        if ask is None:
            raise ModelError(
                f"the request {entry.key[:12]} is no longer what was sent in batch {self.open.batch_id}. "
                "Run the same command again."
            )
        return ask


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
