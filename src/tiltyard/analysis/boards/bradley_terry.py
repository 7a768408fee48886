"""The Bradley–Terry board: battles in, ratings with intervals and ranges of ranks out.

The number and its interval belong together. A rating is a strength minus the mean of some strengths (the models that
have an interval), or minus the anchor's, and its interval is that of the same difference.

Where another engine holds the battles, the sandwich is that of `stats.intervals`, clustered in one way. The score of
each kind of battle is worked out here; the engine adds them up by cluster, multiplies, and sends the square matrix of
sums back. The few clusters of large leverage come back whole, and are solved here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from tiltyard.analysis.boards.estimator import (
    BOOTSTRAP_TABLES,
    DRAWS_MAX,
    FEWER,
    PAIR_BYTES,
    RATING_MAX,
    ROUNDS_COPIES,
    SANDWICH_TABLES,
    EstimatorParameters,
    check_level,
    check_memory,
    check_number,
    check_whole,
)
from tiltyard.analysis.boards.leaderboard import Column, Leaderboard, build_board
from tiltyard.analysis.boards.misfit import MisfitFacts, report_fit
from tiltyard.analysis.boards.preparation import (
    SIDE_FLAGS,
    Clusters,
    FitInput,
    RatedBattles,
    Selection,
    asked_clusters,
    choose_clusters,
    choose_slot,
    choose_tie_model,
    cluster_codes,
    comparisons,
    connected,
    covariates,
    fixed_order,
    kind_of,
    known_models,
    nameless,
    select,
    settle_sides,
    ties_have_no_answer,
    without_ties,
)
from tiltyard.analysis.boards.record import (
    AnchorFacts,
    BoardDetails,
    BoardSettings,
    ClusterColumn,
    Coefficient,
    IntervalFacts,
    ShrinkFacts,
)
from tiltyard.data.battles import (
    BattleData,
    BattleTable,
    GroupScores,
    Source,
    groups,
    merge_equal,
    oddities,
    read_battles,
)
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import Interval, Ties, check_choice, explains
from tiltyard.stats import (
    DRAWS,
    FEWEST_CLUSTERS,
    FIRST_LOOK,
    MANY_MODELS,
    POINTS_PER_LOGIT,
    SMALL_LEVERAGE,
    TIE_MODELS,
    BattleDerivatives,
    BradleyTerryFit,
    ClusteredRows,
    ClusterSizes,
    Covariance,
    DrawnCovariance,
    RankIntervals,
    Reach,
    ResultScores,
    ShrunkFit,
    Uncertainty,
    anytime_cuts,
    bonferroni_cuts,
    bootstrap_strengths,
    clustered_rows,
    combine,
    count_pairs,
    drawn_sandwich,
    fit_bounded,
    half_widths,
    normal_quantile,
    places_of_intervals,
    rank_intervals,
    reach,
    row_scores,
    sandwich,
    summed_way,
    t_quantile,
    tukey_cut,
    wins_and_losses,
)
from tiltyard.types import Floats, Ints

FEW_CLUSTERS = 5.0
"""An interval from fewer effective clusters is marked: how well it covers depends on what they happen to be."""

FLAT_ROUNDS = 1e-6
"""Bootstrap rounds that vary by less than this part of an interval are rounding: they have no shape to stretch."""

LARGE_SHARE = 0.10
"""A cluster that holds more of the battles than this is mentioned."""


class Certainty(msgspec.Struct, frozen=True, eq=False):
    """Strengths, where the scale's zero is among them, the ends of their intervals, and their places.

    An end is infinite where there is no interval. `rounds` are those of a bootstrap, (rounds, models): the quantiles of
    each model's are the ends of its interval. `errors` is what `error_arrays` hands out.
    """

    strength: Floats
    zero: float = 0.0
    interval: tuple[Floats, Floats] | None = None
    places: RankIntervals | None = None
    covariance: Uncertainty | None = None
    rounds: Floats | None = None
    errors: Mapping[str, Floats] = {}


class Solved(msgspec.Struct, frozen=True, eq=False):
    """A fit with what is known of its errors: what a board, or the difference of two models, is made of.

    `state` says which models nothing bounds from above or below (`Reach`), `shrunk` what is known of a prior, `seed`
    what random draws began with.
    """

    fit_input: FitInput
    fit: BradleyTerryFit
    state: NDArray[np.int8]
    covariance: Uncertainty | None
    shrunk: ShrunkFit | None = None
    seed: int = 0

    @property
    def remarks(self) -> list[str]:
        fit_input, selected = self.fit_input, self.fit_input.selected
        clustered, because = fit_input.clustered.sentences(), TIES_BECAUSE.get(fit_input.ties_because)
        unbounded = fit_input.ties_because == "unbounded"
        lines = [*(clustered if fit_input.by_counts else ()), *outside_sentence(selected.outside), *fit_input.sides]
        lines += [because] if because and not unbounded else []
        lines += () if fit_input.by_counts else clustered
        lines += [because] if because and unbounded else []
        if self.shrunk is not None:
            lines.append(_shrunk_sentence(self.shrunk))
        if isinstance(self.covariance, DrawnCovariance):
            lines.append(
                f"more than 2,000 models: standard errors from {DRAWS} random draws (seed {self.seed}), places from "
                "intervals that hold for all models at once"
            )
        return [*lines, *share_remarks(self.covariance, fit_input.clusters), *oddities(selected.table)]


TIES_BECAUSE: dict[str | None, str] = {
    "soft": "soft outcomes: a win counts by how sure it was (score_a), so ratings lie closer together",
    "controls": "ties count as half a win (controls have no tie model)",
    "unbounded": "ties count as half a win: no win contradicts another, so how likely a tie is has no finite answer",
}
"""What is said where ties count as half-wins."""


def outside_sentence(outside: tuple[str, ...]) -> list[str]:
    """Which models were left out because they never met the others."""
    return [f"not rated, never met the others: {', '.join(outside)}"] if outside else []


def _shrunk_sentence(shrunk: ShrunkFit) -> str:
    if shrunk.equal:
        return "shrink: the battles show no difference between the models, so all are rated alike"
    return (
        f"shrink: strengths differ by {POINTS_PER_LOGIT * math.sqrt(shrunk.variance):.0f} points (standard deviation, "
        "estimated); ratings are pulled towards the mean, those with few battles most; intervals are not for a model "
        "picked because it is extreme"
    )


def certainty(
    fitted: BradleyTerryFit,
    fit_input: FitInput,
    covariance: Uncertainty | None,
    *,
    anchor: int | None,
    level: float,
    rounds: int,
    seed: int,
    anytime: bool = False,
) -> Certainty:
    """Intervals and places by the sandwich, or with `rounds` by the bootstrap.

    With `anytime` the ranges of places hold however often one looks; the intervals are those of one look.
    """
    strength = fitted.parameters.strength
    known = np.ones(len(strength), dtype=bool) if covariance is None else covariance.known
    weights = zero_weights(known, anchor)
    zero = 0.0 if weights is None else float(weights @ strength)
    if covariance is None:
        return Certainty(strength, zero)
    half = half_widths(covariance, level, weights)
    drawn, low, high = None, strength - half, strength + half
    if rounds and isinstance(covariance, Covariance):
        drawn = _draw(fitted, fit_input, covariance, weights, rounds=rounds, seed=seed)
        drawn, low, high = _bootstrap_ends(drawn, strength, half, covariance, level, weights, seed)
    battles = fit_input.rows.battles_per_model()
    if isinstance(covariance, Covariance):
        needed = apart_at_any_time(covariance, level, battles) if anytime else apart(covariance, level)
        places = rank_intervals(strength, needed)
    else:
        places = _places_of_many(strength, covariance, level, battles if anytime else None)
    errors = error_arrays(covariance, level, weights, half if drawn is None else None)
    return Certainty(strength, zero, (low, high), places, covariance, drawn, errors)


def _places_of_many(strength: Floats, covariance: Uncertainty, level: float, battles: Floats | None) -> RankIntervals:
    """The places each of many models could hold, by intervals that hold for all models at once (Bonferroni).

    Two models are told apart when theirs do not overlap, however their errors depend on each other. With `battles` the
    intervals hold at every look.
    """
    m, zero = len(strength), zero_weights(covariance.known, None)
    half = half_widths(covariance, 1.0 - (1.0 - level) / m, zero)
    if battles is not None:
        variances = np.maximum(covariance.variances(zero), covariance.fisher_variances(zero))
        degrees = np.where(covariance.known & (battles >= FIRST_LOOK), covariance.degrees, 0.0)
        half = anytime_cuts(variances, level, n_pairs=m, degrees=degrees) * np.sqrt(np.maximum(variances, 1e-300))
    return places_of_intervals(strength - half, strength + half)


def shrunk_fit(fit_input: FitInput, errors: Callable[[BradleyTerryFit], Uncertainty]) -> ShrunkFit:
    """The fit with a normal prior on strengths; `errors` are those of a fit, asked for where battles have clusters."""
    from tiltyard.stats import fit_shrunk

    def dispersion(fitted: BradleyTerryFit) -> float:
        """How many times as large variances are by cluster as the model alone says."""
        both = errors(fitted)
        if isinstance(both, DrawnCovariance):
            own = both.fisher.variances(None)[0]
        else:
            assert isinstance(both, Covariance)
            own = np.diag(both.fisher)
        return float(both.variances().sum() / own[: len(both.degrees)].sum())

    by_cluster = dispersion if fit_input.clusters else None
    return fit_shrunk(fit_input.counted.cells, fit_input.tie_model, by_cluster)


def shrink_notes(fit_input: FitInput) -> list[str | None]:
    """For each model what to say where only the prior bounds it."""
    words = {
        Reach.UNBEATEN: "unbeaten: only the other models' ratings bound it above (shrink)",
        Reach.WINLESS: "winless: only the other models' ratings bound it below (shrink)",
        Reach.APART: "met the rest only through unbounded models: only their ratings bound it (shrink)",
    }
    return [words.get(Reach(state)) for state in reach(fit_input.counted.cells)]


def zero_weights(known: NDArray[np.bool_], anchor: int | None) -> Floats | None:
    """What the scale is measured from: the anchor, or the mean of the models that have an interval; None for all."""
    if anchor is None and (known.all() or not known.any()):
        return None
    weights = np.zeros(len(known))
    weights[known if anchor is None else anchor] = 1.0
    return np.asarray(weights / weights.sum())


def apart(covariance: Covariance, level: float) -> Floats:
    """By how much every two models must differ to be told apart, all pairs at once; infinite where that is unknown."""
    errors = np.sqrt(covariance.differences())
    m = len(covariance.degrees)
    if not covariance.ways:
        return np.asarray(tukey_cut(m, level) * errors)
    degrees = np.where(covariance.known, covariance.degrees, 0.0)
    cuts = bonferroni_cuts(degrees, level)
    return np.where(np.isinf(cuts), np.inf, np.where(np.isinf(cuts), 0.0, cuts) * errors)


def apart_at_any_time(covariance: Covariance, level: float, battles: Floats) -> Floats:
    """The same, all pairs and all times at once: however often one looks while battles come in.

    Models with too few battles for a first look, or too few clusters for an interval, are told apart from nobody. No
    variance is below the model's own: among many looks there is one at which the estimated one happens to be small.
    """
    variances = replace(covariance, few=np.ones_like(covariance.few)).differences()
    m = len(covariance.degrees)
    degrees = np.full(m, np.inf) if not covariance.ways else np.where(covariance.known, covariance.degrees, 0.0)
    degrees[battles < FIRST_LOOK] = 0.0
    pairs = max(0.5 * m * (m - 1), 1.0)
    cuts = anytime_cuts(variances, level, n_pairs=pairs, degrees=np.minimum(degrees[:, None], degrees[None, :]))
    return np.asarray(cuts * np.sqrt(np.maximum(variances, 1e-300)))


def _draw(
    fitted: BradleyTerryFit, fit_input: FitInput, covariance: Covariance, zero: Floats | None, *, rounds: int, seed: int
) -> Floats:
    """Bootstrap rounds over the clusters that ratings depend on most; the scale's zero is the same in all of them."""
    m = fitted.cells.n_models
    spread = [float(np.trace(way.matrix[:m, :m])) for way in covariance.ways]
    way = int(np.argmax(spread)) if spread else 0
    drawn = bootstrap_strengths(fitted, fit_input.rows, fit_input.counted, rounds=rounds, seed=seed, way=way)
    if zero is None:
        return drawn
    return np.asarray(drawn - (drawn @ zero)[:, None] + zero @ fitted.parameters.strength)


