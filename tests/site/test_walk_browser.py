"""One walk through the site by keyboard and screen reader, and one over every page on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browsers import turn_to
from tests.site.board_fixtures import MODELS, NAMES, retire, week_of_votes, world
from tests.site.conftest import Visits
from tests.site.sites import ADMIN_SECRET, SECRET, LiveServer
from tiltyard.arena import Arena
from tiltyard.arena.simulation.ledger import FIRST_DAY
from tiltyard.arena.store import Store
from tiltyard.reports import keep_finished_weeks
from tiltyard.site.app import create_app
from tiltyard.site.settings import SiteSettings

if TYPE_CHECKING:
    from playwright.sync_api import Page

LOOKS = (Path(__file__).parent / "looks.js").read_text(encoding="utf-8")
PUBLIC = (
    "/leaderboard",
    "/leaderboard?category=maths",
    "/leaderboard?q=nobody+at+all",
    f"/models/{MODELS[2]}?prompt=p1",
    f"/compare?a={MODELS[2]}&b={MODELS[3]}&prompt=p1",
    "/compare",
    "/history",
    "/embed",
    "/validity",
    "/validity/weeks",
    "/validity/weeks/2026-W01",
    "/methods",
    "/bank",
    "/data",
    "/heads",
    "/me",
    "/privacy",
    "/no-such-page",
)
WITH_SCRIPTS = (PUBLIC[0], *PUBLIC[3:5], "/me")
"""Pages that scripts add something to, so that they have to run."""

ADMIN = tuple(f"/admin{name}" for name in ("", "/models", "/prompts", "/screening", "/reports", "/settings"))
WORKED = ("link", "button", "textbox", "searchbox", "combobox", "checkbox", "radio", "Date", "DisclosureTriangle")
"""Roles of what can be worked with, as Chromium calls them."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server over a week of votes; one prompt is retired, and a weekly report is kept."""
    log = retire(week_of_votes(180), "p1")
    with (
        world(log, tmp_path_factory.mktemp("walk")) as made,
        Arena(Store.open(made.url), now=lambda: made.end) as arena,
    ):
        keep_finished_weeks(arena.store, FIRST_DAY + 60 * 86_400 * 1_000_000)
        settings = SiteSettings(
            db=made.url, title="Test arena", secret=SECRET, admin_secret=ADMIN_SECRET, rate_limit=False
        )
        server = LiveServer(create_app(settings, arena, made.observatory))
        server.start()
        try:
            yield server.url
        finally:
            server.stop()


@dataclass(frozen=True)
class Spoken:
    """Something that a screen reader says: its role, its name, and what else is known of it."""

    role: str
    name: str
    level: int = 0
    live: str = ""

    @classmethod
    def of(cls, node: dict[str, Any]) -> Spoken:
        more = {one["name"]: one["value"].get("value") for one in node.get("properties", ())}
        name = node.get("name", {}).get("value", "").strip()
        return cls(node["role"]["value"], name, more.get("level", 0), more.get("live", ""))


