"""Battles as the arithmetic sees them: `Comparisons` row by row, `PairCells` summed by pair.

The likelihood of a Bradley–Terry model depends on the rows only through the counts of each pair (its sufficient
statistics), so a fit costs the same for a thousand battles as for a billion. Rows are needed again only where the rows
themselves are compared: intervals clustered by prompt, soft outcomes, covariates.

At the end, what is made straight from them: a style covariate (`scaled_difference`) and win rates (`win_rates`).
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltyard.errors import OptionValue, RatingError
from tiltyard.types import ROWS_AT_ONCE, AnyInts, Floats, Ints, looked_up, occurring, order_of, pieces

FIRST_WON, SECOND_WON, TIED = 0, 1, 2
"""The three results a row can have, and the columns of `PairCells.counts`."""


OWN_CLUSTER = -1
"""The cluster of a row that depends on no other row."""


DENSE_KEYS = 4_000_000
"""Up to this many possible (pair, group) keys, or eight for each row, are counted in an array; more are sorted."""


def sum_by(index: NDArray[np.integer[Any]], values: Floats, size: int) -> Floats:
    """The sum of the values that share an index, for indices 0 … size − 1."""
    if len(index) <= ROWS_AT_ONCE:
        return np.bincount(index, values, size).astype(np.float64, copy=False)
    total = np.zeros(size)
    for piece in pieces(len(index)):
        np.add.at(total, index[piece], values[piece])
    return total


def sum_by_both(line: AnyInts, column: AnyInts, values: Floats, shape: tuple[int, int]) -> Floats:
    """The sums of the values that share a line and a column, as a table of this shape."""
    total = np.zeros(shape[0] * shape[1])
    for piece in pieces(len(line)):
        np.add.at(total, line[piece] * shape[1] + column[piece], values[piece])
    return total.reshape(shape)


class Comparisons(msgspec.Struct, frozen=True, eq=False):
    """Rows of paired comparisons between models 0 … n_models − 1.

    `result` says who won (FIRST_WON, SECOND_WON, TIED) and `weight` how many equal comparisons the row stands for.
    `share` is the part of a soft outcome that the first model won, NaN on ordinary rows; None when no row is soft.
    `group` separates kinds of deciders whose ties are counted apart; `clusters` say what rows share, one array for each
    way (prompts, voters), with OWN_CLUSTER for rows that share nothing; `covariates` are differences, first minus
    second, one column each.
    """

    n_models: int
    first: AnyInts
    second: AnyInts
    result: NDArray[np.int8]
    weight: Floats
    share: Floats | None = None
    group: AnyInts | None = None
    clusters: tuple[AnyInts, ...] = ()
    covariates: Floats | None = None

    def __len__(self) -> int:
        return len(self.first)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Comparisons:
        return msgspec.structs.replace(
            self,
            first=self.first[rows],
            second=self.second[rows],
            result=self.result[rows],
            weight=self.weight[rows],
            share=None if self.share is None else self.share[rows],
            group=None if self.group is None else self.group[rows],
            clusters=tuple(cluster[rows] for cluster in self.clusters),
            covariates=None if self.covariates is None else self.covariates[rows],
        )

    def battles_per_model(self) -> Floats:
        return sum_by(self.first, self.weight, self.n_models) + sum_by(self.second, self.weight, self.n_models)


class PairCells(msgspec.Struct, frozen=True, eq=False):
    """Counts by pair: in cell c the model `first[c]` met `second[c]` with `counts[c]` = (won, lost, tied).

    `design` holds one row of covariates per cell (no columns for a plain fit) and `group` the tie group of the cell.
    """

    n_models: int
    first: Ints
    second: Ints
    counts: Floats
    group: Ints
    n_groups: int
    design: Floats

    def __len__(self) -> int:
        return len(self.first)

    def with_counts(self, counts: Floats) -> PairCells:
        return msgspec.structs.replace(self, counts=counts)

    def without_design(self) -> PairCells:
        """The same comparisons without covariates, summed by pair and group."""
        m = self.n_models
        distinct, cell = _number_keys((self.group * m + self.first) * m + self.second, self.n_groups * m**2)
        counts = np.column_stack([sum_by(cell, column, len(distinct)) for column in self.counts.T])
        first, second = np.divmod(distinct % m**2, m)
        none = np.empty((len(distinct), 0))
        return PairCells(m, first, second, counts, distinct // m**2, self.n_groups, none)

    def append(self, first: Ints, second: Ints, counts: Floats) -> PairCells:
        """These cells and some more of group 0 without covariates."""
        extra = len(first)
        return msgspec.structs.replace(
            self,
            first=np.concatenate([self.first, first]),
            second=np.concatenate([self.second, second]),
            counts=np.concatenate([self.counts, counts]),
            group=np.concatenate([self.group, np.zeros(extra, dtype=np.int64)]),
            design=np.concatenate([self.design, np.zeros((extra, self.design.shape[1]))]),
        )


class Counted(msgspec.Struct, frozen=True, eq=False):
    """Pair cells together with where each row went: its cell, and its result as the cell sees it."""

    cells: PairCells
    cell: AnyInts
    result: NDArray[np.int8]
    share: Floats | None

    def take(self, rows: NDArray[np.intp]) -> Counted:
        """Where some of the rows went, among the same cells."""
        share = None if self.share is None else self.share[rows]
        return Counted(self.cells, self.cell[rows], self.result[rows], share)


def count_pairs(rows: Comparisons, *, slot: bool = False) -> Counted:
    """Sum comparisons by pair.

    Without covariates (a, b) and (b, a) are one pair. With `slot` the two stay apart and a covariate that is always 1
    stands for the advantage of coming first. With covariates every row is its own cell.
    """
    m, n = rows.n_models, len(rows)
    n_groups = 1 if rows.group is None else int(rows.group.max(initial=0)) + 1
    if rows.covariates is not None:
        group = np.zeros(n, dtype=np.int64) if rows.group is None else rows.group.astype(np.int64)
        design = np.asfortranarray(np.column_stack([np.ones(n), rows.covariates]) if slot else rows.covariates)
        counts = _sum_results(np.arange(n), rows.result, rows.share, rows.weight, n)
        first, second = rows.first.astype(np.int64), rows.second.astype(np.int64)
        cells = PairCells(m, first, second, counts, group, n_groups, design)
        return Counted(cells, np.arange(n), rows.result, rows.share)
    result = np.array(rows.result, dtype=np.int8)
    share = None if rows.share is None else np.array(rows.share)
    n_possible = n_groups * m**2
    key: AnyInts = np.empty(n, dtype=np.int32 if n_possible < 2**31 else np.int64)
    for piece in pieces(n):
        first, second = rows.first[piece].astype(key.dtype), rows.second[piece].astype(key.dtype)
        if not slot:
            turned = first > second
            first, second = np.minimum(first, second), np.maximum(first, second)
            result[piece] ^= turned & (result[piece] != TIED)
            if share is not None:
                share[piece] = np.where(turned, 1.0 - share[piece], share[piece])
        if rows.group is not None:
            first += rows.group[piece].astype(key.dtype) * m
        key[piece] = first * m + second
    distinct, cell = _number_keys(key, n_possible)
    pair = distinct % m**2
    cells = PairCells(
        n_models=m,
        first=pair // m,
        second=pair % m,
        counts=_sum_results(cell, result, share, rows.weight, len(distinct)),
        group=distinct // m**2,
        n_groups=n_groups,
        design=np.ones((len(distinct), 1)) if slot else np.empty((len(distinct), 0)),
    )
    return Counted(cells, cell, result, share)


def _number_keys(key: AnyInts, n_possible: int) -> tuple[Ints, AnyInts]:
    """The distinct keys in order, and for every row the position of its key among them."""
    if n_possible > max(DENSE_KEYS, 8 * len(key)):
        order = order_of(key)
        ordered = key[order]
        starts = np.append(True, ordered[1:] != ordered[:-1])[: len(key)]
        cell = np.empty(len(key), dtype=np.int64)
        cell[order] = np.cumsum(starts) - 1
        return ordered[starts].astype(np.int64), cell
    distinct = np.flatnonzero(occurring(key, n_possible))
    place = np.zeros(n_possible, dtype=np.int32)
    place[distinct] = np.arange(len(distinct))
    return distinct, looked_up(place, key)


def _sum_results(cell: AnyInts, result: NDArray[np.int8], share: Floats | None, weight: Floats, n_cells: int) -> Floats:
    """(won, lost, tied) per cell; a soft outcome is divided between the first two."""
    if share is None:
        return sum_by_both(cell, result, weight, (n_cells, 3))
    soft = ~np.isnan(share)
    hard = ~soft
    counts = sum_by_both(cell[hard], result[hard], weight[hard], (n_cells, 3))
    counts[:, FIRST_WON] += sum_by(cell[soft], weight[soft] * share[soft], n_cells)
    counts[:, SECOND_WON] += sum_by(cell[soft], weight[soft] * (1.0 - share[soft]), n_cells)
    return counts


def scaled_difference(name: str, value_a: Floats, value_b: Floats, weight: Floats) -> Floats:
    """(a − b)/(a + b) of each battle, divided by its root mean square; 0 where both are 0.

    It is never centred: centring would move the ratings of models that are in the first slot more often.
    """
    missing = np.isnan(value_a) | np.isnan(value_b)
    if missing.any():
        raise RatingError(
            f"control {name!r} is missing in {int(missing.sum()):,} battles. "
            f"Fill {name}_a and {name}_b, or leave those battles out with ",
            OptionValue("where"),
        )
    if (value_a < 0).any() or (value_b < 0).any():
        raise RatingError(f"control {name!r} is negative in some battles: (a − b)/(a + b) needs amounts of 0 or more.")
    total = value_a + value_b
    share = np.divide(value_a - value_b, total, out=np.zeros_like(total), where=total > 0)
    root_mean_square = float(np.sqrt((weight * share * share).sum() / weight.sum()))
    if root_mean_square == 0.0:
        raise RatingError(
            f"control {name!r} is equal on both sides in every battle: it explains nothing. Leave it out."
        )
    return share / root_mean_square


class WinRates(msgspec.Struct, frozen=True, eq=False):
    """Battles and wins of every ordered pair, ties and soft outcomes divided between the two.

    `wins[i, j]` is what i won against j, `battles[i, j]` how often they met.
    """

    wins: Floats
    battles: Floats

    @property
    def matrix(self) -> Floats:
        """The share that i (row) won against j (column); NaN where they never met."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.wins / self.battles)

    @property
    def score(self) -> Floats:
        """What each model won in all: wins plus half the ties."""
        return np.asarray(self.wins.sum(axis=1))

    @property
    def overall(self) -> Floats:
        """The share of all its battles that each model won: depends on whom it met how often."""
        return np.asarray(self.score / self.battles.sum(axis=1))

    @property
    def average(self) -> Floats:
        """The mean of each model's win rates over the opponents it met, every opponent counting once."""
        met = self.battles > 0
        return np.asarray(np.where(met, self.matrix, 0.0).sum(axis=1) / met.sum(axis=1))


def win_rates(cells: PairCells) -> WinRates:
    """Win rates from pair counts."""
    m = cells.n_models
    first_wins = cells.counts[:, FIRST_WON] + 0.5 * cells.counts[:, TIED]
    second_wins = cells.counts[:, SECOND_WON] + 0.5 * cells.counts[:, TIED]
    forward, backward = cells.first * m + cells.second, cells.second * m + cells.first
    wins = sum_by(forward, first_wins, m * m) + sum_by(backward, second_wins, m * m)
    n = cells.counts.sum(axis=1)
    battles = sum_by(forward, n, m * m) + sum_by(backward, n, m * m)
    return WinRates(wins.reshape(m, m), battles.reshape(m, m))


Codes = NDArray[np.int32]


def codes(values: ArrayLike) -> Codes:
    """Model codes as loops over battles take them.

    It is a copy even where the type fits: a loop would be compiled a second time for a caller's read-only array.
    """
    return np.array(values, dtype=np.int32)
