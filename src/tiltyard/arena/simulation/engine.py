"""What a simulation drives: an engine that serves and takes votes. The ledger here is the smallest one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from tiltyard.arena import events as e
from tiltyard.arena.matchmaking import Matchmaker, Past, served_event
from tiltyard.arena.memory_book import MemoryBook
from tiltyard.arena.state import ArenaState, CastVote
from tiltyard.arena.tallies import pair_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Engine(Protocol):
    """Serves matchups and takes votes; times are microseconds. Who was served is in `state.schedule.in_flight`."""

    @property
    def state(self) -> ArenaState:
        """The state after everything that happened."""
        ...

    def append(self, bodies: Iterable[e.AnyBody], at: int) -> None:
        """Let things happen that no voter does: models and prompts come, the phase changes."""
        ...

    def serve(self, voter: str, at: int) -> str:
        """Serve a matchup to a voter; its id."""
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

    def votes(self) -> Sequence[CastVote]:
        """Every vote, in the order of the log."""
        ...


class Ledger:
    """An engine without a store: it numbers events and applies them to a state in memory."""

    def __init__(self, seed: int = 0, expected_votes: int = 0) -> None:
        self._book = MemoryBook()
        self.state = ArenaState(self._book)
        self.state.track.expect(expected_votes)
        self._seeds = np.random.default_rng([seed, 1])
        self._next_matchup = Matchmaker()
        self._pasts: dict[str, Past] = {}

    def append(self, bodies: Iterable[e.AnyBody], at: int) -> None:
        """Number events and apply them."""
        for body in bodies:
            self.state.apply(self.state.seq + 1, e.Event(at, body))

    def serve(self, voter: str, at: int) -> str:
        """Choose a matchup from the state and this voter's past, and write it down."""
        state = self.state
        seed = int(self._seeds.integers(1 << 62))
        past = self._pasts.setdefault(voter, Past())
        chosen = self._next_matchup(state, np.random.default_rng(seed), past)
        past.note((*pair_of(chosen.a, chosen.b), chosen.prompt), state.seq)
        matchup_id = f"{state.seq + 1:032x}"
        served = served_event(state, chosen, matchup_id=matchup_id, voter=voter, seed=seed, at=at)
        self.append([served], at)
        return matchup_id

    def vote(self, matchup_id: str, voter: str, choice: e.Choice, at: int) -> None:  # noqa: ARG002
        """Write a vote down."""
        self.append([e.Voted(matchup_id=matchup_id, choice=choice)], at)

    def skip(self, matchup_id: str, voter: str, at: int) -> None:  # noqa: ARG002
        """Write a skip down."""
        self.append([e.Skipped(matchup_id=matchup_id)], at)

    def expire(self, matchup_id: str, at: int) -> None:
        """Write down that nobody voted."""
        self.append([e.Expired(matchup_id=matchup_id)], at)

    def votes(self) -> Sequence[CastVote]:
        """Every vote, in the order of the log."""
        return self._book.votes
