"""Have two answers judged in both orders, without a key: the judge is a small function.

A real judge is made with `tiltyard.judge.llm.providers.make_provider("claude-…")` and stands for `ScriptedProvider`;
nothing else changes. Verdicts are kept in a folder, so a second run asks nothing.

Run it: python examples/judge_a_pair.py
"""

import asyncio
import tempfile
from pathlib import Path

from tiltyard.data.bank import Prompt
from tiltyard.judge.llm import AskingParts, PriceTable
from tiltyard.judge.llm.providers.scripted import ScriptedProvider
from tiltyard.judge.verdicts import Case, JudgeSettings, JudgingPlan, LanguageModelJudge, Matchup, default_rubric, judge

PROMPT = Prompt(prompt_id="tides", text="Why are there tides?")
ANSWERS = {
    "otter": "The Moon pulls more strongly on the near side of the Earth than on the far side.",
    "heron": "Because of the wind.",
}


def fair(request):
    """Prefers the answer that names the Moon, wherever it stands."""
    first = request.user.index("The Moon") < request.user.index("the wind")
    return f"One of them names the cause.\n\nVERDICT: {'A' if first else 'B'}"


def lazy(_request):
    """Says A, whatever it is shown."""
    return "The first looks fine.\n\nVERDICT: A"


async def ask(name, says, folder):
    """Judge the one pair and say what came of it."""
    rubric = default_rubric()
    matchup = Matchup(prompt_id="tides", dimension=rubric.dimension, entrant_a="otter", entrant_b="heron")
    plan = JudgingPlan({rubric.dimension: rubric}, {rubric.dimension: [Case(matchup, PROMPT, *ANSWERS.values())]})
    chosen = LanguageModelJudge(
        ScriptedProvider(says), JudgeSettings(model=name), folder=folder, asking=AskingParts(prices=PriceTable.load())
    )
    judged = await judge(plan, chosen)
    (judgment,) = judged.judgments[rubric.dimension]
    stats = judged.stats[rubric.dimension]
    winner = "inconsistent" if judgment.inconsistent else judgment.winner or "tie"
    print(f"{name}: {winner} ({stats.fresh_calls} asked, {stats.cache_hits} from the cache)")
    return winner


def main() -> None:
    """A fair judge, the same again, and one that only likes the first slot."""
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        assert asyncio.run(ask("fair-judge", fair, folder)) == "otter"
        assert asyncio.run(ask("fair-judge", fair, folder)) == "otter"  # nothing is asked twice
        assert asyncio.run(ask("lazy-judge", lazy, folder)) == "inconsistent"  # both orders found it out


if __name__ == "__main__":
    main()
