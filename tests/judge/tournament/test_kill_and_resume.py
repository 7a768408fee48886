"""`kill -9` at any moment costs nothing: the same command goes on, to the same files, and nothing is paid for twice."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeServer
from tests.judge.tournament.folder import change
from tests.judge.tournament.killing import ANYWHERE, AT_SUBMIT, COLLECT, LATE, MODELS, MOMENTS, QUERIES, WRITE, Site

KILLS = 5
"""Planned for each tournament: thirty in six. On a busy machine a moment may pass unseen."""

References = dict[str, tuple[dict[str, Any], float]]


@pytest.fixture(scope="module")
def references() -> References:
    """The artifacts of undisturbed runs, and how long they took."""
    return {}


def undisturbed(references: References, root: Path, server: FakeServer, wire: str) -> tuple[dict[str, Any], float]:
    if wire not in references:
        site = Site(root / f"undisturbed-{wire}", server, wire)
        began = time.monotonic()
        site.finish()
        references[wire] = site.artifacts(), time.monotonic() - began
        assert len(server.ledger.accepted) == QUERIES
    return references[wire]


def killed_and_resumed(site: Site, rng: random.Random, seconds: float, moments: list[str]) -> list[str]:
    """Kill a tournament at these moments, or until it is done; then let it finish. The kills that came about."""
    found = [moment for moment in moments if site.kill(moment, rng, seconds)]
    site.finish()
    return found


def check(site: Site, wanted: dict[str, Any]) -> None:
    assert site.artifacts() == wanted
    assert not site.server.ledger.paid_twice()
    succeeded = [one for one in site.server.ledger.accepted if one.outcome == "succeeded"]
    assert len(succeeded) == QUERIES


@pytest.mark.parametrize(("wire", "moments"), [("anthropic", (AT_SUBMIT, WRITE)), ("openai", (LATE, COLLECT))])
def test_a_run_killed_at_two_moments_ends_like_one_that_was_not(
    references: References, tmp_path: Path, fake_server: FakeServer, wire: str, moments: tuple[str, ...]
) -> None:
    """Every moment for both makers: `make soak`; what asks the makers: tests/judge/llm/test_killed.py."""
    wanted, seconds = undisturbed(references, tmp_path, fake_server, wire)
    site = Site(tmp_path / "site", fake_server, wire)
    found = killed_and_resumed(site, random.Random(1), seconds, [*moments])
    assert len(found) >= len(moments) - 1, f"only killed {found}"
    check(site, wanted)


@pytest.mark.soak
@pytest.mark.parametrize("wire", ["anthropic", "openai"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_run_killed_at_random_moments_ends_like_one_that_was_not(
    references: References, tmp_path: Path, fake_server: FakeServer, wire: str, seed: int
) -> None:
    wanted, seconds = undisturbed(references, tmp_path, fake_server, wire)
    site = Site(tmp_path / "site", fake_server, wire, expiring=seed == 3)
    rng = random.Random(seed)
    moments = sorted(rng.sample(MOMENTS[:-1], KILLS - 1), key=MOMENTS.index)
    found = killed_and_resumed(site, rng, seconds, [*moments, ANYWHERE])
    assert len(found) >= KILLS - 2, f"only killed {found}"
    check(site, wanted)


@pytest.mark.soak
def test_hundreds_of_kills_cost_nothing(references: References, tmp_path: Path, fake_server: FakeServer) -> None:
    struck: Counter[str] = Counter()
    for number in range(48):
        wire = ("anthropic", "openai")[number % 2]
        wanted, seconds = undisturbed(references, tmp_path, fake_server, wire)
        site = Site(tmp_path / f"site-{number}", fake_server, wire, expiring=number % 3 == 0)
        rng = random.Random(1000 + number)
        moments = [*MOMENTS, ANYWHERE]
        if number % 4 == 3:  # else in the order in which a run comes to them, so that all of them come about
            rng.shuffle(moments)
        struck.update(killed_and_resumed(site, rng, seconds, moments))
        check(site, wanted)
    print(f"kills: {struck.total()}; {dict(struck)}")  # noqa: T201 (pytest -s shows it)
    assert struck.total() >= 200
    assert min(struck[moment] for moment in MOMENTS) >= 10


@pytest.mark.soak
@pytest.mark.parametrize("wire", ["anthropic", "openai"])
def test_a_panel_in_one_folder_that_is_killed_again_and_again_pays_for_nothing_twice(
    tmp_path: Path, fake_server: FakeServer, wire: str
) -> None:
    def panel(name: str) -> Site:
        site = Site(tmp_path / name, fake_server, wire)
        judges = [MODELS[wire], MODELS[wire].replace("test-1", "test-2")]
        change(site.config, judge__panel=judges, judge__headline_model=None, judge__pilot_model=None)
        return site

    site = panel("undisturbed")
    began = time.monotonic()
    site.finish()
    wanted, seconds = site.artifacts(), time.monotonic() - began
    assert len(fake_server.ledger.accepted) == 2 * QUERIES
    for seed in range(3):
        site = panel(f"site-{seed}")
        found = killed_and_resumed(site, random.Random(seed), seconds, [*MOMENTS, ANYWHERE])
        assert len(found) >= 2, f"only killed {found}"
        assert site.artifacts() == wanted
        assert not fake_server.ledger.paid_twice()
        assert sum(one.outcome == "succeeded" for one in fake_server.ledger.accepted) == 2 * QUERIES


@pytest.mark.soak
@pytest.mark.parametrize("wire", ["anthropic", "openai"])
def test_adaptive_rounds_that_are_killed_again_and_again_end_the_same_and_pay_for_nothing_twice(
    tmp_path: Path, fake_server: FakeServer, wire: str
) -> None:
    def rounds(name: str) -> Site:
        site = Site(tmp_path / name, fake_server, wire)
        change(site.config, rounds={"until": "order", "maximum": 3, "prompts": 1})
        return site

    site = rounds("undisturbed")
    began = time.monotonic()
    site.finish()
    wanted, seconds = site.artifacts(), time.monotonic() - began
    assert "rounds.json" in wanted
    asked = len(fake_server.ledger.accepted)
    assert 0 < asked <= QUERIES
    for seed in range(3):
        site = rounds(f"site-{seed}")
        found = killed_and_resumed(site, random.Random(seed), seconds, [*MOMENTS, ANYWHERE])
        assert len(found) >= 2, f"only killed {found}"
        assert site.artifacts() == wanted
        assert not fake_server.ledger.paid_twice()
        assert sum(one.outcome == "succeeded" for one in fake_server.ledger.accepted) == asked
