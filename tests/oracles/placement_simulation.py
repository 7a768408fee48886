"""How often a placed model's nominal 95 % interval holds its true strength, in worlds whose truth is known exactly.

Two kinds of world. Where the judge *is* the scale, a newcomer meets anchors of known strength and its battles follow
the fitted model. Where a judge stands in for people, its log-odds are β times the gap people see, plus a liking δ for
or against each model and a bonus for the first slot; the truth is where people would put the newcomer.

Each `simulate_…(runs, seed)` is a pure function: tests and benchmarks print the same figures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.records import replace

from oracles.anchors import exact_anchors
from oracles.simulation import LOG_NU, Coverage, arena_battles, repeat, results, table_of
from tiltyard.data.battles import concat
from tiltyard.judge.placement.folder import JUDGE_SCALE, PEOPLE_SCALE
from tiltyard.judge.placement.rating import HumanBoard, Recipe, judge_scale, rate_new_model, to_points
from tiltyard.judge.placement.robustness import check_families
from tiltyard.judge.placement.rounds import judged_battles
from tiltyard.judge.placement.run import first_sentence
from tiltyard.judge.verdicts import Judgment, Matchup, Verdict, VerdictLabel, settle
from tiltyard.stats import (
    POINTS_PER_LOGIT,
    TIE_MODELS,
    Anchors,
    CalibrationVerdicts,
    Comparisons,
    NewModelVerdicts,
    OneModelRows,
    calibrate,
    count_pairs,
    fit_one,
    place_on_scale,
    rank_of_one,
    sandwich,
)
from tiltyard.stats.bradley_terry import fit
from tiltyard.stats.judge_scale import OneRank
from tiltyard.stats.tie_models import DAVIDSON

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


def level_of(critical: float) -> float:
    """The level at which an interval of independent battles has this many standard errors to either side."""
    return math.erf(critical / math.sqrt(2.0))


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
    critical: float = 1.96,
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
            held &= holds(found.interval(level_of(critical)), truth)
            rank = rank_of_one(found, exact, level=level_of(critical))
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
    runs: int, seed: int, *, position: str = "middle", looks: int = 5, critical: float = 1.96, **world: Any
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
        return float(all(holds(look.interval(level_of(critical)), truth) for look in placed))

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


# The whole way: people's votes, judgments, and the sentence that `tiltyard place` prints first.


def simulate_sentence(
    runs: int, seed: int, *, calibrated: bool = True, bootstraps: int = 0, style_points: float = 0.0, **world: Any
) -> tuple[Coverage, str]:
    """How often the interval in the first sentence holds the rating that people would give; and one such sentence.

    `style_points` is a bias of the judge toward the newcomer that no calibration model shares.
    """
    setting = World(**{"human_battles": 3000, "slope": 1.5, **world})
    strengths = anchor_strengths(setting.models)
    names = [f"m{code:02d}" for code in range(setting.models)]
    recipe = Recipe(
        sensitivity=(50.0,),
        arena="a",
        model="new",
        judge_model="j",
        mode="calibrated" if calibrated else "joint",
        bootstraps=bootstraps,
    )
    sentences: list[str] = []

    def one(rng: np.random.Generator) -> float:
        truth = float(rng.normal(0.0, SPREAD))
        taste = rng.normal(0.0, setting.slope * setting.floor_points / POINTS_PER_LOGIT, setting.models + 1)
        taste[-1] += setting.slope * style_points / POINTS_PER_LOGIT
        a, b = arena_battles(strengths, setting.human_battles, rng)
        votes = table_of(setting.models, a, b, results(strengths[a] - strengths[b], rng), np.arange(len(a)))
        people = HumanBoard.of(votes)
        scale = None
        if calibrated:
            a, b = arena_battles(strengths, setting.calibration, rng)
            log_odds = setting.slope * (strengths[a] - strengths[b]) + taste[a] - taste[b]
            both = ([names[code] for code in a], [names[code] for code in b])
            scale = judge_scale(people, _judgments(*both, log_odds, setting, rng))
        met = rng.integers(setting.models, size=setting.battles)
        log_odds = setting.slope * (truth - strengths[met]) + taste[-1] - taste[met]
        judgments = _judgments(["new"] * len(met), [names[code] for code in met], log_odds, setting, rng)
        rated = rate_new_model(recipe, people, concat([judged_battles(judgments), votes]), judgments, scale)
        sentence = first_sentence(rated.entry, len(rated.board), PEOPLE_SCALE if calibrated else JUDGE_SCALE)
        sentences.append(sentence)
        return float(holds(_interval_in(sentence), to_points(truth)))

    return repeat(runs, seed, one), sentences[-1]


def _interval_in(sentence: str) -> tuple[float | None, float | None]:
    found = re.search(r"\[(-?\d+|no bound), (-?\d+|no bound)\]", sentence)
    assert found is not None, sentence
    low, high = (None if end == "no bound" else float(end) for end in found.groups())
    return low, high


def _judgments(
    first: Sequence[str], second: Sequence[str], log_odds: np.ndarray, setting: World, rng: np.random.Generator
) -> list[Judgment]:
    """Settled judgments of battles with these log-odds of the first model, each on a question of its own."""
    shown_first, share = _verdicts(log_odds, replace(setting, orders=2), rng)
    labels = {1.0: VerdictLabel.A, 0.5: VerdictLabel.TIE, 0.0: VerdictLabel.B}
    judgments = []
    for place, (a, b) in enumerate(zip(first, second, strict=True)):
        verdicts = []
        for row in sorted((2 * place, 2 * place + 1), key=lambda row: not shown_first[row]):
            slot = share[row] if shown_first[row] else 1.0 - share[row]
            verdicts.append(
                Verdict(
                    cache_key="",
                    rubric_version="1",
                    judge_model="j",
                    position_swap=not shown_first[row],
                    verdict=labels[float(slot)],
                    reasoning="",
                    timestamp="",
                )
            )
        matchup = Matchup(prompt_id=f"q{place}", dimension="quality", entrant_a=a, entrant_b=b)
        judgments.append(settle(matchup, verdicts))
    return judgments


def simulate_families(
    runs: int, seed: int, *, family_points: float = 0.0, families: int = 5, **world: Any
) -> tuple[Coverage, float]:
    """The leave-one-family-out coverage that is reported, and the models that it rests on, both by run.

    Models belong to families in turn; with `family_points` the judge likes or dislikes whole families by that much.
    """
    setting = World(**{"human_battles": 3000, "slope": 1.5, "calibration": 600, **world})
    strengths = anchor_strengths(setting.models)
    family = np.arange(setting.models) % families
    names = [f"m{code:02d}" for code in range(setting.models)]
    known = {name: f"maker{code}" for name, code in zip(names, family, strict=True)}
    counted: list[int] = []

    def one(rng: np.random.Generator) -> float:
        anchors = _anchors_as_known(strengths, setting, rng)
        taste = rng.normal(0.0, setting.slope * setting.floor_points / POINTS_PER_LOGIT, setting.models)
        taste += rng.normal(0.0, setting.slope * family_points / POINTS_PER_LOGIT, families)[family]
        found = check_families(anchors, names, _calibration(strengths, taste, setting, rng), known, 0.95)
        counted.append(found.models)
        return found.covered / max(found.models, 1)

    return repeat(runs, seed, one), float(np.mean(counted))
