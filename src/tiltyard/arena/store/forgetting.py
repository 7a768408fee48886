"""Forgetting visitors: at their own wish, at the operator's, and by age. `arena/kept.py` says what is kept at all.

Votes stay in the log under random keys; everything that leads from a key to a person is deleted, in one transaction.
Before it a hash of the deletion is written outside the database. So a kill leaves all of it, or what the next opening
of the database completes; and an older copy that is restored forgets the same again.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from operator import add
from typing import Any

import msgspec
from msgspec.structs import astuple

from tiltyard.arena.rules.events import Flagged, MatchupServed, decode_body
from tiltyard.arena.rules.kept import KEY_DAYS
from tiltyard.arena.rules.policy import RetentionRules
from tiltyard.arena.rules.public_rows import receipt_of
from tiltyard.arena.rules.units import DAY, SECOND
from tiltyard.arena.rules.voting import MatchupStatus, shows_names
from tiltyard.arena.store import log
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.desk import note_withdrawn, tags_by_matchup
from tiltyard.arena.store.erasing import erase_again
from tiltyard.arena.store.invitations import SHOWN_LETTERS
from tiltyard.arena.store.log import EVERYTHING
from tiltyard.arena.store.outside import ALL, deletion
from tiltyard.arena.store.store import Store, closed_on_error
from tiltyard.arena.store.visitors import KEYS_CHANGED, known_among, note_changed_keys
from tiltyard.errors import OptionError

TABLES = ("voters", "address_keys", "address_blocks", "invitations", "counters", "texts", "reports")
"""Where deleted rows leave traces on PostgreSQL until they are written anew."""

POOL = "forgotten"
"""The name of the block that networks belong to, until the period ends, after somebody there was forgotten. If each got
a new key, then forgetting oneself again and again would walk around every limit of a block's influence."""


class Deleted(msgspec.Struct, frozen=True):
    """How many rows went because their time was over, or because somebody is forgotten."""

    voters: int = 0
    invitations: int = 0
    comments: int = 0
    reports: int = 0
    counts: int = 0
    blocks: int = 0
    keys: int = 0

    def __add__(self, other: Deleted) -> Deleted:
        return Deleted(*map(add, astuple(self), astuple(other)))


# --- At somebody's wish ---------------------------------------------------------------------------------------------


def forget_cookie(store: Store, cookie_hash: str) -> None:
    """Forget the visitor with this cookie, in all their browsers."""
    voter = store.known_voter(cookie_hash)
    if voter is not None:
        with suppress(OptionError):  # by another process meanwhile
            forget_voters(store, [voter])


def forget_voters(store: Store, voters: Sequence[str]) -> Deleted:
    """Forget the visitors with these random keys; their votes stay. If one is known to nobody, nobody is forgotten."""
    with store.database.write(lock=True) as connection:
        missing = sorted(set(voters) - known_among(connection, "voter", voters))
        if missing:
            raise OptionError(f"nothing leads from the key {missing[0]!r} to anybody: forgotten already, or mistyped.")
        result = _note_and_forget(store, connection, voters)
    store.database.purge_deleted()
    return result


def forget_invitation(store: Store, which: str) -> Deleted:
    """Forget the invitations with this label, or whose shown name this is, and everybody who used one of them."""
    with store.database.write(lock=True) as connection:
        rows = connection.rows(
            "SELECT name FROM invitations WHERE ? IN (nullif(label, ''), substr(name, 1, ?))", which, SHOWN_LETTERS
        )
        if not rows:
            raise OptionError(f"no invitation has the name or the label {which!r}. `arena invite` lists them.")
        names = [name for (name,) in rows]
        result = _note_and_forget(store, connection, _users(connection, names), names)
    store.database.purge_deleted()
    return result


def forget_everybody(store: Store, now: int) -> Deleted:
    """Forget every visitor, what they wrote, and all networks. Invitations that nobody used stay."""
    with store.database.write(lock=True) as connection:
        until = max(now, _all_forgotten(connection) + 1)
        store.outside.note_deleted((ALL, str(until)))
        result = _forget_all(connection, until)
    store.database.purge_deleted()
    return result


