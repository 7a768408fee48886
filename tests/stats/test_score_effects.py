"""Effects of model and prompt where scores are missing: exact where none are, fair where they are."""

from __future__ import annotations

import numpy as np
import pytest

from tiltyard.stats import ScoreEffects, mean_score, score_difference

RNG = np.random.default_rng(3)
COMPLETE = (RNG.random((3, 40)) < 0.6).astype(float)


def test_without_missing_scores_it_is_the_difference_of_means_and_its_interval() -> None:
    effects = ScoreEffects.of(COMPLETE)
    for i, j in ((0, 1), (0, 2), (2, 1)):
        plain = score_difference(COMPLETE[i] - COMPLETE[j], 1.0)
        fitted = effects.difference(i, j, 1.0)
        assert (fitted.value, fitted.error, fitted.degrees) == pytest.approx((plain.value, plain.error, plain.degrees))
    plain, fitted = mean_score(COMPLETE[0], 1.0, lowest=0.0, highest=1.0), effects.mean(0, 1.0, None, 0.0, 1.0)
    assert (fitted.value, fitted.error, fitted.degrees) == pytest.approx((plain.value, plain.error, plain.degrees))


def test_clusters_of_equal_size_have_the_interval_of_clusters() -> None:
    clusters = np.repeat(np.arange(8), 5)
    means = np.bincount(clusters, COMPLETE[0] - COMPLETE[1]) / 5
    plain = score_difference(means, 1.0, sizes=np.full(8, 5.0))
    fitted = ScoreEffects.of(COMPLETE).difference(0, 1, 1.0, clusters)
    assert (fitted.value, fitted.error, fitted.degrees) == pytest.approx((plain.value, plain.error, plain.degrees))


def test_two_models_are_compared_on_the_prompts_of_both() -> None:
    scores = COMPLETE[:2].copy()
    scores[0, :10] = np.nan
    plain = score_difference((scores[0] - scores[1])[10:], 1.0)
    fitted = ScoreEffects.of(scores).difference(0, 1, 1.0)
    assert (fitted.value, fitted.error, fitted.degrees) == pytest.approx((plain.value, plain.error, plain.degrees))


def test_the_easy_half_is_taken_off() -> None:
    """The prompts are worth 0.9 and 0.1, the models +0.05, 0, −0.05: what is added up is found again exactly."""
    truth = np.array([0.05, 0.0, -0.05])
    scores = truth[:, None] + np.repeat([0.9, 0.1], 10)
    scores[2, 10:] = np.nan
    effects = ScoreEffects.of(scores)
    assert effects.models == pytest.approx(truth)
    assert effects.mean(2, 1.0).value == pytest.approx(0.45)
    assert np.nanmean(scores[2]) == pytest.approx(0.85)


def test_a_third_model_joins_two_that_share_no_prompt_and_nothing_joins_islands() -> None:
    chain = np.full((3, 20), np.nan)
    chain[0, :10], chain[1, 10:], chain[2] = 0.7, 0.6, 0.5
    chain[:, ::3] += 0.1
    joined = ScoreEffects.of(chain).difference(0, 1, 1.0)
    assert joined.value == pytest.approx(0.1)
    apart = ScoreEffects.of(chain[:2])
    assert not apart.difference(0, 1, 1.0).known
    assert not apart.mean(0, 1.0).known


def test_intervals_hold_where_half_of_the_scores_are_missing_by_chance() -> None:
    """Six equal models, 60 prompts of 0/1, half of the cells: 400 differences miss the truth in at most 8 %."""
    rng, missed, runs = np.random.default_rng(5), 0, 400
    for _ in range(runs):
        ease = rng.beta(2, 2, 60)
        scores = (rng.random((6, 60)) < ease).astype(float)
        gone = rng.random(scores.shape) < 0.5
        gone[rng.integers(6), gone.all(axis=0)] = False
        scores[gone] = np.nan
        scores = scores[:, ~np.isnan(scores).all(axis=0)]
        low, high = ScoreEffects.of(scores).difference(0, 1, 1.0).ends(0.95)
        missed += low is None or high is None or not low <= 0.0 <= high
    assert missed / runs <= 0.08
