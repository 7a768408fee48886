"""Rows about worlds of coverage: do 95 % intervals hold the truth 95 % of the time, and do pooled categories predict?

`coverage` counts in simulated worlds with known truth. An arena: 30 models met with power-law frequencies, every battle
on a different prompt, Davidson ties. A tournament: 12 entrants meet, all pairs, on the same prompts, and every entrant
is better on some prompts than on others, so battles of one prompt depend on each other. There the truth is what a fit
of very many prompts converges to. The other worlds are those of the tests (`tests/oracles/worlds.py`): arena-rank's
closed-form intervals and FastChat's bootstrap are counted beside ours, each against what its way to read ties tends to.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.data import World
from bench.measure import REAL_DATA, Row

ARENA_MODELS, ARENA_BATTLES = 30, 6_000
ENTRANTS, PROMPTS, PROMPTS_FOR_TRUTH, PROMPT_SPREAD = 12, 60, 20_000, 0.8
ROUNDS = 400
Ends = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Low and high ends of intervals (logits), best and worst ranks, in the order of the models."""


def coverage(row: Row) -> None:
    """Print the coverage of every kind of interval."""
    simulations, worlds = row.size(250, 20), row.size(400, 5)
    row.title = f"share of nominal 95 % intervals that contain the truth, {simulations} simulations"
    found = row.ours("simulation", "tiltyard", simulate, simulations=simulations)
    slack = row.size(2, 6) / 100
    for kind, (single, rare, ranks) in (found or {}).items():
        extra = f", rarest model {100 * rare:.1f} %" if kind.startswith("arena") else ""
        text = f"{kind}: models {100 * single:.1f} %{extra}, all rank intervals at once {100 * ranks:.1f} %"
        if "ignored" in kind:
            row.check(f"{text} (shown for contrast: too narrow)", single < 0.95)
        else:
            row.check(text, single > 0.95 - slack and ranks > 0.95 - slack)
    own = row.peer("arena-rank by its formula", "arena-rank", formula_gap, checked=3)
    if own is not None:
        row.check(f"arena-rank's own ends are those of its formula: largest gap {own:.2f} points", own < 0.5)
    beside = row.peer(f"worlds of the tests, {worlds} runs", "all", against_peers, simulations=worlds)
    for world, by_library in (beside or {}).items():
        for name, (single, error, ranks, width) in by_library.items():
            text = (
                f"{world}, {name}: intervals {100 * single:.1f} ± {100 * error:.1f} %, all ranks {100 * ranks:.0f} %, "
                f"mean width {width:.0f} points"
            )
            row.check(text, name != "tiltyard" or single > 0.94 - 2.0 * error - slack)


def simulate(simulations: int) -> dict[str, list[float]]:
    """Coverage by world and kind: [of single models, of the rarest model, of all ranks at once]."""
    from oracles.simulation import table_of

    rng, hits = np.random.default_rng(7), dict[str, list[tuple[float, float, float]]]()
    for _ in range(simulations):
        world = World.of(ARENA_MODELS, rng)
        a, b = world.pairs(ARENA_BATTLES, rng)
        table = table_of(ARENA_MODELS, a, b, world.results(world.truth[a] - world.truth[b], rng))
        rare = int(np.argmin(world.exposure))
        for kind, options in (("sandwich", {}), ("bootstrap", {"rounds": ROUNDS})):
            hits.setdefault(f"arena, {kind}", []).append(_hits(table, world.truth, rare, ci=kind, **options))
    rng = np.random.default_rng(8)
    strengths = rng.normal(0.0, 0.8, ENTRANTS)
    truth = _converged(strengths, rng)
    ways = {
        "tournament, sandwich": {"ci": "sandwich"},
        "tournament, bootstrap": {"ci": "bootstrap", "rounds": ROUNDS},
        "tournament, prompts ignored": {"ci": "sandwich", "cluster": "none"},
    }
    for _ in range(simulations):
        table = table_of(ENTRANTS, *_round_robin(strengths, PROMPTS, rng))
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
    from oracles.simulation import table_of

    a, b, result, _ = _round_robin(strengths, PROMPTS_FOR_TRUTH, rng)
    table = table_of(ENTRANTS, a, b, result)
    board = tiltyard.rate(table, ci="none")
    return np.array([(board[name].rating - 1000.0) / board.settings.scale for name in table.models])