def _bootstrap_ends(
    rounds: Floats, strength: Floats, half: Floats, covariance: Covariance, level: float, zero: Floats | None, seed: int
) -> tuple[Floats, Floats, Floats]:
    """The rounds, moved and stretched so that their quantiles are the ends of intervals; and those ends.

    A bootstrap resamples clusters of one kind, and knows nothing of degrees of freedom. With clusters its quantiles are
    stretched from the rating by the ratio of the sandwich's half-width (`half`) to the bootstrap's own; without, a
    model with few battles has no less than Fisher's interval. Where rounds do not vary, the interval is the sandwich's,
    and rounds are drawn from a normal distribution.
    """
    flat = rounds.std(axis=0) <= FLAT_ROUNDS * half + 1e-12  # also an anchor
    rounds = np.where(flat, np.random.default_rng(seed).standard_normal(rounds.shape), rounds)
    tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
    seen_low, seen_high = np.quantile(rounds, tails, axis=0)
    if covariance.ways:
        stretch = np.maximum(half / (normal_quantile(level) * rounds.std(axis=0, ddof=1)), 1.0)
        low, high = strength + (seen_low - strength) * stretch, strength + (seen_high - strength) * stretch
    else:
        guard = normal_quantile(level) * np.sqrt(covariance.fisher_variances(zero))
        low, high = np.minimum(seen_low, strength - guard), np.maximum(seen_high, strength + guard)
    low, high = np.where(flat, strength - half, low), np.where(flat, strength + half, high)
    with np.errstate(invalid="ignore"):  # a model without an interval has no rounds: its ends are infinite
        return low + (rounds - seen_low) * ((high - low) / (seen_high - seen_low)), low, high


