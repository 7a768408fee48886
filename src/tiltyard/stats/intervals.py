"""How sure: covariances of a Bradley–Terry fit, and the intervals cut from them.

The default is the sandwich H⁺ M H⁺ (Huber 1967; White 1982), whose middle sums squared scores over clusters (Liang and
Zeger 1986): what rows of one prompt, or of one voter, have in common is then counted once. Treating two verdicts on one
prompt as independent makes nominal 95 % intervals of a 12-entrant tournament cover the truth about 65 % of the time.

- **Skewed clusters.** Scores are those without their own cluster (`clusters`), and a model's degrees of freedom
  come from its effective clusters (Σn)²/Σn², not from their number.
- **Two ways** (prompts and voters): V = V_prompt + V_voter − V_both (Cameron, Gelbach and Miller 2011, Journal of
  Business & Economic Statistics 29:238), the last one uncorrected. The largest of the three variances is used wherever
  one is needed, because their combination can be too small, or negative, by chance.

For thousands of models, standard errors come from random signs, without a table of all pairs. The sandwich V = H⁺ (Σ_c
u_c u_cᵀ) H⁺ is the covariance of x = H⁺ξ with ξ = Σ_c ±u_c, each sign drawn by itself (Hutchinson 1990, Communications
in Statistics 19:433). k draws cost k sparse solves instead of M² numbers. Most of a variance is known without drawing:
ℓ = ξ/diag H has the exact variance L_i = Σ_c u_ci²/H_ii², so only the difference is estimated,

    V_i = L_i + mean(x_i² − ℓ_i²) + one Monte-Carlo standard error,

and the last term keeps chance from making an interval too narrow. Fisher's variances are drawn in the same way, with
the information itself in the middle. Scores without their own cluster use diag(1/H_ii) for H⁺ (`clusters`), but
for a battle whose two models are much less well joined than that, such as the only one between two groups: there the
drawn variance of their difference counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.stats.bradley_terry import BradleyTerryFit, SparseInformation, assemble
from tiltyard.stats.clusters import (
    BattleDerivatives,
    ClusteredRows,
    ClusterSizes,
    SumOfSquares,
    by_cluster,
    leave_one_out,
    number_sorted,
    score_triples,
    tie_places,
)
from tiltyard.stats.comparisons import OWN_CLUSTER, Comparisons, Counted, sum_by, sum_by_both
from tiltyard.stats.quantiles import normal_quantile, t_quantile
from tiltyard.stats.tie_models import Curvature, ResultScores
from tiltyard.types import AnyInts, Floats, Int32s, Ints, looked_up, numbered, pieces

if TYPE_CHECKING:
    from scipy.sparse import csc_array


FEW = 20
"""A model with fewer battles or effective clusters than this takes the wider of its sandwich and Fisher intervals."""

FEWEST_CLUSTERS = 2.5
"""A model with fewer effective clusters has no interval: its scores hardly vary, whatever its strength."""

FLAT = 1e-9
"""A sandwich below this part of Fisher's variance is rounding: no cluster pulls either way, and Fisher's counts."""


class Clustering(msgspec.Struct, frozen=True, eq=False):
    """One way in which battles depend on each other: the covariance it gives, and its clusters.

    `matrix` is empty where there are too many models to hold it. `count` is the number of clusters and
    `effective_count` what they are worth, `effective` what each model's are worth, `largest_share` the largest
    cluster's part of all battles.
    """

    matrix: Floats
    count: float
    effective_count: float
    effective: Floats
    largest_share: float

    @classmethod
    def of(cls, matrix: Floats, sizes: ClusterSizes, rows: Comparisons) -> Clustering:
        """A clustering of these rows; n battles of unequal clusters are worth (Σn)²/Σn² equal ones."""
        total = float(rows.weight.sum())
        effective = rows.battles_per_model() ** 2 / np.maximum(sizes.squares, 1e-300)
        return cls(matrix, sizes.count, total**2 / sizes.all_squares, effective, sizes.largest / total)


class Uncertainty:
    """What intervals and places are cut from: variances, and how well each of them is known.

    `degrees` are the degrees of freedom of each model, `few` says which have few battles or clusters; `ways` are the
    clusterings, empty row by row.
    """

    degrees: Floats
    few: NDArray[np.bool_]
    ways: tuple[Clustering, ...]

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which models have an interval: those with enough effective clusters, if there are two to measure apart."""
        enough = np.asarray(self.degrees >= FEWEST_CLUSTERS - 1.0 if self.ways else self.degrees > 0.0)
        return enough if enough.sum() > 1 else np.zeros_like(enough)

    @property
    def all_degrees(self) -> float:
        """The degrees of freedom of what all battles share: a covariate's coefficient."""
        return max(min(way.effective_count for way in self.ways) - 1.0, 1.0) if self.ways else math.inf

    def variances(self, zero: Floats | None = None) -> Floats:
        """The variance of every strength minus a weighted mean of strengths (`zero` holds the weights; None: all)."""
        raise NotImplementedError

    def fisher_variances(self, zero: Floats | None = None) -> Floats:
        """The same as the model itself has it: for models with few battles or clusters, 0 for the others.

        Measured from one model (an anchor) that has few, all have few. Where scores do not vary at all, as where every
        prompt was won once by each side, no sandwich has a width, and the model's own variance stands in for it.
        """
        few = self.few | self.few[int(np.argmax(zero))] if zero is not None and zero.max() == 1.0 else self.few
        own = np.maximum(self._by_model(zero), 0.0)
        return np.where(few | (self.variances(zero) <= FLAT * own), own, 0.0)

    def _by_model(self, zero: Floats | None) -> Floats:
        raise NotImplementedError

    def variance(self, parameter: int) -> float:
        """The variance of one parameter that is not a strength: the largest that one of the clusterings gives."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Covariance(Uncertainty):
    """What is known about the errors of all parameters of a fit, strengths measured from their mean.

    A variance is the largest that one of `matrices` gives. `fisher` is the covariance if every row were independent and
    the model exact.
    """

    matrices: tuple[Floats, ...]
    fisher: Floats
    degrees: Floats
    few: NDArray[np.bool_]
    ways: tuple[Clustering, ...] = ()

    @property
    def matrix(self) -> Floats:
        """One covariance matrix for export: positive semi-definite, though the two-way combination may not be."""
        if len(self.matrices) == 1:
            return self.matrices[0]
        values, vectors = np.linalg.eigh(self.matrices[0])
        return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)

    def variances(self, zero: Floats | None = None) -> Floats:
        """The variance of every strength minus a mean of strengths (`zero` holds its weights; None: of all)."""
        return np.asarray(np.maximum(np.max([self._from_zero(matrix, zero) for matrix in self.matrices], axis=0), 0.0))

    def _by_model(self, zero: Floats | None) -> Floats:
        return self._from_zero(self.fisher, zero)

    def differences(self) -> Floats:
        """The variance of every difference of two strengths.

        Where one of the two has few battles or clusters it is no smaller than Fisher's: a handful of prompts leaves
        directions in which their scores happen not to vary, and two models are not certain to differ for that.
        """
        m = len(self.degrees)
        sandwiched = _differences(self.matrices[0][:m, :m])
        for matrix in self.matrices[1:]:
            np.maximum(sandwiched, _differences(matrix[:m, :m]), out=sandwiched)
        own = _differences(self.fisher[:m, :m])
        few = self.few[:, None] | self.few[None, :] | (sandwiched <= FLAT * own)
        return np.where(few, np.maximum(sandwiched, own), sandwiched)

    def _from_zero(self, matrix: Floats, zero: Floats | None) -> Floats:
        m = len(self.degrees)
        own = np.diag(matrix)[:m]
        if zero is None:  # strengths are measured from the mean of all already
            return own
        towards = matrix[:m, :m] @ zero
        return np.asarray(own - 2.0 * towards + zero @ towards)

    def variance(self, parameter: int) -> float:
        """The variance of one parameter; the model's own where scores do not vary."""
        largest, own = (max(float(one[parameter, parameter]) for one in of) for of in (self.matrices, (self.fisher,)))
        return largest if largest > FLAT * own else own


