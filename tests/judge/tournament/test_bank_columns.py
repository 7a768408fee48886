"""Columns of the prompt bank reach the battles, and nothing that a judge is sent."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.cli.conftest import Run
from tests.judge.tournament.folder import PROMPTS, lines, make_folder, read_lines, script
from tiltyard.data.bank import Prompt, read_prompts
from tiltyard.judge.verdicts import Case, JudgeSettings, Matchup, Rubric, prompt_columns
from tiltyard.judge.verdicts.questions import make_requests

CATEGORY = {"p1": "places", "p2": "sums", "p3": "advice", "p4": "places"}
RUN = ("run", "tournament.yaml", "--mode", "headline", "--yes", "--output-dir")


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """A tournament judged by a script, whose bank says nothing more than the seed's."""
    script(tmp_path / "judge.yaml")
    make_folder(tmp_path, judge="scripted/judge.yaml")
    return tmp_path / "bank.jsonl"


def with_categories(bank: Path) -> None:
    lines(bank, [{**one, "category": CATEGORY[str(one["prompt_id"])], "level": 3} for one in PROMPTS])


def test_battles_have_the_banks_columns_and_no_question_is_asked_again_for_them(
    tmp_path: Path, tiltyard: Run, bank: Path
) -> None:
    assert tiltyard(*RUN, "before").returncode == 0
    with_categories(bank)
    done = tiltyard(*RUN, "after")
    assert "factuality: 18 cached, 0 fresh" in done.stderr
    assert "calibration: 24 cached, 0 fresh" in done.stderr
    before, after = (read_lines(tmp_path / name / "battles.jsonl") for name in ("before", "after"))
    assert after == [{**row, "category": CATEGORY[row["question_id"]], "level": 3} for row in before]
    assert {(row["question_id"], row["source"], row["prompt_source"]) for row in after} == {
        (one["prompt_id"], "llm-judge", one["source"]) for one in PROMPTS
    }
    verdicts = [read_lines(tmp_path / name / "verdicts" / "factuality.jsonl") for name in ("before", "after")]
    assert verdicts[0] == verdicts[1]  # cache keys among them


def test_a_run_folder_is_rated_and_compared_by_a_column_of_the_bank_and_judged_again_with_it(
    tmp_path: Path, tiltyard: Run, bank: Path
) -> None:
    with_categories(bank)
    assert tiltyard(*RUN, "run").returncode == 0
    boards = json.loads(tiltyard("rate", "run", "--by", "category", "--format", "json").stdout)["boards"]
    assert {name: board["n_battles"] for name, board in boards.items()} == {"advice": 3, "places": 12, "sums": 6}
    assert "places" in tiltyard("compare", "otter", "heron", "--in", "run").stdout
    script(tmp_path / "other.yaml")
    assert (
        tiltyard(
            "judge", "rejudge", "run", "--judge-model", "scripted/other.yaml", "--out", "again", "--yes"
        ).returncode
        == 0
    )
    again = read_lines(tmp_path / "again" / "battles.jsonl")
    assert all(row["category"] == CATEGORY[row["question_id"]] for row in again)
    assert all(row["level"] == 3 for row in again)


def test_what_a_judge_is_sent_does_not_depend_on_columns_of_the_bank() -> None:
    plain = Prompt(prompt_id="p", text="Why?", gold_answer="So.")
    full = msgspec.structs.replace(
        plain, source="s", subject="t", tags=("u",), language="de", columns={"category": "c", "level": 3}
    )
    rubric = Rubric("factuality", "1", "Judge.", needs_gold=True, shows_expected=True)
    matchup = Matchup(prompt_id="p", dimension="factuality", entrant_a="otter", entrant_b="heron")
    settings = JudgeSettings(model="m", max_tokens=9)
    sent = [make_requests(Case(matchup, one, "a", "b"), rubric, settings) for one in (plain, full)]
    assert sent[0] == sent[1]
    assert [request.fingerprint for request in sent[0]] == [request.fingerprint for request in sent[1]]


def test_a_column_that_means_something_else_in_battles_has_prompt_before_its_name(tmp_path: Path) -> None:
    """`user` would be taken for the voter, `pref` for another format's outcome; texts and objects are left out."""
    row = {
        "prompt_id": "p",
        "text": "Why?",
        "source": "exam",
        "tags": ["hard", "new"],
        "category": 7,
        "winner": "model_a",
        "user": "bob",
        "pref": 1.5,
        "skills": ["reading", 2],
        "checked": False,
        "level": 0,
        "remark": "x" * 201,
        "metadata": {"a": 1},
        "empty": None,
        "columns": {"depth": 2},
    }
    lines(tmp_path / "bank.jsonl", [row])
    (prompt,) = read_prompts(tmp_path / "bank.jsonl")
    assert prompt_columns(prompt) == {
        "prompt_source": "exam",
        "tags": "hard, new",
        "category": "7",
        "prompt_winner": "model_a",
        "prompt_user": "bob",
        "prompt_pref": 1.5,
        "skills": "reading, 2",
        "checked": False,
        "level": 0,
        "depth": 2,
    }
