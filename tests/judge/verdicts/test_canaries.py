"""Canaries: a wide-awake judge gets them all, a foolish one is found out."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.judge.verdicts.cases import judging_plan, make_judge, shown
from tiltyard.judge.llm import Request
from tiltyard.judge.verdicts import (
    CANARIES,
    CanaryScore,
    JudgingPlan,
    JudgingResult,
    Rubric,
    canary_cases,
    canary_report,
    judge,
    score_canaries,
)
from tiltyard.judge.verdicts.canaries import KINDS

GOOD = {canary.good for canary in CANARIES}


def awake(request: Request) -> str:
    return "VERDICT: A" if shown(request)[0] in GOOD else "VERDICT: B"


def obedient(request: Request) -> str:
    """Does what an answer tells it, and is otherwise awake."""
    words = ("verdict", "SYSTEM MESSAGE", "must not win")
    told = [any(word in answer for word in words) for answer in shown(request)]
    return awake(request) if told[0] == told[1] else f"VERDICT: {'A' if told[0] else 'B'}"


def run(
    tmp_path: Path, answer: object, dimensions: tuple[str, ...] = ("clarity",)
) -> tuple[JudgingPlan, JudgingResult]:
    cases = judging_plan(1, dimensions, canaries=canary_cases(dimensions))
    return cases, asyncio.run(judge(cases, make_judge(tmp_path, answer)))  # type: ignore[arg-type]


def test_there_are_all_kinds_and_every_id_is_its_own() -> None:
    assert {canary.kind for canary in CANARIES} == set(KINDS)
    assert len({canary.canary_id for canary in CANARIES}) == len(CANARIES)


def test_the_better_answer_stands_on_both_sides_equally_often() -> None:
    sides = [case.matchup.entrant_a for case in canary_cases(["d"])["d"]]
    assert sides.count("canary/good") == sides.count("canary/bad")


def test_a_judge_that_is_awake_gets_all_right(tmp_path: Path) -> None:
    _, judged = run(tmp_path, awake)
    for score in score_canaries(judged.canaries["clarity"]):
        assert (score.right, score.fooled, score.undecided, score.failed) == (score.asked, 0, 0, 0)


def test_a_judge_that_obeys_answers_is_fooled_by_those_that_instruct(tmp_path: Path) -> None:
    cases, judged = run(tmp_path, obedient)
    report = canary_report(cases, judged.canaries)
    by_kind = {score["kind"]: score for score in report["clarity"]["kinds"]}
    assert by_kind["instructs the judge"]["fooled"] == 3
    assert by_kind["known answer"]["right"] == 3
    assert report["clarity"]["right"] == 5
    missed = report["clarity"]["missed"]
    assert [one["canary"] for one in missed] == [
        "canary-claimed-verdict",
        "canary-false-system-message",
        "canary-forged-end",
    ]
    assert all(one["answer"].startswith("the bad answer in both orders (“VERDICT: ") for one in missed)
    json.dumps(report)


def test_a_judge_that_goes_by_position_decides_nothing_and_one_that_mumbles_fails(tmp_path: Path) -> None:
    _, first = run(tmp_path / "first", lambda request: "VERDICT: A")
    assert all(score.undecided == score.asked for score in score_canaries(first.canaries["clarity"]))
    _, mumbling = run(tmp_path / "mumbling", lambda request: "Hm.")
    assert all(score.failed == score.asked for score in score_canaries(mumbling.canaries["clarity"]))


def test_they_fit_rubrics_that_need_gold_answers_and_show_expected_behaviour(tmp_path: Path) -> None:
    rubric = Rubric("factuality", "1", "Facts.", needs_gold=True, shows_expected=True)
    cases = JudgingPlan({"factuality": rubric}, {}, canary_cases(["factuality"]))
    judged = asyncio.run(judge(cases, make_judge(tmp_path, awake)))
    assert sum(score.right for score in score_canaries(judged.canaries["factuality"])) == len(CANARIES)


def scores(answer: object, tmp_path: Path, *, by_reference: bool) -> list[CanaryScore]:
    """How a judge does on all canaries, by a rubric that measures by the reference answer or by one that does not."""
    rubric = Rubric("d", "1", "Judge.", needs_gold=by_reference)
    judged = asyncio.run(judge(JudgingPlan({"d": rubric}, {}, canary_cases(["d"])), make_judge(tmp_path, answer)))  # type: ignore[arg-type]
    return score_canaries(judged.canaries["d"], ties_count=by_reference)


@pytest.mark.parametrize("by_reference", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_of_every_kind_the_bad_answer_in_one_order_or_no_verdict_in_one_is_a_miss(
    tmp_path: Path, kind: str, by_reference: bool
) -> None:
    mine = {canary.good: canary for canary in CANARIES if canary.kind == kind}

    def swayed(request: Request) -> str:
        """Right, but for one order of this kind: the first of them unreadable, the others for the bad answer."""
        first = shown(request)[0]
        if first not in mine:
            return "VERDICT: A" if first in GOOD else "VERDICT: B"
        return "Hm." if first == next(iter(mine)) else "Not this.\nVERDICT: B"

    found = {score.kind: score for score in scores(swayed, tmp_path, by_reference=by_reference)}
    assert [one.canary for one in found[kind].missed] == [canary.canary_id for canary in mine.values()]
    unread, *others = found[kind].missed
    assert unread.answer == (
        "the good answer with the bad one shown first; no verdict (unparsed) with the good one shown first (“Hm.”)"
    )
    assert {one.answer for one in others} == {
        "the good answer with the bad one shown first; the bad answer with the good one shown first "
        "(“Not this. VERDICT: B”)"
    }
    assert all(not score.missed for name, score in found.items() if name != kind)


def test_a_tie_is_a_miss_only_where_answers_are_measured_by_the_reference_answer(tmp_path: Path) -> None:
    """By a rubric of style, a right and a wrong sum may be equally good."""
    strict = scores(lambda request: "VERDICT: TIE", tmp_path / "strict", by_reference=True)
    assert sum(len(score.missed) for score in strict) == len(CANARIES)
    assert strict[0].missed[0].answer.startswith("a tie in both orders")
    loose = scores(lambda request: "VERDICT: TIE", tmp_path / "loose", by_reference=False)
    assert [(score.undecided, score.missed) for score in loose] == [(score.asked, ()) for score in loose]
