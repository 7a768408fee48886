"""A judge's scale against people's: how far its verdicts stretch strengths, and how far it strays from them.

People's strengths θ come from their own battles. The judge also decides battles that people decided, and its
verdicts are explained by

    logit P(the model shown first wins) = β (θ_first − θ_second) + γ + δ_first − δ_second,    δ ~ N(0, τ²):

β is how sharply the judge tells models apart (2: twice the logits people show), γ what it gives the first slot, and δ
its idiosyncrasies: a liking for, or against, one model on every prompt, which no number of verdicts averages away. A
new model's verdicts then place it at t with log-odds β̂ (t − θ̂_j) ± γ̂ − δ̂_j, and

    Var(t) = V_cluster + (τ̂/β̂)² (1 + Σ w_j²) + ((t − θ̄_w)/β̂)² Var(β̂) + Σ w_i w_j Cov(θ̂_i, θ̂_j),

w_j being opponent j's share in the information and θ̄_w = Σ w_j θ̂_j. The second term takes nothing off for the δ̂_j
that calibration found, so it errs on the wide side. Sampling error alone, the first term, covers a model's standing
with people about half the time. People's own sampling error is in τ̂ as well: the judge cannot follow it.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tiltyard.errors import NotConverged, RatingError
from tiltyard.stats.bradley_terry import BradleyTerryFit, StrengthPrior, assemble, border, fit
from tiltyard.stats.comparisons import TIED, PairCells, sum_by
from tiltyard.stats.graph import Reach
from tiltyard.stats.intervals import FEW
from tiltyard.stats.one_model import Anchors, OneModelFit, OneModelRows, bounds, fit_one, quantile
from tiltyard.stats.quantiles import studentized_range_quantile
from tiltyard.stats.tie_models import HALF
from tiltyard.types import Floats, Ints

ENOUGH_BATTLES = 300
ENOUGH_MODELS = 15
ENOUGH_OPPONENTS = 10
"""Below these a calibration still gives numbers, but their coverage was not established: it warns."""

TOLD_FROM_ZERO = 0.95
"""The judge follows people when the interval of its slope at this level is above 0."""

TAU_STEPS = 50
TAU_TOLERANCE = 1e-6
"""τ² is settled when it changes by less than this part of it."""

FEWEST_TAU_DEGREES = 2.0
"""However uncertain τ̂ is, it counts as known from this many models: with fewer, intervals would say nothing at all."""

TINY = 1e-300


class CalibrationVerdicts(msgspec.Struct, frozen=True, eq=False):
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


class NewModelVerdicts(msgspec.Struct, frozen=True, eq=False):
    """A judge's readable verdicts on the new model, one row per verdict, from the new model's point of view.

    `opponent` is the anchor's number, `share` what the new model won (1, 0, ½, or a soft score), `shown_first` whether
    the new model stood first, `weight` as in `CalibrationVerdicts`. Rows of one `cluster` depend on each other: the
    battle at least, better the prompt.
    """

    opponent: Ints
    share: Floats
    shown_first: NDArray[np.bool_]
    weight: Floats
    cluster: Ints


class JudgeScale(msgspec.Struct, frozen=True, eq=False):
    """What a calibration found: the judge's `slope` β̂, `slot` γ̂ and `tau` τ̂, in the judge's logits.

    `slope_variance` counts the chance of the verdicts, by cluster, and the idiosyncrasies; `tau_degrees` says how well
    τ̂ is known. `idiosyncrasy` holds every model's δ̂, shrunk where it has few verdicts, 0 where it has none. Models
    are numbered as the strengths were that the judge was calibrated with.
    """

    slope: float
    slope_variance: float
    slot: float
    tau: float
    tau_degrees: float
    idiosyncrasy: Floats
    n_verdicts: int
    n_battles: int
    n_models: int
    degrees: float
    warnings: tuple[str, ...]

    @property
    def floor(self) -> float:
        """τ̂/β̂: the error, in people's logits, that more battles of a new model cannot lower."""
        return self.tau / self.slope

    def slope_interval(self, level: float) -> tuple[float, float]:
        half = quantile(level, self.degrees) * math.sqrt(self.slope_variance)
        return self.slope - half, self.slope + half


class PlacementVariance(msgspec.Struct, frozen=True):
    """The four parts of Var(t), in people's logits²; `total` is their sum."""

    sampling: float
    idiosyncrasy: float
    slope: float
    anchors: float

    @property
    def total(self) -> float:
        return self.sampling + self.idiosyncrasy + self.slope + self.anchors


