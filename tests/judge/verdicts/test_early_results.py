"""A dimension is settled as soon as its own questions are answered, while others are still open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.judge.verdicts.cases import judging_plan, make_judge, prefers
from tiltyard.judge.llm import Reply, Request
from tiltyard.judge.llm.provider import BatchState
from tiltyard.judge.llm.providers.scripted import ScriptedBatchProvider, ScriptedProvider
from tiltyard.judge.verdicts import JudgingResult, Judgment, VerdictLabel, judge

TWO = ("clarity", "brevity")


def dimension_of(request: Request) -> str:
    return next(name for name in TWO if f"dimension: {name}" in request.system)


class Announced:
    """What was announced, and what had been asked by then."""

    def __init__(self, asked: Sequence[str] = ()) -> None:
        self._asked = asked
        self.found: list[tuple[str, list[str | None], list[str]]] = []

    def __call__(self, dimension: str, judgments: Sequence[Judgment]) -> None:
        self.found.append((dimension, [judgment.winner for judgment in judgments], list(self._asked)))

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.found]


def run(folder: Path, provider: object, announced: Announced, pairs: int = 6, **terms: object) -> JudgingResult:
    given = make_judge(folder, provider)  # type: ignore[arg-type]
    return asyncio.run(judge(judging_plan(pairs, TWO), given, on_settled=announced, **terms))  # type: ignore[arg-type]


def test_direct_calls_go_dimension_by_dimension(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: Request) -> Reply | str:
        asked.append(dimension_of(request))
        return prefers("otter")(request)

    announced = Announced(asked)
    judged = run(tmp_path, ScriptedProvider(answer), announced, prewarm=True)
    assert asked[:2] == ["clarity", "brevity"]  # one of each goes ahead
    assert asked[2:] == ["clarity"] * 11 + ["brevity"] * 11
    assert announced.found == [("clarity", ["otter"] * 6, asked[:13])]  # the last one ends with the run
    assert [judgment.winner for judgment in judged.judgments["brevity"]] == ["otter"] * 6


class OneAfterTheOther(ScriptedBatchProvider):
    """Batches that end in the order in which they were sent, one at each round of looking."""

    def __init__(self) -> None:
        super().__init__(prefers("otter"))
        self.collected: list[str] = []
        self.sent: list[str] = []
        self._looked = 0

    async def submit(self, requests: Sequence[tuple[str, Request]], tag: str) -> str:
        batch = await super().submit(requests, tag)
        self.sent.append(batch)
        return batch

    async def state(self, batch_id: str) -> BatchState:
        self._looked += 1
        state = await super().state(batch_id)
        ended = self.sent.index(batch_id) < self._looked / len(self.sent)
        if ended:
            self.collected.append(batch_id)
        return BatchState(batch_id, ended, state.created_at)


def test_batches_of_all_dimensions_go_out_together_and_each_settles_when_it_ends(tmp_path: Path) -> None:
    provider = OneAfterTheOther()
    announced = Announced(provider.collected)
    run(tmp_path, provider, announced)
    systems = [{dimension_of(request) for _, request in provider._batches[batch].requests} for batch in provider.sent]
    assert systems == [{"clarity"}, {"brevity"}]
    assert announced.found == [("clarity", ["otter"] * 6, provider.sent[:1])]  # the other one was still open
    assert provider.collected == provider.sent


def test_a_dimension_that_is_cached_is_announced_before_anything_is_asked(tmp_path: Path) -> None:
    first = make_judge(tmp_path, prefers("heron"))
    asyncio.run(judge(judging_plan(6, ("brevity",)), first))
    announced = Announced()
    provider = ScriptedProvider(prefers("otter"))
    run(tmp_path, provider, announced)
    assert announced.names == ["brevity"]
    nothing_left = Announced()
    run(tmp_path, provider, nothing_left)
    assert nothing_left.names == []
    run(tmp_path, provider, nothing_left, pairs=8, skip_judging=True)
    assert nothing_left.names == []


def test_a_question_that_fails_for_good_does_not_hold_its_dimension_back(tmp_path: Path) -> None:
    def answer(request: Request) -> Reply | str:
        unclear = dimension_of(request) == "clarity" and "p3" in request.user
        return "who knows" if unclear else prefers("otter")(request)

    announced = Announced()
    judged = run(tmp_path, ScriptedProvider(answer), announced)
    assert announced.names == ["clarity"]
    failed = [judgment for judgment in judged.judgments["clarity"] if judgment.status == "failed"]
    assert {verdict.verdict for judgment in failed for verdict in judgment.raw} == {VerdictLabel.UNPARSED}
    assert judged.stats["clarity"].failures == {"unparsed": 2}
