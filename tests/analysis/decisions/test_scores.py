"""Scores in their own unit: the sentence, the gate, the plan, the board, and what is said of what is missing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tiltyard as ty
from tiltyard.analysis.decisions import POINTS
from tiltyard.analysis.decisions.score_board import score_board
from tiltyard.analysis.decisions.units import SHARES, Unit
from tiltyard.data.scores import read_scores
from tiltyard.errors import OptionError, ScoreError


def rows(**scores: Any) -> list[dict[str, Any]]:
    """A row for every score of every model, in the order of prompts; None is an answer without a score."""
    return [{"model": name, "id": n, "score": score} for name, given in scores.items() for n, score in enumerate(given)]


UP, DOWN = [1] * 23 + [0] * 5, [0] * 23 + [1] * 5
ALIKE = [1] * 133 + [0] * 39
V2, V1 = UP + ALIKE, DOWN + ALIKE  # 78 % and 69 % of 200


def test_the_sentence_is_in_percentage_points() -> None:
    found = ty.compare("v2", "v1", battles=rows(v2=V2, v1=V1))
    assert found.sentence == (
        "v2 is better than v1: 78.0 % against 69.0 %, +9.0 percentage points (3.8 to 14.2), more than 99.9 % sure; "
        "200 prompts."
    )
    assert (found.difference, found.low, found.high) == pytest.approx((0.09, 0.038054, 0.141946), abs=6e-7)
    assert (found.unit, found.n_prompts) == (SHARES, 200)
    assert found.to_dict()["unit"] == "percentage points"
    swapped = ty.compare("v1", "v2", battles=rows(v2=V2, v1=V1))
    assert swapped.sentence.startswith("v1 is worse than v2: 69.0 % against 78.0 %, −9.0 percentage points (−14.2 to")


def test_grades_have_their_own_unit_and_less_can_be_better() -> None:
    seconds = rows(v2=[1.0, 2.0, 1.5, 2.5] * 10, v1=[1.5, 2.6, 2.1, 2.9] * 10)
    found = ty.compare("v2", "v1", battles=seconds, score=["score:lower"])
    assert found.unit.name == ""
    assert "better than v1: 1.75" in found.sentence
    assert "lower is better: +0.5" in found.sentence
    assert ty.compare("v2", "v1", battles=seconds).sentence.startswith("v2 is worse than v1")


@pytest.mark.parametrize(
    ("margin", "verdict"), [("2pp", "better"), (0.02, "better"), (None, "better"), ("0.5 pp", "better")]
)
def test_a_gate_takes_percentage_points(margin: Any, verdict: str) -> None:
    assert ty.compare("v2", "v1", battles=rows(v2=V2, v1=V1)).gate(margin=margin).verdict == verdict


def test_a_gate_of_the_other_way_fails_and_junit_says_so() -> None:
    result = ty.compare("v1", "v2", battles=rows(v2=V2, v1=V1)).gate(margin="2pp")
    assert (result.verdict, result.passed, result.margin) == ("worse", False, 0.02)
    suite = ElementTree.fromstring(result.render("junit"))
    assert suite.get("failures") == "1"
    assert "−9.0 percentage points" in str(suite.find("testcase/failure").get("message"))  # type: ignore[union-attr]
    close = ty.compare("v1", "v2", battles=rows(v2=V2, v1=V1)).gate(margin="20pp")
    assert close.verdict == "not_worse"
    assert "is not worse than v2 by more than 20.0 percentage points" in close.sentence


def test_a_margin_must_be_in_the_unit() -> None:
    shares = ty.compare("v2", "v1", battles=rows(v2=V2, v1=V1))
    with pytest.raises(OptionError, match="write 2pp"):
        shares.gate(margin=2)
    grades = ty.compare("v2", "v1", battles=rows(v2=[3, 4, 5] * 9, v1=[3, 4, 4] * 9))
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
    found = ty.compare("v2", "v1", battles=data)
    assert found.n_prompts == 195
    assert "30 of 225 prompts lack a score and are left out" in found.sentence
    assert any("score of only one" in remark for remark in found.remarks)
    worst = ty.compare("v2", "v1", battles=data, missing="worst")
    assert worst.low is not None
    assert found.low is not None
    assert worst.low < found.low
    # As bad as can be, the 30 are losses: 23 up, 30 down of 225.
    case = worst.to_dict()["missing"]["worst_case"]["against"]
    assert case["difference"] == pytest.approx((23 - 30) / 225)
    assert found.gate(margin="1pp").verdict == "unknown"
    assert found.gate(margin="1pp", missing="ignore").verdict == "better"
    assert "score them, or pass --missing ignore" in found.gate(margin="1pp").sentence


def repeats(**scores: list[list[Any]]) -> list[dict[str, Any]]:
    """A row for every answer of every model: on each prompt the scores of its repeats."""
    return [
        {"model": name, "id": n, "epoch": k, "score": score}
        for name, given in scores.items()
        for n, answers in enumerate(given)
        for k, score in enumerate(answers)
    ]


def test_an_empty_answer_among_repeats_is_one_repeat_at_the_end_of_the_scale() -> None:
    # v2 has 1, 1 and nothing on each of 40 prompts, v1 1, 0, 1: without the lost ones 1 against 2/3, with them as
    # 0 2/3 against 2/3, with them as 1 1 against 2/3.
    found = ty.compare("v2", "v1", battles=repeats(v2=[[1, 1, None]] * 40, v1=[[1, 0, 1]] * 40), missing="worst")
    cases = found.to_dict()["missing"]["worst_case"]
    assert found.difference == pytest.approx(1 / 3)
    assert cases["against"]["difference"] == pytest.approx(0.0)
    assert cases["in_favour"]["difference"] == pytest.approx(1 / 3)
    assert "40 of 240 answers lack a score" in found.sentence
    assert found.gate(margin="2pp").verdict == "unknown"
    assert found.gate(margin="2pp", missing="ignore").verdict == "better"
    # Of the old one they are as good as can be: 1/2 and 1 against 3/4.
    other = ty.compare("v2", "v1", battles=repeats(v2=[[1, 1, 0, 1]] * 40, v1=[[1, 0, None, None]] * 40))
    cases = other.to_dict()["missing"]["worst_case"]
    assert (cases["against"]["difference"], cases["in_favour"]["difference"]) == pytest.approx((0.0, 0.5))


@pytest.mark.parametrize("named", [True, False])
def test_losses_without_a_score_do_not_make_a_model_better(named: bool) -> None:
    rng, passed, ignored = np.random.default_rng(2), 0, 0
    for _ in range(15):
        ease = np.repeat(rng.beta(2, 2, 60), 3)
        scores = {name: [int(score) for score in rng.random(180) < ease] for name in ("v2", "v1")}
        scores["v2"] = [None if not score and rng.random() < 0.5 else score for score in scores["v2"]]  # type: ignore[misc]
        data = [
            {"model": name, "score": score, **({"id": n // 3} if named else {})}
            for name, given in scores.items()
            for n, score in enumerate(given)
        ]
        found = ty.compare("v2", "v1", battles=data)
        passed += found.gate(margin="2pp").passed
        ignored += found.gate(margin="2pp", missing="ignore").passed
    assert passed <= 3, "one in twenty may pass by chance"
    assert ignored >= 10, "without the rule most do"


def test_answers_without_prompts_count_their_empty_ones_by_side_and_at_worst() -> None:
    data = [{"model": "v2", "score": score} for score in [1] * 40 + [0] * 10 + [None] * 10]
    data += [{"model": "v1", "score": score} for score in [1] * 36 + [0] * 24]
    found = ty.compare("v2", "v1", battles=data)
    assert "10 of 120 answers lack a score and are left out" in found.sentence
    assert "(v2 10)" in str(found)
    cases = found.to_dict()["missing"]["worst_case"]  # 40 of 50 against 60 %, at worst 40 of 60, at best 50 of 60
    assert cases["against"]["difference"] == pytest.approx(40 / 60 - 0.6)
    assert cases["in_favour"]["difference"] == pytest.approx(50 / 60 - 0.6)
    assert f"{100 * (40 / 60 - 0.6):+.1f} percentage points" in str(found)
    assert found.gate(margin="5pp", missing="ignore").passed
    assert not found.gate(margin="5pp").passed
    for option in ({"by": ["topic"]}, {"cluster": "topic"}):
        with pytest.raises(OptionError, match="is about prompts, and no column names them"):
            ty.compare("v2", "v1", battles=[row | {"topic": "x"} for row in data], **option)


def test_a_skipped_cell_that_is_no_score_counts_as_an_empty_one() -> None:
    data = rows(v2=[1] * 20 + ["error"] * 10, v1=[1] * 20 + [0] * 10)
    found = ty.compare("v2", "v1", battles=data, on_bad="skip")
    assert found.left_out == {"not a score": 10}
    assert found.to_dict()["missing"]["by_model"] == {"v2": 10, "v1": 0}
    among = ty.compare("v2", "v1", battles=repeats(v2=[[1, "error"]] * 30, v1=[[1, 0]] * 30), on_bad="skip")
    assert among.to_dict()["missing"]["worst_case"]["against"]["difference"] == pytest.approx(0.0)


def test_without_bounds_a_missing_score_leaves_a_gate_without_an_answer() -> None:
    grades = rows(v2=[3, 4, 5, None] * 20, v1=[1, 2, 3, 2] * 20)
    result = ty.compare("v2", "v1", battles=grades).gate(margin=0.5)
    assert result.verdict == "unknown"
    assert "20 of 80 prompts lack a score (v2 20)" in result.sentence
    assert "the bounds of scores are not known" in result.sentence
    assert "--bounds LOW,HIGH" in result.sentence
    # With bounds 1 to 5 the twenty are 1 against 2: 60·2 − 20·1 = 100 over 80.
    stated = ty.compare("v2", "v1", battles=grades, bounds=(1, 5))
    assert stated.to_dict()["missing"]["worst_case"]["against"]["difference"] == pytest.approx(1.25)
    assert stated.gate(margin=0.5).verdict == "better"
    # Judged scores carry their scale.
    for scale, verdict in (("1-5", "better"), ("1.2.3-5", "unknown"), ("5-1", "unknown"), ("2-5", "unknown")):
        scaled = [row | {"scale": scale} for row in grades]
        assert ty.compare("v2", "v1", battles=scaled).gate(margin=0.5).verdict == verdict


def test_a_prompt_without_an_answer_of_the_new_one_is_missing_even_if_it_has_no_row() -> None:
    data = rows(v2=[1] * 20, v1=[0] * 15 + [1] * 5 + [1] * 10)  # ten prompts that only v1 answered
    found = ty.compare("v2", "v1", battles=data)
    assert "10 of 30 prompts lack a score" in found.sentence
    assert found.gate(margin="2pp", missing="ignore").verdict == "better"
    assert found.gate(margin="2pp").verdict == "unknown"
    empty = ty.compare("v2", "v1", battles=rows(v2=[1] * 20 + [None] * 10, v1=[0] * 15 + [1] * 5 + [None] * 10))
    assert empty.to_dict()["missing"]["by_model"] == {"v2": 10, "v1": 10}
    assert empty.to_dict()["missing"]["worst_case"]["against"]["difference"] == pytest.approx((15 - 10) / 30)
    assert "10 of 30 prompts lack a score" in empty.sentence


def test_below_ten_prompts_nothing_is_told_and_it_is_said_how_many_more_it_takes() -> None:
    few = ty.compare("v2", "v1", battles=rows(v2=[1] * 9, v1=[0] * 9))
    assert few.low is not None
    assert few.low > 0, "the interval stays"
    assert few.sentence.startswith("cannot tell v2 from v1: it takes 10 prompts, 1 more than there are")
    assert few.gate().verdict == "unknown"
    assert "1 more than there are" in few.gate().sentence
    assert few.to_dict()["obstacles"]
    assert ty.compare("v2", "v1", battles=rows(v2=[1] * 10, v1=[0] * 10)).gate().verdict == "better"
    # One page of 82 prompts and eleven of one: 93² / (82² + 11) = 1.3 of one size.
    pages = [row | {"page": max(0, row["id"] - 81)} for row in rows(v2=[1] * 93, v1=[0] * 93)]
    found = ty.compare("v2", "v1", battles=pages, cluster="page")
    assert "it takes 10 clusters by page, 9 more than there are, which are worth 1.3 of one size" in found.sentence
    assert found.gate().verdict == "unknown"
    # A category of nine prompts fails no gate, one of ten does.
    for size, verdict in ((9, "unknown"), (10, "worse")):
        data = rows(v2=[0] * size + [1] * 90, v1=[1] * size + [0] * 90)
        data = [row | {"category": "rare" if row["id"] < size else "usual"} for row in data]
        parts = ty.compare("v2", "v1", battles=data).gate(by="category").parts
        assert [part.verdict for part in parts] == [verdict, "better"]


SECONDS = np.random.default_rng(8)
TAILED = np.exp(SECONDS.normal(0.0, 1.2, 60)), np.exp(SECONDS.normal(0.0, 0.2, 60))
"""Seconds with a long tail, and without."""


def test_scores_without_bounds_take_thirty_prompts() -> None:
    rng = np.random.default_rng(4)
    old = rng.normal(10, 1, 30)
    for n, verdict in ((29, "unknown"), (30, "better")):
        found = ty.compare("v2", "v1", battles=rows(v2=old[:n] + 2 + rng.normal(0, 1, n), v1=old[:n]))
        assert found.gate(margin=1).verdict == verdict
    few = ty.compare("v2", "v1", battles=rows(v2=old[:20] + 2.5, v1=old[:20]))
    assert "it takes 30 prompts where scores have no bounds, 10 more than there are" in few.sentence
    assert ty.compare("v2", "v1", battles=rows(v2=old[:20] + 2.5, v1=old[:20]), bounds=(0, 20)).gate(margin=1).passed


def test_a_long_tail_of_the_new_one_lets_no_gate_say_that_it_is_no_slower() -> None:
    slow, fast = TAILED
    found = ty.compare("v2", "v1", battles=rows(v2=slow / 2, v1=fast), score=["score:lower"])
    result = found.gate(margin=2)
    assert result.bound is not None
    assert result.bound > -2, "the interval alone would let it pass"
    assert result.verdict == "unknown"
    assert "may not have shown all of a long tail (skewness" in result.sentence
    assert result.to_dict()["doubt"] in result.sentence
    # The same tail makes nothing easier for the claim that it is slower, which holds where it is not believed to pass.
    assert (
        ty.compare("v2", "v1", battles=rows(v2=slow + 3, v1=fast), score=["score:lower"]).gate(margin=5).verdict
        == "worse"
    )
    # Where more is better, it is `worse` that the tail eases: the few best were perhaps not seen.
    turned = ty.compare("v2", "v1", battles=rows(v2=slow, v1=fast + 5))
    assert turned.sentence.startswith("cannot tell v2 from v1: scores have no bounds")
    assert turned.gate(margin=0.1).verdict == "unknown"


def test_whole_values_of_a_scale_and_percentages_have_bounds() -> None:
    (grades,) = read_scores(rows(a=list(range(11)), b=[5] * 11))
    assert (grades.bounded, grades.bounds) == (True, None)
    for more in (list(range(12)), [0, 25] * 6, [1, 2, 3, 40] * 3):
        (wide,) = read_scores(rows(a=more, b=[5] * 12))
        assert not wide.bounded
    (halves,) = read_scores(rows(a=[1.5, 2.0], b=[1.0, 2.5]))
    assert not halves.bounded
    rounded = [{"latency_s": row.pop("score"), **row} for row in rows(a=[1, 2, 3], b=[2, 2, 4])]
    assert not read_scores(rounded)[0].bounded, "a long answer may always take longer"
    percent = [{"model": name, "id": n, "percent_right": 51.5 + n} for name in "ab" for n in range(20)]
    (table,) = read_scores(percent)
    assert table.bounds == (0.0, 100.0)
    percent[3]["percent_right"] = 140.0
    assert read_scores(percent)[0].bounds is None


def test_the_typical_ratio_stands_beside_scores_without_bounds() -> None:
    fast = TAILED[1]
    found = ty.compare("v2", "v1", battles=rows(v2=1.8 * fast, v1=fast))
    assert "typically 1.8 × that of v1 (geometric mean, 1.68 to 1.93)" in found.sentence
    assert found.to_dict()["ratio"]["value"] == pytest.approx(1.8)
    assert "typically" not in ty.compare("v2", "v1", battles=rows(v2=V2, v1=V1)).sentence
    assert ty.compare("v2", "v1", battles=rows(v2=fast - 2, v1=fast)).to_dict()["ratio"] is None, "some are below 0"
    without = [{"model": name, "score": score} for name, some in (("v2", TAILED[0]), ("v1", fast)) for score in some]
    ratio = ty.compare("v2", "v1", battles=without).to_dict()["ratio"]
    assert ratio["value"] == pytest.approx(np.exp(np.log(TAILED[0]).mean() - np.log(fast).mean()))


def test_on_a_logarithmic_scale_margins_are_ratios() -> None:
    slow, fast = TAILED
    data = rows(v2=1.05 * fast, v1=fast * np.exp(SECONDS.normal(0, 0.02, 60)))
    found = ty.compare("v2", "v1", battles=data, score=["score:lower"], scale="log")
    value = found.to_dict()
    assert value["ratio"]["value"] == pytest.approx(1.05, abs=0.02)
    assert value["difference"] == pytest.approx(-np.log(value["ratio"]["value"]))
    assert value["new_mean"] == pytest.approx(np.exp(np.log(1.05 * fast).mean()))
    assert "1.050 × (1.0" in found.sentence
    assert found.gate(margin="1.1x").verdict == "not_worse"
    judged = found.gate(margin="1.1x")
    assert "by more than 1.100 ×" in judged.sentence
    bound = float(re.search(r"one-sided 95 % below ([\d.]+) ×", judged.sentence)[1])  # type: ignore[index]
    assert value["ratio"]["value"] < bound < 1.1
    assert found.gate(margin="1.01x").verdict == "worse"
    for margin in (0.1, "10%", "0.9x", "x", "infx"):
        with pytest.raises(OptionError, match="on a logarithmic scale it is a ratio, 1x or more"):
            found.gate(margin=margin)
    with pytest.raises(OptionError, match="by how much may the new one be worse"):
        found.gate()
    with pytest.raises(OptionError, match="goes down to 0, and"):
        ty.compare("v2", "v1", battles=rows(v2=V2, v1=V1), scale="log")
    with pytest.raises(OptionError, match="scale is 'ratio'"):
        ty.compare("v2", "v1", battles=data, scale="ratio")
    board = score_board(read_scores(rows(v2=slow, v1=fast), scale="log")[0])
    assert f"{np.exp(np.log(slow).mean()):.4g}" in str(board)
    (table,) = read_scores(data, scale="log")
    plan = ty.plan("v2", "v1", battles=table, differences=["1.1x"])
    assert plan.rows[0].difference == pytest.approx(np.log(1.1))
    assert plan.sentence.startswith("to see 1.100 × takes about 30 prompts")


def test_compare_is_its_own_mirror_whatever_the_order_of_rows() -> None:
    rng = np.random.default_rng(3)
    for named in (True, False) * 4:
        n = int(rng.integers(10, 40))
        data = [
            {"model": name, "epoch": k, "page": i % 7, "score": None if rng.random() < 0.05 else score}
            | ({"id": i} if named else {})
            for name in ("v2", "v1")
            for i in range(n)
            for k, score in enumerate(rng.integers(1, 6, 2).tolist())
        ]
        shuffled = [data[i] for i in rng.permutation(len(data))]
        (table,), (other_order,) = (read_scores(some, bounds=(1, 5), columns=["page"]) for some in (data, shuffled))
        for cluster in (None, "page") if named else (None,):
            for anytime in (False, True):
                more: dict[str, Any] = {"missing": "worst", "anytime": anytime, "cluster": cluster}
                one, other = (ty.compare(*pair, battles=table, **more) for pair in (("v2", "v1"), ("v1", "v2")))
                ends = (None if end is None else -end for end in (other.difference, other.high, other.low))
                assert (one.difference, one.low, one.high) == tuple(ends)
                mirrored = None if other.probability_better is None else 1 - other.probability_better
                assert one.probability_better == (None if mirrored is None else pytest.approx(mirrored, abs=1e-15))
                assert ty.compare("v2", "v1", battles=other_order, **more).to_json() == one.to_json()


def test_a_plan_never_ends_below_what_a_gate_takes_and_knows_the_error_at_the_margin() -> None:
    (shares,) = read_scores(rows(v2=[1] * 50, v1=[0] * 50))
    assert ty.plan("v2", "v1", battles=shares, differences=["100pp"]).rows[0].prompts == 10
    (alike,) = read_scores(rows(v2=[1] * 99 + [0], v1=[1] * 99 + [1]))
    # They differ on 1 % of prompts, but at a margin of 10 points scores vary by .1 · .9 at least: n ≥ .09 (z/.1)².
    needed = ty.plan("v2", "v1", battles=alike, margin="10pp").rows[0].prompts
    assert needed is not None
    assert needed > 0.09 * (1.645 / 0.1) ** 2
    gaps = [row | {"page": None if row["id"] == 3 else row["id"]} for row in rows(v2=V2, v1=V1)]
    (table,) = read_scores(gaps, columns=["page"])
    with pytest.raises(ScoreError, match="1 prompts have no page"):
        ty.plan("v2", "v1", battles=table, cluster="page")


def test_one_common_prompt_gives_no_interval_and_none_is_an_error() -> None:
    one = ty.compare("v2", "v1", battles=rows(v2=[1, None, 1], v1=[0, 1, None]))
    assert "(no interval); 1 prompt" in one.sentence
    assert one.gate(margin="50pp").verdict == "unknown"
    with pytest.raises(ScoreError, match="no prompt has a score of both"):
        ty.compare("v2", "v1", battles=rows(v2=[1, None], v1=[None, 1]))


def test_without_prompts_answers_are_compared_as_if_to_different_prompts() -> None:
    data = [
        {"model": name, "score": int(n < right)}
        for name, right, of in (("v2", 44, 55), ("v1", 40, 60))
        for n in range(of)
    ]
    found = ty.compare("v2", "v1", battles=data)
    assert (found.low, found.high) == pytest.approx((-0.032473, 0.299140), abs=6e-7)
    assert found.n_prompts is None
    assert "different prompts" in found.remarks[0]


def test_clusters_and_categories() -> None:
    data = rows(v2=V2, v1=V1)
    for row in data:
        row |= {"page": row["id"] // 10, "category": "law" if row["id"] % 2 else "math"}
    plain, clustered = ty.compare("v2", "v1", battles=data), ty.compare("v2", "v1", battles=data, cluster="page")
    assert clustered.difference == pytest.approx(plain.difference)
    assert clustered.interval["clusters"] == [{"column": "page"}]
    assert clustered.low != plain.low
    assert [(part.column, part.value) for part in plain.parts] == [("category", "law"), ("category", "math")]
    assert "law" in str(plain)
    assert plain.gate(margin="2pp", by="category").parts[0].value == "law"


def test_two_units_are_refused_unless_the_bounds_are_stated() -> None:
    data = rows(v2=[70.0, 80.0, 90.0], v1=[0.7, 0.8, 0.9])
    with pytest.raises(ScoreError, match="not one unit"):
        ty.compare("v2", "v1", battles=data)
    assert ty.compare("v2", "v1", battles=data, bounds=(0, 100)).difference > 70


def test_scores_that_are_all_alike_need_bounds() -> None:
    data = rows(v2=[3] * 30, v1=[3] * 30)
    assert ty.compare("v2", "v1", battles=data).low is None
    assert ty.compare("v2", "v1", battles=data, bounds=(1, 5)).low == pytest.approx(-0.37, abs=0.05)


def test_options_of_battles_are_refused() -> None:
    with pytest.raises(OptionError, match="is about battles"):
        ty.compare("v2", "v1", battles=rows(v2=V2, v1=V1), ties="half")


def test_anytime_is_wider() -> None:
    found = ty.compare("v2", "v1", battles=rows(v2=V2, v1=V1), anytime=True)
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


def test_a_plan_of_scores_without_prompts_says_which_column_it_lacks() -> None:
    rows = [{"model": model, "score": i % 3} for i in range(40) for model in ("v2", "v1")]
    with pytest.raises(ScoreError) as refused:
        ty.plan("v2", "v1", battles=rows)
    assert "map" in str(refused.value)


def test_a_plan_from_scores_counts_prompts() -> None:
    (table,) = read_scores(rows(v2=V2, v1=V1))
    plan = ty.plan("v2", "v1", battles=table, differences=["9pp", "2pp"])
    assert plan.rows[0].prompts is not None
    assert 120 <= plan.rows[0].prompts <= 150  # ψ .14 lies between .1 (105) and .2 (193)
    assert plan.rows[1].prompts is not None
    assert plan.rows[1].prompts > 10 * plan.rows[0].prompts
    assert plan.sentence.startswith("to see +9.0 percentage points takes about")
    passing = ty.plan("v2", "v1", battles=table, margin="5pp")
    assert passing.rows[0].difference == 0.0
    assert "pass a margin of 5.0 percentage points" in passing.sentence
    with pytest.raises(OptionError, match="one look"):
        ty.plan("v2", "v1", battles=table, anytime=True)


def test_repeats_are_said_and_what_they_are_worth() -> None:
    rng = np.random.default_rng(0)
    ease = rng.random(60)
    data = [
        {"model": name, "id": n, "epoch": k, "correct": bool(rng.random() < ease[n])}
        for name in ("v2", "v1")
        for n in range(60)
        for k in range(3)
    ]
    found = ty.compare("v2", "v1", battles=data)
    assert found.sentence.endswith("60 prompts × 3 repeats.")
    assert any("temperature, seed" in remark for remark in found.remarks)


def test_files_with_a_page_and_markdown(tmp_path: Path) -> None:
    from tiltyard.reports import score_page

    found = ty.compare("v2", "v1", battles=rows(v2=V2, v1=V1))
    assert "78.0 % against 69.0 %" in score_page([found])
    assert found.render("md").startswith("**v2 is better than v1")
    assert "prompts where v2 lost most to v1" in found.render("md").lower()


def test_a_unit_writes_a_real_minus_and_no_negative_zero() -> None:
    assert SHARES.signed(-0.042) == "−4.2"
    assert SHARES.signed(-0.0001) == "0.0"
    assert Unit("", 1.0, 2).between(-0.5, None) == "−0.50 or more"
    assert POINTS.signed(36.6) == "+37"


def test_a_gate_asks_which_way_is_better_where_a_name_only_suggests_it() -> None:
    grades = rows(v2=[1.0, 2.0, 1.5, 2.6] * 10, v1=[1.5, 2.6, 2.1, 2.9] * 10)
    seconds = [{"latency_s": row.pop("score"), **row} for row in grades]
    found = ty.compare("v2", "v1", battles=seconds)
    assert "v2 is better than v1" in found.sentence
    assert any("lower is better, as the name latency_s suggests" in remark for remark in found.remarks)
    assert found.to_dict()["direction"] == "name"
    with pytest.raises(OptionError, match=r"score=\['latency_s:lower'\]"):
        found.gate(margin=0.1)
    quality = ty.compare(
        "v2", "v1", battles=[{"faithful": row["latency_s"], **row} for row in seconds], score=["faithful"]
    )
    assert quality.gate(margin=0.1).verdict == "worse"
    both = [{"faithful": row["latency_s"], **row} for row in seconds]
    with pytest.raises(OptionError, match=r"score=\['faithful', 'latency_s:lower'\]"):
        ty.gate("v2", "v1", battles=both, score=["faithful", "latency_s"], margin=0.1)
    said = ty.compare("v2", "v1", battles=seconds, score=["latency_s:lower"])
    assert said.gate(margin=0.1).verdict == "better"
    assert not any("suggests" in remark for remark in said.remarks)
    (table,) = read_scores(seconds)
    assert "as the name latency_s suggests" in score_board(table).notes[-1]
    assert score_board(table).entries[0].model == "v2"
    plan = ty.plan("v2", "v1", battles=table, margin=0.1)
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
            ty.compare("v2", "v1", battles=rows(v2=V2, v1=V1), **{name: value})
    with pytest.raises(OptionError, match="names the metric"):
        ty.compare("v2", "v1", battles=rows(v2=V2, v1=V1), dimension="score")
