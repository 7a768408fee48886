"""What the system refuses (a missing folder, a full disk, a name too long) is one line as well, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.forked import PATIENCE_SECONDS

ADVICE = "Check the path, its rights and the room on its disk."
FULL = Path("/dev/full")


def only_line(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a failed command ends with."""
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("tiltyard: ")]
    return line


def test_a_chart_in_a_folder_that_is_not_there_is_one_line_after_the_table(tiltyard: Run, birds: str) -> None:
    done = tiltyard("rate", birds, "--plot", "nowhere/chart.svg")
    assert only_line(done) == f"tiltyard: cannot use nowhere/chart.svg: No such file or directory. {ADVICE}"
    assert "osprey" in done.stdout


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    ("options", "unbuffered"),
    [((), ""), ((), "1"), pytest.param(("--format", "json"), "", marks=pytest.mark.soak)],
)
def test_output_that_a_full_disk_does_not_take_is_one_line(
    options: tuple[str, ...], unbuffered: str, birds: str, tmp_path: Path
) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tiltyard", "rate", birds, *options],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    line = only_line(done)
    assert line.startswith("tiltyard: cannot use standard output")
    assert "No space left on device" in line


def test_an_export_over_a_folder_is_one_line(tiltyard: Run, tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="the arena is an extra")
    (tmp_path / "taken").mkdir()
    assert tiltyard("arena", "init", "--db", "sqlite:///arena.db").returncode == 0
    done = tiltyard("arena", "export", "--db", "sqlite:///arena.db", "--out", "taken")
    assert only_line(done).startswith("tiltyard: cannot ")
    done = tiltyard("arena", "validity", "--db", "sqlite:///arena.db", "--out", "nowhere/at/all")
    assert only_line(done).startswith("tiltyard: cannot ")


def tournament(folder: Path, *, entrant: str, responses: str) -> str:
    """A tournament of one entrant whose answers a script gives."""
    (folder / "bank.jsonl").write_text(json.dumps({"prompt_id": "p1", "text": "Why?"}) + "\n", encoding="utf-8")
    (folder / "model.yaml").write_text("rules: [{say: Because.}]", encoding="utf-8")
    (folder / "rubric.md").write_text("# Clarity\n", encoding="utf-8")
    settings = {
        "entrants": [{"entrant_id": name, "model": "scripted/model.yaml"} for name in (entrant, "heron")],
        "prompts": {"bank_path": "bank.jsonl", "pilot_size": 1},
        "caches": {"responses_dir": responses, "judgments_dir": "judgments"},
        "judge": {"pilot_model": "scripted/model.yaml", "headline_model": "scripted/model.yaml"},
        "rubrics": {"clarity": {"path": "rubric.md"}},
    }
    (folder / "tournament.yaml").write_text(json.dumps(settings), encoding="utf-8")
    return "tournament.yaml"


def test_answers_for_a_folder_that_is_a_file_are_one_line(tiltyard: Run, tmp_path: Path) -> None:
    done = tiltyard("generate", tournament(tmp_path, entrant="otter", responses="bank.jsonl"), "--yes")
    assert "bank.jsonl" in only_line(done)


def test_an_entrant_whose_name_is_too_long_for_a_file_is_one_short_line(tiltyard: Run, tmp_path: Path) -> None:
    done = tiltyard("generate", tournament(tmp_path, entrant="x" * 300, responses="responses"), "--yes")
    line = only_line(done)
    assert line.endswith(f"File name too long. {ADVICE}")
    assert len(line) < 300


def test_a_password_or_key_in_the_name_of_a_file_is_not_shown(
    tiltyard: Run, birds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    line = only_line(tiltyard("rate", birds, "--plot", "https://me:hunter2@host/sk-planted-0123456789/chart.svg"))
    assert "hunter2" not in line
    assert "planted" not in line
    assert "[hidden]@host/[hidden]/chart.svg: No such file" in line


def test_a_file_nested_too_deeply_is_one_line(tiltyard: Run, tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000, encoding="utf-8")
    assert "nested too deeply" in only_line(tiltyard("rate", "deep.json"))


def test_what_does_not_fit_into_memory_is_one_line(tmp_path: Path) -> None:
    program = (
        "from tiltyard.cli import demo, main\n"
        "def devour() -> None:\n"
        "    bytearray(2**62)\n"
        "demo.demo_command = devour\n"
        "main.main()\n"
    )
    command = [sys.executable, "-c", program, "demo"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE_SECONDS, check=False)
    assert "more memory than there is" in only_line(done)
