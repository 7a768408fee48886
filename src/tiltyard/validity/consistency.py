"""How a model does from prompt to prompt: raw averages, and evenness once it is allowed for whom it met there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

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
