"""The connection to an arena's database: SQLite by file or PostgreSQL by URL, with the same guarantees.

A commit is on disk before it returns. A write on SQLite holds the only write lock from the start, so nothing it has
read can change meanwhile; on PostgreSQL writers run concurrently, and the projector's lock is an advisory one that ends
with its transaction or process. Written values never appear in an error: they may be a visitor's address or the site's
secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tiltyard.arena.store.bulk import fetch
from tiltyard.errors import StoreError

BUSY_SECONDS = 5.0
"""How long a write waits for another program's write on SQLite, and a request for a free connection in the pool."""

PURGE_MS = 100
"""How long deleting the traces of deleted rows may hold up writers."""

PROJECTOR_LOCK = 0x71177A4D
"""The number of the projector's advisory lock. Such locks belong to one database, so any fixed number will do."""

_lock = sa.select(sa.func.pg_advisory_xact_lock(PROJECTOR_LOCK))
_try_lock = sa.select(sa.func.pg_try_advisory_xact_lock(PROJECTOR_LOCK))


Connection = sa.Connection
"""The connection of a transaction. Other packages pass it on without using it."""


class Database:
    """An engine with the settings that durability requires, and the two kinds of transaction that the arena uses."""

    def __init__(self, url: str, busy_seconds: float = BUSY_SECONDS) -> None:
        self.url = parse_url(url)
        self.shown = without_secrets(self.url)
        """The URL without its password, for messages."""
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _sqlite_engine(self.url, busy_seconds) if self.is_sqlite else _postgresql_engine(self.url)
        self._file = _identity(str(self.url.database)) if self.is_sqlite else None
        """Which file was opened; None until there is one."""
        self._driver: Any = self.engine.dialect.loaded_dbapi
        self._errors: tuple[type[Exception], ...] = (DBAPIError, self._driver.Error)
        """What a statement may raise: driver errors too, since `bulk` calls the driver directly."""

    def exists(self) -> bool:
        """Whether there is something to open: a file for SQLite; always true for PostgreSQL."""
        return not self.is_sqlite or Path(str(self.url.database)).is_file()

    def is_in_place(self) -> bool:
        """Whether the file that was opened is still at its path: SQLite goes on writing to one that was deleted."""
        if not self.is_sqlite:
            return True
        now = _identity(str(self.url.database))
        self._file = self._file or now
        return now == self._file

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that writes. It is committed at the end of the block, and on the disk after it."""
        if not self.is_in_place():
            message = "its file was deleted or replaced. Nothing was saved; put it back, or restart the site."
            raise StoreError(f"cannot write to {self.shown}: {message}")
        with self.translated("write to"), self.engine.connect() as connection:
            try:
                with connection.execution_options(arena_write=True).begin():
                    yield connection
            except self._errors:
                connection.invalidate()  # its state is unknown, so it must not be reused
                raise

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that sees the database as it was at one moment."""
        with self.translated("read"), self.engine.connect() as connection:
            if not self.is_sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection

    def lock_projector(self, connection: sa.Connection, *, wait: bool) -> bool:
        """Try to become the one projector, and return whether it worked; on SQLite every write is the projector.

        With `wait`, wait for the lock.
        """
        if self.is_sqlite:
            return True
        if wait:
            fetch(connection, _lock)
            return True
        return bool(fetch(connection, _try_lock)[0][0])

    def purge_deleted(self) -> None:
        """Let nothing of deleted rows stay in SQLite's log of writes. While others read, a later checkpoint does it."""
        if self.is_sqlite:
            with self.translated("tidy up"), closing(self.engine.raw_connection()) as connection:
                ((patience,),) = connection.cursor().execute("PRAGMA busy_timeout").fetchall()
                for setting in (f"busy_timeout = {PURGE_MS}", "wal_checkpoint(TRUNCATE)", f"busy_timeout = {patience}"):
                    connection.cursor().execute(f"PRAGMA {setting}")  # writers wait while it waits for readers

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @contextmanager
    def translated(self, doing: str) -> Iterator[None]:
        """Errors of the database inside the block become one line that says what to do."""
        try:
            yield
        except PoolTimeoutError:
            raise StoreError(f"cannot {doing} {self.shown}: all connections are busy. Try again.") from None
        except self._errors as error:
            folder = Path(str(self.url.database)).parent
            if self.is_sqlite and not folder.is_dir():
                message = f"there is no folder {folder}. Check the path, or make the folder first."
                raise StoreError(f"cannot {doing} {self.shown}: {message}") from error
            raise StoreError(f"cannot {doing} {self.shown}: {_explained(error, self._driver)}") from error


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _explained(error: Exception, driver: Any) -> str:
    """What went wrong and what to do, in one line."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    message = " ".join(str(cause).split())
    state = getattr(cause, "sqlstate", None)
    if "is locked" in message or state == "55P03":
        return "another program holds its lock. Nothing was saved; try again when that program is done."
    if "is full" in message or "disk I/O" in message or state == "53100":
        return f"no room left on its disk ({message}). Nothing was saved; free some space, then try again."
    if "readonly" in message or "unable to open" in message:
        return f"{message}. Nothing was saved; check the folder's permissions and that its disk is there."
    cut_off = isinstance(error, DBAPIError) and error.connection_invalidated
    if cut_off or (isinstance(cause, driver.OperationalError) and state in (None, "57P01", "57P02", "57P03")):
        return f"the connection failed ({message}). Nothing was confirmed; the same request may safely be sent again."
    return f"{message}. Nothing was saved."


def without_secrets(url: sa.URL) -> str:
    """The URL for display, without its password."""
    return url.difference_update_query(("password", "sslpassword", "passfile")).render_as_string(hide_password=True)


def parse_url(url: str) -> sa.URL:
    """The URL of an arena; an invalid text is not repeated in errors, since it may contain a password."""
    advice = "Write sqlite:///path/to/arena.db or postgresql://user@host/database."
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError):
        if url.endswith((".db", ".sqlite")) and "@" not in url:
            raise StoreError(f"{url} is a path, not the URL of a database. Write sqlite:///{url}") from None
        raise StoreError(f"the address of the arena is not the URL of a database. {advice}") from None
    if parsed.drivername == "sqlite" and parsed.database not in (None, "", ":memory:"):
        return parsed
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    raise StoreError(f"{without_secrets(parsed)!r} cannot hold an arena. {advice}")


def _sqlite_engine(url: sa.URL, busy_seconds: float) -> sa.Engine:
    engine = sa.create_engine(
        url, hide_parameters=True, pool_timeout=busy_seconds, connect_args={"timeout": busy_seconds}
    )

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver would begin transactions late, and never immediate ones
        for setting in ("journal_mode = WAL", "synchronous = FULL", "cache_size = -8192", "secure_delete = ON"):
            connection.execute(f"PRAGMA {setting}")

    @sa.event.listens_for(engine, "begin")
    def _begun(connection: sa.Connection) -> None:
        write = connection.get_execution_options().get("arena_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _postgresql_engine(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, hide_parameters=True, pool_timeout=BUSY_SECONDS, pool_pre_ping=True)

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('synchronous_commit')")
            if cursor.fetchone()[0] == "off":
                cursor.execute("SET synchronous_commit TO on")
        connection.commit()

    return engine
