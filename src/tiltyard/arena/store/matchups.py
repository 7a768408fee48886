"""The table of matchups: what was served to whom, its status, and its vote.

A row is inserted and changed in the transaction that writes its event, by what the event says alone (`NotedEvents`). So
the table follows from the log, and `verify` and `rebuild` use the same functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from sys import intern
from typing import TYPE_CHECKING, Any

import msgspec

from tiltyard.arena.matchmaking.waiting import PastMatchup
from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.events import Choice
from tiltyard.arena.rules.public_rows import receipt_of
from tiltyard.arena.rules.schedule import Reserved
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.votes import CastVote, VoteStanding
from tiltyard.arena.rules.voting import CLOCK_MARGIN, Ballot, MatchupStatus
from tiltyard.arena.store import log
from tiltyard.arena.store.database import Connection, Row
from tiltyard.data.bank import AnswerKind

if TYPE_CHECKING:
    from tiltyard.arena.store.store import Store

COLUMNS = (
    *("id", "seq", "voter", "block", "a", "b", "prompt", "asked", "answer_a", "answer_b", "lane"),
    *("served_at", "expires_at", "status", "choice", "unrendered", "closed_at", "undo_until"),
    *("vote_seq", "vote_at", "vote_block", "counts"),
)

STATUS = COLUMNS.index("status")  # what comes after it is set by a vote, in this order

OPEN, VOTED, SKIPPED, EXPIRED, UNDONE = (status.value for status in MatchupStatus)

_VOTES = (
    "SELECT vote_seq, vote_at, id, voter, a, b, prompt, choice, status, counts, vote_block, lane, unrendered "
    "FROM matchups WHERE "
)
VOTES_PAGE = 50_000

SHOWN_TO_BLOCK = 2000
"""How many of a block's latest matchups are read to find the pairs that wait for it."""

_CHOICES = {choice.value: choice for choice in Choice}
_STATUSES = {status.value: status for status in MatchupStatus}


class NotedEvents:
    """What some events, in the order of the log, mean for the rows of matchups."""

    def __init__(self) -> None:
        self.new: dict[str, Row] = {}
        """The rows of the matchups that were served, as they are after these events."""
        self.changes: dict[str, dict[str, Any]] = {}
        """By matchup, the columns that change in a row that was there before."""

    def apply(self, state: ArenaState, event: e.Event) -> None:
        """Apply the next event of the log to a state, and note what it means for the table."""
        at, body, in_flight = event.at, event.body, state.schedule.in_flight
        served = in_flight.get(body.matchup_id) if type(body) is e.Voted else None
        restored = state.excluded.intersection(body.matchup_ids) if type(body) is e.Restored else ()
        state.apply(state.seq + 1, event)
        match body:
            case e.MatchupServed():
                self.new[body.matchup_id] = row_of(in_flight[body.matchup_id])
            case e.Voted():
                assert served is not None, "or the state refuses the vote"
                block, choice, until = body.block or served.block, str(body.choice), body.undo_until
                vote = (VOTED, choice, body.unrendered, at, until, state.seq, at, block, 1)
                self._change(body.matchup_id, **dict(zip(COLUMNS[STATUS:], vote, strict=True)))
            case e.Skipped() | e.Expired():
                self._change(body.matchup_id, status=SKIPPED if isinstance(body, e.Skipped) else EXPIRED, closed_at=at)
            case e.Revealed():
                self._change(body.matchup_id, undo_until=None)
            case e.Undone():
                self._change(body.matchup_id, status=UNDONE, closed_at=at, counts=0)
            case e.Excluded():
                for name in state.excluded.intersection(body.matchup_ids):  # an undone vote is not excluded
                    self._change(name, counts=0)
            case e.Restored():
                for name in restored:
                    self._change(name, counts=1)

    def _change(self, name: str, **values: Any) -> None:
        row = self.new.get(name)
        if row is None:
            self.changes.setdefault(name, {}).update(values)
        else:
            self.new[name] = row_after(row, values)

    def write(self, connection: Connection) -> None:
        connection.insert("matchups", COLUMNS, list(self.new.values()))
        by_columns: dict[tuple[str, ...], list[Row]] = {}
        for name, values in self.changes.items():
            by_columns.setdefault(tuple(values), []).append((*values.values(), name))
        for columns, rows in by_columns.items():
            wanted = ", ".join(f"{column} = ?" for column in columns)
            connection.many(f"UPDATE matchups SET {wanted} WHERE id = ?", rows)


