"""What applies to every response, errors and HEAD included: security headers, cookie, and error handling.

One layer around the whole site. It gives visitors without a cookie a new one (nothing is stored for it), answers HEAD
as GET without a body (and with `is_head` set, so that no matchup is served), and turns any uncaught exception of a
route into an error page.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect

from tiltyard.validity.limits import client_address
from tiltyard.web.cookies import COOKIE
from tiltyard.web.settings import SiteSettings

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    ErrorAnswer = Callable[[Scope, BaseException], ASGIApp]
    Counts = Counter[tuple[str, str, int]]

YEAR_SECONDS = 31_536_000

BARE = ("/static/", "/shown/", "/healthz", "/metrics", "/robots.txt", "/embed", "/share/")
"""Addresses whose answers carry no cookie: files, what machines ask for, and what other sites frame."""

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

PERSONAL = re.compile(r"/(me|votes|shown|invited|admin|api/v1/matchups)(/|\Z)")
"""Addresses that matter to one visitor only: no search engine should list them."""

NOT_LISTED = (b"x-robots-tag", b"noindex")

METHODS = frozenset({"GET", "HEAD", "POST"})
"""The methods that are counted by name."""

SOMEBODY = "192.0.2.1"
"""An address reserved for documentation."""

_log = logging.getLogger("tiltyard.web")


class Guard:
    """The outermost layer of the site. It counts what was sent: by method, route and status."""

    def __init__(
        self, app: ASGIApp, settings: SiteSettings, answer_error: ErrorAnswer, counts: Counts | None = None
    ) -> None:
        self._app = app
        self._counts: Counts = Counter() if counts is None else counts
        self._answer_error = answer_error
        self._proxies = settings.proxies
        self._https = bool(settings.public_url and settings.public_url.startswith("https:"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, scope, self._arrive(scope, _by_name(scope)), self._counts)
        if answer.head:
            scope = {**scope, "method": "GET"}  # the server's own scope still says HEAD, so it expects no body
        try:
            await self._app(scope, receive, answer.send)
        except ClientDisconnect:
            return  # the client is gone, and nothing is broken
        except Exception as error:
            if answer.started:
                raise
            if not getattr(error, "status", None):
                _log.exception("%s %s failed", scope["method"], scope["path"])
            await self._answer_error(scope, error)(scope, receive, answer.send)

    def _arrive(self, scope: Scope, headers: dict[bytes, list[str]]) -> dict[str, Any]:
        """Store the visitor's address, scheme and cookie in the scope, where routes can read and change them.

        A cookie that may be an older one is kept until a route looks up its voter (`Visitors.known`).
        """
        client = scope.get("client")
        peer = client[0] if client else ""
        address = _address(peer, tuple(headers.get(b"x-forwarded-for", ())), self._proxies)
        site = getattr(scope["app"].state, "site", None)
        cookie, older = (None, None) if site is None else site.visitors.cookies.find(headers.get(b"cookie", ()))
        arrival: dict[str, Any] = scope.setdefault("state", {})
        arrival.update(
            address=address,
            cookie=cookie or ("" if site is None else site.visitors.cookies.issue()),
            cookie_is_new=cookie is None,
            older_cookie=older,
            is_head=scope["method"] == "HEAD",
            is_https=self._https or self._scheme(scope, headers, peer) == "https",
            sets_cookie=not (site is None or cookie or older or scope["path"].startswith(BARE)),
        )
        return arrival

    def _scheme(self, scope: Scope, headers: dict[bytes, list[str]], peer: str) -> str:
        """The visitor's scheme and address: as stated by a trusted proxy, else those of the connection."""
        scheme = headers.get(b"x-forwarded-proto", [])
        if scheme and _address(peer, (SOMEBODY,), self._proxies) == SOMEBODY:
            return scheme[-1].rpartition(",")[2].strip().lower()
        return str(scope["scheme"])


class _Answer:
    """Sends an answer on, with the headers that every answer carries."""

    def __init__(self, send: Send, scope: Scope, arrival: dict[str, Any], counts: Counts) -> None:
        self._send = send
        self._scope = scope
        self._arrival = arrival
        self._path = scope["path"]
        self._counts = counts
        self.head = scope["method"] == "HEAD"
        self.started = False

    async def send(self, message: Message) -> None:
        """Pass one message on."""
        if message["type"] == "http.response.start":
            self.started = True
            method = self._scope["method"]
            self._counts[method if method in METHODS else "other", _route(self._scope), message["status"]] += 1
            message = {**message, "headers": self._headers(list(message.get("headers", ())))}
        elif self.head and message["type"] == "http.response.body":
            if message.get("more_body", False):
                return
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    def _headers(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        names = {name for name, _ in headers}
        ours = FRAMED_HEADERS if self._path == FRAMED else HEADERS
        headers.extend(header for header in (NOT_KEPT, *ours) if header[0] not in names)
        if self._arrival["is_https"]:
            headers.append(TRANSPORT)
        if PERSONAL.match(self._path):
            headers.append(NOT_LISTED)
        if self._arrival["sets_cookie"]:
            headers.append((b"set-cookie", self._cookie().encode()))
        return headers

    def _cookie(self) -> str:
        secure = "; Secure" if self._arrival["is_https"] else ""
        value = self._arrival["cookie"]
        return f"{COOKIE}={value}; Path=/; Max-Age={YEAR_SECONDS}; HttpOnly; SameSite=Lax{secure}"


def _route(scope: Scope) -> str:
    """The route as declared, never the visitor's path; requests that match no route are counted together."""
    return str(getattr(scope.get("route"), "path", "none"))


def _by_name(scope: Scope) -> dict[bytes, list[str]]:
    """The few headers needed here."""
    result: dict[bytes, list[str]] = {}
    for name, value in scope["headers"]:
        if name in (b"cookie", b"x-forwarded-for", b"x-forwarded-proto"):
            result.setdefault(name, []).append(value.decode("latin-1"))
    return result


@lru_cache(maxsize=4096)
def _address(peer: str, forwarded_for: tuple[str, ...], proxies: tuple[IPv4Network | IPv6Network, ...]) -> str:
    return client_address(peer, forwarded_for, proxies)
