"""What the tests of judging share: small cases, a scripted judge, and verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiltyard.data.bank import Prompt
from tiltyard.judge.llm import AskingParts, AskingSettings, Price, PriceTable, Reply, Request
from tiltyard.judge.llm.providers.scripted import ScriptedProvider
from tiltyard.judge.verdicts import (
    Case,
    JudgeSettings,
    JudgingPlan,
    LanguageModelJudge,
    Matchup,
    Rubric,
    Verdict,
    VerdictLabel,
)

NOON = 1_790_000_000.0
RUBRIC = Rubric("clarity", "7", "Prefer the clearer answer.")
PRICES = PriceTable({"judge-1": Price(input=1.0, output=10.0, cache_write_1h=2.0, cache_read=0.1)}, "2026-01-01")


def case(prompt_id: str = "p1", dimension: str = "clarity", a: str = "otter", b: str = "heron") -> Case:
    prompt = Prompt(prompt_id=prompt_id, text=f"Question {prompt_id}?", source="test")
    matchup = Matchup(prompt_id=prompt_id, dimension=dimension, entrant_a=a, entrant_b=b)
    return Case(matchup, prompt, f"{a} answers {prompt_id}", f"{b} answers {prompt_id}")


def judging_plan(count: int = 2, dimensions: tuple[str, ...] = ("clarity",), **changes: Any) -> JudgingPlan:
    rubrics = {name: Rubric(name, "7", f"Judge {name}.") for name in dimensions}
    cases = {name: [case(f"p{number}", name) for number in range(1, count + 1)] for name in dimensions}
    return JudgingPlan(rubrics, cases, **changes)


def verdict(key: str = "k", said: VerdictLabel = VerdictLabel.A, *, swapped: bool = False, **changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "cache_key": key,
        "rubric_version": "7",
        "judge_model": "scripted/judge-1",
        "position_swap": swapped,
        "verdict": said,
        "reasoning": f"VERDICT: {said.value}",
        "timestamp": "2026-01-01T00:00:00+00:00",
    }
    return Verdict(**fields | changes)


def shown(request: Request) -> tuple[str, str]:
    """The two answers of a request, as shown."""
    found = re.findall(r"\[ANSWER ([AB]) (\w+)\]\n(.*?)\n\[END ANSWER \1 \2\]", request.user, re.DOTALL)
    return found[0][2], found[1][2]


def prefers(entrant: str) -> Callable[[Request], Reply | str]:
    """A judge that prefers the answers of one entrant, wherever they are shown, and says tie where it sees none."""

    def answer(request: Request) -> str:
        first, second = shown(request)
        word = "A" if first.startswith(entrant) else "B" if second.startswith(entrant) else "TIE"
        return f"It is better.\n\nVERDICT: {word}"

    return answer


def make_judge(
    folder: Path, answer: Callable[[Request], Reply | str] | ScriptedProvider, **changes: Any
) -> LanguageModelJudge:
    """A judge over a scripted provider that waits for nothing: its clock goes on where it would have slept."""
    clock = [NOON]

    async def sleep(seconds: float) -> None:
        clock[0] += max(seconds, 1.0)

    provider = answer if isinstance(answer, ScriptedProvider) else ScriptedProvider(answer)
    settings = JudgeSettings(**{"model": "judge-1", "max_tokens": 100} | changes)
    asking = AskingParts(
        prices=PRICES,
        settings=AskingSettings(concurrency=4, poll_initial_seconds=0, poll_max_seconds=0),
        now=lambda: clock[0],
        sleep=sleep,
    )
    return LanguageModelJudge(provider, settings, folder=folder, asking=asking)
