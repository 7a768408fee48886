"""A real browser for tests: chromium, driven by Playwright, opened once for all tests of a process."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.forked import PATIENCE_SECONDS
from tests.missing import needs
from tests.sizes import size

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first that is installed. The headless shell is the same chromium without windows, and takes half the CPU time."""

SCREENS = (
    pytest.param(1280, True, id="wide-dark"),
    pytest.param(360, False, id="phone-light"),
    pytest.param(1280, False, id="wide-light", marks=pytest.mark.soak),
    pytest.param(360, True, id="phone-dark", marks=pytest.mark.soak),
)
"""Width and whether dark. No color depends on the width, so both widths and both themes need two screens, not four.

All rules are looked at where it is light; where it is dark, the colors."""

Looks = tuple[tuple[int, bool], ...]
LOOKS = (
    pytest.param(((360, False), (1280, True)), id="phone-light, wide-dark"),
    pytest.param(((1280, False), (360, True)), id="wide-light, phone-dark", marks=pytest.mark.soak),
)
"""The same screens for pages that are looked at twice in one visit: first all rules, then the colors."""


BROKEN_RULES = (Path(__file__).parent / "broken_rules.js").read_text(encoding="utf-8")
OTHER_PAGE = """async (text) => {
  const made = new DOMParser().parseFromString(text, "text/html").documentElement;
  document.documentElement.replaceWith(document.adoptNode(made));
  const sheets = [...document.querySelectorAll("link[rel=stylesheet]")].filter((one) => !one.sheet);
  const loaded = (one) => new Promise((done, wrong) => Object.assign(one, { onload: done, onerror: wrong }));
  await Promise.all(sheets.map(loaded));
}"""
LOOKS_ALIKE = (Path(__file__).parent / "looks_alike.js").read_text(encoding="utf-8")

SEEN: dict[bool, set[str]] = {False: set(), True: set()}
"""How texts and all around them look whose colors axe has found right, on any page before, in this process.

Where only contrast is asked for, nobody asks whether a link can be told from its text: that has its own set, `True`.
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A chromium. While it is open, an event loop counts as running in this thread."""
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        needs("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--site-per-process"])
        yield running
        running.close()


@pytest.fixture(scope="session")
def awake_browser() -> Iterator[Callable[[], AbstractContextManager[Browser]]]:
    """The browser of this process, for a block of code; outside, another event loop may run in this thread.

    Playwright waits for the browser in a greenlet, and marks its loop as running even while nobody talks to it.
    """
    with chromium() as opened:
        loop = asyncio._get_running_loop()

        @contextmanager
        def awake() -> Iterator[Browser]:
            asyncio._set_running_loop(loop)
            try:
                yield opened
            finally:
                asyncio._set_running_loop(None)

        asyncio._set_running_loop(None)
        yield awake
        asyncio._set_running_loop(loop)


@pytest.fixture
def browser(awake_browser: Callable[[], AbstractContextManager[Browser]]) -> Iterator[Browser]:
    """A browser for one test; whatever the test opens, it closes."""
    with awake_browser() as opened:
        yield opened


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """A visitor of their own, who waits as long for a page as any test does."""
    made = browser.new_context(**options)
    made.set_default_timeout(1000 * PATIENCE_SECONDS)
    return made


def broken_rules(page: Page, *, within: str | None = None, colors_only: bool = False) -> list[tuple[str, str, str]]:
    """The rules of accessibility that a page breaks: each with a place and what is wrong there.

    Parameters:
        page: What axe looks at.
        within: A selector, to look at a part of the page only.
        colors_only: Ask for contrast alone: for a page that was looked at in the other theme, which changes nothing
            else.
    """
    from axe_playwright_python.sync_playwright import Axe

    page.mouse.move(0, 0)  # whatever is under it changes its colors, and takes a moment for it
    seen = SEEN[colors_only]
    looks = page.evaluate(LOOKS_ALIKE, {"within": within, "known": " ".join(seen)})
    if colors_only and not looks:
        return []
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(Axe().axe_script)
    found = page.evaluate(BROKEN_RULES, {"within": within, "colorsOnly": colors_only})
    if not found:
        seen.update(looks)
    return [(rule, place, wrong) for rule, place, wrong in found]


