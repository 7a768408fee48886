"""How much each vote counts, so that no address block and no day can move a model far.

In a cell (the votes of one block on one model, or of one day on one model) the *net pull* Σw·(s − E) says how much more
the model won there than the board expects. For honest votes it is noise of variance V = Σw·E(1 − E). Where it exceeds
c·√(1 + V), the votes in its direction are scaled down until it does not; votes against it keep their weight. A cell
that pulls both ways as expected is never touched, however many votes it has.

Cells are looked at from the narrowest to the widest grouping, each with what the ones before it left. E is that of
Bradley–Terry on the weighted votes, so the whole is repeated a few rounds. Every sum runs in the order of the votes and
no linear algebra library is involved: the same votes give the same bits, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tiltyard.types import Bools, Floats, Ints

DECIMALS = 6
LEAST_WEIGHT = 10.0**-DECIMALS
"""Weights are rounded to six decimals and never 0: a vote that counts is in the log of ratings."""

SETTLED = 1e-4
"""The rounds end when no weight moves by this much."""

VIRTUAL_TIES = 1.0
"""Every model also tied this many times with one of average strength, so that strengths stay finite."""

MOSTLY_EMPTY = 4
"""With more cells per vote than this, cells without a vote are left out, which costs a sort."""

NEWTON_STEPS = 25
STEP_TOLERANCE = 1e-7
SOLVER_TOLERANCE = 1e-22
"""Of the squared residual, relative to that at the start."""


class VoteGroups(msgspec.Struct, frozen=True, eq=False):
    """One way to group votes: a group number per vote, from 0, and how large a group's net pull on a model may be."""

    group: Ints
    cap: float


def bounded_weights(
    model_a: Ints,
    model_b: Ints,
    score_a: Floats,
    groupings: Sequence[VoteGroups],
    *,
    bounded: Bools,
    n_models: int,
    rounds: int,
) -> Floats:
    """The weight of every vote, above 0 and at most 1; `groupings` come with the narrowest first.

    Votes that are not `bounded` are in no group: they weigh 1, and only help to say what is expected. The rounds end
    earlier when little changes.
    """
    pair = model_a * n_models + model_b
    a, b, score = model_a[bounded], model_b[bounded], score_a[bounded]
    cells = [_Cells.of(a, b, VoteGroups(each.group[bounded], each.cap), n_models) for each in groupings]
    weight, strength = np.ones(len(model_a)), np.zeros(n_models)
    weight[bounded] = _first_weights(cells, len(a))
    for _ in range(rounds):
        strength = expected_strengths(pair, score_a, weight, strength)
        expected = _logistic(strength[a] - strength[b])
        surprise, variance = score - expected, expected * (1.0 - expected)
        result = np.ones(len(a))
        for each in cells:
            result = result * each.factors(result, surprise, variance)
        result = np.clip(np.round(result, DECIMALS), LEAST_WEIGHT, 1.0)
        change = np.abs(result - weight[bounded]).max(initial=0.0)
        weight[bounded] = result
        if change < SETTLED:
            break
    return weight


def _first_weights(cells: Sequence[_Cells], n_votes: int) -> Floats:
    """Weights for the first expectations, in which every group says as much of a model as any other.

    The rounds go to the nearest answer that is consistent with itself. If many votes for a model come from few groups,
    all votes alike would lead to the answer in which these are right and all others are odd.
    """
    weight = np.ones(n_votes)
    for each in cells:
        total = np.bincount(each.of_a, weight, each.size) + np.bincount(each.of_b, weight, each.size)
        weight = weight / np.maximum(total[each.of_a], total[each.of_b])
    return weight * (n_votes / max(float(weight.sum()), LEAST_WEIGHT))


class _Cells(msgspec.Struct, frozen=True, eq=False):
    """The cells of one grouping: each vote is in that of its group and model A, and in that of its group and model B.

    Sums over the votes for and against a model stand at 2·cell and 2·cell + 1.
    """

    of_a: Ints
    of_b: Ints
    size: int
    cap: float

    @classmethod
    def of(cls, model_a: Ints, model_b: Ints, grouping: VoteGroups, n_models: int) -> _Cells:
        of_a, of_b = grouping.group * n_models + model_a, grouping.group * n_models + model_b
        size = (int(grouping.group.max(initial=-1)) + 1) * n_models
        if size > MOSTLY_EMPTY * len(model_a):
            known, code = np.unique(np.concatenate([of_a, of_b]), return_inverse=True)
            of_a, of_b, size = code[: len(model_a)], code[len(model_a) :], len(known)
        return cls(2 * of_a, 2 * of_b, 2 * size, grouping.cap)

    def factors(self, weight: Floats, surprise: Floats, variance: Floats) -> Floats:
        """By how much each vote is scaled: the smaller of what its two cells allow."""
        won = surprise >= 0.0
        side_a, side_b = self.of_a + ~won, self.of_b + won
        pull, spread = weight * np.abs(surprise), weight * variance
        pulls, spreads = (
            np.asarray(np.bincount(side_a, values, self.size) + np.bincount(side_b, values, self.size), dtype=float)
            for values in (pull, spread)
        )
        allowed = _allowed(pulls, _swapped(pulls), spreads, _swapped(spreads), self.cap)
        return np.minimum(allowed[side_a], allowed[side_b])


