"""Style covariates: the scaled difference, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tiltyard.errors import RatingError
from tiltyard.stats import Comparisons, bradley_terry, count_pairs, scaled_difference
from tiltyard.stats.bradley_terry import fit
from tiltyard.stats.tie_models import DAVIDSON


def test_the_difference_is_a_share_of_the_sum_over_its_root_mean_square():
    # Shares (30−10)/40 = ½, (10−10)/20 = 0, (0−5)/5 = −1: root mean square √(1.25/3).
    got = scaled_difference("len", np.array([30.0, 10.0, 0.0]), np.array([10.0, 10.0, 5.0]), np.ones(3))
    np.testing.assert_allclose(got, np.array([0.5, 0.0, -1.0]) / np.sqrt(1.25 / 3))


def test_it_is_not_centred():
    # The first answer is always three times as long: the covariate is 1 everywhere, and its mean stays 1.
    got = scaled_difference("len", np.array([30.0, 60.0]), np.array([10.0, 20.0]), np.ones(2))
    np.testing.assert_allclose(got, [1.0, 1.0])


def test_nothing_against_nothing_is_no_difference():
    got = scaled_difference("bold", np.array([0.0, 4.0]), np.array([0.0, 0.0]), np.ones(2))
    np.testing.assert_allclose(got, [0.0, np.sqrt(2.0)])


def test_the_unit_does_not_matter_and_the_side_only_turns_the_sign():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 99, 50), rng.uniform(1, 99, 50)
    base = scaled_difference("len", a, b, np.ones(50))
    np.testing.assert_allclose(scaled_difference("len", 7 * a, 7 * b, np.ones(50)), base)
    np.testing.assert_allclose(scaled_difference("len", b, a, np.ones(50)), -base)


def test_a_row_of_weight_n_counts_n_times_in_the_root_mean_square():
    a, b, weight = np.array([3.0, 9.0]), np.array([1.0, 1.0]), np.array([3.0, 1.0])
    copies = scaled_difference("len", np.repeat(a, [3, 1]), np.repeat(b, [3, 1]), np.ones(4))
    np.testing.assert_allclose(scaled_difference("len", a, b, weight), copies[[0, 3]])


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        ([1.0, np.nan], [1.0, 2.0], "missing in 1 battles"),
        ([1.0, -2.0], [1.0, 2.0], "negative"),
        ([1.0, 2.0], [1.0, 2.0], "equal on both sides in every battle"),
        ([0.0, 0.0], [0.0, 0.0], "equal on both sides in every battle"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(a, b, says):
    with pytest.raises(RatingError, match=says) as caught:
        scaled_difference("len", np.array(a), np.array(b), np.ones(2))
    assert "'len'" in str(caught.value)


def test_a_fit_of_many_battles_starts_from_the_one_without_controls_and_ends_where_any_start_ends(monkeypatch):
    rng = np.random.default_rng(4)
    first = rng.integers(5, size=400)
    second, z = (first + rng.integers(1, 5, size=400)) % 5, rng.normal(size=(400, 2))
    odds = 0.4 * (first - second) + z @ [0.5, -0.2] + rng.logistic(size=400)
    result = np.where(np.abs(odds) < 0.3, 2, np.where(odds > 0, 0, 1)).astype(np.int8)
    cells = count_pairs(Comparisons(5, first, second, result, np.ones(400), covariates=z)).cells
    from_zero = fit(cells, DAVIDSON)
    plain = cells.without_design()
    assert len(plain) <= 20
    assert plain.counts.sum() == 400
    monkeypatch.setattr(bradley_terry, "MANY_CELLS", 10)
    near = fit(cells, DAVIDSON)
    assert near.steps <= from_zero.steps
    for name in ("strength", "coefficient", "tie"):
        np.testing.assert_allclose(getattr(near.parameters, name), getattr(from_zero.parameters, name), atol=1e-9)