def forget_networks(store: Store) -> Deleted:
    """Drop everything that was made with keys of networks; new ones are made for the next request."""
    with store.database.write(lock=True) as connection:
        result = drop_networks(connection)
    store.database.purge_deleted(*TABLES)
    return result


def delete_comment(store: Store, matchup_id: str) -> bool:
    """Delete the comment on one vote. Whether there was one."""
    if "\x00" in matchup_id:
        return False
    with store.database.write() as connection:
        note_withdrawn(store, connection, matchup_id)
        deleted = connection.execute("DELETE FROM texts WHERE kind = 'comment' AND id = ?", matchup_id) > 0
    store.database.purge_deleted()
    return deleted


def open_store(url: str) -> Store:
    """The arena at a URL; in an older copy, what was deleted since it was made is deleted again."""
    store = Store.open(url)
    with closed_on_error(store.database):
        forget_again(store)
    return store


def forget_again(store: Store) -> None:
    """Delete from an older copy of the database what was deleted since it was made."""
    hashes, everybody = store.outside.deletions()
    if not hashes and not everybody:
        return
    erase_again(store, hashes)
    with store.database.read() as connection:
        cookies = connection.rows("SELECT cookie_hash, voter FROM voters")
        voters = sorted({voter for cookie, voter in cookies if deletion("voter", cookie) in hashes})
        links = connection.rows("SELECT name FROM invitations")
        invitations = [name for (name,) in links if deletion("invitation", name) in hashes]
        is_old = _all_forgotten(connection) < everybody
    if not (voters or invitations or is_old):
        return
    with store.database.write(lock=True) as connection:
        if is_old:
            _forget_all(connection, everybody)
        _forget(connection, [*voters, *_users(connection, invitations)], invitations)
    store.database.purge_deleted(*TABLES)


def _all_forgotten(connection: Connection) -> int:
    """When everybody in this database was forgotten last; 0: never."""
    return int(connection.value("SELECT text FROM site_texts WHERE name = 'forgotten'") or 0)


def _forget_all(connection: Connection, until: int) -> Deleted:
    """Forget all visitors and networks, and remember for which line of deletions: clocks of hosts may differ."""
    connection.execute("DELETE FROM site_texts WHERE name = 'forgotten'")
    connection.execute("INSERT INTO site_texts VALUES ('forgotten', ?)", str(until))
    rows = connection.rows("SELECT DISTINCT voter FROM voters")
    return _forget(connection, [voter for (voter,) in rows]) + drop_networks(connection)


def _users(connection: Connection, invitations: Sequence[str]) -> list[str]:
    return [voter for (voter,) in connection.rows("SELECT voter FROM voters WHERE invitation IN ??", list(invitations))]


def drop_networks(connection: Connection) -> Deleted:
    """Delete all keys of networks, and what was made with them."""
    counts, blocks, keys = (
        connection.execute(f"DELETE FROM {table}") for table in ("counters", "address_blocks", "address_keys")
    )
    note_changed_keys(connection)
    return Deleted(counts=counts, blocks=blocks, keys=keys)


def _note_and_forget(
    store: Store, connection: Connection, voters: Sequence[str], invitations: Sequence[str] = ()
) -> Deleted:
    # A hash of a voter's key, which is public with votes, would lead back to them; that of a cookie does not.
    cookies = connection.rows("SELECT cookie_hash FROM voters WHERE voter IN ??", list(voters))
    noted = [("invitation", name) for name in invitations]
    store.outside.note_deleted(*noted, *(("voter", cookie) for (cookie,) in cookies))
    return _forget(connection, voters, invitations)