def error_arrays(covariance: Uncertainty, level: float, zero: Floats | None, half: Floats | None) -> dict[str, Floats]:
    """What a board hands out of its errors, in rating points; NaN for models without an interval.

    The interval of a rating is `standard_errors` times Student's t of `degrees`, and that of a difference
    `difference_errors` times t of the smaller degrees of the two, which is never surer than the difference itself says.
    No covariance matrix does both: an interval is the widest of several, and a model of few battles may differ from
    another by more than their two intervals together.
    """
    known, degrees = covariance.known, covariance.degrees
    if zero is not None and zero.max() == 1.0:
        anchor = int(np.argmax(zero))
        known, degrees = known & known[anchor], np.minimum(degrees, degrees[anchor])
    arrays = {"degrees": np.where(known, degrees, np.nan)}
    if half is not None:
        arrays["standard_errors"] = POINTS_PER_LOGIT * half / t_quantile(level, arrays["degrees"])
    if isinstance(covariance, Covariance):
        errors = POINTS_PER_LOGIT * np.sqrt(covariance.differences())
        arrays["difference_errors"] = np.where(known[:, None] & known[None, :], errors, np.nan)
    return arrays


def cluster_notes(covariance: Uncertainty | None, columns: tuple[str, ...], unit: str = "battles") -> list[str | None]:
    """For each model what to say where its battles come from too few prompts or voters."""
    if covariance is None or not covariance.ways:
        return [] if covariance is None else [None] * len(covariance.degrees)
    notes: list[str | None] = []
    for i, degrees in enumerate(covariance.degrees):
        worst = int(np.argmin([way.effective[i] for way in covariance.ways]))
        worth, kind = degrees + 1.0, kind_of(columns[worst])
        if worth >= FEWEST_CLUSTERS and not covariance.known[i]:
            notes.append("no interval: no other model has one, so there is nothing to measure it against")
        elif worth < FEWEST_CLUSTERS:
            notes.append(f"no interval: its {unit} come from too few {kind}s (effectively {worth:.1f}; it takes 2.5)")
        elif worth < FEW_CLUSTERS:
            notes.append(f"rough interval: its {unit} come from few {kind}s (effectively {worth:.1f})")
        else:
            notes.append(None)
    return notes


