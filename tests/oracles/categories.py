"""Worlds of several categories with known truth: a model's strength in each is its own over all and a deviation.

Prompts belong to one category each; voters vote in all of them. Both may like some models better than others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oracles.simulation import arena_battles, population_strengths, results
from tiltyard.analysis.boards import BradleyTerry, rate_by
from tiltyard.data.battles import BattleTable, Codes
from tiltyard.errors import RatingError
from tiltyard.stats import POINTS_PER_LOGIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.analysis.boards import Leaderboard


@dataclass(frozen=True)
class CategoryWorld:
    """`battles` of each category, or one number for all; effects in logits.

    `between` is how far a model's strength differs from category to category, or one number for each of them.
    """

    name: str
    models: int = 10
    categories: int = 5
    battles: int | tuple[int, ...] = 100
    between: float | tuple[float, ...] = 0.3
    sd: float = 0.8
    prompts: int = 0
    interaction: float = 1.0
    voters: int = 0
    taste: float = 1.0
    dominant: float = 0.0

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, BattleTable]:
        """True strengths by category, as a fit of very many battles would find them, and battles of one run."""
        overall = rng.normal(0.0, self.sd, self.models)
        between = np.broadcast_to(self.between, self.categories)
        strength = overall + between[:, None] * rng.normal(size=(self.categories, self.models))
        taste = rng.normal(0.0, self.taste, (max(self.voters, 1), self.models))
        parts = []
        for category, battles in enumerate(np.broadcast_to(self.battles, self.categories).tolist()):
            a, b = arena_battles(strength[category], battles, rng)
            gap = strength[category][a] - strength[category][b]
            prompt, voter = np.zeros((2, battles), dtype=np.int64)
            if self.prompts:
                prompt = rng.integers(self.prompts, size=battles)
                effect = rng.normal(0.0, self.interaction, (self.prompts, self.models))
                gap = gap + effect[prompt, a] - effect[prompt, b]
            if self.voters:
                voter = rng.integers(self.voters, size=battles)
                voter[rng.random(battles) < self.dominant] = 0
                gap = gap + taste[voter, a] - taste[voter, b]
            parts.append((a, b, results(gap, rng), np.full(battles, category), category * self.prompts + prompt, voter))
        spread = math.hypot(self.interaction if self.prompts else 0.0, self.taste if self.voters else 0.0)
        truth = np.array([population_strengths(one, spread) if spread else one - one.mean() for one in strength])
        return truth, self._table(*map(np.concatenate, zip(*parts, strict=True)))

    def _table(self, a: Any, b: Any, result: Any, category: Any, prompt: Any, voter: Any) -> BattleTable:
        columns = {"category": _codes(category)}
        columns |= {"question_id": _codes(prompt)} if self.prompts else {}
        columns |= {"voter": _codes(voter)} if self.voters else {}
        return BattleTable(
            models=tuple(f"m{code:02d}" for code in range(self.models)),
            model_a=a.astype(np.int32),
            model_b=b.astype(np.int32),
            outcome=result.astype(np.int8),
            source=np.ones(len(a), dtype=np.int8),
            weight=np.ones(len(a)),
            columns=columns,
        )


def _codes(values: np.ndarray) -> Codes:
    return Codes(values.astype(np.int32), tuple(f"{label:03d}" for label in range(int(values.max()) + 1)))


@dataclass(frozen=True)
class PoolFound:
    """Over all runs, categories and models: errors in logits apart and pooled, coverage, mean widths, ranks, sd.

    `worst` is the largest ratio of errors, pooled to apart, of any one category over all runs.
    """

    apart: float
    pooled: float
    worst: float
    intervals: float
    intervals_apart: float
    ranks: float
    width: float
    sd: float


def against_truth(boards: dict[str, Leaderboard], truth: np.ndarray) -> dict[str, tuple[np.ndarray, ...]]:
    """By category: errors, whether intervals hold the truth, widths, and whether all ranges of ranks do."""
    found = {}
    for value, board in boards.items():
        entries = {entry.model: entry for entry in board}
        codes = [code for code in range(truth.shape[1]) if f"m{code:02d}" in entries]
        true = truth[int(value)][codes]
        true = true - true.mean()
        rows = [entries[f"m{code:02d}"] for code in codes]
        rating = np.array([(row.rating - 1000.0) / POINTS_PER_LOGIT for row in rows])
        low, high = (np.array([_end(getattr(row, end), sign) for row in rows]) for end, sign in ENDS)
        places = [(1 + (true > one).sum(), (true >= one).sum()) for one in true]
        ranked = [
            row.rank_low <= best and row.rank_high >= last for row, (best, last) in zip(rows, places, strict=True)
        ]
        held = (low <= true) & (true <= high)
        found[value] = (rating - true, held, high - low, np.array([all(ranked)]))
    return found


ENDS: Sequence[tuple[str, float]] = (("ci_low", -1.0), ("ci_high", 1.0))


def _end(value: float | None, sign: float) -> float:
    return sign * math.inf if value is None else (value - 1000.0) / POINTS_PER_LOGIT


def compare(world: CategoryWorld, runs: int, seed: int, **options: Any) -> PoolFound:
    """Categories rated apart and pooled, against the truth; a category that cannot be rated apart is not compared."""
    estimator = BradleyTerry(misfit=False, **options)
    errors: dict[str, list[tuple[float, float]]] = {}
    held, held_apart, width, ranks, sd = [], [], [], [], []
    for child in np.random.SeedSequence(seed).spawn(runs):
        truth, table = world.draw(np.random.default_rng(child))
        pooled_boards = rate_by(table, "category", estimator, pool=True)
        pooled = against_truth(pooled_boards, truth)
        try:
            apart = against_truth(rate_by(table, "category", estimator, leave_out=lambda _: None), truth)
        except RatingError:
            apart = {}
        sd.append(next(iter(pooled_boards.values())).settings.pool.sd / POINTS_PER_LOGIT)
        for value, (error, inside, wide, ranked) in pooled.items():
            held.append(inside.mean())
            width.append(float(np.mean(wide[np.isfinite(wide)])) if np.isfinite(wide).any() else math.nan)
            ranks.append(ranked.mean())
            if value in apart and len(apart[value][0]) == len(error):
                errors.setdefault(value, []).append((float(np.mean(apart[value][0] ** 2)), float(np.mean(error**2))))
                held_apart.append(apart[value][1].mean())
    squares = np.array([pair for pairs in errors.values() for pair in pairs])
    each = [np.sqrt(np.mean(pairs, axis=0)) for pairs in errors.values()]
    return PoolFound(
        *np.sqrt(squares.mean(axis=0)).tolist(),
        max(float(pooled / apart) for apart, pooled in each),
        float(np.mean(held)),
        float(np.mean(held_apart)),
        float(np.mean(ranks)),
        float(np.nanmean(width)),
        float(np.mean(sd)),
    )
