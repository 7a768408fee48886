"""How many battles swap two models: what is claimed is refitted, and compared with removing them one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from oracles.plain_bradley_terry import FIRST, SECOND, TIE, Row, as_comparisons, some_rows
from tests.records import replace
from tests.sizes import size
from tiltyard.stats import (
    TIE_MODELS,
    battles_to_swap,
    count_pairs,
    fit_bounded,
    influence,
    islands,
    prepare,
    ties_bounded,
)
from tiltyard.stats.influence import _effect_on_gap, _swapped


def setup(rows, models, ties="davidson"):
    table = as_comparisons(rows, models)
    counted = count_pairs(table)
    result, _ = fit_bounded(counted.cells, TIE_MODELS[ties])
    return prepare(result, table, counted)


def gap_of(rows, models, ties, above, below):
    """The gap after a refit of some rows, None where they no longer join the models or have no fit."""
    counted = count_pairs(as_comparisons(rows, models))
    if len(islands(counted.cells)) > 1:
        return None
    if ties != "half" and not ties_bounded(counted.cells):
        return None
    strength = fit_bounded(counted.cells, TIE_MODELS[ties])[0].parameters.strength
    return float(strength[above] - strength[below])


def greedy(rows, models, ties, above, below, most):
    """Remove, one after the other, the row whose removal closes the gap most: how many until it is closed."""
    rows = list(rows)
    for removed in range(1, most + 1):
        kinds = {(row.first, row.second, row.result): at for at, row in enumerate(rows)}
        gaps = {at: gap_of(rows[:at] + rows[at + 1 :], models, ties, above, below) for at in kinds.values()}
        best = min((gap, at) for at, gap in gaps.items() if gap is not None)
        rows.pop(best[1])
        if best[0] <= 0:
            return removed
    return None


def neighbours(robustness):
    order = np.argsort(-robustness.fitted.parameters.strength, kind="stable").tolist()
    return list(itertools.pairwise(order))


def removal_order(robustness, above, below):
    effect = _effect_on_gap(robustness, above, below)
    order = np.argsort(-effect, kind="stable")
    return order[effect[order] > 0]


@pytest.mark.parametrize("ties", ["half", "davidson", "rao-kupper"])
@pytest.mark.parametrize("seed", range(size(1, soak=4)))
def test_removing_that_many_swaps_them_one_fewer_does_not_and_greedy_refits_need_as_many(ties, seed):
    rows = some_rows(seed, n=120, models=5)
    robustness = setup(rows, 5, ties)
    compared = 0
    for above, below in neighbours(robustness):
        k = battles_to_swap(robustness, above, below)
        assert k is not None
        order = removal_order(robustness, above, below)
        assert _swapped(robustness, above, below, order, k)
        assert k == 1 or not _swapped(robustness, above, below, order, k - 1)
        # What `_swapped` claims, checked on the rows themselves: drop k real rows in that order and refit.
        battles = robustness
        left = list(rows)
        gone = 0
        for group in order:
            cell = battles.cell[group]
            pair = {robustness.fitted.cells.first[cell], robustness.fitted.cells.second[cell]}
            result = int(np.argmax(battles.counts[group]))
            for row in list(left):
                seen = row.result if row.first < row.second or row.result == TIE else 1 - row.result
                if gone < k and {row.first, row.second} == pair and seen == result:
                    left.remove(row)
                    gone += 1
        assert gone == k
        assert gap_of(left, 5, ties, above, below) <= 1e-9
        if k <= 4:
            fewest = greedy(rows, 5, ties, above, below, most=k)
            assert fewest is not None
            assert k - 1 <= fewest <= k
            compared += 1
    assert compared >= 1


@pytest.mark.parametrize("covariates", [0, 1], ids=["plain", "with a control"])
def test_the_effect_is_the_change_of_a_refit_to_first_order(covariates):
    rows = some_rows(2, n=2000, models=5, covariates=covariates)
    robustness = setup(rows, 5)
    above, below = neighbours(robustness)[0]
    effect = _effect_on_gap(robustness, above, below)
    gap = robustness.fitted.parameters.strength[above] - robustness.fitted.parameters.strength[below]
    cells = robustness.real.cells
    for group in range(0, len(effect), max(5, len(effect) // 40)):
        counts = cells.counts.copy()
        counts[robustness.cell[group]] -= robustness.counts[group]
        strength = fit_bounded(cells.with_counts(counts), TIE_MODELS["davidson"])[0].parameters.strength
        moved = gap - (strength[above] - strength[below])
        assert moved == pytest.approx(effect[group], rel=0.03 if covariates else 0.02, abs=1e-6)


def test_three_wins_to_one_needs_two_battles():
    # 3 : 1 becomes 1 : 1 when two wins go.
    rows = [Row(0, 1, FIRST)] * 3 + [Row(0, 1, SECOND)]
    assert battles_to_swap(setup(rows, 2, "half"), 0, 1) == 2


def test_level_models_need_none():
    rows = [Row(0, 1, FIRST), Row(0, 1, SECOND)]
    assert battles_to_swap(setup(rows, 2, "half"), 0, 1) == 0


def test_models_with_the_same_record_are_level_whatever_the_last_digit_of_the_fit():
    with_one_win = [Row(0, 1, FIRST)] * 5 + [Row(0, 1, SECOND)] + [Row(0, 2, FIRST)] * 5
    assert battles_to_swap(setup(with_one_win, 3, "half"), 1, 2) == 1
    alike = [Row(0, model, result) for model in (1, 2) for result in [FIRST] * 5 + [SECOND] * 3]
    assert {battles_to_swap(setup(alike, 3, "half"), *pair) for pair in ((1, 2), (2, 1))} == {0}


def test_a_swap_is_found_although_removing_every_battle_that_helps_would_part_the_models():
    # 1 : 5 and 0 : 6 against model 0. Without the win it is 0 : 5 and 0 : 6, and then one loss less makes them level.
    rows = [Row(0, 1, FIRST)] * 5 + [Row(0, 1, SECOND)] + [Row(0, 2, FIRST)] * 6
    assert battles_to_swap(setup(rows, 3, "half"), 1, 2) == 2


def test_one_battle_of_weight_three_is_three_battles():
    rows = [Row(0, 1, FIRST, weight=3.0), Row(0, 1, SECOND)]
    assert battles_to_swap(setup(rows, 2, "half"), 0, 1) == 2


def test_models_joined_by_a_single_battle_cannot_be_swapped_by_removing_it():
    # Without the one battle of 0 and 1 nothing compares them: that is no swap.
    rows = [Row(0, 1, FIRST), Row(1, 2, FIRST), Row(2, 1, FIRST), Row(0, 3, FIRST), Row(3, 0, FIRST)]
    assert battles_to_swap(setup(rows, 4, "half"), 0, 1) is None
    # Ten battles of weight 0.7 add up to a little more than 7: what rounding leaves of them is no battle.
    assert battles_to_swap(setup([Row(0, 1, FIRST, weight=0.7)] * 10, 2, "half"), 0, 1) is None


def test_the_number_is_found_in_few_refits(monkeypatch):
    refits = []
    monkeypatch.setattr(influence, "fit_bounded", lambda *of: refits.append(of) or fit_bounded(*of))
    even = setup([Row(0, 1, FIRST, weight=520.0), Row(0, 1, SECOND, weight=480.0)], 2, "half")
    assert battles_to_swap(even, 0, 1) == 40
    assert len(refits) <= 1 + np.ceil(np.log2(41))
    field = setup(some_rows(2, n=2000, models=5), 5)
    for above, below in neighbours(field):
        refits.clear()
        number = battles_to_swap(field, above, below)
        assert len(refits) <= 3 + np.ceil(np.log2(number))


def test_soft_outcomes_are_removed_one_by_one():
    rows = [Row(0, 1, FIRST, share=0.9), Row(0, 1, FIRST, share=0.8), Row(0, 1, SECOND, share=0.3)]
    # Sums 2.0 : 1.0; without the 0.9 it is 1.1 : 0.9; without 0.9 and 0.8 it is 0.3 : 0.7.
    assert battles_to_swap(setup(rows, 2, "half"), 0, 1) == 2


def test_the_number_does_not_depend_on_how_rows_are_written():
    rows = some_rows(3, n=120, models=5)
    turned = [
        replace(row, first=row.second, second=row.first, result=row.result if row.result == TIE else 1 - row.result)
        for row in rows
    ]
    one, other = setup(rows, 5), setup(turned[::-1], 5)
    for above, below in neighbours(one):
        assert battles_to_swap(one, above, below) == battles_to_swap(other, above, below)
