"""Do 95 % intervals contain the truth 95 % of the time? Counted in simulated worlds with known truth.

Two worlds. An arena: 30 models met with power-law frequencies, every battle on a different prompt, Davidson ties. A
tournament: 12 entrants meet, all pairs, on the same prompts, and every entrant is better on some prompts than on
others, so battles of one prompt depend on each other. There the truth is what a fit of very many prompts converges to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.data import World, names_of
from bench.jobs import job
from bench.measure import Task

ARENA_MODELS, ARENA_BATTLES = 30, 6_000
ENTRANTS, PROMPTS, PROMPTS_FOR_TRUTH, PROMPT_SPREAD = 12, 60, 20_000, 0.8
ROUNDS = 400
LEVEL = 0.95


@job
def simulate(simulations: int) -> Task:
    """Coverage of every kind of interval in both worlds."""
    return Task(lambda: arena(simulations) | tournament(simulations), repeats=1)


def arena(simulations: int) -> dict[str, list[float]]:
    """Coverage by interval kind: [of single models, of the rarest model, of all ranks at once]."""
    rng = np.random.default_rng(7)
    hits: dict[str, list[tuple[float, float, float]]] = {}
    for _ in range(simulations):
        world = World.of(ARENA_MODELS, rng)
        a, b = world.pairs(ARENA_BATTLES, rng)
        table = _table(ARENA_MODELS, a, b, world.results(world.truth[a] - world.truth[b], rng))
        rare = int(np.argmin(world.exposure))
        for kind, options in (("sandwich", {}), ("bootstrap", {"rounds": ROUNDS})):
            found = _hits(table, world.truth, rare, ci=kind, **options)
            hits.setdefault(f"arena, {kind}", []).append(found)
    return {kind: np.mean(found, axis=0).tolist() for kind, found in hits.items()}


def tournament(simulations: int) -> dict[str, list[float]]:
    """The same where battles share prompts: clustered by prompt, and for comparison as if they did not."""
    rng = np.random.default_rng(8)
    strengths = rng.normal(0.0, 0.8, ENTRANTS)
    truth = _converged(strengths, rng)
    hits: dict[str, list[tuple[float, float, float]]] = {}
    ways = {
        "tournament, sandwich": {"ci": "sandwich"},
        "tournament, bootstrap": {"ci": "bootstrap", "rounds": ROUNDS},
        "tournament, prompts ignored": {"ci": "sandwich", "cluster": "none"},
    }
    for _ in range(simulations):
        table = _table(ENTRANTS, *_round_robin(strengths, PROMPTS, rng))
        for kind, options in ways.items():
            hits.setdefault(kind, []).append(_hits(table, truth, 0, **options))
    return {kind: np.mean(found, axis=0).tolist() for kind, found in hits.items()}


def _round_robin(strengths: np.ndarray, prompts: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Every pair on every prompt: codes, results, prompt numbers."""
    first, second = np.triu_indices(len(strengths), 1)
    on_prompt = strengths + rng.normal(0.0, PROMPT_SPREAD, (prompts, len(strengths)))
    world = World(strengths, np.full(len(strengths), 1.0 / len(strengths)), 0.5)
    result = world.results((on_prompt[:, first] - on_prompt[:, second]).ravel(), rng)
    return np.tile(first, prompts), np.tile(second, prompts), result, np.repeat(np.arange(prompts), len(first))


def _converged(strengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What the fit converges to as prompts grow in number: not `strengths`, since prompt effects pull logits
    together."""
    import tiltyard

    a, b, result, _ = _round_robin(strengths, PROMPTS_FOR_TRUTH, rng)
    board = tiltyard.rate(_table(ENTRANTS, a, b, result), ci="none")
    return np.array([(board[name].rating - 1000.0) / board.settings["scale"] for name in _names(ENTRANTS)])


def _names(n_models: int) -> list[str]:
    return sorted(names_of(n_models).tolist())


def _table(n_models: int, a: np.ndarray, b: np.ndarray, result: np.ndarray, prompt: np.ndarray | None = None) -> Any:
    from tiltyard.battles.table import BattleTable, Codes

    columns = {}
    if prompt is not None:
        columns["question_id"] = Codes(prompt.astype(np.int32), [str(p) for p in range(int(prompt.max()) + 1)])
    return BattleTable(
        models=tuple(_names(n_models)),
        model_a=a.astype(np.int32),
        model_b=b.astype(np.int32),
        outcome=result.astype(np.int8),
        source=np.ones(len(a), dtype=np.int8),
        weight=np.ones(len(a)),
        columns=columns,
    )


def _hits(table: Any, truth: np.ndarray, rare: int, **options: Any) -> tuple[float, float, float]:
    """The share of models inside their intervals, whether the rare one is, and whether all true ranks are inside."""
    import tiltyard

    board = tiltyard.rate(table, level=LEVEL, **options)
    places = np.empty(len(truth))
    places[np.argsort(-truth)] = np.arange(1, len(truth) + 1)
    points = 1000.0 + board.settings["scale"] * (truth - truth.mean())
    entries = [board[name] for name in table.models]
    low = np.array([-np.inf if e.ci_low is None else e.ci_low for e in entries])
    high = np.array([np.inf if e.ci_high is None else e.ci_high for e in entries])
    inside = (low <= points) & (points <= high)
    ranked = all(e.rank_low <= place <= e.rank_high for e, place in zip(entries, places, strict=True))
    return float(inside.mean()), float(inside[rare]), float(ranked)
