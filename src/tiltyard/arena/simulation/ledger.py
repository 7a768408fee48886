"""What a simulation drives: an in-memory arena that serves and takes votes; and saving its log to a real database."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing

import msgspec
import numpy as np

from tiltyard.arena.matchmaking.choosing import Matchmaker
from tiltyard.arena.matchmaking.matchup import ChosenMatchup, SeenMatchups, served_event
from tiltyard.arena.matchmaking.waiting import WaitingPairs, again_for
from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.policy import Policy
from tiltyard.arena.rules.ratings import after_votes, rate_votes
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.tallies import pair_of
from tiltyard.arena.rules.votes import VoteColumns
from tiltyard.arena.store import log
from tiltyard.arena.store.matchups import NotedEvents
from tiltyard.arena.store.store import Store

AT_ONCE = 5_000

FIRST_DAY = 1_767_225_600_000_000
"""Simulated time begins on 1 January 2026, so that reports of it have dates."""


class MemoryArena:
    """An arena without a store: it numbers events, applies them to a state, and rates votes. Times are microseconds."""

    def __init__(self, seed: int = 0) -> None:
        self._votes = VoteColumns()
        self.state = ArenaState(self._votes)
        self.chosen: ChosenMatchup
        """The matchup that was served last."""
        self._seeds = np.random.default_rng([seed, 1])
        self._next_matchup = Matchmaker()
        self._seen: dict[str, SeenMatchups] = {}
        self._waiting = WaitingPairs()

    def append(self, bodies: Iterable[e.AnyBody], at: int) -> None:
        state = self.state
        for body in bodies:
            served = state.schedule.in_flight[body.matchup_id] if isinstance(body, e.Voted) else None
            state.apply(state.seq + 1, e.Event(at, body))
            self._waiting.close(body, at)
            if isinstance(body, e.Voted) and served is not None:
                vote = (served.a, served.b, body.choice)
                state.show(after_votes(state.ratings, [vote], state.policy.rating))
            elif isinstance(body, e.Undone | e.Excluded | e.Restored):
                state.show(rate_votes(self._votes.table(state.catalog), state.policy.rating))

    def serve(self, voter: str, at: int, block: str = "") -> str:
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
        self.chosen = chosen
        seen.note((*pair_of(chosen.a, chosen.b), chosen.prompt), state.seq)
        matchup_id = f"{state.seq + 1:032x}"
        served = served_event(state, chosen, matchup_id=matchup_id, voter=voter, seed=seed, at=at, block=block)
        self.append([served], at)
        self._waiting.served(state.schedule.in_flight[matchup_id], rules)
        return matchup_id

    def vote(self, matchup_id: str, choice: e.Choice, at: int) -> None:
        self.append([e.Voted(matchup_id=matchup_id, choice=choice)], at)

    def skip(self, matchup_id: str, at: int) -> None:
        self.append([e.Skipped(matchup_id=matchup_id)], at)

    def expire(self, matchup_id: str, at: int) -> None:
        self.append([e.Expired(matchup_id=matchup_id)], at)

    def votes(self) -> VoteColumns:
        return self._votes


class RecordingArena(MemoryArena):
    """A ledger that keeps its events."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.events: list[e.Event] = []

    def append(self, bodies: Iterable[e.AnyBody], at: int) -> None:
        kept = list(bodies)
        super().append(kept, at)
        self.events += [e.Event(at, body) for body in kept]


def opening(policy: Policy, *, models: int, prompts: int, phase: int = 4) -> Iterator[e.AnyBody]:
    """The events that set up an arena of simulated models."""
    yield e.SettingsChanged(policy=policy)
    yield e.PhaseChanged(phase=phase)
    for number in range(prompts):
        yield e.PromptAdded(prompt_id=f"prompt-{number:03d}", text=f"Prompt {number}")
    for number in range(models):
        yield from add_model(number, prompts)


def add_model(number: int, prompts: int) -> Iterator[e.AnyBody]:
    """The events of a model that enters, with its answers, in which nothing tells who wrote them."""
    name = f"model-{number:03d}"
    yield e.ModelAdded(model=name, display_name=f"Model {number}")
    for prompt in range(prompts):
        answer = f"{name}-{prompt:03d}"
        text = f"A simulated answer, {hashlib.sha256(answer.encode()).hexdigest()[:8]}."
        yield e.ResponseAdded(response_id=answer, model=name, prompt_id=f"prompt-{prompt:03d}", text=text)


def keep_log(events: Sequence[e.Event], url: str) -> None:
    """Write the events to a new arena."""
    Store.create(url).close()
    dated = []
    for event in events:
        body = event.body
        if isinstance(body, e.MatchupServed):
            body = msgspec.structs.replace(body, expires_at=body.expires_at + FIRST_DAY)
        dated.append(e.Event(event.at + FIRST_DAY, body))
    fill_log(dated, url)


def fill_log(events: Sequence[e.Event], url: str, new_salt: Callable[[], str] = log.new_salt) -> None:
    """Write the events to an empty arena."""
    state = ArenaState()
    with closing(Store.open(url)) as store:
        for start in range(0, len(events), AT_ONCE):
            part, rows = events[start : start + AT_ONCE], NotedEvents()
            with store.database.write(lock=True) as connection:
                log.append_events(connection, part, *log.head(connection), new_salt)
                for event in part:
                    rows.apply(state, event)
                rows.write(connection)