def sandwich(fit: BradleyTerryFit, rows: Comparisons, counted: Counted) -> Covariance:
    """The sandwich covariance of a fit, clustered in every way that `rows` say, or row by row.

    `rows` are those that `counted` was made of; cells of `fit` beyond them (the prior's) count by their weights.
    With a prior the middle holds what that pulls wrongly (`shrinkage`).
    """
    inverse = fit.inverse_information()
    battles = rows.battles_per_model()
    derivatives = BattleDerivatives.of(fit, inverse)
    if not rows.clusters:
        way = one_way(fit, derivatives, rows, counted, None, corrected=False)
        matrix = way.matrix * (way.count / max(way.count - 1.0, 1.0))
        return _around_prior(fit, Covariance((matrix,), inverse, np.maximum(battles - 1.0, 1.0), battles < FEW))
    ways = tuple(one_way(fit, derivatives, rows, counted, code, corrected=True) for code in rows.clusters)
    matrices: tuple[Floats, ...] = tuple(way.matrix for way in ways)
    if len(ways) == 2:
        both = one_way(fit, derivatives, rows, counted, in_both(*rows.clusters), corrected=False)
        matrices = (matrices[0] + matrices[1] - both.matrix, *matrices)
    return _around_prior(fit, combine(matrices, inverse, battles, ways))


