"""Sums of scores over clusters, and the sum of their squares: the middle of a clustered sandwich.

Σ_p s_p s_pᵀ over clusters p needs the products of every two rows that share a cluster. Two ways lead there, and the
cheaper one is taken: few large clusters (prompts of a tournament) are spread out as a dense matrix and multiplied; many
small ones (a prompt to a handful of votes) are sorted, and each row is multiplied with the next, the next but one and
so on, as long as they share a cluster.

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tiltyard.ratings.bradley_terry import BradleyTerryFit
from tiltyard.ratings.comparisons import Comparisons, order_of, sum_by
from tiltyard.ratings.tie_models import ResultScores
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


SMALL_LEVERAGE = 0.02
"""Up to this trace a cluster's scores are divided by 1 − g: at most one percent more than the exact answer."""

LARGEST_LEVERAGE = 0.95
"""A cluster that alone decides a direction has no estimate without it: its curvature is held below this."""

SOLVED_AT_ONCE = 64
"""Clusters that touch more parameters than this are solved one by one, without a table of their curvature."""

WIDE_ROUNDS = 200
POWER_ROUNDS = 60
BLOCK_NUMBERS = 2_000_000

POWERS = 20
DIAGONAL_ROUNDS = 150
DIAGONAL_TOLERANCE = 1e-4


def leave_one_out(rows: ClusteredRows, inverse: Floats) -> ClusteredRows:
    """The same rows with the slopes they have at the fit without their cluster."""
    trace = sum_by(rows.cluster, rows.leverage, rows.n_clusters)
    small = trace <= SMALL_LEVERAGE
    factor = (1.0 / (1.0 - np.where(small, trace, 0.0)))[rows.cluster]
    pull, tied = rows.pull * factor, rows.tied * factor
    large = np.flatnonzero(~small[rows.cluster])
    if len(large):
        by_odds, by_tie = _moves(rows, large, trace, inverse)
        bend = rows.bend[large]
        pull[large] += bend[:, 0] * by_odds + bend[:, 1] * by_tie
        tied[large] += bend[:, 1] * by_odds + bend[:, 2] * by_tie
    return replace(rows, pull=pull, tied=tied)


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """Rows as entries of their cluster's vectors: places (rows, entries), and coefficients by log-odds and by tie."""

    place: Ints
    by_odds: Floats
    by_tie: Floats


def _moves(rows: ClusteredRows, large: NDArray[np.intp], trace: Floats, inverse: Floats) -> tuple[Floats, Floats]:
    """How far leaving its cluster out moves the log-odds and the tie parameter of every row of the large clusters."""
    m = rows.n_models
    cluster = rows.cluster[large]
    distinct, place = np.unique(
        np.concatenate([cluster * m + rows.first[large], cluster * m + rows.second[large]]), return_inverse=True
    )
    owner, model = np.divmod(distinct, m)
    size = np.bincount(owner, minlength=rows.n_clusters)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    first, second = (place.reshape(2, -1) - start[cluster]).astype(np.int64)
    by_odds, by_tie = np.empty(len(large)), np.empty(len(large))
    order = np.argsort(size[cluster], kind="stable")
    for chosen in _blocks(size[cluster[order]], cluster[order], inverse.shape[0] - m):
        at = order[chosen]
        names, local = np.unique(cluster[at], return_inverse=True)
        k = int(size[names[0]])
        members = model[start[names][:, None] + np.arange(k)]
        entries = _entries(rows, large[at], first[at], second[at], k)
        if k + inverse.shape[0] - m > SOLVED_AT_ONCE:
            moved = _solve_wide(rows, large[at], entries, members[0], float(trace[names[0]]), inverse)[None]
        else:
            moved = _solve_block(rows, large[at], entries, local, members, trace[names], inverse)
        by_odds[at] = (entries.by_odds * moved[local[:, None], entries.place]).sum(axis=1)
        by_tie[at] = (entries.by_tie * moved[local[:, None], entries.place]).sum(axis=1)
    return by_odds, by_tie


def _blocks(size: Ints, cluster: Ints, extra: int) -> list[slice]:
    """Stretches of rows, ordered by the size of their clusters, that are solved together: equal sizes, few numbers."""
    new = np.flatnonzero(np.append(True, cluster[1:] != cluster[:-1]))
    ends = np.append(new[1:], len(cluster))
    blocks: list[slice] = []
    first, numbers = 0, 0
    for i, (begin, end) in enumerate(zip(new.tolist(), ends.tolist(), strict=True)):
        width = int(size[begin]) + extra
        alone = width > SOLVED_AT_ONCE
        full = numbers + width * width > BLOCK_NUMBERS or alone or (i and size[begin] != size[begin - 1])
        if full and begin > first:
            blocks.append(slice(first, begin))
            first, numbers = begin, 0
        numbers += width * width
        if i == len(new) - 1:
            blocks.append(slice(first, end))
    return blocks


