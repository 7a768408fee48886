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

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.stats.bradley_terry import BradleyTerryFit, assemble, invert_centred
from tiltyard.stats.bradley_terry import fit as refit
from tiltyard.stats.clusters import number_clusters, tie_places
from tiltyard.stats.comparisons import FIRST_WON, OWN_CLUSTER, TIED, Comparisons, Counted, sum_by
from tiltyard.stats.intervals import row_scores
from tiltyard.stats.tie_models import Curvature
from tiltyard.types import AnyInts, Floats, Ints, mixed

MOST_GROUPS = 500
"""More clusters than this are put together at random: groups of independent clusters are independent too."""

MOST_NUMBERS = 1_000_000
"""With many columns there are fewer groups, so that groups times columns stay below this, ..."""
FEWEST_GROUPS = 200
"""... but no fewer than this."""

DRAWS = 999
FEW_DRAWS, ENOUGH = 199, 20
"""Many parameters at once are tested with few draws first, which are enough where so many of them are as large as what
was seen (Besag and Clifford 1991, Biometrika 78:301)."""

PIECES = 64
"""A row that stands for many equal battles is spread over this many groups at most, and all rows over `MOST_ROWS`."""


Singles = NDArray[np.float32]


class Grouping(msgspec.Struct, frozen=True, eq=False):
    """The rows of one kind of clusters in groups that do not depend on each other.

    `at` names rows, which each have a factor in `scale`, where rows that stand for many battles are spread over groups;
    None: all rows as they are.
    """

    group: Ints
    n_groups: int
    at: NDArray[np.intp] | None = None
    scale: Floats | None = None


