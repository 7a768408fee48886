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

Strengths of one model in several categories are pulled towards each other. A model's strength in category c is its
strength over all of them and a deviation, θ_ic = μ_i + δ_ic with δ ~ N(0, τ²). All categories are fitted at once, one
strength for every model in every category it was seen in. With μ_i flat and integrated out, the prior is ½/τ² Σ_i Σ_c
(θ_ic − θ̄_i)²: every strength is pulled towards the mean of the same model's strengths, in which it counts itself by as
much as it is known. So a category that makes up most of the battles is not pulled towards a whole that is nearly
itself, and no category is counted twice.

τ² is found in the same way. The covariance is the clustered sandwich of
the joint fit: a voter who votes in several categories is one voter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.stats.bradley_terry import BradleyTerryFit, Parameters, StrengthPrior, fit
from tiltyard.stats.comparisons import OWN_CLUSTER, TIED, Comparisons, Counted, PairCells, sum_by
from tiltyard.stats.graph import Reach, half_win_prior, reach
from tiltyard.stats.intervals import MANY_MODELS, Clustering, Covariance, sandwich
from tiltyard.stats.tie_models import CellSums, TieModel
from tiltyard.types import Floats, Ints

SMALLEST_SD, LARGEST_SD = 0.02, 10.0
"""The standard deviations of strengths that are looked at, in logits: from 3 to 1,700 points."""

STEP = 0.02
"""How closely the logarithm of the variance is searched for."""

ONE_ERROR = 0.5
"""A fall of the log-likelihood by this is one standard error."""

DISPERSIONS = 3
"""At most so often the spread of scores by cluster and the variance are found from each other."""


class ShrunkFit(msgspec.Struct, frozen=True, eq=False):
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
    model: Ints | None = None,
) -> ShrunkFit:
    """The fit with a normal prior whose variance comes from the battles.

    `dispersion` tells how many times as uncertain strengths are as a fit alone says; None where battles are
    independent. `model` says whose each strength is (`StrengthPrior`); None: all are pulled towards one mean.
    """
    share, model = 1.0, np.zeros(cells.n_models, dtype=np.int64) if model is None else model
    result = _search(cells, tie_model, share, model)
    if dispersion is not None:
        for _ in range(DISPERSIONS):
            assert result.fit.prior is not None
            battles_alone = msgspec.structs.replace(
                result.fit, prior=msgspec.structs.replace(result.fit.prior, spread=0.0)
            )
            before, share = share, max(1.0, dispersion(battles_alone))
            if abs(share / before - 1.0) < 0.02:
                break
            result = _search(cells, tie_model, share, model)
    return result


def _search(cells: PairCells, tie_model: TieModel, share: float, model: Ints) -> ShrunkFit:
    """The variance of the largest marginal likelihood if battles count 1/`share` each, and the fit with it."""
    weighed, near = cells.with_counts(cells.counts / share), None
    pulled = len(model) - len(np.unique(model))

    @cache
    def evidence(log_variance: float) -> float:
        nonlocal near
        prior = StrengthPrior(math.exp(-log_variance), 0.0, model)
        result = fit(weighed, tie_model, start=near, prior=prior)
        near = result.parameters
        fall = prior.log_density(near.strength) - 0.5 * pulled * log_variance
        return result.log_likelihood + fall - 0.5 * _log_determinant(result, one_mean=not model.any())

    low, high = 2.0 * math.log(SMALLEST_SD), 2.0 * math.log(LARGEST_SD)
    best = _largest(evidence, low, high)
    upper = _falls_by(evidence, best, high, ONE_ERROR)
    variance = math.exp(best)
    prior = StrengthPrior(share / variance, math.exp(upper), model)
    return ShrunkFit(fit(cells, tie_model, start=near, prior=prior), variance, share)


def _log_determinant(result: BradleyTerryFit, *, one_mean: bool) -> float:
    """Ln det of the information, but for the shift of all strengths; by its diagonal where there are many models."""
    m = result.cells.n_models
    if m <= MANY_MODELS or not one_mean:
        return float(np.linalg.slogdet(result.information()[1:, 1:])[1])
    assert result.prior is not None
    weight, precision = result.curvature().delta, result.prior.precision
    diagonal = np.bincount(result.cells.first, weight, m) + np.bincount(result.cells.second, weight, m)
    return float(np.log(diagonal + precision).sum()) - math.log(precision)


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


FEWEST_DEGREES = 0.5
"""A category in which all of a model's battles share one prompt or voter counts as having this many degrees."""


class PooledFit(msgspec.Struct, frozen=True, eq=False):
    """All categories fitted at once: strengths of (category, model) with their covariance and `Reach`.

    `model` and `category` say whose each strength is, and where. `model_degrees` are the degrees of freedom of each
    strength's model over all categories. K = (H + Q)⁻¹ is `inverse`, H `battles` and Q K `pulled`, of strengths alone.
    """

    shrunk: ShrunkFit
    covariance: Covariance
    inverse: Floats
    battles: Floats
    pulled: Floats
    state: NDArray[np.int8]
    model: Ints
    category: Ints
    model_degrees: Floats

    @property
    def means(self) -> Floats:
        """What each strength is pulled towards: the model's strength over all categories."""
        prior = self.shrunk.fit.prior
        assert prior is not None
        return np.asarray(prior.means(self.shrunk.fit.parameters.strength)[self.model])


