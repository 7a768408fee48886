"""The coverage lane: the model that lacks most meets whom, and on what, both lack most.

A deficit is a share: what a model–prompt cell or a pair misses to its floor or to an even spread. The anchor is the
model with the highest mean deficit and exposure urgency together; opponent and prompt have the highest joint deficit
with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tiltyard.arena.matchmaking.draws import draw_one, tied_best
from tiltyard.arena.matchmaking.matchup import Pick
from tiltyard.arena.matchmaking.prompts import NEVER, draw_prompt, servable_scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tiltyard.arena.matchmaking.field import Field


EXPOSURE_WEIGHT = 6.0
"""What one tolerance of lacking exposure weighs, against deficits between 0 and 1: contenders always lack meetings with
the others, since their own lane fills their share, and a smaller weight would let that lift them out of tolerance."""


def can_serve(field: Field) -> bool:
    """Whether any pair can be shown."""
    return field.has_pair


def pick(field: Field, rng: np.random.Generator) -> Pick:
    """The pair and prompt with the highest joint deficit of the most lacking model; ties are drawn."""
    anchors = tied_best(anchor_scores(field))
    anchor = draw_one(rng, anchors)
    opponents = best_opponents(field, anchor)
    opponent = draw_one(rng, opponents)
    chance = 1.0 / len(opponents)
    if len(anchors) > 1 and opponent in anchors:
        back = best_opponents(field, opponent)
        chance += float(anchor in back) / len(back)
    prompts = tied_best(servable_scores(field, anchor, opponent, _prompt_base(field, anchor, opponent)))
    prompt, prompt_chance = draw_prompt(rng, prompts)
    return Pick(anchor, opponent, prompt, chance / len(anchors) * prompt_chance, "lacks most; largest joint deficit")


def anchor_scores(field: Field) -> NDArray[np.float64]:
    """By model: how much it lacks in prompts, opponents and exposure; `NEVER` without a partner."""
    scores = EXPOSURE_WEIGHT * field.urgency + field.mean_prompt_deficit + field.mean_pair_deficit
    return np.where(field.anchors, scores, NEVER)


def best_opponents(field: Field, anchor: int) -> NDArray[np.intp]:
    """The opponents with the highest joint deficit on their best prompt.

    What the pair may not be shown on is looked at only for those that come out on top, one after the other.
    """
    own = EXPOSURE_WEIGHT * field.urgency + field.pair_deficit(anchor)
    best = own + (field.prompt_deficits + field.prompt_deficits[anchor]).max(axis=1)
    best[~field.partners[anchor]] = NEVER
    looked_at: set[int] = set()
    while True:
        top = tied_best(best)
        unsure = [int(j) for j in top if int(j) not in looked_at and not _is_sure(field, anchor, int(j))]
        if not unsure:
            return top
        for opponent in unsure:
            base = _prompt_base(field, anchor, opponent)
            best[opponent] = own[opponent] + servable_scores(field, anchor, opponent, base).max()
            looked_at.add(opponent)


def _is_sure(field: Field, anchor: int, opponent: int) -> bool:
    return field.servable.whole and field.is_plain(anchor, opponent)


def _prompt_base(field: Field, first: int, second: int) -> NDArray[np.float64]:
    deficits = field.prompt_deficits
    return np.asarray(deficits[first] + deficits[second], dtype=np.float64)
