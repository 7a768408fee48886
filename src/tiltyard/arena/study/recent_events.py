"""The events of the last days, as the weekly report of a running site needs them."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.catalog import Catalog
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.votes import NumberedTexts, VoteColumns, VoteTable, view_of
from tiltyard.arena.study.weekly import BoardAt, Note, Period, ServedPairs, note_of


class _OpenMatchup(NamedTuple):
    """A matchup that was served and is not closed yet: when, the numbers of its models by side, and its lane."""

    at: int
    a: int
    b: int
    lane: int


class RecentEvents:
    """The events of the last days, as a report needs them. Voters are not named, because pages are public.

    Every event is a time and a kind, and every vote names its matchup's models: some 45 bytes a vote in all.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._words = NumberedTexts()
        """Kinds of events and names of lanes."""
        self._at, self._kind = array("q"), array("B")
        self._served_at, self._vote = array("q"), array("q")
        self._a, self._b, self._lane = array("I"), array("I"), array("B")
        self._open: dict[str, _OpenMatchup] = {}
        self._notes: deque[tuple[int, str, Note]] = deque()

    def follow(self, events: Iterable[e.Event], seq: int, catalog: Catalog) -> None:
        """Add the events that follow event `seq`, and drop those that are too old to matter."""
        latest = 0
        for number, event in enumerate(events, start=seq + 1):
            self._take(number, event.at, event.body, catalog)
            latest = max(latest, event.at)
        self._drop_before(latest - self._keep)

    def served(self, since: int, votes: VoteColumns) -> ServedPairs:
        inside = np.flatnonzero(view_of(self._served_at) >= since)
        inside = inside[votes.are_counted(view_of(self._vote)[inside])]
        lanes, at = view_of(self._lane)[inside], view_of(self._served_at)[inside]
        known = np.isin(lanes, [self._words.get(lane, -1) for lane in e.LANES])
        by_contender = at[lanes == self._words.get("contender", -1)]
        return ServedPairs(
            view_of(self._a)[inside].astype(np.int64),
            view_of(self._b)[inside].astype(np.int64),
            self._counts(lanes),
            int((known & (at < by_contender.min())).sum() if len(by_contender) else known.sum()),
        )

    def kinds(self, since: int, state: ArenaState) -> Mapping[str, int]:
        counts = self._counts(view_of(self._kind)[view_of(self._at) >= since])
        if "matchup_served" in counts:
            in_flight = state.schedule.in_flight
            counts["matchup_served"] -= sum(at >= since and name in in_flight for name, (at, *_) in self._open.items())
        return counts

    def period(
        self,
        since: int,
        until: int,
        state: ArenaState,
        looks: tuple[BoardAt, ...],
        followed: VoteColumns,
        votes: VoteTable,
    ) -> Period:
        """The days from `since` on, for the report at a state: `followed` are its votes, `votes` those that count."""
        return Period(
            since=since,
            until=until,
            looks=looks,
            votes=votes,
            served=self.served(since, followed),
            events=self.kinds(since, state),
            flags=self.notes(since, "flagged"),
            exclusions=self.notes(since, "excluded", "restored"),
        )

    def notes(self, since: int, *kinds: str) -> tuple[Note, ...]:
        return tuple(note for at, kind, note in self._notes if kind in kinds and at >= since)

    def _take(self, seq: int, at: int, body: e.AnyBody, catalog: Catalog) -> None:
        kind = str(body.__struct_config__.tag)
        self._at.append(at)
        self._kind.append(self._words[kind])
        match body:
            case e.MatchupServed():
                numbers = catalog.model(body.model_a), catalog.model(body.model_b), self._words[body.lane]
                self._open[body.matchup_id] = _OpenMatchup(at, *numbers)
            case e.Voted():
                served = self._open.pop(body.matchup_id, None)
                if served is not None:
                    for column, value in zip(self._of_votes(), (*served, seq), strict=True):
                        column.append(value)
            case e.Skipped() | e.Expired():
                self._open.pop(body.matchup_id, None)
            case e.Flagged() | e.Excluded() | e.Restored():
                self._notes.append((at, kind, note_of(body)))

    def _of_votes(self) -> tuple[array[int], ...]:
        return self._served_at, self._a, self._b, self._lane, self._vote

    def _counts(self, numbers: NDArray[np.uint8]) -> dict[str, int]:
        """How often each text occurs, in the order of their first occurrences."""
        counts = np.bincount(numbers, minlength=len(self._words.texts)).tolist()
        result = [number for number, n in enumerate(counts) if n]
        result.sort(key=lambda number: int(np.argmax(numbers == number)))
        return {self._words.texts[number]: counts[number] for number in result}

    def _drop_before(self, oldest: int) -> None:
        for times, columns in ((self._at, (self._at, self._kind)), (self._served_at, self._of_votes())):
            if times and times[0] < oldest:
                recent = view_of(times) >= oldest
                gone = int(np.argmax(recent)) if recent.any() else len(times)
                for column in columns:
                    del column[:gone]
        while self._notes and self._notes[0][0] < oldest:
            self._notes.popleft()
