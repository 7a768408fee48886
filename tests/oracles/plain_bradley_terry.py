"""Bradley–Terry the slow way: one row after the other, straight from the definitions, derivatives by differences.

Nothing here shares a line, or an idea of how to be fast, with `tiltyard.stats`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from tiltyard.stats import OWN_CLUSTER, Comparisons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

FIRST, SECOND, TIE = 0, 1, 2


@dataclass(frozen=True)
class Row:
    """One comparison; `share` is what the first model won of a soft outcome, `z` the covariates (slot included)."""

    first: int
    second: int
    result: int
    weight: float = 1.0
    share: float | None = None
    group: int = 0
    cluster: int | None = None
    z: tuple[float, ...] = ()


@dataclass(frozen=True)
class Shape:
    """How many parameters of each kind: strengths, coefficients, tie parameters, in this order in every vector."""

    models: int
    covariates: int = 0
    ties: int = 0

    @property
    def size(self) -> int:
        return self.models + self.covariates + self.ties


def row_log_likelihood(row: Row, ties: str, shape: Shape, x: Sequence[float]) -> float:
    """ln P of one row's result, from the textbook formula in worths π = e^θ."""
    beta = x[shape.models : shape.models + shape.covariates]
    pi = math.exp(x[row.first] + sum(b * z for b, z in zip(beta, row.z, strict=True)))
    pj = math.exp(x[row.second])
    if ties == "half":
        share = row.share if row.share is not None else {FIRST: 1.0, SECOND: 0.0, TIE: 0.5}[row.result]
        return share * math.log(pi / (pi + pj)) + (1.0 - share) * math.log(pj / (pi + pj))
    parameter = x[shape.models + shape.covariates + row.group] if shape.ties else None
    if ties == "davidson":
        nu = 0.0 if parameter is None else math.exp(parameter)
        weights = {FIRST: pi, SECOND: pj, TIE: nu * math.sqrt(pi * pj)}
        return math.log(weights[row.result] / sum(weights.values()))
    eta = 1.0 if parameter is None else math.exp(parameter)
    wins = {FIRST: pi / (pi + eta * pj), SECOND: pj / (pj + eta * pi)}
    tie = (eta**2 - 1.0) * pi * pj / ((pi + eta * pj) * (pj + eta * pi))
    return math.log(wins.get(row.result, tie))


def log_likelihood(rows: Iterable[Row], ties: str, shape: Shape, x: Sequence[float]) -> float:
    return sum(row.weight * row_log_likelihood(row, ties, shape, x) for row in rows)


def maximise(rows: Sequence[Row], ties: str, shape: Shape) -> np.ndarray:
    """The maximum-likelihood point by a general optimiser, strengths centred."""
    start = np.zeros(shape.size - 1)
    at_ties = shape.models + shape.covariates

    def full(free: np.ndarray) -> np.ndarray:
        x = np.concatenate([[0.0], free])
        if ties == "rao-kupper":  # its threshold is positive: search its logarithm
            x[at_ties:] = np.exp(x[at_ties:])
        return x

    def cost(free: np.ndarray) -> float:
        return -log_likelihood(rows, ties, shape, full(free).tolist())

    found = minimize(cost, start, method="BFGS", jac="3-point", options={"gtol": 1e-9, "maxiter": 500})
    x = full(found.x)
    x[: shape.models] -= x[: shape.models].mean()
    return x


def mm_strengths(wins: np.ndarray, steps: int = 20_000, tolerance: float = 1e-13) -> np.ndarray:
    """Hunter's (2004) minorise–maximise iteration on a matrix of (half-)wins; returns centred log-strengths."""
    n = wins + wins.T
    worth = np.ones(len(wins))
    for _ in range(steps):
        new = wins.sum(axis=1) / (n / (worth[:, None] + worth[None, :])).sum(axis=1)
        new /= np.exp(np.log(new).mean())
        if np.abs(new - worth).max() < tolerance:
            break
        worth = new
    return np.log(worth)


def gradient(f: Callable[[np.ndarray], float], x: np.ndarray, h: float = 1e-5) -> np.ndarray:
    steps = np.eye(len(x)) * h
    return np.array([(f(x + step) - f(x - step)) / (2.0 * h) for step in steps])


def information(rows: Sequence[Row], ties: str, shape: Shape, x: np.ndarray, h: float = 1e-4) -> np.ndarray:
    """Minus the second differences of the log-likelihood."""

    def f(point: np.ndarray) -> float:
        return log_likelihood(rows, ties, shape, point.tolist())

    steps = np.eye(len(x)) * h
    matrix = np.empty((len(x), len(x)))
    for i, a in enumerate(steps):
        for j, b in enumerate(steps[: i + 1]):
            bent = f(x + a + b) - f(x + a - b) - f(x - a + b) + f(x - a - b)
            matrix[i, j] = matrix[j, i] = -bent / (4.0 * h * h)
    return matrix


def centred_inverse(matrix: np.ndarray, models: int) -> np.ndarray:
    """The pseudo-inverse of a matrix whose only null direction is a shift of all strengths."""
    shift = np.zeros(len(matrix))
    shift[:models] = 1.0 / math.sqrt(models)
    along = np.outer(shift, shift)
    return np.linalg.inv(matrix + along) - along


