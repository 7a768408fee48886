"""Agreement of people: published values, laws, and intervals that cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import size
from tiltyard.stats import against_the_rest, krippendorff_alpha, pair_kappa, share_estimate

O = -1  # noqa: E741 - nothing said
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, O, O, O],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, O, 3],
        [O, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, O],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, O],
    ]
).T
"""Four observers and twelve units: Krippendorff (2011), section C."""


def test_krippendorffs_own_example_reproduces() -> None:
    assert krippendorff_alpha(KRIPPENDORFF).value == pytest.approx(0.743, abs=0.0005)
    assert krippendorff_alpha(KRIPPENDORFF, "ordinal").value == pytest.approx(0.815, abs=0.0005)


def test_two_observers_and_two_categories_as_in_krippendorffs_section_a() -> None:
    meg = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    owen = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert krippendorff_alpha(np.array([meg, owen]).T).value == pytest.approx(0.095, abs=0.0005)


def test_cohens_kappa_of_fifty_grant_proposals() -> None:
    first = np.repeat([1, 1, 0, 0], [20, 5, 10, 15])
    second = np.repeat([1, 0, 1, 0], [20, 5, 10, 15])
    kappa, n = pair_kappa(first, second)
    assert (round(kappa, 6), n) == (0.4, 50)  # observed .7, by chance .5


def test_one_category_says_nothing_about_agreement() -> None:
    assert math.isnan(krippendorff_alpha(np.zeros((9, 3), dtype=np.int64)).value)
    assert math.isnan(pair_kappa(np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64))[0])
    assert krippendorff_alpha(np.full((3, 2), -1)).n == 0


@given(st.lists(st.tuples(*[st.integers(-1, 2)] * 3), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_alpha_does_not_depend_on_the_order_of_items_people_or_sides(rows: list[tuple[int, ...]], rng: object) -> None:
    table = np.array(rows)
    turned = np.where(table < 0, -1, 2 - table)[::-1, ::-1]
    for metric in ("nominal", "ordinal"):
        here, there = krippendorff_alpha(table, metric), krippendorff_alpha(turned, metric)
        assert here.value == pytest.approx(there.value, nan_ok=True)
        assert here.low == pytest.approx(there.low, nan_ok=True)
        if here.known:
            assert here.value <= 1.0 + 1e-12


def _world(rng: np.random.Generator, items: int, people: int, right: float) -> np.ndarray:
    """Everybody sees the same truth (A, tie, B) with the same probability, else says something at random."""
    truth = rng.choice(3, items, p=[0.45, 0.15, 0.40])[:, None]
    said = np.where(rng.random((items, people)) < right, truth, rng.choice(3, (items, people), p=[0.45, 0.15, 0.40]))
    for row in said:
        row[rng.permutation(people)[2:]] = -1  # two reviewers each
    return said


@pytest.mark.parametrize(("items", "right"), [(40, 0.7), (100, 0.9), (200, 0.5)])
def test_the_interval_of_alpha_covers(items: int, right: float) -> None:
    rng = np.random.default_rng(7)
    many = _world(rng, 20_000, 3, right)
    for metric in ("nominal", "ordinal"):
        truth = krippendorff_alpha(many, metric).value
        found = [krippendorff_alpha(_world(rng, items, 3, right), metric) for _ in range(size(100, soak=300))]
        covered = np.mean([one.low <= truth <= one.high for one in found])
        assert covered >= size(0.90, soak=0.92)  # nominal .95; one standard error is .022, in a soak .013


def _pairs(rng: np.random.Generator, items: int, right: float) -> np.ndarray:
    """Two people and two answers: each sees the truth, or says something at random."""
    truth = rng.integers(0, 2, items)[:, None]
    return np.where(rng.random((items, 2)) < right, truth, rng.integers(0, 2, (items, 2)))


@pytest.mark.parametrize(
    ("items", "right", "least"), [(5, 0.8, 0.90), (10, 0.8, 0.95), (10, 0.95, 0.95), (20, 0.95, 0.95)]
)
def test_the_low_end_of_alpha_holds_with_few_items_that_hide_disagreement(
    items: int, right: float, least: float
) -> None:
    """α is right². With items that hold no disagreement by chance the jackknife alone held .64, .86, .44 and .63."""
    rng, held = np.random.default_rng(items), []
    while len(held) < 400:
        one = krippendorff_alpha(_pairs(rng, items, right))
        if not math.isnan(one.low):
            held.append(one.low <= right**2 <= one.high + 1e-9)
    assert np.mean(held) >= least


def test_everybody_who_agrees_on_ten_items_may_disagree_on_the_next() -> None:
    one = krippendorff_alpha(np.array([[0, 0], [1, 1]] * 5))
    assert (one.value, one.high) == (1.0, 1.0)
    assert one.low < 0.5
    assert krippendorff_alpha(np.array([[0, 0], [1, 1]] * 5)[:2]).known  # two items: a number, no interval
    assert math.isnan(krippendorff_alpha(np.array([[0, 0], [1, 1]] * 5)[:2]).low)


def test_the_careless_one_stands_out_and_careful_people_seldom_do() -> None:
    rng = np.random.default_rng(3)
    falsely = found = 0
    for _ in range(200):
        truth = rng.integers(0, 2, 150) * 2
        said = np.where(rng.random((150, 4)) < 0.9, truth[:, None], 2 - truth[:, None])
        said[:, 3] = rng.integers(0, 2, 150) * 2
        for row in said:
            row[rng.permutation(4)[2:]] = -1
        assert against_the_rest(said, 3).own.value < 0.75
        falsely += sum(against_the_rest(said[:, :3], person).stands_out for person in range(3))
        found += against_the_rest(said, 3).stands_out
    assert found >= 0.9 * 200
    assert falsely <= 0.04 * 600


def test_shares_of_one_side_have_an_interval_inside_nought_and_one() -> None:
    one = share_estimate(np.ones(30))
    assert (round(one.value, 9), one.high, one.n) == (1.0, 1.0, 30)
    assert 0.8 < one.low < 1.0


def test_of_two_people_nobody_stands_out() -> None:
    one = against_the_rest(np.array([[0, 2], [0, 2], [2, 2]]), 0)
    assert (round(one.own.value, 3), one.disagreed, one.stands_out) == (0.333, (0, 1), False)
    assert not one.others.known
