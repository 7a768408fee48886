"""Battles in order, checked once at the border: what Elo and Glicko-2 read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltyard.errors import BattleError
from tiltyard.types import Floats

Codes = NDArray[np.int32]


def checked_pairs(a: ArrayLike, b: ArrayLike, n_models: int) -> tuple[Codes, Codes]:
    """The two models of each battle as int32 codes; an error where a code is not a model, or a model meets itself."""
    first, second = _codes(a, "a", n_models), _codes(b, "b", n_models)
    _same_length(first, second, "b")
    same = np.flatnonzero(first == second)
    if len(same):
        row = int(same[0])
        raise BattleError(f"battle {row}: model {first[row]} plays itself. Drop the row or name the other model.")
    return first, second


def checked_scores(score_a: ArrayLike, first: Codes) -> Floats:
    """What the first model scored in each battle, between 0 and 1; an error for anything else."""
    scores = np.array(score_a, dtype=np.float64)
    _same_length(first, scores, "score_a")
    bad = np.flatnonzero(~((scores >= 0.0) & (scores <= 1.0)))
    if len(bad):
        row = int(bad[0])
        raise BattleError(
            f"battle {row}: score_a is {scores[row]}. A score is 1 (A won), 0 (B won) or between (tie ½)."
        )
    return scores


def checked_weights(weight: ArrayLike, first: Codes) -> Floats:
    """How much of each battle counts: a finite number above 0; an error for anything else."""
    weights = np.array(weight, dtype=np.float64)
    _same_length(first, weights, "weight")
    bad = np.flatnonzero(~((weights > 0.0) & np.isfinite(weights)))
    if len(bad):
        row = int(bad[0])
        raise BattleError(f"battle {row}: weight is {weights[row]}. It must be above 0: leave out battles of weight 0.")
    return weights


def decisive_pairs(a: ArrayLike, b: ArrayLike, a_won: ArrayLike, n_models: int) -> tuple[Codes, Codes]:
    """The winner and the loser of each battle as codes."""
    first, second = checked_pairs(a, b, n_models)
    won = np.asarray(a_won)
    _same_length(first, won, "a_won")
    if won.dtype != np.bool_ and not np.isin(won, (0, 1)).all():
        raise BattleError("a_won holds values other than true and false. Leave ties out before rating.")
    won = won.astype(np.bool_)
    return np.where(won, first, second), np.where(won, second, first)


def _codes(values: ArrayLike, name: str, n_models: int) -> Codes:
    codes = np.asarray(values)
    if codes.ndim != 1 or not (codes.size == 0 or np.issubdtype(codes.dtype, np.integer)):
        raise BattleError(f"{name} must be a row of whole numbers, one model code per battle, not {codes.dtype}.")
    outside = np.flatnonzero((codes < 0) | (codes >= n_models))
    if len(outside):
        row = int(outside[0])
        raise BattleError(f"battle {row}: {name} is {codes[row]}, but models are numbered 0 to {n_models - 1}.")
    # A copy even where the type fits: a caller's read-only array would be compiled for a second time.
    return np.array(codes, dtype=np.int32)


def _same_length(first: Codes, other: NDArray[Any], name: str) -> None:
    if other.shape != first.shape:
        raise BattleError(f"a holds {len(first)} battles, but {name} has shape {other.shape}. Give one value a battle.")
