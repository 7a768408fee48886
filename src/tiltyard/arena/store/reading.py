"""Reading an arena alongside its writer: for exports, screening, reports and operators' figures."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from sys import intern

import msgspec
import sqlalchemy as sa

from tiltyard.arena.events import AnyBody, Choice, Event, Flagged, decode_body
from tiltyard.arena.state import CastVote, VoteStanding
from tiltyard.arena.store import Store, log
from tiltyard.arena.store.bulk import fetch, one_of
from tiltyard.arena.store.files import read_file
from tiltyard.arena.store.publishing import pending_votes
from tiltyard.arena.store.reports import answers_reported
from tiltyard.arena.store.tables import (
    chain,
    changes,
    events,
    heads,
    matchups,
    pending,
    prompts,
    reports,
    responses,
    votes,
)
from tiltyard.arena.voting import MatchupStatus
from tiltyard.validity.voters import SessionActs

_added = (
    sa.select(chain.c.seq, events.c.at, events.c.body)
    .join_from(events, chain, events.c.id == chain.c.event_id)
    .where(events.c.kind == "response_added", chain.c.seq > sa.bindparam("after"), chain.c.seq <= sa.bindparam("until"))
    .order_by(chain.c.seq)
)

LATEST_VOTES = 500
"""How many votes are looked at to see whether most come from one block."""

LOOKED_THROUGH = 200_000
"""How many events at the end of the log are searched for the latest of some kinds, which have no index."""

_kinds = (
    sa.select(events.c.kind, sa.func.count())
    .join_from(chain, events, events.c.id == chain.c.event_id)
    .where(chain.c.seq > sa.bindparam("after"), chain.c.seq <= sa.bindparam("until"))
    .group_by(events.c.kind)
)

PAGE = 50_000

_CHOICES = {choice.value: choice for choice in Choice}
_STANDINGS = {standing.value: standing for standing in VoteStanding}

_votes = (
    sa.select(
        *(votes.c.seq, votes.c.at, votes.c.matchup_id, votes.c.voter, votes.c.a, votes.c.b, votes.c.prompt),
        *(votes.c.choice, votes.c.standing, votes.c.block, votes.c.unrendered),
    )
    .where(votes.c.seq > sa.bindparam("after"), votes.c.seq <= sa.bindparam("until"))
    .order_by(votes.c.seq)
    .limit(PAGE)
)

_contender_votes = (
    sa.select(votes.c.seq)
    .join_from(votes, matchups, votes.c.matchup_id == matchups.c.id)
    .where(votes.c.seq > sa.bindparam("after"), votes.c.seq <= sa.bindparam("until"), matchups.c.lane == "contender")
)

_changed = (
    sa.select(changes.c.vote_seq, changes.c.standing_before)
    .where(changes.c.seq > sa.bindparam("after"))
    .order_by(changes.c.seq.desc())  # of several changes the first has the status at that time
)


def cast_votes(store: Store, until: int) -> Iterator[CastVote]:
    """Every vote up to a position in the log, in order, whether it counts or not, with its status at that position."""
    with store.database.read() as connection:
        changed = connection.execute(_changed, {"after": until})
        before = {vote_seq: VoteStanding(standing) for vote_seq, standing in changed}
        for vote in _cast(connection, until):
            standing = before.get(vote.seq)
            yield vote if standing is None else msgspec.structs.replace(vote, standing=standing)


def contender_votes(store: Store, after: int, until: int) -> set[int]:
    """The sequence numbers of the votes in a part of the log whose matchup the contender lane chose."""
    with store.database.read() as connection:
        return set(connection.execute(_contender_votes, {"after": after, "until": until}).scalars())


def final_votes(store: Store, until: int, now: int) -> Iterator[CastVote]:
    """Every vote up to a position in the log, with its current status; votes that can still be undone are left out."""
    with store.database.read() as connection:
        pending = pending_votes(connection, now)
        for vote in _cast(connection, until):
            if vote.matchup_id not in pending:
                yield vote


def _cast(connection: sa.Connection, until: int) -> Iterator[CastVote]:
    after = 0
    while rows := fetch(connection, _votes, {"after": after, "until": until}):
        for seq, at, matchup_id, voter, a, b, prompt, choice, standing, block, unrendered in rows:
            cast, counts = _CHOICES[choice], _STANDINGS[standing]
            yield CastVote(
                *(seq, at, matchup_id, intern(voter), a, b, prompt, cast, counts, intern(block)),
                unrendered=unrendered,
            )
        after = rows[-1][0]


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


def answers_added(store: Store) -> list[tuple[str, int]]:
    """Every answer that was ever added: its id and the number of its model."""
    with store.database.read() as connection:
        return [(row[0], row[1]) for row in fetch(connection, sa.select(responses.c.response_id, responses.c.model))]


@dataclass(frozen=True, slots=True)
class AnswerText:
    """An answer: its id, the number of its model, what was asked, its text, and the source of a page or drawing."""

    response_id: str
    model: int
    prompt: str
    text: str
    source: str


def texts_of(store: Store, names: Iterable[str]) -> Iterator[AnswerText]:
    """These answers; one file is read at a time."""
    asked = sa.select(prompts.c.text).where(prompts.c.number == responses.c.prompt).scalar_subquery()
    columns = (responses.c.response_id, responses.c.model, asked, responses.c.text, responses.c.kind, responses.c.file)
    with store.database.read() as connection:
        rows = fetch(connection, sa.select(*columns).where(one_of(columns[0], "names")), {"names": list(names)})
    for name, model, prompt, text, kind, file in rows:
        source = b"".join(read_file(store, file)) if kind in ("svg", "html") else b""
        yield AnswerText(name, model, prompt, text, source.decode("utf-8", "replace"))


def texts_of_answers(store: Store) -> dict[str, str]:
    """The text of every answer that was ever added, by id."""
    with store.database.read() as connection:
        return {row[0]: row[1] for row in connection.execute(sa.select(responses.c.response_id, responses.c.text))}


def answers_shown(store: Store, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Both answers of every matchup that was voted on and showed one of these."""
    listed = sorted(set(names))
    if not listed:
        return {}
    either = one_of(matchups.c.response_a, "names") | one_of(matchups.c.response_b, "names")
    chosen = sa.select(matchups.c.id, matchups.c.response_a, matchups.c.response_b)
    with store.database.read() as connection:
        rows = fetch(connection, chosen.where(matchups.c.choice.isnot(None), either), {"names": listed})
    return {row[0]: (row[1], row[2]) for row in rows}


