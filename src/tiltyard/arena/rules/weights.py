"""How much each counted vote weighs on the published board: a pure function of the votes and of `policy.defences`.

The fold of the log does not weigh votes; the follower does, for the part of the log that it publishes. Anyone with the
log (or an export) computes the same weights, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tiltyard.arena.rules.bounded_influence import VoteGroups, bounded_weights, expected_strengths, recent_shifts
from tiltyard.arena.rules.policy import DefenceRules
from tiltyard.arena.rules.units import DAY
from tiltyard.types import Floats

if TYPE_CHECKING:
    from tiltyard.arena.rules.votes import VoteTable


MOST = np.iinfo(np.int64).max
ALARM_SPANS = (1, 7, 21)
"""The latest days that are compared with everything before them."""
SPANS = (1, 7, 30)
"""The spans of time, in days since 1970 (UTC), in which the net pull on a model is limited."""


def are_weighed(votes: VoteTable, rules: DefenceRules) -> bool:
    """Whether some of these votes could weigh less than 1: the defences are on, and a vote has a block."""
    return rules.on and bool((votes.block >= 0).any())


def vote_weights(votes: VoteTable, rules: DefenceRules) -> Floats:
    """The weight of every counted vote, in the order of the log, above 0 and at most 1.

    BOTH_BAD votes, which move no rating, weigh 1.
    """
    weight = np.ones(len(votes))
    if not are_weighed(votes, rules):
        return weight
    rated = votes.rated
    a, b, score = votes.model_a[rated], votes.model_b[rated], votes.score_a()[rated]
    day, block = votes.at[rated] // DAY, votes.block[rated]
    first = int(day.min(initial=MOST))
    by_time = [VoteGroups(day // span - first // span, rules.time_pull) for span in SPANS]
    groupings = [VoteGroups(block, rules.block_pull), *by_time]
    n_models = int(max(a.max(initial=-1), b.max(initial=-1))) + 1  # models without a vote must not change a bit
    weight[rated] = bounded_weights(a, b, score, groupings, bounded=block >= 0, n_models=n_models, rounds=rules.rounds)
    return weight


def weighed(votes: VoteTable, rules: DefenceRules) -> VoteTable:
    """The same votes with their weights."""
    return replace(votes, weight=vote_weights(votes, rules)) if are_weighed(votes, rules) else votes


class ContestedModel(msgspec.Struct, frozen=True):
    """A model whose latest votes differ from all earlier ones by more than chance explains.

    That is no judgement of the model or of anybody: a link in a class room, a new public or an attack look alike. `z`
    is in standard errors, above 0 if it wins more than before; `votes` are those of the last `days`.
    """

    model: str
    days: int
    z: float
    votes: int

    @property
    def sentence(self) -> str:
        more = "more" if self.z > 0 else "less"
        span = "day" if self.days == 1 else f"{self.days} days"
        return (
            f"{self.votes} votes of the last {span} favour it {more} than earlier ones ({self.z:+.1f} standard errors)"
        )


def contested_models(votes: VoteTable, rules: DefenceRules, until: int) -> tuple[ContestedModel, ...]:
    """The models to be looked at, the clearest span of each up to `until` (microseconds); nothing follows by itself."""
    rated = votes.rated
    if not (rules.on and rules.alarm_z and rated.any()):
        return ()
    a, b, score = votes.model_a[rated], votes.model_b[rated], votes.score_a()[rated]
    result: dict[int, ContestedModel] = {}
    for days in ALARM_SPANS:
        recent = votes.at[rated] >= until - days * DAY
        shifts = recent_shifts(a, b, score, votes.voter[rated], recent, n_models=len(votes.models))
        for model in np.flatnonzero(np.abs(np.nan_to_num(shifts)) >= rules.alarm_z).tolist():
            own = int((recent & ((a == model) | (b == model))).sum())
            this = ContestedModel(votes.models[model], days, float(shifts[model]), own)
            if model not in result or abs(this.z) > abs(result[model].z):
                result[model] = this
    return tuple(result[model] for model in sorted(result))


def blocks_to_swap(votes: VoteTable, order: Sequence[str], rules: DefenceRules) -> tuple[int | None, ...]:
    """For each model of an order and the next, how many address blocks at their limit lift the next one level with it.

    An estimate to first order, for votes spread over so many days that the limits on time do not bind. At least 1; None
    where votes are not weighed, as one block is then enough.
    """
    if not are_weighed(votes, rules):
        return (None,) * max(len(order) - 1, 0)
    rated, n = votes.rated, len(votes.models)
    a, b, score, weight = votes.model_a[rated], votes.model_b[rated], votes.score_a()[rated], votes.weight[rated]
    strength = expected_strengths(a * n + b, score, weight, np.zeros(n))
    expected = 1.0 / (1.0 + np.exp(strength[b] - strength[a]))
    spread = weight * expected * (1.0 - expected)
    information = np.bincount(a, spread, n) + np.bincount(b, spread, n)
    each = rules.block_pull * np.sqrt(1.0 + rules.block_pull / 4.0)
    places = [votes.models.index(name) for name in order]
    needed = [(strength[high] - strength[low]) * information[low] / each for high, low in pairwise(places)]
    return tuple(max(1, int(np.ceil(number))) for number in needed)