def _swapped(values: Floats) -> Floats:
    """Each cell's votes against the model in place of those for it, and the other way round."""
    return np.asarray(values.reshape(-1, 2)[:, ::-1].ravel())


def _allowed(excess: Floats, other: Floats, own_spread: Floats, other_spread: Floats, cap: float) -> Floats:
    """The factor f at which f·excess − other = cap·√(1 + other's spread + f·own spread); 1 where less is enough."""
    too_much = excess - other > cap * np.sqrt(1.0 + own_spread + other_spread)
    x, y = excess[too_much], other[too_much]
    middle = 2.0 * x * y + cap * cap * own_spread[too_much]
    rest = y * y - cap * cap * (1.0 + other_spread[too_much])
    factor = np.ones(len(excess))
    factor[too_much] = (middle + np.sqrt(np.maximum(middle * middle - 4.0 * x * x * rest, 0.0))) / (2.0 * x * x)
    return np.clip(factor, 0.0, 1.0)


def expected_strengths(pair: Ints, score_a: Floats, weight: Floats, start: Floats) -> Floats:
    """Bradley–Terry strengths (logits, ties ½) of weighted votes, by Newton's method from a start.

    `pair` is the first model's number times the number of models, plus the second's.
    """
    n = len(start)
    met = np.bincount(pair, weight, n * n).reshape(n, n)
    won = np.bincount(pair, weight * score_a, n * n).reshape(n, n)
    won, met = won + (met - won).T, met + met.T
    points = won.sum(axis=1) + 0.5 * VIRTUAL_TIES
    strength = start
    for _ in range(NEWTON_STEPS):
        chance = _logistic(strength[:, None] - strength[None, :])
        alone = _logistic(strength)
        slope = points - (met * chance).sum(axis=1) - VIRTUAL_TIES * alone
        curvature = met * chance * (1.0 - chance)
        step = _solved(curvature, VIRTUAL_TIES * alone * (1.0 - alone), slope)
        largest = float(np.abs(step).max(initial=0.0))
        strength = strength + step * min(1.0, 2.0 / max(largest, LEAST_WEIGHT))
        if largest < STEP_TOLERANCE:
            break
    return strength


def _solved(curvature: Floats, own: Floats, slope: Floats) -> Floats:
    """The Newton step, by conjugate gradients with elementwise products only, whose bits depend on nothing else."""
    diagonal = curvature.sum(axis=1) + own
    step, rest = np.zeros(len(slope)), slope.copy()
    ready = rest / diagonal
    along, size = ready, float((rest * ready).sum())
    enough = SOLVER_TOLERANCE * size
    for _ in range(4 * len(slope)):
        if size <= enough:
            break
        image = diagonal * along - (curvature * along).sum(axis=1)
        length = size / float((along * image).sum())
        step, rest = step + length * along, rest - length * image
        ready = rest / diagonal
        size, before = float((rest * ready).sum()), size
        along = ready + (size / before) * along
    return step


LEAST_VOTES = 20
"""A model's latest votes are compared with the earlier ones from this many of each on."""


def recent_shifts(
    model_a: Ints, model_b: Ints, score_a: Floats, cluster: Ints, recent: Bools, *, n_models: int
) -> Floats:
    """By how many standard errors each model's recent votes differ from its earlier ones; NaN where there are too few.

    What is compared is how much better than expected the model did, so that other opponents make no difference. The
    votes of one cluster (a voter) are not independent: the error is that of cluster sums, or of independent votes if
    that is larger.
    """
    strength = expected_strengths(model_a * n_models + model_b, score_a, np.ones(len(model_a)), np.zeros(n_models))
    expected = _logistic(strength[model_a] - strength[model_b])
    model, surprise = np.concatenate([model_a, model_b]), np.concatenate([score_a - expected, expected - score_a])
    half, late = np.tile(expected * (1.0 - expected), 2), np.tile(recent, 2)
    of = 2 * model + late
    size = 2 * n_models
    votes, total, spread = (np.bincount(of, values, size) for values in (np.ones(len(of)), surprise, half))
    mean = total / np.maximum(votes, 1.0)
    known, code = np.unique(of + size * np.tile(cluster, 2), return_inverse=True)
    by_cluster = np.bincount(code, surprise - mean[of], len(known))
    clustered = np.bincount(known % size, by_cluster**2, size)
    variance = (np.maximum(spread, clustered) / np.maximum(votes, 1.0) ** 2).reshape(-1, 2).sum(axis=1)
    enough = (votes.reshape(-1, 2) >= LEAST_VOTES).all(axis=1)
    shift = np.diff(mean.reshape(-1, 2), axis=1)[:, 0]
    return np.where(enough, shift / np.sqrt(np.where(enough, variance, 1.0)), np.nan)


def _logistic(logit: Floats) -> Floats:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * logit))
