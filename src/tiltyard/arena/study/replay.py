"""What all counted votes together say: past ratings by replaying them, which models moved since, and the evidence.

Badges and the label need the evidence: ranges of ranks, the largest voter, where models stood. The live board follows
every vote, evidence comes with each study; between two studies the board uses the evidence of the last one, and before
the first nothing is Stable.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.policy import IntervalRules, Policy
from tiltyard.arena.rules.ratings import Ratings, legacy_elo, rate_votes, ratings_of
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.units import DAY
from tiltyard.arena.rules.votes import VoteColumns, VoteTable
from tiltyard.arena.rules.weights import weighed
from tiltyard.arena.study.board import OFFICIAL_FROM, Evidence, LiveBoard, raw_ratings
from tiltyard.arena.study.churn import BAND, Known
from tiltyard.arena.study.model_detail import RatingPath
from tiltyard.arena.study.offline import OfflineBoard, offline_board, on_scale
from tiltyard.arena.study.publication import CONFIDENCE_POINTS, Badge, within_points
from tiltyard.arena.study.recent_events import RecentEvents
from tiltyard.arena.study.weekly import BoardAt, Findings, Period
from tiltyard.errors import TiltyardError
from tiltyard.stats import (
    CalibrationCurve,
    ConfidenceBin,
    Glicko2State,
    confidence_bins,
    predictions,
    rate_battles_history,
)
from tiltyard.stats.calibration import calibration
from tiltyard.types import Floats, Ints

ORDER_LOOKS = 4
"""How often within the window the order is looked at, the first time at its beginning."""

CONFIDENCE_LOOKS = 8
"""Earlier boards that are compared with what is known now, evenly over the votes."""


class Replay(msgspec.Struct, frozen=True, eq=False):
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
        own = (self.sides == model).any(axis=1)
        side = (self.sides[own, 1] == model).astype(np.intp)[:, None]
        rating, deviation = (
            np.take_along_axis(values[own], side, axis=1)[:, 0] for values in (self.rating, self.deviation)
        )
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
        return model, self.rating.ravel()[last[model]], self.deviation.ravel()[last[model]]


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
            catalog = state.catalog
            enabled = zip(catalog.models, catalog.model_enabled, strict=True)
            times.append((since + len(times) * every, {model.model for model, is_on in enabled if is_on}))
        state.apply(state.seq + 1, event)
        if event.at >= since:
            recent.follow([event], state.seq - 1, state.catalog)
    votes = weighed(columns.table(state.catalog, with_ids=True), state.policy.defences)
    again = replay(votes, state.policy)
    state.show(ratings_of(again.end, votes, state.policy.rating))
    return state, recent.period(since, state.at, state, again.looks(times), columns, votes)


class Movement(msgspec.Struct, frozen=True):
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


def rated(votes: VoteTable, order: list[str], rules: IntervalRules, *, swaps: bool) -> tuple[OfflineBoard | None, str]:
    """Bradley–Terry over counted votes beside a live order; or None, and why."""
    try:
        return offline_board(votes, order, rules, swaps=swaps), ""
    except TiltyardError as error:
        return None, str(error)


def study_of(state: ArenaState, votes: VoteTable) -> tuple[Findings, str]:
    """The findings of all counted votes of a state, and why there are no intervals, if so."""
    shown = raw_ratings(state)
    offline, trouble = rated(votes, list(shown), state.policy.intervals, swaps=True)
    return findings_of(votes, offline, replay(votes, state.policy), state.policy, state.phase, shown), trouble


def findings_of(
    votes: VoteTable,
    offline: OfflineBoard | None,
    again: Replay,
    policy: Policy,
    phase: int,
    shown: Mapping[str, float],
) -> Findings:
    """Everything that a study of all counted votes tells the board and the weekly report.

    `offline` is Bradley–Terry over them on its own scale, None where they cannot be rated yet; `shown` are the ratings
    of the board, without any subtraction for uncertainty.
    """
    moved = None if offline is None else on_scale(offline, shown)
    return Findings(
        offline=moved,
        evidence=evidence_of(votes, offline, again, policy, phase, list(shown)),
        calibration=calibration(again.predicted, again.score_a),
        confidence=confidence_calibration(again, moved, shown) if phase >= OFFICIAL_FROM else (),
    )


def evidence_of(
    votes: VoteTable, offline: OfflineBoard | None, again: Replay, policy: Policy, phase: int, enabled: Sequence[str]
) -> Evidence:
    """The evidence of all counted votes for the order that a phase shows; `enabled` are the models of the board."""
    places = {
        row.model: (row.rank_low, row.rank_high)
        for row in (offline.rows if offline is not None else ())
        if row.rank_low is not None and row.rank_high is not None
    }
    share = float(np.bincount(votes.voter).max()) / len(votes) if len(votes) else None
    window = policy.window_matchups
    if len(votes) <= window:
        return Evidence(places, share, None)
    cuts = [len(votes) - window * (ORDER_LOOKS - look) // ORDER_LOOKS for look in range(ORDER_LOOKS)]
    numbers = {name: number for number, name in enumerate(votes.models)}
    chosen = [numbers[name] for name in enabled if name in numbers]
    earlier = []
    for score, _, _ in scores_after(votes, again, policy, phase, cuts):
        order = sorted(chosen, key=lambda model: (-score[model], model))
        earlier.append({votes.models[model]: place for place, model in enumerate(order, start=1)})
    return Evidence(places, share, tuple(earlier))


def scores_after(
    votes: VoteTable, again: Replay, policy: Policy, phase: int, cuts: Sequence[int]
) -> list[tuple[Floats, Floats, Floats]]:
    """By model number, after the first so many counted votes: what is shown, the rating behind it, its deviation.

    Until phase 2 legacy Elo is shown, which has no deviation (0). `cuts` are numbers of votes, the smallest first.
    """
    if phase < OFFICIAL_FROM:
        return [(elo, elo, np.zeros(len(elo))) for elo in legacy_elo(votes, policy.rating, cuts)]
    rated = np.concatenate([[0], np.cumsum(votes.rated)])
    scores = []
    for cut in cuts:
        rating = np.full(len(votes.models), policy.rating.rating)
        deviation = np.full(len(votes.models), policy.rating.deviation)
        model, rated_then, sure_then = again.last_of_each(int(rated[cut]))
        rating[model], deviation[model] = rated_then, sure_then
        scores.append((rating - 2.0 * deviation, rating, deviation))
    return scores


def confidence_calibration(
    again: Replay, offline: OfflineBoard | None, enabled: Collection[str]
) -> tuple[ConfidenceBin, ...]:
    """How often an earlier rating was within 25 points of what all votes now say, by the confidence stated then.

    Ratings after 1/8, 2/8, … 7/8 of the rated votes are compared with Bradley–Terry over all of them, moved to the same
    scale. That value has an error of its own (which makes confidence look too high) and rests on the earlier votes too
    (which makes it look too low); nothing closer to the truth is known.
    """
    if offline is None or offline.centre is None:
        return ()
    now = {row.model: row.rating for row in offline.rows if row.model in enabled}
    stated, held = [], []
    for look in range(1, CONFIDENCE_LOOKS):
        models, rating, deviation = again.last_of_each(len(again.at) * look // CONFIDENCE_LOOKS)
        for model, then, error in zip(models.tolist(), rating.tolist(), deviation.tolist(), strict=True):
            name = again.models[model]
            if name in now:
                stated.append(100.0 * within_points(error))
                held.append(abs(then - now[name]) <= CONFIDENCE_POINTS)
    return confidence_bins(np.array(stated), np.array(held, dtype=bool))
