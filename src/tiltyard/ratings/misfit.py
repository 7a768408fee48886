"""Does a Bradley–Terry fit describe its battles? Five checks, each with a p-value that holds under clustering.

- **pairs**: does each pair win as often as its two ratings say (a cycle of styles does not)?
- **schedule**: do ratings depend on who met whom how often? They are compared with those of a fit in which every pair
  weighs the same; if the model holds, both estimate one thing.
- **ties**: do ties fall with the gap as the tie model says?
- **drift**: does a model's strength change from its first battle to its last?
- **slot**: does the first side win more than it should?

Every check is a score test of added parameters. A model that is better on some prompts, or liked more by
some voters, is not misfit: such effects move strengths cluster by cluster, and the tests take clusters as they are.

A model that fits leaves nothing for a further parameter to explain: its score, the slope of the log-likelihood by that
parameter at the fit, is zero but for chance. How large chance makes it is found by drawing: scores of whole clusters
(prompts, voters) keep their sizes and get random signs (a wild bootstrap of scores: Kline and Santos 2012, Journal of
Econometric Methods 1:23; Hemerik, Goeman and Finos 2020, JRSS B 82:841). Before that, what the fit's own parameters
take up of each cluster's score is subtracted, so that a taste that moves strengths is no misfit.

The variance of a score is the largest of: what the model says, what each kind of cluster says, and for two kinds
(prompts and voters) their sum less what the model says, as in the two-way sandwich of `intervals`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tiltyard.ratings.bradley_terry import BradleyTerryFit, assemble, invert_centred
from tiltyard.ratings.bradley_terry import fit as refit
from tiltyard.ratings.clusters import ROWS_AT_ONCE, number_clusters, tie_places
from tiltyard.ratings.comparisons import FIRST_WON, OWN_CLUSTER, TIED, Comparisons, Counted, sum_by
from tiltyard.ratings.intervals import row_scores
from tiltyard.ratings.tie_models import Curvature
from tiltyard.types import Floats, Ints

MOST_GROUPS = 1000
"""More clusters than this are put together at random: groups of independent clusters are independent too."""

MOST_NUMBERS = 1_000_000
"""With many columns there are fewer groups, so that groups times columns stay below this, ..."""
FEWEST_GROUPS = 200
"""... but no fewer than this."""

DRAWS = 999

PIECES = 64
"""A row that stands for many equal battles is spread over this many groups at most."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPart:
    """Where each row adds to a table of columns: at `place`, its score by log-odds and by tie times these factors."""

    place: Ints
    by_odds: Floats | None = None
    by_tie: Floats | None = None


