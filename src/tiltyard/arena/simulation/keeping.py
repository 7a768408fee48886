"""Keeping the log of a simulation: the same events in a real database, where anybody can verify and rate them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tiltyard.arena.events import Event, MatchupServed
from tiltyard.arena.simulation.engine import Ledger
from tiltyard.arena.store import Store, log

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tiltyard.arena.events import AnyBody
    from tiltyard.arena.simulation.settings import SimulationSettings

AT_ONCE = 5_000
FIRST_DAY = 1_767_225_600_000_000
"""Simulated time begins on 1 January 2026, so that reports of it have dates."""


class Recorder(Ledger):
    """A ledger that keeps its events."""

    def __init__(self, seed: int, expected_votes: int) -> None:
        super().__init__(seed, expected_votes)
        self.events: list[Event] = []

    def append(self, bodies: Iterable[AnyBody], at: int) -> None:
        """Number events, apply them and keep them."""
        kept = list(bodies)
        super().append(kept, at)
        self.events += [Event(at, body) for body in kept]


def recorder(settings: SimulationSettings) -> Recorder:
    """An empty ledger for a simulation."""
    return Recorder(settings.seed, settings.votes)


def keep_log(events: Sequence[Event], url: str) -> None:
    """Write the events to a new arena, chained and with all its tables."""
    from tiltyard.arena.store.verify import rebuild

    store = Store.create(url)
    try:
        replica = store.load()
        for start in range(0, len(events), AT_ONCE):
            part = [_dated(event) for event in events[start : start + AT_ONCE]]
            with store.database.write() as connection:
                log.leave_pending(connection, log.write_events(connection, part))
            store.follow(replica)
    finally:
        store.close()
    rebuild(url)


def _dated(event: Event) -> Event:
    body = event.body
    if isinstance(body, MatchupServed):
        body = msgspec.structs.replace(body, expires_at=body.expires_at + FIRST_DAY)
    return Event(event.at + FIRST_DAY, body)
