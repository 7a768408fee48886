"""Placing every model of the llmfao crowd data as if it were new, by a recorded judge, against what people said of it.

For each model in turn: people's votes without that model rate the others (the anchors); the judge is calibrated on
pairs of others; its verdicts on the model's own pairs place it; and the model's rating in a fit of all people's votes,
shifted so that both fits agree on the mean of the others, is what the placement should have hit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tiltyard.data.battles import BattleTable, read_battles
from tiltyard.stats import (
    POINTS_PER_LOGIT,
    Anchors,
    CalibrationVerdicts,
    Comparisons,
    NewModelVerdicts,
    OneModelRows,
    TieModel,
    calibrate,
    count_pairs,
    fit_bounded,
    fit_one,
    place_on_scale,
    sandwich,
)
from tiltyard.stats.tie_models import DAVIDSON

FEWEST_VOTES = 50


@dataclass(frozen=True)
class LeftOut:
    """One model placed without its votes, in logits: people's rating of it, the placement, and half-widths."""

    people: float
    placed: float
    half_width: float
    sampling_half_width: float
    judge_scale: float
    judge_scale_half_width: float
    slope: float
    floor: float


@dataclass(frozen=True)
class LeaveOneOut:
    """All models of one judge together; errors in points."""

    models: int
    mean_error: float
    judge_scale_error: float
    rank_correlation: float
    covered: float
    covered_by_sampling: float
    covered_on_judge_scale: float
    slope: float
    floor: float
    half_width: float

    def __str__(self) -> str:
        return (
            f"{self.models} models: mean error {self.mean_error:.1f} (judge's scale {self.judge_scale_error:.1f}), "
            f"Spearman {self.rank_correlation:.3f}, covered {self.covered:.3f} (sampling error alone "
            f"{self.covered_by_sampling:.3f}, judge's scale {self.covered_on_judge_scale:.3f}), "
            f"slope {self.slope:.2f}, floor {self.floor:.1f}, half-width {self.half_width:.0f}"
        )


def leave_one_out(
    folder: Path, judge: str, *, ties: TieModel = DAVIDSON, by_prompt: bool = False, step: int = 1
) -> LeaveOneOut:
    """Every model with enough votes, or every `step`th, placed by `judge` (gpt4 or gpt3).

    People's ties are read as `ties` says. Verdicts count as independent, for these prompts and answers, or are
    clustered by prompt.
    """
    people = read_battles(folder / "crowd-comparisons.csv", columns=["worker"])
    judged = read_battles(folder / f"{judge}-crowd-comparisons.csv", default_source="llm-judge")
    everybody = _rated(people, ties, None)
    votes = np.bincount(np.concatenate([people.model_a, people.model_b]), minlength=len(people.models))
    found = [
        _place(people, ties, judged, everybody.strength, code, by_prompt=by_prompt)
        for code in np.flatnonzero(votes >= FEWEST_VOTES)[::step]
    ]
    return _summary(found)


def _summary(found: list[LeftOut]) -> LeaveOneOut:
    def column(name: str) -> np.ndarray:
        return np.array([getattr(one, name) for one in found])

    error, raw_error = (np.abs(column(name) - column("people")) for name in ("placed", "judge_scale"))
    order = [np.argsort(np.argsort(column(name))) for name in ("people", "placed")]
    return LeaveOneOut(
        models=len(found),
        mean_error=POINTS_PER_LOGIT * error.mean(),
        judge_scale_error=POINTS_PER_LOGIT * raw_error.mean(),
        rank_correlation=float(np.corrcoef(*order)[0, 1]),
        covered=(error <= column("half_width")).mean(),
        covered_by_sampling=(error <= column("sampling_half_width")).mean(),
        covered_on_judge_scale=(raw_error <= column("judge_scale_half_width")).mean(),
        slope=column("slope").mean(),
        floor=POINTS_PER_LOGIT * column("floor").mean(),
        half_width=POINTS_PER_LOGIT * column("half_width").mean(),
    )


def _rated(people: BattleTable, ties: TieModel, left_out: int | None) -> Anchors:
    """People's ratings of all models but one, with their covariance clustered by voter (the 13 prompts are fixed)."""
    kept = (people.model_a != left_out) & (people.model_b != left_out)
    codes = np.array([code for code in range(len(people.models)) if code != left_out])
    number = np.full(len(people.models), -1)
    number[codes] = np.arange(len(codes))
    rows = Comparisons(
        len(codes),
        number[people.model_a[kept]],
        number[people.model_b[kept]],
        people.outcome[kept],
        people.weight[kept],
        clusters=(people.columns["worker"].codes[kept].astype(np.int64),),
    )
    counted = count_pairs(rows)
    fitted, _ = fit_bounded(counted.cells, ties)
    return Anchors(fitted.parameters.strength, sandwich(fitted, rows, counted).matrix[: len(codes), : len(codes)])


def _place(
    people: BattleTable, ties: TieModel, judged: BattleTable, everybody: np.ndarray, code: int, *, by_prompt: bool
) -> LeftOut:
    anchors = _rated(people, ties, code)
    others = np.delete(np.arange(len(people.models)), code)
    number = np.full(len(people.models), -1)
    number[others] = np.arange(len(others))
    a, b = judged.model_a, judged.model_b
    share = np.array([1.0, 0.0, 0.5])[judged.outcome]
    own = (a == code) | (b == code)
    prompt = judged.columns["question_id"].codes.astype(np.int64) if by_prompt else np.arange(len(a))
    weight = np.ones(len(a))
    calibration = CalibrationVerdicts(
        number[a[~own]], number[b[~own]], share[~own], weight[~own], np.arange(len(a))[~own], prompt[~own]
    )
    scale = calibrate(anchors.strength, calibration)
    is_first = (a == code)[own]
    opponent = number[np.where(is_first, b[own], a[own])]
    own_share = np.where(is_first, share[own], 1.0 - share[own])
    placed = place_on_scale(scale, anchors, NewModelVerdicts(opponent, own_share, is_first, weight[own], prompt[own]))
    result = np.array([1, 2, 0], dtype=np.int8)[np.rint(2 * own_share).astype(int)]
    raw = fit_one(anchors.strength, OneModelRows(opponent, result, weight[own], cluster=prompt[own]), ties)
    low, high = placed.interval(0.95)
    half = placed.strength - low if low is not None else (high or np.inf) - placed.strength
    return LeftOut(
        people=everybody[code] - everybody[others].mean(),
        placed=placed.strength,
        half_width=half,
        sampling_half_width=1.96 * placed.variance.sampling**0.5,
        judge_scale=raw.strength,
        judge_scale_half_width=1.96 * raw.own_variance**0.5,
        slope=scale.slope,
        floor=scale.floor,
    )
