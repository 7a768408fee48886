"""How sure: covariances of a Bradley–Terry fit, and the intervals cut from them.

The default is the sandwich H⁺ M H⁺ (Huber 1967; White 1982), whose middle sums squared scores over clusters (Liang and
Zeger 1986): what rows of one prompt have in common is then counted once. Treating two verdicts on one prompt as
independent makes nominal 95 % intervals of a 12-entrant tournament cover the truth about 65 % of the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.ratings.bradley_terry import BradleyTerryFit, assemble
from tiltyard.ratings.clusters import RowScores, clusters_per_model, sum_of_squares
from tiltyard.ratings.comparisons import OWN_CLUSTER, Comparisons, Counted, Floats, Ints, sum_by
from tiltyard.ratings.quantiles import normal_quantile, t_quantile
from tiltyard.ratings.tie_models import Curvature, ResultScores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

ROWS_AT_ONCE = 1 << 19
"""Clustered rows are summed in pieces of about this size, so that they need little memory."""

FEW = 20
"""A model with fewer battles or clusters than this takes the wider of its sandwich and Fisher intervals."""


@dataclass(frozen=True, slots=True, eq=False)
class Covariance:
    """The covariance of all parameters of a fit, strengths measured from their mean.

    `clusters` counts the independent units behind it, `clusters_of_model` those in which each model appears;
    `fisher` is the covariance if every row were independent and the model exact.
    """

    matrix: Floats
    fisher: Floats
    clusters: float
    clusters_of_model: Floats
    clustered: bool

    @property
    def rank_degrees(self) -> float:
        """Degrees of freedom for comparing all models at once: clusters − 1, or infinity row by row."""
        return max(self.clusters - 1.0, 1.0) if self.clustered else math.inf


def sandwich(fit: BradleyTerryFit, rows: Comparisons, counted: Counted) -> Covariance:
    """The sandwich covariance P/(P−1) · H⁺ (Σ_p s_p s_pᵀ) H⁺ over P clusters of rows.

    `rows` are those that `counted` was made of; cells of `fit` beyond them (the prior's) count by their weights.
    """
    delta, tie = fit.parameters.delta(fit.cells), fit.parameters.tie[fit.cells.group]
    scores = fit.tie_model.result_scores(delta, tie)
    own = independent_rows(rows)
    middle = assemble(fit.cells, _own_squares(fit, scores, rows, counted, own), fit.tied_groups)
    per_model = rows.battles_per_model() if own.all() else rows.take(own).battles_per_model()
    n_clusters = float(rows.weight[own].sum())
    if not own.all():
        for shared in _shared_scores(fit, scores, rows, counted, np.flatnonzero(~own)):
            middle += sum_of_squares(shared)
            n_clusters += shared.n_clusters
            per_model = per_model + clusters_per_model(shared)
    inverse = fit.inverse_information()
    matrix = inverse @ middle @ inverse * (n_clusters / max(n_clusters - 1.0, 1.0))
    return Covariance(matrix, inverse, n_clusters, per_model, clustered=rows.cluster is not None)


def independent_rows(rows: Comparisons) -> NDArray[np.bool_]:
    """Which rows share their cluster with no other row: those can be summed by pair."""
    if rows.cluster is None:
        return np.ones(len(rows), dtype=bool)
    named = rows.cluster != OWN_CLUSTER
    size = np.bincount(rows.cluster[named])
    alone = ~named
    alone[named] = (size[rows.cluster[named]] == 1) & (rows.weight[named] == 1.0)
    return np.asarray(alone)


def _own_squares(
    fit: BradleyTerryFit, scores: ResultScores, rows: Comparisons, counted: Counted, own: NDArray[np.bool_]
) -> Curvature:
    """Sums of squared scores of the rows that are their own cluster, per cell, in the shape `assemble` takes."""
    counts = fit.cells.counts.copy()
    if not own.all() or counted.share is not None:
        hard = own if counted.share is None else own & np.isnan(counted.share)
        key = counted.cell[hard] * 3 + counted.result[hard]
        real = len(counted.cells)
        counts[:real] = sum_by(key, rows.weight[hard], 3 * real).reshape(real, 3)
    squares = Curvature(
        (counts * scores.delta**2).sum(axis=1),
        (counts * scores.delta * scores.tie).sum(axis=1),
        (counts * scores.tie**2).sum(axis=1),
    )
    if counted.share is None:
        return squares
    soft = np.flatnonzero(own & ~np.isnan(counted.share))
    pull = _row_scores(scores.delta, counted, soft)
    squares.delta[:] += sum_by(counted.cell[soft], rows.weight[soft] * pull * pull, len(squares.delta))
    return squares


def _row_scores(table: Floats, counted: Counted, chosen: NDArray[np.intp]) -> Floats:
    """The scores of some rows: each its result's column of its cell, mixed where the outcome is soft."""
    cell = counted.cell[chosen]
    score = table[cell, counted.result[chosen]]
    if counted.share is None:
        return np.asarray(score)
    share = counted.share[chosen]
    return np.where(np.isnan(share), score, share * table[cell, 0] + (1.0 - share) * table[cell, 1])


def _shared_scores(
    fit: BradleyTerryFit, scores: ResultScores, rows: Comparisons, counted: Counted, shared: NDArray[np.intp]
) -> Iterator[RowScores]:
    """The scores, by all parameters, of rows that share their clusters: cluster by cluster, in pieces."""
    assert rows.cluster is not None
    shared = shared[np.argsort(rows.cluster[shared], kind="stable")]
    for chosen in cut_between_clusters(shared, rows.cluster):
        cell, weight = counted.cell[chosen], rows.weight[chosen]
        pull = weight * _row_scores(scores.delta, counted, chosen)
        columns = [pull * fit.cells.design[cell, k] for k in range(fit.cells.design.shape[1])]
        if len(fit.tied_groups):
            tied = weight * _row_scores(scores.tie, counted, chosen)
            columns += [np.where(fit.cells.group[cell] == group, tied, 0.0) for group in fit.tied_groups]
        yield RowScores(
            n_models=fit.cells.n_models,
            first=fit.cells.first[cell],
            second=fit.cells.second[cell],
            pull=pull,
            rest=np.column_stack(columns) if columns else np.empty((len(cell), 0)),
            cluster=number_clusters(rows.cluster[chosen]),
        )


def cut_between_clusters(ordered: NDArray[np.intp], cluster: Ints) -> Iterator[NDArray[np.intp]]:
    """Rows sorted by cluster in pieces of about ROWS_AT_ONCE, no cluster cut in two."""
    start = 0
    while start < len(ordered):
        end = min(start + ROWS_AT_ONCE, len(ordered))
        last = cluster[ordered[end - 1]]
        while end < len(ordered) and cluster[ordered[end]] == last:
            end += int(np.argmin(np.append(cluster[ordered[end : end + ROWS_AT_ONCE]] == last, False)))
        yield ordered[start:end]
        start = end


def number_clusters(cluster: Ints) -> Ints:
    """The same clusters numbered 0, 1, 2, … without gaps."""
    used = np.zeros(int(cluster.max(initial=-1)) + 1, dtype=bool)
    used[cluster] = True
    return np.asarray((np.cumsum(used) - 1)[cluster])


def half_widths(covariance: Covariance, battles: Floats, level: float) -> Floats:
    """Half the width of each model's interval: t(P_i − 1) standard errors, never narrower than Fisher's when few."""
    degrees = np.maximum(covariance.clusters_of_model - 1.0, 1.0)
    wide = t_quantile(level, degrees) * np.sqrt(np.maximum(np.diag(covariance.matrix)[: len(battles)], 0.0))
    return np.asarray(np.maximum(wide, fisher_half_widths(covariance, battles, level)))


def fisher_half_widths(covariance: Covariance, battles: Floats, level: float) -> Floats:
    """Half the width of Fisher's interval for models with few battles or clusters, 0 for the others."""
    fisher = normal_quantile(level) * np.sqrt(np.diag(covariance.fisher)[: len(battles)])
    return np.where(_few(covariance, battles), fisher, 0.0)


def difference_variances(spread: Floats, covariance: Covariance, battles: Floats) -> Floats:
    """The variance of every difference of two strengths whose covariance is `spread`.

    Where one of the two has few battles or clusters it is no smaller than Fisher's: a handful of prompts leaves
    directions in which their scores happen not to vary, and two models are not certain to differ for that.
    """
    m = len(battles)
    few = _few(covariance, battles)
    guarded = np.maximum(_differences(spread), _differences(covariance.fisher[:m, :m]))
    return np.where(few[:, None] | few[None, :], guarded, _differences(spread))


def _differences(covariance: Floats) -> Floats:
    variance = np.diag(covariance)
    return np.asarray(np.maximum(variance[:, None] + variance[None, :] - 2.0 * covariance, 0.0))


def _few(covariance: Covariance, battles: Floats) -> NDArray[np.bool_]:
    return np.asarray((battles < FEW) | (covariance.clusters_of_model < FEW))
