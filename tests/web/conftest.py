"""Sites for the tests: in process, behind a real server, and a real browser to visit them with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.arena.databases import arena_url, postgresql_databases, postgresql_url, sqlite_template, sqlite_url
from tests.browsers import new_context
from tests.web.sites import SmallSite, catalog, live_site, small_site
from tiltyard.arena.service import Arena

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

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


class Visits:
    """Visitors of a live site. What a browser complains of, and what leaves the host, is noted for all of them."""

    def __init__(self, browser: Browser, address: str) -> None:
        self._browser = browser
        self.address = address
        self.complaints: list[str] = []
        self._contexts: list[BrowserContext] = []

    def visitor(
        self, *, width: int = 1280, height: int = 800, dark: bool = False, script: bool = True, touch: bool = False
    ) -> Page:
        """A new visitor's page, on a screen of this size."""
        context = new_context(
            self._browser,
            base_url=self.address,
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
            has_touch=touch,
            bypass_csp=False,
        )
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: self._hear(said.type, said.text))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", lambda request: self._watch(request.url))
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and "Failed to load resource" not in text:
            self.complaints.append(f"{kind}: {text}")

    def _watch(self, url: str) -> None:
        if urlsplit(url).hostname != urlsplit(self.address).hostname and urlsplit(url).scheme not in ("data", "about"):
            self.complaints.append(f"left the host: {url}")


@pytest.fixture
def visits(browser: Browser, live: str) -> Iterator[Visits]:
    """Visitors with a real browser; nothing may be blocked by the site's policy, and nothing leave the host."""
    made = Visits(browser, live)
    yield made
    made.close()
    assert made.complaints == []


@pytest.fixture
def looking(browser: Browser, address: str) -> Iterator[Visits]:
    """Visitors of a file's own server, `address`; nothing may be blocked by its policy, and nothing leave the host."""
    made = Visits(browser, address)
    yield made
    made.close()
    assert made.complaints == []