def share_remarks(covariance: Uncertainty | None, columns: tuple[str, ...], unit: str = "battles") -> list[str]:
    """A sentence for each kind of cluster of which one holds a large part of the battles."""
    if covariance is None:
        return []
    return [
        f"one {kind_of(column)} has {100 * way.largest_share:.0f} % of the {unit}, which widens the intervals"
        for column, way in zip(columns, covariance.ways, strict=True)
        if way.largest_share > LARGE_SHARE
    ]


def interval_settings(covariance: Uncertainty | None, columns: tuple[str, ...]) -> dict[str, Any]:
    """What a ratings file says of the clusters, and of the random draws, behind its intervals."""
    draws = {"draws": covariance.fisher.moves.shape[1]} if isinstance(covariance, DrawnCovariance) else {}
    if covariance is None or not covariance.ways:
        return {"cluster": None, **draws}
    known = covariance.degrees[covariance.known]
    clusters = [
        ClusterColumn(column=column, count=way.count, effective=way.effective_count, largest_share=way.largest_share)
        for column, way in zip(columns, covariance.ways, strict=True)
    ]
    return {
        "cluster": ",".join(columns),
        "clusters": clusters,
        "degrees_of_freedom": [float(known.min()), float(known.max())] if len(known) else None,
        "correction": "leave-one-out",
        **draws,
    }


def coefficients(
    names: list[str], fitted: BradleyTerryFit, covariance: Uncertainty | None, level: float
) -> dict[str, Coefficient]:
    """Each coefficient in rating points: what one typical difference (or the first slot) is worth."""
    m = fitted.cells.n_models
    rows = {}
    for k, name in enumerate(names):
        value = POINTS_PER_LOGIT * float(fitted.parameters.coefficient[k])
        rows[name] = Coefficient(value)
        if covariance is not None:
            cut = float(t_quantile(level, np.array(covariance.all_degrees)))
            half = POINTS_PER_LOGIT * cut * math.sqrt(max(covariance.variance(m + k), 0.0))
            rows[name] = Coefficient(value, value - half, value + half)
    return rows


