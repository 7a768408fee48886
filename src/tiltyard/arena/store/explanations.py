"""Why people voted: tags, which are read from the log, and comments, which are outside the chain and deletable.

The event of a comment holds its salted digest. Text and salt are a row of `comments`; when it is deleted, the event
stays valid and says only that there was a comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tiltyard.arena.commands import ExplainVote
from tiltyard.arena.events import Choice
from tiltyard.arena.reasons import ModelReasons, comment_digest, reasons_of_models
from tiltyard.arena.state import VoteStanding
from tiltyard.arena.store import Store
from tiltyard.arena.store.bulk import fetch, one_of
from tiltyard.arena.store.maintenance import require_programs_from
from tiltyard.arena.store.tables import chain, comments, events, matchups, models, prompts, votes

COUNTED_MOST = 50_000
"""Of how many explained votes, the latest, a model's page counts the reasons."""

FIRST_STEP = "0009"
"""The first programs that can read an event that explains a vote."""

RECENT = 1_000
"""Among how many of the latest explanations a voter's own is looked for, to show it again."""

_is_explained = events.c.kind == sa.literal_column("'explained'")
_explained = (
    sa.select(chain.c.seq, events.c.body)
    .join(chain, chain.c.event_id == events.c.id)
    .where(_is_explained, chain.c.seq <= sa.bindparam("until"))
    .order_by(chain.c.seq.desc())
    .limit(sa.bindparam("most"))
)
_latest = sa.select(events.c.body).where(_is_explained).order_by(events.c.id.desc()).limit(RECENT)
_a, _b = models.alias("explained_a"), models.alias("explained_b")
_of_votes = (
    sa.select(votes.c.matchup_id, _a.c.model, _b.c.model, votes.c.choice)
    .join(_a, _a.c.number == votes.c.a)
    .join(_b, _b.c.number == votes.c.b)
    .where(one_of(votes.c.matchup_id, "ids"), votes.c.standing == VoteStanding.COUNTED.value)
)
_said = (
    sa.select(comments.c.matchup_id, comments.c.at, comments.c.comment, matchups.c.choice)
    .add_columns(_a.c.model.label("model_a"), _b.c.model.label("model_b"), prompts.c.prompt_id)
    .join_from(comments, matchups, matchups.c.id == comments.c.matchup_id)
    .join(_a, _a.c.number == matchups.c.a)
    .join(_b, _b.c.number == matchups.c.b)
    .join(prompts, prompts.c.number == matchups.c.prompt)
    .order_by(comments.c.at.desc(), comments.c.matchup_id)
    .limit(sa.bindparam("most"))
)


class _Tags(msgspec.Struct, frozen=True):
    """What is read of an explanation; the rest is skipped."""

    matchup_id: str
    tags: tuple[str, ...] = ()
    comment: str = ""


_decoder = msgspec.json.Decoder(_Tags)


class Comment(NamedTuple):
    """A comment on a vote, for the operator."""

    matchup_id: str
    at: int
    comment: str
    choice: str
    model_a: str
    model_b: str
    prompt_id: str


def keep_comment(connection: sa.Connection, command: ExplainVote, at: int) -> None:
    """Write the comment of an explanation in place of an earlier one; without one, delete that."""
    require_programs_from(connection, FIRST_STEP)
    if not command.comment:
        forget_comment(connection, command.matchup_id)
        return
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    row = {"matchup_id": command.matchup_id, "salt": command.salt, "comment": command.comment, "at": at}
    insert = dialect.insert(comments).values(row)
    connection.execute(insert.on_conflict_do_update(index_elements=["matchup_id"], set_=row))


def forget_comment(connection: sa.Connection, matchup_id: str) -> bool:
    """Delete the comment on one vote. Whether there was one."""
    return connection.execute(sa.delete(comments).where(comments.c.matchup_id == matchup_id)).rowcount > 0


def delete_comment(store: Store, matchup_id: str) -> bool:
    """The same, in a transaction of its own."""
    with store.database.write() as connection:
        result = "\x00" not in matchup_id and forget_comment(connection, matchup_id)
    store.database.purge_deleted()
    return result


def tags_by_matchup(store: Store, until: int, most: int = 2**31) -> dict[str, tuple[str, ...]]:
    """The tags of every vote that was explained up to an event of the log; the last explanation of a vote holds."""
    result: dict[str, tuple[str, ...]] = {}
    with store.database.read() as connection:
        for _, text in fetch(connection, _explained, {"until": until, "most": most}):
            event = _decoder.decode(text)
            result.setdefault(event.matchup_id, event.tags)
    return {matchup_id: tags for matchup_id, tags in result.items() if tags}


def model_reasons(store: Store, until: int) -> Mapping[str, ModelReasons]:
    """The reasons for and against every model, of the latest explained votes that count."""
    tags = tags_by_matchup(store, until, COUNTED_MOST)
    with store.database.read() as connection:
        rows = fetch(connection, _of_votes, {"ids": sorted(tags)}) if tags else []
    return reasons_of_models((a, b, Choice(choice), tags[name]) for name, a, b, choice in rows)


class Explanation(NamedTuple):
    """What one vote was explained with."""

    tags: tuple[str, ...]
    comment: str


def own_explanation(store: Store, matchup_id: str) -> Explanation | None:
    """What a recent vote was explained with; None if it was not."""
    with store.database.read() as connection:
        texts = (text for (text,) in fetch(connection, _latest))
        event = next((event for event in map(_decoder.decode, texts) if event.matchup_id == matchup_id), None)
        here = sa.select(comments.c.comment).where(comments.c.matchup_id == matchup_id)
        return None if event is None else Explanation(event.tags, connection.execute(here).scalar() or "")


def latest_comments(store: Store, most: int = 200) -> list[Comment]:
    """What voters wrote about their votes, the latest first."""
    with store.database.read() as connection:
        return [Comment(**row) for row in connection.execute(_said, {"most": most}).mappings()]


def changed_comments(connection: sa.Connection) -> list[str]:
    """The votes whose comment is not the one that the log has the digest of: somebody changed the row."""
    kept = {name: (salt, text) for name, salt, text in connection.execute(sa.select(*comments.c[:3]))}
    if not kept:
        return []
    everything = fetch(connection, sa.select(events.c.body).where(_is_explained).order_by(events.c.id))
    digests = {event.matchup_id: event.comment for event in (_decoder.decode(text) for (text,) in everything)}
    return sorted(name for name, event in kept.items() if comment_digest(*event) != digests.get(name))
