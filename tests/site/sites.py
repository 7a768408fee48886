"""Small sites over real arenas, in process or behind a real server, and what tests do with them."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2 as httpx
import uvicorn
from anyio.from_thread import BlockingPortal
from starlette.applications import Starlette
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from tiltyard.arena import Arena
from tiltyard.arena import events as e
from tiltyard.arena.study import Observatory, Pace
from tiltyard.site.app import create_app
from tiltyard.site.serving import server_options
from tiltyard.site.settings import SiteSettings
from tiltyard.site.visitors import Cookies

SECRET = "a secret that only tests know"
ADMIN_SECRET = "another secret that only tests know"
SCRAPER = {"authorization": f"Bearer {ADMIN_SECRET}"}
"""What a monitor sends to see figures."""
MODELS = ("zyxwolf-one", "qvartz-7b", "mnemosyne-xl", "ouroboros-2")
NAMES = ("Zyxwolf One", "Qvartz 7B", "Mnemosyne XL", "Ouroboros 2")
PROVIDERS = ("Zyxcorp", "Qvartz Labs", "Titan House", "Ring Systems")
IDENTIFYING = (*MODELS, *NAMES, *PROVIDERS)
QUICK = Pace(board_seconds=0.05, rest=0.0, publish_seconds=0.0)


def catalog(prompts: int = 3) -> list[e.AnyBody]:
    """Four models whose names occur nowhere else, some prompts, and every answer."""
    named = zip(MODELS, NAMES, PROVIDERS, strict=True)
    return [
        *(e.ModelAdded(model=model, display_name=name, provider=provider) for model, name, provider in named),
        *(e.PromptAdded(prompt_id=f"p{j}", text=f"Question *number* {j}?", subject="sums") for j in range(prompts)),
        *(answer(i, j, said(i, j)) for i in range(len(MODELS)) for j in range(prompts)),
    ]


def said(model: int, prompt: int) -> str:
    """What a model says to a prompt: nothing about itself."""
    return f"An answer with **some** words, {7 * model + prompt} of them." + " More of it." * (150 * (model % 2))


def answer(model: int, prompt: int, text: str) -> e.ResponseAdded:
    return e.ResponseAdded(
        response_id=f"{MODELS[model]}/p{prompt}", model=MODELS[model], prompt_id=f"p{prompt}", text=text
    )


@dataclass(frozen=True)
class SmallSite:
    """A site and its parts. Nothing but `refresh` moves the observatory of one in process."""

    url: str
    arena: Arena
    observatory: Observatory
    settings: SiteSettings
    app: Starlette
    portal: BlockingPortal | None = None
    """The event loop of the site, as one server has it."""

    @property
    def cookies(self) -> Cookies:
        """Those of its visitors."""
        found: Cookies = self.app.state.site.visitors.cookies
        return found

    def client(self, address: str = "testclient") -> TestClient:
        """A visitor without a cookie, from some address; redirects are not followed."""
        client = TestClient(self.app, client=(address, 50_000), follow_redirects=False)
        client.portal = self.portal
        return client


@contextmanager
def small_site(
    url: str,
    *,
    rate_limit: bool = False,
    proxies: tuple[str, ...] = (),
    public_url: str | None = None,
    answers_host: str = "",
    secret: str = SECRET,
    consent: str = "",
    privacy: str = "",
) -> Iterator[SmallSite]:
    """A site in this process, over an arena with four models."""
    settings = SiteSettings(
        db=url,
        title="Test arena",
        secret=secret,
        admin_secret=ADMIN_SECRET,
        rate_limit=rate_limit,
        trusted_proxies=proxies,
        public_url=public_url,
        answers_host=answers_host,
        consent=consent,
        privacy=privacy,
    )
    with Arena.open(url) as arena:
        if not arena.read(lambda state: len(state.catalog.models)):
            arena.append(catalog())
        observatory = Observatory(url, pace=QUICK)
        observatory.refresh()
        app = create_app(settings, arena, observatory)
        try:
            with TestClient(app) as running:
                yield SmallSite(url, arena, observatory, settings, app, running.portal)
        finally:
            observatory.close()


class LiveServer:
    """A real server on a port of its own, in a thread."""

    def __init__(self, app: ASGIApp, bound: socket.socket | None = None, **options: Any) -> None:
        self._socket = bound or socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(app, **{**server_options(), **options})
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    @property
    def connections(self) -> list[Any]:
        """Those that are open."""
        return list(self._server.server_state.connections)

    def start(self) -> None:
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        self._socket.close()


@contextmanager
def live_site(url: str) -> Iterator[str]:
    """The address of a real server over an arena with four models; its observatory follows by itself."""
    texts = {"title": "Test arena", "notice": "Made for tests."}
    settings = SiteSettings(db=url, secret=SECRET, admin_secret=ADMIN_SECRET, rate_limit=False, **texts)
    with Arena.open(url) as arena:
        if not arena.read(lambda state: len(state.catalog.models)):
            arena.append(catalog())
        with Observatory(url, pace=QUICK) as observatory:
            server = LiveServer(create_app(settings, arena, observatory))
            server.start()
            try:
                yield server.url
            finally:
                server.stop()


def vote_page(client: httpx.Client) -> httpx.Response:
    """The page with a pair; somebody new presses the button that starts."""
    page = client.get("/")
    if 'action="/start"' in page.text:
        started = client.post("/start", data=hidden_fields(page.text))
        if started.status_code != 303:
            return started
        page = client.get("/")
    return page


def hidden_fields(page: str) -> dict[str, str]:
    """The hidden fields of the page's forms."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))


def form_in(page: str) -> dict[str, str]:
    """The hidden fields of the page's first form."""
    fields = hidden_fields(page)
    assert {"matchup_id", "token"} <= set(fields), page
    return fields


def vote_once(client: TestClient, choice: str = "A", *, reveal: bool = True) -> str:
    """The address of the result of a vote by the plain form; its names are shown, unless they are to be held back."""
    fields = form_in(vote_page(client).text)
    answer = client.post("/vote", data={**fields, "choice": choice})
    assert answer.status_code == 303, answer.text
    if reveal:
        client.get(answer.headers["location"])
        assert client.post("/reveal", data=fields).headers["location"] == answer.headers["location"]
    return str(answer.headers["location"])
