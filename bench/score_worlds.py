"""Worlds of scores with a known difference, and intervals of several makers on the same draws."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import gammaln, stdtrit

from tiltyard.ratings.score_differences import ScoreSpread, score_difference

Ends = tuple[float, float]
SIZES = (10, 20, 50, 100, 500)
SHARES = (0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
CORRELATIONS = (0.0, 0.5, 0.8, 0.95)
STEPS = (0.0, 0.05, -0.05)
POWER_CASES = tuple((d, psi) for d in (0.05, 0.1, 0.2) for psi in (0.1, 0.2, 0.3, 0.5) if d < psi)


@dataclass(frozen=True, slots=True)
class Cell:
    """How often an interval held the truth, and how often it called equal models different."""

    name: str
    held: float
    alarms: float | None = None


def ours(differences: np.ndarray, spread: float, reach: float, sizes: np.ndarray | None = None) -> Ends:
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


# Scores of 0 and 1, one answer to each prompt: summed over every possible draw, so without Monte-Carlo error


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


# Worlds that are drawn


@dataclass(frozen=True, slots=True)
class Draw:
    """Scores by prompt and repeat of both models, the clusters of prompts, and the true difference."""

    new: np.ndarray
    old: np.ndarray
    truth: float
    reach: float = 1.0
    sizes: np.ndarray | None = None

    @property
    def differences(self) -> np.ndarray:
        return self.new.mean(axis=1) - self.old.mean(axis=1)

    @property
    def spread(self) -> float:
        both = np.concatenate([self.new.ravel(), self.old.ravel()])
        seen = float(both.max() - both.min())
        return seen if seen > 0.0 else self.reach if math.isfinite(self.reach) else 0.0

    def by_cluster(self) -> np.ndarray:
        assert self.sizes is not None
        starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        return np.add.reduceat(self.differences, starts) / self.sizes


World = Callable[[np.random.Generator], Draw]


def repeated(n: int, p: float, rho: float, repeats: int, gap: float) -> World:
    """0/1 with repeats: prompts differ in difficulty, so that answers of one prompt have correlation rho."""
    at = np.arange(0.5, 400) / 400
    if rho > 0:
        from scipy.special import betaincinv

        a, b = p * (1 - rho) / rho, (1 - p) * (1 - rho) / rho
        grid = betaincinv(a, b, at)
    else:
        grid = np.full(400, p)
    grid_new = grid + gap * 4 * grid * (1 - grid)
    truth = float(grid_new.mean() - grid.mean())

    def draw(rng: np.random.Generator) -> Draw:
        place = rng.integers(0, 400, n)
        new = rng.random((n, repeats)) < grid_new[place][:, None]
        old = rng.random((n, repeats)) < grid[place][:, None]
        return Draw(new.astype(float), old.astype(float), truth)

    return draw


def clustered(groups: int, size: int, uneven: bool, p: float, effect: float, gap: float) -> World:
    """0/1 in clusters that share a difficulty and, by model, a liking of `effect` logits."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    middle, both = math.log(p / (1 - p)), math.hypot(1.0, effect)

    def share(shift: float) -> float:
        return float(weights @ (1 / (1 + np.exp(-(middle + shift + both * nodes)))))

    truth = share(gap) - share(0.0)

    def draw(rng: np.random.Generator) -> Draw:
        sizes = 1 + rng.poisson(rng.gamma(1.0, size - 1, groups)) if uneven else np.full(groups, size)
        common = middle + rng.standard_normal(groups)
        scores = []
        for shift in (gap, 0.0):
            logits = np.repeat(common + shift + effect * rng.standard_normal(groups), sizes)
            scores.append((rng.random(len(logits)) < 1 / (1 + np.exp(-logits))).astype(float)[:, None])
        return Draw(scores[0], scores[1], truth, sizes=sizes.astype(float).astype(int))

    return draw


def graded(n: int, top: float) -> World:
    """A rubric from 0 to 1 in fifths, a share of answers at the top; the new one is at the top 5 % more often."""

    def draw(rng: np.random.Generator) -> Draw:
        below = rng.integers(0, 5, (2, n)) / 5
        luck = rng.random(n)
        new = np.where(luck < min(top + 0.05, 1), 1.0, below[0])
        old = np.where(luck < top, 1.0, below[1])
        return Draw(new[:, None], old[:, None], 0.6 * (min(top + 0.05, 1) - top))

    return draw


def fractions(n: int) -> World:
    """Shares such as F1: Beta scores that depend on the prompt."""

    def draw(rng: np.random.Generator) -> Draw:
        level = rng.beta(2, 1, n)
        new, old = rng.beta(4 * level + 0.1, 4 * (1 - level) + 0.1), rng.beta(4 * level + 0.1, 4 * (1 - level) + 0.1)
        return Draw(new[:, None], old[:, None], 0.0)

    return draw


def seconds(n: int, s: float) -> World:
    """Unbounded and skewed: lognormal, the new one a tenth slower."""

    def draw(rng: np.random.Generator) -> Draw:
        new, old = 1.1 * rng.lognormal(0, s, n), rng.lognormal(0, s, n)
        return Draw(new[:, None], old[:, None], 0.1 * math.exp(s * s / 2), math.inf)

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


def simulate(world: World, name: str, draws: int, peer_draws: int, evalstats_draws: int) -> dict[str, Cell]:
    """How often each maker's interval holds in a world; slow ones on fewer draws."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    held: dict[str, list[bool]] = {}
    alarms: list[bool] = []
    truth = 0.0
    for number in range(draws):
        draw = world(rng)
        truth, some = draw.truth, draw.differences
        found: dict[str, Ends | None] = {}
        if draw.sizes is None:
            found["tiltyard"] = ours(some, draw.spread, draw.reach)
        else:
            found["tiltyard"] = ours(draw.by_cluster(), draw.spread, draw.reach, draw.sizes.astype(float))
        if number < peer_draws:
            found["paired t"] = paired_t(some)
            found["bootstrap"] = bootstrap(some, rng)
            if draw.sizes is None and number < evalstats_draws:
                found["evalstats"] = evalstats_ends(draw.new, draw.old, rng)
        for maker, ends in found.items():
            if ends is not None:
                held.setdefault(maker, []).append(ends[0] - 1e-12 <= truth <= ends[1] + 1e-12)
        assert found["tiltyard"] is not None
        alarms.append(not found["tiltyard"][0] <= 0.0 <= found["tiltyard"][1])
    return {
        maker: Cell(name, float(np.mean(some)), float(np.mean(alarms)) if maker == "tiltyard" and truth == 0 else None)
        for maker, some in held.items()
    }


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
