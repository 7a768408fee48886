"""Rows summed by pair: nothing is lost, whichever way a row is written."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.plain_bradley_terry import FIRST, SECOND, TIE, Row, as_comparisons, some_rows
from tests.records import replace
from tiltyard import types
from tiltyard.stats import OWN_CLUSTER, comparisons, count_pairs, in_both, sandwich, sum_by
from tiltyard.stats.bradley_terry import fit
from tiltyard.stats.tie_models import DAVIDSON
from tiltyard.types import looked_up, numbered, occurring, order_of

SEVEN = 7
"""So few rows at once that small arrays come in many pieces."""


@pytest.fixture
def in_pieces(monkeypatch):
    for module in (types, comparisons):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", SEVEN)


def test_a_pair_is_one_cell_whichever_side_it_is_written_from():
    rows = [Row(0, 1, FIRST), Row(1, 0, FIRST), Row(1, 0, TIE, weight=2.0), Row(2, 0, SECOND)]
    cells = count_pairs(as_comparisons(rows, 3)).cells
    assert list(zip(cells.first.tolist(), cells.second.tolist(), strict=True)) == [(0, 1), (0, 2)]
    # Seen from model 0: against 1 it won once, lost once, tied twice; against 2 it won once.
    assert cells.counts.tolist() == [[1.0, 1.0, 2.0], [1.0, 0.0, 0.0]]


def test_with_a_slot_term_the_sides_stay_apart():
    rows = [Row(0, 1, FIRST), Row(1, 0, FIRST)]
    cells = count_pairs(as_comparisons(rows, 2), slot=True).cells
    assert cells.first.tolist() == [0, 1]
    assert cells.counts.tolist() == [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    assert cells.design.tolist() == [[1.0], [1.0]]


def test_a_soft_outcome_is_divided_and_turned_with_its_row():
    rows = [Row(1, 0, FIRST, share=0.7, weight=2.0), Row(0, 1, TIE)]
    counted = count_pairs(as_comparisons(rows, 2))
    np.testing.assert_allclose(counted.cells.counts, [[2 * 0.3, 2 * 0.7, 1.0]])
    np.testing.assert_allclose(counted.share[0], 0.3)


@pytest.mark.parametrize("options", [{}, {"groups": 2}, {"soft_share": 0.3}, {"weighted": True}])
@pytest.mark.parametrize("slot", [False, True])
def test_counts_and_rows_hold_the_same_battles(options, slot):
    rows = as_comparisons(some_rows(1, **options), 4)
    counted = count_pairs(rows, slot=slot)
    cells = counted.cells
    assert cells.counts.sum() == pytest.approx(rows.weight.sum())
    per_model = np.bincount(cells.first, cells.counts.sum(axis=1), 4) + np.bincount(
        cells.second, cells.counts.sum(axis=1), 4
    )
    np.testing.assert_allclose(per_model, rows.battles_per_model())
    low, high = np.minimum(rows.first, rows.second), np.maximum(rows.first, rows.second)
    assert (np.minimum(cells.first, cells.second)[counted.cell] == low).all()
    assert (np.maximum(cells.first, cells.second)[counted.cell] == high).all()
    assert (cells.group[counted.cell] == rows.group).all()


@pytest.mark.parametrize("options", [{}, {"groups": 2}])
def test_sorting_keys_and_marking_them_give_the_same_cells(options, monkeypatch):
    rows = as_comparisons(some_rows(2, n=200, models=9, **options), 9)
    marked = count_pairs(rows)
    monkeypatch.setattr(comparisons, "DENSE_KEYS", 0)
    sorted_ = count_pairs(rows)
    assert (marked.cell == sorted_.cell).all()
    for name in ("first", "second", "counts", "group"):
        assert (getattr(marked.cells, name) == getattr(sorted_.cells, name)).all()


def test_with_covariates_every_row_is_its_own_cell():
    rows = as_comparisons(some_rows(3, n=20, covariates=2), 4)
    cells = count_pairs(rows, slot=True).cells
    assert len(cells) == 20
    np.testing.assert_array_equal(cells.design, np.column_stack([np.ones(20), rows.covariates]))


def test_some_rows_keep_everything_that_belongs_to_them():
    rows = as_comparisons(some_rows(4, prompts=3, covariates=1, soft_share=0.5), 4)
    chosen = np.arange(len(rows)) % 3 == 0
    part = rows.take(chosen)
    assert len(part) == chosen.sum()
    for name in ("first", "second", "result", "weight", "share", "group", "covariates"):
        np.testing.assert_array_equal(getattr(part, name), getattr(rows, name)[chosen])
    np.testing.assert_array_equal(part.clusters[0], rows.clusters[0][chosen])


RNG = np.random.default_rng(1)
NUMBERS = {
    "none": np.array([], dtype=np.uint64),
    "one": np.array([5]),
    "few": RNG.integers(50, size=999),
    "all alike": np.zeros(9, dtype=np.uint64),
    "hashes, each several times": RNG.integers(2**64 - 1, size=300, dtype=np.uint64)[RNG.integers(300, size=2000)],
    "equal but for their last bits": np.uint64(2**64 - 1) - RNG.integers(600, size=1000).astype(np.uint64),
    "two such groups side by side": np.uint64(2**63 - 400) + RNG.integers(800, size=1000).astype(np.uint64),
}


@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
def test_the_order_of_large_numbers_is_that_of_a_stable_sort(numbers):
    assert order_of(numbers).tolist() == np.argsort(numbers, kind="stable").tolist()


@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
def test_numbers_in_pieces_are_ordered_and_numbered_like_all_at_once(numbers, in_pieces):
    assert order_of(numbers).tolist() == np.argsort(numbers, kind="stable").tolist()
    codes, distinct = numbered(numbers)
    assert distinct.tolist() == sorted(set(numbers.tolist()) - {0})
    assert [0 if code < 0 else int(distinct[code]) for code in codes] == numbers.tolist()


def test_sums_and_lookups_in_pieces_are_those_of_all_at_once(in_pieces):
    codes, values = RNG.integers(-1, 5, size=40), RNG.normal(size=40)
    table = RNG.normal(size=6)
    assert looked_up(table, codes).tolist() == table[codes].tolist()
    assert np.flatnonzero(occurring(codes, 9)).tolist() == sorted({code % 9 for code in codes.tolist()})
    assert sum_by(codes + 1, values, 6).tolist() == np.bincount(codes + 1, values, 6).tolist()


@pytest.mark.parametrize("slot", [False, True])
@pytest.mark.parametrize("options", [{}, {"groups": 2}, {"soft_share": 0.3}])
def test_pairs_in_pieces_are_counted_like_all_at_once(options, slot, request):
    rows = as_comparisons(some_rows(5, n=90, models=6, **options), 6)
    once = count_pairs(rows, slot=slot)
    request.getfixturevalue("in_pieces")
    parts = count_pairs(rows, slot=slot)
    for name in ("cell", "result", "share"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(once, name))
    for name in ("first", "second", "counts", "group"):
        np.testing.assert_array_equal(getattr(parts.cells, name), getattr(once.cells, name))


@pytest.mark.parametrize("options", [{}, {"lone_share": 0.3, "weighted": True}])
def test_intervals_in_pieces_are_those_of_all_at_once(options, request):
    rows = as_comparisons(some_rows(6, n=200, models=6, prompts=30, **options), 6)
    voter = np.where(RNG.random(200) < 0.1, OWN_CLUSTER, RNG.integers(20, size=200))
    rows = replace(rows, clusters=(rows.clusters[0], voter))
    counted = count_pairs(rows)
    fitted = fit(counted.cells, DAVIDSON)
    both, once = in_both(*rows.clusters), sandwich(fitted, rows, counted)
    request.getfixturevalue("in_pieces")
    assert in_both(*rows.clusters).tolist() == both.tolist()
    parts = sandwich(fitted, rows, counted)
    assert parts.degrees == pytest.approx(once.degrees)
    for one, other in zip(parts.matrices, once.matrices, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-13)
