"""A judge's scale against people's: how far its verdicts stretch strengths, and how far it strays from them.

People's strengths θ come from their own battles. On battles that people decided the judge is heard too, and its
verdicts are explained by

    logit P(the model shown first wins) = β (θ_first − θ_second) + γ + δ_first − δ_second,    δ ~ N(0, τ²):

β is how sharply the judge tells models apart (2: twice the logits people show), γ what it gives the first slot, and δ
its idiosyncrasies: a liking for, or against, one model on every prompt, which no number of verdicts averages away. A
new model's verdicts then place it at t with β̂ (t − θ̂_j) + γ̂ slot, and

    Var(t) = V_cluster + (τ̂/β̂)² (1 + Σ w_j²) + ((t − θ̄_w)/β̂)² Var(β̂) + Σ w_i w_j Cov(θ̂_i, θ̂_j),

w_j being opponent j's share in the information and θ̄_w = Σ w_j θ̂_j. Sampling error alone, the first term, covers a
model's standing with people about half the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.errors import NotConverged, RatingError
from tiltyard.ratings.bradley_terry import MAX_STEPS, STEP_TOLERANCE
from tiltyard.ratings.comparisons import TIED, Floats, Ints, sum_by
from tiltyard.ratings.one_model import Anchors, OneModelFit, OneModelRows, bounds, fit_one
from tiltyard.ratings.quantiles import normal_quantile, t_quantile
from tiltyard.ratings.tie_models import HALF, log_sigmoid, sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tiltyard.ratings.graph import Reach

ENOUGH_BATTLES = 300
ENOUGH_MODELS = 15
ENOUGH_OPPONENTS = 10
"""Below these a calibration still gives numbers, but their coverage was not established: it warns."""

TOLD_FROM_ZERO = 0.95
"""The judge follows people when the interval of its slope at this level is above 0."""


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationVerdicts:
    """A judge's readable verdicts on battles that people decided, one row per verdict, as the judge was shown it.

    `shown_first` and `shown_second` are model numbers; `share` is what the model shown first won: 1, 0, ½ for a tie, or
    a soft score. `weight` is ½ where both orders of the battle were heard, 1 where one was. `battle` names the battle;
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
class NewModelVerdicts:
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


@dataclass(frozen=True, slots=True, eq=False)
class JudgeScale:
    """What a calibration found: the judge's `slope` β̂, `slot` γ̂ and `tau` τ̂, in the judge's logits.

    `slope_variance` and `slot_variance` count the chance of the verdicts, by cluster, and the idiosyncrasies.
    `idiosyncrasy` holds every model's δ̂, shrunk by how much was heard of it; NaN for models not heard.
    """

    slope: float
    slope_variance: float
    slot: float
    slot_variance: float
    tau: float
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
        """The interval of the slope."""
        half = float(t_quantile(level, np.array([self.degrees]))[0]) * math.sqrt(self.slope_variance)
        return self.slope - half, self.slope + half


@dataclass(frozen=True, slots=True)
class PlacementVariance:
    """The four parts of Var(t), in people's logits²; `total` is their sum."""

    sampling: float
    idiosyncrasy: float
    slope: float
    anchors: float

    @property
    def total(self) -> float:
        """Var(t)."""
        return self.sampling + self.idiosyncrasy + self.slope + self.anchors


@dataclass(frozen=True, slots=True, eq=False)
class ScaledPlacement:
    """Where the new model stands on people's scale, in their logits, as far as this judge can tell."""

    strength: float
    variance: PlacementVariance
    degrees: float
    judged: OneModelFit
    warnings: tuple[str, ...]

    @property
    def reach(self) -> Reach:
        """Whether its verdicts bound it on both sides."""
        return self.judged.reach

    @property
    def opponent_share(self) -> Floats:
        """Each opponent's share w_j in the information."""
        return self.judged.opponent_share

    @property
    def own_variance(self) -> float:
        """The variance if people's strengths were exact."""
        return self.variance.total - self.variance.anchors

    @property
    def rank_degrees(self) -> float:
        """Degrees of freedom for comparing with all anchors at once."""
        return self.degrees

    def interval(self, level: float, *, critical: float | None = None) -> tuple[float | None, float | None]:
        """The interval of the strength, None on a side that nothing bounds; `critical` replaces Student's quantile."""
        cut = float(t_quantile(level, np.array([self.degrees]))[0]) if critical is None else critical
        return bounds(self.strength, cut * math.sqrt(self.variance.total), self.reach)


