"""The vote page in a real browser: by mouse, by keyboard, without a script, on a phone, in both themes."""

from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tests.browsers import LOOKS, Looks, broken_rules, change_screen, new_context, turn_to
from tests.site.conftest import Visits
from tests.site.sites import IDENTIFYING, NAMES, answer, catalog, live_site
from tests.sizes import size
from tiltyard.arena import Arena
from tiltyard.arena import events as e
from tiltyard.arena.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Route


@pytest.fixture(scope="module")
def long_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A site whose answers are long, with code, a table, a formula and reasoning."""
    url = f"sqlite:///{tmp_path_factory.mktemp('long') / 'arena.db'}"
    Store.create(url).close()
    with Arena.open(url) as arena:
        arena.append([body for body in catalog(1) if not isinstance(body, e.ResponseAdded)])
        arena.append([answer(model, 0, LONG + str(model)) for model in range(4)])
    with live_site(url) as address:
        yield address


def start_voting(page: Page, address: str = "") -> None:
    """Come for the first time and press the button."""
    page.goto(f"{address}/")
    page.get_by_role("button", name="Start voting").click()
    page.wait_for_selector(".ballot")


def visitor(visits: Visits, **options: Any) -> Page:
    """A new visitor's page, whose moment to undo is as long as a test needs."""
    return visits.visitor(endless=True, **options)


def held_back(page: Page) -> None:
    """Wait for the page that says that a vote is saved. It tells nobody's name."""
    page.wait_for_selector(".held-back")
    assert not any(name in page.content() for name in IDENTIFYING)


def revealed(page: Page) -> list[str]:
    """The names on the result page, asked for at once."""
    held_back(page)
    page.get_by_role("button", name="Show the names").click()
    page.wait_for_selector(".revealed")
    return [name for name in NAMES if name in page.locator("main").inner_text()]


def another_pair(page: Page, than: str | None) -> None:
    """Wait for a pair that is not this one."""
    page.locator(f".ballot [name=matchup_id]:not([value='{than}'])").wait_for(state="attached")


def check_accessible(page: Page, *, dark: bool) -> None:
    assert broken_rules(page, colors_only=dark) == []


def focused(page: Page) -> str:
    said: str = page.evaluate("document.activeElement.tagName")
    return said


def test_a_first_visit_ends_with_a_vote_by_mouse_and_the_names(visits: Visits) -> None:
    page = visitor(visits)
    start_voting(page)
    assert not any(name in page.content() for name in IDENTIFYING)
    page.get_by_role("button", name="A is better").click()
    held_back(page)
    assert focused(page) == "H1"
    assert "Press U to undo" in str(page.locator("#announce").text_content())
    assert len(revealed(page)) == 2
    assert focused(page) == "H1"
    assert "Your vote is final" in str(page.locator("#announce").text_content())
    assert page.url.startswith(f"{visits.address}/votes/")
    page.get_by_role("link", name="Next pair").click()
    page.wait_for_selector(".ballot")
    assert focused(page) == "H1"
    assert "New pair" in str(page.locator("#announce").text_content())


SHIFTS = """new Promise(done => {
  let moved = 0;
  new PerformanceObserver(list => { for (const entry of list.getEntries()) moved += entry.value; })
    .observe({type: "layout-shift", buffered: true});
  requestAnimationFrame(() => requestAnimationFrame(() => done(moved)));
})"""


