"""Comparing an arena's tables with what follows from its log, bit for bit.

Votes and matchups, which grow with the log, are compared while it is folded, page by page. Their status may still
change later in the log, so a row that differs is kept until the end. All other tables are made anew in a scratch
database and compared as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, Protocol

import sqlalchemy as sa

from tiltyard.arena.chain import label_of
from tiltyard.arena.state import CastVote, VoteStanding
from tiltyard.arena.store.bulk import Row, fetch, insert_rows, one_of, ordered_rows
from tiltyard.arena.store.rebuild import COLUMNS
from tiltyard.arena.store.state_bytes import is_of_another_version
from tiltyard.arena.store.tables import (
    PROJECTIONS,
    changes,
    checkpoints,
    events,
    matchups,
    models,
    prompts,
    responses,
    snapshots,
    votes,
)
from tiltyard.arena.store.vote_book import SqlVoteBook

KEPT_DIFFERENCES = 100_000
"""Rows that may differ at a time and be found equal later; in a table with more of them, the rest are not looked at."""

ROWS_AT_ONCE = 10_000

_matchups = sa.select(matchups).where(one_of(matchups.c.id, "ids"))
_votes = sa.select(votes).where(votes.c.seq > sa.bindparam("after"), votes.c.seq <= sa.bindparam("until"))
_votes = _votes.order_by(votes.c.seq)
_these_votes = sa.select(votes).where(one_of(votes.c.seq, "seqs"))
_STANDING = votes.c.keys().index("standing")
_ids = sa.select(matchups.c.id).where(matchups.c.id > sa.bindparam("after")).order_by(matchups.c.id).limit(ROWS_AT_ONCE)
_served = sa.select(events.c.id, events.c.body).where(events.c.id > sa.bindparam("after")).order_by(events.c.id)
_served = _served.limit(ROWS_AT_ONCE)


class Finder(Protocol):
    """Takes down what is wrong."""

    def find(self, table: str, where: str, what: str) -> None:
        """Take down one difference: table, row, and what is wrong."""
        ...


class ComparedVotes(SqlVoteBook):
    """A book that compares each new vote with the row that the arena has of it, instead of writing it a second time.

    Votes and saved ratings that are needed again are taken as the arena has them: each of these rows is compared, so
    none of them is wrong where nothing is found. Which votes count follows from the log alone.

    Parameters:
        source: The arena.
        target: The scratch tables, for the changes of votes.
        after: Votes up to this number are not compared.
    """

    def __init__(self, source: sa.Connection, target: sa.Connection, after: int) -> None:
        super().__init__(source, writes=True)
        self._source = source
        self._target = target
        self._after = self._until = after
        self._differ: dict[int, tuple[Row | None, Row | None]] = {}
        """By number: the row that the arena has, and the one that follows from the log."""
        self._standing: dict[int, str] = {}
        """The last status of the votes whose status changed."""

    def keep(self, rows: list[Row]) -> None:
        """Compare new rows."""
        self._compare(rows, rows[-1][0])

    def change(self, changed: Iterable[CastVote], standing: VoteStanding) -> None:
        """Write that the status of votes changed, so that it can be compared."""
        self.flush()
        listed = list(changed)
        rows = [(self.seq, vote.seq, vote.standing.value, standing.value) for vote in listed]
        insert_rows(self._target, changes, rows)
        self._standing.update((vote.seq, standing.value) for vote in listed)

    def standing_of(self, seq: int, stored: str) -> str:
        """The status that follows from the log; only of votes that are not compared, the one that the arena has."""
        return self._standing.get(seq, stored if seq <= self._after else "counted")

    def report(self, finder: Finder) -> None:
        """Name the votes that differ after the whole log."""
        self.flush()
        self._compare([], None)
        equal_so_far = sorted(self._standing.keys() - self._differ.keys())
        for start in range(0, len(equal_so_far), ROWS_AT_ONCE):
            rows = fetch(self._source, _these_votes, {"seqs": equal_so_far[start : start + ROWS_AT_ONCE]})
            self._differ |= {row[0]: (row, row) for row in rows}
        for seq, (ours, fresh) in sorted(self._differ.items()):
            now = self._standing.get(seq)
            name_difference(votes, ours, fresh if fresh is None or now is None else _with_standing(fresh, now), finder)

    def _compare(self, rows: list[Row], until: int | None) -> None:
        span = {"after": self._until, "until": 2**62 if until is None else until}
        there = fetch(self._source, _votes, span)
        self._until = self._until if until is None else until
        if there == rows or len(self._differ) > KEPT_DIFFERENCES:
            return
        known, fresh = {row[0]: row for row in there}, {row[0]: row for row in rows}
        for seq in known.keys() | fresh.keys():
            if known.get(seq) != fresh.get(seq):
                self._differ[seq] = (known.get(seq), fresh.get(seq))


def _with_standing(row: Row, standing: str) -> Row:
    return (*row[:_STANDING], standing, *row[_STANDING + 1 :])


class ComparedMatchups:
    """A sink that compares the rows of matchups with those that the arena has.

    Parameters:
        source: The arena.
        whole: Whether the arena may have no others.
    """

    def __init__(self, source: sa.Connection, *, whole: bool = True) -> None:
        self._source = source
        self._whole = whole
        self._count = 0
        self._differ: dict[str, tuple[Row | None, list[Any]]] = {}
        """By matchup: the row that the arena has, and the one that follows from the log."""

    def insert(self, rows: list[Row]) -> None:
        """Compare new rows."""
        self._count += len(rows)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[start : start + ROWS_AT_ONCE]
            there = {row[0]: row for row in fetch(self._source, _matchups, {"ids": [row[0] for row in part]})}
            for row in part:
                if there.get(row[0]) != row and len(self._differ) <= KEPT_DIFFERENCES:
                    self._differ[row[0]] = (there.get(row[0]), list(row))

    def change(self, matchup_id: str, values: dict[str, object]) -> None:
        """A matchup changed after it was compared."""
        if matchup_id not in self._differ:
            there = fetch(self._source, _matchups, {"ids": [matchup_id]})
            if not there:
                return
            self._differ[matchup_id] = (there[0], list(there[0]))  # they were equal so far
        for name, value in values.items():
            self._differ[matchup_id][1][COLUMNS[name]] = value

    def report(self, finder: Finder) -> None:
        """Name the matchups that differ after the whole log."""
        missing = 0
        for _, (there, fresh) in sorted(self._differ.items()):
            missing += there is None
            name_difference(matchups, there, tuple(fresh), finder)
        if len(self._differ) > KEPT_DIFFERENCES:
            finder.find("matchups", f"beyond {KEPT_DIFFERENCES:,} rows", "further ones were not compared")
            return
        if not self._whole:
            return
        number = fetch(self._source, sa.select(sa.func.count()).select_from(matchups))[0][0]
        if number != self._count - missing:
            for name in self._unknown():
                finder.find("matchups", f"id {name}", "does not follow from the log")

    def _unknown(self) -> Iterator[str]:
        """The matchups of which the log knows nothing. All its served matchups are read again."""
        known, last_event, last = set[str](), 0, ""
        while rows := fetch(self._source, _served, {"after": last_event}):
            known.update(name for kind, name in (label_of(text) for _, text in rows) if kind == "matchup_served")
            last_event = rows[-1][0]
        while names := [row[0] for row in fetch(self._source, _ids, {"after": last})]:
            yield from (name for name in names if name not in known)
            last = names[-1]


def compare_tables(source: sa.Connection, target: sa.Connection, finder: Finder, after: int = 0) -> None:
    """Compare all other projections, row by row, both sorted by their keys; with `after`, what is newer than that."""
    for table in PROJECTIONS:
        if table in (votes, matchups):
            continue
        there, made = ordered_rows(source, table, _since(table, after)), ordered_rows(target, table)
        if after and table in _CATALOG:
            names = {row[: len(table.primary_key)] for part in ordered_rows(target, table) for row in part}
            there = ([row for row in part if row[: len(table.primary_key)] in names] for part in there)
        for ours, fresh in _side_by_side(there, made, len(table.primary_key)):
            if not (table is checkpoints and ours is not None and fresh and is_of_another_version(ours[1])):
                name_difference(table, ours, fresh, finder)


_CATALOG = (models, prompts, responses)


def _since(table: sa.Table, after: int) -> int | None:
    """The number from which on a table has rows that were made after another number; None: all of them."""
    if not after or "seq" not in table.c:
        return None
    return after if table is snapshots else after + 1  # a row of the history has the number before it


def name_difference(table: sa.Table, ours: Row | None, fresh: Row | None, finder: Finder) -> None:
    """Say what is wrong with a row, if anything: `ours` is what the arena has, `fresh` what follows from the log."""
    if ours == fresh:
        return
    if fresh is None and ours is not None:
        finder.find(table.name, _key(table, ours), "does not follow from the log")
    elif ours is None and fresh is not None:
        finder.find(table.name, _key(table, fresh), "is missing")
    elif ours is not None and fresh is not None:
        names = [c.name for c, x, y in zip(table.columns, ours, fresh, strict=True) if x != y]
        finder.find(table.name, _key(table, ours), f"{', '.join(names)} differ from what the log says")


def _side_by_side(
    there: Iterator[list[Row]], made: Iterator[list[Row]], width: int
) -> Iterator[tuple[Row | None, Row | None]]:
    """Rows that differ, or are on one side only. Equal chunks are skipped as a whole."""
    left: list[Row] = []
    right: list[Row] = []
    for piece, other in zip_longest(there, made, fillvalue=list[Row]()):
        left += piece
        right += other
        if left == right:
            left, right = [], []
            continue
        i = j = 0
        while i < len(left) and j < len(right):
            mine, fresh = left[i], right[j]
            if mine[:width] == fresh[:width]:
                if mine != fresh:
                    yield mine, fresh
                i, j = i + 1, j + 1
            elif mine[:width] < fresh[:width]:
                yield mine, None
                i += 1
            else:
                yield None, fresh
                j += 1
        left, right = left[i:], right[j:]
    yield from ((row, None) for row in left)
    yield from ((None, row) for row in right)


def _key(table: sa.Table, row: Row) -> str:
    return ", ".join(f"{c.name} {value}" for c, value in zip(table.primary_key, row, strict=False))
