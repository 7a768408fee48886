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

from tiltyard.errors import NotConverged
from tiltyard.ratings.battle_derivatives import BattleDerivatives, tie_places
from tiltyard.ratings.bradley_terry import BradleyTerryFit, border
from tiltyard.ratings.clusters import ClusteredRows, ModelClusters, model_clusters
from tiltyard.ratings.comparisons import Comparisons, Counted, Floats, Ints
from tiltyard.ratings.intervals import (
    FEW,
    Clustering,
    clustered_rows,
    few_from,
    in_both,
    independent_rows,
    own_counts,
    row_scores,
    shared_degrees,
    well_known,
)
from tiltyard.ratings.leave_one_out import leave_one_out_by_diagonal

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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

MOST_ROUNDS = 2_000

Singles = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Draws of all errors: `moves` is H⁺ξ (parameters, draws), `local` is ξ/diag H (models, draws).

    `scaled` are the scores divided by diag H, (models, clusters): the covariance of `local` is known from them.
    """

    moves: Singles
    local: Singles
    scaled: csr_array[np.float64]

    def variances(self, zero: Floats | None) -> tuple[Floats, Floats]:
        """The variance of every strength minus the mean with these weights, and its Monte-Carlo standard error."""
        m, k = len(self.local), self.moves.shape[1]
        zero = np.full(m, 1.0 / m) if zero is None else zero
        total, squares = np.zeros(m), np.zeros(m)
        for column in range(k):
            x, near = self.moves[:m, column].astype(np.float64), self.local[:, column].astype(np.float64)
            value = (x - zero @ x) ** 2 - (near - zero @ near) ** 2
            total += value
            squares += value * value
        mean = total / k
        error = np.sqrt(np.maximum(squares / k - mean * mean, 0.0) / (k - 1))
        towards = self.scaled.T @ zero
        own: Floats = np.asarray(self.scaled.power(2).sum(axis=1))
        exact = own - 2.0 * (self.scaled @ towards) + towards @ towards
        return np.asarray(mean + exact), error

    def squared_gaps(self, first: Ints, second: Ints) -> Floats:
        """The mean square of what the draws of two models differ by, for every pair."""
        total = np.zeros(len(first))
        for column in self.moves.T:
            total += (column[first] - column[second]) ** 2
        return np.asarray(total / self.moves.shape[1])

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
    corrected: bool = True

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
    information = SparseInformation.of(fit)
    battles = rows.battles_per_model()

    def draw(number: int, scores: csr_array[np.float64], factor: float = 1.0) -> Draws:
        return _draw(information, scores, factor, np.random.default_rng([seed, number]), draws)

    fisher = draw(0, _root_information(fit))
    seen = SURE_SHARE * fisher.squared_gaps(fit.cells.first, fit.cells.second)
    derivatives = BattleDerivatives.by_diagonal(fit, information.inverse_diagonal, seen)
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


@dataclass(frozen=True, slots=True, eq=False)
class SparseInformation:
    """The information H of a fit as a sparse matrix of pairs and a border for the few other parameters.

    `inverse_diagonal` is 1/H_ii for strengths, and the inverse of what they leave unexplained for the others.
    """

    pairs: csr_array[np.float64]
    diagonal: Floats
    side: Floats
    onto: Floats
    few: Floats

    @classmethod
    def of(cls, fit: BradleyTerryFit) -> SparseInformation:
        """The information at a fit."""
        from scipy.sparse import csr_array

        cells, m, weight = fit.cells, fit.cells.n_models, fit.curvature()
        off = csr_array((weight.delta, (cells.first, cells.second)), shape=(m, m))
        pairs = csr_array(off + off.T)
        diagonal = np.maximum(pairs.sum(axis=1), 1e-300)
        if fit.prior is not None:
            diagonal = diagonal + fit.prior.precision
        side = border(cells, weight, fit.tied_groups)
        onto = _solve(pairs, diagonal, side[:m])
        few = np.linalg.inv(side[m:] - side[:m].T @ onto)
        return cls(pairs, diagonal, side, onto, few.astype(np.float64))

    @property
    def inverse_diagonal(self) -> Floats:
        """What stands in for the diagonal of H⁺."""
        return np.concatenate([1.0 / self.diagonal, np.diag(self.few)])

    def solve(self, right: Floats) -> Floats:
        """H⁺ times each column, strengths measured from their mean."""
        m = len(self.diagonal)
        free = _solve(self.pairs, self.diagonal, right[:m])
        rest = self.few @ (right[m:] - self.side[:m].T @ free)
        return np.concatenate([free - self.onto @ rest, rest])


def _solve(pairs: csr_array[np.float64], diagonal: Floats, right: Floats) -> Floats:
    """Strengths that explain each column, by conjugate gradients side by side with the diagonal as preconditioner."""
    found = np.zeros_like(right)
    if not right.shape[1]:
        return found
    left = right - right.mean(axis=0)
    least = SOLVE_TOLERANCE * np.sqrt((left * left / diagonal[:, None]).sum(axis=0))
    scaled = left / diagonal[:, None]
    way, size = scaled.copy(), (left * scaled).sum(axis=0)
    for _ in range(MOST_ROUNDS):
        if (np.sqrt(size) <= least).all():
            return np.asarray(found - found.mean(axis=0))
        along = diagonal[:, None] * way - pairs @ way
        length = size / np.maximum((way * along).sum(axis=0), 1e-300)
        found += length * way
        left -= length * along
        scaled = left / diagonal[:, None]
        before, size = size, (left * scaled).sum(axis=0)
        way = scaled + size / np.maximum(before, 1e-300) * way
    raise NotConverged(
        'the standard errors did not converge: the battles barely connect the models. Use ci="none", or '
        "min_battles=... to leave out models that have few battles."
    )


def _draw(
    information: SparseInformation, scores: csr_array[np.float64], factor: float, rng: np.random.Generator, draws: int
) -> Draws:
    """Draws of ξ = Σ ± the columns of `scores` (parameters, clusters), solved."""
    from scipy.sparse import csr_array

    n, m = scores.shape[0], len(information.diagonal)
    moves, local = np.empty((n, draws), dtype=np.float32), np.empty((m, draws), dtype=np.float32)
    scores = scores * np.sqrt(factor)
    for start in range(0, draws, COLUMNS_AT_ONCE):
        width = min(COLUMNS_AT_ONCE, draws - start)
        signs = 2.0 * rng.integers(0, 2, size=(scores.shape[1], width), dtype=np.int8) - 1.0
        drawn = scores @ signs
        local[:, start : start + width] = drawn[:m] / information.diagonal[:, None]
        moves[:, start : start + width] = information.solve(drawn)
    return Draws(moves, local, csr_array(scores[:m].multiply(1.0 / information.diagonal[:, None])))


def _root_information(fit: BradleyTerryFit) -> csr_array[np.float64]:
    """Columns whose squares sum to the information: for every cell the two of its 2 × 2 curvature's root."""
    cells, weight = fit.cells, fit.curvature()
    n, top = len(cells), np.sqrt(np.maximum(weight.delta, 0.0))
    across = np.divide(weight.cross, top, out=np.zeros(n), where=top > 0.0)
    rest = np.sqrt(np.maximum(weight.tie - across**2, 0.0))
    each, none = np.arange(n), np.zeros(n)
    spread = _Spread(fit)
    return spread.matrix([spread.of(each, each, top, across), spread.of(each, each + n, none, rest)], 2 * n)


