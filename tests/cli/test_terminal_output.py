"""Nothing in a file steers the terminal: names with control characters are shown, not carried out."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.forked import PATIENCE_SECONDS, PLAIN_TERMINAL
from tiltyard.cli.output import printable

HOSTILE = "gp\x1b[2Jt\r\u202e4\u2028\x9b31m\u2066\x07"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\udc80-\udcff]")
CLI = Path(__file__).parents[2] / "src" / "tiltyard" / "cli"


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    """Battles of two models, one with a name that clears the screen and turns the writing round."""
    row = {"model_a": HOSTILE, "model_b": "otter", "winner": "model_a", "source": "human", "judge_model": HOSTILE}
    rows = [row | {"question_id": f"q{n}", "winner": "model_b" if n % 3 else "model_a"} for n in range(12)]
    (tmp_path / "battles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    bad = [*rows, row | {"winner": f"not {HOSTILE}"}]
    (tmp_path / "bad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bad), encoding="utf-8")
    return "battles.jsonl"


@pytest.mark.parametrize(
    "arguments",
    [
        ("rate", "battles.jsonl"),
        ("rate", "battles.jsonl", "--by", "judge_model"),
        ("rate", "bad.jsonl"),
        ("rate", "battles.jsonl", "--format", "json"),
        ("rate", "battles.jsonl", "--where", f"model_a = '{HOSTILE}' and"),
        ("compare", HOSTILE, "otter", "--in", "battles.jsonl"),
        ("compare", "otter", "nobody", "--in", "battles.jsonl"),
        ("gate", HOSTILE, "otter", "--in", "battles.jsonl"),
        ("battles", "check", "bad.jsonl"),
        ("battles", "stats", "battles.jsonl"),
        ("rate", "battles.jsonl", "--anchor", "nobody=1000"),
        ("rate", "battles.jsonl", f"--{HOSTILE}"),
        ("schema", "battle", HOSTILE),
        ("arena", "init", f"--{HOSTILE}"),
        ("battles", "check", f"{HOSTILE}.csv"),
        (HOSTILE,),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_no_command_prints_a_control_character_of_a_name(
    tiltyard: Run, hostile: str, arguments: tuple[str, ...]
) -> None:
    done = tiltyard(*arguments)
    assert not STEERING.search(done.stdout + done.stderr)
    assert "\\u001b" in done.stdout + done.stderr or "\\x1b" in done.stdout + done.stderr


def test_json_still_holds_the_exact_name(tiltyard: Run, hostile: str) -> None:
    done = tiltyard("rate", hostile, "--format", "json")
    assert HOSTILE in {entry["model"] for entry in json.loads(done.stdout)["ratings"]}


def test_csv_keeps_the_exact_name_in_a_file_and_in_a_pipe(tiltyard: Run, hostile: str, tmp_path: Path) -> None:
    done = tiltyard("rate", hostile, "--format", "csv")
    tiltyard("rate", hostile, "--out", "board.csv")
    for text in (done.stdout, (tmp_path / "board.csv").read_bytes().decode()):
        assert HOSTILE in text


@pytest.mark.parametrize(
    "arguments", [("rate", "battles.jsonl", "--format", "csv"), ("battles", "convert", "battles.jsonl", "-")]
)
def test_on_a_terminal_not_even_csv_or_json_lines_carry_one(
    hostile: str, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "tiltyard", *arguments],
        cwd=tmp_path,
        env={**os.environ, **PLAIN_TERMINAL},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode().replace("\r\n", "\n")
    os.close(ours)
    assert done.returncode == 0
    assert "otter" in shown
    assert not STEERING.search(shown)


def test_a_message_is_one_line_though_a_name_has_several(tiltyard: Run, tmp_path: Path) -> None:
    (tmp_path / "two\nlines.csv").write_text("a,b\n1,2\n")
    done = tiltyard("rate", "two\nlines.csv")
    assert len(done.stderr.splitlines()) == 1


def test_each_problem_of_a_list_has_a_line_of_its_own_and_a_name_cannot_add_one(tiltyard: Run, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text('rubrics: {"k\\n  - fake": {}}\n')
    done = tiltyard("run", "t.yaml", "--mode", "pilot")
    first, *listed = done.stderr.splitlines()
    assert first == f"tiltyard: t.yaml: {len(listed)} settings are missing or wrong. Correct them:"
    assert "  - prompts is missing." in listed
    assert all(line.startswith("  - ") for line in listed)
    assert "  - rubrics.k\\n  - fake.path is missing." in listed


def test_a_byte_that_is_not_utf_8_is_shown_by_its_number() -> None:
    assert printable(os.fsdecode(b"w\xff.csv")) == "w\\udcff.csv"


def test_text_is_printed_as_it_is() -> None:
    text = "größer · ±3 \t 模型 \N{ROBOT FACE}\N{ZERO WIDTH JOINER}\n"
    assert printable(text) == text


def test_every_command_prints_through_one_place() -> None:
    loose = re.compile(r"typer\.echo|click\.echo|(?<![\w.])print\(|sys\.std(?:out|err)\.write\((?!printable\()")
    places = [path.name for path in CLI.glob("*.py") if loose.search(path.read_text(encoding="utf-8"))]
    assert sorted(places) == ["main.py", "output.py"]  # what main.py writes itself is known beforehand
