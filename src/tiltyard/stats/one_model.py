"""One new model among models of known strength: its rating, how sure it is, and the places it could hold.

The known models (the *anchors*) stay where people put them; only the new model's strength t is free, and beside it the
tie parameter of whoever decided its battles. That is a Newton iteration in one or two numbers, so a placement can be
looked at after every round for nothing, and adding a model never moves the others.

Written out, t̂ errs in two ways: by the chance of its own battles (`own_variance`, a sandwich as in `intervals`) and by
what the anchors' own errors hand on, Σ_j w_j (θ̂_j − θ_j), where w_j = ∂t̂/∂θ_j is the share of opponent j in the
information. The shares sum to 1: a shift of all anchors shifts t̂ by as much.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import NotConverged, RatingError
from tiltyard.stats.bradley_terry import BradleyTerryFit, border, fit
from tiltyard.stats.comparisons import OWN_CLUSTER, PairCells, sum_by
from tiltyard.stats.graph import Reach
from tiltyard.stats.intervals import FEW
from tiltyard.stats.quantiles import normal_quantile, t_quantile
from tiltyard.stats.tie_models import HALF, TieModel
from tiltyard.types import Floats, Ints


class Anchors(msgspec.Struct, frozen=True, eq=False):
    """Models of known strength, in logits, and the covariance of those strengths (m × m)."""

    strength: Floats
    covariance: Floats

    def __len__(self) -> int:
        return len(self.strength)

    def handed_on(self, opponent_share: Floats) -> float:
        """The variance Σ_ij w_i w_j Cov(θ̂_i, θ̂_j) that a model measured against these anchors inherits."""
        return float(opponent_share @ self.covariance @ opponent_share)

    def difference_variances(self, own_variance: float, opponent_share: Floats) -> Floats:
        """The variance of the new model's strength minus each anchor's: own + (w − e_j)ᵀ C (w − e_j).

        With the covariance known this is exact, not Var(t) + Var(θ_j): what moves an anchor moves the new model too.
        """
        onto = self.covariance @ opponent_share
        inherited = opponent_share @ onto - 2.0 * onto + np.diag(self.covariance)
        return np.asarray(own_variance + np.maximum(inherited, 0.0))


class OneModelRows(msgspec.Struct, frozen=True, eq=False):
    """The new model's battles, one row each, from its point of view.

    `opponent` is the anchor's number; `result` is FIRST_WON where the new model won; `weight` is how many equal battles
    the row stands for; `share` is the part of a soft outcome that the new model won (NaN on ordinary rows). Rows of one
    `cluster` (a prompt; always the two orders of one battle) depend on each other; OWN_CLUSTER depends on nothing.
    `head_start` is what the row gives the new model for reasons other than strength, in logits (its slot).
    """

    opponent: Ints
    result: NDArray[np.int8]
    weight: Floats
    share: Floats | None = None
    cluster: Ints | None = None
    head_start: Floats | None = None

    def __len__(self) -> int:
        return len(self.opponent)

    def counts(self) -> Floats:
        """(won, lost, tied) of every row, its weight included; a soft outcome is divided between the first two."""
        counts = np.zeros((len(self), 3))
        counts[np.arange(len(self)), self.result] = self.weight
        if self.share is not None:
            soft = ~np.isnan(self.share)
            share, weight = self.share[soft], self.weight[soft]
            counts[soft] = np.column_stack([weight * share, weight * (1.0 - share), np.zeros(len(share))])
        return counts


class OneModelFit(msgspec.Struct, frozen=True, eq=False):
    """The new model's strength against fixed anchors, in their logits.

    `sandwich` and `fisher` are two variances of `strength`: over clusters of rows, and if every row were independent
    and the model exact. `information` is what each opponent's battles tell, `opponent_share` each opponent's w_j.
    `tie` is the decider's tie parameter (`tie_model.untied` where no tie was seen).
    """

    strength: float
    tie: float
    tie_model: TieModel
    reach: Reach
    sandwich: float
    fisher: float
    battles: float
    clusters: float
    clustered: bool
    information: Floats
    opponent_share: Floats
    log_likelihood: float

    @property
    def few(self) -> bool:
        """Whether battles or clusters are too few to trust the sandwich alone."""
        return self.battles < FEW or self.clusters < FEW

    @property
    def own_variance(self) -> float:
        """The variance with the anchors exact: the sandwich's, and no less than Fisher's when battles are few."""
        return max(self.sandwich, self.fisher) if self.few else self.sandwich

    @property
    def degrees(self) -> float:
        return max(self.clusters - 1.0, 1.0)

    @property
    def rank_degrees(self) -> float:
        """Degrees of freedom for comparing with all anchors at once: clusters − 1, or infinity row by row."""
        return self.degrees if self.clustered else math.inf

    def interval(self, level: float) -> tuple[float | None, float | None]:
        """The interval of the strength if the anchors are certain, None on a side that nothing bounds."""
        half = quantile(level, self.degrees) * math.sqrt(self.sandwich)
        if self.few:
            half = max(half, normal_quantile(level) * math.sqrt(self.fisher))
        return bounds(self.strength, half, self.reach)


def quantile(level: float, degrees: float) -> float:
    """Standard errors to either side: Student's quantile."""
    return float(t_quantile(level, np.array([degrees]))[0])


