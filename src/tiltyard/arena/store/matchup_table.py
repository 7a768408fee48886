"""The table of matchups: what was served to whom and its status; how the writer changes it, and what a voter sees.

A row is written in the transaction that writes its event, so it is never older than the log. Each transition starts
from `open`, or from `voted` for a reveal or an undo: the row is locked, read, and changed only if it is still as it was
read. However many clients send one ballot to however many workers, only one of them finds it open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import sqlalchemy as sa

from tiltyard.arena.catalog import Catalog
from tiltyard.arena.events import Choice, MatchupServed
from tiltyard.arena.shown_pairs import PastMatchup, ShownPair
from tiltyard.arena.state import VoteStanding
from tiltyard.arena.store.bulk import Row, fetch, insert_rows, one_of, update_rows
from tiltyard.arena.store.tables import matchups, models, prompts, responses, votes
from tiltyard.arena.store.visitors import VOTER_LOCKS, lock_names
from tiltyard.arena.tallies import pair_of
from tiltyard.arena.visitor_rules import WaitingRules
from tiltyard.arena.voting import CLOCK_MARGIN, Ballot, MatchupStatus
from tiltyard.arena.waiting_pairs import WaitingPairs
from tiltyard.bank import AnswerKind
from tiltyard.errors import StoreError

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
    *(_a.c.text.label("response_a"), _b.c.text.label("response_b"), _a.c.kind, votes.c.standing, votes.c.seq),
    *(matchups.c.unrendered,),
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
        matchups.c.status == MatchupStatus.OPEN.value,
        matchups.c.expires_at > sa.bindparam("now"),
    )
    .order_by(matchups.c.served_at.desc(), matchups.c.id)
    .limit(1)
)

_voted = (
    _shown.add_columns(prompts.c.prompt_id)
    .where(
        matchups.c.voter == sa.bindparam("voter"),
        matchups.c.status == MatchupStatus.VOTED.value,
        sa.or_(matchups.c.undo_until.is_(None), matchups.c.undo_until < sa.bindparam("final_before")),
    )
    .order_by(matchups.c.closed_at.desc(), matchups.c.id)
    .limit(sa.bindparam("most"))
    .offset(sa.bindparam("passed_over"))
)

STATUSES = {status.value: status for status in MatchupStatus}

_BALLOT = (
    *(matchups.c.id, matchups.c.voter, matchups.c.a, matchups.c.b, matchups.c.prompt, matchups.c.served_at),
    *(matchups.c.expires_at, matchups.c.status, matchups.c.choice, matchups.c.closed_at, matchups.c.undo_until),
    *(matchups.c.block, matchups.c.unrendered),
)

_locked = (
    sa.select(*_BALLOT)
    .where(one_of(matchups.c.id, "ids"))
    .order_by(matchups.c.id)  # locks are always taken in the same order, to avoid deadlocks
    .with_for_update()
)

_due = (
    sa.select(matchups.c.id)
    .where(matchups.c.status == "open", matchups.c.expires_at <= sa.bindparam("now"))
    .order_by(matchups.c.expires_at)
    .limit(sa.bindparam("most"))
)

SHOWN_TO_BLOCK = 2000
"""How many of a block's latest matchups are read to find the pairs that wait for it."""

_PAST = (
    *(matchups.c.id, matchups.c.block, matchups.c.voter, matchups.c.a, matchups.c.b, matchups.c.prompt),
    *(matchups.c.lane, matchups.c.served_at, matchups.c.status, matchups.c.closed_at),
)

_before = matchups.alias()
_carried = sa.exists().where(
    _before.c.voter == matchups.c.voter,
    _before.c.served_at < matchups.c.served_at,
    _before.c.block.not_in(("", matchups.c.block)),
    _before.c.status != MatchupStatus.VOTED.value,
    sa.or_(
        sa.and_(_before.c.a == matchups.c.a, _before.c.b == matchups.c.b),
        sa.and_(_before.c.a == matchups.c.b, _before.c.b == matchups.c.a),
    ),
)
"""Whether the voter brought this pair along: it was shown to the same voter in another block, and not voted on."""

