"""The match list and what it leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.judge.tournament.folder import make_folder
from tiltyard.errors import ConfigError
from tiltyard.judge.tournament import load_setup, make_plan
from tiltyard.judge.tournament.artifacts import manifest
from tiltyard.options import RunOptions


def test_every_pair_meets_on_every_prompt_in_config_order_and_gold_is_needed_for_factuality(tmp_path: Path) -> None:
    plan = make_plan(load_setup(make_folder(tmp_path)), RunOptions(mode="headline"))
    met = {
        dimension: [(case.matchup.entrant_a, case.matchup.entrant_b, case.matchup.prompt_id) for case in cases]
        for dimension, cases in plan.matches.by_dimension.items()
    }
    assert list(met) == ["factuality", "calibration"]
    assert len(met["calibration"]) == 3 * 4
    assert len(met["factuality"]) == 3 * 3
    assert met["calibration"][:5] == [
        ("otter", "heron", "p1"),
        ("otter", "heron", "p2"),
        ("otter", "heron", "p3"),
        ("otter", "heron", "p4"),
        ("otter", "crane", "p1"),
    ]
    assert plan.matches.without_gold == {"factuality": 1}
    assert any("factuality: 9 pairs, 18 judge queries" in line for line in plan.announcements())


def test_a_prompt_that_somebody_did_not_answer_is_dropped_and_counted(tmp_path: Path) -> None:
    config = make_folder(tmp_path)
    path = tmp_path / "responses" / "responses_crane.jsonl"
    kept = [line for line in path.read_text(encoding="utf-8").splitlines() if json.loads(line)["prompt_id"] != "p2"]
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    plan = make_plan(load_setup(config), RunOptions(mode="headline"))
    assert plan.matches.dropped_prompts == ("p2",)
    assert (plan.matches.cells_present, plan.matches.cells_expected) == (11, 12)
    assert len(plan.matches.by_dimension["calibration"]) == 9
    assert any("dropped 1 prompts" in line and "crane lacks 1" in line for line in plan.announcements())


def test_a_missing_response_file_is_named_first_and_the_run_goes_on_without_the_entrant(tmp_path: Path) -> None:
    config = make_folder(tmp_path, note="A note.")
    responses = tmp_path / "responses"
    (responses / "responses_heron.jsonl").unlink()
    plan = make_plan(load_setup(config), RunOptions(mode="headline"))
    assert (plan.setup.entrant_ids, plan.left_out) == (("otter", "crane"), ("heron",))
    first = plan.announcements()[0]
    assert first.startswith(f"WARNING: no answers of heron (there is no {responses / 'responses_heron.jsonl'}); ")
    assert f"`tiltyard generate {config}`" in first
    assert len(plan.matches.by_dimension["calibration"]) == 4
    assert (plan.matches.cells_present, plan.matches.cells_expected) == (8, 12)
    assert "answers: 8 of 12 (entrant, prompt) cells" in plan.announcements()
    written = manifest(plan, started_at="", finished_at=None)
    assert written["cells"] == {"present": 8, "expected": 12}
    assert (written["entrants"], written["entrants_without_answers"]) == (["otter", "crane"], ["heron"])
    assert set(written["sha256"]["responses"]) == {"otter", "crane"}


@pytest.mark.parametrize("content", ["", "\n  \n"])
def test_a_response_file_without_an_answer_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    config = make_folder(tmp_path)
    (tmp_path / "responses" / "responses_heron.jsonl").write_text(content, encoding="utf-8")
    plan = make_plan(load_setup(config), RunOptions(mode="headline"))
    assert plan.left_out == ("heron",)
    assert "responses_heron.jsonl is empty" in plan.announcements()[0]


def test_fewer_than_two_entrants_with_answers_are_an_error_that_names_the_command(tmp_path: Path) -> None:
    config = make_folder(tmp_path)
    for name in ("heron", "crane"):
        (tmp_path / "responses" / f"responses_{name}.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"no answers of heron .*, crane .*: only otter has answers.*generate"):
        make_plan(load_setup(config), RunOptions(mode="headline"))


def test_bank_rubrics_answers_and_judge_that_are_wrong_are_said_at_once(tmp_path: Path) -> None:
    config = make_folder(tmp_path, judge="hal-9000")
    (tmp_path / "bank.jsonl").write_text("{\n", encoding="utf-8")
    (tmp_path / "factuality.md").write_text("# version: 1\n", encoding="utf-8")
    for name in ("heron", "crane"):
        (tmp_path / "responses" / f"responses_{name}.jsonl").unlink()
    with pytest.raises(ConfigError, match="4 things are missing or wrong") as caught:
        make_plan(load_setup(config), RunOptions(mode="pilot"))
    for words in ("bank.jsonl:1: not JSON", "the rubric has no text", "no answers of heron", "'hal-9000'"):
        assert words in str(caught.value)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 7, 9, 11, 12, 100])
def test_limit_pairs_takes_prompt_by_prompt_all_pairs_of_each_in_the_order_of_all(tmp_path: Path, limit: int) -> None:
    """So that a diagnostic of a few pairs meets every entrant."""
    setup = load_setup(make_folder(tmp_path))
    whole = make_plan(setup, RunOptions(mode="headline")).matches.by_dimension
    limited = make_plan(setup, RunOptions(mode="headline", limit_pairs=limit)).matches.by_dimension
    for dimension, cases in whole.items():
        prompts = list(dict.fromkeys(case.matchup.prompt_id for case in cases))
        by_prompt = sorted(cases, key=lambda case: prompts.index(case.matchup.prompt_id))[:limit]  # a stable sort
        kept = [case for case in cases if case in by_prompt]
        assert list(limited[dimension]) == kept
        assert len(kept) == min(limit, len(cases))


def test_a_pilot_takes_its_subset_and_its_judge(tmp_path: Path) -> None:
    config = make_folder(tmp_path, prompts={"bank_path": "bank.jsonl", "pilot_size": 2, "pilot_seed": 1})
    plan = make_plan(load_setup(config), RunOptions(mode="pilot", judge_model="gpt-x", n_perms=9))
    assert len(plan.selected) == 2
    assert len(plan.bank) == 4
    assert plan.judge_model == "gpt-x"
    assert plan.elo.n_perms == 9
    assert not plan.prewarm
