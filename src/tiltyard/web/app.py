"""Assembling the site: engine, observatory, routes, errors, headers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tiltyard import __version__
from tiltyard.arena.following.observatory import Observatory
from tiltyard.arena.service import Arena
from tiltyard.arena.store import site_texts
from tiltyard.arena.vote_effect import FirstEffects
from tiltyard.errors import ArenaError, StoreError
from tiltyard.web import (
    admin,
    admin_import,
    admin_settings,
    api,
    bank,
    board_pages,
    heads,
    health,
    pages,
    sharing,
    shown,
    vote,
)
from tiltyard.web.api import QuickRoutes
from tiltyard.web.api_schema import without_validation_error
from tiltyard.web.engine import Engine
from tiltyard.web.failures import Failure, failure_of, failure_with
from tiltyard.web.guard import Guard
from tiltyard.web.page_cache import FITS_OF_ONE, FITS_WAITING, PageCache
from tiltyard.web.probing import Probes
from tiltyard.web.rendering import SiteFacts, render, static_files
from tiltyard.web.settings import SiteSettings
from tiltyard.web.shedding import BoundedPages
from tiltyard.web.shown import ShownLinks
from tiltyard.web.site import Site
from tiltyard.web.visitors import Visitors

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Scope

_log = logging.getLogger("tiltyard.web")

ROBOTS = """User-agent: *
Allow: /methods
Disallow: /me
Disallow: /votes
Disallow: /shown
Disallow: /admin
Disallow: /api/v1/matchups
Allow: /
"""
"""What crawlers may fetch. `/methods` also begins with `/me`, and comes first for crawlers that stop at the first
match."""

FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}


class _Documented(FastAPI):
    """A FastAPI whose document lists only answers that this site gives."""

    def openapi(self) -> dict[str, Any]:
        return without_validation_error(super().openapi())

    def build_middleware_stack(self) -> ASGIApp:
        """Without the framework's outer layers: `Guard` answers every error, and telemetry is off."""
        layer: Any = super().build_middleware_stack()
        while not isinstance(layer, Guard):
            layer = layer.app
        guard: ASGIApp = layer
        return guard


def create_app(settings: SiteSettings, arena: Arena | None = None, observatory: Observatory | None = None) -> FastAPI:
    """The site of an arena. What is not passed in is opened at the start and closed at the end.

    Parameters:
        settings: All settings of the site.
        arena: The engine; opened from the settings if not given.
        observatory: What makes boards and studies beside it; made if not given.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        own_arena = None if arena is not None else await asyncio.to_thread(Arena.open, settings.db)
        own_observatory = None if observatory is not None else Observatory(settings.db, records=True)
        try:
            if own_observatory is not None:
                await asyncio.to_thread(own_observatory.start)
            app.state.site = site = await asyncio.to_thread(
                _site, settings, arena or own_arena, observatory or own_observatory
            )
            app.state.exports, app.state.witness_files = api.Exports(), heads.WitnessFiles()
            yield
            app.state.witness_files.close()
            site.prepared.close()
            site.parts.close()
        finally:
            for part in (own_observatory, own_arena):
                if part is not None:
                    await asyncio.to_thread(part.close)

    app = _Documented(
        title=settings.title,
        version=__version__,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # /metrics has our own; looking costs 15 µs
    )
    _add_routes(app)
    for kind in (Failure, ArenaError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _handle)
    app.add_middleware(QuickRoutes, routes=api.quick_routes(), answer_error=_answered)
    app.add_middleware(BoundedPages, answer_error=_answered, longest_wait=settings.longest_wait)
    counts = health.count_requests(app).counts
    app.add_middleware(Guard, settings=settings, answer_error=_crashed, counts=counts)
    return app


def _site(settings: SiteSettings, arena: Arena | None, observatory: Observatory | None) -> Site:
    assert arena is not None
    assert observatory is not None
    if not settings.secret:
        settings = replace(settings, secret=site_texts.secret(arena.store))
    observatory.hand_over(arena.choose_by)
    engine = Engine(arena, settings.longest_wait)
    visitors = Visitors(engine, settings, lambda: observatory.snapshot.policy)
    links, cached, fits = ShownLinks(settings.secret), PageCache(), PageCache(1, FITS_WAITING, FITS_OF_ONE)
    return Site(settings, engine, observatory, visitors, cached, Probes(), FirstEffects(), links, fits)


def _add_routes(app: FastAPI) -> None:
    public, desk = (
        (api, vote, shown, sharing, board_pages, pages, bank, heads, health),
        (admin, admin_import, admin_settings),
    )
    for part in (*public, *desk):
        app.include_router(part.router)

    @app.get("/robots.txt", include_in_schema=False)
    async def robots() -> Response:
        return Response(ROBOTS, media_type="text/plain", headers={"cache-control": "public, max-age=3600"})

    @app.get("/static/{name}", include_in_schema=False)
    async def static_file(name: str) -> Response:
        result = static_files().get(name)
        if result is None:
            raise HTTPException(404)
        return Response(result.content, media_type=result.media_type, headers=FOR_EVER)


async def _handle(request: Request, error: Exception) -> Response:
    return _answered(request, error)


def _answered(request: Request, error: Exception) -> Response:
    return answer_of(request, as_failure(error))


def as_failure(error: BaseException) -> Failure:
    """What any error means to a visitor."""
    match error:
        case Failure():
            return error
        case StoreError():
            _log.error("%s", error)
            return failure_of(error)
        case ArenaError():
            return failure_of(error)
        case HTTPException():
            failure = failure_with(error.status_code)
            return Failure(failure.status, failure.code, failure.message, dict(error.headers or {}))
        case RequestValidationError():
            return failure_with(400)
    return failure_with(500)


def answer_of(request: Request, failure: Failure) -> Response:
    """An error as programs or people read it."""
    headers = dict(failure.headers)
    if request.url.path.startswith("/api/"):
        body = msgspec.json.encode({"error": {"code": failure.code, "message": failure.message}})
        return Response(body, failure.status, headers, media_type="application/json")
    site = getattr(request.app.state, "site", None)
    if not isinstance(site, Site):
        return Response(failure.message, failure.status, headers, media_type="text/plain")
    if failure.code == "busy":
        return Response(
            _busy_page(site.settings.title, site.settings.notice), failure.status, headers, media_type="text/html"
        )
    return site.page("error.html", {"failure": failure}, status=failure.status, headers=headers)


@lru_cache(maxsize=4)
def _busy_page(title: str, notice: str) -> str:
    """The page for refused visitors, rendered once: when it is needed, the site is too busy to render it."""
    return render("error.html", SiteFacts(title, notice=notice), {"failure": Failure(503, "busy", "")})


def _crashed(scope: Scope, error: BaseException) -> ASGIApp:
    """The answer if a route failed; plain text if the error page itself failed."""
    failure = as_failure(error)
    try:
        return answer_of(Request(scope), failure)
    except Exception:
        _log.exception("the page for an error failed")
        return Response(failure.message, failure.status, media_type="text/plain")