def row_after(row: Row, change: dict[str, Any]) -> Row:
    """A row of the table after some of its columns changed."""
    return tuple((dict(zip(COLUMNS, row, strict=True)) | change).values())


def row_of(served: Reserved) -> Row:
    """The row of a matchup that was just served."""
    return msgspec.structs.astuple(served) + _NOT_CLOSED


_NOT_CLOSED = (OPEN, None, "", None, None, None, None, None, None)


def ballot_of(served: Reserved) -> Ballot:
    """An open matchup, for the rules of voting."""
    return msgspec.convert(dict(zip(COLUMNS, row_of(served), strict=True)), Ballot)


def closed_ballots(connection: Connection, ids: Collection[str]) -> dict[str, Ballot]:
    """The matchups among these that are in the table, for the rules of voting."""
    rows = connection.rows(f"SELECT {', '.join(_BALLOT)} FROM matchups WHERE id IN ??", sorted(ids))
    return {row[0]: msgspec.convert(dict(zip(_BALLOT, row, strict=True)), Ballot) for row in rows}


_BALLOT = Ballot.__struct_fields__


class TableVotes:
    """The votes of the table, for a state that is at the end of the log; those of this transaction come first.

    `recent` are the latest votes in the order of the log, from where `keep_from` says; `corrections` counts how often
    one of them ceased to count, or counted again.
    """

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.recent: dict[str, CastVote] = {}
        self.corrections = 0
        self._recent_from: int | None = None
        self._new: dict[str, CastVote] = {}

    def begin(self, connection: Connection) -> None:
        self.connection = connection
        self._new.clear()

    def cast(self, vote: CastVote) -> None:
        self._new[vote.matchup_id] = vote
        if self._recent_from is not None:
            self.recent[vote.matchup_id] = vote

    def keep_from(self, seq: int) -> None:
        if self._recent_from is None or self._recent_from > seq:
            assert self.connection is not None
            self.recent = {vote.matchup_id: vote for vote in cast_votes(self.connection, after=seq)} | self._new
        else:
            self.recent = {name: vote for name, vote in self.recent.items() if vote.seq > seq}
        self._recent_from = seq

    def find(self, matchup_ids: Collection[str]) -> list[CastVote]:
        assert self.connection is not None
        names = sorted(set(matchup_ids) - self._new.keys())
        rows = self.connection.rows(f"{_VOTES} id IN ?? AND vote_seq IS NOT NULL", names) if names else []
        result = [*map(_cast, rows), *(self._new[name] for name in set(matchup_ids) & self._new.keys())]
        return sorted(result, key=lambda vote: vote.seq)

    def change(self, vote: CastVote, standing: VoteStanding) -> None:
        for votes in (self._new, self.recent):
            if vote.matchup_id in votes:
                votes[vote.matchup_id] = msgspec.structs.replace(vote, standing=standing)
        self.corrections += vote.matchup_id in self.recent


def cast_votes(connection: Connection, until: int = 2**62, after: int = 0) -> Iterator[CastVote]:
    """Every vote up to a place of the log, and after another, in order, with its current status."""
    while rows := connection.rows(
        f"{_VOTES} vote_seq > ? AND vote_seq <= ? ORDER BY vote_seq LIMIT ?", after, until, VOTES_PAGE
    ):
        yield from map(_cast, rows)
        after = rows[-1][0]


def _cast(row: Row) -> CastVote:
    seq, at, name, voter, a, b, prompt, choice, status, counts, block, lane, unrendered = row
    ballot, standing = _CHOICES[choice], _standing(status, counts)
    return CastVote(
        seq, at, name, intern(voter), a, b, prompt, ballot, standing, intern(block), intern(lane), unrendered
    )