def sandwich(rows: Sequence[Row], ties: str, shape: Shape, x: np.ndarray) -> tuple[np.ndarray, float]:
    """P/(P−1) H⁺ (Σ s sᵀ) H⁺ with scores by differences; a row of weight n without a cluster is n rows."""
    scores = [gradient(lambda p, row=row: row_log_likelihood(row, ties, shape, p.tolist()), x) for row in rows]
    together: dict[int, np.ndarray] = {}
    middle = np.zeros((shape.size, shape.size))
    units = 0.0
    for row, score in zip(rows, scores, strict=True):
        if row.cluster is None:
            middle += row.weight * np.outer(score, score)
            units += row.weight
        else:
            together[row.cluster] = together.get(row.cluster, 0.0) + row.weight * score
    for score in together.values():
        middle += np.outer(score, score)
    units += len(together)
    bread = centred_inverse(information(rows, ties, shape, x), shape.models)
    return units / (units - 1.0) * bread @ middle @ bread, units


def jackknife_sandwich(
    rows: Sequence[Row], ties: str, shape: Shape, x: np.ndarray, clusters: Sequence[int | None]
) -> np.ndarray:
    """(G−1)/G Σ_c d_c d_cᵀ, d_c = (H − H_c)⁺ s_c: how far one Newton step without cluster c moves the parameters.

    Every row without a cluster is its own. The inverse is of the information without the cluster, taken anew each time.
    """
    names = [("row", at) if cluster is None else ("cluster", cluster) for at, cluster in enumerate(clusters)]
    moves = []
    for name in dict.fromkeys(names):
        inside = [row for row, own in zip(rows, names, strict=True) if own == name]
        others = [row for row, own in zip(rows, names, strict=True) if own != name]
        score = gradient(
            lambda p, part=inside: sum(row.weight * row_log_likelihood(row, ties, shape, p.tolist()) for row in part), x
        )
        moves.append(centred_inverse(information(others, ties, shape, x), shape.models) @ score)
    found = np.array(moves)
    return (len(moves) - 1) / len(moves) * found.T @ found


def half_win_matrix(rows: Iterable[Row], models: int, weights: Sequence[float] | None = None) -> np.ndarray:
    """wins[i, j]: what i won against j, ties and soft outcomes divided."""
    wins = np.zeros((models, models))
    rows = list(rows)
    for row, extra in zip(rows, weights if weights is not None else [1.0] * len(rows), strict=True):
        share = row.share if row.share is not None else {FIRST: 1.0, SECOND: 0.0, TIE: 0.5}[row.result]
        wins[row.first, row.second] += extra * row.weight * share
        wins[row.second, row.first] += extra * row.weight * (1.0 - share)
    return wins


def bayesian_bootstrap(rows: Sequence[Row], models: int, rounds: int, seed: int) -> np.ndarray:
    """Half-tie strengths under one exponential weight per cluster (or per copy of a lone row): (rounds, models)."""
    rng = np.random.default_rng(seed)
    single = [row for row in rows if row.cluster is None]
    copies = [Row(row.first, row.second, row.result, share=row.share) for row in single for _ in range(int(row.weight))]
    shared = [row for row in rows if row.cluster is not None]
    names = sorted({row.cluster for row in shared if row.cluster is not None})
    strengths = []
    for _ in range(rounds):
        luck = dict(zip(names, rng.exponential(size=len(names)), strict=True))
        weights = [*rng.exponential(size=len(copies)), *(luck[row.cluster] for row in shared)]
        strengths.append(mm_strengths(half_win_matrix([*copies, *shared], models, weights), tolerance=1e-9))
    return np.array(strengths)


def as_comparisons(rows: Sequence[Row], models: int, *, slot: bool = False) -> Comparisons:
    """The same rows as the library takes them; with `slot` the first covariate is left to the library."""
    z = np.array([row.z[1:] if slot else row.z for row in rows], dtype=np.float64).reshape(len(rows), -1)
    soft = any(row.share is not None for row in rows)
    clustered = any(row.cluster is not None for row in rows)
    ways = (np.array([OWN_CLUSTER if row.cluster is None else row.cluster for row in rows]),)
    return Comparisons(
        n_models=models,
        first=np.array([row.first for row in rows], dtype=np.int64),
        second=np.array([row.second for row in rows], dtype=np.int64),
        result=np.array([row.result for row in rows], dtype=np.int8),
        weight=np.array([row.weight for row in rows], dtype=np.float64),
        share=np.array([math.nan if row.share is None else row.share for row in rows]) if soft else None,
        group=np.array([row.group for row in rows], dtype=np.int64),
        clusters=ways if clustered else (),
        covariates=z if z.shape[1] else None,
    )


def some_rows(
    seed: int,
    *,
    n: int = 60,
    models: int = 4,
    tie_share: float = 0.25,
    prompts: int = 0,
    lone_share: float = 0.0,
    groups: int = 1,
    covariates: int = 0,
    slot: bool = False,
    soft_share: float = 0.0,
    weighted: bool = False,
) -> list[Row]:
    """Random rows whose models are all beaten and all win now and then."""
    rng = np.random.default_rng(seed)
    skill = rng.normal(0.0, 0.6, models)
    rows = []
    for at in range(n):
        first, second = (int(code) for code in rng.permutation(models)[:2])
        drawn = tuple(float(value) for value in rng.normal(size=covariates))
        z = ((1.0,) if slot else ()) + drawn
        log_odds = skill[first] - skill[second] + 0.4 * sum(z)
        group = at % groups
        won = rng.random() < 1.0 / (1.0 + math.exp(-log_odds))
        result = TIE if rng.random() < tie_share * (1.0 + group) / groups else FIRST if won else SECOND
        share = float(rng.uniform(0.05, 0.95)) if rng.random() < soft_share else None
        rows.append(
            Row(
                first,
                second,
                result,
                weight=float(rng.integers(1, 4)) if weighted else 1.0,
                share=share,
                group=group,
                cluster=int(rng.integers(prompts)) if prompts and rng.random() >= lone_share else None,
                z=z,
            )
        )
    return rows
