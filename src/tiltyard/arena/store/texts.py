"""The texts of prompts and answers, with a cache in memory. They never change, and may be erased.

`AnswerIndex` knows the event of every answer by the answer's id. It reads the log's index of rare kinds, once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from tiltyard.arena.rules.events import Erased, PromptAdded, ResponseAdded, ResponseWithdrawn, decode_body, subject_of
from tiltyard.arena.rules.units import SECOND
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.log import RARE, filled, of_kinds
from tiltyard.data.bank import AnswerKind

KEPT_CHARACTERS = 32_000_000


class Texts:
    """Prompts and answers by the numbers of their events. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, PromptAdded | ResponseAdded] = OrderedDict()
        self._characters = 0
        self._gone: dict[tuple[str, str], str] = {}
        self._n_gone = 0
        self._lock = threading.Lock()

    def get(self, connection: Connection, seqs: Iterable[int]) -> dict[int, PromptAdded | ResponseAdded]:
        """What these events added; those not in memory are read in one go. What was erased or withdrawn says so."""
        wanted = set(seqs)
        n_gone = int(connection.value(f"SELECT count(*) FROM events WHERE {RARE} AND kind IN ??", _GONE))
        with self._lock:
            if n_gone != self._n_gone:
                self._kept.clear()
                self._characters, self._n_gone, self._gone = 0, n_gone, _gone(connection)
            result = {seq: self._kept[seq] for seq in wanted if seq in self._kept}
            for seq in result:
                self._kept.move_to_end(seq)
        missing = sorted(wanted - result.keys())
        if missing:
            rows = connection.rows("SELECT seq, body FROM events WHERE seq IN ??", missing)
            bodies = filled(connection, [decode_body(text) for _, text in rows])
            for (seq, _), body in zip(rows, bodies, strict=True):
                assert isinstance(body, PromptAdded | ResponseAdded)
                if (words := self._gone.get(subject_of(body, seq))) is not None:
                    body = msgspec.structs.replace(body, text=words)
                    if isinstance(body, ResponseAdded):
                        body = msgspec.structs.replace(body, answer_kind=AnswerKind.TEXT.value, file="")
                result[seq] = body
                with self._lock:
                    if seq not in self._kept:
                        self._kept[seq] = body
                        self._characters += len(body.text)
                    while self._characters > KEPT_CHARACTERS and self._kept:
                        self._characters -= len(self._kept.popitem(last=False)[1].text)
        return result


def is_erased(body: PromptAdded | ResponseAdded) -> bool:
    """Whether the text of an event that was to be filled in is gone."""
    return bool(body.digest) and not (body.text or (isinstance(body, ResponseAdded) and body.file))


_GONE = ["erased", "response_withdrawn"]


def _gone(connection: Connection) -> dict[tuple[str, str], str]:
    result = dict[tuple[str, str], str]()
    for _, at, body in of_kinds(connection, _GONE):
        day = datetime.fromtimestamp(at // SECOND, UTC).date().isoformat()
        if isinstance(body, Erased):
            result[body.what, body.subject_id] = f"Erased on {day}."
        elif isinstance(body, ResponseWithdrawn):
            result.setdefault(("answer", body.response_id), f"Withdrawn on {day}.")
    return result


class PastAnswer(msgspec.Struct, frozen=True):
    """An answer imported as event `seq`."""

    seq: int
    response_id: str
    model: str
    prompt_id: str


class AnswerIndex:
    """Every answer that was ever added. Safe to use from several threads."""

    def __init__(self) -> None:
        self._seq = 0
        self._by_id: dict[str, PastAnswer] = {}
        self._lock = threading.Lock()

    def by_id(self, connection: Connection) -> dict[str, PastAnswer]:
        """All answers by their ids, in the order of the log; the first event of an id is its answer."""
        query = f"SELECT seq, body FROM events WHERE {RARE} AND kind = 'response_added' AND seq > ? ORDER BY seq"
        with self._lock:
            for seq, text in connection.rows(query, self._seq):
                added = decode_body(text)
                assert isinstance(added, ResponseAdded)
                answer = PastAnswer(seq, added.response_id, added.model, added.prompt_id)
                self._by_id.setdefault(answer.response_id, answer)
                self._seq = seq
        return self._by_id

    def seqs(self, connection: Connection, response_ids: Iterable[str]) -> list[int]:
        known = self.by_id(connection)
        return [known[name].seq for name in response_ids if name in known]
