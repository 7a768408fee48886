"""Whether the site can do its work (`/healthz`), and its figures for a monitor (`/metrics`). No model is named here."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from tiltyard import __version__
from tiltyard.arena import asks
from tiltyard.arena.service import clock
from tiltyard.arena.store.backlog import Backlog, KindCounts, backlog
from tiltyard.errors import ArenaError, StoreError
from tiltyard.web.failures import RETRY_SECONDS
from tiltyard.web.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from tiltyard.arena.state import ArenaState

router = APIRouter(include_in_schema=False)

PATIENCE_SECONDS = 3.0
"""How long the writer and the database may take to answer before they count as not answering."""

SECOND = 1_000_000
TEXT = "text/plain; version=0.0.4; charset=utf-8"

COUNTED = {
    "matchup_served": ("tiltyard_matchups_total", "Matchups served since the log began."),
    "voted": ("tiltyard_votes_total", "Votes cast since the log began, whether or not they still count."),
    "skipped": ("tiltyard_skips_total", "Matchups skipped since the log began."),
    "expired": ("tiltyard_expirations_total", "Matchups that nobody voted on in time."),
    "undone": ("tiltyard_undos_total", "Votes taken back by their voters."),
}
"""The events that are counted for a monitor: kind, name of the figure, what it is."""


class Requests:
    """How many requests were answered by this process: by method, route and status."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, int]] = Counter()


class CountRequests:
    """The layer that counts. It stands outside all others, so that it sees what really left."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app = app
        self._counts = requests.counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note its status."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"]

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._counts[method if method in METHODS else "other", _route(scope), message["status"]] += 1
            await send(message)

        await self._app(scope, receive, noted)


METHODS = frozenset({"GET", "HEAD", "POST"})


def _route(scope: Scope) -> str:
    """The route as it was declared, never what a visitor wrote; requests that no route took are counted together."""
    return str(getattr(scope.get("route"), "path", "none"))


def count_requests(app: FastAPI) -> None:
    """Let a site count what it answers. Called after every other layer was added, to stand outside them."""
    app.state.requests = Requests()
    app.state.kind_counts = _Kinds()
    app.add_middleware(CountRequests, requests=app.state.requests)


class _Kinds:
    """The counts of events, followed by one thread at a time."""

    def __init__(self) -> None:
        self._counts = KindCounts()
        self._lock = threading.Lock()

    def of(self, site: Site) -> Counter[str]:
        """How many events of each kind there are."""
        with self._lock:
            return self._counts.follow(site.engine.arena.store)


@dataclass(frozen=True, slots=True)
class Writer:
    """What the writing thread says: how far it has come, what is in flight, and how long it took to answer."""

    seq: int
    in_flight: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Health:
    """How the parts of a site are; None where a part did not answer."""

    store: Backlog | None
    writer: Writer | None
    board_seq: int | None
    board_age_seconds: float | None
    """How old the published board is: 0 if it shows the end of the log, else the age of the last event it shows."""
    trouble: str | None

    @property
    def well(self) -> bool:
        """Whether votes can be taken: the database answers and the writer runs. An old board is no reason to stop."""
        return self.store is not None and self.writer is not None

    def values(self) -> dict[str, Any]:
        """What `/healthz` says."""
        return {
            "status": "ok" if self.well else "failing",
            "store": self.store is not None,
            "writer": self.writer is not None,
            "head": None if self.store is None else self.store.head_seq,
            "unchained": None if self.store is None else self.store.unchained,
            "board_age_seconds": self.board_age_seconds,
            "version": __version__,
        }


async def look_at(site: Site) -> Health:
    """How the parts of a site are now; it never takes much longer than its patience."""
    store, writer = await asyncio.gather(_store(site), _writer(site))
    try:
        snapshot = site.observatory.snapshot
    except ArenaError:
        return Health(store, writer, None, None, site.observatory.trouble)
    behind = store is None or snapshot.seq < store.head_seq
    age = max(0.0, (clock() - snapshot.at) / SECOND) if behind else 0.0
    return Health(store, writer, snapshot.seq, round(age, 3), site.observatory.trouble)


async def _store(site: Site) -> Backlog | None:
    try:
        return await asyncio.wait_for(asyncio.to_thread(backlog, site.engine.arena.store), PATIENCE_SECONDS)
    except (StoreError, TimeoutError):
        return None


async def _writer(site: Site) -> Writer | None:
    """Ask the writer something small. Like everybody's, the question waits for the group before it."""
    began = time.perf_counter()
    try:
        asked = asyncio.wrap_future(site.engine.arena.ask(asks.Read(_seen)))
        seq, in_flight = await asyncio.wait_for(asyncio.shield(asked), PATIENCE_SECONDS)
    except TimeoutError:
        asked.add_done_callback(_ignore)
        return None
    except ArenaError:
        return None
    return Writer(seq, in_flight, time.perf_counter() - began)


