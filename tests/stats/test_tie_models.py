"""The three readings of a tie: each one's derivatives are those of its own likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.stats import FAR, HALF
from tiltyard.stats.tie_models import DAVIDSON, RAO_KUPPER, CellSums, log_sigmoid, sigmoid

MODELS = [HALF, DAVIDSON, RAO_KUPPER]
WITH_TIES = [DAVIDSON, RAO_KUPPER]
deltas = st.floats(-6, 6)
tie_parameters = st.floats(0.05, 3)
counts = st.tuples(*[st.floats(0, 50)] * 3)


def log_likelihood(model, delta, tie, cell):
    return model.evaluate(np.array([delta]), np.array([tie]), CellSums.of(np.array([cell]))).log_likelihood


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
@given(delta=deltas, tie=tie_parameters, cell=counts)
def test_slopes_and_curvatures_are_differences_of_the_log_likelihood(model, delta, tie, cell):
    here = model.evaluate(np.array([delta]), np.array([tie]), CellSums.of(np.array([cell])))
    h = 1e-4
    value = {(i, j): log_likelihood(model, delta + i * h, tie + j * h, cell) for i in (-1, 0, 1) for j in (-1, 0, 1)}
    size = 1.0 + sum(cell)
    assert here.by_delta[0] == pytest.approx((value[1, 0] - value[-1, 0]) / (2 * h), abs=1e-5 * size)
    bend = -(value[1, 0] - 2 * value[0, 0] + value[-1, 0]) / h**2
    assert here.curvature.delta[0] == pytest.approx(bend, abs=1e-4 * size)
    if model.has_parameter:
        assert here.by_tie[0] == pytest.approx((value[0, 1] - value[0, -1]) / (2 * h), abs=1e-3 * size)
        cross = -(value[1, 1] - value[1, -1] - value[-1, 1] + value[-1, -1]) / (4 * h**2)
        assert here.curvature.cross[0] == pytest.approx(cross, abs=1e-4 * size)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
@given(delta=deltas, tie=tie_parameters, cell=counts)
def test_a_cell_is_the_sum_of_its_battles(model, delta, tie, cell):
    at = np.array([delta]), np.array([tie])
    scores = model.result_scores(*at)
    by_delta, by_tie = model.gradient(np.exp(0.5 * at[0]), at[1], CellSums.of(np.array([cell])))
    whole = model.evaluate(*at, CellSums.of(np.array([cell])))
    np.testing.assert_allclose(by_delta, (np.array([cell]) * scores.delta).sum(axis=1), atol=1e-10)
    np.testing.assert_allclose(by_tie, (np.array([cell]) * scores.tie).sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(by_delta, whole.by_delta, atol=1e-10)
    np.testing.assert_allclose(by_tie, whole.by_tie, atol=1e-9)


@pytest.mark.parametrize("model", WITH_TIES, ids=lambda model: model.name)
@given(delta=deltas, tie=tie_parameters)
def test_the_expected_score_is_zero(model, delta, tie):
    # Σ P(result) · ∂ ln P(result) = ∂ Σ P(result) = 0, with P(result) = e^{ln likelihood of one such battle}.
    p = np.exp([log_likelihood(model, delta, tie, cell) for cell in np.eye(3)])
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    scores = model.result_scores(np.array([delta]), np.array([tie]))
    assert scores.delta[0] @ p == pytest.approx(0.0, abs=1e-12)
    assert scores.tie[0] @ p == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("model", WITH_TIES, ids=lambda model: model.name)
@given(share=st.floats(0.001, 0.99))
def test_the_start_explains_the_ties_of_equals(model, share):
    assert np.exp(log_likelihood(model, 0.0, model.start(share), (0.0, 0.0, 1.0))) == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
@given(delta=deltas, tie=tie_parameters, cell=counts)
def test_written_from_the_other_side_the_likelihood_is_the_same(model, delta, tie, cell):
    won, lost, tied = cell
    other = log_likelihood(model, -delta, tie, (lost, won, tied))
    assert log_likelihood(model, delta, tie, cell) == pytest.approx(other, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
@pytest.mark.parametrize("delta", [-1e4, -700.0, 0.0, 700.0, 1e4])
def test_no_gap_is_too_wide_for_the_arithmetic(model, delta):
    here = model.evaluate(np.array([delta]), np.array([0.5]), CellSums.of(np.array([[1.0, 1.0, 1.0]])))
    assert np.isfinite(here.log_likelihood)
    assert np.isfinite([here.by_delta[0], here.by_tie[0], here.curvature.delta[0]]).all()
    assert np.isfinite(model.result_scores(np.array([delta]), np.array([0.5])).delta).all()


def test_one_tie_parameter_that_ran_away_makes_a_step_invalid():
    for model, far in ((DAVIDSON, FAR), (RAO_KUPPER, FAR), (RAO_KUPPER, -FAR)):
        assert model.valid(np.array([0.5, 0.7]))
        assert not model.valid(np.array([0.5, far])), model.name


@pytest.mark.parametrize("model", WITH_TIES, ids=lambda model: model.name)
def test_a_group_without_ties_is_plain_bradley_terry(model):
    delta, untied = np.array([0.7]), np.array([model.untied])
    for cell in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (5.0, 2.0, 0.0)):
        expected = cell[0] * log_sigmoid(delta)[0] + cell[1] * log_sigmoid(-delta)[0]
        assert log_likelihood(model, 0.7, model.untied, cell) == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(
        model.result_scores(delta, untied).delta[0, :2], [1 - sigmoid(delta)[0], -sigmoid(delta)[0]], atol=1e-12
    )
