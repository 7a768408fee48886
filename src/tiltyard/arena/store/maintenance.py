"""Looking after a database: bringing it to the tables of this version, and copying it while it is in use.

A migration only adds (decision 0012), so that programs of the version before still work with the newer tables. Each
migration records in `steps` the oldest version that may use its tables; a program opens newer tables only if that
allows it.

A file in use is copied by SQLite itself. Copying the file would not work: the latest commits are in a second file
beside it, and copies of the two made one after the other may be inconsistent.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tiltyard.arena.events import FIRST_HASH
from tiltyard.arena.store.database import BUSY_SECONDS
from tiltyard.arena.store.tables import steps
from tiltyard.errors import OptionError, StoreError
from tiltyard.files import whole_file

if TYPE_CHECKING:
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.database import Database

HEAD = "0006"
"""The last step in `migrations/versions`."""

STEPS = Path(__file__).parent / "migrations"

UPGRADE_LOCK = 0x71177A4E
"""The number of the advisory lock under which one host at a time runs the steps."""

LOCK_SECONDS = 5
"""How long a migration may wait for a table: later users of that table would queue behind it."""


def version(database: Database) -> str | None:
    """The current migration of a database; None if there is no arena in it."""
    with database.read() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def check(database: Database) -> None:
    """Fail with what to do unless the database holds an arena that this version may use."""
    found = version(database) if database.exists() else None
    if found is None:
        raise StoreError(f"there is no arena at {database.shown}. Make one: tiltyard arena init --db {database.shown}")
    if found < HEAD or (found > HEAD and _usable_from(database, found) > HEAD):
        what = "an older" if found < HEAD else "a newer"
        todo = "Run `tiltyard arena init --upgrade`." if found < HEAD else "Install a newer tiltyard."
        raise StoreError(
            f"the arena at {database.shown} has the tables of {what} version ({found}, not {HEAD}). {todo}"
        )


def _usable_from(database: Database, found: str) -> str:
    """The oldest step whose programs may use the tables of a step; by default the step itself."""
    with database.read() as connection:
        if not sa.inspect(connection).has_table(steps.name):
            return found
        return str(connection.execute(sa.select(steps.c.usable_from).where(steps.c.version == found)).scalar() or found)


def upgrade(database: Database, to: str = "head") -> None:
    """Run the missing steps, all or none of them; the arena may be in use, and other hosts may try at the same time."""
    from alembic import command  # imported late: it takes longer than opening an arena
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(STEPS).replace("%", "%%"))
    with database.write() as connection:
        config.attributes["connection"] = connection
        if not database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(UPGRADE_LOCK)))
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        command.upgrade(config, to)


def copy_arena(store: Store, out: Path) -> tuple[int, str]:
    """Write a consistent copy of the arena to a new file, completely or not at all; returns the head of its log."""
    database = store.database
    if not database.is_sqlite:
        raise OptionError(
            f"{database.shown} is a PostgreSQL database, whose own tools copy it while it is in use: "
            "pg_dump --format=custom --file FILE URL."
        )
    if out.exists():
        raise OptionError(f"{out} is there already. A backup overwrites nothing: name another file.")
    try:
        with whole_file(out, durable=True) as unfinished:
            return _vacuum_into(str(database.url.database), unfinished)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot copy {database.shown} to {out}: {error}. Nothing was copied.") from None


def _vacuum_into(source: str, path: Path) -> tuple[int, str]:
    """Copy a consistent view while writers continue; returns the head of the log in the copy."""
    with closing(sqlite3.connect(source, isolation_level=None, timeout=BUSY_SECONDS)) as connection:
        connection.execute("VACUUM INTO ?", (str(path),))
    with closing(sqlite3.connect(path)) as copy:
        found = copy.execute("SELECT seq, hash FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, FIRST_HASH) if found is None else (int(found[0]), str(found[1]))
