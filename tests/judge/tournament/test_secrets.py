"""A key appears nowhere: in no file that a run leaves, on neither stream, in no error, whether all goes well or not."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests import within
from tests.cli.conftest import Run
from tests.fakes import FakeServer, Fault
from tests.fakes.behaviour import verdict_by_hash
from tests.forked import Forked, command
from tests.judge.tournament.folder import change, make_folder

SECRET = "sk-ant-planted-7f3a9c1e5b2d8064"
WIRES = ("anthropic", "openai", "local")
MODELS = {"anthropic": "claude-planted-1", "openai": "gpt-planted-1", "local": "local/planted"}


def each_run(*wires: str) -> pytest.MarkDecorator:
    """On these wires in every run, on the others in soak."""
    marks = [pytest.param(wire, marks=[] if wire in wires else [pytest.mark.soak]) for wire in WIRES]
    return pytest.mark.parametrize("config", marks, indirect=True)


@pytest.fixture(params=WIRES)
def config(
    request: pytest.FixtureRequest, tmp_path: Path, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A tournament whose judge is asked with the secret, on each wire."""
    wire = request.param
    for name in WIRES:
        monkeypatch.setenv(f"{name.upper()}_API_KEY", SECRET)
    address = fake_server.anthropic_url if wire == "anthropic" else fake_server.openai_url
    monkeypatch.setenv(f"{wire.upper()}_BASE_URL", address)
    fake_server.behaviour.key = SECRET
    fake_server.behaviour.batch_polls = 0
    path = make_folder(tmp_path / "site", judge=MODELS[wire])
    return change(path, judge__poll_initial_seconds=0.01, judge__poll_max_seconds=0.02, judge__max_attempts=1)


def run(config: Path, *more: str) -> CompletedProcess[str]:
    arguments = ("run", config.name, "--mode", "headline", "--output-dir", "run", "--yes", "--limit-pairs", "3", *more)
    return within.run(config.parent, *arguments)


def assert_kept(config: Path, done: CompletedProcess[str] | None = None, *, files: int = 5) -> None:
    """The secret is in no file beside the config: run folder, caches, journal, streams; and in no message."""
    looked_at = [path for path in config.parent.rglob("*") if path.is_file()]
    assert len(looked_at) >= files
    for path in looked_at:
        assert SECRET.encode() not in path.read_bytes(), path
    if done is not None:
        assert SECRET not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_in_a_run_that_goes_well(config: Path, fake_server: FakeServer) -> None:
    done = run(config)
    assert done.returncode == 0, done.stderr
    assert len(fake_server.ledger.accepted) == 12
    assert (config.parent / "run" / "report.html").exists()
    assert_kept(config, done, files=20)


def test_when_the_server_refuses_the_key_and_quotes_it(config: Path, fake_server: FakeServer) -> None:
    fake_server.behaviour.key = "sk-another-key-entirely"
    done = run(config)
    assert done.returncode == 1
    assert "the key was not accepted (401)" in done.stderr
    assert "[hidden]" in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("tiltyard: ")]) == 1
    assert_kept(config, done)


@each_run("anthropic")
def test_when_connections_are_dropped(config: Path, fake_server: FakeServer) -> None:
    fake_server.behaviour.faults = [Fault(kind="drop", route=route, times=1) for route in ("ask", "state", "results")]
    done = run(config)
    assert done.returncode == 0, done.stderr
    assert_kept(config, done, files=20)


def test_when_every_answer_is_an_error_that_quotes_the_key(config: Path, fake_server: FakeServer) -> None:
    words = f"you sent Authorization: Bearer {SECRET}"
    fake_server.behaviour.faults = [Fault(status=400, message=words, times=1000)]
    done = run(config)
    one_by_one = "local/" in config.read_text(encoding="utf-8")  # then each question fails alone, and there are only 12
    assert done.returncode == (0 if one_by_one else 1)
    said = (config.parent / "run" / "manifest.json").read_text(encoding="utf-8") if one_by_one else done.stderr
    assert "[hidden]" in said
    assert_kept(config, done)


