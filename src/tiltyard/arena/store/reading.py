"""Reading an arena for those who do not serve it: export, screening, reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import sqlalchemy as sa

from tiltyard.arena.events import Choice, Event, Flagged, decode_body
from tiltyard.arena.state import CastVote, Standing
from tiltyard.arena.store import log
from tiltyard.arena.store.publishing import pending_votes
from tiltyard.arena.store.tables import changes, events, matchups, prompts, responses, votes
from tiltyard.arena.voting import Status
from tiltyard.validity.voters import SessionActs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiltyard.arena.store import Store

PAGE = 50_000

_votes = (
    sa.select(
        *(votes.c.seq, votes.c.at, votes.c.matchup_id, votes.c.voter, votes.c.a, votes.c.b, votes.c.prompt),
        *(votes.c.choice, votes.c.standing),
    )
    .where(votes.c.seq > sa.bindparam("after"), votes.c.seq <= sa.bindparam("until"))
    .order_by(votes.c.seq)
    .limit(PAGE)
)
_changed = (
    sa.select(changes.c.vote_seq, changes.c.standing_before)
    .where(changes.c.seq > sa.bindparam("after"))
    .order_by(changes.c.seq.desc())  # of several changes the first says how the vote stood
)


def cast_votes(store: Store, until: int) -> Iterator[CastVote]:
    """Every vote up to a place in the log, in its order, whether it counts or not, as it stood there."""
    with store.database.read() as connection:
        changed = connection.execute(_changed, {"after": until})
        before = {vote_seq: Standing(standing) for vote_seq, standing in changed}
        for vote in _cast(connection, until):
            standing = before.get(vote.seq)
            yield vote if standing is None else msgspec.structs.replace(vote, standing=standing)


def final_votes(store: Store, until: int, now: int) -> Iterator[CastVote]:
    """Every vote up to a place in the log, as it stands now, but for those that can still be undone: for the public."""
    with store.database.read() as connection:
        pending = pending_votes(connection, now)
        for vote in _cast(connection, until):
            if vote.matchup_id not in pending:
                yield vote


def _cast(connection: sa.Connection, until: int) -> Iterator[CastVote]:
    after = 0
    while rows := connection.execute(_votes, {"after": after, "until": until}).all():
        for seq, at, matchup_id, voter, a, b, prompt, choice, standing in rows:
            yield CastVote(seq, at, matchup_id, voter, a, b, prompt, Choice(choice), Standing(standing))
        after = rows[-1].seq


def events_in_order(store: Store) -> Iterator[Event]:
    """The whole log, from the beginning."""
    with store.database.read() as connection:
        for page in log.chained_after(connection, 0):
            for row in page:
                yield Event(row.at, decode_body(row.text))


def prompt_texts(store: Store) -> dict[str, str]:
    """The text of every prompt."""
    with store.database.read() as connection:
        return {row[0]: row[1] for row in connection.execute(sa.select(prompts.c.prompt_id, prompts.c.text))}


def answer_texts(store: Store) -> list[tuple[str, int, str]]:
    """Every answer that was ever added: its id, the number of its model, its text."""
    chosen = sa.select(responses.c.response_id, responses.c.model, responses.c.text)
    with store.database.read() as connection:
        return [(row[0], row[1], row[2]) for row in connection.execute(chosen)]


def answers_shown(store: Store) -> dict[str, tuple[str, str]]:
    """Both answers of every matchup that was voted on."""
    chosen = sa.select(matchups.c.id, matchups.c.response_a, matchups.c.response_b).where(matchups.c.choice.isnot(None))
    with store.database.read() as connection:
        return {row[0]: (row[1], row[2]) for row in connection.execute(chosen)}


def session_acts(store: Store) -> dict[str, SessionActs]:
    """How often each voter voted, undid and skipped; voters who did none of it are left out."""
    settled = matchups.c.status.in_((Status.VOTED.value, Status.UNDONE.value, Status.SKIPPED.value))
    chosen = sa.select(matchups.c.voter, matchups.c.status, sa.func.count()).where(settled)
    counts: dict[str, dict[str, int]] = {}
    with store.database.read() as connection:
        rows = connection.execute(chosen.group_by(matchups.c.voter, matchups.c.status).order_by(matchups.c.voter))
        for voter, status, number in rows:
            counts.setdefault(voter, {})[status] = int(number)
    return {
        voter: SessionActs(
            cast=of.get(Status.VOTED.value, 0) + of.get(Status.UNDONE.value, 0),
            undone=of.get(Status.UNDONE.value, 0),
            skipped=of.get(Status.SKIPPED.value, 0),
        )
        for voter, of in counts.items()
    }


def flags_raised(store: Store) -> set[tuple[str, str]]:
    """What has been flagged so far: (subject id, flag)."""
    with store.database.read() as connection:
        texts = connection.execute(sa.select(events.c.body).where(events.c.kind == "flagged")).scalars().all()
    bodies = [decode_body(text) for text in texts]
    return {(body.subject_id, body.flag) for body in bodies if isinstance(body, Flagged)}