def _entries(rows: ClusteredRows, chosen: NDArray[np.intp], first: Ints, second: Ints, k: int) -> _Entries:
    """Where in its cluster's vector of k models, coefficients and tie parameters each row has an entry."""
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
    return _Entries(np.column_stack(place), np.column_stack(by_odds), np.column_stack(by_tie))


def _solve_block(
    rows: ClusteredRows,
    chosen: NDArray[np.intp],
    entries: _Entries,
    local: NDArray[np.intp],
    members: Ints,
    trace: Floats,
    inverse: Floats,
) -> Floats:
    """K_c u_c of every cluster of a block, scaled by how far its curvature was held back: (clusters, parameters)."""
    n, k = members.shape
    extra = np.arange(rows.n_models, inverse.shape[0])
    width = k + len(extra)
    base = local * width
    score, curvature = np.zeros(n * width), np.zeros(n * width * width)
    bend, a, e = rows.bend[chosen], entries.by_odds, entries.by_tie
    for s in range(a.shape[1]):
        at = base + entries.place[:, s]
        score += sum_by(at, rows.pull[chosen] * a[:, s] + rows.tied[chosen] * e[:, s], n * width)
        for t in range(a.shape[1]):
            value = bend[:, 0] * a[:, s] * a[:, t] + bend[:, 2] * e[:, s] * e[:, t]
            value += bend[:, 1] * (a[:, s] * e[:, t] + e[:, s] * a[:, t])
            curvature += sum_by(at * width + entries.place[:, t], value, n * width * width)
    ids = np.column_stack([members, np.broadcast_to(extra, (n, len(extra)))])
    block = inverse[ids[:, :, None], ids[:, None, :]]
    held = np.ones(n)
    bends, scores = curvature.reshape(n, width, width), score.reshape(n, width)
    over = trace > LARGEST_LEVERAGE
    if over.any():
        largest = np.linalg.eigvals(bends[over] @ block[over]).real.max(axis=1)
        held[over] = np.minimum(1.0, LARGEST_LEVERAGE / np.maximum(largest, 1e-300))
        bends = bends * held[:, None, None]
    without = np.linalg.solve(np.eye(width) - bends @ block, scores[:, :, None])[:, :, 0]
    return np.asarray(np.einsum("nij,nj->ni", block, without) * held[:, None])


def _solve_wide(
    rows: ClusteredRows, chosen: NDArray[np.intp], entries: _Entries, members: Ints, trace: float, inverse: Floats
) -> Floats:
    """The same for one cluster of many parameters: its curvature is applied row by row and never put together.

    The eigenvalues of I − B K are 1 − LARGEST_LEVERAGE or more: a few dozen rounds are enough.
    """
    from scipy.sparse.linalg import LinearOperator, gmres

    ids = np.append(members, np.arange(rows.n_models, inverse.shape[0]))
    block = inverse[np.ix_(ids, ids)]
    bend, place, a, e = rows.bend[chosen], entries.place, entries.by_odds, entries.by_tie

    def spread(by_odds: Floats, by_tie: Floats) -> Floats:
        value = a * by_odds[:, None] + e * by_tie[:, None]
        return sum_by(place.ravel(), value.ravel(), len(ids))

    def bent(moved: Floats) -> Floats:
        by_odds, by_tie = (a * moved[place]).sum(axis=1), (e * moved[place]).sum(axis=1)
        return spread(bend[:, 0] * by_odds + bend[:, 1] * by_tie, bend[:, 1] * by_odds + bend[:, 2] * by_tie)

    score = spread(rows.pull[chosen], rows.tied[chosen])
    held = 1.0
    if trace > LARGEST_LEVERAGE:
        held = min(1.0, LARGEST_LEVERAGE / max(_largest_eigenvalue(lambda v: bent(block @ v), score), 1e-300))
    n = len(ids)
    without = LinearOperator((n, n), matvec=lambda moved: moved - held * (block @ bent(moved)), dtype=np.float64)
    moved, _ = gmres(without, block @ score, rtol=1e-10, restart=WIDE_ROUNDS, maxiter=1)
    return np.asarray(moved * held)


def _largest_eigenvalue(apply: Callable[[Floats], Floats], start: Floats) -> float:
    """The largest eigenvalue of an operator whose eigenvalues are none of them negative, by repeating it."""
    value, vector = 0.0, start
    for _ in range(POWER_ROUNDS):
        again = apply(vector)
        size = float(np.abs(again).max())
        if size == 0.0:
            return 0.0
        value, vector = size / float(np.abs(vector).max()), again / size
    return value


