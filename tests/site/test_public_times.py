"""Whoever polls everything public learns no more of when a vote was cast than the hour."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from starlette.testclient import TestClient

from tests.records import replace
from tests.site.attackers import Clock
from tests.site.sites import MODELS, QUICK, SECRET, SmallSite, catalog
from tiltyard.arena import HOUR, SECOND, Arena
from tiltyard.arena import events as e
from tiltyard.arena.store import Store
from tiltyard.arena.study import Observatory
from tiltyard.site.app import create_app
from tiltyard.site.guard import PERSONAL
from tiltyard.site.settings import SiteSettings

NAMED = {"model:path": MODELS[0], "name:path": MODELS[0], "week": "2026-W07"}
"""What stands for the variable part of an address; a route with another one has to be thought of here."""


@dataclass
class Timed:
    site: SmallSite
    clock: Clock

    def follows(self) -> None:
        """What the site's thread does again and again."""
        self.site.observatory._follow_once()

    def to(self, hour: int, seconds: float) -> None:
        self.clock.at = (self.clock.at // HOUR + hour) * HOUR + int(seconds * SECOND)


@contextmanager
def timed(url: str) -> Iterator[Timed]:
    """A site that publishes by the hour, and its clock, which moves by itself but little."""
    clock = Clock()
    clock.at = (clock.at // HOUR) * HOUR
    settings = SiteSettings(db=url, title="Test arena", secret=SECRET, rate_limit=False)
    with Arena(Store.open(url), now=clock, idle_seconds=3600) as arena:
        arena.append([*catalog(), e.PhaseChanged(phase=4)])
        observatory = Observatory(url, now=clock, pace=replace(QUICK, publish_seconds=None))
        observatory.refresh()
        app = create_app(settings, arena, observatory)
        try:
            with TestClient(app) as running:
                yield Timed(SmallSite(url, arena, observatory, settings, app, running.portal), clock)
        finally:
            observatory.close()


def addresses(site: SmallSite) -> list[str]:
    """Every address of the site that is not one visitor's own, by its routes."""
    found = []
    for route in site.app.routes:
        path, methods = str(getattr(route, "path", "")), getattr(route, "methods", set())
        if "GET" not in methods or PERSONAL.match(path) or path.startswith("/static/"):
            continue
        path = {"/share/models/{name:path}": f"/share/models/{MODELS[0]}.png"}.get(path, path)
        found.append(re.sub(r"\{([^}]+)\}", lambda part: NAMED[part[1]], path))
    queries = ("/leaderboard?category=sums", f"/compare?a={MODELS[0]}&b={MODELS[1]}", "/leaderboard.json?view=style")
    return [*found, *queries, "/api/v1/battles.jsonl?since=2026-09-21"]


def public(timed: Timed) -> dict[str, tuple[object, ...]]:
    """All that a stranger is sent: status, headers and bytes, but for the token of the form that starts."""
    timed.follows()
    reader = timed.site.client()
    answers = {address: reader.get(address) for address in addresses(timed.site)}
    return {
        address: (answer.status_code, sorted(answer.headers.items()), re.sub(r'"token" value="[^"]*', "", answer.text))
        for address, answer in answers.items()
    }


def changed(before: dict[str, tuple[object, ...]], after: dict[str, tuple[object, ...]]) -> set[str]:
    return {address for address, answer in after.items() if answer != before[address]}


def test_within_an_hour_no_byte_of_anything_public_changes_while_people_vote(sqlite_url: str) -> None:
    with timed(sqlite_url) as site:
        arena = site.site.arena
        before = public(site)
        assert len(before) > 35
        assert [address for address, answer in before.items() if answer[0] == 200] > ["/"] * 30
        for number in range(6):
            site.to(0, 500 * (number + 1))
            shown = arena.serve(f"v{number}").matchup_id
            assert changed(before, public(site)) == set()
            arena.vote(shown, f"v{number}", e.Choice.A, reveal=number % 2 == 0)
            if number == 1:
                arena.undo(shown, "v1")
            if number == 2:
                arena.skip(arena.serve("v2").matchup_id, "v2")
            site.clock.at += SECOND // 20
            assert changed(before, public(site)) == set(), number
        site.to(0, 3598)
        late = arena.serve("late").matchup_id
        arena.vote(late, "late", e.Choice.B, reveal=False)
        site.to(1, 2)
        assert changed(before, public(site)) == set(), "a vote of that hour can still be undone"
        arena.undo(late, "late")
        arena.vote(arena.serve("next").matchup_id, "next", e.Choice.B)
        site.to(0, 8)
        after = public(site)
        moved = changed(before, after)
        assert {"/leaderboard", "/api/v1/battles.jsonl", "/api/v1/witness.jsonl", "/api/v1/leaderboard"} <= moved
        assert not moved & {"/healthz", "/robots.txt", "/api/v1/openapi.json"}
        for address, (_, _, text) in after.items():
            whole = re.findall(r"(?<![\w.])1[78]\d{8}(?:\d{6})?\b", str(text))
            times = [int(found[:10]) for found in whole]
            assert [time for time in times if time % 3600] == [], address
        assert str(after["/api/v1/battles.jsonl"][2]).count("\n") == 5
        with Observatory(site.site.url, now=site.clock, pace=replace(QUICK, publish_seconds=None)) as other:
            assert other.snapshot.seq == site.site.observatory.snapshot.seq, "whenever a server was started"
        site.to(0, 1800)
        assert changed(after, public(site)) == set()


@pytest.mark.parametrize("held_back", [False, True])
def test_what_the_operator_decides_is_public_once_votes_before_it_are_final(sqlite_url: str, held_back: bool) -> None:
    with timed(sqlite_url) as site:
        arena, client = site.site.arena, site.site.client()

        def board() -> tuple[int, int]:
            site.follows()
            found = client.get("/api/v1/leaderboard").json()
            return len(found["rows"]), found["votes"]

        site.to(0, 100)
        shown = arena.serve("ann").matchup_id
        arena.vote(shown, "ann", e.Choice.A, reveal=not held_back)
        assert board() == (4, 0)
        arena.append([e.ModelDisabled(model=MODELS[3])])
        assert board() == ((4, 0) if held_back else (3, 1))
        arena.vote(arena.serve("bob").matchup_id, "bob", e.Choice.A)
        if held_back:
            arena.undo(shown, "ann")
        site.clock.at += 8 * SECOND
        assert board()[0] == 3
        assert board()[1] in ((0, 1) if held_back else (1,))
        before = public(site)
        arena.append([e.Flagged(subject="voter", subject_id="ann", flag="fast")])
        arena.vote(arena.serve("eve").matchup_id, "eve", e.Choice.A)
        assert changed(before, public(site)) == set(), "neither flags nor votes are decisions"