_block_shown = (
    sa.select(*_PAST, _carried)
    .where(matchups.c.block == sa.bindparam("block"), matchups.c.block != "")
    .order_by(matchups.c.served_at.desc())
    .limit(SHOWN_TO_BLOCK)
)

_block_votes = sa.select(sa.func.count()).where(
    matchups.c.block == sa.bindparam("block"), matchups.c.block != "", matchups.c.status == MatchupStatus.VOTED.value
)

_voters_shown = sa.select(*_PAST).where(one_of(matchups.c.voter, "voters"))

_open_of = (
    sa.select(
        *(matchups.c.voter, matchups.c.id, prompts.c.prompt_id),
        *(matchups.c.response_a, matchups.c.response_b, matchups.c.expires_at),
    )
    .join_from(matchups, prompts, prompts.c.number == matchups.c.prompt)
    .where(
        one_of(matchups.c.voter, "voters"),
        matchups.c.status == MatchupStatus.OPEN.value,
        matchups.c.expires_at > sa.bindparam("now"),
    )
    .order_by(matchups.c.served_at, matchups.c.id)
)


class OpenMatchup(NamedTuple):
    """A matchup that a voter has open: what is needed to show it again."""

    matchup_id: str
    prompt_id: str
    response_a: str
    response_b: str
    expires_at: int


def lock_ballots(connection: sa.Connection, ids: Iterable[str]) -> dict[str, Ballot]:
    """The rows of these matchups, locked until this transaction ends."""
    return {row[0]: _ballot(row) for row in fetch(connection, _locked, {"ids": sorted(set(ids))})}


def write_ballots(connection: sa.Connection, before: dict[str, Ballot], after: dict[str, Ballot]) -> None:
    """Write the changed rows, each only if it is still as it was read."""
    rows = [
        (
            *(name, before[name].status.value, row.status.value, row.choice and row.choice.value),
            *(row.closed_at, row.undo_until, row.unrendered),
        )
        for name, row in after.items()
        if row is not before[name]
    ]
    put = ("status", "choice", "closed_at", "undo_until", "unrendered")
    if update_rows(connection, matchups, ("id", "status"), put, rows) != len(rows):
        raise StoreError("a matchup changed while it was locked. Nothing was saved; run `tiltyard arena verify`.")


def serve_ballots(connection: sa.Connection, served: Sequence[tuple[MatchupServed, int]], catalog: Catalog) -> None:
    """Write the rows of newly served matchups, each with its time."""
    insert_rows(connection, matchups, [served_row(body, at, catalog) for body, at in served])


def served_row(body: MatchupServed, at: int, catalog: Catalog) -> Row:
    """The row of a matchup that was just served."""
    return (
        *(body.matchup_id, body.voter, catalog.model(body.model_a), catalog.model(body.model_b)),
        *(catalog.prompt(body.prompt_id), body.response_a, body.response_b),
        *(
            body.lane,
            body.reason,
            body.probability,
            body.seed,
            at,
            body.expires_at,
            "open",
            None,
            None,
            None,
            body.block,
            "",
        ),
    )


def due_ballots(connection: sa.Connection, now: int, most: int) -> list[str]:
    """Open matchups whose time is over, the oldest first."""
    return [row[0] for row in fetch(connection, _due, {"now": now, "most": most})]


def open_of(connection: sa.Connection, voters: Iterable[str], now: int) -> dict[str, list[OpenMatchup]]:
    """What each of these voters has open, the latest last. On PostgreSQL other workers that ask for them wait."""
    asked = sorted(set(voters))
    lock_names(connection, VOTER_LOCKS, asked)
    result: dict[str, list[OpenMatchup]] = {voter: [] for voter in asked}
    for voter, *shown in fetch(connection, _open_of, {"voters": asked, "now": now}):
        result[voter].append(OpenMatchup(*shown))
    return result


