"""A placement as a user runs it: an arena file, a server that answers as the new model and as the judge."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, tiltyard  # noqa: F401 - the fixture is used by name
from tests.fakes import FakeServer
from tests.judge.placement.arena_files import QUALITY, WrittenArena, answer_text, quality, write_arena

EXAMPLE = Path(__file__).parents[3] / "examples" / "placement"
QUESTION = re.compile(r"question (\d+)", re.IGNORECASE)


def answer_or_judge(system: str, user: str) -> str:
    """As a judge: whoever shows the higher quality wins. As the new model: an answer of middling strength."""
    shown = re.findall(r"\[ANSWER [AB] .*?\](.*?)\[END ANSWER", user, flags=re.DOTALL)
    if len(shown) == 2:
        first, second = (float(QUALITY.findall(text)[-1]) for text in shown)
        word = "TIE" if abs(first - second) < 0.01 else "A" if first > second else "B"
        return f"One is better.\nVERDICT: {word}"
    found = QUESTION.search(user)
    number = int(found[1]) if found else 0
    return answer_text(quality(0.3, seed=99, question=number, model=99), number)


@pytest.fixture
def arena(tmp_path: Path) -> WrittenArena:
    """Twelve models, 540 votes, two languages."""
    names = [f"m{number:02d}" for number in range(12)]
    return write_arena(tmp_path / "arena.jsonl", models=names, rows=540, languages=("en", "fr"))


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        running.behaviour.judge = answer_or_judge
        yield running


def example(*options: str) -> list[str]:
    """The command of the example placement, with fewer bootstrap rounds than by default."""
    rounds = () if "--bootstraps" in options else ("--bootstraps", "30")
    return [
        *("place", "--arena", str(EXAMPLE / "arena.jsonl"), "--model", str(EXAMPLE / "responses_kestrel.jsonl")),
        *(
            "--judge",
            f"recorded/{EXAMPLE / 'verdicts.jsonl'}",
            "--min-opponent-battles",
            "50",
            "--yes",
            *rounds,
            *options,
        ),
    ]


def served(server: FakeServer, *options: str) -> list[str]:
    """A placement in which the server is both the new model and the judge."""
    return [
        *("place", "--arena", "arena.jsonl", "--model", "local/newcomer", "--judge", "local/umpire"),
        *(
            "--base-url",
            server.openai_url,
            "--min-opponent-battles",
            "50",
            "--n-battles",
            "16",
            "--bootstraps",
            "30",
            "--looks",
            "1",
            "--yes",
        ),
        *options,
    ]


def only_folder(root: Path) -> Path:
    (folder,) = (root / "placements").iterdir()
    return folder


def read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [dict(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def run_ok(run: Run, *arguments: str) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout
