"""A live site whose answers are files of a test's choice, looked at by a real browser."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browsers import new_context
from tests.site.sites import ADMIN_SECRET, MODELS, QUICK, SECRET, LiveServer, catalog
from tiltyard.arena import Arena
from tiltyard.arena import events as e
from tiltyard.arena.store.files import CleanFile
from tiltyard.arena.study import Observatory
from tiltyard.site.app import create_app
from tiltyard.site.settings import SiteSettings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

TYPES = {"svg": "image/svg+xml", "html": "text/html; charset=utf-8", "voxel": "application/json", "audio": "audio/wav"}


class Gallery:
    """A live site whose only prompt is answered with one file by everybody, or with others by the models in turn."""

    def __init__(self, arena: Arena, url: str) -> None:
        self.arena = arena
        self.url = url
        self._shown: list[str] = [f"p{j}" for j in range(3)]

    def show(self, kind: str, *contents: bytes) -> None:
        name = f"{kind}-{len(self._shown)}"
        files = [CleanFile(content=content, media_type=TYPES[kind]) for content in contents]
        self.arena.append(
            [
                e.PromptAdded(prompt_id=name, text="Make something."),
                *(
                    e.ResponseAdded(
                        response_id=f"{name}-{model}",
                        model=model,
                        prompt_id=name,
                        text="",
                        answer_kind=kind,
                        file=files[place % len(files)].sha256,
                    )
                    for place, model in enumerate(MODELS)
                ),
                e.PromptDisabled(prompt_id=self._shown[-1]),
            ],
            files,
        )
        self._shown.append(name)


@pytest.fixture(scope="module")
def gallery(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    with open_gallery(sqlite_template, tmp_path_factory.mktemp("gallery")) as opened:
        yield opened


@contextmanager
def open_gallery(template: Path, folder: Path, *, second_host: bool = False) -> Iterator[Gallery]:
    """A gallery in a folder. With a second host, pages are framed from `localhost`, which is another site."""
    path = shutil.copy(template, folder / "arena.db")
    url = f"sqlite:///{path}"
    bound = socket.create_server(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    settings = SiteSettings(
        db=url,
        title="Gallery",
        secret=SECRET,
        admin_secret=ADMIN_SECRET,
        rate_limit=False,
        public_url=f"http://127.0.0.1:{port}",
        answers_host=f"localhost:{port}" if second_host else "",
    )
    with ExitStack() as stack:
        arena = stack.enter_context(Arena.open(url))
        arena.append([*catalog(), *(e.PromptDisabled(prompt_id=f"p{j}") for j in range(2))])
        server = LiveServer(create_app(settings, arena, stack.enter_context(Observatory(url, pace=QUICK))), bound)
        server.start()
        stack.callback(server.stop)
        yield Gallery(arena, server.url)


@pytest.fixture
def context(browser: Browser, gallery: Gallery) -> Iterator[BrowserContext]:
    made = new_context(browser, base_url=gallery.url, viewport={"width": 800, "height": 600}, reduced_motion="reduce")
    yield made
    made.close()


def visit(context: BrowserContext, url: str = "") -> Page:
    """The page of a pair, as a new voter."""
    page = context.new_page()
    page.goto(f"{url}/")
    page.click("text=Start voting")
    page.wait_for_selector(".view")
    return page


def settled(page: Page, state: str = "") -> None:
    """Wait until no view loads any more, or until one has a state."""
    page.wait_for_selector(f'.view[data-state="{state}"]' if state else ".pair:not(:has(.view[data-state=loading]))")


class Outside:
    """What the answers try to reach: counts connections and packets."""

    def __init__(self) -> None:
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.reached = 0
        for wait in (self.tcp.accept, lambda: self.udp.recvfrom(2000)):
            threading.Thread(target=self._count, args=(wait,), daemon=True).start()

    def _count(self, wait: object) -> None:
        try:
            while True:
                wait()  # type: ignore[operator]
                self.reached += 1
        except OSError:
            return

    def close(self) -> None:
        for end in (self.tcp, self.udp):
            end.close()
