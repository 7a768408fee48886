"""The Bradley–Terry fit against a general optimiser on the row-by-row likelihood, and the laws of the fit."""

from __future__ import annotations

import numpy as np
import pytest

from oracles import plain_bradley_terry as plain
from oracles.plain_bradley_terry import FIRST, SECOND, TIE, Row, Shape, as_comparisons, some_rows
from tiltyard.errors import NotConverged, RatingError
from tiltyard.stats import HALF, TIE_MODELS, Reach, bounded, bradley_terry, count_pairs, fit_bounded
from tiltyard.stats.bradley_terry import fit
from tiltyard.stats.tie_models import DAVIDSON

ALL = list(TIE_MODELS)


def fitted(rows, models, ties="davidson", *, slot=False):
    return fit(count_pairs(as_comparisons(rows, models, slot=slot), slot=slot).cells, TIE_MODELS[ties])


def vector(result):
    """Strengths, coefficients, tie parameters in one row, as the oracle has them."""
    tie = result.parameters.tie[result.tied_groups]
    return np.concatenate([result.parameters.strength, result.parameters.coefficient, tie])


OPTIONS = {
    "plain": {},
    "weights": {"weighted": True},
    "two groups that tie differently often": {"groups": 2, "n": 90},
    "slot": {"slot": True},
    "covariates": {"covariates": 2},
    "slot and covariate": {"slot": True, "covariates": 1},
}


def in_turn(*always):
    """Each option with one reading of ties in turn, and what is given with all of them; the others in a soak."""
    return [
        pytest.param(what, ties, marks=[] if what in always or (row + column) % len(ALL) == 0 else [pytest.mark.soak])
        for row, what in enumerate(OPTIONS)
        for column, ties in enumerate(ALL)
    ]


@pytest.mark.parametrize(("what", "ties"), in_turn("two groups that tie differently often"))
def test_the_fit_is_where_a_general_optimiser_ends_on_the_row_by_row_likelihood(what, ties):
    options = OPTIONS[what]
    rows = some_rows(7, **options)
    n_ties = 0 if ties == "half" else options.get("groups", 1)
    shape = Shape(4, len(rows[0].z), n_ties)
    slow = plain.maximise(rows, ties, shape)
    fast = fitted(rows, 4, ties, slot=options.get("slot", False))
    np.testing.assert_allclose(vector(fast), slow, atol=1e-6)
    assert fast.log_likelihood == pytest.approx(plain.log_likelihood(rows, ties, shape, slow.tolist()), abs=1e-8)


def test_soft_outcomes_are_fractional_wins():
    rows = some_rows(3, soft_share=0.5)
    slow = plain.maximise(rows, "half", Shape(4))
    np.testing.assert_allclose(fitted(rows, 4, "half").parameters.strength, slow, atol=1e-6)


def test_half_ties_equal_the_minorise_maximise_algorithm():
    rows = some_rows(11, n=300, models=7, soft_share=0.2, weighted=True)
    slow = plain.mm_strengths(plain.half_win_matrix(rows, 7))
    np.testing.assert_allclose(fitted(rows, 7, "half").parameters.strength, slow, atol=1e-9)


@pytest.mark.parametrize("ties", ALL)
def test_the_information_is_minus_the_second_difference_of_the_log_likelihood(ties):
    rows = some_rows(5, groups=2, n=90, slot=True, covariates=1)
    result = fitted(rows, 4, ties, slot=True)
    shape = Shape(4, 2, 0 if ties == "half" else 2)
    slow = plain.information(rows, ties, shape, vector(result))
    np.testing.assert_allclose(result.information(), slow, atol=1e-5 * np.abs(slow).max())
    np.testing.assert_allclose(
        result.inverse_information(),
        plain.centred_inverse(slow, 4),
        atol=1e-5 * np.abs(plain.centred_inverse(slow, 4)).max(),
    )


@pytest.mark.parametrize("ties", ALL)
def test_a_row_of_weight_3_is_three_rows(ties):
    rows = some_rows(13, weighted=True)
    copies = [Row(row.first, row.second, row.result) for row in rows for _ in range(int(row.weight))]
    np.testing.assert_allclose(vector(fitted(rows, 4, ties)), vector(fitted(copies, 4, ties)), atol=1e-12)


def test_two_models_have_the_log_odds_of_their_wins():
    # 3 wins of 4 against 1: θ_0 − θ_1 = ln 3, centred at ± ln 3 / 2.
    rows = [Row(0, 1, FIRST)] * 3 + [Row(1, 0, FIRST)]
    for ties in ALL:
        np.testing.assert_allclose(
            fitted(rows, 2, ties).parameters.strength, np.log(3) / 2 * np.array([1, -1]), atol=1e-12
        )


