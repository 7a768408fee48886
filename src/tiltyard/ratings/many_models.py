"""Intervals for thousands of models: standard errors from random signs, without a table of all pairs.

The sandwich V = H⁺ (Σ_c u_c u_cᵀ) H⁺ is the covariance of x = H⁺ξ with ξ = Σ_c ±u_c, each sign drawn by itself
(Hutchinson 1990, Communications in Statistics 19:433). k draws cost k sparse solves instead of M² numbers. Most of a
variance is known without drawing: ℓ = ξ/diag H has the exact variance L_i = Σ_c u_ci²/H_ii², so only the difference is
estimated,

    V_i = L_i + mean(x_i² − ℓ_i²) + one Monte-Carlo standard error,

and the last term keeps chance from making an interval too narrow. Fisher's variances are drawn in the same way, with
the information itself in the middle. Scores without their own cluster use diag(1/H_ii) for H⁺ (`leave_one_out`), but
for a battle whose two models are much less well joined than that, such as the only one between two groups: there the
drawn variance of their difference counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiltyard.ratings.battle_derivatives import BattleDerivatives, tie_places
from tiltyard.ratings.bradley_terry import BradleyTerryFit, SparseInformation
from tiltyard.ratings.clusters import ClusteredRows, ClusterSizes
from tiltyard.ratings.comparisons import Comparisons, Counted, sum_by
from tiltyard.ratings.intervals import (
    FEW,
    Clustering,
    clustered_rows,
    few_from,
    in_both,
    independent_rows,
    own_squares,
    shared_degrees,
    well_known,
)
from tiltyard.ratings.leave_one_out import leave_one_out_by_diagonal
from tiltyard.ratings.tie_models import Curvature
from tiltyard.types import Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csc_array

MANY_MODELS = 2_000
"""Above this many models variances are drawn; up to it the whole covariance is held."""

DRAWS = 192
"""Random draws: a standard error from them is off by one to four percent."""

COLUMNS_AT_ONCE = 32
"""Draws that are solved together."""

SURE_SHARE = 0.75
"""What is believed of a drawn variance where more would widen: two to three Monte-Carlo standard errors less."""

SOLVE_TOLERANCE = 1e-6
"""Conjugate gradients stop here; a coarser answer would miss errors shared by groups that hardly met."""

ROWS_AT_ONCE = 1 << 12
"""Models or pairs whose draws are looked at together, so that they stay in the processor's cache."""

SIGNS_AT_ONCE = 1 << 15
"""Clusters whose signs are drawn together, for the same reason."""

Singles = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Draws of all errors: `moves` is H⁺ξ (parameters, draws), `local` is ξ/diag H (models, draws).

    `scores` are what ξ is drawn from, (parameters, clusters), and `diagonal` is diag H: from both the covariance of
    `local` is known.
    """

    moves: Singles
    local: Singles
    scores: csc_array[np.float64]
    diagonal: Floats

    def variances(self, zero: Floats | None) -> tuple[Floats, Floats]:
        """The variance of every strength minus the mean with these weights, and its Monte-Carlo standard error."""
        m, k = len(self.local), self.moves.shape[1]
        zero = np.full(m, 1.0 / m) if zero is None else zero
        moved_zero, local_zero = zero @ self.moves[:m], zero @ self.local
        mean, error = np.empty(m), np.empty(m)
        for start in range(0, m, ROWS_AT_ONCE):
            piece = slice(start, min(start + ROWS_AT_ONCE, m))
            value = (self.moves[piece] - moved_zero) ** 2 - (self.local[piece] - local_zero) ** 2
            mean[piece] = value.mean(axis=1)
            error[piece] = value.std(axis=1, ddof=1) / np.sqrt(k)
        return np.asarray(mean + self._local_variances(zero)), error

    def _local_variances(self, zero: Floats) -> Floats:
        """The exact variance of ξ/diag H minus its weighted mean."""
        m = len(self.local)
        weights = np.concatenate([zero / self.diagonal, np.zeros(self.scores.shape[0] - m)])
        towards = self.scores.T @ weights
        own = sum_by(self.scores.indices, self.scores.data**2, self.scores.shape[0])[:m]
        across = (self.scores @ towards)[:m]
        return np.asarray(own / self.diagonal**2 - 2.0 * across / self.diagonal + towards @ towards)

    def squared_gaps(self, first: Ints, second: Ints) -> Floats:
        """The mean square of what the draws of two models differ by, for every pair."""
        found = np.empty(len(first))
        for start in range(0, len(first), ROWS_AT_ONCE):
            piece = slice(start, start + ROWS_AT_ONCE)
            gap = self.moves[first[piece]] - self.moves[second[piece]]
            found[piece] = np.einsum("pd,pd->p", gap, gap)
        return np.asarray(found / self.moves.shape[1])

    def variance(self, parameter: int) -> float:
        """The variance of one parameter that is not a strength, one Monte-Carlo standard error added."""
        value = self.moves[parameter].astype(np.float64) ** 2
        return float(value.mean() + value.std(ddof=1) / np.sqrt(len(value)))


@dataclass(frozen=True, slots=True, eq=False)
class DrawnCovariance:
    """What is known about the errors of a fit of many models: an `Uncertainty` that holds draws instead of a matrix.

    `each` are the draws of every clustering (of single rows where there is none), `both` those of the rows that agree
    in both of two. `fisher` are draws of the model's own covariance.
    """

    each: tuple[Draws, ...]
    both: Draws | None
    fisher: Draws
    degrees: Floats
    few: NDArray[np.bool_]
    ways: tuple[Clustering, ...] = ()

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which models have an interval: those with enough effective clusters."""
        return well_known(self)

    @property
    def all_degrees(self) -> float:
        """The degrees of freedom of what all battles share: a covariate's coefficient."""
        return shared_degrees(self)

    def widest(self) -> Draws:
        """The draws of the clustering on which the strengths depend most."""
        return max(self.each, key=lambda draws: float((draws.moves[: len(self.degrees)] ** 2).sum()))

    def variances(self, zero: Floats | None = None) -> Floats:
        """The variance of every strength minus a weighted mean of strengths (`zero` holds the weights; None: all)."""
        found = [draws.variances(zero) for draws in self.each]
        largest = np.max([value + error for value, error in found], axis=0)
        if self.both is not None:
            once, error = self.both.variances(zero)
            together = sum(value for value, _ in found) - once
            spread = np.sqrt(sum(error**2 for _, error in found) + error**2)
            largest = np.maximum(largest, together + spread)
        return np.where(_moving(zero, len(self.degrees)), np.maximum(largest, 0.0), 0.0)

    def fisher_variances(self, zero: Floats | None = None) -> Floats:
        """The same as the model itself has it: for models with few battles or clusters, 0 for the others."""
        value, error = self.fisher.variances(zero)
        return np.where(few_from(self.few, zero) & _moving(zero, len(self.few)), np.maximum(value + error, 0.0), 0.0)

    def variance(self, parameter: int) -> float:
        """The variance of one parameter that is not a strength: the largest that one of the clusterings gives."""
        return max(draws.variance(parameter) for draws in self.each)


