"""Load shedding: refusing work at once if it would wait too long, pages and new matchups first, votes last.

A refused request gets a 503 with Retry-After before any work is done for it; a vote in the queue is never dropped.
Every refusal is counted for `/metrics`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from tiltyard.arena.commands import AppendEvents, Command, EnterVoter, MatchupCommand, ServeMatchup
from tiltyard.arena.group_commit import Load
from tiltyard.web.failures import Failure

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_WAIT_SECONDS = 2.0
"""The default of the setting: a new matchup that would wait longer for the writer is refused."""

LINE_SHARE = 0.05
"""A long line is refused sooner, at this share of the longest wait: a slow commit passes, a crowd does not."""

NEW_VOTER_SHARE = 0.02
"""For visitors whom the site does not know yet: they wait three times, to be looked up, to be let in, for a matchup."""

VOTES_WAIT = 5.0
"""Votes, skips and undos are taken until they would wait this many times as long."""

PAGES_AT_ONCE = 128
FEW_PAGES = 8
"""The most pages and public JSON responses in progress in one process; fewer if they would wait too long."""

GAP_WEIGHT = 0.2
"""The weight of one page in the estimate of the time between finished pages."""

RETRY_SECONDS = 2
LATEST_RETRY_SECONDS = 20
RETURNS_PER_SECOND = 50
"""When a refused request may come again: a vote after `RETRY_SECONDS`; others in the first second from then on in which
fewer than `RETURNS_PER_SECOND` are expected, `LATEST_RETRY_SECONDS` away at most."""

UNCOUNTED = ("/static/", "/healthz", "/metrics")
"""Addresses that cost nothing, or that matter most when the site is busy."""

KINDS = ("matchup", "vote", "page", "connection")
refused: Counter[str] = Counter()
"""What this process refused because it was busy, by kind."""

WAITED_FOR = ("head", "body", "answer")
timed_out: Counter[str] = Counter()
"""Timeouts of this process: waiting for the head or body of a request, or for a client to read the response."""


class Returns:
    """Which second the next refused visitor is told to come back in, and how many were told so before."""

    def __init__(self) -> None:
        self._second = 0
        self._expected = 0

    def wait_seconds(self, now: float) -> int:
        """How long one more visitor, refused now, is to wait."""
        earliest, latest = int(now) + RETRY_SECONDS, int(now) + LATEST_RETRY_SECONDS
        second = max(self._second, earliest)
        if second == self._second and self._expected >= RETURNS_PER_SECOND:
            second += 1
        second = min(second, latest)
        self._expected = self._expected + 1 if second == self._second else 1
        self._second = second
        return second - int(now)


_returns = Returns()


def busy(what: str) -> Failure:
    """The answer to a refused request, counted."""
    refused[what] += 1
    wait = RETRY_SECONDS if what == "vote" else _returns.wait_seconds(time.monotonic())
    message = "the arena is very busy, and this was not begun. Send the same request again in a moment."
    return Failure(503, "busy", message, {"retry-after": str(wait)})


def admit(command: Command[Any], load: Load, longest_wait: float, lag_seconds: float = 0.0) -> None:
    """Refuse a request to the writer that would wait too long. Votes and administrators' changes are refused last.

    `lag_seconds` is how late a crowded event loop is; it counts like the line.
    """
    late = isinstance(command, MatchupCommand) or (isinstance(command, AppendEvents) and bool(command.bodies))
    longest = longest_wait * (VOTES_WAIT if late else 1.0)
    share = NEW_VOTER_SHARE if isinstance(command, EnterVoter) else LINE_SHARE
    if load.wait_seconds > longest or load.line_seconds + lag_seconds > share * longest:
        raise busy("vote" if late else "matchup" if isinstance(command, ServeMatchup | EnterVoter) else "page")


class BoundedPages:
    """The middleware that refuses a page if so many are in progress that it would wait too long.

    A page counts until its response starts. The time per page is measured under load, from one finished page to the
    next: on a slow machine fewer are admitted.
    """

    def __init__(self, app: ASGIApp, answer_error: Callable[[Request, Failure], Response], longest_wait: float) -> None:
        self._app = app
        self._answer_error = answer_error
        self._longest_wait = longest_wait
        self._in_work = 0
        self._gap_seconds = 0.0
        self._done_at: float | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"].startswith(UNCOUNTED):
            await self._app(scope, receive, send)
            return
        if not self._has_room:
            request = Request(scope, receive)
            await self._answer_error(request, busy("page"))(scope, receive, send)
            return
        self._in_work += 1
        counted = True

        async def leaving(message: Message) -> None:
            nonlocal counted
            if counted and message["type"] == "http.response.start":
                counted = False
                self._done()
            await send(message)

        try:
            await self._app(scope, receive, leaving)
        finally:
            if counted:
                self._done()

    @property
    def _has_room(self) -> bool:
        waits = self._in_work * self._gap_seconds > self._longest_wait
        return self._in_work < PAGES_AT_ONCE and not (waits and self._in_work >= FEW_PAGES)

    def _done(self) -> None:
        now = time.monotonic()
        if self._done_at is not None:
            self._gap_seconds += GAP_WEIGHT * (now - self._done_at - self._gap_seconds)
        self._in_work -= 1
        self._done_at = now if self._in_work else None
