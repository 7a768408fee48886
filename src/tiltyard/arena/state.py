"""The state of an arena: a fold over its events. Same events, same state, on every computer: it holds whole numbers.

Ratings are not part of it. They are a study of all votes (`arena/ratings.py`); a state only has a place for those that
matchmaking and boards use, `ratings`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import copy
from typing import Protocol

from tiltyard.arena import events as e
from tiltyard.arena.catalog import Catalog
from tiltyard.arena.policy import Policy
from tiltyard.arena.ratings import Ratings, first_ratings
from tiltyard.arena.schedule import Reserved, Schedule
from tiltyard.arena.tallies import Tallies
from tiltyard.arena.votes import CastVote, VoteColumns, VoteStanding
from tiltyard.errors import ArenaError
from tiltyard.types import Floats

__all__ = ["ArenaState", "CastVote", "VoteBook", "VoteStanding"]


class VoteBook(Protocol):
    """Keeps every vote, and finds it again when it is undone, excluded or restored: columns in memory, or a table."""

    def cast(self, vote: CastVote) -> None:
        """Keep a new vote."""
        ...

    def find(self, matchup_ids: Collection[str]) -> list[CastVote]:
        """The votes on these matchups, in the order of the log."""
        ...

    def change(self, vote: CastVote, standing: VoteStanding) -> None:
        """Change whether a vote counts."""
        ...


class ArenaState:
    """Everything that matchmaking, boards and validity need, updated event by event.

    `votes` keeps the votes. `seq` is the last event applied, `at` its time, and `latest` the latest time of any event:
    the clocks of several hosts differ. `excluded` are the matchups whose votes do not count; `review` is set if it
    is a team's review. `head` is the latest head of the public rows that was published.
    """

    def __init__(self, votes: VoteBook | None = None) -> None:
        self.votes = VoteColumns() if votes is None else votes
        self.seq = 0
        self.at = 0
        self.latest = 0
        self.policy = Policy()
        self.phase = 1
        self.catalog = Catalog()
        self.tallies = Tallies()
        self.schedule = Schedule(self.policy.window_matchups, self.policy.diversity_last)
        self.excluded: set[str] = set()
        self.review: e.ReviewSet | None = None
        self.head = ""
        self._shown: Ratings | None = None
        self._ratings: Ratings | None = None

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
        """The ratings that order, board and matchmaking use: those set by `show`; models without a vote start anew."""
        models = len(self.catalog.models)
        if self._ratings is None:
            self._ratings = first_ratings(self.policy.rating, models)
        elif len(self._ratings.rating) < models:
            self._ratings = self._ratings.grown(self.policy.rating, models)
        return self._ratings

    def show(self, ratings: Ratings | None) -> None:
        """Use these ratings; None: those of models without a vote. The fold is not affected."""
        if ratings is not self._shown:
            self._shown = self._ratings = ratings

    def showing(self, ratings: Ratings | None) -> ArenaState:
        """A view of this state that uses other ratings: it shares everything else, and must not be applied to."""
        view = copy(self)
        view.show(ratings)
        return view

    @property
    def conservative(self) -> Floats:
        """Rating minus two deviations, which defines the official order."""
        return self.ratings.conservative

    def order(self) -> list[int]:
        """Enabled models, best first by conservative score; equal ones in the order of their numbers."""
        enabled = [number for number, on in enumerate(self.catalog.model_enabled) if on]
        score = self.conservative
        return sorted(enabled, key=lambda number: (-score[number], number))

    def grow(self) -> None:
        """Make room for every model and prompt of the catalog."""
        models, prompts = len(self.catalog.models), len(self.catalog.prompts)
        self.tallies.grow(models, prompts)
        self.schedule.grow(models, prompts)

    def keep_bank_rules(self) -> None:
        """Apply the policy's rules of the bank to the catalog."""
        rules, catalog = self.policy.bank, self.catalog
        if catalog.hide_telling != rules.hide_self_naming:
            catalog.hide_telling = rules.hide_self_naming
            catalog.revision += 1
        catalog.rest(rules.seen_at_most, max(rules.least_prompts, self.policy.adjacent_floor_prompts))


