"""Sums of scores over clusters, and the sum of their squares: the middle of a clustered sandwich.

Σ_p s_p s_pᵀ over clusters p needs the products of every two rows that share a cluster. Two ways lead there, and the
cheaper one is taken: few large clusters (prompts of a tournament) are spread out as a dense matrix and multiplied; many
small ones (a prompt to a handful of votes) are sorted, and each row is multiplied with the next, the next but one and
so on, as long as they share a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltyard.ratings.comparisons import Floats, Ints, sum_by

DENSE_NUMBERS = 4_000_000
"""A dense piece holds at most this many numbers."""

LAG_NANOSECONDS = 40.0
"""About what one product of two rows costs, in nanoseconds, ..."""
DENSE_NANOSECONDS = 0.3
"""... and one multiplication inside a dense product: only their ratio matters, and only for speed."""


@dataclass(frozen=True, slots=True, eq=False)
class RowScores:
    """Scores of rows that share clusters with others.

    A row pulls model `first` up and `second` down by `pull`; `rest` holds its scores by all other parameters, one
    column each. `cluster` numbers the clusters 0, 1, 2, … without gaps, in order.
    """

    n_models: int
    first: Ints
    second: Ints
    pull: Floats
    rest: Floats
    cluster: Ints

    @property
    def n_clusters(self) -> int:
        """How many clusters there are."""
        return int(self.cluster.max(initial=-1)) + 1


def sum_of_squares(rows: RowScores) -> Floats:
    """Σ_p s_p s_pᵀ over all clusters, in the order models, then the other parameters."""
    m, extra = rows.n_models, rows.rest.shape[1]
    sizes = np.bincount(rows.cluster, minlength=rows.n_clusters)
    lag_cost = LAG_NANOSECONDS * float((sizes.astype(np.float64) ** 2).sum())
    if lag_cost < DENSE_NANOSECONDS * rows.n_clusters * m * m:
        models = _squares_by_lag(rows, int(sizes.max()))
    else:
        models = _squares_by_product(rows)
    total = np.zeros((m + extra, m + extra))
    total[:m, :m] = models
    rest = np.column_stack([sum_by(rows.cluster, column, rows.n_clusters) for column in rows.rest.T]) if extra else None
    if rest is not None:
        total[m:, m:] = rest.T @ rest
        for k in range(extra):
            along = rows.pull * rest[rows.cluster, k]
            total[:m, m + k] = sum_by(rows.first, along, m) - sum_by(rows.second, along, m)
        total[m:, :m] = total[:m, m:].T
    return total


def clusters_per_model(rows: RowScores) -> Floats:
    """In how many clusters each model appears."""
    m, found = rows.n_models, np.zeros(rows.n_models)
    for start, end, low, high in _pieces(rows):
        seen = np.zeros((high - low) * m, dtype=bool)
        place = (rows.cluster[start:end] - low) * m
        seen[place + rows.first[start:end]] = True
        seen[place + rows.second[start:end]] = True
        found += seen.reshape(-1, m).sum(axis=0)
    return found


def _squares_by_lag(rows: RowScores, largest: int) -> Floats:
    m, first, second, pull, cluster = rows.n_models, rows.first, rows.second, rows.pull, rows.cluster
    square = pull * pull
    own = sum_by(first * m + second, square, m * m).reshape(m, m)
    own += own.T
    total = np.diag(own.sum(axis=1)) - own
    across = np.zeros(m * m)
    for lag in range(1, largest):
        here = np.flatnonzero(cluster[lag:] == cluster[:-lag])
        there = here + lag
        product = pull[here] * pull[there]
        a, b, c, d = first[here] * m, second[here] * m, first[there], second[there]
        across += sum_by(a + c, product, m * m) + sum_by(b + d, product, m * m)
        across -= sum_by(a + d, product, m * m) + sum_by(b + c, product, m * m)
    pairs = across.reshape(m, m)
    return np.asarray(total + pairs + pairs.T)


def _squares_by_product(rows: RowScores) -> Floats:
    m, total = rows.n_models, np.zeros((rows.n_models, rows.n_models))
    for start, end, low, high in _pieces(rows):
        place, pull = (rows.cluster[start:end] - low) * m, rows.pull[start:end]
        size = (high - low) * m
        spread = sum_by(place + rows.first[start:end], pull, size) - sum_by(place + rows.second[start:end], pull, size)
        spread = spread.reshape(-1, m)
        total += spread.T @ spread
    return total


def _pieces(rows: RowScores) -> list[tuple[int, int, int, int]]:
    """Stretches of sorted rows with few enough clusters: first and last row, first and last cluster."""
    width = max(1, DENSE_NUMBERS // rows.n_models)
    bounds = np.arange(0, rows.n_clusters + width, width).clip(max=rows.n_clusters)
    starts = np.searchsorted(rows.cluster, bounds)
    pieces = zip(starts[:-1].tolist(), starts[1:].tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    return [piece for piece in pieces if piece[1] > piece[0]]
