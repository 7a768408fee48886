"""How often nominal 95 % intervals hold the truth, in simulated worlds whose truth is known exactly.

Two kinds of world. In an *arena* every battle stands alone and follows the fitted model. In a world with *shared
effects* every model is better on some prompts (or with some voters) than on others, so battles of one prompt depend on
each other; averaged over prompts the chances are no longer exactly Davidson's, and the truth is what a fit tends to as
prompts grow in number: the fit of the expected counts, which a quadrature over the effects gives without simulation.

Each `simulate_…(runs, seed)` is a pure function and returns a `Coverage`: tests and benchmarks print the same figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tiltyard.analysis.boards import BradleyTerry, PermutationElo
from tiltyard.data.battles import BattleTable, Codes
from tiltyard.stats import POINTS_PER_LOGIT, TIE_MODELS, PairCells
from tiltyard.stats.bradley_terry import fit

if TYPE_CHECKING:
    from collections.abc import Callable

    from tiltyard.analysis.boards import Leaderboard

UNCHECKED: dict[str, Any] = {"misfit": False}
"""The check of a fit changes no interval, and takes as long as the fit."""

LOG_NU = math.log(0.6)
"""ν = 0.6: among equals 0.6/2.6 = 23 % of the battles are ties."""


@dataclass(frozen=True)
class Coverage:
    """The share of intervals that held the truth; `error` is its Monte-Carlo standard error over independent runs."""

    share: float
    error: float
    runs: int

    @classmethod
    def of(cls, per_run: list[float]) -> Coverage:
        values = np.array(per_run, dtype=float)
        spread = values.std(ddof=1) if values.std() > 0 else math.sqrt(0.05 * 0.95)
        return cls(float(values.mean()), float(spread / math.sqrt(len(values))), len(values))

    def __str__(self) -> str:
        return f"{self.share:.3f} ± {self.error:.3f} ({self.runs} runs)"


def table_of(
    models: int, a: Any, b: Any, result: Any, clusters: Any = None, column: str = "question_id"
) -> BattleTable:
    """Rows as a table of people's votes; models are named m00, m01, …"""
    columns = {}
    if clusters is not None:
        codes = np.asarray(clusters, dtype=np.int32)
        columns[column] = Codes(codes, [str(label) for label in range(int(codes.max()) + 1)])
    return BattleTable(
        models=tuple(f"m{code:02d}" for code in range(models)),
        model_a=np.asarray(a, dtype=np.int32),
        model_b=np.asarray(b, dtype=np.int32),
        outcome=np.asarray(result, dtype=np.int8),
        source=np.ones(len(a), dtype=np.int8),
        weight=np.ones(len(a)),
        columns=columns,
    )


def results(
    delta: np.ndarray, rng: np.random.Generator, ties: str = "davidson", parameter: float = LOG_NU
) -> np.ndarray:
    """0, 1 or 2 for each log-odds: who won, or a tie."""
    chance = outcome_chances(delta, ties, parameter)
    u = rng.random(len(delta))
    return np.where(u < chance[:, 0], 0, np.where(u < chance[:, 0] + chance[:, 1], 1, 2))


def outcome_chances(delta: np.ndarray, ties: str = "davidson", parameter: float = LOG_NU) -> np.ndarray:
    """P(first), P(second), P(tie) by the definition of the tie model."""
    if ties == "davidson":
        weights = np.stack([np.exp(delta / 2), np.exp(-delta / 2), np.full_like(delta, math.exp(parameter))], axis=-1)
        return weights / weights.sum(axis=-1, keepdims=True)
    first, second = 1 / (1 + np.exp(parameter - delta)), 1 / (1 + np.exp(parameter + delta))
    return np.stack([first, second, 1 - first - second], axis=-1)


