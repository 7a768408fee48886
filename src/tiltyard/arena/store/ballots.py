"""The table of matchups: what was served to whom, and what became of it.

A row is written in the transaction that writes its event, so it is never older than the log. Each step leaves from
`open`, or from `voted` for a reveal or an undo: the row is locked, looked at and changed under the condition that it
still stands as it was seen. However many clients send one ballot to however many workers, one of them finds it open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from tiltyard.arena.events import Choice
from tiltyard.arena.store.bulk import Row, fetch, insert_rows, one_of, update_rows
from tiltyard.arena.store.tables import matchups
from tiltyard.arena.voting import Ballot, Status
from tiltyard.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tiltyard.arena.catalog import Catalog
    from tiltyard.arena.events import MatchupServed

STATUSES = {status.value: status for status in Status}

_BALLOT = (
    *(matchups.c.id, matchups.c.voter, matchups.c.a, matchups.c.b, matchups.c.served_at, matchups.c.expires_at),
    *(matchups.c.status, matchups.c.choice, matchups.c.closed_at, matchups.c.undo_until),
)
_locked = (
    sa.select(*_BALLOT)
    .where(one_of(matchups.c.id, "ids"))
    .order_by(matchups.c.id)  # everybody locks in one order, so nobody waits in a circle
    .with_for_update()
)
_due = (
    sa.select(matchups.c.id)
    .where(matchups.c.status == "open", matchups.c.expires_at <= sa.bindparam("now"))
    .order_by(matchups.c.expires_at)
    .limit(sa.bindparam("most"))
)
_past = sa.select(matchups.c.voter, matchups.c.a, matchups.c.b, matchups.c.prompt, matchups.c.served_at).where(
    one_of(matchups.c.voter, "voters")
)


def lock_ballots(connection: sa.Connection, ids: Iterable[str]) -> dict[str, Ballot]:
    """The rows of these matchups, which nobody else can change until this transaction ends."""
    return {row[0]: _ballot(row) for row in fetch(connection, _locked, {"ids": sorted(set(ids))})}


def write_ballots(connection: sa.Connection, before: dict[str, Ballot], after: dict[str, Ballot]) -> None:
    """Write the rows that differ, each under the condition that it still stands as it was seen."""
    rows = [
        (
            *(name, before[name].status.value, row.status.value, row.choice and row.choice.value),
            *(row.closed_at, row.undo_until),
        )
        for name, row in after.items()
        if row is not before[name]
    ]
    put = ("status", "choice", "closed_at", "undo_until")
    if update_rows(connection, matchups, ("id", "status"), put, rows) != len(rows):
        raise StoreError("a matchup changed while it was locked. Nothing was saved; run `tiltyard arena verify`.")


def serve_ballots(connection: sa.Connection, served: Sequence[tuple[MatchupServed, int]], catalog: Catalog) -> None:
    """Write the rows of matchups that are served now; each comes with its time."""
    insert_rows(connection, matchups, [served_row(body, at, catalog) for body, at in served])


def served_row(body: MatchupServed, at: int, catalog: Catalog) -> Row:
    """The row of a matchup that was just served."""
    return (
        *(body.matchup_id, body.voter, catalog.model(body.model_a), catalog.model(body.model_b)),
        *(catalog.prompt(body.prompt_id), body.response_a, body.response_b),
        *(body.lane, body.reason, body.probability, body.seed, at, body.expires_at, "open", None, None, None),
    )


def due_ballots(connection: sa.Connection, now: int, most: int) -> list[str]:
    """Open matchups whose time is over, the oldest first."""
    return [row[0] for row in fetch(connection, _due, {"now": now, "most": most})]


def past_of(connection: sa.Connection, voters: Iterable[str]) -> dict[str, dict[tuple[int, int, int], int]]:
    """What each voter was shown: (smaller model, larger model, prompt) and when it was last."""
    past: dict[str, dict[tuple[int, int, int], int]] = {voter: {} for voter in voters}
    for voter, a, b, prompt, at in fetch(connection, _past, {"voters": list(past)}):
        seen, key = past[voter], (min(a, b), max(a, b), prompt)
        seen[key] = max(at, seen.get(key, 0))
    return past


def _ballot(row: Row) -> Ballot:
    name, voter, a, b, served_at, expires_at, status, choice, closed_at, undo_until = row
    return Ballot(
        id=name,
        voter=voter,
        a=a,
        b=b,
        served_at=served_at,
        expires_at=expires_at,
        status=STATUSES[status],
        choice=None if choice is None else Choice(choice),
        closed_at=closed_at,
        undo_until=undo_until,
    )
