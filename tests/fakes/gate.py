"""Where things go wrong: stands before the routes, counts every call, checks the key, and plays the planted faults."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator
from functools import cache

from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.fakes import gemini_wire
from tests.fakes.answering import World
from tests.fakes.behaviour import Fault

_ROUTES = (
    ("POST", re.compile(r"/v1/(messages|chat/completions)|/v1beta/models/[^/]+:generateContent"), "ask"),
    ("POST", re.compile(r"/openai/(v1|deployments/[^/]+)/chat/completions"), "ask"),
    ("POST", re.compile(r"/v1beta/models/[^/]+:batchGenerateContent"), "submit"),
    ("POST", re.compile(r"/v1beta/batches/[^/]+:cancel"), "cancel"),
    ("GET", re.compile(r"/v1beta/batches"), "list"),
    ("GET", re.compile(r"/v1beta/batches/[^/]+"), "state"),
    ("GET", re.compile(r"/v1beta/files/[^/]+:download"), "results"),
    ("POST", re.compile(r"/upload/v1beta/files(/[^/]+)?"), "upload"),
    ("POST", re.compile(r"/v1/(messages/)?batches"), "submit"),
    ("GET", re.compile(r"/v1/(messages/)?batches"), "list"),
    ("GET", re.compile(r"/v1/(messages/)?batches/[^/]+"), "state"),
    ("POST", re.compile(r"/v1/(messages/)?batches/[^/]+/cancel"), "cancel"),
    ("GET", re.compile(r"/v1/messages/batches/[^/]+/results|/v1/files/[^/]+/content"), "results"),
    ("POST", re.compile(r"/v1/files"), "upload"),
)
_ERROR_TYPES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error"}
_ERROR_TYPES |= {404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}


class Gate:
    """An ASGI app around another."""

    def __init__(self, app: ASGIApp, world: World) -> None:
        self.app = app
        self.world = world

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = _route(scope) if scope["type"] == "http" else None
        if route is None:
            await self.app(scope, receive, send)
            return
        self.world.ledger.calls[route] += 1
        self.world.ledger.heard.append(_heard(scope))
        given = _given_key(scope)
        wanted = self.world.behaviour.key
        if wanted is not None and given != wanted:
            # Google says 400 to a wrong key, and names the reason in the body.
            google = _speaks_gemini(scope)
            fault = Fault(status=400 if google else 401, message=f"invalid x-api-key: {given}")
            fault.error_type = "API_KEY_INVALID" if google else None
            await JSONResponse(_error_body(scope, fault), fault.status)(scope, receive, send)
            return
        fault = self._next_fault(route)
        if fault is None:
            await self.app(scope, receive, send)
        else:
            await self._play(fault, scope, receive, send)

    def _next_fault(self, route: str) -> Fault | None:
        for fault in self.world.behaviour.faults:
            if fault.route not in ("*", route) or fault.times <= 0:
                continue
            if fault.skip > 0:
                fault.skip -= 1
                return None
            fault.times -= 1
            return fault
        return None

    async def _play(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        if fault.kind == "status":
            await JSONResponse(_error_body(scope, fault), fault.status, fault.headers)(scope, receive, send)
        elif fault.kind == "garbage":
            await HTMLResponse("<html>Please log in to the proxy</html>")(scope, receive, send)
        elif fault.kind == "bomb":
            headers = {"content-encoding": "gzip"}
            await Response(bomb(), fault.status, headers, media_type="application/json")(scope, receive, send)
        elif fault.kind == "drip":
            await StreamingResponse(_drip(fault.seconds), media_type="application/json")(scope, receive, send)
        elif fault.kind == "drop":
            _hang_up(receive)
        elif fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
            await self.app(scope, receive, send)
        elif fault.kind == "lose":
            await self.app({**scope, "fake.lost": True}, receive, _nowhere)
            _hang_up(receive)
        else:
            await self._cut(fault, scope, receive, send)

    async def _cut(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        left = fault.after_bytes

        async def until_cut(message: Message) -> None:
            nonlocal left
            body = message.get("body", b"")
            if left < 0:
                return
            if message["type"] == "http.response.body" and len(body) >= left:
                await send({**message, "body": body[:left], "more_body": True})
                await asyncio.sleep(0.05)
                _hang_up(receive)
                left = -1
                return
            left -= len(body)
            await send(message)

        await self.app(scope, receive, until_cut)


@cache
def bomb() -> bytes:
    """A kilobyte for every megabyte that it holds."""
    return gzip.compress(b'{"choices": "' + b"long " * 13_000_000 + b'"}')


async def _drip(seconds: float) -> AsyncIterator[bytes]:
    while True:
        yield b" "
        await asyncio.sleep(seconds)


async def _nowhere(message: Message) -> None:
    pass


def _hang_up(receive: Receive) -> None:
    """Close the socket under the answer: `receive` is a method of uvicorn's cycle, which knows its transport."""
    receive.__self__.transport.abort()  # type: ignore[attr-defined]


def _route(scope: Scope) -> str | None:
    for method, pattern, name in _ROUTES:
        if scope["method"] == method and pattern.fullmatch(scope["path"]):
            return name
    return None


def _heard(scope: Scope) -> tuple[str, dict[str, str]]:
    query = scope["query_string"].decode()
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    return scope["path"] + (f"?{query}" if query else ""), headers


def _given_key(scope: Scope) -> str:
    headers = dict(scope["headers"])
    names = (b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key")
    given = next((headers[name] for name in names if name in headers), b"")
    return given.decode().removeprefix("Bearer ")


def _speaks_gemini(scope: Scope) -> bool:
    return "/v1beta/" in scope["path"]


def _error_body(scope: Scope, fault: Fault) -> dict[str, object]:
    if _speaks_gemini(scope):
        return gemini_wire.error_body(fault.status, fault.message, fault.error_type)
    kind = fault.error_type or _ERROR_TYPES.get(fault.status, "api_error")
    error = {"type": kind, "message": fault.message}
    if "/messages" in scope["path"]:
        return {"type": "error", "error": error}
    return {"error": {**error, "code": fault.error_type, "param": None}}