@pytest.mark.parametrize("width", [320, pytest.param(1280, marks=pytest.mark.soak)])
def test_somebody_new_starts_by_keyboard_and_nothing_jumps(visits: Visits, width: int) -> None:
    page = visits.visitor(width=width)
    page.goto("/")
    assert not any(name in page.content() for name in IDENTIFYING)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(SHIFTS) < 0.001  # a line that moves by a pixel is no jump
    start = page.get_by_role("button", name="Start voting")
    for _ in range(20):
        page.keyboard.press("Tab")
        if start.evaluate("button => button === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(".ballot")
    assert focused(page) == "H1"
    assert page.url == f"{visits.address}/"
    assert "New pair" in str(page.locator("#announce").text_content())


def test_keys_vote_and_two_quick_ones_are_one_vote(visits: Visits) -> None:
    page = visitor(visits)
    start_voting(page)
    chosen = {"a": "A", "ArrowLeft": "A", "b": "B", "ArrowRight": "B", "t": "TIE", "X": "BOTH_BAD"}
    headings = {"ArrowRight": "You chose", "t": "You called it a tie", "X": "You found both bad"}
    for key, choice in chosen.items():
        with page.expect_request("**/vote") as sent:
            page.keyboard.press(key)
        assert f"choice={choice}&" in f"{sent.value.post_data}&", key
        if key in headings:
            revealed(page)
            assert page.locator("h1").inner_text().startswith(headings[key]), key
            pills = page.locator(".names .pill").count(), page.locator(".names .b .pill").count()
            assert pills == ((1, 1) if choice == "B" else (0, 0)), key
            page.keyboard.press("n")
        else:
            held_back(page)
            page.keyboard.press("u")
            page.locator("h1", has_text="undone").wait_for()
            page.keyboard.press("n")
        page.wait_for_selector(".ballot")
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    page.evaluate(
        """for (const key of ["a", "a", "b"])
             document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}))"""
    )
    held_back(page)
    assert len(posts) == 1


def test_keys_skip_help_undo_and_go_on_and_leave_modifiers_and_controls_alone(visits: Visits) -> None:
    page = visitor(visits, width=400)
    start_voting(page)
    page.keyboard.press("Control+b")
    page.keyboard.press("Alt+a")
    assert page.locator(".ballot").count() == 1
    first = page.locator(".ballot [name=matchup_id]").get_attribute("value")
    page.keyboard.press("?")
    assert page.locator("#keys").get_attribute("open") is not None
    page.keyboard.press("s")
    another_pair(page, first)
    page.keyboard.press("b")
    held_back(page)
    page.keyboard.press("u")
    page.locator("h1", has_text="undone").wait_for()
    assert "undone" in str(page.locator("#announce").text_content())
    assert not any(name in page.content() for name in IDENTIFYING)
    page.keyboard.press("n")
    page.wait_for_selector(".ballot")
    page.keyboard.press("a")
    held_back(page)
    page.keyboard.press("Enter")
    page.wait_for_selector(".revealed")
    page.keyboard.press("u")
    assert page.locator("button.undo").count() == 0


def test_the_names_come_by_themselves_after_a_moment(visits: Visits) -> None:
    page = visits.visitor(own=True)
    page.clock.install(time="2030-01-01")
    page.clock.pause_at("2030-01-02")
    start_voting(page)
    page.clock.run_for(800)
    page.keyboard.press("a")
    held_back(page)
    assert page.locator(".countdown").is_visible()
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    page.clock.run_for(4_000)
    assert page.locator(".held-back").count() == 1
    assert posts == []
    page.clock.run_for(1_500)
    page.wait_for_selector(".revealed")
    assert [address.rpartition("/")[2] for address in posts] == ["reveal"]
    assert "Your vote is final" in str(page.locator("#announce").text_content())


def slower(route: Route) -> None:
    """The time in which a new pair cannot be voted on, made longer: a busy machine needs it for the clicks."""
    answer = route.fetch()
    body = answer.text().replace("BLINK = 800", "BLINK = 2500")
    assert body != answer.text()
    route.fulfill(response=answer, body=body)


def test_without_scripts_the_style_keeps_a_new_ballot_from_clicks_for_a_moment(live: str) -> None:
    with urllib.request.urlopen(f"{live}/static/vote.css", timeout=20) as answer:
        style = answer.read().decode()
    assert "body:not(.scripted) .ballot button { animation: not-yet .8s; }" in style
    assert "@keyframes not-yet { from, to { pointer-events: none; } }" in style


def test_a_second_click_on_the_button_before_does_not_vote(browser: Browser, live: str) -> None:
    context = new_context(browser, base_url=live)
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.route(re.compile(r"/vote\.js"), slower)
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)

    page.goto("/")
    page.get_by_role("button", name="Start voting").click(no_wait_after=True)
    page.wait_for_selector(".ballot", state="attached")
    for choice in ("A is better", "Skip"):  # a hand that was faster than the page
        page.get_by_role("button", name=choice).click(force=True, no_wait_after=True)
    page.keyboard.press("a")
    page.wait_for_timeout(100)
    assert [post.rpartition("/")[2] for post in posts] == ["start"]
    context.close()


@pytest.mark.parametrize("width", [360, pytest.param(1280, marks=pytest.mark.soak)])
def test_everything_works_without_a_script(visits: Visits, width: int) -> None:
    page = visitor(visits, script=False, width=width)
    start_voting(page)
    assert not any(name in page.content() for name in IDENTIFYING)
    page.get_by_role("button", name="Skip").click()
    page.get_by_role("button", name="Tie").click()
    held_back(page)
    page.get_by_role("button", name="Undo").click()
    assert page.locator("h1").inner_text() == "Your vote is undone"
    assert not any(name in page.content() for name in IDENTIFYING)
    page.get_by_role("link", name="Next pair").click()
    page.get_by_role("button", name="B is better").click()
    assert len(revealed(page)) == 2


