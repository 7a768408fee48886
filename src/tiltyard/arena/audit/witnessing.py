"""What an arena states: witness files of its public rows, and heads with their board."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import numpy as np

from tiltyard import __version__
from tiltyard.arena.audit.witness import FORMAT, WitnessHeader, WitnessWeights, published_board
from tiltyard.arena.rules.heads import Statement, signed
from tiltyard.arena.rules.public_rows import canonical, receipt_of
from tiltyard.arena.rules.units import SECOND
from tiltyard.arena.rules.votes import VoteTable, vote_table
from tiltyard.arena.rules.weights import weighed
from tiltyard.arena.store.checkpoints import keep_checkpoint, load_votes
from tiltyard.arena.store.matchups import public_until
from tiltyard.arena.store.public_log import NewHead, PublicLog, published_heads
from tiltyard.arena.store.store import Store
from tiltyard.arena.study.board import SHADOW_PHASE


def witness_lines(store: Store, now: int, title: str = "", until: int | None = None) -> Iterator[bytes]:
    """The lines of a witness file of the public rows, all from one moment; the first is the header.

    They end with the event `until`; without it before the first vote that can still be undone.
    """
    with store.database.read() as connection:
        until = public_until(connection, now) if until is None else until
        rows = PublicLog(connection)
        lines = list(rows.follow(until))
        latest = next((row.file for row in published_heads(connection) if row.file and row.body.until <= until), None)
        state, votes, _ = load_votes(connection, until)
        weights = weights_line(rows, weighed(vote_table(votes, state.catalog), state.policy.defences))
    header = WitnessHeader(witness=FORMAT, head=str(rows.head), title=title, statement=latest)
    for line in (canonical(header), *lines, *([weights] if weights else ())):
        yield line + b"\n"


def weights_line(rows: PublicLog, votes: VoteTable) -> bytes:
    """The last line of a witness: the weights of votes that are not 1, by receipt. Empty if all are."""
    less = {votes.matchup_ids[place]: float(votes.weight[place]) for place in np.flatnonzero(votes.weight != 1.0)}
    voted = rows.voted(less)
    found = {receipt_of(voted[name].served): weight for name, weight in less.items() if name in voted}
    return canonical(WitnessWeights(found)) if found else b""


def state_head(store: Store, now: int, *, title: str = "", pem: bytes | None = None, next_key: str = "") -> NewHead:
    """The head of the public rows, and a file that states it with the board there; with a key, signed.

    The board is the one that pages show. In phase 1, which shows nothing of the new ratings, there is none. `next_key`
    is the public key that signs later heads.
    """
    with store.database.read() as connection:
        until = public_until(connection, now)
        rows = PublicLog(connection)
        for _ in rows.follow(until):
            pass
        state, cast, _ = load_votes(connection, until)
        votes, phase = weighed(vote_table(cast, state.catalog), state.policy.defences), state.phase
        weights = weights_line(rows, votes)
    statement = Statement(
        head=str(rows.head),
        at=time_stated(now),
        title=title,
        board=() if phase == SHADOW_PHASE else tuple(map(msgspec.structs.astuple, published_board(state, votes))),
        votes=len(votes),
        version=__version__,
        weights=hashlib.sha256(weights).hexdigest() if weights else "",
        next_key=next_key or msgspec.UNSET,
    )
    if pem is not None:
        with store.database.write() as connection:
            statement = msgspec.structs.replace(statement, state=keep_checkpoint(connection, state))
    return NewHead(rows.head, until, signed(statement, pem))


def time_stated(at: int) -> str:
    """A time in microseconds as statements say it: to the second, in UTC."""
    return datetime.fromtimestamp(at // SECOND, UTC).isoformat().replace("+00:00", "Z")
