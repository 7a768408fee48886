"""A model's rating after each of its votes, by rating the whole log at once: what the followed path is held against."""

from __future__ import annotations

import numpy as np

from tiltyard.arena import RatingPath, VoteTable
from tiltyard.arena.rules.policy import RatingRules
from tiltyard.stats import rate_battles_history


def rating_path(votes: VoteTable, rules: RatingRules, model: int) -> RatingPath:
    """The path of a model through all counted votes; it ends at the rating that the live board shows."""
    rated = votes.rated
    a, b = votes.model_a[rated], votes.model_b[rated]
    history = rate_battles_history(a, b, votes.score_a()[rated], start=len(votes.models), settings=rules.glicko2())
    own = (a == model) | (b == model)
    side = (b[own] == model).astype(np.intp)[:, None]
    return RatingPath(
        rules.rating,
        votes.at[rated][own],
        np.take_along_axis(history.rating[own], side, axis=1)[:, 0],
        np.take_along_axis(history.deviation[own], side, axis=1)[:, 0],
    )
