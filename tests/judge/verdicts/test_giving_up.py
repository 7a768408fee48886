"""A judge that never answers is left in peace after a few questions; one that answers now and then is heard out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeServer
from tests.judge.llm.providers.asking import make
from tests.judge.verdicts.cases import PRICES, judging_plan, make_judge, prefers
from tests.judge.verdicts.test_judging import run, winners
from tiltyard.errors import JudgingError, OptionError, Refused, TryLater
from tiltyard.judge.llm import AskingParts, AskingSettings, Reply, Request, Stop
from tiltyard.judge.llm.keys import keep_secret
from tiltyard.judge.llm.providers.scripted import ScriptedBatchProvider, ScriptedProvider
from tiltyard.judge.verdicts import JudgeSettings, LanguageModelJudge, VerdictCache, judge

SILENT = "I would rather talk\nabout the weather."


def complaint(cases: Any, judge_: Any, **terms: Any) -> str:
    with pytest.raises(JudgingError) as caught:
        run(cases, judge_, **terms)
    return str(caught.value)


@pytest.mark.parametrize("kind", [ScriptedProvider, ScriptedBatchProvider])
def test_the_first_questions_all_failed_so_no_other_is_asked(tmp_path: Path, kind: Any) -> None:
    """Forty questions, three of which are asked, each as often as any: three times."""
    provider = kind(lambda request: SILENT)
    said = complaint(judging_plan(20), make_judge(tmp_path, provider), give_up_after=3)
    assert len(provider.asked) == 3
    assert sum(provider.asked.values()) == 9
    assert said == (
        "scripted/judge-1 gave no readable verdict on any of the first 3 questions; 3 ended as unparsed: the last line "
        "is no verdict (“I would rather talk about the weather.”). Use a judge that follows instructions, or look at "
        f"the rubric, then run again: they are asked once more. What came is kept in {tmp_path}."
    )


def test_what_was_received_is_kept_and_the_next_run_asks_it_again(tmp_path: Path) -> None:
    provider = ScriptedProvider(lambda request: SILENT)
    complaint(judging_plan(20), make_judge(tmp_path, provider), give_up_after=3)
    cache = VerdictCache(tmp_path, "clarity")
    assert {
        len(cache.attempts(ask.key)) for ask in make_judge(tmp_path / "new", provider).pending(judging_plan(2))
    } == {0, 3}
    judged = run(judging_plan(20), make_judge(tmp_path, prefers("otter")))
    assert judged.stats["clarity"].failures == {}
    assert judged.stats["clarity"].fresh_calls == 40


def test_one_readable_verdict_among_the_first_is_enough(tmp_path: Path) -> None:
    """Only the third question is answered; the plan is heard to its end."""

    def answer(request: Request) -> str:
        return "VERDICT: A" if "otter answers p2" in request.user.partition("[ANSWER B")[0] else SILENT

    provider = ScriptedProvider(answer)
    judged = run(judging_plan(10), make_judge(tmp_path, provider, max_attempts=1), give_up_after=3)
    assert len(provider.asked) == 20
    assert judged.stats["clarity"].failures == {"unparsed": 19}


def test_the_commonest_failure_is_named_with_its_words(tmp_path: Path) -> None:
    replies = [
        Reply(text="Let me think", stop=Stop.LENGTH),
        Reply(error="errored: api_error", text="The model is tired."),
        Reply(error="errored: api_error", text="The model is tired."),
    ]
    script = iter(replies)
    asking_once = make_judge(tmp_path, lambda request: next(script, replies[-1]), max_attempts=1)
    said = complaint(judging_plan(20), asking_once, give_up_after=3)
    assert "2 ended as error: errored: api_error (“The model is tired.”). Check the judge's name, address" in said


@pytest.mark.parametrize(
    ("reply", "advice"),
    [
        (Reply(text="Let me think", stop=Stop.LENGTH), "ended as truncated: cut off at max_tokens.*more tokens"),
        (Reply(text="I cannot", stop=Stop.REFUSAL), "ended as refused: the judge declined.*Use another judge"),
        (Reply(text=""), "ended as unparsed: the reply is empty. Use a judge"),
    ],
)
def test_every_kind_of_failure_says_what_to_do(tmp_path: Path, reply: Reply, advice: str) -> None:
    with pytest.raises(JudgingError, match=advice):
        run(judging_plan(5), make_judge(tmp_path, lambda request: reply), give_up_after=2)


def test_a_provider_out_of_reach_is_given_up_too(tmp_path: Path) -> None:
    def busy(request: Request) -> Reply:
        raise TryLater("No answer from http://judge.invalid to a request: connection refused.")

    said = complaint(judging_plan(50), make_judge(tmp_path, busy), give_up_after=2)
    assert "error: no answer in 6 tries (“No answer from http://judge.invalid" in said


def test_a_secret_in_the_words_is_hidden_and_a_long_text_shortened(tmp_path: Path) -> None:
    secret = "sk-planted-9876543210"
    keep_secret(secret)
    reply = Reply(text=f"{'x' * 5000}\n{secret}")
    said = complaint(judging_plan(5), make_judge(tmp_path, lambda request: reply), give_up_after=2)
    assert "[hidden]" in said
    assert secret not in said
    assert len(said) < 800
    assert "\n" not in said


def test_a_plan_too_small_to_tell_is_judged_and_the_next_one_goes_on_counting(tmp_path: Path) -> None:
    provider = ScriptedProvider(lambda request: SILENT)
    judge_ = make_judge(tmp_path, provider, max_attempts=1)
    judged = run(judging_plan(1), judge_, give_up_after=5)
    assert judged.stats["clarity"].failures == {"unparsed": 2}
    assert "first 5 questions; 5 ended" in complaint(judging_plan(20), judge_, give_up_after=5)
    assert len(provider.asked) == 5
    complaint(judging_plan(20), judge_, give_up_after=5)
    assert len(provider.asked) == 5
    assert run(judging_plan(20), judge_, give_up_after=5, skip_judging=True).stats["clarity"].missing == 35


def test_a_judge_that_has_answered_is_trusted_from_then_on(tmp_path: Path) -> None:
    provider = ScriptedBatchProvider(prefers("otter"))
    judge_ = make_judge(tmp_path, provider)
    run(judging_plan(3), judge_, give_up_after=2)
    assert winners(run(judging_plan(9), judge_, give_up_after=2)) == ["otter"] * 9
    assert [len(batch.requests) for batch in provider._batches.values()] == [2, 4, 12]


def test_nobody_gives_up_unless_told_to_or_where_nothing_is_asked(tmp_path: Path) -> None:
    provider = ScriptedProvider(lambda request: SILENT)
    judged = run(judging_plan(4), make_judge(tmp_path, provider, max_attempts=1))
    assert judged.stats["clarity"].failures == {"unparsed": 8}
    run(judging_plan(4), make_judge(tmp_path, provider), give_up_after=1, skip_judging=True)
    with pytest.raises(OptionError, match="give_up_after is 0"):
        run(judging_plan(4), make_judge(tmp_path, provider), give_up_after=0)


def test_it_goes_with_prewarm_and_one_order(tmp_path: Path) -> None:
    provider = ScriptedProvider(lambda request: SILENT)
    judge_ = make_judge(tmp_path, provider, max_attempts=1, orders="forward")
    complaint(judging_plan(20, ("clarity", "brevity")), judge_, give_up_after=3, prewarm=True, single_order=True)
    assert len(provider.asked) == 3


@pytest.mark.parametrize(
    ("kind", "batch"),
    [
        ("anthropic", True),
        ("openai", False),
        *(pytest.param(*one, marks=pytest.mark.soak) for one in (("anthropic", False), ("openai", True))),
    ],
)
def test_over_http_a_judge_that_never_answers_costs_a_few_questions(tmp_path: Path, kind: str, batch: bool) -> None:
    with FakeServer() as server:
        server.behaviour.judge = lambda system, user: SILENT
        settings = AskingSettings(batch=batch, poll_initial_seconds=0.01, poll_max_seconds=0.01)

        async def work(give_up_after: int) -> None:
            provider = make(kind, server)
            asking = AskingParts(prices=PRICES, settings=settings)
            one = LanguageModelJudge(provider, JudgeSettings(model="m", max_attempts=1), folder=tmp_path, asking=asking)
            try:
                await judge(judging_plan(30), one, give_up_after=give_up_after)
            finally:
                await one.aclose()

        with pytest.raises(JudgingError, match=f"{kind}/m gave no readable verdict on any of the first 4 questions"):
            asyncio.run(work(4))
        assert len(server.ledger.accepted) == 4
        server.behaviour.key = "sk-right"
        with pytest.raises(Refused, match="key was not accepted"):
            asyncio.run(work(4))
