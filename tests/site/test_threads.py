"""Threads of the site that fail say so and go on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.arena.engines import open_arena
from tests.forked import PATIENCE_SECONDS
from tests.processes import wait_until
from tests.site.holding import held
from tests.site.sites import QUICK, SCRAPER, SmallSite, catalog, vote_once
from tiltyard.arena import Arena, Choice, ThreadHealth
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.study import Observatory, VotePart, parts
from tiltyard.arena.writing import commands


class Fails:
    """Stands for a function: fails so many times, then does what it should."""

    def __init__(self, function: Callable[..., Any], times: int, error: BaseException) -> None:
        self._function = function
        self.left = times
        self._error = error

    def __call__(self, *arguments: Any) -> Any:
        if self.left:
            self.left -= 1
            raise self._error
        return self._function(*arguments)


@pytest.mark.parametrize("error", [ValueError("bad luck"), SystemExit(3)])
def test_the_thread_that_follows_the_log_outlives_any_failure(
    sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    with Observatory(sqlite_site.url, pace=QUICK) as observatory:
        fails = Fails(observatory._catch_up, 1_000_000, error)
        monkeypatch.setattr(observatory, "_catch_up", fails)
        wait_until(lambda: observatory.failures[0].total >= 2)
        assert observatory.trouble == str(error)
        seq = observatory.snapshot.seq
        vote_once(sqlite_site.client())
        fails.left = 0
        wait_until(lambda: observatory.snapshot.seq >= seq + 2 and observatory.trouble is None)


def test_the_thread_of_slow_studies_outlives_any_failure(
    sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Observatory(sqlite_site.url, pace=QUICK) as observatory:
        vote_once(sqlite_site.client())
        wait_until(lambda: observatory.snapshot.study.categories.get("sums"))
        observatory.part(VotePart(category="sums"))
        fails = Fails(parts.part_board, 2, KeyError("lost"))
        monkeypatch.setattr(parts, "part_board", fails)
        vote_once(sqlite_site.client())
        wait_until(lambda: observatory.failures[1].total == 2)
        wait_until(lambda: observatory._parts._kept[VotePart(category="sums")][0] == observatory.snapshot.study.seq)
        wait_until(lambda: observatory.trouble is None)
        assert observatory.failures[1].total == 2, "it failed as often as it was made to, and went on"


def test_health_and_figures_name_a_thread_that_fails(sqlite_site: SmallSite) -> None:
    client, failures = sqlite_site.client(), sqlite_site.observatory.failures[0]
    failures.note(ValueError("the secret words of a driver"))
    answer = client.get("/healthz")
    assert answer.status_code == 200, "votes can be taken all the same"
    assert answer.json()["trouble"] == ["thread that follows the log"]
    assert "secret words" not in answer.text
    assert 'thread="thread that follows the log"} 1' in client.get("/metrics", headers=SCRAPER).text
    failures.clear()
    assert client.get("/healthz").json()["trouble"] == []


@pytest.mark.parametrize("error", [ValueError("bad luck"), SystemExit(3)])
def test_the_writer_outlives_a_failure_between_requests(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    with Arena.open(sqlite_url) as arena:
        arena.append(catalog())
        fails = Fails(arena._idle, 1_000_000, error)
        monkeypatch.setattr(arena, "_idle", fails)
        wait_until(lambda: arena.failures.total >= 2)
        served = arena.serve("ann")
        fails.left = 0
        arena.vote(served.matchup_id, "ann", Choice.A)
        wait_until(lambda: arena.failures.trouble is None)
    assert verify(sqlite_url).clean


@pytest.mark.parametrize("error", [ValueError("bad luck"), SystemExit(3)])
def test_a_request_that_fails_in_the_writer_fails_alone(arena_url: str, error: BaseException) -> None:
    class BreaksDown(commands.SkipMatchup):
        def decide(self, *_: object) -> Any:
            raise error

    with open_arena(arena_url) as arena:
        arena.append(catalog())
        first, second = arena.serve("ann"), arena.serve("bob")
        with held(arena):
            wrong = arena.submit(BreaksDown(first.matchup_id, "ann"))
            right = arena.submit(commands.SubmitVote(second.matchup_id, "bob", Choice.B))
        assert right.result(PATIENCE_SECONDS).choice is Choice.B
        with pytest.raises((ValueError, RuntimeError)):
            wrong.result(PATIENCE_SECONDS)
        assert arena.vote(first.matchup_id, "ann", Choice.A).choice is Choice.A
        assert arena.read(lambda state: int(state.tallies.wins.view.sum())) == 2
    assert verify(arena_url).clean


def test_a_mailbox_that_breaks_does_not_keep_others_from_their_answers(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Torn:
        def take(self, done: object) -> None:
            raise OSError("torn")

    with Arena.open(sqlite_url) as arena:
        arena.append(catalog())
        with held(arena):
            arena.post(commands.ServeMatchup("ann"), Torn())
            served = arena.submit(commands.ServeMatchup("bob"))
        assert served.result(PATIENCE_SECONDS).matchup_id
    assert "could not be handed back" in caplog.text


def test_the_same_failure_again_and_again_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    failures = ThreadHealth("thread of a test")
    for _ in range(1000):
        failures.note(ValueError("always this"))
    assert failures.total == 1000
    assert 1 <= len(caplog.records) <= 10
    assert failures.pause_seconds(1.0) == 30.0
    failures.clear()
    assert failures.pause_seconds(1.0) == 1.0
