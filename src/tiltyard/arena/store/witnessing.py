"""Writing witness files, and the public history of heads (what a witness is: `arena.witness`)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from tiltyard import __version__
from tiltyard.arena import events as e
from tiltyard.arena.blindness import public_prompts
from tiltyard.arena.board import OFFICIAL_FROM, SHADOW_PHASE
from tiltyard.arena.chain import label_of, leaf_of
from tiltyard.arena.heads import Head, HeadFile, Statement, signed
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store import Store, log
from tiltyard.arena.store.checkpoints import keep_checkpoint, load_votes
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.matchups import public_until
from tiltyard.arena.units import HOUR
from tiltyard.arena.votes import VoteStanding
from tiltyard.arena.witness import FORMAT, WitnessHeader, WitnessLine, published_board

PAGE = 5_000

_ROWS = "SELECT seq, at, body, salt FROM events WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
_HEADS = "SELECT seq, hash, at, statement FROM heads ORDER BY seq DESC LIMIT ?"

_ALWAYS = (
    *(e.SettingsChanged, e.PhaseChanged, e.ModelAdded, e.ModelEnabled, e.ModelDisabled),
    *(e.Excluded, e.Restored),
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
        until = public_until(connection, now)
        state, votes, digest = load_votes(connection, until)
        latest = next((row.file for row in published_heads(connection) if row.file and row.head.seq <= until), None)
        yield WitnessHeader(witness=FORMAT, head=str(Head(until, digest)), title=title, statement=latest)
        public = public_prompts(state)
        served = public | {row[0] for row in connection.rows("SELECT DISTINCT prompt FROM matchups")}
        voted = frozenset(vote.matchup_id for vote in votes if vote.standing is not VoteStanding.UNDONE)
        after = 0
        while rows := connection.rows(_ROWS, after, until, PAGE):
            for seq, at, text, salt in rows:
                leaf = leaf_of(at, text, salt)
                if _is_public(e.decode_body(text), voted, served, public, state):
                    yield WitnessLine(seq=seq, hour=at // HOUR, body=leaf.public, salt=leaf.salt, rest=leaf.rest)
                else:
                    kind, matchup_id = label_of(text)
                    yield WitnessLine(seq=seq, hour=at // HOUR, kind=kind, matchup_id=matchup_id, leaf=leaf.hash())
            after = rows[-1][0]


def _is_public(
    body: e.AnyBody, voted: frozenset[str], served: frozenset[int], public: frozenset[int], state: ArenaState
) -> bool:
    """Whether the line of an event is open. A prompt that was never served may be one that is kept for later.

    A matchup that was skipped, has expired, or whose vote was undone never told its voter who wrote what, and stays
    hidden even when its prompt is retired: the same two models wait for that voter on another prompt.
    """
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
        until = public_until(connection, now)
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
        until = public_until(connection, now)
        state, votes, digest = load_votes(connection, until)
    phase, head = state.phase, Head(until, digest)
    statement = Statement(
        head=str(head),
        at=datetime.fromtimestamp(now // 1_000_000, UTC).isoformat().replace("+00:00", "Z"),
        title=title,
        board=() if phase == SHADOW_PHASE else tuple(map(msgspec.structs.astuple, published_board(state, votes))),
        ordered_by="" if phase == SHADOW_PHASE else "conservative" if phase >= OFFICIAL_FROM else "legacy_elo",
        votes=sum(vote.standing is VoteStanding.COUNTED for vote in votes),
        version=__version__,
    )
    if pem is not None:
        with store.database.write() as connection:
            statement = msgspec.structs.replace(statement, state=keep_checkpoint(connection, state))
    return head, signed(statement, pem)


def record_head(store: Store, head: Head, at: int, file: HeadFile | None = None) -> None:
    """Add a head to the public history. One that is there already stays, and gets a statement if it had none."""
    statement = None if file is None else msgspec.json.encode(file).decode()
    with store.database.write() as connection:
        connection.insert("heads", ("seq", "hash", "at"), [(head.seq, head.hash, at)], or_ignore=True)
        if file is not None:
            query = "UPDATE heads SET statement = ?, state_sha256 = ? WHERE seq = ? AND statement IS NULL"
            kept = file.stated.state
            connection.execute(query, statement, kept if isinstance(kept, str) else None, head.seq)


def record_hourly(store: Store, now: int) -> None:
    """Add the current head to the public history, once in an hour and if the log went on since."""
    with store.database.read() as connection:
        newest = connection.one(_HEADS, 1)
    if newest is not None and newest[2] // HOUR >= now // HOUR:
        return
    head = published_head(store, now)
    if head.seq and (newest is None or head.seq > newest[0]):
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
        for seq, digest, at, statement in connection.rows(_HEADS, most)
    ]
