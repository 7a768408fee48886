"""The row about scores: do intervals hold, are equal models called different, does a plan reach its power?

Worlds of scores with a known difference; a paired t, a bootstrap and evalstats see the same draws.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import betaincinv, gammaln, stdtrit

from bench.measure import Row

Ends = tuple[float, float]
SIZES = (10, 20, 50, 100, 500)
SHARES = (0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
CORRELATIONS = (0.0, 0.5, 0.8, 0.95)
STEPS = (0.0, 0.05, -0.05)
POWER_CASES = tuple((d, psi) for d in (0.05, 0.1, 0.2) for psi in (0.1, 0.2, 0.3, 0.5) if d < psi)
SLOW = 16
"""One world of so many is given to the bootstrap and to evalstats, which take up to a second for each interval."""


def scores(row: Row) -> None:
    """Intervals of differences of scores beside a paired t, a bootstrap and evalstats."""
    draws, peer_draws = row.size(5000, 20), row.size(200, 5)
    row.title = f"differences of scores, {draws} draws of each world that is drawn"
    options = {"draws": draws, "peer_draws": peer_draws, "sizes": list(SIZES)[: row.size(5, 1)]}
    found = row.ours("simulation", "tiltyard", score_intervals, **options)
    if not found:
        return
    slack = float(row.size(0, 1))
    for kind, makers in found["coverage"].items():
        own = makers["tiltyard"]["least"]
        for maker, one in makers.items():
            text = f"{kind}, {maker}: held {one['mean']:.3f}, least {one['least']:.3f} of {one['cells']} cells"
            if maker != "tiltyard":
                row.goal(f"{text} (ours {own:.3f})", own >= one["least"])
                continue
            text += f", {len(one['low'])} below .93"
            text += "".join(f" ({name}: {held:.3f})" for held, name in one["low"][:3])
            if "alarms" in one:
                text += f"; equal models called different {one['alarms']:.3f}, at most {one['most alarms']:.3f}"
                row.check(text, one["alarms"] <= 0.06 + slack and one["most alarms"] <= 0.09 + slack)
            if kind.startswith("0/1,") or kind == "0/1 with repeats":
                row.check(text, one["least"] >= 0.93 - slack)
            else:
                row.goal(text, one["mean"] >= (0.96 - slack if kind == "0/1 in clusters" else 0.93))
    power = found["power"].values()
    text = f"plans of 80 %: reached {min(power):.3f} to {max(power):.3f}"
    row.check(text, min(power) >= 0.77 and max(power) <= 0.88)


def score_intervals(draws: int, peer_draws: int, sizes: list[int]) -> dict[str, Any]:
    """Coverage by kind of scores and maker, and the power that plans reach."""
    found: dict[str, dict[str, Any]] = {}
    for n in sizes:
        cells = exact(n) | peers_on_shares(n, peer_draws)
        found[f"0/1, {n} prompts"] = {maker: summary(some) for maker, some in cells.items()}
    for kind, some in worlds().items():
        if draws < 100:
            some = dict(list(some.items())[:: max(1, len(some) // 4)])
        by_maker: dict[str, list[Cell]] = {}
        for place, (name, world) in enumerate(some.items()):
            for maker, cell in simulate(world, name, draws, 0 if place % SLOW else min(100, peer_draws)).items():
                by_maker.setdefault(maker, []).append(cell)
        found[kind] = {maker: summary(cells) for maker, cells in by_maker.items()}
    return {"coverage": found, "power": plan_power()}


@dataclass(frozen=True, slots=True)
class Cell:
    """How often an interval held the truth, and how often it called equal models different."""

    name: str
    held: float
    alarms: float | None = None


def ours(differences: np.ndarray, spread: float, reach: float, sizes: np.ndarray | None = None) -> Ends:
    from tiltyard.stats import score_difference

    low, high = score_difference(differences, spread, sizes=sizes, range_of_scores=reach).ends(0.95)
    return (-math.inf, math.inf) if low is None or high is None else (low, high)


def paired_t(differences: np.ndarray) -> Ends:
    n = len(differences)
    half = float(stdtrit(n - 1, 0.975)) * differences.std(ddof=1) / math.sqrt(n)
    return differences.mean() - half, differences.mean() + half


def bootstrap(differences: np.ndarray, rng: np.random.Generator, rounds: int = 1000) -> Ends:
    """Percentiles of means of resampled prompts."""
    values, counts = np.unique(differences, return_counts=True)
    n = len(differences)
    if len(values) < n // 2:
        means = rng.multinomial(n, counts / n, rounds) @ values / n
    else:
        means = differences[rng.integers(0, n, (rounds, n))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def evalstats_ends(new: np.ndarray, old: np.ndarray, rng: np.random.Generator) -> Ends | None:
    """The interval of evalstats: its rule for 0/1, else what it chooses by itself; None where it is not installed."""
    try:
        from evalstats import pairwise_differences
    except ImportError:
        return None
    scores = np.stack([new, old])
    if scores.shape[-1] == 1:
        scores = scores[:, :, 0]
    rule = "auto" if not np.isin(scores, (0.0, 1.0)).all() else "tango" if scores.ndim == 2 else "mj_floor"
    result = pairwise_differences(scores, 0, 1, method=rule, n_bootstrap=1000, rng=rng)
    return float(result.ci_low), float(result.ci_high)


# --- Scores of 0 and 1, one answer to each prompt: summed over every possible draw, so without Monte-Carlo error -----


@cache
def counted(n: int) -> tuple[np.ndarray, np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Every (better, worse) of n prompts, and the ends of its intervals."""
    pairs = [(up, down) for up in range(n + 1) for down in range(n + 1 - up)]
    found: dict[str, list[Ends]] = {"tiltyard": [], "paired t": []}
    for up, down in pairs:
        some = np.zeros(n)
        some[:up], some[up : up + down] = 1.0, -1.0
        found["tiltyard"].append(ours(some, 1.0, 1.0))
        found["paired t"].append(paired_t(some))
    up, down = np.array(pairs).T
    return up, down, {name: tuple(np.array(ends).T) for name, ends in found.items()}  # type: ignore[misc]


