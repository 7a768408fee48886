"""Who may use `/admin`: anyone who knows the secret, for a while. Wrong guesses are counted and limited.

A session is a cookie of one arena that its site signed, with the time of its end in it. Nothing about it is stored,
except that logged-out sessions are remembered in the database: logging out at one worker or host applies to all.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable

import msgspec

from tiltyard.arena import SECOND, TooMany, clock
from tiltyard.arena.store import Quota, QuotaCounter, Store, end_session, is_ended
from tiltyard.site.networks import limit_key
from tiltyard.site.settings import SiteSettings
from tiltyard.site.visitors import derived_key

SESSION_SECONDS = 12 * 3600
GUESSES = 5
GUESS_SECONDS = 900
"""This many wrong guesses from one address in this time."""

SHAPE = re.compile(r"(\d{1,12})\.([A-Za-z0-9_-]{22})\.([0-9a-f]{64})\Z", re.ASCII)


class Login(msgspec.Struct, frozen=True):
    """Somebody who knew the secret, until `expires` (seconds since 1970)."""

    expires: int
    name: str


class Gate:
    """Lets in anyone who knows the secret. Without a secret there is no gate."""

    def __init__(self, settings: SiteSettings, store: Store, now: Callable[[], int] = clock) -> None:
        assert settings.admin_secret is not None
        self._secret = _digest(settings.admin_secret)
        arena = store.outside.arena
        self.cookie = f"tiltyard-admin-{arena[:8]}"
        self._key = hmac.digest(derived_key(settings.secrets[0], f"admin session {arena}"), self._secret, "sha256")
        self._store = store
        self._usage = QuotaCounter()
        self._now = now

    def enter(self, address: str, guess: str) -> Login | None:
        """A session for the right secret, None for a wrong one; always `TooMany` after many wrong ones.

        The guesses are counted in the database, so all workers of a site count together.
        """
        hashed = hmac.new(self._key, limit_key(address).encode(), hashlib.sha256).hexdigest()
        quota = Quota(f"admin:address:{hashed}", GUESSES, GUESS_SECONDS, hidden=True)
        now = self._now()
        self._usage.forget()
        with self._store.database.write(lock=True) as connection:  # counted one after the other
            if self._usage.used(connection, [quota], now)[quota.name] >= quota.most:
                raise TooMany(f"{GUESSES} wrong secrets in {GUESS_SECONDS // 60} minutes is the limit.", GUESS_SECONDS)
            right = hmac.compare_digest(_digest(guess), self._secret)
            if not right:
                self._usage.note(connection, [quota], now)
        return Login(now // SECOND + SESSION_SECONDS, secrets.token_urlsafe(16)) if right else None

    def written(self, session: Login) -> str:
        """The session as its cookie value."""
        return f"{session.expires}.{session.name}.{self._signature(session)}"

    def session(self, cookie: str | None) -> Login | None:
        """The session of a cookie, if this site signed it and it has not expired.

        `left` tells whether it was logged out.
        """
        result = SHAPE.match(cookie or "")
        if result is None:
            return None
        session = Login(int(result[1]), result[2])
        if not hmac.compare_digest(result[3], self._signature(session)):
            return None
        return None if session.expires <= self._now() // SECOND else session

    def left(self, session: Login) -> bool:
        """Whether a session was logged out, at any worker or host. It queries the database."""
        with self._store.database.read() as connection:
            return is_ended(connection, session.name)

    def leave(self, session: Login) -> None:
        """End a session before its time, at every worker and host."""
        with self._store.database.write() as connection:
            end_session(connection, session.name, session.expires * SECOND, self._now())

    def _signature(self, session: Login) -> str:
        return hmac.new(self._key, f"{session.expires}\n{session.name}".encode(), hashlib.sha256).hexdigest()


def _digest(secret: str) -> bytes:
    """Secrets are compared by their hashes, so that timing does not reveal their length."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