def bounds(strength: float, half_width: float, reach: Reach) -> tuple[float | None, float | None]:
    """Strength ± half the width, open (None) on the side that the model's `Reach` leaves open."""
    low = None if reach in (Reach.WINLESS, Reach.APART) else strength - half_width
    high = None if reach in (Reach.UNBEATEN, Reach.APART) else strength + half_width
    return low, high


def fit_one(anchor_strength: Floats, rows: OneModelRows, tie_model: TieModel) -> OneModelFit:
    """The new model's maximum-likelihood strength, the anchors staying where they are.

    A model that never lost (or never won) has no finite best strength. As on every board it then gets half a win and
    half a loss, spread over the opponents it met, its interval stays open on that side and `reach` says so. Where it
    won and tied but never lost (or the reverse) no tie parameter is finite: ties then count half, and `tie_model` of
    the result says so.
    """
    if not len(rows) or not rows.weight.sum() > 0:
        raise RatingError("the new model has no battles to be placed by: judge some first.")
    counts = rows.counts()
    won, lost, tied = counts.sum(axis=0)
    if tie_model.has_parameter and tied > 0 and (won == 0 or lost == 0):
        tie_model = HALF  # ties and the gap would grow without limit
    reach = Reach.UNBEATEN if lost + tied == 0 else Reach.WINLESS if won + tied == 0 else Reach.HELD
    known, opponent = anchor_strength[rows.opponent], rows.opponent
    if rows.head_start is not None:
        known = known - rows.head_start
    if reach is not Reach.HELD:
        half = 0.5 * rows.weight / rows.weight.sum()
        known, opponent = np.tile(known, 2), np.tile(opponent, 2)
        counts = np.concatenate([counts, np.column_stack([half, half, np.zeros_like(half)])])
    middle = float(np.average(known, weights=counts.sum(axis=1)))
    fitted = _fit_against(known - middle, counts, tie_model)
    shape = fitted.curvature()
    inverse = np.linalg.inv(border(fitted.cells, shape, fitted.tied_groups)[fitted.cells.n_models :])
    squares, clusters = _squares(fitted, rows)
    pull = inverse[0, 0] * shape.delta
    if len(fitted.tied_groups):
        pull = pull + inverse[0, 1] * shape.cross
    n_anchors = len(anchor_strength)
    return OneModelFit(
        strength=middle + float(fitted.parameters.coefficient[0]),
        tie=float(fitted.parameters.tie[0]),
        tie_model=tie_model,
        reach=reach,
        sandwich=float((inverse @ squares @ inverse)[0, 0] * clusters / max(clusters - 1.0, 1.0)),
        fisher=float(inverse[0, 0]),
        battles=float(rows.weight.sum()),
        clusters=clusters,
        clustered=rows.cluster is not None,
        information=sum_by(opponent, shape.delta, n_anchors),
        opponent_share=sum_by(opponent, pull, n_anchors),
        log_likelihood=fitted.log_likelihood,
    )


def _fit_against(known: Floats, counts: Floats, tie_model: TieModel) -> BradleyTerryFit:
    """The fit of one new strength, as a coefficient, against known ones: model 0 is at 0, each row has an opponent."""
    n = len(known)
    numbers = np.arange(n + 1)
    cells = PairCells(
        n + 1, np.zeros_like(numbers[1:]), numbers[1:], counts, np.zeros_like(numbers[1:]), 1, np.ones((n, 1))
    )
    try:
        return fit(cells, tie_model, fixed=np.append(0.0, known))
    except NotConverged as error:
        raise NotConverged(
            "the new model's strength did not converge: its battles barely bound it. Judge more battles."
        ) from error


def _squares(fitted: BradleyTerryFit, rows: OneModelRows) -> tuple[Floats, float]:
    """The middle of the sandwich, Σ_p s_p s_pᵀ over clusters of rows, and the number of clusters.

    An independent row counts its weight times its squared score, and so do the cells of the prior.
    """
    cells, point = fitted.cells, fitted.parameters
    table = fitted.tie_model.result_scores(point.delta(cells), point.tie[cells.group])
    tables = [table.delta, table.tie][: 1 + len(fitted.tied_groups)]
    squared = np.array([[(cells.counts * left * right).sum(axis=1) for left in tables] for right in tables])
    n = len(rows)
    row_score = np.column_stack([(cells.counts[:n] * scores[:n]).sum(axis=1) for scores in tables])
    own = np.ones(n, dtype=bool) if rows.cluster is None else rows.cluster == OWN_CLUSTER
    if rows.share is not None:
        soft = ~np.isnan(rows.share)
        squared[:, :, :n][:, :, soft] = np.einsum("nk,nl->kln", row_score, row_score)[:, :, soft] / rows.weight[soft]
    middle = squared[:, :, :n][:, :, own].sum(axis=2) + squared[:, :, n:].sum(axis=2)
    clusters = float(rows.weight[own].sum())
    if rows.cluster is not None and not own.all():
        names, number = np.unique(rows.cluster[~own], return_inverse=True)
        together = np.column_stack([sum_by(number, column, len(names)) for column in row_score[~own].T])
        middle = middle + together.T @ together
        clusters += len(names)
    return middle, clusters
