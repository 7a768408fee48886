"""Exposure, sides and lanes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena.matchmaking.fairness import exposure_fairness, exposure_targets, lane_shares, side_balance


def test_who_has_more_by_the_contender_lane_keeps_it_and_the_others_share_the_rest() -> None:
    """Four models, 50 matchups: 60 of 100 are one model's, so the others have 40/3 each; 9 given is no more than that.

    A second model with 30 has more than 40/3 too: then the other two have 5 each.
    """
    assert exposure_targets(np.array([60, 9, 0, 0]), 50) == pytest.approx([60, 40 / 3, 40 / 3, 40 / 3])
    assert exposure_targets(np.array([60, 30, 0, 0]), 50) == pytest.approx([60, 30, 5, 5])
    assert exposure_targets(np.array([20, 25, 0, 0]), 50) == pytest.approx([25, 25, 25, 25])
    assert exposure_targets(np.zeros(0, dtype=np.int64), 0).tolist() == []


def test_at_38_models_the_policys_lane_leaves_the_others_nine_percent_below_an_even_share() -> None:
    """8 contenders with 0.07125·W each: (2 − 8·0.07125)/30 = 0.04767, against 2/38 = 0.0526."""
    given = np.array([7125] * 8 + [0] * 30)
    assert exposure_targets(given, 100_000) == pytest.approx(np.array([7125] * 8 + [4766.67] * 30), abs=0.01)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60), st.integers(0, 200))
def test_all_targets_together_are_two_per_matchup_and_none_is_below_what_was_given(
    pairs: list[tuple[int, int]], other_matchups: int
) -> None:
    given = np.bincount([model for pair in pairs for model in pair], minlength=31)
    target = exposure_targets(given, len(pairs) + other_matchups)
    assert target.sum() == pytest.approx(2 * (len(pairs) + other_matchups))
    assert (target >= given).all()
    assert len(set(np.round(target[target > given + 1e-9], 6))) <= 1


def test_tolerance_is_measured_against_the_target_and_against_the_even_share_beside() -> None:
    """2·2000/38 = 105.3, ± 12 %: 92.6 to 117.9. 142 and 60 lie outside, 95 inside."""
    exposures = np.array([142] * 8 + [95] * 29 + [60])
    given = np.where(np.arange(38) < 8, 140, 0)
    fair = exposure_fairness(exposures, given, np.ones(38, dtype=bool), 2000, tolerance=0.12)
    assert fair.within.sum() == 37
    assert not fair.within[37]
    assert fair.targets_differ
    assert fair.within_even.sum() == 29


def test_a_model_without_answers_has_no_target_and_the_others_share_its_part() -> None:
    """Four models, one of them silent: 2·90/3 = 60 each, and three are looked at."""
    servable = np.array([True, True, True, False])
    fair = exposure_fairness(np.array([60, 60, 60, 0]), np.zeros(4, dtype=int), servable, 90, tolerance=0.12)
    assert fair.targets.tolist() == [60.0, 60.0, 60.0, 0.0]
    assert (fair.looked_at, int(fair.within.sum()), fair.targets_differ) == (3, 3, False)


def test_fair_coins_are_balanced_and_a_biased_one_is_found() -> None:
    rng = np.random.default_rng(5)
    a, b = np.sort(rng.integers(0, 20, (2, 6000)), axis=0)
    a, b = a[a != b], b[a != b]
    flip = rng.random(len(a)) < 0.5

    def balance(flipped: np.ndarray) -> object:
        side_a, side_b = np.where(flipped, b, a), np.where(flipped, a, b)
        as_a = np.bincount(side_a, minlength=20)
        return side_balance(side_a, side_b, as_a + np.bincount(side_b, minlength=20), as_a)

    assert balance(flip).fair
    assert not balance(rng.random(len(a)) < 0.45).fair


def test_one_model_glued_to_a_side_is_named_though_the_whole_is_balanced() -> None:
    """100 exposures on side A in a row are 10 sigma, though the first-named model sits on A half the time."""
    side_a, side_b = np.full(100, 5), np.concatenate([np.zeros(50, int), np.full(50, 9)])
    as_a = np.bincount(side_a, minlength=10)
    balance = side_balance(side_a, side_b, as_a + np.bincount(side_b, minlength=10), as_a)
    assert balance.sigmas == 0.0
    assert 5 in balance.off_balance
    assert balance.model_sigmas[1] == 0.0, "never shown, so on neither side too often"
    assert not balance.fair


def test_the_limit_for_many_models_is_wider_than_3_sigma_and_for_one_it_is_3() -> None:
    empty = np.zeros(0, dtype=np.int64)
    assert side_balance(empty, empty, np.zeros(1, int), np.zeros(1, int)).limit == pytest.approx(3.0, abs=1e-6)
    assert 3.8 < side_balance(empty, empty, np.zeros(38, int), np.zeros(38, int)).limit < 4.1


def test_false_alarms_of_a_whole_report_are_as_rare_as_3_sigma() -> None:
    """2,000 reports of 38 fair models with 100 exposures each: 0.27 % expected, binomials are coarse."""
    rng = np.random.default_rng(7)
    as_a = rng.binomial(100, 0.5, (2000, 38))
    empty = np.zeros(0, dtype=np.int64)
    alarms = sum(bool(side_balance(empty, empty, np.full(38, 100), row).off_balance) for row in as_a)
    assert alarms / 2000 < 0.012


def test_lane_shares_stand_beside_their_weights_in_standard_errors() -> None:
    """430 of 1,000 at weight 0.4: 30 over, standard error √(1000·0.4·0.6) = 15.49."""
    rows = lane_shares({"coverage": 430, "contender": 570, "legacy": 99}, [("coverage", 0.4), ("contender", 0.6)])
    assert [(row.lane, row.served, row.share) for row in rows] == [("coverage", 430, 0.43), ("contender", 570, 0.57)]
    assert rows[0].sigmas == pytest.approx(30 / 15.4919, abs=1e-4)
    assert lane_shares({}, [("coverage", 1.0)])[0].sigmas == 0.0
