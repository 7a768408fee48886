"""The sandwich covariance against one built row by row with numeric derivatives, and the intervals cut from it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oracles import plain_bradley_terry as plain
from oracles.plain_bradley_terry import FIRST, SECOND, TIE, Row, Shape, as_comparisons, some_rows
from tests.records import replace
from tiltyard.stats import (
    FEW,
    FEWEST_CLUSTERS,
    HALF,
    TIE_MODELS,
    BattleDerivatives,
    Clustering,
    Covariance,
    clusters,
    count_pairs,
    fit_bounded,
    half_widths,
    normal_quantile,
    sandwich,
    t_quantile,
)
from tiltyard.stats.bradley_terry import fit
from tiltyard.stats.intervals import one_way


def both(rows, models, ties, *, slot=False):
    """The library's sandwich of plain scores and the oracle's, at the library's fit."""
    table = as_comparisons(rows, models, slot=slot)
    counted = count_pairs(table, slot=slot)
    result = fit(counted.cells, TIE_MODELS[ties])
    x = np.concatenate(
        [result.parameters.strength, result.parameters.coefficient, result.parameters.tie[result.tied_groups]]
    )
    shape = Shape(models, len(rows[0].z), len(result.tied_groups))
    return uncorrected(result, table, counted), *plain.sandwich(rows, ties, shape, x)


def uncorrected(result, table, counted):
    """The sandwich of scores at the fit, P/(P − 1) times for P clusters."""
    derivatives = BattleDerivatives.of(result, result.inverse_information())
    way = one_way(result, derivatives, table, counted, table.clusters[0] if table.clusters else None, corrected=False)
    return replace(way, matrix=way.matrix * way.count / (way.count - 1.0))


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
    assert fast.count == units


@pytest.mark.parametrize("ties", list(TIE_MODELS))
@pytest.mark.parametrize("covariates", [0, 2])
def test_the_leverages_of_all_battles_add_up_to_the_number_of_parameters(ties, covariates):
    rows = some_rows(3, n=60, models=4, covariates=covariates, slot=bool(covariates))
    counted = count_pairs(as_comparisons(rows, 4, slot=bool(covariates)), slot=bool(covariates))
    result = fit(counted.cells, TIE_MODELS[ties])
    each = BattleDerivatives.of(result, result.inverse_information()).leverage
    parameters = 3 + len(rows[0].z) + len(result.tied_groups)
    assert each @ counted.cells.counts.sum(axis=1) == pytest.approx(parameters)


@pytest.mark.parametrize("prompts", [0, 9])
def test_soft_outcomes_in_the_sandwich(prompts):
    rows = some_rows(43, soft_share=0.5, prompts=prompts, lone_share=0.3, weighted=True)
    fast, slow, units = both(rows, 4, "half")
    np.testing.assert_allclose(fast.matrix, slow, atol=2e-5 * np.abs(slow).max())
    assert fast.count == units


@pytest.mark.parametrize("prompts", [0, 10])
def test_a_row_of_weight_n_widens_intervals_as_n_rows_do(prompts):
    rows = some_rows(47, weighted=True, prompts=prompts, lone_share=0.3)
    copies = [Row(r.first, r.second, r.result, cluster=r.cluster) for r in rows for _ in range(int(r.weight))]
    one, _, _ = both(rows, 4, "davidson")
    other, _, _ = both(copies, 4, "davidson")
    np.testing.assert_allclose(one.matrix, other.matrix, atol=1e-12)
    np.testing.assert_allclose(one.effective, other.effective)
    assert one.count == other.count


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
    assert one.effective_count == other.effective_count == len(rows)


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
    # Model 0: two battles of prompts 0 and 1 each and two lone rows; model 1: two of prompt 0 and one of prompt 1;
    # model 2: one of prompt 1 and two lone rows. Effective are (Σn)²/Σn².
    assert fast.effective.tolist() == pytest.approx([36 / 10, 9 / 5, 3])
    assert fast.count == 4


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


def made_up(variance, fisher, effective, battles=1000.0):
    """A covariance of unrelated models with these variances."""
    matrix, exact = np.diag(np.array(variance, dtype=float)), np.diag(np.array(fisher, dtype=float))
    worth = np.array(effective, dtype=float)
    way = Clustering(matrix, 50.0, 50.0, worth, 0.1)
    few = (worth < FEW) | (np.broadcast_to(battles, len(worth)) < FEW)
    return Covariance((matrix,), exact, worth - 1.0, few, (way,))


def test_an_interval_is_t_standard_errors_of_the_models_own_prompts():
    half = half_widths(made_up([4.0, 4.0], [1.0, 1.0], [30, 100]), 0.95)
    np.testing.assert_allclose(half, 2.0 * t_quantile(0.95, np.array([29.0, 99.0])))


