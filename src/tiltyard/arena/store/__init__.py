"""The storage of an arena: an event log, its order, and tables derived from it. Only this package uses a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tiltyard.arena.events import Event
from tiltyard.arena.store import log, maintenance
from tiltyard.arena.store.database import Database
from tiltyard.arena.store.projections import CHECKPOINT_EVERY
from tiltyard.arena.store.replica import Replica
from tiltyard.arena.store.visitors import forget_voter, known_voter
from tiltyard.errors import StoreError

if TYPE_CHECKING:
    import sqlalchemy as sa

    from tiltyard.arena.events import AnyBody

__all__ = ["Store"]


class Store:
    """An arena's database. A URL is `sqlite:///path` or `postgresql://…`; one `Store` serves one process.

    A checkpoint is kept after every `checkpoint_every` events; every process that opens or verifies an arena must use
    the same number.

    Parameters:
        database: The database, opened; use `Store.create` or `Store.open`.
        checkpoint_every: Events between two checkpoints of the state.
    """

    def __init__(self, database: Database, checkpoint_every: int = CHECKPOINT_EVERY) -> None:
        self.database = database
        self.checkpoint_every = checkpoint_every

    @classmethod
    def create(cls, url: str) -> Store:
        """A new, empty arena."""
        with _closed_on_error(Database(url)) as database:
            if database.exists() and maintenance.version(database) is not None:
                raise StoreError(f"there is an arena at {database.shown} already. Open it, or name another place.")
            maintenance.upgrade(database)
            maintenance.prepare_new(database)
            return cls(database)

    @classmethod
    def open(cls, url: str, checkpoint_every: int = CHECKPOINT_EVERY) -> Store:
        """An existing arena with the tables of this version."""
        with _closed_on_error(Database(url)) as database:
            maintenance.check(database)
            return cls(database, checkpoint_every)

    @classmethod
    def upgrade(cls, url: str) -> Store:
        """An existing arena, upgraded to the tables of this version."""
        with _closed_on_error(Database(url)) as database:
            if not database.exists() or maintenance.version(database) is None:
                maintenance.check(database)
            maintenance.upgrade(database)
            return cls(database)

    def append(self, bodies: Sequence[AnyBody], at: int) -> None:
        """Write events, unchecked; they get their sequence numbers at the next `follow`. See `Arena.append`."""
        with self.database.write() as connection:
            log.leave_pending(connection, log.write_events(connection, [Event(at, body) for body in bodies]))

    def load(self) -> Replica:
        """The state at the end of the log."""
        with self.database.read() as connection:
            return Replica.load(connection, self.checkpoint_every)

    def follow(self, replica: Replica, *, wait: bool = False) -> None:
        """Read new events, and chain pending ones unless another process is doing so; with `wait`, wait for it.

        With `wait`, the state then includes everything committed before.
        """
        with self.database.read() as connection:
            new = log.head(connection)[0] > replica.state.seq or log.any_pending(connection)
        if new:
            with self.database.write() as connection:
                if self.begin(connection, replica, wait=wait):
                    self.chain_pending(connection, replica)

    def begin(self, connection: sa.Connection, replica: Replica, *, wait: bool) -> bool:
        """Catch up with the log. Returns whether this transaction is now the projector; with `wait`, it always is."""
        locked = self.database.lock_projector(connection, wait=wait)
        if not replica.is_at_the_head(connection):
            replica.catch_up(connection)
            if locked:
                replica.check_head(connection)
        return locked

    def chain_pending(self, connection: sa.Connection, replica: Replica) -> None:
        """Chain everything pending that this transaction sees; it holds the projector's lock and has caught up."""
        while log.any_pending(connection):
            written = log.unchained(connection)
            replica.project(connection, written)
            log.remove_pending(connection, [row.event_id for row in written])

    def known_voter(self, cookie_hash: str) -> str | None:
        """The key of the visitor with this cookie, if it was seen before."""
        with self.database.read() as connection:
            return known_voter(connection, cookie_hash)

    def forget_voter(self, cookie_hash: str) -> bool:
        """Delete the link from this cookie to its votes, which remain under an anonymous key.

        Whether there was a link.
        """
        with self.database.write() as connection:
            result = forget_voter(connection, cookie_hash)
        self.database.purge_deleted()
        return result

    def close(self) -> None:
        """Close the database."""
        self.database.close()


@contextmanager
def _closed_on_error(database: Database) -> Iterator[Database]:
    try:
        yield database
    except BaseException:
        database.close()
        raise
