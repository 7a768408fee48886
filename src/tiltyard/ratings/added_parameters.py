"""Battles as the checks of a fit see them: their scores, and the columns of the parameters that each check adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiltyard.ratings.battle_derivatives import tie_places
from tiltyard.ratings.bradley_terry import BradleyTerryFit
from tiltyard.ratings.clusters import ROWS_AT_ONCE
from tiltyard.ratings.comparisons import OWN_CLUSTER, Comparisons, Counted, sum_by
from tiltyard.ratings.intervals import row_scores
from tiltyard.ratings.sign_flips import ColumnPart, Columns, Family, Grouping, Scored
from tiltyard.types import Floats, Ints

MOST_PAIRS = 1000
"""With more pairs, those that met most often are checked."""

MOST_ROWS = 100_000
"""With more battles than this, about as many are checked, whole clusters drawn at random: misfit that so many battles
do not show is too small to matter."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoredBattles:
    """A fit with its rows, and what the checks read of its cells.

    `bend` is the curvature of one battle of each cell. `pair` numbers the pairs of models, each once: `low` and `high`
    are the two, `met` their battles, `turn` is −1 where a cell has them the other way round.
    """

    fit: BradleyTerryFit
    rows: Comparisons
    counted: Counted
    bend: Floats
    pair: Ints
    turn: Floats
    low: Ints
    high: Ints
    met: Floats

    @classmethod
    def of(cls, fit: BradleyTerryFit, rows: Comparisons, counted: Counted) -> ScoredBattles:
        """The battles of a fit, without the cells of its prior."""
        cells = counted.cells
        total = fit.curvature()
        n = cells.counts.sum(axis=1)
        bend = np.column_stack([total.delta, total.cross, total.tie])[: len(cells)] / np.maximum(n, 1e-300)[:, None]
        bend[tie_places(fit)[cells.group] < 0, 1:] = 0.0
        m = cells.n_models
        low, high = np.minimum(cells.first, cells.second), np.maximum(cells.first, cells.second)
        names, pair = np.unique(low * m + high, return_inverse=True)
        met = sum_by(pair, n, len(names))
        turn = np.where(cells.first < cells.second, 1.0, -1.0)
        return cls(fit, rows, counted, bend, pair, turn, names // m, names % m, met)

    @property
    def gap(self) -> Floats:
        """The log-odds of every cell."""
        return self.fit.parameters.delta(self.counted.cells)

    @property
    def even(self) -> Floats:
        """The factor of every cell that makes all pairs weigh the same."""
        return (float(self.met.mean()) / self.met)[self.pair]

    @property
    def checked_pairs(self) -> NDArray[np.intp]:
        """The pairs that met most."""
        return np.argsort(-self.met, kind="stable")[:MOST_PAIRS]

    def pair_family(self) -> Family:
        """One parameter for each of the pairs that met most."""
        kept = self.checked_pairs
        place = np.zeros(len(self.met), dtype=np.int64)
        inside = np.zeros(len(self.met))
        place[kept], inside[kept] = np.arange(len(kept)), 1.0
        turn = self.turn * inside[self.pair]
        return Family(len(kept), lambda cell, _start, _end: (ColumnPart(place[self.pair[cell]], turn[cell]),))

    def schedule_family(self) -> Family:
        """The fit's own parameters, every pair weighing the same."""
        even = self.even
        return Family(self.fit.n_parameters, lambda cell, _start, _end: self.scored(cell).parameters(even[cell]))

    def tie_family(self) -> Family:
        """A tie parameter that grows with the square of the gap."""
        square = self.gap**2
        return Family(1, lambda cell, _start, _end: (ColumnPart(np.zeros(len(cell), np.int64), None, square[cell]),))

    def slot_family(self) -> Family:
        """The advantage of the first side."""

        def columns(cell: Ints, start: int, end: int) -> Columns:
            side = np.where(self.rows.first[start:end] == self.counted.cells.first[cell], 1.0, -1.0)
            return (ColumnPart(np.zeros(len(cell), np.int64), side),)

        return Family(1, columns, by_cell=False)

    def drift_family(self, times: tuple[Floats, Floats]) -> Family:
        """For each model a strength that grows from its first battle to its last."""

        def columns(cell: Ints, start: int, end: int) -> Columns:
            same = self.rows.first[start:end] == self.counted.cells.first[cell]
            one, other = (time[start:end] for time in times)
            return (
                ColumnPart(self.counted.cells.first[cell], np.where(same, one, other)),
                ColumnPart(self.counted.cells.second[cell], -np.where(same, other, one)),
            )

        return Family(self.rows.n_models, columns, by_cell=False)

    def pieces(self) -> Iterator[tuple[int, int, Scored]]:
        """The rows with their scores, in pieces."""
        point, cells = self.fit.parameters, self.counted.cells
        scores = self.fit.tie_model.result_scores(self.gap, point.tie[cells.group])
        for start in range(0, len(self.rows), ROWS_AT_ONCE):
            end = min(start + ROWS_AT_ONCE, len(self.rows))
            chosen = np.arange(start, end)
            cell, weight = self.counted.cell[start:end], self.rows.weight[start:end]
            pull = weight * row_scores(scores.delta, self.counted, chosen)
            tied = weight * row_scores(scores.tie, self.counted, chosen)
            yield start, end, self.scored(cell, pull, tied, weight[:, None] * self.bend[cell])

    def scored(
        self, cell: Ints, pull: Floats | None = None, tied: Floats | None = None, bend: Floats | None = None
    ) -> Scored:
        """Rows of these cells; without scores, the cells themselves."""
        cells, nothing = self.counted.cells, np.zeros(0)
        return Scored(
            cells.n_models,
            len(self.fit.tied_groups),
            cells.first[cell],
            cells.second[cell],
            cells.design[cell],
            tie_places(self.fit)[cells.group[cell]],
            nothing if pull is None else pull,
            nothing if tied is None else tied,
            np.zeros((0, 3)) if bend is None else bend,
        )


def sum_up(battles: ScoredBattles, families: dict[str, Family], ways: list[Grouping]) -> tuple[Floats, list[Floats]]:
    """Go through the rows once: sums of every family; the scores of the fit's own parameters, in all and by group."""
    n_parameters = battles.fit.n_parameters
    by_parameter = [np.zeros((way.n_groups, n_parameters)) for way in ways]
    totals = np.zeros(n_parameters)
    for family in families.values():
        family.start(n_parameters, ways)
    for start, end, scored in battles.pieces():
        cell = battles.counted.cell[start:end]
        parts = [way.part(start, end) for way in ways]
        for family in families.values():
            columns = family.columns(cell, start, end)
            family.add_scores(scored, columns, parts)
            if not family.by_cell:
                family.add_information(scored, columns)
        own = scored.parameters()
        totals += scored.sums(own, n_parameters)
        for total, part in zip(by_parameter, parts, strict=True):
            total += scored.grouped(own, n_parameters, part)
    weight = sum_by(battles.counted.cell, battles.rows.weight, len(battles.bend))
    cell = np.flatnonzero(weight)  # of a sample, few cells may be left
    bend = battles.bend[cell] * weight[cell, None]
    for family in families.values():
        if family.by_cell:
            family.add_information(battles.scored(cell, bend=bend), family.columns(cell, 0, 0))
    return totals, by_parameter


def sample(rows: Comparisons, rng: np.random.Generator) -> NDArray[np.intp]:
    """The rows to check: all of them, or whole clusters drawn at random."""
    if len(rows) <= MOST_ROWS:
        return np.arange(len(rows))
    share = MOST_ROWS / len(rows)
    if not rows.clusters:
        return np.flatnonzero(rng.random(len(rows)) < share)
    cluster = rows.clusters[0]
    drawn = rng.random(int(cluster.max(initial=-1)) + 2) < share
    inside = drawn[cluster]
    own = np.flatnonzero(cluster == OWN_CLUSTER)
    inside[own] = rng.random(len(own)) < share
    return np.flatnonzero(inside)


def own_times(rows: Comparisons, seconds: Floats) -> tuple[Floats, Floats] | None:
    """When each battle was for its first and for its second model: from −½, its first battle, to ½, its last.

    Battles at the same time share their mean place; one without a time counts as in the middle. None where the times
    tell nothing apart.
    """
    known = np.flatnonzero(~np.isnan(seconds))
    if len(known) < 2 or seconds[known].min() == seconds[known].max():
        return None
    model = np.concatenate([rows.first[known], rows.second[known]])
    time = np.concatenate([seconds[known], seconds[known]])
    weight = np.concatenate([rows.weight[known], rows.weight[known]])
    order = np.lexsort((time, model))
    model, time, weight = model[order], time[order], weight[order]
    new_model = np.append(True, model[1:] != model[:-1])
    starts = np.flatnonzero(new_model | np.append(True, time[1:] != time[:-1]))
    ends = np.append(starts[1:], len(model))
    total = np.concatenate([[0.0], np.cumsum(weight)])
    middle = 0.5 * (total[starts] + total[ends])
    battles = sum_by(model, weight, rows.n_models)
    before = np.concatenate([[0.0], np.cumsum(battles)[:-1]])
    own = np.repeat(middle, ends - starts)
    place = (own - before[model]) / battles[model] - 0.5
    both = np.zeros(2 * len(known))
    both[order] = place
    first, second = np.zeros(len(seconds)), np.zeros(len(seconds))
    first[known], second[known] = both.reshape(2, -1)
    return first, second
