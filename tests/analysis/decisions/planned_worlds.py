"""Worlds for plans: a judge asked in both orders over prompts that like some models more, and how often a goal is met.

Nothing here knows how a plan is reckoned: verdicts are drawn, settled, rated and held against the rule of `gate` or
`compare`, as a user's would be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from tests.records import replace

from oracles.simulation import LOG_NU, outcome_chances, population_strengths, results, table_of
from tiltyard.analysis.boards import BradleyTerry
from tiltyard.analysis.decisions import Goal
from tiltyard.analysis.decisions.contrast import contrast
from tiltyard.analysis.decisions.gate import decide
from tiltyard.analysis.decisions.missing import Cases
from tiltyard.data.battles import BattleTable
from tiltyard.errors import TiltyardError
from tiltyard.stats import POINTS_PER_LOGIT


@dataclass(frozen=True)
class PlannedWorld:
    """Models on prompts; m00 is `points` above m01 on the board, the others are in the middle.

    With chance `flips` a judgment's second order contradicts the first, and the judgment is a tie.
    """

    points: float
    spread: float = 1.0
    flips: float = 0.0
    repeats: int = 1
    models: int = 2

    @property
    def tie_rate(self) -> float:
        """The share of ties between equals that both orders agree on."""
        node, weight = np.polynomial.hermite_e.hermegauss(60)
        tied = outcome_chances(math.sqrt(2.0) * self.spread * node)[:, 2]
        return float(tied @ weight / weight.sum()) * (1.0 - self.flips)

    def draw(self, prompts: int, rng: np.random.Generator) -> BattleTable:
        """The battles of one run: every pair on every prompt, as often as it is repeated."""
        half = 0.5 * _true_gap(self.points, self.spread, self.models)
        strengths = np.zeros(self.models)
        strengths[:2] = half, -half
        first, second = np.triu_indices(self.models, 1)
        first, second = np.tile(first, self.repeats), np.tile(second, self.repeats)
        on_prompt = strengths + rng.normal(0.0, self.spread, (prompts, self.models))
        result = results((on_prompt[:, first] - on_prompt[:, second]).ravel(), rng, parameter=LOG_NU)
        result[rng.random(len(result)) < self.flips] = 2
        a, b = np.tile(first, prompts), np.tile(second, prompts)
        table = table_of(self.models, a, b, result, np.repeat(np.arange(prompts), len(first)))
        return replace(table, source=np.zeros(len(a), dtype=np.int8))  # settled judgments: no side was shown first


@cache
def _true_gap(points: float, spread: float, models: int) -> float:
    """The gap on a prompt of the middle kind that a fit finds as so many points."""
    low, high = 0.0, 20.0
    while high - low > 1e-7:
        middle = 0.5 * (low + high)
        strengths = np.zeros(models)
        strengths[:2] = 0.5 * middle, -0.5 * middle
        found = population_strengths(strengths, spread)
        low, high = (low, middle) if POINTS_PER_LOGIT * (found[0] - found[1]) >= points else (middle, high)
    return 0.5 * (low + high)


def measured_power(world: PlannedWorld, goal: Goal, prompts: int, runs: int, seed: int) -> float:
    """How often the goal is met."""
    estimator = BradleyTerry(misfit=False)
    met = 0
    for child in np.random.SeedSequence(seed).spawn(runs):
        try:
            found = contrast(estimator.solve(world.draw(prompts, np.random.default_rng(child))), "m00", "m01")
        except TiltyardError:
            continue
        if goal.margin is None:
            low, _ = found.ends(goal.level, anytime=goal.anytime)
            met += low is not None and low > 0.0
        else:
            met += decide(Cases.of(found, anytime=goal.anytime), goal.margin, goal.alpha)[0] in ("better", "not_worse")
    return met / runs
