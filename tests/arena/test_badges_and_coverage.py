"""Badges, confidence, coverage of prompts and pairs, and the rules of publication."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena import Badge
from tiltyard.arena.study.coverage import (
    deficits,
    neighbours,
    pair_completeness,
    pair_coverage_scores,
    prompt_coverage,
    prompts_needed,
)
from tiltyard.arena.study.publication import (
    Floor,
    badge,
    confidence_percent,
    order_rule,
    places_rule,
    publication,
    voter_rule,
)

ESTABLISHED = Floor(80, 0.8, 90.0)
STABLE = Floor(200, 0.9, 30.0)


def earned(decisive: int, coverage: float, deviation: float) -> Badge:
    return badge(decisive, coverage, deviation, established=ESTABLISHED, stable=STABLE)


def test_a_badge_needs_votes_and_coverage_and_confidence_and_its_floor_is_enough() -> None:
    assert earned(80, 12 / 15, 90.0) is Badge.ESTABLISHED
    assert earned(79, 1.0, 20.0) is Badge.PROVISIONAL
    assert earned(500, 0.79, 20.0) is Badge.PROVISIONAL
    assert earned(500, 1.0, 90.1) is Badge.PROVISIONAL
    assert earned(200, 9 / 10, 30.0) is Badge.STABLE
    assert earned(199, 1.0, 30.0) is Badge.ESTABLISHED
    assert earned(200, 1.0, 30.1) is Badge.ESTABLISHED


def test_a_stable_floor_below_the_established_one_does_not_skip_it() -> None:
    assert badge(50, 1.0, 10.0, established=ESTABLISHED, stable=Floor(1, 0.0, 350.0)) is Badge.PROVISIONAL


@given(st.integers(0, 500), st.floats(0, 1), st.floats(10, 350), st.integers(0, 100))
def test_more_votes_never_cost_a_badge(decisive: int, coverage: float, deviation: float, more: int) -> None:
    ranks = list(Badge)
    before, after = earned(decisive, coverage, deviation), earned(decisive + more, coverage, deviation)
    assert ranks.index(after) >= ranks.index(before)


def test_stable_also_needs_a_range_of_ranks_of_at_most_three_places_and_an_unknown_one_is_none() -> None:
    narrow = Floor(200, 0.9, 30.0, places=3)

    def found(places: int | None) -> Badge:
        return badge(500, 1.0, 15.0, places, established=ESTABLISHED, stable=narrow)

    assert [found(places) for places in (1, 3, 4, None)] == [
        *(Badge.STABLE, Badge.STABLE),
        *(Badge.ESTABLISHED, Badge.ESTABLISHED),
    ]


def test_confidence_is_the_chance_of_being_within_25_points_rounded_half_up() -> None:
    """2Φ(25/RD) − 1: RD 25 is one standard error, 68.27 %; 12.755 is 1.96 of them, 95 %; 350 is 5.69 %."""
    assert [confidence_percent(rd) for rd in (350.0, 25.0, 25.0 / 1.959964, 10.0, 0.0)] == [6, 68, 95, 99, 100]


@given(st.floats(0, 1000), st.floats(0, 1000))
def test_confidence_stays_a_percentage_and_falls_as_the_deviation_grows(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= confidence_percent(high) <= confidence_percent(low) <= 100


def test_prompt_coverage_counts_active_prompts_with_their_floor_of_decisive_votes() -> None:
    decisive = np.array([[2, 1, 5, 9], [0, 0, 0, 9]], dtype=np.int32)
    active = np.array([True, True, True, False])
    assert prompt_coverage(decisive, active, 2).tolist() == [2 / 3, 0.0]


def test_without_an_active_prompt_nothing_is_covered() -> None:
    assert prompt_coverage(np.ones((2, 1), dtype=np.int32), np.array([False]), 1).tolist() == [0.0, 0.0]


def test_a_pair_is_as_complete_as_the_lesser_of_its_votes_and_its_prompts() -> None:
    """6 of 12 votes on 6 of 6 prompts: ½; 24 votes on 3 prompts: ½; 12 on 6: 1 and met."""
    assert pair_completeness(6, 6, floor_votes=12, floor_prompts=6) == 0.5
    assert pair_completeness(24, 3, floor_votes=12, floor_prompts=6) == 0.5
    assert pair_completeness(12, 6, floor_votes=12, floor_prompts=6) == 1.0
    assert pair_completeness(24, 5, floor_votes=12, floor_prompts=6) < 1.0


def test_an_arena_of_few_prompts_asks_for_all_of_them_and_no_more() -> None:
    assert [prompts_needed(6, active) for active in (0, 1, 4, 6, 50)] == [1, 1, 4, 6, 6]


def test_neighbours_are_above_and_below_inside_the_band() -> None:
    assert neighbours([7, 3, 5, 1], 3) == {7: [3], 3: [7, 5], 5: [3]}
    assert neighbours([7]) == {7: []}


def test_the_pair_coverage_score_is_the_mean_over_neighbours_inside_the_band() -> None:
    done = {frozenset((7, 3)): 1.0, frozenset((3, 5)): 0.25}
    scores = pair_coverage_scores([7, 3, 5, 1], 3, lambda a, b: done[frozenset((a, b))])
    assert scores == {7: 1.0, 3: 0.625, 5: 0.25}
    assert pair_coverage_scores([7], 3, lambda a, b: 1.0) == {}


def test_a_deficit_is_the_part_of_the_target_that_is_missing() -> None:
    assert deficits(np.array([[0, 1, 2, 9]], dtype=np.int32), 2.0).tolist() == [[1.0, 0.5, 0.0, 0.0]]


LIMITS = {"median_deviation": 75.0, "adjacent_share": 0.8, "mean_coverage": 0.9}


def test_a_board_is_officially_stable_when_all_three_rules_are_met_at_their_limit() -> None:
    status = publication([75.0] * 10, [0.9] * 10, [True] * 8 + [False] * 2, **LIMITS)
    assert status.status == "officially stable"
    assert [rule.value for rule in status.rules] == pytest.approx([75.0, 0.8, 0.9])


@pytest.mark.parametrize(
    ("deviations", "coverages", "met", "broken"),
    [
        ([75.1] * 10, [1.0] * 10, [True] * 9, 0),
        ([20.0] * 10, [1.0] * 10, [True] * 7 + [False] * 2, 1),
        ([20.0] * 10, [0.89] * 10, [True] * 9, 2),
    ],
)
def test_each_rule_alone_keeps_a_board_calibrating_and_says_so(
    deviations: list[float], coverages: list[float], met: list[bool], broken: int
) -> None:
    status = publication(deviations, coverages, met, **LIMITS)
    assert status.status == "calibrating"
    assert [place for place, rule in enumerate(status.rules) if not rule.met] == [broken]


def test_the_deviation_that_is_looked_at_is_the_median_and_not_the_mean() -> None:
    """20, 30, 40, 350, 350: the median is 40, the mean 158. And 40, 70, 80, 80, 81: median 80, mean 70.2."""
    few_uncertain = publication([20.0, 350.0, 40.0, 350.0, 30.0], [1.0] * 5, [True] * 4, **LIMITS)
    assert (few_uncertain.status, few_uncertain.rules[0].value) == ("officially stable", 40.0)
    most_uncertain = publication([80.0, 40.0, 81.0, 70.0, 80.0], [1.0] * 5, [True] * 4, **LIMITS)
    assert (most_uncertain.status, most_uncertain.rules[0].value) == ("calibrating", 80.0)


def test_the_coverage_that_is_looked_at_is_the_mean_and_not_the_median() -> None:
    """Coverages 1, 1, 0.5: the mean is 0.83, below 0.9, though the median is 1."""
    uneven = publication([20.0] * 3, [1.0, 1.0, 0.5], [True] * 2, **LIMITS)
    assert uneven.status == "calibrating"
    assert uneven.rules[2].value == pytest.approx(2.5 / 3)


def test_one_voter_may_have_a_tenth_and_no_more() -> None:
    assert voter_rule(0.1, 0.1).met
    assert not voter_rule(0.101, 0.1).met
    assert not voter_rule(None, 0.1).met


def test_the_median_range_of_ranks_is_looked_at_and_no_range_is_not_a_narrow_one() -> None:
    assert (places_rule([1, 3, 3, 9, 12], 3).value, places_rule([1, 3, 3, 9, 12], 3).met) == (3, True)
    assert not places_rule([3, 4], 3).met
    assert not places_rule(None, 3).met


def test_a_top_model_that_stood_outside_its_range_lately_is_counted_and_named() -> None:
    ranges = {"a": (1, 1), "b": (2, 3), "c": (2, 4)}
    kept = [{"a": 1, "b": 3, "c": 2}, {"a": 1, "b": 2, "c": 3}]
    assert order_rule(["a", "b", "c"], ranges, kept, 2000).met
    swapped = order_rule(["a", "b", "c"], ranges, [{"a": 2, "b": 1, "c": 3}, kept[0]], 2000)
    assert (swapped.value, swapped.met, "a, b" in swapped.detail) == (2, False, True)
    newcomer = order_rule(["a", "b", "c"], ranges, [{"a": 1, "b": 2}], 2000)
    assert newcomer.value == 1
    unknown = order_rule(["a"], ranges, None, 2000)
    assert (unknown.met, unknown.value, unknown.at_most, unknown.needed) == (False, None, True, 0)


def test_the_label_follows_the_policys_three_rules_alone() -> None:
    broken, met = [voter_rule(0.3, 0.1)], [voter_rule(0.1, 0.1)]
    status = publication([20.0] * 10, [1.0] * 10, [True] * 9, **LIMITS, ours=broken)
    assert (status.status, [rule.ours for rule in status.rules]) == ("officially stable", [False, False, False, True])
    assert (len(status.deciding), status.beside) == (3, tuple(broken))
    assert publication([20.0] * 10, [0.5] * 10, [True] * 9, **LIMITS, ours=met).status == "calibrating"


def test_nothing_to_look_at_is_not_stable() -> None:
    assert publication([], [], [], **LIMITS).status == "calibrating"
    assert publication([20.0], [1.0], [], **LIMITS).status == "calibrating"