def _hits(table: Any, truth: np.ndarray, rare: int, **options: Any) -> tuple[float, float, float]:
    """The share of models inside their intervals, whether the rare one is, and whether all true ranks are inside."""
    low, high, *ranks = _ours(table, **options)
    inside, all_ranks, _ = _held(low, high, *ranks, truth)
    return inside, float(low[rare] <= (truth - truth.mean())[rare] <= high[rare]), all_ranks


# --- The worlds of the tests, with peers beside us ------------------------------------------------------------------


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


def against_peers(simulations: int) -> dict[str, dict[str, list[float]]]:
    return {world.name: one_world(world, simulations) for world in worlds()}


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


def _ours(table: Any, **options: Any) -> Ends:
    import tiltyard

    board = tiltyard.rate(table, misfit=False, **options)
    entries, scale = [board[name] for name in table.models], board.settings.scale
    low = np.array([-np.inf if entry.ci_low is None else entry.ci_low for entry in entries])
    high = np.array([np.inf if entry.ci_high is None else entry.ci_high for entry in entries])
    best, worst = np.array([(entry.rank_low, entry.rank_high) for entry in entries]).T
    return (low - 1000.0) / scale, (high - 1000.0) / scale, best, worst


def _arena_rank(table: Any) -> Ends:
    """Estimate ± 1.96 standard errors, as it publishes them: seconds each, since it compiles every fit anew."""
    from bench.peers import arena_rank_fit

    names, ratings, error = arena_rank_fit(_frame(table), intervals=True)
    order = np.argsort(np.asarray(names))
    centre, error = (ratings - ratings.mean())[order], np.asarray(error)[order]
    return _by_overlap(centre - 1.96 * error, centre + 1.96 * error)


def _closed_form(table: Any) -> Ends:
    """The same by its formula, battle by battle: H⁺(Σ s sᵀ)H⁺ of a fit with ties as half a win."""
    from tiltyard.stats import TIE_MODELS, Comparisons, count_pairs, sandwich
    from tiltyard.stats.bradley_terry import fit

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
    """The middle 95 % of 100 rounds over rows, as many as it draws by default."""
    from bench.peers import FastChat

    method = FastChat(_frame(table))
    rounds = np.array([method.fit(weight) for weight in method.drawn(100)])
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


# --- Real battles ----------------------------------------------------------------------------------------------------

FLAGS = ("math", "creative_writing", "technical_accuracy", "real_world")
SIZES = (3_000, 10_000, 30_000)


def pooling(row: Row) -> None:
    """How well pooled categories predict held-out battles of real data, beside boards apart and one board for all.

    On real battles nobody knows the truth, so half of them are held out: the log loss of their decisive results.
    """
    splits = row.size(3, 1)
    row.title = f"log loss of held-out battles: categories apart and pooled, {splits} splits"
    found = row.ours("real battles", "tiltyard", predict, splits=splits)
    for name, loss in (found or {}).items():
        row.check(
            f"{name}: whole {loss['whole']:.4f}, apart {loss['apart']:.4f}, pooled {loss['pooled']:.4f} "
            f"(sd {loss['sd']:.0f} points)",
            loss["pooled"] <= min(loss["whole"], loss["apart"]) + 0.002,
        )
    if found == {}:
        row.check("the real data is not here: nothing to predict", holds=True)


def predict(splits: int) -> dict[str, dict[str, float]]:
    return {name: held_out(*source, splits) for name, source in sources().items()}


