"""Arenas that version 0.1 wrote, on both databases, laid out anew for each test."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.arena.databases import Databases, postgresql_databases
from tests.cli.conftest import tiltyard
from tiltyard.arena.store import maintenance
from tiltyard.arena.store.database import Database

__all__ = ["postgresql_databases", "tiltyard"]

HERE = Path(__file__).parent
STEP = "0002"
"""The tables of version 0.1."""


@dataclass(frozen=True)
class OldArena:
    """An arena as 0.1 left it, and what 0.1 said of it then."""

    url: str
    facts: dict[str, Any]


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def as_0_1_left_it(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> OldArena:
    """An arena of 0.1 with every kind of event it knew, on either database; tests have copies of it."""
    facts = json.loads((HERE / "arena.json").read_text(encoding="utf-8"))[request.param]
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("old") / "arena.db"
        path.write_bytes(gzip.decompress((HERE / "arena.sqlite.gz").read_bytes()))
        return OldArena(f"sqlite:///{path}", facts)
    url = request.getfixturevalue("postgresql_databases").bare()
    _fill(url, json.loads(gzip.decompress((HERE / "arena.postgresql.json.gz").read_bytes())))
    return OldArena(url, facts)


@pytest.fixture(scope="session")
def as_upgraded(
    as_0_1_left_it: OldArena, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> OldArena:
    """The same, with the tables of this version; tests have copies of it."""
    made = OldArena(_copied(as_0_1_left_it.url, tmp_path_factory.mktemp("upgraded"), request), as_0_1_left_it.facts)
    database = Database(made.url)
    maintenance.upgrade(database)
    database.close()
    return made


def _copied(url: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if url.startswith("sqlite"):
        return f"sqlite:///{shutil.copy(url.removeprefix('sqlite:///'), folder / 'arena.db')}"
    databases: Databases = request.getfixturevalue("postgresql_databases")
    return databases.copy(url)


@pytest.fixture
def old_arena(as_0_1_left_it: OldArena, tmp_path: Path, request: pytest.FixtureRequest) -> OldArena:
    """An arena of 0.1 with every kind of event it knew, on either database."""
    return OldArena(_copied(as_0_1_left_it.url, tmp_path, request), as_0_1_left_it.facts)


@pytest.fixture
def upgraded_arena(as_upgraded: OldArena, tmp_path: Path, request: pytest.FixtureRequest) -> OldArena:
    """The same, with the tables of this version."""
    return OldArena(_copied(as_upgraded.url, tmp_path, request), as_upgraded.facts)


def _fill(url: str, kept: dict[str, Any]) -> None:
    """The tables of step 0002 with the rows that were kept of them."""
    database = Database(url)
    maintenance.upgrade(database, STEP)
    with database.write() as connection:
        found = sa.MetaData()
        found.reflect(connection)
        for name, table in found.tables.items():
            rows = [_row(kept[name], row) for row in kept[name]["rows"]]
            connection.execute(sa.delete(table))
            if rows:
                connection.execute(sa.insert(table), rows)
        connection.execute(sa.text("SELECT setval(pg_get_serial_sequence('events', 'id'), max(id)) FROM events"))
    database.close()


def _row(kept: dict[str, Any], values: list[Any]) -> dict[str, Any]:
    row = dict(zip(kept["columns"], values, strict=True))
    return {name: base64.b64decode(value) if name in kept["binary"] else value for name, value in row.items()}