def population_strengths(
    strengths: np.ndarray, spread: float, ties: str = "davidson", parameter: float = LOG_NU
) -> np.ndarray:
    """What the fit tends to when every model's strength varies by `spread` from prompt to prompt."""
    node, weight = np.polynomial.hermite_e.hermegauss(60)
    first, second = np.triu_indices(len(strengths), 1)
    gap = strengths[first] - strengths[second]
    chances = outcome_chances(gap[:, None] + math.sqrt(2.0) * spread * node, parameter=parameter)
    expected = (chances * (weight / weight.sum())[None, :, None]).sum(axis=1)
    n = len(first)
    cells = PairCells(len(strengths), first, second, expected, np.zeros(n, dtype=np.int64), 1, np.empty((n, 0)))
    return fit(cells, TIE_MODELS[ties]).parameters.strength


def inside(board: Leaderboard, truth: np.ndarray) -> np.ndarray:
    """Which models' intervals hold the truth (in logits, centred here); an open side holds everything."""
    points = 1000.0 + POINTS_PER_LOGIT * (truth - truth.mean())
    held = []
    for code, point in enumerate(points):
        entry = board[f"m{code:02d}"]
        held.append(
            (entry.ci_low is None or entry.ci_low <= point) and (entry.ci_high is None or point <= entry.ci_high)
        )
    return np.array(held)


def ranks_inside(board: Leaderboard, truth: np.ndarray) -> bool:
    """Whether every rank interval holds its model's true place; equal models may hold each other's places."""
    for code in range(len(truth)):
        entry = board[f"m{code:02d}"]
        best, worst = 1 + (truth > truth[code]).sum(), (truth >= truth[code]).sum()
        # For equals every place from best to worst is true: the interval must allow all of them.
        if entry.rank_low > best or entry.rank_high < worst:
            return False
    return True


def repeat(runs: int, seed: int, one: Callable[[np.random.Generator], float | None]) -> Coverage:
    """Independent runs, each with its own child seed; a run that has nothing to say (None) is not counted."""
    found = [one(np.random.default_rng(child)) for child in np.random.SeedSequence(seed).spawn(runs)]
    return Coverage.of([value for value in found if value is not None])


# Arenas: every battle stands alone.


def arena_battles(strengths: np.ndarray, battles: int, rng: np.random.Generator, exposure: np.ndarray | None = None):
    m = len(strengths)
    chance = np.full(m, 1 / m) if exposure is None else exposure / exposure.sum()
    a = rng.choice(m, battles, p=chance)
    b = rng.choice(m, battles, p=chance)
    while (same := a == b).any():
        b[same] = rng.choice(m, int(same.sum()), p=chance)
    return a, b


def simulate_arena(
    runs: int,
    seed: int,
    *,
    models: int = 10,
    battles: int = 1000,
    ties: str = "davidson",
    generated_by: str = "davidson",
    parameter: float = LOG_NU,
    **options: Any,
) -> Coverage:
    """Row-wise intervals where every battle is independent and everybody plays alike."""
    strengths = np.linspace(-1.0, 1.0, models)

    def one(rng: np.random.Generator) -> float:
        a, b = arena_battles(strengths, battles, rng)
        result = results(strengths[a] - strengths[b], rng, generated_by, parameter)
        board = BradleyTerry(ties=ties, **UNCHECKED, **options).fit(table_of(models, a, b, result))
        return float(inside(board, strengths).mean())

    return repeat(runs, seed, one)


def simulate_rao_kupper(runs: int, seed: int, **options: Any) -> Coverage:
    """Rao–Kupper fits of Rao–Kupper battles: a threshold ln η = 0.5 makes 24 % of the battles of equals ties."""
    return simulate_arena(runs, seed, ties="rao-kupper", generated_by="rao-kupper", parameter=0.5, **options)


def simulate_rare_model(runs: int, seed: int, *, battles: int = 10, strength: float = 0.5, **options: Any) -> Coverage:
    """A newcomer with a handful of battles among nine models that have hundreds each: its interval alone."""
    strengths = np.append(np.linspace(-1.0, 1.0, 9), strength)

    def one(rng: np.random.Generator) -> float:
        a, b = arena_battles(strengths[:9], 1000, rng)
        a, b = np.append(a, np.full(battles, 9)), np.append(b, rng.integers(9, size=battles))
        board = BradleyTerry(**UNCHECKED, **options).fit(table_of(10, a, b, results(strengths[a] - strengths[b], rng)))
        return float(inside(board, strengths)[9])

    return repeat(runs, seed, one)


