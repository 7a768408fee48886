"""What is stored outside the chain and can be deleted: who holds which cookie, recent usage, ended sessions."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tiltyard.arena.store.bulk import fetch, one_of
from tiltyard.arena.store.tables import (
    address_blocks,
    address_keys,
    comments,
    ended_sessions,
    matchups,
    rate_limits,
    voters,
)
from tiltyard.arena.units import DAY, SECOND

SLOTS = 12
"""A rolling window is counted in this many parts plus the current one, so it is never shorter than stated."""

DAY_SECONDS = 86_400

PROBE = "probe"
"""The name of the row written only to test writing; names of quotas contain a colon."""

QUOTA_LOCKS, VOTER_LOCKS = 0x7117, 0x7118
"""The first numbers of the advisory locks of quotas and of voters, in the order in which a transaction takes them; the
second number is derived from the name."""

BLOCK_PERIOD = 30 * DAY_SECONDS * SECOND
"""How long one random key stands for an address block, in microseconds."""

BLOCKS_KEPT = 50_000
"""How many blocks' keys a process keeps in memory."""

_known_blocks = sa.select(address_blocks.c.name, address_blocks.c.key).where(one_of(address_blocks.c.name, "names"))

KEYS_KEPT = 3
"""For how many days, its own included, the key of a day is kept: the longest window is a day and a twelfth."""

_counted = sa.select(rate_limits.c.key, rate_limits.c.slot, rate_limits.c.count).where(
    one_of(rate_limits.c.key, "names")
)


def _adding(insert: sqlite.Insert | postgresql.Insert) -> sqlite.Insert | postgresql.Insert:
    more = {"count": rate_limits.c.count + insert.excluded.count}
    return insert.on_conflict_do_update(index_elements=["key", "slot", "worker"], set_=more)


_add_sqlite, _add_postgresql = (_adding(dialect.insert(rate_limits)) for dialect in (sqlite, postgresql))

_hold = sa.text("SELECT pg_advisory_xact_lock(:space, key) FROM unnest(CAST(:keys AS int[])) AS key")


@dataclass(frozen=True, slots=True)
class Quota:
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


_voter_of = sa.select(voters.c.voter).where(voters.c.cookie_hash == sa.bindparam("cookie_hash"))


def known_voter(connection: sa.Connection, cookie_hash: str) -> str | None:
    """The key of the visitor with this cookie, if it was seen before."""
    result = fetch(connection, _voter_of, {"cookie_hash": cookie_hash})
    return str(result[0][0]) if result else None


def enter_voter(connection: sa.Connection, cookie_hash: str, now: int) -> str:
    """The key of the visitor with this cookie; a new random one on the first visit, even with concurrent requests."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    row = {"cookie_hash": cookie_hash, "voter": secrets.token_hex(16), "created_at": now, "address": ""}
    connection.execute(dialect.insert(voters).values(row).on_conflict_do_nothing(index_elements=["cookie_hash"]))
    return str(known_voter(connection, cookie_hash))


def known_cookies(connection: sa.Connection, cookie_hashes: Sequence[str]) -> set[str]:
    """Those of these cookies that lead to a voter."""
    if not cookie_hashes:
        return set()
    return set(
        connection.execute(sa.select(voters.c.cookie_hash).where(voters.c.cookie_hash.in_(cookie_hashes))).scalars()
    )


def forget_voter(connection: sa.Connection, cookie_hash: str) -> bool:
    """Delete the link from this cookie to its votes, which remain under an anonymous key. Whether there was a link.

    Its comments go with it.
    """
    voter = sa.select(voters.c.voter).where(voters.c.cookie_hash == cookie_hash)
    _forget_comments(connection, matchups.c.voter.in_(voter))
    return connection.execute(sa.delete(voters).where(voters.c.cookie_hash == cookie_hash)).rowcount > 0


def address_key(connection: sa.Connection, purpose: str, period: int, expires_at: int) -> bytes:
    """The random key with which addresses are hashed for a purpose in a period; the same in every process."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    here = (address_keys.c.purpose == purpose) & (address_keys.c.period == period)
    result = connection.execute(sa.select(address_keys.c.key).where(here)).scalar()
    if result is None:
        row = {"purpose": purpose, "period": period, "key": secrets.token_hex(32), "expires_at": expires_at}
        connection.execute(dialect.insert(address_keys).values(row).on_conflict_do_nothing())
        result = connection.execute(sa.select(address_keys.c.key).where(here)).scalar_one()
    return bytes.fromhex(result)