def session_acts(store: Store) -> dict[str, SessionActs]:
    """How often each voter voted, undid and skipped; voters who did none of these are left out.

    A matchup that was left until it expired counts as skipped.
    """
    settled = matchups.c.status != MatchupStatus.OPEN.value
    chosen = sa.select(matchups.c.voter, matchups.c.status, sa.func.count()).where(settled)
    counts: dict[str, dict[str, int]] = {}
    with store.database.read() as connection:
        rows = connection.execute(chosen.group_by(matchups.c.voter, matchups.c.status).order_by(matchups.c.voter))
        for voter, status, number in rows:
            counts.setdefault(voter, {})[status] = int(number)
    return {
        voter: SessionActs(
            cast=of.get(MatchupStatus.VOTED.value, 0) + of.get(MatchupStatus.UNDONE.value, 0),
            undone=of.get(MatchupStatus.UNDONE.value, 0),
            skipped=of.get(MatchupStatus.SKIPPED.value, 0) + of.get(MatchupStatus.EXPIRED.value, 0),
        )
        for voter, of in counts.items()
    }


def flags_raised(store: Store) -> set[tuple[str, str]]:
    """What has been flagged so far: (subject id, flag)."""
    with store.database.read() as connection:
        texts = connection.execute(sa.select(events.c.body).where(events.c.kind == "flagged")).scalars().all()
    bodies = [decode_body(text) for text in texts]
    return {(body.subject_id, body.flag) for body in bodies if isinstance(body, Flagged)}


