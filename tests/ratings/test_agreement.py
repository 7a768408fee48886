"""Kendall's tau-b and Spearman's rho against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tiltyard.ratings.ranks import kendall_tau, spearman_rho

pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=12)


@given(pairs)
def test_both_are_scipys_ties_included(drawn):
    left, right = (np.array(column, dtype=float) for column in zip(*drawn, strict=True))
    if len(set(left)) == 1 or len(set(right)) == 1:
        assert math.isnan(kendall_tau(left, right))
        assert math.isnan(spearman_rho(left, right))
        return
    assert kendall_tau(left, right) == pytest.approx(stats.kendalltau(left, right).statistic, abs=1e-12)
    assert spearman_rho(left, right) == pytest.approx(stats.spearmanr(left, right).statistic, abs=1e-12)


def test_the_same_order_is_one_and_the_opposite_minus_one():
    values = np.array([3.0, 1.0, 2.0])
    assert kendall_tau(values, 10 * values) == spearman_rho(values, 10 * values) == pytest.approx(1.0)
    assert kendall_tau(values, -values) == spearman_rho(values, -values) == pytest.approx(-1.0)


def test_one_swap_of_neighbours_among_four_costs_a_third():
    # 6 pairs, 1 turned: (5 − 1)/6 = 2/3; rho = 1 − 6·2/(4·15) = 0.8.
    one, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0])
    assert kendall_tau(one, other) == pytest.approx(2 / 3)
    assert spearman_rho(one, other) == pytest.approx(0.8)