def _forget(connection: Connection, voters: Sequence[str], invitations: Sequence[str] = ()) -> Deleted:
    """Delete whatever leads from these keys to somebody, or was written under them."""
    names = sorted(set(voters))
    served = [row[0] for row in connection.rows("SELECT id FROM matchups WHERE voter IN ??", names)]
    comments = connection.execute("DELETE FROM texts WHERE kind = 'comment' AND id IN ??", served)
    reports = connection.execute("UPDATE reports SET reason = '' WHERE reason <> '' AND matchup_id IN ??", served)
    # An invitation for one person leads to that person; one for many is theirs together.
    own = connection.rows(
        "SELECT name, key FROM invitations WHERE name IN ?? "
        "OR most = 1 AND name IN (SELECT invitation FROM voters WHERE voter IN ??)",
        list(invitations),
        names,
    )
    links = connection.execute("DELETE FROM invitations WHERE name IN ??", [name for name, _ in own])
    counted = {*names, *(part for row in own for part in row)}
    keys = connection.rows("SELECT DISTINCT key FROM counters")
    keys = [key for (key,) in keys if not counted.isdisjoint(key.split(":"))]
    counts = connection.execute("DELETE FROM counters WHERE key IN ??", keys)
    blocks = _pool_blocks(connection, names)
    gone = connection.execute("DELETE FROM voters WHERE voter IN ??", names)
    return Deleted(gone, links, comments, reports, counts, blocks)


def _pool_blocks(connection: Connection, voters: Sequence[str]) -> int:
    """Let networks whose keys stand beside votes of these visitors stand under the pool's key from now on."""
    key = connection.value("SELECT key FROM address_blocks WHERE name = ?", POOL)
    rows = connection.rows(
        "SELECT name, expires_at FROM address_blocks WHERE key <> ? AND key IN (SELECT block FROM matchups "
        "WHERE voter IN ?? UNION SELECT vote_block FROM matchups WHERE voter IN ??)",
        key or "",
        list(voters),
        list(voters),
    )
    if not rows:
        return 0
    if key is None:
        key = secrets.token_urlsafe(9)
        connection.insert("address_blocks", ("name", "key", "expires_at"), [(POOL, key, max(row[1] for row in rows))])
    note_changed_keys(connection)
    return connection.execute("UPDATE address_blocks SET key = ? WHERE name IN ??", key, [row[0] for row in rows])


# --- By age ---------------------------------------------------------------------------------------------------------


def tidy(store: Store, now: int, retention: RetentionRules | None = None) -> Deleted:
    """Delete what is kept about visitors for longer than `arena/kept.py` says.

    Counts outside every window, and what is known of address blocks whose period is over. With the rules also keys
    and counts that another policy or a clock ahead would keep for longer, those who were served nothing for so long,
    what was written before, and invitations that were over before.
    """
    with store.database.write() as connection:
        counts, blocks, keys = (
            connection.execute(f"DELETE FROM {table} WHERE expires_at <= ?", now)
            for table in ("counters", "address_blocks", "address_keys")
        )
        if retention is not None:
            longest = now + (max(KEY_DAYS, retention.network_days) + 1) * DAY
            counts += connection.execute(
                "DELETE FROM counters WHERE expires_at > ? AND key <> ?", longest, KEYS_CHANGED
            )
            other = connection.execute(
                "DELETE FROM address_keys WHERE purpose NOT IN ('limits', ?) OR expires_at > ?",
                f"block of {retention.network_days}",
                longest,
            )
            if other:
                note_changed_keys(connection)
            keys += other
    idle = Deleted() if retention is None else _forget_idle(store, max(0, now - retention.voter_days * DAY))
    # What another process deleted is not known here, so that PostgreSQL always writes its tables anew.
    if retention is not None or (store.database.is_sqlite and (blocks or keys or store.database.purge_due)):
        store.database.purge_deleted(*TABLES)
    return idle + Deleted(counts=counts, blocks=blocks, keys=keys)


def _forget_idle(store: Store, since: int) -> Deleted:
    with store.database.write(lock=True) as connection:
        rows = connection.rows(
            "SELECT voter FROM voters WHERE created_at < ? AND NOT EXISTS "
            "(SELECT 1 FROM matchups WHERE matchups.voter = voters.voter AND served_at >= ?)",
            since,
            since,
        )
        result = _forget(connection, [voter for (voter,) in rows]) if rows else Deleted()
        comments = connection.execute("DELETE FROM texts WHERE kind = 'comment' AND at < ?", since)
        reports = connection.execute("UPDATE reports SET reason = '' WHERE at < ? AND reason <> ''", since)
        links = connection.execute(
            "DELETE FROM invitations WHERE (revoked_at < ? OR expires_at < ?) "
            "AND name NOT IN (SELECT invitation FROM voters WHERE invitation IS NOT NULL)",
            since,
            since,
        )
    return result + Deleted(invitations=links, comments=comments, reports=reports)


