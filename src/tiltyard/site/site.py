"""The parts of a site, and how pages are sent. Routes find it with `site_of`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse

from tiltyard.arena import FirstEffects
from tiltyard.arena.study import Observatory, Snapshot
from tiltyard.errors import ArenaError
from tiltyard.site.answer_links import AnswerLinks
from tiltyard.site.engine import Engine
from tiltyard.site.failures import Refusals
from tiltyard.site.page_cache import PageCache
from tiltyard.site.rendering import SiteFacts, render
from tiltyard.site.settings import SiteSettings
from tiltyard.site.visitors import Visitors

if TYPE_CHECKING:
    from tiltyard.arena.review import Review, ReviewChooser


class ReviewDesk(msgspec.Struct, frozen=True):
    """A review that is served: its folder, and the chooser, which belongs to the writing thread."""

    review: Review
    chooser: ReviewChooser


class Site(msgspec.Struct, frozen=True):
    """The parts of a running site."""

    settings: SiteSettings
    engine: Engine
    observatory: Observatory
    visitors: Visitors
    prepared: PageCache
    refusals: Refusals
    vote_effects: FirstEffects
    answer_links: AnswerLinks
    parts: PageCache
    """Responses that take a fit: boards of parts of the votes, comparisons. One at a time, apart from all others."""
    review: ReviewDesk | None = None
    """The review that the site is for."""

    def facts(self, snapshot: Snapshot | None = None) -> SiteFacts:
        """The shared frame of every page, by the snapshot that the page shows."""
        title, notice, review = self.settings.title, self.settings.notice, self.review is not None
        try:
            snapshot = snapshot or self.observatory.snapshot
        except ArenaError:
            return SiteFacts(title, notice=notice, review=review)
        public_url = (self.settings.public_url or "").rstrip("/")
        return SiteFacts(title, snapshot.head, notice, snapshot.blind, public_url, review=review)

    def page(
        self,
        template: str,
        context: Mapping[str, Any],
        *,
        here: str = "",
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> HTMLResponse:
        """A page. `here` is its entry in the navigation."""
        made = render(template, self.facts(), context, here=here)
        return HTMLResponse(made, status, headers=dict(headers or {}))


def site_of(request: Request) -> Site:
    """The site that answers a request."""
    result = request.app.state.site
    assert isinstance(result, Site)
    return result
