"""Do 95 % intervals contain the truth 95 % of the time? Counted in simulated worlds with known truth.

In `against_peers` the worlds are those of the tests (`tests/oracles/worlds.py`), and arena-rank's closed-form intervals
and FastChat's bootstrap are counted beside ours, each against what its own way to read ties tends to.

`simulate` has two more worlds. An arena: 30 models met with power-law frequencies, every battle on a different prompt,
Davidson ties. A tournament: 12 entrants meet, all pairs, on the same prompts, and every entrant is better on some
prompts than on others, so battles of one prompt depend on each other. There the truth is what a fit of very many
prompts converges to.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.data import World, names_of
from bench.jobs import job
from bench.measure import ROOT, Task

if TYPE_CHECKING:
    from collections.abc import Callable

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


# --- The worlds of the tests, with peers beside us ------------------------------------------------------------------

PEER_ROUNDS = 100
"""FastChat's bootstrap rounds by default."""


def worlds() -> list[Any]:
    """Independent battles, prompts and voters used equally and unevenly."""
    from oracles.worlds import World as DependentWorld

    return [
        DependentWorld("independent battles", battles=1500),
        DependentWorld("20 prompts, used equally", battles=1500, prompts=20, interaction=1.5),
        DependentWorld("50 prompts, Zipf 1", battles=1500, prompts=50, prompt_zipf=1.0, interaction=1.5),
        DependentWorld("200 prompts, Zipf 1.5", battles=1500, prompts=200, prompt_zipf=1.5, interaction=1.5),
        DependentWorld("100 voters with tastes", battles=1500, voters=100),
        DependentWorld("6 models, 8 voters with tastes, 100 prompts", models=6, battles=1500, prompts=100, voters=8),
        DependentWorld(
            "6 equal models, one voter casts 30 %", 6, 1500, strength_range=0.0, prompts=200, voters=200, dominant=0.3
        ),
        DependentWorld(
            "200 prompts and 300 voters, Zipf 1", prompts=200, prompt_zipf=1.0, voters=300, voter_zipf=1.0, taste=0.5
        ),
    ]


@job
def arena_rank_by_formula(checked: int) -> Task:
    """How far arena-rank itself is from its formula, which stands in for it in all runs."""
    sys.path.insert(0, str(ROOT / "tests"))
    return Task(lambda: formula_gap(checked), repeats=1)


@job
def against_peers(simulations: int) -> Task:
    """By world and library: the share of intervals that hold the truth, of runs with all ranks right, and widths."""
    sys.path.insert(0, str(ROOT / "tests"))
    return Task(lambda: {world.name: one_world(world, simulations) for world in worlds()}, repeats=1)


def one_world(world: Any, simulations: int, seed: int = 31) -> dict[str, list[float]]:
    """Coverage of intervals, its Monte-Carlo error, coverage of all ranks together, and mean width in points."""
    truth = {ties: world.truth(ties) for ties in ("davidson", "half")}
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in LIBRARIES}
    for child in np.random.SeedSequence(seed).spawn(simulations):
        table = world.draw(np.random.default_rng(child))
        for name, (ties, intervals) in LIBRARIES.items():
            found[name].append(_held(*intervals(table), truth[ties]))
    means = {name: np.mean(rows, axis=0).tolist() for name, rows in found.items()}
    errors = {name: float(np.std([row[0] for row in rows]) / np.sqrt(len(rows))) for name, rows in found.items()}
    return {name: [single, errors[name], ranks, width] for name, (single, ranks, width) in means.items()}


