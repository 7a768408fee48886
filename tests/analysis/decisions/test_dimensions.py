"""Several dimensions or metrics: a gate judges each, and an answer that pools them says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from decision_rows import battle
from lost_verdicts import run_folder
from msgspec import UNSET

import tiltyard as ty
from tiltyard.analysis.decisions import plan_from_battles
from tiltyard.analysis.decisions.gate import all_together
from tiltyard.errors import OptionError


def judged(dimension: str | None, wins: int, of: int = 150, **more: Any) -> list[dict[str, Any]]:
    """Battles of v2 against v1, one on each prompt, of which v2 wins so many; sides alternate."""
    about = more if dimension is None else {"dimension": dimension, **more}
    rows = []
    for i in range(of):
        new_first, won = i % 2 == 0, i < wins
        pair = ("v2", "v1") if new_first else ("v1", "v2")
        rows.append(battle(*pair, "model_a" if won == new_first else "model_b", f"q{i}", **about))
    return rows


STYLE = judged("style", 123)
"""82 % won: +263 points."""
SAFETY = judged("safety", 54)
"""36 % won: −100 points."""


def test_a_dimension_that_is_worse_fails_however_good_the_others_are() -> None:
    found = ty.compare("v2", "v1", battles=[*STYLE, *SAFETY])
    assert found.low > 0.0  # 177 of 300 won
    result = found.gate()
    assert (result.verdict, result.passed) == ("worse", False)
    assert {part.value: part.verdict for part in result.parts} == {"safety": "worse", "style": "better"}
    assert result.sentence.startswith("fail: v2 is worse than v1 in safety (−100 points, −167 to −33); 300 battles")
    assert (result.low, result.high, result.bound) == (None, None, None)  # nothing is said of both together
    assert found.gate(pool_dimensions=True).verdict == "better"
    assert ty.compare("v2", "v1", battles=[*STYLE, *SAFETY], dimension="style").gate().verdict == "better"


def test_each_dimension_is_judged_at_its_share_of_the_error_rate() -> None:
    alone = ty.compare("v2", "v1", battles=SAFETY, level=0.975)
    result = ty.compare("v2", "v1", battles=[*STYLE, *SAFETY]).gate()
    assert result.level == pytest.approx(0.975)
    part = result.dimensions[0]
    assert (part.low, part.high) == pytest.approx((alone.low, alone.high))
    rows = [{**row, "category": "ab"[i % 3 == 0]} for i, row in enumerate([*STYLE, *SAFETY])]
    by = ty.compare("v2", "v1", battles=rows).gate(by="category")
    assert by.level == pytest.approx(1 - 0.05 / 4)  # two dimensions and two categories, and no whole
    assert "because α is shared among 4 verdicts" in by.render()


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (["better", "better"], "better"),
        (["better", "not_worse"], "not_worse"),
        (["better", "unknown"], "unknown"),
        (["unknown", "worse", "better"], "worse"),
    ],
)
def test_all_must_pass(parts: list[Any], whole: str) -> None:
    assert all_together(parts) == whole


def test_an_unknown_dimension_lets_nothing_pass_and_is_named() -> None:
    result = ty.compare("v2", "v1", battles=[*STYLE, *judged("tone", 20, 40)]).gate()
    assert result.verdict == "unknown"
    assert "cannot tell whether v2 is worse than v1 by more than 30 points in tone (0 points, " in result.sentence
    good = ty.compare("v2", "v1", battles=[*STYLE, *judged("tone", 120)]).gate()
    assert good.sentence.startswith("pass: v2 is better than v1 in each of 2 dimensions: style (+263 points, ") or (
        good.sentence.startswith("pass: v2 is better than v1 in each of 2 dimensions: tone (+241 points, ")
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (judged(None, 54), "in an unnamed dimension (−100 points"),  # beside rows that name one
        ([battle("v1", "base", "model_a", f"q{i}", dimension="safety") for i in range(40)], "safety"),
        (judged("safety", 1, 3), "these 3 prompts cannot stand for others"),
    ],
)
def test_no_dimension_hides_behind_the_others(more: list[dict[str, Any]], why: str) -> None:
    """Unnamed rows, a dimension in which only the old one fought, one on three prompts: none is pooled in silence."""
    field = [battle("base", "v1", ("model_a", "model_b")[i % 2], f"q{i}", dimension="style") for i in range(60)]
    result = ty.compare("v2", "v1", battles=[*STYLE, *field, *more]).gate()
    assert not result.passed
    assert why in result.sentence


def test_more_dimensions_than_categories_may_have_are_still_judged_one_by_one() -> None:
    rows = [row for i in range(41) for row in judged(f"d{i:02}", 4 if i == 7 else 60, 64)]
    found = ty.compare("v2", "v1", battles=rows)
    assert found.low > 0.0
    assert [part.value for part in found.gate().parts if part.verdict == "worse"] == ["d07"]


def test_rows_that_do_not_count_make_no_dimension() -> None:
    """Weightless rows, another decider's, and battles of others."""
    others = [battle("base", "v1x", "model_a", f"q{i}", dimension="safety") for i in range(9)]
    join = [battle("base", "v1", ("model_a", "model_b")[i % 2], f"q{i}", dimension="style") for i in range(40)]
    back = [battle("v1x", "base", "model_a", f"q{i}", dimension="safety") for i in range(9)]
    assert ty.compare("v2", "v1", battles=[*STYLE, *join, *others, *back]).dimensions == ()
    weightless = [{**row, "weight": 0} for row in SAFETY]
    assert ty.compare("v2", "v1", battles=[*STYLE, *weightless]).gate().verdict == "better"
    assert ty.rate([*STYLE, *weightless]).settings.dimensions is UNSET
    people = [{**row, "source": "human"} for row in SAFETY]
    assert ty.rate([*STYLE, *people], source="llm-judge").settings.dimensions is UNSET
    assert ty.rate([*STYLE, *people]).settings.dimensions == ["safety", "style"]
    assert ty.compare("v2", "v1", battles=[*STYLE, *people], source="llm-judge").gate().verdict == "better"