def _standing(status: str, counts: int) -> VoteStanding:
    return VoteStanding.UNDONE if status == UNDONE else VoteStanding.COUNTED if counts else VoteStanding.EXCLUDED


def public_until(connection: Connection, now: int) -> int:
    """The last event of the log that may be public: before it every vote is final, or was undone before it.

    The names of a vote that can still be undone are held back. A voter who saw it on the board, on a model's page or in
    an export would learn them anyway, and could undo the vote unless it helped their favourite.
    """
    until, _ = log.head(connection)
    recent = connection.rows(
        "SELECT vote_seq, id, status FROM matchups WHERE undo_until >= ? AND vote_seq IS NOT NULL "
        "ORDER BY vote_seq DESC",
        now - CLOCK_MARGIN,
    )
    undone = _undone_after(connection, recent[-1][0]) if any(status == UNDONE for _, _, status in recent) else {}
    for seq, name, _ in recent:
        if seq <= until and undone.get(name, until + 1) > until:
            until = seq - 1
    return until


def final_from(connection: Connection, seq: int) -> int:
    """The first event from this one on up to which every vote stays as it is; all votes before it are final."""
    at = connection.value("SELECT at FROM events WHERE seq = ?", seq)
    if at is None:
        return seq
    rows = connection.rows(
        "SELECT vote_seq, id FROM matchups WHERE status = ? AND undo_until >= ? ORDER BY vote_seq",
        UNDONE,
        at - CLOCK_MARGIN,
    )
    undone = _undone_after(connection, seq) if rows and rows[0][0] <= seq else {}
    for vote_seq, name in rows:
        if vote_seq <= seq:
            seq = max(seq, undone.get(name, 0))
    return seq


def _undone_after(connection: Connection, seq: int) -> dict[str, int]:
    rows = connection.rows("SELECT seq, body FROM events WHERE seq > ? AND kind = 'undone'", seq)
    bodies = ((seq, e.decode_body(text)) for seq, text in rows)
    return {body.matchup_id: seq for seq, body in bodies if isinstance(body, e.Undone)}


_PAST = ", ".join(f"m.{column}" for column in (*COLUMNS[: STATUS + 1], "closed_at"))
_CARRIED = (
    "EXISTS (SELECT 1 FROM matchups before WHERE before.voter = m.voter AND before.served_at < m.served_at "
    "AND before.block NOT IN ('', m.block) AND before.status <> 'voted' "
    "AND ((before.a = m.a AND before.b = m.b) OR (before.a = m.b AND before.b = m.a)))"
)
"""Whether the voter brought this pair along: it was shown to the same voter in another block, and not voted on."""


def past_of_voters(connection: Connection, voters: Iterable[str]) -> dict[str, list[PastMatchup]]:
    """Everything that each of these voters was shown."""
    past: dict[str, list[PastMatchup]] = {voter: [] for voter in voters}
    for row in connection.rows(f"SELECT {_PAST} FROM matchups m WHERE m.voter IN ??", list(past)):
        past[row[COLUMNS.index("voter")]].append(_past(row))
    return past


def past_of_block(connection: Connection, block: str) -> tuple[list[PastMatchup], int]:
    """What a block was shown lately, and how many votes it has cast before that."""
    rows = connection.rows(
        f"SELECT {_PAST}, {_CARRIED} FROM matchups m WHERE m.block = ? AND m.block <> '' "
        "ORDER BY m.served_at DESC LIMIT ?",
        block,
        SHOWN_TO_BLOCK,
    )
    past = list(map(_past, rows))
    votes = connection.value(
        "SELECT count(*) FROM matchups WHERE block = ? AND block <> '' AND status = 'voted'", block
    )
    return past, votes - sum(one.status is MatchupStatus.VOTED for one in past)


