"""The sandwich covariance against one built row by row with numeric derivatives, and the intervals cut from it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oracles import plain_bradley_terry as plain
from oracles.plain_bradley_terry import FIRST, SECOND, TIE, Row, Shape, as_comparisons, some_rows
from tiltyard.ratings import intervals
from tiltyard.ratings.bradley_terry import fit, fit_bounded
from tiltyard.ratings.comparisons import count_pairs
from tiltyard.ratings.intervals import FEW, Covariance, difference_variances, fisher_half_widths, half_widths, sandwich
from tiltyard.ratings.quantiles import normal_quantile, t_quantile
from tiltyard.ratings.tie_models import HALF, TIE_MODELS


def both(rows, models, ties, *, slot=False):
    """The library's covariance and the oracle's, at the library's fit."""
    table = as_comparisons(rows, models, slot=slot)
    counted = count_pairs(table, slot=slot)
    result = fit(counted.cells, TIE_MODELS[ties])
    x = np.concatenate(
        [result.parameters.strength, result.parameters.coefficient, result.parameters.tie[result.tied_groups]]
    )
    shape = Shape(models, len(rows[0].z), len(result.tied_groups))
    return sandwich(result, table, counted), *plain.sandwich(rows, ties, shape, x)


@pytest.mark.parametrize("ties", list(TIE_MODELS))
@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("rows", {}),
        ("prompts", {"prompts": 12}),
        ("a prompt with a single row among others", {"prompts": 45}),
        ("prompts, and rows without one", {"prompts": 8, "lone_share": 0.4}),
        ("weights without prompts", {"weighted": True}),
        ("weights within prompts", {"weighted": True, "prompts": 9, "lone_share": 0.3}),
        ("two groups of deciders", {"groups": 2, "n": 90, "prompts": 10}),
        ("slot", {"slot": True, "prompts": 10}),
        ("slot without prompts", {"slot": True}),
        ("slot and control", {"slot": True, "covariates": 1, "prompts": 10, "lone_share": 0.2}),
        ("controls", {"covariates": 2}),
    ],
)
def test_the_sandwich_is_the_one_built_row_by_row(ties, what, options):
    fast, slow, units = both(some_rows(41, **options), 4, ties, slot=options.get("slot", False))
    np.testing.assert_allclose(fast.matrix, slow, atol=2e-5 * np.abs(slow).max())
    assert fast.clusters == units
    assert fast.clustered == ("prompts" in options)


@pytest.mark.parametrize("prompts", [0, 9])
def test_soft_outcomes_in_the_sandwich(prompts):
    rows = some_rows(43, soft_share=0.5, prompts=prompts, lone_share=0.3, weighted=True)
    fast, slow, units = both(rows, 4, "half")
    np.testing.assert_allclose(fast.matrix, slow, atol=2e-5 * np.abs(slow).max())
    assert fast.clusters == units


@pytest.mark.parametrize("prompts", [0, 10])
def test_a_row_of_weight_n_widens_intervals_as_n_rows_do(prompts):
    rows = some_rows(47, weighted=True, prompts=prompts, lone_share=0.3)
    copies = [Row(r.first, r.second, r.result, cluster=r.cluster) for r in rows for _ in range(int(r.weight))]
    one, _, _ = both(rows, 4, "davidson")
    other, _, _ = both(copies, 4, "davidson")
    np.testing.assert_allclose(one.matrix, other.matrix, atol=1e-12)
    np.testing.assert_allclose(one.clusters_of_model, other.clusters_of_model)
    assert one.clusters == other.clusters


def test_every_row_twice_on_its_prompt_leaves_the_clustered_sandwich_alone():
    # Copies within a prompt are no new prompts: scores and information both double, and cancel.
    rows = some_rows(53, prompts=12)
    one, _, _ = both(rows, 4, "half")
    twice, _, _ = both(rows + rows, 4, "half")
    np.testing.assert_allclose(one.matrix, twice.matrix, atol=1e-12)


def test_every_row_twice_without_prompts_halves_the_variance():
    # n independent rows more: V falls by 2, up to the P/(P − 1) of the small sample.
    rows = some_rows(59)
    one, _, _ = both(rows, 4, "half")
    twice, _, _ = both(rows + rows, 4, "half")
    n = len(rows)
    factor = (2 * n / (2 * n - 1)) / (n / (n - 1)) / 2
    np.testing.assert_allclose(twice.matrix, factor * one.matrix, atol=1e-12)


def test_one_prompt_per_row_is_row_by_row():
    rows = some_rows(61)
    named = [Row(r.first, r.second, r.result, cluster=at) for at, r in enumerate(rows)]
    one, _, _ = both(rows, 4, "davidson")
    other, _, _ = both(named, 4, "davidson")
    np.testing.assert_allclose(one.matrix, other.matrix, atol=1e-12)
    assert (one.rank_degrees, other.rank_degrees) == (math.inf, len(rows) - 1)