class BlockKeys:
    """The random keys that stand for address blocks in the log. All of them change when a new period begins.

    What is stored is a hash of the block's name with a random key, which is deleted with the period: from then on
    nobody can tell which block a key of the log stood for.
    """

    def __init__(self) -> None:
        self._period = -1
        self._secret = b""
        self._known: dict[str, str] = {}

    def of(self, connection: sa.Connection, names: Iterable[str], now: int) -> dict[str, str]:
        """The keys of these blocks; new ones for blocks that have none yet."""
        asked = set(names) - {""}
        if asked and now // BLOCK_PERIOD != self._period:
            self.forget()
            period = now // BLOCK_PERIOD
            self._secret = address_key(connection, "block", period, (period + 1) * BLOCK_PERIOD)
            self._period = period
        missing = asked - self._known.keys()
        if missing:
            if len(self._known) > BLOCKS_KEPT:
                self._known.clear()
                missing = asked
            self._known.update(self._found(connection, sorted(missing), now))
        return {name: self._known[name] for name in asked}

    def forget(self) -> None:
        """Forget what was read: the transaction that wrote it failed, or a new period begins."""
        self._period = -1
        self._known.clear()

    def _found(self, connection: sa.Connection, names: Sequence[str], now: int) -> dict[str, str]:
        hashed = {hmac.digest(self._secret, name.encode(), "sha256").hex(): name for name in names}
        known: dict[str, str] = dict(fetch(connection, _known_blocks, {"names": list(hashed)}))
        new = sorted(hashed.keys() - known.keys())
        if new:
            dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
            made = {"created_at": now, "expires_at": (self._period + 1) * BLOCK_PERIOD}
            rows = [{"name": name, "key": secrets.token_urlsafe(9), **made} for name in new]
            connection.execute(dialect.insert(address_blocks).on_conflict_do_nothing(index_elements=["name"]), rows)
            known |= dict(fetch(connection, _known_blocks, {"names": new}))
        return {hashed[name]: key for name, key in known.items()}


