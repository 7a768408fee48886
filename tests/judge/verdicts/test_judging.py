"""Judging a plan with a language model: what is asked, kept, asked again, and settled."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.judge.verdicts.cases import PRICES, case, judging_plan, make_judge, prefers, shown, verdict
from tiltyard.errors import JudgingError
from tiltyard.judge.llm import Reply, Request, Stop, Usage
from tiltyard.judge.llm.keys import keep_secret
from tiltyard.judge.llm.providers.scripted import ScriptedBatchProvider, ScriptedProvider
from tiltyard.judge.verdicts import (
    Case,
    JudgingOptions,
    JudgingPlan,
    JudgingResult,
    Judgment,
    Matchup,
    Rubric,
    Verdict,
    VerdictCache,
    VerdictLabel,
    canary_cases,
    judge,
)
from tiltyard.judge.verdicts.cache import cache_path


def run(cases: JudgingPlan, judge_: Any, **terms: Any) -> JudgingResult:
    return asyncio.run(judge(cases, judge_, **terms))


def winners(judged: JudgingResult, dimension: str = "clarity") -> list[str | None]:
    return [judgment.winner for judgment in judged.judgments[dimension]]


def test_both_orders_are_asked_and_settled_in_the_order_of_the_plan(tmp_path: Path) -> None:
    provider = ScriptedProvider(prefers("heron"))
    judged = run(judging_plan(3), make_judge(tmp_path, provider))
    assert [judgment.prompt_id for judgment in judged.judgments["clarity"]] == ["p1", "p2", "p3"]
    assert winners(judged) == ["heron"] * 3
    assert sum(provider.asked.values()) == 6
    first = judged.judgments["clarity"][0]
    assert [(verdict.position_swap, verdict.verdict) for verdict in first.raw] == [
        (False, VerdictLabel.B),
        (True, VerdictLabel.A),
    ]
    assert judged.judge_model == first.raw[0].judge_model == "scripted/judge-1"
    assert first.raw[0].timestamp == "2026-09-21T14:13:20+00:00"


def test_a_judge_that_always_says_a_is_inconsistent_everywhere(tmp_path: Path) -> None:
    judged = run(judging_plan(2), make_judge(tmp_path, lambda request: "VERDICT: A"))
    assert all(judgment.inconsistent for judgment in judged.judgments["clarity"])
    assert winners(judged) == [None, None]


def test_what_is_cached_is_not_asked_again(tmp_path: Path) -> None:
    first = run(judging_plan(2), make_judge(tmp_path, prefers("otter")))
    provider = ScriptedProvider(prefers("heron"))
    second = run(judging_plan(3), make_judge(tmp_path, provider))
    assert winners(second) == ["otter", "otter", "heron"]
    assert sum(provider.asked.values()) == 2
    stats = second.stats["clarity"]
    assert (stats.cases, stats.questions, stats.cache_hits, stats.fresh_calls) == (3, 6, 4, 2)
    assert first.stats["clarity"].cache_hits == 0
    assert list(second.judgments["clarity"])[:2] == list(first.judgments["clarity"])


def test_another_judge_or_budget_of_tokens_misses_the_cache(tmp_path: Path) -> None:
    run(judging_plan(1), make_judge(tmp_path, prefers("otter")))
    for change in ({"model": "judge-2"}, {"max_tokens": 101}, {"options": {"temperature": 0}}, {"reply": "label"}):
        provider = ScriptedProvider(lambda request: "B")
        run(judging_plan(1), make_judge(tmp_path, provider, max_attempts=1, **change))
        assert sum(provider.asked.values()) == 2, change


def test_skip_judging_asks_nothing_and_says_what_is_missing(tmp_path: Path) -> None:
    run(judging_plan(1), make_judge(tmp_path, prefers("otter")))
    provider = ScriptedProvider(prefers("otter"))
    judged = run(judging_plan(3), make_judge(tmp_path, provider), skip_judging=True)
    assert not provider.asked
    assert [judgment.status for judgment in judged.judgments["clarity"]] == ["ok", "failed", "failed"]
    stats = judged.stats["clarity"]
    assert (stats.cache_hits, stats.missing, stats.fresh_calls, dict(stats.failures)) == (2, 4, 0, {})


def test_all_dimensions_are_asked_in_one_go_and_counted_apart(tmp_path: Path) -> None:
    provider = ScriptedBatchProvider(prefers("otter"))
    judged = run(judging_plan(2, ("clarity", "brevity")), make_judge(tmp_path, provider))
    assert len(provider._batches) == 1
    assert list(judged.judgments) == ["clarity", "brevity"]
    for dimension in judged.judgments:
        stats = judged.stats[dimension]
        assert (stats.fresh_calls, stats.missing) == (4, 0)
        assert stats.usage.input_tokens > 0
        usages = [verdict.usage for judgment in judged.judgments[dimension] for verdict in judgment.raw]
        assert stats.usage == sum(usages, Usage())
        price = PRICES.price("judge-1")
        assert price is not None
        assert stats.cost == pytest.approx(price.cost(stats.usage, batched=True))
    assert cache_path(tmp_path, "brevity").exists()


def test_an_unknown_price_is_unknown_and_not_zero(tmp_path: Path) -> None:
    judged = run(judging_plan(1), make_judge(tmp_path, prefers("otter"), model="judge-9"))
    assert judged.stats["clarity"].cost is None


class TestPrewarm:
    def test_one_real_question_per_dimension_goes_first_and_is_used(self, tmp_path: Path) -> None:
        provider = ScriptedBatchProvider(prefers("otter"))
        judged = run(judging_plan(2, ("clarity", "brevity")), make_judge(tmp_path, provider), prewarm=True)
        sizes = [len(batch.requests) for batch in provider._batches.values()]
        assert sizes == [2, 6]
        systems = [request.system for _, request in next(iter(provider._batches.values())).requests]
        assert len(set(systems)) == 2
        assert set(provider.asked.values()) == {1}
        assert winners(judged) == ["otter", "otter"]

    def test_it_is_skipped_where_the_question_is_cached(self, tmp_path: Path) -> None:
        run(judging_plan(1), make_judge(tmp_path, prefers("otter")))
        provider = ScriptedBatchProvider(prefers("otter"))
        run(judging_plan(2), make_judge(tmp_path, provider), prewarm=True)
        assert [len(batch.requests) for batch in provider._batches.values()] == [2]


class Script:
    """Replies to the same question in turn."""

    def __init__(self, *replies: Reply | str) -> None:
        self._replies = replies
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Reply | str:
        if shown(request)[0].startswith("heron"):
            return "VERDICT: B"
        self.requests.append(request)
        return self._replies[min(len(self.requests), len(self._replies)) - 1]


CUT_OFF = Reply(text="Let me think", stop=Stop.LENGTH, usage=Usage(output_tokens=100))
REFUSED = Reply(text="I cannot", stop=Stop.REFUSAL)


class TestAskingAgain:
    def test_a_reply_cut_off_is_asked_for_again_with_more_room(self, tmp_path: Path) -> None:
        script = Script(CUT_OFF, CUT_OFF, "VERDICT: A")
        judged = run(judging_plan(1), make_judge(tmp_path, script))
        assert [request.max_tokens for request in script.requests] == [100, 200, 400]
        assert winners(judged) == ["otter"]
        assert judged.judgments["clarity"][0].raw[0].attempts == 3
        assert judged.stats["clarity"].fresh_calls == 4
        assert judged.stats["clarity"].usage.output_tokens >= 200

    @pytest.mark.parametrize(
        ("reply", "name"), [("It depends.", "unparsed"), (REFUSED, "refused"), (CUT_OFF, "truncated")]
    )
    def test_it_ends_after_three_attempts_under_its_own_name(self, tmp_path: Path, reply: Any, name: str) -> None:
        script = Script(reply)
        judged = run(judging_plan(1), make_judge(tmp_path, script))
        assert len(script.requests) == 3
        judgment = judged.judgments["clarity"][0]
        assert (judgment.status, judgment.winner) == ("failed", None)
        assert [verdict.verdict.value for verdict in judgment.raw] == [name, "B"]
        assert judged.stats["clarity"].failures == {name: 1}

    def test_a_later_run_does_not_ask_again_unless_told_to(self, tmp_path: Path) -> None:
        run(judging_plan(1), make_judge(tmp_path, Script("It depends.")))
        again = Script("VERDICT: A")
        judged = run(judging_plan(1), make_judge(tmp_path, again))
        assert not again.requests
        assert judged.stats["clarity"].failures == {"unparsed": 1}
        told = run(judging_plan(1), make_judge(tmp_path, again), retry_failed=True)
        assert len(again.requests) == 1
        assert winners(told) == ["otter"]
        assert told.judgments["clarity"][0].raw[0].attempts == 4

    def test_an_interrupted_run_goes_on_where_it_stopped(self, tmp_path: Path) -> None:
        """Two of three attempts are on disk: one is left, with the room that the second would have given it."""
        run(judging_plan(1), make_judge(tmp_path, Script(CUT_OFF), max_attempts=2))
        script = Script("It depends.")
        judged = run(judging_plan(1), make_judge(tmp_path, script, max_attempts=3))
        assert [request.max_tokens for request in script.requests] == [400]
        assert judged.judgments["clarity"][0].raw[0].attempts == 3

    def test_a_final_error_is_kept_and_not_asked_again(self, tmp_path: Path) -> None:
        script = Script(Reply(error="errored: invalid_request_error", final=True))
        for _ in range(2):
            judged = run(judging_plan(1), make_judge(tmp_path, script))
            assert judged.stats["clarity"].failures == {"error": 1}
        assert len(script.requests) == 1
        assert judged.judgments["clarity"][0].raw[0].error == "errored: invalid_request_error"

    def test_an_error_that_may_pass_is_asked_again_by_the_next_run(self, tmp_path: Path) -> None:
        run(judging_plan(1), make_judge(tmp_path, Script(Reply(error="expired"))))
        script = Script("VERDICT: A")
        judged = run(judging_plan(1), make_judge(tmp_path, script))
        assert winners(judged) == ["otter"]
        assert judged.judgments["clarity"][0].raw[0].attempts == 1
        assert judged.stats["clarity"].failures == {}


def same_texts(prompt_id: str, first: str, second: str, texts: tuple[str, str]) -> Case:
    given = case(prompt_id, a=first, b=second)
    return Case(given.matchup, msgspec.structs.replace(given.prompt, text="The same question?"), *texts)


def test_cases_with_the_same_texts_are_asked_once_and_each_sees_its_own_side(tmp_path: Path) -> None:
    """The second case shows forward what the first shows swapped: one pair of verdicts serves both."""
    cases = [same_texts("p1", "otter", "heron", ("good", "bad")), same_texts("p2", "crane", "stork", ("bad", "good"))]
    provider = ScriptedProvider(prefers("good"))
    judged = run(
        JudgingPlan({"clarity": Rubric("clarity", "1", "x")}, {"clarity": cases}), make_judge(tmp_path, provider)
    )
    assert sum(provider.asked.values()) == 2
    assert winners(judged) == ["otter", "stork"]
    assert [[verdict.position_swap for verdict in judgment.raw] for judgment in judged.judgments["clarity"]] == [
        [False, True],
        [False, True],
    ]


def test_two_equal_answers_are_one_question_and_never_a_winner(tmp_path: Path) -> None:
    cases = [same_texts("p1", "otter", "heron", ("same", "same"))]
    provider = ScriptedProvider(lambda request: "VERDICT: A")
    judged = run(
        JudgingPlan({"clarity": Rubric("clarity", "1", "x")}, {"clarity": cases}), make_judge(tmp_path, provider)
    )
    assert sum(provider.asked.values()) == 1
    assert judged.judgments["clarity"][0].inconsistent


def test_canaries_are_judged_along_and_kept_apart(tmp_path: Path) -> None:
    judged = run(judging_plan(1, canaries=canary_cases(["clarity"])), make_judge(tmp_path, prefers("otter")))
    assert len(judged.judgments["clarity"]) == 1
    assert len(judged.canaries["clarity"]) == 8
    assert judged.stats["clarity"].cases == 9
    entrants = {judgment.entrant_a for judgment in judged.judgments["clarity"]}
    assert entrants == {"otter"}


def test_whoever_listens_hears_every_fresh_verdict(tmp_path: Path) -> None:
    heard: list[tuple[Matchup, Verdict]] = []
    cases = judging_plan(2)
    run(cases, make_judge(tmp_path, prefers("otter")), on_verdict=lambda *what: heard.append(what))
    assert Counter(matchup.prompt_id for matchup, _ in heard) == {"p1": 2, "p2": 2}
    assert {(matchup.prompt_id, verdict.for_entrants) for matchup, verdict in heard} == {
        ("p1", VerdictLabel.A),
        ("p2", VerdictLabel.A),
    }
    run(cases, make_judge(tmp_path, prefers("otter")), on_verdict=lambda *what: heard.append(what))
    assert len(heard) == 4


def test_pending_lists_what_would_be_asked_and_asks_nothing(tmp_path: Path) -> None:
    run(judging_plan(1), make_judge(tmp_path, prefers("otter")))
    provider = ScriptedProvider(prefers("otter"))
    judge_ = make_judge(tmp_path, provider)
    asks = list(judge_.pending(judging_plan(3)))
    assert [ask.group for ask in asks] == ["clarity"] * 4
    assert len({ask.key for ask in asks}) == 4
    assert not provider.asked


def test_what_another_process_answers_or_gives_up_meanwhile_is_not_asked(tmp_path: Path) -> None:
    judge_ = make_judge(tmp_path, prefers("otter"), max_attempts=2)
    answered, given_up, tried, new = [ask.key for ask in judge_.pending(judging_plan(2))]
    waiting = judge_.pending(judging_plan(2))
    others = make_judge(tmp_path, prefers("otter")).cache("clarity")
    others.add(verdict(answered))
    for key in (given_up, given_up, tried):
        others.add(verdict(key, VerdictLabel.UNPARSED))
    assert [(ask.key, ask.attempt) for ask in waiting] == [(new, 1), (tried, 2)]


def test_a_reply_that_comes_twice_is_kept_once(tmp_path: Path) -> None:
    from tiltyard.judge.verdicts.language_model import OpenQuestions, Questions, VerdictSink

    judge_ = make_judge(tmp_path, prefers("otter"))
    caches = {"clarity": judge_.cache("clarity")}
    pending = OpenQuestions(Questions(judging_plan(1), judge_._settings), caches)
    sink = VerdictSink(judge_, pending)
    ask = next(pending.asks(pending.keys()))
    again = [sink(ask, Reply(text="It depends.")) for _ in range(2)]
    assert again[0] == again[1]
    assert again[0] is not None
    assert again[0].attempt == 2
    assert len(caches["clarity"].attempts(ask.key)) == 1
    assert [sink(again[0], Reply(text="VERDICT: A")), sink(again[0], Reply(text="VERDICT: B"))] == [None, None]
    found = caches["clarity"].get(ask.key)
    assert found is not None
    assert found.verdict is VerdictLabel.A


def test_log_probabilities_give_soft_scores(tmp_path: Path) -> None:
    def answer(request: Request) -> Reply:
        assert request.choices == ("A", "B", "TIE")
        better = "A" if shown(request)[0].startswith("otter") else "B"
        return Reply(text=better, choice_probabilities={"A": 0.2, "B": 0.2, "TIE": 0.0} | {better: 0.8})

    judged = run(judging_plan(1), make_judge(tmp_path, answer, reply="label"))
    assert winners(judged) == ["otter"]
    assert [verdict.score_a for verdict in judged.judgments["clarity"][0].raw] == [0.8, 0.2]


def test_a_secret_in_an_error_never_reaches_the_cache(tmp_path: Path) -> None:
    secret = "sk-planted-0123456789"
    keep_secret(secret)
    reply = Reply(error=f"errored: bad key {secret}", text=f"header x-api-key: {secret}", final=True)
    run(judging_plan(1), make_judge(tmp_path, lambda request: reply))
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"errored: bad key" in written
    assert secret.encode() not in written


def test_judgments_are_a_sequence(tmp_path: Path) -> None:
    judgments = run(judging_plan(3), make_judge(tmp_path, prefers("otter"))).judgments["clarity"]
    assert len(judgments) == 3
    assert judgments[-1] == list(judgments)[2]
    assert [judgment.prompt_id for judgment in judgments[1:]] == ["p2", "p3"]
    with pytest.raises(IndexError):
        judgments[3]
    assert isinstance(judgments[0], Judgment)


def test_an_empty_plan_is_judged_without_a_call(tmp_path: Path) -> None:
    judged = run(judging_plan(0), make_judge(tmp_path, prefers("otter")), prewarm=True)
    assert list(judged.judgments["clarity"]) == []
    assert judged.stats["clarity"].questions == 0


def test_a_dimension_without_a_rubric_is_an_error() -> None:
    with pytest.raises(JudgingError, match=r"rubrics\.brevity\.path"):
        JudgingPlan({}, {"brevity": [case()]})


def test_a_judge_of_one_order_must_be_accepted_by_name(tmp_path: Path) -> None:
    class Once:
        name = "once"
        both_orders = False

        async def judge(self, plan: JudgingPlan, options: JudgingOptions) -> Any:
            raise AssertionError

    with pytest.raises(JudgingError, match="once judged in one order only"):
        run(judging_plan(1), Once())


def test_the_cache_of_a_run_is_the_file_of_its_dimension(tmp_path: Path) -> None:
    judged = run(judging_plan(1), make_judge(tmp_path, prefers("otter")))
    cache = VerdictCache(tmp_path, "clarity")
    for kept in judged.judgments["clarity"][0].raw:
        assert cache.get(kept.cache_key) == kept
