"""Worlds in which Bradley–Terry does not hold, each in one way, on a schedule that favours some pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tests.records import replace

from oracles.simulation import results, table_of
from tiltyard.analysis.boards import BradleyTerry
from tiltyard.data.battles import BattleTable, Codes
from tiltyard.stats import POINTS_PER_LOGIT


@dataclass(frozen=True)
class MisfitWorld:
    """Battles of models between which something else is at work than strength; sizes in points.

    `cycle` makes each model beat the next of three styles, `drift` is what m00 gains on the way (at once, in the
    middle, with `step`), `slot` what the first side is worth. `ties` is a tie model, or `constant`: as many ties at
    every gap. `prompts` and `voters` have tastes of their own (sd `taste` logits).
    """

    models: int = 10
    battles: int = 5000
    spread: float = 260.0
    cycle: float = 0.0
    drift: float = 0.0
    step: bool = False
    slot: float = 0.0
    ties: str = "davidson"
    tie_parameter: float = math.log(0.35)
    prompts: int = 0
    voters: int = 0
    zipf: float = 0.0
    dominant: float = 0.0
    taste: float = 0.7

    def draw(self, rng: np.random.Generator) -> BattleTable:
        """The battles of one run, with times."""
        m, n = self.models, self.battles
        strength = rng.permutation(np.linspace(-0.5, 0.5, m)) * self.spread
        style = np.arange(m) * 2.0 * np.pi / 3.0
        often = np.triu(np.exp(rng.normal(0.0, 1.0, (m, m))), 1).ravel()
        a, b = np.divmod(rng.choice(m * m, n, p=often / often.sum()), m)
        turned = rng.random(n) < 0.5
        a, b = np.where(turned, b, a), np.where(turned, a, b)
        time = np.linspace(0.0, 1.0, n)
        gained = self.drift * ((time > 0.5) if self.step else time)
        gap = strength[a] - strength[b] + self.cycle * np.sin(style[a] - style[b]) + self.slot
        gap = (gap + gained * ((a == 0) * 1.0 - (b == 0) * 1.0)) / POINTS_PER_LOGIT
        columns: dict[str, object] = {"timestamp": 1.7e9 + 1e6 * time}
        for column, count, share in (("question_id", self.prompts, 0.0), ("voter", self.voters, self.dominant)):
            if count:
                used = np.arange(1, count + 1, dtype=float) ** -self.zipf
                code = rng.choice(count, n, p=used / used.sum())
                code[rng.random(n) < share] = 0
                effect = rng.normal(0.0, self.taste, (count, m))
                gap = gap + effect[code, a] - effect[code, b]
                columns[column] = Codes(code.astype(np.int32), tuple(map(str, range(count))))
        if self.ties == "constant":
            won = rng.random(n) < 1.0 / (1.0 + np.exp(-gap))
            result = np.where(rng.random(n) < self.tie_parameter, 2, np.where(won, 0, 1))
        else:
            result = results(gap, rng, self.ties, self.tie_parameter)
        return replace(table_of(m, a, b, result), columns=columns)


def notes(world: MisfitWorld, runs: int, seed: int, **options: object) -> dict[str, float]:
    """How often a board prints each note, and `any` of them, over independent runs."""
    found = []
    for child in np.random.SeedSequence(seed).spawn(runs):
        board = BradleyTerry(**options).fit(world.draw(np.random.default_rng(child)))
        found.append(board.details.misfit.notes or [])
    names = ("pairs", "ties", "drift", "slot")
    return {name: sum(name in one for one in found) / runs for name in names} | {
        "any": sum(bool(one) for one in found) / runs
    }
