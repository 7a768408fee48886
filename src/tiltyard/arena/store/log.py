"""The event log in the database: events are written unordered, and the projector gives them their order.

**Why two steps.** On PostgreSQL several workers commit at once. An id is assigned when a row is inserted, not when it
is committed, so ids are not in commit order: a reader of `id > last` would miss an event whose transaction was slow. So
an event is written with an id and listed in `pending`; the projector (only one at a time) takes the pending events that
it can see in id order, gives each the next `seq` and a hash that chains it to the one before, and removes it from
`pending`, all in one transaction.

**Why causes come before effects.** An event is caused by committed ones only: a vote is accepted on a matchup whose
`matchup_served` is committed, an undo on a committed vote. Its id was assigned later, so it is larger; and anyone who
sees the effect committed also sees the cause committed. So the projector either chained the cause in an earlier round,
or takes both in this one, the cause first. An event of another transaction that commits late, with a smaller id than
one already chained, is not its cause and simply comes after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from tiltyard.arena.chain import FIRST_HASH, Version, chain_hash, link_event, link_events, new_salts
from tiltyard.arena.events import Event, decode_body, decode_events, encode_body
from tiltyard.arena.store.bulk import fetch, insert_numbered, insert_rows
from tiltyard.arena.store.tables import chain, events, pending
from tiltyard.errors import StoreError

PAGE = 20_000
"""How many events are read at once when a log is folded."""

EVERYTHING = 2**62
"""A sequence number that no log reaches."""

TAKEN_AT_ONCE = 5_000
"""Pending events that one round of the projector takes."""


class WrittenEvent(NamedTuple):
    """An event with its id, its text and its salt, as stored."""

    event_id: int
    text: str
    event: Event
    salt: str | None


class Chained(NamedTuple):
    """An event with its sequence number."""

    seq: int
    hash: str
    at: int
    text: str


_unchained = (
    sa.select(events.c.id, events.c.at, events.c.body, events.c.salt)
    .join(pending, pending.c.event_id == events.c.id)
    .order_by(pending.c.event_id)  # by the events' own id SQLite would go through all events to find those pending
    .limit(TAKEN_AT_ONCE)
)
_chained = (
    sa.select(chain.c.seq, chain.c.hash, events.c.at, events.c.body)
    .join(events, events.c.id == chain.c.event_id)
    .where(chain.c.seq > sa.bindparam("after"), chain.c.seq <= sa.bindparam("until"))
    .order_by(chain.c.seq)
    .limit(PAGE)
)
_head = sa.select(chain.c.seq, chain.c.hash).order_by(chain.c.seq.desc()).limit(1)
_last = (
    sa.select(chain.c.seq, chain.c.hash, events.c.at, events.c.body, events.c.salt)
    .join(events, events.c.id == chain.c.event_id)
    .order_by(chain.c.seq.desc())
    .limit(1)
)
_any_pending = sa.select(pending.c.event_id).limit(1)
_unpend = sa.delete(pending).where(pending.c.event_id.in_(sa.bindparam("ids", expanding=True)))


def write_events(connection: sa.Connection, happened: Sequence[Event]) -> list[WrittenEvent]:
    """Write events; returns them with ids that grow in the order given."""
    rows = [
        (event.at, event.body.__struct_config__.tag, encode_body(event.body), salt)
        for event, salt in zip(happened, new_salts(len(happened)), strict=True)
    ]
    ids = insert_numbered(connection, events, rows)
    return [
        WrittenEvent(event_id, row[2], event, row[3]) for event_id, row, event in zip(ids, rows, happened, strict=True)
    ]


def leave_pending(connection: sa.Connection, written: Sequence[WrittenEvent]) -> None:
    """List the events as pending: the next projector gives them their sequence numbers."""
    insert_rows(connection, pending, [(row.event_id,) for row in written])


def unchained(connection: sa.Connection) -> list[WrittenEvent]:
    """Pending events that this transaction sees, by id."""
    rows = fetch(connection, _unchained)
    return [WrittenEvent(event_id, text, Event(at, decode_body(text)), salt) for event_id, at, text, salt in rows]


def remove_pending(connection: sa.Connection, event_ids: Sequence[int]) -> None:
    """Take events that have their sequence numbers off the list of pending ones."""
    if event_ids:
        connection.execute(_unpend, {"ids": list(event_ids)})


def write_chain(
    connection: sa.Connection, written: Sequence[WrittenEvent], seq: int, previous: str, version: Version = 2
) -> str:
    """Chain the events after number `seq`, whose hash is `previous`; the hash of the last one."""
    ids, texts, happened, salts = zip(*written, strict=True) if written else ((), (), (), ())
    times = [event.at for event in happened]
    if version == 1:
        links = list[str]()
        for place, (at, text) in enumerate(zip(times, texts, strict=True), start=seq + 1):
            links.append(chain_hash(links[-1] if links else previous, place, at, text))
    elif None in salts:
        raise StoreError(
            f"event id {ids[salts.index(None)]} has no salt: a program of an earlier version wrote it. Stop that "
            "program, then run `tiltyard arena init --upgrade`."
        )
    else:
        links = link_events(previous, seq, times, texts, salts)
    insert_rows(connection, chain, list(zip(range(seq + 1, seq + 1 + len(ids)), ids, links, strict=True)))
    return links[-1] if links else previous


def version_at_head(connection: sa.Connection) -> Version:
    """The version by which the last event of the log was chained; an empty log begins with the newest."""
    rows = fetch(connection, _last)
    if not rows:
        return 2
    seq, hash_, at, text, salt = rows[0]
    return 2 if salt is not None and link_event(hash_at(connection, seq - 1), seq, at, text, salt) == hash_ else 1


def head(connection: sa.Connection) -> tuple[int, str]:
    """The last sequence number and its hash."""
    rows = fetch(connection, _head)
    return (rows[0][0], rows[0][1]) if rows else (0, FIRST_HASH)


def hash_at(connection: sa.Connection, seq: int) -> str:
    """The hash of the event with this sequence number."""
    if seq == 0:
        return FIRST_HASH
    return str(connection.execute(sa.select(chain.c.hash).where(chain.c.seq == seq)).scalar_one())


def chained_after(connection: sa.Connection, seq: int, until: int = EVERYTHING) -> Iterator[list[Chained]]:
    """The log after a sequence number, in pages, to its end or to another number."""
    while True:
        rows = list(map(Chained._make, fetch(connection, _chained, {"after": seq, "until": until})))
        if rows:
            yield rows
        if len(rows) < PAGE:
            return
        seq = rows[-1].seq


class EventPage(NamedTuple):
    """Events of the log one after the other: their numbers, and the hash of the last."""

    seqs: tuple[int, ...]
    head: str
    events: list[Event]


def event_pages(connection: sa.Connection, seq: int, until: int = EVERYTHING) -> Iterator[EventPage]:
    """The events after a sequence number, in pages, to the end of the log or to another number."""
    while rows := fetch(connection, _chained, {"after": seq, "until": until}):
        seqs, hashes, times, texts = zip(*rows, strict=True)
        yield EventPage(seqs, hashes[-1], decode_events(times, texts))
        if len(rows) < PAGE:
            return
        seq = seqs[-1]


def any_pending(connection: sa.Connection) -> bool:
    """Whether there are pending events."""
    return bool(fetch(connection, _any_pending))
