"""What one vote does to the two models it is about, and how others voted on them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.events import Choice
from tiltyard.arena.policy import RatingRules
from tiltyard.arena.ratings import Ratings, after_vote

Grid: TypeAlias = "NDArray[np.int32]"
"""Counts by the numbers of two models."""

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
        """All of them."""
        return self.a + self.b + self.ties + self.both_bad


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Ratings before a vote and after only that vote, and the pair's earlier votes.

    The vote is applied directly after what is published: votes that are not final yet are not included. `shown_a` and
    `shown_b` are the numbers that the board would show then: two deviations less, or legacy Elo itself.
    """

    before_a: float
    before_b: float
    after_a: float
    after_b: float
    shown_a: float
    shown_b: float
    others: PairVotes

    @property
    def change_a(self) -> float:
        """What the vote did to the rating of the model on side A."""
        return self.after_a - self.before_a

    @property
    def change_b(self) -> float:
        """What the vote did to the rating of the model on side B."""
        return self.after_b - self.before_b


def effect_of(
    now: Ratings, others: PairVotes, rules: RatingRules, pair: list[int], choice: Choice, *, by_legacy: bool = False
) -> Effect:
    """What a vote on two models would do to ratings that do not include it yet.

    Parameters:
        now: The ratings before it.
        others: The pair's earlier votes.
        rules: How votes are rated.
        pair: The models on sides A and B.
        choice: The vote.
        by_legacy: Whether legacy Elo is what the board shows.
    """
    then = after_vote(now, pair, choice, rules)
    if by_legacy:
        before, after = now.legacy[pair].tolist(), then.legacy[pair].tolist()
        shown = after
    else:
        before, after = now.rating[pair].tolist(), then.rating[pair].tolist()
        shown = then.conservative[pair].tolist()
    return Effect(
        before_a=before[0],
        before_b=before[1],
        after_a=after[0],
        after_b=after[1],
        shown_a=shown[0],
        shown_b=shown[1],
        others=others,
    )


def pair_votes(wins: Grid, ties: Grid, both_bad: Grid, a: int, b: int) -> PairVotes:
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
