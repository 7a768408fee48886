"""Is any two models' order ever shown wrongly on an arena's board that is looked at every day?

Arenas with the real lanes: models of equal strength (where every order is a false one) and of different strengths,
voters alike or of different taste and diligence. At every look the votes so far are rated as the site does, with ranges
of ranks for any time and, on the same votes, with ranges for a single look.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.jobs import job
from bench.measure import Task
from tiltyard.arena.policy import IntervalRules
from tiltyard.arena.simulation import MemoryArena, SimulationSettings, simulate
from tiltyard.arena.simulation.population import World
from tiltyard.arena.simulation.published import check_published

TASTES = {"taste_sd": 90.0, "voters": 200}
WORLDS: dict[str, dict[str, Any]] = {
    "8 equal models, voters alike": {"models": 8, "sd": 0.0},
    "8 equal models, tastes, Zipf voters": {"models": 8, "sd": 0.0, "diligence": "zipf", **TASTES},
    "20 models, tastes, lognormal voters": {"models": 20, "sd": 60.0, "diligence": "lognormal", **TASTES},
}
RULES = {"any time": IntervalRules(), "single look": IntervalRules(anytime=False)}


@dataclass(frozen=True)
class Watched:
    """Shares over arenas: a wrong range at some look, at the last look; intervals that contain the truth at the end."""

    ever_wrong: float
    last_wrong: float
    intervals: float
    told_apart: float


@job
def watch(arenas: int, votes: int, looks: int) -> Task:
    """Every world and rule: shares over the arenas."""
    return Task(lambda: {name: watched(settings, arenas, votes, looks) for name, settings in WORLDS.items()}, repeats=1)


def watched(
    options: dict[str, Any], arenas: int, votes: int, looks: int, first: int = 0
) -> dict[str, dict[str, float]]:
    """What somebody sees who looks at arenas of one world again and again."""
    found: dict[str, list[tuple[bool, bool, float, int]]] = {name: [] for name in RULES}
    for seed in range(first, first + arenas):
        settings = SimulationSettings(**options, votes=votes, seed=seed, looks=0, curve_points=0)
        engine = MemoryArena(seed, votes)
        simulate(settings, engine)
        world, votes_cast = drawn_world(settings), engine.votes()
        for name, rules in RULES.items():
            seen = [
                check_published(votes_cast[: votes * look // looks], engine.state.catalog, rules, world, misfit=False)
                for look in range(1, looks + 1)
            ]
            wrong = [check.ranks_hold is False for check in seen]
            found[name].append((any(wrong), wrong[-1], seen[-1].intervals or 0.0, seen[-1].told_apart))
    return {name: asdict(Watched(*map(float, np.mean(rows, axis=0)))) for name, rows in found.items()}


def drawn_world(settings: SimulationSettings) -> World:
    """The world that a simulation draws."""
    kept = ("sd", "tie_rate", "both_bad_rate", "wobble_sd", "taste_sd")
    rng = np.random.default_rng([settings.seed, 0])
    return World.draw(rng, settings.models, settings.prompts, **{name: getattr(settings, name) for name in kept})