def chances(n: int, p_up: float, p_down: float) -> np.ndarray:
    up, down, _ = counted(n)
    logs = gammaln(n + 1) - gammaln(up + 1) - gammaln(down + 1) - gammaln(n - up - down + 1)
    for count, p in ((up, p_up), (down, p_down), (n - up - down, 1 - p_up - p_down)):
        logs = logs + np.where(count == 0, 0.0, count * math.log(max(p, 1e-300)))
    return np.exp(logs)


def share_cells() -> Iterator[tuple[float, float, float]]:
    """Shares right of both, and how far both hang on the same luck."""
    for p, step, rho in itertools.product(SHARES, STEPS, CORRELATIONS):
        if 0.0 < p + step < 1.0:
            yield p + step, p, rho


def moves(p: float, q: float, rho: float) -> tuple[float, float]:
    """The chances that only the new one, and that only the old one, is right."""
    return rho * max(p - q, 0) + (1 - rho) * p * (1 - q), rho * max(q - p, 0) + (1 - rho) * q * (1 - p)


def exact(n: int) -> dict[str, list[Cell]]:
    """Coverage of the two that can be summed up."""
    cells: dict[str, list[Cell]] = {}
    _, _, ends = counted(n)
    for p, q, rho in share_cells():
        chance = chances(n, *moves(p, q, rho))
        for name, (low, high) in ends.items():
            held = (low <= p - q + 1e-12) & (p - q - 1e-12 <= high)
            alarm = float(chance[(low > 0) | (high < 0)].sum()) if p == q else None
            cells.setdefault(name, []).append(Cell(f"{n}, {p:.2f}/{q:.2f}, {rho}", float(chance[held].sum()), alarm))
    return cells


def plan_power() -> dict[str, float]:
    """The power that a plan of 80 % reaches."""
    from tiltyard.stats import ScoreSpread

    reached = {}
    for difference, psi in POWER_CASES:
        n = ScoreSpread.of_shares(difference, psi).prompts(difference, 0.025, 0.8)
        if n is None:
            continue
        rng = np.random.default_rng(n)
        up_down = rng.multinomial(n, [(psi + difference) / 2, (psi - difference) / 2, 1 - psi], 20_000)
        kinds, count = np.unique(up_down[:, :2], axis=0, return_counts=True)
        shown = 0
        for (up, down), times in zip(kinds.tolist(), count.tolist(), strict=True):
            some = np.zeros(n)
            some[:up], some[up : up + down] = 1.0, -1.0
            shown += times * (ours(some, 1.0, 1.0)[0] > 0)
        reached[f"{difference:.0%} of {psi:.0%}, {n} prompts"] = shown / 20_000
    return reached


# --- Worlds that are drawn, many times at once -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draws:
    """Differences of many draws by prompt or cluster, the true difference, and how far apart scores are.

    `scores` are those of the first draws by model, prompt and repeat, for makers that want them; `alone` is the paired
    t interval of all prompts where clusters are ignored.
    """

    differences: np.ndarray
    truth: float
    spread: np.ndarray
    reach: float = 1.0
    sizes: np.ndarray | None = None
    scores: np.ndarray | None = None
    alone: tuple[np.ndarray, np.ndarray] | None = None


