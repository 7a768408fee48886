"""The clustered sandwich of battles that another engine holds.

It is the sandwich of `ratings.intervals`, clustered in one way. The score of each kind of battle is worked out here;
the engine adds them up by cluster, multiplies, and sends the square matrix of sums back. The few clusters of large
leverage come back whole, and are solved here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from tiltyard.battles.spark import GroupScores, LargeClusters, RemoteClusters, groups
from tiltyard.boards.preparation import FitInput
from tiltyard.ratings.battle_derivatives import BattleDerivatives
from tiltyard.ratings.bradley_terry import BradleyTerryFit
from tiltyard.ratings.clusters import ClusteredRows, ClusterSizes
from tiltyard.ratings.intervals import Covariance, clustered_rows, combine, row_scores, summed_way
from tiltyard.ratings.leave_one_out import SMALL_LEVERAGE
from tiltyard.ratings.tie_models import ResultScores
from tiltyard.types import Floats, Ints


def remote_sandwich(fitted: BradleyTerryFit, fit_input: FitInput, clusters: RemoteClusters) -> Covariance | None:
    """The covariance clustered elsewhere; None when all battles share one cluster."""
    rows, counted = fit_input.rows, fit_input.counted
    shared, number = clusters.shared(fit_input.selected.table), groups(fit_input.selected.table)
    derivatives = BattleDerivatives.of(fitted, fitted.inverse_information())
    row, parameter, score = _row_scores(fitted, fit_input, derivatives.scores)
    far = shared[row]
    leverage = dict(zip(number.tolist(), derivatives.leverage[counted.cell].tolist(), strict=True))
    sums = clusters.sums(
        GroupScores(number[row[far]], parameter[far], score[far], fitted.n_parameters, leverage, SMALL_LEVERAGE)
    )
    large, pieces = sums.large, _pieces(fitted, derivatives, fit_input, sums.large, number)
    if sums.clusters + len(np.unique(large.cluster)) == 1.0 and shared.all():
        return None
    sizes = ClusterSizes(sums.clusters, sums.sizes_of[: rows.n_models], sums.sizes, sums.largest)
    way = summed_way(
        fitted, derivatives, rows, counted, ~shared, pieces, corrected=True, elsewhere=(sums.squares, sizes)
    )
    return combine((way.matrix,), derivatives.inverse, rows.battles_per_model(), (way,))


def _pieces(
    fitted: BradleyTerryFit,
    derivatives: BattleDerivatives,
    fit_input: FitInput,
    large: LargeClusters,
    number: Ints,
) -> Iterable[ClusteredRows]:
    """The clusters that were handed over whole."""
    if not len(large.group):
        return ()
    place = np.full(int(number.max()) + 1, -1, dtype=np.int64)
    place[number] = np.arange(len(number))
    chosen = place[large.group]
    rows = replace(fit_input.rows.take(chosen), weight=large.battles)
    part = fit_input.counted.take(chosen)
    return clustered_rows(fitted, derivatives, rows, part, large.cluster, np.arange(len(chosen)))


def _row_scores(fitted: BradleyTerryFit, fit_input: FitInput, scores: ResultScores) -> tuple[Ints, Ints, Floats]:
    """What one battle of each row adds to the score, as triples (row, parameter, score).

    The parameters are the two models, the slot, and the tie group.
    """
    counted, cells, row = fit_input.counted, fitted.cells, np.arange(len(fit_input.rows))
    cell = counted.cell
    delta, tie = row_scores(scores.delta, counted, row), row_scores(scores.tie, counted, row)
    parts = [(row, cells.first[cell], delta), (row, cells.second[cell], -delta)]
    m, q = cells.n_models, cells.design.shape[1]
    parts += [(row, np.full(len(row), m + k), delta * cells.design[cell, k]) for k in range(q)]
    for k, group in enumerate(fitted.tied_groups):
        inside = cells.group[cell] == group
        parts.append((row[inside], np.full(int(inside.sum()), m + q + k), tie[inside]))
    rows, parameters, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows, parameters, values
