"""`shrink`: ratings of few battles are pulled together by as much as the battles say, and their intervals hold."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tiltyard as ty
from oracles.simulation import arena_battles, results, table_of
from tiltyard.analysis.boards import BradleyTerry
from tiltyard.errors import OptionError
from tiltyard.stats import (
    POINTS_PER_LOGIT,
    TIE_MODELS,
    Comparisons,
    count_pairs,
    drawn_sandwich,
    fit_shrunk,
    sandwich,
    shrinkage,
)
from tiltyard.stats.bradley_terry import StrengthPrior, fit


def one_mean(precision: float, spread: float, models: int) -> StrengthPrior:
    return StrengthPrior(precision, spread, np.zeros(models, dtype=np.int64))


def world(rng, models: int, sd: float, per_model: int, prompts: int = 0, effect: float = 0.0):
    """Normal strengths and few battles each, a ring of battles joining all models."""
    strength = rng.normal(0.0, sd, models)
    n = models * per_model // 2
    a, b = arena_battles(strength, n, rng)
    a[:models], b[:models] = np.arange(models), (np.arange(models) + 1) % models
    gap, prompt = strength[a] - strength[b], None
    if prompts:
        prompt = rng.integers(0, prompts, n)
        by_prompt = rng.normal(0.0, effect, (prompts, models))
        gap = gap + by_prompt[prompt, a] - by_prompt[prompt, b]
        strength = strength / np.sqrt(1.0 + 2.0 * effect**2 / 1.7**2)  # what a logistic fit sees of it
    return strength - strength.mean(), table_of(models, a, b, results(gap, rng), prompt)


def rows_of(table) -> list[dict[str, str]]:
    words = ("model_a", "model_b", "tie")
    return [
        {"model_a": table.models[a], "model_b": table.models[b], "winner": words[outcome], "source": "human"}
        for a, b, outcome in zip(table.model_a, table.model_b, table.outcome, strict=True)
    ]


def ratings_of(board, models: int) -> np.ndarray:
    return np.array([(board[f"m{code:02d}"].rating - 1000.0) / POINTS_PER_LOGIT for code in range(models)])


def held(board, truth: np.ndarray) -> list[bool]:
    entries = [board[f"m{code:02d}"] for code in range(len(truth))]
    points = 1000.0 + POINTS_PER_LOGIT * truth
    return [entry.ci_low <= point <= entry.ci_high for entry, point in zip(entries, points, strict=True)]


def test_a_shrunk_difference_means_what_it_says_where_a_plain_one_is_twice_too_large():
    """The slope of truth on ratings: 1 means that 100 points on the board are 100 points on average."""
    rng, models = np.random.default_rng(1), 120
    plain, shrunk, covered, spread = np.zeros(2), np.zeros(2), [], []
    for _ in range(4):
        truth, table = world(rng, models, 0.8, 10)
        for sums, board in (
            (plain, BradleyTerry(ci="none").fit(table)),
            (shrunk, found := BradleyTerry(shrink=True).fit(table)),
        ):
            rating = ratings_of(board, models)
            sums += truth @ rating, rating @ rating
        covered += held(found, truth)
        spread.append(found.settings.shrink.sd / POINTS_PER_LOGIT)
    assert plain[0] / plain[1] < 0.55
    assert 0.8 < shrunk[0] / shrunk[1] < 1.25  # 1.03 over 40 runs; four of them scatter by a tenth
    assert np.mean(covered) >= 0.94
    assert np.mean(spread) == pytest.approx(0.8, abs=0.12)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("models", "sd", "per_model", "prompts"),
    [(10, 0.8, 10, 0), (30, 0.5, 10, 0), (30, 1.5, 10, 0), (60, 0.7, 6, 0), (20, 0.7, 40, 30), (30, 0.2, 20, 0)],
)
def test_intervals_hold_strengths_drawn_from_such_a_population(models, sd, per_model, prompts):
    rng = np.random.default_rng(7)
    covered = []
    for _ in range(60):
        truth, table = world(rng, models, sd, per_model, prompts, 1.0 if prompts else 0.0)
        board = BradleyTerry(shrink=True).fit(table)
        covered += held(board, truth)
    assert np.mean(covered) >= 0.94


def test_dependent_battles_count_less_and_intervals_still_hold():
    rng = np.random.default_rng(2)
    covered, dispersion = [], []
    for _ in range(4):
        truth, table = world(rng, 20, 0.7, 50, 25, 1.3)
        board = BradleyTerry(shrink=True).fit(table)
        covered += held(board, truth)
        dispersion.append(board.settings.shrink.dispersion)
    assert np.mean(covered) >= 0.94
    assert np.mean(dispersion) > 1.2


def test_a_dispersion_that_never_settles_is_asked_for_three_times():
    _, table = world(np.random.default_rng(2), 8, 0.7, 50)
    asked = []

    def growing(_):
        asked.append(2.0 ** (1 + len(asked)))
        return asked[-1]

    rows = Comparisons(8, table.model_a, table.model_b, table.outcome, np.ones(len(table)))
    found = fit_shrunk(count_pairs(rows).cells, TIE_MODELS["davidson"], growing)
    assert asked == [2.0, 4.0, 8.0]
    assert found.dispersion == 8.0


def test_models_that_do_not_differ_are_rated_alike_and_the_board_says_so():
    """Every pair wins as often as it loses: there is nothing that chance does not explain."""
    a, b = np.triu_indices(8, 1)
    table = table_of(8, np.tile(a, 2), np.tile(b, 2), np.repeat([0, 1], len(a)))
    board = BradleyTerry(shrink=True).fit(table)
    assert max(board.ratings.values()) - min(board.ratings.values()) < 1e-6
    assert "shrink: the battles show no difference between the models, so all are rated alike" in board.remarks


def test_an_unbeaten_model_has_a_whole_interval_and_a_note():
    rng = np.random.default_rng(3)
    _, table = world(rng, 12, 0.8, 30)
    rows = rows_of(table)
    rows += [{"model_a": "new", "model_b": f"m{code:02d}", "winner": "model_a", "source": "human"} for code in range(5)]
    plain, shrunk = BradleyTerry().fit(rows)["new"], BradleyTerry(shrink=True).fit(rows)["new"]
    assert plain.ci_high is None
    assert shrunk.ci_low < shrunk.rating < shrunk.ci_high
    assert shrunk.note == "unbeaten: only the other models' ratings bound it above (shrink)"
    assert shrunk.rating < plain.rating


def test_the_prior_is_a_ridge_on_centred_strengths():
    """Its fit is the top of likelihood times prior, wherever the strengths are counted from."""
    rng = np.random.default_rng(4)
    _, table = world(rng, 6, 1.0, 30)
    cells = count_pairs(Comparisons(6, table.model_a, table.model_b, table.outcome, table.weight)).cells
    prior = one_mean(2.0, 0.5, 6)
    found = fit(cells, TIE_MODELS["davidson"], prior=prior)
    best = found.log_likelihood + prior.log_density(found.parameters.strength)
    for _ in range(30):
        near = found.parameters.strength + rng.normal(0.0, 0.3, 6)
        moved = fit(cells, TIE_MODELS["davidson"], fixed=near)
        assert moved.log_likelihood + prior.log_density(near) < best + 1e-9
    assert abs(found.parameters.strength.sum()) < 1e-9
    strong = fit(cells, TIE_MODELS["davidson"], prior=one_mean(1e6, 0.5, 6)).parameters.strength
    np.testing.assert_allclose(strong, 0.0, atol=1e-4)


def test_many_models_draw_the_same_standard_errors():
    rng = np.random.default_rng(5)
    _, table = world(rng, 200, 0.8, 20, 300, 0.5)
    prompts = table.text_column("question_id").codes.astype(np.int64)
    rows = Comparisons(200, table.model_a, table.model_b, table.outcome, table.weight, clusters=(prompts,))
    counted = count_pairs(rows)
    fitted = fit(counted.cells, TIE_MODELS["davidson"], prior=one_mean(1.6, 0.64, 200))
    whole, drawn = sandwich(fitted, rows, counted), drawn_sandwich(fitted, rows, counted, seed=0)
    ratio = np.sqrt(drawn.variances() / whole.variances())
    assert np.sqrt(np.mean((ratio - 1.0) ** 2)) < 0.04


@pytest.mark.parametrize("per_model", [6, 60])
def test_how_much_many_models_differ_is_found_without_the_whole_matrix(monkeypatch, per_model):
    _, table = world(np.random.default_rng(5), 60, 0.7, per_model)
    rows = Comparisons(60, table.model_a, table.model_b, table.outcome, np.ones(len(table)))
    cells = count_pairs(rows).cells
    whole = fit_shrunk(cells, TIE_MODELS["davidson"]).variance
    monkeypatch.setattr(shrinkage, "MANY_MODELS", 50)
    by_diagonal = fit_shrunk(cells, TIE_MODELS["davidson"]).variance
    assert np.sqrt(by_diagonal) == pytest.approx(np.sqrt(whole), rel=0.1)
    assert by_diagonal != whole


def test_it_goes_with_anchors_soft_outcomes_controls_and_is_recorded():
    rng = np.random.default_rng(6)
    _, table = world(rng, 8, 0.8, 40)
    board = ty.rate(table, shrink=True, anchor=("m03", 1200.0))
    assert board["m03"].ci_low == board["m03"].rating == board["m03"].ci_high == pytest.approx(1200.0)
    assert set(json.loads(board.to_json())["shrink"]) == {"sd", "dispersion"}
    rows = [
        {**row, "winner": "model_a", "score_a": 0.5 + 0.5 * float(soft), "len_a": float(a), "len_b": float(b)}
        for row, (soft, a, b) in zip(rows_of(table), rng.random((len(table), 3)), strict=True)
    ]
    assert len(ty.rate(rows, shrink=True)) == 8
    controlled = ty.rate(rows, shrink=True, control=("len",))
    assert "rating_without_control" in controlled["m00"].extra


@pytest.mark.parametrize("options", [{"ci": "none"}, {"ci": "bootstrap"}, {"robustness": True}, {"anytime": True}])
def test_what_does_not_go_with_it_is_refused(options):
    with pytest.raises(OptionError, match="shrink goes with"):
        BradleyTerry(shrink=True, **options)
