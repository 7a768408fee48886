"""Assembling the site: engine, observatory, routes, middleware."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import date
from types import ModuleType

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tiltyard.arena import Arena, FirstEffects
from tiltyard.arena.store import KindCounts, Store, site_texts
from tiltyard.arena.study import Observatory
from tiltyard.errors import ArenaError
from tiltyard.site import (
    admin,
    admin_settings,
    answer_files,
    api,
    board_pages,
    heads,
    health,
    leaderboard,
    model,
    pages,
    reports,
    sharing,
    vote,
)
from tiltyard.site import review as review_pages
from tiltyard.site.answer_links import AnswerLinks
from tiltyard.site.engine import Engine
from tiltyard.site.failures import Failure, Refusals, answer_error
from tiltyard.site.guard import BoundedPages, Guard
from tiltyard.site.openapi import openapi
from tiltyard.site.page_cache import FITS_OF_ONE, FITS_WAITING, PageCache
from tiltyard.site.rendering import static_files
from tiltyard.site.settings import SiteSettings
from tiltyard.site.site import ReviewDesk, Site, site_of
from tiltyard.site.visitors import Visitors

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

CALLS = [*api.CALLS, *heads.CALLS]


def create_app(settings: SiteSettings, arena: Arena | None = None, observatory: Observatory | None = None) -> Starlette:
    """The site of an arena. What is not passed in is opened at the start and closed at the end.

    Parameters:
        settings: All settings of the site.
        arena: The engine; opened from the settings if not given.
        observatory: What makes boards and studies beside it; made if not given.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            here, follows = arena, observatory
            desk = None if settings.review is None else review_pages.opened_desk(settings.review)
            if here is None:
                chooser = None if desk is None else desk.chooser
                here = await asyncio.to_thread(lambda: Arena(Store.open(settings.db), chooser=chooser))
                stack.push_async_callback(asyncio.to_thread, here.close)
            if follows is None:
                follows = Observatory(settings.db)
                stack.push_async_callback(asyncio.to_thread, follows.close)
                await asyncio.to_thread(follows.start)
            app.state.site = site = await asyncio.to_thread(_site, settings, here, follows, app.state.refusals, desk)
            stack.callback(site.prepared.close)
            stack.callback(site.parts.close)
            if desk is not None and desk.review.record.until is not None:
                looking = asyncio.create_task(review_pages.close_when_settled(site, desk.review))
                stack.callback(looking.cancel)
            stack.callback(admin.close, app)
            app.state.exports, app.state.witness_files = api.Exports(), heads.WitnessFiles()
            stack.callback(app.state.witness_files.close)
            yield

    parts: tuple[ModuleType, ...]
    parts = (vote, answer_files, sharing, board_pages, pages, heads, health, admin, admin_settings)
    if settings.review is not None:
        parts = (review_pages, answer_files, health)
    calls = CALLS if settings.review is None else review_pages.CALLS
    routes = [*(call.route for call in calls), *(route for part in parts for route in part.ROUTES), *ROUTES]
    counts: Counter[tuple[str, str, int]] = Counter()
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, settings=settings, counts=counts), Middleware(BoundedPages)],
        exception_handlers=dict.fromkeys((Failure, ArenaError, HTTPException), _handle),
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.requests, app.state.refusals = counts, Refusals()
    app.state.kind_counts, app.state.scrapers = KindCounts(), health.Scrapers(settings.admin_secret)
    return app


async def _handle(request: Request, error: Exception) -> Response:
    return answer_error(request, error)


def _site(
    settings: SiteSettings, arena: Arena, observatory: Observatory, refusals: Refusals, desk: ReviewDesk | None
) -> Site:
    settings = replace(settings, secret=site_texts.site_secrets(arena.store, settings.secret, date.today()))
    observatory.hand_over(arena.choose_by)
    engine = Engine(arena, settings.longest_wait)
    return Site(
        settings,
        engine,
        observatory,
        Visitors(engine, settings, lambda: observatory.snapshot.policy),
        PageCache(),
        refusals,
        FirstEffects(),
        AnswerLinks(settings.secrets[0], settings.answers_host),
        PageCache(1, FITS_WAITING, FITS_OF_ONE),
        desk,
    )


HIDDEN = {
    "BoardRow": leaderboard.IN_SHADOW | leaderboard.LEGACY,
    "ModelAnswer": model.IN_SHADOW,
    "LiveValidityReport": {*reports.LiveValidityReport.__struct_fields__} - {*reports.PUBLIC_IN_SHADOW},
}
"""By body, the fields that some phase does not show."""


async def document(request: Request) -> Response:
    """The description of the JSON interface."""
    settings = site_of(request).settings
    calls = CALLS if settings.review is None else review_pages.CALLS
    body = msgspec.json.encode(openapi(calls, settings.title, HIDDEN))
    return Response(body, media_type="application/json")


async def robots(_: Request) -> Response:
    """What crawlers may fetch."""
    return Response(ROBOTS, media_type="text/plain", headers={"cache-control": "public, max-age=3600"})


async def static_file(request: Request) -> Response:
    """A style sheet, script or picture of the pages."""
    result = static_files().get(request.path_params["name"])
    if result is None:
        raise HTTPException(404)
    return Response(result.content, media_type=result.media_type, headers=FOR_EVER)


ROUTES = [
    Route("/api/v1/openapi.json", document),
    Route("/robots.txt", robots),
    Route("/static/{name}", static_file),
]