def leave_one_out_by_diagonal(rows: ClusteredRows, diagonal: Floats) -> ClusteredRows:
    """The same rows with the slopes at the fit without their cluster, where only a diagonal of H⁺ is known.

    u = t + B K u is repeated for all clusters at once, row by row: no block is ever put together.
    """
    trace = sum_by(rows.cluster, rows.leverage, rows.n_clusters)
    small = trace <= SMALL_LEVERAGE
    factor = (1.0 / (1.0 - np.where(small, trace, 0.0)))[rows.cluster]
    pull, tied = rows.pull * factor, rows.tied * factor
    large = np.flatnonzero(~small[rows.cluster])
    if len(large):
        step = _DiagonalStep.of(rows, large, diagonal)
        held = _held_back(step, trace)
        first = pull[large], tied[large]
        now = first
        for _ in range(DIAGONAL_ROUNDS):
            more = step.apply(*now)
            after = first[0] + held * more[0], first[1] + held * more[1]
            change = float(np.abs(after[0] - now[0]).max())
            now = after
            if change <= DIAGONAL_TOLERANCE * float(np.abs(now[0]).max()):
                break
        pull[large], tied[large] = now
    return replace(rows, pull=pull, tied=tied)


@dataclass(frozen=True, slots=True, eq=False)
class _DiagonalStep:
    """B K of every cluster as a map of slopes row by row: `entries` say where in its cluster's vector a row acts.

    `own` is how much more leverage a row has than the diagonal says: it acts on that row alone.
    """

    cluster: Ints
    bend: Floats
    entries: _Entries
    inverse: Floats
    own: Floats

    @classmethod
    def of(cls, rows: ClusteredRows, chosen: NDArray[np.intp], diagonal: Floats) -> _DiagonalStep:
        """The step of some rows; places are numbers of distinct (cluster, parameter) pairs."""
        m, n = rows.n_models, len(diagonal)
        entries = _entries(rows, chosen, rows.first[chosen], rows.second[chosen], m)
        cluster = rows.cluster[chosen]
        distinct, place = np.unique(cluster[:, None] * n + entries.place, return_inverse=True)
        squares = entries.by_odds**2 * rows.bend[chosen, :1] + entries.by_tie**2 * rows.bend[chosen, 2:]
        by_diagonal = (squares * diagonal[entries.place]).sum(axis=1)
        own = np.maximum(rows.leverage[chosen] - by_diagonal, 0.0)
        numbered = replace(entries, place=place.reshape(entries.place.shape))
        return cls(cluster, rows.bend[chosen], numbered, diagonal[distinct % n], own)

    def apply(self, pull: Floats, tied: Floats) -> tuple[Floats, Floats]:
        """The slopes that moving by K times the cluster's score adds to each row."""
        odds, tie, place = self.entries.by_odds, self.entries.by_tie, self.entries.place
        score = sum_by(place.ravel(), (pull[:, None] * odds + tied[:, None] * tie).ravel(), len(self.inverse))
        moved = (self.inverse * score)[place]
        by_odds, by_tie = (odds * moved).sum(axis=1), (tie * moved).sum(axis=1)
        bend = self.bend
        more = bend[:, 0] * by_odds + bend[:, 1] * by_tie + self.own * pull
        return more, bend[:, 1] * by_odds + bend[:, 2] * by_tie


def _held_back(step: _DiagonalStep, trace: Floats) -> Floats:
    """By how much the curvature of each row's cluster is scaled, so that its largest leverage is below the limit.

    Where the trace is below it, it is; for the others the largest leverage is found by repeating B K.
    """
    held = np.ones(len(trace))
    over = trace > LARGEST_LEVERAGE
    if over.any():
        pull = np.random.default_rng(0).normal(size=len(step.cluster)) * np.sqrt(step.bend[:, 0])
        tied = np.zeros_like(pull)
        largest = np.zeros(len(trace))
        for _ in range(POWERS):
            size = np.sqrt(np.maximum(sum_by(step.cluster, pull * pull + tied * tied, len(trace)), 1e-300))
            pull, tied = pull / size[step.cluster], tied / size[step.cluster]
            pull, tied = step.apply(pull, tied)
            largest = np.sqrt(sum_by(step.cluster, pull * pull + tied * tied, len(trace)))
        held[over] = np.minimum(1.0, LARGEST_LEVERAGE / np.maximum(largest[over], 1e-300))
    return np.asarray(held[step.cluster])