@each_run("anthropic", "openai")  # a server of one's own takes no batches
def test_when_nothing_of_a_batch_comes_to_an_answer(config: Path, fake_server: FakeServer) -> None:
    fake_server.behaviour.outcome = lambda custom_id, body, before: "errored:api_error"
    done = run(config)
    assert done.returncode == 0, done.stderr
    assert_kept(config, done, files=15)


@each_run("openai")
def test_when_the_process_is_killed(config: Path, fake_server: FakeServer) -> None:
    left = iter([False] * 4 + [True])
    arguments = ("run", config.name, "--mode", "headline", "--output-dir", "run", "--yes", "--limit-pairs", "3")
    forked = Forked(config.parent, "streams", command, *arguments)
    pid = forked.process.pid
    assert pid is not None

    def judge(system: str, user: str) -> str:
        if fake_server.ledger.accepted and next(left, False):  # not for what an earlier test's command left behind
            os.kill(pid, signal.SIGKILL)
        return verdict_by_hash(system, user)

    fake_server.behaviour.judge = judge
    forked.process.join(60)
    assert forked.process.exitcode == -signal.SIGKILL
    assert_kept(config, files=10)


def test_a_key_in_the_env_file_is_found_and_stays_there(tmp_path: Path, fake_server: FakeServer, tiltyard: Run) -> None:
    config = make_folder(tmp_path / "site", judge="claude-planted-1")
    (config.parent / ".env").write_text(f"export ANTHROPIC_API_KEY='{SECRET}'  # mine\n", encoding="utf-8")
    change(config, judge__base_url=fake_server.anthropic_url)
    fake_server.behaviour.key, fake_server.behaviour.batch_polls = SECRET, 0
    done = run(config)
    assert done.returncode == 0, done.stderr
    (config.parent / ".env").unlink()
    assert_kept(config, done, files=20)


def test_without_a_key_one_line_says_where_to_put_it(tmp_path: Path, tiltyard: Run) -> None:
    make_folder(tmp_path, judge="claude-planted-1")
    done = tiltyard("run", "tournament.yaml", "--mode", "headline", "--yes")
    assert done.returncode == 1
    assert "set ANTHROPIC_API_KEY in the environment or in .env" in done.stderr
    assert not (tmp_path / "runs").exists()


HEADER = "team-planted-55d1c0ffee"


@each_run("anthropic")
def test_the_value_of_a_header_reaches_the_server_and_nothing_else(
    config: Path, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by a variable, it is in no file at all; and an error that quotes it is cleaned."""
    monkeypatch.setenv("TEAM_TOKEN", HEADER)
    change(config, judge__headers={"X-Team": "Token ${TEAM_TOKEN}"}, judge__batch=False)
    words = f"you sent X-Team: Token {HEADER}"
    fake_server.behaviour.faults = [Fault(route="ask", status=400, message=words, skip=3)]
    done = run(config)
    assert done.returncode == 0, done.stderr
    assert {headers.get("x-team") for _, headers in fake_server.ledger.heard} == {f"Token {HEADER}"}
    assert_kept(config, done, files=20)
    files = [path for path in config.parent.rglob("*") if path.is_file()]
    assert [path for path in files if HEADER.encode() in path.read_bytes()] == []
    assert HEADER not in done.stdout + done.stderr


def test_a_wrong_header_in_the_file_is_not_quoted(config: Path) -> None:
    for wrong in (f"X-Team: {HEADER}", {"X-Team": [HEADER]}, {"X Team": HEADER}, {"X-Team": f"{HEADER}\n"}):
        change(config, judge__headers=wrong)
        done = run(config)
        assert done.returncode == 1
        assert "judge.headers" in done.stderr
        assert HEADER not in done.stderr
