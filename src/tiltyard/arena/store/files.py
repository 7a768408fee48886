"""Answers that are files: kept once each under the hash of their bytes, in pieces, and read piece by piece."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tiltyard.arena.store import Store
from tiltyard.arena.store.bulk import fetch, one_of
from tiltyard.arena.store.maintenance import require_programs_from
from tiltyard.arena.store.tables import file_parts, files, matchups, responses
from tiltyard.errors import ArenaError

PART_BYTES = 1 << 18
"""The length of a piece; the last one of a file may be shorter."""

FIRST_STEP = "0008"
"""The first tables with files: once there is one, older programs may not use them."""

_parts = (
    sa.select(file_parts.c.content)
    .where(file_parts.c.sha256 == sa.bindparam("name"), file_parts.c.number == sa.bindparam("number"))
    .limit(1)
)
_there = sa.select(files.c.sha256).where(one_of(files.c.sha256, "names"))
_side = {
    "A": matchups.c.response_a,
    "B": matchups.c.response_b,
}
_shown = {
    side: sa.select(responses.c.response_id, responses.c.kind, files.c.sha256, files.c.media_type, files.c.size)
    .select_from(
        matchups.join(responses, responses.c.response_id == column).join(files, files.c.sha256 == responses.c.file)
    )
    .where(matchups.c.id == sa.bindparam("matchup"))
    for side, column in _side.items()
}


_of_answers = (
    sa.select(responses.c.response_id, responses.c.kind, files.c.sha256, files.c.media_type, files.c.size)
    .join_from(responses, files, files.c.sha256 == responses.c.file)
    .where(one_of(responses.c.response_id, "ids"))
)


class CleanFile(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of an answer as voters are shown them.

    Parameters:
        content: The bytes.
        media_type: What they are.
        source: The SHA-256 of the file that they were made from; empty if it is not known.
    """

    content: bytes
    media_type: str
    source: str = ""

    @property
    def sha256(self) -> str:
        """The name under which it is kept."""
        return hashlib.sha256(self.content).hexdigest()


class StoredFile(NamedTuple):
    """A file in the store, without its bytes, and the answer that it belongs to."""

    response_id: str
    kind: str
    sha256: str
    media_type: str
    size: int


def keep_files(connection: sa.Connection, added: Sequence[CleanFile], named: Collection[str]) -> None:
    """Keep files that are not there yet; an answer must not name one that is nowhere."""
    given = {file.sha256: file for file in added}
    there = {row[0] for row in fetch(connection, _there, {"names": sorted({*given, *named})})}
    for name in named:
        if name not in there and name not in given:
            raise ArenaError(
                f"an answer names the file {name[:16]}…, which is not in the arena. Import it with its file."
            )
    for name, file in given.items():
        if name not in there:
            _write(connection, name, file)
    if named:
        require_programs_from(connection, FIRST_STEP)


def _write(connection: sa.Connection, name: str, file: CleanFile) -> None:
    insert = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert
    row = {"sha256": name, "media_type": file.media_type, "size": len(file.content), "source": file.source}
    connection.execute(insert(files).values(row).on_conflict_do_nothing(index_elements=["sha256"]))
    for number, start in enumerate(range(0, len(file.content), PART_BYTES)):
        part = {"sha256": name, "number": number, "content": file.content[start : start + PART_BYTES]}
        connection.execute(insert(file_parts).values(part).on_conflict_do_nothing())


def shown_file(store: Store, matchup_id: str, side: str) -> StoredFile | None:
    """The file on one side of a matchup; None if there is no such matchup, or its answers are texts."""
    with store.database.read() as connection:
        row = connection.execute(_shown[side], {"matchup": matchup_id}).first()
    return None if row is None else StoredFile(*row)


def files_of(store: Store, response_ids: Sequence[str]) -> dict[str, StoredFile]:
    """The files of those of these answers that are files, by the answer's id."""
    with store.database.read() as connection:
        rows = fetch(connection, _of_answers, {"ids": list(response_ids)})
    return {row[0]: StoredFile(*row) for row in rows}


def stored_files(store: Store) -> list[tuple[StoredFile, str]]:
    """Every answer that is a file, without its bytes, and the hash of the file that it was made from."""
    chosen = sa.select(
        *(responses.c.response_id, responses.c.kind, files.c.sha256, files.c.media_type, files.c.size, files.c.source)
    ).join_from(responses, files, files.c.sha256 == responses.c.file)
    with store.database.read() as connection:
        return [(StoredFile(*row[:5]), row[5]) for row in connection.execute(chosen)]


def read_part(store: Store, sha256: str, number: int) -> bytes:
    """One piece of a file; empty after the last."""
    with store.database.read() as connection:
        content = connection.execute(_parts, {"name": sha256, "number": number}).scalar()
    return b"" if content is None else bytes(content)


def read_file(store: Store, sha256: str) -> Iterator[bytes]:
    """A file, piece by piece."""
    number = 0
    while part := read_part(store, sha256, number):
        yield part
        number += 1


def damaged_files(connection: sa.Connection) -> Iterator[tuple[str, str]]:
    """Every file whose bytes are not those that its name says, or that an answer names and that is not there.

    One piece is in memory at a time.
    """
    named = sa.select(responses.c.file).where(responses.c.file != "").distinct().order_by(responses.c.file)
    sizes = {row.sha256: row.size for row in connection.execute(sa.select(files.c.sha256, files.c.size))}
    for name in connection.execute(named).scalars().all():
        if name not in sizes:
            yield name, "is missing: answers name it"
    for name, size in sorted(sizes.items()):
        digest, length, number = hashlib.sha256(), 0, 0
        while (part := connection.execute(_parts, {"name": name, "number": number}).scalar()) is not None:
            digest.update(part)
            length, number = length + len(part), number + 1
        if digest.hexdigest() != name:
            yield name, "its bytes were changed: they have another hash"
        elif length != size:
            yield name, f"has {length} bytes, not {size}"
