"""Bootstrap ratings: the fit repeated on reweighted data, all rounds of a block at once.

Rounds are Bayesian-bootstrap rounds (Rubin 1981, Annals of Statistics 9:130): every independent unit gets a standard
exponential weight instead of a whole number of copies. It spreads like the classical bootstrap, and no round can lose a
model's last win, so no round is degenerate. A unit is a cluster of rows (a prompt), or a row; rows of one pair and
result are alike, so n of them together get one Gamma(n) weight, and a round costs the same for any number of rows.

A round moves little from the fit, so each is solved by chord-Newton steps with the fit's own inverse information, bent
by what the steps before have taught (Anderson 1965, Journal of the ACM 12:547): also those that go far, as a newcomer
with few battles does, need twenty at most. A round that does not settle is fitted by full Newton steps.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tiltyard.stats.bradley_terry import BradleyTerryFit, fit
from tiltyard.stats.clusters import number_clusters
from tiltyard.stats.comparisons import OWN_CLUSTER, Comparisons, Counted, sum_by
from tiltyard.stats.intervals import independent_rows
from tiltyard.stats.tie_models import CellSums
from tiltyard.types import AnyInts, Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

BLOCK_ROUNDS = 32
BLOCK_VALUES = 8_000_000
"""A block holds at most this many weights, so that many cells do not need much memory."""

UNITS_AT_ONCE = 100_000
CELLS_AT_ONCE = 2048
VALUES_AT_ONCE = BLOCK_ROUNDS * CELLS_AT_ONCE
"""So many counts of cells are solved at once: few enough for the processor's cache, in as few steps as possible."""
FAR_APART = 60.0
"""Half-strengths beyond this (in logits) are read as this: no battle is that certain, and nothing overflows."""
MOST_STEPS = 40
TOLERANCE = 1e-7
"""In logits: the length of a last step. What is still missing is about as much, 2e-5 points, far below any interval."""
LARGEST_STEP = 2.0
"""In logits: no step goes farther, so that a wild one is not the last."""
STEPS_REMEMBERED = 3
SMALLEST_SHARE = 1e-10
"""Differences of steps that hold less than this share of the others' squares teach nothing but rounding."""


class Units(msgspec.Struct, frozen=True, eq=False):
    """What is resampled: `alone`, counts of independent rows per (cell, result), and `shared`, one column per cluster.

    `shared` comes in parts of at most UNITS_AT_ONCE clusters, so that their weights need little memory. `fixed` is what
    is not resampled: the prior's pseudo-battles.
    """

    alone: Floats
    shared: tuple[csr_array[np.float64], ...]
    fixed: Floats


