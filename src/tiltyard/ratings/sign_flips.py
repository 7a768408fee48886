"""Tests of added parameters that hold where battles depend on each other: scores by cluster, with random signs.

A model that fits leaves nothing for a further parameter to explain: its score, the slope of the log-likelihood by that
parameter at the fit, is zero but for chance. How large chance makes it is found by drawing: scores of whole clusters
(prompts, voters) keep their sizes and get random signs (a wild bootstrap of scores: Kline and Santos 2012, Journal of
Econometric Methods 1:23; Hemerik, Goeman and Finos 2020, JRSS B 82:841). Before that, what the fit's own parameters
take up of each cluster's score is subtracted, so that a taste that moves strengths is no misfit.

The variance of a score is the largest of: what the model says, what each kind of cluster says, and for two kinds
(prompts and voters) their sum less what the model says, as in the two-way sandwich of `intervals`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tiltyard.ratings.clusters import number_clusters
from tiltyard.ratings.comparisons import OWN_CLUSTER, Comparisons, sum_by
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
    found = [(table * table).sum(axis=0) for table in by_group]
    variance = np.maximum(np.max(found, axis=0), model)
    if len(found) == 2:
        variance = np.maximum(variance, found[0] + found[1] - model)
    spread = np.sqrt(np.maximum(np.sum(found, axis=0), 1e-300))
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
