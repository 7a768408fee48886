"""How far the log has come and what waits: the figures that those who run an arena look at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from tiltyard.arena.events import decode_body
from tiltyard.arena.store import log
from tiltyard.arena.store.tables import chain, events, matchups, pending

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tiltyard.arena.events import AnyBody
    from tiltyard.arena.store import Store

LOOKED_THROUGH = 200_000
"""Of so many events at the end of the log the latest of some kinds are picked: kinds have no index."""

_kinds = (
    sa.select(events.c.kind, sa.func.count())
    .join_from(chain, events, events.c.id == chain.c.event_id)
    .where(chain.c.seq > sa.bindparam("after"), chain.c.seq <= sa.bindparam("until"))
    .group_by(events.c.kind)
)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The log's last number and hash, events without a place in it yet, and matchups that wait for a vote."""

    head_seq: int
    head_hash: str
    unchained: int
    open_matchups: int


@dataclass(frozen=True, slots=True)
class Written:
    """An event as it was written, and when, in microseconds; `seq` is None until it has its place."""

    seq: int | None
    at: int
    body: AnyBody


def backlog(store: Store) -> Backlog:
    """How things stand at this moment."""
    waiting = sa.select(sa.func.count()).select_from(pending)
    still_open = sa.select(sa.func.count()).select_from(matchups).where(matchups.c.status == "open")
    with store.database.read() as connection:
        unchained, open_matchups = (connection.execute(query).scalar_one() for query in (waiting, still_open))
        return Backlog(*log.head(connection), int(unchained), int(open_matchups))


def latest_events(store: Store, kinds: Iterable[str], most: int) -> list[Written]:
    """The latest events of these kinds, the newest first; what lies very far back is not looked for."""
    newest = sa.select(sa.func.coalesce(sa.func.max(events.c.id), 0)).scalar_subquery()
    chosen = (
        sa.select(chain.c.seq, events.c.at, events.c.body)
        .join_from(events, chain, events.c.id == chain.c.event_id, isouter=True)
        .where(events.c.kind.in_(list(kinds)), events.c.id > newest - LOOKED_THROUGH)
        .order_by(events.c.id.desc())
        .limit(most)
    )
    with store.database.read() as connection:
        return [Written(seq, at, decode_body(text)) for seq, at, text in connection.execute(chosen)]


class KindCounts:
    """How many events of each kind the log holds. Counted once, then kept up with what is new."""

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
