"""Whether the site works, in words for everybody (`/healthz`), and in figures for the operator (`/metrics`).

Figures that move with each vote would tell when it was cast: they are given to whoever has the admin secret. No model
is named here.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tiltyard import __version__
from tiltyard.arena import SECOND, ArenaState, ThreadHealth, TooMany, clock
from tiltyard.arena.store import Backlog, KindCounts, backlog, latest_blocks
from tiltyard.errors import ArenaError, StoreError
from tiltyard.site.admin_gate import GUESS_SECONDS, GUESSES
from tiltyard.site.checkup import TOKEN_HEADER, is_doctor
from tiltyard.site.engine import PATIENCE_SECONDS, TrialWrite
from tiltyard.site.failures import RETRY_SECONDS
from tiltyard.site.networks import SharedBlock, limit_key, shared_block
from tiltyard.site.site import Site

TEXT = "text/plain; version=0.0.4; charset=utf-8"

COUNTED = {
    "matchup_served": ("tiltyard_matchups_total", "Matchups served since the log began."),
    "voted": ("tiltyard_votes_total", "Votes cast since the log began, whether or not they still count."),
    "skipped": ("tiltyard_skips_total", "Matchups skipped since the log began."),
    "expired": ("tiltyard_expirations_total", "Matchups that nobody voted on in time."),
    "undone": ("tiltyard_undos_total", "Votes taken back by their voters."),
}
"""The events counted for monitoring: kind, metric name, description."""

_counting = threading.Lock()


class Readiness(StrEnum):
    """Whether votes can be taken. Only a broken or starting site answers with 503."""

    READY = "ready"
    BUSY = "busy"
    BROKEN = "broken"
    STARTING = "starting"


class Health(msgspec.Struct, frozen=True):
    """The state of a site's parts; None if a part did not answer."""

    store: Backlog | None
    writer: TrialWrite
    board_seq: int | None
    board_age_seconds: float | None
    """How long ago it was last looked, without an error, whether there is more to publish."""
    failures: tuple[ThreadHealth, ...]
    """What went wrong in the threads of the site."""
    refuses: bool = False
    """Whether requests were refused a moment ago."""
    unreadable: bool = False
    """Whether reading the database failed, or its file is no longer there."""
    shared: SharedBlock | None = None
    """The block that most of the latest votes came from, if there is one."""
    why: str = ""
    """What is wrong with the files of the database or with their disk, and what to do."""

    @property
    def status(self) -> Readiness:
        """Whether votes can be written. Neither an old board nor a slow answer counts as a failure."""
        if not self.writer.works or self.unreadable:
            return Readiness.BROKEN
        busy = self.refuses or self.writer.seconds is None or self.store is None
        return Readiness.BUSY if busy else Readiness.READY

    @property
    def well(self) -> bool:
        return self.status is not Readiness.BROKEN

    @property
    def trouble(self) -> str | None:
        """The error message of the failed part, for operators."""
        troubles = (self.writer.trouble, *(failures.trouble for failures in self.failures))
        return next((words for words in troubles if words is not None), None)

    def values(self) -> dict[str, Any]:
        """What `/healthz` returns. It names the failed part; all messages but `why` stay in the server's log."""
        parts = {"database": self.unreadable, "writer": not self.writer.works}
        return {
            "status": self.status,
            "store": self.store is not None,
            "writer": self.writer.works,
            "trouble": [
                *(name for name, fails in parts.items() if fails),
                *(failures.thread for failures in self.failures if failures.trouble is not None),
            ],
            "why": self.why or None,
            "version": __version__,
        }


