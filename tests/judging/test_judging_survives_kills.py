"""A judging run killed anywhere and started again ends as if nothing had happened, and sends nothing twice."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from tests.forked import Forked, script

RUN = """
import asyncio, hashlib, json, sys
from pathlib import Path

import msgspec

from tests.judging.cases import NOON, judging_plan, make_judge, shown
from tiltyard.judging import canary_cases, judge
from tiltyard.llm.providers.scripted import ScriptedBatchProvider
from tiltyard.llm.provider import Reply, Stop

folder = Path(sys.argv[1])


def answer(request):
    fate = hashlib.sha256(request.user.encode()).digest()[0] % 8
    if fate == 0:
        return "It depends."
    if fate == 1 and request.max_tokens < 400:
        return Reply(text="Let me think", stop=Stop.LENGTH)
    if fate == 2:
        return Reply(error="errored: invalid_request_error", final=True)
    return f"Because.\\n\\nVERDICT: {'A' if shown(request)[0] > shown(request)[1] else 'B'}"


provider = ScriptedBatchProvider(answer, folder=folder / "provider", polls=2, clock=lambda: NOON)
cases = judging_plan(12, ("clarity", "brevity"), canaries=canary_cases(["clarity"]))
print("begin", flush=True)
judged = asyncio.run(judge(cases, make_judge(folder / "cache", provider), prewarm=True))
groups = [*judged.judgments.values(), *judged.canaries.values()]
found = [msgspec.to_builtins(judgment) for group in groups for judgment in group]
for judgment in found:
    for verdict in judgment["raw"]:
        del verdict["timestamp"]
(folder / "judged.json").write_text(json.dumps(found))
(folder / "asked.json").write_text(json.dumps(dict(provider.asked), sort_keys=True))
"""


def start(folder: Path) -> Forked:
    folder.mkdir(exist_ok=True)
    return Forked(folder, "streams", script, RUN, str(folder), pipe=True)


def end_or_kill(process: Forked, seconds: float) -> bool:
    """Kill a run after so many seconds of work; whether it was killed before it ended."""
    assert process.stdout is not None
    assert process.stdout.readline() == "begin\n"
    try:
        assert process.wait(seconds).returncode == 0
    except subprocess.TimeoutExpired:
        return process.kill()
    return False


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.soak)])
def test_kill_and_resume_ends_like_an_undisturbed_run(tmp_path: Path, kills: int) -> None:
    undisturbed = tmp_path / "undisturbed"
    assert not end_or_kill(start(undisturbed), 60)
    rng = random.Random(kills)
    done = runs = 0
    while done < kills:
        folder = tmp_path / f"run{runs}"
        for _ in range(rng.randint(1, 6)):
            done += end_or_kill(start(folder), rng.uniform(0.0, 0.08))
        assert not end_or_kill(start(folder), 60)
        assert (folder / "judged.json").read_text() == (undisturbed / "judged.json").read_text()
        asked, expected = (json.loads((place / "asked.json").read_text()) for place in (folder, undisturbed))
        assert asked == expected
        runs += 1