class ScaledPlacement(msgspec.Struct, frozen=True, eq=False):
    """The new model's place on people's scale, in their logits, as far as this judge can tell."""

    strength: float
    variance: PlacementVariance
    degrees: float
    judged: OneModelFit
    """The fit in the judge's logits, β̂ times people's."""
    warnings: tuple[str, ...]

    @property
    def reach(self) -> Reach:
        return self.judged.reach

    @property
    def opponent_share(self) -> Floats:
        return self.judged.opponent_share

    @property
    def own_variance(self) -> float:
        """The variance if people's strengths were exact."""
        return self.variance.total - self.variance.anchors

    @property
    def rank_degrees(self) -> float:
        return self.degrees

    def interval(self, level: float) -> tuple[float | None, float | None]:
        """The interval of the strength, None on a side that nothing bounds."""
        return bounds(self.strength, quantile(level, self.degrees) * math.sqrt(self.variance.total), self.reach)


class _VerdictFit(msgspec.Struct, frozen=True, eq=False):
    """Slope and slot as coefficients and idiosyncrasies as strengths, fitted for one τ²; clusters are numbered."""

    fit: BradleyTerryFit
    tau2: float
    cluster: Ints
    n_clusters: int

    def scores(self) -> Floats:
        """The slopes of the log-likelihood by cluster: models, then slope and slot."""
        cells, m, p = self.fit.cells, self.fit.cells.n_models, self.n_clusters
        residual, key = self.fit.evaluation.by_delta, self.cluster * m
        by_model = sum_by(key + cells.first, residual, p * m) - sum_by(key + cells.second, residual, p * m)
        line = [sum_by(self.cluster, column * residual, p) for column in cells.design.T]
        return np.column_stack([by_model.reshape(p, m), *line])

    def _moments(self) -> tuple[Floats, Floats, Floats]:
        """What each model was found to differ by; how that responds to the true δ; and the clusters' parts of it.

        With τ² = 0 in hand it is the residual sum U = Bᵀ r less what slope and slot take up, which responds with
        L_r = L − G H⁻¹ Gᵀ. With a τ² in hand it is δ̂, which weighs models evenly where all have many verdicts.
        """
        scores, m = self.scores(), self.fit.cells.n_models
        bend = assemble(self.fit.cells, self.fit.curvature(), self.fit.tied_groups)
        if self.tau2:
            inverse = self.fit.inverse_information()
            return self.fit.parameters.strength, (inverse @ bend)[:m, :m], scores @ inverse[:, :m]
        taken = np.linalg.solve(bend[m:, m:], bend[m:, :m])
        by_chance = scores[:, :m] - scores[:, m:] @ taken
        return by_chance.sum(axis=0), bend[:m, :m] - bend[:m, m:] @ taken, by_chance

    def tau_squared(self) -> float:
        """The moment estimate τ̂² = (Σ_i U_i² − chance) / tr(R Rᵀ), R the response of U to the idiosyncrasies.

        Were slope and slot known, tr(R Rᵀ) would be Σ_i (I_i² + Σ_j I_ij²), and chance Σ_i I_i if every verdict were
        independent. Here chance is the sum of the clusters' squares, whatever two orders of a battle have in common.
        """
        differing, response, by_chance = self._moments()
        return max(0.0, float((differing @ differing - (by_chance**2).sum()) / (response**2).sum()))

    def tau_degrees(self) -> float:
        """The degrees of freedom 2 τ⁴ / Var(τ̂²) of that estimate: fewer than the models where each has few verdicts."""
        _, response, by_chance = self._moments()
        spread = self.tau2 * response @ response.T + by_chance.T @ by_chance
        degrees = (self.tau2 * float((response**2).sum())) ** 2 / max(float((spread**2).sum()), TINY)
        return max(degrees, FEWEST_TAU_DEGREES)

    def slope_variance(self) -> float:
        """The variance of β̂: the sandwich over clusters, the prior of every δ being one more.

        With few clusters it is no smaller than if every verdict were independent, as everywhere.
        """
        m, p = self.fit.cells.n_models, self.n_clusters
        if self.tau2:
            response = self.fit.inverse_information()[m]
        else:
            few = border(self.fit.cells, self.fit.curvature(), self.fit.tied_groups)[m:]
            response = np.concatenate([np.zeros(m), np.linalg.inv(few)[0]])
        moves = self.scores() @ response
        variance = float(moves @ moves) * p / max(p - 1.0, 1.0)
        if self.tau2:
            variance += float(response[:m] @ response[:m]) / self.tau2
        return max(variance, float(response[m])) if p < FEW else variance