class Reader:
    """A keyboard and a screen reader: what is said of a page, in its order, and of what has the focus."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.ask = page.context.new_cdp_session(page).send
        self.ask("Accessibility.enable")

    def tree(self) -> list[Spoken]:
        """All that is said of the page, in reading order."""
        nodes = {node["nodeId"]: node for node in self.ask("Accessibility.getFullAXTree")["nodes"]}
        said: list[Spoken] = []
        left = [next(iter(nodes.values()))]
        while left:
            node = left.pop()
            if not node["ignored"]:
                said.append(Spoken.of(node))
            left += [nodes[child] for child in reversed(node.get("childIds", ())) if child in nodes]
        return said

    def focused(self) -> Spoken:
        for _ in range(20):  # the tree follows the page a moment later
            held = self.ask("Runtime.evaluate", {"expression": "document.activeElement"})["result"]["objectId"]
            node = self.ask("Accessibility.getPartialAXTree", {"objectId": held, "fetchRelatives": False})["nodes"][0]
            if not node["ignored"]:
                break
            self.page.wait_for_timeout(20)
        return Spoken.of(node)

    def reach(self, role: str, name: str, key: str = "Tab", *, act: str = "Enter") -> None:
        """Go to something by keyboard, and work it."""
        for _ in range(90):
            self.page.keyboard.press(key)
            here = self.focused()
            assert here.name, f"it has no name: {self.page.evaluate('document.activeElement.outerHTML')[:200]}"
            if here.role == role and here.name.startswith(name):
                break
        else:
            raise AssertionError(f"never reached {role} {name!r}")
        if act:
            self.page.keyboard.press(act)

    def check(self, title: str) -> list[Spoken]:
        """What holds on every page: landmarks, one title, headings without gaps, and a name for what can be worked.

        All that is said of the page.
        """
        said = self.tree()
        assert next(one.name for one in said if one.role == "navigation") == "Site"
        assert [one.role for one in said if one.role in ("banner", "main", "contentinfo")] == [
            *("banner", "main", "contentinfo")
        ]
        headings = [one for one in said if one.role == "heading"]
        assert [one.name for one in headings if one.level == 1] == [title]
        levels = [one.level for one in headings]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels)), levels
        assert [one for one in said if one.role in (*WORKED, "image", "img") and not one.name] == []
        return said


def names(said: list[Spoken], *roles: str) -> list[str]:
    """What has one of these roles, by name."""
    return [one.name for one in said if one.role in roles]


def test_a_keyboard_and_a_screen_reader_lead_from_a_vote_to_a_comparison(looking: Visits) -> None:
    page = looking.visitor()
    reader = Reader(page)
    page.goto("/")
    reader.check(names(reader.tree(), "heading")[0])
    reader.reach("link", "Skip to the content")
    reader.reach("button", "Start voting")
    vote_by_keyboard(page, reader)
    reader.reach("link", "Leaderboard", "Shift+Tab")
    page.wait_for_url("**/leaderboard")
    chosen = read_the_board(reader)
    reader.reach("link", chosen)
    page.wait_for_url("**/models/*")
    rival = read_the_model(reader, chosen)
    reader.reach("link", rival)
    page.wait_for_url("**/compare?*")
    said = reader.check(f"{chosen} against {rival}")
    assert names(said, "combobox")[:2] == ["First", "Second"]
    parts = names(said, "heading")
    assert parts[1:3] == ["By prompt", "Their answers"]
    assert parts[3:5] == [chosen, rival], "the answers to the retired prompt, under their authors' names"


def vote_by_keyboard(page: Page, reader: Reader) -> None:
    """Vote, hear that it counts, see the names, and say why."""
    page.wait_for_selector(".ballot")
    said = reader.check("Which answer is better?")
    assert [name.capitalize() for name in names(said, "heading")[1:]] == ["Prompt", "Answer a", "Answer b"]
    ballot = ["A is better", "Tie", "Both bad", "B is better", "Skip"]
    assert [name for name in names(said, "button") if name in ballot] == ballot
    reader.reach("button", "B is better")
    page.get_by_role("button", name="Show the names").wait_for()
    assert reader.focused().role == "heading", "a new page of the stage begins at its title"
    assert [one.live for one in reader.tree() if one.role == "status"] == ["polite"]
    reader.reach("button", "Show the names")
    page.wait_for_selector(".revealed")
    title = reader.focused()
    assert (title.role, title.name.startswith("You chose ")) == ("heading", True)
    spoken = page.locator("#announce").inner_text()
    assert spoken.startswith("Your vote is final. Answer A: ")
    assert title.name.removeprefix("You chose ") == spoken.removesuffix(".").partition("Answer B: ")[2]
    reader.check(title.name)
    reader.reach("DisclosureTriangle", "Say why")
    reader.reach("checkbox", "clearer", act="Space")
    page.locator(".saved", has_text="Saved").wait_for()
    assert "status" in [one.role for one in reader.tree() if one.live == "polite"]


def read_the_board(reader: Reader) -> str:
    """The table as it is read out; the name of its first model."""
    said = reader.check("Leaderboard")
    assert "Models and their ratings" in [one.name for one in said if one.role == "table"]
    rows = [one.name for one in said if one.role == "rowheader"]
    assert all(any(row.startswith(name) for row in rows) for name in NAMES)
    heads = [one.name for one in said if one.role == "columnheader"]
    assert [head.split()[0] for head in heads[:3]] == ["Rank", "Model", "Rating"]
    intervals = [one.name for one in said if one.role in ("image", "img") and one.name.startswith("95 % interval")]
    assert len(intervals) >= len(NAMES) - 1
    reader.reach("link", "Skip to the content")
    assert reader.focused().role == "main"
    links = [one.name for one in said if one.role == "link"]
    return next(name for name in links if name in NAMES)


def read_the_model(reader: Reader, name: str) -> str:
    """The parts of a model's page in their order; its first neighbour."""
    badge = reader.page.locator("h1 .badge").inner_text()
    said = reader.check(f"{name} {badge}")
    parts = [one.name for one in said if one.role == "heading" and one.level == 2]
    assert names(said, "heading")[0].startswith(name)
    wanted = ["Against its neighbours", "Rating over time", "Strengths and weaknesses", "By prompt", "By opponent"]
    assert parts[:7] == [*wanted, "By prompt and opponent", "Its answers"]
    start = next(
        place for place, one in enumerate(said) if one.name == "Against its neighbours" and one.role == "heading"
    )
    return next(one.name for one in said[start:] if one.role == "link")


def test_every_page_fits_a_phone_and_has_one_frame(looking: Visits) -> None:
    """Nothing is wider than the screen, smaller than 12 px, or harder to hit than a target of 44 px.

    No size depends on the theme, so one is enough; contrast in both is what axe looks at elsewhere.
    """
    page = looking.visitor(width=360, height=740, touch=True, dark=True)
    wrong: dict[str, list[str]] = {}

    def look(where: str) -> None:
        found = page.evaluate(LOOKS)
        if found:
            wrong[where] = found[:5]

    for where in PUBLIC:
        if where in WITH_SCRIPTS:
            page.goto(where)
        else:
            turn_to(page, where, 404 if where == "/no-such-page" else 200)
        look(where)
    page.goto("/")
    look("/")
    page.get_by_role("button", name="Start voting").click()
    page.wait_for_selector(".ballot")
    look("a pair")
    page.get_by_role("button", name="A is better").click()
    page.get_by_role("button", name="Show the names").click()
    page.wait_for_selector(".revealed")
    look("its result")
    page.goto("/admin")
    look("/admin/login")
    page.get_by_label("Secret").fill(ADMIN_SECRET)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector(".desk-top")
    for where in ADMIN:
        turn_to(page, where)
        look(where)
    assert wrong == {}
