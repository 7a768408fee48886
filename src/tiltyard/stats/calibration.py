"""Whether ratings predict votes: what was expected before each vote against what came of it, bin by bin."""

from __future__ import annotations

import math
from itertools import pairwise

import msgspec
import numpy as np

from tiltyard.stats.glicko2 import SCALE, Glicko2History, Glicko2Settings, rate_battles_history
from tiltyard.stats.proportions import wilson
from tiltyard.stats.quantiles import normal_quantile
from tiltyard.types import Bools, Floats, Ints

BINS = 10

CONFIDENCE_EDGES = (0, 25, 50, 75, 90, 100)
"""Stated confidences are looked at between these percentages."""


class CalibrationBin(msgspec.Struct, frozen=True):
    """Votes whose prediction fell into a bin: their mean prediction, mean score, and the interval of that score."""

    low: float
    high: float
    votes: int
    predicted: float
    observed: float
    observed_low: float
    observed_high: float


class CalibrationCurve(msgspec.Struct, frozen=True):
    """Bins with votes in them, and over all votes the Brier score and the one of always saying ½."""

    bins: tuple[CalibrationBin, ...]
    votes: int
    brier: float | None
    brier_of_half: float | None


def predictions(
    model_a: Ints,
    model_b: Ints,
    score_a: Floats,
    n_models: int,
    settings: Glicko2Settings,
    weight: Floats | None = None,
    history: Glicko2History | None = None,
) -> Floats:
    """The score expected of side A before each rated vote, by replaying Glicko-2 from the start.

    Both models' deviations count: E = 1/(1 + exp(−g(√(RD_a² + RD_b²))·(r_a − r_b)/173.7)). Pass the `history` of these
    votes where they were replayed already.
    """
    if history is None:
        history = rate_battles_history(model_a, model_b, score_a, start=n_models, settings=settings, weight=weight)
    rating = _before(model_a, model_b, history.rating, settings.rating)
    deviation = _before(model_a, model_b, history.deviation, settings.deviation)
    phi2 = (deviation**2).sum(axis=1) / SCALE**2
    g = 1.0 / np.sqrt(1.0 + 3.0 * phi2 / math.pi**2)
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * g * (rating[:, 0] - rating[:, 1]) / SCALE))


def _before(model_a: Ints, model_b: Ints, after: Floats, start: float) -> Floats:
    """Each side's value before a vote: the one after the model's previous vote, or the start."""
    model = np.column_stack([model_a, model_b]).ravel()
    order = np.argsort(model, kind="stable")
    shifted = np.roll(after.ravel()[order], 1)
    firsts = np.unique(model[order], return_index=True)[1]
    shifted[firsts] = start
    before = np.empty_like(shifted)
    before[order] = shifted
    return before.reshape(-1, 2)


def calibration(predicted: Floats, score: Floats) -> CalibrationCurve:
    """Predicted against observed mean scores by equal bins of the prediction, empty bins left out.

    Pass both from the same side; to look at one model, from its side.

    Parameters:
        predicted: What was expected before each vote.
        score: What came of it: 1, 0 or ½.
    """
    if not len(predicted):
        return CalibrationCurve((), 0, None, None)
    code = np.minimum((predicted * BINS).astype(np.int64), BINS - 1)
    quantile = normal_quantile(0.95)
    rows = []
    for number in np.unique(code).tolist():
        inside = code == number
        n, observed = int(inside.sum()), float(score[inside].mean())
        # Ties make scores less variable than wins and losses: as if all were decisive is on the safe side.
        low, high = wilson(observed * n, n, quantile)
        rows.append(
            CalibrationBin(number / BINS, (number + 1) / BINS, n, float(predicted[inside].mean()), observed, low, high)
        )
    brier = float(((predicted - score) ** 2).mean())
    return CalibrationCurve(tuple(rows), len(predicted), brier, float(((0.5 - score) ** 2).mean()))


class ConfidenceBin(msgspec.Struct, frozen=True):
    """Ratings whose stated confidence lay between two percentages: how many, their mean statement, how many held."""

    low: int
    high: int
    ratings: int
    stated: float
    held: int


def confidence_bins(stated: Floats, held: Bools) -> tuple[ConfidenceBin, ...]:
    """Stated confidence against how often it held, bin by bin; empty bins are left out."""
    last = CONFIDENCE_EDGES[-1]
    bins = []
    for low, high in pairwise(CONFIDENCE_EDGES):
        inside = (stated >= low) & ((stated < high) | (high == last))
        if inside.any():
            mean = float(stated[inside].mean())
            bins.append(ConfidenceBin(low, high, int(inside.sum()), mean, int(held[inside].sum())))
    return tuple(bins)
