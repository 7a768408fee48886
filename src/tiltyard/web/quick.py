"""The way that votes take: past the framework's layers, which cost more than all else that a request needs.

The routes are those of the interface, declared and described there; only the search for them is skipped. Whatever is
not one of them goes the ordinary way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from tiltyard.errors import ArenaError
from tiltyard.web.failures import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastapi.routing import APIRoute
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    ErrorAnswer = Callable[[Request, Exception], Response]


class QuickRoutes:
    """Answers some routes itself, each by calling its function with the request and what its path holds."""

    def __init__(self, app: ASGIApp, routes: Sequence[APIRoute], answer_error: ErrorAnswer) -> None:
        self._app = app
        assert all(route.methods == {"POST"} for route in routes), "only what is posted is in a hurry"
        self._routes = tuple((route, route.path_regex, route.endpoint) for route in routes)
        self._answer_error = answer_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            for route, pattern, answer in self._routes:
                found = pattern.match(scope["path"])
                if found is not None:
                    scope["route"] = route
                    request = Request(scope, receive)
                    try:
                        response: Response = await answer(request, **found.groupdict())
                    except (Failure, ArenaError) as error:
                        response = self._answer_error(request, error)
                    await response(scope, receive, send)
                    return
        await self._app(scope, receive, send)
