"""The public rows as the database has them, and the history of their heads, which is part of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.chain import FIRST_HASH, link_line
from tiltyard.arena.rules.heads import Head, HeadFile
from tiltyard.arena.rules.public_rows import PublicPrompt, VotedMatchup, canonical, prompt_row, public_rows
from tiltyard.arena.rules.units import HOUR
from tiltyard.arena.store import log
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.log import RARE
from tiltyard.arena.store.matchups import public_until
from tiltyard.arena.store.store import Store

_HEADS = f"SELECT seq, at, body FROM events WHERE {RARE} AND kind = 'head_published' ORDER BY seq DESC LIMIT ?"
_LAST_ASKED = (
    "SELECT asked FROM matchups WHERE vote_seq IN "
    "(SELECT max(vote_seq) FROM matchups WHERE status = 'voted' AND vote_seq <= ? GROUP BY prompt)"
)
_VOTED = (
    "SELECT m.id, m.asked, s.body FROM matchups m JOIN events s ON s.seq = m.seq "
    "WHERE m.status = 'voted' AND m.id IN ??"
)


class PublishedHead(NamedTuple):
    """A head in the public history: its event, when it was written, in microseconds, and what the event says."""

    seq: int
    at: int
    body: e.HeadPublished

    @property
    def head(self) -> Head:
        return Head.parse(self.body.head)

    @property
    def file(self) -> HeadFile | None:
        return self.body.file


class PublicLog:
    """The public rows up to an event of the log, by their number and hash; `follow` goes on from there.

    The table of matchups says which votes are final.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._prompts: dict[str, PublicPrompt] = {}
        self._asked: dict[int, PublicPrompt] = {}
        self.seq = 0
        self.head = Head(0, FIRST_HASH)

    @classmethod
    def to(cls, connection: Connection, until: int) -> PublicLog:
        """The rows up to an event; those up to the latest head that was published are taken as that head says."""
        latest = next((one for one in published_heads(connection, 2) if one.body.until <= until), None)
        result = cls(connection) if latest is None else cls.after(connection, latest)
        for _ in result.follow(until):
            pass
        return result

    @classmethod
    def after(cls, connection: Connection, published: PublishedHead) -> PublicLog:
        result = cls(connection)
        result.seq, result.head = published.body.until, published.head
        last = [seq for (seq,) in connection.rows(_LAST_ASKED, result.seq)]
        result._prompts = {row.prompt: row for row in result._prompts_asked(last).values()}
        return result

    def follow(self, until: int) -> Iterator[bytes]:
        """The next rows, up to an event before which every vote is final or was undone."""
        for page in log.pages(self._connection, self.seq, until):
            yield from self.take(page.events)[0]

    def take(self, events: Sequence[e.Event]) -> tuple[list[bytes], list[Head]]:
        """The rows of the next events of the log, up to one like that, and the head after each."""
        named = (
            (body.matchup_id,) if isinstance(body, e.Voted) else body.matchup_ids
            for body in (event.body for event in events)
            if isinstance(body, e.Voted | e.Excluded | e.Restored)
        )
        rows = public_rows(events, self.voted(chain.from_iterable(named)), self._prompts)
        lines, heads = list(map(canonical, rows)), list[Head]()
        for line in lines:
            self.head = Head(self.head.rows + 1, link_line(self.head.hash, line))
            heads.append(self.head)
        self.seq += len(events)
        return lines, heads

    def voted(self, names: Iterable[str]) -> dict[str, VotedMatchup]:
        """Those of these matchups whose vote was not undone."""
        rows = self._connection.rows(_VOTED, sorted(set(names)))
        prompts = self._prompts_asked(asked for _, asked, _ in rows)
        served = ((name, asked, e.decode_body(text)) for name, asked, text in rows)
        return {
            name: VotedMatchup(body, prompts[asked])
            for name, asked, body in served
            if isinstance(body, e.MatchupServed) and asked in prompts
        }

    def _prompts_asked(self, seqs: Iterable[int]) -> dict[int, PublicPrompt]:
        wanted = set(seqs)
        if missing := sorted(wanted - self._asked.keys()):
            rows = self._connection.rows("SELECT seq, body FROM events WHERE seq IN ??", missing)
            bodies = ((seq, e.decode_body(text)) for seq, text in rows)
            self._asked |= {seq: prompt_row(body) for seq, body in bodies if isinstance(body, e.PromptAdded)}
        return {seq: self._asked[seq] for seq in wanted if seq in self._asked}


class NewHead(NamedTuple):
    """A head of the public rows, and what it takes to publish it."""

    head: Head
    until: int
    """The last event from which its rows follow."""
    file: HeadFile
    """What it states, signed if there was a key."""


def public_head(store: Store, now: int) -> Head:
    """The head of the public rows now."""
    with store.database.read() as connection:
        return PublicLog.to(connection, public_until(connection, now)).head


def record_head(store: Store, new: NewHead, at: int) -> None:
    """Publish a head at a time in microseconds: from here on it is part of the log."""
    file = new.file if new.file.signature else None
    with store.database.write(lock=True) as connection:
        _record(connection, e.HeadPublished(head=str(new.head), until=new.until, file=file), at)


def record_hourly(store: Store, now: int, until: int | None = None) -> None:
    """Publish the head of the rows, up to an event if one is given: once in an hour, and if there are rows since."""
    with store.database.read() as connection:
        newest = next(iter(published_heads(connection, 1)), None)
        if newest is not None and newest.at // HOUR >= now // HOUR:
            return
        rows = PublicLog.to(connection, public_until(connection, now) if until is None else until)
    if not rows.head.rows or (newest is not None and rows.head.rows <= newest.head.rows):
        return
    with store.database.write(lock=True) as connection:
        latest = next(iter(published_heads(connection, 1)), None)
        if newest == latest:  # no other process was faster
            _record(connection, e.HeadPublished(head=str(rows.head), until=rows.seq), now)


def _record(connection: Connection, body: e.HeadPublished, at: int) -> None:
    log.append_events(connection, [e.Event(at, body)], *log.head(connection))


def head_history(store: Store, most: int = 10_000) -> list[PublishedHead]:
    """The public history of heads, newest first."""
    with store.database.read() as connection:
        return published_heads(connection, most)


def published_heads(connection: Connection, most: int = 10_000) -> list[PublishedHead]:
    """The public history of heads in this transaction, newest first."""
    rows = ((seq, at, e.decode_body(text)) for seq, at, text in connection.rows(_HEADS, most))
    return [PublishedHead(seq, at, body) for seq, at, body in rows if isinstance(body, e.HeadPublished)]