class Scrapers:
    """Who may see figures: whoever sends the admin secret. Wrong guesses are counted and limited, by this process."""

    def __init__(self, secret: str | None) -> None:
        self._header = b"" if secret is None else f"Bearer {secret}".encode("utf-8", "surrogateescape")
        self._wrong: Counter[str] = Counter()
        self._period = 0.0

    def admits(self, request: Request) -> bool:
        """Whether a request has the secret; `TooMany` after many without it."""
        if not self._header:
            raise HTTPException(404)
        period, who = time.time() // GUESS_SECONDS, limit_key(request.state.address)
        if period != self._period:
            self._wrong.clear()
            self._period = period
        if self._wrong[who] >= GUESSES:
            raise TooMany(f"{GUESSES} wrong secrets in {GUESS_SECONDS // 60} minutes is the limit.", GUESS_SECONDS)
        guess = request.headers.get("authorization", "").encode("latin-1")
        right = hmac.compare_digest(guess, self._header)
        self._wrong[who] += bool(guess) and not right
        return right


async def look_at(site: Site) -> Health:
    """The current state of a site's parts; never takes much longer than its timeout."""
    (store, shared, unreadable, why), writer = await asyncio.gather(_store(site), site.engine.writer())
    failures = (site.engine.arena.failures, *site.observatory.failures)
    seq = age = None
    with suppress(ArenaError):
        seq, age = site.observatory.snapshot.seq, round(time.monotonic() - site.observatory.followed, 3)
    return Health(store, writer, seq, age, failures, site.refusals.go_on, unreadable, shared, why)


async def _store(site: Site) -> tuple[Backlog | None, SharedBlock | None, bool, str]:
    """The database's figures and who cast most of the latest votes, None if it is too slow; whether it is lost; why."""
    store = site.engine.arena.store
    try:
        trouble = await asyncio.wait_for(asyncio.to_thread(store.database.trouble), PATIENCE_SECONDS)
        if trouble:
            return None, None, True, trouble
        result = await asyncio.wait_for(
            asyncio.to_thread(lambda: (backlog(store), shared_block(latest_blocks(store)))), PATIENCE_SECONDS
        )
    except TimeoutError:
        return None, None, False, ""
    except StoreError:
        return None, None, True, ""
    return *result, False, ""


async def healthz(request: Request) -> Response:
    """200 while votes can be taken, however slowly; 503 while they cannot be written; the parts as JSON."""
    site = getattr(request.app.state, "site", None)
    if not isinstance(site, Site):
        return _json({"status": Readiness.STARTING}, 503)
    health = await look_at(site)
    values = health.values()
    if is_doctor(request.headers.get(TOKEN_HEADER, ""), site.settings.secrets[0], time.time()):
        values["seen"] = {"address": request.state.address, "https": request.state.is_https}
    return _json(values, 200 if health.well else 503)


def _json(values: Mapping[str, Any], status: int) -> Response:
    headers = {} if status == 200 else {"retry-after": str(RETRY_SECONDS)}
    return Response(msgspec.json.encode(values), status, headers, media_type="application/json")


async def metrics(request: Request) -> Response:
    """The metrics in Prometheus format; if the arena does not answer, only those of this process."""
    lines: list[str] = []
    site = getattr(request.app.state, "site", None)
    if not request.app.state.scrapers.admits(request):
        return Response("the admin secret is needed: Authorization: Bearer …\n", 401, {"www-authenticate": "Bearer"})
    if isinstance(site, Site):
        health = await look_at(site)
        kinds: Counter[str] | None = None
        if health.store is not None:
            with suppress(StoreError):
                kinds = await asyncio.to_thread(_counted, request.app.state.kind_counts, site)
        lines += _arena_lines(health, kinds)
        if health.board_seq is not None:
            telling, withheld = await asyncio.to_thread(site.observatory.look, _bank_counts, "bank counts")
            lines += _figure("tiltyard_self_naming_answers", "gauge", "Answers that say who wrote them.", telling)
            message = "Answers that are not served: they say who wrote them, or were switched off."
            lines += _figure("tiltyard_withheld_answers", "gauge", message, withheld)
    message = "Requests refused because the process was busy."
    lines += _by_label("tiltyard_refused_total", message, "what", request.app.state.refusals.counts)
    name = "tiltyard_http_requests_total"
    lines.append(f"# HELP {name} Requests answered by one process, by method, route and status.\n# TYPE {name} counter")
    for (method, route, status), n in sorted(request.app.state.requests.items()):
        lines.append(f'{name}{{worker="{os.getpid()}",method="{method}",route="{route}",status="{status}"}} {n}')
    return Response("\n".join(lines) + "\n", media_type=TEXT)


