"""`tiltyard plan` as a user runs it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ROOT, Run
from tiltyard.analysis.decisions import Assumptions, Goal, plan_difference

RUN = ROOT / "tests" / "golden" / "tournament" / "run"
PRICES = {"as_of": "2026-10-01", "models": {"house-judge": {"input": 1.0, "output": 10.0}}}


def answer(run: Run, *arguments: str) -> dict[str, Any]:
    done = run("plan", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_from_nothing_it_is_a_table_by_difference(tiltyard: Run) -> None:
    done = tiltyard("plan")
    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("a difference of 20 points (52.0 %) shows with chance 80 % on 3,")
    assert [line.split()[0] for line in lines[4:8]] == ["5", "10", "20", "50"]
    assert "assumed: 15 % ties, 15 % of verdicts flip" in done.stdout


def test_json_has_the_documented_keys(tiltyard: Run) -> None:
    found = answer(tiltyard, "--difference", "20", "--prompts", "100")
    assert set(found) == {"sentence", "goal", "assumed", "pilot", "price", "sizes", "smallest", "remarks"}
    row = found["sizes"][0]
    amounts = ("prompts", "voters", "battles", "calls", "votes")
    wanted = {"difference", "win_rate", "present", "times", "power", "power_now", "cost", "cost_batch"}
    assert set(row) == wanted | {*amounts} | {f"more_{name}" for name in amounts}
    assert row["calls"] == 2 * row["battles"] == 2 * row["prompts"]
    assert row["voters"] is None
    assert row["votes"] is None
    assert found["smallest"][0]["size"] == 100
    assert found["goal"] == {"power": 0.8, "alpha": 0.05, "one_sided": False, "margin": None, "anytime": False}


def test_every_assumption_and_goal_is_an_option(tiltyard: Run) -> None:
    assumed = ("--tie-rate", "0.3", "--flip-rate", "0.25", "--spread", "1.5", "--repeats", "2", "--models", "3")
    aims = ("--power", "0.9", "--alpha", "0.02", "--anytime", "--margin", "40", "--difference", "-10")
    found = answer(tiltyard, *assumed, *aims)
    goal = Goal(power=0.9, alpha=0.02, anytime=True, margin=40.0)
    plan = plan_difference(Assumptions(0.3, 0.25, 1.5, 2, 3), goal=goal, differences=[-10.0])
    assert found == json.loads(plan.to_json())
    voted = answer(tiltyard, "--people", "--one-sided", "--difference", "20")
    plan = plan_difference(people=True, goal=Goal(one_sided=True), differences=[20.0])
    assert voted == json.loads(plan.to_json())
    assert voted["sizes"][0]["votes"] == voted["sizes"][0]["voters"]
    assert voted["assumed"]["flips"] == 0


def test_from_a_pilot_the_new_one_first(tiltyard: Run, birds: str) -> None:
    found = answer(tiltyard, "osprey", "plover", "--in", birds, "--power", "0.9")
    assert found["assumed"] is None
    assert (found["pilot"]["new"], found["pilot"]["old"]) == ("osprey", "plover")
    assert found["pilot"]["difference"] > 0
    assert (found["pilot"]["prompts"], found["pilot"]["votes"], found["pilot"]["calls"]) == (60, 1200, None)
    assert [row["present"] for row in found["sizes"]] == [True, False, False, False, False]
    assert all(row["more_votes"] == max(0, row["votes"] - 1200) for row in found["sizes"])
    assert found["sentence"].startswith("osprey against plover is +")


def test_columns_under_other_names_are_mapped(tiltyard: Run, tmp_path: Path) -> None:
    rows = ["task,left,right,best"]
    rows += [f"t{i % 40},v2,v1,{'left' if i % 5 < 3 else 'right'}" for i in range(200)]
    (tmp_path / "votes.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    names = {"model_a": "left", "model_b": "right", "winner": "best", "prompt": "task"}
    mapped = [word for ours, theirs in names.items() for word in ("--map", f"{ours}={theirs}")]
    found = answer(tiltyard, "v2", "v1", "--in", "votes.csv", "--default-source", "human", *mapped)
    assert (found["pilot"]["prompts"], found["pilot"]["votes"]) == (40, 200)


def test_for_a_board_it_says_when_the_top_separates(tiltyard: Run, birds: str) -> None:
    found = answer(tiltyard, "--top", "3", "--in", birds)
    assert [(pair["first"], pair["second"]) for pair in found["pairs"]] == [
        ("osprey", "heron"), ("heron", "kestrel"), ("kestrel", "avocet"),
    ]  # fmt: skip
    assert found["times"] >= max(pair["times"] for pair in found["pairs"]) * 0.97
    assert found["votes"] == pytest.approx(1200 * found["times"], abs=1)
    markdown = tiltyard("plan", "--top", "3", "--in", birds, "--format", "md").stdout
    assert markdown.startswith("**the top 3 of 8 models separate")
    assert "| osprey | heron |" in markdown


def test_a_run_folder_knows_its_judge_and_the_length_of_its_calls(tiltyard: Run) -> None:
    found = answer(tiltyard, "otter", "heron", "--in", str(RUN), "--difference", "50")
    assert found["price"]["judge"] == "openai/gpt-5-mini"
    assert found["price"]["measured"] is True
    # 8,430 + 11,024 tokens in and 203 + 275 out, in 42 calls
    assert found["price"]["input_tokens"] == pytest.approx((8430 + 11024) / 42)
    assert found["price"]["output_tokens"] == pytest.approx((203 + 275) / 42)
    row = found["sizes"][0]
    assert row["cost"] == pytest.approx(row["more_calls"] * found["price"]["direct"])
    assert row["cost_batch"] == pytest.approx(row["cost"] / 2)
    longer = answer(tiltyard, "otter", "heron", "--in", str(RUN), "--difference", "50", "--reply-tokens", "500")
    assert longer["price"]["measured"] is False
    assert longer["sizes"][0]["cost"] > row["cost"]


def test_the_price_of_a_judge_is_tokens_times_its_price(tiltyard: Run, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text(json.dumps(PRICES), encoding="utf-8")
    lengths = ("--prompt-tokens", "100", "--answer-tokens", "200", "--rubric-tokens", "500", "--reply-tokens", "50")
    found = answer(tiltyard, "--difference", "50", "--judge", "house-judge", "--prices", "prices.json", *lengths)
    # 100 + 2·200 + 500 = 1,000 tokens in at $1 a million, 50 out at $10 a million: $0.0015
    assert found["price"]["direct"] == pytest.approx(0.0015)
    assert found["sizes"][0]["cost"] == pytest.approx(0.0015 * found["sizes"][0]["calls"])


def test_an_unknown_price_is_unknown_and_stops_nothing(tiltyard: Run) -> None:
    done = tiltyard("plan", "--judge", "my-own-judge")
    assert done.returncode == 0
    assert "unknown" in done.stdout
    assert "the price of my-own-judge is not known" in done.stderr


def test_it_is_written_to_a_file_by_its_ending(tiltyard: Run, tmp_path: Path) -> None:
    done = tiltyard("plan", "--out", "plan.json")
    assert done.stdout == ""
    assert json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["sizes"]
    assert tiltyard("plan", "--out", "plan.pdf").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("v2", "v1"), "needs battles: add --in FILE"),
        (("--top", "3"), "--top needs battles"),
        (("--in", "BIRDS"), "Name them, the new one first"),
        (("osprey", "--in", "BIRDS"), "Name them, the new one first"),
        (("osprey", "heron", "--top", "2", "--in", "BIRDS"), "not both"),
        (("osprey", "heron", "--in", "BIRDS", "--tie-rate", "0.2"), "--tie-rate: the battles of --in say that"),
        (("--cluster", "voter"), "--cluster: for battles"),
        (("--top", "2", "--in", "BIRDS", "--difference", "5"), "--difference: for two models"),
        (("--top", "9", "--in", "BIRDS"), "top is 9"),
        (("--reply-tokens", "5"), "name it with --judge"),
        (("osprey", "finch", "--in", "BIRDS"), "finch"),
        (("--power", "1"), "power is 1"),
        (("--margin", "30", "--one-sided"), "one-sided already"),
        (("--difference", "0"), "no sample shows"),
        (("osprey", "heron", "--in", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_what_it_cannot_do_it_says_in_one_line(
    tiltyard: Run, birds: str, arguments: tuple[str, ...], says: str
) -> None:
    done = tiltyard("plan", *(birds if word == "BIRDS" else word for word in arguments))
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


def test_a_damaged_usage_file_is_named(tiltyard: Run, tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "run")
    (tmp_path / "run" / "usage.json").write_text("[]", encoding="utf-8")
    done = tiltyard("plan", "otter", "heron", "--in", "run")
    assert done.returncode == 1
    assert "usage.json: not the usage of a run" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--people", "--judge", "gpt-5-mini"), "--judge does not go with --people"),
        (("--tie-rate", "0.999"), "at most 0.99"),
    ],
)
def test_what_does_not_go_together_or_is_out_of_range_is_said(
    tiltyard: Run, arguments: tuple[str, ...], said: str
) -> None:
    done = tiltyard("plan", *arguments)
    assert done.returncode == 1
    assert said in done.stderr
