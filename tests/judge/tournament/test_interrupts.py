"""Ctrl-C, and two runs at once: a run that stops says how to go on, and one that must wait for another waits."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeServer
from tests.fakes.behaviour import verdict_by_hash
from tests.forked import PATIENCE_SECONDS, Forked, command
from tests.judge.tournament.folder import change, make_folder, read_lines

QUERIES = 2 * (9 + 12)
RUN = ("run", "tournament.yaml", "--mode", "headline", "--output-dir", "run", "--yes")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A tournament judged by a model of Anthropic's, which is looked after often."""
    path = make_folder(tmp_path, judge="claude-sonnet-4-5")
    return change(path, judge__poll_initial_seconds=0.01, judge__poll_max_seconds=0.02)


def wait_until(condition: Callable[[], object], forked: Any) -> None:
    while not condition():
        assert forked.running, forked.wait().stderr
        time.sleep(0.002)


def the_line(stderr: str) -> str:
    (line,) = [line for line in stderr.splitlines() if line.startswith("tiltyard: ")]
    return line


@pytest.mark.parametrize("batch", [True, False])
def test_an_interrupt_is_one_line_that_says_how_to_go_on_and_that_command_finishes(
    tmp_path: Path, anthropic_server: FakeServer, tiltyard: Run, config: Path, batch: bool
) -> None:
    change(config, judge__batch=batch, judge__concurrency=2)
    behaviour, ledger = anthropic_server.behaviour, anthropic_server.ledger
    behaviour.batch_polls = 10**9  # it never ends by itself …
    behaviour.latency_seconds = 0.02
    forked = Forked(tmp_path, "streams", command, *RUN, "--limit-pairs", "9", "--max-batch", "30", "--budget", "5")
    wait_until(lambda: ledger.calls["state"] > 3 if batch else len(ledger.accepted) > 5, forked)
    assert forked.process.pid is not None
    os.kill(forked.process.pid, signal.SIGINT)
    done = forked.wait()
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    line = the_line(done.stderr)
    assert "interrupted. Nothing is lost: go on with tiltyard run" in line
    behaviour.batch_polls = 0  # … until nobody waits for it
    told = shlex.split(line.partition("go on with tiltyard ")[2])
    assert told == [*RUN[:-1], "--limit-pairs", "9", "--max-batch", "30", "--yes", "--budget", "5"]
    done = tiltyard(*told)
    assert done.returncode == 0, done.stderr
    assert len(ledger.accepted) == 36
    assert not ledger.paid_twice()


@pytest.mark.soak
def test_an_interrupt_of_the_command_itself_from_a_cold_start(
    tmp_path: Path, anthropic_server: FakeServer, config: Path
) -> None:
    """Every run: the test above, of a forked process, and `python -m tiltyard` in tests/cli/test_system_errors.py."""
    anthropic_server.behaviour.batch_polls = 10**9
    process = subprocess.Popen(
        [sys.executable, "-m", "tiltyard", *RUN],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    while not anthropic_server.ledger.calls["state"]:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (1, "")
    assert "interrupted. Nothing is lost" in the_line(err)


def test_two_runs_at_once_on_one_cache_both_finish_and_pay_once(
    tmp_path: Path, anthropic_server: FakeServer, config: Path
) -> None:
    anthropic_server.behaviour.batch_polls = 5
    first, second = (
        Forked(tmp_path, f"streams-{name}", command, *RUN[:4], "--output-dir", name, "--yes") for name in ("one", "two")
    )
    for done in (first.wait(), second.wait()):
        assert done.returncode == 0, done.stderr
    ledger = anthropic_server.ledger
    assert len(ledger.accepted) == QUERIES
    assert not ledger.paid_twice()
    for name in ("battles.jsonl", "elo_results.json", "pairwise_winrates.csv", "verdicts/factuality.jsonl"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_two_runs_that_overlap_in_part_ask_each_question_once(
    tmp_path: Path, anthropic_server: FakeServer, config: Path
) -> None:
    change(config, judge__batch=False, judge__concurrency=3)
    anthropic_server.behaviour.latency_seconds = 0.005
    options = {"few": ("--limit-pairs", "4"), "all": ()}
    both = [
        Forked(tmp_path, f"streams-{name}", command, *RUN[:4], "--output-dir", name, "--yes", *more)
        for name, more in options.items()
    ]
    for forked in both:
        done = forked.wait()
        assert done.returncode == 0, done.stderr
    assert len(anthropic_server.ledger.accepted) == QUERIES
    assert not anthropic_server.ledger.paid_twice()
    assert len(read_lines(tmp_path / "few" / "verdicts" / "factuality.jsonl")) == 4


def test_direct_asking_that_is_killed_asks_again_only_what_was_on_its_way(
    tmp_path: Path, fake_server: FakeServer, tiltyard: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_BASE_URL", fake_server.openai_url)
    change(make_folder(tmp_path, judge="local/small"), judge__concurrency=4)
    kills, lost = 2, 4 * 2
    for number in range(kills):
        forked = Forked(tmp_path, f"streams-{number}", command, *RUN)
        goal = len(fake_server.ledger.accepted) + 5
        fake_server.behaviour.latency_seconds = 0.005
        wait_until(lambda goal=goal: len(fake_server.ledger.accepted) >= goal, forked)  # type: ignore[misc]
        assert forked.kill()
    done = tiltyard(*RUN)
    assert done.returncode == 0, done.stderr
    assert fake_server.behaviour.judge is verdict_by_hash
    assert QUERIES <= len(fake_server.ledger.accepted) <= QUERIES + lost
    assert len(read_lines(tmp_path / "judgments" / "judgments_calibration.jsonl")) == 24
