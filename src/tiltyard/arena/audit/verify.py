"""Verifying an arena: its log is read once and folded, and everything that follows from it is compared.

The log is checked by its chain of hashes, and so is every head that was published of its public rows: hash, board,
signature and time. None of that can show that the end was cut off together with everything derived from it, or that all
of it was written anew: keep a head elsewhere, and pass it as `heads` later.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import msgspec

from tiltyard.arena.audit.witness import RatedModel, differing, published_board
from tiltyard.arena.audit.witnessing import time_stated
from tiltyard.arena.rules.chain import FIRST_HASH, link_events
from tiltyard.arena.rules.events import Event, MatchupServed, decode_body, decode_events
from tiltyard.arena.rules.heads import Head, HeadFile, plain, with_successors
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.units import HOUR
from tiltyard.arena.rules.votes import VoteColumns, vote_table
from tiltyard.arena.rules.voting import CLOCK_MARGIN
from tiltyard.arena.rules.weights import weighed
from tiltyard.arena.store import log
from tiltyard.arena.store.checkpoints import EVERY, decode_state, encode_state, keep_checkpoint, votes_at
from tiltyard.arena.store.database import Connection, Row
from tiltyard.arena.store.erasing import wrong_texts
from tiltyard.arena.store.files import damaged_files
from tiltyard.arena.store.matchups import COLUMNS, OPEN, STATUS, NotedEvents, TableVotes, public_until, row_after
from tiltyard.arena.store.public_log import PublicLog, PublishedHead, published_heads
from tiltyard.arena.store.store import Store
from tiltyard.errors import ArenaError, StoreError

NAMED_PER_TABLE = 20
"""How many differences are listed individually; the rest are counted."""

KEPT_DIFFERENCES = 100_000
"""Rows that may differ at a time and be found equal later; with more of them, the rest are not looked at."""

SIGNING = HOUR
"""How long before it is published a head may have been signed: of a long log that takes minutes."""

_PAGE = "SELECT seq, at, kind, body, hash FROM events WHERE seq > ? ORDER BY seq LIMIT ?"


class Discrepancy(msgspec.Struct, frozen=True):
    """One deviation from the log: the table, its row, and what is wrong."""

    table: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.table}, {self.where}: {self.what}"


class Verification(msgspec.Struct, frozen=True):
    """What `verify` found. `head` is that of the public rows, `published` are the heads in the log, newest first."""

    events: int
    votes: int
    head: Head
    problems: tuple[Discrepancy, ...]
    more_problems: int
    published: tuple[PublishedHead, ...] = ()
    since: int = 0
    """The number of the checkpoint from which on everything was verified; 0: from the beginning."""

    @property
    def clean(self) -> bool:
        return not self.problems


def verify(
    url: str,
    heads: Iterable[Head | HeadFile] = (),
    keys: Sequence[str] = (),
    since: HeadFile | None = None,
    now: int | None = None,
) -> Verification:
    """The findings about the arena at a URL, as it was at one moment; it may be in use meanwhile.

    Parameters:
        url: `sqlite:///path` or `postgresql://user@host/database`.
        heads: Heads that were kept elsewhere; the public rows must lead to each of them.
        keys: Public keys: every signed head is by one of them, or by one that it named as the next; each signed one.
        since: A signed head that was kept elsewhere, from which on to verify; there must be a checkpoint there.
        now: The time in microseconds, which says what is public; None: this moment.
    """
    with closing(Store.open(url)) as store, store.database.read() as connection:
        check = _Check(connection, PublicLog(connection))
        check.public_end = public_until(connection, time.time_ns() // 1000 if now is None else now)
        check.expect(list(heads), keys)
        if since is not None:
            check.start_from(since)
        return check.run()


def rebuild(url: str) -> None:
    """Write the table of matchups anew from the log, in one transaction. A broken log is refused."""
    with closing(Store.open(url)) as store, store.database.write(lock=True) as connection:
        connection.execute("DELETE FROM matchups")
        connection.execute("DELETE FROM checkpoints")
        state, previous = ArenaState(), FIRST_HASH
        while rows := connection.rows(_PAGE, state.seq, log.PAGE):
            seqs, times, _, texts, hashes = zip(*rows, strict=True)
            fits = seqs == tuple(range(state.seq + 1, state.seq + 1 + len(rows)))
            if not fits or tuple(link_events(previous, times, texts)) != hashes:
                raise StoreError(
                    f"the log is broken after number {state.seq}: `tiltyard arena verify` says how. Nothing was "
                    "rebuilt: restore the log from a backup first."
                )
            noted = NotedEvents()
            for event in decode_events(times, texts):
                noted.apply(state, event)
            noted.write(connection)
            previous = hashes[-1]
        if state.seq >= EVERY:
            keep_checkpoint(connection, state)


@dataclass(slots=True)
class _Check:
    connection: Connection
    public: PublicLog
    public_end: int = 0
    state: ArenaState = field(default_factory=ArenaState)
    problems: list[Discrepancy] = field(default_factory=list)
    unnamed: int = 0
    broken: bool = False
    """The log could not be folded to its end, so there is nothing to compare with."""
    end: tuple[int, str] = (0, FIRST_HASH)
    since: int = 0
    kept: dict[int, list[Head]] = field(default_factory=dict)
    """Heads that were kept, by their number of rows, as long as they were not met."""
    published: dict[int, list[PublishedHead]] = field(default_factory=dict)
    """The heads in the log, by the last event of their rows."""
    checkpoints: dict[int, bytes] = field(default_factory=dict)
    differ: dict[str, tuple[Row | None, Row]] = field(default_factory=dict)
    """By matchup: the row that the arena has, and the one that follows from the log."""
    served: int = 0
    open_rows: dict[str, Row] = field(default_factory=dict)

    def expect(self, heads: Sequence[Head | HeadFile], keys: Sequence[str]) -> None:
        """Look at all heads, kept and published, by themselves; what they stand for is compared on the way."""
        for head in map(plain, heads):
            self.kept.setdefault(head.rows, []).append(head)
        before = 0
        for one in reversed(published_heads(self.connection, log.EVERYTHING)):
            self.published.setdefault(one.body.until, []).append(one)
            if one.body.until >= one.seq or one.at + CLOCK_MARGIN < before:
                self.find("heads", f"event {one.seq}", f"{one.head} is older than what was published before it")
            before = max(before, one.at)
            if one.file is not None:
                stated, earliest = one.file.stated, time_stated(one.at - SIGNING)
                if stated.head != str(one.head) or not earliest <= stated.at <= time_stated(one.at):
                    self.find("heads", f"event {one.seq}", "what was signed is another head, or another time")
        files = [*heads, *(one.file for of in self.published.values() for one in of)]
        signed = [file for file in files if isinstance(file, HeadFile) and file.signature]
        trusted = with_successors(keys, signed)
        for file in signed:
            if wrong := file.wrong():
                self.find("heads", str(plain(file)), wrong)
            elif keys and file.key not in trusted:
                self.find("heads", str(plain(file)), f"it is signed by {file.key}, which was not given")
        for key in keys:
            if key not in {file.key for file in signed}:
                self.find("heads", key, "this key has signed no head of this arena")

    def find(self, table: str, where: str, what: str) -> None:
        if sum(problem.table == table for problem in self.problems) < NAMED_PER_TABLE:
            self.problems.append(Discrepancy(table, where, what))
        else:
            self.unnamed += 1

    def start_from(self, file: HeadFile) -> None:
        """Go on from a checkpoint whose digest was signed."""
        head = plain(file)
        known = (one for of in self.published.values() for one in of if one.file == file)
        if (one := next(known, None)) is None:
            raise ArenaError(f"the log has no signed head {head}. Verify everything.")
        seq = one.body.until
        data = self.connection.value("SELECT state FROM checkpoints WHERE seq = ?", seq)
        if data is None:
            raise ArenaError(f"there is no checkpoint at {head}. Verify everything, or name a head that was signed.")
        if hashlib.sha256(data).hexdigest() != file.stated.state:
            raise ArenaError(f"the checkpoint at {head} is not the one that was signed. Verify everything.")
        for rows in [rows for rows in self.kept if rows < head.rows]:
            del self.kept[rows]
            self.find("head", f"row {rows}", "lies before the head to begin at. Verify everything to look for it")
        votes = TableVotes()
        votes.begin(self.connection)
        self.state = decode_state(bytes(data), votes)
        self.public = PublicLog.after(self.connection, one)
        self._check_kept(self.public.head)
        self.since, self.end = seq, (seq, log.hash_at(self.connection, seq))

    def run(self) -> Verification:
        connection = self.connection
        self.checkpoints = dict(connection.rows("SELECT seq, state FROM checkpoints WHERE seq > ?", self.since))
        after = self.since
        while rows := connection.rows(_PAGE, after, log.PAGE):
            self._take(rows)
            after = rows[-1][0]
        why = "the log is broken before it" if self.broken else "the log was cut"
        for number in sorted(self.kept):
            self.find("head", f"row {number}", f"the public rows end with {self.public.head.rows}: {why}")
        for until in sorted(until for until in self.published if until > max(self.public.seq, self.since)):
            self.find("heads", f"rows up to event {until}", "are not public yet, or the log is broken before it")
        if not self.broken:
            self._report_matchups()
            for seq in sorted(self.checkpoints):
                self.find("checkpoints", f"seq {seq}", "does not follow from the log")
        for name, what in (wrong := list(wrong_texts(connection))):
            self.find("texts", name, what)
        for name, what in () if wrong else damaged_files(connection):  # which the texts name
            self.find("files", f"sha256 {name[:16]}…", what)
        tallies = self.state.tallies
        votes = int(tallies.rated.sum() + tallies.both_bad.view.sum()) // 2
        published = tuple(published_heads(connection, log.EVERYTHING))
        problems = tuple(self.problems)
        return Verification(self.state.seq, votes, self.public.head, problems, self.unnamed, published, self.since)

    def _take(self, rows: list[Row]) -> None:
        """Check the links of a page, fold it, and compare the rows of the matchups that it closed."""
        seqs, times, kinds, texts, hashes = zip(*rows, strict=True)
        seq, previous = self.end
        whole = seqs == tuple(range(seq + 1, seq + 1 + len(rows)))
        if not whole or tuple(link_events(previous, times, texts)) != hashes:
            self._check_links(rows)
        for number, kind, text in zip(seqs, kinds, texts, strict=True):
            if not text.startswith(f'{{"kind":"{kind}"'):
                self.find("events", f"number {number}", f"is listed as {kind}, which its text is not")
        self.end = (seqs[-1], hashes[-1])
        if self.broken:
            return
        try:
            events = decode_events(times, texts)
            noted = NotedEvents()
            for event in events:
                noted.apply(self.state, event)
                if self.state.seq in self.published:
                    self._compare_boards(self.published[self.state.seq])
                if self.state.seq in self.checkpoints:
                    kept = bytes(self.checkpoints.pop(self.state.seq))
                    if kept != encode_state(self.state):
                        self.find("checkpoints", f"seq {self.state.seq}", "differs from what the log says")
        except (ArenaError, msgspec.MsgspecError) as error:
            self.broken = True
            self.find("events", f"after number {self.state.seq}", f"cannot be taken in: {error}")
            return
        self._compare(noted)
        self._follow_public(events)

    def _check_links(self, rows: list[Row]) -> None:
        """Name what is wrong. After a wrong hash, checking goes on from the stored one."""
        seq, previous = self.end
        for number, at, _, text, digest in rows:
            if number != seq + 1:
                self.find("events", f"number {seq + 1}", f"is missing; {number} comes next")
                self.broken = True
                return
            if link_events(previous, [at], [text]) != [digest]:
                self.find("events", f"number {number}", "the hash does not fit: event, time, order or hash was changed")
            seq, previous = number, digest

    def _follow_public(self, events: list[Event]) -> None:
        """The public rows of a page, as far as it is public, and the heads on the way."""
        first, last = self.public.seq, min(self.public.seq + len(events), self.public_end)
        stops = sorted({last, *(until for until in self.published if first < until < last)})
        for stop in stops if last > first else ():
            for head in self.public.take(events[self.public.seq - first : stop - first])[1]:
                self._check_kept(head)
            for one in self.published.get(stop, ()):
                if one.head != self.public.head:
                    what = f"{one.head} was published, and the log gives {self.public.head}: something was rewritten"
                    self.find("heads", f"event {one.seq}", what)

    def _check_kept(self, found: Head) -> None:
        for head in self.kept.pop(found.rows, ()):
            if head != found:
                what = f"the head that was kept is {head}, and the log gives {found}: something up to it was rewritten"
                self.find("head", f"row {head.rows}", what)

    def _compare_boards(self, heads: list[PublishedHead]) -> None:
        """The boards that were signed here follow from the votes up to here."""
        stated = [one for one in heads if one.file is not None and one.file.stated.board]
        if not stated:
            return
        votes = self.state.votes
        columns = votes if isinstance(votes, VoteColumns) else votes_at(self.connection, self.state)
        table = weighed(vote_table(columns, self.state.catalog), self.state.policy.defences)
        board = published_board(self.state, table)
        for one in stated:
            assert one.file is not None
            for what in differing([RatedModel(*row) for row in one.file.stated.board], board):
                self.find("heads", f"event {one.seq}", f"its board is not what the log says: {what}")

    def _compare(self, noted: NotedEvents) -> None:
        """Compare the rows that a page changed with those of the table; later pages may change them once more."""
        self.served += len(noted.new)
        rows: dict[str, Row] = {}
        for name, row in noted.new.items():
            (self.open_rows if row[STATUS] == OPEN else rows)[name] = row
        there = self._rows([name for name in noted.changes if name not in self.open_rows and name not in self.differ])
        rows |= there  # they were equal so far
        for name in noted.changes:
            if name in self.open_rows:
                rows[name] = self.open_rows.pop(name)
            elif name in self.differ:
                rows[name] = self.differ.pop(name)[1]
        for name, change in noted.changes.items():
            if name in rows:
                rows[name] = row_after(rows[name], change)
        there |= self._rows([name for name in rows if name not in there])
        if there != rows:
            self.differ |= {name: (there.get(name), row) for name, row in rows.items() if there.get(name) != row}
        if len(self.differ) > KEPT_DIFFERENCES:
            self.broken = True
            self.find("matchups", f"beyond {KEPT_DIFFERENCES:,} rows", "further ones were not compared")

    def _report_matchups(self) -> None:
        still_open = list(self.open_rows.items())
        for start in range(0, len(still_open), log.PAGE):
            part = still_open[start : start + log.PAGE]
            there = self._rows([name for name, _ in part])
            self.differ.update({name: (there.get(name), row) for name, row in part if there.get(name) != row})
        for name, (ours, fresh) in sorted(self.differ.items()):
            if ours is None:
                self.find("matchups", f"id {name}", "is missing")
            else:
                names = [column for column, x, y in zip(COLUMNS, ours, fresh, strict=True) if x != y]
                self.find("matchups", f"id {name}", f"not as the log says: {', '.join(names)}")
        missing = sum(ours is None for ours, _ in self.differ.values())
        count = self.connection.value("SELECT count(*) FROM matchups WHERE seq > ?", self.since)
        if count == self.served - missing:
            return
        after = self.since
        while rows := self.connection.rows(
            "SELECT m.id, m.seq, e.body FROM matchups m LEFT JOIN events e ON e.seq = m.seq "
            "WHERE m.seq > ? ORDER BY m.seq LIMIT ?",
            after,
            log.PAGE,
        ):
            for name, _, text in rows:
                body = None if text is None else decode_body(text)
                if not isinstance(body, MatchupServed) or body.matchup_id != name:
                    self.find("matchups", f"id {name}", "does not follow from the log")
            after = rows[-1][1]

    def _rows(self, ids: Sequence[str]) -> dict[str, Row]:
        query = f"SELECT {', '.join(COLUMNS)} FROM matchups WHERE id IN ??"
        return {row[0]: row for row in self.connection.rows(query, list(ids))} if ids else {}
