"""The event log in the database: events numbered 1, 2, 3 … in the order of their commits, each chained to the last.

What an event says in words lies beside it, in the table `texts`, from where it can be erased without a trace in the
chain: the event has its salted digest.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from tiltyard.arena.rules.chain import FIRST_HASH, link_events, salted_digest
from tiltyard.arena.rules.events import (
    TEXTS,
    AnyBody,
    Event,
    Explained,
    PromptAdded,
    ResponseAdded,
    SettingsChanged,
    decode_body,
    decode_events,
    encode_body,
    subject_of,
    with_text,
    without_text,
    written_text,
)
from tiltyard.arena.rules.policy import Policy
from tiltyard.arena.store.database import Connection, Row

BodyT = TypeVar("BodyT", bound=AnyBody)

PAGE = 20_000
"""How many events are read at once when a log is folded."""

EVERYTHING = 2**62
"""A sequence number that no log reaches."""

RARE = "kind NOT IN ('matchup_served', 'voted', 'revealed', 'skipped', 'expired', 'undone')"
"""The condition of the index over rare kinds; a query that is to use it repeats it."""

_SHORT = TEXTS.keys() - {PromptAdded, ResponseAdded, Explained}

COLUMNS = ("seq", "at", "kind", "body", "hash")


class EventPage(NamedTuple):
    """Events of the log one after the other: the number of the first, and the hash of the last."""

    first: int
    head: str
    events: list[Event]


def new_salt() -> str:
    """A random salt."""
    return secrets.token_urlsafe(18)


def append_events(
    connection: Connection, events: Sequence[Event], seq: int, previous: str, new_salt: Callable[[], str] = new_salt
) -> str:
    """Write events after number `seq`, whose hash is `previous`, and their texts; the hash of the last one."""
    if not events:
        return previous
    times = [event.at for event in events]
    texts = list(map(encode_body, _keep_texts(connection, events, seq, new_salt)))
    kinds, links = [event.body.__struct_config__.tag for event in events], link_events(previous, times, texts)
    numbers = range(seq + 1, seq + 1 + len(events))
    connection.insert("events", COLUMNS, list(zip(numbers, times, kinds, texts, links, strict=True)))
    connection.head = (seq + len(events), links[-1])
    return links[-1]


def _keep_texts(
    connection: Connection, events: Sequence[Event], seq: int, new_salt: Callable[[], str]
) -> list[AnyBody]:
    """Keep what these events say in words; the events without it. Of several comments on a vote the last is kept."""
    bodies, rows = list[AnyBody](), dict[str, Row]()
    for number, event in enumerate(events, start=seq + 1):
        body = event.body
        if type(body) in TEXTS and (text := written_text(body)):
            kind, name = subject_of(body, number)
            salt = new_salt()
            digest = salted_digest(salt, text)
            rows[name if kind == "comment" else digest] = (digest, kind, name, salt, text, event.at)
            body = without_text(body, digest)
        elif isinstance(body, Explained):
            rows.pop(body.matchup_id, None)
        bodies.append(body)
    if explained := [body.matchup_id for body in bodies if isinstance(body, Explained)]:
        connection.execute("DELETE FROM texts WHERE kind = 'comment' AND id IN ??", explained)
    connection.insert("texts", ("digest", "kind", "id", "salt", "text", "at"), list(rows.values()))
    return bodies


def filled(connection: Connection, bodies: Sequence[AnyBody]) -> list[AnyBody]:
    """These events with their texts; one whose text is erased stays as it is."""
    wanted = [digest for body in bodies if (digest := getattr(body, "digest", ""))]
    if not wanted:
        return list(bodies)
    rows = connection.rows("SELECT digest, salt, text FROM texts WHERE digest IN ??", wanted)
    there = {digest: (salt, text) for digest, salt, text in rows}
    texts = ((body, there.get(getattr(body, "digest", ""))) for body in bodies)
    return [body if text is None else with_text(body, *text) for body, text in texts]


def head(connection: Connection) -> tuple[int, str]:
    """The last sequence number and its hash."""
    row = connection.one("SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1")
    return (0, FIRST_HASH) if row is None else (row[0], row[1])


def hash_at(connection: Connection, seq: int) -> str:
    """The hash of the event with this sequence number."""
    return FIRST_HASH if seq == 0 else str(connection.value("SELECT hash FROM events WHERE seq = ?", seq))


def pages(connection: Connection, after: int, until: int = EVERYTHING) -> Iterator[EventPage]:
    """The events after a sequence number, in pages, to the end of the log or to another number.

    Titles of models, reasons and what flags say are filled in; prompts, answers and comments are not.
    """
    query = "SELECT seq, at, body, hash FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
    while rows := connection.rows(query, after, until, PAGE):
        seqs, times, texts, hashes = zip(*rows, strict=True)
        events = decode_events(times, texts)
        places = [place for place, event in enumerate(events) if type(event.body) in _SHORT]
        for place, body in zip(places, filled(connection, [events[place].body for place in places]), strict=True):
            events[place] = Event(events[place].at, body)
        yield EventPage(seqs[0], hashes[-1], events)
        if len(rows) < PAGE:
            return
        after = seqs[-1]


def of_kinds(connection: Connection, kinds: Sequence[str], until: int = EVERYTHING) -> list[tuple[int, int, AnyBody]]:
    """All events of these rare kinds up to a number, in order: number, time and body, with its text."""
    rows = connection.rows(
        f"SELECT seq, at, body FROM events WHERE {RARE} AND kind IN ?? AND seq <= ? ORDER BY seq", list(kinds), until
    )
    bodies = filled(connection, [decode_body(text) for _, _, text in rows])
    return [(seq, at, body) for (seq, at, _), body in zip(rows, bodies, strict=True)]


def bodies_of(connection: Connection, kind: type[BodyT], until: int = EVERYTHING) -> list[BodyT]:
    """All events of one rare kind up to a number, in order, with their texts."""
    rows = of_kinds(connection, [str(kind.__struct_config__.tag)], until)
    return [body for _, _, body in rows if isinstance(body, kind)]


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