def _moving(zero: Floats | None, models: int) -> NDArray[np.bool_]:
    """Which models can differ from the scale's zero: all but an anchor."""
    return np.ones(models, dtype=bool) if zero is None else np.asarray(zero != 1.0)


def drawn_sandwich(
    fit: BradleyTerryFit, rows: Comparisons, counted: Counted, *, seed: int, draws: int = DRAWS
) -> DrawnCovariance:
    """The sandwich of a fit of many models, clustered in every way that `rows` say, or row by row.

    The same seed gives the same bits.
    """
    information = SparseInformation(fit.cells, fit.curvature(), fit.tied_groups, fit.prior, tolerance=SOLVE_TOLERANCE)
    inverse_diagonal = np.concatenate([1.0 / information.diagonal, np.diag(np.linalg.inv(information.unexplained))])
    battles = rows.battles_per_model()

    def draw(number: int, scores: csc_array[np.float64], factor: float = 1.0) -> Draws:
        return _draw(information, scores, factor, np.random.default_rng([seed, number]), draws)

    root = _Spread(fit)
    fisher = draw(0, root.matrix(*root.root(fit.curvature())))
    seen = SURE_SHARE * fisher.squared_gaps(fit.cells.first, fit.cells.second)
    derivatives = BattleDerivatives.by_diagonal(fit, inverse_diagonal, seen)
    if not rows.clusters:
        scores, way = _one_way(fit, derivatives, rows, counted, None, corrected=False)
        each = (draw(1, scores, way.count / max(way.count - 1.0, 1.0)),)
        return DrawnCovariance(each, None, fisher, np.maximum(battles - 1.0, 1.0), battles < FEW)
    found, ways = [], []
    for number, cluster in enumerate(rows.clusters, start=1):
        scores, way = _one_way(fit, derivatives, rows, counted, cluster, corrected=True)
        found.append(draw(number, scores, (way.count - 1.0) / way.count))
        ways.append(way)
    both = None
    if len(ways) == 2:
        scores, _ = _one_way(fit, derivatives, rows, counted, in_both(*rows.clusters), corrected=False)
        both = draw(3, scores)
    effective = np.min([way.effective for way in ways], axis=0)
    few = (battles < FEW) | (effective < FEW)
    return DrawnCovariance(tuple(found), both, fisher, effective - 1.0, few, tuple(ways))