def _counted(kinds: KindCounts, site: Site) -> Counter[str]:
    with _counting:
        return kinds.follow(site.engine.arena.store)


def _arena_lines(health: Health, kinds: Counter[str] | None) -> Iterator[str]:
    yield from _figure("tiltyard_up", "gauge", "1 while votes can be taken.", int(health.well))
    message = "1 while requests wait long or are refused."
    yield from _figure("tiltyard_busy", "gauge", message, int(health.status is Readiness.BUSY))
    if kinds is not None:
        for kind, (name, message) in COUNTED.items():
            yield from _figure(name, "counter", message, kinds[kind])
    if health.store is not None:
        yield from _figure("tiltyard_log_events", "gauge", "Events in the log.", health.store.head_seq)
        message = "Matchups that wait for a vote."
        yield from _figure("tiltyard_matchups_in_flight", "gauge", message, health.store.open_matchups)
        share = 0.0 if health.shared is None else health.shared.votes / health.shared.of
        message = "Share of the latest votes from one address block, if most are and several visitors cast them."
        yield from _figure("tiltyard_shared_block_share", "gauge", message, round(share, 3))
        message = "Age of the latest published head, in seconds."
        yield from _age("tiltyard_head_age_seconds", message, health.store.head_at)
        message = "Age of the latest signed head, in seconds."
        yield from _age("tiltyard_signed_head_age_seconds", message, health.store.signed_head_at)
        message = "Visitors' reports of answers that nobody has dealt with."
        yield from _figure("tiltyard_open_reports", "gauge", message, health.store.open_reports)
        message = "Answers that visitors reported and nobody has dealt with."
        yield from _figure("tiltyard_reported_answers", "gauge", message, health.store.reported_answers)
    load = health.writer.load
    yield from _figure("tiltyard_writer_waiting", "gauge", "Requests that wait for the writing thread.", load.waiting)
    message = "How long the writing thread has been busy with its current group of requests."
    yield from _figure("tiltyard_writer_group_seconds", "gauge", message, round(load.group_seconds, 6))
    if health.writer.seconds is not None:
        message = "How long the latest trial write took, the commits before it included."
        yield from _figure("tiltyard_writer_answer_seconds", "gauge", message, round(health.writer.seconds, 6))
    thread_failures = {failures.thread: failures.total for failures in health.failures}
    message = "Failures that a thread of the site has survived."
    yield from _by_label("tiltyard_thread_failures_total", message, "thread", thread_failures)
    if health.board_age_seconds is not None:
        message = "How long ago it was last looked whether there is more to publish."
        yield from _figure("tiltyard_board_age_seconds", "gauge", message, health.board_age_seconds)


def _bank_counts(state: ArenaState, _votes: object) -> tuple[int, int]:
    """How many current answers say who wrote them, and how many are not served."""
    catalog = state.catalog
    return len(catalog.telling.intersection(catalog.response_ids.values())), len(catalog.withheld())


def _figure(name: str, kind: str, message: str, value: float) -> Iterator[str]:
    yield f"# HELP {name} {message}"
    yield f"# TYPE {name} {kind}"
    yield f"{name} {value}"


def _age(name: str, message: str, at: int | None) -> Iterator[str]:
    """An age in seconds; -1 if there was never such a thing."""
    age = -1.0 if at is None else max(0.0, round((clock() - at) / SECOND, 3))
    yield from _figure(name, "gauge", f"{message} -1: there is none.", age)


def _by_label(name: str, message: str, label: str, counts: Mapping[str, int]) -> Iterator[str]:
    yield f"# HELP {name} {message}"
    yield f"# TYPE {name} counter"
    for value, count in sorted(counts.items()):
        yield f'{name}{{worker="{os.getpid()}",{label}="{value}"}} {count}'


ROUTES = [
    Route("/healthz", healthz),
    Route("/metrics", metrics),
]