def _around_prior(fit: BradleyTerryFit, covariance: Covariance) -> Covariance:
    """The covariance with the error of a prior's pull: K Q (spread · I) Q K, K the inverse information."""
    if fit.prior is None:
        return covariance
    inverse, m = covariance.fisher, fit.cells.n_models
    pulled = fit.prior.times(inverse[:m])
    wider = fit.prior.spread * (pulled.T @ pulled)
    matrices = tuple(matrix + wider for matrix in covariance.matrices)
    return replace(covariance, matrices=matrices, fisher=inverse - inverse[:, :m] @ pulled + wider)


def combine(matrices: tuple[Floats, ...], inverse: Floats, battles: Floats, ways: tuple[Clustering, ...]) -> Covariance:
    """The covariance of clusterings: a model's degrees of freedom are those of its most skewed one."""
    effective = np.min([way.effective for way in ways], axis=0)
    return Covariance(matrices, inverse, effective - 1.0, (battles < FEW) | (effective < FEW), ways)


def one_way(
    fit: BradleyTerryFit,
    derivatives: BattleDerivatives,
    rows: Comparisons,
    counted: Counted,
    cluster: AnyInts | None,
    *,
    corrected: bool,
) -> Clustering:
    """The sandwich over one kind of clusters, or over single rows; `corrected`: with scores without their own."""
    own = independent_rows(rows, cluster)
    parts: Iterable[ClusteredRows] = ()
    if cluster is not None and not own.all():
        parts = clustered_rows(fit, derivatives, rows, counted, cluster, own)
    return summed_way(fit, derivatives, rows, counted, own, parts, corrected=corrected)


def summed_way(
    fit: BradleyTerryFit,
    derivatives: BattleDerivatives,
    rows: Comparisons,
    counted: Counted,
    own: NDArray[np.bool_],
    parts: Iterable[ClusteredRows],
    *,
    corrected: bool,
    elsewhere: tuple[Floats, ClusterSizes] | None = None,
) -> Clustering:
    """The sandwich of rows that are their `own` cluster, of clusters in `parts`, and of those summed `elsewhere`."""
    scores = derivatives.scores_without if corrected else derivatives.scores
    middle = assemble(fit.cells, own_squares(fit, scores, rows, counted, own), fit.tied_groups)
    sizes = ClusterSizes.alone(rows if own.all() else rows.take(np.flatnonzero(own)))
    squares = SumOfSquares(fit.n_parameters)
    for shared in parts:
        sizes += ClusterSizes.of(shared)
        squares.add(leave_one_out(shared, derivatives.inverse) if corrected else shared)
    middle += squares.total
    if elsewhere is not None:
        middle += elsewhere[0]
        sizes += elsewhere[1]
    matrix = derivatives.inverse @ middle @ derivatives.inverse
    if corrected:
        matrix *= (sizes.count - 1.0) / sizes.count
    return Clustering.of(matrix, sizes, rows)


def independent_rows(rows: Comparisons, cluster: AnyInts | None) -> NDArray[np.bool_]:
    """Which rows share their cluster with no other row: those can be summed by pair."""
    if cluster is None:
        return np.ones(len(rows), dtype=bool)
    sizes = np.zeros(int(cluster.max(initial=OWN_CLUSTER)) + 2, dtype=np.int32)
    for piece in pieces(len(rows)):
        np.add.at(sizes, cluster[piece], np.ones(piece.stop - piece.start, dtype=np.int32))
    alone = looked_up(sizes == 1, cluster)
    alone &= rows.weight == 1.0
    alone |= cluster == OWN_CLUSTER  # counted last among the sizes
    return alone


