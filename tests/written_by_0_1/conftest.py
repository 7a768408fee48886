"""What version 0.1 wrote, laid out anew for each test: arenas on both databases, a tournament, a placement."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from collections.abc import Iterator
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


@pytest.fixture(params=["sqlite", "postgresql"])
def old_arena(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OldArena]:
    """An arena of 0.1 with every kind of event it knew, on either database."""
    facts = json.loads((HERE / "arena.json").read_text(encoding="utf-8"))[request.param]
    if request.param == "sqlite":
        path = tmp_path / "arena.db"
        path.write_bytes(gzip.decompress((HERE / "arena.sqlite.gz").read_bytes()))
        yield OldArena(f"sqlite:///{path}", facts)
        return
    databases: Databases = request.getfixturevalue("postgresql_databases")
    url = databases.bare()
    _fill(url, json.loads(gzip.decompress((HERE / "arena.postgresql.json.gz").read_bytes())))
    yield OldArena(url, facts)
    databases.drop(url)


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


@pytest.fixture
def old_tournament(tmp_path: Path) -> Path:
    """A tournament of 0.1 judged in OpenAI's batches: its config, cache, journal and run folder."""
    return Path(shutil.copytree(HERE / "tournament", tmp_path, dirs_exist_ok=True))


@pytest.fixture
def old_placement(tmp_path: Path) -> Path:
    """A calibrated placement of 0.1."""
    return Path(shutil.copytree(HERE / "placement", tmp_path / "placement"))
