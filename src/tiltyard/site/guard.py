"""The middleware: what applies to every answer (security headers, cookie, errors), and a bound on pages.

`Guard` tells the routes who asks, sends the cookie that a route gave or took away, counts what was sent, and turns
whatever a route raises into an answer.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tiltyard.site.failures import Failure, answer_error, busy
from tiltyard.site.networks import client_address
from tiltyard.site.settings import SiteSettings

YEAR_SECONDS = 31_536_000

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=(), interest-cohort=()"),
)
BARE = ("/static/", "/shown/", "/embed", "/share/")
"""Addresses whose answers carry no cookie: files, and what other sites frame."""

FRAMED = "/embed"
"""The one address that other sites may frame: it has no form and sets no cookie, so a click there does nothing."""

FRAMED_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", b"default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors *"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"cross-origin"),
    *(header for header in HEADERS if header[0] == b"permissions-policy"),
)
TRANSPORT = (b"strict-transport-security", b"max-age=31536000")
NOT_KEPT = (b"cache-control", b"no-store")

PERSONAL = re.compile(r"/(me|votes|shown|invited|review|admin|api/v1/matchups)(/|\Z)")
"""Addresses that matter to one visitor only: no search engine should list them."""

NOT_LISTED = (b"x-robots-tag", b"noindex")

METHODS = frozenset({"GET", "HEAD", "POST"})
"""The methods that are counted by name."""

NOT_HERE = "there is nothing at this address."

SOMEBODY = "192.0.2.1"
"""An address reserved for documentation."""

PAGES_AT_ONCE = 128
"""The most pages and public JSON responses in progress in one process."""

UNCOUNTED = ("/static/", "/healthz", "/metrics")
"""Addresses that cost nothing, or that matter most when the site is busy."""

_log = logging.getLogger("tiltyard.site")


class Guard:
    """The outermost layer of the site. `counts` are what was sent: by method, route and status."""

    def __init__(self, app: ASGIApp, settings: SiteSettings, counts: Counter[tuple[str, str, int]]) -> None:
        self._app = app
        self._counts = counts
        self._proxies = settings.proxies
        self._answers_host = settings.answers_host.lower()
        policy = POLICY.replace("frame-src 'self'", f"frame-src 'self' {settings.answers_host}".rstrip())
        self._headers = ((HEADERS[0][0], policy.encode()), *HEADERS[1:])
        self._https = bool(settings.public_url and settings.public_url.startswith("https:"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        arrival, method, started = self._arrive(scope), scope["method"], False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                route = str(getattr(scope.get("route"), "path", "none"))  # as declared, never the visitor's path
                self._counts[method if method in METHODS else "other", route, message["status"]] += 1
                message = {**message, "headers": self._answer_headers(scope["path"], arrival, message)}
            await send(message)

        try:
            if arrival["only_answers"] and not scope["path"].startswith("/shown/"):
                raise Failure(404, "not_found", NOT_HERE)
            await self._app(scope, receive, answer)
        except ClientDisconnect:
            return  # the client is gone, and nothing is broken
        except Exception as error:
            if started:
                raise
            if not isinstance(error, Failure):
                _log.exception("%s %s failed", method, scope["path"])
            await answer_error(Request(scope), error)(scope, receive, answer)

    def _arrive(self, scope: Scope) -> dict[str, Any]:
        """Store the visitor's address, scheme and cookie in the scope, where routes can read and change them."""
        headers: dict[bytes, list[str]] = {b"cookie": [], b"x-forwarded-for": [], b"x-forwarded-proto": [], b"host": []}
        for name, value in scope["headers"]:
            if name in headers:
                headers[name].append(value.decode("latin-1"))
        peer = scope["client"][0] if scope.get("client") else ""
        scheme, forwarded = scope["scheme"], headers[b"x-forwarded-proto"]
        if forwarded and _address(peer, (SOMEBODY,), self._proxies) == SOMEBODY:  # a trusted proxy says it
            scheme = forwarded[-1].rpartition(",")[2].strip().lower()
        site = getattr(scope["app"].state, "site", None)
        cookies = None if site is None else site.visitors.cookies
        sent = "" if cookies is None else cookies.find(headers[b"cookie"])
        bare = scope["path"].startswith(BARE)
        cookie = cookies.renewed(sent) if cookies is not None and sent and not bare else sent
        only_answers = self._answers_host in map(str.lower, headers[b"host"]) if self._answers_host else False
        arrival: dict[str, Any] = scope.setdefault("state", {})
        arrival.update(
            address=_address(peer, tuple(headers[b"x-forwarded-for"]), self._proxies),
            cookies=cookies,
            cookie=cookie,
            is_head=scope["method"] == "HEAD",
            is_https=self._https or scheme == "https",
            only_answers=only_answers,
            sets_cookie=cookie != sent,  # one that an older secret signed
        )
        return arrival

    def _answer_headers(self, path: str, arrival: dict[str, Any], message: Message) -> list[tuple[bytes, bytes]]:
        headers = list(message.get("headers", ()))
        names = {name for name, _ in headers}
        ours = FRAMED_HEADERS if path == FRAMED else self._headers
        headers.extend(header for header in (NOT_KEPT, *ours) if header[0] not in names)
        if arrival["is_https"]:
            headers.append(TRANSPORT)
        if PERSONAL.match(path):
            headers.append(NOT_LISTED)
        if arrival["sets_cookie"]:
            secure = "; Secure" if arrival["is_https"] else ""
            name, value, seconds = arrival["cookies"].name, arrival["cookie"], YEAR_SECONDS if arrival["cookie"] else 0
            cookie = f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
            headers.append((b"set-cookie", cookie.encode()))
        return headers


@lru_cache(maxsize=4096)
def _address(peer: str, forwarded_for: tuple[str, ...], proxies: tuple[IPv4Network | IPv6Network, ...]) -> str:
    return client_address(peer, forwarded_for, proxies)


class BoundedPages:
    """Refuses a page if too many are in progress. A page counts until its response starts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._in_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "POST" or scope["path"].startswith(UNCOUNTED):
            await self._app(scope, receive, send)
            return
        if self._in_work >= PAGES_AT_ONCE:
            raise busy("page")
        self._in_work += 1
        counted = 1

        async def leaving(message: Message) -> None:
            nonlocal counted
            self._in_work, counted = self._in_work - counted, 0
            await send(message)

        try:
            await self._app(scope, receive, leaving)
        finally:
            self._in_work -= counted
