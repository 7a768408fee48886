"""How sure a Bradley–Terry board is: intervals around its ratings, ranges of places, and what was counted as dependent.

The number and its interval belong together. A rating is a strength minus the mean of some strengths (the models that
have an interval), or minus the anchor's, and its interval is that of the same difference.

Where another engine holds the battles, the sandwich is that of `ratings.intervals`, clustered in one way. The score of
each kind of battle is worked out here; the engine adds them up by cluster, multiplies, and sends the square matrix of
sums back. The few clusters of large leverage come back whole, and are solved here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.spark import GroupScores, RemoteClusters, groups
from tiltyard.boards.building import Column
from tiltyard.boards.preparation import FitInput, kind_of
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.bootstrap import bootstrap_strengths
from tiltyard.ratings.bradley_terry import BradleyTerryFit
from tiltyard.ratings.clusters import SMALL_LEVERAGE, BattleDerivatives, ClusteredRows, ClusterSizes
from tiltyard.ratings.graph import Reach, reach
from tiltyard.ratings.intervals import (
    FEWEST_CLUSTERS,
    Covariance,
    DrawnCovariance,
    Uncertainty,
    clustered_rows,
    combine,
    half_widths,
    row_scores,
    summed_way,
)
from tiltyard.ratings.quantiles import normal_quantile, t_quantile
from tiltyard.ratings.ranks import (
    FIRST_LOOK,
    RankIntervals,
    anytime_cuts,
    bonferroni_cuts,
    places_of_intervals,
    rank_intervals,
    tukey_cut,
)
from tiltyard.ratings.shrinkage import ShrunkFit
from tiltyard.ratings.tie_models import ResultScores
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

    `state` says which models nothing bounds from above or below (`Reach`), `shrunk` what is known of a prior.
    """

    fit_input: FitInput
    fit: BradleyTerryFit
    state: NDArray[np.int8]
    covariance: Uncertainty | None
    shrunk: ShrunkFit | None = None


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
    from tiltyard.ratings.shrinkage import fit_shrunk

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
    shrunk = fit_shrunk(fit_input.counted.cells, fit_input.tie_model, by_cluster)
    if shrunk.equal:
        fit_input.remarks.append("shrink: the battles show no difference between the models, so all are rated alike")
    else:
        fit_input.remarks.append(
            f"shrink: strengths differ by {POINTS_PER_LOGIT * math.sqrt(shrunk.variance):.0f} points (standard "
            "deviation, estimated); ratings are pulled towards the mean, those with few battles most; intervals are "
            "not for a model picked because it is extreme"
        )
    return shrunk


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
        {"column": column, "count": way.count, "effective": way.effective_count, "largest_share": way.largest_share}
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
) -> dict[str, dict[str, float | None]]:
    """Each coefficient in rating points: what one typical difference (or the first slot) is worth."""
    m = fitted.cells.n_models
    rows: dict[str, dict[str, float | None]] = {}
    for k, name in enumerate(names):
        value = POINTS_PER_LOGIT * float(fitted.parameters.coefficient[k])
        rows[name] = {"points": value, "ci_low": None, "ci_high": None}
        if covariance is not None:
            cut = float(t_quantile(level, np.array(covariance.all_degrees)))
            half = POINTS_PER_LOGIT * cut * math.sqrt(max(covariance.variance(m + k), 0.0))
            rows[name] = {"points": value, "ci_low": value - half, "ci_high": value + half}
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


def remote_sandwich(fitted: BradleyTerryFit, fit_input: FitInput, clusters: RemoteClusters) -> Covariance | None:
    """The covariance clustered elsewhere; None when all battles share one cluster."""
    rows, counted = fit_input.rows, fit_input.counted
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
