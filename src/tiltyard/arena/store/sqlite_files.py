"""The files of a SQLite arena: noticing that somebody removed, moved or overwrote them while they are open.

SQLite goes on writing to files that are no longer there, and mixes its log of writes (`-wal`) with whatever takes the
place of the database. So whoever writes compares both files with what they were after each commit, before anybody is
told of it, and while idle. If something is wrong, what the open connection still holds is saved, and nothing more is
written. Only this module empties the log of writes into the database, so any other change of its file is looked into.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
from pathlib import Path

from tiltyard.errors import StoreError
from tiltyard.files import whole_file

CHECKPOINT_COMMITS = 250
"""After so many commits the log of writes is emptied into the database: about a thousand pages."""

CHECKPOINT_BYTES = 4_000_000
"""Or when the log of writes has grown by so much."""

SAVING_MS = 5_000
"""How long saving waits for those who read."""


class SqliteFiles:
    """A database and its log of writes, held open by a connection that nobody else uses."""

    def __init__(self, path: Path, driver: sqlite3.Connection) -> None:
        self.lost = ""
        """What happened to the files, and what to do; empty while they are as they should be."""
        self._path, self._log_path = path, path.with_name(f"{path.name}-wal")
        self._driver = driver
        self._lock = threading.Lock()
        self._head = (0, "")
        driver.execute("SELECT 1 FROM sqlite_master").fetchone()  # opens the log of writes
        with contextlib.suppress(sqlite3.OperationalError):  # a new database has no tables yet
            last = driver.execute("SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1").fetchone()
            self._head = last or self._head
        self._log_file = self._log_path.open("r+b", buffering=0)
        self._db, self._log = path.stat(), self._log_path.stat()
        self._commits, self._log_size = 0, self._log.st_size

    def check(self) -> None:
        """Nothing, while the files are those that were opened; else a `StoreError`, after saving what they held."""
        if not self.lost and not self._unchanged():
            with self._lock:
                if not self.lost and not self._unchanged():
                    try:
                        self.lost = self._look_into_it()
                    except sqlite3.Error as error:
                        what = f"the files of {self._path.name} were changed, and cannot be looked into ({error})"
                        raise StoreError(f"{what}. Nothing was saved; try again.") from error
        if self.lost:
            raise StoreError(self.lost)

    def committed(self, head: tuple[int, str] | None) -> None:
        """Check after a commit, whose last event is `head`; from time to time empty the log of writes."""
        self.check()  # against the events before: a commit to what somebody put in place is no proof of them
        self._head = head or self._head
        self._commits += 1
        size = self._log.st_size
        if self._commits >= CHECKPOINT_COMMITS or size - self._log_size >= CHECKPOINT_BYTES:
            with contextlib.suppress(sqlite3.Error):  # on a full disk, for one, it stays where it is
                self.checkpoint("TRUNCATE" if size > 4 * CHECKPOINT_BYTES else "PASSIVE", 0)

    def checkpoint(self, mode: str, wait_ms: int) -> bool:
        """Empty the log of writes into the database; wait no longer than this for readers. Whether it is done."""
        with self._lock:
            if self.lost or not self._unchanged():
                return False  # the next check looks into it
            try:
                self._driver.execute(f"PRAGMA busy_timeout = {wait_ms}").fetchone()
                busy, _, _ = self._driver.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            finally:
                self._remember()
            return not busy

    def close(self) -> None:
        with self._lock:
            self.lost = self.lost or f"{self._path.name} is closed."
            self._driver.close()
            self._log_file.close()

    def _unchanged(self) -> bool:
        """Whether the files are the same, only we wrote the database, and the log of writes did not shrink."""
        try:
            db, log = os.stat(self._path), os.stat(self._log_path)  # noqa: PTH116 - for every commit, and cheaper
        except OSError:
            return False
        same = _is(db, self._db) and _is(log, self._log) and _written(db) == _written(self._db)
        # Where it was cut and then written on, there is a hole.
        hole = log.st_blocks < self._log.st_blocks and log.st_blocks * 512 < log.st_size
        if not same or hole or log.st_size < self._log.st_size:
            return False
        self._log = log
        return True

    def _remember(self) -> None:
        """The files as they are now, unless they are others."""
        db, log = _stat(self._path), _stat(self._log_path)
        self._db = db if db is not None and _is(db, self._db) else self._db
        self._log = log if log is not None and _is(log, self._log) else self._log
        self._commits, self._log_size = 0, self._log.st_size

    def _look_into_it(self) -> str:
        """What happened, after saving what can be saved; empty if another program did what it may."""
        name, number = self._path.name, f"{self._head[0]:,}"
        self._driver.execute(f"PRAGMA busy_timeout = {SAVING_MS}").fetchone()
        db, log = _stat(self._path), _stat(self._log_path)
        if db is None or not _is(db, self._db):
            with contextlib.suppress(sqlite3.Error):  # so that the old file is whole, wherever it is now
                self._driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            what = "removed" if db is None else f"replaced by a file that {_end_of_log(self._path)}"
            return f"{name} was {what} while it was open. {self._save()} {_TODO}"
        log_is_there = log is not None and _is(log, self._log)
        if not self._is_whole():
            overwritten = f"{name}-wal was" if _written(db) == _written(self._db) else f"{name} was"
            kept = self._discard_log()
            return (
                f"{overwritten} cut or overwritten while it was open: {name} now {_end_of_log(self._path)}, and the "
                f"last one written was {number}.{kept} Take what is missing from a backup. {_TODO}"
            )
        if log_is_there:
            self._remember()
            return ""
        moved = self._driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        whole = moved[1] == moved[2] >= 0
        saved = f"All events up to {number} are in {name} now." if whole else self._save()
        return f"{name}-wal was removed while {name} was open. {saved} Start the site again."

    def _is_whole(self) -> bool:
        """Whether every table can be read, and the log up to the last event that was written.

        Pages of another file between those in the log of writes may look right for any few rows, so all are read.
        """
        seq, digest = self._head
        ask = self._driver.execute
        try:
            ask("PRAGMA shrink_memory")
            if seq and ask("SELECT hash FROM events WHERE seq = ?", (seq,)).fetchone() != (digest,):
                return False
            if seq and ask("SELECT count(*) FROM events WHERE seq <= ?", (seq,)).fetchone() != (seq,):
                return False
            return bool(ask("PRAGMA quick_check(1)").fetchone() == ("ok",))
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise
            return False

    def _save(self) -> str:
        out = self._path.with_name(f"{self._path.name}.saved-{self._head[0]}")
        try:
            if not out.exists():
                copy_database(self._driver, out)
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            return f"What it held could not be saved ({reason})."
        return f"What it held, up to event {self._head[0]:,}, is in {out.name}."

    def _discard_log(self) -> str:
        """Keep a copy of the log of writes and empty it: it must not be written over what somebody put in place."""
        out = self._log_path.with_name(f"{self._log_path.name}.saved-{self._head[0]}")
        try:
            with whole_file(out, durable=True, private=True) as part, part.open("wb") as file:
                self._log_file.seek(0)
                shutil.copyfileobj(self._log_file, file)
        except OSError:
            return ""
        self._log_file.truncate(0)
        return f" What was left of {self._log_path.name} is in {out.name}."


_TODO = "Stop the site, put the right file in place, without a -wal or -shm beside it, then start."


def copy_database(driver: sqlite3.Connection, out: Path, *, without: str = "") -> None:
    """Write what a connection sees to a new file that only its owner may read, completely or not at all.

    The rows of the table `without` are left out.
    """
    with whole_file(out, durable=True, private=True) as unfinished:
        driver.execute("VACUUM INTO ?", (str(unfinished),))
        if without:
            with contextlib.closing(sqlite3.connect(unfinished, isolation_level=None)) as copy:
                copy.execute("PRAGMA secure_delete = ON").fetchone()
                copy.execute(f"DELETE FROM {without}")


def _stat(path: Path) -> os.stat_result | None:
    with contextlib.suppress(OSError):
        return path.stat()
    return None


def _is(one: os.stat_result, other: os.stat_result) -> bool:
    return one.st_ino == other.st_ino and one.st_dev == other.st_dev


def _written(file: os.stat_result) -> tuple[int, int]:
    return file.st_mtime_ns, file.st_size


def _end_of_log(path: Path) -> str:
    """Where the log in a database ends that nobody serves."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as driver:
            (seq,) = driver.execute("SELECT max(seq) FROM events").fetchone()
    except sqlite3.Error:
        return "holds no arena"
    return f"ends at event {seq or 0:,}"
