"""How robust an order is: the number of battles whose removal swaps two models.

Removing one battle moves the gap θ_i − θ_j by about −aᵀs, with s the battle's score and a = H⁺(e_i − e_j) (an influence
function; Broderick, Giordano and Meager 2020; applied to arenas by Huang et al. 2025). Battles are removed in
the order of that effect; the number is then confirmed and lowered by refitting. It is an upper bound on the minimum:
"removing as few as k battles swaps them".
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import NotConverged
from tiltyard.stats.bradley_terry import BradleyTerryFit, fit_bounded
from tiltyard.stats.comparisons import Comparisons, Counted, sum_by
from tiltyard.stats.graph import islands
from tiltyard.types import Floats, Ints

LEVEL = 1e-9
"""Strengths (log-odds) closer than this are level: a fit knows them to ten digits or so."""


class Robustness(msgspec.Struct, frozen=True, eq=False):
    """For one fit, what is needed to ask about any pair of its models.

    Battles come in groups of equal ones: the `cell` where each counts, what one of them adds to its `counts`, and their
    `number`. `by_delta` and `by_tie` are the derivatives of one battle's log-likelihood.
    """

    fitted: BradleyTerryFit
    real: Counted
    cell: Ints
    counts: Floats
    number: Floats
    by_delta: Floats
    by_tie: Floats
    inverse: Floats


def prepare(fitted: BradleyTerryFit, rows: Comparisons, counted: Counted) -> Robustness:
    """Everything that the pairs of one fit have in common; every soft outcome is a group of its own."""
    hard = np.ones(len(rows), dtype=bool) if counted.share is None else np.isnan(counted.share)
    sums = sum_by(counted.cell[hard] * 3 + counted.result[hard], rows.weight[hard], 3 * len(counted.cells))
    filled = np.flatnonzero(sums)
    cell, counts, number = filled // 3, np.eye(3)[filled % 3], sums[filled]
    if counted.share is not None:
        share = counted.share[~hard]
        cell = np.concatenate([cell, counted.cell[~hard]])
        counts = np.concatenate([counts, np.column_stack([share, 1.0 - share, np.zeros(len(share))])])
        number = np.concatenate([number, rows.weight[~hard]])
    delta, tie = fitted.parameters.delta(fitted.cells), fitted.parameters.tie[fitted.cells.group]
    table = fitted.tie_model.result_scores(delta, tie)
    by_delta, by_tie = ((counts * scores[cell]).sum(axis=1) for scores in (table.delta, table.tie))
    return Robustness(fitted, counted, cell, counts, number, by_delta, by_tie, fitted.inverse_information())


def battles_to_swap(robustness: Robustness, above: int, below: int) -> int | None:
    """The fewest battles found whose removal puts `below` level with or above `above`; None if nothing does."""
    fitted = robustness.fitted
    gap = float(fitted.parameters.strength[above] - fitted.parameters.strength[below])
    if gap <= LEVEL:
        return 0
    effect = _effect_on_gap(robustness, above, below)
    order = np.argsort(-effect, kind="stable")
    order = order[effect[order] > 0]
    available = np.floor(robustness.number[order])
    most = int(available.sum())
    if not most:
        return None
    closed = np.cumsum(available * effect[order])
    first = int(np.searchsorted(closed, gap))
    before = closed[first - 1] if first else 0.0
    if first >= len(order):
        guess = most
    else:
        guess = int(available[:first].sum() + np.ceil((gap - before) / effect[order[first]]))
    return _confirm(robustness, above, below, order, guess=max(1, min(guess, most)), most=most)


def _effect_on_gap(robustness: Robustness, above: int, below: int) -> Floats:
    """How far removing one battle of each group closes the gap, to first order."""
    fitted, cell = robustness.fitted, robustness.cell
    m, q = fitted.cells.n_models, fitted.cells.design.shape[1]
    a = robustness.inverse[:, above] - robustness.inverse[:, below]
    along = a[fitted.cells.first[cell]] - a[fitted.cells.second[cell]] + fitted.cells.design[cell] @ a[m : m + q]
    tie_direction = np.zeros(fitted.cells.n_groups)
    tie_direction[fitted.tied_groups] = a[m + q :]
    return robustness.by_delta * along + robustness.by_tie * tie_direction[fitted.cells.group[cell]]


def _confirm(
    robustness: Robustness, above: int, below: int, order: NDArray[np.intp], *, guess: int, most: int
) -> int | None:
    """The smallest number along `order` for which a refit swaps the two, by growing and then bisecting."""
    not_enough, enough = 0, guess
    while not _swapped(robustness, above, below, order, enough):
        if enough == most:
            return None
        not_enough, enough = enough, min(most, enough + max(1, enough // 4))
    while enough - not_enough > 1:
        middle = (not_enough + enough) // 2
        if _swapped(robustness, above, below, order, middle):
            enough = middle
        else:
            not_enough = middle
    return enough


def _swapped(robustness: Robustness, above: int, below: int, order: NDArray[np.intp], number: int) -> bool:
    """Whether a refit without the first `number` battles of `order` no longer has `above` ahead."""
    cells = robustness.real.cells
    available = np.floor(robustness.number[order])
    taken = np.clip(number - (np.cumsum(available) - available), 0.0, available)
    removed = np.zeros_like(cells.counts)
    np.add.at(removed, robustness.cell[order], taken[:, None] * robustness.counts[order])
    counts = np.maximum(cells.counts - removed, 0.0)
    counts[counts < 1e-9] = 0.0
    left = cells.with_counts(counts)
    if len(islands(left)) > 1:
        return False
    try:
        refitted, _ = fit_bounded(left, robustness.fitted.tie_model)
    except NotConverged:
        return False
    return bool(refitted.parameters.strength[above] - refitted.parameters.strength[below] <= LEVEL)
