"""What grades gain, in simulated worlds: prompts' worth of plain verdicts that a prompt with grades replaces.

Figures of the manual (`docs/methods-in-full.md`, "Graded verdicts"):
`python -m tests.judge.verdicts.test_graded_worlds`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.records import replace
from tiltyard.analysis.boards import BradleyTerry
from tiltyard.data.battles import BattleTable, Codes, Outcome, Source

Floats = NDArray[np.float64]
SKILLS = np.array([0.6, 0.35, 0.1, -0.1, -0.35, -0.6])
PAIRS = np.array(list(combinations(range(len(SKILLS)), 2)))
STEPS = {(1, 2): 1.0, (1, 1): 0.75, (0, 0): 0.5, (-1, 1): 0.25, (-1, 2): 0.0}


@dataclass(frozen=True)
class GradedWorld:
    """How a judge sees margins. All sizes are in units of its noise on one reading."""

    tie: float = 0.4
    """Margins below it are a tie."""
    strong: float = 1.6
    """Margins above it are much better."""
    taste: float = 0.7
    """Spread of an entrant's form over prompts: what both orders share."""
    place: float = 0.0
    """What the first place is worth."""
    random_strength: bool = False
    """Whether "much better" is said at random."""
    moods: float = 0.0
    """Spread, over prompts, of the logarithm of where "much better" begins."""


WORLDS = {
    "strength follows the margin": GradedWorld(),
    "strength follows the margin, hard prompts": GradedWorld(taste=1.5, tie=0.8, strong=2.5),
    "strength follows the margin, by the prompt's mood": GradedWorld(moods=0.7),
    "strength follows the margin, the first place is worth 0.8": GradedWorld(place=0.8),
    "nearly everything is much better": GradedWorld(strong=0.6),
    "strength is said at random": GradedWorld(random_strength=True),
}


def readings(world: GradedWorld, prompts: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Winner (1, 0, −1) and score of every pair on every prompt; an inconsistent pair is a tie of ½."""
    form = SKILLS[:, None] + world.taste * rng.normal(size=(len(SKILLS), prompts))
    margin = form[PAIRS[:, 0]] - form[PAIRS[:, 1]]
    limit = world.strong * np.exp(world.moods * rng.normal(size=prompts))
    sides, scores = [], []
    for place in (world.place, -world.place):
        seen = margin + place + rng.normal(size=margin.shape)
        side = np.where(np.abs(seen) < world.tie, 0, np.sign(seen))
        strong = np.abs(seen) > limit
        if world.random_strength:
            strong = rng.random(seen.shape) < strong.mean()
        sides.append(side)
        scores.append(0.5 + side * np.where(strong, 0.5, 0.25))
    agreed = sides[0] == sides[1]
    return np.where(agreed, sides[0], 0.0), np.where(agreed, (scores[0] + scores[1]) / 2, 0.5)


def table(winner: Floats, score: Floats) -> BattleTable:
    """The battles of a world, with their soft scores."""
    pairs, prompts = winner.shape
    flat, n = winner.ravel(), winner.size
    return BattleTable(
        models=tuple("abcdef"),
        model_a=np.repeat(PAIRS[:, 0], prompts).astype(np.int32),
        model_b=np.repeat(PAIRS[:, 1], prompts).astype(np.int32),
        outcome=np.select([flat > 0, flat < 0], [Outcome.A.code, Outcome.B.code], Outcome.TIE.code).astype(np.int8),
        source=np.full(n, Source.LLM_JUDGE.code, dtype=np.int8),
        weight=np.ones(n),
        score_a=score.ravel(),
        columns={
            "question_id": Codes(np.tile(np.arange(prompts, dtype=np.int32), pairs), [str(p) for p in range(prompts)])
        },
    )


@dataclass(frozen=True)
class Gain:
    """What a way of scoring is worth beside plain winners."""

    efficiency: float
    """Prompts of plain verdicts that one prompt replaces: the ratio of (difference / its spread)², over neighbours."""
    coverage: float
    """Share of 95 % intervals that hold the way's own mean rating."""
    ordered: float
    """Pairs of entrants in the right order, minus the share with plain winners."""


def measure(world: GradedWorld, *, prompts: int = 40, times: int = 300, seed: int = 1) -> dict[str, Gain]:
    """Grades, and strong verdicts counted three times, beside plain winners on the same readings."""
    rng = np.random.default_rng(seed)
    ways: dict[str, list[Floats]] = {"winners": [], "grades": [], "three wins": []}
    ends: dict[str, list[Floats]] = {name: [] for name in ways}
    for _ in range(times):
        winner, score = readings(world, prompts, rng)
        soft = table(winner, score)
        plain = replace(soft, score_a=None)
        weight = np.where(np.isin(score.ravel(), (0.0, 1.0)), 3.0, 1.0)
        for name, battles in (("winners", plain), ("grades", soft), ("three wins", replace(plain, weight=weight))):
            board = BradleyTerry(ties="half").fit(battles)
            by_name = {entry.model: entry for entry in board}
            ways[name].append(np.array([by_name[model].rating for model in "abcdef"]))
            ends[name].append(np.array([(by_name[m].ci_low, by_name[m].ci_high) for m in "abcdef"]))
    plain_power, plain_order = _power(np.array(ways["winners"])), _ordered(np.array(ways["winners"]))
    return {
        name: Gain(
            _power(np.array(ratings)) / plain_power,
            _coverage(np.array(ratings), np.array(ends[name])),
            _ordered(np.array(ratings)) - plain_order,
        )
        for name, ratings in ways.items()
    }


def _power(ratings: Floats) -> float:
    """How many squared standard errors apart neighbours are, on average."""
    gaps = ratings[:, :-1] - ratings[:, 1:]
    return float(np.mean((gaps.mean(axis=0) / gaps.std(axis=0, ddof=1)) ** 2))


def _ordered(ratings: Floats) -> float:
    return float(np.mean(ratings[:, PAIRS[:, 0]] > ratings[:, PAIRS[:, 1]]))


def _coverage(ratings: Floats, ends: Floats) -> float:
    truth = ratings.mean(axis=0)
    return float(np.mean((ends[..., 0] <= truth) & (truth <= ends[..., 1])))


@pytest.mark.soak
def test_grades_gain_where_strength_means_something_and_cost_where_it_does_not() -> None:
    honest = measure(WORLDS["strength follows the margin"])
    noisy = measure(WORLDS["strength is said at random"])
    assert honest["grades"].efficiency > 1.05
    assert noisy["grades"].efficiency < 1.0
    for gains in (honest, noisy):
        assert gains["grades"].efficiency > gains["three wins"].efficiency
        assert gains["grades"].coverage >= 0.94


if __name__ == "__main__":
    for name, world in WORLDS.items():
        gains = measure(world, times=1000)
        shown = "  ".join(
            f"{way}: {gain.efficiency:.2f}, coverage {gain.coverage:.3f}, order {100 * gain.ordered:+.1f}"
            for way, gain in gains.items()
        )
        sys.stdout.write(f"{name}\n  {shown}\n")
