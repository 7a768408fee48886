"""`kill -9` of a placement at any moment costs next to nothing: the same command goes on to the same ratings.

The server lives in the process of the test and outlives every run. Asked directly, a killed run asks again at most what
was on its way; asked in batches, nothing is paid for twice.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeServer
from tests.fakes.behaviour import always_succeeded
from tests.forked import Forked, command
from tests.judge.placement.arena_files import write_arena
from tests.judge.placement.conftest import answer_or_judge, read_json

CONCURRENCY = 16
BATTLES = 40
QUERIES = BATTLES + 2 * BATTLES
KEY = "sk-test-0123456789abcdef"
OPTIONS = ("--min-opponent-battles", "20", "--n-battles", str(BATTLES), "--bootstraps", "20", "--yes")
RATED = ("elo_ratings.json", "battles.jsonl", "panel.json", "texts.jsonl", "leaderboard.txt")
WRITTEN = ("panel.json", "verdicts.jsonl", "battles.jsonl", "usage.json", "elo_ratings.json")

ANSWERING, JUDGING, BETWEEN, WRITING, SUBMITTING, POLLING, ANYWHERE = (
    "while answers are generated",
    "while battles are judged",
    "between two rounds",
    "while the folder is written",
    "between a batch's acceptance and the word of it",
    "while a batch is waited for",
    "anywhere",
)
DIRECT = (ANSWERING, JUDGING, BETWEEN, WRITING)
IN_BATCHES = (SUBMITTING, POLLING, ANSWERING, JUDGING, BETWEEN, WRITING)


def place_in_batches(arena: str, model: str, judge: str) -> None:
    """`tiltyard place … --batch`, with less patience for the provider than a user should have."""
    from tiltyard.cli.output import note
    from tiltyard.judge.llm import AskingParts, AskingSettings
    from tiltyard.judge.placement import (
        Participants,
        make_answers,
        make_judge,
        make_plan,
        name_of,
        run_folder,
        run_placement,
        with_judge,
    )
    from tiltyard.judge.verdicts import utc_now
    from tiltyard.options import PlaceOptions
    from tiltyard.reports import write_report

    options = PlaceOptions(
        arena=(Path(arena),), model=model, judge=judge, n_battles=BATTLES, bootstraps=20, min_opponent_battles=20
    )
    hasty = {"poll_initial_seconds": 0.01, "poll_max_seconds": 0.03, "adoption_grace_seconds": 1.0}
    asking = AskingParts.for_command(AskingSettings(batch=True, batch_floor=0, **hasty), note)
    name, known = name_of(options)
    judging = make_judge(options, asking)
    plan = with_judge(make_plan(options, name, known), judging.name)
    participants = Participants(
        judging, make_answers(plan, known, asking), on_round=lambda result: note(f"round {result.round}:")
    )
    folder = run_folder(plan, utc_now)
    asyncio.run(run_placement(plan, participants, folder, prices=asking.prices))
    write_report(folder)


class Site:
    """One placement with its folder and its server."""

    def __init__(self, root: Path, server: FakeServer, *, batch: bool) -> None:
        self.root = root
        self.server = server
        self.batch = batch
        self.kills = 0
        self._numbers = count(1)
        root.mkdir(parents=True)
        write_arena(root / "arena.jsonl", models=[f"m{number}" for number in range(8)], rows=300)
        (root / ".env").write_text(f"ANTHROPIC_API_KEY={KEY}\nANTHROPIC_BASE_URL={server.anthropic_url}\n")
        server.reset()
        server.behaviour.judge = answer_or_judge
        server.behaviour.batch_polls = 2
        server.behaviour.cache_minimum_tokens = 10**9

    def start(self) -> Forked:
        """Start the run, or go on with it: it is the same command."""
        name = f"streams-{next(self._numbers)}"
        if self.batch:
            models = ("anthropic/claude-test-1", "anthropic/claude-test-2")
            return Forked(self.root, name, place_in_batches, "arena.jsonl", *models)
        asked = ("--model", "local/newcomer", "--judge", "local/umpire", "--base-url", self.server.openai_url)
        return Forked(self.root, name, command, "place", "--arena", "arena.jsonl", *asked, *OPTIONS)

    def finish(self) -> None:
        """Go on until it is done."""
        done = self.start().wait()
        assert done.returncode == 0, done.stderr

    def kill(self, moment: str, rng: random.Random, seconds: float) -> bool:
        """Start the run and kill it at a moment; False when it came to its end before."""
        forked = self.start()
        with self._armed(moment, forked, rng, seconds) as reached:
            while forked.running and not reached():
                time.sleep(0.0005)
            killed = forked.kill() or forked.process.exitcode == -9
        if not killed:
            assert forked.process.exitcode == 0, forked.wait().stderr
        self.kills += killed
        return killed

    @contextmanager
    def _armed(self, moment: str, forked: Forked, rng: random.Random, seconds: float) -> Iterator[Callable[[], bool]]:
        behaviour, calls, pid = self.server.behaviour, self.server.ledger.calls, forked.process.pid
        assert pid is not None
        left = count(rng.randrange(1, 9), -1)

        def strike() -> None:
            if next(left) == 0:
                os.kill(pid, signal.SIGKILL)

        def answer(system: str, user: str) -> str:
            if ("[ANSWER A " in user) == (moment == JUDGING):
                strike()
            return answer_or_judge(system, user)

        def outcome(custom_id: str, body: dict[str, Any], accepted_before: int) -> str:
            strike()
            return always_succeeded(custom_id, body, accepted_before)

        reached: Callable[[], bool] = lambda: False  # noqa: E731
        if moment in (ANSWERING, JUDGING):
            behaviour.judge = answer
        elif moment == SUBMITTING:
            behaviour.outcome = outcome
        elif moment == POLLING:
            goal = calls["state"] + rng.randrange(1, 6)
            reached = lambda: calls["state"] >= goal  # noqa: E731
        elif moment == BETWEEN:
            word = f"round {rng.randrange(1, 3)}:"
            reached = lambda: word in _said(forked)  # noqa: E731
        elif moment == WRITING:
            name, before = rng.choice(WRITTEN), set(self.folders())
            reached = lambda: any((new / name).exists() for new in set(self.folders()) - before)  # noqa: E731
        else:
            until = time.monotonic() + rng.uniform(0.0, seconds)
            reached = lambda: time.monotonic() >= until  # noqa: E731
        try:
            yield reached
        finally:
            behaviour.judge, behaviour.outcome = answer_or_judge, always_succeeded

    def folders(self) -> list[Path]:
        """The folders of all runs so far, finished or not, in order."""
        return sorted((self.root / "placements").glob("*"), key=lambda path: path.stat().st_mtime_ns)

    def rated(self) -> dict[str, bytes]:
        """The files of the run that came to its end that say where the model stands, and on what."""
        finished = [folder for folder in self.folders() if _finished(folder)]
        assert finished
        every = [{name: (folder / name).read_bytes() for name in RATED} for folder in finished]
        assert all(one == every[0] for one in every)
        return every[0]

    def paid_twice(self) -> tuple[int, int]:
        """How often a question was asked again although there was an answer: in batches, and directly."""
        accepted = [one for one in self.server.ledger.accepted if one.outcome == "succeeded"]
        in_batches = Counter(one.content for one in accepted if one.batch_id is not None)
        again = sum(in_batches.values()) - len(in_batches)
        return again, len(accepted) - len({one.content for one in accepted}) - again


def _said(forked: Forked) -> str:
    path = forked.streams[1]
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _finished(folder: Path) -> bool:
    manifest = folder / "manifest.json"
    return manifest.exists() and read_json(manifest)["finished_at"] is not None


References = dict[bool, tuple[dict[str, bytes], float]]


@pytest.fixture(scope="module")
def references() -> References:
    """What undisturbed runs come to, and how long they took; by whether they ask in batches."""
    return {}


def undisturbed(
    references: References, root: Path, server: FakeServer, *, batch: bool
) -> tuple[dict[str, bytes], float]:
    if batch not in references:
        site = Site(root / f"undisturbed-{batch}", server, batch=batch)
        Forked(site.root, "streams-0", command, "--version").wait()  # the first fork of a session takes seconds
        began = time.monotonic()
        site.finish()
        references[batch] = site.rated(), time.monotonic() - began
        assert len(server.ledger.accepted) == QUERIES
        assert bool(server.ledger.batches) == batch
    return references[batch]


def check(site: Site, wanted: dict[str, bytes]) -> None:
    assert site.rated() == wanted
    assert len({one.content for one in site.server.ledger.accepted}) == QUERIES
    in_batches, directly = site.paid_twice()
    assert in_batches == 0
    assert directly <= CONCURRENCY * site.kills


@pytest.mark.parametrize("batch", [False, True], ids=["direct", "batches"])
def test_a_killed_placement_ends_with_the_ratings_of_one_that_was_not(
    references: References, tmp_path: Path, server: FakeServer, batch: bool
) -> None:
    wanted, seconds = undisturbed(references, tmp_path, server, batch=batch)
    site, rng = Site(tmp_path / "site", server, batch=batch), random.Random(1)
    if batch:
        assert site.kill(SUBMITTING, rng, seconds)  # the other moments: in soak
    else:
        answered = interrupted(site, JUDGING)
        assert site.kill(JUDGING, rng, seconds)
        refused(tmp_path, site.folders()[-1])
        any(site.kill(WRITING, rng, seconds) for _ in range(5))  # on a busy machine it may pass unseen
    site.finish()
    check(site, wanted)
    if not batch:
        asked = Counter(one.content for one in server.ledger.accepted)
        assert {asked[content] for content in answered} == {1}, "an interrupt loses nothing that was answered"


def refused(tmp_path: Path, folder: Path) -> None:
    """The folder of a run that was killed is refused in one line."""
    assert not _finished(folder)
    for words in (("place", "--recompute", str(folder)), ("report", str(folder))):
        done = Forked(tmp_path, f"streams-{words[0]}", command, *words).wait()
        assert done.returncode == 1
        assert done.stderr.startswith("tiltyard: ")
        assert len(done.stderr.strip().splitlines()) == 1


def interrupted(site: Site, moment: str) -> set[str]:
    """Start a run and interrupt it, which is one line; the questions that were answered until then."""
    server = site.server
    server.behaviour.latency_seconds = 0.02
    forked = site.start()
    goal = 3 if moment == ANSWERING else 10 + 7  # ten answers, then the first round's verdicts
    while len(server.ledger.accepted) < goal:
        assert forked.running, forked.wait().stderr
        time.sleep(0.001)
    assert forked.process.pid is not None
    os.kill(forked.process.pid, signal.SIGINT)
    done = forked.wait()
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("tiltyard: ")]
    again = "the same command continues where it stopped, and asks nothing twice."
    assert line == f"tiltyard: interrupted. Nothing is lost: {again}"
    server.behaviour.latency_seconds = 0.0
    return {one.content for one in server.ledger.accepted}


@pytest.mark.soak
@pytest.mark.parametrize("moment", [ANSWERING, JUDGING])
def test_an_interrupt_is_one_line_and_the_same_command_goes_on(
    references: References, tmp_path: Path, server: FakeServer, moment: str
) -> None:
    """In every run: an interrupt before the kills of test_a_killed_placement_ends_with_the_ratings_…[direct]."""
    wanted, _ = undisturbed(references, tmp_path, server, batch=False)
    site = Site(tmp_path / "site", server, batch=False)
    interrupted(site, moment)
    site.finish()
    check(site, wanted)
    assert site.paid_twice() == (0, 0)


@pytest.mark.soak
@pytest.mark.parametrize("batch", [False, True], ids=["direct", "batches"])
def test_many_kills_cost_next_to_nothing(
    references: References, tmp_path: Path, server: FakeServer, batch: bool
) -> None:
    struck: Counter[str] = Counter()
    again = 0
    for number in range(12):
        wanted, seconds = undisturbed(references, tmp_path, server, batch=batch)
        site, rng = Site(tmp_path / f"site-{number}", server, batch=batch), random.Random(100 + number)
        moments = [ANYWHERE, ANYWHERE, *(IN_BATCHES if batch else DIRECT)]
        if number % 3 == 2:  # else in the order in which a run comes to them, so that all of them come about
            rng.shuffle(moments)
        struck.update(moment for moment in moments if site.kill(moment, rng, seconds))
        site.finish()
        check(site, wanted)
        again += sum(site.paid_twice())
    print(f"kills: {struck.total()}, asked again: {again}; {dict(struck)}")  # noqa: T201 (pytest -s shows it)
    assert struck.total() >= 30  # of 60 planned: on a busy machine some moments pass unseen
