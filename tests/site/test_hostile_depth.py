"""Hostile requests at depth: whoever has every cookie, token and matchup right but for one thing breaks nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from shutil import copy

import pytest

from tests.arena.databases import Databases
from tests.site.almost_right import AlmostRight
from tests.site.sites import small_site
from tiltyard.arena.audit.verify import verify
from tiltyard.site import admin

REQUESTS, EACH = 50_000, 2_500
"""How many requests `make soak` sends to sites on each database, and how many to each site."""


@pytest.fixture(autouse=True)
def nobody_waits_for_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "FOLLOWED_SECONDS", 0.0)


def attack(url: str, requests: int, seed: int) -> Counter[int]:
    """How often each status was answered. The log verifies afterwards."""
    with small_site(url, rate_limit=True) as site:
        sender = AlmostRight(site, seed)
        sender.run(requests)
        site.observatory.refresh()
    assert verify(url).clean
    return Counter(sender.statuses)


@pytest.mark.parametrize("arena_url", [pytest.param("sqlite", marks=pytest.mark.soak), "postgresql"], indirect=True)
def test_requests_that_are_almost_right_are_answered_or_clearly_refused(arena_url: str) -> None:
    """On the database that refuses more, in every run."""
    found = attack(arena_url, 40, seed=1)
    assert min(found[200], found[403], found[404]) > 0, found


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Empty arenas, one after the other."""
    numbers = count()
    if request.param == "sqlite":
        template = request.getfixturevalue("sqlite_template")
        yield lambda: f"sqlite:///{copy(template, tmp_path / f'{next(numbers)}.db')}"
        return
    databases: Databases = request.getfixturevalue("postgresql_databases")
    yield databases.fresh


@pytest.mark.soak
def test_a_hundred_thousand_requests_that_are_almost_right_break_nothing(fresh: Callable[[], str]) -> None:
    found: Counter[int] = Counter()
    for seed in range(REQUESTS // EACH):
        found += attack(fresh(), EACH, seed)
    assert found.total() >= REQUESTS
    assert found[200] + found[201] + found[303] > REQUESTS // 10, found
