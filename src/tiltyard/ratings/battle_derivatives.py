"""What one battle adds to score and curvature, and what its score would be had it not taken part in the fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltyard.ratings.bradley_terry import BradleyTerryFit
from tiltyard.ratings.leave_one_out import LARGEST_LEVERAGE, SMALL_LEVERAGE
from tiltyard.ratings.tie_models import ResultScores
from tiltyard.types import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class BattleDerivatives:
    """What one battle of each cell adds: scores by its result, curvature (cells, 3), and its part of the trace H⁺H.

    `scores_without` are the scores at the fit without that battle; `inverse` is H⁺.
    """

    inverse: Floats
    scores: ResultScores
    scores_without: ResultScores
    bend: Floats
    leverage: Floats

    @classmethod
    def of(cls, fit: BradleyTerryFit, inverse: Floats) -> BattleDerivatives:
        """The derivatives at a fit whose information has this inverse."""
        cells, m, q = fit.cells, fit.cells.n_models, fit.cells.design.shape[1]
        scores, bend = _each_battle(fit)

        def towards(columns: Ints) -> Floats:
            """One column of every battle's row times the inverse; the whole rows would be cells × parameters."""
            found = inverse[cells.first, columns] - inverse[cells.second, columns]
            return found + (cells.design * inverse[m : m + q, columns].T).sum(axis=1) if q else found

        odds = towards(cells.first) - towards(cells.second)
        for k in range(q):
            odds += towards(np.full(len(cells), m + k)) * cells.design[:, k]
        place = tie_places(fit)[cells.group]
        has = place >= 0
        at = np.where(has, m + q + place, 0)
        cross, tie = np.where(has, towards(at), 0.0), np.where(has, inverse[at, at], 0.0)
        bend[~has, 1:] = 0.0
        leverage = bend[:, 0] * odds + 2.0 * bend[:, 1] * cross + bend[:, 2] * tie
        return cls(inverse, scores, _without_itself(scores, bend, odds, cross, tie), bend, leverage)

    @classmethod
    def by_diagonal(cls, fit: BradleyTerryFit, diagonal: Floats, at_least: Floats) -> BattleDerivatives:
        """The same where only the diagonal of H⁺ is known; `inverse` is then that diagonal.

        `at_least` is a lower bound of the variance of every cell's difference.
        """
        cells, m, q = fit.cells, fit.cells.n_models, fit.cells.design.shape[1]
        scores, bend = _each_battle(fit)
        odds = np.maximum(diagonal[cells.first] + diagonal[cells.second], at_least)
        odds += cells.design**2 @ diagonal[m : m + q]
        place = tie_places(fit)[cells.group]
        has = place >= 0
        tie = np.where(has, diagonal[np.where(has, m + q + place, 0)], 0.0)
        bend[~has, 1:] = 0.0
        leverage = bend[:, 0] * odds + bend[:, 2] * tie
        return cls(diagonal, scores, _without_itself(scores, bend, odds, np.zeros_like(odds), tie), bend, leverage)


def _each_battle(fit: BradleyTerryFit) -> tuple[ResultScores, Floats]:
    """The scores of one battle of every cell by its result, and its curvature (cells, 3)."""
    cells, total = fit.cells, fit.curvature()
    scores = fit.tie_model.result_scores(fit.parameters.delta(cells), fit.parameters.tie[cells.group])
    n = np.maximum(cells.counts.sum(axis=1), 1e-300)
    return scores, np.column_stack([total.delta, total.cross, total.tie]) / n[:, None]


def _without_itself(scores: ResultScores, bend: Floats, odds: Floats, cross: Floats, tie: Floats) -> ResultScores:
    """The scores of one battle at the fit without it: (I − B K)⁻¹ s, two by two, as for any other cluster."""
    bend = bend * _held(bend, odds, cross, tie)[:, None]
    a, b, c, d = _products(bend, odds, cross, tie)
    determinant = (1.0 - a) * (1.0 - d) - b * c
    by_odds = ((1.0 - d)[:, None] * scores.delta + b[:, None] * scores.tie) / determinant[:, None]
    by_tie = (c[:, None] * scores.delta + (1.0 - a)[:, None] * scores.tie) / determinant[:, None]
    small = (a + d <= SMALL_LEVERAGE)[:, None]
    share = 1.0 / (1.0 - np.minimum(a + d, SMALL_LEVERAGE))[:, None]
    return ResultScores(np.where(small, share * scores.delta, by_odds), np.where(small, share * scores.tie, by_tie))


def _products(bend: Floats, odds: Floats, cross: Floats, tie: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """The four entries of B K for one battle, by log-odds and by tie."""
    dd, dt, tt = bend.T
    return dd * odds + dt * cross, dd * cross + dt * tie, dt * odds + tt * cross, dt * cross + tt * tie


def _held(bend: Floats, odds: Floats, cross: Floats, tie: Floats) -> Floats:
    """The factor that holds the largest eigenvalue of B K at LARGEST_LEVERAGE."""
    a, b, c, d = _products(bend, odds, cross, tie)
    largest = 0.5 * (a + d + np.sqrt(np.maximum((a - d) ** 2 + 4.0 * b * c, 0.0)))
    return np.asarray(np.minimum(1.0, LARGEST_LEVERAGE / np.maximum(largest, 1e-300)))


def tie_places(fit: BradleyTerryFit) -> Ints:
    """For every tie group its place among the fit's tie parameters, −1 where it has none."""
    place = np.full(fit.cells.n_groups, -1, dtype=np.int64)
    place[fit.tied_groups] = np.arange(len(fit.tied_groups))
    return place
