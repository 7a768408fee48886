"""Reading an arena for those who do not serve it: export, screening, reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from tiltyard.arena.events import Choice, Event, Flagged, decode_body
from tiltyard.arena.state import CastVote, Standing
from tiltyard.arena.store import log
from tiltyard.arena.store.tables import events, matchups, prompts, responses, votes

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


def cast_votes(store: Store, until: int) -> Iterator[CastVote]:
    """Every vote up to a place in the log, in its order, whether it counts or not."""
    after = 0
    with store.database.read() as connection:
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


def flags_raised(store: Store) -> set[tuple[str, str]]:
    """What has been flagged so far: (subject id, flag)."""
    with store.database.read() as connection:
        texts = connection.execute(sa.select(events.c.body).where(events.c.kind == "flagged")).scalars().all()
    bodies = [decode_body(text) for text in texts]
    return {(body.subject_id, body.flag) for body in bodies if isinstance(body, Flagged)}
