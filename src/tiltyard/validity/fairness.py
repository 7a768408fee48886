"""Whether everybody gets an equal chance: exposure over a window, sides, and lanes.

The policy asks for an exposure of 2W/M per model, ± 12 %. Above 28 models that cannot hold for everyone: the contender
lane alone shows each contender more often. `exposure_targets` says what can hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

THREE_SIGMA = 3.0
CHANCE_BEYOND_THREE_SIGMA = 0.0026997960632601866


def exposure_targets(
    n_models: int, n_contenders: int, window: int, contender_share: float, challenger_share: float = 0.1
) -> tuple[float, float]:
    """Exposures that a contender and any other model should have in a window of so many matchups.

    A contender's is 2W/M, or what the contender lane alone gives it where that is more: the lane serves
    `contender_share` of all matchups, and of its two places `challenger_share` of one go to models outside the band, so
    each of K contenders has `contender_share`·(2 − `challenger_share`)/K·W. The others share what is left evenly. With
    the policy's numbers (0.3, 0.1, K = 8) the lane gives 0.07125·W; at 38 models the others have 0.0477·W, against an
    even share of 0.0526·W. Pass `contender_share` 0 while the lane is closed. All targets together are 2W.

    Parameters:
        n_models: Models that can be served.
        n_contenders: How many of them are in the contender band.
        window: Matchups of the window.
        contender_share: Share of all matchups that the contender lane serves.
        challenger_share: Share of a contender's meetings that are with challengers.
    """
    if n_models == 0:
        return 0.0, 0.0
    even = 2.0 * window / n_models
    contenders = min(n_contenders, n_models)
    others = n_models - contenders
    if not contenders or not others:
        return even, even
    by_lane = contender_share * (2.0 - challenger_share) / contenders * window
    contender_target = max(even, by_lane)
    return contender_target, (2.0 * window - contenders * contender_target) / others


@dataclass(frozen=True, slots=True, eq=False)
class ExposureFairness:
    """Each model's exposures in the window against its target, which is 0 for a model that cannot be served."""

    matchups: int
    exposures: Ints
    targets: Floats
    even_target: float
    """2W/M, the policy's own target; `targets` differ from it where that one cannot hold."""
    tolerance: float

    @property
    def off(self) -> Floats:
        """How far each model is from its target, as a share of it; NaN without one."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(self.targets > 0.0, self.exposures / self.targets - 1.0, np.nan))

    @property
    def within(self) -> Bools:
        """Which models are in tolerance of their target; one without a target is not."""
        return np.asarray(np.abs(self.off) <= self.tolerance + 1e-12)

    @property
    def looked_at(self) -> int:
        """How many models have a target."""
        return int((self.targets > 0.0).sum())

    @property
    def targets_differ(self) -> bool:
        """Whether the target that can hold is another than 2W/M."""
        aimed = self.targets[self.targets > 0.0]
        return bool(np.any(np.abs(aimed - self.even_target) > 1e-9 * max(self.even_target, 1.0)))


def exposure_fairness(
    exposures: Ints,
    contender: Bools,
    servable: Bools,
    matchups: int,
    *,
    tolerance: float,
    contender_share: float,
    challenger_share: float,
) -> ExposureFairness:
    """Exposures of models in a window of so many served matchups, against what each should have.

    Models that cannot be served (no answer to any prompt) have no claim, and the others share theirs.
    """
    n_models, band = int(servable.sum()), int((contender & servable).sum())
    top, other = exposure_targets(n_models, band, matchups, contender_share, challenger_share)
    even = 2.0 * matchups / n_models if n_models else 0.0
    targets = np.where(servable, np.where(contender, top, other), 0.0)
    return ExposureFairness(matchups, exposures, targets, even, tolerance)


@dataclass(frozen=True, slots=True, eq=False)
class SideBalance:
    """How far sides are from 50/50.

    `first_named_as_a` of `matchups` had the model with the smaller number on side A: one fair coin per matchup, so
    `sigmas` is its distance from half in standard errors. `model_sigmas` is the same for every model's own matchups.
    """

    matchups: int
    first_named_as_a: int
    model_sigmas: Floats

    @property
    def share(self) -> float | None:
        """The share of matchups with the first-named model on side A; None where nothing was served."""
        return self.first_named_as_a / self.matchups if self.matchups else None

    @property
    def sigmas(self) -> float:
        """Distance from half in standard errors; 0 where nothing was served."""
        return (2 * self.first_named_as_a - self.matchups) / math.sqrt(self.matchups) if self.matchups else 0.0

    @property
    def limit(self) -> float:
        """What no model should exceed: as rare over all models together as 3 standard errors are for one coin."""
        from scipy.special import ndtri

        tests = max(len(self.model_sigmas), 1)
        return float(-ndtri(0.5 * (1.0 - (1.0 - CHANCE_BEYOND_THREE_SIGMA) ** (1.0 / tests))))

    @property
    def off_balance(self) -> list[int]:
        """Models whose sides are further from half than chance allows."""
        return np.flatnonzero(np.abs(self.model_sigmas) > self.limit).tolist()

    @property
    def fair(self) -> bool:
        """Whether all sides are within what chance allows."""
        return abs(self.sigmas) <= THREE_SIGMA and not self.off_balance


def side_balance(model_a: Ints, model_b: Ints, shown: Ints, shown_as_a: Ints) -> SideBalance:
    """Balance of sides over served matchups (model numbers by side) and over each model's exposures."""
    with np.errstate(invalid="ignore", divide="ignore"):
        sigmas = np.where(shown > 0, (2.0 * shown_as_a - shown) / np.sqrt(shown), 0.0)
    return SideBalance(len(model_a), int((model_a < model_b).sum()), sigmas)


@dataclass(frozen=True, slots=True)
class LaneShare:
    """How often a lane served, against how often it is asked first; `sigmas` is the distance in standard errors."""

    lane: str
    served: int
    share: float
    weight: float
    sigmas: float


def lane_shares(served: Mapping[str, int], weights: Sequence[tuple[str, float]]) -> list[LaneShare]:
    """Shares of the lanes among the matchups that lanes served, in the order of `weights`.

    A lane that could not serve falls through to another one, so shares differ from weights while lanes are closed.
    """
    total = sum(served.get(lane, 0) for lane, _ in weights)
    rows = []
    for lane, weight in weights:
        number = served.get(lane, 0)
        error = math.sqrt(total * weight * (1.0 - weight))
        sigmas = (number - total * weight) / error if error else 0.0
        rows.append(LaneShare(lane, number, number / total if total else 0.0, weight, sigmas))
    return rows
