"""Rebuilding every projection from the log alone, in the same database or another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from tiltyard.arena import events as e
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store.bulk import Row, fetch, insert_rows
from tiltyard.arena.store.log import PAGE
from tiltyard.arena.store.matchup_table import served_row
from tiltyard.arena.store.projections import Projections
from tiltyard.arena.store.tables import PROJECTIONS, chain, events, matchups, pending
from tiltyard.arena.store.vote_book import SqlVoteBook
from tiltyard.arena.voting import MatchupStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tiltyard.arena.catalog import Catalog


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
    .where(chain.c.seq.is_(None))
    .order_by(events.c.id)
)
_STATUS, _CHOICE, _CLOSED, _UNDO_UNTIL, _UNRENDERED = (
    list(matchups.c.keys()).index(name) for name in ("status", "choice", "closed_at", "undo_until", "unrendered")
)
_reopen = (
    sa.update(matchups)
    .where(matchups.c.id == sa.bindparam("of"))
    .values(status=sa.bindparam("now"), closed_at=sa.bindparam("closed"))
)
_reveal = sa.update(matchups).where(matchups.c.id == sa.bindparam("of")).values(undo_until=None)


def links(connection: sa.Connection) -> Iterator[list[Link]]:
    """The chain from its beginning, in pages, with the events that exist."""
    seq = 0
    while rows := list(map(Link._make, fetch(connection, _links, {"after": seq}))):
        yield rows
        seq = rows[-1].seq


def tail(connection: sa.Connection) -> list[tuple[int, int, str]]:
    """Events not in the chain: id, time and text."""
    return [(row.id, row.at, row.body) for row in connection.execute(_unchained)]


class TableRebuild:
    """Folds a log into empty tables: feed it every event in order, then `finish` with the pending ones."""

    def __init__(self, target: sa.Connection, checkpoint_every: int, votes_expected: int = 0) -> None:
        self._target = target
        self._book = SqlVoteBook(target, writes=True)
        self.state = ArenaState(self._book)
        self.state.track.expect(votes_expected)
        self._projections = Projections(checkpoint_every)
        self._matchups = MatchupRows(target, self.state.catalog)

    def take(self, page: list[tuple[int, e.Event]]) -> None:
        """Take in the next events."""
        state, book, projections, rows = self.state, self._book, self._projections, self._matchups
        target, handlers = self._target, rows.handlers
        for seq, event in page:
            projections.before(target, state, event)
            book.seq, book.rules_since = seq, state.rules_since
            state.apply(seq, event)
            projections.after(target, state, event.body)
            handler = handlers.get(type(event.body))
            if handler is not None:
                handler(event)
        book.flush()
        rows.flush()
        projections.flush(target, state)

    def finish(self, unplaced: list[e.Event]) -> None:
        """Write what is left; pending events affect only the matchups."""
        for event in unplaced:
            self._matchups.note(event)
        self._matchups.flush(everything=True)


class MatchupRows:
    """The table of matchups according to the log. Closed ones are written out; open ones stay in memory."""

    def __init__(self, target: sa.Connection, catalog: Catalog) -> None:
        self._target = target
        self._catalog = catalog
        self._open: dict[str, list[Any]] = {}
        self._closed: dict[str, list[Any]] = {}
        self.handlers: dict[type, Callable[[e.Event], None]] = {
            e.MatchupServed: self._served,
            e.Voted: self._voted,
            e.Revealed: self._revealed,
            e.Skipped: self._skipped,
            e.Expired: self._expired,
            e.Undone: self._undone,
        }

    def note(self, event: e.Event) -> None:
        """Take in an event, if it is about a matchup."""
        handler = self.handlers.get(type(event.body))
        if handler is not None:
            handler(event)

    def flush(self, *, everything: bool = False) -> None:
        """Write the rows that are closed, or all."""
        rows: list[Row] = [tuple(row) for row in self._closed.values()]
        self._closed.clear()
        if everything:
            rows += [tuple(row) for row in self._open.values()]
            self._open.clear()
        insert_rows(self._target, matchups, rows)

    def _served(self, event: e.Event) -> None:
        body = event.body
        assert isinstance(body, e.MatchupServed)
        self._open[body.matchup_id] = list(served_row(body, event.at, self._catalog))

    def _voted(self, event: e.Event) -> None:
        body = event.body
        assert isinstance(body, e.Voted)
        if body.unrendered and (row := self._open.get(body.matchup_id)) is not None:
            row[_UNRENDERED] = body.unrendered
        self._close(body.matchup_id, MatchupStatus.VOTED, event.at, body.choice._value_, body.undo_until)

    def _revealed(self, event: e.Event) -> None:
        assert isinstance(event.body, e.Revealed)
        row = self._closed.get(event.body.matchup_id)
        if row is None:
            self._target.execute(_reveal, {"of": event.body.matchup_id})
        else:
            row[_UNDO_UNTIL] = None

    def _skipped(self, event: e.Event) -> None:
        assert isinstance(event.body, e.Skipped)
        self._close(event.body.matchup_id, MatchupStatus.SKIPPED, event.at, None)

    def _expired(self, event: e.Event) -> None:
        assert isinstance(event.body, e.Expired)
        self._close(event.body.matchup_id, MatchupStatus.EXPIRED, event.at, None)

    def _undone(self, event: e.Event) -> None:
        assert isinstance(event.body, e.Undone)
        row = self._closed.get(event.body.matchup_id)
        if row is None:
            values = {"of": event.body.matchup_id, "now": MatchupStatus.UNDONE.value, "closed": event.at}
            self._target.execute(_reopen, values)
        else:
            row[_STATUS], row[_CLOSED] = MatchupStatus.UNDONE.value, event.at

    def _close(
        self, name: str, status: MatchupStatus, at: int, choice: str | None, undo_until: int | None = None
    ) -> None:
        row = self._open.pop(name, None)
        if row is not None:
            row[_STATUS], row[_CHOICE], row[_CLOSED], row[_UNDO_UNTIL] = status._value_, choice, at, undo_until
            self._closed[name] = row


def empty_projections(connection: sa.Connection) -> None:
    """Delete everything that is derived from the log."""
    for table in (*PROJECTIONS, pending):
        connection.execute(sa.delete(table))
