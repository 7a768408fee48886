"""The tables: made by migrations, from nothing and from the oldest ones, and refused when they are not ours."""

from __future__ import annotations

import sqlite3
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from tests.arena.databases import Databases
from tests.arena.engines import catalog, open_arena, play, sql
from tiltyard.arena.store import Store, maintenance
from tiltyard.arena.store.database import Database
from tiltyard.arena.store.site_texts import screened, set_screened
from tiltyard.arena.store.tables import metadata
from tiltyard.arena.store.verify import verify
from tiltyard.errors import StoreError

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "postgresql"])
def bare_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without a table."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'bare.db'}"
    databases: Databases = request.getfixturevalue("postgresql_databases")
    return databases.bare()


def test_the_migrations_make_the_tables_that_the_code_uses(bare_url: str) -> None:
    store = Store.create(bare_url)
    with store.database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    store.close()


def test_an_arena_with_the_oldest_tables_is_brought_to_the_newest(bare_url: str) -> None:
    database = Database(bare_url)
    maintenance.upgrade(database, "0001")
    database.close()
    Store.upgrade(bare_url).close()
    with open_arena(bare_url) as arena:
        arena.append(catalog())
        play(arena, 3)
    assert verify(bare_url).clean


def test_the_last_step_is_the_one_that_the_code_expects() -> None:
    assert ScriptDirectory(str(maintenance.STEPS)).get_heads() == [maintenance.HEAD]


def test_an_arena_is_not_made_twice(bare_url: str) -> None:
    Store.create(bare_url).close()
    with pytest.raises(StoreError, match="already"):
        Store.create(bare_url)


def test_a_database_without_an_arena_says_how_to_make_one(bare_url: str) -> None:
    for attempt in (Store.open, Store.upgrade):
        with pytest.raises(StoreError, match="tiltyard arena init"):
            attempt(bare_url)


def test_opening_what_is_not_there_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no arena"):
        Store.open(f"sqlite:///{tmp_path / 'nowhere.db'}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("version", "what"), [("0000", "older"), ("9999", "newer")])
def test_tables_of_another_version_are_refused(sqlite_url: str, version: str, what: str) -> None:
    sql(sqlite_url, f"UPDATE alembic_version SET version_num = '{version}'")
    with pytest.raises(StoreError, match=what):
        Store.open(sqlite_url)


@pytest.mark.parametrize("url", ["arena.db", "mysql://root@host/x", "sqlite://", "postgresql+asyncpg://x/y", "::"])
def test_a_url_that_cannot_hold_an_arena_says_what_can(url: str) -> None:
    with pytest.raises(StoreError, match="sqlite:///"):
        Store.open(url)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(StoreError) as refused:
        Store.open("postgresql://user:s3cret@127.0.0.1:1/none")
    assert "s3cret" not in str(refused.value)


def test_a_file_that_is_no_database_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("Not a database at all, but long enough to look like one. " * 40)
    with pytest.raises(StoreError, match="not a database"):
        Store.open(f"sqlite:///{tmp_path / 'x.db'}")


def test_sqlite_commits_are_on_the_disk_before_they_are_answered(sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    with store.database.write() as connection:
        assert connection.execute(sa.text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(sa.text("PRAGMA synchronous")).scalar() == 2  # FULL
    store.close()


def test_postgresql_commits_are_on_the_disk_even_where_the_server_is_set_to_be_hasty(postgresql_url: str) -> None:
    name = postgresql_url.split("?")[0].rsplit("/", 1)[1]
    sql(postgresql_url, f'ALTER DATABASE "{name}" SET synchronous_commit TO off')
    assert sql(postgresql_url, "SHOW synchronous_commit") == [("on",)]


def test_the_migrations_are_part_of_the_wheel(tmp_path: Path) -> None:
    hatch = pytest.importorskip("hatchling.builders.wheel")
    if not (ROOT / "pyproject.toml").is_file():
        pytest.skip("the wheel is built from the repository, which is not here")
    (wheel,) = hatch.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
    assert {f"tiltyard/arena/store/migrations/{name}" for name in ("env.py", "versions/0001_first_tables.py")} <= names


def test_a_plain_sqlite_shell_can_read_an_arena(sqlite_url: str) -> None:
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        play(arena, 2)
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    assert connection.execute("SELECT count(*) FROM votes").fetchone() == (2,)
    connection.close()


def test_two_imports_at_once_may_both_note_what_was_screened(arena_url: str) -> None:
    with open_arena(arena_url) as arena, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: set_screened(arena.store, f"digest {number}"), range(40)))
        assert screened(arena.store).startswith("digest ")
