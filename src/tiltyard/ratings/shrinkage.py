"""Strengths pulled towards each other by as much as the battles themselves say: an empirical-Bayes normal prior.

With ten battles a model, the best fit spreads strengths too wide: luck looks like strength. If strengths come from a
normal distribution of variance τ², the point of largest posterior density pulls each towards the mean, those with few
battles most. τ² is the one under which the battles are most likely, strengths integrated out by Laplace's approximation
(Tierney and Kadane 1986, JASA 81:82):

    ln L(τ²) = ℓ(θ̂) − |θ̂|²/(2τ²) − (m − 1)/2 · ln τ² − ½ ln det(H + I/τ²)

Battles of one prompt or voter are not independent, so the likelihood counts them as too much evidence: it is divided by
φ, the ratio of the sandwich's variances to the model's own. An estimate errs by K(s − Pθ) with K = (H + P)⁻¹ and
P = φ/τ²; so its variance is K(M + P²·τ²·I)K, M the sandwich's middle. There τ² is taken one standard error up, because
few models leave τ² itself uncertain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from tiltyard.ratings.bradley_terry import BradleyTerryFit, NormalPrior, Parameters, StrengthPrior, fit
from tiltyard.ratings.comparisons import PairCells
from tiltyard.ratings.many_models import MANY_MODELS
from tiltyard.ratings.tie_models import TieModel

SMALLEST_SD, LARGEST_SD = 0.02, 10.0
"""The standard deviations of strengths that are looked at, in logits: from 3 to 1,700 points."""

STEP = 0.02
"""How closely the logarithm of the variance is searched for."""

ONE_ERROR = 0.5
"""A fall of the log-likelihood by this is one standard error."""

DISPERSIONS = 3
"""At most so often the spread of scores by cluster and the variance are found from each other."""


class Population(Protocol):
    """What strengths are pulled towards, and what of the battles tells how far they lie from it."""

    @property
    def dimensions(self) -> int:
        """In how many directions strengths are pulled."""
        ...

    def prior(self, precision: float, spread: float) -> StrengthPrior:
        """The prior of this precision; `spread` is the variance around it that intervals allow for."""
        ...

    def log_determinant(self, found: BradleyTerryFit) -> float:
        """Ln det of a fit's information, prior included, but for the shift of all strengths."""
        ...


@dataclass(frozen=True, slots=True)
class OneMean:
    """All strengths come from one normal distribution."""

    n_models: int

    @property
    def dimensions(self) -> int:
        """All but the shift of all strengths."""
        return self.n_models - 1

    def prior(self, precision: float, spread: float) -> NormalPrior:
        """A pull towards the mean of all."""
        return NormalPrior(precision, np.zeros(self.n_models), spread)

    def log_determinant(self, found: BradleyTerryFit) -> float:
        """Ln det of the information, but for the shift; by its diagonal where there are many models."""
        assert found.prior is not None
        m, precision = found.cells.n_models, found.prior.precision
        if m > MANY_MODELS:
            weight = found.curvature().delta
            diagonal = np.bincount(found.cells.first, weight, m) + np.bincount(found.cells.second, weight, m)
            return float(np.log(diagonal + precision).sum()) - math.log(precision)
        return float(np.linalg.slogdet(found.information())[1]) - math.log(precision)


@dataclass(frozen=True, slots=True, eq=False)
class ShrunkFit:
    """A fit with its prior: the variance of strengths, whether that is none, and how dependent battles are (φ)."""

    fit: BradleyTerryFit
    variance: float
    dispersion: float

    @property
    def equal(self) -> bool:
        """Whether the battles show no difference between the models at all."""
        return self.variance <= SMALLEST_SD**2 * math.exp(2.0 * STEP)


def fit_shrunk(
    cells: PairCells,
    tie_model: TieModel,
    dispersion: Callable[[BradleyTerryFit], float] | None = None,
    population: Population | None = None,
) -> ShrunkFit:
    """The fit with a normal prior whose variance comes from the battles.

    `dispersion` tells how many times as uncertain strengths are as a fit alone says; None where battles are
    independent. Without a `population` all strengths are pulled towards their mean.
    """
    share, population = 1.0, population or OneMean(cells.n_models)
    found = _search(cells, tie_model, share, population)
    if dispersion is not None:
        for _ in range(DISPERSIONS):
            assert found.fit.prior is not None
            battles_alone = replace(found.fit, prior=population.prior(found.fit.prior.precision, 0.0))
            before, share = share, max(1.0, dispersion(battles_alone))
            if abs(share / before - 1.0) < 0.02:
                break
            found = _search(cells, tie_model, share, population)
    return found


def _search(cells: PairCells, tie_model: TieModel, share: float, population: Population) -> ShrunkFit:
    """The variance of the largest marginal likelihood if battles count 1/`share` each, and the fit with it."""
    evidence = _Evidence(cells.with_counts(cells.counts / share), tie_model, population)
    low, high = 2.0 * math.log(SMALLEST_SD), 2.0 * math.log(LARGEST_SD)
    best = _largest(evidence, low, high)
    upper = _falls_by(evidence, best, high, ONE_ERROR)
    variance = math.exp(best)
    prior = population.prior(share / variance, math.exp(upper))
    return ShrunkFit(fit(cells, tie_model, start=evidence.near, prior=prior), variance, share)


class _Evidence:
    """The log marginal likelihood of battles at the logarithm of a variance; each fit starts from the last one."""

    def __init__(self, cells: PairCells, tie_model: TieModel, population: Population) -> None:
        self.cells, self.tie_model, self.population = cells, tie_model, population
        self.near: Parameters | None = None
        self.known: dict[float, float] = {}

    def __call__(self, log_variance: float) -> float:
        if log_variance not in self.known:
            prior = self.population.prior(math.exp(-log_variance), 0.0)
            found = fit(self.cells, self.tie_model, start=self.near, prior=prior)
            self.near = found.parameters
            fall = prior.log_density(found.parameters.strength) - 0.5 * self.population.dimensions * log_variance
            self.known[log_variance] = found.log_likelihood + fall - 0.5 * self.population.log_determinant(found)
        return self.known[log_variance]


GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


def _largest(curve: Callable[[float], float], low: float, high: float) -> float:
    """Where a curve with one top has it (golden section)."""
    a, b = low, high
    c, d = b - GOLDEN * (b - a), a + GOLDEN * (b - a)
    while b - a > STEP:
        if curve(c) >= curve(d):
            b, d = d, c
            c = b - GOLDEN * (b - a)
        else:
            a, c = c, d
            d = a + GOLDEN * (b - a)
    return 0.5 * (a + b)


def _falls_by(curve: Callable[[float], float], top: float, high: float, fall: float) -> float:
    """Where, above its top, a curve has fallen by this much (bisection)."""
    least = curve(top) - fall
    if curve(high) >= least:
        return high
    low = top
    while high - low > 5.0 * STEP:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if curve(middle) >= least else (low, middle)
    return high
