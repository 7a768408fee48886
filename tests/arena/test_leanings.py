"""Strengths and weaknesses in words: what was planted is found, and chance is not taken for either."""

from __future__ import annotations

import numpy as np

from tests.arena.small_worlds import Log, honest
from tiltyard.arena import Leanings, leanings
from tiltyard.arena import events as e

MODELS, PROMPTS = 5, 6


def found(seed: int, votes: int, *, planted: float = 0.0, rival: float = 0.0) -> Leanings:
    """What is said of the first of five equal models; on the first prompt or against the last model it may differ."""
    rng, log = np.random.default_rng(seed), Log()
    for model in range(MODELS):
        log.say(e.ModelAdded(model=f"m{model}", display_name=f"m{model}"))
    for prompt in range(PROMPTS):
        log.say(e.PromptAdded(prompt_id=f"p{prompt}", text="?", subject="maths" if prompt < 2 else "code"))
        for model in range(MODELS):
            log.say(
                e.ResponseAdded(response_id=f"{model}/{prompt}", model=f"m{model}", prompt_id=f"p{prompt}", text=".")
            )
    for number in range(votes):
        a, b = (int(model) for model in rng.choice(MODELS, 2, replace=False))
        a, b = (0, b) if number % 2 and b else (a, b)
        prompt = int(rng.integers(PROMPTS))
        lead = planted * (prompt == 0) + rival * (b == MODELS - 1) if a == 0 else 0.0
        log.meet(f"m{a}", f"m{b}", f"p{prompt}", honest(rng, lead), f"v{number % 40}")
    return leanings(log.state, 0)


def test_a_planted_strength_and_a_weak_spot_are_named() -> None:
    strong = found(1, 600, planted=600.0)
    assert (strong.prompts[0].category, strong.prompts[0].is_strength) == ("p0", True)
    assert strong.categories[0].category == "maths"
    assert all(one.low > 0.0 for one in strong.categories if one.is_strength)
    weak = found(2, 700, rival=-700.0)
    assert [(one.category, one.is_strength) for one in weak.opponents if not one.is_strength] == [("m4", False)]


def test_of_a_model_without_any_hardly_anything_is_said() -> None:
    """Each kind is wrong about at most 1 % of models; of 15 models and three kinds, 0.45 are expected at the most."""
    said = [found(seed, 300) for seed in range(15)]
    assert sum(bool(one.categories) + bool(one.prompts) + bool(one.opponents) for one in said) <= 2


def test_few_votes_say_nothing() -> None:
    assert found(3, 100, planted=900.0).prompts == ()
