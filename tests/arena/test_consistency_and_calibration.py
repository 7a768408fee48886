"""Evenness across prompts after allowing for rivals, and predictions against what came of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena.study.coverage import average_score, consistency, prompt_means, spread
from tiltyard.stats import Glicko2Settings, confidence_bins, predictions, rate_battles
from tiltyard.stats.calibration import calibration


def test_means_are_over_prompts_with_two_rated_votes_and_every_prompt_weighs_alike() -> None:
    """Half points 4 of 2 votes, 1 of 2, 9 of 1 (left out), 4 of 4: means 1, ¼, ½; average 7/12, sd √(0.09722)."""
    means = prompt_means(np.array([4, 1, 9, 4]), np.array([2, 2, 1, 4]))
    assert means.tolist() == [1.0, 0.25, 0.5]
    assert average_score(means) == pytest.approx(7 / 12)
    assert spread(means) == pytest.approx(np.std([1.0, 0.25, 0.5]))
    assert spread(means[:2]) is None
    assert average_score(means[:0]) is None


def world(rng: np.random.Generator, shift_sd: float, votes: int, prompts: int = 15) -> tuple[int | None, float]:
    """Consistency and raw spread of a model whose rivals differ by prompt and whose skill varies by `shift_sd`."""
    wins, expected, information = np.zeros(prompts), np.zeros(prompts), np.zeros(prompts)
    for prompt in range(prompts):
        gap = rng.normal(1.5 if prompt % 2 else -1.5, 0.5, votes)
        chance = 1.0 / (1.0 + np.exp(-gap))
        wins[prompt] = (rng.random(votes) < 1.0 / (1.0 + np.exp(-gap - rng.normal(0.0, shift_sd)))).sum()
        expected[prompt], information[prompt] = chance.sum(), (chance * (1.0 - chance)).sum()
    decisive = np.full(prompts, votes)
    raw = spread(prompt_means(2 * wins.astype(np.int64), decisive))
    return consistency(wins.astype(np.int64), decisive, expected, information), float(raw or 0.0)


def test_a_model_that_met_strong_rivals_on_half_its_prompts_looks_uneven_and_is_not() -> None:
    """Without any unevenness the estimate is above 0 in just under half the runs (χ² exceeds its mean), and small."""
    rng = np.random.default_rng(1)
    runs = [world(rng, 0.0, 60) for _ in range(200)]
    evens = np.array([even for even, _ in runs])
    assert 0.45 < np.mean(evens == 100) < 0.7
    assert evens.mean() > 93
    assert np.mean([raw for _, raw in runs]) > 0.25


def test_a_model_that_is_uneven_by_one_logit_reads_about_54() -> None:
    rng = np.random.default_rng(2)
    values = [world(rng, 1.0, 100)[0] for _ in range(60)]
    assert 50 <= float(np.median(values)) <= 64


def test_more_unevenness_never_reads_better_on_the_whole() -> None:
    rng = np.random.default_rng(3)
    medians = [float(np.median([world(rng, sd, 60)[0] for _ in range(40)])) for sd in (0.0, 0.3, 0.7, 1.2)]
    assert medians == sorted(medians, reverse=True)


def test_fewer_than_five_prompts_say_nothing() -> None:
    four = np.full(4, 10)
    assert consistency(four // 2, four, four / 2.0, four / 4.0) is None


@given(st.lists(st.tuples(st.integers(2, 40), st.floats(0, 1), st.floats(0.05, 0.95)), min_size=5, max_size=20))
def test_consistency_is_a_percentage_and_does_not_depend_on_the_order_of_prompts(
    rows: list[tuple[int, float, float]],
) -> None:
    n = np.array([row[0] for row in rows])
    wins = np.array([round(row[0] * row[1]) for row in rows])
    chance = np.array([row[2] for row in rows])
    value = consistency(wins, n, n * chance, n * chance * (1 - chance))
    back = consistency(wins[::-1], n[::-1], (n * chance)[::-1], (n * chance * (1 - chance))[::-1])
    assert value is not None
    assert back is not None
    assert 0 <= value <= 100
    assert abs(value - back) <= 1


def test_doing_exactly_as_expected_everywhere_is_100() -> None:
    n = np.full(6, 10)
    assert consistency(n // 2, n, n / 2.0, n / 4.0) == 100


def battles(rng: np.random.Generator, n: int, models: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    strength = np.linspace(-200.0, 200.0, models)
    a = rng.integers(models, size=n)
    b = (a + rng.integers(1, models, size=n)) % models
    won = rng.random(n) < 1.0 / (1.0 + 10.0 ** ((strength[b] - strength[a]) / 400.0))
    return a, b, np.where(rng.random(n) < 0.08, 0.5, won.astype(float))


def test_the_first_prediction_is_a_half_and_each_uses_only_what_came_before() -> None:
    """Slowly: before vote t the ratings are those of the first t votes."""
    rng = np.random.default_rng(4)
    rules = Glicko2Settings()
    a, b, score = battles(rng, 40, models=4)
    predicted = predictions(a, b, score, 4, rules)
    assert predicted[0] == 0.5
    for t in range(1, 40):
        state = rate_battles(a[:t], b[:t], score[:t], start=4, settings=rules)
        gap = state.rating[a[t]] - state.rating[b[t]]
        phi2 = (state.deviation[a[t]] ** 2 + state.deviation[b[t]] ** 2) / 173.7178**2
        z = gap / 173.7178 / np.sqrt(1.0 + 3.0 * phi2 / np.pi**2)
        assert predicted[t] == pytest.approx(1.0 / (1.0 + np.exp(-z)), abs=1e-12)


def test_written_from_the_other_side_the_predictions_are_the_complements() -> None:
    a, b, score = battles(np.random.default_rng(5), 300)
    there = predictions(a, b, score, 8, Glicko2Settings())
    back = predictions(b, a, 1.0 - score, 8, Glicko2Settings())
    assert there == pytest.approx(1.0 - back, abs=1e-9)


def test_honest_ratings_are_calibrated_and_better_than_a_coin() -> None:
    a, b, score = battles(np.random.default_rng(6), 12_000)
    found = calibration(predictions(a, b, score, 8, Glicko2Settings()), score)
    assert found.votes == 12_000 == sum(row.votes for row in found.bins)
    assert found.brier is not None
    assert found.brier_of_half is not None
    assert found.brier < found.brier_of_half
    inside = [row.observed_low - 0.03 <= row.predicted <= row.observed_high + 0.03 for row in found.bins]
    assert all(inside)


def test_overconfident_predictions_are_seen() -> None:
    rng = np.random.default_rng(7)
    score = (rng.random(4000) < 0.7).astype(float)
    (row,) = calibration(np.full(4000, 0.95), score).bins
    assert (row.low, row.high) == (0.9, 1.0)
    assert row.observed_high < 0.75


def test_nothing_to_predict_is_said_and_a_certain_prediction_has_a_bin() -> None:
    assert calibration(np.zeros(0), np.zeros(0)).brier is None
    assert calibration(np.ones(3), np.ones(3)).bins[0].high == 1.0


def test_a_confidence_on_an_edge_belongs_to_the_bin_above_and_complete_confidence_to_the_last() -> None:
    found = confidence_bins(np.array([10.0, 75.0, 90.0, 99.0, 100.0]), np.array([True, False, True, True, False]))
    counted = [(one.low, one.high, one.ratings, one.held) for one in found]
    assert counted == [(0, 25, 1, 1), (75, 90, 1, 0), (90, 100, 3, 2)]
    assert [one.stated for one in found] == pytest.approx([10.0, 75.0, 289 / 3])