def turn_to(page: Page, address: str, status: int = 200) -> None:
    """Show another page of the same site: in soak by going there, in every run without its scripts.

    Then only the document is replaced, and axe, which is loaded already, takes half of its time.
    """
    answer = page.goto(address) if size(0, soak=1) else page.context.request.get(address)
    assert answer is not None
    assert answer.status == status, address
    if not size(0, soak=1):
        page.evaluate(OTHER_PAGE, answer.text())


def change_screen(page: Page, width: int, *, dark: bool) -> None:
    """Look at a page on a screen of another width and theme, once no color is on its way from one to the other."""
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme="dark" if dark else "light")
    page.evaluate("document.getAnimations().filter(one => one instanceof CSSTransition).forEach(one => one.finish())")


class Tab:
    """One page: goes to a file, says what is rendered, and remembers what the browser complained about."""

    def __init__(self, browser: Browser) -> None:
        self._context = new_context(browser, viewport={"width": 1280, "height": 900}, color_scheme="light")
        self._page = self._context.new_page()
        self._browser = self._context.new_cdp_session(self._page)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for domain in ("Runtime", "Log", "Network"):
            self._browser.send(f"{domain}.enable")
        self._browser.on(
            "Runtime.exceptionThrown", lambda what: self.complaints.append(what["exceptionDetails"]["text"])
        )
        self._browser.on("Runtime.consoleAPICalled", lambda what: self.complaints.append(f"console.{what['type']}"))
        self._browser.on("Log.entryAdded", lambda what: self.complaints.append(what["entry"]["text"]))
        self._browser.on("Network.requestWillBeSent", lambda what: self.requests.append(what["request"]["url"]))

    def clean(self) -> None:
        """Be as at first."""
        self.scripts(True)
        self.screen(1280, 900)
        self._page.goto("about:blank")
        self.complaints.clear()
        self.requests.clear()

    def close(self) -> None:
        self._context.close()

    def screen(self, width: int, height: int, *, dark: bool = False, media: str | None = None) -> None:
        """Set the size of the window, the reader's preference for dark pages, and the medium (`print`)."""
        self._page.set_viewport_size({"width": width, "height": height})
        self._page.emulate_media(color_scheme="dark" if dark else "light", media=media or "null")  # type: ignore[arg-type]

    def scripts(self, on: bool) -> None:
        """Turn JavaScript on or off."""
        self._browser.send("Emulation.setScriptExecutionDisabled", {"value": not on})

    def open(self, path: Path, anchor: str = "") -> None:
        """Go to a file and wait until it is loaded; from about:blank, so that the same file is loaded anew."""
        self._page.goto("about:blank")
        self._page.goto(path.resolve().as_uri() + (f"#{anchor}" if anchor else ""))

    def shown(self) -> str:
        """The text that is laid out on the page: what is hidden is not in it. Works with JavaScript off too."""
        snapshot = self._browser.send("DOMSnapshot.captureSnapshot", {"computedStyles": []})
        strings = snapshot["strings"]
        return "\n".join(
            strings[index] for document in snapshot["documents"] for index in document["layout"]["text"] if index >= 0
        )

    def broken_rules(self, within: str | None = None, *, colors_only: bool = False) -> list[tuple[str, str, str]]:
        """The rules of accessibility that the page breaks, or a part of it."""
        return broken_rules(self._page, within=within, colors_only=colors_only)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, for tests with JavaScript on."""
        found = self._browser.send("Runtime.evaluate", {"expression": expression, "returnByValue": True})
        return found["result"].get("value")


@pytest.fixture(scope="session")
def tab_of_all(awake_browser: Callable[[], AbstractContextManager[Browser]]) -> Iterator[Tab]:
    """The page of all tests that look at files: no page that we write keeps anything in the browser."""
    with awake_browser() as opened:
        made = Tab(opened)
    yield made
    with awake_browser():
        made.close()


@pytest.fixture
def tab(awake_browser: Callable[[], AbstractContextManager[Browser]], tab_of_all: Tab) -> Iterator[Tab]:
    """A page for one test, as if it had just been opened."""
    with awake_browser():
        tab_of_all.clean()
        yield tab_of_all
