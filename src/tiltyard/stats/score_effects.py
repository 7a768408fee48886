"""Effects of models on scores where answers are missing: model and prompt are fitted together, by least squares.

A score is the sum of an effect of its model, one of its prompt, and what is left. A model that was asked only easy
prompts then has their effects taken off. With the effects b of prompts swept out, those of models solve L a = t:

    L = Σ_p (I − 11ᵀ/n_p),  t = Σ_p (y_p − mean y_p),  over the n_p models that have a score on prompt p.

Where every model has a score on every prompt, a_i − a_j is the difference of the means. The standard error leaves each
prompt, or each cluster of prompts, out in turn, in one step; two prompts are added as in `score_differences`. Without
missing answers, and with clusters of equal size, value, error and degrees are those of `score_difference`.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.stats.score_differences import DIGITS, ScoreEstimate, mean_score
from tiltyard.types import Floats, Ints

LEAST_WEIGHT = 1e-12
"""A cluster with less of the information on a difference has none of it."""

SINGULAR = 1e-10
"""An eigenvalue of L is 0 if it is smaller than this part of the largest: rounding leaves 1e-15, and one prompt in a
million that joins two groups of models 1e-6."""


class ScoreEffects(msgspec.Struct, frozen=True, eq=False):
    """The effects of models and of prompts.

    Parameters:
        models: The effect of each model; the mean over models that are joined is 0.
        prompts: The effect of each prompt.
        scored: Which model has a score on which prompt, as (models, prompts).
        inverse: The pseudoinverse of L.
        pulls: By how much each prompt pulls each model's effect, to first order, as (models, prompts).
        joined: Which models are joined by prompts, directly or through others.
    """

    models: Floats
    prompts: Floats
    scored: NDArray[np.bool_]
    inverse: Floats
    pulls: Floats
    joined: NDArray[np.bool_]

    @classmethod
    def of(cls, scores: Floats) -> ScoreEffects:
        """The effects behind scores, as (models, prompts); NaN where there is none. Each prompt needs a score."""
        scored = ~np.isnan(scores)
        count = scored.sum(axis=0)
        filled = np.where(scored, scores, 0.0)
        apart = np.where(scored, scores - filled.sum(axis=0) / count, 0.0)
        laplacian = np.diag(scored.sum(axis=1)) - (scored / count) @ scored.T
        inverse = np.linalg.pinv(laplacian, rcond=SINGULAR, hermitian=True)
        models = inverse @ apart.sum(axis=1)
        prompts = np.where(scored, filled - models[:, None], 0.0).sum(axis=0) / count
        left = np.where(scored, filled - models[:, None] - prompts, 0.0)
        joined = laplacian @ inverse < -0.5 / len(scores)
        np.fill_diagonal(joined, val=True)
        return cls(models, prompts, scored, inverse, inverse @ left, joined)

    def difference(
        self, i: int, j: int, spread: float, clusters: Ints | None = None, range_of_scores: float = math.inf
    ) -> ScoreEstimate:
        """The effect of model i minus that of j; without an interval where nothing joins them.

        Parameters:
            i: A model.
            j: Another.
            spread: The highest score that was seen minus the lowest; 0 gives no interval.
            clusters: The cluster of each prompt, numbered from 0; None: each is its own.
            range_of_scores: The highest possible score minus the lowest.
        """
        value = float(self.models[i] - self.models[j])
        if not self.joined[i, j] or not spread > 0.0:
            return ScoreEstimate(value, math.nan, 0.0, 0.0)
        contrast = self.inverse[i] - self.inverse[j]
        inside = self.scored * contrast[:, None]
        information = (inside**2).sum(axis=0) - inside.sum(axis=0) ** 2 / self.scored.sum(axis=0)
        pulls = self.pulls[i] - self.pulls[j]
        if clusters is not None:
            information, pulls = np.bincount(clusters, information), np.bincount(clusters, pulls)
        weights = information / information.sum()
        pulls, weights = pulls[weights > LEAST_WEIGHT], weights[weights > LEAST_WEIGHT]
        size = 1.0 / float(weights @ weights)
        if size < 2.0 - LEAST_WEIGHT:
            return ScoreEstimate(value, math.nan, 0.0, size)
        differences = pulls / weights
        common, share = _most_common(value + differences, weights, spread)
        k = size * (1.0 - share)
        tau = max(0.0, size * share - 1.0) / (size - 1.0)
        squares = size * float(weights @ (value + differences - common) ** 2)
        square = (spread**2 * size * float(information.sum()) / 2.0 + squares) / (1.0 + k)
        total = size + 2.0 * tau
        moves = (size - 1.0) * pulls / (1.0 - weights)
        variance = (float(moves @ moves) + 2.0 * tau * square) / (total * (total - 1.0))
        if variance <= 0.0:
            return ScoreEstimate(value, math.nan, 0.0, size)
        return ScoreEstimate(value, math.sqrt(variance), total - 1.0, size, -range_of_scores, range_of_scores)

    def mean(
        self, i: int, spread: float, clusters: Ints | None = None, lowest: float = -math.inf, highest: float = math.inf
    ) -> ScoreEstimate:
        """The mean that model i would have on all prompts; without an interval where it is not joined to all others."""
        whole = self.prompts + self.models[i]
        if not self.joined[i].all():
            return ScoreEstimate(float(whole.mean()), math.nan, 0.0, 0.0)
        away = -(self.scored / self.scored.sum(axis=0)).mean(axis=1)
        away[i] += 1.0
        values = whole + len(whole) * (away @ self.pulls)
        own = self.scored[i]
        sizes = None
        if clusters is not None:
            sizes = np.bincount(clusters).astype(float)
            values, own = np.bincount(clusters, values) / sizes, np.bincount(clusters, own) > 0
        one = mean_score(values, spread, sizes=sizes, lowest=lowest, highest=highest)
        n = int(own.sum())
        if not one.known or n < 2:
            return ScoreEstimate(one.value, math.nan, 0.0, float(n))
        wider = math.sqrt(n / (n - 1) * (len(values) - 1) / len(values))
        return ScoreEstimate(
            one.value, one.error * wider, min(one.degrees, n + one.degrees - one.size), float(n), lowest, highest
        )


def _most_common(differences: Floats, weights: Floats, spread: float) -> tuple[float, float]:
    """The difference with the most weight (of several, the one nearest 0), and its share of all weight."""
    rounded = np.round(differences / spread, DIGITS)
    values, place = np.unique(rounded, return_inverse=True)
    share = np.bincount(place, weights)
    most = np.flatnonzero(share >= share.max() * (1.0 - 1e-9))
    at = most[np.argmin(np.abs(values[most]))]
    return float(values[at]) * spread, float(share[at])
