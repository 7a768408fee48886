"""Sites for the tests: in process, behind a real server, and a real browser to visit them with."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.arena.databases import arena_url, postgresql_databases, postgresql_url, sqlite_template, sqlite_url
from tests.browsers import new_context
from tests.site.sites import SmallSite, catalog, live_site, small_site
from tiltyard.arena import Arena

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["arena_url", "postgresql_databases", "postgresql_url", "sqlite_template", "sqlite_url"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)])
def usual_url(request: pytest.FixtureRequest) -> str:
    """An empty arena for what is decided above the store: in SQLite, and by `make soak` on either database."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def site(usual_url: str) -> Iterator[SmallSite]:
    """A site in process, for what is decided above the store."""
    with small_site(usual_url) as made:
        yield made


@pytest.fixture
def site_anywhere(arena_url: str) -> Iterator[SmallSite]:
    """A site in process, on either database."""
    with small_site(arena_url) as made:
        yield made


@pytest.fixture(scope="session")
def filled_template(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An arena with the four models that every small site begins with."""
    path = tmp_path_factory.mktemp("filled") / "arena.db"
    shutil.copy(sqlite_template, path)
    with Arena.open(f"sqlite:///{path}") as arena:
        arena.append(catalog())
    return path


@pytest.fixture
def filled_url(filled_template: Path, tmp_path: Path) -> str:
    """A copy of that arena."""
    return f"sqlite:///{shutil.copy(filled_template, tmp_path / 'arena.db')}"


@pytest.fixture
def sqlite_site(filled_url: str) -> Iterator[SmallSite]:
    """A site in process, on SQLite."""
    with small_site(filled_url) as made:
        yield made


@pytest.fixture(scope="module")
def shared_site(filled_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSite]:
    """A site in process, one for all tests of a file that do not mind each other's visitors and votes."""
    path = shutil.copy(filled_template, tmp_path_factory.mktemp("shared") / "arena.db")
    with small_site(f"sqlite:///{path}") as made:
        yield made


@pytest.fixture(scope="module")
def live(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real server over a small arena, one for each file of tests."""
    path = tmp_path_factory.mktemp("live") / "arena.db"
    shutil.copy(sqlite_template, path)
    with live_site(f"sqlite:///{path}") as address:
        yield address


NOTHING_IS_NEW = "{ const wait = setTimeout; window.setTimeout = (then, ms) => ms === 800 ? then() : wait(then, ms) }"
"""The time in which nobody can vote on a new pair takes none, so that tests need not wait for it."""

ENDLESS_MOMENT = (
    "const wait = setTimeout; window.setTimeout = (then, ms, ...rest) => ms > 1000 ? 0 : wait(then, ms, ...rest)"
)
"""Long timers never end, so that the moment to undo a vote is as long as a test needs."""


class Window:
    """A page for one visitor after the other: a new process for each would take longer than most of what they do."""

    def __init__(self, browser: Browser, address: str, *, script: bool, touch: bool, endless: bool) -> None:
        self.context = new_context(
            browser, base_url=address, java_script_enabled=script, has_touch=touch, bypass_csp=False
        )
        self.page = self.context.new_page()
        self.visits: Visits | None = None
        self.page.add_init_script(NOTHING_IS_NEW)
        if endless:
            self.page.add_init_script(ENDLESS_MOMENT)
        self.page.on("console", lambda said: self.visits and self.visits.hear(said.type, said.text))
        self.page.on("pageerror", lambda error: self.visits and self.visits.complaints.append(f"error: {error}"))
        self.page.on("request", lambda request: self.visits and self.visits.watch(request.url))

    def lend(self, visits: Visits, width: int, height: int, dark: bool) -> Page:
        """The page for somebody new."""
        self.visits = visits
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme="dark" if dark else "light")
        return self.page

    def take_back(self) -> None:
        """Forget the visitor."""
        self.page.unroute_all()
        self.page.goto("about:blank")
        self.visits = None
        self.page.emulate_media(media="null", reduced_motion="null")
        self.context.clear_cookies()
        self.context.clear_permissions()


Windows = dict[tuple[str, bool, bool, bool], Window]


@pytest.fixture(scope="module")
def windows(awake_browser: Callable[[], AbstractContextManager[Browser]]) -> Iterator[Windows]:
    """The pages of a file's visitors."""
    made: Windows = {}
    yield made
    with awake_browser():
        for window in made.values():
            window.context.close()


class Visits:
    """Visitors of a live site. What a browser complains of, and what leaves the host, is noted for all of them."""

    def __init__(self, browser: Browser, address: str, windows: Windows) -> None:
        self._browser = browser
        self._windows = windows
        self.address = address
        self.complaints: list[str] = []
        self._lent: list[Window] = []
        self._own: list[Window] = []

    def visitor(
        self,
        *,
        width: int = 1280,
        height: int = 800,
        dark: bool = False,
        script: bool = True,
        touch: bool = False,
        endless: bool = False,
        own: bool = False,
    ) -> Page:
        """A new visitor's page, on a screen of this size.

        `endless`: their moment to undo a vote is. `own`: the window is for them alone, and closed afterwards.
        """
        key = (self.address, script, touch, endless)
        window = None if own else self._windows.get(key)
        if window is None or window in self._lent:
            window = Window(self._browser, self.address, script=script, touch=touch, endless=endless)
            if own or key in self._windows:
                self._own.append(window)
            else:
                self._windows[key] = window
        if window not in self._own:
            self._lent.append(window)
        return window.lend(self, width, height, dark)

    def close(self) -> None:
        for window in self._own:
            window.context.close()
        for window in self._lent:
            window.take_back()

    def hear(self, kind: str, text: str) -> None:
        """Note what a page said on its console."""
        if kind in ("error", "warning") and "Failed to load resource" not in text:
            self.complaints.append(f"{kind}: {text}")

    def watch(self, url: str) -> None:
        """Note what a page asked for, if it is elsewhere."""
        if urlsplit(url).hostname != urlsplit(self.address).hostname and urlsplit(url).scheme not in ("data", "about"):
            self.complaints.append(f"left the host: {url}")


@pytest.fixture
def visits(browser: Browser, live: str, windows: Windows) -> Iterator[Visits]:
    """Visitors with a real browser; nothing may be blocked by the site's policy, and nothing leave the host."""
    made = Visits(browser, live, windows)
    yield made
    made.close()
    assert made.complaints == []


@pytest.fixture
def looking(browser: Browser, address: str, windows: Windows) -> Iterator[Visits]:
    """Visitors of a file's own server, `address`; nothing may be blocked by its policy, and nothing leave the host."""
    made = Visits(browser, address, windows)
    yield made
    made.close()
    assert made.complaints == []
