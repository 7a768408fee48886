"""How often a placed model's nominal 95 % interval holds its true strength, in worlds whose truth is known exactly.

Two kinds of world. Where the judge *is* the scale, a newcomer meets anchors of known strength and its battles follow
the fitted model. Where a judge stands in for people, its log-odds are β times the gap people see, plus a liking δ for
or against each model and a bonus for the first slot; the truth is where people would put the newcomer.

Each `simulate_…(runs, seed)` is a pure function: tests and benchmarks print the same figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oracles.anchors import exact_anchors
from oracles.simulation import LOG_NU, Coverage, arena_battles, repeat, results
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.bradley_terry import fit
from tiltyard.ratings.comparisons import Comparisons, count_pairs
from tiltyard.ratings.intervals import sandwich
from tiltyard.ratings.judge_regression import CalibrationVerdicts
from tiltyard.ratings.judge_scale import NewModelVerdicts, calibrate, place_on_scale
from tiltyard.ratings.one_model import Anchors, OneModelRows, OneRank, fit_one, rank_of_one
from tiltyard.ratings.tie_models import DAVIDSON, TIE_MODELS

SPREAD = 150.0 / POINTS_PER_LOGIT
"""Anchors stand as far apart as normal quantiles with a standard deviation of 150 points."""


def anchor_strengths(models: int) -> np.ndarray:
    """Strengths as evenly spread as normal quantiles, centred on 0."""
    from scipy.special import ndtri

    return SPREAD * ndtri((np.arange(models) + 0.5) / models)


def true_strength(position: str, anchors: np.ndarray) -> float:
    """The newcomer's own strength: level with the best anchor, the mean one, or the worst."""
    return {"top": float(anchors.max()), "middle": 0.0, "bottom": float(anchors.min())}[position]


def holds(ends: tuple[float | None, float | None], truth: float) -> bool:
    """Whether an interval holds the truth; an open side holds everything."""
    low, high = ends
    return (low is None or low <= truth) and (high is None or truth <= high)


# The judge is the scale: anchors are known, battles follow the model.


