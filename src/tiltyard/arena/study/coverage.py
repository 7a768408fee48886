"""Prompt by prompt: how much of what should be compared has been compared, and how evenly a model does.

Decisive means A or B, here as everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tiltyard.types import Bools, Floats

Ints = NDArray[np.int32] | NDArray[np.int64]


def prompt_coverage(decisive_on: Ints, active: Bools, floor: int) -> Floats:
    """For each model the share of active prompts on which it has at least `floor` decisive votes.

    Without an active prompt nothing is covered: 0.

    Parameters:
        decisive_on: Decisive votes by model and prompt.
        active: Which prompts are enabled.
        floor: Decisive votes that make a prompt covered.
    """
    if not active.any():
        return np.zeros(len(decisive_on))
    return np.asarray((decisive_on[:, active] >= floor).mean(axis=1), dtype=np.float64)


def prompts_needed(floor_prompts: int, active_prompts: int) -> int:
    """On how many prompts two neighbours must have met: the floor, or all there are in an arena of fewer."""
    return max(1, min(floor_prompts, active_prompts))


def pair_completeness(decisive: int, prompts: int, *, floor_votes: int, floor_prompts: int) -> float:
    """How near a pair is to what neighbours need, 0 to 1; 1 is enough.

    It is the lesser of its decisive votes and the distinct prompts under them, each over what it should be.
    """
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


PROMPTS_FOR_SPREAD = 3
PROMPTS_FOR_CONSISTENCY = 5
VOTES_PER_PROMPT = 2
"""A prompt is looked at from this many votes on."""


def prompt_means(half_points: Ints, rated: Ints) -> Floats:
    """Mean score of each prompt (win 1, tie ½) for the prompts with at least two rated votes."""
    enough = rated >= VOTES_PER_PROMPT
    return np.asarray(0.5 * half_points[enough] / rated[enough], dtype=np.float64)


def average_score(means: Floats) -> float | None:
    """The mean of the prompts' means, each prompt alike; None without a prompt."""
    return float(means.mean()) if len(means) else None


def spread(means: Floats) -> float | None:
    """The standard deviation of the prompts' means, from three prompts on.

    It says nothing about why: a model that met strong rivals on one prompt looks uneven here.
    """
    return float(means.std()) if len(means) >= PROMPTS_FOR_SPREAD else None


def consistency(wins: Ints, decisive: Ints, expected: Floats, information: Floats) -> int | None:
    """How even a model is across prompts, 0–100, after allowing for whom it met there; None below five prompts.

    By prompt: decisive wins w, decisive votes, their expected number e = ΣE from the ratings of model and rivals,
    and the information v = ΣE(1 − E). One scoring step puts the model's shift on a prompt at (w − e)/v logits with
    variance 1/v. What these shifts vary by beyond that noise is τ² = max(0, (Q − (k − 1))/(Σv − Σv²/Σv)) with
    Q = Σv(shift − mean shift)² (DerSimonian and Laird 1986). The result is 200/(1 + e^τ): on a prompt that suits the
    model one standard deviation less than its usual one, the share of the even rival's half that it still wins. Equal
    on all prompts: 100; τ = 1 logit (174 points): 54. Luck of the draw and weak or strong rivals cost nothing. One step
    understates large shifts: in simulation τ of 0.25, 0.5 and 1 read 88, 77 and 59 for 88, 76 and 54.

    Parameters:
        wins: Decisive wins by prompt.
        decisive: Decisive votes by prompt.
        expected: ΣE by prompt: the wins that ratings expect.
        information: ΣE(1 − E) by prompt.
    """
    looked_at = (decisive >= VOTES_PER_PROMPT) & (information > 1e-9)
    if int(looked_at.sum()) < PROMPTS_FOR_CONSISTENCY:
        return None
    v = information[looked_at]
    shift = (wins[looked_at] - expected[looked_at]) / v
    mean = float((v * shift).sum() / v.sum())
    excess = float((v * (shift - mean) ** 2).sum()) - (len(v) - 1)
    variance = max(0.0, excess / float(v.sum() - (v * v).sum() / v.sum()))
    return math.floor(200.0 / (1.0 + math.exp(math.sqrt(variance))) + 0.5)