def calibrate(strength: Floats, verdicts: CalibrationVerdicts) -> JudgeScale:
    """The judge's scale, from its verdicts on battles between models whose strengths with people are known.

    Refuses a judge that does not follow people, and verdicts from which no finite slope follows.
    """
    _check_calibration(strength, verdicts)
    line = _fit_line(strength, verdicts)
    residual = _Residuals.of(line, verdicts, len(strength))
    tau2 = residual.tau_squared()
    variance = residual.line_variance(tau2)
    met = np.flatnonzero(residual.heard)
    n_battles = len(np.unique(verdicts.battle))
    scale = JudgeScale(
        slope=float(line.point[0]),
        slope_variance=float(variance[0, 0]),
        slot=float(line.point[1]),
        slot_variance=float(variance[1, 1]),
        tau=math.sqrt(tau2),
        idiosyncrasy=residual.idiosyncrasies(tau2),
        n_verdicts=len(verdicts),
        n_battles=n_battles,
        n_models=len(met),
        degrees=max(len(met) - 2.0, 1.0),
        warnings=_scale_warnings(n_battles, len(met)),
    )
    low, high = scale.slope_interval(TOLD_FROM_ZERO)
    if low <= 0.0:
        raise RatingError(
            f"this judge does not follow people: on {n_battles:,} battles its slope against people's ratings is "
            f"{scale.slope:.2f} ({low:.2f} to {high:.2f}), not above 0. Calibrate on more battles, or ask another judge."
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
    judged = fit_one(scale.slope * anchors.strength, rows, HALF)
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
    short = met < ENOUGH_OPPONENTS
    warnings = (f"{met} opponents met; at least {ENOUGH_OPPONENTS} are needed for a dependable interval",) * short
    return ScaledPlacement(strength, variance, _satterthwaite(scale, judged, variance), judged, warnings)


def _satterthwaite(scale: JudgeScale, judged: OneModelFit, variance: PlacementVariance) -> float:
    """Degrees of freedom of a sum of variances, each estimated with its own (Satterthwaite 1946).

    τ̂ and the slope are read off as many models as were heard; people's strengths are taken as well known.
    """
    own = variance.sampling**2 / judged.degrees
    shared = (variance.idiosyncrasy + variance.slope) ** 2 / scale.degrees
    return variance.total**2 / (own + shared)


def _scale_warnings(n_battles: int, n_models: int) -> tuple[str, ...]:
    """What a reader should know before trusting the calibration."""
    said = []
    if n_battles < ENOUGH_BATTLES:
        said.append(
            f"calibrated on {n_battles:,} battles; at least {ENOUGH_BATTLES} are needed for dependable intervals"
        )
    if n_models < ENOUGH_MODELS:
        said.append(f"calibrated on {n_models} models; at least {ENOUGH_MODELS} are needed for dependable intervals")
    return tuple(said)


def _check_calibration(strength: Floats, verdicts: CalibrationVerdicts) -> None:
    """Refuse verdicts that no finite slope and slot explain best: those that one threshold of the gap separates."""
    if not len(verdicts):
        raise RatingError("no calibration verdict could be read: check the judge's replies, or leave calibration out.")
    gap = strength[verdicts.shown_first] - strength[verdicts.shown_second]
    won, lost = gap[verdicts.share > 0.0], gap[verdicts.share < 1.0]
    if not len(won) or not len(lost):
        raise RatingError(
            f"all {len(verdicts):,} calibration verdicts went to the same slot: "
            "this judge tells models apart by where they stand. Ask another judge."
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


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """The fitted slope and slot, with every verdict's design row, weighted residual and information."""

    point: Floats
    design: Floats
    residual: Floats
    information: Floats

    @property
    def bend(self) -> Floats:
        """H = Xᵀ diag(information) X."""
        return np.asarray(self.design.T @ (self.information[:, None] * self.design))


def _fit_line(strength: Floats, verdicts: CalibrationVerdicts) -> _Line:
    """The maximum-likelihood slope and slot, by Newton's method with halved steps."""
    gap = strength[verdicts.shown_first] - strength[verdicts.shown_second]
    design = np.column_stack([gap, np.ones(len(gap))])
    line, value = _line_at(np.zeros(2), design, verdicts)
    for _ in range(MAX_STEPS):
        step = np.linalg.solve(line.bend, design.T @ line.residual)
        for halvings in range(50):
            there, value_there = _line_at(line.point + 0.5**halvings * step, design, verdicts)
            if value_there >= value - 1e-12 * (1.0 + abs(value)):
                line, value = there, value_there
                break
        if float(np.abs(step).max()) < STEP_TOLERANCE:
            return line
    raise NotConverged("the judge's slope did not converge: calibrate on more battles.")


def _line_at(point: Floats, design: Floats, verdicts: CalibrationVerdicts) -> tuple[_Line, float]:
    log_odds = design @ point
    chance = sigmoid(log_odds)
    value = verdicts.weight @ (verdicts.share * log_sigmoid(log_odds) + (1.0 - verdicts.share) * log_sigmoid(-log_odds))
    residual = verdicts.weight * (verdicts.share - chance)
    return _Line(point, design, residual, verdicts.weight * chance * (1.0 - chance)), float(value)


@dataclass(frozen=True, slots=True, eq=False)
class _Residuals:
    """What the line leaves unexplained, summed by model and by cluster.

    With B the signed incidence of verdicts and models (+1 shown first, −1 shown second), `sums` is U = Bᵀ r,
    `coupling` L = Bᵀ diag(information) B, `onto_line` G = Bᵀ diag(information) X. A model's idiosyncrasy δ moves U by
    (L − G H⁻¹ Gᵀ) δ: the second part is what slope and slot take up.
    """

    line: _Line
    sums: Floats
    coupling: Floats
    onto_line: Floats
    noise: Floats
    line_noise: Floats
    own_coupling: float
    clusters: int

    @classmethod
    def of(cls, line: _Line, verdicts: CalibrationVerdicts, n_models: int) -> _Residuals:
        """Sum the residuals of a fitted line."""
        first, second, m = verdicts.shown_first, verdicts.shown_second, n_models
        off = sum_by(first * m + second, line.information, m * m).reshape(m, m)
        off += off.T
        named = verdicts.battle if verdicts.cluster is None else verdicts.cluster
        names, cluster = np.unique(named, return_inverse=True)
        p = len(names)
        by_cluster = (
            sum_by(cluster * m + first, line.residual, p * m) - sum_by(cluster * m + second, line.residual, p * m)
        ).reshape(p, m)
        onto_line = np.column_stack(
            [
                sum_by(first, line.information * column, m) - sum_by(second, line.information * column, m)
                for column in line.design.T
            ]
        )
        line_noise = np.column_stack([sum_by(cluster, line.residual * column, p) for column in line.design.T])
        noise = by_cluster - line_noise @ np.linalg.solve(line.bend, onto_line.T)
        return cls(line, by_cluster.sum(axis=0), np.diag(off.sum(axis=1)) - off, onto_line, noise, line_noise, 0.0, p)

    @property
    def heard(self) -> NDArray[np.bool_]:
        return np.asarray(np.diag(self.coupling) > 0.0)

    def tau_squared(self) -> float:
        left = self.coupling - self.onto_line @ np.linalg.solve(self.line.bend, self.onto_line.T)
        return max(
            0.0, float((self.sums @ self.sums - (self.noise**2).sum()) / (np.trace(left @ left) - self.own_coupling))
        )

    def line_variance(self, tau2: float) -> Floats:
        inverse = np.linalg.inv(self.line.bend)
        middle = self.line_noise.T @ self.line_noise * (self.clusters / max(self.clusters - 1.0, 1.0))
        return np.asarray(inverse @ (middle + tau2 * self.onto_line.T @ self.onto_line) @ inverse)

    def idiosyncrasies(self, tau2: float) -> Floats:
        found = np.full(len(self.sums), np.nan)
        found[self.heard] = 0.0
        if tau2 > 0.0:
            best = np.linalg.solve(self.coupling + np.eye(len(self.sums)) / tau2, self.sums)
            found[self.heard] = best[self.heard]
        return found