def _draw(
    information: SparseInformation, scores: csc_array[np.float64], factor: float, rng: np.random.Generator, draws: int
) -> Draws:
    """Draws of ξ = Σ ± the columns of `scores` (parameters, clusters), solved."""
    n, m = scores.shape[0], len(information.diagonal)
    moves, local = np.empty((n, draws), dtype=np.float32), np.empty((m, draws), dtype=np.float32)
    scores.data *= np.sqrt(factor)
    for start in range(0, draws, COLUMNS_AT_ONCE):
        width = min(COLUMNS_AT_ONCE, draws - start)
        drawn = _with_signs(scores, rng, width)
        local[:, start : start + width] = drawn[:m] / information.diagonal[:, None]
        moves[:, start : start + width] = information.solve(drawn)
    return Draws(moves, local, scores, information.diagonal)


def _with_signs(scores: csc_array[np.float64], rng: np.random.Generator, width: int) -> Floats:
    """The sum of the columns of `scores`, each with a random sign, as often as `width` says."""
    total = np.zeros((scores.shape[0], width))
    for start in range(0, scores.shape[1], SIGNS_AT_ONCE):
        columns = scores[:, start : start + SIGNS_AT_ONCE]
        number = columns.shape[1] * width
        bits = np.unpackbits(np.frombuffer(rng.bytes(-(-number // 8)), dtype=np.uint8), count=number)
        total += columns @ (2.0 * bits.reshape(-1, width) - 1.0)
    return total


def _one_way(
    fit: BradleyTerryFit,
    derivatives: BattleDerivatives,
    rows: Comparisons,
    counted: Counted,
    cluster: Ints | None,
    *,
    corrected: bool,
) -> tuple[csc_array[np.float64], Clustering]:
    """The scores of one kind of clusters, a column each, and what the clusters are worth."""
    own, spread = independent_rows(rows, cluster), _Spread(fit)
    scores = derivatives.scores_without if corrected else derivatives.scores
    parts, columns = spread.root(own_squares(fit, scores, rows, counted, own))
    sizes = ClusterSizes.alone(rows.take(own))
    if cluster is not None:
        for shared in clustered_rows(fit, derivatives, rows, counted, cluster, np.flatnonzero(~own)):
            sizes += ClusterSizes.of(shared)
            kept = leave_one_out_by_diagonal(shared, derivatives.inverse) if corrected else shared
            parts.append(spread.rows(kept, columns))
            columns += shared.n_clusters
    return spread.matrix(parts, columns), Clustering.of(np.empty((0, 0)), sizes, rows)


Triples = tuple[Ints, Ints, Floats]


class _Spread:
    """Slopes by log-odds and by tie as entries of a sparse matrix (parameters, clusters)."""

    def __init__(self, fit: BradleyTerryFit) -> None:
        self.fit, self.n = fit, fit.n_parameters
        self.tie_at = tie_places(fit)[fit.cells.group]

    def root(self, squares: Curvature) -> tuple[list[Triples], int]:
        """Entries of columns whose squares sum to these, and how many columns.

        One is for each cell, with its slopes by log-odds and tie, and one for each tie parameter with what is left.
        """
        cells, n = self.fit.cells, len(self.fit.cells)
        top = np.sqrt(np.maximum(squares.delta, 0.0))
        across = np.divide(squares.cross, top, out=np.zeros(n), where=top > 0.0)
        each = self._triples(cells.first, cells.second, cells.design, self.tie_at, np.arange(n), top, across)
        has, ties = self.tie_at >= 0, np.arange(len(self.fit.tied_groups))
        rest = sum_by(self.tie_at[has], np.maximum(squares.tie - across**2, 0.0)[has], len(ties))
        parameter = cells.n_models + cells.design.shape[1] + ties
        return [each, (parameter, n + ties, np.sqrt(rest))], n + len(ties)

    def rows(self, rows: ClusteredRows, offset: int) -> Triples:
        """The entries of rows that share clusters, whose columns start at `offset`."""
        return self._triples(
            rows.first, rows.second, rows.design, rows.tie_at, offset + rows.cluster, rows.pull, rows.tied
        )

    def _triples(
        self, first: Ints, second: Ints, design: Floats, tie_at: Ints, column: Ints, pull: Floats, tied: Floats
    ) -> Triples:
        m, q = self.fit.cells.n_models, design.shape[1]
        has = np.flatnonzero((tie_at >= 0) & (tied != 0.0))
        parameter = [first, second, *(np.full(len(first), m + k) for k in range(q)), m + q + tie_at[has]]
        columns = [column] * (2 + q) + [column[has]]
        values = [pull, -pull, *(pull * z for z in design.T), tied[has]]
        return np.concatenate(parameter), np.concatenate(columns), np.concatenate(values)

    def matrix(self, parts: list[Triples], columns: int) -> csc_array[np.float64]:
        """The sparse matrix of all entries; entries at one place add up. A prior's pull has a column for each model."""
        from scipy.sparse import csc_array

        prior = self.fit.prior
        if prior is not None:
            each = np.arange(self.fit.cells.n_models)
            parts = [*parts, (each, columns + each, np.full(len(each), prior.precision * np.sqrt(prior.spread)))]
            columns += len(each)
        parameter, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        return csc_array((value, (parameter, column)), shape=(self.n, columns))
