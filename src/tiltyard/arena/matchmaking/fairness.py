"""Whether everybody gets an equal chance: exposure over a window, sides, and lanes.

The policy asks for an exposure of 2W/M per model, ± 12 %. With many models that cannot hold for everyone: the contender
lane alone shows contenders more often, which other lanes cannot take back. `exposure_targets` says what can hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tiltyard.types import Bools, Floats, Ints

THREE_SIGMA = 3.0
CHANCE_BEYOND_THREE_SIGMA = 0.0026997960632601866


def exposure_targets(by_contender_lane: Ints, matchups: int) -> Floats:
    """Exposures that each model should have in a window of so many matchups, together twice as many.

    A model's target is an even share, or what the contender lane alone gave it where that is more; the others share the
    rest evenly. So the even share is at most 2W/M. With the policy's numbers the lane gives each of 8 contenders about
    0.07·W, and at 38 models the others have about 0.048·W each, against 2W/M = 0.0526·W.

    Parameters:
        by_contender_lane: Exposures of each model in the window that the contender lane chose.
        matchups: Matchups of the window.
    """
    total, above = 2.0 * matchups, 0
    even = total / max(len(by_contender_lane), 1)
    while True:
        more = by_contender_lane > even
        count = int(np.count_nonzero(more))
        if count == above:
            return np.asarray(np.maximum(by_contender_lane, even))
        above = count
        even = (total - float(by_contender_lane[more].sum())) / (len(by_contender_lane) - above)


class ExposureFairness(msgspec.Struct, frozen=True, eq=False):
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
    def within_even(self) -> Bools:
        """Which models with a target are in tolerance of 2W/M, as the policy has it."""
        off = np.abs(self.exposures - self.even_target)
        return np.asarray((self.targets > 0.0) & (off <= (self.tolerance + 1e-12) * self.even_target))

    @property
    def looked_at(self) -> int:
        return int((self.targets > 0.0).sum())

    @property
    def targets_differ(self) -> bool:
        """Whether the target that can hold is another than 2W/M."""
        aimed = self.targets[self.targets > 0.0]
        return bool(np.any(np.abs(aimed - self.even_target) > 1e-9 * max(self.even_target, 1.0)))


def exposure_fairness(
    exposures: Ints, by_contender_lane: Ints, servable: Bools, matchups: int, *, tolerance: float
) -> ExposureFairness:
    """Exposures of models in a window of so many served matchups, against what each should have.

    Models that cannot be served (no answer to any prompt) have no claim, and the others share theirs.
    """
    n_models = int(servable.sum())
    even = 2.0 * matchups / n_models if n_models else 0.0
    targets = np.zeros(len(exposures))
    targets[servable] = exposure_targets(by_contender_lane[servable], matchups)
    return ExposureFairness(matchups, exposures, targets, even, tolerance)


class SideBalance(msgspec.Struct, frozen=True, eq=False):
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
        return abs(self.sigmas) <= THREE_SIGMA and not self.off_balance


def side_balance(model_a: Ints, model_b: Ints, shown: Ints, shown_as_a: Ints) -> SideBalance:
    """Balance of sides over served matchups (model numbers by side) and over each model's exposures."""
    with np.errstate(invalid="ignore", divide="ignore"):
        sigmas = np.where(shown > 0, (2.0 * shown_as_a - shown) / np.sqrt(shown), 0.0)
    return SideBalance(len(model_a), int((model_a < model_b).sum()), sigmas)


class LaneShare(msgspec.Struct, frozen=True):
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
