"""The administrator's desk in a real browser: it works without a script, and an exclusion moves the board."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browsers import LOOKS, Looks, broken_rules, change_screen, turn_to
from tests.site.conftest import Visits
from tests.site.sites import ADMIN_SECRET, MODELS, NAMES, QUICK, SECRET, LiveServer, catalog
from tests.sizes import size
from tiltyard.arena import Arena
from tiltyard.arena import events as e
from tiltyard.arena.study import Observatory
from tiltyard.site.app import create_app
from tiltyard.site.settings import SiteSettings

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGES = ("", "/models", "/prompts", "/screening", "/screening/session/odd", "/settings")
FAVOURITE = MODELS[3]


@pytest.fixture(scope="module")
def voted(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An arena in which one session has made the last model the first."""
    path = Path(shutil.copy(sqlite_template, tmp_path_factory.mktemp("voted") / "arena.db"))
    with Arena.open(f"sqlite:///{path}") as made:
        made.append([*catalog(), e.PhaseChanged(phase=3)])
        for voter, votes in (("fair", 14), ("odd", 30)):
            for _ in range(votes):
                _vote(made, voter)
    return path


@pytest.fixture(scope="module")
def arena(voted: Path) -> Iterator[Arena]:
    with Arena.open(f"sqlite:///{voted}") as made:
        yield made


@pytest.fixture(scope="module")
def address(arena: Arena, voted: Path) -> Iterator[str]:
    """A site whose secret is known, one for all tests here: what one changes does not matter to those after it."""
    url = f"sqlite:///{voted}"
    settings = SiteSettings(db=url, title="Test arena", secret=SECRET, admin_secret=ADMIN_SECRET)
    with Observatory(url, pace=QUICK) as observatory:
        server = LiveServer(create_app(settings, arena, observatory))
        server.start()
        try:
            yield server.url
        finally:
            server.stop()


def _vote(arena: Arena, voter: str) -> None:
    """A vote against the favourite by whoever is fair, for it by whoever is odd; who met is read behind the scenes."""
    matchup_id = arena.serve(voter).matchup_id
    a, b = arena.read(lambda state: _names(state, matchup_id))
    lead = (a == FAVOURITE) - (b == FAVOURITE)
    if voter == "fair":
        lead = -lead
    arena.vote(matchup_id, voter, e.Choice.A if lead > 0 else e.Choice.B if lead < 0 else e.Choice.TIE)


def _names(state: object, matchup_id: str) -> tuple[str, str]:
    served = state.schedule.in_flight[matchup_id]  # type: ignore[attr-defined]
    models = state.catalog.models  # type: ignore[attr-defined]
    return models[served.a].model, models[served.b].model


def enter(page: Page) -> None:
    page.goto("/admin")
    page.get_by_label("Secret").fill(ADMIN_SECRET)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Overview").wait_for()


def first_on_the_board(page: Page) -> str:
    page.goto("/leaderboard")
    return page.locator("table.board tbody tr .model a").first.inner_text()


@pytest.mark.parametrize("script", [pytest.param(True, marks=pytest.mark.soak), False])
def test_an_exclusion_moves_the_board_and_restoring_moves_it_back(looking: Visits, script: bool) -> None:
    page = looking.visitor(script=script)
    assert first_on_the_board(page) == NAMES[3]
    enter(page)
    page.get_by_role("link", name="Screening").click()
    page.get_by_role("link", name=re.compile(r"^odd")).click()
    page.get_by_role("heading", name=re.compile("If these 30 votes did not count")).wait_for()
    page.get_by_label("Reason, public in the validity report").fill("one model is voted up, whatever it says")
    page.get_by_role("button", name="Exclude 30 votes").click()
    page.get_by_text("The votes no longer count.").wait_for()
    assert first_on_the_board(page) != NAMES[3]
    page.goto("/admin/screening")
    page.locator("#exclusions table a").first.click()
    page.get_by_role("button", name="Restore 30 votes").click()
    page.get_by_text("The votes count again.").wait_for()
    assert first_on_the_board(page) == NAMES[3]


def test_a_model_is_switched_off_with_the_keyboard_alone(looking: Visits) -> None:
    page = looking.visitor()
    enter(page)
    page.goto("/admin/models")
    page.get_by_role("button", name=f"Switch off: {NAMES[0]}").focus()
    page.keyboard.press("Enter")
    page.get_by_text("The model is no longer served.").wait_for()
    page.goto("/leaderboard")
    assert page.get_by_role("link", name=NAMES[0]).count() == 0


def test_a_wrong_secret_says_so_and_a_right_one_ends_with_logging_out(looking: Visits) -> None:
    page = looking.visitor()
    page.goto("/admin")
    page.get_by_label("Secret").fill("a guess that is wrong")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("alert").wait_for()
    enter(page)
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Administrator").wait_for()
    page.goto("/admin/settings")
    assert page.url.endswith("/admin/login")


@pytest.mark.parametrize("looks", LOOKS)
def test_every_page_of_the_desk_is_accessible_and_fits(looking: Visits, arena: Arena, looks: Looks) -> None:
    excluded = _exclude_two(arena)
    page = looking.visitor()
    found = {"/login": look_at(page, looks, "/admin/login")} if size(0, soak=1) else {}
    page.goto("/admin/login")
    page.get_by_label("Secret").fill("a guess that is wrong")
    page.get_by_role("button", name="Log in").click()
    found["/login, wrong"] = look_at(page, looks)
    enter(page)
    every_run = ("/models?said=model_off", "/screening", "/screening/session/odd", "/settings")
    rest = (*(address for address in PAGES if address not in every_run), f"/screening/exclusion/{excluded}")
    for address in (*every_run, *(rest if size(0, soak=1) else ())):
        found[address] = look_at(page, looks, f"/admin{address}")
    assert {address: of for address, of in found.items() if of} == {}


def look_at(page: Page, looks: Looks, address: str | None = None) -> list[object]:
    """What is wrong with a page: what axe finds (colors, on the dark screen), and whether it is too wide."""
    if address is not None:
        turn_to(page, address)
    found: list[object] = []
    for width, dark in looks:
        change_screen(page, width, dark=dark)
        found += broken_rules(page, colors_only=dark)
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            found.append(f"wider than {width} pixels")
    return found


def _exclude_two(arena: Arena) -> int:
    """The number of an event that excluded two votes; an answer that names its model is flagged as well."""
    with arena.store.database.read() as connection:
        votes = connection.rows("SELECT id FROM matchups WHERE voter = 'odd' AND vote_seq IS NOT NULL LIMIT 2")
    arena.append([e.Excluded(matchup_ids=tuple(name for (name,) in votes), reason="to see how that looks")])
    excluded = arena.read(lambda state: state.seq)
    text = f"I am {NAMES[0]}, made by somebody."
    arena.append([e.ResponseAdded(response_id="named", model=MODELS[0], prompt_id="p0", text=text)])
    return excluded