def sources() -> dict[str, tuple[list[dict[str, str]], str, int | None]]:
    """Rows, the column that is held out by, and how many rows are rated (None: half of them)."""
    found: dict[str, tuple[list[dict[str, str]], str, int | None]] = {}
    crowd, votes = REAL_DATA / "llmfao" / "crowd-comparisons.csv", REAL_DATA / "arena_140k" / "battles.csv.gz"
    if crowd.exists():
        words, names = {"left": "model_a", "right": "model_b", "tie": "tie"}, ("left", "right", "prompt", "worker")
        with crowd.open() as file:
            rows = [
                dict(zip(("model_a", "model_b", "category", "voter"), (row[name] for name in names), strict=True))
                | {"winner": words[row["winner"]], "source": "human"}
                for row in csv.DictReader(file)
            ]
        found["llmfao by prompt, half of the workers"] = (rows, "voter", None)
    if votes.exists():
        with gzip.open(votes, "rt") as file:
            rows = [
                {name: row[name] for name in ("model_a", "model_b", "winner")}
                | {"source": "human", "category": next((flag for flag in FLAGS if row[flag] == "1"), "other")}
                for row in csv.DictReader(file)
                if row["model_a"] != row["model_b"] and row["winner"] != "both_bad"
            ]
        for size in SIZES:
            found[f"arena_140k by kind of prompt, {size:,} battles"] = (rows, "", size)
    return found


def held_out(rows: list[dict[str, str]], by: str, size: int | None, splits: int) -> dict[str, float]:
    """Mean log loss of one board for all, of boards apart and of pooled ones, over random splits; and the pool's sd."""
    found = []
    for seed in range(splits):
        rng = np.random.default_rng(seed)
        if by:
            values = sorted({row[by] for row in rows})
            mine = set(rng.permutation(values)[: len(values) // 2].tolist())
            known = np.array([row[by] in mine for row in rows])
        else:
            known = np.zeros(len(rows), dtype=bool)
            known[rng.permutation(len(rows))[:size]] = True
        found.append(losses([rows[i] for i in np.flatnonzero(known)], [rows[i] for i in np.flatnonzero(~known)]))
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def losses(known: list[dict[str, str]], unseen: list[dict[str, str]]) -> dict[str, float]:
    """The log loss of decisive unseen battles whose models all three have rated."""
    import tiltyard as ty

    plain = ty.BradleyTerry(misfit=False)
    table = ty.read_battles(known)
    whole = plain.fit(table).ratings
    apart = ty.rate_by(table, "category", ty.BradleyTerry(misfit=False, only_connected=True))
    pooled = ty.rate_by(table, "category", plain, pool=True)
    boards: dict[str, Any] = {
        "whole": dict.fromkeys(pooled, whole),
        "apart": {value: board.ratings for value, board in apart.items()},
        "pooled": {value: board.ratings for value, board in pooled.items()},
    }
    scores: dict[str, list[float]] = {name: [] for name in boards}
    for row in unseen:
        gaps = {name: _gap(by_value.get(row["category"], {}), row) for name, by_value in boards.items()}
        if row["winner"] in ("model_a", "model_b") and None not in gaps.values():
            sign = 1.0 if row["winner"] == "model_a" else -1.0
            for name, gap in gaps.items():
                scores[name].append(math.log1p(math.exp(-sign * gap)))
    settings = next(iter(pooled.values())).settings
    return {name: float(np.mean(loss)) for name, loss in scores.items()} | {
        "sd": settings.pool.sd,
        "unseen": float(len(scores["whole"])),
    }


def _gap(ratings: dict[str, float], row: dict[str, str]) -> float | None:
    if row["model_a"] not in ratings or row["model_b"] not in ratings:
        return None
    return (ratings[row["model_a"]] - ratings[row["model_b"]]) * math.log(10.0) / 400.0
