"""The state of an arena: a fold over its events. Same events, same state, on every computer: it holds whole numbers.

Ratings are not part of it. They are a study of all votes (`arena/ratings.py`); a state only has a place for those that
matchmaking and boards use, `ratings`.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from typing import Protocol

from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.catalog import Catalog
from tiltyard.arena.rules.policy import Policy
from tiltyard.arena.rules.ratings import Ratings, first_ratings
from tiltyard.arena.rules.schedule import Reserved, Schedule
from tiltyard.arena.rules.tallies import Tallies
from tiltyard.arena.rules.votes import CastVote, VoteColumns, VoteStanding
from tiltyard.arena.rules.voting import VotingPolicy
from tiltyard.errors import ArenaError
from tiltyard.types import Floats

__all__ = ["ArenaState", "CastVote", "VoteBook", "VoteStanding"]


class VoteBook(Protocol):
    """Keeps every vote, and finds it again when it is undone, excluded or restored: columns in memory, or a table."""

    def cast(self, vote: CastVote) -> None: ...

    def find(self, matchup_ids: Collection[str]) -> list[CastVote]: ...

    def change(self, vote: CastVote, standing: VoteStanding) -> None: ...


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

    @property
    def voting(self) -> VotingPolicy:
        """What voters may do here."""
        return VotingPolicy() if self.review is None else VotingPolicy.of_review(self.review)

    def apply(self, seq: int, event: e.Event) -> None:
        if seq != self.seq + 1:
            raise ArenaError(f"event {seq} does not follow event {self.seq}: the log has a hole.")
        self._change(seq, event)
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
        return self.ratings.conservative

    def order(self) -> list[int]:
        """Enabled models, best first by conservative score; equal ones in the order of their numbers."""
        enabled = [number for number, on in enumerate(self.catalog.model_enabled) if on]
        score = self.conservative
        return sorted(enabled, key=lambda number: (-score[number], number))

    def grow(self) -> None:
        models, prompts = len(self.catalog.models), len(self.catalog.prompts)
        self.tallies.grow(models, prompts)
        self.schedule.grow(models, prompts)

    def keep_bank_rules(self) -> None:
        rules, catalog = self.policy.bank, self.catalog
        if catalog.hide_telling != rules.hide_self_naming:
            catalog.hide_telling = rules.hide_self_naming
            catalog.revision += 1
        catalog.rest(rules.seen_at_most, max(rules.least_prompts, self.policy.adjacent_floor_prompts))

    def _change(self, seq: int, event: e.Event) -> None:
        body = event.body
        match body:  # the most frequent ones first
            case e.MatchupServed():
                self._serve(seq, event.at, body)
            case e.Voted():
                self._vote(seq, event.at, body)
            case e.Skipped() | e.Expired():
                self.schedule.resolve(body.matchup_id)
            case e.Revealed() | e.Explained():
                pass
            case e.Undone():
                for vote in self.votes.find([body.matchup_id]):
                    if vote.matchup_id in self.excluded:
                        self.excluded.remove(vote.matchup_id)
                    else:
                        self._count(vote, -1)
                    self.votes.change(vote, VoteStanding.UNDONE)
            case e.Excluded():
                for vote in self.votes.find(body.matchup_ids):
                    if vote.standing is not VoteStanding.UNDONE and vote.matchup_id not in self.excluded:
                        self.excluded.add(vote.matchup_id)
                        self.votes.change(vote, VoteStanding.EXCLUDED)
                        self._count(vote, -1)
            case e.Restored():
                for vote in self.votes.find([name for name in body.matchup_ids if name in self.excluded]):
                    self.excluded.remove(vote.matchup_id)
                    self.votes.change(vote, VoteStanding.COUNTED)
                    self._count(vote, 1)
            case e.SettingsChanged():
                before, self.policy = self.policy, body.policy
                self.schedule.resize(body.policy.window_matchups, body.policy.diversity_last)
                if before.bank != body.policy.bank:
                    self.keep_bank_rules()
            case e.PhaseChanged():
                self.phase = body.phase
            case e.ReviewSet():
                self.review = body
            case e.HeadPublished():
                self.head = body.head
            case _:
                self._change_catalog(seq, event)

    def _change_catalog(self, seq: int, event: e.Event) -> None:
        body, catalog = event.body, self.catalog
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
                catalog.telling.add(body.subject_id)
            case _:
                return
        catalog.revision += 1
        self.grow()
        if self.policy.bank.seen_at_most:
            self.keep_bank_rules()

    def _serve(self, seq: int, at: int, body: e.MatchupServed) -> None:
        catalog = self.catalog
        a, b, prompt = catalog.model(body.model_a), catalog.model(body.model_b), catalog.prompt(body.prompt_id)
        self.schedule.serve(
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
                at,
                body.expires_at,
            )
        )
        catalog.matchups += 1
        most, shown = self.policy.bank.seen_at_most, catalog.shown.view
        shown[a, prompt] += 1
        shown[b, prompt] += 1
        if most and max(shown[a, prompt], shown[b, prompt]) == most:
            self.keep_bank_rules()

    def _vote(self, seq: int, at: int, body: e.Voted) -> None:
        served = self.schedule.resolve(body.matchup_id)
        if served is None:
            raise ArenaError(f"event {seq} votes on matchup {body.matchup_id}, which is not open.")
        vote = CastVote(
            seq,
            at,
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
        self._count(vote, 1)
        self.votes.cast(vote)

    def _count(self, vote: CastVote, sign: int) -> None:
        self.tallies.count(vote.a, vote.b, vote.prompt, vote.choice, sign=sign)