Columns = tuple[ColumnPart, ...]
"""The entries of every row in one family of parameters."""


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Rows (or cells) of battles: who met, and the derivatives of their log-likelihood, weights included.

    `bend` is the curvature: columns by log-odds, by both, by tie. `tie_at` is the place of the row's tie parameter
    among those of the fit, −1 where it has none.
    """

    n_models: int
    n_ties: int
    first: Ints
    second: Ints
    design: Floats
    tie_at: Ints
    pull: Floats
    tied: Floats
    bend: Floats

    @property
    def n_parameters(self) -> int:
        """Strengths, coefficients and tie parameters."""
        return int(self.n_models + self.design.shape[1] + self.n_ties)

    def parameters(self, factor: Floats | None = None) -> Columns:
        """The columns of the fit's own parameters, each row times a factor."""
        one = np.ones(len(self.first)) if factor is None else factor
        columns = [ColumnPart(self.first, one), ColumnPart(self.second, -one)]
        m, q = self.n_models, self.design.shape[1]
        columns += [ColumnPart(np.full(len(one), m + k), one * self.design[:, k]) for k in range(q)]
        if self.n_ties:
            has = self.tie_at >= 0
            columns.append(ColumnPart(m + q + np.where(has, self.tie_at, 0), None, np.where(has, one, 0.0)))
        return tuple(columns)

    def sums(self, columns: Columns, size: int) -> Floats:
        """The score by each of `size` parameters."""
        return sum((sum_by(entry.place, self._score(entry), size) for entry in columns), np.zeros(size))

    def grouped(self, columns: Columns, size: int, way: Grouping) -> Floats:
        """The scores summed by group: (groups, size)."""
        total = np.zeros(way.n_groups * size)
        start = way.group * size
        keys, spread = np.empty_like(start), np.empty(len(start))  # for all columns: large arrays are dear to make
        for entry in columns:
            value, place = self._score(entry), entry.place.astype(np.int64, copy=False)
            if way.at is not None and way.scale is not None:
                value *= way.scale
                value, place = value.take(way.at, out=spread, mode="clip"), place.take(way.at, out=keys, mode="clip")
            total += sum_by(np.add(start, place, out=keys), value, way.n_groups * size)
        return total.reshape(way.n_groups, size)

    def _score(self, entry: ColumnPart) -> Floats:
        value = np.zeros(len(self.first))
        if entry.by_odds is not None:
            value += self.pull * entry.by_odds
        if entry.by_tie is not None:
            value += self.tied * entry.by_tie
        return value

    def information(self, columns: Columns, size: int) -> Floats:
        """Minus the second derivatives by these parameters and by the fit's own: (size, parameters)."""
        n, own = self.n_parameters, self.parameters()
        total = np.zeros(size * n)
        for one in columns:
            by_odds, by_tie = self._bent(one)
            for other in own:
                value = np.zeros(len(self.first))
                if other.by_odds is not None:
                    value += by_odds * other.by_odds
                if other.by_tie is not None:
                    value += by_tie * other.by_tie
                total += sum_by(one.place * n + other.place, value, size * n)
        return total.reshape(size, n)

    def own_information(self, columns: Columns, size: int) -> Floats:
        """The same by each parameter twice; no row may have two entries in one place."""
        total = np.zeros(size)
        for one in columns:
            by_odds, by_tie = self._bent(one)
            value = np.zeros(len(self.first))
            if one.by_odds is not None:
                value += by_odds * one.by_odds
            if one.by_tie is not None:
                value += by_tie * one.by_tie
            total += sum_by(one.place, value, size)
        return total

    def _bent(self, entry: ColumnPart) -> tuple[Floats, Floats]:
        """The curvature times an entry's factors: by log-odds and by tie."""
        by_odds, by_tie = np.zeros(len(self.first)), np.zeros(len(self.first))
        if entry.by_odds is not None:
            by_odds += self.bend[:, 0] * entry.by_odds
            by_tie += self.bend[:, 1] * entry.by_odds
        if entry.by_tie is not None:
            by_odds += self.bend[:, 1] * entry.by_tie
            by_tie += self.bend[:, 2] * entry.by_tie
        return by_odds, by_tie


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The rows of one kind of clusters in groups that do not depend on each other.

    `at` names rows, which each have a factor in `scale`, where rows that stand for many battles are spread over groups;
    None: all rows as they are.
    """

    group: Ints
    n_groups: int
    at: NDArray[np.intp] | None = None
    scale: Floats | None = None

    def part(self, start: int, end: int) -> Grouping:
        """The same for some rows in a row."""
        if self.at is None:
            return Grouping(self.group[start:end], self.n_groups)
        assert self.scale is not None
        low, high = np.searchsorted(self.at, [start, end])
        return Grouping(self.group[low:high], self.n_groups, self.at[low:high] - start, self.scale[start:end])


def groupings(rows: Comparisons, n_columns: int, rng: np.random.Generator) -> list[Grouping]:
    """One grouping for each kind of clusters; single battles where there are none."""
    most = int(np.clip(MOST_NUMBERS // max(n_columns, 1), FEWEST_GROUPS, MOST_GROUPS))
    ways = rows.clusters or (np.full(len(rows), OWN_CLUSTER, dtype=np.int64),)
    return [_grouping(cluster, rows.weight, most, rng) for cluster in ways]


def _grouping(cluster: Ints, weight: Floats, most: int, rng: np.random.Generator) -> Grouping:
    own = cluster == OWN_CLUSTER
    group = np.empty(len(cluster), dtype=np.int64)
    named = ~own
    n_groups = 0
    if named.any():
        code = number_clusters(cluster[named])
        n_groups = int(code.max()) + 1
        if n_groups > most:
            code, n_groups = rng.integers(most, size=n_groups)[code], most
        group[named] = code
    if not own.any():
        return Grouping(group, n_groups)
    pieces = np.ones(len(cluster), dtype=np.int64)
    pieces[own] = np.clip(np.rint(weight[own]), 1, PIECES).astype(np.int64)
    at = np.repeat(np.arange(len(cluster)), pieces)
    scale = np.where(own, np.sqrt(pieces / np.where(own, np.maximum(weight, 1e-300), 1.0)) / pieces, 1.0)
    alone = own[at]
    spread = group[at]
    count = int(alone.sum())
    if n_groups + count <= most:
        spread[alone] = n_groups + np.arange(count)
        n_groups += count
    else:
        spread[alone], n_groups = rng.integers(most, size=count), most
    return Grouping(spread, n_groups, at, scale)


@dataclass(slots=True, eq=False)
class Family:
    """Added parameters that are tested together: which columns they are, and the sums over all rows.

    `columns` gives the columns of rows `start` … `end` in these cells; where it needs no more than the cells
    (`by_cell`), information is summed by cell. `score` is the slope by each parameter, `cross` the information it
    shares with the fit's own, `own` what it has in all; `by_group` holds the scores of every group, a table for each
    kind of clusters.
    """

    size: int
    columns: Callable[[Ints, int, int], Columns]
    by_cell: bool = True
    score: Floats = field(init=False)
    cross: Floats = field(init=False)
    own: Floats = field(init=False)
    by_group: list[Floats] = field(init=False)

    def start(self, n_parameters: int, ways: list[Grouping]) -> None:
        """Empty sums."""
        self.score, self.own = np.zeros(self.size), np.zeros(self.size)
        self.cross = np.zeros((self.size, n_parameters))
        self.by_group = [np.zeros((way.n_groups, self.size)) for way in ways]

    def add_scores(self, rows: Scored, columns: Columns, ways: list[Grouping]) -> None:
        """Add the scores of some rows."""
        self.score += rows.sums(columns, self.size)
        for total, way in zip(self.by_group, ways, strict=True):
            total += rows.grouped(columns, self.size, way)

    def add_information(self, rows: Scored, columns: Columns) -> None:
        """Add the information of some rows or cells."""
        self.cross += rows.information(columns, self.size)
        self.own += rows.own_information(columns, self.size)

    def projected(self, by_parameter: list[Floats], inverse: Floats) -> list[Floats]:
        """Every group's scores less what the fit's own parameters take up of them."""
        taken = inverse @ self.cross.T
        return [table - strengths @ taken for table, strengths in zip(self.by_group, by_parameter, strict=True)]

    def left_score(self, totals: Floats, inverse: Floats) -> Floats:
        """The score less what the fit's own parameters take up: they have none of their own over all battles."""
        return np.asarray(self.score - self.cross @ (inverse @ totals))

    def left(self, inverse: Floats) -> Floats:
        """What the battles say about each parameter beyond the fit's own: the variance of its score by the model."""
        return np.asarray(np.maximum(self.own - ((self.cross @ inverse) * self.cross).sum(axis=1), 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Tested:
    """Scores of added parameters beside what chance makes of them.

    `z` is each score in standard errors, `draws` the same with random signs (draws, parameters). `information` is what
    the battles say about each parameter beyond the fit's own, `variance` that of its score.
    """

    score: Floats
    variance: Floats
    information: Floats
    draws: Floats

    @property
    def z(self) -> Floats:
        """Each score in standard errors."""
        return self.score / np.sqrt(self.variance)

    @property
    def estimate(self) -> Floats:
        """Each parameter in one Newton step."""
        return self.score / self.information

    @property
    def error(self) -> Floats:
        """The standard error of each estimate."""
        return np.sqrt(self.variance) / self.information

    def keep(self, chosen: NDArray[np.bool_]) -> Tested:
        """Only some of the parameters."""
        return Tested(self.score[chosen], self.variance[chosen], self.information[chosen], self.draws[:, chosen])


def draw_signs(ways: list[Grouping], rng: np.random.Generator, draws: int = DRAWS) -> list[NDArray[np.float32]]:
    """Random signs for the groups of each kind of clusters: (draws, groups)."""
    signs = []
    for way in ways:
        size = draws * way.n_groups
        bits = np.unpackbits(rng.integers(256, size=size // 8 + 1, dtype=np.uint8))[:size]
        signs.append(2.0 * bits.astype(np.float32).reshape(draws, way.n_groups) - np.float32(1.0))
    return signs


def test_scores(score: Floats, by_group: list[Floats], model: Floats, signs: list[NDArray[np.float32]]) -> Tested:
    """Scores beside their draws; `by_group` has the part that the fit takes up subtracted, `model` is the variance."""
    result = [(table * table).sum(axis=0) for table in by_group]
    variance = np.maximum(np.max(result, axis=0), model)
    if len(result) == 2:
        variance = np.maximum(variance, result[0] + result[1] - model)
    spread = np.sqrt(np.maximum(np.sum(result, axis=0), 1e-300))
    draws = sum(sign @ (table / spread).astype(np.float32) for sign, table in zip(signs, by_group, strict=True))
    return Tested(score, np.maximum(variance, 1e-300), model, np.asarray(draws, dtype=np.float64))


def p_value(seen: float, drawn: Floats) -> float:
    """How often chance is as large as what was seen; never 0, because what was seen is one of the draws."""
    return float((1 + np.count_nonzero(drawn >= seen * (1.0 - 1e-5))) / (len(drawn) + 1))


def smallest_p(seen: list[float], drawn: list[Floats]) -> float:
    """One p-value of several statistics of the same draws: how often chance makes one of them as unlikely.

    What was seen is one of the draws: each draw's own p-values count it, too.
    """
    ps = min(p_value(value, draws) for value, draws in zip(seen, drawn, strict=True))
    ranks = []
    for value, draws in zip(seen, drawn, strict=True):
        least = draws * (1.0 - 1e-5)
        larger = len(draws) - np.searchsorted(np.sort(draws), least) + (value >= least)
        ranks.append(larger / (len(draws) + 1))
    return float((1 + np.count_nonzero(np.min(ranks, axis=0) <= ps)) / (len(drawn[0]) + 1))


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


MOST_MODELS = 300
"""Above this many models nothing is checked: the tables would take longer than the fit."""

LEAST_OWN = 0.02
"""A parameter of which less than this part is its own, not the fit's parameters', cannot be tested."""


@dataclass(frozen=True, slots=True, eq=False)
class PairResiduals:
    """What every checked pair won beside what the ratings say, the most remarkable first.

    `share` is the part of its battles that `first` won (ties half), `expected` the same by the fit. `size` is the
    root mean square of the true deviations over battles, the part that chance explains taken off. `p` is of pairs and
    schedule together.
    """

    p: float
    size: float
    first: Ints
    second: Ints
    battles: Floats
    share: Floats
    expected: Floats
    error: Floats
    z: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleMoves:
    """How far each strength moves when every pair weighs the same, in logits, with the standard error of the move."""

    p: float
    move: Floats
    z: Floats


@dataclass(frozen=True, slots=True)
class TieLaw:
    """Ties among the half of the battles with the smaller gaps, and among the other half: seen and expected shares."""

    p: float
    z: float
    close: float
    close_expected: float
    far: float
    far_expected: float


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """How much each model gained on its opponents from its first battle to its last, in logits.

    `cut` is how many standard errors a change must have to be remarkable among those of all models.
    """

    p: float
    change: Floats
    error: Floats
    z: Floats
    cut: float


@dataclass(frozen=True, slots=True)
class SlotEffect:
    """The advantage of the first side in logits, with its 95 % interval."""

    p: float
    advantage: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Misfit:
    """The checks that could be made; None for the others."""

    pairs: PairResiduals | None = None
    schedule: ScheduleMoves | None = None
    ties: TieLaw | None = None
    drift: Drift | None = None
    slot: SlotEffect | None = None


def check_fit(
    fit: BradleyTerryFit,
    rows: Comparisons,
    counted: Counted,
    inverse: Floats,
    *,
    seconds: Floats | None,
    slot: bool,
    seed: int = 0,
) -> Misfit:
    """Check a fit against its battles, which depend on each other as the clusters of `rows` say.

    Parameters:
        fit: The fit.
        rows: The battles that it was fitted to.
        counted: The same, counted by pair.
        inverse: The inverse of the fit's information (`Covariance.fisher`).
        seconds: When each battle was, NaN where unknown; None where drift is not to be checked.
        slot: Whether sides mean something, so that the first side's advantage can be checked.
        seed: Seed of the random signs.
    """
    rng = np.random.default_rng(seed)
    chosen = sample(rows, rng)
    if len(chosen) < len(rows):
        inverse = inverse * (float(rows.weight.sum()) / float(rows.weight[chosen].sum()))
        rows, counted = rows.take(chosen), counted.take(chosen)
        seconds = None if seconds is None else seconds[chosen]
    battles = ScoredBattles.of(fit, rows, counted)
    families = {"pairs": battles.pair_family(), "schedule": battles.schedule_family()}
    if len(fit.tied_groups):
        families["ties"] = battles.tie_family()
    if slot:
        families["slot"] = battles.slot_family()
    times = None if seconds is None else own_times(rows, seconds)
    if times is not None:
        families["drift"] = battles.drift_family(times)
    ways = groupings(rows, sum(family.size for family in families.values()), rng)
    totals, by_parameter = sum_up(battles, families, ways)
    signs = draw_signs(ways, rng)
    tested = {
        name: test_scores(
            family.left_score(totals, inverse), family.projected(by_parameter, inverse), family.left(inverse), signs
        )
        for name, family in families.items()
        if name != "schedule"
    }
    moves = _schedule_test(battles, families["schedule"], totals, by_parameter, inverse, signs)
    pairs, schedule = _pairs_and_schedule(battles, families["pairs"], tested["pairs"], moves, inverse)
    return Misfit(
        pairs=pairs,
        schedule=schedule,
        ties=_tie_law(battles, families["ties"], tested["ties"]) if "ties" in tested else None,
        drift=_drift(families["drift"], tested["drift"]) if "drift" in tested else None,
        slot=_slot_effect(families["slot"], tested["slot"]) if "slot" in tested else None,
    )


def _schedule_test(
    battles: ScoredBattles,
    family: Family,
    totals: Floats,
    by_parameter: list[Floats],
    inverse: Floats,
    signs: list[NDArray[np.float32]],
) -> Tested:
    """The moves of strengths, in one Newton step, when every pair weighs the same; `information` is their variance."""
    fit, m = battles.fit, battles.rows.n_models
    total = fit.curvature()
    weight = np.ones(len(fit.cells))
    weight[: len(battles.even)] = battles.even
    share = float(battles.rows.weight.sum()) / float(battles.met.sum())

    def assembled(factor: Floats) -> Floats:
        bend = Curvature(*(part * factor * share for part in (total.delta, total.cross, total.tie)))
        return assemble(fit.cells, bend, fit.tied_groups)

    towards = invert_centred(assembled(weight), m)
    family.cross[:] = assembled(weight)
    model = np.diag(towards @ assembled(weight * weight) @ towards - inverse)[:m]
    tables = [(table @ towards)[:, :m] for table in family.projected(by_parameter, inverse)]
    return test_scores((towards @ family.left_score(totals, inverse))[:m], tables, np.maximum(model, 0.0), signs)


def _pairs_and_schedule(
    battles: ScoredBattles, family: Family, tested: Tested, moves: Tested, inverse: Floats
) -> tuple[PairResiduals | None, ScheduleMoves | None]:
    """Both checks, with one p-value for the two together: they look at the same residuals."""
    free = tested.information > LEAST_OWN * family.own
    if not free.any():
        return None, None
    kept = battles.checked_pairs[free]
    tested = tested.keep(free)
    z, drawn = tested.z, tested.draws
    seen = [float((z * z).sum()), float(np.abs(z).max())]
    chance = [(drawn * drawn).sum(axis=1), np.abs(drawn).max(axis=1)]
    schedule, apart = _schedule(battles, moves, inverse)
    if schedule is not None:
        seen.append(float(np.abs(schedule.z).max()))
        chance.append(apart)
    return _pair_residuals(battles, tested, kept, smallest_p(seen, chance)), schedule


def _schedule(battles: ScoredBattles, moves: Tested, inverse: Floats) -> tuple[ScheduleMoves | None, Floats]:
    """The moves as a refit has them, and the largest of each draw."""
    movable = moves.information > LEAST_OWN * np.diag(inverse)[: len(moves.score)]
    if not movable.any():
        return None, np.zeros(0)
    fit = battles.fit
    weight = np.ones(len(fit.cells))
    weight[: len(battles.even)] = battles.even
    again = refit(fit.cells.with_counts(fit.cells.counts * weight[:, None]), fit.tie_model, start=fit.parameters)
    z = np.where(movable, moves.z, 0.0)
    apart = np.abs(moves.draws[:, movable]).max(axis=1)
    p = p_value(float(np.abs(z).max()), apart)
    return ScheduleMoves(p, again.parameters.strength - fit.parameters.strength, z), apart


def _pair_residuals(battles: ScoredBattles, tested: Tested, kept: Ints, p: float) -> PairResiduals:
    """The pairs, the largest deviation in standard errors first."""
    cells, fit = battles.counted.cells, battles.fit
    n_pairs = len(battles.met)
    chance = fit.tie_model.chances(battles.gap, fit.parameters.tie[cells.group])
    n = cells.counts.sum(axis=1)
    turned = battles.turn < 0.0
    won = cells.counts[:, FIRST_WON] + 0.5 * cells.counts[:, TIED]
    due = n * (chance[:, FIRST_WON] + 0.5 * chance[:, TIED])
    share = sum_by(battles.pair, np.where(turned, n - won, won), n_pairs) / battles.met
    expected = sum_by(battles.pair, np.where(turned, n - due, due), n_pairs) / battles.met
    order = np.lexsort((kept, -np.round(np.abs(tested.z), 6)))
    at = kept[order]
    off, met = share[at] - expected[at], battles.met[at]
    part = float(battles.rows.weight.sum()) / float(battles.met.sum())
    error = np.sqrt(tested.variance[order] / part) / met
    excess = float((met * (off * off - error * error)).sum() / met.sum())
    return PairResiduals(
        p=p,
        size=float(np.sqrt(max(excess, 0.0))),
        first=battles.low[at],
        second=battles.high[at],
        battles=met,
        share=share[at],
        expected=expected[at],
        error=error,
        z=tested.z[order],
    )


def _tie_law(battles: ScoredBattles, family: Family, tested: Tested) -> TieLaw | None:
    """Ties of close and of far pairs, seen and expected."""
    if tested.information[0] <= LEAST_OWN * family.own[0] or tested.score[0] == 0.0:
        return None
    cells, fit = battles.counted.cells, battles.fit
    has = tie_places(fit)[cells.group] >= 0
    n = np.where(has, cells.counts.sum(axis=1), 0.0)
    tied = np.where(has, cells.counts[:, TIED], 0.0)
    due = n * fit.tie_model.chances(battles.gap, fit.parameters.tie[cells.group])[:, TIED]
    order = np.argsort(np.abs(battles.gap), kind="stable")
    far = np.zeros(len(n), dtype=bool)
    far[order] = np.cumsum(n[order]) > 0.5 * n.sum()

    def share(what: Floats, where: NDArray[np.bool_]) -> float:
        return float(what[where].sum() / max(float(n[where].sum()), 1e-300))

    z = float(tested.z[0])
    p = p_value(abs(z), np.abs(tested.draws[:, 0]))
    return TieLaw(p, z, share(tied, ~far), share(due, ~far), share(tied, far), share(due, far))


def _drift(family: Family, tested: Tested) -> Drift | None:
    """The change of every model; none for those whose battles all have one time."""
    free = tested.information > LEAST_OWN * np.maximum(family.own, 1e-300)
    if not free.any():
        return None
    z = np.where(free, tested.z, 0.0)
    largest = np.abs(tested.draws[:, free]).max(axis=1)
    safe = np.where(free, tested.information, np.inf)
    return Drift(
        p=p_value(float(np.abs(z).max()), largest),
        change=tested.score / safe,
        error=np.where(free, np.sqrt(tested.variance) / safe, np.inf),
        z=z,
        cut=float(np.quantile(largest, 0.95)),
    )


def _slot_effect(family: Family, tested: Tested) -> SlotEffect | None:
    """The advantage of the first side, unless the models' strengths explain who sat there."""
    if tested.information[0] <= LEAST_OWN * family.own[0]:
        return None
    drawn = np.abs(tested.draws[:, 0])
    value, error = float(tested.estimate[0]), float(tested.error[0])
    half = error * max(float(np.quantile(drawn, 0.95)), 1.96)
    return SlotEffect(p_value(abs(float(tested.z[0])), drawn), value, value - half, value + half)
