"""Bringing a database to the tables of this version, and saying clearly when it has others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tiltyard.errors import StoreError

if TYPE_CHECKING:
    from tiltyard.arena.store.database import Database

HEAD = "0001"
"""The last step in `migrations/versions`."""

STEPS = Path(__file__).parent / "migrations"


def version(database: Database) -> str | None:
    """The step that a database stands at; None where there is no arena in it."""
    with database.read() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def upgrade(database: Database, to: str = "head") -> None:
    """Run the steps that are missing, all or none of them."""
    from alembic import command  # imported late: it takes longer than opening an arena
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(STEPS).replace("%", "%%"))
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, to)


def check(database: Database) -> None:
    """Fail with what to do unless the database holds an arena of this version."""
    found = version(database) if database.exists() else None
    if found is None:
        raise StoreError(f"there is no arena at {database.shown}. Make one: tiltyard arena init --db {database.shown}")
    if found != HEAD:
        what = "an older" if found < HEAD else "a newer"
        todo = "Run `tiltyard arena init --upgrade`." if found < HEAD else "Install a newer tiltyard."
        raise StoreError(
            f"the arena at {database.shown} has the tables of {what} version ({found}, not {HEAD}). {todo}"
        )