def test_who_pools_dimensions_says_so(tmp_path: Path) -> None:
    rows = [*STYLE, *SAFETY]
    found = ty.compare("v2", "v1", battles=rows)
    assert found.dimensions == ("safety", "style")
    assert found.to_dict()["dimensions"] == ["safety", "style"]
    assert "+63 points (22 to 105), 99.8 % sure, but worse in safety (−100 points, −167 to −33); " in found.sentence
    assert "300 battles on 150 prompts in 2 pooled dimensions" in found.sentence
    pooled = "2 dimensions are pooled: safety, style"
    for method in ("bt", "elo", "winrate"):
        assert pooled in ty.rate(rows, method=method).remarks
    assert pooled in plan_from_battles(rows, "v2", "v1").remarks
    assert pooled not in ty.rate(rows, dimension="style").remarks
    assert pooled not in ty.rate(STYLE).remarks
    assert ty.compare("v2", "v1", battles=STYLE).dimensions == ()
    path = tmp_path / "battles.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert pooled in ty.rate(path, cluster="none", misfit=False).remarks  # counted while it is read
    assert "but" not in ty.compare("v2", "v1", battles=[*STYLE, *judged("tone", 80)]).sentence


def test_a_dimension_without_any_verdict_lets_nothing_pass(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", [(f"p{i}", "v2", "v1", "v2" if i % 4 else "v1") for i in range(200)])
    assert ty.compare("v2", "v1", battles=run).gate().passed
    run_folder(run, [(f"p{i}", "v2", "v1", None) for i in range(3)], dimension="safety")
    result = ty.compare("v2", "v1", battles=run).gate()
    assert result.verdict == "unknown"
    assert "safety" in result.sentence


def test_scores_of_the_same_run_that_say_worse_stand_against_a_verdict_on_its_battles(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", [(f"p{i}", "v2", "v1", "v2" if i % 4 else "v1") for i in range(120)])
    assert ty.compare("v2", "v1", battles=run).gate().verdict == "better"
    rows = [
        {"model": model, "question_id": f"p{i}", "metric": metric, "score": score + i % 2, "source": "llm-judge"}
        for metric, both in (("accuracy", (3, 8)), ("clarity", (5, 5)))
        for model, score in zip(("v2", "v1"), both, strict=True)
        for i in range(120)
    ]
    (run / "scores.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    result = ty.compare("v2", "v1", battles=run).gate()
    assert result.verdict == "unknown"
    assert "cannot tell: v2 is worse by accuracy in scores.jsonl, 3.5" in result.sentence
    assert ty.compare("v1", "v2", battles=run).obstacles == ()


def test_scores_of_two_runs_that_say_worse_stand_against_a_verdict_on_their_battles(tmp_path: Path) -> None:
    runs = []
    for name, won, score in (("now", 4, 3), ("then", 2, 8)):
        judged_pairs = [(f"p{i}", "v", "base", "v" if i % won else "base") for i in range(120)]
        runs.append(run_folder(tmp_path / name, judged_pairs))
        rows = [
            {"model": model, "question_id": f"p{i}", "metric": "accuracy", "score": n + i % 2, "source": "llm-judge"}
            for model, n in (("v", score), ("base", 5))
            for i in range(120)
        ]
        (runs[-1] / "scores.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = ty.compare(*runs, unchanged=["base"])
    assert found["v"].gate().verdict == "unknown"
    assert "worse by accuracy in scores.jsonl, 3.5" in found["v"].sentence
    assert ty.compare(*runs[::-1], unchanged=["base"])["v"].gate().verdict == "worse"
    (runs[1] / "scores.jsonl").unlink()
    assert ty.compare(*runs, unchanged=["base"])["v"].gate().verdict == "better"


def two_runs(then: dict[str, int], now: dict[str, int], n: int = 120) -> ty.RunComparison:
    """Two runs, in which v wins so many of n battles against base by dimension."""

    def run(wins: dict[str, int]) -> list[dict[str, Any]]:
        rows = [row for name, won in wins.items() for row in judged(name, won, n)]
        return [
            {**row, **{side: {"v2": "v", "v1": "base"}[row[side]] for side in ("model_a", "model_b")}} for row in rows
        ]

    return ty.compare(run(now), run(then), unchanged=["base"])


def test_two_runs_are_judged_by_dimension_too() -> None:
    runs = two_runs({"style": 40, "safety": 80}, {"style": 100, "safety": 40})
    result = runs["v"].gate()
    assert {part.value: part.verdict for part in result.parts} == {"safety": "worse", "style": "better"}
    assert result.verdict == "worse"
    assert "but worse in safety" in runs.sentence or "but better in style" in runs.sentence
    assert "in 2 pooled dimensions" in runs["v"].sentence


def test_a_dimension_that_one_run_lacks_lets_nothing_pass() -> None:
    runs = two_runs({"style": 40, "safety": 80}, {"style": 100})
    assert "only in the old run, and left out: safety" in runs.notes
    assert runs["v"].gate().verdict == "unknown"
    assert runs["v"].difference == pytest.approx(two_runs({"style": 40}, {"style": 100})["v"].difference)
    with pytest.raises(OptionError, match="share no dimension"):
        two_runs({"safety": 80}, {"style": 100})


def scored(share: dict[str, tuple[int, int]], n: int = 200) -> list[dict[str, Any]]:
    """So many of n answers of v2, and of v1, are right by each metric."""
    return [
        {"model": model, "id": f"q{i}", "metric": metric, "score": int((i * 77) % n < right)}
        for metric, both in share.items()
        for model, right in zip(("v2", "v1"), both, strict=True)
        for i in range(n)
    ]


def judge(rows: list[dict[str, Any]], **rule: Any) -> Any:
    return ty.gate("v2", "v1", battles=rows, **rule)


def test_metrics_of_scores_are_judged_one_by_one_and_never_pooled() -> None:
    answers = scored({"style": (180, 130), "safety": (100, 140)})
    result = judge(answers)
    assert {name: one.verdict for name, one in result.metrics.items()} == {"style": "better", "safety": "worse"}
    assert result.verdict == "worse"
    assert result.sentence.startswith("fail: v2 is worse than v1: safety 50.0 % against 70.0 %, −20.0 percentage")
    assert result.metrics["safety"].level == pytest.approx(0.975)
    assert json.loads(result.to_json())["metrics"]["safety"]["verdict"] == "worse"
    suite = ElementTree.fromstring(result.render("junit"))
    assert [case.get("name") for case in suite] == ["gate", "metric style", "metric safety"]
    assert suite.get("failures") == "2"
    for text in (result.render(), result.render("md")):
        assert "pass: v2 is better than v1" in text
        assert "fail: v2 is worse than v1" in text
    with pytest.raises(OptionError, match="never pooled"):
        judge(answers, pool_dimensions=True)
    found = ty.compare("v2", "v1", battles=answers)
    assert [one["metric"] for one in found.to_dict()["metrics"]] == list(found.metrics) == ["style", "safety"]


def test_a_margin_that_does_not_suit_a_metric_names_it() -> None:
    rows = scored({"right": (180, 130)}) + [
        {"model": model, "id": f"q{i}", "metric": "grade", "score": 3 + (i + len(model)) % 5}
        for model in ("v2", "v1")
        for i in range(90)
    ]
    with pytest.raises(OptionError, match=r"^grade: .*margin.*score=.grade"):
        judge(rows)


def test_scores_by_dimension_are_metrics_and_no_repeats() -> None:
    rows = [{**row, "dimension": row["metric"]} for row in scored({"style": (180, 130), "safety": (100, 140)})]
    for row in rows:
        del row["metric"]
    assert judge(rows).verdict == "worse"


def test_boards_of_several_dimensions_pass_no_gate(tmp_path: Path) -> None:
    for name, style in (("new", 130), ("old", 60)):
        rows = [*judged("style", style), *judged("safety", 75)]
        ty.rate(rows).to_json(tmp_path / f"{name}.json")
    runs = ty.compare(*(tmp_path / f"{name}.json" for name in ("new", "old")))
    result = runs["v2"].gate()
    assert result.difference.low > 0.0
    assert result.verdict == "unknown"
    assert "cannot tell: 2 dimensions are pooled, and each must pass" in result.sentence
    assert runs["v2"].gate(pool_dimensions=True).verdict == "better"


def test_scores_by_category_keep_their_means() -> None:
    rows = [{**row, "category": "ab"[int(row["id"][1:]) % 2]} for row in scored({"right": (180, 130)})]
    found = ty.compare(
        "v2", "v1", battles=[{name: value for name, value in row.items() if name != "metric"} for row in rows]
    )
    assert all(part.means is not None and part.obstacles == () for part in found.parts)
    assert {part.value: part.verdict for part in found.gate(by="category").parts} == {"a": "better", "b": "better"}


def test_a_column_that_may_be_the_dimension_is_named() -> None:
    rows = [{"aspect" if name == "dimension" else name: value for name, value in row.items()} for row in STYLE + SAFETY]
    (note,) = [one for one in ty.compare("v2", "v1", battles=rows).remarks if "aspect" in one]
    assert note.endswith('map={"dimension": "aspect"}')
    mapped = ty.compare("v2", "v1", battles=rows, map={"dimension": "aspect"})
    assert (mapped.gate().verdict, [one for one in mapped.remarks if "aspect" in one]) == ("worse", [])