class QuotaCounter:
    """What was used of quotas. Each process counts in its own rows, named by `worker`.

    The name of a hidden quota ends with what stands for an address. It is stored hashed with a random key of the day,
    which is deleted when no window reaches back to its day.
    """

    def __init__(self) -> None:
        self._worker = secrets.token_hex(8)
        self._day_keys: dict[int, bytes] = {}

    def used(self, connection: sa.Connection, quotas: Iterable[Quota], now: int) -> Counter[str]:
        """How much of each quota was used in the window that ends now; locked until this transaction ends.

        On SQLite there is only one writer. On PostgreSQL others that need one of these quotas wait here, always in the
        order of the lock numbers, and see this transaction's counts once it is committed.
        """
        counts: Counter[str] = Counter()
        asked = {quota.name: quota for quota in quotas}
        if asked:
            lock_names(connection, QUOTA_LOCKS, asked)
            stored = {
                name: (quota.name, now - quota.window)
                for quota in asked.values()
                for name in self._stored(connection, quota, now)
            }
            for key, slot, count in fetch(connection, _counted, {"names": list(stored)}):
                name, oldest = stored[key]
                if slot > oldest:
                    counts[name] += count
        return counts

    def free_in(self, connection: sa.Connection, quota: Quota, now: int) -> int:
        """In how many seconds an exhausted quota allows another action."""
        names = {"names": list(self._stored(connection, quota, now))}
        rows = sorted((slot, n) for _, slot, n in fetch(connection, _counted, names) if slot > now - quota.window)
        left = sum(count for _, count in rows)
        for slot, count in rows:
            left -= count
            if left < quota.most:
                return max(1, -((now - int(slot) - quota.window) // SECOND))
        return max(1, quota.window // SECOND)

    def note(self, connection: sa.Connection, quotas: Iterable[Quota], now: int) -> None:
        """Count one action under each of these names."""
        counts = Counter((quota, now - now % quota.slot_length) for quota in quotas)
        rows = [
            {
                "key": self._stored(connection, quota, now)[0],
                "slot": slot,
                "worker": self._worker,
                "count": n,
                "expires_at": slot + quota.window,
            }
            for (quota, slot), n in counts.items()
        ]
        if rows:
            connection.execute(_add_sqlite if connection.dialect.name == "sqlite" else _add_postgresql, rows)

    def forget(self) -> None:
        """Forget the keys of the days: the transaction that wrote one failed."""
        self._day_keys.clear()

    def _stored(self, connection: sa.Connection, quota: Quota, now: int) -> tuple[str, ...]:
        """The name of a quota's rows; of a hidden one, also its name of the day before while its window reaches back.

        The current name comes first.
        """
        if not quota.hidden:
            return (quota.name,)
        what, _, address = quota.name.rpartition(":")
        today, first = now // DAY, (now - quota.window) // DAY
        return tuple(
            f"{what}:{hmac.digest(self._day_key(connection, day), address.encode(), 'sha256').hex()[:32]}"
            for day in range(today, first - 1, -1)
        )

    def _day_key(self, connection: sa.Connection, day: int) -> bytes:
        key = self._day_keys.get(day)
        if key is None:
            if len(self._day_keys) > KEYS_KEPT:
                self._day_keys.clear()
            key = self._day_keys[day] = address_key(connection, "limits", day, (day + KEYS_KEPT) * DAY)
        return key

    def probe(self, connection: sa.Connection, now: int) -> None:
        """Write a row that limits nothing: if this fails, a vote would fail too."""
        here = (rate_limits.c.key == PROBE) & (rate_limits.c.slot == 0) & (rate_limits.c.worker == self._worker)
        until = now + DAY_SECONDS * SECOND
        again = sa.update(rate_limits).where(here).values(count=rate_limits.c.count + 1, expires_at=until)
        if connection.execute(again).rowcount == 0:
            row = {"key": PROBE, "slot": 0, "worker": self._worker, "count": 1, "expires_at": until}
            connection.execute(sa.insert(rate_limits), row)


@dataclass(frozen=True, slots=True)
class Tidied:
    """How many rows were deleted because their time was over."""

    counts: int
    blocks: int
    keys: int
    voters: int


def tidy_visitors(connection: sa.Connection, now: int, voter_days: int | None = None) -> Tidied:
    """Delete counts outside every window, and what is known of address blocks whose period is over.

    With `voter_days`, also the links from cookies to voters who were served nothing for that long, and their comments;
    and all comments that are older.
    """
    counts, blocks, keys = (
        connection.execute(sa.delete(table).where(table.c.expires_at <= now)).rowcount
        for table in (rate_limits, address_blocks, address_keys)
    )
    gone = 0
    if voter_days is not None:
        since = max(0, now - voter_days * DAY)
        here = (matchups.c.voter == voters.c.voter) & (matchups.c.served_at >= since)
        idle = ~sa.select(matchups.c.id).where(here).exists()
        connection.execute(sa.delete(comments).where(comments.c.at < since))
        _forget_comments(connection, matchups.c.voter.in_(sa.select(voters.c.voter).where(_gone(since, idle))))
        gone = connection.execute(sa.delete(voters).where(_gone(since, idle))).rowcount
    return Tidied(counts, blocks, keys, gone)


def _gone(since: int, idle: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.and_(voters.c.created_at < since, idle)


def _forget_comments(connection: sa.Connection, of: sa.ColumnElement[bool]) -> None:
    """Delete the comments on matchups of certain voters; few voters write any, so these are looked through."""
    commented = sa.select(comments.c.matchup_id)
    ids = sa.select(matchups.c.id).where(matchups.c.id.in_(commented), of)
    connection.execute(sa.delete(comments).where(comments.c.matchup_id.in_(ids)))


def lock_names(connection: sa.Connection, space: int, names: Iterable[str]) -> None:
    """Hold these names until the transaction ends, always in the same order; on SQLite there is only one writer."""
    if connection.dialect.name != "sqlite":
        connection.execute(_hold, {"space": space, "keys": sorted(set(map(_lock_number, names)))})


def _lock_number(name: str) -> int:
    """32 bits of a name. On a collision, two names merely wait for each other."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big", signed=True)


def end_session(connection: sa.Connection, name: str, expires_at: int, now: int) -> None:
    """Remember that a session was ended, until its time is over; forget those whose time is over."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    row = {"name": name, "expires_at": expires_at}
    connection.execute(dialect.insert(ended_sessions).values(row).on_conflict_do_nothing(index_elements=["name"]))
    connection.execute(sa.delete(ended_sessions).where(ended_sessions.c.expires_at <= now))


def is_ended(connection: sa.Connection, name: str) -> bool:
    """Whether a session was ended before its time."""
    return connection.execute(sa.select(ended_sessions.c.name).where(ended_sessions.c.name == name)).first() is not None