@dataclass(frozen=True, slots=True, eq=False)
class BattleDerivatives:
    """What one battle of each cell adds: scores by its result, curvature (cells, 3), and its part of the trace H⁺H.

    `scores_without` are the scores at the fit without that battle; `inverse` is H⁺.
    """

    inverse: Floats
    scores: ResultScores
    scores_without: ResultScores
    bend: Floats
    leverage: Floats

    @classmethod
    def of(cls, fit: BradleyTerryFit, inverse: Floats) -> BattleDerivatives:
        """The derivatives at a fit whose information has this inverse."""
        cells, m, q = fit.cells, fit.cells.n_models, fit.cells.design.shape[1]
        scores, bend = _each_battle(fit)

        def towards(columns: Ints) -> Floats:
            """One column of every battle's row times the inverse; the whole rows would be cells × parameters."""
            result = inverse[cells.first, columns] - inverse[cells.second, columns]
            return result + (cells.design * inverse[m : m + q, columns].T).sum(axis=1) if q else result

        odds = towards(cells.first) - towards(cells.second)
        for k in range(q):
            odds += towards(np.full(len(cells), m + k)) * cells.design[:, k]
        place = tie_places(fit)[cells.group]
        has = place >= 0
        at = np.where(has, m + q + place, 0)
        cross, tie = np.where(has, towards(at), 0.0), np.where(has, inverse[at, at], 0.0)
        bend[~has, 1:] = 0.0
        leverage = bend[:, 0] * odds + 2.0 * bend[:, 1] * cross + bend[:, 2] * tie
        return cls(inverse, scores, _without_itself(scores, bend, odds, cross, tie), bend, leverage)

    @classmethod
    def by_diagonal(cls, fit: BradleyTerryFit, diagonal: Floats, at_least: Floats) -> BattleDerivatives:
        """The same where only the diagonal of H⁺ is known; `inverse` is then that diagonal.

        `at_least` is a lower bound of the variance of every cell's difference.
        """
        cells, m, q = fit.cells, fit.cells.n_models, fit.cells.design.shape[1]
        scores, bend = _each_battle(fit)
        odds = np.maximum(diagonal[cells.first] + diagonal[cells.second], at_least)
        odds += cells.design**2 @ diagonal[m : m + q]
        place = tie_places(fit)[cells.group]
        has = place >= 0
        tie = np.where(has, diagonal[np.where(has, m + q + place, 0)], 0.0)
        bend[~has, 1:] = 0.0
        leverage = bend[:, 0] * odds + bend[:, 2] * tie
        return cls(diagonal, scores, _without_itself(scores, bend, odds, np.zeros_like(odds), tie), bend, leverage)


def _each_battle(fit: BradleyTerryFit) -> tuple[ResultScores, Floats]:
    """The scores of one battle of every cell by its result, and its curvature (cells, 3)."""
    cells, total = fit.cells, fit.curvature()
    scores = fit.tie_model.result_scores(fit.parameters.delta(cells), fit.parameters.tie[cells.group])
    n = np.maximum(cells.counts.sum(axis=1), 1e-300)
    return scores, np.column_stack([total.delta, total.cross, total.tie]) / n[:, None]


def _without_itself(scores: ResultScores, bend: Floats, odds: Floats, cross: Floats, tie: Floats) -> ResultScores:
    """The scores of one battle at the fit without it: (I − B K)⁻¹ s, two by two, as for any other cluster."""
    bend = bend * _held(bend, odds, cross, tie)[:, None]
    a, b, c, d = _products(bend, odds, cross, tie)
    determinant = (1.0 - a) * (1.0 - d) - b * c
    by_odds = ((1.0 - d)[:, None] * scores.delta + b[:, None] * scores.tie) / determinant[:, None]
    by_tie = (c[:, None] * scores.delta + (1.0 - a)[:, None] * scores.tie) / determinant[:, None]
    small = (a + d <= SMALL_LEVERAGE)[:, None]
    share = 1.0 / (1.0 - np.minimum(a + d, SMALL_LEVERAGE))[:, None]
    return ResultScores(np.where(small, share * scores.delta, by_odds), np.where(small, share * scores.tie, by_tie))


def _products(bend: Floats, odds: Floats, cross: Floats, tie: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """The four entries of B K for one battle, by log-odds and by tie."""
    dd, dt, tt = bend.T
    return dd * odds + dt * cross, dd * cross + dt * tie, dt * odds + tt * cross, dt * cross + tt * tie


def _held(bend: Floats, odds: Floats, cross: Floats, tie: Floats) -> Floats:
    """The factor that holds the largest eigenvalue of B K at LARGEST_LEVERAGE."""
    a, b, c, d = _products(bend, odds, cross, tie)
    largest = 0.5 * (a + d + np.sqrt(np.maximum((a - d) ** 2 + 4.0 * b * c, 0.0)))
    return np.asarray(np.minimum(1.0, LARGEST_LEVERAGE / np.maximum(largest, 1e-300)))


def tie_places(fit: BradleyTerryFit) -> Ints:
    """For every tie group its place among the fit's tie parameters, −1 where it has none."""
    place = np.full(fit.cells.n_groups, -1, dtype=np.int64)
    place[fit.tied_groups] = np.arange(len(fit.tied_groups))
    return place
