"""Kills and full disks: what was acknowledged is there, once; what was not may safely be sent again."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.arena import voting_process
from tests.arena.databases import Databases, make_empty_arena, own_server
from tests.arena.engines import CHOICES, any_matchup, catalog, open_arena, play, sql
from tests.forked import PATIENCE_SECONDS, Forked
from tiltyard.arena import Arena, ArenaState
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store import Store
from tiltyard.arena.store.database import Database
from tiltyard.errors import StoreError

KILLED_ROUNDS = 170
"""How often `make soak` starts three workers and kills them all, on each database: 1,020 kills."""


class Voters:
    """A process full of voters, and the lines that it has said so far."""

    def __init__(
        self, url: str, name: str, clients: int, seconds: float, work: Callable[..., None] = voting_process.main
    ) -> None:
        self.process = Forked.anywhere(work, url, name, clients, seconds, pipe=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(line.rstrip("\n") for line in self.process.stdout if line.endswith("\n"))

    def has_voted(self) -> None:
        """Wait for the first acknowledged vote: a starved machine may take longer than any random moment."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not self.lines:
            assert self._reader.is_alive(), "it ended without a vote"
            assert time.monotonic() < until, f"no vote after {PATIENCE_SECONDS:.0f} s"
            time.sleep(0.005)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self._end()

    def finish(self) -> None:
        self._end()
        assert self.process.returncode == 0, self.errors

    def _end(self) -> None:
        self._reader.join(PATIENCE_SECONDS)
        self.errors = self.process.wait().stderr


def seed(url: str) -> None:
    with open_arena(url) as arena:
        arena.append(catalog())


def check(url: str, lines: list[str]) -> int:
    """Every acknowledged vote is there with its choice, no matchup was voted on twice, and the log proves the rest."""
    votes = dict(sql(url, "SELECT id, voter || ' ' || choice FROM matchups WHERE vote_seq IS NOT NULL"))
    lost = [line for line in lines if votes.get(line.split()[0]) != line.split(" ", 1)[1]]
    assert lost == []
    bodies = [body for (body,) in sql(url, "SELECT body FROM events WHERE kind = 'voted'")]
    assert max(Counter(bodies).values(), default=1) == 1
    assert len(bodies) == len(votes)
    assert verify(url).problems == ()
    return len(lines)


def kill_writers(url: str, kills: int, seed_of_moments: int = 1) -> int:
    """Votes acknowledged by writers that were killed at random moments, one after the other."""
    seed(url)
    moments = random.Random(seed_of_moments)
    lines: list[str] = []
    for number in range(kills):
        voters = Voters(url, f"w{number}", clients=8, seconds=PATIENCE_SECONDS)
        if number % 2 == 0:  # the others may be killed before their first vote
            voters.has_voted()
        time.sleep(moments.uniform(0.02, 0.4))
        voters.kill()
        lines += voters.lines
    return check(url, lines)


def kill_workers(url: str, kills: int) -> int:
    """Votes acknowledged by two workers on one database, one or the other of them killed again and again."""
    seed(url)
    moments = random.Random(2)
    lines: list[str] = []
    running = [Voters(url, f"a{number}", clients=6, seconds=300) for number in range(2)]
    running[0].has_voted()
    for number in range(kills):
        time.sleep(moments.uniform(0.1, 0.6))
        killed = running.pop(moments.randrange(2))
        killed.kill()
        lines += killed.lines
        running.append(Voters(url, f"b{number}", clients=6, seconds=300))
    for voters in running:
        voters.kill()
        lines += voters.lines
    return check(url, lines)


def kill_every_worker(
    fresh: Callable[[], str], rounds: int, rounds_each: int = 10, workers: int = 3
) -> tuple[int, int]:
    """Kills, and votes acknowledged: several workers on one database, killed one by one until none is left.

    After each kill the log verifies while the others vote on; after the last one everything is checked. Every few
    rounds begin in an empty arena, so that checking stays quick.
    """
    moments, kills, votes = random.Random(4), 0, 0
    for first in range(0, rounds, rounds_each):
        url = fresh()
        seed(url)
        lines: list[str] = []
        for number in range(first, min(first + rounds_each, rounds)):
            running = [Voters(url, f"r{number}-{worker}", clients=6, seconds=300) for worker in range(workers)]
            running[0].has_voted()
            while running:
                time.sleep(moments.uniform(0.0, 0.3))
                killed = running.pop(moments.randrange(len(running)))
                killed.kill()
                assert killed.process.returncode == -signal.SIGKILL
                kills += 1
                lines += killed.lines
                assert verify(url).problems == ()
            check(url, lines)
        votes += len(lines)
    return kills, votes


