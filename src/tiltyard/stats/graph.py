"""Who met whom, and who beat whom: whether ratings exist at all, and the prior where they would be infinite.

Ratings compare two models only if a chain of battles joins them, and are finite only if the chain can be walked both
ways along wins, a tie being a step both ways (Ford 1957): no group may be unbeaten, or winless, against all others.
"""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import NDArray

from tiltyard.stats.comparisons import FIRST_WON, SECOND_WON, TIED, PairCells, sum_by
from tiltyard.types import Floats, Ints


class Reach(enum.IntEnum):
    """How a model is connected to the largest group in which every model is bounded from both sides."""

    HELD = 0
    UNBEATEN = 1
    """It, or its group, never lost to the rest: nothing bounds its rating from above."""
    WINLESS = 2
    """It, or its group, never won against the rest: nothing bounds its rating from below."""
    APART = 3
    """Joined to the rest only through models that are themselves unbounded: nothing bounds it on either side."""


def islands(cells: PairCells) -> list[Ints]:
    """The groups of models joined by battles, largest first; one group means that all can be compared."""
    start = np.zeros(cells.n_models, dtype=bool)
    start[:1] = True
    met = cells.counts.sum(axis=1) > 0
    first, second = cells.first[met], cells.second[met]
    if _reachable(start, np.concatenate([first, second]), np.concatenate([second, first])).all():
        return [np.arange(cells.n_models)]
    label = strong_components(cells.n_models, np.concatenate([first, second]), np.concatenate([second, first]))
    groups = [np.flatnonzero(label == number) for number in range(int(label.max()) + 1)]
    return sorted(groups, key=lambda group: (-len(group), int(group[0])))


def reach(cells: PairCells) -> NDArray[np.int8]:
    """For every model its `Reach`. Everybody is HELD exactly when the maximum-likelihood ratings are finite.

    The models must be joined by battles (one island).
    """
    won = cells.counts[:, FIRST_WON] + cells.counts[:, TIED] > 0
    lost = cells.counts[:, SECOND_WON] + cells.counts[:, TIED] > 0
    winner = np.concatenate([cells.first[won], cells.second[lost]])
    loser = np.concatenate([cells.second[won], cells.first[lost]])
    core = np.zeros(cells.n_models, dtype=bool)
    core[0] = True
    if _reachable(core, winner, loser).all() and _reachable(core, loser, winner).all():
        return np.full(cells.n_models, Reach.HELD, dtype=np.int8)
    # The largest group within which everybody is joined to everybody both ways; the busier one of equals.
    label = strong_components(cells.n_models, winner, loser)
    sizes, n = np.bincount(label), cells.counts.sum(axis=1)
    battles = sum_by(label[cells.first], n, len(sizes)) + sum_by(label[cells.second], n, len(sizes))
    core = np.asarray(label == np.lexsort((battles, sizes))[-1])
    state = np.full(cells.n_models, Reach.APART, dtype=np.int8)
    below, above = _reachable(core, winner, loser), _reachable(core, loser, winner)
    state[below] = Reach.WINLESS
    state[above] = Reach.UNBEATEN
    state[below & above] = Reach.HELD
    return state


def _reachable(start: NDArray[np.bool_], source: Ints, target: Ints) -> NDArray[np.bool_]:
    """The models that can be walked to from `start` along the edges, `start` included."""
    seen = start.copy()
    count = 0
    while count != (count := int(seen.sum())) and count < len(seen):
        seen[target[seen[source]]] = True
    return seen


def ties_bounded(cells: PairCells) -> bool:
    """Whether the tie parameters of Davidson and Rao–Kupper have a finite best value, where the strengths have one.

    Ties and strengths run away together when the models can be put on levels such that every win went down by a level
    or more and every tie stayed within one: then a wider gap with more ties always explains the battles better. One
    pair that beat each other, or any cycle of wins, rules that out; the rest is a linear program.
    """
    tied = np.flatnonzero(np.bincount(cells.group, cells.counts[:, TIED], cells.n_groups) > 0)
    return all(_has_cycle(cells, int(group)) for group in tied) or not _can_be_levelled(cells, tied)


def _has_cycle(cells: PairCells, group: int) -> bool:
    inside = cells.group == group
    won = inside & (cells.counts[:, FIRST_WON] > 0)
    lost = inside & (cells.counts[:, SECOND_WON] > 0)
    if (won & lost).any():
        return True
    winner = np.concatenate([cells.first[won], cells.second[lost]])
    loser = np.concatenate([cells.second[won], cells.first[lost]])
    return bool(strong_components(cells.n_models, winner, loser).max() + 1 < cells.n_models)


