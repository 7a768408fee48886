"""What the first side is worth, where battles say who was shown first: fitted with the difference, or unknown.

Whoever is shown first wins a little more often. Where one of the two was shown first more often than the other, a part
of the difference is the side's. Two numbers decide what to do about it. The *lean* is how many logits the difference
moves for every logit that the first side is worth: 0 where sides are balanced, 1 where the new one always sat first in
battles between the two. Where it is large against the standard error, the side's advantage is fitted with the
difference. That takes battles that tell the two apart, the model and its side: how many the difference then rests on is
(Σv)²/Σv² over what each battle adds to its variance. With too few there is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tiltyard.boards.bradley_terry import BradleyTerry
from tiltyard.boards.certainty import Solved
from tiltyard.boards.preparation import first_share, with_sides
from tiltyard.decisions.contrast import Contrast, contrast
from tiltyard.errors import OptionError, RatingError
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.bradley_terry import response
from tiltyard.ratings.comparisons import OWN_CLUSTER, sum_by
from tiltyard.types import Floats

BALANCED = 0.5
"""Sides are balanced where a side worth a whole logit would move the difference by less than this many errors."""
BALANCED_MIXTURE = 1.25
"""The same where battles without sides are among them, so that no advantage is fitted: sides that a coin chose are
further apart than this in one case of a hundred."""
FEWEST_BATTLES = 10.0
"""On fewer battles than these, effectively, no difference rests that is fitted together with its side."""
FEWEST_CLUSTERS = 5.0
"""The same for prompts and voters."""
LARGEST = 4.0
"""No side is worth so many logits (98 : 2): a larger estimate has run away, because one of the two orders has but one
result."""
COSTS = 1.1
"""A side that widens the variance by less than this factor is well enough known, however few battles there are."""


@dataclass(frozen=True, slots=True, eq=False)
class SideFit:
    """The fit that a difference is read from, and what it says of sides.

    Parameters:
        solved: The fit, with the side's advantage where it was needed.
        advantage: What the first side is worth in points; None where it was not fitted.
        remarks: Sentences a reader should not miss.
        obstacles: Why no gate may decide.
    """

    solved: Solved
    advantage: float | None = None
    remarks: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()


def fit_sides(
    plain: Solved, new: str, old: str, estimator: BradleyTerry, solve: Callable[[BradleyTerry], Solved]
) -> SideFit:
    """The fit to read the difference from: the plain one where sides are balanced or unknown, else one with the side.

    Parameters:
        plain: The fit without sides, or with them where the estimator was told so.
        new: The model that stands first.
        old: The model it is compared with.
        estimator: The estimator; with `slot=False` sides are left alone.
        solve: The fit of the same battles by another estimator.
    """
    if estimator.slot is False:
        return SideFit(plain)
    table = plain.fit_input.selected.table
    shown = with_sides(table)
    if not shown.any():
        return SideFit(plain)
    found = contrast(plain, new, old)
    if not plain.fit_input.slot:
        lean = side_lean(plain, shown, _weights(plain, new, old))
        if is_balanced(lean, found):
            return SideFit(plain)
        if not shown.all():
            if is_balanced(lean, found, BALANCED_MIXTURE):
                return SideFit(plain)
            what = f"{_shown_first(plain, shown, new, old)} that have sides, and others have none"
            return SideFit(plain, obstacles=(f"{what}, so the side's advantage is not fitted",))
    told = f"{_shown_first(plain, shown, new, old)}, so its strength cannot be told from the side's advantage"
    try:
        joint = plain if plain.fit_input.slot else solve(replace(estimator, slot=True))
        sure = is_identified(joint, _weights(joint, new, old))
    except (RatingError, OptionError):
        return SideFit(plain, obstacles=(told,))
    if not sure:
        return SideFit(plain, obstacles=(told,))
    advantage = float(joint.fit.parameters.coefficient[0])
    return SideFit(joint, POINTS_PER_LOGIT * advantage, (side_remark(advantage),))


def side_remark(advantage: float) -> str:
    """What the first side is worth, in words.

    Parameters:
        advantage: Its advantage in logits.
    """
    wins = 1.0 / (1.0 + math.exp(-advantage))
    return (
        f"the first side wins {100 * wins:.0f} % of decided battles between equals; fitted, and not in the difference"
    )


def is_balanced(lean: float, found: Contrast, errors: float = BALANCED) -> bool:
    """Whether sides are so balanced that their advantage hardly matters to the difference.

    Parameters:
        lean: By how many logits the difference moves for every logit that the first side is worth.
        found: The difference.
        errors: How many standard errors a side worth a whole logit may move it.
    """
    return abs(lean) <= errors * found.error / POINTS_PER_LOGIT


def side_lean(solved: Solved, shown: NDArray[np.bool_], weights: Floats) -> float:
    """By how many logits a difference of strengths moves for every logit that the first side is worth.

    Parameters:
        solved: The fit, without the side's advantage.
        shown: Which battles say who was shown first.
        weights: What the difference is: a weight for each strength, adding up to 0.
    """
    rows, counted, fit = solved.fit_input.rows, solved.fit_input.counted, solved.fit
    moves = response(fit, weights)[: rows.n_models]
    one = _per_battle(solved)[counted.cell] * rows.weight * shown
    return float((one * (moves[rows.first] - moves[rows.second])).sum())


def _per_battle(solved: Solved) -> Floats:
    """The curvature of one battle in each cell, the half-win prior left out."""
    cells = solved.fit_input.counted.cells
    n = cells.counts.sum(axis=1)
    return np.asarray(solved.fit.curvature().delta[: len(cells)] / np.maximum(n, 1e-300))


def _weights(solved: Solved, new: str, old: str) -> Floats:
    models = solved.fit_input.selected.table.models
    weights = np.zeros(len(models))
    weights[models.index(new)], weights[models.index(old)] = 1.0, -1.0
    return weights


def is_identified(joint: Solved, weights: Floats) -> bool:
    """Whether enough battles, prompts and voters tell a difference of strengths from the side's advantage.

    Parameters:
        joint: The fit with the side's advantage.
        weights: What the difference is: a weight for each strength, adding up to 0.
    """
    rows, counted, fit = joint.fit_input.rows, joint.fit_input.counted, joint.fit
    if abs(fit.parameters.coefficient[0]) > LARGEST:
        return False
    moves = response(fit, weights)
    m, side = rows.n_models, moves[rows.n_models]
    bend = _per_battle(joint)[counted.cell]
    along = moves[rows.first] - moves[rows.second]
    design = counted.cells.design[counted.cell] @ moves[m : m + counted.cells.design.shape[1]]
    each = bend * (along + design) ** 2
    variance = float((rows.weight * each).sum())
    own = float(response(fit, np.eye(m + 1)[m])[m])  # the side's own variance
    if variance <= COSTS * (variance - side * side / own):
        return True
    if variance**2 / float((rows.weight * each**2).sum()) < FEWEST_BATTLES:
        return False
    sums = [_sums(codes, rows.weight * each) for codes in rows.clusters]
    return all(one.sum() ** 2 / (one**2).sum() >= FEWEST_CLUSTERS for one in sums)


def _sums(codes: NDArray[np.int64], values: Floats) -> Floats:
    """The values summed by cluster; rows that share nothing stay as they are."""
    own = codes == OWN_CLUSTER
    return np.concatenate([values[own], sum_by(codes[~own], values[~own], int(codes.max(initial=0)) + 1)])


def _shown_first(solved: Solved, shown: NDArray[np.bool_], new: str, old: str) -> str:
    """How often the one of the two whose sides are less balanced was shown first."""
    table = solved.fit_input.selected.table
    shares = {name: first_share(table, shown, table.models.index(name)) for name in (new, old)}
    name, share = max(shares.items(), key=lambda item: abs(item[1] - 0.5))
    return f"{name} was shown first in {100 * share:.0f} % of its battles"
