"""The pages in a real browser: sorting, searching and permalinks, with and without a script, on any screen."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx2 as httpx
import pytest

from tests.browsers import broken_rules, change_screen, turn_to
from tests.site.board_fixtures import MODELS, NAMES, week_of_votes, world
from tests.site.conftest import Visits
from tests.site.sites import SECRET, LiveServer
from tests.sizes import size
from tiltyard.arena import Arena
from tiltyard.arena.store import Store
from tiltyard.site.app import create_app
from tiltyard.site.settings import SiteSettings

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGES = (
    "/leaderboard",
    "/leaderboard?on=2026-01-04&columns=none",
    "/history",
    "/embed",
    "/leaderboard?category=maths",
    "/leaderboard?q=nobody+at+all",
    f"/models/{MODELS[0]}",
    f"/compare?a={MODELS[0]}&b={MODELS[2]}",
    "/compare",
    "/validity",
    "/methods",
    "/data",
    "/privacy",
    "/me",
)
IN_A_SOAK = (
    *(PAGES[1], "/history", "/leaderboard?category=maths", "/leaderboard?q=nobody+at+all", "/compare", "/data", "/me"),
)
"""Pages whose parts others of the list have too: axe looks at them in `make soak`."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server over a week of votes."""
    with (
        world(week_of_votes(180), tmp_path_factory.mktemp("pages")) as made,
        Arena(Store.open(made.url), now=lambda: made.end) as arena,
    ):
        settings = SiteSettings(db=made.url, title="Test arena", secret=SECRET, rate_limit=False)
        server = LiveServer(create_app(settings, arena, made.observatory))
        server.start()
        try:
            yield server.url
        finally:
            server.stop()


def shown(page: Page) -> list[str]:
    """The names on the board that can be seen, in their order."""
    rows = page.locator("[data-board] tbody tr:visible .model a")
    return [text.strip() for text in rows.all_inner_texts()]


def test_a_click_sorts_at_once_and_the_address_keeps_it_and_a_cell_of_the_heatmap_leads_to_the_comparison(
    looking: Visits,
) -> None:
    page = looking.visitor()
    page.goto("/leaderboard")
    official = shown(page)
    assert sorted(official) == sorted(NAMES)
    page.get_by_role("link", name="Model", exact=True).click()
    assert page.url.endswith("/leaderboard?sort=model")
    by_name = shown(page)
    assert by_name == sorted(NAMES, key=str.casefold)
    page.get_by_role("link", name="Model", exact=True).click()
    assert page.url.endswith("sort=model&direction=desc")
    assert shown(page) == by_name[::-1]
    page.reload()
    assert shown(page) == by_name[::-1]
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    page.locator("#heatmaps summary").click()
    page.locator(".heatmap td a").first.click()
    assert "/compare?a=" in page.url
    assert page.locator("h1").is_visible()


def test_script_and_server_sort_alike(looking: Visits) -> None:
    page = looking.visitor()
    page.goto("/leaderboard")
    columns = ("rating", "confidence", "coverage", "consistency", "spread", "average", "record", "votes")
    with httpx.Client(verify=False) as client:
        for place, column in enumerate(columns):
            for _ in range(size(1 + place % 2, soak=2)):
                page.locator(f'[data-sort="{column}"]').click()
                sent = client.get(page.url).text.partition("<tbody")[2].partition("</tbody>")[0]
                names = re.findall(r'class="model"><span [^>]*>[^<]*</span><a [^>]*><bdi>(.+?)</bdi>', sent)
                assert shown(page) == [html.unescape(name) for name in names], page.url
    assert len(names) == len(NAMES)


def test_typing_narrows_at_once_and_the_link_leads_back(looking: Visits) -> None:
    page = looking.visitor()
    page.goto("/leaderboard")
    page.get_by_label("Search").fill("OTTER")
    assert shown(page) == ["Otter 7B"]
    assert page.get_by_role("status").inner_text() == f"1 of {len(NAMES)} models shown"
    link = page.locator("[data-permalink]").get_attribute("href")
    assert page.locator("[data-download]").first.get_attribute("href") == "/leaderboard.csv?q=OTTER"
    another = looking.visitor(script=False)
    another.goto(link or "")
    assert shown(another) == ["Otter 7B"]


def test_a_filter_can_be_widened_again_after_coming_by_a_link(looking: Visits) -> None:
    page = looking.visitor()
    page.goto("/leaderboard?provider=Aerie+Labs&sort=model")
    assert len(shown(page)) == len(NAMES) // 2
    page.get_by_label("Provider").select_option("")
    page.wait_for_url("**/leaderboard?sort=model")
    assert shown(page) == sorted(NAMES, key=str.casefold)


def test_everything_works_without_a_script(looking: Visits) -> None:
    page = looking.visitor(script=False)
    page.goto("/leaderboard")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Stability").select_option("Provisional")
    page.get_by_role("button", name="Apply").click()
    assert "stability=Provisional" in page.url
    assert "Plover" in shown(page)
    page.get_by_role("link", name="Votes", exact=True).click()
    assert "sort=votes" in page.url
    assert "stability=Provisional" in page.url
    page.get_by_role("link", name="Clear").click()
    page.get_by_text("All prompts").first.click()
    page.get_by_role("link", name="maths").click()
    assert "category=maths" in page.url
    page.locator("[data-board] .model a").first.click()
    assert "/models/" in page.url
    page.get_by_text("Its answers").click()
    assert page.locator(".concealed").is_visible(), "every prompt is being voted on"
    page.goto(f"{page.url.partition('?')[0]}?prompt=p3")
    page.get_by_role("button", name="Show").click()
    assert page.locator("#answer .prompt").get_by_text("Question 3?").is_visible()
    assert page.get_by_text("Hidden while it is being voted on.").is_visible()


