"""Erasing what somebody wrote: prompts, answers with their files, titles of models, reasons.

The log stays as it is: it has salted digests. Text and salt go, an event says that they went, and what was made of them
is deleted: it follows from the log and is made again. Digests of the texts are noted outside the database first. So a
kill leaves all of it, or what the next opening completes; and an older copy that is restored erases the same again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import get_args

from tiltyard.arena.rules.chain import salted_digest
from tiltyard.arena.rules.events import TEXTS, Erasable, Erased, Event, ResponseAdded, decode_body, subject_of
from tiltyard.arena.store import log
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.log import RARE
from tiltyard.arena.store.outside import TEXT
from tiltyard.arena.store.store import Store
from tiltyard.errors import OptionError

TABLES = ("texts", "files", "file_parts", "weekly_reports")
"""Where erased rows leave traces on PostgreSQL until they are written anew."""

PURGES, PURGE_PAUSE = 50, 0.1
"""How often, and after how many seconds, it is tried again to let nothing stay in the files while others read."""

AT_ONCE = 1_000


def erase(store: Store, subjects: Sequence[tuple[Erasable, str]], now: int) -> bool:
    """Erase what was written there, all of it in one transaction; whether no trace is left in the files by now.

    What was erased before is no error.
    """
    with store.database.read() as connection:
        digests = []
        erased = {(body.what, body.subject_id) for body in log.bodies_of(connection, Erased)}
        for what, name in subjects:
            found = connection.rows("SELECT digest FROM texts WHERE kind = ? AND id = ?", what, name)
            if not found and (what, name) not in erased:
                raise OptionError(_NO_SUCH[what].format(name=name[:200]))
            digests += [(TEXT, digest) for (digest,) in found]
    store.outside.note_deleted(*digests)
    with store.database.write(lock=True) as connection:
        for what, name in subjects:
            _erase(connection, what, name, now)
    return _purged(store)


_NO_SUCH: dict[Erasable, str] = {
    "prompt": "there is no prompt {name!r} in this arena. `tiltyard arena prompts` lists them.",
    "answer": "there is no answer {name!r} in this arena. Its id is on /admin and in `tiltyard arena screen`.",
    "model": "there is no model {name!r} in this arena. Write its id, as /leaderboard links to it.",
    "reason": "event {name!r} has no reason. `tiltyard arena erase reason` lists those that have one.",
}


def erase_again(store: Store, digests: Collection[str]) -> None:
    """Erase from an older copy of the database the texts with these digests, and what else was written there."""
    with store.database.read() as connection:
        rows = connection.rows("SELECT DISTINCT kind, id FROM texts WHERE digest IN ??", sorted(digests))
    if not rows:
        return
    with store.database.write(lock=True) as connection:
        for kind, name in rows:
            if kind in get_args(Erasable):
                _erase(connection, kind, name, time.time_ns() // 1000)
            else:
                connection.execute("DELETE FROM texts WHERE kind = ? AND id = ?", kind, name)
    _purged(store)


def _erase(connection: Connection, what: Erasable, name: str, now: int) -> None:
    rows = connection.rows("SELECT digest, at FROM texts WHERE kind = ? AND id = ?", what, name)
    if not rows:
        return
    if what == "answer":
        # The file goes too, if only this answer names it.
        named = {body.response_id: body.file for body in log.bodies_of(connection, ResponseAdded) if body.file}
        file = named.pop(name, "")
        if file and file not in named.values():
            for table in ("file_parts", "files"):
                connection.execute(f"DELETE FROM {table} WHERE sha256 = ?", file)
    elif what == "reason":
        connection.execute("DELETE FROM weekly_reports WHERE since <= ? AND until > ?", rows[0][1], rows[0][1])
    elif what == "model":
        connection.execute("DELETE FROM weekly_reports WHERE until > ?", min(at for _, at in rows))
    connection.execute("DELETE FROM texts WHERE kind = ? AND id = ?", what, name)
    log.append_events(connection, [Event(now, Erased(what=what, subject_id=name))], *log.head(connection))


def _purged(store: Store) -> bool:
    for _ in range(PURGES):
        if store.database.purge_deleted(*TABLES):
            return True
        time.sleep(PURGE_PAUSE)
    return False


def wrong_texts(connection: Connection) -> Iterator[tuple[str, str]]:
    """Texts that are not those that the log has the digests of, that are missing, or that should be gone."""
    expected: dict[str, tuple[str, str]] = {}
    gone: dict[str, tuple[str, str]] = {}
    kinds = ["erased", *(str(kind.__struct_config__.tag) for kind in TEXTS)]
    query = f"SELECT seq, body FROM events WHERE {RARE} AND kind IN ?? ORDER BY seq"
    for seq, text in connection.rows(query, kinds):
        body = decode_body(text)
        if isinstance(body, Erased):
            subject = body.what, body.subject_id
            gone |= {digest: about for digest, about in expected.items() if about == subject}
        elif digest := getattr(body, "digest", ""):
            expected[digest] = subject_of(body, seq)
    for digest in gone:
        del expected[digest]
    after, there = "", set[str]()
    page = "SELECT digest, kind, id, salt, text FROM texts WHERE digest > ? ORDER BY digest LIMIT ?"
    while rows := connection.rows(page, after, AT_ONCE):
        for digest, kind, name, salt, text in rows:
            where = f"{kind} {name}"
            if digest in gone:
                yield where, "was erased, and is there"
            elif expected.get(digest) != (kind, name):
                yield where, "no event has its digest"
            elif salted_digest(salt, text) != digest:
                yield where, "was changed: it has another digest than its event"
            there.add(digest)
        after = rows[-1][0]
    for digest, (kind, name) in expected.items():
        if digest not in there and kind != "comment":
            yield f"{kind} {name}", "is missing, and was not erased"
