"""The clustered sandwich of battles that another engine holds.

The same sandwich as in `ratings.intervals`, clustered in one way. What differs is where the middle is summed: here the
score of each kind of battle is worked out, the engine adds them up by cluster and multiplies, and the square matrix of
sums comes back. The few clusters of large leverage come back whole, and are solved here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tiltyard.battles.spark import GroupScores, LargeClusters, RemoteClusters, groups
from tiltyard.boards.preparation import FitInput
from tiltyard.ratings.battle_derivatives import BattleDerivatives
from tiltyard.ratings.bradley_terry import BradleyTerryFit
from tiltyard.ratings.clusters import ModelClusters, model_clusters, sum_of_squares
from tiltyard.ratings.comparisons import sum_by
from tiltyard.ratings.intervals import Clustering, Covariance, clustered_rows, combine
from tiltyard.ratings.leave_one_out import SMALL_LEVERAGE, leave_one_out
from tiltyard.ratings.tie_models import ResultScores
from tiltyard.types import Floats, Ints


def remote_sandwich(fitted: BradleyTerryFit, fit_input: FitInput, clusters: RemoteClusters) -> Covariance | None:
    """The covariance clustered elsewhere; None when all battles share one cluster."""
    rows, counted, n = fit_input.rows, fit_input.counted, fitted.n_parameters
    shared = clusters.shared(fit_input.selected.table)
    derivatives = BattleDerivatives.of(fitted, fitted.inverse_information())
    row, parameter, score = _row_scores(fitted, fit_input, derivatives.scores)
    far = shared[row]
    number = groups(fit_input.selected.table)
    by_group = dict(zip(number.tolist(), derivatives.leverage[counted.cell].tolist(), strict=True))
    sums = clusters.sums(GroupScores(number[row[far]], parameter[far], score[far], n, by_group, SMALL_LEVERAGE))
    models, count, middle = _large(fitted, derivatives, fit_input, sums.large, number)
    if sums.clusters + count == 1.0 and shared.all():
        return None
    alone = ~far
    score = _row_scores(fitted, fit_input, derivatives.scores_without)[2]
    middle += sums.squares + _weighted_squares(row[alone], parameter[alone], score[alone], rows.weight, n)
    middle += _weighted_squares(*_prior_scores(fitted, derivatives.scores_without, len(counted.cells)), n)
    own = rows.take(~shared)
    lone, lone_of = float(own.weight.sum()), own.battles_per_model()
    m, total, battles = rows.n_models, float(rows.weight.sum()), rows.battles_per_model()
    count += sums.clusters + lone
    effective = battles**2 / np.maximum(models.squares + sums.sizes_of[:m] + lone_of, 1e-300)
    way = Clustering(
        matrix=derivatives.inverse @ middle @ derivatives.inverse * ((count - 1.0) / count),
        count=count,
        effective_count=total**2 / (models.all_squares + sums.sizes + lone),
        effective=effective,
        largest_share=max(models.largest, sums.largest, min(lone, 1.0)) / total,
    )
    return combine((way.matrix,), derivatives.inverse, battles, (way,))


def _large(
    fitted: BradleyTerryFit,
    derivatives: BattleDerivatives,
    fit_input: FitInput,
    large: LargeClusters,
    number: Ints,
) -> tuple[ModelClusters, float, Floats]:
    """The clusters that were handed over whole: those of each model, how many, and the sum of their squares."""
    n, m = fitted.n_parameters, fitted.cells.n_models
    models, count, middle = ModelClusters(np.zeros(m), np.zeros(m), np.zeros(m), 0.0, 0.0), 0.0, np.zeros((n, n))
    place = np.full(int(number.max()) + 1, -1, dtype=np.int64)
    place[number] = np.arange(len(number))
    if not len(large.group):
        return models, count, middle
    chosen, counted = place[large.group], fit_input.counted
    rows = replace(fit_input.rows.take(chosen), weight=large.battles)
    share = None if counted.share is None else counted.share[chosen]
    part = replace(counted, cell=counted.cell[chosen], result=counted.result[chosen], share=share)
    for shared in clustered_rows(fitted, derivatives, rows, part, large.cluster, np.arange(len(chosen))):
        count += shared.n_clusters
        models = models + model_clusters(shared)
        middle += sum_of_squares(leave_one_out(shared, derivatives.inverse))
    return models, count, middle


def _row_scores(fitted: BradleyTerryFit, fit_input: FitInput, scores: ResultScores) -> tuple[Ints, Ints, Floats]:
    """What one battle of each row adds to the score, as triples: row, parameter, score."""
    counted = fit_input.counted
    table = scores.delta, scores.tie
    cell, result, share = counted.cell, counted.result, counted.share
    delta, tie = (scores[cell, result] for scores in table)
    if share is not None:
        mixed = share * table[0][cell, 0] + (1.0 - share) * table[0][cell, 1]
        delta = np.where(np.isnan(share), delta, mixed)
        tie = np.where(np.isnan(share), tie, 0.0)
    return _by_parameter(fitted, cell, delta, tie)


def _prior_scores(fitted: BradleyTerryFit, scores: ResultScores, real: int) -> tuple[Ints, Ints, Floats, Floats]:
    """The scores of the pseudo-battles that keep unbeaten models finite, and how many there are of each."""
    delta, tie = scores.delta, scores.tie
    cell = np.repeat(np.arange(real, len(fitted.cells)), 3)
    result = np.tile(np.arange(3), len(fitted.cells) - real)
    triples = _by_parameter(fitted, cell, delta[cell, result], tie[cell, result])
    return *triples, fitted.cells.counts[cell, result]


def _by_parameter(fitted: BradleyTerryFit, cell: Ints, delta: Floats, tie: Floats) -> tuple[Ints, Ints, Floats]:
    """Scores by difference and by tie, spread over the parameters: the two models, the slot, the tie group."""
    cells, row = fitted.cells, np.arange(len(cell))
    parts = [(row, cells.first[cell], delta), (row, cells.second[cell], -delta)]
    m, q = cells.n_models, cells.design.shape[1]
    parts += [(row, np.full(len(row), m + k), delta * cells.design[cell, k]) for k in range(q)]
    for k, group in enumerate(fitted.tied_groups):
        inside = cells.group[cell] == group
        parts.append((row[inside], np.full(int(inside.sum()), m + q + k), tie[inside]))
    rows, parameters, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows, parameters, scores


def _weighted_squares(row: Ints, parameter: Ints, score: Floats, weight: Floats, n: int) -> Floats:
    """Σ w s sᵀ over independent rows; a row has a handful of parameters, so all pairs of them are multiplied."""
    order = np.argsort(row, kind="stable")
    row, parameter, score = row[order], parameter[order], score[order]
    total = sum_by(parameter * n + parameter, weight[row] * score * score, n * n)
    most = int(np.bincount(row).max(initial=0))
    for lag in range(1, most):
        here = np.flatnonzero(row[lag:] == row[:-lag])
        there = here + lag
        product = weight[row[here]] * score[here] * score[there]
        total += sum_by(parameter[here] * n + parameter[there], product, n * n)
        total += sum_by(parameter[there] * n + parameter[here], product, n * n)
    return total.reshape(n, n)
