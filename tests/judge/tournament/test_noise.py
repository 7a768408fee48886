"""A judge that says something else than it was asked for gives no verdict, however its log-probabilities look."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.fakes import FakeServer
from tests.judge.tournament.folder import change, make_folder, read_lines

RUN = ("run", "tournament.yaml", "--mode", "headline", "--output-dir", "run", "--yes")
QUERIES = 2 * (9 + 12)
NOISE = {"Sorry": 0.9999, "A": math.exp(-14), "B": math.exp(-17)}


@pytest.fixture
def config(tmp_path: Path, fake_server: FakeServer) -> Path:
    """A tournament whose local judge is asked for one word."""
    return change(
        make_folder(tmp_path, judge="local/small"),
        judge__base_url=fake_server.openai_url,
        judge__reply="label",
        judge__max_attempts=1,
    )


def dimensions(root: Path) -> dict[str, Any]:
    manifest = json.loads((root / "run" / "manifest.json").read_text(encoding="utf-8"))
    return dict(manifest["results"]["dimensions"])


def verdicts(root: Path) -> list[dict[str, Any]]:
    files = sorted((root / "run" / "verdicts").glob("*.jsonl"))
    return [verdict for path in files for row in read_lines(path) for verdict in row["raw"]]


def test_a_judge_that_only_says_sorry_yields_no_judgment(
    tmp_path: Path, tiltyard: Run, fake_server: FakeServer, config: Path
) -> None:
    fake_server.behaviour.judge = lambda system, user: "Sorry"
    fake_server.behaviour.first_token = lambda system, user: NOISE
    done = tiltyard(*RUN)
    assert done.returncode == 1
    assert "no readable verdict on any of the first 20 questions; 20 ended as unparsed" in done.stderr
    assert "this command stopped before its end; its cost so far: unknown." in done.stderr
    assert not (tmp_path / "run" / "battles.jsonl").exists()
    kept = [line for path in (tmp_path / "judgments").glob("judgments_*.jsonl") for line in read_lines(path)]
    assert len({verdict["cache_key"] for verdict in kept}) == 20
    for verdict in kept:
        assert verdict["verdict"] == "unparsed"
        assert "a probability of 0.00 together" in verdict["error"]
        assert verdict["choice_mass"] == pytest.approx(math.exp(-14) + math.exp(-17))
        assert verdict["score_a"] is None


def test_how_likely_the_words_must_be_is_a_setting_that_changes_nothing_that_is_sent(
    tmp_path: Path, tiltyard: Run, fake_server: FakeServer, config: Path
) -> None:
    fake_server.behaviour.judge = lambda system, user: "A"
    fake_server.behaviour.first_token = lambda system, user: {"A": 0.3, "B": 0.1, "Hm": 0.6}
    assert tiltyard(*RUN).returncode == 1
    strict = {one.content for one in fake_server.ledger.accepted}
    (tmp_path / "judgments").rename(tmp_path / "strict")
    change(config, judge__min_choice_mass=0.4)
    assert tiltyard(*RUN).returncode == 0
    assert [row["settled"] for row in dimensions(tmp_path).values()] == [9, 12]
    assert [verdict["choice_mass"] for verdict in verdicts(tmp_path)] == [pytest.approx(0.4)] * QUERIES
    again = {one.content for one in fake_server.ledger.accepted}
    assert strict < again
    assert len(again) == QUERIES
    keys = [
        {line["cache_key"] for line in read_lines(tmp_path / folder / "judgments_factuality.jsonl")}
        for folder in ("strict", "judgments")
    ]
    assert keys[0] <= keys[1]
    change(config, judge__min_choice_mass=1.5)
    done = tiltyard(*RUN)
    assert done.returncode == 1
    assert "min_choice_mass of the judge is 1.5; it is between 0 and 1." in done.stderr


def test_a_judge_that_thinks_aloud_is_read_behind_its_thoughts(
    tmp_path: Path, tiltyard: Run, fake_server: FakeServer, config: Path
) -> None:
    fake_server.behaviour.judge = lambda system, user: "<think>\nA or B? B.\n</think>\n\nTIE"
    fake_server.behaviour.first_token = lambda system, user: {"TIE": 0.8, "A": 0.1, "<think>": 0.1}
    assert tiltyard(*RUN).returncode == 0
    assert [row["settled"] for row in dimensions(tmp_path).values()] == [9, 12]
    found = verdicts(tmp_path)
    assert len(found) == QUERIES
    assert {verdict["verdict"] for verdict in found} == {"TIE"}
    assert [verdict["choice_mass"] for verdict in found] == [pytest.approx(0.9)] * QUERIES