def bootstrap_strengths(
    fitted: BradleyTerryFit, rows: Comparisons, counted: Counted, *, rounds: int, seed: int, way: int = 0
) -> Floats:
    """Strengths of every round, centred: an array (rounds, models); `way` says which clusters are resampled."""
    units = resampling_units(fitted, rows, counted, way)
    size = max(1, min(BLOCK_ROUNDS, BLOCK_VALUES // (3 * len(fitted.cells))))
    sizes = [min(size, rounds - start) for start in range(0, rounds, size)]
    children = np.random.SeedSequence(seed).spawn(len(sizes))
    drawn = (draw_counts(units, n, np.random.default_rng(child)) for n, child in zip(sizes, children, strict=True))
    inverse = fitted.inverse_information()
    blocks_at_once = max(1, VALUES_AT_ONCE // (size * len(fitted.cells)))
    solved = []
    while blocks := list(islice(drawn, blocks_at_once)):
        solved.append(_solve(fitted, inverse, np.concatenate(blocks, axis=2)))
    return np.concatenate(solved, axis=1).T


def resampling_units(fitted: BradleyTerryFit, rows: Comparisons, counted: Counted, way: int = 0) -> Units:
    """Sort rows into those summed by (cell, result) and those resampled by cluster, in one way of clustering."""
    n, real = len(fitted.cells), len(counted.cells)
    cluster = rows.clusters[way] if rows.clusters else None
    alone = independent_rows(rows, cluster)
    soft = np.zeros(len(rows), dtype=bool) if counted.share is None else ~np.isnan(counted.share)
    summed = alone & ~soft
    fixed = np.zeros((n, 3))
    fixed[real:] = fitted.cells.counts[real:]
    key = counted.cell[summed] * 3 + counted.result[summed]
    own = sum_by(key, rows.weight[summed], 3 * n)
    if summed.all():
        return Units(own, (), fixed.ravel())
    shared = _cluster_counts(rows, counted, cluster, np.flatnonzero(~summed), soft, n)
    parts = (shared[start : start + UNITS_AT_ONCE] for start in range(0, shared.shape[0], UNITS_AT_ONCE))
    return Units(own, tuple(part.T.tocsr() for part in parts), fixed.ravel())


def _cluster_counts(
    rows: Comparisons, counted: Counted, named: AnyInts | None, chosen: np.ndarray, soft: np.ndarray, n_cells: int
) -> csr_array[np.float64]:
    """A sparse matrix with one row per cluster: what it adds to each (cell, result)."""
    from scipy.sparse import csr_array

    cluster = np.full(len(rows), OWN_CLUSTER, dtype=np.int64) if named is None else named.copy()
    lone = chosen[cluster[chosen] == OWN_CLUSTER]
    cluster[lone] = cluster.max(initial=-1) + 1 + np.arange(len(lone))
    unit = number_clusters(cluster[chosen])
    cell, weight, mixed = counted.cell[chosen], rows.weight[chosen], soft[chosen]
    column = cell * 3 + np.where(mixed, 0, counted.result[chosen])
    if counted.share is None:
        return csr_array((weight, (unit, column)), shape=(int(unit.max()) + 1, 3 * n_cells))
    share = np.where(mixed, counted.share[chosen], 1.0)
    index = np.concatenate([unit, unit[mixed]]), np.concatenate([column, column[mixed] + 1])
    value = np.concatenate([weight * share, (weight * (1.0 - share))[mixed]])
    return csr_array((value, index), shape=(int(unit.max()) + 1, 3 * n_cells))


def draw_counts(units: Units, rounds: int, rng: np.random.Generator) -> Floats:
    """Resampled counts: an array (cells, 3, rounds)."""
    counts = np.repeat(units.fixed[:, None], rounds, axis=1)
    filled = np.flatnonzero(units.alone)
    if len(filled):
        counts[filled] += rng.standard_gamma(units.alone[filled], size=(rounds, len(filled))).T
    for part in units.shared:
        counts += np.asarray(part @ rng.standard_exponential((part.shape[1], rounds)))
    return counts.reshape(-1, 3, rounds)


def _solve(fitted: BradleyTerryFit, inverse: Floats, counts: Floats) -> Floats:
    """Centred strengths (models, rounds) that solve every round of these counts."""
    m, start = fitted.cells.n_models, fitted.parameters
    fit_point = np.concatenate([start.strength, start.coefficient, start.tie[fitted.tied_groups]])
    point = np.repeat(fit_point[:, None], counts.shape[2], axis=1)
    solved, going = point[:m].copy(), np.arange(counts.shape[2])
    slopes, secants = _Slopes(fitted, CellSums.of(counts)), _Secants()
    for _ in range(MOST_STEPS):
        step = secants.bend(point, inverse @ slopes.at(point))
        point = point + step
        moving = ~(np.abs(step).max(axis=0) < TOLERANCE)
        if not moving.all():
            solved[:, going[~moving]] = point[:m, ~moving]
            going, point = going[moving], point[:, moving]
            slopes.keep(moving)
            secants.keep(moving)
        if not len(going):
            break
    for lagging in going:
        cells = fitted.cells.with_counts(counts[:, :, lagging])
        solved[:, lagging] = fit(cells, fitted.tie_model, start=start).parameters.strength
    return np.asarray(solved - solved.mean(axis=0))


class _Secants:
    """How the last few steps of every round changed with its point, from which follows where a step would be zero."""

    def __init__(self) -> None:
        self._moves: list[Floats] = []
        self._changes: list[Floats] = []
        self._last: tuple[Floats, Floats] | None = None

    def keep(self, rounds: np.ndarray) -> None:
        """Forget all other rounds."""
        self._moves = [move[:, rounds] for move in self._moves]
        self._changes = [change[:, rounds] for change in self._changes]
        if self._last is not None:
            self._last = self._last[0][:, rounds], self._last[1][:, rounds]

    def bend(self, point: Floats, step: Floats) -> Floats:
        """The step to take instead of `step`, of bounded size."""
        if self._last is not None:
            self._moves = [*self._moves, point - self._last[0]][-STEPS_REMEMBERED:]
            self._changes = [*self._changes, step - self._last[1]][-STEPS_REMEMBERED:]
        self._last = point, step
        bent = step
        if self._moves:
            moves, changes = np.stack(self._moves, axis=-1), np.stack(self._changes, axis=-1)
            products = np.einsum("pra,prb->rab", changes, changes)
            squares = np.trace(products, axis1=1, axis2=2)[:, None, None]
            products += (SMALLEST_SHARE * squares + 1e-300) * np.eye(len(self._moves))
            shares = np.linalg.solve(products, np.einsum("pra,pr->ra", changes, step)[:, :, None])[:, :, 0]
            bent = step - np.einsum("pra,ra->pr", moves + changes, shares)
        return np.asarray(bent * np.minimum(1.0, LARGEST_STEP / np.maximum(np.abs(bent).max(axis=0), 1e-300)))


class _Slopes:
    """The slope of every round's log-likelihood, summed over cells in pieces that stay in the processor's cache."""

    def __init__(self, fitted: BradleyTerryFit, sums: CellSums) -> None:
        from scipy.sparse import csr_array

        self._fitted = fitted
        self._parts = []
        cells, m = fitted.cells, fitted.cells.n_models
        for start in range(0, len(cells), CELLS_AT_ONCE):
            part = slice(start, min(start + CELLS_AT_ONCE, len(cells)))
            n = part.stop - start
            sign = np.concatenate([np.ones(n), -np.ones(n)])
            place = np.concatenate([cells.first[part], cells.second[part]]), np.tile(np.arange(n), 2)
            upward = csr_array((sign, place), shape=(m, n))
            grouped = csr_array((np.ones(n), (cells.group[part], np.arange(n))), shape=(cells.n_groups, n))
            self._parts.append((part, upward, grouped, CellSums(sums.n[part], sums.net[part], sums.tied[part])))

    def keep(self, rounds: np.ndarray) -> None:
        """Forget all other rounds."""
        self._parts = [
            (part, upward, grouped, CellSums(sums.n[:, rounds], sums.net[:, rounds], sums.tied[:, rounds]))
            for part, upward, grouped, sums in self._parts
        ]

    def at(self, point: Floats) -> Floats:
        """The slope by all parameters at a point, a column per round."""
        cells, groups = self._fitted.cells, self._fitted.tied_groups
        m, q = cells.n_models, cells.design.shape[1]
        tie = np.repeat(self._fitted.parameters.tie[:, None], point.shape[1], axis=1)
        tie[groups] = point[m + q :]
        up = np.exp(np.clip(0.5 * point[:m], -FAR_APART, FAR_APART))
        down = 1.0 / up
        total = np.zeros_like(point)
        for part, upward, grouped, sums in self._parts:
            root_odds = up[cells.first[part]] * down[cells.second[part]]
            if q:
                root_odds *= np.exp(0.5 * (cells.design[part] @ point[m : m + q]))
            spread = tie[cells.group[part]] if cells.n_groups > 1 else tie
            by_delta, by_tie = self._fitted.tie_model.gradient(root_odds, spread, sums)
            total[:m] += np.asarray(upward @ by_delta)
            total[m : m + q] += cells.design[part].T @ by_delta
            if len(groups):
                total[m + q :] += np.asarray(grouped @ by_tie)[groups]
        return total
