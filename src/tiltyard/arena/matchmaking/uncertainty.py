"""The uncertainty lane: models with a large deviation meet the most informative opponents.

Information is computed from ratings, not conservative scores, which would first send a strong new model to the bottom.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.matchmaking.matchup import Pick, draw, draw_one, tied_best
from tiltyard.arena.matchmaking.voter_view import NEVER, VoterView, draw_prompt, most_lacking
from tiltyard.stats import LOGITS_PER_POINT
from tiltyard.types import Floats

COVERAGE_BONUS = 0.5
"""The bonus for an opponent never met: half of the information of an equal one."""

EXPOSURE_PUSH = 1.0
"""The value of one tolerance of missing exposure, on the same scale."""


def pick(view: VoterView, rng: np.random.Generator) -> Pick:
    """An anchor by deviation and low coverage, the opponent with the highest expected information, ties drawn."""
    weights = anchor_weights(view)
    anchor = draw(rng, weights)
    opponents = best_opponents(view, anchor)
    opponent = draw_one(rng, opponents)
    back = best_opponents(view, opponent)
    chance = weights[anchor] / len(opponents) + weights[opponent] * float(anchor in back) / len(back)
    prompt, prompt_chance = draw_prompt(rng, most_lacking(view, anchor, opponent), view, anchor, opponent)
    reason = "uncertain model; most informative opponent"
    return Pick(anchor, opponent, prompt, float(chance / weights.sum() * prompt_chance), reason)


def anchor_weights(view: VoterView) -> Floats:
    """By model: its deviation, more if prompts are not covered, favouring less exposed models."""
    weights = view.state.ratings.deviation * (1.0 + view.mean_prompt_deficit()) * view.lean
    return np.where(view.anchors, weights, 0.0)


def best_opponents(view: VoterView, anchor: int) -> NDArray[np.intp]:
    """The opponents with the highest expected information and coverage bonus."""
    now = view.state.ratings
    scores = information(now.rating - now.rating[anchor], now.deviation)
    scores += COVERAGE_BONUS * view.pair_deficit(anchor) + EXPOSURE_PUSH * view.urgency
    scores[~view.partners[anchor]] = NEVER
    return tied_best(scores)


def information(rating_gap: Floats, deviation: Floats) -> Floats:
    """g² E (1 − E) of Glicko, four times, so that a well-known equal opponent gives 1."""
    g_squared = 1.0 / (1.0 + 3.0 * (LOGITS_PER_POINT / math.pi * deviation) ** 2)
    expected = 1.0 / (1.0 + np.exp(np.sqrt(g_squared) * LOGITS_PER_POINT * rating_gap))
    return np.asarray(4.0 * g_squared * expected * (1.0 - expected))
