"""The regression behind a judge's scale: slope, slot and one idiosyncrasy per model, fitted to verdicts.

    logit P(the model shown first wins) = β (θ_first − θ_second) + γ + δ_first − δ_second,    δ ~ N(0, τ²)

Given τ² the best β, γ and δ are one Newton iteration, the δ pulled towards 0 by their prior (penalised
quasi-likelihood, Breslow and Clayton 1993, JASA 88:9); τ² follows from how far the δ̂ spread beyond chance, and the two
alternate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltyard.errors import NotConverged
from tiltyard.ratings.bradley_terry import MAX_STEPS, STEP_TOLERANCE
from tiltyard.ratings.comparisons import sum_by
from tiltyard.ratings.intervals import FEW
from tiltyard.ratings.tie_models import log_sigmoid, sigmoid
from tiltyard.types import Floats, Ints

TAU_STEPS = 50
TAU_TOLERANCE = 1e-6
"""τ² is settled when it changes by less than this part of it."""

FEWEST_TAU_DEGREES = 2.0
"""However uncertain τ̂ is, it counts as known from this many models: with fewer, intervals would say nothing at all."""

TINY = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationVerdicts:
    """A judge's readable verdicts on battles that people decided, one row per verdict, as the judge was shown it.

    `shown_first` and `shown_second` are model numbers; `share` is what the model shown first won: 1, 0, ½ for a tie, or
    a soft score. `weight` is ½ where both orders of the battle were judged, 1 where one was. `battle` names the battle;
    `cluster` what battles share (a prompt), None where battles are independent.
    """

    shown_first: Ints
    shown_second: Ints
    share: Floats
    weight: Floats
    battle: Ints
    cluster: Ints | None = None

    def __len__(self) -> int:
        return len(self.share)


@dataclass(frozen=True, slots=True, eq=False)
class _Heard:
    """The verdicts as a regression: X = (gap, 1) by verdict, B = +1 for the model shown first, −1 for the second."""

    verdicts: CalibrationVerdicts
    gap: Floats
    n_models: int
    cluster: Ints
    n_clusters: int

    @classmethod
    def of(cls, strength: Floats, verdicts: CalibrationVerdicts) -> _Heard:
        """Number the clusters, battles where all share one, and take each verdict's gap as people see it."""
        shared = verdicts.battle if verdicts.cluster is None else verdicts.cluster
        alone = bool((shared == shared[0]).all())
        names, cluster = np.unique(verdicts.battle if alone else shared, return_inverse=True)
        gap = strength[verdicts.shown_first] - strength[verdicts.shown_second]
        return cls(verdicts, gap, len(strength), cluster, len(names))

    def onto(self, by_verdict: Floats) -> Floats:
        """(X, B)ᵀ v: numbers per verdict summed for the slope, the slot and every model."""
        first, second, m = self.verdicts.shown_first, self.verdicts.shown_second, self.n_models
        by_model = sum_by(first, by_verdict, m) - sum_by(second, by_verdict, m)
        return np.concatenate([[self.gap @ by_verdict, by_verdict.sum()], by_model])

    def clustered(self, by_verdict: Floats) -> Floats:
        """The same sums cluster by cluster, one row each."""
        v, m, p = self.verdicts, self.n_models, self.n_clusters
        key = self.cluster * m
        by_model = sum_by(key + v.shown_first, by_verdict, p * m) - sum_by(key + v.shown_second, by_verdict, p * m)
        line = [sum_by(self.cluster, column, p) for column in (self.gap * by_verdict, by_verdict)]
        return np.column_stack([*line, by_model.reshape(p, m)])

    def bend(self, information: Floats) -> Floats:
        """(X, B)ᵀ diag(information) (X, B)."""
        v, m = self.verdicts, self.n_models
        off = sum_by(v.shown_first * m + v.shown_second, information, m * m).reshape(m, m)
        off += off.T
        sides = np.column_stack([self.onto(self.gap * information), self.onto(information)])
        full = np.empty((m + 2, m + 2))
        full[:, :2], full[:2] = sides, sides.T
        full[2:, 2:] = np.diag(off.sum(axis=1)) - off
        return full


