"""Invitations of a closed arena: links whose secrets are stored only as hashes, and what stands for each in the log.

An invitation is a block of its own: its votes carry its random key, limits count by it, and pairs wait for it. So a
person with a one-time link is one block, and so is a class that shares a link for many.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence

import msgspec

from tiltyard.arena.rules.voting import NotInvited
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.store import Store
from tiltyard.arena.store.visitors import Quota, enter_voter
from tiltyard.errors import OptionError

SHOWN_LETTERS = 12
"""How much of an invitation's hash names it to its operator."""

LONGEST_LABEL = 200
"""Characters of a label."""


class Invitation(msgspec.Struct, frozen=True):
    """An invitation as its operator sees it: the beginning of its hash, what it is for, and how much it was used.

    `most` is how many visitors may use it, 0: any number. Times are microseconds since 1970.
    """

    name: str
    label: str
    most: int
    uses: int
    created_at: int
    expires_at: int | None
    revoked_at: int | None

    def status(self, now: int) -> str:
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        return "used up" if self.most and self.uses >= self.most else "open"


def hashed(secret: str) -> str:
    """The name under which the invitation with this secret is stored."""
    return hashlib.sha256(f"invitation\n{secret}".encode("utf-8", "surrogatepass")).hexdigest()


def make_invitations(
    store: Store,
    n: int,
    *,
    now: int,
    most: int = 1,
    label: str = "",
    expires_at: int | None = None,
    keep: Callable[[list[str]], None] | None = None,
) -> list[str]:
    """The secrets of new invitations, each for `most` visitors. They are told only here: the database has hashes.

    `keep` gets them before they are stored; if it fails, there are no new invitations.
    """
    if len(label) > LONGEST_LABEL or not label.isprintable():
        raise OptionError(
            f"the label {label[:40]!r} is not one line of at most {LONGEST_LABEL} characters. Shorten it."
        )
    made = [secrets.token_urlsafe(18) for _ in range(n)]
    columns = ("name", "key", "label", "most", "uses", "created_at", "expires_at")
    rows = [(hashed(secret), secrets.token_urlsafe(9), label, most, 0, now, expires_at) for secret in made]
    with store.database.write() as connection:
        connection.insert("invitations", columns, rows)
        if keep is not None:
            keep(made)
    return made


def invite_person(store: Store, voter: str, secret: str, *, now: int) -> None:
    """Make a reviewer's own link: all browsers that open it are this voter, and earlier links of theirs end."""
    columns = ("name", "key", "label", "most", "uses", "created_at", "voter")
    with store.database.write() as connection:
        _revoke_person(connection, voter, now)
        connection.insert("invitations", columns, [(hashed(secret), secrets.token_urlsafe(9), "", 0, 0, now, voter)])


def revoke_person(store: Store, voter: str, now: int) -> None:
    """End the links of a reviewer; browsers that used them are nobody again."""
    with store.database.write() as connection:
        _revoke_person(connection, voter, now)


def _revoke_person(connection: Connection, voter: str, now: int) -> None:
    connection.execute("UPDATE invitations SET revoked_at = ? WHERE voter = ? AND revoked_at IS NULL", now, voter)
    connection.execute("DELETE FROM voters WHERE voter = ?", voter)


def erase_person(store: Store, voters: Sequence[str]) -> None:
    """Delete the links of reviewers who left, and what led from their cookies to them."""
    with store.database.write() as connection:
        connection.execute("DELETE FROM invitations WHERE voter IN ??", list(voters))
        connection.execute("DELETE FROM voters WHERE voter IN ??", list(voters))
    store.database.purge_deleted("invitations", "voters")


def all_invitations(store: Store) -> list[Invitation]:
    """Every invitation, the oldest first."""
    with store.database.read() as connection:
        rows = connection.rows(
            "SELECT name, label, most, uses, created_at, expires_at, revoked_at FROM invitations "
            "ORDER BY created_at, name"
        )
    return [Invitation(row[0][:SHOWN_LETTERS], *row[1:]) for row in rows]


def revoke_invitations(store: Store, which: str, now: int) -> int:
    """Revoke the invitations with this label, or whose shown name this is; returns how many."""
    with store.database.write() as connection:
        done = connection.execute(
            "UPDATE invitations SET revoked_at = ? WHERE ? IN (nullif(label, ''), substr(name, 1, ?)) "
            "AND revoked_at IS NULL",
            now,
            which,
            SHOWN_LETTERS,
        )
    if not done:
        raise OptionError(f"no invitation in use has the name or the label {which!r}. `arena invite` lists them.")
    return done


def invited(connection: Connection, names: Iterable[str], now: int) -> dict[str, str]:
    """What stands in the log for the invitation of each of these voters; those without a valid one are left out."""
    rows = connection.rows(
        "SELECT voters.voter, key, expires_at FROM voters JOIN invitations ON name = invitation "
        "WHERE voters.voter IN ?? AND revoked_at IS NULL",
        sorted(set(names)),
    )
    return {voter: key for voter, key, until in rows if until is None or until > now}


def check_invitation(connection: Connection, cookie_hash: str, name: str, now: int) -> bool:
    """Whether the invitation with this name is new to the visitor with this cookie; refused if it cannot be used."""
    row = connection.one(
        "SELECT label, most, uses, created_at, expires_at, revoked_at FROM invitations WHERE name = ?", name
    )
    if row is None:
        raise NotInvited("this invitation is not known here. Open the whole link that you were given.")
    if connection.value("SELECT invitation FROM voters WHERE cookie_hash = ?", cookie_hash) == name:
        return False
    status = Invitation("", *row).status(now)
    if status != "open":
        raise NotInvited(f"this invitation is {status}. Ask whoever invited you for another.")
    return True


def enter_by_invitation(connection: Connection, cookie_hash: str, name: str, now: int) -> str:
    """The voter of this cookie, who uses the invitation with this name; using it twice counts once."""
    is_new = check_invitation(connection, cookie_hash, name, now)
    voter = enter_voter(connection, cookie_hash, now)
    if is_new:
        own = connection.value("SELECT voter FROM invitations WHERE name = ?", name)
        if own is not None:  # a reviewer's link: whoever opens it is this voter
            voter = str(own)
            connection.execute("UPDATE voters SET voter = ? WHERE cookie_hash = ?", voter, cookie_hash)
        connection.execute("UPDATE voters SET invitation = ? WHERE cookie_hash = ?", name, cookie_hash)
        connection.execute("UPDATE invitations SET uses = uses + 1 WHERE name = ?", name)
    return voter


def by_invitation(quotas: Sequence[Quota], key: str) -> list[Quota]:
    """The quotas in a closed arena: what an address may do, the invitation may do; networks do not count."""
    kept = {quota.name: quota for quota in quotas if not quota.hidden}
    for quota in quotas:
        if quota.hidden:
            name = f"{quota.name.rpartition(':')[0]}:invited:{key}"
            kept.setdefault(name, Quota(name, quota.most, quota.seconds))
    return list(kept.values())