def kill_servers(kills: int) -> int:
    """Votes acknowledged by two workers whose PostgreSQL server was killed and started again and again."""
    with own_server() as server:
        url = Databases(server.url).fresh()
        seed(url)
        moments = random.Random(3)
        running = [Voters(url, f"s{number}", clients=6, seconds=kills + 0.5) for number in range(2)]
        running[0].has_voted()
        for _ in range(kills):
            time.sleep(moments.uniform(0.2, 0.8))
            server.kill()
            server.start()
        for voters in running:
            voters.finish()
        return check(url, [line for voters in running for line in voters.lines])


def freeze_workers(url: str, times: int) -> float:
    """The longest time without an acknowledged vote while one of two workers was frozen again and again."""
    seed(url)
    moments, longest = random.Random(5), 0.0
    frozen, other = (Voters(url, name, clients=6, seconds=PATIENCE_SECONDS) for name in ("frozen", "other"))
    frozen.has_voted()
    other.has_voted()
    for _ in range(times):
        time.sleep(moments.uniform(0.1, 0.4))
        frozen.process.send_signal(signal.SIGSTOP)
        began, before = time.monotonic(), len(other.lines)
        while len(other.lines) < before + 20:
            assert time.monotonic() - began < PATIENCE_SECONDS, "the other worker votes no more"
            time.sleep(0.01)
        longest = max(longest, time.monotonic() - began)
        frozen.process.send_signal(signal.SIGCONT)
        before = len(frozen.lines)
        while len(frozen.lines) == before:
            assert time.monotonic() - began < PATIENCE_SECONDS, "it does not come back"
            time.sleep(0.01)
    for voters in (frozen, other):
        voters.kill()
    check(url, frozen.lines + other.lines)
    return longest


def test_votes_acknowledged_by_a_killed_writer_are_there_on_sqlite(sqlite_url: str) -> None:
    assert kill_writers(sqlite_url, kills=2) > 0


def test_votes_acknowledged_by_killed_workers_are_there_on_postgresql(postgresql_url: str) -> None:
    assert kill_workers(postgresql_url, kills=1) > 0


def test_votes_acknowledged_before_a_server_was_killed_are_there() -> None:
    assert kill_servers(kills=1) > 0


def test_several_workers_killed_one_by_one_lose_nothing_on_sqlite(sqlite_url: str) -> None:
    kills, votes = kill_every_worker(lambda: sqlite_url, rounds=1)
    assert kills == 3
    assert votes > 0


def test_a_frozen_worker_delays_the_others_for_seconds_and_nothing_is_lost(postgresql_url: str) -> None:
    assert freeze_workers(postgresql_url, times=1) < 12.0


@pytest.mark.soak
def test_a_worker_that_freezes_fifty_times_delays_the_others_for_seconds_only(postgresql_url: str) -> None:
    assert freeze_workers(postgresql_url, times=50) < 12.0


@pytest.mark.soak
def test_five_hundred_kills_of_workers_lose_nothing_on_sqlite(sqlite_template: Path, tmp_path: Path) -> None:
    names = count()

    def fresh() -> str:
        return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / f'arena-{next(names)}.db')}"

    kills, votes = kill_every_worker(fresh, rounds=KILLED_ROUNDS)
    assert kills >= 500
    assert votes > kills


@pytest.mark.soak
def test_five_hundred_kills_of_workers_lose_nothing_on_postgresql(postgresql_databases: Databases) -> None:
    kills, votes = kill_every_worker(postgresql_databases.fresh, rounds=KILLED_ROUNDS)
    assert kills >= 500
    assert votes > kills


@pytest.mark.soak
def test_ten_kills_of_the_server_lose_nothing() -> None:
    assert kill_servers(kills=10) > 100


