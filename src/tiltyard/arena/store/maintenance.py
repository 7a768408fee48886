"""Looking after a database: bringing it to the tables of this version, and copying it while it is in use.

A migration only adds, so that programs of the version before still work with the newer tables. Each
migration records in `steps` the oldest version that may use its tables; a program opens newer tables only if that
allows it.

A file in use is copied by SQLite itself. Copying the file would not work: the latest commits are in a second file
beside it, and copies of the two made one after the other may be inconsistent.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tiltyard.arena.chain import FIRST_HASH, link_event, new_salts
from tiltyard.arena.events import ChainUpgraded, Event
from tiltyard.arena.store import log
from tiltyard.arena.store.bulk import fetch, update_rows
from tiltyard.arena.store.database import BUSY_SECONDS, Database
from tiltyard.arena.store.rebuild import links
from tiltyard.arena.store.replica import Replica
from tiltyard.arena.store.tables import events, matchups, responses, steps, voters, votes
from tiltyard.errors import OptionError, StoreError
from tiltyard.files import whole_file

if TYPE_CHECKING:
    from alembic.config import Config

    from tiltyard.arena.store import Store

HEAD = "0009"
"""The last step in `migrations/versions`."""

SALTED = "0005"
"""The step with the salts of events: older programs cannot write to an arena whose chain has version 2."""

STEPS = Path(__file__).parent / "migrations"

UPGRADE_LOCK = 0x71177A4E
"""The number of the advisory lock under which one host at a time runs the steps."""

LOCK_SECONDS = 5
"""How long a migration may wait for a table: later users of that table would queue behind it."""

TRIES = 5
"""How often the steps are begun: a writer that uses tables in another order and a step may wait for each other, and the
database then ends one of the two."""


def version(database: Database) -> str | None:
    """The current migration of a database; None if there is no arena in it."""
    with database.read() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def check(database: Database) -> None:
    """Fail with what to do unless the database holds an arena that this version may use."""
    result = version(database) if database.exists() else None
    if result is None:
        raise StoreError(f"there is no arena at {database.shown}. Make one: tiltyard arena init --db {database.shown}")
    if result < HEAD or (result > HEAD and _usable_from(database, result) > HEAD):
        what = "an older" if result < HEAD else "a newer"
        todo = "Run `tiltyard arena init --upgrade`." if result < HEAD else "Install a newer tiltyard."
        raise StoreError(
            f"the arena at {database.shown} has the tables of {what} version ({result}, not {HEAD}). {todo}"
        )


def _usable_from(database: Database, result: str) -> str:
    """The oldest step whose programs may use the tables of a step; by default the step itself."""
    with database.read() as connection:
        if not sa.inspect(connection).has_table(steps.name):
            return result
        return str(
            connection.execute(sa.select(steps.c.usable_from).where(steps.c.version == result)).scalar() or result
        )


def upgrade(database: Database, to: str = "head") -> None:
    """Run the missing steps, all or none of them; the arena may be in use, and other hosts may try at the same time."""
    from alembic.config import Config  # imported late: it takes longer than opening an arena

    config = Config()
    config.set_main_option("script_location", str(STEPS).replace("%", "%%"))
    for tries_left in reversed(range(TRIES)):
        try:
            _run_steps(database, to, config)
        except StoreError as error:
            if not (tries_left and _is_deadlock(error)):
                raise
        else:
            break


def _run_steps(database: Database, to: str, config: Config) -> None:
    from alembic import command

    with database.write() as connection:
        config.attributes["connection"] = connection
        if not database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(UPGRADE_LOCK)))
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            _lock_in_writers_order(connection)
        command.upgrade(config, to)


def _is_deadlock(error: StoreError) -> bool:
    """Whether the database ended our transaction because another one and ours waited for each other."""
    return getattr(getattr(error.__cause__, "orig", error.__cause__), "sqlstate", None) == "40P01"


def _lock_in_writers_order(connection: sa.Connection) -> None:
    """Lock the tables that steps change, in the order in which votes use them.

    A step that changed them in another order could wait for a writer that waits for it, and one of the two would fail.
    """
    if sa.inspect(connection).has_table(matchups.name):
        names = ", ".join(table.name for table in (responses, matchups, events, votes, voters))
        connection.exec_driver_sql(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")


def prepare_new(database: Database) -> None:
    """Make a new arena refuse programs that know only version 1 of the chain."""
    with database.write() as connection:
        require_programs_from(connection, SALTED)


def switch_chain(store: Store) -> ChainUpgraded | None:
    """Chain everything from now on by version 2; None if the log is chained so already.

    Every event gets a salt, and one new event binds the log so far to the new chain. Programs that know only version 1
    can write no events from then on. All in one transaction; others may be writing.
    """
    database = store.database
    with database.write() as connection:
        if not database.is_sqlite:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        database.lock_projector(connection, wait=True)
        replica = Replica.load(connection, store.checkpoint_every)
        _require_salts(connection)  # on PostgreSQL this waits for whoever is writing an event without one
        if replica.version == 2:
            return None
        while lacking := fetch(connection, _unsalted):
            salts = new_salts(len(lacking))
            update_rows(
                connection, events, ("id",), ("salt",), list(zip((row[0] for row in lacking), salts, strict=True))
            )
        store.chain_pending(connection, replica)
        body = ChainUpgraded(until=replica.state.seq, head=replica.hash, link=_link_of_all(connection))
        replica.version = 2
        replica.project(connection, log.write_events(connection, [Event(time.time_ns() // 1000, body)]))
        return body


_unsalted = sa.select(events.c.id).where(events.c.salt.is_(None)).order_by(events.c.id).limit(20_000)


def _link_of_all(connection: sa.Connection) -> str:
    """The link of version 2 over the whole log."""
    result = FIRST_HASH
    for page in links(connection):
        for row in page:
            if row.at is None or row.text is None or row.salt is None:
                raise StoreError(
                    f"event {row.seq} of the log is missing. Run `tiltyard arena verify`; nothing was changed."
                )
            result = link_event(result, row.seq, row.at, row.text, row.salt)
    return result


def _require_salts(connection: sa.Connection) -> None:
    """Refuse events without a salt from now on, and programs that would write them."""
    require_programs_from(connection, SALTED)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(
            "CREATE TRIGGER IF NOT EXISTS salted_events BEFORE INSERT ON events WHEN NEW.salt IS NULL "
            "BEGIN SELECT RAISE(ABORT, 'this program is too old for the arena: install a newer tiltyard'); END"
        )
        return
    there = sa.text("SELECT 1 FROM pg_constraint WHERE conname = 'ck_events_salted' AND conrelid = 'events'::regclass")
    if connection.execute(there).first() is None:
        connection.exec_driver_sql(
            "ALTER TABLE events ADD CONSTRAINT ck_events_salted CHECK (salt IS NOT NULL) NOT VALID"
        )


def require_programs_from(connection: sa.Connection, step: str) -> None:
    """Let only programs that know the tables of a step use those from it on."""
    newer = sa.and_(steps.c.version >= step, steps.c.usable_from < step)
    connection.execute(sa.update(steps).where(newer).values(usable_from=step))


def copy_before_upgrade(url: str) -> Path | None:
    """Copy a SQLite arena that is not of this version to a new file beside it, and return its name.

    None if there is nothing to upgrade, or if the arena is in PostgreSQL.
    """
    database = Database(url)
    try:
        result = version(database) if database.exists() else None
        if result is None or not database.is_sqlite or (result >= HEAD and not _is_of_chain_1(database)):
            return None
        stem = Path(str(database.url.database))
        names = (
            stem.with_name(f"{stem.name}.before-{HEAD}{suffix}") for suffix in ("", *(f"-{n}" for n in range(2, 99)))
        )
        out = next(name for name in names if not name.exists())
        copy_arena(database, out)
        return out
    finally:
        database.close()


def _is_of_chain_1(database: Database) -> bool:
    with database.read() as connection:
        return log.version_at_head(connection) == 1


def copy_arena(database: Database, out: Path) -> tuple[int, str]:
    """Write a consistent copy of the arena to a new file, completely or not at all; returns the head of its log."""
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
        result = copy.execute("SELECT seq, hash FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, FIRST_HASH) if result is None else (int(result[0]), str(result[1]))