def rating_ends(sure: Certainty, state: NDArray[np.int8], zero: float, anchor: int | None) -> tuple[Column, Column]:
    """The ends of the intervals as ratings; None where nothing bounds a model, or where it has no interval.

    Where nothing bounds the anchor from above, nothing bounds a difference from it from below, and vice versa.
    """
    if sure.interval is None:
        return [None] * len(state), [None] * len(state)
    no_low, no_high = np.isin(state, (Reach.WINLESS, Reach.APART)), np.isin(state, (Reach.UNBEATEN, Reach.APART))
    if anchor is not None:
        no_low, no_high = no_low | no_high[anchor], no_high | no_low[anchor]
        no_low[anchor] = no_high[anchor] = False
    low, high = (
        [None if absent or np.isinf(end) else zero + POINTS_PER_LOGIT * float(end) for end, absent in ends]
        for ends in (zip(sure.interval[0], no_low, strict=True), zip(sure.interval[1], no_high, strict=True))
    )
    return low, high


def remote_sandwich(fitted: BradleyTerryFit, fit_input: FitInput) -> Covariance | None:
    """The covariance clustered elsewhere; None when all battles share one cluster."""
    rows, counted, clusters = fit_input.rows, fit_input.counted, fit_input.selected.table.clusters
    shared, number = clusters.shared(fit_input.selected.table), groups(fit_input.selected.table)
    derivatives = BattleDerivatives.of(fitted, fitted.inverse_information())
    row, parameter, score = _row_scores(fitted, fit_input, derivatives.scores)
    far = shared[row]
    leverage = dict(zip(number.tolist(), derivatives.leverage[counted.cell].tolist(), strict=True))
    sums = clusters.sums(
        GroupScores(number[row[far]], parameter[far], score[far], fitted.n_parameters, leverage, SMALL_LEVERAGE)
    )
    large: Iterable[ClusteredRows] = ()
    if len(sums.large):  # clusters that were handed over whole
        place = np.full(int(number.max()) + 1, -1, dtype=np.int64)
        place[number] = np.arange(len(number))
        chosen = place[sums.large[:, 1].astype(np.int64)]
        part = msgspec.structs.replace(rows.take(chosen), weight=sums.large[:, 2])
        numbers = sums.large[:, 0].astype(np.int64)
        large = clustered_rows(
            fitted, derivatives, part, counted.take(chosen), numbers, np.zeros(len(part), dtype=bool)
        )
    if sums.clusters + len(np.unique(sums.large[:, 0])) == 1.0 and shared.all():
        return None
    sizes = ClusterSizes(sums.clusters, sums.sizes_of[: rows.n_models], sums.sizes, sums.largest)
    way = summed_way(
        fitted, derivatives, rows, counted, ~shared, large, corrected=True, elsewhere=(sums.squares, sizes)
    )
    return combine((way.matrix,), derivatives.inverse, rows.battles_per_model(), (way,))


def _row_scores(fitted: BradleyTerryFit, fit_input: FitInput, scores: ResultScores) -> tuple[Ints, Ints, Floats]:
    """What one battle of each row adds to the score, as triples (row, parameter, score).

    The parameters are the two models, the slot, and the tie group.
    """
    counted, cells, row = fit_input.counted, fitted.cells, np.arange(len(fit_input.rows))
    cell = counted.cell
    delta, tie = row_scores(scores.delta, counted, row), row_scores(scores.tie, counted, row)
    parts = [(row, cells.first[cell], delta), (row, cells.second[cell], -delta)]
    m, q = cells.n_models, cells.design.shape[1]
    parts += [(row, np.full(len(row), m + k), delta * cells.design[cell, k]) for k in range(q)]
    for k, group in enumerate(fitted.tied_groups):
        inside = cells.group[cell] == group
        parts.append((row[inside], np.full(int(inside.sum()), m + q + k), tie[inside]))
    rows, parameters, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows, parameters, values


CENTRE = 1000.0
"""The mean rating where no anchor is given."""

MANY_ROUNDS = 1000
"""Bootstrap rounds by default: with 100 the ends of a 95 % interval are themselves uncertain (covers 0.92–0.93)."""

OPEN_ABOVE = "kept finite by half a win and half a loss; no upper bound"
OPEN_BELOW = "kept finite by half a win and half a loss; no lower bound"
REACH_NOTES = {
    Reach.UNBEATEN: f"unbeaten; {OPEN_ABOVE}",
    Reach.WINLESS: f"winless; {OPEN_BELOW}",
    Reach.APART: "met the rest only through unbounded models; kept finite by half a win and half a loss; no bounds",
}