def groupings(rows: Comparisons, n_columns: int, rng: np.random.Generator) -> list[Grouping]:
    """One grouping for each kind of clusters; single battles where there are none."""
    most = int(np.clip(MOST_NUMBERS // max(n_columns, 1), FEWEST_GROUPS, MOST_GROUPS))
    ways = rows.clusters or (np.full(len(rows), OWN_CLUSTER, dtype=np.int64),)
    return [_grouping(cluster, rows.weight, most, rng) for cluster in ways]


def _grouping(cluster: AnyInts, weight: Floats, most: int, rng: np.random.Generator) -> Grouping:
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
    pieces[own] = np.clip(np.rint(weight[own]), 1, np.clip(MOST_ROWS // int(own.sum()), 1, PIECES)).astype(np.int64)
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


class Tested(msgspec.Struct, frozen=True, eq=False):
    """Scores of added parameters beside what chance makes of them.

    `z` is each score in standard errors. `information` is what the battles say about each parameter beyond the fit's
    own, `variance` that of its score. `tables` have the scores of the groups of each way, scaled, `signs` their signs.
    """

    score: Floats
    variance: Floats
    information: Floats
    tables: list[Singles]
    signs: list[Singles]

    @property
    def z(self) -> Floats:
        return self.score / np.sqrt(self.variance)

    @property
    def estimate(self) -> Floats:
        return self.score / self.information

    @property
    def error(self) -> Floats:
        return np.sqrt(self.variance) / self.information

    def draws(self, count: int = DRAWS) -> Floats:
        """What chance makes of each score in standard errors: (draws, parameters)."""
        ways = zip(self.signs, self.tables, strict=True)
        with np.errstate(invalid="ignore"):  # some builds of BLAS raise this flag now and then for finite numbers
            return np.asarray(sum(sign[:count] @ table for sign, table in ways), dtype=np.float64)

    def keep(self, chosen: NDArray[np.bool_]) -> Tested:
        parts = (self.score[chosen], self.variance[chosen], self.information[chosen])
        return Tested(*parts, [table[:, chosen] for table in self.tables], self.signs)


def draw_signs(ways: list[Grouping], rng: np.random.Generator, draws: int = DRAWS) -> list[Singles]:
    """Random signs for the groups of each kind of clusters: (draws, groups)."""
    signs = []
    for way in ways:
        size = draws * way.n_groups
        bits = np.unpackbits(rng.integers(256, size=size // 8 + 1, dtype=np.uint8))[:size]
        signs.append(2.0 * bits.astype(np.float32).reshape(draws, way.n_groups) - np.float32(1.0))
    return signs


def test_scores(score: Floats, by_group: list[Floats], model: Floats, signs: list[Singles]) -> Tested:
    """Scores beside their draws; what the fit takes up is subtracted from both. `model` is the model's variance."""
    result = [(table * table).sum(axis=0) for table in by_group]
    variance = np.maximum(np.max(result, axis=0), model)
    if len(result) == 2:
        variance = np.maximum(variance, result[0] + result[1] - model)
    spread = np.sqrt(np.maximum(np.sum(result, axis=0), 1e-300))
    tables = [(table / spread).astype(np.float32) for table in by_group]
    return Tested(score, np.maximum(variance, 1e-300), model, tables, signs)


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


class ScoreEntry(NamedTuple):
    """Where each row adds to some parameters: at `place`, its score by log-odds and by tie times these factors."""

    place: Ints
    by_odds: Floats | float = 0.0
    by_tie: Floats | float = 0.0


class Family(NamedTuple):
    """Parameters that are tested together, and the entries of every row in them."""

    size: int
    entries: list[ScoreEntry]


class ScoredBattles:
    """The battles of a fit with the derivatives of their log-likelihood, and what its own parameters take up of them.

    `pull` and `tied` are the slopes of every row by log-odds and by tie, weights included; `bend` is the curvature:
    columns by log-odds, by both, by tie. `pair` numbers the pairs of models by cell: `low` and `high` are the two,
    `met` their battles, `turn` is −1 where a cell has them the other way round.
    """

    def __init__(self, fit: BradleyTerryFit, rows: Comparisons, counted: Counted, inverse: Floats) -> None:
        self.fit, self.rows, self.counted, self.inverse = fit, rows, counted, inverse
        cells, cell, m = counted.cells, counted.cell, counted.cells.n_models
        self.gap = fit.parameters.delta(cells)
        tie_at = tie_places(fit)[cells.group]
        n, total = cells.counts.sum(axis=1), fit.curvature()
        bend = np.column_stack([total.delta, total.cross, total.tie])[: len(cells)] / np.maximum(n, 1e-300)[:, None]
        bend[tie_at < 0, 1:] = 0.0
        self.bend = rows.weight[:, None] * bend[cell]
        scores = fit.tie_model.result_scores(self.gap, fit.parameters.tie[cells.group])
        every = np.arange(len(rows))
        self.pull = rows.weight * row_scores(scores.delta, counted, every)
        self.tied = rows.weight * row_scores(scores.tie, counted, every)
        low, high = np.minimum(cells.first, cells.second), np.maximum(cells.first, cells.second)
        names, self.pair = np.unique(low * m + high, return_inverse=True)
        self.low, self.high = np.divmod(names, m)
        self.met = sum_by(self.pair, n, len(names))
        self.turn = np.where(cells.first < cells.second, 1.0, -1.0)
        self.checked_pairs = np.argsort(-self.met, kind="stable")[:MOST_PAIRS]
        self.even = (float(self.met.mean()) / self.met)[self.pair]
        self.part = float(rows.weight.sum()) / float(self.met.sum())
        q = cells.design.shape[1]
        own = [ScoreEntry(cells.first[cell], 1.0), ScoreEntry(cells.second[cell], -1.0)]
        own += [ScoreEntry(np.full(len(cell), m + k), cells.design[cell, k]) for k in range(q)]
        if len(fit.tied_groups):
            has = tie_at[cell] >= 0
            own.append(ScoreEntry(m + q + np.where(has, tie_at[cell], 0), by_tie=has.astype(np.float64)))
        self.own = Family(fit.n_parameters, own)

    def families(self, times: tuple[Floats, Floats] | None, *, slot: bool) -> dict[str, Family]:
        """What is tested: a parameter for each of the pairs that met most; the fit's own, every pair weighing the same.

        Where there is one, a tie parameter that grows with the square of the gap; the advantage of the first side;
        and with times, for each model a strength that grows from its first battle to its last.
        """
        cells, cell, kept = self.counted.cells, self.counted.cell, self.checked_pairs
        nowhere = np.zeros(len(cell), np.int64)
        place, inside = np.zeros(len(self.met), dtype=np.int64), np.zeros(len(self.met))
        place[kept], inside[kept] = np.arange(len(kept)), 1.0
        turn, even = self.turn * inside[self.pair], self.even[cell]
        families = {
            "pairs": Family(len(kept), [ScoreEntry(place[self.pair[cell]], turn[cell])]),
            "schedule": Family(
                self.own.size, [ScoreEntry(at, even * odds, even * tie) for at, odds, tie in self.own.entries]
            ),
        }
        if len(self.fit.tied_groups):
            families["ties"] = Family(1, [ScoreEntry(nowhere, by_tie=self.gap[cell] ** 2)])
        same = self.rows.first == cells.first[cell]
        if slot:
            families["slot"] = Family(1, [ScoreEntry(nowhere, np.where(same, 1.0, -1.0))])
        if times is not None:
            one, other = np.where(same, times[0], times[1]), np.where(same, times[1], times[0])
            entries = [ScoreEntry(cells.first[cell], one), ScoreEntry(cells.second[cell], -other)]
            families["drift"] = Family(self.rows.n_models, entries)
        return families

    def sums(self, family: Family, way: Grouping | None = None) -> Floats:
        """The scores by each parameter: of all rows (1, size), or of every group (groups, size)."""
        groups = 1 if way is None else way.n_groups
        start = 0 if way is None else way.group * family.size
        total = np.zeros(groups * family.size)
        for place, by_odds, by_tie in family.entries:
            value = self.pull * by_odds + self.tied * by_tie
            if way is not None and way.at is not None and way.scale is not None:
                value, place = (value * way.scale)[way.at], place[way.at]
            total += sum_by(start + place, value, len(total))
        return total.reshape(groups, family.size)

    def information(self, family: Family) -> tuple[Floats, Floats]:
        """Minus the second derivatives by these parameters and the fit's own, (size, parameters); and by each twice."""
        n = self.own.size
        cross, twice = np.zeros(family.size * n), np.zeros(family.size)
        dd, dt, tt = self.bend.T
        for place, by_odds, by_tie in family.entries:
            odds, tie = dd * by_odds + dt * by_tie, dt * by_odds + tt * by_tie
            twice += sum_by(place, odds * by_odds + tie * by_tie, family.size)
            for other in self.own.entries:
                cross += sum_by(place * n + other.place, odds * other.by_odds + tie * other.by_tie, len(cross))
        return cross.reshape(family.size, n), twice

    def left(self, family: Family, cross: Floats, ways: list[Grouping], own: list[Floats]) -> list[Floats]:
        """The scores in all, then by the groups of each way, without what the fit's parameters (`own`) take up."""
        taken = self.inverse @ cross.T
        return [total - fitted @ taken for total, fitted in zip(self.all_sums(family, ways), own, strict=True)]

    def all_sums(self, family: Family, ways: list[Grouping]) -> list[Floats]:
        """The scores by each parameter: of all rows, then of the groups of each way."""
        return [self.sums(family), *(self.sums(family, way) for way in ways)]


def sample(rows: Comparisons, seconds: Floats | None, rng: np.random.Generator) -> NDArray[np.intp]:
    """The rows to check, all of them or whole clusters drawn at random, in an order that only the rows decide."""
    columns = [rows.first, rows.second, rows.result, rows.weight, *rows.clusters]
    columns += [column for column in (rows.share, rows.group, seconds) if column is not None]
    columns += [] if rows.covariates is None else [np.ascontiguousarray(column) for column in rows.covariates.T]

    def ordered(chosen: NDArray[np.intp]) -> NDArray[np.intp]:
        return chosen[np.argsort(mixed((column[chosen] for column in columns), len(chosen)))]

    if len(rows) <= MOST_ROWS:
        return ordered(np.arange(len(rows)))
    share = MOST_ROWS / len(rows)
    alone, result = np.arange(len(rows)), []
    if rows.clusters:
        cluster = rows.clusters[0]
        drawn = rng.random(int(cluster.max(initial=-1)) + 2) < share
        drawn[OWN_CLUSTER] = False
        alone, result = np.flatnonzero(cluster == OWN_CLUSTER), [np.flatnonzero(drawn[cluster])]
    return ordered(np.concatenate([*result, ordered(alone)[rng.random(len(alone)) < share]]))


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


class PairResiduals(msgspec.Struct, frozen=True, eq=False):
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


class ScheduleMoves(msgspec.Struct, frozen=True, eq=False):
    """How far each strength moves when every pair weighs the same, in logits, with the standard error of the move."""

    p: float
    move: Floats
    z: Floats


class TieLaw(msgspec.Struct, frozen=True):
    """Shares of ties, found and expected by the tie model."""

    p: float
    close: float
    """In the half of the battles with the smaller gaps."""
    close_expected: float
    far: float
    """In the other half."""
    far_expected: float


class Drift(msgspec.Struct, frozen=True, eq=False):
    """How much each model gained on its opponents from its first battle to its last, in logits.

    `cut` is how many standard errors a change must have to be remarkable among those of all models.
    """

    p: float
    change: Floats
    error: Floats
    z: Floats
    cut: float


class SlotEffect(msgspec.Struct, frozen=True):
    """The advantage of the first side in logits, with its 95 % interval."""

    p: float
    advantage: float
    low: float
    high: float


class Misfit(msgspec.Struct, frozen=True, eq=False):
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
    chosen = sample(rows, seconds, rng)
    if len(chosen) < len(rows):
        inverse = inverse * (float(rows.weight.sum()) / float(rows.weight[chosen].sum()))
    rows, counted = rows.take(chosen), counted.take(chosen)
    seconds = None if seconds is None else seconds[chosen]
    battles = ScoredBattles(fit, rows, counted, inverse)
    families = battles.families(None if seconds is None else own_times(rows, seconds), slot=slot)
    ways = groupings(rows, sum(family.size for family in families.values()), rng)
    signs = draw_signs(ways, rng)
    fitted = battles.all_sums(battles.own, ways)
    moves = _schedule_test(battles, families.pop("schedule"), ways, fitted, signs)
    tested = {}
    for name, family in families.items():
        cross, own = battles.information(family)
        score, *by_group = battles.left(family, cross, ways, fitted)
        beyond = np.maximum(own - ((cross @ inverse) * cross).sum(axis=1), 0.0)
        tested[name] = own, test_scores(score[0], by_group, beyond, signs)
    pairs, schedule = _pairs_and_schedule(battles, *tested["pairs"], moves)
    return Misfit(
        pairs=pairs,
        schedule=schedule,
        ties=_tie_law(battles, *tested["ties"]) if "ties" in tested else None,
        drift=_drift(*tested["drift"]) if "drift" in tested else None,
        slot=_slot_effect(*tested["slot"]) if "slot" in tested else None,
    )


def _schedule_test(
    battles: ScoredBattles,
    family: Family,
    ways: list[Grouping],
    fitted: list[Floats],
    signs: list[Singles],
) -> Tested:
    """The moves of strengths, in one Newton step, when every pair weighs the same; `information` is their variance."""
    fit, m = battles.fit, battles.rows.n_models
    total, weight = fit.curvature(), _even_weights(battles)

    def assembled(factor: Floats) -> Floats:
        bend = Curvature(*(part * factor * battles.part for part in (total.delta, total.cross, total.tie)))
        return assemble(fit.cells, bend, fit.tied_groups)

    towards = invert_centred(assembled(weight), m)
    model = np.diag(towards @ assembled(weight * weight) @ towards - battles.inverse)[:m]
    score, *by_group = battles.left(family, assembled(weight), ways, fitted)
    return test_scores(
        (towards @ score[0])[:m], [(table @ towards)[:, :m] for table in by_group], np.maximum(model, 0.0), signs
    )


def _even_weights(battles: ScoredBattles) -> Floats:
    """The factor of every cell of the fit that makes all pairs weigh the same; 1 for its prior."""
    weight = np.ones(len(battles.fit.cells))
    weight[: len(battles.even)] = battles.even
    return weight


def _pairs_and_schedule(
    battles: ScoredBattles, own: Floats, tested: Tested, moves: Tested
) -> tuple[PairResiduals | None, ScheduleMoves | None]:
    """Both checks, with one p-value for the two together: they look at the same residuals."""
    free = tested.information > LEAST_OWN * own
    if not free.any():
        return None, None
    tested = tested.keep(free)
    movable = moves.information > LEAST_OWN * np.diag(battles.inverse)[: len(moves.score)]
    moving = moves.keep(movable)
    seen = [float(one[0]) for one in _statistics(tested.z[None], moving.z[None])]
    chance: list[Floats] = []
    for draws in (FEW_DRAWS, DRAWS):
        chance = _statistics(tested.draws(draws), moving.draws(draws))
        if min(map(p_value, seen, chance)) >= (1 + ENOUGH) / (1 + draws):
            break
    schedule = None
    if movable.any():
        fit = battles.fit
        even = fit.cells.with_counts(fit.cells.counts * _even_weights(battles)[:, None])
        move = refit(even, fit.tie_model, start=fit.parameters).parameters.strength - fit.parameters.strength
        schedule = ScheduleMoves(p_value(seen[2], chance[2]), move, np.where(movable, moves.z, 0.0))
    kept = battles.checked_pairs[free]
    return _pair_residuals(battles, tested, kept, smallest_p(seen, chance)), schedule


def _statistics(pairs: Floats, moves: Floats) -> list[Floats]:
    """How much the pairs deviate in all and at most, and how far a strength moves at most, in each line."""
    deviations = [(pairs * pairs).sum(axis=1), np.abs(pairs).max(axis=1)]
    return [*deviations, np.abs(moves).max(axis=1)] if moves.shape[1] else deviations


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
    error = np.sqrt(tested.variance[order] / battles.part) / met
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


def _tie_law(battles: ScoredBattles, own: Floats, tested: Tested) -> TieLaw | None:
    """Ties of close and of far pairs, seen and expected."""
    if tested.information[0] <= LEAST_OWN * own[0] or tested.score[0] == 0.0:
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

    p = p_value(abs(float(tested.z[0])), np.abs(tested.draws()[:, 0]))
    return TieLaw(p, share(tied, ~far), share(due, ~far), share(tied, far), share(due, far))


def _drift(own: Floats, tested: Tested) -> Drift | None:
    """The change of every model; none for those whose battles all have one time."""
    free = tested.information > LEAST_OWN * np.maximum(own, 1e-300)
    if not free.any():
        return None
    z = np.where(free, tested.z, 0.0)
    largest = np.abs(tested.draws()[:, free]).max(axis=1)
    safe = np.where(free, tested.information, np.inf)
    return Drift(
        p=p_value(float(np.abs(z).max()), largest),
        change=tested.score / safe,
        error=np.where(free, np.sqrt(tested.variance) / safe, np.inf),
        z=z,
        cut=_upper(largest),
    )


def _upper(draws: Floats) -> float:
    """Where 95 % of the draws are below; NumPy's own quantile would import its masked arrays, 40 ms."""
    return float(np.interp(0.95 * (len(draws) - 1), np.arange(len(draws)), np.sort(draws)))


def _slot_effect(own: Floats, tested: Tested) -> SlotEffect | None:
    """The advantage of the first side, unless the models' strengths explain who sat there."""
    if tested.information[0] <= LEAST_OWN * own[0]:
        return None
    drawn = np.abs(tested.draws()[:, 0])
    value, error = float(tested.estimate[0]), float(tested.error[0])
    half = error * max(_upper(drawn), 1.96)
    return SlotEffect(p_value(abs(float(tested.z[0])), drawn), value, value - half, value + half)
