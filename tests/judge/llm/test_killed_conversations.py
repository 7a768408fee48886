"""Conversations whose process is killed between and within turns: every turn that was answered is paid for once."""

from __future__ import annotations

import json
import random
import signal
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.server import FakeServerProcess
from tests.forked import Forked, module
from tests.judge.llm.killable import accepted, answered
from tests.judge.llm.killable_conversations import COUNT, TURNS
from tests.sizes import size
from tiltyard.data.bank import read_responses

NUMBERS = count(1)
PLACES = size(5, soak=9)


def start(folder: Path, *options: str) -> Forked:
    return Forked(
        folder, f"streams-{next(NUMBERS)}", module, "tests.judge.llm.killable_conversations", str(folder), *options
    )


def finish(process: Forked) -> tuple[int, str, str]:
    done = process.wait(60)
    return done.returncode, done.stdout, done.stderr


def run(folder: Path, *options: str) -> dict[str, Any]:
    code, out, err = finish(start(folder, *options))
    assert code == 0, err
    assert "left alone" not in err, err
    return json.loads(out)


def responses(folder: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    found = read_responses(folder / "work", "otter")
    return {name: (response.response_text, response.diagnostics or {}) for name, response in found.items()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder, run(folder)["points"]


def check_against(folder: Path, undisturbed: Path) -> None:
    assert responses(folder) == responses(undisturbed)
    assert set(answered(folder / "provider").values()) == {1}
    assert accepted(folder / "provider") == accepted(undisturbed / "provider")


def test_an_undisturbed_run_has_all_turns(undisturbed: tuple[Path, int]) -> None:
    folder, points = undisturbed
    assert {name: made["turns"] for name, (_, made) in responses(folder).items()} == {
        name: len(messages) for name, messages in TURNS.items()
    }
    assert len(answered(folder / "provider")) == sum(map(len, TURNS.values()))
    assert points > 100


def killed_once(folder: Path, undisturbed: tuple[Path, int], place: float) -> None:
    original, points = undisturbed
    code, _, _ = finish(start(folder, "--kill-at", str(1 + int(place * points))))
    # How often a batch is looked at depends on the machine: a run may pass fewer points, and be over before the last.
    assert code == -signal.SIGKILL or (code == 0 and place > 0.8)
    run_again(folder)
    check_against(folder, original)


def run_again(folder: Path) -> None:
    """The journal may hold a batch all of whose replies were kept before the kill; it is then mentioned."""
    code, _, err = finish(start(folder))
    assert code == 0, err


@pytest.mark.parametrize("place", [(number + 0.37) / PLACES for number in range(PLACES)])
def test_killed_at_one_point_and_resumed(tmp_path: Path, undisturbed: tuple[Path, int], place: float) -> None:
    killed_once(tmp_path, undisturbed, place)


@pytest.mark.soak
@pytest.mark.parametrize("place", [(number + 0.5) / 150 for number in range(150)])
def test_killed_at_any_point_and_resumed(tmp_path: Path, undisturbed: tuple[Path, int], place: float) -> None:
    killed_once(tmp_path, undisturbed, place)


def test_killed_again_and_again(tmp_path: Path, undisturbed: tuple[Path, int]) -> None:
    rng = random.Random(1)
    for _ in range(5):
        code, _, _ = finish(start(tmp_path, "--kill-at", str(rng.randint(5, 60))))
        if code == 0:
            break
    run_again(tmp_path)
    check_against(tmp_path, undisturbed[0])


def test_two_processes_take_turns_and_pay_for_each_turn_once(tmp_path: Path, undisturbed: tuple[Path, int]) -> None:
    ends = [finish(process) for process in (start(tmp_path), start(tmp_path))]
    assert [code for code, _, _ in ends] == [0, 0], ends
    assert sum(json.loads(out)["written"] for _, out, _ in ends) == COUNT
    check_against(tmp_path, undisturbed[0])


def test_killed_while_turns_go_over_http(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    options = [
        "--talk",
        "tests.fakes.behaviour:talk_by_number",
        "--batch-seconds",
        "0.2",
        "--outcomes",
        '{"expired": 0.2}',
    ]
    with FakeServerProcess(tmp_path_factory.mktemp("server"), *options) as server:
        kills = 0
        for pause in (0.1, 0.3):
            process = start(tmp_path, "--anthropic", server.anthropic_url)
            while not (tmp_path / "work" / "asking_otter" / "asking.lock").exists() and process.poll() is None:
                time.sleep(0.002)
            time.sleep(pause)
            process.kill()
            kills += finish(process)[0] != 0
        code, out, err = finish(start(tmp_path, "--anthropic", server.anthropic_url))
        assert code == 0, err
        assert json.loads(out)["failed"] == {}
        assert kills >= 1
        assert server.summary()["paid_twice"] == {}
        assert server.summary()["contents"] == sum(map(len, TURNS.values()))
    assert set(responses(tmp_path)) == set(TURNS)
