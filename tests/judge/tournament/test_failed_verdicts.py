"""A failure keeps its name: it is asked again within bounds, counted everywhere, and never becomes a tie."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeServer, Said
from tests.judge.tournament.folder import ANSWERS, change, make_folder, read_lines

RUN = ("run", "tournament.yaml", "--mode", "headline", "--output-dir", "run", "--yes")


def better(user: str) -> str:
    """The longer answer."""
    first, second = re.findall(r"\[ANSWER [AB] \w+\]\n(.*?)\n\[END", user, re.DOTALL)
    return "A" if len(first) > len(second) else "B"


def pair(user: str, *entrants: str, prompt: str) -> bool:
    """Whether a question is about these two on this prompt."""
    return all(ANSWERS[name].format(prompt) in user for name in entrants)


class Judge:
    """Fails in four ways on four pairs of calibration, in the forward order; elsewhere the longer answer wins."""

    def __init__(self, *, truncated_for_good: bool = False) -> None:
        self._truncated_for_good = truncated_for_good

    def __call__(self, system: str, user: str) -> str | Said:
        verdict = better(user)
        if "dimension: calibration" in system and verdict == "A":
            if pair(user, "otter", "heron", prompt="p1"):
                return "Hard to say. VERDICT: A or B."
            if pair(user, "otter", "heron", prompt="p2"):
                words = "Let me think. " * (5000 if self._truncated_for_good else 40)  # 140 tokens of at most 100
                return f"{words}\nVERDICT: A"
            if pair(user, "otter", "crane", prompt="p3"):
                return Said("I would rather not.", "refusal")
        return f"Compared.\nVERDICT: {verdict}"


def outcome(custom_id: str, body: dict[str, Any], accepted_before: int) -> str:
    """One question of calibration ends in an error each time."""
    system, user = body["system"][0]["text"], body["messages"][-1]["content"]
    wrong = "dimension: calibration" in system and pair(user, "heron", "crane", prompt="p4") and better(user) == "A"
    return "errored:api_error" if wrong else "succeeded"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A tournament judged by a model of Anthropic's."""
    return change(
        make_folder(tmp_path, judge="claude-sonnet-4-5"),
        judge__max_tokens=100,
        judge__poll_initial_seconds=0.01,
        judge__poll_max_seconds=0.02,
    )


def test_every_kind_of_failure_keeps_its_name_through_all_files(
    tmp_path: Path, tiltyard: Run, anthropic_server: FakeServer, config: Path
) -> None:
    anthropic_server.behaviour.judge = Judge(truncated_for_good=True)
    anthropic_server.behaviour.outcome = outcome
    done = tiltyard(*RUN)
    assert done.returncode == 0, done.stderr
    failures = {"unparsed": 1, "truncated": 1, "refused": 1, "error": 1}
    rows = {
        (row["entrant_a"], row["entrant_b"], row["prompt_id"]): row
        for row in read_lines(tmp_path / "run" / "verdicts" / "calibration.jsonl")
    }
    failed = {key: row["raw"][0]["verdict"] for key, row in rows.items() if row["status"] == "failed"}
    assert failed == {
        ("otter", "heron", "p1"): "unparsed",
        ("otter", "heron", "p2"): "truncated",
        ("otter", "crane", "p3"): "refused",
        ("heron", "crane", "p4"): "error",
    }
    for key in failed:
        row = rows[key]
        assert (row["winner"], row["inconsistent"]) == (None, False)
        assert row["raw"][1]["verdict"] == "B"  # the other order was read, and is kept
        assert row["raw"][0]["error"]
    # No battle, no cell: of twelve matches four failed, and the eight others were all decided.
    battles = [row for row in read_lines(tmp_path / "run" / "battles.jsonl") if row["dimension"] == "calibration"]
    assert len(battles) == 8
    assert {row["winner"] for row in battles} == {"model_a"}
    cells = (tmp_path / "run" / "pairwise_winrates.csv").read_text(encoding="utf-8").splitlines()
    assert cells[-3:] == [
        "calibration,crane,heron,0,3,0,0",
        "calibration,crane,otter,0,3,0,0",
        "calibration,heron,otter,0,2,0,0",
    ]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    counts = manifest["results"]["dimensions"]
    assert counts["calibration"]["failed_verdicts"] == failures
    assert (counts["calibration"]["judgments"], counts["calibration"]["settled"]) == (12, 8)
    assert counts["factuality"]["failed_verdicts"] == {}
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("calibration: 0 cached")]
    (on_stdout,) = [line for line in done.stdout.splitlines() if line.startswith("calibration: verdicts that failed")]
    for name in failures:
        assert f"1 {name}" in line
        assert f"1 {name}" in on_stdout
    usage = json.loads((tmp_path / "run" / "usage.json").read_text(encoding="utf-8"))
    assert usage["dimensions"]["calibration"]["failed"] == usage["total"]["failed"] == failures
    # Asked three times in all by the judge's own fault, three times by the provider's; once everything else.
    assert len(anthropic_server.ledger.accepted) == 42 + 2 + 2 + 2 + 2


def test_a_reply_that_was_cut_off_is_asked_for_again_with_twice_the_room(
    tmp_path: Path, tiltyard: Run, anthropic_server: FakeServer, config: Path
) -> None:
    anthropic_server.behaviour.judge = Judge()
    done = tiltyard(*RUN)
    assert done.returncode == 0, done.stderr
    rows = read_lines(tmp_path / "run" / "verdicts" / "calibration.jsonl")
    (row,) = [r for r in rows if (r["entrant_a"], r["entrant_b"], r["prompt_id"]) == ("otter", "heron", "p2")]
    assert (row["status"], row["winner"], row["raw"][0]["attempts"]) == ("ok", "otter", 2)
    budgets = [
        one.body["max_tokens"]
        for one in anthropic_server.ledger.accepted
        if pair(one.body["messages"][-1]["content"], "otter", "heron", prompt="p2")
        and "dimension: calibration" in one.body["system"][0]["text"]
    ]
    assert sorted(budgets) == [100, 100, 200]


def test_what_failed_for_good_is_not_asked_again_by_the_next_run_but_errors_are(
    tmp_path: Path, tiltyard: Run, anthropic_server: FakeServer, config: Path
) -> None:
    anthropic_server.behaviour.judge = Judge(truncated_for_good=True)
    anthropic_server.behaviour.outcome = outcome
    assert tiltyard(*RUN).returncode == 0
    asked = len(anthropic_server.ledger.accepted)
    anthropic_server.behaviour.outcome = lambda custom_id, body, before: "succeeded"
    done = tiltyard(*RUN)
    assert done.returncode == 0, done.stderr
    assert len(anthropic_server.ledger.accepted) == asked + 1  # the one that had ended in errors of the provider
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["results"]["dimensions"]["calibration"]["failed_verdicts"] == {
        "unparsed": 1,
        "truncated": 1,
        "refused": 1,
    }
    assert manifest["results"]["dimensions"]["calibration"]["settled"] == 9
