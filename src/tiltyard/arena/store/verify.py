"""Verifying an arena: its log is read once and folded, and everything that follows from it is compared.

The log itself is checked by its chain of hashes. A chain cannot show that its end was cut off together with everything
derived from it, or that all of it was written anew: keep `Verification.head` elsewhere, and pass it as `heads` later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from tiltyard.arena.chain import FIRST_HASH, Label, label_of, link_event, link_events
from tiltyard.arena.events import decode_events
from tiltyard.arena.heads import Head, HeadFile
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store import Store, log
from tiltyard.arena.store.checkpoints import EVERY, decode_state, encode_state, keep_checkpoint
from tiltyard.arena.store.database import Connection, Row
from tiltyard.arena.store.desk import changed_comments
from tiltyard.arena.store.files import damaged_files
from tiltyard.arena.store.matchups import COLUMNS, OPEN, STATUS, NotedEvents, TableVotes, row_after
from tiltyard.arena.votes import VoteColumns
from tiltyard.arena.witness import RatedModel, differing, published_board
from tiltyard.errors import ArenaError, StoreError

NAMED_PER_TABLE = 20
"""How many differences are listed individually; the rest are counted."""

KEPT_DIFFERENCES = 100_000
"""Rows that may differ at a time and be found equal later; with more of them, the rest are not looked at."""

_PAGE = "SELECT seq, at, body, salt, hash FROM events WHERE seq > ? ORDER BY seq LIMIT ?"


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One deviation from the log: the table, its row, and what is wrong."""

    table: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.table}, {self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found. `head` is the last sequence number and its hash."""

    events: int
    votes: int
    head: tuple[int, str]
    problems: tuple[Discrepancy, ...]
    more_problems: int
    since: int = 0
    """The number of the checkpoint from which on everything was verified; 0: from the beginning."""

    @property
    def clean(self) -> bool:
        """Whether everything agrees with the log."""
        return not self.problems


def verify(url: str, heads: Iterable[Head] = (), since: Head | None = None, state_sha256: str = "") -> Verification:
    """The findings about the arena at a URL, as it was at one moment; it may be in use meanwhile.

    Parameters:
        url: `sqlite:///path` or `postgresql://user@host/database`.
        heads: Heads that were kept elsewhere; the log must contain each of them.
        since: A head that was kept elsewhere, from which on to verify; there must be a checkpoint there.
        state_sha256: What a signed statement says of that checkpoint.
    """
    store = Store.open(url)
    try:
        with store.database.read() as connection:
            check = _Check(connection)
            check.expect(heads, "the head that was kept")
            published = connection.rows("SELECT seq, hash FROM heads")
            check.expect((Head(*row) for row in published), "the head in the table `heads`")
            check.stated = connection.one(
                "SELECT seq, statement FROM heads WHERE statement IS NOT NULL ORDER BY seq DESC LIMIT 1"
            )
            if since is not None:
                check.start_from(since, state_sha256)
            return check.run()
    finally:
        store.close()


def rebuild(url: str) -> None:
    """Write the table of matchups anew from the log, in one transaction. A broken log is refused."""
    store = Store.open(url)
    try:
        with store.database.write(lock=True) as connection:
            connection.execute("DELETE FROM matchups")
            connection.execute("DELETE FROM checkpoints")
            state, previous = ArenaState(), FIRST_HASH
            while rows := connection.rows(_PAGE, state.seq, log.PAGE):
                seqs, times, texts, salts, hashes = zip(*rows, strict=True)
                fits = seqs == tuple(range(state.seq + 1, state.seq + 1 + len(rows)))
                if not fits or tuple(link_events(previous, state.seq, times, texts, salts)) != hashes:
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
    finally:
        store.close()


@dataclass(slots=True)
class _Check:
    connection: Connection
    state: ArenaState = field(default_factory=ArenaState)
    hash: str = FIRST_HASH
    problems: list[Discrepancy] = field(default_factory=list)
    unnamed: int = 0
    broken: bool = False
    """The log could not be folded to its end, so there is nothing to compare with."""
    end: tuple[int, str] = (0, FIRST_HASH)
    since: int = 0
    expected: dict[int, list[tuple[str, str]]] = field(default_factory=dict)
    """Heads that the log must contain, by number: hash, and where it comes from."""
    checkpoints: dict[int, bytes] = field(default_factory=dict)
    differ: dict[str, tuple[Row | None, Row]] = field(default_factory=dict)
    """By matchup: the row that the arena has, and the one that follows from the log."""
    served: int = 0
    open_rows: dict[str, Row] = field(default_factory=dict)
    stated: Row | None = None
    """The latest signed head: its number, and the head file with the board that it states."""

    def expect(self, heads: Iterable[Head], whose: str) -> None:
        for head in heads:
            self.expected.setdefault(head.seq, []).append((head.hash, whose))

    def find(self, table: str, where: str, what: str) -> None:
        if sum(problem.table == table for problem in self.problems) < NAMED_PER_TABLE:
            self.problems.append(Discrepancy(table, where, what))
        else:
            self.unnamed += 1

    def start_from(self, head: Head, state_sha256: str) -> None:
        """Go on from a checkpoint whose digest was kept elsewhere."""
        data = self.connection.value("SELECT state FROM checkpoints WHERE seq = ?", head.seq)
        if data is None:
            raise ArenaError(f"there is no checkpoint at {head}. Verify everything, or name a head that was signed.")
        if hashlib.sha256(data).hexdigest() != state_sha256:
            raise ArenaError(f"the checkpoint at {head} is not the one that was signed. Verify everything.")
        self.expect([head], "the head to start from")
        for seq in sorted(number for number in self.expected if 0 < number <= head.seq):
            self._check_head(seq, log.hash_at(self.connection, seq))
        votes = TableVotes()
        votes.begin(self.connection)
        self.state = decode_state(bytes(data), votes)
        self.hash, self.since = head.hash, head.seq
        self.end = (head.seq, head.hash)

    def run(self) -> Verification:
        connection = self.connection
        self.checkpoints = dict(connection.rows("SELECT seq, state FROM checkpoints WHERE seq > ?", self.since))
        after = self.since
        while rows := connection.rows(_PAGE, after, log.PAGE):
            self._take(rows)
            after = rows[-1][0]
        for seq, kept in sorted(self.expected.items()):
            for digest, whose in kept:
                if seq or digest != FIRST_HASH:
                    what = f"{whose} is {digest[:16]}…, and the log ends with number {self.end[0]}: it was cut"
                    self.find("head", f"number {seq}", what)
        if not self.broken:
            self._report_matchups()
            for seq in sorted(self.checkpoints):
                self.find("checkpoints", f"seq {seq}", "does not follow from the log")
        for name in changed_comments(connection):
            self.find("comments", name, "the comment is not the one that its event has the digest of")
        for name, what in damaged_files(connection):
            self.find("files", f"sha256 {name[:16]}…", what)
        tallies = self.state.tallies
        votes = int(tallies.rated.sum() + tallies.both_bad.view.sum()) // 2
        return Verification(self.state.seq, votes, self.end, tuple(self.problems), self.unnamed, self.since)

    def _take(self, rows: list[Row]) -> None:
        """Check the links of a page, fold it, and compare the rows of the matchups that it closed."""
        seqs, times, texts, salts, hashes = zip(*rows, strict=True)
        seq, previous = self.end
        whole = seqs == tuple(range(seq + 1, seq + 1 + len(rows)))
        if not whole or tuple(link_events(previous, seq, times, texts, salts)) != hashes:
            self._check_links(rows)
        for number in [number for number in self.expected if seq < number <= seqs[-1] and number in seqs]:
            self._check_head(number, hashes[seqs.index(number)])
        self.end = (seqs[-1], hashes[-1])
        if self.broken:
            return
        try:
            events = decode_events(times, texts)
            noted = NotedEvents()
            for event in events:
                noted.apply(self.state, event)
                if self.stated is not None and self.state.seq == self.stated[0] and not self.since:
                    self._compare_board(self.stated[1])
                if self.state.seq in self.checkpoints:
                    kept = bytes(self.checkpoints.pop(self.state.seq))
                    if kept != encode_state(self.state):
                        self.find("checkpoints", f"seq {self.state.seq}", "differs from what the log says")
        except (ArenaError, msgspec.MsgspecError) as error:
            self.broken = True
            self.find("events", f"after number {self.state.seq}", f"cannot be taken in: {error}")
            return
        self._compare(noted)

    def _check_links(self, rows: list[Row]) -> None:
        """Name what is wrong. After a wrong hash, checking goes on from the stored one."""
        seq, previous = self.end
        for number, at, text, salt, digest in rows:
            if number != seq + 1:
                self.find("events", f"number {seq + 1}", f"is missing; {number} comes next")
                self.broken = True
                return
            if link_event(previous, number, at, text, salt) != digest:
                what = "the hash does not fit: event, time, salt, order or hash was changed"
                self.find("events", f"number {number}", what)
            seq, previous = number, digest

    def _check_head(self, seq: int, digest: str) -> None:
        for kept, whose in self.expected.pop(seq, ()):
            if kept != digest:
                what = f"{whose} is {kept[:16]}…, and the log has {digest[:16]}…: something up to here was rewritten"
                self.find("head", f"number {seq}", what)

    def _compare_board(self, text: str) -> None:
        """The board of the latest signed head follows from the votes up to it."""
        stated = msgspec.json.decode(text, type=HeadFile).stated
        assert isinstance(self.state.votes, VoteColumns)
        if stated.board:
            board = published_board(self.state, self.state.votes)
            for what in differing([RatedModel(*row) for row in stated.board], board):
                self.find("heads", f"seq {self.state.seq}", f"its board is not what the log says: {what}")

    def _compare(self, noted: NotedEvents) -> None:
        """Compare the rows that a page changed with those of the table; later pages may change them once more."""
        self.served += len(noted.new)
        rows: dict[str, Row] = {}
        for name, row in noted.new.items():
            (self.open_rows if row[STATUS] == OPEN else rows)[name] = row
        changed = {str(values[-1]) for _, values in noted.changes}
        there = self._rows([name for name in changed if name not in self.open_rows and name not in self.differ])
        rows |= there  # they were equal so far
        for name in changed:
            if name in self.open_rows:
                rows[name] = self.open_rows.pop(name)
            elif name in self.differ:
                rows[name] = self.differ.pop(name)[1]
        for change in noted.changes:
            name = change[1][-1]
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
        if count != self.served - missing:
            self._name_unknown()

    def _name_unknown(self) -> None:
        """Name the matchups of which the log knows nothing."""
        after = self.since
        while rows := self.connection.rows(
            "SELECT m.id, m.seq, e.body FROM matchups m LEFT JOIN events e ON e.seq = m.seq "
            "WHERE m.seq > ? ORDER BY m.seq LIMIT ?",
            after,
            log.PAGE,
        ):
            for name, _, text in rows:
                if text is None or label_of(text) != Label("matchup_served", name):
                    self.find("matchups", f"id {name}", "does not follow from the log")
            after = rows[-1][1]

    def _rows(self, ids: Sequence[str]) -> dict[str, Row]:
        query = f"SELECT {', '.join(COLUMNS)} FROM matchups WHERE id IN ??"
        return {row[0]: row for row in self.connection.rows(query, list(ids))} if ids else {}
