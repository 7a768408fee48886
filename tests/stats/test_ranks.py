"""Ranks and rank intervals: their arithmetic on hand-made covariances, and the laws they keep."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tiltyard.stats import POINTS_PER_LOGIT, anytime_cuts, anytime_half_width, bonferroni_cuts, tukey_cut
from tiltyard.stats import ranks as ranks_module
from tiltyard.stats.quantiles import studentized_range_quantile
from tiltyard.stats.ranks import ranks


def independent(m, error=1.0):
    """Variances of the differences of m unrelated ratings that all have this standard error."""
    return 2.0 * error**2 * (1.0 - np.eye(m))


def rank_intervals(values, variances, *, level, degrees=math.inf):
    """Places by Tukey's distance."""
    return ranks_module.rank_intervals(values, tukey_cut(len(values), level, degrees) * np.sqrt(variances))


ratings = arrays(np.float64, st.integers(2, 7), elements=st.floats(-3, 3))


def test_the_highest_rating_is_first_and_equals_keep_their_order():
    assert ranks(np.array([1.0, 3.0, 2.0, 3.0])).tolist() == [4, 1, 3, 2]


def test_models_are_told_apart_beyond_tukeys_distance_and_not_before():
    # Independent models of standard error 1: differences have √2, so two part at q(2)/√2 · √2 = q.
    q = studentized_range_quantile(0.95, 2)
    close = rank_intervals(np.array([0.0, q - 1e-6]), independent(2), level=0.95)
    apart = rank_intervals(np.array([0.0, q + 1e-6]), independent(2), level=0.95)
    assert (close.low.tolist(), close.high.tolist()) == ([1, 1], [2, 2])
    assert (apart.low.tolist(), apart.high.tolist()) == ([2, 1], [2, 1])


def test_some_of_the_models_have_places_among_themselves_and_without_a_table_of_pairs_among_all():
    values, chosen = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0, 2])
    table = ranks_module.rank_intervals(values, np.full((4, 4), 0.5)).among(chosen)
    assert (table.low.tolist(), table.high.tolist()) == ([2, 1], [2, 1])
    sorted_only = ranks_module.places_of_intervals(values - 0.2, values + 0.2).among(chosen)
    assert (sorted_only.low.tolist(), sorted_only.high.tolist()) == ([4, 2], [4, 2])


def test_a_single_model_holds_the_first_place():
    found = ranks_module.rank_intervals(np.zeros(1), np.full((1, 1), tukey_cut(1, 0.95)))
    assert (found.low.tolist(), found.high.tolist()) == ([1], [1])


@given(ratings, st.floats(0.05, 2.0), st.sampled_from([3.0, 12.0, math.inf]))
def test_the_rank_lies_within_its_interval(values, error, degrees):
    found = rank_intervals(values, independent(len(values), error), level=0.95, degrees=degrees)
    place = ranks(values)
    assert (found.low <= place).all()
    assert (place <= found.high).all()
    assert (found.low >= 1).all()
    assert (found.high <= len(values)).all()


@given(ratings, st.floats(0.05, 2.0))
def test_disjoint_rank_intervals_belong_to_models_that_were_told_apart(values, error):
    m = len(values)
    found = rank_intervals(values, independent(m, error), level=0.95)
    cut = studentized_range_quantile(0.95, m) * error
    for i in range(m):
        for j in range(m):
            if found.high[i] < found.low[j]:
                assert values[i] - values[j] > cut


@given(ratings, st.floats(0.05, 2.0))
def test_more_error_and_more_confidence_never_narrow_a_rank_interval(values, error):
    variances = independent(len(values), error)
    base = rank_intervals(values, variances, level=0.9)
    for wider in (
        rank_intervals(values, 4 * variances, level=0.9),
        rank_intervals(values, variances, level=0.99),
        rank_intervals(values, variances, level=0.9, degrees=5.0),
    ):
        assert (wider.low <= base.low).all()
        assert (wider.high >= base.high).all()


@given(ratings, st.integers(0, 2**32 - 1))
def test_relabelling_moves_nothing(values, seed):
    order = np.random.default_rng(seed).permutation(len(values))
    variance = np.linspace(0.1, 1.0, len(values))
    variances = variance[:, None] + variance[None, :]
    base = rank_intervals(values, variances, level=0.95)
    moved = rank_intervals(values[order], variances[np.ix_(order, order)], level=0.95)
    assert (moved.low == base.low[order]).all()
    assert (moved.high == base.high[order]).all()


