"""Writers that are killed anywhere, and two that write at once, lose and spoil nothing."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import msgspec
import pytest

from tests.forked import Forked, script
from tiltyard.judge.verdicts import Verdict, VerdictCache
from tiltyard.judge.verdicts.cache import cache_path

WRITER = """
import sys
from tiltyard.judge.verdicts import VerdictLabel, Verdict, VerdictCache

folder, first, count, sync = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
cache = VerdictCache(folder, "d", sync_seconds=sync)
print("ready", flush=True)
for number in range(first, first + count):
    cache.add(
        Verdict(
            cache_key=f"key {number}",
            rubric_version="1",
            judge_model="m",
            position_swap=False,
            verdict=VerdictLabel.A,
            reasoning=f"{number} " * 400,
            timestamp="t",
        )
    )
    print(number, flush=True)
"""


def start(folder: Path, first: int, count: int, sync: float = 0.05) -> Forked:
    name = f"../{folder.name}-{first}"
    return Forked(folder, name, script, WRITER, str(folder), str(first), str(count), str(sync), pipe=True)


def check_whole(folder: Path, acknowledged: set[int]) -> None:
    """Every acknowledged verdict is there, whole; every line of the file but torn ends can be read."""
    cache = VerdictCache(folder, "d")
    for number in acknowledged:
        found = cache.get(f"key {number}")
        assert found is not None, f"key {number} was acknowledged and is gone"
        assert found.reasoning == f"{number} " * 400


@pytest.mark.parametrize("rounds", [6, pytest.param(200, marks=pytest.mark.soak)])
def test_a_writer_killed_at_any_moment_loses_nothing_it_had_acknowledged(tmp_path: Path, rounds: int) -> None:
    rng = random.Random(20260427)
    acknowledged: set[int] = set()
    for number in range(rounds):
        writer = start(tmp_path, first=number * 100_000, count=100_000, sync=rng.choice([0.0, 0.05]))
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        if number == 0:  # however busy the machine is, one round kills a writer that has written
            acknowledged.add(int(writer.stdout.readline()))
        time.sleep(rng.uniform(0.0, 0.03))
        writer.send_signal(signal.SIGKILL)
        lines = writer.stdout.read().split("\n")
        writer.wait(60)
        acknowledged.update(int(line) for line in lines[:-1])
        check_whole(tmp_path, acknowledged)
    assert acknowledged
    assert VerdictCache(tmp_path, "d").unreadable_lines <= rounds


def test_two_processes_write_at_once_and_every_line_is_whole(tmp_path: Path) -> None:
    writers = [start(tmp_path, first=first, count=400) for first in (0, 200)]
    for writer in writers:
        done = writer.wait(60)
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 401)
    check_whole(tmp_path, set(range(600)))
    lines = cache_path(tmp_path, "d").read_bytes().splitlines()
    keys = [msgspec.json.decode(line, type=Verdict).cache_key for line in lines]
    assert len(keys) == len(set(keys)) == 600
