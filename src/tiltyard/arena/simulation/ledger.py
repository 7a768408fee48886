"""What a simulation drives: an in-memory arena that serves and takes votes; and saving its log to a real database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec
import numpy as np

from tiltyard.arena import events as e
from tiltyard.arena.events import AnyBody, Event, MatchupServed
from tiltyard.arena.matchmaking import Matchmaker, SeenMatchups, served_event
from tiltyard.arena.ratings import after_votes, rate_votes
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store import Store, log
from tiltyard.arena.store.matchups import NotedEvents
from tiltyard.arena.tallies import pair_of
from tiltyard.arena.votes import VoteColumns
from tiltyard.arena.waiting import WaitingPairs, again_for, shown_pair

AT_ONCE = 5_000

FIRST_DAY = 1_767_225_600_000_000
"""Simulated time begins on 1 January 2026, so that reports of it have dates."""


class SimulatedArena(Protocol):
    """Serves matchups and takes votes; times are microseconds. Who was served is in `state.schedule.in_flight`."""

    @property
    def state(self) -> ArenaState:
        """The state after everything that happened."""
        ...

    def append(self, bodies: Iterable[e.AnyBody], at: int) -> None:
        """Apply events not caused by voters: added models and prompts, phase changes."""
        ...

    @property
    def reason(self) -> str:
        """Why the matchup that was served last was chosen."""
        ...

    def serve(self, voter: str, at: int, block: str = "") -> str:
        """Serve a matchup to a voter, from an address block if one is named; its id."""
        ...

    def vote(self, matchup_id: str, voter: str, choice: e.Choice, at: int) -> None:
        """Take a vote."""
        ...

    def skip(self, matchup_id: str, voter: str, at: int) -> None:
        """Take a skip."""
        ...

    def expire(self, matchup_id: str, at: int) -> None:
        """Nobody voted in time."""
        ...

    def votes(self) -> VoteColumns:
        """Every vote, in the order of the log."""
        ...


class MemoryArena:
    """An engine without a store: it numbers events, applies them to a state in memory, and rates each vote."""

    def __init__(self, seed: int = 0) -> None:
        self._votes = VoteColumns()
        self.state = ArenaState(self._votes)
        self.reason = ""
        self._seeds = np.random.default_rng([seed, 1])
        self._next_matchup = Matchmaker()
        self._seen: dict[str, SeenMatchups] = {}
        self._waiting = WaitingPairs()

    def append(self, bodies: Iterable[e.AnyBody], at: int) -> None:
        """Number events and apply them."""
        state = self.state
        for body in bodies:
            pair = None
            if isinstance(body, e.Voted):
                served = state.schedule.in_flight[body.matchup_id]
                pair = (served.a, served.b)
            state.apply(state.seq + 1, e.Event(at, body))
            self._waiting.close(body, at)
            if isinstance(body, e.Voted) and pair is not None:
                state.show(after_votes(state.ratings, [(*pair, body.choice)], state.policy.rating))
            elif isinstance(body, e.Undone | e.Excluded | e.Restored):
                state.show(rate_votes(self._votes.table(state.catalog), state.policy.rating))

    def serve(self, voter: str, at: int, block: str = "") -> str:
        """Choose a matchup from the state and what this voter has seen, and record it."""
        state = self.state
        seed = int(self._seeds.integers(1 << 62))
        seen = self._seen.setdefault(voter, SeenMatchups())
        rng, again = np.random.default_rng(seed), self._next_matchup.prompt_for_pair
        rules = state.policy.waiting
        if block and not self._waiting.knows(block):
            self._waiting.enter(block, rules)
        if block and not self._waiting.knows_session(voter):
            self._waiting.enter_session(voter, rules)
        chosen = self._waiting.choose(
            (block, voter), rules, at, again_for(again, state, rng, seen), lambda: self._next_matchup(state, rng, seen)
        )
        self.reason = chosen.reason
        seen.note((*pair_of(chosen.a, chosen.b), chosen.prompt), state.seq)
        matchup_id = f"{state.seq + 1:032x}"
        served = served_event(state, chosen, matchup_id=matchup_id, voter=voter, seed=seed, at=at, block=block)
        self.append([served], at)
        self._waiting.served(matchup_id, shown_pair(served, chosen.a, chosen.b, chosen.prompt, at), rules)
        return matchup_id

    def vote(self, matchup_id: str, voter: str, choice: e.Choice, at: int) -> None:  # noqa: ARG002
        """Record a vote."""
        self.append([e.Voted(matchup_id=matchup_id, choice=choice)], at)

    def skip(self, matchup_id: str, voter: str, at: int) -> None:  # noqa: ARG002
        """Record a skip."""
        self.append([e.Skipped(matchup_id=matchup_id)], at)

    def expire(self, matchup_id: str, at: int) -> None:
        """Record that nobody voted."""
        self.append([e.Expired(matchup_id=matchup_id)], at)

    def votes(self) -> VoteColumns:
        """Every vote, in the order of the log."""
        return self._votes


class RecordingArena(MemoryArena):
    """A ledger that keeps its events."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.events: list[Event] = []

    def append(self, bodies: Iterable[AnyBody], at: int) -> None:
        """Number events, apply them and keep them."""
        kept = list(bodies)
        super().append(kept, at)
        self.events += [Event(at, body) for body in kept]


def keep_log(events: Sequence[Event], url: str) -> None:
    """Write the events to a new arena."""
    Store.create(url).close()
    fill_log([_dated(event) for event in events], url)


def fill_log(events: Sequence[Event], url: str, new_salt: Callable[[], str] = log.new_salt) -> None:
    """Write the events to an empty arena."""
    store = Store.open(url)
    state = ArenaState()
    try:
        for start in range(0, len(events), AT_ONCE):
            part, rows = events[start : start + AT_ONCE], NotedEvents()
            with store.database.write(lock=True) as connection:
                log.append_events(connection, part, *log.head(connection), new_salt)
                for event in part:
                    rows.apply(state, event)
                rows.write(connection)
    finally:
        store.close()


def _dated(event: Event) -> Event:
    body = event.body
    if isinstance(body, MatchupServed):
        body = msgspec.structs.replace(body, expires_at=body.expires_at + FIRST_DAY)
    return Event(event.at + FIRST_DAY, body)
