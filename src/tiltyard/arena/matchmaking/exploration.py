"""The exploration lane: any two models, the less exposed more likely, on prompts that one of them still needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.matchmaking.draws import draw
from tiltyard.arena.matchmaking.matchup import Pick
from tiltyard.arena.matchmaking.voter_view import VoterView, draw_prompt, under_covered

if TYPE_CHECKING:
    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]


def pick(view: VoterView, rng: np.random.Generator) -> Pick:
    """Two models by inverse exposure, then a prompt below its floor, or any prompt if there is none."""
    weights = view.lean / (1.0 + view.state.schedule.in_window)
    first, second, chance = draw_pair(rng, weights, view.partners, view.anchors)
    prompts, needed = under_covered(view, first, second)
    prompt, prompt_chance = draw_prompt(rng, prompts, view, first, second)
    reason = "little shown; prompt not yet covered" if needed else "little shown; any prompt"
    return Pick(first, second, prompt, chance * prompt_chance, reason)


def draw_pair(rng: np.random.Generator, weights: Floats, partners: Mask, anchors: Mask) -> tuple[int, int, float]:
    """Two partners drawn by weight one after the other, and how likely they were in either order."""
    of_anchors = weights * anchors
    first = draw(rng, of_anchors)
    after_first = weights * partners[first]
    second = draw(rng, after_first)
    to_second = weights[second] / after_first.sum()
    to_first = weights[first] / weights[partners[second]].sum()
    chance = (weights[first] * to_second + weights[second] * to_first) / of_anchors.sum()
    return first, second, float(chance)
