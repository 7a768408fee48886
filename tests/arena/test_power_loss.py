"""The power fails: every byte that was never synced is lost, and every acknowledged vote is there."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path

import pytest

from tests.arena.engines import sql
from tests.arena.lossy_disk import LossyDisk, sqlite_library, vote_on_a_lossy_disk
from tests.arena.test_crash import Voters, check, seed
from tests.processes import wait_until

pytestmark = pytest.mark.skipif(
    sqlite_library() is None, reason="Python's SQLite is not a shared library whose file functions could be replaced"
)


def fail_often(url: str, synced: Path, failures: int, survive: float, synchronous: str = "") -> list[str]:
    """Votes acknowledged by writers whose power failed at random moments, one after the other."""
    seed(url)
    database, disk, moments = Path(url.removeprefix("sqlite:///")), LossyDisk(synced), random.Random(failures)
    disk.keep(database)
    lines: list[str] = []
    work = partial(vote_on_a_lossy_disk, str(synced), synchronous)
    for number in range(failures):
        voters = Voters(url, f"p{number}", clients=8, seconds=60, work=work)
        wait_until(lambda voters=voters: voters.lines or not voters.process.running)
        time.sleep(moments.uniform(0.0, 0.25))
        voters.kill()
        lines += voters.lines
        disk.fail(database, moments, survive)
        if not synchronous:
            check(url, lines)
            disk.keep(database)  # what looking at it wrote
    return lines


@pytest.mark.parametrize("survive", [0.0, 0.5])
def test_acknowledged_votes_survive_a_power_failure(sqlite_url: str, tmp_path: Path, survive: float) -> None:
    assert len(fail_often(sqlite_url, tmp_path / "synced", 1, survive)) > 0


@pytest.mark.soak
@pytest.mark.parametrize("survive", [0.0, 0.1, 0.5, 0.9])
def test_a_hundred_power_failures_lose_nothing(sqlite_url: str, tmp_path: Path, survive: float) -> None:
    assert len(fail_often(sqlite_url, tmp_path / "synced", 100, survive)) > 1000


@pytest.mark.parametrize("synchronous", [pytest.param("OFF", marks=pytest.mark.soak), "NORMAL"])
def test_with_weaker_settings_the_same_failure_loses_votes(sqlite_url: str, tmp_path: Path, synchronous: str) -> None:
    lines = fail_often(sqlite_url, tmp_path / "synced", 1, 0.0, synchronous)
    kept = {name for (name,) in sql(sqlite_url, "SELECT id FROM matchups WHERE vote_seq IS NOT NULL")}
    assert not {line.split()[0] for line in lines} <= kept
