"""A language model that hears each case in one order: half the questions, the same cache, single verdicts."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeServer
from tests.judge.verdicts.cases import PRICES, judging_plan, make_judge, prefers, shown
from tests.judge.verdicts.test_judging import run, winners
from tiltyard.errors import JudgingError, OptionError
from tiltyard.judge.llm import AskingParts, AskingSettings, Reply, Request
from tiltyard.judge.llm.providers.scripted import ScriptedBatchProvider, ScriptedProvider
from tiltyard.judge.verdicts import JudgeSettings, VerdictLabel, canary_cases, judge, judge_by_name


def forward(cases: Any, judge_: Any, **terms: Any) -> Any:
    return run(cases, judge_, single_order=True, **terms)


def test_only_the_order_with_entrant_a_first_is_asked(tmp_path: Path) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> Reply | str:
        asked.append(request)
        return prefers("heron")(request)

    judge_ = make_judge(tmp_path, answer, orders="forward")
    judged = forward(judging_plan(3), judge_)
    assert not judge_.both_orders
    assert not judged.both_orders
    assert sorted(shown(request) for request in asked) == [
        (f"otter answers p{number}", f"heron answers p{number}") for number in (1, 2, 3)
    ]
    assert winners(judged) == ["heron"] * 3
    first = judged.judgments["clarity"][0]
    assert [(verdict.verdict, verdict.position_swap) for verdict in first.raw] == [(VerdictLabel.B, False)]


def test_each_case_counts_as_one_question(tmp_path: Path) -> None:
    script = {"p2": "It depends.", "p3": "VERDICT: TIE"}

    def answer(request: Request) -> str:
        return next((said for prompt, said in script.items() if f"answers {prompt}" in request.user), "VERDICT: A")

    judged = forward(judging_plan(3), make_judge(tmp_path, answer, orders="forward", max_attempts=1))
    stats = judged.stats["clarity"]
    assert (stats.cases, stats.questions, stats.fresh_calls, stats.missing) == (3, 3, 3, 0)
    assert stats.failures == {"unparsed": 1}
    statuses = [(judgment.status, judgment.winner, judgment.inconsistent) for judgment in judged.judgments["clarity"]]
    assert statuses == [("ok", "otter", False), ("failed", None, False), ("ok", None, False)]


def test_one_order_must_be_accepted_by_the_caller(tmp_path: Path) -> None:
    provider = ScriptedProvider(prefers("otter"))
    with pytest.raises(JudgingError, match="one order only"):
        run(judging_plan(1), make_judge(tmp_path, provider, orders="forward"))
    assert not provider.asked


def test_a_forward_run_uses_what_a_run_in_both_orders_kept(tmp_path: Path) -> None:
    run(judging_plan(2), make_judge(tmp_path, prefers("otter")))
    provider = ScriptedProvider(prefers("heron"))
    judged = forward(judging_plan(3), make_judge(tmp_path, provider, orders="forward"))
    assert winners(judged) == ["otter", "otter", "heron"]
    assert sum(provider.asked.values()) == 1
    assert (judged.stats["clarity"].cache_hits, judged.stats["clarity"].questions) == (2, 3)


def test_a_run_in_both_orders_uses_what_a_forward_run_kept(tmp_path: Path) -> None:
    forward(judging_plan(2), make_judge(tmp_path, prefers("otter"), orders="forward"))
    asked: list[Request] = []

    def answer(request: Request) -> Reply | str:
        asked.append(request)
        return prefers("otter")(request)

    judged = run(judging_plan(2), make_judge(tmp_path, answer))
    assert winners(judged) == ["otter", "otter"]
    assert [shown(request)[0][:5] for request in asked] == ["heron", "heron"]
    assert judged.stats["clarity"].cache_hits == 2


def test_nothing_is_asked_with_skip_judging_and_what_is_missing_is_counted(tmp_path: Path) -> None:
    forward(judging_plan(1), make_judge(tmp_path, prefers("otter"), orders="forward"))
    judged = forward(judging_plan(3), make_judge(tmp_path, prefers("otter"), orders="forward"), skip_judging=True)
    assert [judgment.status for judgment in judged.judgments["clarity"]] == ["ok", "failed", "failed"]
    assert (judged.stats["clarity"].missing, judged.stats["clarity"].cache_hits) == (2, 1)


def test_batches_prewarm_and_canaries_hear_one_order_too(tmp_path: Path) -> None:
    provider = ScriptedBatchProvider(prefers("otter"))
    cases = judging_plan(2, canaries=canary_cases(["clarity"]))
    judged = forward(cases, make_judge(tmp_path, provider, orders="forward"), prewarm=True)
    assert [len(batch.requests) for batch in provider._batches.values()] == [1, 2 + 8 - 1]
    assert {len(judgment.raw) for judgment in judged.canaries["clarity"]} == {1}
    assert len(list(make_judge(tmp_path / "new", provider, orders="forward").pending(judging_plan(5)))) == 5


def test_an_unknown_word_for_orders_is_an_error() -> None:
    with pytest.raises(OptionError, match="orders of the judge is 'swapped'"):
        JudgeSettings(model="m", orders="swapped")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["anthropic/some-model", "openai/some-model", "local/some-model"])
def test_a_judge_by_name_hears_one_order_over_http(tmp_path: Path, name: str) -> None:
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
    (tmp_path / ".env").write_text("".join(f"{key}=sk-planted-0123456789\n" for key in keys))
    with FakeServer() as server:
        server.behaviour.judge = lambda system, user: "Clear.\nVERDICT: B"
        asking = AskingParts(prices=PRICES, settings=AskingSettings(batch=False))
        url = server.anthropic_url if name.startswith("anthropic") else server.openai_url

        async def work() -> Any:
            settings = JudgeSettings(model=name, orders="forward")
            one = judge_by_name(settings, folder=tmp_path, asking=asking, base_url=url, look_in=(tmp_path,))
            async with aclosing(one):
                return await judge(judging_plan(4), one, single_order=True)

        judged = asyncio.run(work())
        assert winners(judged) == ["heron"] * 4
        assert len(server.ledger.accepted) == 4
