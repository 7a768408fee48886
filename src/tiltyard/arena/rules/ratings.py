"""Ratings of all counted votes, in the order of the log: Glicko-2 with their weights, and legacy Elo without.

A vote that no longer counts is left out, and all others are rated anew. `Effect` is what one vote does to the two
models it is about, beside how others voted on them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.rules.events import Choice
from tiltyard.arena.rules.policy import RatingRules
from tiltyard.arena.rules.votes import VoteTable
from tiltyard.stats import (
    EVERY_ONE,
    LOGITS_PER_POINT,
    PLAIN_SECONDS_PER_BATTLE,
    Glicko2State,
    rate_battles,
    rate_one_by_one,
    rate_with_baseline,
)
from tiltyard.types import Floats

Votes = NDArray[np.int32]
"""Counts by the numbers of two models."""

NO_HISTORY = np.empty((0, 4))

FAILED_BOTH = -1.0
"""Represents BOTH_BAD among the scores of votes (1, ½ and 0)."""

SCORES = {Choice.A: 1.0, Choice.B: 0.0, Choice.TIE: 0.5, Choice.BOTH_BAD: FAILED_BOTH}


class Ratings(msgspec.Struct, frozen=True, eq=False):
    """Every model's Glicko-2 state and legacy Elo, by model number."""

    rating: Floats
    deviation: Floats
    volatility: Floats
    legacy: Floats

    @property
    def conservative(self) -> Floats:
        """Rating minus two deviations, which defines the official order."""
        return np.asarray(self.rating - 2.0 * self.deviation)

    def grown(self, rules: RatingRules, models: int) -> Ratings:
        """These ratings with room for so many models; new ones start as the rules say."""
        new = first_ratings(rules, models - len(self.rating))
        return Ratings(
            np.concatenate([self.rating, new.rating]),
            np.concatenate([self.deviation, new.deviation]),
            np.concatenate([self.volatility, new.volatility]),
            np.concatenate([self.legacy, new.legacy]),
        )


def first_ratings(rules: RatingRules, models: int) -> Ratings:
    """The ratings of models without a vote."""
    starts = (rules.rating, rules.deviation, rules.volatility, rules.legacy_rating)
    return Ratings(*(np.full(models, start) for start in starts))


def rate_votes(votes: VoteTable, rules: RatingRules) -> Ratings:
    """The ratings after these votes, with their weights."""
    rated = votes.rated
    end = rate_battles(
        votes.model_a[rated],
        votes.model_b[rated],
        votes.score_a()[rated],
        start=len(votes.models),
        settings=rules.glicko2(),
        weight=votes.weight[rated],
    )
    return ratings_of(end, votes, rules)


def after_votes(now: Ratings, votes: Sequence[tuple[int, int, Choice]], rules: RatingRules) -> Ratings:
    """The ratings after more votes, one by one: the models of sides A and B, and the choice."""
    a, b = (np.array([vote[side] for vote in votes], dtype=np.int32) for side in (0, 1))
    score, seconds = np.array([SCORES[vote[2]] for vote in votes]), len(votes) * PLAIN_SECONDS_PER_BATTLE
    rating, deviation, volatility, elo = (
        column.copy() for column in (now.rating, now.deviation, now.volatility, now.legacy)
    )
    rate, rated = rate_one_by_one.run(seconds), score >= 0.0
    weights, constants = EVERY_ONE, rules.glicko2().rules()
    rate(a[rated], b[rated], score[rated], weights, rating, deviation, volatility, constants, NO_HISTORY)
    rate_with_baseline.run(seconds)(a, b, score, elo, rules.legacy_k, LOGITS_PER_POINT, rules.legacy_baseline)
    return Ratings(rating, deviation, volatility, elo)


def ratings_of(end: Glicko2State, votes: VoteTable, rules: RatingRules) -> Ratings:
    """The ratings of votes whose Glicko-2 state is known."""
    (legacy,) = legacy_elo(votes, rules, [len(votes)])
    return Ratings(end.rating, end.deviation, end.volatility, legacy)


def legacy_elo(votes: VoteTable, rules: RatingRules, cuts: Sequence[int]) -> list[Floats]:
    """Legacy Elo of every model after the first so many votes, for each of these numbers, the smallest first."""
    elo = np.full(len(votes.models), rules.legacy_rating)
    score = np.where(votes.rated, votes.score_a(), FAILED_BOTH)
    a, b = votes.model_a.astype(np.int32), votes.model_b.astype(np.int32)
    rate = rate_with_baseline.run(len(votes) * PLAIN_SECONDS_PER_BATTLE)
    scores, done = [], 0
    for cut in cuts:
        part = slice(done, cut)
        rate(a[part], b[part], score[part], elo, rules.legacy_k, LOGITS_PER_POINT, rules.legacy_baseline)
        scores.append(elo.copy())
        done = cut
    return scores


EFFECTS_KEPT = 20_000
"""How many votes' effects a process remembers: a voter looks at theirs within seconds."""


class PairVotes(msgspec.Struct, frozen=True, kw_only=True):
    """Counted votes on two models, regardless of sides; `a` is the model now on side A."""

    a: int
    b: int
    ties: int
    both_bad: int

    @property
    def total(self) -> int:
        return self.a + self.b + self.ties + self.both_bad


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Two models' ratings before a vote and after only that vote, as the board shows them; the pair's earlier votes.

    The vote is applied directly after what is published: votes that are not final yet are not included.
    """

    before_a: float
    before_b: float
    after_a: float
    after_b: float
    others: PairVotes


def effect_of(
    now: Ratings, others: PairVotes, rules: RatingRules, pair: list[int], choice: Choice, *, by_legacy: bool = False
) -> Effect:
    """What a vote on two models would do to ratings that do not include it yet."""
    then = after_votes(now, [(pair[0], pair[1], choice)], rules)
    before_a, before_b = (now.legacy if by_legacy else now.conservative)[pair].tolist()
    after_a, after_b = (then.legacy if by_legacy else then.conservative)[pair].tolist()
    return Effect(before_a=before_a, before_b=before_b, after_a=after_a, after_b=after_b, others=others)


def pair_votes(wins: Votes, ties: Votes, both_bad: Votes, a: int, b: int) -> PairVotes:
    """The counted votes on two models."""
    return PairVotes(a=int(wins[a, b]), b=int(wins[b, a]), ties=int(ties[a, b]), both_bad=int(both_bad[a, b]))


class FirstEffects:
    """The effect of each vote as first computed, from figures published before the vote counted."""

    def __init__(self) -> None:
        self._effects: OrderedDict[str, Effect] = OrderedDict()

    def first(self, matchup_id: str, compute: Callable[[], Effect | None]) -> Effect | None:
        """The stored effect of this vote; else the result of `compute`, which is then stored."""
        result = self._effects.get(matchup_id)
        if result is None and (result := compute()) is not None:
            self._effects[matchup_id] = result
            while len(self._effects) > EFFECTS_KEPT:
                self._effects.popitem(last=False)
        return result