def past_of(connection: sa.Connection, voters: Iterable[str]) -> dict[str, list[PastMatchup]]:
    """Everything that each of these voters was shown."""
    past: dict[str, list[PastMatchup]] = {voter: [] for voter in voters}
    for row in fetch(connection, _voters_shown, {"voters": list(past)}):
        past[row[2]].append(_past(row))
    return past


def load_waiting(connection: sa.Connection, block: str, waiting: WaitingPairs, rules: WaitingRules) -> None:
    """Tell what this block was shown lately, and what it did with it."""
    past = [_past(row) for row in fetch(connection, _block_shown, {"block": block})]
    votes = fetch(connection, _block_votes, {"block": block})[0][0]
    waiting.enter(block, rules, past, votes - sum(one.status is MatchupStatus.VOTED for one in past))


def _past(row: Row) -> PastMatchup:
    name, block, voter, a, b, prompt, lane, served_at, status, closed_at, *carried = row
    shown = ShownPair(block, pair_of(a, b), voter, lane, prompt, served_at)
    return PastMatchup(name, shown, STATUSES[status], closed_at, any(carried))


def _ballot(row: Row) -> Ballot:
    name, voter, a, b, prompt, served_at, expires_at, status, choice, closed_at, undo_until, block, unrendered = row
    return Ballot(
        id=name,
        voter=voter,
        a=a,
        b=b,
        prompt=prompt,
        served_at=served_at,
        expires_at=expires_at,
        status=STATUSES[status],
        choice=None if choice is None else Choice(choice),
        closed_at=closed_at,
        undo_until=undo_until,
        block=block,
        unrendered=unrendered,
    )


class ShownMatchup(msgspec.Struct, frozen=True, kw_only=True):
    """A matchup with its texts, its status, and its models, which are shown only once the vote is final."""

    matchup_id: str
    a: int
    b: int
    status: MatchupStatus
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
    standing: VoteStanding | None
    """Whether its vote counts; None until the vote has its sequence number `seq`."""
    seq: int | None
    prompt_id: str = ""
    kind: str = AnswerKind.TEXT.value
    """What both answers are. Of files, `response_a` and `response_b` are descriptions."""
    unrendered: str = ""
    """Which answers the voter said could not be shown."""


def shown_matchup(store: Store, matchup_id: str, voter: str) -> ShownMatchup | None:
    """A matchup that was served to this voter."""
    with store.database.read() as connection:
        return _made(connection.execute(_one, {"id": matchup_id, "voter": voter}).mappings().first())


def open_matchup(store: Store, voter: str, now: int) -> ShownMatchup | None:
    """The matchup last served to this voter, if it is still open: a returning voter gets it again."""
    with store.database.read() as connection:
        return _made(connection.execute(_open, {"voter": voter, "now": now}).mappings().first())


def has_voted(store: Store, voter: str) -> bool:
    """Whether this voter has voted, be it undone since."""
    closed = matchups.c.status.in_((MatchupStatus.VOTED.value, MatchupStatus.UNDONE.value))
    with store.database.read() as connection:
        result = sa.select(matchups.c.id).where(matchups.c.voter == voter, closed).limit(1)
        return connection.execute(result).first() is not None


def voted_matchups(store: Store, voter: str, now: int, most: int, passed_over: int = 0) -> list[ShownMatchup]:
    """This voter's final votes, whose names may be shown; latest first."""
    final_before = now - CLOCK_MARGIN  # same rule as `shows_names`
    asked = {"voter": voter, "final_before": final_before, "most": most, "passed_over": passed_over}
    with store.database.read() as connection:
        rows = connection.execute(_voted, asked).mappings().all()
    return [made for row in rows if (made := _made(row)) is not None]


def _made(row: sa.RowMapping | None) -> ShownMatchup | None:
    return None if row is None else msgspec.convert({str(name): value for name, value in row.items()}, ShownMatchup)