def _one_way(
    fit: BradleyTerryFit,
    derivatives: BattleDerivatives,
    rows: Comparisons,
    counted: Counted,
    cluster: Ints | None,
    *,
    corrected: bool,
) -> tuple[csr_array[np.float64], Clustering]:
    """The scores of one kind of clusters, a column each, and what the clusters are worth."""
    own, spread = independent_rows(rows, cluster), _Spread(fit)
    scores = derivatives.scores_without if corrected else derivatives.scores
    counts = own_counts(fit, rows, counted, own)
    cell, result = np.nonzero(counts)
    size = np.sqrt(counts[cell, result])
    parts = [spread.of(cell, np.arange(len(cell)), size * scores.delta[cell, result], size * scores.tie[cell, result])]
    columns = len(cell)
    if counted.share is not None:
        soft = np.flatnonzero(own & ~np.isnan(counted.share))
        at, pull = counted.cell[soft], np.sqrt(rows.weight[soft]) * row_scores(scores.delta, counted, soft)
        parts.append(spread.of(at, columns + np.arange(len(soft)), pull, np.zeros_like(pull)))
        columns += len(soft)
    alone, count = rows.take(own).battles_per_model(), float(rows.weight[own].sum())
    models = ModelClusters(alone, alone, alone, count, min(count, 1.0))
    if cluster is not None:
        for shared in clustered_rows(fit, derivatives, rows, counted, cluster, np.flatnonzero(~own)):
            count += shared.n_clusters
            models = models + model_clusters(shared)
            kept = leave_one_out_by_diagonal(shared, derivatives.inverse) if corrected else shared
            parts.append(spread.rows(kept, columns))
            columns += shared.n_clusters
    total = float(rows.weight.sum())
    effective = models.effective if corrected else models.clusters
    way = Clustering(np.empty((0, 0)), count, total**2 / models.all_squares, effective, models.largest / total)
    return spread.matrix(parts, columns), way


Triples = tuple[Ints, Ints, Floats]


class _Spread:
    """Slopes by log-odds and by tie as entries of a sparse matrix (parameters, clusters)."""

    def __init__(self, fit: BradleyTerryFit) -> None:
        self.fit, self.n = fit, fit.n_parameters
        self.tie_at = tie_places(fit)[fit.cells.group]

    def of(self, cell: Ints, column: Ints, pull: Floats, tied: Floats) -> Triples:
        """The entries of slopes that belong to cells of the fit."""
        cells = self.fit.cells
        return self._triples(
            cells.first[cell], cells.second[cell], cells.design[cell], self.tie_at[cell], column, pull, tied
        )

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

    def matrix(self, parts: list[Triples], columns: int) -> csr_array[np.float64]:
        """The sparse matrix of all entries; entries at one place add up. A prior's pull has a column for each model."""
        from scipy.sparse import csr_array

        prior = self.fit.prior
        if prior is not None:
            each = np.arange(self.fit.cells.n_models)
            parts = [*parts, (each, columns + each, np.full(len(each), prior.precision * np.sqrt(prior.spread)))]
            columns += len(each)
        parameter, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
        return csr_array((value, (parameter, column)), shape=(self.n, columns))
