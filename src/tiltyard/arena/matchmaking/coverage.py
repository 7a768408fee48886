"""The coverage lane: the model with the largest deficit, with the opponent and prompt where both lack most.

A deficit is a share: how much a model–prompt cell or a pair is short of its floor or of an even spread. The anchor is
the model with the highest mean deficit and exposure urgency together; opponent and prompt have the highest joint
deficit with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.matchmaking.matchup import LEVEL, Pick, draw_one, tied_best
from tiltyard.arena.matchmaking.voter_view import NEVER, VoterView, draw_prompt, most_lacking, rule_out
from tiltyard.types import Floats

Positions = NDArray[np.intp]

EXPOSURE_WEIGHT = 6.0
"""The weight of one tolerance of missing exposure, against deficits between 0 and 1. Contenders always lack meetings
with the others, since their own lane fills their share; with a smaller weight that would lift them out of tolerance."""


def pick(view: VoterView, rng: np.random.Generator) -> Pick:
    """The pair and prompt with the highest joint deficit of the neediest model; ties are broken at random."""
    anchors = most_lacking_models(view)
    anchor = draw_one(rng, anchors)
    opponents = best_opponents(view, anchor)
    opponent = draw_one(rng, opponents)
    chance = 1.0 / len(opponents)
    if len(anchors) > 1 and opponent in anchors:
        back = best_opponents(view, opponent)
        chance += float(anchor in back) / len(back)
    prompt, prompt_chance = draw_prompt(rng, most_lacking(view, anchor, opponent), view, anchor, opponent)
    return Pick(anchor, opponent, prompt, chance / len(anchors) * prompt_chance, "lacks most; largest joint deficit")


def most_lacking_models(view: VoterView) -> Positions:
    """The models that lack most in exposure, prompts and opponents together."""
    scores = np.where(view.anchors, EXPOSURE_WEIGHT * view.urgency + view.mean_prompt_deficit(), NEVER)
    models = _could_win(scores, 1.001)
    return models[tied_best(scores[models] + view.mean_pair_deficit(models))]


def best_opponents(view: VoterView, anchor: int) -> Positions:
    """The opponents with the highest joint deficit on their best prompt."""
    partners = view.partners[anchor]
    own = np.where(partners, EXPOSURE_WEIGHT * view.urgency + view.pair_deficit(anchor), NEVER)
    models = _could_win(own, 2.0)
    best, score = _best_of(view, anchor, own, models)
    if score < np.maximum.reduce(own) and len(models) < np.count_nonzero(partners):
        best, _ = _best_of(view, anchor, own, partners.nonzero()[0])
    return best


def _best_of(view: VoterView, anchor: int, own: Floats, models: Positions) -> tuple[Positions, float]:
    """The models with the highest joint deficit, and its value; far below `own` if all are in flight.

    The prompts on which a pair may not be shown are ruled out only for the top candidates: first for a few, then for
    ever more, until none of the others can be as good.
    """
    prompts = view.deficits.prompts[models] + view.prompt_deficit(anchor)
    best = own[models] + np.maximum.reduce(prompts, axis=1)
    order, sure = best.argsort()[::-1], 0
    while sure < len(order) and best[order[sure]] >= np.maximum.reduce(best) - LEVEL:
        places = order[sure : 2 * sure + 1]
        for place in places.tolist():
            rule_out(view, anchor, int(models[place]), prompts[place])
        best[places] = own[models[places]] + np.maximum.reduce(prompts[places], axis=1)
        sure += len(places)
    top = tied_best(best)
    return models[top], float(best[top[0]])


def _could_win(scores: Floats, more: float) -> Positions:
    """The models that can still be best when as much as `more` is added: 1 for each deficit that is to come."""
    best: float = np.maximum.reduce(scores)
    return (scores >= best - more - LEVEL).nonzero()[0]