def test_the_prompts_of_a_model_are_sorted_and_filtered(looking: Visits) -> None:
    page = looking.visitor()
    page.goto(f"/models/{MODELS[2]}")
    grid = page.locator("#prompts")
    assert grid.locator("tbody tr").count() == 6, "so few are shown at once"
    grid.get_by_role("button", name="Otter 7B").click()
    grid.get_by_role("button", name="Otter 7B").click()
    assert grid.locator("th[aria-sort=descending]").inner_text().startswith("Otter 7B")
    counts = [text.split(",")[0].split("–") for text in grid.locator("tbody td:nth-child(2) small").all_inner_texts()]
    nets = [int(won) - int(lost) for won, lost, _ in counts]
    assert nets == sorted(nets, reverse=True)
    grid.get_by_label("Category").select_option("maths")
    assert grid.locator("output").inner_text() == "2 of 6 prompts"
    grid.get_by_label("Search").fill("question 4")
    grid.get_by_text("1 of 6 prompts").wait_for()
    assert grid.locator("tbody th a").count() == 0, "no prompt is retired"


def test_the_board_is_worked_by_keyboard_alone(looking: Visits) -> None:
    """From the navigation to a choice of columns and another order, without a mouse."""
    page = looking.visitor()
    page.goto("/leaderboard")

    def go_to(what: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("(what) => document.activeElement.matches(what)", what):
                return
        raise AssertionError(f"never reached {what}")

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skip to the content
    go_to(".more-filters > summary")
    page.keyboard.press("Enter")
    go_to(".chooser input[value=interval]")
    page.keyboard.press("Space")
    go_to(".chooser button")
    page.keyboard.press("Enter")
    page.wait_for_url("**columns=**interval")
    assert page.locator("[data-sort=interval]").is_visible()
    go_to("[data-sort=votes]")
    page.keyboard.press("Enter")
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Votes")


def test_ten_models_are_on_the_first_screen_or_five_on_a_phone(looking: Visits) -> None:
    """As many as there are here: eight rows, each of one line, and five cards."""
    page = looking.visitor(width=1280, height=800)
    count = """[...document.querySelectorAll("[data-board] tbody tr")].filter(
        (row) => row.getBoundingClientRect().bottom <= innerHeight).length"""
    page.goto("/leaderboard")
    assert page.evaluate(count) == len(NAMES)
    first = page.locator("[data-board] tbody tr").first.bounding_box()
    assert first is not None
    assert first["y"] + 10 * first["height"] <= 800
    phone = looking.visitor(width=390, height=844, touch=True)
    phone.goto("/leaderboard")
    assert phone.evaluate(count) >= 5


def test_a_tap_explains_and_targets_are_large_enough(looking: Visits) -> None:
    page = looking.visitor(width=390, height=844, touch=True)
    page.goto("/leaderboard")
    heights = page.evaluate(
        """() => [...document.querySelectorAll(`.filters :is(select, button, summary, input:not([type=checkbox])),
        .tabs a, .masthead nav a, .board .model a`)].filter((one) => one.checkVisibility())
        .map((one) => [one.textContent.trim().slice(0, 20), one.getBoundingClientRect().height])"""
    )
    assert heights
    assert [one for one in heights if one[1] < 43.5] == []
    smallest = page.evaluate(
        """() => Math.min(...[...document.querySelectorAll("main *")].filter((one) => one.checkVisibility() &&
        [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
        .map((one) => parseFloat(getComputedStyle(one).fontSize)))"""
    )
    assert smallest >= 12
    assert not page.locator(".board .measure").first.is_visible()
    page.get_by_label("All figures").check()
    assert page.locator(".board .measure").first.is_visible()
    page.get_by_text("Filters", exact=True).tap()
    page.get_by_label("Sort by").select_option("votes")
    assert "sort=votes" in page.url
    page.get_by_text("How to read the columns and intervals").tap()
    assert page.locator(".reading").get_by_text("Won–lost–tied; sorted by").is_visible()


def test_dark_pages_are_dark_and_print_leaves_out_what_only_a_screen_can_use(looking: Visits) -> None:
    page = looking.visitor()
    page.goto("/leaderboard")

    def brightness(*, dark: bool) -> float:
        change_screen(page, 1280, dark=dark)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        return sum(colour) / 3

    assert brightness(dark=True) < 60
    assert brightness(dark=False) > 230
    page.emulate_media(media="print")
    assert not page.get_by_role("search").is_visible()
    assert not page.get_by_role("navigation", name="Site").is_visible()
    assert page.locator("[data-board]").is_visible()


def test_axe_finds_nothing_in_either_theme(looking: Visits) -> None:
    page = looking.visitor()
    page.goto(PAGES[0])
    wrong: dict[str, object] = {}
    for where in (where for where in PAGES if where not in IN_A_SOAK or size(0, soak=1)):
        page.emulate_media(color_scheme="light")
        turn_to(page, where)
        found = broken_rules(page)
        page.emulate_media(color_scheme="dark")
        found += broken_rules(page, colors_only=True)
        if found:
            wrong[where] = found
    assert wrong == {}
