"""The exploration lane: any two models, the less exposed more likely, on prompts that one of them still needs.

`pick_legacy` is the matchmaking from before the policy, kept in phase 1: any prompt, two models by inverse exposure.
"""

from __future__ import annotations

import numpy as np

from tiltyard.arena.matchmaking.matchup import Pick, SeenMatchups, draw, draw_one
from tiltyard.arena.matchmaking.tables import Servable
from tiltyard.arena.matchmaking.voter_view import VoterView, draw_prompt, under_covered
from tiltyard.arena.rules.state import ArenaState
from tiltyard.types import Bools, Floats


def pick(view: VoterView, rng: np.random.Generator) -> Pick:
    """Two models by inverse exposure, then a prompt below its floor, or any prompt if there is none."""
    weights = view.lean / (1.0 + view.state.schedule.in_window)
    first, second, chance = draw_pair(rng, weights, view.partners, view.anchors)
    prompts, needed = under_covered(view, first, second)
    prompt, prompt_chance = draw_prompt(rng, prompts, view, first, second)
    reason = "little shown; prompt not yet covered" if needed else "little shown; any prompt"
    return Pick(first, second, prompt, chance * prompt_chance, reason)


def draw_pair(rng: np.random.Generator, weights: Floats, partners: Bools, anchors: Bools) -> tuple[int, int, float]:
    """Two partners drawn by weight one after the other, and how likely they were in either order."""
    of_anchors = weights * anchors
    first = draw(rng, of_anchors)
    after_first = weights * partners[first]
    second = draw(rng, after_first)
    to_second = weights[second] / after_first.sum()
    to_first = weights[first] / weights[partners[second]].sum()
    chance = (weights[first] * to_second + weights[second] * to_first) / of_anchors.sum()
    return first, second, float(chance)


def pick_legacy(state: ArenaState, servable: Servable, seen: SeenMatchups, rng: np.random.Generator) -> Pick | None:
    """A prompt, all equally likely, and two models that answered it; None if the voter has seen everything."""
    seen_on: dict[int, list[tuple[int, int]]] = {}
    for (first, second, prompt), _ in seen.triples():
        seen_on.setdefault(prompt, []).append((first, second))
    players = servable.cells.sum(axis=0)
    prompts = np.flatnonzero(players > 1)
    left = [p for p in prompts.tolist() if p not in seen_on or _partners(servable, p, seen_on[p]).any()]
    if not left:
        return None
    prompt = draw_one(rng, left)
    partners = _partners(servable, prompt, seen_on.get(prompt, []))
    weights = 1.0 / (1.0 + np.array(state.schedule.shown, dtype=np.float64))
    first, second, chance = draw_pair(rng, weights, partners, np.asarray(partners.any(axis=1)))
    return Pick(first, second, prompt, chance / len(left), "any prompt; models little shown")


def _partners(servable: Servable, prompt: int, seen: list[tuple[int, int]]) -> Bools:
    answered = servable.cells[:, prompt]
    partners = answered[:, None] & answered[None, :]
    np.fill_diagonal(partners, val=False)
    for first, second in seen:
        partners[first, second] = partners[second, first] = False
    return partners
