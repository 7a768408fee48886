"""What stands before a vote, in a real browser: the puzzle with and without scripts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.web.conftest import Visits
from tests.web.sites import live_site
from tiltyard.arena.events import SettingsChanged
from tiltyard.arena.policy import Policy
from tiltyard.arena.service import Arena
from tiltyard.arena.visitor_rules import EntryRules

RULES = EntryRules(puzzle_bits=12, puzzle_matchups=2, puzzle_wait_seconds=1)


@pytest.fixture(scope="module")
def live(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real server over an arena that asks for puzzles."""
    path = tmp_path_factory.mktemp("doors") / "arena.db"
    shutil.copy(sqlite_template, path)
    with Arena.open(f"sqlite:///{path}") as arena:
        arena.append([SettingsChanged(policy=msgspec.structs.replace(Policy(), entry=RULES))])
    with live_site(f"sqlite:///{path}") as address:
        yield address


def test_a_browser_solves_the_puzzle_by_itself_and_again_after_a_few_pairs(visits: Visits) -> None:
    page = visits.visitor(width=390, height=844)
    solved: list[str] = []
    page.on("request", lambda request: solved.append(request.method) if request.url.endswith("/puzzle") else None)
    page.goto("/")
    page.get_by_role("button", name="Start voting").click()
    for _ in range(3):
        page.wait_for_selector(".ballot")
        shown = page.locator(".ballot [name=matchup_id]").get_attribute("value")
        page.keyboard.press("s")
        page.locator(f".ballot [name=matchup_id]:not([value='{shown}'])").wait_for(state="attached")
    assert solved == ["POST", "POST"]  # before the first pair, and after two


def test_without_scripts_the_wait_is_enough(visits: Visits) -> None:
    page = visits.visitor(script=False)
    page.goto("/")
    page.get_by_role("button", name="Start voting").click()
    assert page.get_by_role("heading", level=1).text_content() == "One moment"
    page.wait_for_timeout(1_100)
    page.get_by_role("button", name="Continue").click()
    page.wait_for_selector(".ballot")
