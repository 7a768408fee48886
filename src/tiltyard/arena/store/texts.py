"""The texts of prompts and answers: the bodies of their events, which never change, with a cache in memory.

`AnswerIndex` knows the event of every answer by the answer's id. It reads the log's index of rare kinds, once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from tiltyard.arena.events import PromptAdded, ResponseAdded, decode_body
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.log import RARE

KEPT_CHARACTERS = 32_000_000


class Texts:
    """Prompts and answers by the numbers of their events. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, PromptAdded | ResponseAdded] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def get(self, connection: Connection, seqs: Iterable[int]) -> dict[int, PromptAdded | ResponseAdded]:
        """What these events added; those not in memory are read in one go."""
        wanted = set(seqs)
        with self._lock:
            result = {seq: self._kept[seq] for seq in wanted if seq in self._kept}
            for seq in result:
                self._kept.move_to_end(seq)
        missing = sorted(wanted - result.keys())
        if missing:
            for seq, text in connection.rows("SELECT seq, body FROM events WHERE seq IN ??", missing):
                body = decode_body(text)
                assert isinstance(body, PromptAdded | ResponseAdded)
                result[seq] = body
                self._keep(seq, body)
        return result

    def _keep(self, seq: int, body: PromptAdded | ResponseAdded) -> None:
        with self._lock:
            if seq not in self._kept:
                self._kept[seq] = body
                self._characters += len(body.text)
            while self._characters > KEPT_CHARACTERS and self._kept:
                self._characters -= len(self._kept.popitem(last=False)[1].text)


@dataclass(frozen=True, slots=True)
class PastAnswer:
    """An answer imported as event `seq`, at a time in microseconds; a later one replaces it."""

    seq: int
    at: int
    response_id: str
    model: str
    prompt_id: str


class _Added(msgspec.Struct, frozen=True):
    """What is read of an answer; the text is skipped."""

    response_id: str
    model: str
    prompt_id: str


_decoder = msgspec.json.Decoder(_Added)


class AnswerIndex:
    """Every answer that was ever added. Safe to use from several threads."""

    def __init__(self) -> None:
        self._seq = 0
        self._by_id: dict[str, PastAnswer] = {}
        self._by_cell: dict[tuple[str, str], list[PastAnswer]] = {}
        self._lock = threading.Lock()

    def by_id(self, connection: Connection) -> dict[str, PastAnswer]:
        """All answers by their ids, in the order of the log; the first event of an id is its answer."""
        self._follow(connection)
        return self._by_id

    def seqs(self, connection: Connection, response_ids: Iterable[str]) -> list[int]:
        """The events of those of these answers that exist."""
        known = self.by_id(connection)
        return [known[name].seq for name in response_ids if name in known]

    def of(self, connection: Connection, model: str, prompt_id: str) -> Sequence[PastAnswer]:
        """A model's answers to a prompt, latest first."""
        self._follow(connection)
        return self._by_cell.get((model, prompt_id), [])[::-1]

    def _follow(self, connection: Connection) -> None:
        with self._lock:
            for seq, at, text in connection.rows(
                f"SELECT seq, at, body FROM events WHERE {RARE} AND kind = 'response_added' AND seq > ? ORDER BY seq",
                self._seq,
            ):
                added = _decoder.decode(text)
                answer = PastAnswer(seq, at, added.response_id, added.model, added.prompt_id)
                self._by_id.setdefault(answer.response_id, answer)
                self._by_cell.setdefault((answer.model, answer.prompt_id), []).append(answer)
                self._seq = seq