def test_prompts_are_counted_per_model():
    rows = [
        Row(0, 1, FIRST, cluster=0),
        Row(1, 0, FIRST, cluster=0),
        Row(0, 1, TIE, cluster=1),
        Row(0, 2, FIRST, cluster=1),
        Row(2, 0, FIRST),
        Row(2, 0, SECOND),
    ]
    fast, _, _ = both(rows, 3, "half")
    # Model 0: prompts 0 and 1 and two lone rows; model 1: prompts 0 and 1; model 2: prompt 1 and two lone rows.
    assert fast.clusters_of_model.tolist() == [4, 2, 3]
    assert fast.clusters == 4


def test_the_priors_pseudo_battles_enter_the_middle_of_the_sandwich():
    rows = [Row(0, 1, FIRST)] * 3 + [Row(1, 2, FIRST)] * 4 + [Row(2, 1, FIRST)] * 4
    table = as_comparisons(rows, 3)
    counted = count_pairs(table)
    result, _ = fit_bounded(counted.cells, HALF)
    # The same as half a win and half a loss of 0 against 1, written as rows of weight ½; P counts real rows only.
    pseudo = [*rows, Row(0, 1, FIRST, weight=0.5), Row(0, 1, SECOND, weight=0.5)]
    slow, units = plain.sandwich(pseudo, "half", Shape(3), result.parameters.strength)
    real = len(rows) / (len(rows) - 1) / (units / (units - 1))
    np.testing.assert_allclose(sandwich(result, table, counted).matrix, real * slow, atol=1e-4)


def made_up(variance, fisher, clusters_of_model):
    """A covariance of unrelated models with these variances."""
    matrix, exact = np.diag(np.array(variance, dtype=float)), np.diag(np.array(fisher, dtype=float))
    return Covariance(matrix, exact, 50.0, np.array(clusters_of_model, dtype=float), clustered=True)


def test_an_interval_is_t_standard_errors_of_the_models_own_prompts():
    covariance = made_up([4.0, 4.0], [1.0, 1.0], [30, 100])
    half = half_widths(covariance, np.array([90.0, 300.0]), 0.95)
    np.testing.assert_allclose(half, 2.0 * t_quantile(0.95, np.array([29.0, 99.0])))


def test_a_model_with_few_battles_or_prompts_takes_the_wider_of_sandwich_and_fisher():
    covariance = made_up([0.01, 0.01, 0.01, 9.0], [4.0, 4.0, 4.0, 4.0], [FEW - 1, FEW, FEW, 3])
    battles = np.array([100.0, FEW - 1, 100.0, 5.0])
    half = half_widths(covariance, battles, 0.95)
    fisher = 2.0 * normal_quantile(0.95)
    np.testing.assert_allclose(half[:2], fisher)
    assert half[2] == pytest.approx(0.1 * t_quantile(0.95, np.array(FEW - 1.0)))
    assert half[3] == pytest.approx(3.0 * t_quantile(0.95, np.array(2.0)))
    np.testing.assert_allclose(fisher_half_widths(covariance, battles, 0.95), [fisher, fisher, 0.0, fisher])


def test_a_difference_from_a_model_with_few_battles_varies_at_least_as_fisher_says():
    covariance = made_up([0.01, 0.01, 9.0, 0.01], [4.0, 4.0, 4.0, 1.0], [5, FEW, 5, FEW])
    got = difference_variances(covariance.matrix, covariance, np.array([5.0, 100.0, 5.0, 100.0]))
    # 0 and 2 are few, 1 and 3 are not: a pair takes max(V_ii + V_jj, F_ii + F_jj) unless it is 1 with 3.
    np.testing.assert_allclose(got[0], [0.0, 8.0, max(9.01, 8.0), 5.0])
    np.testing.assert_allclose(got[1, 3], 0.02)
    np.testing.assert_allclose(got[2], [9.01, 9.01, 0.0, 9.01])


def test_two_models_whose_scores_move_together_on_few_prompts_are_not_certain_to_differ():
    # The sandwich of two prompts knows one direction only: 0 and 1 move as one, their difference not at all.
    together = np.array([[1.0, 1.0, -2.0], [1.0, 1.0, -2.0], [-2.0, -2.0, 4.0]])
    covariance = Covariance(together, 0.3 * np.eye(3), 2.0, np.full(3, 2.0), clustered=True)
    got = difference_variances(together, covariance, np.full(3, 40.0))
    assert got[0, 1] == pytest.approx(0.6)
    assert got[0, 2] == pytest.approx(1.0 + 4.0 + 4.0)


def test_rounding_below_zero_is_no_variance():
    covariance = Covariance(np.diag([-1e-33, 1.0]), np.eye(2), 50.0, np.full(2, 50.0), clustered=True)
    assert half_widths(covariance, np.full(2, 50.0), 0.95)[0] == 0.0
    assert np.isfinite(difference_variances(covariance.matrix, covariance, np.full(2, 50.0))).all()


def test_rows_are_cut_into_pieces_between_clusters_and_never_inside_one(monkeypatch):
    """Pieces of about 3 rows from clusters of 2, 5, 1 and 4: the second is longer than a piece, and stays whole."""
    monkeypatch.setattr(intervals, "ROWS_AT_ONCE", 3)
    cluster = np.repeat([0, 1, 2, 3], [2, 5, 1, 4])
    pieces = [piece.tolist() for piece in intervals.cut_between_clusters(np.arange(12), cluster)]
    assert pieces == [[0, 1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11]]