def _seen(state: ArenaState) -> tuple[int, int]:
    return state.seq, len(state.schedule.in_flight)


def _ignore(asked: asyncio.Future[tuple[int, int]]) -> None:
    """Whatever the late answer is, nobody waits for it any more."""
    if not asked.cancelled():
        asked.exception()


@router.get("/healthz")
async def healthz(request: Request) -> Response:
    """200 while votes can be taken, 503 while not; the parts as JSON."""
    site = getattr(request.app.state, "site", None)
    if not isinstance(site, Site):
        return _json({"status": "starting"}, 503)
    health = await look_at(site)
    return _json(health.values(), 200 if health.well else 503)


def _json(values: Mapping[str, Any], status: int) -> Response:
    headers = {} if status == 200 else {"retry-after": str(RETRY_SECONDS)}
    return Response(msgspec.json.encode(values), status, headers, media_type="application/json")


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """The figures as Prometheus reads them; where the arena does not answer, those of this process alone."""
    lines: list[str] = []
    site = getattr(request.app.state, "site", None)
    if isinstance(site, Site):
        health = await look_at(site)
        kinds: Counter[str] | None = None
        if health.store is not None:
            try:
                kinds = await asyncio.to_thread(request.app.state.kind_counts.of, site)
            except StoreError:
                kinds = None
        lines += _arena_lines(health, kinds)
    lines += _request_lines(request.app.state.requests.counts)
    return Response("\n".join(lines) + "\n", media_type=TEXT)


def _arena_lines(health: Health, kinds: Counter[str] | None) -> Iterator[str]:
    yield from _figure("tiltyard_up", "gauge", "1 while votes can be taken.", int(health.well))
    if kinds is not None:
        for kind, (name, said) in COUNTED.items():
            yield from _figure(name, "counter", said, kinds[kind])
    if health.store is not None:
        yield from _figure("tiltyard_log_events", "gauge", "Events in the chained log.", health.store.head_seq)
        said = "Committed events that have no place in the log yet."
        yield from _figure("tiltyard_unchained_events", "gauge", said, health.store.unchained)
        said = "Matchups that wait for a vote."
        yield from _figure("tiltyard_matchups_in_flight", "gauge", said, health.store.open_matchups)
    if health.writer is not None:
        said = "How long the writing thread took to answer this very question, the commit before it included."
        yield from _figure("tiltyard_writer_answer_seconds", "gauge", said, round(health.writer.seconds, 6))
    if health.board_age_seconds is not None:
        said = "Age of the published board: 0 while it shows the end of the log."
        yield from _figure("tiltyard_board_age_seconds", "gauge", said, health.board_age_seconds)


def _figure(name: str, kind: str, said: str, value: float) -> Iterator[str]:
    yield f"# HELP {name} {said}"
    yield f"# TYPE {name} {kind}"
    yield f"{name} {value}"


def _request_lines(counts: Counter[tuple[str, str, int]]) -> Iterator[str]:
    name = "tiltyard_http_requests_total"
    yield f"# HELP {name} Requests answered by one process, by method, route and status."
    yield f"# TYPE {name} counter"
    worker = os.getpid()
    for (method, route, status), count in sorted(counts.items()):
        yield f'{name}{{worker="{worker}",method="{method}",route="{route}",status="{status}"}} {count}'