def test_on_a_phone_the_prompt_is_on_top_and_what_is_pressed_next_stays_under_the_thumb(visits: Visits) -> None:
    page = visitor(visits, width=390, height=1200, touch=True)  # room for both answers of any pair here
    start_voting(page)
    assert page.evaluate("document.querySelector('.asked .prompt').getBoundingClientRect().top") <= 120
    page.locator(".switch").wait_for(state="hidden", timeout=20_000)  # both answers fit
    boxes = [page.locator(".choices .a").bounding_box()]
    page.get_by_role("button", name="A is better").tap()
    held_back(page)
    assert "then it does not count, and the names stay hidden" in page.locator(".opening").inner_text()
    boxes.append(page.locator(".show-names").bounding_box())
    revealed(page)
    assert "1 of 20 to your own board" in page.locator(".bar").inner_text()
    boxes.append(page.locator("a.next").bounding_box())
    middles = [box["y"] + box["height"] / 2 for box in boxes if box]
    assert len(middles) == 3
    assert max(middles) - min(middles) < 24, "half a button"


def test_a_phone_shows_one_answer_or_both_never_scrolls_sideways_and_moves_nothing_if_asked(
    visits: Visits, long_site: str
) -> None:
    page = visitor(visits, width=360, height=740, touch=True)
    page.emulate_media(reduced_motion="reduce")
    start_voting(page, long_site)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("#show-both").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#show-a").is_checked()
    page.locator("#show-b").check()
    assert not page.locator("#answer-a").is_visible()
    assert page.locator("#answer-b").is_visible()
    page.locator("#show-both").check()
    assert page.locator("#answer-a").is_visible()
    assert page.locator("#answer-a").bounding_box()["y"] < page.locator("#answer-b").bounding_box()["y"]  # type: ignore[index]
    page.locator("#show-a").check()
    page.get_by_role("button", name="Both bad").tap()
    held_back(page)
    assert page.locator(".countdown").count() == 0
    assert "You can undo it for 5 s" in page.locator(".opening").inner_text()
    assert len(revealed(page)) == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


CODE = "```python\nreturn 'a line of code that is far too wide for a phone', 42\n```"
TABLE = f"|{' column |' * 9}\n|{'--|' * 9}\n|{' some words |' * 9}"
LONG = f"<think>two words</think>\nLet $x^2 = 1$.\n\n{CODE}\n\n{TABLE}\n\n" + "Words and more words. " * 200


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((1280, True), (360, False)),
        *(
            pytest.param((width, dark), (width, dark), marks=pytest.mark.soak)
            for width in (360, 1280)
            for dark in (False, True)
        ),
    ],
)
def test_long_answers_are_read_before_the_vote(
    visits: Visits, long_site: str, first: tuple[int, bool], then: tuple[int, bool]
) -> None:
    """Locked on one screen, opened on another: no color depends on the width, and each is asked about once."""
    width, dark = first
    page = visitor(visits, width=width, dark=dark)
    start_voting(page, long_site)
    ballot, why = page.locator(".ballot [value=A]"), page.locator(".locked-why")
    texts = page.locator(".answer .said")
    assert "more words" in page.locator(".answer.a .expand-label").inner_text()
    assert why.inner_text() == "Open or scroll to the end of both answers, then vote."
    assert why.inner_text() in str(page.locator("#announce").text_content())
    page.keyboard.press("a")
    ballot.click(force=True)
    assert page.locator(".ballot").count() == 1
    assert ballot.get_attribute("aria-describedby") == why.get_attribute("id")
    check_accessible(page, dark=dark)
    for text, least in SIZES.items():
        assert page.evaluate(text) == [], least
    if width > 1000:
        page.keyboard.press("l")
        texts.first.evaluate("box => box.scrollTop = box.scrollHeight / 2")
        texts.last.evaluate(
            "box => new Promise((done) => (function look() { box.scrollTop > 100 ? done() : setTimeout(look, 20); })())"
        )
        page.keyboard.press("l")
    width, dark = then
    change_screen(page, width, dark=dark)
    texts.first.evaluate("box => box.scrollTop = box.scrollHeight")
    page.locator(".locked-why", has_text="answer B").wait_for()
    page.locator(".answer.b .expand-label").click()
    why.wait_for(state="hidden")
    assert page.locator("#announce").text_content() == "You can vote now."
    assert texts.last.evaluate("box => box.scrollHeight <= box.clientHeight + 1")
    page.locator(".answer.b summary", has_text="Reasoning").click()
    page.wait_for_selector(".answer.b .thoughts .text")
    check_accessible(page, dark=dark)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy Answer A").click()
    page.locator("#announce", has_text="Copied.").wait_for(state="attached")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("Let $x^2 = 1$.")
    assert "return 'a line of code" in copied
    page.keyboard.press("a")
    assert len(revealed(page)) == 2
    page.keyboard.press("2")
    page.locator(".saved", has_text="Saved.").wait_for()
    if size(0, soak=1):
        check_accessible(page, dark=dark)  # every run: test_no_page_of_the_vote_has_an_accessibility_fault
    for text, least in SIZES.items():
        assert page.evaluate(text) == [], least
    assert page.evaluate("document.documentElement.scrollWidth") <= width


