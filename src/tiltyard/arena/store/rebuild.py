"""Rebuilding every projection from the log alone, in the same database or another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import sqlalchemy as sa

from tiltyard.arena import events as e
from tiltyard.arena.catalog import Catalog
from tiltyard.arena.folding import IN_RUNS, apply_all
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store.bulk import Row, fetch, insert_rows
from tiltyard.arena.store.log import PAGE
from tiltyard.arena.store.matchup_table import served_row
from tiltyard.arena.store.projections import Projections
from tiltyard.arena.store.tables import PROJECTIONS, chain, events, matchups, pending
from tiltyard.arena.store.vote_book import SqlVoteBook
from tiltyard.arena.voting import MatchupStatus


class Link(NamedTuple):
    """One link of the chain and its event; a missing event has neither time nor text."""

    seq: int
    event_id: int
    hash: str
    at: int | None
    text: str | None
    salt: str | None


_links = (
    sa.select(chain.c.seq, chain.c.event_id, chain.c.hash, events.c.at, events.c.body, events.c.salt)
    .join_from(chain, events, events.c.id == chain.c.event_id, isouter=True)
    .where(chain.c.seq > sa.bindparam("after"))
    .order_by(chain.c.seq)
    .limit(PAGE)
)
_unchained = (
    sa.select(events.c.id, events.c.at, events.c.body)
    .join_from(events, chain, events.c.id == chain.c.event_id, isouter=True)
    .where(chain.c.seq.is_(None), events.c.id > sa.bindparam("above"))
    .order_by(events.c.id)
)
COLUMNS = {name: place for place, name in enumerate(matchups.c.keys())}
"""The places of the columns in a row of `matchups`."""

_STATUS, _BLOCK = COLUMNS["status"], COLUMNS["block"]
assert list(COLUMNS)[_STATUS:] == ["status", "choice", "closed_at", "undo_until", "block", "unrendered"]


def links(connection: sa.Connection, seq: int = 0) -> Iterator[list[Link]]:
    """The chain after a number, in pages, with the events that exist."""
    for rows in link_rows(connection, seq):
        yield list(map(Link._make, rows))


def link_rows(connection: sa.Connection, seq: int = 0) -> Iterator[list[Row]]:
    """The same as plain rows, with the columns of `Link`."""
    while rows := fetch(connection, _links, {"after": seq}):
        yield rows
        seq = rows[-1][0]


def tail(connection: sa.Connection, after: int = 0) -> list[tuple[int, int, str]]:
    """Events not in the chain, with ids above a number: id, time and text."""
    return [(row.id, row.at, row.body) for row in connection.execute(_unchained, {"above": after})]


class MatchupSink(Protocol):
    """Where the rows of closed matchups go."""

    def insert(self, rows: list[Row]) -> None:
        """Take new rows."""
        ...

    def change(self, matchup_id: str, values: dict[str, object]) -> None:
        """Change columns of a row that was inserted."""
        ...


class MatchupTable:
    """The table of matchups in a database, as a sink."""

    def __init__(self, target: sa.Connection) -> None:
        self._target = target

    def insert(self, rows: list[Row]) -> None:
        """Insert new rows."""
        insert_rows(self._target, matchups, rows)

    def change(self, matchup_id: str, values: dict[str, object]) -> None:
        """Change columns of a row."""
        self._target.execute(sa.update(matchups).where(matchups.c.id == matchup_id).values(values))


class TableRebuild:
    """Folds a log into empty tables: feed it every event in order, then `finish` with the pending ones.

    Parameters:
        target: A transaction that writes to the tables.
        checkpoint_every: Events between two checkpoints of the state.
        until: How many events there are.
        book: Where votes go; None: to the tables.
        state: The state before the first event, with this book; None: that of an empty log.
        sink: Where matchups go; None: to the tables.
    """

    def __init__(
        self,
        target: sa.Connection,
        checkpoint_every: int,
        until: int = 0,
        book: SqlVoteBook | None = None,
        sink: MatchupSink | None = None,
        state: ArenaState | None = None,
    ) -> None:
        self._target = target
        self._every = checkpoint_every
        self._book = SqlVoteBook(target, writes=True) if book is None else book
        self.state = ArenaState(self._book) if state is None else state
        self.state.track.expect(until // 2)
        self._projections = Projections(checkpoint_every, until)
        self._matchups = MatchupRows(MatchupTable(target) if sink is None else sink, self.state.catalog)

    def take(self, events: Sequence[e.Event]) -> None:
        """Take in the next events."""
        start = 0
        for end in (*(n for n, event in enumerate(events) if type(event.body) not in IN_RUNS), len(events)):
            self._take_run(events[start:end])
            if end < len(events):
                self._take_one(events[end])
            start = end + 1
        self._book.flush()
        self._matchups.flush()
        self._projections.flush(self._target, self.state)

    def _take_one(self, event: e.Event) -> None:
        state, book = self.state, self._book
        self._projections.before(self._target, state, event)
        book.seq, book.rules_since = state.seq + 1, state.rules_since
        state.apply(state.seq + 1, event)
        self._projections.after(self._target, state, event.body)
        self._matchups.note(event)

    def _take_run(self, run: Sequence[e.Event]) -> None:
        """Take in events that can be folded together, up to where something is written of the state in between."""
        state, book, start = self.state, self._book, 0
        for end in self._stops(run):
            part = run[start:end]
            self._projections.before(self._target, state, part[0])
            book.seq, book.rules_since = state.seq + len(part), state.rules_since
            apply_all(state, part)
            self._projections.after_run(self._target, state)
            start = end
        self._matchups.take(run)

    def _stops(self, run: Sequence[e.Event]) -> list[int]:
        """Where parts of a run end: at checkpoints, and before an event that begins a period of the history."""
        if not run:
            return []
        seq, period = self.state.seq, self.state.policy.snapshot_seconds * 1_000_000
        latest = np.array([self.state.latest, *(event.at for event in run)], dtype=np.int64)
        periods = np.maximum.accumulate(latest) // period
        begun = np.flatnonzero(np.diff(periods) > 0)
        kept = np.arange(self._every - seq % self._every, len(run) + 1, self._every)
        return sorted({*begun.tolist(), *kept.tolist(), len(run)} - {0})

    def finish(self, unplaced: list[e.Event]) -> None:
        """Write what is left; pending events affect only the matchups."""
        self._matchups.take(unplaced)
        self._matchups.flush(everything=True)


class MatchupRows:
    """The table of matchups according to the log. Closed ones are handed on; open ones stay in memory."""

    def __init__(self, sink: MatchupSink, catalog: Catalog) -> None:
        self._sink = sink
        self._catalog = catalog
        self._open: dict[str, e.Event] = {}
        self._closed: dict[str, Row] = {}

    def take(self, events: Sequence[e.Event]) -> None:
        """Take in events, of which those about matchups matter."""
        served = self._open
        for event in events:
            body = event.body
            kind = type(body)
            if kind is e.MatchupServed:
                served[body.matchup_id] = event  # type: ignore[union-attr]
            elif kind is e.Voted:
                self._voted(body, event.at)  # type: ignore[arg-type]
            elif kind in e.OF_MATCHUPS:
                self.note(event)

    def note(self, event: e.Event) -> None:
        """Take in an event, if it is about a matchup."""
        match event.body:
            case e.MatchupServed(matchup_id=name):
                self._open[name] = event
            case e.Voted() as body:
                self._voted(body, event.at)
            case e.Revealed(matchup_id=name):
                self._change(name, {"undo_until": None})
            case e.Skipped(matchup_id=name):
                self._close(name, MatchupStatus.SKIPPED, event.at)
            case e.Expired(matchup_id=name):
                self._close(name, MatchupStatus.EXPIRED, event.at)
            case e.Undone(matchup_id=name):
                self._change(name, {"status": MatchupStatus.UNDONE.value, "closed_at": event.at})

    def flush(self, *, everything: bool = False) -> None:
        """Hand on the rows that are closed, or all."""
        rows = list(self._closed.values())
        self._closed.clear()
        if everything:
            rows += [self._served_row(event) for event in self._open.values()]
            self._open.clear()
        if rows:
            self._sink.insert(rows)

    def _served_row(self, event: e.Event) -> Row:
        assert isinstance(event.body, e.MatchupServed)
        return served_row(event.body, event.at, self._catalog)

    def _voted(self, body: e.Voted, at: int) -> None:
        served = self._open.pop(body.matchup_id, None)
        if served is not None:
            row = self._served_row(served)
            self._closed[body.matchup_id] = (
                *row[:_STATUS],
                *("voted", body.choice._value_, at, body.undo_until, row[_BLOCK], body.unrendered),
            )

    def _close(self, name: str, status: MatchupStatus, at: int) -> None:
        served = self._open.pop(name, None)
        if served is not None:
            self._closed[name] = _with(self._served_row(served), {"status": status.value, "closed_at": at})

    def _change(self, name: str, values: dict[str, object]) -> None:
        row = self._closed.get(name)
        if row is None:
            self._sink.change(name, values)
        else:
            self._closed[name] = _with(row, values)


def _with(row: Row, values: dict[str, object]) -> Row:
    """A row of `matchups` with other values in some columns."""
    changed = list(row)
    for column, value in values.items():
        changed[COLUMNS[column]] = value
    return tuple(changed)


def empty_projections(connection: sa.Connection) -> None:
    """Delete everything that is derived from the log."""
    for table in (*PROJECTIONS, pending):
        connection.execute(sa.delete(table))
