"""The connection to an arena's database: SQLite by file or PostgreSQL by URL, with the same guarantees and one SQL.

A commit is on disk before it returns. `write(lock=True)` is the writer's transaction: whoever is in one is the only
writer of the log. Values never appear in an error: they may be a visitor's address or the site's secret.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from tiltyard.arena.store.sqlite_files import SqliteFiles, copy_database
from tiltyard.errors import OptionError, StoreError

Row = tuple[Any, ...]

BUSY_SECONDS = 5.0
"""How long a write waits for another program's write on SQLite, and a request for a free connection."""

MOST_CONNECTIONS = 15

LEAST_ROOM = 1 << 20
"""A disk with fewer free bytes is full, though a few votes may find room in files that are there."""

PURGE_MS = 100
"""How long deleting the traces of deleted rows may hold up writers."""

WRITER_LOCK = 0x71177A4D
"""The number of the writer's advisory lock. Such locks belong to one database, so any fixed number will do."""

FROZEN_SECONDS = 2
"""A holder of the lock for whose next word PostgreSQL has waited this long is frozen, and its session is ended."""

SCHEMA = Path(__file__).with_name("schema.sql")
SCHEMA_NUMBER = "4"

_SETTINGS = (
    *("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0"),
    *("cache_size = -8192", "secure_delete = ON"),
)
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""On PostgreSQL: a database may have another default, under which the lock shows nothing new."""

_SPELLINGS = {
    True: {"BIG": "INTEGER", "NAME": "TEXT", "BYTES": "BLOB"},
    False: {"BIG": "BIGINT", "NAME": 'TEXT COLLATE "C"', "BYTES": "BYTEA"},
}

_END_FROZEN = """
    SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND objid = ? AND granted AND pid <> pg_backend_pid()
    AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - make_interval(secs => ?)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""

_ADVICE = "Write sqlite:///path/to/arena.db or postgresql://user@host/database."
_SECRET_FIELDS = ("password", "sslpassword", "passfile")


class Connection:
    """A transaction. SQL has `?` for a value, and `IN ??` for a list of values."""

    def __init__(self, driver: Any, *, is_sqlite: bool) -> None:
        self.driver = driver
        self.is_sqlite = is_sqlite
        self.head: tuple[int, str] | None = None
        """The last event that this transaction wrote, and its hash."""

    def rows(self, sql: str, *values: object) -> list[Row]:
        return list(self._run(sql, values).fetchall())

    def one(self, sql: str, *values: object) -> Row | None:
        row: Row | None = self._run(sql, values).fetchone()
        return row

    def value(self, sql: str, *values: object) -> Any:
        row = self.one(sql, *values)
        return None if row is None else row[0]

    def execute(self, sql: str, *values: object) -> int:
        """Run a statement; how many rows it changed."""
        return int(self._run(sql, values).rowcount)

    def many(self, sql: str, rows: Sequence[Row]) -> int:
        """Run a statement for each of these rows of values; how many rows it changed."""
        if not rows:
            return 0
        if self.is_sqlite:
            return int(self.driver.executemany(sql, rows).rowcount)
        with self.driver.cursor() as cursor:
            cursor.executemany(_spelled(sql, is_sqlite=False), rows)
            return int(cursor.rowcount)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row], *, or_ignore: bool = False) -> None:
        """Insert rows; PostgreSQL gets them as one text, the cheapest way, and never waits for us in between."""
        names = ", ".join(columns)
        ignore = " ON CONFLICT DO NOTHING" if or_ignore else ""
        if self.is_sqlite:
            self.many(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))}){ignore}", rows)
        elif rows:
            text = msgspec.json.encode([dict(zip(columns, row, strict=True)) for row in rows]).decode()
            self.driver.execute(
                f"INSERT INTO {table} ({names}) SELECT {names} "
                f"FROM json_populate_recordset(NULL::{table}, %s::json){ignore}",
                (text,),
            )

    def _run(self, sql: str, values: Sequence[object]) -> Any:
        if not self.is_sqlite:
            return self.driver.execute(_spelled(sql, is_sqlite=False), values)
        listed = [msgspec.json.encode(value).decode() if isinstance(value, list) else value for value in values]
        return self.driver.execute(_spelled(sql, is_sqlite=True), listed)


