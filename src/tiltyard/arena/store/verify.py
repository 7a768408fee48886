"""Verifying an arena's tables: everything is rebuilt from the log and compared bit for bit.

The log itself is checked by its chain of hashes. A chain cannot show that its end was cut off together with everything
derived from it, or that all of it was written anew: keep `Verification.head` elsewhere, and pass it as `heads` later.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import sqlalchemy as sa

from tiltyard.arena.catalog import Catalog
from tiltyard.arena.chain import FIRST_HASH, Version, chain_hash, link_event, link_events
from tiltyard.arena.events import ChainUpgraded, Event, decode_body, decode_events
from tiltyard.arena.folding import rare_collection
from tiltyard.arena.heads import Head
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store import Store, log
from tiltyard.arena.store.bulk import Row, fetch, insert_rows
from tiltyard.arena.store.comparing import ComparedMatchups, ComparedVotes, compare_tables
from tiltyard.arena.store.explanations import changed_comments
from tiltyard.arena.store.files import damaged_files
from tiltyard.arena.store.projections import CHECKPOINT_EVERY
from tiltyard.arena.store.publications import latest_publication, recomputed
from tiltyard.arena.store.rebuild import Link, TableRebuild, empty_projections, link_rows, tail
from tiltyard.arena.store.seals import Seal, Seals
from tiltyard.arena.store.state_bytes import decode_state
from tiltyard.arena.store.tables import chain, metadata, pending
from tiltyard.arena.store.tables import heads as head_table
from tiltyard.errors import ArenaError, StoreError

NAMED_PER_TABLE = 20
"""How many differences are listed individually; the rest are counted."""


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
    """What `verify` found. `head` is the last sequence number and its hash; `unchained` counts the pending events."""

    events: int
    votes: int
    head: tuple[int, str]
    unchained: int
    problems: tuple[Discrepancy, ...]
    more_problems: int
    since: int = 0
    """The number of the seal from which on everything was verified; 0: from the beginning."""

    @property
    def clean(self) -> bool:
        """Whether everything agrees with the log."""
        return not self.problems


def verify(
    url: str, checkpoint_every: int = CHECKPOINT_EVERY, heads: Iterable[Head] = (), seals: Seals | None = None
) -> Verification:
    """The findings about the arena at a URL, as it was at one moment; it may be in use meanwhile.

    Parameters:
        url: `sqlite:///path` or `postgresql://user@host/database`.
        checkpoint_every: Events between two checkpoints of the state.
        heads: Heads that were kept elsewhere; the log must contain each of them.
        seals: What was verified earlier, from where on to verify; segments that end meanwhile are noted in it.
    """
    store = Store.open(url)
    try:
        with store.database.read() as source, _scratch() as target, rare_collection:
            checked = _Checked()
            checked.expect(heads, "the head that was kept")
            checked.expect(published_heads(source), "the head in the table `heads`")
            since = 0 if seals is None or seals.last is None else seals.last.seq
            book = ComparedVotes(source, target, since)
            sink = ComparedMatchups(source, whole=not since)
            state = None if seals is None or seals.last is None else _sealed(source, seals.last, book, checked)
            fold = TableRebuild(target, checkpoint_every, log.head(source)[0], book, sink, state)
            unplaced = _refold(source, fold, checked, seals)
            checked.check_end()
            if not checked.broken:
                sink.report(checked)
                book.report(checked)
                compare_tables(source, target, checked, since)
            if not checked.problems:
                _check_publication(store, source, fold.state.catalog, checked)
            for name in changed_comments(source):
                checked.find("comments", name, "the comment is not the one that its event has the digest of")
            _check_pending(source, {event_id for event_id, _, _ in unplaced}, checked)
            for name, what in damaged_files(source):
                checked.find("files", f"sha256 {name[:16]}…", what)
            votes = int(fold.state.tallies.rated.sum() + fold.state.tallies.both_bad.view.sum()) // 2
            problems = tuple(checked.problems)
            return Verification(fold.state.seq, votes, checked.head, len(unplaced), problems, checked.unnamed, since)
    finally:
        store.close()


def _sealed(source: sa.Connection, seal: Seal, book: ComparedVotes, checked: _Checked) -> ArenaState | None:
    """The sealed state to go on from. The log must still have the sealed head, and all heads before it."""
    checked.expect([Head(seal.seq, seal.hash)], f"the head in {seal.name}")
    for number in sorted(seq for seq in checked.expected if 0 < seq <= seal.seq):
        rows = fetch(source, _one_link, {"seq": number})
        if rows:
            checked.check_head(Link(number, 0, rows[0][0], None, None, None))
        else:
            checked.find("chain", f"number {number}", "is missing")
            checked.expected.pop(number)
    checked.head, checked.version = (seal.seq, seal.hash), 2
    return decode_state(seal.state_bytes(), book)


def rebuild(url: str, checkpoint_every: int = CHECKPOINT_EVERY) -> None:
    """Delete every projection and rebuild it from the log, in one transaction. A broken log is refused."""
    store = Store.open(url)
    try:
        with store.database.write() as connection, rare_collection:
            store.database.lock_projector(connection, wait=True)
            empty_projections(connection)
            checked = _Checked()
            fold = TableRebuild(connection, checkpoint_every, log.head(connection)[0])
            unplaced = _refold(connection, fold, checked)
            if checked.problems:
                raise StoreError(f"{checked.problems[0]}. Nothing was rebuilt: restore the log from a backup first.")
            insert_rows(connection, pending, [(event_id,) for event_id, _, _ in unplaced])
    finally:
        store.close()


@dataclass(slots=True)
class _Checked:
    problems: list[Discrepancy] = field(default_factory=list)
    unnamed: int = 0
    broken: bool = False
    """The log could not be folded to its end, so there is nothing to compare with."""
    head: tuple[int, str] = (0, FIRST_HASH)
    version: Version | None = None
    """The version of the chain; None before the first event."""
    salted: str | None = FIRST_HASH
    """In a chain of version 1, the link of version 2 over the same events; None if one of them has no salt."""
    expected: dict[int, list[tuple[str, str]]] = field(default_factory=dict)
    """Heads that the log must contain, by number: hash, and where it comes from."""

    def expect(self, heads: Iterable[Head], whose: str) -> None:
        for head in heads:
            self.expected.setdefault(head.seq, []).append((head.hash, whose))

    def check_head(self, link: Link) -> None:
        """Compare the log with the heads that were kept of this number."""
        for digest, whose in self.expected.pop(link.seq, ()):
            if digest != link.hash:
                self.find(
                    "head",
                    f"number {link.seq}",
                    f"{whose} is {digest[:16]}…, and the log has {link.hash[:16]}…: something up to here was rewritten",
                )

    def check_end(self) -> None:
        """Name the heads beyond the end of the log."""
        for seq, kept in sorted(self.expected.items()):
            for digest, whose in kept:
                if seq or digest != FIRST_HASH:
                    what = f"{whose} is {digest[:16]}…, and the log ends with number {self.head[0]}: it was cut"
                    self.find("head", f"number {seq}", what)

    def find(self, table: str, where: str, what: str) -> None:
        if sum(problem.table == table for problem in self.problems) < NAMED_PER_TABLE:
            self.problems.append(Discrepancy(table, where, what))
        else:
            self.unnamed += 1


def _refold(
    source: sa.Connection, fold: TableRebuild, checked: _Checked, seals: Seals | None = None
) -> list[tuple[int, int, str]]:
    """Check the chain and fold it; returns the events that are not in it."""
    unplaced = tail(source, _before(source, fold.state.seq))
    for rows in link_rows(source, fold.state.seq):
        _, head = checked.head
        good = rows if _fit_together(rows, checked) else _check_links(list(map(Link._make, rows)), checked)
        if checked.broken:
            continue
        try:
            if good:
                _, _, hashes, times, texts, _ = zip(*good, strict=True)
                _take(fold, decode_events(times, texts), (head, *hashes), checked, seals)
        except (ArenaError, msgspec.DecodeError) as error:
            checked.broken = True
            checked.find("events", f"after number {fold.state.seq}", f"cannot be taken in: {error}")
    if not checked.broken:
        fold.finish([Event(at, decode_body(text)) for _, at, text in unplaced])
    return unplaced


def _take(
    fold: TableRebuild, events: list[Event], heads: Sequence[str], checked: _Checked, seals: Seals | None
) -> None:
    """Fold events, and note the ends of segments; `heads` are the hashes before the first and after each of them."""
    done = 0
    for cut in seals.cuts(fold.state, events) if seals is not None and checked.version == 2 else ():
        fold.take(events[done:cut])
        assert seals is not None
        seals.note(fold.state, heads[cut], checked)
        done = cut
    fold.take(events[done:])


UNPLACED_WITHIN = 100_000
"""From a seal on, events that are not in the chain are looked for among those with ids not lower than this before."""


def _before(source: sa.Connection, seq: int) -> int:
    """An id before those of all events that come after a number."""
    rows = fetch(source, _one_link, {"seq": seq}) if seq else []
    return int(rows[0][1]) - UNPLACED_WITHIN if rows else 0


def _fit_together(page: list[Row], checked: _Checked) -> bool:
    """Whether nothing at all is wrong with the links of a page of version 2. If not, nothing is concluded here."""
    seqs, _, hashes, times, texts, salts = zip(*page, strict=True)
    seq, head = checked.head
    if checked.version == 1 or seqs[0] != seq + 1 or seqs[-1] != seq + len(page):
        return False
    if None in texts or None in times or None in salts or any(text.startswith(_UPGRADED) for text in texts):
        return False
    if tuple(link_events(head, seq, times, texts, salts)) != hashes:
        return False
    for number in [number for number in checked.expected if seq < number <= seqs[-1]]:
        checked.check_head(Link._make(page[number - seq - 1]))
    checked.head, checked.version = (seqs[-1], hashes[-1]), 2
    return True


def _check_links(page: list[Link], checked: _Checked) -> Sequence[Row]:
    """The links up to the first whose event is missing. After a wrong hash, checking goes on from the stored one."""
    for place, link in enumerate(page):
        seq, _ = checked.head
        if link.seq != seq + 1:
            checked.find("chain", f"number {seq + 1}", f"is missing; {link.seq} comes next")
            checked.broken = True
        if link.text is None or link.at is None:
            checked.find("events", f"number {link.seq}", f"the event (id {link.event_id}) is missing")
            checked.broken = True
        else:
            _check_hash(link, link.at, link.text, checked)
        checked.head = (link.seq, link.hash)
        checked.check_head(link)
        if checked.broken:
            for later in page[place + 1 :]:
                checked.head = (later.seq, later.hash)
                checked.check_head(later)
            return page[:place]
    return page


def _check_hash(link: Link, at: int, text: str, checked: _Checked) -> None:
    """Check one link by the version of the chain at its place, which changes at most once."""
    _, previous = checked.head
    salted = None if link.salt is None else link_event(previous, link.seq, at, text, link.salt)
    if checked.version is None:
        checked.version = 2 if salted == link.hash else 1
    if text.startswith(_UPGRADED):
        _check_change(link, text, checked)
    expected = salted if checked.version == 2 else chain_hash(previous, link.seq, at, text)
    if expected != link.hash:
        checked.find("chain", f"number {link.seq}", "the hash does not fit: event, time, order or hash was changed")
    if checked.version == 1 and checked.salted is not None:
        before, salt = checked.salted, link.salt
        checked.salted = None if salt is None else link_event(before, link.seq, at, text, salt)


_one_link = sa.select(chain.c.hash, chain.c.event_id).where(chain.c.seq == sa.bindparam("seq"))

_UPGRADED = '{"kind":"chain_upgraded"'


def _check_change(link: Link, text: str, checked: _Checked) -> None:
    """The chain changes its version with this event; what it says of the log so far must be true."""
    body = decode_body(text)
    assert isinstance(body, ChainUpgraded)
    if checked.version == 2:
        checked.find("chain", f"number {link.seq}", "changes the version of the chain, which has version 2 already")
    elif (body.until, body.head, body.link) != (*checked.head, checked.salted):
        checked.find("chain", f"number {link.seq}", "what it says of the chain before it is not so")
    checked.version = 2


def published_heads(connection: sa.Connection) -> list[Head]:
    """The heads that this arena has published."""
    return [Head(seq, digest) for seq, digest in connection.execute(sa.select(head_table.c.seq, head_table.c.hash))]


def _check_publication(store: Store, source: sa.Connection, catalog: Catalog, checked: _Checked) -> None:
    """Compute the weights and ratings of the latest publication once more."""
    published = latest_publication(source)
    if published is None:
        return
    if published.seq > checked.head[0]:
        checked.find("publications", f"seq {published.seq}", "is of an event that is not in the log")
        return
    fresh = recomputed(store, published, catalog)
    names = [name for name in published.__slots__ if getattr(published, name) != getattr(fresh, name)]
    if names:
        checked.find("publications", f"seq {published.seq}", f"{', '.join(names)} differ from what the log says")


def _check_pending(source: sa.Connection, unplaced: set[int], checked: _Checked) -> None:
    noted = set(source.execute(sa.select(pending.c.event_id)).scalars())
    for event_id in sorted(unplaced - noted):
        checked.find("pending", f"event id {event_id}", "is not in the chain, and not pending either")
    for event_id in sorted(noted - unplaced):
        checked.find("pending", f"event id {event_id}", "is in the chain already, or is missing")


@contextmanager
def _scratch() -> Iterator[sa.Connection]:
    """Empty tables in a temporary file, which need no durability."""
    with tempfile.TemporaryDirectory(prefix="tiltyard-verify-") as folder:
        engine = sa.create_engine(f"sqlite:///{Path(folder) / 'scratch.db'}")
        try:
            with engine.connect() as connection:
                for setting in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -262144"):
                    connection.exec_driver_sql(f"PRAGMA {setting}")
                metadata.create_all(connection)
                yield connection
                connection.rollback()
        finally:
            engine.dispose()
