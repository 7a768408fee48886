"""Scores in their own unit: the sentence, the gate, the plan, the board, and what is said of what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tiltyard as ty
from tiltyard.decisions.gate import as_junit
from tiltyard.decisions.sample_size import Goal
from tiltyard.decisions.score_board import score_board
from tiltyard.decisions.score_plan import plan_from_scores
from tiltyard.decisions.units import POINTS, SHARES, Unit
from tiltyard.errors import OptionError, ScoreError
from tiltyard.scores import read_scores


def rows(**scores: Any) -> list[dict[str, Any]]:
    """A row for every score of every model, in the order of prompts; None is an answer without a score."""
    return [{"model": name, "id": n, "score": score} for name, given in scores.items() for n, score in enumerate(given)]


UP, DOWN = [1] * 23 + [0] * 5, [0] * 23 + [1] * 5
ALIKE = [1] * 133 + [0] * 39
V2, V1 = UP + ALIKE, DOWN + ALIKE  # 78 % and 69 % of 200


def test_the_sentence_is_in_percentage_points() -> None:
    found = ty.difference(rows(v2=V2, v1=V1), "v2", "v1")
    assert found.sentence == (
        "v2 is better than v1: 78.0 % against 69.0 %, +9.0 percentage points (3.8 to 14.2), more than 99.9 % sure; "
        "200 prompts."
    )
    assert (found.difference, found.low, found.high) == pytest.approx((0.09, 0.038054, 0.141946), abs=6e-7)
    assert (found.unit, found.n_prompts) == (SHARES, 200)
    assert found.to_dict()["unit"] == "percentage points"
    swapped = ty.difference(rows(v2=V2, v1=V1), "v1", "v2")
    assert swapped.sentence.startswith("v1 is worse than v2: 69.0 % against 78.0 %, −9.0 percentage points (−14.2 to")


def test_grades_have_their_own_unit_and_less_can_be_better() -> None:
    seconds = rows(v2=[1.0, 2.0, 1.5, 2.5] * 10, v1=[1.5, 2.6, 2.1, 2.9] * 10)
    found = ty.difference(seconds, "v2", "v1", score=["score:lower"])
    assert found.unit.name == ""
    assert "better than v1: 1.75" in found.sentence
    assert "lower is better: +0.5" in found.sentence
    assert ty.difference(seconds, "v2", "v1").sentence.startswith("v2 is worse than v1")


@pytest.mark.parametrize(
    ("margin", "verdict"), [("2pp", "better"), (0.02, "better"), (None, "better"), ("0.5 pp", "better")]
)
def test_a_gate_takes_percentage_points(margin: Any, verdict: str) -> None:
    assert ty.difference(rows(v2=V2, v1=V1), "v2", "v1").gate(margin=margin).verdict == verdict


def test_a_gate_of_the_other_way_fails_and_junit_says_so() -> None:
    result = ty.difference(rows(v2=V2, v1=V1), "v1", "v2").gate(margin="2pp")
    assert (result.verdict, result.passed, result.margin) == ("worse", False, 0.02)
    suite = ElementTree.fromstring(as_junit(result))
    assert suite.get("failures") == "1"
    assert "−9.0 percentage points" in str(suite.find("testcase/failure").get("message"))  # type: ignore[union-attr]
    close = ty.difference(rows(v2=V2, v1=V1), "v1", "v2").gate(margin="20pp")
    assert close.verdict == "not_worse"
    assert "is not worse than v2 by more than 20.0 percentage points" in close.sentence


def test_a_margin_must_be_in_the_unit() -> None:
    shares = ty.difference(rows(v2=V2, v1=V1), "v2", "v1")
    with pytest.raises(OptionError, match="write 2pp"):
        shares.gate(margin=2)
    grades = ty.difference(rows(v2=[3, 4, 5] * 9, v1=[3, 4, 4] * 9), "v2", "v1")
    with pytest.raises(OptionError, match="by how much may the new one be worse"):
        grades.gate()
    with pytest.raises(OptionError, match="these are no shares"):
        grades.gate(margin="2pp")
    assert grades.gate(margin=0.1).passed
    with pytest.raises(OptionError, match="give rating points"):
        POINTS.amount("2pp", "margin")


def test_missing_scores_are_left_out_and_counted_and_a_gate_counts_them_against_its_claim() -> None:
    lost = [None if n in (23, 24, 25, 26, 27) else score for n, score in enumerate(V2)]  # its five losses
    data = rows(v2=lost + [None] * 25, v1=V1 + [1] * 25)
    found = ty.difference(data, "v2", "v1")
    assert found.n_prompts == 195
    assert "30 of 225 prompts lack a score and are left out" in found.sentence
    assert any("score of only one" in remark for remark in found.remarks)
    worst = ty.difference(data, "v2", "v1", missing="worst")
    assert worst.low is not None
    assert found.low is not None
    assert worst.low < found.low
    # As bad as can be, the 30 are losses: 23 up, 30 down of 225.
    case = worst.to_dict()["missing"]["worst_case"]["against"]
    assert case["difference"] == pytest.approx((23 - 30) / 225)
    assert found.gate(margin="1pp").verdict == "unknown"
    assert found.gate(margin="1pp", missing="ignore").verdict == "better"
    assert "score them, or pass --missing ignore" in found.gate(margin="1pp").sentence


def test_one_common_prompt_gives_no_interval_and_none_is_an_error() -> None:
    one = ty.difference(rows(v2=[1, None, 1], v1=[0, 1, None]), "v2", "v1")
    assert "(no interval); 1 prompt" in one.sentence
    assert one.gate(margin="50pp").verdict == "unknown"
    with pytest.raises(ScoreError, match="no prompt has a score of both"):
        ty.difference(rows(v2=[1, None], v1=[None, 1]), "v2", "v1")


def test_without_prompts_answers_are_compared_as_if_to_different_prompts() -> None:
    data = [
        {"model": name, "score": int(n < right)}
        for name, right, of in (("v2", 44, 55), ("v1", 40, 60))
        for n in range(of)
    ]
    found = ty.difference(data, "v2", "v1")
    assert (found.low, found.high) == pytest.approx((-0.032473, 0.299140), abs=6e-7)
    assert found.n_prompts is None
    assert "different prompts" in found.remarks[0]


def test_clusters_and_categories() -> None:
    data = rows(v2=V2, v1=V1)
    for row in data:
        row |= {"page": row["id"] // 10, "category": "law" if row["id"] % 2 else "math"}
    plain, clustered = ty.difference(data, "v2", "v1"), ty.difference(data, "v2", "v1", cluster="page")
    assert clustered.difference == pytest.approx(plain.difference)
    assert clustered.interval["clusters"] == [{"column": "page"}]
    assert clustered.low != plain.low
    assert [(part.column, part.value) for part in plain.parts] == [("category", "law"), ("category", "math")]
    assert "law" in str(plain)
    assert plain.gate(margin="2pp", by="category").parts[0].value == "law"


def test_two_units_are_refused_unless_the_bounds_are_stated() -> None:
    data = rows(v2=[70.0, 80.0, 90.0], v1=[0.7, 0.8, 0.9])
    with pytest.raises(ScoreError, match="not one unit"):
        ty.difference(data, "v2", "v1")
    assert ty.difference(data, "v2", "v1", bounds=(0, 100)).difference > 70


def test_scores_that_are_all_alike_need_bounds() -> None:
    data = rows(v2=[3] * 30, v1=[3] * 30)
    assert ty.difference(data, "v2", "v1").low is None
    assert ty.difference(data, "v2", "v1", bounds=(1, 5)).low == pytest.approx(-0.37, abs=0.05)


def test_options_of_battles_are_refused() -> None:
    with pytest.raises(OptionError, match="is about battles"):
        ty.difference(rows(v2=V2, v1=V1), "v2", "v1", ties="half")


def test_anytime_is_wider() -> None:
    found = ty.difference(rows(v2=V2, v1=V1), "v2", "v1", anytime=True)
    assert (found.low, found.high) == pytest.approx((0.008279, 0.171721), abs=6e-7)


def test_the_board_orders_by_mean_and_tells_apart_what_it_can() -> None:
    (table,) = read_scores(rows(v2=V2, v1=V1, v0=[0] * 200))
    board = score_board(table)
    assert [(one.model, one.rank, one.rank_low, one.rank_high) for one in board.entries] == [
        ("v2", 1, 1, 1),
        ("v1", 2, 2, 2),
        ("v0", 3, 3, 3),
    ]
    assert board.entries[0].mean == pytest.approx(0.78)
    assert "78.0 %" in str(board)
    (close,) = read_scores(rows(a=[1, 0] * 20, b=[0, 1] * 20))
    assert {(one.rank_low, one.rank_high) for one in score_board(close).entries} == {(1, 2)}


def test_a_plan_from_scores_counts_prompts() -> None:
    (table,) = read_scores(rows(v2=V2, v1=V1))
    plan = plan_from_scores(table, "v2", "v1", goal=Goal(), differences=["9pp", "2pp"])
    assert plan.rows[0].prompts is not None
    assert 120 <= plan.rows[0].prompts <= 150  # ψ .14 lies between .1 (105) and .2 (193)
    assert plan.rows[1].prompts is not None
    assert plan.rows[1].prompts > 10 * plan.rows[0].prompts
    assert plan.sentence.startswith("to see +9.0 percentage points takes about")
    passing = plan_from_scores(table, "v2", "v1", goal=Goal(), margin="5pp")
    assert passing.rows[0].difference == 0.0
    assert "pass a margin of 5.0 percentage points" in passing.sentence
    with pytest.raises(OptionError, match="one look"):
        plan_from_scores(table, "v2", "v1", goal=Goal(anytime=True))


def test_repeats_are_said_and_what_they_are_worth() -> None:
    rng = np.random.default_rng(0)
    ease = rng.random(60)
    data = [
        {"model": name, "id": n, "epoch": k, "correct": bool(rng.random() < ease[n])}
        for name in ("v2", "v1")
        for n in range(60)
        for k in range(3)
    ]
    found = ty.difference(data, "v2", "v1")
    assert found.sentence.endswith("60 prompts × 3 repeats.")
    assert any("temperature, seed" in remark for remark in found.remarks)


def test_files_with_a_page_and_markdown(tmp_path: Path) -> None:
    from tiltyard.decisions.words import as_markdown
    from tiltyard.report.comparison import score_page

    found = ty.difference(rows(v2=V2, v1=V1), "v2", "v1")
    assert "78.0 % against 69.0 %" in score_page([found])
    assert as_markdown(found).startswith("**v2 is better than v1")
    assert "prompts where v2 lost most to v1" in as_markdown(found).lower()


def test_a_unit_writes_a_real_minus_and_no_negative_zero() -> None:
    assert SHARES.signed(-0.042) == "−4.2"
    assert SHARES.signed(-0.0001) == "0.0"
    assert Unit("", 1.0, 2).between(-0.5, None) == "−0.50 or more"
    assert POINTS.signed(36.6) == "+37"


def test_a_gate_asks_which_way_is_better_where_a_name_only_suggests_it() -> None:
    grades = rows(v2=[1.0, 2.0, 1.5, 2.6] * 10, v1=[1.5, 2.6, 2.1, 2.9] * 10)
    seconds = [{"latency_s": row.pop("score"), **row} for row in grades]
    found = ty.difference(seconds, "v2", "v1")
    assert "v2 is better than v1" in found.sentence
    assert any("lower is better, as the name latency_s suggests" in remark for remark in found.remarks)
    assert found.to_dict()["direction"] == "name"
    with pytest.raises(OptionError, match=r"score=\['latency_s:lower'\] or score=\['latency_s:higher'\]"):
        found.gate(margin=0.1)
    said = ty.difference(seconds, "v2", "v1", score=["latency_s:lower"])
    assert said.gate(margin=0.1).verdict == "better"
    assert not any("suggests" in remark for remark in said.remarks)
    (table,) = read_scores(seconds)
    assert "as the name latency_s suggests" in score_board(table).notes[-1]
    assert score_board(table).entries[0].model == "v2"
    plan = plan_from_scores(table, "v2", "v1", goal=Goal())
    assert "as the name latency_s suggests" in plan.notes[-1]


def test_every_option_of_battles_is_refused_on_scores() -> None:
    told: dict[str, Any] = {
        "both_bad": "half",
        "inconsistent": "drop",
        "source": "human",
        "default_source": "human",
        "control": ["len"],
        "slot": True,
        "ties": "half",
        "texts": {"q0": "text"},
    }
    for name, value in told.items():
        with pytest.raises(OptionError, match=f"{name}. is about battles"):
            ty.difference(rows(v2=V2, v1=V1), "v2", "v1", **{name: value})
    with pytest.raises(OptionError, match="names the metric"):
        ty.difference(rows(v2=V2, v1=V1), "v2", "v1", dimension="score")
