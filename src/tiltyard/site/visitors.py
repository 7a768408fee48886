"""Visitors: a signed cookie whose hash leads to a random key, tokens that bind a form to it, and limits.

A cookie is 64 letters: 16 random bytes and the HMAC-SHA256 of them, in base64url, so that visitors cannot choose their
own. Nobody has one before they start to vote. Its name, its signature and the hash that is stored are those of one
arena: two on one host have nothing in common. Keys are derived from the site's secret, one for each purpose.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace
from starlette.requests import Request

from tiltyard.arena import (
    SECOND,
    Act,
    EnterVoter,
    NotYours,
    Policy,
    ServedMatchup,
    ServeMatchup,
    limits_of,
    session_quotas,
)
from tiltyard.arena.store import Quota, check_invitation, forget_cookie, hashed
from tiltyard.site.engine import Engine
from tiltyard.site.failures import Failure
from tiltyard.site.networks import networks_of
from tiltyard.site.settings import SiteSettings

NAME_BYTES = 16
SIGNED = re.compile(r"[A-Za-z0-9_-]{64}\Z")

START = "start"
NEWCOMERS = (START, "/admin/login")
"""The purposes of forms for visitors without a cookie."""

KNOWN_VISITORS = 50_000
KNOWN_ADDRESSES = 4_096


def derived_key(secret: str, purpose: str) -> bytes:
    """A key for one purpose, which reveals nothing about the secret or the other keys (HKDF with SHA-256, RFC 5869)."""
    root = hmac.digest(b"tiltyard site", secret.encode("utf-8", "surrogateescape"), "sha256")
    return hmac.digest(root, purpose.encode() + b"\x01", "sha256")


class Cookies:
    """Issues the cookies of an arena, and recognizes them.

    Parameters:
        secrets: The secret that signs, and those before it whose cookies are still taken.
        arena: The random id of the arena.
    """

    def __init__(self, secrets: Sequence[str], arena: str) -> None:
        self.name = f"tiltyard-{arena[:8]}"
        self._arena = arena
        self._keys = [derived_key(secret, f"voter cookie {arena}") for secret in secrets]
        self._is_signed = lru_cache(KNOWN_VISITORS)(self._has_our_signature)

    def issue(self) -> str:
        """A new cookie."""
        return self._signed(secrets.token_bytes(NAME_BYTES), self._keys[0])

    def find(self, headers: Iterable[str]) -> str:
        """The first of our cookies in these headers; '' if there is none."""
        pairs = (pair.strip().partition("=") for header in headers for pair in header.split(";"))
        return next((value for name, _, value in pairs if name == self.name and self.is_ours(value)), "")

    def is_ours(self, value: str) -> bool:
        """Whether we signed this. Only what is as long as a cookie is remembered."""
        return SIGNED.match(value) is not None and self._is_signed(value)

    def renewed(self, value: str) -> str:
        """One of our cookies, signed with the secret of today."""
        return self._signed(_random_part(value), self._keys[0])

    def hash(self, value: str) -> str:
        """The part of one of our cookies that is stored, whichever secret signed it."""
        return hashlib.sha256(self._arena.encode() + _random_part(value)).hexdigest()

    def _has_our_signature(self, value: str) -> bool:
        return any(hmac.compare_digest(self._signed(_random_part(value), key), value) for key in self._keys)

    def _signed(self, name: bytes, key: bytes) -> str:
        return urlsafe_b64encode(name + hmac.digest(key, name, "sha256")).decode()


def _random_part(value: str) -> bytes:
    return urlsafe_b64decode(value)[:NAME_BYTES]


class Visitor(msgspec.Struct, frozen=True):
    """The sender of a request, and the key under which they vote."""

    address: str
    voter: str


class Visitors:
    """Identifies visitors, and limits what each may do."""

    def __init__(self, engine: Engine, settings: SiteSettings, policy: Callable[[], Policy]) -> None:
        self._engine = engine
        self._settings = settings
        self._policy = policy
        self.cookies = Cookies(settings.secrets, engine.arena.store.outside.arena)
        self._form_key = derived_key(settings.secrets[0], "form token")
        self._address_key = derived_key(settings.secrets[0], "visitors' addresses")
        self._networks = lru_cache(KNOWN_ADDRESSES)(self._hashed_networks)
        self._voters: OrderedDict[str, str] = OrderedDict()

    async def known(self, request: Request) -> str | None:
        """The voter's key, if this visitor has started to vote and was not forgotten, by whatever process."""
        if not request.state.cookie:
            return None
        name = self.cookies.hash(request.state.cookie)
        self._voters.pop(name, None)
        voter = await asyncio.to_thread(self._engine.arena.store.known_voter, name)
        if voter is not None:
            self._voters[name] = voter
            while len(self._voters) > KNOWN_VISITORS:
                self._voters.popitem(last=False)
        return voter

    async def recognize(self, request: Request) -> Visitor | None:
        """The visitor, if they have started to vote. No voter is created."""
        voter = await self.known(request)
        return None if voter is None else Visitor(request.state.address, voter)

    async def returning(self, request: Request) -> Visitor:
        """A visitor who was here before, from memory: what they do looks whether they were forgotten meanwhile.

        Their cookie lasts a year from then on, so that whoever votes can have themselves forgotten.
        """
        cookie = request.state.cookie
        voter = self._voters.get(self.cookies.hash(cookie)) if cookie else None
        voter = voter or await self.known(request)
        if voter is None:
            raise NotYours("there is no such matchup for this voter. Ask for one.")
        request.state.sets_cookie = True
        return Visitor(request.state.address, voter)

    async def enter(self, request: Request, invitation: str = "") -> Visitor:
        """The visitor, registered if this is the first visit, or if they bring the secret of an invitation.

        Whoever is not known gets a new cookie: nothing else gives any. So one that was forgotten never leads to a voter
        again. Raises `TooMany` if the quota of new sessions is used up, `NotInvited` if the arena is closed to them.
        """
        self._engine.check_room("matchup")
        secret = invitation or request.headers.get("x-invitation", "")
        visitor = await self.recognize(request)
        if visitor is not None and not secret:
            return visitor
        cookie = self.cookies.issue() if visitor is None else request.state.cookie
        name, brought = self.cookies.hash(cookie), hashed(secret) if secret else ""
        visitor = Visitor(request.state.address, "")
        voter = await self._engine.run(EnterVoter(name, brought, quotas=self.quotas(visitor, "session")))
        request.state.sets_cookie |= cookie != request.state.cookie
        request.state.cookie = cookie
        return replace(visitor, voter=voter)

    async def check_invitation(self, request: Request, secret: str) -> None:
        """Refuse an invitation that this visitor cannot use. Nothing is stored."""
        arena = self._engine.arena
        cookie = self.cookies.hash(request.state.cookie) if request.state.cookie else ""

        def check() -> None:
            with arena.store.database.read() as connection:
                check_invitation(connection, cookie, hashed(secret), arena.now())

        await asyncio.to_thread(check)

    async def serve_anybody(self, request: Request) -> ServedMatchup:
        """A matchup for whoever asks: a visitor in memory, or one who enters by it."""
        self._engine.check_room("matchup")
        if "x-invitation" not in request.headers:
            with suppress(NotYours):  # they are new, or were forgotten
                return await self.serve(await self.returning(request))
        return await self.serve(await self.enter(request))

    async def serve(self, visitor: Visitor) -> ServedMatchup:
        """A matchup: the open one again, if the visitor has as many open as the policy allows."""
        quotas, block = self.quotas(visitor, "matchup"), self.block(visitor)
        most = self._policy().limits.open_matchups if self._settings.rate_limit else 0
        most = most if self._settings.review is None else 1
        return await self._engine.run(ServeMatchup(visitor.voter, most, quotas=quotas, block=block))

    async def forget(self, request: Request) -> None:
        """Delete what leads from a cookie to its votes, and the cookie."""
        if request.state.cookie:
            name, store = self.cookies.hash(request.state.cookie), self._engine.arena.store
            self._voters.pop(name, None)
            await asyncio.to_thread(forget_cookie, store, name)
            request.state.cookie, request.state.sets_cookie = "", True

    def quotas(self, visitor: Visitor, act: Act) -> tuple[Quota, ...]:
        """The quotas of one kind of action for this visitor; none if the settings turn limits off."""
        if not self._settings.rate_limit:
            return ()
        result = session_quotas(self._policy().limits, act, visitor.voter)
        for limit in limits_of(self._policy().limits):
            if limit.act == act and limit.counted_by == "address":
                seconds = limit.window // SECOND
                what = f"{act}:address:{seconds}"
                networks = self._networks(visitor.address)[: None if limit.growth else 1]
                result += [
                    Quota(f"{what}:{network}", limit.limit * limit.growth**wider, seconds, hidden=True)
                    for wider, network in enumerate(networks)
                ]
        return tuple(result)

    def block(self, visitor: Visitor) -> str:
        """A name of the visitor's address block, hashed with a key of the site; empty if the settings turn limits off.

        Nothing behind this point learns an address.
        """
        networks = self._networks(visitor.address) if self._settings.rate_limit else ()
        return networks[1] if len(networks) > 1 else ""

    def _hashed_networks(self, address: str) -> tuple[str, ...]:
        """The networks around an address, from narrow to wide, each hashed with a key of the site."""
        return tuple(
            hmac.digest(self._address_key, network.encode(), "sha256").hex() for network in networks_of(address)
        )

    def token(self, request: Request, purpose: str) -> str:
        """The secret token of this visitor's forms: bound to their cookie, that of a newcomer's to their network."""
        who = self._networks(request.state.address)[-1] if purpose in NEWCOMERS else request.state.cookie
        return hmac.digest(self._form_key, f"{purpose}\n{who}".encode(), "sha256").hex()

    def check_form(self, request: Request, token: str, purpose: str) -> None:
        """Refuse a form that was not issued to this visitor.

        Because pages send no referrer, browsers send `Origin: null` with their forms; the token then decides.
        """
        if request.headers.get("origin") != "null" or _from_elsewhere(request):
            check_origin(request, self._settings)
        if not hmac.compare_digest(token.encode(), self.token(request, purpose).encode()):
            raise Failure(403, "stale_form", "the form was not made for this visit. Reload the page and try again.")


def check_origin(request: Request, settings: SiteSettings) -> None:
    """Refuse requests from another site's page. Programs other than browsers do not state an origin."""
    origin, ours = request.headers.get("origin"), {request.headers.get("host", "").lower()}
    if settings.public_url is not None:
        ours.add(urlsplit(settings.public_url).netloc.lower())
    if _from_elsewhere(request) if origin is None else _netloc(origin) not in ours:
        raise Failure(403, "foreign_origin", "the request came from another site's page. Send it from this site.")


def _from_elsewhere(request: Request) -> bool:
    """Whether the browser says that another site's page sent this."""
    return request.headers.get("sec-fetch-site") in ("cross-site", "same-site")


def _netloc(origin: str) -> str | None:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") and parts.netloc else None