def _settings_changed(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    body = event.body
    assert isinstance(body, e.SettingsChanged)
    before, state.policy = state.policy, body.policy
    state.schedule.resize(body.policy.window_matchups, body.policy.diversity_last)
    if before.bank != body.policy.bank:
        state.keep_bank_rules()


def _phase_changed(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.PhaseChanged)
    state.phase = event.body.phase


def _review_set(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.ReviewSet)
    state.review = event.body


def _catalog_changed(state: ArenaState, seq: int, event: e.Event) -> None:
    body, catalog = event.body, state.catalog
    match body:
        case e.ModelAdded():
            catalog.add_model(body, seq)
        case e.PromptAdded():
            catalog.add_prompt(body, seq)
        case e.ResponseAdded():
            catalog.add_response(body, seq)
        case e.ModelEnabled() | e.ModelDisabled():
            catalog.model_enabled[catalog.model(body.model)] = isinstance(body, e.ModelEnabled)
        case e.PromptEnabled() | e.PromptDisabled():
            catalog.switch_prompt(body.prompt_id, on=isinstance(body, e.PromptEnabled), at=event.at)
        case e.PromptReserved():
            catalog.reserve_prompt(body.prompt_id, at=event.at)
        case e.ResponseEnabled() | e.ResponseDisabled():
            catalog.switch_answer(body.response_id, on=isinstance(body, e.ResponseEnabled))
        case e.ResponseWithdrawn():
            catalog.withdraw(body.response_id)
        case e.Erased():
            catalog.erase(body.what, body.subject_id, event.at)
        case e.Flagged() if body.subject == "response" and body.flag == e.SELF_NAMING:
            catalog.tell_author(body.subject_id)
        case e.Flagged():
            return
    catalog.revision += 1
    state.grow()
    if state.policy.bank.seen_at_most:
        state.keep_bank_rules()


def _matchup_served(state: ArenaState, seq: int, event: e.Event) -> None:
    body, catalog = event.body, state.catalog
    assert isinstance(body, e.MatchupServed)
    a, b, prompt = catalog.model(body.model_a), catalog.model(body.model_b), catalog.prompt(body.prompt_id)
    state.schedule.serve(
        Reserved(
            body.matchup_id,
            seq,
            body.voter,
            body.block,
            a,
            b,
            prompt,
            catalog.prompt_seq[prompt],
            catalog.answers.get(body.response_a, 0),
            catalog.answers.get(body.response_b, 0),
            body.lane,
            event.at,
            body.expires_at,
        )
    )
    catalog.count_shown(a, b, prompt)
    most, shown = state.policy.bank.seen_at_most, catalog.shown.view
    if most and max(shown[a, prompt], shown[b, prompt]) == most:
        state.keep_bank_rules()


def _voted(state: ArenaState, seq: int, event: e.Event) -> None:
    body = event.body
    assert isinstance(body, e.Voted)
    served = state.schedule.resolve(body.matchup_id)
    if served is None:
        raise ArenaError(f"event {seq} votes on matchup {body.matchup_id}, which is not open.")
    state.tallies.count(served.a, served.b, served.prompt, body.choice)
    state.votes.cast(
        CastVote(
            seq,
            event.at,
            body.matchup_id,
            served.voter,
            served.a,
            served.b,
            served.prompt,
            body.choice,
            VoteStanding.COUNTED,
            body.block or served.block,
            served.lane,
            body.unrendered,
        )
    )


def _closed(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.Skipped | e.Expired)
    state.schedule.resolve(event.body.matchup_id)


def _undone(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.Undone)
    for vote in state.votes.find([event.body.matchup_id]):
        if vote.matchup_id in state.excluded:
            state.excluded.remove(vote.matchup_id)
        else:
            _count(state, vote, -1)
        state.votes.change(vote, VoteStanding.UNDONE)


def _excluded(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.Excluded)
    for vote in state.votes.find(event.body.matchup_ids):
        if vote.standing is not VoteStanding.UNDONE and vote.matchup_id not in state.excluded:
            state.excluded.add(vote.matchup_id)
            state.votes.change(vote, VoteStanding.EXCLUDED)
            _count(state, vote, -1)


def _restored(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.Restored)
    again = [name for name in event.body.matchup_ids if name in state.excluded]
    for vote in state.votes.find(again):
        state.excluded.remove(vote.matchup_id)
        state.votes.change(vote, VoteStanding.COUNTED)
        _count(state, vote, 1)


def _head_published(state: ArenaState, seq: int, event: e.Event) -> None:  # noqa: ARG001
    assert isinstance(event.body, e.HeadPublished)
    state.head = event.body.head


def _count(state: ArenaState, vote: CastVote, sign: int) -> None:
    state.tallies.count(vote.a, vote.b, vote.prompt, vote.choice, sign=sign)


_HANDLERS: dict[type[e.Body], Callable[[ArenaState, int, e.Event], None]] = {
    e.SettingsChanged: _settings_changed,
    e.PhaseChanged: _phase_changed,
    e.ReviewSet: _review_set,
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
    e.ResponseWithdrawn: _catalog_changed,
    e.Erased: _catalog_changed,
    e.Flagged: _catalog_changed,
    e.MatchupServed: _matchup_served,
    e.Voted: _voted,
    e.Skipped: _closed,
    e.Expired: _closed,
    e.Undone: _undone,
    e.Excluded: _excluded,
    e.Restored: _restored,
    e.HeadPublished: _head_published,
}