@dataclass(frozen=True, slots=True, eq=False)
class VerdictFit:
    """Slope, slot and idiosyncrasies (β, γ, δ …) for one τ², with the likelihood's shape there."""

    heard: _Heard
    tau2: float
    point: Floats
    value: float
    residual: Floats
    bend: Floats

    @classmethod
    def at(cls, heard: _Heard, tau2: float, point: Floats) -> VerdictFit:
        """The verdicts' log-likelihood, less δ²/2τ² for every model, at a point (β, γ, δ …)."""
        v, delta = heard.verdicts, point[2:]
        log_odds = point[0] * heard.gap + point[1] + delta[v.shown_first] - delta[v.shown_second]
        chance = sigmoid(log_odds)
        likelihood = v.weight @ (v.share * log_sigmoid(log_odds) + (1.0 - v.share) * log_sigmoid(-log_odds))
        value = float(likelihood) - (float(delta @ delta) / (2.0 * tau2) if tau2 else 0.0)
        bend = heard.bend(v.weight * chance * (1.0 - chance))
        return cls(heard, tau2, point, value, v.weight * (v.share - chance), bend)

    @property
    def stiff(self) -> Floats:
        """Minus the second derivatives, those of the δ's prior included; δ is held at 0 where τ is 0."""
        stiff = self.bend.copy()
        models = np.arange(2, len(stiff))
        if not self.tau2:
            stiff[2:, :] = stiff[:, 2:] = 0.0
        stiff[models, models] += 1.0 / self.tau2 if self.tau2 else 1.0
        return stiff

    @property
    def gradient(self) -> Floats:
        """The first derivatives."""
        gradient = self.heard.onto(self.residual)
        gradient[2:] = gradient[2:] - self.point[2:] / self.tau2 if self.tau2 else 0.0
        return gradient

    def climbed(self) -> VerdictFit:
        """The top, by Newton's method with halved steps."""
        here = self
        for _ in range(MAX_STEPS):
            step = np.linalg.solve(here.stiff, here.gradient)
            lowest = here.value - 1e-12 * (1.0 + abs(here.value))
            trials = (VerdictFit.at(here.heard, here.tau2, here.point + 0.5**k * step) for k in range(50))
            here = next((trial for trial in trials if trial.value >= lowest), here)
            if float(np.abs(step).max()) < STEP_TOLERANCE:
                return here
        raise NotConverged("the judge's slope did not converge: calibrate on more battles.")

    def _moments(self) -> tuple[Floats, Floats, Floats]:
        """What each model was found to differ by; how that responds to the true δ; and the clusters' parts of it.

        With τ² = 0 in hand it is the residual sum U = Bᵀ r less what slope and slot take up, which responds with
        L_r = L − G H⁻¹ Gᵀ. With a τ² in hand it is δ̂, which weighs models evenly where all have many verdicts.
        """
        scores = self.heard.clustered(self.residual)
        if self.tau2:
            inverse = np.linalg.inv(self.stiff)
            return self.point[2:], (inverse @ self.bend)[2:, 2:], scores @ inverse[:, 2:]
        taken = np.linalg.solve(self.bend[:2, :2], self.bend[:2, 2:])
        by_chance = scores[:, 2:] - scores[:, :2] @ taken
        return by_chance.sum(axis=0), self.bend[2:, 2:] - self.bend[2:, :2] @ taken, by_chance

    def tau_squared(self) -> float:
        """The moment estimate τ̂² = (Σ_i U_i² − chance) / tr(R Rᵀ), R the response of U to the idiosyncrasies.

        Were slope and slot known, tr(R Rᵀ) would be Σ_i (I_i² + Σ_j I_ij²), and chance Σ_i I_i if every verdict were
        independent. Here chance is the sum of the clusters' squares, whatever two orders of a battle have in common.
        """
        found, response, by_chance = self._moments()
        return max(0.0, float((found @ found - (by_chance**2).sum()) / (response**2).sum()))

    def tau_degrees(self) -> float:
        """The degrees of freedom 2 τ⁴ / Var(τ̂²) of that estimate: fewer than the models where each has few verdicts."""
        _, response, by_chance = self._moments()
        spread = self.tau2 * response @ response.T + by_chance.T @ by_chance
        degrees = (self.tau2 * float((response**2).sum())) ** 2 / max(float((spread**2).sum()), TINY)
        return max(degrees, FEWEST_TAU_DEGREES)

    def covariance(self) -> Floats:
        """The covariance of (β̂, γ̂, δ̂ − δ): the sandwich over clusters, the prior of every δ being one more.

        With few clusters no variance is smaller than if every verdict were independent, as everywhere.
        """
        scores = self.heard.clustered(self.residual)
        p = self.heard.n_clusters
        middle = scores.T @ scores * (p / max(p - 1.0, 1.0))
        models = np.arange(2, len(middle))
        if not self.tau2:
            middle[2:, :] = middle[:, 2:] = 0.0
        else:
            middle[models, models] += 1.0 / self.tau2
        inverse = np.linalg.inv(self.stiff)
        found = np.asarray(inverse @ middle @ inverse)
        if p < FEW:
            wider = np.sqrt(np.maximum(np.diag(inverse) / np.maximum(np.diag(found), TINY), 1.0))
            found = found * np.outer(wider, wider)
        return found


def fit_verdicts(strength: Floats, verdicts: CalibrationVerdicts) -> VerdictFit:
    """Slope, slot and idiosyncrasies, and τ² with them: each is fitted given the others until they agree.

    Left out of the fit, idiosyncrasies would flatten the slope: by a fifth where τ is 1.
    """
    heard = _Heard.of(strength, verdicts)
    best = VerdictFit.at(heard, 0.0, np.zeros(2 + len(strength))).climbed()
    for _ in range(TAU_STEPS):
        tau2 = best.tau_squared()
        if tau2 == 0.0 or abs(tau2 - best.tau2) <= TAU_TOLERANCE * tau2:
            return best
        best = VerdictFit.at(heard, tau2, best.point).climbed()
    return best
