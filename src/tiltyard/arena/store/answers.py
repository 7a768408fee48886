"""When answers came into the arena: the log's own record of what each model has said to each prompt, and until when."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import sqlalchemy as sa

from tiltyard.arena.store import log
from tiltyard.arena.store.tables import chain, events

if TYPE_CHECKING:
    from tiltyard.arena.store import Store


@dataclass(frozen=True, slots=True)
class PastAnswer:
    """An answer that was imported as event `seq`, at a time in microseconds; a later one takes its place."""

    seq: int
    at: int
    response_id: str


class _Added(msgspec.Struct, frozen=True):
    """Whose answer to what; the text is passed over."""

    response_id: str
    model: str
    prompt_id: str


_decoder = msgspec.json.Decoder(_Added)
_added = (
    sa.select(chain.c.seq, events.c.at, events.c.body)
    .join_from(events, chain, events.c.id == chain.c.event_id)
    .where(events.c.kind == "response_added", chain.c.seq > sa.bindparam("after"), chain.c.seq <= sa.bindparam("until"))
    .order_by(chain.c.seq)
)


class AnswerDates:
    """Every answer that was ever imported, with its date. The log is read once, then what is new of it."""

    def __init__(self) -> None:
        self._seq = 0
        self._found: dict[tuple[str, str], list[PastAnswer]] = {}
        self._lock = threading.Lock()

    def of(self, store: Store, model: str, prompt_id: str) -> tuple[PastAnswer, ...]:
        """What a model has said to a prompt, the latest answer first."""
        with self._lock:
            self._follow(store)
            return tuple(reversed(self._found.get((model, prompt_id), ())))

    def _follow(self, store: Store) -> None:
        with store.database.read() as connection:
            head, _ = log.head(connection)
            rows = connection.execute(_added, {"after": self._seq, "until": head}).all()
        for seq, at, text in rows:
            added = _decoder.decode(text)
            self._found.setdefault((added.model, added.prompt_id), []).append(PastAnswer(seq, at, added.response_id))
        self._seq = head
