"""Worlds in which battles depend on each other in the ways that real ones do: by prompt, by voter, unevenly.

Every model is better on some prompts, and to some people's taste, than on others. Prompts and voters may be used
equally, by Zipf's law, or with one voter who casts a large part of the votes. The truth is what a fit tends to as
prompts and voters grow in number (`simulation.population_strengths`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.records import replace

from oracles.simulation import arena_battles, population_strengths, results, table_of
from tiltyard.analysis.boards import BradleyTerry
from tiltyard.data.battles import BattleTable, Codes
from tiltyard.stats import POINTS_PER_LOGIT

if TYPE_CHECKING:
    from tiltyard.analysis.boards import Leaderboard

TIE_PARAMETER = math.log(0.35)
"""ν = 0.35: 15 % of the battles of equals are ties."""


@dataclass(frozen=True)
class World:
    """How many battles of whom, on which prompts, by which voters; `taste` and `interaction` are in logits.

    With `zipf` 0 all are used equally. `dominant` is the share of the votes that one voter casts.
    """

    name: str
    models: int = 10
    battles: int = 2000
    prompts: int = 0
    prompt_zipf: float = 0.0
    interaction: float = 1.0
    voters: int = 0
    voter_zipf: float = 0.0
    dominant: float = 0.0
    taste: float = 1.0
    strength_range: float = 1.5
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def strengths(self) -> np.ndarray:
        half = 0.5 * self.strength_range
        return np.linspace(-half, half, self.models)

    def truth(self, ties: str = "davidson") -> np.ndarray:
        """What a fit that reads ties in this way tends to as prompts and voters grow in number."""
        spread = math.hypot(self.interaction if self.prompts else 0.0, self.taste if self.voters else 0.0)
        return population_strengths(self.strengths, spread, ties, TIE_PARAMETER)

    def draw(self, rng: np.random.Generator) -> BattleTable:
        """The battles of one run."""
        a, b = arena_battles(self.strengths, self.battles, rng)
        gap = self.strengths[a] - self.strengths[b]
        columns = {}
        if self.prompts:
            prompt = _used(self.prompts, self.prompt_zipf, self.battles, rng)
            effect = rng.normal(0.0, self.interaction, (self.prompts, self.models))
            gap = gap + effect[prompt, a] - effect[prompt, b]
            columns["question_id"] = _codes(prompt)
        if self.voters:
            voter = _used(self.voters, self.voter_zipf, self.battles, rng)
            voter[rng.random(self.battles) < self.dominant] = 0
            effect = rng.normal(0.0, self.taste, (self.voters, self.models))
            gap = gap + effect[voter, a] - effect[voter, b]
            columns["voter"] = _codes(voter)
        return BattleTable(
            models=tuple(f"m{code:02d}" for code in range(self.models)),
            model_a=a.astype(np.int32),
            model_b=b.astype(np.int32),
            outcome=results(gap, rng, parameter=TIE_PARAMETER).astype(np.int8),
            source=np.ones(self.battles, dtype=np.int8),
            weight=np.ones(self.battles),
            columns=columns,
        )


def _used(n: int, zipf: float, size: int, rng: np.random.Generator) -> np.ndarray:
    share = np.arange(1, n + 1, dtype=float) ** -zipf
    return rng.choice(n, size, p=share / share.sum())


def _codes(values: np.ndarray) -> Codes:
    return Codes(values.astype(np.int32), tuple(str(label) for label in range(int(values.max()) + 1)))


@dataclass(frozen=True)
class Found:
    """What one run's board got right: shares of intervals and of differences, whether all ranks were, mean width."""

    intervals: float
    differences: float
    ranks: bool
    width: float


def check(board: Leaderboard, truth: np.ndarray, *, differences: np.ndarray | None = None) -> Found:
    """Hold a board against the truth. A missing interval counts as covering; it has no width."""
    at = {entry.model: entry for entry in board}
    points = 1000.0 + POINTS_PER_LOGIT * (truth - truth.mean())
    held, widths, ranks = [], [], True
    for code, point in enumerate(points):
        entry = at[f"m{code:02d}"]
        if entry.ci_low is not None and entry.ci_high is not None:
            held.append(entry.ci_low <= point <= entry.ci_high)
            widths.append(entry.ci_high - entry.ci_low)
        best, worst = 1 + (truth > truth[code]).sum(), (truth >= truth[code]).sum()
        ranks &= entry.rank_low <= best and entry.rank_high >= worst
    share = 1.0 if differences is None else float(differences.mean())
    return Found(float(np.mean(held)) if held else 1.0, share, ranks, float(np.mean(widths)) if widths else math.nan)


def differences_held(table: BattleTable, truth: np.ndarray, estimator: BradleyTerry) -> np.ndarray:
    """For every pair whether the interval of its difference (the one with the other as anchor) holds the truth."""
    held = []
    m = len(truth)
    for anchor in range(m):
        board = replace(estimator, anchor=(f"m{anchor:02d}", 0.0)).fit(table)
        for other in range(anchor + 1, m):
            entry = board[f"m{other:02d}"]
            point = POINTS_PER_LOGIT * (truth[other] - truth[anchor])
            if entry.ci_low is not None:
                held.append(entry.ci_low <= point <= entry.ci_high)
    return np.array(held or [True], dtype=float)


def simulate(
    world: World, runs: int, seed: int, *, with_differences: bool = False, **options: Any
) -> tuple[float, float, float, float]:
    """Coverage of intervals, of differences, of all ranks together, and the mean width, over independent runs."""
    truth = world.truth()
    estimator = BradleyTerry(**{"misfit": False, **dict(world.options), **options})
    found = []
    for child in np.random.SeedSequence(seed).spawn(runs):
        table = world.draw(np.random.default_rng(child))
        pairs = differences_held(table, truth, estimator) if with_differences else None
        found.append(check(estimator.fit(table), truth, differences=pairs))
    return (
        float(np.mean([one.intervals for one in found])),
        float(np.mean([one.differences for one in found])),
        float(np.mean([one.ranks for one in found])),
        float(np.nanmean([one.width for one in found])),
    )


def anchored_coverage(runs: int, seed: int) -> float:
    """How often intervals hold the true differences from an anchor that has only 60 of 3,000 battles."""
    strengths = np.linspace(-0.7, 0.7, 8)
    truth = POINTS_PER_LOGIT * (strengths - strengths[3])
    exposure = np.ones(8)
    exposure[3] = 60 / (2 * 3000) * 8
    held = []
    for child in np.random.SeedSequence(seed).spawn(runs):
        rng = np.random.default_rng(child)
        a, b = arena_battles(strengths, 3000, rng, exposure)
        table = table_of(8, a, b, results(strengths[a] - strengths[b], rng))
        board = BradleyTerry(anchor=("m03", 0.0), misfit=False).fit(table)
        held += [
            board[f"m{code:02d}"].ci_low <= truth[code] <= board[f"m{code:02d}"].ci_high
            for code in range(8)
            if code != 3
        ]
    return float(np.mean(held))