def simulate_known_anchors(
    runs: int,
    seed: int,
    *,
    models: int = 20,
    battles: int = 100,
    position: str = "middle",
    ties: str = "davidson",
    drawn_by: str = "davidson",
    parameter: float = LOG_NU,
    prompt_spread: float = 0.0,
    looks: int = 1,
    critical: float | None = None,
) -> tuple[Coverage, Coverage]:
    """Intervals of the strength, and rank intervals, where anchors are exact.

    With `prompt_spread` the newcomer is better on some prompts than on others and meets four anchors on each; its
    truth is then what very many prompts give. With several `looks` an interval must hold at each of them.
    """
    anchors = anchor_strengths(models)
    exact = exact_anchors(anchors)
    strength = true_strength(position, anchors)
    truth = _strength_over_prompts(anchors, strength, prompt_spread) if prompt_spread else strength
    rank_truth = (1 + (anchors > truth).sum(), 1 + (anchors >= truth).sum())
    ranked: list[float] = []

    def one(rng: np.random.Generator) -> float:
        rows = _newcomer_rows(anchors, strength, battles, prompt_spread, rng, drawn_by, parameter)
        held, rank_held = True, True
        for look in range(1, looks + 1):
            seen = _first_rows(rows, battles * look // looks)
            found = fit_one(anchors, seen, TIE_MODELS[ties])
            held &= holds(found.interval(0.95, critical=critical), truth)
            rank = rank_of_one(found, exact, level=0.95, critical=critical)
            rank_held &= bool(rank.low <= rank_truth[0] and rank_truth[1] <= rank.high)
        ranked.append(float(rank_held))
        return float(held)

    return repeat(runs, seed, one), Coverage.of(ranked)


def _newcomer_rows(
    anchors: np.ndarray,
    strength: float,
    battles: int,
    prompt_spread: float,
    rng: np.random.Generator,
    drawn_by: str = "davidson",
    parameter: float = LOG_NU,
) -> OneModelRows:
    opponent = rng.integers(len(anchors), size=battles)
    prompt = np.arange(battles) // 4
    gap = strength - anchors[opponent] + prompt_spread * rng.normal(size=prompt[-1] + 1)[prompt]
    result = results(gap, rng, drawn_by, parameter).astype(np.int8)
    return OneModelRows(opponent, result, np.ones(battles), cluster=prompt if prompt_spread else None)


def _first_rows(rows: OneModelRows, n: int) -> OneModelRows:
    cluster = None if rows.cluster is None else rows.cluster[:n]
    return replace(rows, opponent=rows.opponent[:n], result=rows.result[:n], weight=rows.weight[:n], cluster=cluster)


def _strength_over_prompts(anchors: np.ndarray, strength: float, prompt_spread: float) -> float:
    """What a fit tends to when the strength varies from prompt to prompt: read off 400,000 battles."""
    rows = _newcomer_rows(anchors, strength, 400_000, prompt_spread, np.random.default_rng(0))
    return fit_one(anchors, rows, DAVIDSON).strength


# A judge stands in for people.


@dataclass(frozen=True)
class World:
    """A judge among models: its slope β, its floor τ/β in points, its first-slot bonus γ in logits.

    `orders`: whether it hears one order of a battle or both; `battle_spread`: how far the answers of one battle depart
    from their models' strengths, in the judge's logits (what makes its two verdicts alike). `human_battles`: how many
    battles of people the anchors' strengths are estimated from; None: they are known.
    """

    models: int = 20
    calibration: int = 300
    battles: int = 100
    slope: float = 1.0
    floor_points: float = 40.0
    slot: float = 0.3
    orders: int = 2
    battle_spread: float = 0.0
    human_battles: int | None = None
    tie_margin: float = 0.0
    ranked: bool = False


@dataclass(frozen=True)
class Found:
    """Coverage of the full interval, of sampling error alone and of the rank interval; mean figures in points."""

    calibrated: Coverage
    sampling_only: Coverage
    ranks: Coverage
    bias: float
    width: float
    floor: float
    slope: float

    def __str__(self) -> str:
        return (
            f"{self.calibrated}, sampling only {self.sampling_only.share:.3f}, ranks {self.ranks.share:.3f}, "
            f"bias {self.bias:+.0f}, half-width {self.width:.0f}, floor {self.floor:.0f}, slope {self.slope:.2f}"
        )


def simulate_judge(runs: int, seed: int, *, position: str = "middle", **world: Any) -> Found:
    """One calibration and one placement per run, all drawn anew but the anchors' and the newcomer's strengths."""
    setting = World(**world)
    strengths = anchor_strengths(setting.models)
    truth = true_strength(position, strengths)
    best, worst = 1 + (strengths > truth).sum(), 1 + (strengths >= truth).sum()
    notes: list[tuple[float, ...]] = []

    def one(rng: np.random.Generator) -> float:
        anchors = _anchors_as_known(strengths, setting, rng)
        taste = rng.normal(0.0, setting.slope * setting.floor_points / POINTS_PER_LOGIT, setting.models + 1)
        scale = calibrate(anchors.strength, _calibration(strengths, taste, setting, rng))
        verdicts = _new_model(strengths, truth, taste, setting, rng)
        placed = place_on_scale(scale, anchors, verdicts)
        alone = 1.96 * placed.variance.sampling**0.5
        rank = rank_of_one(placed, anchors, level=0.95) if setting.ranked else OneRank(best, best, worst)
        low, high = placed.interval(0.95)
        half = (high - placed.strength) if high is not None else (placed.strength - (low or 0.0))
        error = placed.strength - truth
        notes.append(
            (abs(error) <= alone, rank.low <= best and worst <= rank.high, error, half, scale.floor, scale.slope)
        )
        return float(holds((low, high), truth))

    calibrated = repeat(runs, seed, one)
    table = np.array(notes, dtype=float)
    return Found(
        calibrated,
        Coverage.of(table[:, 0].tolist()),
        Coverage.of(table[:, 1].tolist()),
        *(POINTS_PER_LOGIT * table[:, 2:5].mean(axis=0)),
        table[:, 5].mean(),
    )


def simulate_judge_looks(
    runs: int, seed: int, *, position: str = "middle", looks: int = 5, critical: float | None = None, **world: Any
) -> Coverage:
    """How often the calibrated interval holds at every one of several looks at a growing number of battles."""
    setting = World(**world)
    strengths = anchor_strengths(setting.models)
    truth = true_strength(position, strengths)

    def one(rng: np.random.Generator) -> float:
        anchors = _anchors_as_known(strengths, setting, rng)
        taste = rng.normal(0.0, setting.slope * setting.floor_points / POINTS_PER_LOGIT, setting.models + 1)
        scale = calibrate(anchors.strength, _calibration(strengths, taste, setting, rng))
        new = _new_model(strengths, truth, taste, setting, rng)
        columns = (new.opponent, new.share, new.shown_first, new.weight, new.cluster)
        ends = [setting.orders * (setting.battles * look // looks) for look in range(1, looks + 1)]
        placed = [place_on_scale(scale, anchors, NewModelVerdicts(*(part[:end] for part in columns))) for end in ends]
        return float(all(holds(look.interval(0.95, critical=critical), truth) for look in placed))

    return repeat(runs, seed, one)


def _anchors_as_known(strengths: np.ndarray, setting: World, rng: np.random.Generator) -> Anchors:
    if setting.human_battles is None:
        return exact_anchors(strengths)
    a, b = arena_battles(strengths, setting.human_battles, rng)
    result = results(strengths[a] - strengths[b], rng).astype(np.int8)
    rows = Comparisons(setting.models, a, b, result, np.ones(len(a)))
    counted = count_pairs(rows)
    fitted = fit(counted.cells, DAVIDSON)
    covariance = sandwich(fitted, rows, counted).matrix[: setting.models, : setting.models]
    return Anchors(fitted.parameters.strength, covariance)


def _verdicts(log_odds: np.ndarray, setting: World, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """For battles with these log-odds of the first model, per verdict: was it shown first, and its share."""
    n = len(log_odds)
    shown_first = np.stack([rng.random(n) < 0.5] * setting.orders, axis=1)
    if setting.orders == 2:
        shown_first[:, 1] = ~shown_first[:, 0]
    battle = log_odds + setting.battle_spread * rng.logistic(size=n)
    latent = battle[:, None] + np.where(shown_first, setting.slot, -setting.slot) + rng.logistic(size=shown_first.shape)
    share = np.where(np.abs(latent) < setting.tie_margin, 0.5, (latent > 0).astype(float))
    return shown_first.ravel(), share.ravel()


def _calibration(
    strengths: np.ndarray, taste: np.ndarray, setting: World, rng: np.random.Generator
) -> CalibrationVerdicts:
    a, b = arena_battles(strengths, setting.calibration, rng)
    log_odds = setting.slope * (strengths[a] - strengths[b]) + taste[a] - taste[b]
    a_first, share = _verdicts(log_odds, setting, rng)
    a, b, battle = (np.repeat(codes, setting.orders) for codes in (a, b, np.arange(setting.calibration)))
    return CalibrationVerdicts(
        shown_first=np.where(a_first, a, b),
        shown_second=np.where(a_first, b, a),
        share=np.where(a_first, share, 1.0 - share),
        weight=np.full(len(share), 1.0 / setting.orders),
        battle=battle,
    )


def _new_model(
    strengths: np.ndarray, truth: float, taste: np.ndarray, setting: World, rng: np.random.Generator
) -> NewModelVerdicts:
    opponent = rng.integers(setting.models, size=setting.battles)
    log_odds = setting.slope * (truth - strengths[opponent]) + taste[-1] - taste[opponent]
    shown_first, share = _verdicts(log_odds, setting, rng)
    battle = np.repeat(np.arange(setting.battles), setting.orders)
    weight = np.full(len(share), 1.0 / setting.orders)
    return NewModelVerdicts(np.repeat(opponent, setting.orders), share, shown_first, weight, battle)