# --- All that is kept about somebody --------------------------------------------------------------------------------


def kept_about(store: Store, cookie_hash: str, models: Sequence[str], now: int) -> dict[str, Any]:
    """Everything that is kept about the visitor with this cookie; names of models only where their vote is final."""
    with store.database.read() as connection:
        row = connection.one("SELECT voter, created_at, invitation FROM voters WHERE cookie_hash = ?", cookie_hash)
        if row is None:
            return {}
        voter, came, invitation = row
        matchups = connection.rows(
            "SELECT id, a, b, status, choice, unrendered, served_at, closed_at, undo_until, counts, block, vote_block, "
            "(SELECT body FROM events WHERE events.seq = matchups.seq) FROM matchups WHERE voter = ? ORDER BY seq",
            voter,
        )
        ids, blocks = [one[0] for one in matchups], sorted({name for one in matchups for name in one[10:12] if name})
        invited = connection.rows("SELECT name, label FROM invitations WHERE name = ?", invitation)
        comments = connection.rows("SELECT id, text, at FROM texts WHERE kind = 'comment' AND id IN ??", ids)
        reports = connection.rows("SELECT matchup_id, side, reason, at FROM reports WHERE matchup_id IN ??", ids)
        counts = connection.rows("SELECT key, slot, count, expires_at FROM counters WHERE key LIKE ?", f"%:{voter}%")
        networks = connection.rows("SELECT key, expires_at FROM address_blocks WHERE key IN ??", blocks)
        flags = log.of_kinds(connection, ["flagged"])
    tags = tags_by_matchup(store, EVERYTHING)
    return {
        "made_at": _moment(now),
        "voter": voter,
        "cookie_hash": cookie_hash,
        "since": _moment(came),
        "invitations": [{"name": name[:SHOWN_LETTERS], "label": label} for name, label in invited],
        "matchups": [_matchup(one, models, now) for one in matchups],
        "reasons": [{"matchup_id": name, "tags": tags[name]} for name in ids if name in tags],
        "comments": [{"matchup_id": name, "comment": text, "at": _moment(at)} for name, text, at in comments],
        "reports": [
            {"matchup_id": name, "side": side, "reason": reason, "at": _moment(at)}
            for name, side, reason, at in reports
        ],
        "counts": [
            {"of": key.replace(f":{voter}", ""), "from": _moment(slot), "count": n, "until": _moment(until)}
            for key, slot, n, until in counts
        ],
        "networks": [{"key": key, "until": _moment(until)} for key, until in networks],
        "flags": [
            {"flag": body.flag, "detail": body.detail, "at": _moment(at)}
            for _, at, body in flags
            if isinstance(body, Flagged) and body.subject == "voter" and body.subject_id == voter
        ],
    }


def _matchup(row: Sequence[Any], models: Sequence[str], now: int) -> Mapping[str, Any]:
    name, a, b, status, choice, unrendered, served_at, closed, undo_until, counts, block, vote_block, text = row
    served = decode_body(text)
    assert isinstance(served, MatchupServed)
    final = shows_names(MatchupStatus(status), undo_until, now)
    return {
        "matchup_id": name,
        "prompt_id": served.prompt_id,
        "served_at": _moment(served_at),
        "status": status,
        "closed_at": _moment(closed),
        "choice": choice,
        "unrendered": unrendered,
        "receipt": receipt_of(served) if final else None,
        "counted": bool(counts) if final else None,
        "model_a": models[a] if final and a < len(models) else None,
        "model_b": models[b] if final and b < len(models) else None,
        "network": block,
        "network_of_vote": vote_block or "",
    }


def _moment(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at / SECOND, UTC).isoformat(timespec="seconds")
