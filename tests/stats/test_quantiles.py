"""Quantiles against SciPy's own, which are too slow to import for every command."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tiltyard.stats import normal_quantile, t_below, t_quantile
from tiltyard.stats.quantiles import studentized_range_cdf, studentized_range_quantile


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_normal_and_t_are_scipys(level):
    degrees = np.array([0.3, 1.0, 1.5, 2.0, 12.0, 100.0, 999.0, 1001.0, 1e6])
    np.testing.assert_allclose(t_quantile(level, degrees), stats.t.ppf(0.5 + level / 2, degrees), rtol=1e-9)
    assert normal_quantile(level) == pytest.approx(stats.norm.ppf(0.5 + level / 2), rel=1e-12)


@pytest.mark.parametrize("degrees", [0.3, 1.0, 2.5, 9.0, 60.0, 1e3, 1e5, math.inf])
def test_the_chance_below_a_value_is_scipys(degrees):
    law = stats.norm() if math.isinf(degrees) else stats.t(degrees)
    for value in (-40.0, -6.0, -1.96, -0.3, -1e-9, 0.0, 0.2, 1.0, 2.7, 9.0, math.inf, -math.inf):
        assert t_below(value, degrees) == pytest.approx(law.cdf(value), rel=1e-9, abs=1e-300)
    assert math.isnan(t_below(1.0, 0.0))
    assert math.isnan(t_below(math.nan, 3.0))


def test_many_different_degrees_are_scipys_too():
    degrees = np.linspace(0.3, 1500.0, 100)
    np.testing.assert_allclose(t_quantile(0.95, degrees), stats.t.ppf(0.975, degrees), rtol=1e-9)


def test_student_without_degrees_has_no_cut_and_with_hardly_any_none_that_is_finite():
    assert np.isnan(t_quantile(0.95, np.array([0.0, -1.0, np.nan]))).all()
    assert np.isposinf(t_quantile(0.95, np.array([0.01]))).all()
    assert len(t_quantile(0.95, np.array([]))) == 0


@pytest.mark.parametrize(
    ("n_means", "degrees"),
    [
        pytest.param(n_means, degrees, marks=[] if (row + column) % 2 == 0 else [pytest.mark.soak])
        for row, n_means in enumerate([2, 12, 200])
        for column, degrees in enumerate([1, 5, 60, 1000])
    ],
)
def test_the_studentized_range_is_scipys(n_means, degrees):
    for q in (1.0, 3.0, 4.5, 8.0):
        assert studentized_range_cdf(q, n_means, degrees) == pytest.approx(
            stats.studentized_range.cdf(q, n_means, degrees), abs=1e-6
        )


@pytest.mark.parametrize(
    ("n_means", "degrees", "published"),
    [
        (2, 10, 3.151),
        (3, 10, 3.877),
        (10, 10, 5.599),
        (10, 60, 4.646),
        (20, 120, 5.126),
        (5, math.inf, 3.858),
        (10, math.inf, 4.474),
    ],
)
def test_the_tables_of_tukeys_test(n_means, degrees, published):
    assert studentized_range_quantile(0.95, n_means, degrees) == pytest.approx(published, abs=2e-3)


def test_two_means_are_a_t_test():
    # The range of two means is |t|·√2, so q/√2 is Student's quantile.
    for degrees in (3.0, 12.0, 200.0):
        q = studentized_range_quantile(0.95, 2, degrees)
        assert q / math.sqrt(2) == pytest.approx(float(t_quantile(0.95, np.array(degrees))), rel=1e-6)
    assert studentized_range_quantile(0.95, 2) / math.sqrt(2) == pytest.approx(1.959964, abs=1e-5)


def test_many_degrees_become_infinitely_many():
    far = studentized_range_quantile(0.95, 50, 1e7)
    assert far == pytest.approx(studentized_range_quantile(0.95, 50), rel=1e-5)


def test_thousands_of_means_still_have_a_quantile():
    # P(range < q) of 5,000 normals: between the ranges of 1,000 and 20,000.
    ladder = [studentized_range_quantile(0.95, m) for m in (1000, 5000, 20_000)]
    assert ladder == sorted(ladder)
    rng = np.random.default_rng(0)
    drawn = np.ptp(rng.normal(size=(400, 5000)), axis=1)
    share = (drawn < ladder[1]).mean()
    assert abs(share - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 400)