def test_davidson_on_one_pair_gives_the_observed_shares():
    # 6 wins, 3 losses, 4 ties: e^{δ} = 2, and ν = 4/√18 makes P(tie) = 4/13 exactly.
    rows = [Row(0, 1, FIRST)] * 6 + [Row(0, 1, SECOND)] * 3 + [Row(0, 1, TIE)] * 4
    result = fitted(rows, 2, "davidson")
    assert np.diff(result.parameters.strength)[0] == pytest.approx(-np.log(2), abs=1e-12)
    assert np.exp(result.parameters.tie[0]) == pytest.approx(4 / np.sqrt(18), abs=1e-12)
    # P(tie) = ν/(e^{δ/2} + e^{−δ/2} + ν)
    nu = np.exp(result.parameters.tie[0])
    assert nu / (np.sqrt(2) + np.sqrt(0.5) + nu) == pytest.approx(4 / 13, abs=1e-12)


def test_rao_kupper_on_one_pair_gives_the_observed_shares():
    rows = [Row(0, 1, FIRST)] * 6 + [Row(0, 1, SECOND)] * 3 + [Row(0, 1, TIE)] * 4
    result = fitted(rows, 2, "rao-kupper")
    # P(first) = 1/(1 + η e^{−δ}) = 6/13 and P(second) = 1/(1 + η e^{δ}) = 3/13.
    delta = result.parameters.strength[0] - result.parameters.strength[1]
    eta = np.exp(result.parameters.tie[0])
    assert 1 / (1 + eta * np.exp(-delta)) == pytest.approx(6 / 13, abs=1e-12)
    assert 1 / (1 + eta * np.exp(delta)) == pytest.approx(3 / 13, abs=1e-12)


@pytest.mark.parametrize("ties", ["davidson", "rao-kupper"])
def test_without_a_tie_every_tie_model_is_plain_bradley_terry(ties):
    rows = [row for row in some_rows(17, n=120) if row.result != TIE]
    np.testing.assert_allclose(
        fitted(rows, 4, ties).parameters.strength, fitted(rows, 4, "half").parameters.strength, atol=1e-10
    )
    assert len(fitted(rows, 4, ties).tied_groups) == 0


def test_a_group_without_ties_has_no_tie_parameter_and_the_other_keeps_its_own():
    rows = [
        Row(row.first, row.second, row.result, group=0 if row.result == TIE else at % 2)
        for at, row in enumerate(some_rows(19))
    ]
    result = fitted(rows, 4, "davidson")
    assert result.tied_groups.tolist() == [0]
    assert result.parameters.tie[1] == -np.inf
    assert np.isfinite(result.parameters.strength).all()


@pytest.mark.parametrize("ties", ["davidson", "rao-kupper"])
def test_nothing_but_ties_has_no_answer(ties):
    with pytest.raises(RatingError, match="ties"):
        fitted([Row(0, 1, TIE)] * 3, 2, ties)


@pytest.mark.parametrize("ties", ALL)
@pytest.mark.parametrize("options", [{}, {"slot": True, "covariates": 1}, {"groups": 2}])
def test_conjugate_gradients_end_where_the_dense_solve_does(ties, options, monkeypatch):
    rows = some_rows(23, n=800, models=30, **options)
    slot = options.get("slot", False)
    dense = vector(fitted(rows, 30, ties, slot=slot))
    monkeypatch.setattr(bradley_terry, "DENSE_MODELS", 10)
    np.testing.assert_allclose(vector(fitted(rows, 30, ties, slot=slot)), dense, atol=1e-8)


def test_conjugate_gradients_settle_thousands_of_models():
    rng = np.random.default_rng(1)
    m, n = 2000, 60_000
    skill = rng.normal(0, 1, m)
    first = rng.integers(m, size=n)
    second = (first + 1 + rng.integers(m - 1, size=n)) % m
    u = rng.random(n)
    p = 1 / (1 + np.exp(skill[second] - skill[first]))
    rows = as_comparisons([Row(0, 1, FIRST)], m)
    rows = type(rows)(
        m, first, second, np.where(u < 0.1, TIE, np.where(rng.random(n) < p, FIRST, SECOND)).astype(np.int8), np.ones(n)
    )
    cells = count_pairs(rows).cells
    result, state = fit_bounded(cells, DAVIDSON)
    assert m > bradley_terry.DENSE_MODELS
    # At the top every model's expected score equals its own: the gradient by strengths is 0.
    strength, tie = result.parameters.strength, result.parameters.tie
    delta = strength[cells.first] - strength[cells.second]
    up, down, nu = np.exp(delta / 2), np.exp(-delta / 2), np.exp(tie[0])
    surplus = (cells.counts[:, 0] - cells.counts[:, 1] - cells.counts.sum(axis=1) * (up - down) / (up + down + nu)) / 2
    held = state == Reach.HELD
    slope = np.bincount(cells.first, surplus, m) - np.bincount(cells.second, surplus, m)
    touches_prior = np.zeros(m, dtype=bool)
    for cell in range(len(cells), len(result.cells)):
        touches_prior[[result.cells.first[cell], result.cells.second[cell]]] = True
    assert held.sum() > 1900
    assert np.abs(slope[~touches_prior]).max() < 1e-6
    assert np.corrcoef(strength, skill)[0, 1] > 0.85