def simulate_unbounded(runs: int, seed: int, *, battles: int = 8, spread: float = 1.5) -> Coverage:
    """Intervals of a newcomer that won, or lost, all its battles, so that the half-win prior holds it.

    Its strength is drawn anew in every run; runs in which it was beaten and won are not counted.
    """
    others = np.linspace(-1.0, 1.0, 9)

    def one(rng: np.random.Generator) -> float | None:
        strengths = np.append(others, rng.normal(0.0, spread))
        a, b = arena_battles(others, 1000, rng)
        a, b = np.append(a, np.full(battles, 9)), np.append(b, rng.integers(9, size=battles))
        result = results(strengths[a] - strengths[b], rng)
        if len(set(result[-battles:].tolist())) > 1 or result[-1] == 2:
            return None
        board = BradleyTerry(**UNCHECKED).fit(table_of(10, a, b, result))
        assert board["m09"].note is not None
        return float(inside(board, strengths)[9])

    return repeat(runs, seed, one)


def simulate_style(runs: int, seed: int, *, battles: int = 1500) -> tuple[Coverage, Coverage]:
    """Intervals of ratings, and of the slot and length coefficients, where both matter and sides are not randomised."""
    strengths = np.linspace(-0.8, 0.8, 6)
    length_of_model = np.exp(np.linspace(0.5, -0.5, 6))
    shares: list[float] = []

    def one(rng: np.random.Generator) -> float:
        a, b = arena_battles(strengths, battles, rng)
        first = np.where(rng.random(battles) < 0.7, np.maximum(a, b), np.minimum(a, b))
        a, b = first, a + b - first
        long_a = length_of_model[a] * rng.lognormal(0.0, 0.5, battles)
        long_b = length_of_model[b] * rng.lognormal(0.0, 0.5, battles)
        share = (long_a - long_b) / (long_a + long_b)
        unit = math.sqrt(float((share**2).mean()))
        delta = strengths[a] - strengths[b] + 0.25 + 0.4 * share / unit
        won = (rng.random(battles) >= 1 / (1 + np.exp(-delta))).astype(int)
        table = table_of(6, a, b, won)
        table = BattleTable(
            table.models, table.model_a, table.model_b, table.outcome, table.source, table.weight, None,
            {"len_a": long_a, "len_b": long_b},
        )  # fmt: skip
        board = BradleyTerry(control=("len",), **UNCHECKED).fit(table)
        found = board.details.coefficients
        hits = [
            found[name].ci_low <= POINTS_PER_LOGIT * true <= found[name].ci_high
            for name, true in (("first slot", 0.25), ("len", 0.4))
        ]
        shares.append(float(np.mean(hits)))
        return float(inside(board, strengths).mean())

    ratings = repeat(runs, seed, one)
    return ratings, Coverage.of(shares)


# Worlds with shared effects: battles of one prompt, or one voter, depend on each other.


def judged_battles(strengths: np.ndarray, spread: float, prompts: int, rng: np.random.Generator):
    """Every pair on every prompt, each model's strength drawn anew on every prompt: a, b, result, prompt."""
    first, second = np.triu_indices(len(strengths), 1)
    on_prompt = strengths + rng.normal(0.0, spread, (prompts, len(strengths)))
    delta = (on_prompt[:, first] - on_prompt[:, second]).ravel()
    return (
        np.tile(first, prompts),
        np.tile(second, prompts),
        results(delta, rng),
        np.repeat(np.arange(prompts), len(first)),
    )


def simulate_tournament(
    runs: int,
    seed: int,
    *,
    entrants: int = 4,
    prompts: int = 40,
    spread: float = 1.0,
    equal: bool = False,
    **options: Any,
) -> tuple[Coverage, Coverage]:
    """Intervals, and all rank intervals at once, of a judged tournament whose verdicts share prompts."""
    strengths = np.zeros(entrants) if equal else np.linspace(-1.0, 1.0, entrants)
    truth = np.zeros(entrants) if equal else population_strengths(strengths, spread, options.get("ties", "davidson"))
    joint: list[float] = []

    def one(rng: np.random.Generator) -> float:
        board = BradleyTerry(**UNCHECKED, **options).fit(
            table_of(entrants, *judged_battles(strengths, spread, prompts, rng))
        )
        joint.append(float(ranks_inside(board, truth)))
        return float(inside(board, truth).mean())

    single = repeat(runs, seed, one)
    return single, Coverage.of(joint)


