"""How much of what should be compared has been compared: prompts per model, neighbours per contender.

Decisive means A or B, here as everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]


def prompt_coverage(decisive_on: Ints, active: Bools, floor: int) -> Floats:
    """For each model the share of active prompts on which it has at least `floor` decisive votes.

    `decisive_on` counts by model and prompt. Without an active prompt nothing is covered: 0.
    """
    if not active.any():
        return np.zeros(len(decisive_on))
    return np.asarray((decisive_on[:, active] >= floor).mean(axis=1), dtype=np.float64)


def prompts_needed(floor_prompts: int, active_prompts: int) -> int:
    """On how many prompts two neighbours must have met: the floor, or all there are in an arena of fewer."""
    return max(1, min(floor_prompts, active_prompts))


def pair_met(decisive: int, prompts: int, *, floor_votes: int, floor_prompts: int) -> bool:
    """Whether a pair has the decisive votes, and the distinct prompts under them, that neighbours need."""
    return decisive >= floor_votes and prompts >= floor_prompts


def pair_completeness(decisive: int, prompts: int, *, floor_votes: int, floor_prompts: int) -> float:
    """How near a pair is to that floor, 0 to 1: the lesser of its votes and its prompts over what they should be."""
    return min(1.0, decisive / floor_votes, prompts / floor_prompts)


def neighbours(order: Sequence[int], size: int | None = None) -> dict[int, list[int]]:
    """For each of the first `size` models of an order, those directly above and below it within the first `size`."""
    band = list(order[:size])
    return {
        model: [band[place] for place in (rank - 1, rank + 1) if 0 <= place < len(band)]
        for rank, model in enumerate(band)
    }


def pair_coverage_scores(
    order: Sequence[int], band: int, completeness: Callable[[int, int], float]
) -> dict[int, float]:
    """For each contender the mean completeness of its pairs with its rank neighbours inside the band.

    A band of one has no neighbours, and its model no score.
    """
    beside = neighbours(order, band)
    return {
        model: sum(completeness(model, rival) for rival in rivals) / len(rivals)
        for model, rivals in beside.items()
        if rivals
    }


def deficits(counts: Ints, target: float) -> Floats:
    """How much is missing in each cell, 0 (nothing) to 1 (all of it), where each should count `target`."""
    return np.asarray(1.0 - np.minimum(1.0, counts / target))