@explains(selection="Which battles are rated.")
@dataclass(frozen=True, slots=True, kw_only=True)
class BradleyTerry(EstimatorParameters):
    """Bradley–Terry ratings: parameters when built, battles when fitted."""

    ties: Ties = "davidson"
    ci: Interval = "sandwich"
    level: float = 0.95
    rounds: int = MANY_ROUNDS
    seed: int = 0
    cluster: str = "auto"
    anytime: bool = False
    anchor: tuple[str, float] | None = None
    control: tuple[str, ...] = ()
    slot: bool | None = None
    shrink: bool = False
    only_connected: bool = False
    robustness: bool = False
    misfit: bool = True
    evaluated: str | None = None
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        check_choice("ties", self.ties, get_args(Ties))
        check_choice("ci", self.ci, get_args(Interval))
        asked_clusters(self.cluster)
        check_level(self.level)
        check_whole("seed", self.seed, least=0)
        if self.anchor is not None:
            check_number(
                f"the rating of the anchor {self.anchor[0]}", self.anchor[1], least=-RATING_MAX, most=RATING_MAX
            )
        if self.shrink and (self.ci != "sandwich" or self.robustness or self.anytime):
            raise OptionError(
                "shrink goes with ", OptionValue("ci", "sandwich"), " alone: leave out robustness and anytime."
            )
        if self.ci == "bootstrap":
            check_whole("rounds", self.rounds, least=2, most=DRAWS_MAX)

    def fit(self, table: BattleData, *, memory: float | None = None) -> Leaderboard:
        """Rate the battles. A second fit knows nothing of the first.

        `memory` is how many bytes the fit may take (None: what the machine has); a board that needs more is refused.
        """
        return self.board_of(self.solve(table, memory=memory, by_counts=True))

    def solve(self, table: BattleData, *, memory: float | None = None, by_counts: bool = False) -> Solved:
        """The fit behind a board, with its errors: what `board_of` shows, and differences of models are taken from.

        Parameters:
            table: Battles: a table, or whatever `read_battles` takes.
            memory: How many bytes the fit may take; None: what the machine has.
            by_counts: Whether equal rows are counted first, where nothing else of them is looked at.
        """
        table = fixed_order(read_battles(table), self.control)
        independent = self._without_clusters(table) if by_counts else None
        if independent is not None:
            counted = {name: column for name, column in table.columns.items() if name in ("judge_model", *SIDE_FLAGS)}
            table = merge_equal(replace(table, columns=counted))
        selected = select(table, self.selection)
        if self.ties == "drop":
            selected = without_ties(selected)
        if not self.only_connected:
            self._check_memory(len(selected.table.models), memory)
        selected, sides = connected(selected, only_connected=self.only_connected), list[str]()
        if self.slot is None:
            table, sides = settle_sides(selected.table)
            selected = msgspec.structs.replace(selected, table=table)
        self._check_memory(len(selected.table.models), memory)
        fit_input = self._prepare(selected, independent)
        fit_input = msgspec.structs.replace(fit_input, sides=tuple(sides), by_counts=independent is not None)
        shrunk = shrunk_fit(fit_input, partial(self._errors, fit_input)) if self.shrink else None
        if shrunk is None:
            fitted, state = fit_bounded(fit_input.counted.cells, fit_input.tie_model)
        else:
            fitted, state = shrunk.fit, np.full(len(selected.table.models), Reach.HELD, dtype=np.int8)
        fit_input, covariance = self._covariance(fit_input, fitted)
        return Solved(fit_input, fitted, state, covariance, shrunk, self.seed)

    def board_of(self, solved: Solved) -> Leaderboard:
        """The board of a fit: intervals, places, and how well the battles are described."""
        fit_input, fitted, shrunk = solved.fit_input, solved.fit, solved.shrunk
        sure = certainty(
            fitted,
            fit_input,
            solved.covariance,
            anchor=self._anchor_code(fit_input),
            level=self.level,
            rounds=self.rounds if self.ci == "bootstrap" else 0,
            seed=self.seed,
            anytime=self.anytime,
        )
        misfit: MisfitFacts | UnsetType = UNSET
        remarks = solved.remarks
        if self.reads_times:
            misfit, lines = report_fit(fit_input, fitted if shrunk is None else None, seed=self.seed)
            remarks += lines
        board = self._board(fit_input, fitted, solved.state, sure, misfit, remarks)
        if shrunk is None:
            return board
        prior = ShrinkFacts(POINTS_PER_LOGIT * math.sqrt(shrunk.variance), shrunk.dispersion)
        return replace(board, settings=msgspec.structs.replace(board.settings, shrink=prior))

    def _anchor_code(self, fit_input: FitInput) -> int | None:
        if self.anchor is None:
            return None
        table = fit_input.selected.table
        if self.anchor[0] not in table.models:
            raise OptionError(f"the anchor {self.anchor[0]!r} is in none of the rated battles. {known_models(table)}")
        return table.models.index(self.anchor[0])

    def _check_memory(self, models: int, memory: float | None) -> None:
        """Refuse intervals whose tables of pairs would not fit into memory; ratings alone need none.

        Above 2,000 models only the bootstrap and robustness do.
        """
        tables = {"none": 0, "sandwich": SANDWICH_TABLES, "bootstrap": BOOTSTRAP_TABLES}[self.ci]
        if self._draws(models):
            tables = 0
        instead: tuple[str | OptionValue, ...] = ("Use ", OptionValue("ci", "none"), " for the ratings alone, or ")
        if self.robustness:
            tables = max(tables, SANDWICH_TABLES)
            instead = ("Leave out ", OptionValue("robustness", True), " and use ", *instead[1:])
        elif self.ci == "bootstrap" and models > MANY_MODELS:
            instead = ("Use ", OptionValue("ci", "sandwich"), ", which needs little memory, or ")
        rounds = ROUNDS_COPIES * self.rounds if self.ci == "bootstrap" else 0
        needed = float(PAIR_BYTES) * models * (tables * models + rounds)
        check_memory(f"intervals and places of {models:,} models", needed, (*instead, *FEWER), memory)

    @property
    def reads_times(self) -> bool:
        """Whether the fit is checked against its battles, and looks at when they were for that."""
        return self.misfit and self.ci != "none"

    def _without_clusters(self, table: BattleTable) -> Clusters | None:
        """That battles have no clusters, where no other column is looked at either; equal rows can be counted then."""
        if table.clusters is not None or self.control or self.selection.columns():
            return None
        if self.reads_times and "timestamp" in table.columns:
            return None
        clusters = Clusters() if self.ci == "none" else choose_clusters(table, self.cluster)
        return None if clusters.columns else clusters

    def _prepare(self, selected: RatedBattles, clusters: Clusters | None = None) -> FitInput:
        """Comparisons with their clusters (chosen here unless they are known), tie groups and covariates, by pair."""
        table = selected.table
        tie_model, because = choose_tie_model(table, self.ties, controlled=bool(self.control))
        rows = comparisons(table)
        if tie_model.has_parameter and table.source.min() != table.source.max():
            rows = msgspec.structs.replace(rows, group=table.source)
        if clusters is None and self.ci == "none":
            clusters = Clusters()
        elif clusters is None and table.clusters is not None:
            column, shared = table.clusters.column, table.clusters.shared(table)
            without, of = nameless(table, column, named=shared)
            absent = ((column, without, of),) if without > 0.0 else ()
            clusters = Clusters((column,), absent) if shared.any() else Clusters()
        elif clusters is None:
            clusters = choose_clusters(table, self.cluster)
            codes = tuple(cluster_codes(table, column) for column in clusters.columns)
            rows = msgspec.structs.replace(rows, clusters=codes)
        slot = choose_slot(table, self.slot, controlled=bool(self.control), evaluated=self.evaluated)
        if self.control:
            rows = msgspec.structs.replace(rows, covariates=covariates(table, self.control))
        counted = count_pairs(rows, slot=slot)
        if ties_have_no_answer(counted, tie_model):
            tie_model, because = TIE_MODELS["half"], "unbounded"
        return FitInput(selected, rows, counted, tie_model, slot, clusters, because)

    def _covariance(self, fit_input: FitInput, fitted: BradleyTerryFit) -> tuple[FitInput, Uncertainty | None]:
        """The covariance, summed where the battles are; clusters elsewhere may turn out to be one, which is none."""
        if self.ci == "none":
            return fit_input, None
        if fit_input.elsewhere:
            covariance = remote_sandwich(fitted, fit_input)
            if covariance is not None:
                return fit_input, covariance
            alone = msgspec.structs.replace(fit_input.clustered, columns=(), alone=fit_input.clusters)
            fit_input = msgspec.structs.replace(fit_input, clustered=alone)
        return fit_input, self._errors(fit_input, fitted)

    def _errors(self, fit_input: FitInput, fitted: BradleyTerryFit) -> Uncertainty:
        if self._draws(fitted.cells.n_models):
            return drawn_sandwich(fitted, fit_input.rows, fit_input.counted, seed=self.seed)
        return sandwich(fitted, fit_input.rows, fit_input.counted)

    def _draws(self, models: int) -> bool:
        """Whether there are too many models for a covariance of all pairs; a bootstrap needs one."""
        return models > MANY_MODELS and self.ci == "sandwich"

    def _board(
        self,
        fit_input: FitInput,
        fitted: BradleyTerryFit,
        state: NDArray[np.int8],
        sure: Certainty,
        misfit: MisfitFacts | UnsetType,
        remarks: Sequence[str],
    ) -> Leaderboard:
        zero = (CENTRE if self.anchor is None else self.anchor[1]) - POINTS_PER_LOGIT * sure.zero
        extra: dict[str, Column] = {}
        low, high = rating_ends(sure, state, zero, self._anchor_code(fit_input))
        if sure.rounds is not None:
            means = (zero + POINTS_PER_LOGIT * sure.rounds.mean(axis=0)).tolist()
            extra["bootstrap_mean"] = [None if math.isnan(mean) else mean for mean in means]
        if self.control:
            extra["rating_without_control"] = self._without_control(fit_input)
        if self.robustness:
            extra["battles_to_swap_with_next"] = _swaps(fit_input, fitted)
        return build_board(
            fit_input.selected,
            rating=zero + POINTS_PER_LOGIT * sure.strength,
            low=low,
            high=high,
            places=sure.places,
            settings=self._settings(fit_input, sure),
            evaluated=self.evaluated,
            notes=_notes(fit_input, state, sure, shrunk=self.shrink),
            extra=extra,
            remarks=remarks,
            details=self._details(fit_input, fitted, sure, misfit),
            arrays=_arrays(sure, zero),
        )

    def _without_control(self, fit_input: FitInput) -> list[float]:
        """The ratings the same battles give when style is not controlled for."""
        already, ci = Selection(), self.ci if self.shrink else "none"
        plain = replace(self, selection=already, control=(), ci=ci, robustness=False, ties="half", slot=fit_input.slot)
        board = plain.fit(fit_input.selected.table)
        return [board[name].rating for name in fit_input.selected.table.models]

    def _settings(self, fit_input: FitInput, sure: Certainty) -> BoardSettings:
        interval = IntervalFacts(kind=self.ci)
        if self.ci != "none":
            clusters = interval_settings(sure.covariance, fit_input.clusters)
            interval = IntervalFacts(kind=self.ci, level=self.level, anytime=self.anytime, **clusters)
        return BoardSettings(
            **self.selection.settings("bt"),
            tie_model="drop" if self.ties == "drop" else fit_input.tie_model.name,
            scale=POINTS_PER_LOGIT,
            anchor=None if self.anchor is None else AnchorFacts(*self.anchor),
            interval=interval,
            n_bootstraps=self.rounds if self.ci == "bootstrap" else 0,
            seed=self.seed,
        )

    def _details(
        self, fit_input: FitInput, fitted: BradleyTerryFit, sure: Certainty, misfit: MisfitFacts | UnsetType
    ) -> BoardDetails:
        details: dict[str, Any] = {"log_likelihood": fitted.log_likelihood, "misfit": misfit}
        if len(fitted.tied_groups):
            labels = (
                [Source.of_code(int(code)).value for code in fitted.tied_groups]
                if fitted.cells.n_groups > 1
                else ["all"]
            )
            values = fitted.parameters.tie[fitted.tied_groups]
            details["tie_parameters"] = {
                label: float(np.exp(value)) for label, value in zip(labels, values, strict=True)
            }
        names = (["first slot"] if fit_input.slot else []) + list(self.control)
        if names:
            details["coefficients"] = coefficients(names, fitted, sure.covariance, self.level)
        if sure.covariance is not None:
            counts = [way.count for way in sure.covariance.ways]
            details["n_clusters"] = min(counts, default=float(fit_input.rows.weight.sum()))
        return BoardDetails(**details)