def simulate_slot_by_prompt(runs: int, seed: int, *, prompts: int = 13, entrants: int = 4) -> Coverage:
    """The interval of the first slot's advantage, which varies from prompt to prompt as the entrants do.

    Its truth is read off 40,000 prompts: an error of a fiftieth of what 13 prompts leave.
    """
    strengths = np.linspace(-1.0, 1.0, entrants)

    def slot_of(n: int, rng: np.random.Generator) -> dict[str, float]:
        first, second = np.triu_indices(entrants, 1)
        turned = rng.random((n, len(first))) < 0.5
        a, b = np.where(turned, second, first), np.where(turned, first, second)
        on_prompt = strengths + rng.normal(0.0, 1.0, (n, entrants))
        gap = np.take_along_axis(on_prompt, a, 1) - np.take_along_axis(on_prompt, b, 1)
        result = results((gap + rng.normal(0.3, 0.8, (n, 1))).ravel(), rng)
        table = table_of(entrants, a.ravel(), b.ravel(), result, np.repeat(np.arange(n), len(first)))
        return BradleyTerry(slot=True, **UNCHECKED).fit(table).details.coefficients["first slot"]

    truth = slot_of(40_000, np.random.default_rng(seed)).points

    def one(rng: np.random.Generator) -> float:
        found = slot_of(prompts, rng)
        return float(found.ci_low <= truth <= found.ci_high)

    return repeat(runs, seed, one)


def simulate_voters(
    runs: int,
    seed: int,
    *,
    voters: int = 60,
    models: int = 8,
    spread: float = 1.0,
    cluster: str = "voter",
    **options: Any,
) -> Coverage:
    """Votes on random pairs by voters of different zeal, each with a taste of their own for every model."""
    strengths = np.linspace(-1.0, 1.0, models)
    truth = population_strengths(strengths, spread)

    def one(rng: np.random.Generator) -> float:
        votes = rng.geometric(1 / 30, voters)  # most cast a few, some cast a hundred
        voter = np.repeat(np.arange(voters), votes)
        a, b = arena_battles(strengths, len(voter), rng)
        taste = strengths + rng.normal(0.0, spread, (voters, models))
        result = results(taste[voter, a] - taste[voter, b], rng)
        table = table_of(models, a, b, result, voter, column="voter")
        return float(inside(BradleyTerry(cluster=cluster, **UNCHECKED, **options).fit(table), truth).mean())

    return repeat(runs, seed, one)


def simulate_permutation_elo(
    runs: int, seed: int, *, entrants: int = 4, prompts: int = 30, spread: float = 1.0, n_perms: int = 100
) -> tuple[Coverage, Coverage]:
    """How often mean ± 1.96 SEM, and the sampling interval beside it, hold what other prompts give on average."""
    strengths = np.linspace(-1.0, 1.0, entrants)
    means, sems, samplings = [], [], []
    for child in np.random.SeedSequence(seed).spawn(runs):
        rng = np.random.default_rng(child)
        table = table_of(entrants, *judged_battles(strengths, spread, prompts, rng))
        board = PermutationElo(n_perms=n_perms, k_sweep=()).fit(table)
        entries = [board[f"m{code:02d}"] for code in range(entrants)]
        means.append([entry.rating for entry in entries])
        sems.append([(entry.extra["ci95_low"], entry.extra["ci95_high"]) for entry in entries])
        samplings.append([(entry.extra["sampling_low"], entry.extra["sampling_high"]) for entry in entries])
    truth = np.mean(means, axis=0)

    def share(ends: list[list[tuple[Any, Any]]]) -> Coverage:
        low, high = np.moveaxis(np.array(ends, dtype=float), 2, 0)
        return Coverage.of(((low <= truth) & (truth <= high)).mean(axis=1).tolist())

    return share(sems), share(samplings)