def _past(row: Row) -> PastMatchup:
    status, closed_at, *carried = row[STATUS:]
    return PastMatchup(Reserved(*row[:STATUS]), _STATUSES[status], closed_at, any(carried))


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
    standing: VoteStanding | None
    """Whether its vote counts; None without a vote."""
    seq: int | None
    """The event of its vote."""
    prompt_id: str = ""
    kind: str = AnswerKind.TEXT.value
    """What both answers are. Of files, `response_a` and `response_b` are descriptions."""
    unrendered: str = ""
    """Which answers the voter said could not be shown."""
    receipt: str = ""
    """The name of its vote in the public rows."""


_FACTS = ("matchup_id", "a", "b", "status", "choice", "closed_at", "undo_until", "expires_at", "seq", "unrendered")
_SHOWN = (
    "SELECT id, a, b, status, choice, closed_at, undo_until, expires_at, vote_seq, unrendered, "
    "counts, seq, asked, answer_a, answer_b FROM matchups WHERE "
)


def shown_matchup(store: Store, matchup_id: str, voter: str) -> ShownMatchup | None:
    """A matchup that was served to this voter."""
    return next(iter(_shown(store, "id = ? AND voter = ?", matchup_id, voter)), None)


def open_matchup(store: Store, voter: str, now: int) -> ShownMatchup | None:
    """The matchup last served to this voter, if it is still open: a returning voter gets it again."""
    where = "voter = ? AND status = 'open' AND expires_at > ? ORDER BY served_at DESC, id LIMIT 1"
    return next(iter(_shown(store, where, voter, now)), None)


def has_voted(store: Store, voter: str) -> bool:
    """Whether this voter has voted, be it undone since."""
    query = "SELECT 1 FROM matchups WHERE voter = ? AND vote_seq IS NOT NULL LIMIT 1"
    with store.database.read() as connection:
        return connection.one(query, voter) is not None


def final_votes(store: Store, voter: str, now: int) -> list[CastVote]:
    """This voter's votes whose names may be shown, in the order of the log."""
    with store.database.read() as connection:
        where = "voter = ? AND status = 'voted' AND (undo_until IS NULL OR undo_until < ?) ORDER BY vote_seq"
        return list(map(_cast, connection.rows(f"{_VOTES} {where}", voter, now - CLOCK_MARGIN)))


def voted_matchups(store: Store, voter: str, now: int, most: int, passed_over: int = 0) -> list[ShownMatchup]:
    """This voter's final votes, whose names may be shown (`voting.shows_names`); latest first."""
    where = (
        "voter = ? AND status = 'voted' AND (undo_until IS NULL OR undo_until < ?) "
        "ORDER BY closed_at DESC, id LIMIT ? OFFSET ?"
    )
    return _shown(store, where, voter, now - CLOCK_MARGIN, most, passed_over)


def _shown(store: Store, where: str, *values: Any) -> list[ShownMatchup]:
    if any("\x00" in value for value in values if isinstance(value, str)):
        return []
    with store.database.read() as connection:
        rows = connection.rows(_SHOWN + where, *values)
        texts = store.texts.get(connection, [seq for row in rows for seq in row[12:]])
        served: dict[int, str] = dict(
            connection.rows("SELECT seq, body FROM events WHERE seq IN ??", [row[11] for row in rows])
        )
    made = []
    for row in rows:
        facts, (counts, seq, *shown) = dict(zip(_FACTS, row, strict=False)), row[len(_FACTS) :]
        prompt, a, b = (texts[seq] for seq in shown)
        matchup = e.decode_body(served[seq])
        assert isinstance(matchup, e.MatchupServed)
        assert isinstance(prompt, e.PromptAdded)
        assert isinstance(a, e.ResponseAdded)
        assert isinstance(b, e.ResponseAdded)
        facts |= {
            "prompt": prompt.text,
            "prompt_id": prompt.prompt_id,
            "response_a": a.text,
            "response_b": b.text,
            "model_a": a.model,
            "model_b": b.model,
            "kind": a.answer_kind,
            "standing": None if facts["seq"] is None else _standing(facts["status"], counts),
            "receipt": receipt_of(matchup),
        }
        made.append(msgspec.convert(facts, ShownMatchup))
    return made
