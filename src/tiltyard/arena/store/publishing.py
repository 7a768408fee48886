"""How much of the log may be public: nothing about a vote that its voter can still undo.

The names of such a vote are held back. A voter who saw it on the board, on a model's page, in an export or in the
figures of someone else's vote would learn them anyway, and could undo the vote unless it helped their favourite.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from tiltyard.arena.events import Undone, decode_body
from tiltyard.arena.state import VoteStanding
from tiltyard.arena.store import log
from tiltyard.arena.store.bulk import fetch, one_of
from tiltyard.arena.store.tables import changes, events, matchups, pending, votes
from tiltyard.arena.voting import CLOCK_MARGIN, MatchupStatus

_recent = (
    sa.select(votes.c.seq, changes.c.seq)
    .join_from(matchups, votes, votes.c.matchup_id == matchups.c.id)
    .outerjoin(
        changes,
        sa.and_(
            changes.c.seq > votes.c.seq,
            changes.c.vote_seq == votes.c.seq,
            changes.c.standing_after == VoteStanding.UNDONE.value,
        ),
    )
    .where(matchups.c.undo_until >= sa.bindparam("since"))
    .order_by(votes.c.seq.desc())
)
_without_number = sa.select(pending.c.event_id)
_undone = sa.select(events.c.body).where(one_of(events.c.id, "ids"), events.c.kind == "undone")
_cast_on = sa.select(votes.c.seq).where(one_of(votes.c.matchup_id, "ids"))
_pending = sa.select(matchups.c.id).where(
    matchups.c.undo_until >= sa.bindparam("since"), matchups.c.status == MatchupStatus.VOTED.value
)


def published_until(connection: sa.Connection, now: int) -> int:
    """The last event of the log that may be public: before it every vote is final, or was undone before it.

    A vote delays the public log by at most the undo time.
    """
    head, _ = log.head(connection)
    recent = fetch(connection, _recent, {"since": now - CLOCK_MARGIN})
    if waiting := [row[0] for row in fetch(connection, _without_number)]:
        recent += _undone_in_time(connection, waiting)
        recent.sort(key=lambda row: -row[0])
    return last_public(head, recent)


def _undone_in_time(connection: sa.Connection, event_ids: list[int]) -> list[tuple[int, None]]:
    """The votes that are undone by events without a number: the projector was away, and their undo time may be over."""
    bodies = [decode_body(row[0]) for row in fetch(connection, _undone, {"ids": event_ids})]
    names = [body.matchup_id for body in bodies if isinstance(body, Undone)]
    return [(row[0], None) for row in fetch(connection, _cast_on, {"ids": names})]


def last_public(head: int, recent: Iterable[tuple[int, int | None]]) -> int:
    """The end of the public log, given the recent votes that held back names, latest first: (vote, undo or None)."""
    until = head
    for vote_seq, undone_seq in recent:
        if vote_seq <= until and (undone_seq is None or undone_seq > until):
            until = vote_seq - 1
    return until


def pending_votes(connection: sa.Connection, now: int) -> set[str]:
    """The matchups whose votes can still be undone (not to be confused with pending events, which have no number)."""
    return {row[0] for row in fetch(connection, _pending, {"since": now - CLOCK_MARGIN})}
