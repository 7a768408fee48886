"""The state of an arena: a fold over its events. Same events, same state, to the last bit."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from copy import copy
from itertools import repeat
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from tiltyard.arena import events as e
from tiltyard.arena.catalog import Catalog
from tiltyard.arena.policy import Policy
from tiltyard.arena.rating_track import Ratings, RatingTrack, VoteHistory, grown
from tiltyard.arena.schedule import Reserved, Schedule
from tiltyard.arena.tallies import Tallies
from tiltyard.errors import ArenaError
from tiltyard.types import Floats


class VoteStanding(enum.StrEnum):
    """Whether a vote counts. An undone vote never counts again; an excluded one may be restored."""

    COUNTED = "counted"
    UNDONE = "undone"
    EXCLUDED = "excluded"


class CastVote(msgspec.Struct, frozen=True, gc=False):
    """One vote in the log: its sequence number, models, prompt, choice, and whether it counts."""

    seq: int
    at: int
    matchup_id: str
    voter: str
    a: int
    b: int
    prompt: int
    choice: e.Choice
    standing: VoteStanding = VoteStanding.COUNTED
    block: str = ""
    """The key of the address block or invitation it came from; empty: none is known."""
    lane: str = ""
    """The lane that chose the matchup. Of older votes it is read from the database only where it is needed."""
    unrendered: str = ""
    """Which answers the voter said could not be shown: `A`, `B` or `AB`."""


class CastRun(NamedTuple):
    """Votes one after the other, all of which count, as columns: what `CastVote` says of each."""

    seq: list[int]
    at: list[int]
    matchup_id: list[str]
    voter: list[str]
    a: list[int]
    b: list[int]
    prompt: list[int]
    choice: list[e.Choice]
    block: list[str]
    lane: list[str]
    unrendered: list[str]

    def votes(self) -> list[CastVote]:
        """The votes one by one."""
        counted = repeat(VoteStanding.COUNTED, len(self.seq))
        return list(map(CastVote, *self[:8], counted, *self[8:]))


class VoteBook(VoteHistory, Protocol):
    """Stores every vote, and finds it again when it is removed or restored."""

    def cast(self, vote: CastVote) -> None:
        """Keep a new vote."""
        ...

    def cast_all(self, votes: CastRun) -> None:
        """Keep many new votes."""
        ...

    def find(self, matchup_ids: Iterable[str]) -> list[CastVote]:
        """The votes on these matchups, whether they count or not."""
        ...

    def change(self, votes: Iterable[CastVote], standing: VoteStanding) -> None:
        """Change the status of votes."""
        ...


class ArenaState:
    """Everything that matchmaking, boards and validity need, updated event by event.

    `book` stores the votes, which may outgrow memory. `seq` is the last event applied, `at` its time, and `latest` the
    latest time of any event: events of several servers are not in clock order.
    """

    def __init__(self, book: VoteBook) -> None:
        self.seq = 0
        self.at = 0
        self.latest = 0
        self.policy = Policy()
        self.rules_since = 0
        """The event that last changed the rating rules."""
        self.phase = 1
        self.catalog = Catalog()
        self.tallies = Tallies()
        self.schedule = Schedule(self.policy.window_matchups, self.policy.diversity_last)
        self.track = RatingTrack(self.policy.rating, book)
        self.book = book
        self._given: Ratings | None = None
        self._shown: Ratings | None = None

    def apply(self, seq: int, event: e.Event) -> None:
        """Apply the next event of the log."""
        if seq != self.seq + 1:
            raise ArenaError(f"event {seq} does not follow event {self.seq}: the log has a hole.")
        handler = _HANDLERS.get(type(event.body))
        if handler is not None:
            handler(self, seq, event)
        self.seq = seq
        self.at = event.at
        if event.at > self.latest:
            self.latest = event.at

    @property
    def ratings(self) -> Ratings:
        """The ratings that order, board and matchmaking use: those set by `show`, else the running ones."""
        if self._shown is None:
            return self.track.now
        if len(self._shown.rating) < len(self.catalog.models):
            self._shown = grown(self._shown, self.policy.rating, len(self.catalog.models))
        return self._shown

    def show(self, ratings: Ratings | None) -> None:
        """Use these ratings in place of the running ones (None: the running ones again). The fold is not affected."""
        if ratings is not self._given:
            self._given = self._shown = ratings

    def showing(self, ratings: Ratings | None) -> ArenaState:
        """A view of this state that uses other ratings: it shares everything else, and must not be applied to."""
        view = copy(self)
        view.show(ratings)
        return view

    @property
    def conservative(self) -> Floats:
        """Rating minus two deviations, which defines the official order."""
        now = self.ratings
        return np.asarray(now.rating - 2.0 * now.deviation)

    def order(self) -> list[int]:
        """Enabled models, best first by conservative score; equal ones in the order of their numbers."""
        enabled = [number for number, on in enumerate(self.catalog.model_enabled) if on]
        score = self.conservative
        return sorted(enabled, key=lambda number: (-score[number], number))

    def reserve(self, served: e.MatchupServed) -> None:
        """Count a matchup as served before its event is in the log; the event is then not counted again."""
        self.schedule.reserve(self._reserved(served))

    def release(self, matchup_id: str) -> None:
        """Forget a reserved matchup whose event was never written."""
        self.schedule.release(matchup_id)

    def grow(self) -> None:
        """Make room for every model and prompt of the catalog."""
        models, prompts = len(self.catalog.models), len(self.catalog.prompts)
        self.tallies.grow(models, prompts)
        self.schedule.grow(models, prompts)
        self.track.grow(models)

    def keep_bank_rules(self) -> None:
        """Apply the policy's rules of the bank to the catalog."""
        rules, catalog = self.policy.bank, self.catalog
        if catalog.hide_telling != rules.hide_self_naming:
            catalog.hide_telling = rules.hide_self_naming
            catalog.revision += 1
        catalog.rest(rules.seen_at_most, max(rules.least_prompts, self.policy.adjacent_floor_prompts))

    def _reserved(self, body: e.MatchupServed) -> Reserved:
        catalog = self.catalog
        return Reserved(
            body.matchup_id,
            body.voter,
            catalog.model(body.model_a),
            catalog.model(body.model_b),
            catalog.prompt(body.prompt_id),
            body.lane,
            body.expires_at,
            body.block,
        )


