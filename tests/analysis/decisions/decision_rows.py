"""Battles for tests of differences, gates and plans."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def battle(a: str, b: str, winner: str, prompt: str | None = None, **more: Any) -> dict[str, Any]:
    return {"model_a": a, "model_b": b, "winner": winner, "source": "llm-judge", "question_id": prompt, **more}


def field(seed: int, prompts: int = 60, gap: float = 0.3, taste: float = 0.7) -> list[dict[str, Any]]:
    """Four models on prompts that each like some of them more; v2 is `gap` logits above v1."""
    rng = np.random.default_rng(seed)
    strength = {"base": -0.4, "top": 0.5, "v1": 0.0, "v2": gap}
    rows = []
    for p in range(prompts):
        likes = {name: value + rng.normal(0.0, taste) for name, value in strength.items()}
        for a in strength:
            for b in strength:
                if a >= b:
                    continue
                first, second = (a, b) if rng.random() < 0.5 else (b, a)
                wins = rng.random() < 1.0 / (1.0 + math.exp(likes[second] - likes[first]))
                winner = "tie" if rng.random() < 0.15 else "model_a" if wins else "model_b"
                rows.append(battle(first, second, winner, f"q{p}", category=("code", "chat")[p % 2]))
    return rows
