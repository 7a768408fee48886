"""How reliable judges are, from their votes: known truth comes back, and what cannot be known is refused."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tiltyard.errors import OptionError
from tiltyard.stats import MISSING, NEITHER, A, B, estimate_reliability, plurality


def world(
    rng: np.random.Generator, n: int, right: list[float], neither: list[float], ties: float = 0.1
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Truths, and the votes of independent judges: `right` of the winners they name, `neither` where one is better."""
    truth = np.where(rng.random(n) < ties, NEITHER, rng.integers(0, 2, n)).astype(np.int8)
    votes = []
    for share, silent in zip(right, neither, strict=True):
        named = np.where(rng.random(n) < share, truth, 1 - truth)
        named = np.where(truth == NEITHER, rng.integers(0, 2, n), named)
        none = rng.random(n) < np.where(truth == NEITHER, 0.6, silent)
        votes.append(np.where(none, NEITHER, named))
    return truth, np.stack(votes, axis=1).astype(np.int8)


def test_the_accuracy_of_every_judge_comes_back_from_votes_alone() -> None:
    right, neither = [0.9, 0.75, 0.6], [0.1, 0.1, 0.4]
    _, votes = world(np.random.default_rng(5), 20_000, right, neither)
    found = estimate_reliability(votes)
    assert found.accuracy == pytest.approx(right, abs=0.04)
    assert found.neither == pytest.approx(neither, abs=0.04)
    assert found.weights == pytest.approx(np.log(found.right / found.wrong))
    assert found.ties == pytest.approx(0.1, abs=0.05)


def test_weighted_votes_are_right_more_often_than_the_majority_and_than_the_best_judge() -> None:
    truth, votes = world(np.random.default_rng(6), 4000, [0.9, 0.7, 0.7, 0.6, 0.6], [0.05] * 5, ties=0.0)
    weighted = (estimate_reliability(votes).decided() == truth).mean()
    majority = (plurality(votes) == truth).mean()
    best = (votes[:, 0] == truth).mean()
    assert weighted > majority + 0.02
    assert weighted > best + 0.01


def test_a_judge_that_guesses_gets_no_weight_and_one_that_lies_a_negative_one() -> None:
    _, votes = world(np.random.default_rng(7), 5000, [0.85, 0.8, 0.5, 0.3], [0.05] * 4, ties=0.0)
    weights = estimate_reliability(votes).weights
    assert weights[2] == pytest.approx(0.0, abs=0.15)
    assert weights[3] < -0.5


def test_calling_every_first_entrant_the_second_swaps_the_truths_and_changes_no_rate() -> None:
    _, votes = world(np.random.default_rng(8), 500, [0.9, 0.75, 0.6], [0.2, 0.1, 0.1])
    swapped = np.select([votes == A, votes == B], [B, A], votes).astype(np.int8)
    first, second = estimate_reliability(votes), estimate_reliability(swapped)
    assert second.right == pytest.approx(first.right, abs=1e-6)
    assert second.truth[:, [1, 0, 2]] == pytest.approx(first.truth, abs=1e-6)


def test_two_judges_cannot_be_told_apart() -> None:
    _, votes = world(np.random.default_rng(9), 2000, [0.9, 0.6], [0.05, 0.05], ties=0.0)
    with pytest.raises(OptionError):
        estimate_reliability(votes)


def test_a_judge_that_failed_everywhere_has_no_say() -> None:
    _, votes = world(np.random.default_rng(10), 800, [0.9, 0.8, 0.7], [0.1] * 3)
    silent = np.column_stack([votes, np.full(800, MISSING, np.int8)])
    assert estimate_reliability(silent).truth == pytest.approx(estimate_reliability(votes).truth, abs=1e-6)


def test_the_most_votes_win_and_a_shared_lead_is_nobody() -> None:
    votes = [[A, A, B], [A, B, MISSING], [NEITHER, NEITHER, A], [MISSING] * 3, [A, B, NEITHER], [B, MISSING, MISSING]]
    assert plurality(votes).tolist() == [A, MISSING, NEITHER, MISSING, MISSING, B]


def test_judges_that_err_together_are_taken_for_reliable() -> None:
    rng = np.random.default_rng(11)
    _, votes = world(rng, 2000, [0.7, 0.7, 0.8], [0.0] * 3, ties=0.0)
    votes[:, 1] = np.where(rng.random(2000) < 0.9, votes[:, 0], votes[:, 1])
    assert estimate_reliability(votes).accuracy[0] > 0.85
