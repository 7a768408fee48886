"""Sums of scores over clusters, and the sum of their squares: the middle of a clustered sandwich.

Σ_p s_p s_pᵀ over clusters p needs the products of every two rows that share a cluster. Two ways lead there, and the
cheaper one is taken: few large clusters (prompts of a tournament) are spread out as a dense matrix and multiplied; many
small ones (a prompt to a handful of votes) are sorted, and each row is multiplied with the next, the next but one and
so on, as long as they share a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tiltyard.ratings.comparisons import Comparisons, order_of, sum_by
from tiltyard.types import Floats, Ints

ROWS_AT_ONCE = 1 << 19
"""Clustered rows are summed in pieces of about this size, so that they need little memory."""

DENSE_NUMBERS = 4_000_000
"""A dense piece holds at most this many numbers."""

LAG_NANOSECONDS = 40.0
"""About what one product of two rows costs, in nanoseconds, ..."""
DENSE_NANOSECONDS = 0.3
"""... and one multiplication inside a dense product: only their ratio matters, and only for speed."""


@dataclass(frozen=True, slots=True, eq=False)
class ClusteredRows:
    """Rows that share clusters, sorted by cluster, with the derivatives of their log-likelihood (weights included).

    `pull` and `tied` are the slopes by the log-odds of the first model and by the tie parameter, `bend` the curvature:
    columns by log-odds, by both, by tie. `design` holds covariates, `tie_at` the place of the row's tie parameter among
    those of the fit, −1 where it has none. `leverage` is the row's part of its cluster's trace. Clusters are numbered
    0, 1, 2, … without gaps.
    """

    n_models: int
    n_ties: int
    first: Ints
    second: Ints
    cluster: Ints
    weight: Floats
    pull: Floats
    tied: Floats
    bend: Floats
    design: Floats
    tie_at: Ints
    leverage: Floats

    @property
    def n_clusters(self) -> int:
        """How many clusters there are."""
        return int(self.cluster.max(initial=-1)) + 1

    def rest(self) -> Floats:
        """The slopes by all parameters but the strengths, a column each: coefficients, then tie parameters."""
        columns = [self.pull * column for column in self.design.T]
        columns += [np.where(self.tie_at == at, self.tied, 0.0) for at in range(self.n_ties)]
        return np.column_stack(columns) if columns else np.empty((len(self.first), 0))


def sum_of_squares(rows: ClusteredRows) -> Floats:
    """Σ_p s_p s_pᵀ over all clusters, in the order models, then the other parameters."""
    m, columns = rows.n_models, rows.rest()
    extra = columns.shape[1]
    sizes = np.bincount(rows.cluster, minlength=rows.n_clusters)
    lag_cost = LAG_NANOSECONDS * float((sizes.astype(np.float64) ** 2).sum())
    if lag_cost < DENSE_NANOSECONDS * rows.n_clusters * m * m:
        models = _squares_by_lag(rows, int(sizes.max()))
    else:
        models = _squares_by_product(rows)
    total = np.zeros((m + extra, m + extra))
    total[:m, :m] = models
    rest = np.column_stack([sum_by(rows.cluster, column, rows.n_clusters) for column in columns.T]) if extra else None
    if rest is not None:
        total[m:, m:] = rest.T @ rest
        for k in range(extra):
            along = rows.pull * rest[rows.cluster, k]
            total[:m, m + k] = sum_by(rows.first, along, m) - sum_by(rows.second, along, m)
        total[m:, :m] = total[:m, m:].T
    return total


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSizes:
    """How many clusters there are, and how unequal they are.

    `squares` is, for every model, the sum of n_c², n_c the number of its battles in cluster c; `all_squares` the same
    sum over the battles of all models, `largest` the number of battles in the largest cluster.
    """

    count: float
    squares: Floats
    all_squares: float
    largest: float

    def __add__(self, other: ClusterSizes) -> ClusterSizes:
        return ClusterSizes(
            self.count + other.count,
            self.squares + other.squares,
            self.all_squares + other.all_squares,
            max(self.largest, other.largest),
        )

    @classmethod
    def alone(cls, rows: Comparisons) -> ClusterSizes:
        """The sizes where every battle is a cluster of its own."""
        count = float(rows.weight.sum())
        return cls(count, rows.battles_per_model(), count, min(count, 1.0))

    @classmethod
    def of(cls, rows: ClusteredRows) -> ClusterSizes:
        """The sizes of clusters of rows."""
        m = rows.n_models
        key = np.concatenate([rows.cluster * m + rows.first, rows.cluster * m + rows.second])
        if (rows.weight == 1.0).all():
            key.sort()
            weight = np.ones(len(key))
        else:
            order = order_of(key)
            key, weight = key[order], np.concatenate([rows.weight, rows.weight])[order]
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        battles, model = np.add.reduceat(weight, starts), key[starts] % m
        sizes = sum_by(rows.cluster, rows.weight, rows.n_clusters)
        return cls(rows.n_clusters, sum_by(model, battles * battles, m), float(sizes @ sizes), float(sizes.max()))


def _squares_by_lag(rows: ClusteredRows, largest: int) -> Floats:
    m, first, second, pull, cluster = rows.n_models, rows.first, rows.second, rows.pull, rows.cluster
    square = pull * pull
    own = sum_by(first * m + second, square, m * m).reshape(m, m)
    own += own.T
    total = np.diag(own.sum(axis=1)) - own
    across = np.zeros(m * m)
    here = np.arange(len(cluster))
    for lag in range(1, largest):
        here = here[: np.searchsorted(here, len(cluster) - lag)]
        here = here[cluster[here + lag] == cluster[here]]  # whoever has none so far on has none further on
        there = here + lag
        product = pull[here] * pull[there]
        a, b, c, d = first[here] * m, second[here] * m, first[there], second[there]
        across += sum_by(a + c, product, m * m) + sum_by(b + d, product, m * m)
        across -= sum_by(a + d, product, m * m) + sum_by(b + c, product, m * m)
    pairs = across.reshape(m, m)
    return np.asarray(total + pairs + pairs.T)


def _squares_by_product(rows: ClusteredRows) -> Floats:
    m, total = rows.n_models, np.zeros((rows.n_models, rows.n_models))
    for start, end, low, high in _pieces(rows):
        place, pull = (rows.cluster[start:end] - low) * m, rows.pull[start:end]
        size = (high - low) * m
        spread = sum_by(place + rows.first[start:end], pull, size) - sum_by(place + rows.second[start:end], pull, size)
        spread = spread.reshape(-1, m)
        total += spread.T @ spread
    return total


def _pieces(rows: ClusteredRows) -> list[tuple[int, int, int, int]]:
    """Stretches of sorted rows with few enough clusters: first and last row, first and last cluster."""
    width = max(1, DENSE_NUMBERS // rows.n_models)
    bounds = np.arange(0, rows.n_clusters + width, width).clip(max=rows.n_clusters)
    starts = np.searchsorted(rows.cluster, bounds)
    pieces = zip(starts[:-1].tolist(), starts[1:].tolist(), bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    return [piece for piece in pieces if piece[1] > piece[0]]


def cut_between_clusters(cluster: Ints) -> Iterator[slice]:
    """Sorted clusters in pieces of about ROWS_AT_ONCE, no cluster cut in two."""
    start = 0
    while start < len(cluster):
        last = cluster[min(start + ROWS_AT_ONCE, len(cluster)) - 1]
        end = int(np.searchsorted(cluster, last, side="right"))
        yield slice(start, end)
        start = end


def number_clusters(cluster: Ints) -> Ints:
    """The same clusters numbered 0, 1, 2, … without gaps."""
    used = np.zeros(int(cluster.max(initial=-1)) + 1, dtype=bool)
    used[cluster] = True
    return np.asarray((np.cumsum(used) - 1)[cluster])
