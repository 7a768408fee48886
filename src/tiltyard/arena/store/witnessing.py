"""Writing witness files, and the public history of heads (what a witness is: `arena.witness`)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from tiltyard import __version__
from tiltyard.arena import events as e
from tiltyard.arena.blindness import public_prompts
from tiltyard.arena.board import OFFICIAL_FROM, SHADOW_PHASE
from tiltyard.arena.chain import label_of, leaf_of
from tiltyard.arena.heads import Head, HeadFile, Statement, signed
from tiltyard.arena.state import ArenaState, VoteStanding
from tiltyard.arena.store import Store, log
from tiltyard.arena.store.bulk import fetch, one_of
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.publishing import published_until
from tiltyard.arena.store.reading import cast_votes
from tiltyard.arena.store.replica import Replica
from tiltyard.arena.store.tables import chain, events, heads, matchups, votes
from tiltyard.arena.units import HOUR
from tiltyard.arena.witness import FORMAT, WitnessHeader, WitnessLine, published_board
from tiltyard.errors import StoreError

PAGE = 5_000

_rows = (
    sa.select(chain.c.seq, events.c.at, events.c.body, events.c.salt)
    .join(events, events.c.id == chain.c.event_id)
    .where(chain.c.seq > sa.bindparam("after"), chain.c.seq <= sa.bindparam("until"))
    .order_by(chain.c.seq)
    .limit(PAGE)
)
_voted = (
    sa.select(votes.c.matchup_id, votes.c.seq)
    .where(one_of(votes.c.matchup_id, "ids"), votes.c.seq <= sa.bindparam("until"))
    .where(votes.c.standing != VoteStanding.UNDONE.value)
)
_served_prompts = sa.select(matchups.c.prompt).distinct()
_heads = sa.select(heads.c.seq, heads.c.hash, heads.c.at, heads.c.statement).order_by(heads.c.seq.desc())

_ALWAYS = (
    *(e.SettingsChanged, e.PhaseChanged, e.ModelAdded, e.ModelEnabled, e.ModelDisabled),
    *(e.Excluded, e.Restored, e.ChainUpgraded),
)
_OF_PROMPTS = (e.PromptAdded, e.PromptEnabled, e.PromptDisabled, e.PromptReserved)
_SHOWN_WITH_VOTE = (e.MatchupServed, e.Voted, e.Explained)


class PublishedHead(NamedTuple):
    """A head in the public history: when it was written, in microseconds, and the signed statement if there is one."""

    head: Head
    at: int
    file: HeadFile | None


def witness_lines(store: Store, now: int, title: str = "") -> Iterator[WitnessHeader | WitnessLine]:
    """The lines of a witness file of the public part of the log, all from one moment."""
    with store.database.read() as connection:
        until = published_until(connection, now)
        replica = Replica.load(connection, store.checkpoint_every, until)
        if log.version_at_head(connection) == 1:
            raise StoreError(
                "the log is chained by version 1, which can only be checked with every text. "
                "Run `tiltyard arena init --upgrade`."
            )
        latest = next((row.file for row in published_heads(connection) if row.file and row.head.seq <= until), None)
        yield WitnessHeader(witness=FORMAT, head=str(Head(until, replica.hash)), title=title, statement=latest)
        public = public_prompts(replica.state)
        served = public | {row[0] for row in fetch(connection, _served_prompts)}
        after = 0
        while rows := fetch(connection, _rows, {"after": after, "until": until}):
            bodies = [e.decode_body(row[2]) for row in rows]
            shown = _voted_matchups(connection, bodies, until)
            for (seq, at, text, salt), body in zip(rows, bodies, strict=True):
                leaf = leaf_of(at, text, salt)
                if _is_public(body, shown, served, public, replica.state):
                    yield WitnessLine(seq=seq, hour=at // HOUR, body=leaf.public, salt=leaf.salt, rest=leaf.rest)
                else:
                    kind, matchup_id = label_of(text)
                    yield WitnessLine(seq=seq, hour=at // HOUR, kind=kind, matchup_id=matchup_id, leaf=leaf.hash())
            after = rows[-1][0]


def _voted_matchups(connection: Connection, bodies: list[e.AnyBody], until: int) -> frozenset[str]:
    """Of the matchups that these events are about, those with a final vote.

    A matchup that was skipped, has expired, or whose vote was undone never told its voter who wrote what, and stays
    hidden even when its prompt is retired: the same two models wait for that voter on another prompt.
    """
    ids = sorted({body.matchup_id for body in bodies if isinstance(body, _SHOWN_WITH_VOTE)})
    return frozenset(row[0] for row in fetch(connection, _voted, {"ids": ids, "until": until}))


def _is_public(
    body: e.AnyBody, voted: frozenset[str], served: frozenset[int], public: frozenset[int], state: ArenaState
) -> bool:
    """Whether the line of an event is open. A prompt that was never served may be one that is kept for later."""
    if isinstance(body, _SHOWN_WITH_VOTE):
        return body.matchup_id in voted
    if isinstance(body, _OF_PROMPTS):
        return state.catalog.prompt(body.prompt_id) in served
    if isinstance(body, e.ResponseAdded):
        return state.catalog.prompt(body.prompt_id) in public
    return isinstance(body, _ALWAYS)


def published_head(store: Store, now: int) -> Head:
    """The head of the part of the log that is public."""
    with store.database.read() as connection:
        until = published_until(connection, now)
        return Head(until, log.hash_at(connection, until))


def state_head(store: Store, now: int, *, title: str = "", pem: bytes | None = None) -> tuple[Head, HeadFile]:
    """The head of the public part of the log, and a file that states it with the board there; with a key, signed.

    The board is the one that pages show. In phase 1, which shows nothing of the new ratings, there is none.

    Parameters:
        store: The arena's database, opened.
        now: The time in microseconds.
        title: What the arena is called.
        pem: The private key with which to sign.
    """
    with store.database.read() as connection:
        until = published_until(connection, now)
        replica = Replica.load(connection, store.checkpoint_every, until)
    counted = [vote for vote in cast_votes(store, until) if vote.standing is VoteStanding.COUNTED]
    state, phase, head = replica.state, replica.state.phase, Head(until, replica.hash)
    statement = Statement(
        head=str(head),
        at=datetime.fromtimestamp(now // 1_000_000, UTC).isoformat().replace("+00:00", "Z"),
        title=title,
        board=() if phase == SHADOW_PHASE else tuple(map(msgspec.structs.astuple, published_board(state, counted))),
        ordered_by="" if phase == SHADOW_PHASE else "conservative" if phase >= OFFICIAL_FROM else "legacy_elo",
        votes=len(counted),
        version=__version__,
    )
    return head, signed(statement, pem)


def record_head(store: Store, head: Head, at: int, file: HeadFile | None = None) -> None:
    """Add a head to the public history. One that is there already stays, and gets a statement if it had none."""
    statement = None if file is None else msgspec.json.encode(file).decode()
    with store.database.write() as connection:
        there = connection.execute(sa.select(heads.c.statement).where(heads.c.seq == head.seq)).first()
        if there is None:
            connection.execute(sa.insert(heads), {"seq": head.seq, "hash": head.hash, "at": at, "statement": statement})
        elif there[0] is None and statement is not None:
            connection.execute(sa.update(heads).where(heads.c.seq == head.seq).values(statement=statement))


def record_hourly(store: Store, now: int) -> None:
    """Add the current head to the public history, once in an hour and if the log went on since."""
    with store.database.read() as connection:
        newest = connection.execute(_heads.limit(1)).first()
    if newest is not None and newest.at // HOUR >= now // HOUR:
        return
    head = published_head(store, now)
    if head.seq and (newest is None or head.seq > newest.seq):
        record_head(store, head, now)


def head_history(store: Store, most: int = 10_000) -> list[PublishedHead]:
    """The public history of heads, newest first."""
    with store.database.read() as connection:
        return published_heads(connection, most)


def published_heads(connection: Connection, most: int = 10_000) -> list[PublishedHead]:
    """The same, in a transaction."""
    return [
        PublishedHead(
            Head(seq, digest), at, None if statement is None else msgspec.json.decode(statement, type=HeadFile)
        )
        for seq, digest, at, statement in connection.execute(_heads.limit(most))
    ]
