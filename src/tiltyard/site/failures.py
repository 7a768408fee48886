"""Errors as an HTTP status, a short name for programs and a sentence for people; and the answers they become."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tiltyard.arena import (
    BadReason,
    ChoiceDiffers,
    Gone,
    NothingLeft,
    NothingToRender,
    NotInvited,
    NotYours,
    NoVote,
    ReviewClosed,
    TooLate,
    TooMany,
)
from tiltyard.errors import ArenaError, StoreError

RETRY_SECONDS = 5
"""Retry-After for a failed database."""

VOTE_RETRY_SECONDS = 2
OTHER_RETRY_SECONDS = (2, 12)
"""Retry-After for a busy site: a vote comes back first, everything else at a random time, so that a crowd does not come
back all at once."""

BUSY_SECONDS = 10.0
"""For so long after it refused something a site says that it is busy."""

BY_STATUS = {
    404: ("not_found", "there is nothing at this address."),
    405: ("method_not_allowed", "this address is not used with this method."),
    500: ("internal", "something broke here; it is noted. Try again."),
}
"""The name and the words of failures that are known by their status alone."""

_log = logging.getLogger("tiltyard.site")

What = Literal["matchup", "vote", "page"]
"""What a busy site refuses: a new matchup, a vote or an administrator's change, anything else."""


@dataclass(slots=True)
class Failure(Exception):
    """A request that is answered with an error: its status, its name, and what to do, in one line."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)
    refused: What | None = None
    """What was refused because the site is busy."""


class Refusals:
    """What this process refused because it was busy: how often, and whether it still does."""

    def __init__(self) -> None:
        self.counts: Counter[What] = Counter({"matchup": 0, "vote": 0, "page": 0})
        self._latest = float("-inf")

    def note(self, what: What) -> None:
        self.counts[what] += 1
        self._latest = time.monotonic()

    @property
    def go_on(self) -> bool:
        """Whether something was refused a moment ago."""
        return time.monotonic() - self._latest < BUSY_SECONDS


def busy(what: What) -> Failure:
    """A request that was refused before anything was done for it."""
    wait = VOTE_RETRY_SECONDS if what == "vote" else random.randint(*OTHER_RETRY_SECONDS)  # noqa: S311 - no secret
    message = "the arena is very busy, and this was not begun. Send the same request again in a moment."
    return Failure(503, "busy", message, {"retry-after": str(wait)}, what)


def failure_of(error: Exception) -> Failure:
    """What any error means to a visitor. Database messages stay in the server's log."""
    message = str(error)
    match error:
        case Failure():
            return error
        case HTTPException():
            code, message = BY_STATUS.get(error.status_code, ("bad_request", "the request cannot be read."))
            return Failure(error.status_code, code, message, dict(error.headers or {}))
        case NotYours():
            return Failure(404, "not_yours", message)
        case NotInvited():
            return Failure(403, "not_invited", message)
        case ChoiceDiffers():
            return Failure(409, "choice_differs", message)
        case Gone() | ReviewClosed():
            return Failure(410, "gone", message)
        case NothingLeft():
            return Failure(404, "nothing_left", message)
        case TooLate():
            return Failure(409, "too_late", message)
        case NoVote():
            return Failure(409, "no_vote", message)
        case NothingToRender() | BadReason():
            return Failure(400, "bad_request", message)
        case TooMany():
            return Failure(429, "too_many", message, {"retry-after": str(error.retry_seconds)})
        case ArenaError() if message.startswith("nothing to serve"):
            message = "no two models have answered one prompt yet. Come back later."
            return Failure(503, "nothing_to_serve", message, {"retry-after": "60"})
        case ArenaError():
            if isinstance(error, StoreError):
                _log.error("%s", error)
            message = "the arena's database did not answer, and nothing is confirmed. Send the same request again."
            return Failure(503, "unavailable", message, {"retry-after": str(RETRY_SECONDS)})
    return Failure(500, *BY_STATUS[500])


def answer_error(request: Request, error: Exception) -> Response:
    """An error as programs or people read it."""
    failure, state = failure_of(error), request.app.state
    if failure.refused is not None:
        state.refusals.note(failure.refused)
    headers, site = dict(failure.headers), getattr(state, "site", None)
    if request.scope["path"].startswith("/api/"):
        body = msgspec.json.encode({"error": {"code": failure.code, "message": failure.message}})
        return Response(body, failure.status, headers, media_type="application/json")
    if site is None or request.state.only_answers:
        return Response(failure.message, failure.status, headers, media_type="text/plain")
    page: Response = site.page("error.html", {"failure": failure}, status=failure.status, headers=headers)
    return page
