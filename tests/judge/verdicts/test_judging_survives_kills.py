"""A judging run killed anywhere and started again ends as if nothing had happened, and sends nothing twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.forked import Forked, script
from tests.judge.verdicts.cases import judging_plan, make_judge, prefers, shown
from tiltyard.judge.llm import JOURNAL_FILE, Reply, Request
from tiltyard.judge.llm.providers.scripted import ScriptedBatchProvider
from tiltyard.judge.verdicts import judge
from tiltyard.judge.verdicts.cache import cache_path

RUN = """
import asyncio, hashlib, json, sys
from pathlib import Path

import msgspec

from tests.judge.verdicts.cases import NOON, judging_plan, make_judge, shown
from tiltyard.judge.verdicts import canary_cases, judge
from tiltyard.judge.llm.providers.scripted import ScriptedBatchProvider
from tiltyard.judge.llm.provider import Reply, Stop

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


@pytest.mark.parametrize("again", [False, True], ids=["answered", "asked again"])
def test_verdicts_are_on_the_disk_before_their_batch_is_recorded_as_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """A power cut in between would lose what was paid for: nobody collects that batch again."""
    synced: dict[int, int] = {}
    safe: list[bool] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        file = os.fstat(descriptor)
        synced[file.st_ino] = file.st_size
        journal, cache = tmp_path / JOURNAL_FILE, cache_path(tmp_path, "clarity")
        if journal.exists() and file.st_ino == journal.stat().st_ino and b'"collected"' in journal.read_bytes():
            found = cache.stat()
            safe.append(synced.get(found.st_ino) == found.st_size and tmp_path.stat().st_ino in synced)

    def answer(request: Request) -> Reply | str:
        return "It depends." if again and shown(request)[0] == "otter" else prefers("otter")(request)

    monkeypatch.setattr(os, "fsync", fsync)
    judge_ = make_judge(tmp_path, ScriptedBatchProvider(answer), max_attempts=2)
    asyncio.run(judge(judging_plan(20), judge_))
    assert safe
    assert all(safe)
