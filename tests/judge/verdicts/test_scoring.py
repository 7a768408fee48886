"""One answer, one score: what a judge is asked, and which replies are scores."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.judge.verdicts.cases import RUBRIC, case, make_judge
from tiltyard.data.bank import Prompt
from tiltyard.errors import JudgingError, OptionError
from tiltyard.judge.llm import AskingParts, PriceTable, Reply, Request, Stop
from tiltyard.judge.llm.provider import ToolCall
from tiltyard.judge.verdicts import (
    SCALES,
    Case,
    JudgeSettings,
    JudgingPlan,
    PanelJudge,
    RecordedJudge,
    Rubric,
    Scoring,
    VerdictLabel,
    canary_report,
    judge,
    make_scoring,
    scores_of,
    single_canaries,
)
from tiltyard.judge.verdicts.plan import single_answers
from tiltyard.judge.verdicts.questions import make_request
from tiltyard.judge.verdicts.scoring import ONE, read_scores_of

TEN, FIVE, SHARE, PASS = (Scoring(SCALES[name]) for name in ("1-10", "1-5", "0-1", "pass-fail"))
TWO = make_scoring("1-10", {"accuracy": 0.75, "clarity": 0.25})
NAME = scores_of("clarity")


@pytest.mark.parametrize(
    ("scoring", "text", "score"),
    [
        (TEN, "It is right.\nSCORE: 7", 7.0),
        (TEN, "It is right.\n**Score: 10**\n\n", 10.0),
        (TEN, "SCORE: 8/10.", 8.0),
        (TEN, "SCORE: 7.0", 7.0),
        (TEN, "SCORE: 11", None),
        (TEN, "SCORE: 11/10", None),
        (TEN, "SCORE: 0", None),
        (TEN, "SCORE: -3", None),
        (TEN, "SCORE: 7.5", None),
        (TEN, "SCORE: 7/5", None),
        (TEN, "SCORE: 7 or 8", None),
        (TEN, "SCORE: N/A", None),
        (TEN, "SCORE: nan", None),
        (TEN, "SCORE: ٧", None),
        (TEN, "SCORE:", None),
        (TEN, "7", None),
        (TEN, "SCORE: 7\nBut it may be 3.", None),
        (TEN, "", None),
        (FIVE, "SCORE: 5", 5.0),
        (FIVE, "SCORE: 6", None),
        (SHARE, "SCORE: 0.85", 0.85),
        (SHARE, "SCORE: 1.01", None),
        (SHARE, "SCORE: 85%", None),
        (PASS, "SCORE: pass", 1.0),
        (PASS, "SCORE: FAIL", 0.0),
        (PASS, "SCORE: 1", None),
        (PASS, "SCORE: PASSED", None),
    ],
)
def test_a_score_line_is_on_the_scale_or_no_score(scoring: Scoring, text: str, score: float | None) -> None:
    parsed = read_scores_of(Reply(text=text), scoring)
    assert parsed.scores == (None if score is None else {ONE: score})
    assert parsed.label is (VerdictLabel.UNPARSED if score is None else VerdictLabel.SCORED)
    assert (parsed.why is None) == (score is not None)


def test_every_criterion_has_its_line_in_order() -> None:
    good = "Right but muddled.\nSCORE accuracy: 9\nSCORE clarity: 3"
    assert read_scores_of(Reply(text=good), TWO).scores == {"accuracy": 9.0, "clarity": 3.0}
    for bad in (
        "SCORE accuracy: 9",
        "SCORE clarity: 3\nSCORE accuracy: 9",
        "SCORE accuracy: 9\nSCORE clarity: n/a",
        "SCORE: 9\nSCORE clarity: 3",
    ):
        assert read_scores_of(Reply(text=bad), TWO).label is VerdictLabel.UNPARSED
    assert TWO.values("quality", {"accuracy": 9.0, "clarity": 3.0}) == {
        "quality": 0.75 * 9 + 0.25 * 3,
        "quality.accuracy": 9.0,
        "quality.clarity": 3.0,
    }


def test_criteria_without_weights_are_never_averaged() -> None:
    listed = make_scoring("1-10", ["accuracy", "clarity"])
    assert listed.metrics("quality") == ("quality.accuracy", "quality.clarity")
    assert "quality" not in listed.values("quality", {"accuracy": 9.0, "clarity": 3.0})


@pytest.mark.parametrize("as_tool", [False, True])
@pytest.mark.parametrize(
    ("given", "scores"),
    [
        ({"reasoning": "x", "accuracy": "9", "clarity": "3"}, {"accuracy": 9.0, "clarity": 3.0}),
        ({"accuracy": 9, "clarity": 3}, {"accuracy": 9.0, "clarity": 3.0}),
        ({"accuracy": "9"}, None),
        ({"accuracy": "9", "clarity": None}, None),
        ({"accuracy": "9", "clarity": True}, None),
        ({"accuracy": "9", "clarity": "11"}, None),
        ({"accuracy": "9", "clarity": "3", "style": "8"}, None),
        ({"accuracy": 9.5, "clarity": 3}, None),
    ],
)
def test_a_json_reply_has_every_criterion_and_nothing_else(
    as_tool: bool, given: dict[str, Any], scores: dict[str, float] | None
) -> None:
    text = json.dumps(given)
    reply = Reply(calls=(ToolCall("score", text),)) if as_tool else Reply(text=text)
    assert read_scores_of(reply, TWO, "tool" if as_tool else "json").scores == scores


def test_one_word_replies_and_their_probabilities() -> None:
    assert read_scores_of(Reply(text="7"), TEN, "label").scores == {ONE: 7.0}
    assert read_scores_of(Reply(text="seven"), TEN, "label").label is VerdictLabel.UNPARSED
    likely = Reply(text="PASS", choice_probabilities={"PASS": 0.9, "FAIL": 0.05})
    assert read_scores_of(likely, PASS, "label").scores == {ONE: 1.0}
    for text in ("PASS or FAIL", "PASS, if one is strict", "FAILPASS"):
        assert read_scores_of(msgspec.structs.replace(likely, text=text), PASS, "label").label is VerdictLabel.UNPARSED
    assert (
        read_scores_of(msgspec.structs.replace(likely, stop=Stop.LENGTH), PASS, "label").label is VerdictLabel.TRUNCATED
    )
    assert read_scores_of(msgspec.structs.replace(likely, text="**Pass**.<|im_end|>"), PASS, "label").scores == {
        ONE: 1.0
    }
    noise = Reply(text="PASS", choice_probabilities={"PASS": 0.2, "FAIL": 0.1})
    assert read_scores_of(noise, PASS, "label").label is VerdictLabel.UNPARSED
    assert read_scores_of(Reply(text="C"), FIVE, "choice").scores == {ONE: 3.0}
    assert read_scores_of(Reply(text="F"), FIVE, "choice").label is VerdictLabel.UNPARSED
    assert read_scores_of(Reply(text="B"), PASS, "choice").scores == {ONE: 1.0}


def test_failures_keep_their_names() -> None:
    assert read_scores_of(Reply(error="overloaded"), TEN).label is VerdictLabel.ERROR
    assert read_scores_of(Reply(stop=Stop.REFUSAL, text="SCORE: 3"), TEN).label is VerdictLabel.REFUSED
    assert read_scores_of(Reply(stop=Stop.LENGTH, text="SCORE: 1"), TEN).label is VerdictLabel.TRUNCATED
    cut = Reply(stop=Stop.LENGTH, text='{"reasoning": "x", "accu')
    assert read_scores_of(cut, TWO, "json").label is VerdictLabel.TRUNCATED


@pytest.mark.parametrize(
    ("criteria", "words"),
    [
        ({"a": 0.5, "b": 0.3}, "the weights sum to 0.8, not 1"),
        ({"a": 2, "b": 1}, "the weights sum to 3, not 1"),
        ({"a": 1.5, "b": -0.5}, "the weight of b is -0.5"),
        ({"a": 1.0}, "a is the only criterion"),
        (["a", "A"], "listed twice"),
        (["reasoning", "b"], "cannot be a criterion"),
        (["two words", "b"], "cannot be a criterion"),
    ],
)
def test_wrong_criteria_are_refused(criteria: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        make_scoring("1-10", criteria)


def test_a_question_shows_the_answer_alone_with_what_the_rubric_shows() -> None:
    prompt = Prompt(prompt_id="p", text="Capital of France?", source="quiz", gold_answer="Paris", system="Be brief.")
    rubric = Rubric("factuality", "1", "Right or wrong.", needs_gold=True)
    answer = Case(case().matchup, prompt, "Lyon", "")
    settings = JudgeSettings(model="m", max_tokens=9)
    request = make_request(answer, rubric, settings, TEN)
    for words in ("[SYSTEM PROMPT ", "Be brief.", "[REFERENCE ANSWER ", "Paris", "[ANSWER ", "Lyon"):
        assert words in request.user
    assert "ANSWER A" not in request.user
    assert "a whole number from 1 (worst) to 10 (best)" in request.system
    other = make_request(answer, rubric, settings, FIVE)
    assert other.fingerprint != request.fingerprint, "another scale is another question"


def scored_plan(count: int = 3, scoring: Scoring = TEN, **changes: Any) -> JudgingPlan:
    cases = [alone for n in range(count) for alone in single_answers(case(f"p{n}"), NAME)]
    return JudgingPlan({NAME: RUBRIC}, {NAME: cases}, scoring={NAME: scoring}, **changes)


def by_name(request: Request) -> str:
    return "Well.\nSCORE: " + ("8" if "otter answers" in request.user else "5")


def test_a_plan_of_answers_is_scored_and_cached(tmp_path: Path) -> None:
    judged = asyncio.run(judge(scored_plan(), make_judge(tmp_path, by_name)))
    scores = [(one.entrant, one.scores, one.status) for one in judged.answers[NAME]]
    assert scores == [("otter", {ONE: 8.0}, "ok"), ("heron", {ONE: 5.0}, "ok")] * 3
    assert judged.stats[NAME].questions == 6
    assert judged.judgments == {}

    def silent(request: Request) -> str:
        raise AssertionError("asked twice")

    again = asyncio.run(judge(scored_plan(), make_judge(tmp_path, silent)))
    assert [one.scores for one in again.answers[NAME]] == [one.scores for one in judged.answers[NAME]]


def test_repeats_are_averaged_and_a_failed_repeat_does_not_count(tmp_path: Path) -> None:
    asked: list[str] = []

    def wavering(request: Request) -> str:
        asked.append(request.user)
        return f"SCORE: {(6, 9)[asked.count(request.user) % 2]}"

    judged = asyncio.run(judge(scored_plan(1), make_judge(tmp_path, wavering, repeats=2)))
    assert [one.scores for one in judged.answers[NAME]] == [{ONE: 7.5}, {ONE: 7.5}]


def test_a_judge_without_a_score_fails_the_answer_and_never_scores_it(tmp_path: Path) -> None:
    def vague(request: Request) -> str:
        return "Hard to say." if "heron answers" in request.user else "SCORE: 6"

    judged = asyncio.run(judge(scored_plan(2), make_judge(tmp_path, vague, max_attempts=2)))
    assert [one.status for one in judged.answers[NAME]] == ["ok", "failed"] * 2
    assert judged.answers[NAME][1].scores == {}
    assert judged.stats[NAME].failures == {"unparsed": 2}


def test_a_panel_averages_its_judges_and_needs_all_of_them(tmp_path: Path) -> None:
    def strict(request: Request) -> str:
        return "SCORE: 4" if "p0" in request.user else "I would rather not."

    members = [make_judge(tmp_path, by_name, model="one"), make_judge(tmp_path, strict, model="two")]
    panel = PanelJudge(members, folder=tmp_path, asking=AskingParts(prices=PriceTable({}, "2026-01-01")))
    judged = asyncio.run(judge(scored_plan(2), panel))
    assert [(one.status, one.scores) for one in judged.answers[NAME]] == [
        ("ok", {ONE: 6.0}),
        ("ok", {ONE: 4.5}),
        ("failed", {}),
        ("failed", {}),
    ]


def test_canaries_are_scored_two_by_two(tmp_path: Path) -> None:
    def fooled(request: Request) -> str:
        return f"SCORE: {9 if 'HERON' in request.user else 5 if 'SYSTEM MESSAGE' in request.user else 7}"

    plan = scored_plan(1, canaries={NAME: single_canaries(NAME)})
    judged = asyncio.run(judge(plan, make_judge(tmp_path, fooled)))
    report = canary_report(plan, judged.canaries)[NAME]
    assert report["asked"] == 8
    assert [one["canary"] for one in report["missed"]] == ["canary-false-system-message"]


def test_a_recording_of_pairs_scores_nothing(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("prompt_id,entrant_a,entrant_b,verdict\np0,otter,heron,A\n")
    with pytest.raises(JudgingError, match="holds verdicts on pairs"):
        asyncio.run(judge(scored_plan(1), RecordedJudge(tmp_path / "v.csv"), single_order=True))
