"""A copy of an arena in SQLite that is whole, though the arena is in use.

Copying the file would not do: the latest commits are in a second file beside it, and a copy of the two taken one after
the other is of no moment at all.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from tiltyard.arena.events import FIRST_HASH
from tiltyard.arena.store.database import BUSY_SECONDS
from tiltyard.errors import OptionError, StoreError
from tiltyard.files import whole_file

if TYPE_CHECKING:
    from pathlib import Path

    from tiltyard.arena.store import Store


def copy_arena(store: Store, out: Path) -> tuple[int, str]:
    """Write the arena as it is at one moment to a new file, whole or not at all; the head of the log in it."""
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
    """Copy what one reader sees; writers go on meanwhile. The head of the log in the copy."""
    with closing(sqlite3.connect(source, isolation_level=None, timeout=BUSY_SECONDS)) as connection:
        connection.execute("VACUUM INTO ?", (str(path),))
    with closing(sqlite3.connect(path)) as copy:
        found = copy.execute("SELECT seq, hash FROM chain ORDER BY seq DESC LIMIT 1").fetchone()
    return (0, FIRST_HASH) if found is None else (int(found[0]), str(found[1]))