def test_workers_on_one_database_count_every_vote_once(postgresql_url: str) -> None:
    seed(postgresql_url)
    workers = [Voters(postgresql_url, f"w{number}", clients=6, seconds=0.4) for number in range(2)]
    for worker in workers:
        worker.finish()
    lines = [line for worker in workers for line in worker.lines]
    assert all(worker.lines for worker in workers)
    assert check(postgresql_url, lines) == len(lines)
    assert verify(postgresql_url).votes == len(lines)


def test_one_ballot_sent_to_two_workers_at_once_is_one_vote(postgresql_url: str) -> None:
    seed(postgresql_url)
    with open_arena(postgresql_url, seed=1) as one, open_arena(postgresql_url, seed=2) as two:
        for round_ in range(8):
            served = one.serve("ann")
            said: list[str] = []

            def client(arena: Arena, choice: int, name: str = served.matchup_id, said: list[str] = said) -> None:
                try:
                    arena.vote(name, "ann", CHOICES[choice])
                    said.append(CHOICES[choice])
                except Exception as error:
                    said.append(type(error).__name__)

            threads = [
                threading.Thread(target=client, args=(arena, (k + round_) % 2)) for k, arena in enumerate((one, two))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(240)
            assert sorted(said) in (["A", "ChoiceDiffers"], ["B", "ChoiceDiffers"])
        expected = 8
        assert one.read(lambda state: int(state.tallies.wins.view.sum())) <= expected
    check(postgresql_url, [])
    assert verify(postgresql_url).votes == expected


def test_a_reader_sees_every_vote_acknowledged_before_by_any_worker(postgresql_url: str) -> None:
    """Even while another process holds the lock: readers do not wait for it."""
    seed(postgresql_url)
    with open_arena(postgresql_url, seed=1) as one, open_arena(postgresql_url, seed=2) as two:
        other = Database(postgresql_url)
        for votes in range(1, 6):
            play(one, 1)
            with other.write(lock=True):
                assert two.read(counted_votes) == votes
        other.close()


def counted_votes(state: ArenaState) -> int:
    return int(state.tallies.rated.sum() + state.tallies.both_bad.view.sum()) // 2


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """A disk that is full for this process: no file may grow beyond this size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_a_full_disk_is_one_clear_error_and_nothing_is_half_written(sqlite_url: str) -> None:
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        votes = play(arena, 20)
        folder = Path(sqlite_url.removeprefix("sqlite:///")).parent
        with files_no_larger_than(max(path.stat().st_size for path in folder.iterdir())):
            refused = []
            for _ in range(60):
                try:
                    votes += play(arena, 1)
                except StoreError as error:
                    refused.append(str(error))
        assert refused
        assert "no room left" in refused[-1]
        votes += play(arena, 5)
    check(sqlite_url, [f"{name} {voter} {choice}" for name, voter, choice in votes])


def test_a_small_disk_that_runs_full_loses_nothing(tmp_path: Path) -> None:
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], capture_output=True
    )
    if not mounted or mounted.returncode:
        pytest.skip("mounting a small disk takes more rights than this user has")
    try:
        url = f"sqlite:///{tmp_path / 'arena.db'}"
        make_empty_arena(url)
        votes = []
        with open_arena(url) as arena:
            arena.append(catalog())
            with pytest.raises(StoreError, match="no room left"):  # noqa: PT012 - it takes some votes to fill a disk
                for _ in range(3000):
                    votes += play(arena, 1)
            with pytest.raises(StoreError):
                arena.serve("somebody")
            subprocess.run(["mount", "-o", "remount,size=16m", tmp_path], check=True)
            votes += play(arena, 3)
        check(url, [f"{name} {voter} {choice}" for name, voter, choice in votes])
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_locked_database_is_one_clear_error_and_works_again_afterwards(sqlite_url: str) -> None:
    seed(sqlite_url)
    with Arena(Store(Database(sqlite_url, busy_seconds=0.2), "any"), chooser=any_matchup) as arena:
        votes = play(arena, 3)
        other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another program holds its lock"):
            arena.serve("ann")
        other.execute("ROLLBACK")
        other.close()
        votes += play(arena, 3)
    check(sqlite_url, [f"{name} {voter} {choice}" for name, voter, choice in votes])
