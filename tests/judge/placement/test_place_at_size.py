"""The seed's example: a small model among thousands of human battles, and a folder that needs nothing else.

The file is Parquet with nested conversations of one to three turns, 55 models, and the columns that LMArena publishes.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

import tiltyard as ty
from tests import within
from tests.fakes import FakeServer
from tests.judge.placement.arena_files import answer_text, quality, write_arena, write_rows
from tests.judge.placement.conftest import answer_or_judge, read_json, read_lines
from tests.sizes import size

ROWS, OFTEN = size(900, soak=6_000), size(12, soak=100)
MODELS = [f"model-{number:02d}-chat" for number in range(55)]
STRENGTH_OF_THE_NEW = 0.3  # in logits; the others lie evenly around 0


def small_model_or_judge(system: str, user: str) -> str:
    """The judge of all these tests; as the new model, an answer to each question as good as its strength makes it."""
    if "[ANSWER A " in user:
        return answer_or_judge(system, user)
    question = int(user.removeprefix("Question ").removesuffix("?"))
    return answer_text(quality(STRENGTH_OF_THE_NEW, seed=99, question=question, model=99), question)


def write_lmarena(path: Path) -> None:
    """Five rows of one turn to each of three, with ids and further columns as LMArena has them."""
    one = write_arena(
        path.with_name("one.jsonl"), models=MODELS, rows=ROWS - ROWS // 6, languages=("English", "Russian")
    )
    three = write_arena(path.with_name("three.jsonl"), models=MODELS, rows=ROWS // 6, turns=3, seed=5)
    rows = [
        {
            **row,
            "question_id": hashlib.md5(f"row {number}".encode()).hexdigest(),
            "judge": f"arena_user_{number % 997}",
            "anony": True,
            "tstamp": 1_720_000_000.0 + 7 * number,
            "conv_metadata": {"sum_user_tokens": 12 + number % 50, "bold_count_a": {"**": number % 4}},
            "is_code": number % 9 == 0,
        }
        for number, row in enumerate([*one.rows, *three.rows])
    ]
    write_rows(path, rows)
    one.path.unlink()
    three.path.unlink()


@dataclass(frozen=True)
class Placed:
    """A run: what it printed, the folder that it left, copied away from everything else."""

    shown: str
    noted: str
    folder: Path


def tiltyard(where: Path, *arguments: str) -> CompletedProcess[str]:
    return within.run(where, *arguments)


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Placed:
    root, away = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("away")
    write_lmarena(root / "train.parquet")
    with FakeServer() as server:
        server.behaviour.judge = small_model_or_judge
        asked = ("--model", "local/small", "--judge", "local/umpire", "--base-url", server.openai_url)
        enough = f"--min-opponent-battles {OFTEN} --n-battles 100 --bootstraps 50 --seed 7 --looks 2".split()
        done = tiltyard(root, "place", "--arena", "train.parquet", *asked, *enough, "--yes")
        assert done.returncode == 0, done.stderr
        assert len(server.ledger.accepted) == 100 + 2 * 100  # an answer to each question, both orders of each battle
    (folder,) = (root / "placements").iterdir()
    shutil.copytree(folder, away / "saved")
    shutil.rmtree(root)  # the arena, the verdict cache, the answers
    return Placed(done.stdout, done.stderr, away / "saved")


def test_the_board_of_all_models_is_printed_and_saved(placed: Placed) -> None:
    assert f"texts of {2 * ROWS:,} answers to {ROWS:,} questions" in placed.noted
    assert f"55 opponents with at least {OFTEN} human battles" in placed.noted
    assert (placed.folder / "leaderboard.txt").read_text(encoding="utf-8").strip() in placed.shown
    assert all(name in placed.shown for name in [*MODELS, "local/small is rated"])
    assert re.search(r"rank \d+ \(\d+–\d+\) of 56\b", placed.shown)


def test_the_interval_holds_the_truth(placed: Placed) -> None:
    report = ty.RatingsFile.read(placed.folder / "elo_ratings.json")
    others = np.mean([entry.rating for entry in report.ratings if entry.source == "human"])
    (own,) = [entry for entry in report.ratings if entry.source == "evaluated"]
    truth = others + 400.0 / np.log(10.0) * STRENGTH_OF_THE_NEW
    assert own.ci_low is not None
    assert own.ci_high is not None
    assert own.ci_low < truth < own.ci_high
    assert own.ci_high - own.ci_low < 200


def test_every_human_battle_and_every_text_that_was_judged_is_in_the_folder(placed: Placed) -> None:
    rows = read_lines(placed.folder / "battles.jsonl")
    assert [row["source"] for row in rows] == ["llm-judge"] * 100 + ["human"] * ROWS
    assert not any("conversation_a" in row for row in rows)
    texts = read_lines(placed.folder / "texts.jsonl")
    assert len(texts) == 100
    assert all("[quality" in row["model_answer"] and "[quality" in row["opponent_answer"] for row in texts)
    manifest = read_json(placed.folder / "manifest.json")
    assert manifest["arena"]["human_battles"] == ROWS
    assert manifest["arena"]["with_text"] == 2 * ROWS


def test_the_folder_alone_rebuilds_the_board(placed: Placed) -> None:
    done = tiltyard(placed.folder.parent, "place", "--recompute", "saved")
    assert done.returncode == 0, done.stderr
    assert "agrees with itself" in done.stderr
    assert done.stdout.strip() in placed.shown


@pytest.mark.soak  # every run: …_and_tiltyard_rate_gives_its_ratings_again of test_place_command.py
def test_the_recorded_rate_command_gives_the_same_ratings(placed: Placed) -> None:
    words = shlex.split(read_json(placed.folder / "manifest.json")["rate_command"])
    assert words[:4] == ["tiltyard", "rate", "battles.jsonl", "--evaluated"]
    done = tiltyard(placed.folder, *words[1:], "--format", "json")
    assert done.returncode == 0, done.stderr
    again, saved = json.loads(done.stdout), read_json(placed.folder / "elo_ratings.json")
    assert again["ratings"] == saved["ratings"]
    assert again["battles_sha256"] == saved["battles_sha256"]


@pytest.mark.soak  # every run: test_a_rebuild_is_byte_for_byte_the_same_… of tests/reports/test_placement_report.py
def test_the_page_is_written_again_from_the_folder(placed: Placed) -> None:
    page = placed.folder / "report.html"
    before = page.read_bytes()
    page.unlink()
    done = tiltyard(placed.folder.parent, "report", "saved")
    assert done.returncode == 0, done.stderr
    assert page.read_bytes() == before