def fit_pooled(rows: Comparisons, counted: Counted, tie_model: TieModel, model: Ints, category: Ints) -> PooledFit:
    """The joint fit. `rows` compare (category, model) pairs; all must be joined by battles and shared models."""
    cells, state = _bounded(counted.cells, model)
    dispersion = (lambda fitted: _dispersion(sandwich(fitted, rows, counted), model)) if rows.clusters else None
    shrunk = fit_shrunk(cells, tie_model, dispersion, model)
    fit, n = shrunk.fit, len(model)
    assert fit.prior is not None
    inverse = fit.inverse_information()[:n, :n]
    battles = fit.information()[:n, :n] - fit.prior.times(np.eye(n))
    degrees = _degrees_of_models(rows, model)
    errors = sandwich(fit, rows, counted)
    return PooledFit(shrunk, errors, inverse, battles, fit.prior.times(inverse), state, model, category, degrees)


def _dispersion(errors: Covariance, model: Ints) -> float:
    """How many times as large variances are by cluster as the model alone says, in the directions that are pulled.

    A taste that a voter has in every category moves a model's strengths together, and says nothing about deviations.
    """
    n, deviations = len(model), StrengthPrior(1.0, 0.0, model)
    by_cluster = max(float(np.trace(deviations.times(matrix[:n, :n]))) for matrix in errors.matrices)
    return by_cluster / max(float(np.trace(deviations.times(errors.fisher[:n, :n]))), 1e-300)


def _bounded(cells: PairCells, model: Ints) -> tuple[PairCells, NDArray[np.int8]]:
    """The cells with the half-win prior of those that neither battles nor other categories bound, and each `Reach`."""
    order = np.argsort(model, kind="stable")
    same = model[order[1:]] == model[order[:-1]]
    first, second = order[:-1][same], order[1:][same]
    links = np.zeros((len(first), 3))
    links[:, TIED] = 1.0
    state = reach(cells.append(first, second, links))
    return (half_win_prior(cells, state) if (state != Reach.HELD).any() else cells), state


def _degrees_of_models(rows: Comparisons, model: Ints) -> Floats:
    """The degrees of freedom of each strength's model: those of its most skewed clusters over all categories."""
    m = int(model.max()) + 1
    sides = np.concatenate([model[rows.first], model[rows.second]])
    weight = np.concatenate([rows.weight, rows.weight])
    battles = sum_by(sides, weight, m)
    worth = battles.copy()
    for cluster in rows.clusters:
        shared = np.concatenate([cluster, cluster]) != OWN_CLUSTER
        key = (np.concatenate([cluster, cluster]) * m + sides)[shared]
        distinct, place = np.unique(key, return_inverse=True)
        squares = sum_by(distinct % m, sum_by(place, weight[shared], len(distinct)) ** 2, m)
        squares += sum_by(sides[~shared], weight[~shared], m)
        worth = np.minimum(worth, battles**2 / np.maximum(squares, 1e-300))
    return np.asarray(np.maximum(worth - 1.0, FEWEST_DEGREES)[model])


def covariance_within(pooled: PooledFit, ids: Ints, ways: tuple[Clustering, ...]) -> Covariance:
    """The covariance of one category's strengths, measured from their mean.

    An error has three parts: that of the category's own battles, that of the other categories' and that of the pull.
    The degrees of freedom are Welch's and Satterthwaite's, of the first by the model's clusters in the category, of the
    second by all of its clusters; the third is known as well as τ². A variance is never below what the model alone
    says, times the dispersion: a category's battles may be too few for scores to show how they vary.
    """
    whole, block, prior = pooled.covariance, pooled.inverse[np.ix_(ids, ids)], pooled.shrunk.fit.prior
    assert prior is not None
    pulled = pooled.pulled[:, ids]
    wider = _centred(prior.spread * (pulled.T @ pulled))
    sampled = _centred(block - pooled.inverse[ids] @ pulled)
    own = np.minimum(np.diag(_centred(block @ pooled.battles[np.ix_(ids, ids)] @ block)), np.diag(sampled))
    share = pooled.shrunk.dispersion
    total = share * np.diag(sampled) + np.diag(wider)
    near, far = share * own / total, share * (np.diag(sampled) - own) / total
    here = np.maximum(whole.degrees[ids], FEWEST_DEGREES)
    degrees = 1.0 / np.maximum(near**2 / here + far**2 / pooled.model_degrees[ids], 1e-12)
    return Covariance(
        tuple(_centred(matrix[np.ix_(ids, ids)]) for matrix in whole.matrices),
        share * sampled + wider,
        degrees,
        np.ones(len(ids), dtype=bool),
        ways,
    )


def _centred(matrix: Floats) -> Floats:
    centred = matrix - matrix.mean(axis=0)
    return np.asarray(centred - centred.mean(axis=1, keepdims=True))


def fit_of_category(pooled: PooledFit, ids: Ints, cells: PairCells, tie: Floats) -> BradleyTerryFit:
    """The joint fit as one of a category's own cells; `tie` holds the tie parameter of each of their groups."""
    joint = pooled.shrunk.fit
    strength = joint.parameters.strength[ids]
    point = Parameters(strength - strength.mean(), joint.parameters.coefficient, tie)
    result = joint.tie_model.evaluate(point.delta(cells), tie[cells.group], CellSums.of(cells.counts))
    ties = sum_by(cells.group, cells.counts[:, TIED], cells.n_groups)
    tied = np.flatnonzero(ties > 0) if joint.tie_model.has_parameter else np.array([], dtype=np.int64)
    return BradleyTerryFit(point, cells, joint.tie_model, tied, result.log_likelihood, joint.steps)
