"""What the tests of boards share: battles in a few characters, and when two boards say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

WINNERS = {">": "model_a", "<": "model_b", "=": "tie", "!": "tie (bothbad)"}


def battle(text: str, times: int = 1, **columns: Any) -> list[dict[str, Any]]:
    """`otter>heron` is a win of otter, `<` a loss, `=` a tie, `!` both bad; `times` equal rows of it."""
    sign = next(sign for sign in WINNERS if sign in text)
    a, b = text.split(sign)
    return [{"model_a": a, "model_b": b, "winner": WINNERS[sign], "source": "human", **columns}] * times


def arena(seed: int = 0, n: int = 300, models: str = "abcde", ties: float = 0.2, prompts: int = 0, **columns: Any):
    """Random battles of models whose strengths fall from a to e."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        i, j = rng.choice(len(models), 2, replace=False)
        p = 1 / (1 + np.exp(-0.4 * (j - i)))
        sign = "=" if rng.random() < ties else ">" if rng.random() < p else "<"
        extra = {"question_id": f"q{rng.integers(prompts)}"} if prompts else {}
        rows += battle(f"{models[i]}{sign}{models[j]}", **extra, **columns)
    return rows


def swapped(row: dict[str, Any]) -> dict[str, Any]:
    """The same battle written from the other side."""
    other = {"model_a": "model_b", "model_b": "model_a"}
    turned = {**row, "model_a": row["model_b"], "model_b": row["model_a"]}
    turned["winner"] = other.get(row["winner"], row["winner"])
    if "score_a" in row:
        turned["score_a"] = 1 - row["score_a"]
    return turned


def assert_same_board(one: Any, other: Any, *, names: dict[str, str] | None = None, tolerance: float = 1e-6) -> None:
    """Equal ratings, intervals, rank intervals and notes, model by model."""
    names = names or {}
    assert {names.get(name, name) for name in one.models} == set(other.models)
    for entry in one:
        twin = other[names.get(entry.model, entry.model)]
        assert twin.rating == pytest.approx(entry.rating, abs=tolerance)
        assert twin.ci_low == (None if entry.ci_low is None else pytest.approx(entry.ci_low, abs=tolerance, rel=1e-6))
        assert twin.ci_high == (
            None if entry.ci_high is None else pytest.approx(entry.ci_high, abs=tolerance, rel=1e-6)
        )
        assert (twin.rank_low, twin.rank_high, twin.note) == (entry.rank_low, entry.rank_high, entry.note)
        assert (twin.n_battles, twin.wins, twin.losses, twin.ties) == (
            entry.n_battles,
            entry.wins,
            entry.losses,
            entry.ties,
        )
