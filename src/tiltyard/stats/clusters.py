"""Sums of scores over clusters, and the sum of their squares: the middle of a clustered sandwich.

Scores are those that would be had their own cluster not taken part in the fit (the CR3 correction). A fit bends towards
every cluster it contains, so a cluster's scores at the fit are too small, most of all for one that holds a large part
of the battles. Leaving cluster c out moves the strengths, in one Newton step, by H⁺u_c with u_c = (I − B_c K_c)⁻¹ t_c,
where t_c is the cluster's score, B_c its curvature and K_c its block of K = H⁺ (Bell and McCaffrey 2002, Survey
Methodology 28:169). A sandwich made of u_c is a jackknife over clusters.

The sum over clusters of the traces g_c = tr(B_c K_c) is the number of parameters, so few clusters are large. Where g_c
is small, u_c is t_c/(1 − g_c) to within one percent, and never smaller; for the others it is solved.

Where H⁺ is too large to be held, its diagonal stands in for K_c, read off H itself: 1/H_ii. The traces then sum to
nearly the same (for strengths alone to one more), so the correction is as large as it should be on the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.stats.bradley_terry import BradleyTerryFit
from tiltyard.stats.comparisons import Comparisons, sum_by
from tiltyard.stats.tie_models import ResultScores
from tiltyard.types import AnyInts, Floats, Ints, order_of

ROWS_AT_ONCE = 1 << 15
"""Clustered rows are summed in pieces of about this size, which stay in the processor's cache."""

DENSE_NUMBERS = 1_000_000
"""Scores of clusters are spread out as tables of this many numbers."""

FEW_OF = 16
"""A cluster with fewer rows than one for so many parameters is sooner summed by pairs of rows than spread out."""

COLUMNS = ("cell", "first", "second", "weight", "pull", "tied", "design", "tie_at", "leverage")
"""What `ClusteredRows` have for every row, apart from its cluster."""