def in_both(one: AnyInts, other: AnyInts) -> Int32s:
    """Clusters of the rows that agree in both; a row without one of the two is its own cluster."""
    width = int(other.max(initial=0)) + 1
    key = np.empty(len(one), dtype=np.int64)
    for piece in pieces(len(one)):
        named = (one[piece] != OWN_CLUSTER) & (other[piece] != OWN_CLUSTER)
        key[piece] = np.where(named, one[piece].astype(np.int64) * width + other[piece] + 1, 0)
    return numbered(key)[0]


def own_counts(fit: BradleyTerryFit, rows: Comparisons, counted: Counted, own: NDArray[np.bool_]) -> Floats:
    """Results (won, lost, tied) by cell of the rows that are their own cluster, soft ones apart; the prior's too."""
    counts = fit.cells.counts.copy()
    if not own.all() or counted.share is not None:
        hard = np.flatnonzero(own if counted.share is None else own & np.isnan(counted.share))
        real = len(counted.cells)
        counts[:real] = sum_by_both(counted.cell[hard], counted.result[hard], rows.weight[hard], (real, 3))
    return counts


def own_squares(
    fit: BradleyTerryFit, scores: ResultScores, rows: Comparisons, counted: Counted, own: NDArray[np.bool_]
) -> Curvature:
    """Sums of squared scores of the rows that are their own cluster, per cell, in the shape `assemble` takes."""
    counts = own_counts(fit, rows, counted, own)
    squares = Curvature(
        (counts * scores.delta**2).sum(axis=1),
        (counts * scores.delta * scores.tie).sum(axis=1),
        (counts * scores.tie**2).sum(axis=1),
    )
    if counted.share is None:
        return squares
    soft = np.flatnonzero(own & ~np.isnan(counted.share))
    pull = row_scores(scores.delta, counted, soft)
    squares.delta[:] += sum_by(counted.cell[soft], rows.weight[soft] * pull * pull, len(squares.delta))
    return squares


def row_scores(table: Floats, counted: Counted, chosen: NDArray[np.intp]) -> Floats:
    """The scores of some rows: each its result's column of its cell, mixed where the outcome is soft."""
    cell = counted.cell[chosen]
    score = table[cell, counted.result[chosen]]
    if counted.share is None:
        return np.asarray(score)
    share = counted.share[chosen]
    return np.where(np.isnan(share), score, share * table[cell, 0] + (1.0 - share) * table[cell, 1])


