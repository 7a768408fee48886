"""`Store`: the database of one arena, made or opened."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from tiltyard.arena.store.database import SCHEMA_NUMBER, Database
from tiltyard.arena.store.outside import Outside
from tiltyard.arena.store.texts import AnswerIndex, Texts
from tiltyard.arena.store.visitors import known_voter
from tiltyard.errors import StoreError


class Store:
    """An arena's database. A URL is `sqlite:///path` or `postgresql://…`; one `Store` serves one process.

    Parameters:
        database: The database; use `Store.create` or `Store.open`.
        arena: The random id of the arena.
    """

    def __init__(self, database: Database, arena: str) -> None:
        self.database = database
        self.outside = Outside(arena)
        self.texts = Texts()
        self.answers = AnswerIndex()

    @classmethod
    def create(cls, url: str) -> Store:
        with closed_on_error(Database(url)) as database:
            if database.schema() is not None:
                raise StoreError(f"there is an arena at {database.shown} already. Open it, or name another place.")
            database.create_tables(arena := secrets.token_hex(16))
            return cls(database, arena)

    @classmethod
    def open(cls, url: str) -> Store:
        with closed_on_error(Database(url)) as database:
            found = database.schema()
            if found is None:
                raise StoreError(
                    f"there is no arena at {database.shown}. Make one: tiltyard arena init --db {database.shown}"
                )
            if found != SCHEMA_NUMBER:
                raise StoreError(
                    f"the arena at {database.shown} has tables of another version ({found}, not {SCHEMA_NUMBER}). "
                    "Use the tiltyard that made it."
                )
            with database.read() as connection:
                arena = str(connection.value("SELECT text FROM site_texts WHERE name = 'arena'"))
            return cls(database, arena)

    def known_voter(self, cookie_hash: str) -> str | None:
        with self.database.read() as connection:
            return known_voter(connection, cookie_hash)

    def close(self) -> None:
        self.database.close()


@contextmanager
def closed_on_error(database: Database) -> Iterator[Database]:
    """The database, which is closed if the block fails."""
    try:
        yield database
    except BaseException:
        database.close()
        raise
