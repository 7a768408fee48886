"""The event log in the database: events numbered 1, 2, 3 … in the order of their commits, each chained to the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tiltyard.arena.chain import FIRST_HASH, link_events
from tiltyard.arena.events import AnyBody, Event, SettingsChanged, decode_body, decode_events, encode_body
from tiltyard.arena.policy import Policy
from tiltyard.arena.store.database import Connection

PAGE = 20_000
"""How many events are read at once when a log is folded."""

EVERYTHING = 2**62
"""A sequence number that no log reaches."""

RARE = "kind NOT IN ('matchup_served', 'voted', 'revealed', 'skipped', 'expired', 'undone')"
"""The condition of the index over rare kinds; a query that is to use it repeats it."""

COLUMNS = ("seq", "at", "kind", "body", "hash")


class EventPage(NamedTuple):
    """Events of the log one after the other: the number of the first, and the hash of the last."""

    first: int
    head: str
    events: list[Event]


def append_events(connection: Connection, events: Sequence[Event], seq: int, previous: str) -> str:
    """Write events after number `seq`, whose hash is `previous`; the hash of the last one."""
    if not events:
        return previous
    times, texts = [event.at for event in events], [encode_body(event.body) for event in events]
    kinds, links = [event.body.__struct_config__.tag for event in events], link_events(previous, times, texts)
    numbers = range(seq + 1, seq + 1 + len(events))
    connection.insert("events", COLUMNS, list(zip(numbers, times, kinds, texts, links, strict=True)))
    connection.head = (seq + len(events), links[-1])
    return links[-1]


def head(connection: Connection) -> tuple[int, str]:
    """The last sequence number and its hash."""
    row = connection.one("SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1")
    return (0, FIRST_HASH) if row is None else (row[0], row[1])


def hash_at(connection: Connection, seq: int) -> str:
    """The hash of the event with this sequence number."""
    return FIRST_HASH if seq == 0 else str(connection.value("SELECT hash FROM events WHERE seq = ?", seq))


def pages(connection: Connection, after: int, until: int = EVERYTHING) -> Iterator[EventPage]:
    """The events after a sequence number, in pages, to the end of the log or to another number."""
    query = "SELECT seq, at, body, hash FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
    while rows := connection.rows(query, after, until, PAGE):
        seqs, times, texts, hashes = zip(*rows, strict=True)
        yield EventPage(seqs[0], hashes[-1], decode_events(times, texts))
        if len(rows) < PAGE:
            return
        after = seqs[-1]


def of_kinds(connection: Connection, kinds: Sequence[str], until: int = EVERYTHING) -> list[tuple[int, int, AnyBody]]:
    """All events of these rare kinds up to a number, in order: number, time and body."""
    rows = connection.rows(
        f"SELECT seq, at, body FROM events WHERE {RARE} AND kind IN ?? AND seq <= ? ORDER BY seq",
        list(kinds),
        until,
    )
    return [(seq, at, decode_body(text)) for seq, at, text in rows]


def policy(connection: Connection) -> Policy:
    """The policy in force at the end of the log."""
    text = connection.value(
        f"SELECT body FROM events WHERE {RARE} AND kind = 'settings_changed' ORDER BY seq DESC LIMIT 1"
    )
    body = None if text is None else decode_body(text)
    return body.policy if isinstance(body, SettingsChanged) else Policy()


def latest_decision(connection: Connection, after: int, until: int) -> int | None:
    """The last event there, in which the operator decided something: neither a visitor nor the clock."""
    query = (
        f"SELECT max(seq) FROM events WHERE {RARE} AND seq > ? AND seq <= ? AND kind NOT IN ('explained', 'flagged') "
        "AND (kind <> 'head_published' OR body LIKE ?)"
    )
    seq: int | None = connection.value(query, after, until, '%"signature":%')
    return seq
