"""Which prompt a pair meets on, once the pair is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tiltyard.arena.matchmaking.draws import draw_one, tied_best
from tiltyard.arena.tallies import pair_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tiltyard.arena.matchmaking.field import Field

    Floats = NDArray[np.float64]
    Positions = NDArray[np.intp]

NEVER = -1e12
"""The score of what may not be served."""

FLYING_COSTS = 1e6
"""More than anything else weighs: what somebody is looking at is shown again only if the pair has no other prompt."""


def servable_scores(field: Field, first: int, second: int, base: Floats) -> Floats:
    """By prompt: `base`, less what is in flight, and `NEVER` where the pair may not be shown."""
    scores = base - FLYING_COSTS * field.in_flight(first, second)
    scores[~field.open_prompts(first, second)] = NEVER
    return np.asarray(scores)


def most_lacking(field: Field, first: int, second: int) -> Positions:
    """The prompts on which the two models together lack most."""
    base = field.prompt_deficit(first) + field.prompt_deficit(second)
    return tied_best(servable_scores(field, first, second, base))


def least_met(field: Field, first: int, second: int) -> Positions:
    """The prompts with the fewest decisive votes of the pair; among those, where the two together lack most."""
    base = 0.25 * (field.prompt_deficit(first) + field.prompt_deficit(second))
    for prompt, votes in field.state.tallies.pair_prompts.get(pair_of(first, second), {}).items():
        base[prompt] -= votes
    return tied_best(servable_scores(field, first, second, base))


def under_covered(field: Field, first: int, second: int) -> tuple[Positions, bool]:
    """The prompts that one of the two still needs, and True; where there are none, all that are open, and False."""
    allowed = field.open_prompts(first, second)
    free = allowed & (field.in_flight(first, second) == 0)
    if free.any():
        allowed = free
    needed = allowed & (field.under_floor(first) | field.under_floor(second))
    return (np.flatnonzero(needed), True) if needed.any() else (np.flatnonzero(allowed), False)


def draw_prompt(rng: np.random.Generator, prompts: Positions) -> tuple[int, float]:
    """One of the prompts, and how likely it was."""
    return draw_one(rng, prompts), 1.0 / len(prompts)
