"""`tiltyard judge journal`: what was sent, what is still open, and giving a lost batch up."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.judge.llm.providers_in_memory import asks
from tiltyard.cli.main import make_app
from tiltyard.judge.llm import JOURNAL_FILE
from tiltyard.judge.llm.journal import LOCK_FILE, Journal

NOON = 1_800_000_000.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A journal with a batch in each state, and one whose id was never written down."""
    names = iter(("one", "two", "three", "four"))
    journal = Journal(tmp_path / JOURNAL_FILE, lambda: NOON, lambda: next(names))
    for number, end in enumerate(("collected", "abandoned", "open", "lost")):
        intent = journal.intend("anthropic", [(ask, 1) for ask in asks(number + 1)])
        if end != "lost":
            journal.submitted(intent, f"batch_{number}")
        if end == "collected":
            journal.collected(intent)
        elif end == "abandoned":
            journal.abandoned(intent, "not taken")
    return tmp_path


def journal(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(make_app(), ["judge", "journal", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr + str(done.exception or "")


def states(folder: Path) -> dict[str, str]:
    code, shown, _ = journal(folder, "--format", "json")
    assert code == 0
    return {batch["name"]: batch["state"] for batch in json.loads(shown)}


def test_every_batch_is_listed_with_its_state(folder: Path) -> None:
    code, shown, _ = journal(folder)
    assert code == 0
    head, *rows, last = shown.strip().split("\n")
    assert head.split() == ["batch", "provider", "model", "requests", "created", "state"]
    assert [row.split()[0] for row in rows] == ["batch_0", "batch_1", "batch_2", "four"]
    assert [row.split()[3] for row in rows] == ["1", "2", "3", "4"]
    assert rows[1].endswith("2027-01-15 08:00  abandoned (not taken)")
    assert last == "2 of 4 batches are open"


@pytest.mark.parametrize(("name", "count"), [("batch_2", 3), ("four", 4)])
def test_an_open_batch_is_forgotten_by_its_id_or_by_ours(folder: Path, name: str, count: int) -> None:
    code, _, said = journal(folder, "--forget", name)
    assert code == 0
    assert f"batch {name} is forgotten: the next run sends its {count} requests again" in said
    assert states(folder)[name] == "abandoned"
    assert name not in [open_.batch_id or open_.id for open_ in Journal.in_folder(folder, lambda: NOON).open.values()]


@pytest.mark.parametrize("name", ["batch_0", "batch_1", "batch_9"])
def test_only_an_open_batch_can_be_forgotten(folder: Path, name: str) -> None:
    before = (folder / JOURNAL_FILE).read_bytes()
    code, _, said = journal(folder, "--forget", name)
    assert code == 1
    assert f"has no open batch {name}. Open are batch_2, four." in said
    assert (folder / JOURNAL_FILE).read_bytes() == before


def test_nothing_is_forgotten_while_a_process_asks(folder: Path) -> None:
    with (folder / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, said = journal(folder, "--forget", "batch_2")
        assert code == 1
        assert "a process is asking in" in said
        assert states(folder)["batch_2"] == "open", "looking needs no lock"


def test_a_line_that_is_being_written_is_passed_over(folder: Path) -> None:
    with (folder / JOURNAL_FILE).open("ab") as file:
        file.write(b'{"kind":"collected","inte')
    before = (folder / JOURNAL_FILE).read_bytes()
    assert states(folder)["batch_2"] == "open"
    assert (folder / JOURNAL_FILE).read_bytes() == before


def test_a_folder_without_a_journal_is_one_clear_line(tmp_path: Path) -> None:
    code, _, said = journal(tmp_path)
    assert code == 1
    assert "no batch was ever sent from" in said
