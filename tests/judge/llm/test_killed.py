"""Processes that are killed with SIGKILL, and started again: nothing lost, nothing that was answered paid twice."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.fakes.server import FakeServerProcess
from tests.forked import Forked, module
from tests.judge.llm.killable import accepted, answered
from tests.sizes import size

NUMBERS = count(1)
COUNT = 20
PLACES = size(7, soak=21)


def start(folder: Path, *options: str) -> Forked:
    return Forked(folder, f"streams-{next(NUMBERS)}", module, "tests.judge.llm.killable", str(folder), *options)


def finish(process: Forked) -> tuple[int, str, str]:
    done = process.wait(60)
    return done.returncode, done.stdout, done.stderr


def run(folder: Path, *options: str) -> dict[str, int]:
    code, out, err = finish(start(folder, *options))
    assert code == 0, err
    return json.loads(out)


def replies(folder: Path) -> list[dict[str, object]]:
    lines = (folder / "work" / "replies.jsonl").read_text().splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda line: str(line["key"]))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder, run(folder)["points"]


def check_against(folder: Path, undisturbed: Path) -> None:
    assert replies(folder) == replies(undisturbed)
    assert set(answered(folder / "provider").values()) == {1}
    assert accepted(folder / "provider") == accepted(undisturbed / "provider")


def test_an_undisturbed_run_answers_everything(undisturbed: tuple[Path, int]) -> None:
    folder, points = undisturbed
    assert [line["key"] for line in replies(folder)] == sorted(f"k{number}" for number in range(COUNT))
    assert points > 100


def killed_once(tmp_path: Path, undisturbed: tuple[Path, int], place: float) -> None:
    original, points = undisturbed
    point = 1 + int(place * points)
    code, _, _ = finish(start(tmp_path, "--kill-at", str(point)))
    assert code == -signal.SIGKILL
    run(tmp_path)
    check_against(tmp_path, original)


@pytest.mark.parametrize("place", [(number + 0.37) / PLACES for number in range(PLACES)])
def test_killed_at_one_point_and_resumed(tmp_path: Path, undisturbed: tuple[Path, int], place: float) -> None:
    killed_once(tmp_path, undisturbed, place)


@pytest.mark.soak
@pytest.mark.parametrize("place", [(number + 0.5) / 250 for number in range(250)])
def test_killed_at_any_point_and_resumed(tmp_path: Path, undisturbed: tuple[Path, int], place: float) -> None:
    killed_once(tmp_path, undisturbed, place)


@pytest.mark.parametrize("seed", [1])
def test_killed_again_and_again(tmp_path: Path, undisturbed: tuple[Path, int], seed: int) -> None:
    original, _ = undisturbed
    rng = random.Random(seed)
    for _ in range(6):
        code, _, _ = finish(start(tmp_path, "--kill-at", str(rng.randint(5, 90))))
        if code == 0:
            break
    run(tmp_path)
    check_against(tmp_path, original)


def test_two_processes_in_one_folder_take_turns(tmp_path: Path, undisturbed: tuple[Path, int]) -> None:
    first = start(tmp_path)
    second = start(tmp_path)
    ends = [finish(first), finish(second)]
    assert [code for code, _, _ in ends] == [0, 0]
    assert sorted(json.loads(out)["done"] for _, out, _ in ends) == [0, COUNT]
    assert sum("is asking in" in err for _, _, err in ends) <= 1  # who comes late enough need not wait
    check_against(tmp_path, undisturbed[0])


def test_a_lock_dies_with_its_holder(tmp_path: Path, undisturbed: tuple[Path, int]) -> None:
    first = start(tmp_path, "--kill-at", "60")
    second = start(tmp_path)
    codes = {finish(first)[0], finish(second)[0]}
    assert 0 in codes
    run(tmp_path)
    check_against(tmp_path, undisturbed[0])


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeServerProcess]:
    """A server of this test alone that speaks every wire format and stays up while its clients are killed."""
    options = ["--outcomes", '{"expired": 0.1, "missing": 0.1}', "--strangers", "1", "--batch-seconds", "0.4"]
    with FakeServerProcess(tmp_path_factory.mktemp("server"), *options) as process:
        yield process


def killed_after(
    folder: Path, server: FakeServerProcess, count: int, seconds: list[float], maker: str = "anthropic"
) -> int:
    """Kill a run after each of these times, let the last one end; how many were killed before their end."""
    command = ["--maker", maker, "--base-url", server.anthropic_url, "--count", str(count)]
    kills = 0
    for pause in seconds:
        process = start(folder, *command)
        while not (folder / "work" / "asking.lock").exists() and process.poll() is None:
            time.sleep(0.002)
        time.sleep(pause)
        process.kill()
        kills += finish(process)[0] != 0
    run(folder, *command)
    assert {line["key"] for line in replies(folder)} == {f"k{number}" for number in range(count)}
    assert not [line for line in replies(folder) if line["error"]]
    return kills


def test_killed_while_batches_go_over_http(tmp_path: Path, server: FakeServerProcess) -> None:
    assert killed_after(tmp_path, server, 21, [0.05, 0.2]) >= 1
    assert server.summary()["paid_twice"] == {}


@pytest.mark.soak
@pytest.mark.parametrize("maker", ["anthropic", "gemini"])
@pytest.mark.parametrize("seed", range(20))
def test_killed_at_many_moments_over_http(tmp_path: Path, server: FakeServerProcess, seed: int, maker: str) -> None:
    rng = random.Random(seed)
    killed_after(tmp_path, server, 22 + seed, [rng.uniform(0.05, 1.5) for _ in range(10)], maker)
    assert server.summary()["paid_twice"] == {}
