"""What one vote does to the two models it is about, and how others voted on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tiltyard.arena.asks import Receipt  # noqa: TC001 - msgspec resolves it
from tiltyard.arena.rating_track import NO_HISTORY, SCORES
from tiltyard.ratings.glicko2_kernels import rate_one_by_one

if TYPE_CHECKING:
    from tiltyard.arena.events import Choice
    from tiltyard.arena.state import ArenaState

FIRST, SECOND = np.array([0], dtype=np.int32), np.array([1], dtype=np.int32)


class PairVotes(msgspec.Struct, frozen=True, kw_only=True):
    """Counted votes on two models, whichever side they sat on; `a` is who sits on side A now."""

    a: int
    b: int
    ties: int
    both_bad: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.a + self.b + self.ties + self.both_bad


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Ratings before a vote and after it alone, and the pair's votes before it.

    The vote is seen as if it came next: votes that were committed in the same moment are not in it.
    """

    before_a: float
    before_b: float
    after_a: float
    after_b: float
    others: PairVotes

    @property
    def change_a(self) -> float:
        """What the vote did to the rating of the model on side A."""
        return self.after_a - self.before_a

    @property
    def change_b(self) -> float:
        """What the vote did to the rating of the model on side B."""
        return self.after_b - self.before_b


class Voted(msgspec.Struct, frozen=True):
    """The names, and what the vote did; None where it had been cast before."""

    receipt: Receipt
    effect: Effect | None


def effect_of(state: ArenaState, a: int, b: int, choice: Choice) -> Effect:
    """What this vote would do to the state, which has not taken it in yet."""
    now, pair = state.track.now, [a, b]
    rating, deviation, volatility = now.rating[pair], now.deviation[pair], now.volatility[pair]
    before_a, before_b = rating.tolist()
    score = SCORES[choice]
    if score >= 0.0:
        rules = state.policy.rating.glicko2().rules()
        rate = rate_one_by_one.run(0.0)
        rate(FIRST, SECOND, np.array([score]), rating, deviation, volatility, rules, NO_HISTORY)
    after_a, after_b = rating.tolist()
    return Effect(
        before_a=before_a, before_b=before_b, after_a=after_a, after_b=after_b, others=pair_votes(state, a, b)
    )


def pair_votes(state: ArenaState, a: int, b: int) -> PairVotes:
    """The counted votes on two models."""
    tallies = state.tallies
    wins = tallies.wins.view
    return PairVotes(
        a=int(wins[a, b]),
        b=int(wins[b, a]),
        ties=int(tallies.ties.view[a, b]),
        both_bad=int(tallies.both_bad.view[a, b]),
    )