def test_a_model_with_few_battles_or_prompts_takes_the_wider_of_sandwich_and_fisher():
    battles = np.array([100.0, FEW - 1, 100.0, 5.0])
    covariance = made_up([0.01, 0.01, 0.01, 9.0], [4.0, 4.0, 4.0, 4.0], [FEW - 1, FEW, FEW, 3], battles)
    half = half_widths(covariance, 0.95)
    np.testing.assert_allclose(half[:2], 2.0 * normal_quantile(0.95))
    assert half[2] == pytest.approx(0.1 * t_quantile(0.95, np.array(FEW - 1.0)))
    assert half[3] == pytest.approx(3.0 * t_quantile(0.95, np.array(2.0)))


def test_a_model_of_too_few_effective_prompts_has_no_interval():
    worth = [FEWEST_CLUSTERS - 0.01, FEWEST_CLUSTERS, FEWEST_CLUSTERS]
    half = half_widths(made_up([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], worth), 0.95)
    assert math.isinf(half[0])
    assert half[1] == pytest.approx(float(t_quantile(0.95, np.array(FEWEST_CLUSTERS - 1.0))))


def test_one_model_alone_has_no_interval_because_there_is_nothing_to_measure_it_against():
    one = made_up([1.0, 1.0], [1.0, 1.0], [FEWEST_CLUSTERS - 0.01, 50])
    assert np.isinf(half_widths(one, 0.95)).all()
    assert np.isinf(half_widths(one, 0.95, np.array([0.0, 1.0]))).all()  # also as the anchor


def test_measured_from_an_anchor_the_interval_is_that_of_the_difference():
    covariance = made_up([4.0, 9.0, 1.0], [0.0, 0.0, 0.0], [100, 30, 60])
    half = half_widths(covariance, 0.95, np.array([0.0, 1.0, 0.0]))
    cut = float(t_quantile(0.95, np.array(29.0)))
    np.testing.assert_allclose(half, [cut * math.sqrt(13.0), 0.0, cut * math.sqrt(10.0)])


def test_a_difference_from_a_model_with_few_battles_varies_at_least_as_fisher_says():
    covariance = made_up([0.01, 0.01, 9.0, 0.01], [4.0, 4.0, 4.0, 1.0], [5, FEW, 5, FEW])
    got = covariance.differences()
    # 0 and 2 are few, 1 and 3 are not: a pair takes max(V_ii + V_jj, F_ii + F_jj) unless it is 1 with 3.
    np.testing.assert_allclose(got[0], [0.0, 8.0, max(9.01, 8.0), 5.0])
    np.testing.assert_allclose(got[1, 3], 0.02)
    np.testing.assert_allclose(got[2], [9.01, 9.01, 0.0, 9.01])


def test_two_models_whose_scores_move_together_on_few_prompts_are_not_certain_to_differ():
    # The sandwich of two prompts knows one direction only: 0 and 1 move as one, their difference not at all.
    together = np.array([[1.0, 1.0, -2.0], [1.0, 1.0, -2.0], [-2.0, -2.0, 4.0]])
    covariance = Covariance((together,), 0.3 * np.eye(3), np.ones(3), np.ones(3, dtype=bool))
    got = covariance.differences()
    assert got[0, 1] == pytest.approx(0.6)
    assert got[0, 2] == pytest.approx(1.0 + 4.0 + 4.0)


def test_where_scores_do_not_vary_the_models_own_variance_stands_in():
    # A sandwich of zero, or of rounding below it, would be an interval without a width: z · √F = 1.96 · 3.
    covariance = made_up([-1e-33, 0.0, 1.0], [9.0, 9.0, 9.0], [50, 50, 50])
    assert half_widths(covariance, 0.95)[:2] == pytest.approx(3.0 * normal_quantile(0.95))
    assert covariance.differences()[0, 1] == pytest.approx(18.0)
    assert covariance.differences()[0, 2] == pytest.approx(1.0)
    assert (covariance.variance(1), covariance.variance(2)) == (9.0, 1.0)


def test_the_largest_of_several_variances_counts():
    small, large = np.diag([1.0, 4.0]), np.diag([9.0, 0.5])
    covariance = Covariance((small, large), np.eye(2), np.full(2, 30.0), np.zeros(2, dtype=bool))
    np.testing.assert_allclose(covariance.variances(), [9.0, 4.0])
    np.testing.assert_allclose(covariance.differences()[0, 1], 9.5)
    assert covariance.variance(1) == 4.0


CLUSTERED = {
    "prompts": {"prompts": 12},
    "prompts, and rows without one": {"prompts": 8, "lone_share": 0.4},
    "two groups of deciders": {"groups": 2, "n": 90, "prompts": 10},
    "slot and control": {"slot": True, "covariates": 1, "prompts": 10, "lone_share": 0.2},
}


