"""Answers that are files: kept once each under the hash of their bytes, in pieces, and read piece by piece."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tiltyard.arena.rules.events import ResponseAdded
from tiltyard.arena.store import log
from tiltyard.arena.store.database import Connection
from tiltyard.errors import ArenaError

if TYPE_CHECKING:
    from tiltyard.arena.store.store import Store

PART_BYTES = 1 << 18
"""The length of a piece; the last one of a file may be shorter."""

_PART = "SELECT content FROM file_parts WHERE sha256 = ? AND number = ?"


class CleanFile(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of an answer as voters are shown them."""

    content: bytes
    media_type: str
    source: str = ""
    """The SHA-256 of the file that they were made from; empty if it is not known."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


class StoredFile(NamedTuple):
    """A file in the store, without its bytes, and the answer that it belongs to."""

    response_id: str
    kind: str
    sha256: str
    media_type: str
    size: int


def keep_files(connection: Connection, added: Sequence[CleanFile], named: Collection[str]) -> None:
    """Keep files that are not there yet; an answer must not name one that is nowhere."""
    given = {file.sha256: file for file in added}
    names = sorted({*given, *named})
    if not names:
        return
    there = {name for (name,) in connection.rows("SELECT sha256 FROM files WHERE sha256 IN ??", names)}
    for name in named:
        if name not in there and name not in given:
            raise ArenaError(
                f"an answer names the file {name[:16]}…, which is not in the arena. Import it with its file."
            )
    for name, file in given.items():
        if name in there:
            continue
        size = len(file.content)
        connection.execute("INSERT INTO files VALUES (?, ?, ?, ?)", name, file.media_type, size, file.source)
        for number, start in enumerate(range(0, size, PART_BYTES)):
            part = file.content[start : start + PART_BYTES]
            connection.execute("INSERT INTO file_parts VALUES (?, ?, ?) ON CONFLICT DO NOTHING", name, number, part)


def shown_file(store: Store, matchup_id: str, side: str) -> StoredFile | None:
    """The file on one side of a matchup; None if there is no such matchup, or its answers are texts."""
    column = {"A": "answer_a", "B": "answer_b"}[side]
    with store.database.read() as connection:
        seq = connection.value(f"SELECT {column} FROM matchups WHERE id = ?", matchup_id)
        return None if seq is None else next(iter(_files_of(store, connection, [seq]).values()), None)


def files_of(store: Store, response_ids: Sequence[str]) -> dict[str, StoredFile]:
    """The files of those of these answers that are files, by the answer's id."""
    with store.database.read() as connection:
        return _files_of(store, connection, store.answers.seqs(connection, response_ids))


def _files_of(store: Store, connection: Connection, seqs: Sequence[int]) -> dict[str, StoredFile]:
    bodies = store.texts.get(connection, seqs).values()
    answers = [body for body in bodies if isinstance(body, ResponseAdded) and body.file]
    if not answers:
        return {}
    query = "SELECT sha256, media_type, size FROM files WHERE sha256 IN ??"
    known = {row[0]: row for row in connection.rows(query, sorted({body.file for body in answers}))}
    return {
        body.response_id: StoredFile(body.response_id, body.answer_kind, *known[body.file])
        for body in answers
        if body.file in known
    }


def stored_files(store: Store) -> list[tuple[StoredFile, str]]:
    """Every answer that is a file, without its bytes, and the hash of the file that it was made from."""
    with store.database.read() as connection:
        rows = connection.rows("SELECT sha256, media_type, size, source FROM files")
        known = {row[0]: row for row in rows}
        added = log.bodies_of(connection, ResponseAdded)
    return [
        (StoredFile(body.response_id, body.answer_kind, *known[body.file][:3]), known[body.file][3])
        for body in added
        if body.file in known
    ]


def read_part(store: Store, sha256: str, number: int) -> bytes:
    """One piece of a file; empty after the last."""
    with store.database.read() as connection:
        content = connection.value(_PART, sha256, number)
    return b"" if content is None else bytes(content)


def read_file(store: Store, sha256: str) -> Iterator[bytes]:
    """A file, piece by piece."""
    number = 0
    while part := read_part(store, sha256, number):
        yield part
        number += 1


def damaged_files(connection: Connection) -> Iterator[tuple[str, str]]:
    """Every file whose bytes are not those that its name says, or that an answer names and that is not there.

    One piece is in memory at a time.
    """
    sizes: dict[str, int] = dict(connection.rows("SELECT sha256, size FROM files"))
    for name in sorted({body.file for body in log.bodies_of(connection, ResponseAdded)} - {""}):
        if name not in sizes:
            yield name, "is missing: answers name it"
    for name, size in sorted(sizes.items()):
        digest, length, number = hashlib.sha256(), 0, 0
        while (part := connection.value(_PART, name, number)) is not None:
            digest.update(part)
            length, number = length + len(part), number + 1
        if digest.hexdigest() != name:
            yield name, "its bytes were changed: they have another hash"
        elif length != size:
            yield name, f"has {length} bytes, not {size}"