World = Callable[[np.random.Generator, int], Draws]


def _t_of_counts(up: np.ndarray, down: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    d = (up - down) / n
    half = stdtrit(n - 1, 0.975) * np.sqrt(np.maximum(up + down - n * d**2, 0) / (n - 1) / n)
    return d - half, d + half


def repeated(n: int, p: float, rho: float, repeats: int, gap: float) -> World:
    """0/1 with repeats: prompts differ in difficulty, so that answers of one prompt have correlation rho."""
    at = np.arange(0.5, 400) / 400
    grid = betaincinv(p * (1 - rho) / rho, (1 - p) * (1 - rho) / rho, at) if rho > 0 else np.full(400, p)
    grid_new = grid + gap * 4 * grid * (1 - grid)

    def draw(rng: np.random.Generator, count: int) -> Draws:
        place = rng.integers(0, 400, (count, n))
        scores = np.stack(
            [rng.random((min(count, 100), n, repeats)) < some[place[:100]][..., None] for some in (grid_new, grid)], 1
        )
        right = [rng.binomial(repeats, some[place]) for some in (grid_new, grid)]
        right = [np.concatenate([scores[:, side].sum(-1), one[len(scores) :]]) for side, one in enumerate(right)]
        truth = float(grid_new.mean() - grid.mean())
        return Draws((right[0] - right[1]) / repeats, truth, np.ones(count), scores=scores.astype(float))

    return draw


def clustered(groups: int, size: int, uneven: bool, p: float, effect: float, gap: float) -> World:
    """0/1 in clusters that share a difficulty and, by model, a liking of `effect` logits."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    middle, both = math.log(p / (1 - p)), math.hypot(1.0, effect)

    def share(shift: float) -> float:
        return float(weights @ (1 / (1 + np.exp(-(middle + shift + both * nodes)))))

    def draw(rng: np.random.Generator, count: int) -> Draws:
        shape = (count, groups)
        sizes = 1 + rng.poisson(rng.gamma(1.0, size - 1, shape)) if uneven else np.full(shape, size)
        common = middle + rng.standard_normal(shape)
        one, other = (1 / (1 + np.exp(-(common + shift + effect * rng.standard_normal(shape)))) for shift in (gap, 0.0))
        up = rng.binomial(sizes, one * (1 - other))
        rest = 1 - one * (1 - other)
        down = rng.binomial(sizes - up, np.clip(other * (1 - one) / rest, 0, 1))
        alone = _t_of_counts(up.sum(1), down.sum(1), sizes.sum(1))
        return Draws((up - down) / sizes, share(gap) - share(0.0), np.ones(count), sizes=sizes, alone=alone)

    return draw


def _plain(new: np.ndarray, old: np.ndarray, truth: float, reach: float) -> Draws:
    both = np.concatenate([new, old], axis=1)
    scores = np.stack([new, old], 1)[:100, ..., None]
    return Draws(new - old, truth, both.max(1) - both.min(1), reach, scores=scores)


def graded(n: int, top: float) -> World:
    """A rubric from 0 to 1 in fifths, a share of answers at the top; the new one is at the top 5 % more often."""

    def draw(rng: np.random.Generator, count: int) -> Draws:
        below, luck = rng.integers(0, 5, (2, count, n)) / 5, rng.random((count, n))
        new, old = np.where(luck < top + 0.05, 1.0, below[0]), np.where(luck < top, 1.0, below[1])
        return _plain(new, old, 0.6 * 0.05, 1.0)

    return draw


def fractions(n: int) -> World:
    """Shares such as F1: Beta scores that depend on the prompt."""

    def draw(rng: np.random.Generator, count: int) -> Draws:
        level = rng.beta(2, 1, (count, n))
        new, old = (rng.beta(4 * level + 0.1, 4 * (1 - level) + 0.1) for _ in range(2))
        return _plain(new, old, 0.0, 1.0)

    return draw


def seconds(n: int, s: float) -> World:
    """Unbounded and skewed: lognormal, the new one a tenth slower."""

    def draw(rng: np.random.Generator, count: int) -> Draws:
        new, old = 1.1 * rng.lognormal(0, s, (count, n)), rng.lognormal(0, s, (count, n))
        return _plain(new, old, 0.1 * math.exp(s * s / 2), math.inf)

    return draw


def worlds() -> dict[str, dict[str, World]]:
    """The worlds by kind."""
    repeats = {
        f"{n} prompts, {r} repeats, p {p}, correlation {rho}, gap {gap}": repeated(n, p, rho, r, gap)
        for n, p, rho, r, gap in itertools.product(SIZES, SHARES, (0.0, 0.5, 0.95), (3, 5), (0.0, 0.1))
    }
    clusters = {
        f"{g} clusters of {s}{' uneven' * uneven}, p {p}, effect {e}, gap {gap}": clustered(g, s, uneven, p, e, gap)
        for g, s, uneven, p, e, gap in itertools.product(
            (10, 20, 50, 100), (2, 5, 20), (False, True), (0.05, 0.3, 0.5, 0.9), (0.0, 1.0), (0.0, 0.5)
        )
    }
    grades = {f"{n} prompts, {top:.0%} at the top": graded(n, top) for n in (10, 20, 50, 200) for top in (0.5, 0.85)}
    grades |= {f"{n} prompts, Beta": fractions(n) for n in (10, 20, 50, 200)}
    unbounded = {f"{n} prompts, lognormal {s}": seconds(n, s) for n in (10, 20, 100, 500) for s in (0.5, 1.0, 1.5)}
    return {"0/1 with repeats": repeats, "0/1 in clusters": clusters, "graded": grades, "unbounded": unbounded}


def simulate(world: World, name: str, count: int, slow: int) -> dict[str, Cell]:
    """How often each maker's interval holds in a world; slow ones on a few of the draws."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    draws = world(rng, count)
    low, high = np.array(
        [
            ours(some, float(spread), draws.reach, None if draws.sizes is None else draws.sizes[place].astype(float))
            for place, (some, spread) in enumerate(zip(draws.differences, draws.spread, strict=True))
        ]
    ).T

    def cell(some: Any, other: Any, alarms: float | None = None) -> Cell:
        return Cell(name, float(np.mean((some - 1e-12 <= draws.truth) & (draws.truth <= other + 1e-12))), alarms)

    found = {"tiltyard": cell(low, high, float(np.mean((low > 0) | (high < 0))) if draws.truth == 0 else None)}
    if draws.alone is not None:
        return found | {"paired t": cell(*draws.alone)}
    found["paired t"] = cell(*np.array([paired_t(one) for one in draws.differences]).T)
    if slow and draws.scores is not None:
        found["bootstrap"] = cell(*np.array([bootstrap(one, rng) for one in draws.differences[:slow]]).T)
        theirs = [evalstats_ends(*scores, rng) for scores in draws.scores[:slow]]
        if None not in theirs:
            found["evalstats"] = cell(*np.array(theirs).T)
    return found


def peers_on_shares(n: int, draws: int) -> dict[str, list[Cell]]:
    """Bootstrap and evalstats on scores of 0 and 1 with one answer each: one interval for each count, kept."""
    rng, kept = np.random.default_rng(n), dict[tuple[int, int, int, int], dict[str, Ends | None]]()
    result: dict[str, list[Cell]] = {}
    for p, q, rho in share_cells():
        up, down = moves(p, q, rho)
        both_right = min(p, q) * rho + (1 - rho) * p * q
        counts = rng.multinomial(n, [up, down, both_right, max(0.0, 1 - up - down - both_right)], draws)
        held: dict[str, list[bool]] = {}
        for row in map(tuple, counts.tolist()):
            if row not in kept:
                new = np.repeat([1.0, 0.0, 1.0, 0.0], row)
                old = np.repeat([0.0, 1.0, 1.0, 0.0], row)
                kept[row] = {
                    "bootstrap": bootstrap(new - old, rng),
                    "evalstats": evalstats_ends(new[:, None], old[:, None], rng),
                }
            for maker, ends in kept[row].items():
                if ends is not None:
                    held.setdefault(maker, []).append(ends[0] - 1e-12 <= p - q <= ends[1] + 1e-12)
        for maker, some in held.items():
            result.setdefault(maker, []).append(Cell(f"{n}, {p:.2f}/{q:.2f}, {rho}", float(np.mean(some))))
    return result


def summary(cells: list[Cell]) -> dict[str, Any]:
    """Mean and least coverage, the cells below .93, and false alarms of equal models."""
    held = [cell.held for cell in cells]
    alarms = [cell.alarms for cell in cells if cell.alarms is not None]
    low = sorted((cell.held, cell.name) for cell in cells if cell.held < 0.93)
    found: dict[str, Any] = {"mean": float(np.mean(held)), "least": min(held), "cells": len(cells), "low": low}
    return found | ({"alarms": float(np.mean(alarms)), "most alarms": max(alarms)} if alarms else {})
