"""Matchups as their voter sees them: read beside the writer, for pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import sqlalchemy as sa

from tiltyard.arena.events import Choice  # noqa: TC001 - msgspec resolves it
from tiltyard.arena.state import Standing  # noqa: TC001 - msgspec resolves it
from tiltyard.arena.store.tables import matchups, models, prompts, responses, votes
from tiltyard.arena.voting import CLOCK_MARGIN, Status

if TYPE_CHECKING:
    from tiltyard.arena.store import Store

_a, _b = responses.alias("answer_a"), responses.alias("answer_b")
_by_a, _by_b = models.alias("by_a"), models.alias("by_b")
_SHOWN = (
    *(
        matchups.c.id.label("matchup_id"),
        matchups.c.a,
        matchups.c.b,
        matchups.c.status,
        matchups.c.choice,
        matchups.c.closed_at,
        matchups.c.undo_until,
    ),
    *(matchups.c.expires_at, prompts.c.text.label("prompt")),
    *(_a.c.text.label("response_a"), _b.c.text.label("response_b"), votes.c.standing, votes.c.seq),
    *(_by_a.c.model.label("model_a"), _by_a.c.display_name.label("display_a")),
    *(_by_b.c.model.label("model_b"), _by_b.c.display_name.label("display_b")),
)
_shown = sa.select(*_SHOWN).select_from(
    matchups.join(prompts, prompts.c.number == matchups.c.prompt)
    .join(_a, _a.c.response_id == matchups.c.response_a)
    .join(_b, _b.c.response_id == matchups.c.response_b)
    .join(_by_a, _by_a.c.number == matchups.c.a)
    .join(_by_b, _by_b.c.number == matchups.c.b)
    .outerjoin(votes, votes.c.matchup_id == matchups.c.id)
)
_one = _shown.where(matchups.c.id == sa.bindparam("id"), matchups.c.voter == sa.bindparam("voter"))
_open = (
    _shown.where(
        matchups.c.voter == sa.bindparam("voter"),
        matchups.c.status == Status.OPEN.value,
        matchups.c.expires_at > sa.bindparam("now"),
    )
    .order_by(matchups.c.served_at.desc(), matchups.c.id)
    .limit(1)
)


_voted = (
    _shown.add_columns(prompts.c.prompt_id)
    .where(
        matchups.c.voter == sa.bindparam("voter"),
        matchups.c.status == Status.VOTED.value,
        sa.or_(matchups.c.undo_until.is_(None), matchups.c.undo_until < sa.bindparam("final_before")),
    )
    .order_by(matchups.c.closed_at.desc(), matchups.c.id)
    .limit(sa.bindparam("most"))
    .offset(sa.bindparam("passed_over"))
)


class ShownMatchup(msgspec.Struct, frozen=True, kw_only=True):
    """A matchup with its texts, how it stands, and its models, which are told only once the vote is final."""

    matchup_id: str
    a: int
    b: int
    status: Status
    choice: Choice | None
    closed_at: int | None
    undo_until: int | None
    expires_at: int
    prompt: str
    response_a: str
    response_b: str
    model_a: str
    model_b: str
    display_a: str
    display_b: str
    standing: Standing | None
    """Whether its vote counts; None before the vote has its place in the log, which is `seq`."""
    seq: int | None
    prompt_id: str = ""


def shown_matchup(store: Store, matchup_id: str, voter: str) -> ShownMatchup | None:
    """A matchup that was served to this voter."""
    with store.database.read() as connection:
        return _made(connection.execute(_one, {"id": matchup_id, "voter": voter}).mappings().first())


def open_matchup(store: Store, voter: str, now: int) -> ShownMatchup | None:
    """The matchup that this voter was served last, if it waits for a vote: whoever comes back finds it again."""
    with store.database.read() as connection:
        return _made(connection.execute(_open, {"voter": voter, "now": now}).mappings().first())


def voted_matchups(store: Store, voter: str, now: int, most: int, passed_over: int = 0) -> list[ShownMatchup]:
    """What this voter has voted on, where the vote is final and its names may be told; the latest first."""
    final_before = now - CLOCK_MARGIN  # as `shows_names` has it
    asked = {"voter": voter, "final_before": final_before, "most": most, "passed_over": passed_over}
    with store.database.read() as connection:
        rows = connection.execute(_voted, asked).mappings().all()
    return [made for row in rows if (made := _made(row)) is not None]


def _made(row: sa.RowMapping | None) -> ShownMatchup | None:
    return None if row is None else msgspec.convert({str(name): value for name, value in row.items()}, ShownMatchup)