SIZES = {
    """innerWidth > 500 ? [] : [...document.querySelectorAll(
        "main :is(button, a.button, summary, .expand-label, .switch label)"
      )].filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 44).map(e => e.outerHTML)""": "44 px",
    """[...document.querySelectorAll("main *")].filter(e => e.checkVisibility() && !e.closest("math, .hidden")
      && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())
      && parseFloat(getComputedStyle(e).fontSize) < 12).map(e => e.outerHTML)""": "12 px",
}


def test_an_answer_that_does_not_render_can_be_said_so(visits: Visits, long_site: str) -> None:
    """The views are those of other kinds of answers; here they are put into the page by hand."""
    page = visitor(visits)
    start_voting(page, long_site)
    page.evaluate(
        """for (const side of ["a", "b"]) {
             const view = document.createElement("div");
             Object.assign(view, { className: "view" });
             Object.assign(view.dataset, { kind: "another", state: "loading", hint: "Both are still loading." });
             document.querySelector(`.answer.${side} .said`).replaceWith(view);
           }
           const box = document.createElement("details");
           box.className = "unrendered";
           box.innerHTML = "<summary>Something does not render</summary>"
             + ["A", "B", "AB"].map(side => `<button name="unrendered" value="${side}">${side}</button>`).join("");
           document.querySelector(".ballot").append(box);
           window.setView = (side, state) => {
             const view = document.querySelector(`.answer.${side} .view`);
             view.dataset.state = state;
             view.dispatchEvent(new Event("tiltyard:view", { bubbles: true }));
           };
           setView("a", "ready");"""
    )
    assert "Voting waits for B" in page.locator(".locked-why").inner_text()
    assert page.locator(".ballot [aria-disabled=true]").count() == 7
    page.evaluate("setView('b', 'failed')")
    assert page.locator(".ballot [aria-disabled=true]").count() == 0
    assert page.locator(".unrendered[open] .primary").get_attribute("value") == "B"
    assert page.locator("#announce").text_content() == "You can vote now."


def test_what_cannot_be_sent_says_so_and_works_later_and_names_come_only_after_the_commit(visits: Visits) -> None:
    page = visitor(visits)
    page.goto("/")
    page.route("**/start", lambda route: route.abort())
    page.get_by_role("button", name="Start voting").click()
    page.wait_for_selector(".complaint")
    assert page.locator(".ballot").count() == 0
    page.unroute("**/start")
    page.get_by_role("button", name="Start voting").click()
    page.wait_for_selector(".ballot")
    assert page.locator(".complaint").count() == 0
    page.route("**/vote", lambda route: route.abort())
    page.keyboard.press("a")
    page.wait_for_selector(".complaint")
    assert "nothing was counted" in page.locator(".complaint").inner_text()
    assert page.locator(".revealed").count() == 0
    seen: list[str] = []

    def hold(route: Route) -> None:
        seen.append(page.content())  # the vote is on its way, and nobody has confirmed it
        route.continue_()

    page.route("**/vote", hold)  # in place of the route that failed
    page.keyboard.press("a")
    assert len(revealed(page)) == 2
    assert len(seen) == 1
    assert not any(name in seen[0] for name in IDENTIFYING)


@pytest.mark.parametrize("looks", LOOKS)
def test_no_page_of_the_vote_has_an_accessibility_fault(visits: Visits, looks: Looks) -> None:
    page = visitor(visits)

    def check() -> None:
        for width, dark in looks:
            change_screen(page, width, dark=dark)
            check_accessible(page, dark=dark)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            ink = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, ink[4:-1].split(","))) < 150) == dark

    page.goto("/")
    check()
    page.get_by_role("button", name="Start voting").click()
    page.wait_for_selector(".ballot")
    check()
    page.keyboard.press("a")
    held_back(page)
    check()
    revealed(page)
    page.keyboard.press("2")
    page.locator(".saved", has_text="Saved.").wait_for()
    check()
    page.keyboard.press("n")
    page.wait_for_selector(".ballot")
    page.keyboard.press("a")
    held_back(page)
    page.keyboard.press("u")
    page.locator("h1", has_text="undone").wait_for()
    check()
    turn_to(page, "/nothing", 404)
    check()