def test_pairs_with_few_degrees_of_freedom_need_more_standard_errors():
    cuts = bonferroni_cuts(np.array([4.0, 40.0, 400.0]), 0.95)
    # Three pairs, two-sided: each at 1 − 0.05/6.
    for (i, j), degrees in {(0, 1): 4, (0, 2): 4, (1, 2): 40}.items():
        assert cuts[i, j] == cuts[j, i] == pytest.approx(scipy.stats.t.ppf(1 - 0.05 / 6, degrees))


def test_a_model_without_an_interval_is_told_apart_from_nobody():
    cuts = bonferroni_cuts(np.array([0.0, 40.0, 400.0]), 0.95)
    found = ranks_module.rank_intervals(np.array([9.0, 5.0, -5.0]), cuts)
    assert (found.low.tolist(), found.high.tolist()) == ([1, 1, 2], [3, 2, 3])


def anytime_by_the_formula(variance, pairs, level):
    """b² = (1 + r)/r · [2 ln(N/α) + ln(1 + r)], r = 0.16 / variance."""
    r = 0.16 / variance
    return math.sqrt((1 + r) / r * (2 * math.log(pairs / (1 - level)) + math.log(1 + r)))


def test_an_anytime_cut_is_the_normal_mixture_of_every_pair():
    variances = np.array([[0.01, 0.04], [0.16, 0.0025]])
    cuts = anytime_cuts(variances, 0.95, n_pairs=28)
    for at in np.ndindex(2, 2):
        assert cuts[at] == pytest.approx(anytime_by_the_formula(variances[at], 28, 0.95), rel=1e-12)


def test_with_clusters_an_anytime_cut_has_students_tail_however_small():
    for variance in (0.0004, 0.01, 0.5):
        for degrees in (1.5, 4.0, 30.0, 1e6):
            normal = anytime_by_the_formula(variance, 20_000, 0.999)
            cut = anytime_cuts(np.array([variance]), 0.999, n_pairs=20_000, degrees=degrees)[0]
            assert scipy.stats.t.logsf(cut, degrees) == pytest.approx(scipy.stats.norm.logsf(normal), rel=1e-6)


@pytest.mark.parametrize("points", [5, 10, 20, 30, 40])
def test_watching_costs_at_most_40_percent_of_the_width_from_8_models_up_and_75_for_a_single_difference(points):
    variance = (points / POINTS_PER_LOGIT) ** 2
    for models in (8, 12, 20, 38, 100, 400):
        pairs = models * (models - 1) / 2
        fixed = scipy.stats.norm.isf(0.05 / 2 / pairs)
        assert anytime_cuts(np.array([variance]), 0.95, n_pairs=pairs)[0] <= 1.4 * fixed
    assert anytime_half_width(variance, 0.95) <= 1.75 * 1.96 * math.sqrt(variance)


def test_before_there_is_knowledge_nothing_is_told_apart_and_no_number_breaks():
    assert anytime_half_width(100.0, 0.95) == math.inf
    assert anytime_half_width(0.01, 0.95, degrees=0.0) == math.inf
    assert anytime_half_width(0.0, 0.95) == 0.0
    assert np.isfinite(anytime_cuts(np.array([0.0, 1e-300]), 0.95, degrees=3.0)).all()


def test_a_difference_that_is_watched_stays_within_its_anytime_interval():
    # 2000 differences that are 0, looked at on 300 days; every day brings as much information as the first.
    rng = np.random.default_rng(5)
    days = np.arange(1, 301)
    variance = 1.0 / (2.0 * days)
    estimate = rng.normal(0.0, math.sqrt(2.0), (2000, 300)).cumsum(axis=1) * variance
    anytime = np.array([anytime_half_width(value, 0.95) for value in variance])
    fixed = 1.96 * np.sqrt(variance)
    assert (np.abs(estimate) > anytime).any(axis=1).mean() <= 0.05
    assert (np.abs(estimate) > fixed).any(axis=1).mean() >= 0.4