def _notes(fit_input: FitInput, state: NDArray[np.int8], sure: Certainty, *, shrunk: bool) -> list[str | None]:
    records = zip(state, *wins_and_losses(fit_input.counted.cells), strict=True)
    notes = shrink_notes(fit_input) if shrunk else [_reach_note(Reach(one), won, lost) for one, won, lost in records]
    rough = cluster_notes(sure.covariance, fit_input.clusters) or [None] * len(notes)
    return ["; ".join(filter(None, both)) or None for both in zip(notes, rough, strict=True)]


def _reach_note(reach: Reach, won: float, lost: float) -> str | None:
    """Why a rating is open, in words that are true of the model itself: a group may be unbeaten, its members not."""
    if reach == Reach.UNBEATEN and (lost or not won):
        return f"{'lost only to' if lost else 'tied only with'} models without an upper bound; {OPEN_ABOVE}"
    if reach == Reach.WINLESS and (won or not lost):
        return f"{'won only against' if won else 'tied only with'} models without a lower bound; {OPEN_BELOW}"
    return REACH_NOTES.get(reach)


def _swaps(fit_input: FitInput, fitted: BradleyTerryFit) -> list[int | None]:
    """For each model the number of battles to remove until the next one on the board is level; None for the last."""
    from tiltyard.stats import battles_to_swap, prepare

    robustness = prepare(fitted, fit_input.rows, fit_input.counted)
    order = np.argsort(-fitted.parameters.strength, kind="stable")
    swaps: list[int | None] = [None] * len(order)
    for above, below in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        swaps[above] = battles_to_swap(robustness, above, below)
    return swaps


def _arrays(sure: Certainty, zero: float) -> dict[str, NDArray[np.generic]]:
    arrays: dict[str, NDArray[np.generic]] = dict(sure.errors)
    if sure.rounds is not None:
        arrays["bootstrap_ratings"] = zero + POINTS_PER_LOGIT * sure.rounds
    if sure.places is not None and sure.places.below is not None:
        arrays["below"] = sure.places.below
    return arrays
