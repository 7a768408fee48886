"""Simulated gates: two models on prompts that like the one or the other, asked once or after every prompt."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from oracles.simulation import results
from tiltyard.analysis.boards import BradleyTerry
from tiltyard.analysis.decisions.contrast import contrast
from tiltyard.analysis.decisions.gate import Decision, decide
from tiltyard.analysis.decisions.missing import Cases
from tiltyard.data.battles import BattleTable, Codes
from tiltyard.errors import BattleError, RatingError
from tiltyard.stats import POINTS_PER_LOGIT

TIE = np.log(0.35)
ESTIMATOR = BradleyTerry(misfit=False)


@dataclass(frozen=True)
class GateWorld:
    """How many prompts, verdicts on each, how much prompts differ (in logits), and how much better the new one is.

    `gap` is in rating points at the average prompt; with `zipf` prompts get unequal numbers of verdicts.
    """

    prompts: int = 30
    verdicts: int = 2
    spread: float = 1.0
    gap: float = 0.0
    zipf: float = 0.0

    def draw(self, rng: np.random.Generator) -> BattleTable:
        """The battles, prompt after prompt."""
        sizes = np.full(self.prompts, self.verdicts)
        if self.zipf:
            use = np.arange(1, self.prompts + 1.0) ** -self.zipf
            sizes = np.maximum(1, np.round(use / use.mean() * self.verdicts)).astype(int)
            rng.shuffle(sizes)
        prompt = np.repeat(np.arange(self.prompts), sizes)
        gap = self.gap / POINTS_PER_LOGIT + rng.normal(0.0, self.spread, self.prompts)[prompt]
        n = len(prompt)
        return BattleTable(
            models=("new", "old"),
            model_a=np.zeros(n, dtype=np.int32),
            model_b=np.ones(n, dtype=np.int32),
            outcome=results(gap, rng, parameter=TIE).astype(np.int8),
            source=np.ones(n, dtype=np.int8),
            weight=np.ones(n),
            columns={"question_id": Codes(prompt.astype(np.int32), tuple(f"q{i}" for i in range(self.prompts)))},
        )


def asked_once(table: BattleTable, margin: float, alpha: float = 0.05, *, anytime: bool = False) -> Decision:
    """The verdict on all battles."""
    try:
        solved = ESTIMATOR.solve(table)
    except (BattleError, RatingError):  # ties alone
        return "unknown"
    return decide(Cases.of(contrast(solved, "new", "old"), anytime=anytime), margin, alpha)[0]


def asked_after_every_prompt(
    table: BattleTable, margin: float, alpha: float = 0.05, *, anytime: bool = True, first: int = 8
) -> tuple[Decision, int]:
    """The first verdict that is not `unknown`, and after how many prompts it came."""
    prompt = table.text_column("question_id").codes
    n = int(prompt.max()) + 1
    for seen in range(first, n + 1):
        found = asked_once(table.take(prompt < seen), margin, alpha, anytime=anytime)
        if found != "unknown":
            return found, seen
    return "unknown", n


def shares(
    world: GateWorld, gates: int, *, margin: float = 0.0, peek: bool = False, anytime: bool = False, seed: int = 0
) -> dict[str, float]:
    """How often each verdict comes out, and the median number of prompts that it took."""
    rng = np.random.default_rng([seed, gates])
    counts: Counter[str] = Counter()
    used = []
    for _ in range(gates):
        table = world.draw(rng)
        if peek:
            found, seen = asked_after_every_prompt(table, margin, anytime=anytime)
        else:
            found, seen = asked_once(table, margin, anytime=anytime), world.prompts
        counts[found] += 1
        used.append(seen)
    names: tuple[Decision, ...] = ("better", "not_worse", "worse", "unknown")
    return {**{name: counts[name] / gates for name in names}, "prompts": float(np.median(used))}