def _fit_verdicts(strength: Floats, verdicts: CalibrationVerdicts) -> _VerdictFit:
    """Slope, slot and idiosyncrasies, and τ² with them: each is fitted given the others until they agree.

    Given τ² the δ are pulled towards 0 by their prior (penalised quasi-likelihood, Breslow and Clayton 1993, JASA
    88:9); τ² follows from how far the δ̂ spread beyond chance. Left out of the fit, idiosyncrasies would flatten the
    slope: by a fifth where τ is 1.
    """
    shared = verdicts.battle if verdicts.cluster is None else verdicts.cluster
    if bool((shared == shared[0]).all()):
        shared = verdicts.battle
    names, cluster = np.unique(shared, return_inverse=True)
    first, second, m = verdicts.shown_first, verdicts.shown_second, len(strength)
    design = np.column_stack([strength[first] - strength[second], np.ones(len(verdicts))])
    won, none = verdicts.weight * verdicts.share, np.zeros(len(verdicts))
    counts = np.column_stack([won, verdicts.weight - won, none])
    cells = PairCells(m, first, second, counts, np.zeros(len(verdicts), dtype=np.int64), 1, design)
    try:
        best = _VerdictFit(fit(cells, HALF, fixed=np.zeros(m)), 0.0, cluster, len(names))
        for _ in range(TAU_STEPS):
            tau2 = best.tau_squared()
            if tau2 == 0.0 or abs(tau2 - best.tau2) <= TAU_TOLERANCE * tau2:
                break
            prior = StrengthPrior(1.0 / tau2, tau2, np.zeros(m, dtype=np.int64))
            best = replace(best, fit=fit(cells, HALF, start=best.fit.parameters, prior=prior), tau2=tau2)
    except NotConverged as error:
        raise NotConverged("the judge's slope did not converge: calibrate on more battles.") from error
    return best


def calibrate(strength: Floats, verdicts: CalibrationVerdicts) -> JudgeScale:
    """The judge's scale, from its verdicts on battles between models whose strengths with people are known.

    Refuses a judge that does not follow people, and verdicts from which no finite slope follows.
    """
    _check_calibration(strength, verdicts)
    fitted = _fit_verdicts(strength, verdicts)
    slope, slot = fitted.fit.parameters.coefficient
    met = np.zeros(len(strength), dtype=bool)
    met[verdicts.shown_first] = met[verdicts.shown_second] = True
    n_battles, n_models = len(np.unique(verdicts.battle)), int(met.sum())
    scale = JudgeScale(
        slope=float(slope),
        slope_variance=fitted.slope_variance(),
        slot=float(slot),
        tau=math.sqrt(fitted.tau2),
        tau_degrees=min(fitted.tau_degrees(), max(n_models - 2.0, 1.0)),
        idiosyncrasy=fitted.fit.parameters.strength,
        n_verdicts=len(verdicts),
        n_battles=n_battles,
        n_models=n_models,
        degrees=max(min(n_models - 2.0, fitted.n_clusters - 1.0), 1.0),
        warnings=_scale_warnings(n_battles, n_models),
    )
    low, high = scale.slope_interval(TOLD_FROM_ZERO)
    if low <= 0.0:
        raise RatingError(
            f"this judge does not follow people: on {n_battles:,} battles its slope on people's ratings is "
            f"{scale.slope:.2f} ({low:.2f} to {high:.2f}), not clearly above 0. Add battles, or ask another judge."
        )
    return scale


def place_on_scale(scale: JudgeScale, anchors: Anchors, verdicts: NewModelVerdicts) -> ScaledPlacement:
    """The new model's strength with people, with all four reasons to doubt it.

    A model that won (or lost) every verdict gets half a win and half a loss; its interval is open on that side.
    """
    rows = OneModelRows(
        opponent=verdicts.opponent,
        result=np.full(len(verdicts.opponent), TIED, dtype=np.int8),
        weight=verdicts.weight,
        share=verdicts.share,
        cluster=verdicts.cluster,
        head_start=np.where(verdicts.shown_first, scale.slot, -scale.slot),
    )
    judged = fit_one(scale.slope * anchors.strength + scale.idiosyncrasy, rows, HALF)
    strength = judged.strength / scale.slope
    share = judged.opponent_share
    lever = (strength - float(share @ anchors.strength)) / scale.slope
    variance = PlacementVariance(
        sampling=judged.own_variance / scale.slope**2,
        idiosyncrasy=scale.floor**2 * (1.0 + float(share @ share)),
        slope=lever**2 * scale.slope_variance,
        anchors=anchors.handed_on(share),
    )
    met = int((judged.information > 0).sum())
    warnings = scale.warnings
    if met < ENOUGH_OPPONENTS:
        warnings += (
            f"judged against {met} opponents: fewer than {ENOUGH_OPPONENTS}, so the interval may be too narrow",
        )
    return ScaledPlacement(strength, variance, _satterthwaite(scale, judged, variance), judged, warnings)


