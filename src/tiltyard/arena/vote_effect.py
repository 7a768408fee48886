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
    then = after_vote(now, pair, choice, rules)
    before_a, before_b = (now.legacy if by_legacy else now.conservative)[pair].tolist()
    after_a, after_b = (then.legacy if by_legacy else then.conservative)[pair].tolist()
    return Effect(before_a=before_a, before_b=before_b, after_a=after_a, after_b=after_b, others=others)


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