@lru_cache(maxsize=512)
def _spelled(sql: str, *, is_sqlite: bool) -> str:
    if is_sqlite:
        return sql.replace("IN ??", "IN (SELECT value FROM json_each(?))")
    return sql.replace("%", "%%").replace("IN ??", "= ANY(%s)").replace("?", "%s")


class Database:
    """An arena's database: a few connections, and the two kinds of transaction that the arena uses."""

    def __init__(self, url: str, busy_seconds: float = BUSY_SECONDS) -> None:
        self.url = checked_url(url)
        self.shown = without_secrets(self.url)
        """The URL without its password, for messages."""
        self.is_sqlite = self.url.startswith("sqlite:")
        self.path = Path(self.url.removeprefix("sqlite:///")) if self.is_sqlite else None
        """The file of a SQLite arena."""
        self._busy_seconds = busy_seconds
        self._idle: list[tuple[Any, float]] = []
        self._room = threading.Semaphore(MOST_CONNECTIONS)
        self._files: SqliteFiles | None = None
        self._opening = threading.Lock()
        self._closed = False
        self.purge_due = False
        """Whether traces of deleted rows may still be in the files."""

    @contextmanager
    def write(self, *, lock: bool = False) -> Iterator[Connection]:
        """A transaction that writes. It is committed at the end of the block, and on the disk after it.

        On SQLite it is the only one from its start. On PostgreSQL it is the only one with `lock` (an advisory lock of
        the database), which whoever appends to the log takes; a statement after it sees all that was committed before
        it. Either lock ends with the transaction, or when its process or connection dies. Any error in the block rolls
        everything back, and one of the database becomes a `StoreError`; so does a commit to files that are no longer
        in place.
        """
        if self._files is not None and self._files.lost:
            raise StoreError(self._files.lost)
        with self._transaction("write to", "BEGIN IMMEDIATE" if self.is_sqlite else _BEGIN) as connection:
            if lock and not self.is_sqlite:
                self._lock(connection)
            yield connection
        if self._files is not None:
            self._files.committed(connection.head)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees the database as it was at one moment."""
        begin = "BEGIN" if self.is_sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with self._transaction("read", begin) as connection:
            yield connection

    def exists(self) -> bool:
        return self.path is None or self.path.is_file()

    def schema(self) -> str | None:
        if not self.exists():
            return None
        with self.read() as connection:
            tables = "sqlite_master WHERE type = 'table' AND name" if self.is_sqlite else "pg_tables WHERE tablename"
            if connection.one(f"SELECT 1 FROM {tables} = 'site_texts'") is None:
                return None
            found: str | None = connection.value("SELECT text FROM site_texts WHERE name = 'schema'")
            return found

    def create_tables(self, arena: str) -> None:
        sql = SCHEMA.read_text(encoding="utf-8")
        for word, spelling in _SPELLINGS[self.is_sqlite].items():
            sql = re.sub(rf"\b{word}\b", spelling, sql)
        sql = re.sub(r"--.*", "", sql)
        with self.write(lock=True) as connection:
            for statement in filter(None, map(str.strip, sql.split(";"))):
                connection.execute(statement)
            connection.execute("INSERT INTO site_texts VALUES ('arena', ?)", arena)
            if not self.is_sqlite:
                # Samples of values, which ANALYZE takes for plans, outlive deleted rows.
                columns = connection.rows(
                    "SELECT table_name, column_name FROM information_schema.columns "
                    "WHERE table_schema = current_schema() AND table_name IN ??",
                    sorted({*re.findall(r"CREATE TABLE (\w+)", sql)} - {"events", "matchups"}),
                )
                for table, column in columns:
                    connection.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0")

    def check_files(self) -> None:
        """A `StoreError` if a SQLite arena's files were removed, moved or overwritten while they are open."""
        if self._files is not None:
            self._files.check()

    def trouble(self) -> str:
        """What is wrong with the files of a SQLite arena, or with their disk, and what to do; empty if nothing is."""
        try:
            self.check_files()
        except StoreError as error:
            return str(error)
        full = self.path is not None and shutil.disk_usage(self.path.parent).free < LEAST_ROOM
        return "There is no room left on the disk of the database. Free some." if full else ""

    def purge_deleted(self, *tables: str) -> bool:
        """Let nothing of deleted rows stay in the files; whether it is done. While others read, a later call does it.

        SQLite overwrites what is deleted, so its log of writes alone is emptied. PostgreSQL writes `tables` anew, which
        locks them: without any it is left to a later call.
        """
        self.purge_due = True
        with suppress(StoreError), self._translated("tidy up"):
            if self._files is not None:
                self.purge_due = not self._files.checkpoint("TRUNCATE", PURGE_MS)
            elif tables and not self.is_sqlite:
                with self._borrowed() as driver:
                    for table in tables:
                        driver.execute(f"VACUUM (FULL) {table}")
                self.purge_due = False
        return not self.purge_due

    def copy(self, out: Path) -> None:
        """Write a consistent copy of a SQLite arena to a new file, completely or not at all; writers continue.

        Copying the file would not do: the latest commits are in a second file beside it. The random keys with which
        networks are hashed are left out: from a copy nobody can find them, whatever else they know.
        """
        if self.path is None:
            raise OptionError(
                f"{self.shown} is a PostgreSQL database, whose own tools copy it while it is in use: "
                "pg_dump --format=custom --file FILE URL."
            )
        if out.exists():
            raise OptionError(f"{out} is there already. A backup overwrites nothing: name another file.")
        self.check_files()
        try:
            with self._borrowed() as driver:
                copy_database(driver, out, without="address_keys")
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot copy {self.shown} to {out}: {error}. Nothing was copied.") from None

    def close(self) -> None:
        """Close all idle connections; those in use are closed when they are handed back."""
        self._closed = True
        self._drop_idle()
        files, self._files = self._files, None
        if files is not None:
            files.close()

    @contextmanager
    def _transaction(self, doing: str, begin: str) -> Iterator[Connection]:
        with self._translated(doing), self._borrowed() as driver:
            driver.execute(begin)
            try:
                yield Connection(driver, is_sqlite=self.is_sqlite)
                driver.execute("COMMIT")
            except BaseException:
                if not self.is_sqlite or driver.in_transaction:
                    driver.execute("ROLLBACK")
                raise

    @contextmanager
    def _borrowed(self) -> Iterator[Any]:
        """A connection for one thread. After an error neither it nor those that are idle are used again."""
        if not self._room.acquire(timeout=self._busy_seconds):
            raise StoreError(f"cannot use {self.shown}: all connections are busy. Try again.")
        try:
            driver, broken = self._take(), False
            try:
                yield driver
            except self._errors():
                broken = True
                self._drop_idle()  # a server that went away took their other ends with it
                raise
            finally:
                if broken or self._closed or len(self._idle) >= MOST_CONNECTIONS:
                    driver.close()
                else:
                    self._idle.append((driver, time.monotonic()))
        finally:
            self._room.release()

    def _drop_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):  # another thread took it
                self._idle.pop()[0].close()

    def _take(self) -> Any:
        while True:
            try:
                driver, since = self._idle.pop()
            except IndexError:
                return self._connected()
            if self.is_sqlite or time.monotonic() - since < 1.0:
                return driver
            try:
                driver.execute("SELECT 1")  # the server may have gone away and come back
            except self._errors():
                driver.close()
            else:
                return driver

    def _connected(self) -> Any:
        if self.path is not None:
            with self._opening:
                self.check_files()  # connecting would make an empty file, and so delete the log of writes beside it
                if _is_kept_copy(self.path):
                    address = f"{self.path.absolute().as_uri()}?immutable=1"
                    return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
                driver = self._open_file(self.path)
                if self._files is None:
                    self._files = SqliteFiles(self.path, self._open_file(self.path))
            return driver
        import psycopg

        session = psycopg.connect(self.url, autocommit=True)
        try:
            session.execute("SELECT set_config('lock_timeout', '3s', false)")
            if session.execute("SELECT current_setting('synchronous_commit')").fetchone() == ("off",):
                session.execute("SET synchronous_commit TO on")
        except BaseException:
            session.close()
            raise
        return session

    def _lock(self, connection: Connection) -> None:
        """Take the lock. Who has waited 3 s ends the session that holds it, if its client has said nothing for 2 s."""
        from psycopg.errors import LockNotAvailable

        while True:
            try:
                connection.one("SELECT pg_advisory_xact_lock(?)", WRITER_LOCK)
            except LockNotAvailable:
                connection.execute("ROLLBACK")
                connection.rows(_END_FROZEN, WRITER_LOCK, FROZEN_SECONDS)
                connection.execute(_BEGIN)
            else:
                return

    def _open_file(self, path: Path) -> sqlite3.Connection:
        with suppress(OSError):  # there is one, or SQLite says what is wrong
            path.touch(mode=0o600, exist_ok=False)
        driver = sqlite3.connect(path, isolation_level=None, timeout=self._busy_seconds, check_same_thread=False)
        try:
            for setting in _SETTINGS:
                driver.execute(f"PRAGMA {setting}")
        except BaseException:
            driver.close()
            raise
        return driver

    def _errors(self) -> tuple[type[Exception], ...]:
        if self.is_sqlite:
            return (sqlite3.Error,)
        import psycopg

        return (psycopg.Error,)

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self._errors() as error:
            self.check_files()
            if self.path is not None and not self.path.parent.is_dir():
                message = f"there is no folder {self.path.parent}. Check the path, or make the folder first."
                raise StoreError(f"cannot {doing} {self.shown}: {message}") from error
            raise StoreError(f"cannot {doing} {self.shown}: {_explained(error)}") from error