def _can_be_levelled(cells: PairCells, tied: Ints) -> bool:
    """Whether some levels d and steps T ≥ 0, one per tied group and not all 0, have d_i − d_j ≥ T where i won.

    A tie asks for |d_i − d_j| ≤ T.
    """
    step_of = np.full(cells.n_groups, -1)
    step_of[tied] = cells.n_models + np.arange(len(tied))
    # Each row says: −(d_up − d_down) + sign · T ≤ 0.
    parts = []
    kinds = ((FIRST_WON, True, 1.0), (SECOND_WON, False, 1.0), (TIED, True, -1.0), (TIED, False, -1.0))
    for column, forward, way in kinds:
        chosen = np.flatnonzero(cells.counts[:, column] > 0)
        up, down = (cells.first, cells.second) if forward else (cells.second, cells.first)
        parts.append((up[chosen], down[chosen], step_of[cells.group[chosen]], np.full(len(chosen), way)))
    up, down, step, sign = (np.concatenate(part) for part in zip(*parts, strict=True))
    if len(tied) == 1:
        return _levels_exist(cells.n_models, up, down, np.where(step >= 0, sign, 0.0))
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    row, stepped = np.arange(len(up)), step >= 0
    index = np.concatenate([row, row, row[stepped]]), np.concatenate([up, down, step[stepped]])
    value = np.concatenate([-np.ones(len(up)), np.ones(len(up)), sign[stepped]])
    size = cells.n_models + len(tied)
    limits = csr_array((value, index), shape=(len(up), size))
    gain = np.concatenate([np.zeros(cells.n_models), -np.ones(len(tied))])
    bounds = [(None, None)] * cells.n_models + [(0.0, 1.0)] * len(tied)
    # SciPy takes sparse limits; its stubs do not know.
    answer = linprog(gain, A_ub=limits, b_ub=np.zeros(len(up)), bounds=bounds)  # type: ignore[call-overload]
    return bool(-answer.fun > 0.5)


def _levels_exist(n_models: int, up: Ints, down: Ints, gap: Floats) -> bool:
    """Whether some levels d have d_up − d_down ≥ gap for every row: no circle of rows asks for more than nothing.

    Levels are lowered until all rows hold (Bellman 1958; Ford 1956); without such a circle, each is final after as many
    rounds as there are models.
    """
    level = np.zeros(n_models)
    for _ in range(n_models + 1):
        before = level.copy()
        np.minimum.at(level, down, before[up] - gap)
        if (level == before).all():
            return True
    return False


def half_win_prior(cells: PairCells, state: NDArray[np.int8]) -> PairCells:
    """The cells, and half a win and half a loss for every model that is not HELD, spread over the opponents it met.

    Model i gets ½·n_ij/n_i of a win, and as much of a loss, against each opponent j. That makes every edge that leaves
    a group passable both ways, so the ratings are finite.
    """
    n = cells.counts.sum(axis=1)
    model = np.concatenate([cells.first, cells.second])
    opponent = np.concatenate([cells.second, cells.first])
    meetings = np.concatenate([n, n])
    total = sum_by(model, meetings, cells.n_models)
    loose = (state[model] != Reach.HELD) & (meetings > 0)
    model, opponent, meetings = model[loose], opponent[loose], meetings[loose]
    half = 0.5 * meetings / total[model]
    return cells.append(model, opponent, np.column_stack([half, half, np.zeros_like(half)]))


def wins_and_losses(cells: PairCells) -> tuple[Floats, Floats]:
    """What each model won and lost, ties apart."""
    m, first_won, second_won = cells.n_models, cells.counts[:, FIRST_WON], cells.counts[:, SECOND_WON]
    wins = sum_by(cells.first, first_won, m) + sum_by(cells.second, second_won, m)
    losses = sum_by(cells.first, second_won, m) + sum_by(cells.second, first_won, m)
    return wins, losses


def open_ends_of_a_lone_core(cells: PairCells, state: NDArray[np.int8]) -> NDArray[np.int8]:
    """The same, but that a model which alone is HELD, and never lost or never won, is unbounded like those around it.

    Where no two models beat each other, one of them stands in for the group that the others are measured by. It needs
    no prior, but nothing bounds it on that side either.
    """
    held = np.flatnonzero(state == Reach.HELD)
    if len(held) != 1 or len(state) == 1:
        return state
    not_won, not_lost = (float(count[held[0]]) == 0.0 for count in wins_and_losses(cells))
    opened = state.copy()
    if not_lost or not_won:
        opened[held] = Reach.UNBEATEN if not_lost else Reach.WINLESS
    return opened


FEW_MODELS = 300
"""Up to this many models a table of who can be walked to is made before SciPy is imported."""


def strong_components(n_models: int, source: Ints, target: Ints) -> Ints:
    """For every model the number of its strong component; components are numbered from the losing end."""
    if n_models > FEW_MODELS:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        edges = csr_array((np.ones(len(source), dtype=np.int8), (source, target)), shape=(n_models, n_models))
        return np.asarray(connected_components(edges, directed=True, connection="strong")[1], dtype=np.int64)
    walked = np.eye(n_models)
    walked[source, target] = 1.0
    for _ in range(n_models.bit_length()):  # each round doubles the length of the walks
        walked = (walked @ walked > 0.0).astype(np.float64)
    member = ((walked > 0.0) & (walked.T > 0.0)).argmax(axis=1)  # the first model of each component stands for it
    ahead_of = walked.sum(axis=1) * n_models + member
    return np.asarray(np.unique(ahead_of, return_inverse=True)[1], dtype=np.int64)