_published = sa.select(
    sa.select(sa.func.max(heads.c.at)).scalar_subquery(),
    sa.select(sa.func.max(heads.c.at)).where(heads.c.statement.isnot(None)).scalar_subquery(),
    sa.select(sa.func.count()).select_from(reports).where(reports.c.settled_at.is_(None)).scalar_subquery(),
    answers_reported.scalar_subquery(),
)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The log's last number and hash, and how many events are pending and matchups and reports open.

    `reported_answers` are those that open reports are about. `head_at` and `signed_head_at` say when the latest head,
    and the latest signed one, was published; None: never.
    """

    head_seq: int
    head_hash: str
    unchained: int
    open_matchups: int
    head_at: int | None = None
    signed_head_at: int | None = None
    open_reports: int = 0
    reported_answers: int = 0


def server_time(store: Store) -> float:
    """The clock of a PostgreSQL server, in seconds since 1970."""
    with store.database.read() as connection:
        return float(connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())


def backlog(store: Store) -> Backlog:
    """The current figures."""
    waiting = sa.select(sa.func.count()).select_from(pending)
    still_open = sa.select(sa.func.count()).select_from(matchups).where(matchups.c.status == "open")
    with store.database.read() as connection:
        unchained, open_matchups = (connection.execute(query).scalar_one() for query in (waiting, still_open))
        published, signed, reported, answers = connection.execute(_published).one()
        counts = int(unchained), int(open_matchups)
        return Backlog(*log.head(connection), *counts, published, signed, int(reported), int(answers))


def latest_blocks(store: Store, most: int = LATEST_VOTES) -> list[tuple[str, str]]:
    """The block and the voter of each of the latest votes; of a vote without a block, an empty name."""
    chosen = sa.select(votes.c.block, votes.c.voter).order_by(votes.c.seq.desc()).limit(most)
    with store.database.read() as connection:
        return [(block, voter) for block, voter in connection.execute(chosen)]


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event as it was written, and when, in microseconds; `seq` is None while it is pending."""

    seq: int | None
    at: int
    body: AnyBody


def latest_events(store: Store, kinds: Iterable[str], most: int) -> list[LoggedEvent]:
    """The latest events of these kinds, newest first; very old ones are not searched."""
    newest = sa.select(sa.func.coalesce(sa.func.max(events.c.id), 0)).scalar_subquery()
    chosen = (
        sa.select(chain.c.seq, events.c.at, events.c.body)
        .join_from(events, chain, events.c.id == chain.c.event_id, isouter=True)
        .where(events.c.kind.in_(list(kinds)), events.c.id > newest - LOOKED_THROUGH)
        .order_by(events.c.id.desc())
        .limit(most)
    )
    with store.database.read() as connection:
        return [LoggedEvent(seq, at, decode_body(text)) for seq, at, text in connection.execute(chosen)]


class KindCounts:
    """How many events of each kind the log holds. Counted once, then updated with new events."""

    def __init__(self) -> None:
        self._seq = 0
        self._counts: Counter[str] = Counter()

    def follow(self, store: Store) -> Counter[str]:
        """The counts at the end of the log."""
        with store.database.read() as connection:
            head, _ = log.head(connection)
            if head > self._seq:
                rows = connection.execute(_kinds, {"after": self._seq, "until": head}).all()
                self._counts.update({kind: int(n) for kind, n in rows})
                self._seq = head
        return Counter(self._counts)


@dataclass(frozen=True, slots=True)
class PastAnswer:
    """An answer imported as event `seq`, at a time in microseconds; a later one replaces it."""

    seq: int
    at: int
    response_id: str


class _Added(msgspec.Struct, frozen=True):
    """The model and prompt of an answer; the text is skipped."""

    response_id: str
    model: str
    prompt_id: str


_decoder = msgspec.json.Decoder(_Added)


class AnswerDates:
    """Every answer that was ever imported, with its date. The log is read once, then only new events."""

    def __init__(self) -> None:
        self._seq = 0
        self._found: dict[tuple[str, str], list[PastAnswer]] = {}
        self._lock = threading.Lock()

    def of(self, store: Store, model: str, prompt_id: str) -> tuple[PastAnswer, ...]:
        """A model's answers to a prompt, latest first."""
        with self._lock:
            self._follow(store)
            return tuple(reversed(self._found.get((model, prompt_id), ())))

    def _follow(self, store: Store) -> None:
        with store.database.read() as connection:
            head, _ = log.head(connection)
            rows = connection.execute(_added, {"after": self._seq, "until": head}).all()
        for seq, at, text in rows:
            added = _decoder.decode(text)
            self._found.setdefault((added.model, added.prompt_id), []).append(PastAnswer(seq, at, added.response_id))
        self._seq = head
