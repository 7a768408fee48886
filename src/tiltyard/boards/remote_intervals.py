"""The clustered sandwich of battles that another engine holds.

The same sandwich as in `ratings.intervals`, clustered in one way. What differs is where the middle is summed: here the
score of each kind of battle is worked out, the engine adds them up by cluster and multiplies, and the square matrix of
sums comes back. Scores without their cluster are those divided by 1 − g, g the cluster's leverage, for all clusters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.remote import GroupScores, RemoteClusters, groups
from tiltyard.ratings.comparisons import sum_by
from tiltyard.ratings.intervals import BattleDerivatives, Clustering, Covariance, combine

if TYPE_CHECKING:
    from tiltyard.boards.preparation import FitInput
    from tiltyard.ratings.bradley_terry import BradleyTerryFit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


MOST_LEVERAGE = 0.5
"""Leverage beyond this counts as this: a trace is an upper bound, and much too large a one for large clusters."""


def remote_sandwich(
    fitted: BradleyTerryFit, fit_input: FitInput, clusters: RemoteClusters, *, corrected: bool
) -> Covariance | None:
    """The covariance clustered elsewhere; None when all battles share one cluster."""
    rows, counted, n = fit_input.rows, fit_input.counted, fitted.n_parameters
    shared = clusters.shared(fit_input.selected.table)
    inverse = fitted.inverse_information()
    row, parameter, score = _row_scores(fitted, fit_input)
    far = shared[row]
    number = groups(fit_input.selected.table)
    leverage = BattleDerivatives.of(fitted, inverse).leverage[counted.cell] if corrected else np.zeros(len(rows))
    by_group = dict(zip(number.tolist(), leverage.tolist(), strict=True))
    sums = clusters.sums(GroupScores(number[row[far]], parameter[far], score[far], n, by_group, MOST_LEVERAGE))
    if sums.clusters == 1.0 and shared.all():
        return None
    alone = ~far
    score = score / (1.0 - np.minimum(leverage, MOST_LEVERAGE))[row]
    middle = sums.squares + _weighted_squares(row[alone], parameter[alone], score[alone], rows.weight, n)
    prior = _prior_scores(fitted, len(counted.cells))
    middle += _weighted_squares(*prior, n)
    own, battles = rows.take(~shared), rows.battles_per_model()
    count = sums.clusters + float(own.weight.sum())
    factor = (count - 1.0) / count if corrected else count / max(count - 1.0, 1.0)
    alone_of, total = own.battles_per_model(), float(rows.weight.sum())
    effective = battles**2 / np.maximum(sums.sizes_of[: rows.n_models] + alone_of, 1e-300)
    way = Clustering(
        matrix=inverse @ middle @ inverse * factor,
        count=count,
        effective_count=total**2 / (sums.sizes + float(own.weight.sum())),
        effective=effective if corrected else sums.clusters_of[: rows.n_models] + alone_of,
        largest_share=max(sums.largest, 1.0) / total,
    )
    return combine((way.matrix,), inverse, battles, (way,), corrected=corrected)


def _row_scores(fitted: BradleyTerryFit, fit_input: FitInput) -> tuple[Ints, Ints, Floats]:
    """What one battle of each row adds to the score, as triples: row, parameter, score."""
    counted = fit_input.counted
    table = _result_scores(fitted)
    cell, result, share = counted.cell, counted.result, counted.share
    delta, tie = (scores[cell, result] for scores in table)
    if share is not None:
        mixed = share * table[0][cell, 0] + (1.0 - share) * table[0][cell, 1]
        delta = np.where(np.isnan(share), delta, mixed)
        tie = np.where(np.isnan(share), tie, 0.0)
    return _by_parameter(fitted, cell, delta, tie)


def _prior_scores(fitted: BradleyTerryFit, real: int) -> tuple[Ints, Ints, Floats, Floats]:
    """The scores of the pseudo-battles that keep unbeaten models finite, and how many there are of each."""
    delta, tie = _result_scores(fitted)
    cell = np.repeat(np.arange(real, len(fitted.cells)), 3)
    result = np.tile(np.arange(3), len(fitted.cells) - real)
    triples = _by_parameter(fitted, cell, delta[cell, result], tie[cell, result])
    return *triples, fitted.cells.counts[cell, result]


def _result_scores(fitted: BradleyTerryFit) -> tuple[Floats, Floats]:
    cells = fitted.cells
    scores = fitted.tie_model.result_scores(fitted.parameters.delta(cells), fitted.parameters.tie[cells.group])
    return scores.delta, scores.tie


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
