"""A function as judge: what it sees and returns, and what happens if it raises, hangs or returns nothing."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.judge.verdicts.cases import PRICES, case, judging_plan
from tests.judge.verdicts.test_scoring import NAME, PASS, TWO, scored_plan
from tiltyard.errors import JudgingError, OptionError
from tiltyard.judge.llm import AskingParts, AskingSettings
from tiltyard.judge.verdicts import JudgeSettings, JudgingPlan, Question, function_name, judge, judge_by_name
from tiltyard.judge.verdicts.function import FunctionJudge

ASKING = AskingParts(prices=PRICES, settings=AskingSettings(timeout_seconds=0.2))


def function_judge(folder: Path, function: Any, **changes: Any) -> FunctionJudge:
    settings = JudgeSettings(**{"model": "", "max_attempts": 1} | changes)
    return FunctionJudge(function, settings, folder=folder, asking=ASKING)


def winners(folder: Path, function: Any, count: int = 2) -> list[str]:
    judged = asyncio.run(judge(judging_plan(count), function_judge(folder, function)))
    return [one.outcome for one in judged.judgments["clarity"]]


async def otter(question: Question) -> str:
    first, _ = question.answers
    return "A" if first.startswith("otter") else "B"


def test_a_function_sees_the_answers_in_both_orders(tmp_path: Path) -> None:
    assert winners(tmp_path, otter) == ["otter", "otter"]
    assert function_name(otter) == f"python:{__name__}:otter"


def test_a_plain_function_and_a_verdict_with_reasons(tmp_path: Path) -> None:
    def plain(question: Question) -> Any:
        return question.verdict("TIE", f"{question.prompt.text} by {question.rubric.text}")

    judged = asyncio.run(judge(judging_plan(1), function_judge(tmp_path, plain)))
    (judgment,) = judged.judgments["clarity"]
    assert judgment.outcome == "tie"
    assert judgment.raw[0].reasoning.startswith("Question p1? by Judge clarity.")


def test_a_function_scores_criteria(tmp_path: Path) -> None:
    async def graded(question: Question) -> Any:
        assert question.scoring is not None
        return question.verdict({"accuracy": 9, "clarity": 4}, "why")

    judged = asyncio.run(judge(scored_plan(1, TWO), function_judge(tmp_path, graded)))
    assert judged.answers[NAME][0].scores == {"accuracy": 9.0, "clarity": 4.0}


@pytest.mark.parametrize(("decided", "score"), [("PASS", 1.0), ("fail", 0.0), (1, 1.0), (False, 0.0)])
def test_a_function_passes_and_fails_answers(tmp_path: Path, decided: Any, score: float) -> None:
    async def checks(question: Question) -> Any:
        return question.verdict(decided)

    judged = asyncio.run(judge(scored_plan(1, PASS), function_judge(tmp_path, checks)))
    assert judged.answers[NAME][0].scores == {"score": score}


@pytest.mark.parametrize("decided", [11, 7.5, -1, {"accuracy": 9}, float("nan")])
def test_a_score_off_the_scale_is_no_score(tmp_path: Path, decided: Any) -> None:
    async def off(question: Question) -> Any:
        return question.verdict(decided)

    with_two = isinstance(decided, dict)
    plan = scored_plan(1, TWO) if with_two else scored_plan(1)
    judged = asyncio.run(judge(plan, function_judge(tmp_path, off)))
    assert [one.status for one in judged.answers[NAME]] == ["failed", "failed"]


def test_what_a_function_raises_is_a_failed_verdict_with_its_name(tmp_path: Path) -> None:
    async def broken(question: Question) -> str:
        if question.swapped:
            raise ValueError("no such thing")
        return "A"

    judged = asyncio.run(judge(judging_plan(1), function_judge(tmp_path, broken)))
    (judgment,) = judged.judgments["clarity"]
    assert judgment.outcome == "failed"
    assert re.fullmatch(r"ValueError: no such thing \(test_function_judge.py, line \d+\)", judgment.raw[1].error or "")


@pytest.mark.parametrize("returned", [None, 7, ["A"], b"A"])
def test_another_type_is_an_error_and_never_a_tie(tmp_path: Path, returned: Any) -> None:
    async def odd(question: Question) -> Any:
        return returned if question.swapped else "A"

    judged = asyncio.run(judge(judging_plan(1), function_judge(tmp_path, odd)))
    (judgment,) = judged.judgments["clarity"]
    assert judgment.outcome == "failed"
    assert f"it returned {type(returned).__name__}" in (judgment.raw[1].error or "")


@pytest.mark.parametrize("fault", [ZeroDivisionError("by zero"), SystemExit(3), StopIteration(), TimeoutError(), None])
@pytest.mark.parametrize("plain", [True, False])
def test_a_bug_ends_the_run_at_once_and_names_the_function(tmp_path: Path, fault: Any, plain: bool) -> None:
    calls = []

    def broken(question: Question) -> Any:
        calls.append(question.key)
        if fault is not None:
            raise fault

    async def later(question: Question) -> Any:
        return broken(question)

    function = broken if plain else later
    began = time.monotonic()
    with pytest.raises(JudgingError) as raised:
        winners(tmp_path, function, 40)
    assert function_name(function) in str(raised.value)
    assert ("it returned NoneType" if fault is None else type(fault).__name__) in str(raised.value)
    assert len(calls) <= 4
    assert time.monotonic() - began < 5


def test_a_failure_after_an_answer_is_one_call_and_is_tried_again_by_the_next_run(tmp_path: Path) -> None:
    calls = []

    def moody(question: Question) -> str:
        calls.append(question.key)
        if question.matchup.prompt_id == "p1" and len(calls) < 5:
            raise OSError("the disk is gone")
        return "A"

    moody_first = judging_plan(1)
    asyncio.run(judge(JudgingPlan(moody_first.rubrics, {"clarity": [case("p0")]}), function_judge(tmp_path, moody)))
    assert len(calls) == 2
    with pytest.raises(JudgingError, match="the disk is gone"):
        winners(tmp_path, moody, 1)
    assert len(calls) <= 4
    calls += [""] * 4
    assert winners(tmp_path, moody, 1) == ["inconsistent"]


def test_slow_plain_functions_do_not_use_up_the_time_of_others(tmp_path: Path) -> None:
    """Sixteen questions sleep through their time, each in a thread of its own; the 24 others are judged."""
    slow = {f"p{number}" for number in range(1, 9)}
    release = threading.Event()

    def sleepy(question: Question) -> str:
        if question.matchup.prompt_id in slow:
            release.wait(30)
        return "TIE"

    began = time.monotonic()
    outcomes = winners(tmp_path, sleepy, 20)
    release.set()
    assert outcomes == ["failed"] * 8 + ["tie"] * 12
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(("returned", "score"), [(7, 7.0), (7.0, 7.0), (np.int64(7), 7.0), (np.float32(7), 7.0)])
def test_a_number_is_a_score_where_scores_are_asked_for(tmp_path: Path, returned: Any, score: float) -> None:
    judged = asyncio.run(judge(scored_plan(1), function_judge(tmp_path, lambda question: returned)))
    assert [one.scores for one in judged.answers[NAME]] == [{"score": score}] * 2


def test_numbers_by_criterion_are_scores(tmp_path: Path) -> None:
    plan = scored_plan(1, TWO)
    judged = asyncio.run(judge(plan, function_judge(tmp_path, lambda question: {"accuracy": 9, "clarity": 4})))
    assert judged.answers[NAME][0].scores == {"accuracy": 9.0, "clarity": 4.0}


def test_a_function_that_hangs_is_given_up_in_time(tmp_path: Path) -> None:
    async def hanging(question: Question) -> str:
        await asyncio.sleep(600)
        return "A"

    began = time.monotonic()
    assert winners(tmp_path, hanging, 1) == ["failed"]
    assert time.monotonic() - began < 10


def test_a_function_that_never_decides_is_stopped_early(tmp_path: Path) -> None:
    calls = []

    async def silly(question: Question) -> str:
        calls.append(question.key)
        return "perhaps"

    with pytest.raises(JudgingError, match="gave no readable verdict on any of the first 20"):
        winners(tmp_path, silly, 200)
    assert len(calls) <= 40


def test_a_changed_function_is_asked_again_and_the_same_is_not(tmp_path: Path) -> None:
    assert winners(tmp_path, otter) == ["otter", "otter"]
    calls = []

    def make(word: str) -> Any:
        namespace: dict[str, Any] = {"calls": calls}
        exec(f"async def own(question):\n    calls.append(1)\n    return {word!r}", namespace)
        return namespace["own"]

    winners(tmp_path, make("TIE"))
    winners(tmp_path, make("TIE"))
    assert len(calls) == 4
    winners(tmp_path, make("A"))
    assert len(calls) == 8


def test_a_function_is_not_told_how_to_reply(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"leave out judge\.reply"):
        function_judge(tmp_path, otter, reply="json")
    with pytest.raises(OptionError, match="not a function"):
        function_judge(tmp_path, "otter")


def named(folder: Path, name: str, **changes: Any) -> Any:
    settings = JudgeSettings(model=f"python:{name}")
    return judge_by_name(settings, folder=folder, asking=ASKING, look_in=(folder,), **changes)


def test_a_judge_is_imported_only_where_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "own_judges.py").write_text("async def strict(question):\n    return 'A'\nraise_on_import = 1\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(OptionError, match=r"python:own_judges:strict is code: only `tiltyard run`"):
        named(tmp_path, "own_judges:strict")
    assert named(tmp_path, "own_judges:strict", functions=True).name == "python:own_judges:strict"
    for name, words in (
        ("own_judges", "write python:MODULE:FUNCTION"),
        ("own_judges:missing", "has no missing"),
        ("no_such_module_here:x", "cannot import no_such_module_here"),
        ("own_judges:raise_on_import", "not a function"),
        ("leaves:x", "SystemExit: 3"),
    ):
        with pytest.raises(OptionError, match=words):
            named(tmp_path, name, functions=True)


def test_two_entrants_with_the_same_answer_are_one_question(tmp_path: Path) -> None:
    calls = []

    async def seven(question: Question) -> str:
        calls.append(question.answers)
        return "7"

    plan = scored_plan(1)
    same = [plan.cases[NAME][0], plan.cases[NAME][0]]
    plan = JudgingPlan(plan.rubrics, {NAME: same}, scoring=plan.scoring)
    judged = asyncio.run(judge(plan, function_judge(tmp_path, seven)))
    assert [one.scores for one in judged.answers[NAME]] == [{"score": 7.0}] * 2
    assert calls == [(case("p0").response_a,)]