def clustered_rows(
    fit: BradleyTerryFit,
    derivatives: BattleDerivatives,
    rows: Comparisons,
    counted: Counted,
    cluster: AnyInts,
    own: NDArray[np.bool_],
) -> Iterator[ClusteredRows]:
    """The rows that are not their own cluster, with their derivatives: cluster by cluster, in pieces."""
    n, n_shared = len(counted.cells), len(rows) - int(np.count_nonzero(own))
    shared = (piece.start + np.flatnonzero(~own[piece]) for piece in pieces(len(rows)))
    if 3 * n > len(rows) or counted.share is not None or not (rows.weight == 1.0).all():
        for clusters, chosen in by_cluster(n_shared, len(rows), ((cluster[at], at) for at in shared)):
            yield _described(fit, derivatives, counted.take(chosen), rows.weight[chosen], number_sorted(clusters))
        return
    every = np.arange(3 * n)  # rows of one pair and result are alike: each kind is described once
    kinds = Counted(counted.cells, every // 3, (every % 3).astype(np.int8), None)
    alike = _described(fit, derivatives, kinds, np.ones(3 * n), every)
    records = alike.records()
    parts = ((cluster[at], 3 * counted.cell[at] + counted.result[at]) for at in shared)
    for clusters, kind in by_cluster(n_shared, 3 * n, parts):
        yield alike.read(clusters, records.take(kind).__getitem__)


def _described(
    fit: BradleyTerryFit, derivatives: BattleDerivatives, counted: Counted, weight: Floats, cluster: Ints
) -> ClusteredRows:
    """Rows with the derivatives of their log-likelihood."""
    scores, cell, every = derivatives.scores, counted.cell, np.arange(len(counted.cell))
    return ClusteredRows(
        n_models=fit.cells.n_models,
        n_ties=len(fit.tied_groups),
        bends=derivatives.bend,
        cell=cell,
        first=fit.cells.first[cell],
        second=fit.cells.second[cell],
        cluster=cluster,
        weight=weight,
        pull=weight * row_scores(scores.delta, counted, every),
        tied=weight * row_scores(scores.tie, counted, every),
        design=fit.cells.design[cell],
        tie_at=tie_places(fit)[fit.cells.group[cell]],
        leverage=weight * derivatives.leverage[cell],
    )


def cluster_moves(
    fit: BradleyTerryFit, rows: Comparisons, counted: Counted, cluster: AnyInts, n_clusters: int, *, corrected: bool
) -> Floats:
    """How far leaving each cluster out moves every strength, in one step: (clusters, models).

    Every row has a cluster below `n_clusters`. The sum of the squares is the clustered variance; moves of two fits that
    share clusters can be subtracted first. Without `corrected` the scores are those at the fit.
    """
    derivatives = BattleDerivatives.of(fit, fit.inverse_information())
    m = fit.cells.n_models
    moves = np.zeros((n_clusters, m))
    used, done = np.unique(cluster), 0  # pieces hold whole clusters, in the order of their numbers
    for piece in clustered_rows(fit, derivatives, rows, counted, cluster, np.zeros(len(rows), dtype=bool)):
        part = leave_one_out(piece, derivatives.inverse) if corrected else piece
        moves[used[done : done + part.n_clusters]] = np.concatenate([*part.score_tables()]) @ derivatives.inverse[:, :m]
        done += part.n_clusters
    return moves


def half_widths(covariance: Uncertainty, level: float, zero: Floats | None = None) -> Floats:
    """Half the width of each model's interval, measured from a weighted mean of strengths; infinite where unknown.

    Student's t of the model's degrees of freedom times its standard error, never narrower than Fisher's when few. With
    one strength as zero (an anchor), the degrees of freedom are no more than the anchor's, and its own interval is a
    point.
    """
    degrees, known = covariance.degrees, covariance.known
    anchor = int(np.argmax(zero)) if zero is not None and zero.max() == 1.0 else None
    if anchor is not None:
        degrees, known = np.minimum(degrees, degrees[anchor]), known & known[anchor]
    half = np.full(len(degrees), np.inf)
    half[known] = (t_quantile(level, degrees) * np.sqrt(covariance.variances(zero)))[known] if known.any() else 0.0
    half = np.maximum(half, normal_quantile(level) * np.sqrt(covariance.fisher_variances(zero)))
    if anchor is not None and known.any():
        half[anchor] = 0.0
    return np.asarray(half)


def _differences(covariance: Floats) -> Floats:
    variance = np.diag(covariance)
    return np.asarray(np.maximum(variance[:, None] + variance[None, :] - 2.0 * covariance, 0.0))


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

DRAWN_ROWS = 1 << 12
"""Models or pairs whose draws are looked at together, so that they stay in the processor's cache."""

SIGNS_AT_ONCE = 1 << 15
"""Clusters whose signs are drawn together, for the same reason."""

Singles = NDArray[np.float32]


class Draws(msgspec.Struct, frozen=True, eq=False):
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
        for start in range(0, m, DRAWN_ROWS):
            piece = slice(start, min(start + DRAWN_ROWS, m))
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
        result = np.empty(len(first))
        for start in range(0, len(first), DRAWN_ROWS):
            piece = slice(start, start + DRAWN_ROWS)
            gap = self.moves[first[piece]] - self.moves[second[piece]]
            result[piece] = np.einsum("pd,pd->p", gap, gap)
        return np.asarray(result / self.moves.shape[1])

    def variance(self, parameter: int) -> float:
        """The variance of one parameter that is not a strength, one Monte-Carlo standard error added."""
        value = self.moves[parameter].astype(np.float64) ** 2
        return float(value.mean() + value.std(ddof=1) / np.sqrt(len(value)))


@dataclass(frozen=True, eq=False)
class DrawnCovariance(Uncertainty):
    """What is known about the errors of a fit of many models, by draws instead of a matrix.

    `each` are the draws of every clustering (of single rows where there is none), `both` those of the rows that agree
    in both of two. `fisher` are draws of the model's own covariance.
    """

    each: tuple[Draws, ...]
    both: Draws | None
    fisher: Draws
    degrees: Floats
    few: NDArray[np.bool_]
    ways: tuple[Clustering, ...] = ()

    def widest(self) -> Draws:
        """The draws of the clustering on which the strengths depend most."""
        return max(self.each, key=lambda draws: float((draws.moves[: len(self.degrees)] ** 2).sum()))

    def variances(self, zero: Floats | None = None) -> Floats:
        """The variance of every strength minus a weighted mean of strengths (`zero` holds the weights; None: all)."""
        result = [draws.variances(zero) for draws in self.each]
        largest = np.max([value + error for value, error in result], axis=0)
        if self.both is not None:
            once, error = self.both.variances(zero)
            together = sum(value for value, _ in result) - once
            spread = np.sqrt(sum(error**2 for _, error in result) + error**2)
            largest = np.maximum(largest, together + spread)
        return np.where(_moving(zero, len(self.degrees)), np.maximum(largest, 0.0), 0.0)

    def _by_model(self, zero: Floats | None) -> Floats:
        return np.where(_moving(zero, len(self.few)), sum(self.fisher.variances(zero)), 0.0)

    def variance(self, parameter: int) -> float:
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

    fisher = draw(0, _matrix(fit, *_root(fit, fit.curvature())))
    seen = SURE_SHARE * fisher.squared_gaps(fit.cells.first, fit.cells.second)
    derivatives = BattleDerivatives.by_diagonal(fit, inverse_diagonal, seen)
    if not rows.clusters:
        scores, way = _one_way(fit, derivatives, rows, counted, None, corrected=False)
        each = (draw(1, scores, way.count / max(way.count - 1.0, 1.0)),)
        return DrawnCovariance(each, None, fisher, np.maximum(battles - 1.0, 1.0), battles < FEW)
    result, ways = [], []
    for number, cluster in enumerate(rows.clusters, start=1):
        scores, way = _one_way(fit, derivatives, rows, counted, cluster, corrected=True)
        result.append(draw(number, scores, (way.count - 1.0) / way.count))
        ways.append(way)
    both = None
    if len(ways) == 2:
        scores, _ = _one_way(fit, derivatives, rows, counted, in_both(*rows.clusters), corrected=False)
        both = draw(3, scores)
    effective = np.min([way.effective for way in ways], axis=0)
    few = (battles < FEW) | (effective < FEW)
    return DrawnCovariance(tuple(result), both, fisher, effective - 1.0, few, tuple(ways))


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
    cluster: AnyInts | None,
    *,
    corrected: bool,
) -> tuple[csc_array[np.float64], Clustering]:
    """The scores of one kind of clusters, a column each, and what the clusters are worth."""
    own = independent_rows(rows, cluster)
    scores = derivatives.scores_without if corrected else derivatives.scores
    parts, columns = _root(fit, own_squares(fit, scores, rows, counted, own))
    sizes = ClusterSizes.alone(rows.take(np.flatnonzero(own)))
    if cluster is not None:
        for shared in clustered_rows(fit, derivatives, rows, counted, cluster, own):
            sizes += ClusterSizes.of(shared)
            kept = leave_one_out(shared, derivatives.inverse) if corrected else shared
            clusters, parameter, value = kept.scores()
            parts.append((columns + clusters, parameter, value))
            columns += shared.n_clusters
    return _matrix(fit, parts, columns), Clustering.of(np.empty((0, 0)), sizes, rows)