def _settings_changed(state: ArenaState, seq: int, event: e.Event) -> None:
    body = event.body
    assert isinstance(body, e.SettingsChanged)
    before, state.policy = state.policy, body.policy
    state.schedule.resize(body.policy.window_matchups, body.policy.diversity_last)
    if before.bank != body.policy.bank:
        state.keep_bank_rules()
    if before.rating != body.policy.rating:
        state.rules_since = seq
        state.track.rerate(body.policy.rating)


def _phase_changed(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.PhaseChanged)
    state.phase = event.body.phase


def _catalog_changed(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    body, catalog = event.body, state.catalog
    match body:
        case e.ModelAdded():
            catalog.add_model(body)
        case e.PromptAdded():
            catalog.add_prompt(body)
        case e.ResponseAdded():
            catalog.add_response(body)
        case e.ModelEnabled() | e.ModelDisabled():
            catalog.model_enabled[catalog.model(body.model)] = isinstance(body, e.ModelEnabled)
        case e.PromptEnabled() | e.PromptDisabled():
            catalog.switch_prompt(body.prompt_id, on=isinstance(body, e.PromptEnabled), at=event.at)
        case e.PromptReserved():
            catalog.reserve_prompt(body.prompt_id, at=event.at)
        case e.ResponseEnabled() | e.ResponseDisabled():
            catalog.switch_answer(body.response_id, on=isinstance(body, e.ResponseEnabled))
        case e.Flagged() if body.subject == "response" and body.flag == e.SELF_NAMING:
            catalog.tell_author(body.subject_id)
    state.grow()
    if state.policy.bank.seen_at_most:
        state.keep_bank_rules()


def _matchup_served(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.MatchupServed)
    served = state._reserved(event.body)
    state.schedule.serve(served)
    if state.catalog.count_shown(served.a, served.b, served.prompt) == state.policy.bank.seen_at_most:
        state.keep_bank_rules()


def _voted(state: ArenaState, seq: int, event: e.Event) -> None:
    body = event.body
    assert isinstance(body, e.Voted)
    served = state.schedule.resolve(body.matchup_id)
    if served is None:
        raise ArenaError(f"event {seq} votes on matchup {body.matchup_id}, which is not open.")
    state.tallies.count(served.a, served.b, served.prompt, body.choice)
    vote = CastVote(
        *(seq, event.at, body.matchup_id, served.voter, served.a, served.b, served.prompt, body.choice),
        block=body.block or served.block,
        lane=served.lane,
        unrendered=body.unrendered,
    )
    state.book.cast(vote)
    state.track.vote(seq, served.a, served.b, body.choice)


def _closed(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.Skipped | e.Expired)
    state.schedule.resolve(event.body.matchup_id)


def _undone(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.Undone)
    _change(state, (event.body.matchup_id,), VoteStanding.UNDONE)


def _excluded(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.Excluded)
    _change(state, event.body.matchup_ids, VoteStanding.EXCLUDED)


def _restored(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.Restored)
    _change(state, event.body.matchup_ids, VoteStanding.COUNTED)


def _change(state: ArenaState, matchup_ids: Iterable[str], standing: VoteStanding) -> None:
    """Change the status of votes, and recount and re-rate if needed."""
    result = state.book.find(matchup_ids)
    votes = [vote for vote in result if vote.standing not in (standing, VoteStanding.UNDONE)]
    if not votes:
        return
    state.book.change(votes, standing)
    sign = 1 if standing is VoteStanding.COUNTED else -1
    turned = [vote for vote in votes if sign > 0 or vote.standing is VoteStanding.COUNTED]
    for vote in turned:
        state.tallies.count(vote.a, vote.b, vote.prompt, vote.choice, sign=sign)
    if turned:
        state.track.change([vote.seq for vote in turned])


_HANDLERS: dict[type[e.Body], Callable[[ArenaState, int, e.Event], None]] = {
    e.SettingsChanged: _settings_changed,
    e.PhaseChanged: _phase_changed,
    e.ModelAdded: _catalog_changed,
    e.PromptAdded: _catalog_changed,
    e.ResponseAdded: _catalog_changed,
    e.ModelEnabled: _catalog_changed,
    e.ModelDisabled: _catalog_changed,
    e.PromptEnabled: _catalog_changed,
    e.PromptDisabled: _catalog_changed,
    e.PromptReserved: _catalog_changed,
    e.ResponseEnabled: _catalog_changed,
    e.ResponseDisabled: _catalog_changed,
    e.Flagged: _catalog_changed,
    e.MatchupServed: _matchup_served,
    e.Voted: _voted,
    e.Skipped: _closed,
    e.Expired: _closed,
    e.Undone: _undone,
    e.Excluded: _excluded,
    e.Restored: _restored,
}
