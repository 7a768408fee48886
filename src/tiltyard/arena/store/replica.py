"""A process's copy of the arena's state, which changes in only one way: event by event, in log order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa

from tiltyard.arena.chain import Version
from tiltyard.arena.events import OF_MATCHUPS, ChainUpgraded, Event
from tiltyard.arena.folding import IN_RUNS, apply_all, rare_collection
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store import log
from tiltyard.arena.store.projections import Projections
from tiltyard.arena.store.state_bytes import decode_state
from tiltyard.arena.store.tables import checkpoints
from tiltyard.arena.store.vote_book import SqlVoteBook
from tiltyard.errors import StoreError


class Replica:
    """The state after the last event of the log that this process has applied.

    `catch_up` applies what others have chained. `project` chains new events and writes what follows from them; its
    caller holds the projector's lock, and has caught up. If the transaction fails after `project`, the state is ahead
    of the database: discard the replica and load another.
    """

    def __init__(self, state: ArenaState, book: SqlVoteBook, hash_: str, checkpoint_every: int) -> None:
        self.state = state
        self.book = book
        self.hash = hash_
        self.version: Version = 2
        """The version of the chain at this place of the log."""
        self.projections = Projections(checkpoint_every)
        self.on_matchup: Callable[[Event, ArenaState], None] = _ignored
        """Called with every event about a matchup."""

    @classmethod
    def load(cls, connection: sa.Connection, checkpoint_every: int, until: int = log.EVERYTHING) -> Replica:
        """The state at the newest checkpoint, or at the beginning, brought up to the end of the log or to a number."""
        book = SqlVoteBook(connection)
        state, hash_ = None, log.hash_at(connection, 0)
        usable = sa.select(checkpoints).where(checkpoints.c.seq <= until)
        newest = connection.execute(usable.order_by(checkpoints.c.seq.desc()).limit(1)).first()
        if newest is not None:
            state = decode_state(newest.state, book)
        if state is None:
            state = ArenaState(book)
        else:
            hash_ = log.hash_at(connection, state.seq)
        replica = cls(state, book, hash_, checkpoint_every)
        replica.version = log.version_at_head(connection)
        with rare_collection:
            replica.catch_up(connection, until=until)
        return replica

    def is_at_the_head(self, connection: sa.Connection) -> bool:
        """Whether there is nothing to catch up with. From now on votes are looked up in this transaction."""
        self.book.connection, self.book.writes = connection, False
        return log.head(connection) == (self.state.seq, self.hash)

    def catch_up(
        self,
        connection: sa.Connection,
        follow: Callable[[list[Event]], None] | None = None,
        until: int = log.EVERYTHING,
    ) -> None:
        """Apply what has been chained since, up to a number; `follow` also gets the events, page by page."""
        self.book.connection, self.book.writes = connection, False
        for seqs, head, events in log.event_pages(connection, self.state.seq, until):
            self.projections.forget()
            if seqs[-1] - self.state.seq == len(seqs) and self.on_matchup is _ignored:
                self._apply_all(events)
            else:
                for seq, event in zip(seqs, events, strict=True):
                    self._apply(seq, event)
            self.hash = head
            if follow is not None:
                follow(events)

    def project(self, connection: sa.Connection, written: Sequence[log.WrittenEvent]) -> None:
        """Give events the next sequence numbers, apply them, and write what follows from them."""
        if not written:
            return
        state, projections = self.state, self.projections
        self.book.connection, self.book.writes = connection, True
        self.hash = log.write_chain(connection, written, state.seq, self.hash, self.version)
        for row in written:
            projections.before(connection, state, row.event)
            self._apply(state.seq + 1, row.event)
            projections.after(connection, state, row.event.body)
        self.book.flush()
        projections.flush(connection, state)

    def check_head(self, connection: sa.Connection) -> None:
        """Check that nothing was chained that this replica has not applied."""
        seq, hash_ = log.head(connection)
        if (seq, hash_) != (self.state.seq, self.hash):
            raise StoreError(
                f"the log ends with event {seq}, and this process is at {self.state.seq} with another hash. "
                "Run `tiltyard arena verify`."
            )

    def _apply_all(self, events: list[Event]) -> None:
        """Apply many events: those that can be folded together in one go, all others one by one."""
        start = 0
        for end in (*(n for n, event in enumerate(events) if type(event.body) not in IN_RUNS), len(events)):
            self.book.seq = self.state.seq + end - start
            apply_all(self.state, events[start:end])
            if end < len(events):
                self._apply(self.state.seq + 1, events[end])
            start = end + 1

    def _apply(self, seq: int, event: Event) -> None:
        self.book.seq = seq
        self.book.rules_since = self.state.rules_since
        self.state.apply(seq, event)
        if type(event.body) in OF_MATCHUPS:
            self.on_matchup(event, self.state)
        elif type(event.body) is ChainUpgraded:
            self.version = 2


def _ignored(event: Event, state: ArenaState) -> None:
    """Does nothing: the default of `on_matchup`."""
