"""The period of a weekly report read off a log: for small arenas, simulations and tests. A store has its own way."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.arena import events as e
from tiltyard.arena.memory_book import MemoryBook
from tiltyard.arena.state import ArenaState
from tiltyard.arena.vote_table import vote_table
from tiltyard.arena.weekly import Look, Note, Period, Served, look_at, note_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DAY = 86_400 * 1_000_000
"""Looks are a day apart: hour by hour, models that are level would seem to swap all the time."""


def period_of_log(events: Iterable[e.Event], since: int, *, every: int = DAY) -> tuple[ArenaState, Period]:
    """The state at the end of a log, and the period from `since` to its last event, looked at every so often."""
    book = MemoryBook()
    state = ArenaState(book)
    looks: list[Look] = []
    within = _Within()
    due = since
    for seq, event in enumerate(events, start=1):
        # Looked at when somebody is served: an arena that is still being filled has nothing to look at.
        while event.at >= due and isinstance(event.body, e.MatchupServed):
            looks.append(look_at(state, due))
            due += every
        state.apply(seq, event)
        if event.at >= since:
            within.take(event.body)
    return state, within.period(since, state, tuple(looks), book)


def closed_only(kinds: Mapping[str, int], served: Iterable[str], state: ArenaState) -> dict[str, int]:
    """Counts of events by kind, in which a matchup counts as served once it is closed."""
    still_open = sum(name in state.schedule.in_flight for name in served)
    return {kind: n - still_open if kind == "matchup_served" else n for kind, n in kinds.items()}


class _Within:
    """What happened within the period."""

    def __init__(self) -> None:
        self.served: list[e.MatchupServed] = []
        self.kinds: Counter[str] = Counter()
        self.flags: list[Note] = []
        self.exclusions: list[Note] = []

    def take(self, body: e.Body) -> None:
        """Take in one event of the period."""
        self.kinds[str(body.__struct_config__.tag)] += 1
        match body:
            case e.MatchupServed():
                self.served.append(body)
            case e.Flagged():
                self.flags.append(note_of(body))
            case e.Excluded() | e.Restored():
                self.exclusions.append(note_of(body))

    def period(self, since: int, state: ArenaState, looks: tuple[Look, ...], book: MemoryBook) -> Period:
        """The period as the report wants it."""
        votes = vote_table(book.votes, state.catalog)
        voted = set(votes.matchup_ids)
        counted = [body for body in self.served if body.matchup_id in voted]
        served = Served(
            np.array([state.catalog.model(body.model_a) for body in counted], dtype=np.int64),
            np.array([state.catalog.model(body.model_b) for body in counted], dtype=np.int64),
            dict(Counter(body.lane for body in counted)),
        )
        return Period(
            since=since,
            until=state.at,
            looks=looks,
            votes=votes,
            served=served,
            events=closed_only(self.kinds, (body.matchup_id for body in self.served), state),
            flags=tuple(self.flags),
            exclusions=tuple(self.exclusions),
        )