def _is_kept_copy(path: Path) -> bool:
    """Whether this is a database on a disk that cannot be written, which nobody has open."""
    if not path.exists() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return False
    log = path.with_name(f"{path.name}-wal")
    return not path.with_name(f"{path.name}-shm").exists() and not (log.exists() and log.stat().st_size)


def _explained(error: Exception) -> str:
    message = " ".join(str(error).split())
    state = getattr(error, "sqlstate", None)
    if "is locked" in message or state == "55P03":
        return "another program holds its lock. Nothing was saved; try again when that program is done."
    if getattr(error, "sqlite_errorname", "").startswith(
        ("SQLITE_IOERR_SHORT_READ", "SQLITE_CORRUPT", "SQLITE_NOTADB")
    ):
        return (
            f"its files do not belong together ({message}): was one removed or replaced while a site had them open? "
            "Stop it, look at what it says, or restore a backup."
        )
    if "is full" in message or "disk I/O" in message or state == "53100":
        return f"no room left on its disk ({message}). Nothing was saved; free some space, then try again."
    if "readonly" in message or "unable to open" in message:
        return f"{message}. Nothing was saved; check the folder's permissions and that its disk is there."
    if not isinstance(error, sqlite3.Error) and state in (None, "57P01", "57P02", "57P03"):
        return f"the connection failed ({message}). Nothing was confirmed; the same request may safely be sent again."
    return f"{message}. Nothing was saved."


def checked_url(url: str) -> str:
    """The URL of an arena; an invalid text is not repeated in errors, since it may contain a password."""
    if url.startswith("sqlite:///"):
        if url.removeprefix("sqlite:///") in ("", ":memory:"):
            raise StoreError(f"{url!r} cannot hold an arena. {_ADVICE}")
        return url
    if re.match(r"postgres(ql)?(\+psycopg)?://", url):
        return "postgresql://" + url.partition("://")[2]
    if "://" in url:
        raise StoreError(f"{url.partition('://')[0]!r} databases cannot hold an arena. {_ADVICE}")
    if url.endswith((".db", ".sqlite")) and "@" not in url:
        raise StoreError(f"{url} is a path, not the URL of a database. Write sqlite:///{url}")
    raise StoreError(f"the address of the arena is not the URL of a database. {_ADVICE}")


def without_secrets(url: str) -> str:
    """The URL for display, without its password."""
    if url.startswith("sqlite:"):
        return url
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    query = urlencode([(field, value) for field, value in parse_qsl(parts.query) if field not in _SECRET_FIELDS])
    return urlunsplit(parts._replace(netloc=f"{name}{':***' if colon else ''}{at}{host}", query=query))
