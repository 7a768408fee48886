"""What is stored about visitors outside the log, and can be deleted: cookies, blocks, recent usage, ended sessions."""

from __future__ import annotations

import hmac
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from tiltyard.arena.rules.kept import KEY_DAYS
from tiltyard.arena.rules.units import DAY, SECOND
from tiltyard.arena.store.database import Connection

SLOTS = 12
"""A rolling window is counted in this many parts plus the current one, so it is never shorter than stated."""

KEYS_CHANGED = "keys changed"
"""The counter that is another number after keys of blocks were deleted: until then a process keeps what it read."""

BLOCKS_KEPT = 50_000
"""How many blocks' keys a process keeps in memory."""

HASHES_KEPT = 50_000
"""How many hashed addresses a process keeps in memory."""


class Quota(msgspec.Struct, frozen=True):
    """At most `most` actions under one name, such as `votes:session:…`, in any `seconds`."""

    name: str
    most: int
    seconds: int
    hidden: bool = False
    """Whether the last part of the name stands for an address, and is stored only hashed."""

    @property
    def slot_length(self) -> int:
        """How long one part of the window is, in microseconds."""
        return max(1, self.seconds * SECOND // SLOTS)

    @property
    def window(self) -> int:
        """How long a part counts from its beginning, in microseconds: at least `seconds` for all that is in it."""
        return self.seconds * SECOND + self.slot_length


def known_voter(connection: Connection, cookie_hash: str) -> str | None:
    """The key of the visitor with this cookie, if it was seen before."""
    voter: str | None = connection.value("SELECT voter FROM voters WHERE cookie_hash = ?", cookie_hash)
    return voter


def enter_voter(connection: Connection, cookie_hash: str, now: int) -> str:
    """The key of the visitor with this cookie; a new random one on the first visit, even with concurrent requests."""
    connection.execute(
        "INSERT INTO voters (cookie_hash, voter, created_at) VALUES (?, ?, ?) ON CONFLICT (cookie_hash) DO NOTHING",
        cookie_hash,
        secrets.token_hex(16),
        now,
    )
    return str(known_voter(connection, cookie_hash))


def known_among(connection: Connection, column: Literal["cookie_hash", "voter"], values: Sequence[str]) -> set[str]:
    """Those of these cookies that lead to a voter, or of these voters whom a cookie leads to."""
    query = f"SELECT {column} FROM voters WHERE {column} IN ??"
    return {value for (value,) in connection.rows(query, list(values))} if values else set()


def address_key(connection: Connection, purpose: str, period: int, expires_at: int) -> bytes:
    """The random key with which addresses are hashed for a purpose in a period; the same in every process."""
    query = "SELECT key FROM address_keys WHERE purpose = ? AND period = ?"
    result = connection.value(query, purpose, period)
    if result is None:
        row = (purpose, period, secrets.token_hex(32), expires_at)
        connection.insert("address_keys", ("purpose", "period", "key", "expires_at"), [row], or_ignore=True)
        result = connection.value(query, purpose, period)
    return bytes.fromhex(result)


class BlockKeys:
    """The random keys that stand for address blocks in the log. All of them change when a new period begins.

    What is stored is a hash of the block's name with a random key, which is deleted with the period: from then on
    nobody can tell which block a key of the log stood for.
    """

    def __init__(self) -> None:
        self._period = (0, 0)
        self._secret = b""
        self._known: dict[str, str] = {}

    def of(self, connection: Connection, names: Iterable[str], now: int, days: int) -> dict[str, str]:
        """The keys of these blocks in a period of so many days; new ones for blocks that have none yet."""
        asked = set(names) - {""}
        period, until = (days, now // (days * DAY)), (now // (days * DAY) + 1) * days * DAY
        if asked and period != self._period:
            self.forget()
            self._secret = address_key(connection, f"block of {days}", period[1], until)
            self._period = period
        missing = asked - self._known.keys()
        if missing:
            if len(self._known) > BLOCKS_KEPT:
                self._known.clear()
                missing = asked
            self._known.update(self._found(connection, sorted(missing), until))
        return {name: self._known[name] for name in asked}

    def forget(self) -> None:
        """Forget what was read: the transaction that wrote it failed, or somebody deleted keys."""
        self._period = (0, 0)
        self._known.clear()

    def _found(self, connection: Connection, names: Sequence[str], until: int) -> dict[str, str]:
        hashed = {hmac.digest(self._secret, name.encode(), "sha256").hex(): name for name in names}
        query = "SELECT name, key FROM address_blocks WHERE name IN ??"
        known: dict[str, str] = dict(connection.rows(query, list(hashed)))
        new = sorted(hashed.keys() - known.keys())
        if new:
            rows = [(name, secrets.token_urlsafe(9), until) for name in new]
            connection.insert("address_blocks", ("name", "key", "expires_at"), rows, or_ignore=True)
            known |= dict(connection.rows(query, new))
        return {hashed[name]: key for name, key in known.items()}


def note_changed_keys(connection: Connection) -> None:
    """Let every process read the keys of blocks again."""
    connection.execute(
        "INSERT INTO counters (key, slot, count, expires_at) VALUES (?, 0, ?, ?) "
        "ON CONFLICT (key, slot) DO UPDATE SET count = excluded.count",
        KEYS_CHANGED,
        secrets.randbits(30),
        2**62,
    )


class QuotaCounter:
    """What was used of quotas, counted in the transaction that uses them.

    The name of a hidden quota ends with what stands for an address. It is stored hashed with a random key of the day,
    which is deleted when no window reaches back to its day.
    """

    def __init__(self) -> None:
        self._day_keys: dict[int, bytes] = {}
        self._hashes: dict[tuple[int, str], str] = {}

    def used(self, connection: Connection, quotas: Iterable[Quota], now: int) -> Counter[str]:
        """How much of each quota was used in the window that ends now; and `KEYS_CHANGED`, since it costs no query."""
        counts: Counter[str] = Counter()
        asked = {quota.name: quota for quota in quotas}
        if asked:
            stored: dict[str, tuple[str, int]] = {KEYS_CHANGED: (KEYS_CHANGED, -1)}
            for quota in asked.values():
                since = now - quota.window
                for name in self._stored(connection, quota, now, since):
                    stored[name] = (quota.name, since)
            for key, slot, count in connection.rows(
                "SELECT key, slot, count FROM counters WHERE key IN ??", list(stored)
            ):
                name, oldest = stored[key]
                if slot > oldest:
                    counts[name] += count
        return counts

    def free_in(self, connection: Connection, quota: Quota, now: int) -> int:
        """In how many seconds an exhausted quota allows another action."""
        names = self._stored(connection, quota, now, now - quota.window)
        rows = connection.rows("SELECT slot, count FROM counters WHERE key IN ?? ORDER BY slot", names)
        rows = [row for row in rows if row[0] > now - quota.window]
        left = sum(count for _, count in rows)
        for slot, count in rows:
            left -= count
            if left < quota.most:
                return max(1, -((now - int(slot) - quota.window) // SECOND))
        return max(1, quota.window // SECOND)

    def note(self, connection: Connection, quotas: Iterable[Quota], now: int) -> None:
        counts = Counter(quotas)
        slots = {quota: now - now % quota.slot_length for quota in counts}
        rows = [
            (self._stored(connection, quota, now, now)[0], slots[quota], n, slots[quota] + quota.window)
            for quota, n in counts.items()
        ]
        connection.many(
            "INSERT INTO counters (key, slot, count, expires_at) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (key, slot) DO UPDATE SET count = counters.count + excluded.count",
            rows,
        )

    def forget(self) -> None:
        """Forget the keys of the days: the transaction that wrote one failed."""
        self._day_keys.clear()
        self._hashes.clear()

    def _stored(self, connection: Connection, quota: Quota, now: int, since: int) -> list[str]:
        """The name of a quota's rows; of a hidden one its names of every day since a time, the current one first."""
        if not quota.hidden:
            return [quota.name]
        what, _, address = quota.name.rpartition(":")
        return [f"{what}:{self._hash(connection, day, address)}" for day in range(now // DAY, since // DAY - 1, -1)]

    def _hash(self, connection: Connection, day: int, address: str) -> str:
        result = self._hashes.get((day, address))
        if result is None:
            if len(self._hashes) > HASHES_KEPT:
                self._hashes.clear()
            if day not in self._day_keys:
                self._hashes.clear()
                if len(self._day_keys) > KEY_DAYS:
                    self._day_keys.clear()
                self._day_keys[day] = address_key(connection, "limits", day, (day + KEY_DAYS) * DAY)
            digest = hmac.digest(self._day_keys[day], address.encode(), "sha256")
            result = self._hashes[day, address] = digest.hex()[:32]
        return result


def try_write(connection: Connection, now: int) -> None:
    """Write a row that limits nothing: if this fails, a vote would fail too. Names of quotas contain a colon."""
    connection.execute(
        "INSERT INTO counters (key, slot, count, expires_at) VALUES ('probe', 0, 1, ?) "
        "ON CONFLICT (key, slot) DO UPDATE SET expires_at = excluded.expires_at",
        now + DAY,
    )


def end_session(connection: Connection, name: str, expires_at: int, now: int) -> None:
    """Remember that a session was ended, until its time is over; forget those whose time is over."""
    connection.execute("INSERT INTO ended_sessions VALUES (?, ?) ON CONFLICT DO NOTHING", name, expires_at)
    connection.execute("DELETE FROM ended_sessions WHERE expires_at <= ?", now)


def is_ended(connection: Connection, name: str) -> bool:
    """Whether a session was ended before its time."""
    return connection.one("SELECT 1 FROM ended_sessions WHERE name = ?", name) is not None