Triples = tuple[Ints, Ints, Floats]
"""Entries of a sparse matrix of scores: cluster, parameter, value."""


def _root(fit: BradleyTerryFit, squares: Curvature) -> tuple[list[Triples], int]:
    """Entries of scores whose squares sum to these, and of how many clusters.

    One is for each cell, with its slopes by log-odds and tie, and one for each tie parameter with what is left.
    """
    cells, n, ties = fit.cells, len(fit.cells), np.arange(len(fit.tied_groups))
    tie_at = tie_places(fit)[cells.group]
    top = np.sqrt(np.maximum(squares.delta, 0.0))
    across = np.divide(squares.cross, top, out=np.zeros(n), where=top > 0.0)
    has = tie_at >= 0
    rest = sum_by(tie_at[has], np.maximum(squares.tie - across**2, 0.0)[has], len(ties))
    each = score_triples(np.arange(n), cells.first, cells.second, cells.design, cells.n_models, top, tie_at, across)
    return [each, (n + ties, cells.n_models + cells.design.shape[1] + ties, np.sqrt(rest))], n + len(ties)


def _matrix(fit: BradleyTerryFit, parts: list[Triples], clusters: int) -> csc_array[np.float64]:
    """The sparse matrix (parameters, clusters); entries at one place add up. A prior's pull is one more per model."""
    from scipy.sparse import csc_array

    prior = fit.prior
    if prior is not None:
        each = np.arange(fit.cells.n_models)
        parts = [*parts, (clusters + each, each, np.full(len(each), prior.precision * np.sqrt(prior.spread)))]
        clusters += len(each)
    cluster, parameter, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    return csc_array((value, (parameter, cluster)), shape=(fit.n_parameters, clusters))
