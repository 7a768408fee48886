"""Somebody removes, moves or overwrites the files of an arena that is open: it notices before the next answer."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.arena.engines import Clock, catalog, open_arena, play, sql
from tests.arena.test_crash import Voters, check, seed
from tests.processes import wait_until
from tiltyard.arena import Arena, Choice
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store import Store, sqlite_files
from tiltyard.errors import StoreError


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def remove_log(path: Path) -> None:
    log_of(path).unlink()


def remove_log_and_index(path: Path) -> None:
    for file in path.parent.glob("arena.db-*"):
        file.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def replace(path: Path) -> None:
    path.with_name("older.db").rename(path)


def restore(path: Path) -> None:
    """What the manual says, but while the site runs."""
    shutil.copyfile(path.with_name("older.db"), path)
    remove_log_and_index(path)


def overwrite(path: Path) -> None:
    shutil.copyfile(path.with_name("older.db"), path)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_log(path: Path) -> None:
    os.truncate(log_of(path), log_of(path).stat().st_size // 2)


def voted(arena: Arena, path: Path) -> list[str]:
    """The names of matchups with a vote, some before and some after an older copy was made and the log was emptied."""
    arena.append(catalog())
    votes = play(arena, 5)
    arena.store.database.copy(path.with_name("older.db"))
    votes += play(arena, 60, seed=1)
    arena.store.database.purge_deleted()
    votes += play(arena, 5, seed=2)
    return [name for name, _, _ in votes]


def kept_in(path: Path) -> set[object]:
    return {name for (name,) in sql(f"sqlite:///{path}", "SELECT id FROM matchups WHERE vote_seq IS NOT NULL")}


def refused(arena: Arena, matchup: str, words: str) -> None:
    for step in (lambda: arena.vote(matchup, "ann", Choice.A), lambda: arena.serve("bob")):
        with pytest.raises(StoreError, match=words):
            step()


@pytest.mark.parametrize("take", [remove_log, remove_log_and_index])
def test_after_its_log_of_writes_was_removed_every_vote_is_in_the_database(
    sqlite_url: str, take: Callable[[Path], None]
) -> None:
    path = path_of(sqlite_url)
    with open_arena(sqlite_url) as arena:
        votes, open_one = voted(arena, path), arena.serve("ann").matchup_id
        take(path)
        refused(arena, open_one, "arena.db-wal was removed.*All events")
        shutil.copyfile(path, path.with_name("killed.db"))  # as it is if the process dies now
    for left in (path, path.with_name("killed.db")):
        assert kept_in(left) >= set(votes)
        assert verify(f"sqlite:///{left}").clean


def test_votes_acknowledged_until_the_log_of_writes_is_removed_survive_a_kill(sqlite_url: str) -> None:
    seed(sqlite_url)
    voters = Voters(sqlite_url, "w", clients=4, seconds=60)
    voters.has_voted()
    remove_log(path_of(sqlite_url))
    before = -1

    def silent() -> bool:
        nonlocal before
        same, before = len(voters.lines) == before, len(voters.lines)
        time.sleep(0.3)
        return same

    wait_until(silent)
    voters.kill()
    assert check(sqlite_url, voters.lines) > 0


def test_who_opens_the_rest_of_an_arena_before_its_site_has_noticed_is_told_and_harms_nothing(sqlite_url: str) -> None:
    path = path_of(sqlite_url)
    with open_arena(sqlite_url, Clock()) as arena:  # one that does not look around by itself
        votes = voted(arena, path)
        remove_log(path)
        with pytest.raises(StoreError, match="do not belong together"):
            verify(sqlite_url)
        refused(arena, "any", "arena.db-wal was removed")
    assert kept_in(path) == set(votes)
    assert verify(sqlite_url).clean


@pytest.mark.parametrize(("take", "end"), [(move, "removed"), (replace, "replaced by a file that ends at event")])
def test_what_a_moved_or_replaced_database_held_is_saved_beside_it(
    sqlite_url: str, take: Callable[[Path], None], end: str
) -> None:
    path = path_of(sqlite_url)
    with open_arena(sqlite_url) as arena:
        votes, open_one = voted(arena, path), arena.serve("ann").matchup_id
        older = path.with_name("older.db").read_bytes()
        take(path)
        refused(arena, open_one, f"arena.db was {end}")
    (saved,) = path.parent.glob("arena.db.saved-*")
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert kept_in(saved) >= set(votes)
    assert verify(f"sqlite:///{saved}").clean
    if take is move:
        assert not path.exists(), "no empty file takes its place"
        assert kept_in(path.with_name("elsewhere.db")) >= set(votes)
    else:
        assert path.read_bytes() == older, "what the operator put there is left alone"


@pytest.mark.parametrize("take", [overwrite, restore])
def test_a_copy_put_over_an_open_database_is_left_alone_and_what_it_overwrote_is_said(
    sqlite_url: str, take: Callable[[Path], None]
) -> None:
    path = path_of(sqlite_url)
    with open_arena(sqlite_url) as arena:
        voted(arena, path)
        open_one = arena.serve("ann").matchup_id
        last = arena.read(lambda state: state.seq)
        older = path.with_name("older.db").read_bytes()
        take(path)
        ends = verify(f"sqlite:///{path.with_name('older.db')}").events
        refused(arena, open_one, f"now ends at event {ends}, and the last one written was {last}")
    assert path.read_bytes() == older
    assert verify(sqlite_url).votes == 5


def test_a_whole_copy_put_over_a_database_whose_log_of_writes_is_empty_is_noticed(sqlite_url: str) -> None:
    """Nothing in it is damaged: only the end of the log is missing."""
    path = path_of(sqlite_url)
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        play(arena, 3)
        arena.store.database.copy(path.with_name("older.db"))
        play(arena, 3, seed=1)
        open_one = arena.serve("ann").matchup_id
        arena.store.database.purge_deleted()
        restore(path)
        refused(arena, open_one, "arena.db was cut or overwritten")


def test_a_longer_copy_put_over_a_database_whose_votes_are_all_in_its_log_of_writes_is_noticed(sqlite_url: str) -> None:
    """The log can be read to its end, since all its pages are there; other tables are those of the copy."""
    path = path_of(sqlite_url)
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        play(arena, 40)
        arena.store.database.copy(path.with_name("older.db"))
        play(arena, 20, seed=1)
        open_one = arena.serve("ann").matchup_id
        assert path.stat().st_size <= path.with_name("older.db").stat().st_size
        overwrite(path)
        refused(arena, open_one, "arena.db was cut or overwritten")


@pytest.mark.parametrize("take", [cut, cut_log])
def test_a_cut_file_stops_votes_and_is_not_made_worse(sqlite_url: str, take: Callable[[Path], None]) -> None:
    path = path_of(sqlite_url)
    with open_arena(sqlite_url) as arena:
        voted(arena, path)
        open_one = arena.serve("ann").matchup_id
        take(path)
        after = path.read_bytes()
        refused(arena, open_one, r"arena\.db(-wal)? was cut or overwritten")
    assert path.read_bytes() == after
    assert list(path.parent.glob("arena.db-wal.saved-*"))


def test_a_log_of_writes_cut_within_a_commit_and_written_on_is_noticed(sqlite_url: str) -> None:
    """Its end is where it was, and there is a hole before it."""
    path = path_of(sqlite_url)
    with open_arena(sqlite_url) as arena:
        voted(arena, path)
        play(arena, 20, seed=5)
        size = log_of(path).stat().st_size
        os.truncate(log_of(path), 0)
        os.truncate(log_of(path), size)
        refused(arena, "any", "arena.db-wal was cut or overwritten")


def test_other_programs_may_write_empty_the_log_of_writes_and_tidy(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_files, "CHECKPOINT_COMMITS", 7)
    path, votes = path_of(sqlite_url), 0
    with open_arena(sqlite_url) as arena, open_arena(sqlite_url) as other:
        arena.append(catalog())
        for command in ("wal_checkpoint(TRUNCATE)", "wal_checkpoint(PASSIVE)", "optimize"):
            votes += len(play(arena, 12)) + len(play(other, 12))
            shell = sqlite3.connect(path)
            shell.execute(f"PRAGMA {command}")
            shell.execute("CREATE TABLE IF NOT EXISTS notes (text TEXT)")
            shell.execute("VACUUM")
            shell.close()
            os.utime(path)
        sql(sqlite_url, "DELETE FROM counters")
        store = Store.open(sqlite_url)
        store.database.purge_deleted()
        store.close()
        votes += len(play(arena, 12)) + len(play(other, 12))
        assert arena.store.database.trouble() == other.store.database.trouble() == ""
    assert verify(sqlite_url).votes == votes


def test_the_log_of_writes_does_not_grow_without_end(sqlite_url: str) -> None:
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        largest = 0
        for number in range(8):
            play(arena, 60, seed=number)
            largest = max(largest, log_of(path_of(sqlite_url)).stat().st_size)
        assert 0 < largest < 3 * sqlite_files.CHECKPOINT_BYTES


def test_a_copy_on_a_disk_that_cannot_be_written_is_verified_and_refuses_writes(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("a disk can be mounted by root alone")
    try:
        url, copy = f"sqlite:///{disk / 'arena.db'}", f"sqlite:///{disk / 'copy.db'}"
        store = Store.create(url)
        with Arena(store) as arena:
            arena.append(catalog())
            play(arena, 4)
            store.database.copy(path_of(copy))
            shutil.copytree(disk, tmp_path / "torn")  # of both files, while it is open
        store.close()
        (disk / "torn").mkdir()
        for name in ("arena.db", "arena.db-wal"):
            shutil.copy(tmp_path / "torn" / name, disk / "torn")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        for kept in (url, copy):
            assert verify(kept).votes == 4
            with pytest.raises(StoreError, match="readonly"):
                sql(kept, "DELETE FROM counters")
        with pytest.raises(StoreError, match=r"unable to open|readonly"):  # and not: everything but the latest votes
            verify(f"sqlite:///{disk / 'torn' / 'arena.db'}")
    finally:
        subprocess.run(["umount", disk], check=True)


def test_only_its_owner_may_read_what_holds_votes(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store = Store.create(f"sqlite:///{tmp_path / 'arena.db'}")
        with Arena(store) as arena:
            arena.append(catalog())
            store.database.copy(tmp_path / "copy.db")
            files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert files == dict.fromkeys(("arena.db", "arena.db-wal", "arena.db-shm", "copy.db"), 0o600)