Ends = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Low and high ends of intervals (logits), best and worst ranks, in the order of the models."""


def _ours(table: Any) -> Ends:
    """Our default settings."""
    import tiltyard

    board = tiltyard.rate(table, misfit=False)
    entries = [board[name] for name in table.models]
    low = np.array([-np.inf if entry.ci_low is None else entry.ci_low for entry in entries])
    high = np.array([np.inf if entry.ci_high is None else entry.ci_high for entry in entries])
    ranks = np.array([(entry.rank_low, entry.rank_high) for entry in entries])
    scale = board.settings["scale"]
    return (low - 1000.0) / scale, (high - 1000.0) / scale, ranks[:, 0], ranks[:, 1]


def _arena_rank(table: Any) -> Ends:
    """Estimate ± 1.96 standard errors, as it publishes them: seconds each, since it compiles every fit anew."""
    from bench.peers import arena_rank_fit

    names, ratings, error = arena_rank_fit(_frame(table), intervals=True)
    order = np.argsort(np.asarray(names))
    centre, error = (ratings - ratings.mean())[order], np.asarray(error)[order]
    return _by_overlap(centre - 1.96 * error, centre + 1.96 * error)


def _closed_form(table: Any) -> Ends:
    """The same by its formula, battle by battle: H⁺(Σ s sᵀ)H⁺ of a fit with ties as half a win."""
    from tiltyard.ratings.bradley_terry import fit
    from tiltyard.ratings.comparisons import Comparisons, count_pairs
    from tiltyard.ratings.intervals import sandwich
    from tiltyard.ratings.tie_models import TIE_MODELS

    codes = table.model_a.astype(np.int64), table.model_b.astype(np.int64)
    rows = Comparisons(len(table.models), *codes, table.outcome, table.weight)
    counted = count_pairs(rows)
    found = fit(counted.cells, TIE_MODELS["half"])
    error = np.sqrt(sandwich(found, rows, counted).variances())
    return _by_overlap(found.parameters.strength - 1.96 * error, found.parameters.strength + 1.96 * error)


def formula_gap(checked: int) -> float:
    """By how much arena-rank's own ends differ from those of its formula, in points, at most over some runs."""
    gaps = []
    for number, world in enumerate(worlds()[:checked]):
        table = world.draw(np.random.default_rng(number))
        theirs, formula = _arena_rank(table), _closed_form(table)
        gaps.append(max(float(np.abs(a - b).max()) for a, b in zip(theirs[:2], formula[:2], strict=True)))
    return max(gaps) * 400.0 / float(np.log(10.0))


def _fastchat(table: Any) -> Ends:
    """The middle 95 % of 100 rounds over rows."""
    from bench.peers import FastChat

    method = FastChat(_frame(table))
    rounds = np.array([method.fit(weight) for weight in method.drawn(PEER_ROUNDS)])
    rounds = rounds - rounds.mean(axis=1, keepdims=True)
    return _by_overlap(*np.quantile(rounds, [0.025, 0.975], axis=0))


LIBRARIES: dict[str, tuple[str, Callable[[Any], Ends]]] = {
    "tiltyard": ("davidson", _ours),
    "arena-rank's closed form": ("half", _closed_form),
    "FastChat's bootstrap": ("half", _fastchat),
}


def _frame(table: Any) -> Any:
    import pandas

    names, words = np.array(table.models), np.array(["model_a", "model_b", "tie"])
    return pandas.DataFrame(
        {"model_a": names[table.model_a], "model_b": names[table.model_b], "winner": words[table.outcome]}
    )


def _by_overlap(low: np.ndarray, high: np.ndarray) -> Ends:
    """Ranks as these libraries give them: below every model whose interval lies wholly above."""
    above = (low[None, :] > high[:, None]).sum(axis=1)
    below = (high[None, :] < low[:, None]).sum(axis=1)
    return low, high, 1 + above, len(low) - below


def _held(low: np.ndarray, high: np.ndarray, best: np.ndarray, worst: np.ndarray, truth: np.ndarray) -> Any:
    """The share of intervals that hold the truth, whether all ranks do, and the mean width in points."""
    truth = truth - truth.mean()
    ahead = (truth[None, :] > truth[:, None] + 1e-9).sum(axis=1)
    level = (truth[None, :] >= truth[:, None] - 1e-9).sum(axis=1)
    ranked = bool((best <= 1 + ahead).all() and (worst >= level).all())
    known = np.isfinite(low) & np.isfinite(high)
    width = float(np.mean((high - low)[known])) * 400.0 / np.log(10.0) if known.any() else float("nan")
    return float(((low <= truth) & (truth <= high)).mean()), float(ranked), width
