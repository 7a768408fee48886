"""The matchmaking from before the policy, kept in phase 1: any prompt, two models by inverse exposure."""

from __future__ import annotations

import numpy as np

from tiltyard.arena.matchmaking.draws import draw_one
from tiltyard.arena.matchmaking.exploration import draw_pair
from tiltyard.arena.matchmaking.matchup import Pick, SeenMatchups
from tiltyard.arena.matchmaking.tables import Servable
from tiltyard.arena.state import ArenaState
from tiltyard.types import Bools


def pick(state: ArenaState, servable: Servable, seen: SeenMatchups, rng: np.random.Generator) -> Pick | None:
    """A prompt, all equally likely, and two models that answered it; None if the voter has seen everything."""
    seen_on: dict[int, list[tuple[int, int]]] = {}
    for (first, second, prompt), _ in seen.triples():
        seen_on.setdefault(prompt, []).append((first, second))
    players = servable.cells.sum(axis=0)
    prompts = np.flatnonzero(players > 1)
    left = [p for p in prompts.tolist() if p not in seen_on or _partners(servable, p, seen_on[p]).any()]
    if not left:
        return None
    prompt = draw_one(rng, np.array(left, dtype=np.intp))
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