class ClusteredRows(msgspec.Struct, frozen=True, eq=False):
    """Rows that share clusters, sorted by cluster, with the derivatives of their log-likelihood (weights included).

    `pull` and `tied` are the slopes by the log-odds of the first model and by the tie parameter. `design` holds
    covariates, `tie_at` the place of the row's tie parameter among those of the fit, −1 where it has none. `leverage`
    is the row's part of its cluster's trace. Clusters are numbered 0, 1, 2, … without gaps. `bends` has the curvature
    of one battle of each cell: columns by log-odds, by both, by tie.
    """

    n_models: int
    n_ties: int
    bends: Floats
    cell: AnyInts
    first: AnyInts
    second: AnyInts
    cluster: Ints
    weight: Floats
    pull: Floats
    tied: Floats
    design: Floats
    tie_at: Ints
    leverage: Floats

    @property
    def n_clusters(self) -> int:
        return int(self.cluster.max(initial=-1)) + 1

    @property
    def n_parameters(self) -> int:
        return int(self.n_models + self.design.shape[1] + self.n_ties)

    def take(self, chosen: NDArray[np.intp], cluster: Ints) -> ClusteredRows:
        return self.read(cluster, lambda name: getattr(self, name)[chosen])

    def records(self) -> NDArray[np.void]:
        """The rows as records: many are taken from them sooner than from columns."""
        columns = {name: getattr(self, name) for name in COLUMNS}
        kinds = {name: np.int32 if column.dtype == np.int64 else column.dtype for name, column in columns.items()}
        records = np.empty(len(self.cell), dtype=[(name, kinds[name], columns[name].shape[1:]) for name in COLUMNS])
        for name, column in columns.items():
            records[name] = column
        return records

    def read(self, cluster: Ints, column: Callable[[str], NDArray[Any]]) -> ClusteredRows:
        """Rows of the same kind with these columns, sorted by these clusters."""
        return msgspec.structs.replace(self, cluster=number_sorted(cluster), **{name: column(name) for name in COLUMNS})

    def bend(self, chosen: NDArray[np.intp]) -> Floats:
        return np.asarray(self.weight[chosen, None] * self.bends[self.cell[chosen]])

    def scores(self, piece: slice = slice(None)) -> tuple[Ints, Ints, Floats]:
        """The slopes of some rows by all parameters as triples: cluster, parameter, value; at one place they add up."""
        rows = (self.cluster[piece], self.first[piece], self.second[piece], self.design[piece])
        return score_triples(*rows, self.n_models, self.pull[piece], self.tie_at[piece], self.tied[piece])

    def score_tables(self) -> Iterator[Floats]:
        """The same, summed: (clusters, parameters), some clusters at a time."""
        p = self.n_parameters
        held = max(1, DENSE_NUMBERS // p)
        for start in range(0, self.n_clusters, held):
            end = min(start + held, self.n_clusters)
            piece = slice(*np.searchsorted(self.cluster, (start, end)))
            cluster, parameter, value = self.scores(piece)
            yield sum_by((cluster - start) * p + parameter, value, (end - start) * p).reshape(-1, p)


def score_triples(
    cluster: Ints,
    first: AnyInts,
    second: AnyInts,
    design: Floats,
    n_models: int,
    pull: Floats,
    tie_at: Ints,
    tied: Floats,
) -> tuple[Ints, Ints, Floats]:
    """Slopes by log-odds and by tie as entries of a matrix: cluster, parameter, value."""
    q = design.shape[1]
    has = np.flatnonzero((tie_at >= 0) & (tied != 0.0))
    parameter = [first, second, *(np.full(len(first), n_models + k) for k in range(q)), n_models + q + tie_at[has]]
    value = [pull, -pull, *(pull * z for z in design.T), tied[has]]
    return np.concatenate([cluster] * (2 + q) + [cluster[has]]), np.concatenate(parameter), np.concatenate(value)


class SumOfSquares:
    """Σ_p s_p s_pᵀ over clusters that come in pieces, in the order models, then the other parameters."""

    def __init__(self, n_parameters: int) -> None:
        self._half = np.zeros((n_parameters, n_parameters))

    @property
    def total(self) -> Floats:
        """The sum: what was added up is one half of it, and its mirror image is the other."""
        return self._half + self._half.T

    def add(self, rows: ClusteredRows) -> None:
        few = (np.bincount(rows.cluster) * FEW_OF <= rows.n_parameters)[rows.cluster]
        if few.all():
            self._add_by_pairs(rows)
            return
        if few.any():
            self._add_by_pairs(rows.take(np.flatnonzero(few), rows.cluster[few]))
            rows = rows.take(np.flatnonzero(~few), rows.cluster[~few])
        for table in rows.score_tables():
            self._half += 0.5 * (table.T @ table)

    def _add_by_pairs(self, rows: ClusteredRows) -> None:
        """Add clusters that have few rows: each row by itself, and each two rows of a cluster."""
        m, p, cluster = rows.n_models, rows.n_parameters, rows.cluster
        first, second = rows.first.astype(np.int64), rows.second.astype(np.int64)
        pull, cells = np.ascontiguousarray(rows.pull), self._half.ravel()
        square = pull * pull
        np.add.at(cells, first * (p + 1), 0.5 * square)
        np.add.at(cells, second * (p + 1), 0.5 * square)
        np.add.at(cells, first * p + second, -square)
        apart = 1
        at = np.flatnonzero(cluster[1:] == cluster[:-1])
        while len(at):
            to = at + apart
            product = pull[at] * pull[to]
            minus, others = -product, (first[to], second[to])
            for line, signs in ((first[at] * p, (product, minus)), (second[at] * p, (minus, product))):
                for other, sign in zip(others, signs, strict=True):
                    np.add.at(cells, line + other, sign)
            apart += 1
            at = at[: np.searchsorted(at, len(pull) - apart)]
            at = at[cluster[at] == cluster[at + apart]]
        if p > m:
            columns = [sum_by(cluster, pull * z, rows.n_clusters) for z in rows.design.T]
            columns += [sum_by(cluster, rows.tied * (rows.tie_at == k), rows.n_clusters) for k in range(rows.n_ties)]
            side = np.column_stack(columns)
            self._half[m:, m:] += 0.5 * np.einsum("ci,cj->ij", side, side)
            for k in range(p - m):
                value = pull * side[cluster, k]
                self._half[:m, m + k] += sum_by(first, value, m) - sum_by(second, value, m)


class ClusterSizes(msgspec.Struct, frozen=True, eq=False):
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
        m = rows.n_models
        start: AnyInts = rows.cluster * m
        if rows.n_clusters * m < 2**31:
            start = start.astype(np.int32)  # sorted in half of the time
        key = np.concatenate([start + rows.first, start + rows.second])
        order = None if (rows.weight == 1.0).all() else order_of(key)
        if order is None:
            key.sort()
        else:
            key = key[order]
        ends = np.flatnonzero(np.append(key[1:] != key[:-1], True))
        before = ends + 1.0 if order is None else np.cumsum(np.tile(rows.weight, 2)[order])[ends]
        battles, model = np.diff(before, prepend=0.0), key[ends] % m
        sizes = sum_by(rows.cluster, rows.weight, rows.n_clusters)
        return cls(
            rows.n_clusters, sum_by(model, battles * battles, m), float((sizes * sizes).sum()), float(sizes.max())
        )


def by_cluster(n: int, most: int, parts: Iterable[tuple[AnyInts, AnyInts]]) -> Iterator[tuple[Ints, Ints]]:
    """Clusters in order, each with its rows, in pieces of about ROWS_AT_ONCE; no cluster is cut in two.

    `parts` are the clusters and the numbers of the `n` rows, part by part; no number is larger than `most`. The two of
    a row are packed into one and sorted together, for which processors have instructions.
    """
    bits, done = most.bit_length(), 0
    packed = np.empty(n, dtype=np.int64)
    for cluster, row in parts:
        packed[done : done + len(row)] = (cluster.astype(np.int64) << bits) | row
        done += len(row)
    packed.sort()
    while len(packed):
        last = int(packed[min(ROWS_AT_ONCE, len(packed)) - 1]) >> bits
        piece, packed = np.split(packed, [np.searchsorted(packed, (last + 1) << bits)])
        yield piece >> bits, piece & ((1 << bits) - 1)


def number_sorted(cluster: Ints) -> Ints:
    """Sorted clusters numbered 0, 1, 2, … without gaps."""
    return np.cumsum(np.append(False, cluster[1:] != cluster[:-1])[: len(cluster)])


def number_clusters(cluster: AnyInts) -> Ints:
    """The same clusters numbered 0, 1, 2, … without gaps."""
    used = np.zeros(int(cluster.max(initial=-1)) + 1, dtype=bool)
    used[cluster] = True
    return np.asarray((np.cumsum(used) - 1)[cluster])


SMALL_LEVERAGE = 0.02
"""Up to this trace a cluster's scores are divided by 1 − g: at most one percent more than the exact answer."""

LARGEST_LEVERAGE = 0.95
"""A cluster that alone decides a direction has no estimate without it: its curvature is held below this."""

SOLVED_NUMBERS = 2_000_000
"""Clusters are solved together as long as their curvature has no more numbers than this."""

WIDE = 64
"""Above this many parameters only the largest eigenvalue of a cluster is found, not all of them."""

POWERS = 20
DIAGONAL_ROUNDS = 150
DIAGONAL_TOLERANCE = 1e-4


def leave_one_out(rows: ClusteredRows, inverse: Floats) -> ClusteredRows:
    """The same rows with the slopes at the fit without their cluster; `inverse` is H⁺, or its diagonal alone."""
    trace = sum_by(rows.cluster, rows.leverage, rows.n_clusters)
    small = trace <= SMALL_LEVERAGE
    factor = (1.0 / (1.0 - np.where(small, trace, 0.0)))[rows.cluster]
    pull, tied = rows.pull * factor, rows.tied * factor
    large = np.flatnonzero(~small[rows.cluster])
    if len(large):
        solve = _solved_by_diagonal if inverse.ndim == 1 else _solved
        pull[large], tied[large] = solve(rows, large, trace, inverse)
    return msgspec.structs.replace(rows, pull=pull, tied=tied)


class _Entries(msgspec.Struct, frozen=True, eq=False):
    """Rows as entries of their cluster's vectors: places (rows, entries), and coefficients by log-odds and by tie."""

    place: Ints
    by_odds: Floats
    by_tie: Floats
    bend: Floats

    @classmethod
    def of(cls, rows: ClusteredRows, chosen: NDArray[np.intp], first: AnyInts, second: AnyInts, k: int) -> _Entries:
        """Entries in vectors of k models, then coefficients and tie parameters."""
        n, q = len(chosen), rows.design.shape[1]
        one, none = np.ones(n), np.zeros(n)
        place = [first, second, *(np.full(n, k + c) for c in range(q))]
        by_odds = [one, -one, *rows.design[chosen].T]
        by_tie = [none] * (2 + q)
        if rows.n_ties:
            has = rows.tie_at[chosen] >= 0
            place.append(k + q + np.where(has, rows.tie_at[chosen], 0))
            by_odds.append(none)
            by_tie.append(has.astype(np.float64))
        return cls(np.column_stack(place), np.column_stack(by_odds), np.column_stack(by_tie), rows.bend(chosen))

    def bent(self, moved: Floats) -> tuple[Floats, Floats]:
        """The slopes that each row gains where its entries have moved so: (rows, entries)."""
        by_odds, by_tie = (self.by_odds * moved).sum(axis=1), (self.by_tie * moved).sum(axis=1)
        dd, dt, tt = self.bend.T
        return dd * by_odds + dt * by_tie, dt * by_odds + tt * by_tie


def _solved(rows: ClusteredRows, large: NDArray[np.intp], trace: Floats, inverse: Floats) -> tuple[Floats, Floats]:
    """The slopes of the rows of large clusters without their cluster, by solving (I − B_c K_c) u_c = t_c."""
    m, extra = rows.n_models, np.arange(rows.n_models, inverse.shape[0])
    cluster = rows.cluster[large]
    both = np.concatenate([cluster * m + rows.first[large], cluster * m + rows.second[large]])
    distinct, place = np.unique(both, return_inverse=True)
    owner, model = np.divmod(distinct, m)
    size = np.bincount(owner, minlength=rows.n_clusters)
    start = np.cumsum(size) - size
    first, second = place.reshape(2, -1) - start[cluster]
    begin, end = (np.searchsorted(cluster, np.arange(rows.n_clusters), side) for side in ("left", "right"))
    pull, tied = rows.pull[large], rows.tied[large]
    names = np.argsort(-size, kind="stable")[: np.count_nonzero(size)]  # the largest first: the others are padded
    while len(names):
        k = int(size[names[0]])
        width = k + len(extra)
        count = max(1, SOLVED_NUMBERS // width**2)
        block, names = names[:count], names[count:]
        at = np.concatenate([np.arange(begin[name], end[name]) for name in block])
        local = np.repeat(np.arange(len(block)), (end - begin)[block])
        entries = _Entries.of(rows, large[at], first[at], second[at], k)
        member = np.arange(k) < size[block][:, None]
        models = model[np.where(member, start[block][:, None] + np.arange(k), 0)]
        ids = np.column_stack([models, np.broadcast_to(extra, (len(block), len(extra)))])
        moved = _solve_block(
            entries, pull[at], tied[at], local, inverse[ids[:, :, None], ids[:, None, :]], trace[block]
        )
        more = entries.bent(moved[local[:, None], entries.place])
        pull[at] += more[0]
        tied[at] += more[1]
    return pull, tied


def _solve_block(entries: _Entries, pull: Floats, tied: Floats, local: Ints, inverse: Floats, trace: Floats) -> Floats:
    """K_c u_c of some clusters, scaled by how far their curvature was held back: (clusters, parameters).

    `local` numbers the cluster of every row; `inverse` has the block K_c of each. A parameter that a cluster does not
    touch has no curvature and does not move.
    """
    n, width = inverse.shape[:2]
    score, curvature = np.zeros(n * width), np.zeros(n * width * width)
    a, e = entries.by_odds, entries.by_tie
    dd, dt, tt = entries.bend.T
    for s in range(a.shape[1]):
        at = local * width + entries.place[:, s]
        score += sum_by(at, pull * a[:, s] + tied * e[:, s], n * width)
        for t in range(a.shape[1]):
            value = dd * a[:, s] * a[:, t] + tt * e[:, s] * e[:, t] + dt * (a[:, s] * e[:, t] + e[:, s] * a[:, t])
            curvature += sum_by(at * width + entries.place[:, t], value, n * width * width)
    lost = curvature.reshape(n, width, width) @ inverse
    held = np.ones(n)
    over = trace > LARGEST_LEVERAGE
    if over.any():
        held[over] = np.minimum(1.0, LARGEST_LEVERAGE / np.maximum(_largest_eigenvalues(lost[over]), 1e-300))
        lost *= held[:, None, None]
    without = np.linalg.solve(np.eye(width) - lost, score.reshape(n, width, 1))
    return np.asarray((inverse @ without)[:, :, 0] * held[:, None])


def _largest_eigenvalues(matrices: Floats) -> Floats:
    if matrices.shape[1] <= WIDE:
        return np.asarray(np.linalg.eigvals(matrices).real.max(axis=1))
    from scipy.sparse.linalg import eigs

    return np.array([eigs(one, k=1, which="LR", return_eigenvectors=False)[0].real for one in matrices])


def _solved_by_diagonal(
    rows: ClusteredRows, large: NDArray[np.intp], trace: Floats, diagonal: Floats
) -> tuple[Floats, Floats]:
    """The same where only a diagonal of H⁺ is known: u = t + B K u is repeated for all clusters at once.

    A row that has more leverage than the diagonal says has the rest of it alone.
    """
    n, cluster = len(diagonal), rows.cluster[large]
    entries = _Entries.of(rows, large, rows.first[large], rows.second[large], rows.n_models)
    squares = entries.by_odds**2 * entries.bend[:, :1] + entries.by_tie**2 * entries.bend[:, 2:]
    own = np.maximum(rows.leverage[large] - (squares * diagonal[entries.place]).sum(axis=1), 0.0)
    distinct, place = np.unique(cluster[:, None] * n + entries.place, return_inverse=True)
    place, inverse = place.reshape(entries.place.shape), diagonal[distinct % n]

    def step(pull: Floats, tied: Floats) -> tuple[Floats, Floats]:
        value = pull[:, None] * entries.by_odds + tied[:, None] * entries.by_tie
        by_odds, by_tie = entries.bent((inverse * sum_by(place.ravel(), value.ravel(), len(inverse)))[place])
        return by_odds + own * pull, by_tie

    held = np.ones(len(trace))
    over = trace > LARGEST_LEVERAGE
    if over.any():  # the largest leverage is found by repeating the step
        pull = np.random.default_rng(0).normal(size=len(large)) * np.sqrt(entries.bend[:, 0])
        tied, largest = np.zeros_like(pull), np.ones(len(trace))
        for _ in range(POWERS + 1):
            largest = np.sqrt(np.maximum(sum_by(cluster, pull * pull + tied * tied, len(trace)), 1e-300))
            unit = pull / largest[cluster], tied / largest[cluster]
            pull, tied = step(*unit)
        held[over] = np.minimum(1.0, LARGEST_LEVERAGE / largest[over])
    first = rows.pull[large], rows.tied[large]
    now = first
    for _ in range(DIAGONAL_ROUNDS):
        more = step(*now)
        after = first[0] + held[cluster] * more[0], first[1] + held[cluster] * more[1]
        change = float(np.abs(after[0] - now[0]).max())
        now = after
        if change <= DIAGONAL_TOLERANCE * float(np.abs(now[0]).max()):
            break
    return now


class BattleDerivatives(msgspec.Struct, frozen=True, eq=False):
    """What one battle of each cell adds: scores by its result, curvature (cells, 3), and its part of the trace H⁺H.

    `scores_without` are the scores at the fit without that battle; `inverse` is H⁺, or its diagonal.
    """

    inverse: Floats
    scores: ResultScores
    scores_without: ResultScores
    bend: Floats
    leverage: Floats

    @classmethod
    def of(cls, fit: BradleyTerryFit, inverse: Floats) -> BattleDerivatives:
        cells, m, q = fit.cells, fit.cells.n_models, fit.cells.design.shape[1]

        def apart(by_model: Floats) -> Floats:
            """What the first model has more than the second."""
            return np.asarray(by_model[cells.first] - by_model[cells.second])

        own = np.diag(inverse)
        odds = own[cells.first] + own[cells.second] - 2.0 * inverse[cells.first, cells.second]
        within = cells.design @ inverse[m : m + q, m : m + q]
        for k in range(q):
            odds += (2.0 * apart(inverse[m + k]) + within[:, k]) * cells.design[:, k]
        place = tie_places(fit)[cells.group]
        at = np.where(place >= 0, m + q + place, 0)
        cross = inverse[cells.first, at] - inverse[cells.second, at]
        cross += (cells.design * inverse[m : m + q, at].T).sum(axis=1)
        return cls._known(fit, inverse, odds, cross, own[at])

    @classmethod
    def by_diagonal(cls, fit: BradleyTerryFit, diagonal: Floats, at_least: Floats) -> BattleDerivatives:
        """The same where only the diagonal of H⁺ is known; `inverse` is then that diagonal.

        `at_least` is a lower bound of the variance of every cell's difference.
        """
        cells, m, q = fit.cells, fit.cells.n_models, fit.cells.design.shape[1]
        odds = np.maximum(diagonal[cells.first] + diagonal[cells.second], at_least)
        odds += cells.design**2 @ diagonal[m : m + q]
        place = tie_places(fit)[cells.group]
        return cls._known(fit, diagonal, odds, np.zeros(len(cells)), diagonal[np.where(place >= 0, m + q + place, 0)])

    @classmethod
    def _known(
        cls, fit: BradleyTerryFit, inverse: Floats, odds: Floats, cross: Floats, tie: Floats
    ) -> BattleDerivatives:
        """From the variance of every cell's log-odds, of its tie parameter, and what both share.

        The scores at the fit without one battle are (I − B K)⁻¹ s, two by two, as for any other cluster.
        """
        cells, total = fit.cells, fit.curvature()
        scores = fit.tie_model.result_scores(fit.parameters.delta(cells), fit.parameters.tie[cells.group])
        n = np.maximum(cells.counts.sum(axis=1), 1e-300)
        bend = np.column_stack([total.delta, total.cross, total.tie]) / n[:, None]
        untied = tie_places(fit)[cells.group] < 0
        bend[untied, 1:], cross[untied], tie[untied] = 0.0, 0.0, 0.0
        leverage = bend[:, 0] * odds + 2.0 * bend[:, 1] * cross + bend[:, 2] * tie

        share = 1.0 / (1.0 - np.minimum(leverage, SMALL_LEVERAGE))[:, None]
        without = ResultScores(share * scores.delta, share * scores.tie)
        large = np.flatnonzero(leverage > SMALL_LEVERAGE)
        if len(large):
            (dd, dt, tt), odds, cross, tie = bend[large].T, odds[large], cross[large], tie[large]
            a, b, c, d = dd * odds + dt * cross, dd * cross + dt * tie, dt * odds + tt * cross, dt * cross + tt * tie
            largest = 0.5 * (a + d + np.sqrt(np.maximum((a - d) ** 2 + 4.0 * b * c, 0.0)))
            held = np.minimum(1.0, LARGEST_LEVERAGE / np.maximum(largest, 1e-300))
            a, b, c, d = (held * entry for entry in (a, b, c, d))
            by_odds, by_tie = scores.delta[large], scores.tie[large]
            factor = 1.0 / ((1.0 - a) * (1.0 - d) - b * c)
            without.delta[large] = (factor * (1.0 - d))[:, None] * by_odds + (factor * b)[:, None] * by_tie
            without.tie[large] = (factor * c)[:, None] * by_odds + (factor * (1.0 - a))[:, None] * by_tie
        return cls(inverse, scores, without, bend, leverage)


def tie_places(fit: BradleyTerryFit) -> Ints:
    """For every tie group its place among the fit's tie parameters, −1 where it has none."""
    place = np.full(fit.cells.n_groups, -1, dtype=np.int64)
    place[fit.tied_groups] = np.arange(len(fit.tied_groups))
    return place