def test_an_unbeaten_model_gets_half_a_win_and_half_a_loss():
    # 0 beat 1 three times and 1 and 2 are even: 0 has 3½ wins and ½ loss against 1, so δ = ln 7.
    rows = [Row(0, 1, FIRST)] * 3 + [Row(1, 2, FIRST)] * 2 + [Row(2, 1, FIRST)] * 2
    result, state = fit_bounded(count_pairs(as_comparisons(rows, 3)).cells, HALF)
    assert state.tolist() == [Reach.UNBEATEN, Reach.HELD, Reach.HELD]
    gap = result.parameters.strength[0] - result.parameters.strength[1]
    assert gap == pytest.approx(np.log(7), abs=1e-9)


def test_held_models_get_no_prior():
    cells = count_pairs(as_comparisons(some_rows(29), 4)).cells
    same, state = bounded(cells)
    assert (state == Reach.HELD).all()
    assert same is cells


@pytest.mark.parametrize("seed", range(20))
def test_equal_controls_are_refused_however_rounding_falls(seed):
    rows = some_rows(seed, n=100, covariates=1)
    doubled = [Row(row.first, row.second, row.result, z=(row.z[0], 3.7 * row.z[0])) for row in rows]
    with pytest.raises(NotConverged, match="Leave it out"):
        fitted(doubled, 4, "half")


@pytest.mark.parametrize("seed", range(20))
def test_a_control_that_says_which_models_they_are_is_refused(seed):
    trait = np.random.default_rng(seed).normal(size=4)
    rows = [
        Row(row.first, row.second, row.result, z=(trait[row.first] - trait[row.second],))
        for row in some_rows(seed, n=100)
    ]
    with pytest.raises(NotConverged, match="follows the models"):
        fitted(rows, 4, "half")


def test_a_control_that_follows_the_models_is_refused_on_the_sparse_path_too(monkeypatch):
    monkeypatch.setattr(bradley_terry, "DENSE_MODELS", 2)
    test_a_control_that_says_which_models_they_are_is_refused(0)


def test_a_slot_that_follows_the_models_is_refused():
    # 0 always sat first against 1, and 1 against 2: the slot and the gaps are the same thing.
    rows = [Row(0, 1, result, z=(1.0,)) for result in (FIRST, SECOND, FIRST)]
    rows += [Row(1, 2, result, z=(1.0,)) for result in (FIRST, SECOND, SECOND)]
    with pytest.raises(NotConverged, match="slot"):
        fitted(rows, 3, "half", slot=True)


def test_a_control_that_decides_every_battle_has_no_finite_coefficient():
    rng = np.random.default_rng(0)
    rows = []
    for row in some_rows(31, n=80):
        z = float(rng.normal())
        rows.append(Row(row.first, row.second, FIRST if z > 0 else SECOND, z=(z,)))
    with pytest.raises(NotConverged):
        fitted(rows, 4, "half")


@pytest.mark.parametrize("options", [{}, {"groups": 2, "n": 90}, {"slot": True, "covariates": 1}])
@pytest.mark.parametrize("ties", ALL)
def test_very_many_pairs_are_fitted_piece_by_piece_to_the_same(
    ties: str, options: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, slot = some_rows(7, **options), "slot" in options
    whole = fitted(rows, 4, ties, slot=slot)
    monkeypatch.setattr(bradley_terry, "MANY_CELLS", 0)
    monkeypatch.setattr(bradley_terry, "CELLS_AT_ONCE", 4)
    pieces = fitted(rows, 4, ties, slot=slot)
    assert len(pieces.cells) > 4
    assert vector(pieces) == pytest.approx(vector(whole), abs=1e-9)
    assert pieces.inverse_information() == pytest.approx(whole.inverse_information(), abs=1e-9)
