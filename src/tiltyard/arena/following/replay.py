"""Past ratings, by replaying the votes that count now; and which models moved since."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tiltyard.arena import events as e
from tiltyard.arena.board import OFFICIAL_FROM, LiveBoard
from tiltyard.arena.following.recent_events import RecentEvents
from tiltyard.arena.model_detail import RatingPath
from tiltyard.arena.policy import Policy
from tiltyard.arena.ratings import Ratings, rate_votes, ratings_of
from tiltyard.arena.state import ArenaState
from tiltyard.arena.units import DAY
from tiltyard.arena.votes import VoteColumns, VoteTable
from tiltyard.arena.weekly import BoardAt, Period
from tiltyard.arena.weights import weighed
from tiltyard.ratings.glicko2 import Glicko2State, rate_battles_history
from tiltyard.types import Floats, Ints
from tiltyard.validity.calibration import CalibrationCurve, calibration, predictions
from tiltyard.validity.churn import BAND, Known
from tiltyard.validity.publication import Badge


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """Every rated vote in log order: time, models by side, the score of A, and the resulting ratings.

    `predicted` is the expected score of side A before the vote; `rating` and `deviation` are those of both sides after
    it. One replay serves all models. `end` is the state after the last vote.
    """

    models: tuple[str, ...]
    start: float
    at: Ints
    sides: Ints
    score_a: Floats
    rating: Floats
    deviation: Floats
    predicted: Floats
    end: Glicko2State

    def path(self, model: int) -> RatingPath:
        """A model's history from its first rated vote to now."""
        own = (self.sides == model).any(axis=1)
        side = (self.sides[own, 1] == model).astype(np.intp)[:, None]
        rating, deviation = (np.take_along_axis(values[own], side, axis=1)[:, 0] for values in self._after)
        return RatingPath(self.start, self.at[own], rating, deviation)

    def calibration(self, model: int) -> CalibrationCurve:
        """Predicted against observed scores of a model's votes, seen from its side."""
        own, as_b = (self.sides == model).any(axis=1), self.sides[:, 1] == model
        predicted = np.where(as_b, 1.0 - self.predicted, self.predicted)[own]
        return calibration(predicted, np.where(as_b, 1.0 - self.score_a, self.score_a)[own])

    def looks(self, times: Iterable[tuple[int, Collection[str]]]) -> tuple[BoardAt, ...]:
        """The standings at each time (microseconds) of the models that were enabled then and had a vote by then."""
        # Events of several servers are not in clock order: a time means the position that the log had reached by then.
        clock = np.maximum.accumulate(self.at) if len(self.at) else self.at
        looks = []
        for at, enabled in times:
            columns = self.last_of_each(int(np.searchsorted(clock, at, side="left")))
            known = {
                self.models[model]: Known(rating, deviation)
                for model, rating, deviation in zip(*(column.tolist() for column in columns), strict=True)
                if self.models[model] in enabled
            }
            looks.append(BoardAt(at, known))
        return tuple(looks)

    def last_of_each(self, votes: int) -> tuple[Ints, Floats, Floats]:
        """After so many rated votes: the models that have one, their ratings and their deviations."""
        upto = 2 * votes
        last = np.full(len(self.models), -1)
        last[self.sides.ravel()[:upto]] = np.arange(upto)
        model = np.flatnonzero(last >= 0)
        rating, deviation = (values.ravel()[last[model]] for values in self._after)
        return model, rating, deviation

    @property
    def _after(self) -> tuple[Floats, Floats]:
        return self.rating, self.deviation


def replay(votes: VoteTable, policy: Policy) -> Replay:
    """The counted votes rated once more, with their weights, by the rules in force."""
    rated, settings = votes.rated, policy.rating.glicko2()
    a, b, score, weight = votes.model_a[rated], votes.model_b[rated], votes.score_a()[rated], votes.weight[rated]
    history = rate_battles_history(a, b, score, start=len(votes.models), settings=settings, weight=weight)
    return Replay(
        models=votes.models,
        start=policy.rating.rating,
        at=votes.at[rated],
        sides=np.column_stack([a, b]),
        score_a=score,
        rating=history.rating,
        deviation=history.deviation,
        predicted=predictions(a, b, score, len(votes.models), settings, weight, history),
        end=history.state,
    )


def published_ratings(votes: VoteTable, policy: Policy) -> Ratings:
    """The ratings that a site publishes of counted votes: weighed, by the rules in force."""
    return rate_votes(weighed(votes, policy.defences), policy.rating)


def period_of_log(events: Iterable[e.Event], since: int, *, every: int = DAY) -> tuple[ArenaState, Period]:
    """The state at the end of a log, with its published ratings, and the period from `since` to its last event.

    The board is looked at every so often from the first matchup on: an arena that is still being filled has none.
    """
    columns = VoteColumns()
    state, recent = ArenaState(columns), RecentEvents(sys.maxsize)
    times: list[tuple[int, Collection[str]]] = []
    for event in events:
        while event.at >= since + len(times) * every and isinstance(event.body, e.MatchupServed):
            times.append((since + len(times) * every, _enabled(state)))
        state.apply(state.seq + 1, event)
        if event.at >= since:
            recent.follow([event], state.seq - 1, state.catalog)
    votes = weighed(columns.table(state.catalog, with_ids=True), state.policy.defences)
    again = replay(votes, state.policy)
    state.show(ratings_of(again.end, votes, state.policy.rating))
    return state, Period(
        since=since,
        until=state.at,
        looks=again.looks(times),
        votes=votes,
        served=recent.served(since, columns),
        events=recent.kinds(since, state),
        flags=recent.notes(since, "flagged"),
        exclusions=recent.notes(since, "excluded", "restored"),
    )


def _enabled(state: ArenaState) -> frozenset[str]:
    catalog = state.catalog
    return frozenset(card.model for card, on in zip(catalog.models, catalog.model_enabled, strict=True) if on)


@dataclass(frozen=True, slots=True)
class Movement:
    """How many places a model rose (fell, if negative) in a day, and whether its rating left its earlier band."""

    places: int
    rating_change: float
    beyond_band: bool


def movements(board: LiveBoard, before: BoardAt, policy: Policy) -> Mapping[str, Movement]:
    """The movements of all models whose ratings are certain enough.

    A model must not be provisional, and must have had an established model's deviation at the earlier time too:
    otherwise places change by chance. Places are counted among the models present at both times. While legacy Elo
    orders the board there are no movements, because earlier legacy orders are not kept.
    """
    if board.phase < OFFICIAL_FROM:
        return {}
    then = sorted(before.standings, key=lambda name: -before.standings[name].low)
    now = [row.model for row in board.rows if row.model in before.standings]
    placed = {name: place for place, name in enumerate(now)}
    then = [name for name in then if name in placed]
    moved = {}
    for place, name in enumerate(then):
        row, known = board[name], before.standings[name]
        if row.badge is Badge.PROVISIONAL or known.deviation > policy.badges.established_deviation:
            continue
        change = row.rating - known.rating
        moved[name] = Movement(place - placed[name], change, abs(change) > BAND * known.deviation)
    return moved
