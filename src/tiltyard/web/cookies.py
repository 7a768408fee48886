"""The voter's cookie: a random name with our signature, so that visitors cannot choose their own.

A cookie is 64 letters: 16 random bytes and the HMAC-SHA256 of them, in base64url. Issuing one stores nothing. The key
is derived from the site's secret for this one purpose, as are the keys for renewals and forms.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from functools import lru_cache

COOKIE = "tiltyard"
NAME_BYTES = 16
KNOWN_COOKIES = 50_000
"""How many signatures are remembered: checking one takes as long as everything else about a cookie."""

SIGNED = re.compile(r"[A-Za-z0-9_-]{64}\Z")
UNSIGNED = re.compile(r"[A-Za-z0-9_-]{32,64}\Z")
"""Cookies issued by tiltyard 0.1, or signed with another secret: they count only if their hash is known."""


class Cookies:
    """Issues cookies, and recognizes our own."""

    def __init__(self, secret: str) -> None:
        self._key = derived_key(secret, "voter cookie")
        self._renewal_key = derived_key(secret, "renewed voter cookie")
        self._known: dict[str, None] = {}

    def issue(self) -> str:
        """A new cookie."""
        return self._signed(secrets.token_bytes(NAME_BYTES))

    def renewed(self, older: str) -> str:
        """The cookie that replaces an older one: the same each time, so that two tabs end up with one cookie."""
        return self._signed(hmac.digest(self._renewal_key, older.encode(), "sha256")[:NAME_BYTES])

    def is_ours(self, value: str) -> bool:
        """Whether we signed this. The latest that we did sign are remembered."""
        if value in self._known:
            return True
        if not SIGNED.match(value):
            return False
        if not hmac.compare_digest(self._signed(urlsafe_b64decode(value)[:NAME_BYTES]), value):
            return False
        if len(self._known) >= KNOWN_COOKIES:
            self._known.clear()
        self._known[value] = None
        return True

    def find(self, headers: Iterable[str]) -> tuple[str | None, str | None]:
        """The first of our cookies in these headers; otherwise the first that may be an older one."""
        sent = _values(headers)
        ours = next(filter(self.is_ours, sent), None)
        return ours, None if ours is not None else next(filter(UNSIGNED.match, sent), None)

    def _signed(self, name: bytes) -> str:
        return urlsafe_b64encode(name + hmac.digest(self._key, name, "sha256")).decode()


def derived_key(secret: str, purpose: str) -> bytes:
    """A key for one purpose, which reveals nothing about the secret or the other keys (HKDF with SHA-256, RFC 5869)."""
    root = hmac.digest(b"tiltyard site", secret.encode("utf-8", "surrogateescape"), "sha256")
    return hmac.digest(root, purpose.encode() + b"\x01", "sha256")


@lru_cache(KNOWN_COOKIES)
def cookie_hash(cookie: str) -> str:
    """The part of a cookie that is stored."""
    return hashlib.sha256(cookie.encode()).hexdigest()


def _values(headers: Iterable[str]) -> list[str]:
    pairs = (pair.strip().partition("=") for header in headers for pair in header.split(";"))
    return [value for name, _, value in pairs if name == COOKIE]
