"""What changes where the new model was picked because it is the best of several candidates.

The best of K equal candidates is better than an old model in nearly K times as many cases as any one of them. So what
is claimed of it is decided by α/K: the interval stands at the level 1 − (1 − level)/K (Bonferroni). Nobody but the user
knows why a model was picked; where it is the best of several in the same data, both answers are given.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from msgspec.structs import replace as replace_struct

from tiltyard.boards.estimator import check_level
from tiltyard.decisions.records import Difference, EstimatedDifference
from tiltyard.options import CompareOptions
from tiltyard.types import Floats

LEVEL = 0.95


def level_for(options: CompareOptions) -> float:
    """The level of an interval that holds for the best of so many candidates."""
    level = LEVEL if options.level is None else options.level
    check_level(level)
    return 1.0 - (1.0 - level) / (options.picked_from or 1)


def candidates(estimates: Floats, new: int, old: int | None) -> int | None:
    """Among how many models, the old one left out, the new one has the best estimate; None where it is not the best."""
    others = np.delete(estimates, [place for place in (new, old) if place is not None])
    others = others[~np.isnan(others)]
    return 1 + len(others) if len(others) and bool((estimates[new] >= others).all()) else None


def for_picked(result: Difference, picked_from: int | None) -> Difference:
    """The difference, whose intervals have the level for the best of so many, with the certainty for it."""
    if picked_from is None or picked_from == 1:
        return result

    def shared(one: EstimatedDifference) -> EstimatedDifference:
        chance = one.probability_better
        if chance is None:
            return one
        doubt = min(0.5, picked_from * min(chance, 1.0 - chance))
        return replace(one, probability_better=doubt if chance < 0.5 else 1.0 - doubt)

    direct = result.direct
    if direct is not None and direct.estimate is not None:
        direct = replace_struct(direct, estimate=shared(direct.estimate))
    parts = (
        one if one.estimate is None else replace_struct(one, estimate=shared(one.estimate)) for one in result.parts
    )
    return replace(
        result,
        estimate=shared(result.estimate),
        direct=direct,
        parts=tuple(parts),
        picked_from=picked_from,
        best_of=None,
    )