@pytest.mark.parametrize(
    ("what", "ties"),
    [
        pytest.param(what, ties, marks=[] if (row + column) % len(TIE_MODELS) == 0 else [pytest.mark.soak])
        for row, what in enumerate(CLUSTERED)
        for column, ties in enumerate(TIE_MODELS)
    ],
)
def test_the_corrected_sandwich_is_a_jackknife_over_clusters_of_one_newton_step(ties, what, monkeypatch):
    """Every exact solution is that of a fit whose information the cluster has left; iterated ones are too."""
    monkeypatch.setattr(clusters, "SMALL_LEVERAGE", 0.0)
    options = CLUSTERED[what]
    rows, slot = some_rows(41, **options), options.get("slot", False)
    table = as_comparisons(rows, 4, slot=slot)
    counted = count_pairs(table, slot=slot)
    result = fit(counted.cells, TIE_MODELS[ties])
    x = np.concatenate(
        [result.parameters.strength, result.parameters.coefficient, result.parameters.tie[result.tied_groups]]
    )
    shape = Shape(4, len(rows[0].z), len(result.tied_groups))
    slow = plain.jackknife_sandwich(rows, ties, shape, x, [row.cluster for row in rows])
    # Rao–Kupper's curvature depends on the result; the library takes a cell's mean.
    tolerance = 0.05 if ties == "rao-kupper" else 2e-4
    for numbers, wide in ((2_000_000, 64), (1, 2)):
        monkeypatch.setattr(clusters, "SOLVED_NUMBERS", numbers)
        monkeypatch.setattr(clusters, "WIDE", wide)
        fast = sandwich(result, table, counted).matrix
        np.testing.assert_allclose(fast, slow, atol=tolerance * np.abs(slow).max())


def test_a_small_clusters_correction_is_conservative_by_less_than_a_percent(monkeypatch):
    rows = some_rows(67, n=4000, prompts=1000)
    table = as_comparisons(rows, 4)
    counted = count_pairs(table)
    result = fit(counted.cells, TIE_MODELS["davidson"])
    cheap = np.sqrt(np.diag(sandwich(result, table, counted).matrix))
    monkeypatch.setattr(clusters, "SMALL_LEVERAGE", 0.0)
    exact = np.sqrt(np.diag(sandwich(result, table, counted).matrix))
    assert (cheap >= exact * (1.0 - 1e-9)).all()
    assert (cheap <= 1.01 * exact).all()


def test_two_ways_add_and_take_off_what_both_count():
    """Prompts and voters: V_prompt + V_voter − V_both, the last one without correction."""
    rows = some_rows(71, n=120, prompts=10)
    voter = np.random.default_rng(5).integers(14, size=120)
    table = as_comparisons(rows, 4)
    prompt = table.clusters[0]
    counted = count_pairs(table)
    result = fit(counted.cells, TIE_MODELS["davidson"])
    one, other = (sandwich(result, replace(table, clusters=(way,)), counted).matrix for way in (prompt, voter))
    same = replace(table, clusters=(prompt * 14 + voter,))
    both_ways = uncorrected(result, same, counted)
    in_both = both_ways.matrix * (1.0 - 1.0 / both_ways.count)
    found = sandwich(result, replace(table, clusters=(prompt, voter)), counted)
    np.testing.assert_allclose(found.matrices[0], one + other - in_both, atol=1e-12)
    np.testing.assert_allclose(found.matrices[1:], [one, other], atol=1e-12)
    assert (np.linalg.eigvalsh(found.matrix) >= -1e-12).all()


def test_a_cluster_that_alone_holds_a_model_is_held_back_and_not_divided_by_zero():
    rows = [
        *some_rows(73, n=60, models=3, prompts=12),
        *(Row(3, k % 3, [FIRST, SECOND][k % 2], cluster=0) for k in range(6)),
    ]
    table = as_comparisons(rows, 4)
    counted = count_pairs(table)
    found = sandwich(fit(counted.cells, HALF), table, counted)
    assert np.isfinite(found.matrix).all()
    assert not found.known[3]
    assert found.known[:3].all()


def test_rows_are_cut_into_pieces_between_clusters_and_never_inside_one(monkeypatch):
    """Pieces of about 3 rows from clusters of 2, 5, 1 and 4: the second is longer than a piece, and stays whole."""
    monkeypatch.setattr(clusters, "ROWS_AT_ONCE", 3)
    cluster = np.repeat([0, 1, 2, 3], [2, 5, 1, 4])
    backwards = np.arange(12)[::-1]
    parts = [(cluster[some], some) for some in np.split(backwards, [5])]
    pieces = [(found.tolist(), rows.tolist()) for found, rows in clusters.by_cluster(12, 11, parts)]
    assert pieces == [([0] * 2 + [1] * 5, list(range(7))), ([2] + [3] * 4, list(range(7, 12)))]


def test_the_exported_matrix_of_two_clusterings_has_no_negative_variance():
    two_ways = np.array([[1.0, 2.0], [2.0, 1.0]])  # its eigenvalues are 3 and −1
    both = Covariance((two_ways, np.eye(2)), np.eye(2), np.full(2, 9.0), np.zeros(2, dtype=bool))
    assert both.matrix == pytest.approx(np.full((2, 2), 1.5))
    assert replace(both, matrices=(two_ways,)).matrix is two_ways