def _satterthwaite(scale: JudgeScale, judged: OneModelFit, variance: PlacementVariance) -> float:
    """Degrees of freedom of a sum of variances, each estimated with its own (Satterthwaite 1946).

    People's strengths are taken as well known. Counting τ̂ as known from all models would cover 0.90 where 300 battles
    calibrate a judge with slope 1.
    """
    doubt = (
        variance.sampling**2 / judged.degrees
        + variance.idiosyncrasy**2 / scale.tau_degrees
        + variance.slope**2 / scale.degrees
    )
    return variance.total**2 / doubt if doubt > 0.0 else judged.degrees


def _scale_warnings(n_battles: int, n_models: int) -> tuple[str, ...]:
    """What a reader should know before trusting the calibration."""
    warnings = []
    if n_battles < ENOUGH_BATTLES:
        warnings.append(
            f"calibrated on {n_battles:,} battles: fewer than {ENOUGH_BATTLES}, so intervals may be too narrow"
        )
    if n_models < ENOUGH_MODELS:
        warnings.append(f"calibrated on {n_models} models: fewer than {ENOUGH_MODELS}, so intervals may be too narrow")
    return tuple(warnings)


def _check_calibration(strength: Floats, verdicts: CalibrationVerdicts) -> None:
    """Refuse verdicts that no finite slope and slot explain best: those that one threshold of the gap separates."""
    if not len(verdicts):
        raise RatingError("no calibration verdict could be read: check the judge's replies, or leave calibration out.")
    gap = strength[verdicts.shown_first] - strength[verdicts.shown_second]
    won, lost = gap[verdicts.share > 0.0], gap[verdicts.share < 1.0]
    if not len(won) or not len(lost):
        raise RatingError(
            f"all {len(verdicts):,} calibration verdicts went to the same slot: "
            "this judge decides by position. Ask another judge."
        )
    if lost.max() <= won.min():
        raise RatingError(
            f"all {len(verdicts):,} calibration verdicts follow people's order of the models, so the judge's scale has "
            "no finite value. Calibrate on more battles between models of similar strength."
        )
    if lost.min() >= won.max():
        raise RatingError(
            f"this judge does not follow people: its {len(verdicts):,} calibration verdicts are the reverse of theirs. "
            "Ask another judge."
        )


class OneRank(msgspec.Struct, frozen=True):
    """The new model's place among the anchors and itself: the likely one, the best (`low`) and the worst (`high`)."""

    rank: int
    low: int
    high: int


Placed = OneModelFit | ScaledPlacement
"""A new model's strength with what its rank depends on."""


def rank_of_one(placed: Placed, anchors: Anchors, *, level: float) -> OneRank:
    """The new model's rank among m anchors, with an interval that is true for all comparisons at once.

    An anchor is above or below when the difference exceeds c standard errors of that difference, c = q(m + 1)/√2 of the
    studentized range, as on every board (`ranks`). Comparing one model with m needs less, so c is on the safe side.
    """
    above, below = told_apart(placed, anchors, level=level)
    rank = 1 + int((placed.strength < anchors.strength).sum())
    return OneRank(rank, 1 + int(below.sum()), len(anchors) + 1 - int(above.sum()))


def told_apart(placed: Placed, anchors: Anchors, *, level: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The anchors that the new model is surely above, and those that it is surely below, all at once.

    A model that nothing bounds from below is surely above no model, and the other way round.
    """
    cut = studentized_range_quantile(level, len(anchors) + 1, placed.rank_degrees) / math.sqrt(2.0)
    ahead = placed.strength - anchors.strength
    width = cut * np.sqrt(anchors.difference_variances(placed.own_variance, placed.opponent_share))
    above = (ahead > width) & (placed.reach not in (Reach.WINLESS, Reach.APART))
    below = (-ahead > width) & (placed.reach not in (Reach.UNBEATEN, Reach.APART))
    return above, below
