"""What `--until` means, and whether a run that may stop early still tells the truth.

The simulations allow for Monte-Carlo error: three standard errors of the measured share. `pytest -s` prints the
figures; `make soak` measures them with more runs and in more worlds.
"""

from __future__ import annotations

import math
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from oracles import sampling_simulation as simulation
from oracles.sampling_simulation import Doubt, Rule
from tests.sizes import size
from tiltyard.errors import OptionError
from tiltyard.judge.placement.stopping import (
    FIRST_ROUND,
    FIRST_STOP,
    Until,
    chance_to_stay_inside,
    critical,
    decide,
    level_at_each_look,
    round_sizes,
    stopping_looks,
)

POINTS = simulation.POINTS

# What a user may write


@pytest.mark.parametrize(
    ("text", "kind", "limit"),
    [
        ("80", "width", 80.0),
        ("12.5", "width", 12.5),
        (" 80 ", "width", 80.0),
        ("rank:5", "rank", 5),
        ("rank: 1", "rank", 1),
    ],
)
def test_a_rule_is_a_width_in_points_or_a_number_of_places(text, kind, limit):
    assert Until.parse(text) == Until(kind, limit)


@pytest.mark.parametrize(
    "text",
    ["", "0", "-80", "nan", "inf", "1e999", "80 points", "rank", "rank:", "rank:0", "rank:2.5", "rank:-1", "width:80"],
)
def test_anything_else_is_refused_with_both_spellings(text):
    with pytest.raises(OptionError, match=r"until .* is neither .*\(80\).*\(rank:5\)") as refused:
        Until.parse(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["80", "12.5", "rank:5"])
def test_a_rule_is_written_as_it_was_read(text):
    assert str(Until.parse(text)) == text
    assert Until.parse(str(Until.parse(text))) == Until.parse(text)


# When a run stops


def test_a_narrow_interval_stops_the_run_and_the_reason_says_so():
    reason = decide(Until("width", 80.0), battles=60, interval=(960.0, 1040.0), ranks=(3, 30))
    assert reason == "the interval is no wider than 80 points"
    assert decide(Until("width", 80.0), battles=60, interval=(960.0, 1040.5), ranks=(3, 3)) is None


def test_few_places_stop_the_run_and_both_ends_count():
    until = Until("rank", 5)
    assert (
        decide(until, battles=60, interval=(0.0, 999.0), ranks=(3, 7))
        == "the rank interval spans no more than 5 places"
    )
    assert decide(until, battles=60, interval=(999.0, 999.5), ranks=(3, 8)) is None
    exact = decide(Until("rank", 1), battles=60, interval=(0.0, 999.0), ranks=(4, 4))
    assert exact == "the rank interval spans no more than 1 place"


def test_nothing_stops_a_run_before_sixty_battles():
    assert FIRST_STOP == 60
    for until in (Until("width", 80.0), Until("rank", 5)):
        assert decide(until, battles=59, interval=(999.0, 1001.0), ranks=(1, 1)) is None
        assert decide(until, battles=60, interval=(999.0, 1001.0), ranks=(1, 1)) is not None


def test_an_interval_with_an_open_side_is_never_narrow():
    for interval in ((None, 1000.0), (1000.0, None), (None, None)):
        assert decide(Until("width", 1e6), battles=100, interval=interval, ranks=(1, 1)) is None


def test_without_a_rule_a_run_goes_to_its_end():
    assert decide(None, battles=1000, interval=(999.0, 1001.0), ranks=(1, 1)) is None


# Rounds


def test_the_planned_battles_are_split_evenly_and_a_large_first_round_is_opened_early():
    assert round_sizes(100, 5) == (10, 10, 20, 20, 20, 20)
    assert round_sizes(100, 5, opening=()) == (20, 20, 20, 20, 20)
    assert round_sizes(500, 5) == (10, 10, 20, 60, 100, 100, 100, 100)
    assert round_sizes(30, 5) == (10, 5, 5, 5, 5)
    assert round_sizes(12, 5) == (10, 1, 1)
    assert round_sizes(8, 5) == (8,)
    assert round_sizes(100, 1, opening=()) == (100,)


@given(st.integers(1, 5000), st.integers(1, 40))
def test_rounds_add_up_and_none_is_empty(n_battles, looks):
    sizes = round_sizes(n_battles, looks, opening=())
    assert sum(sizes) == n_battles == sum(round_sizes(n_battles, looks))
    assert len(sizes) <= looks
    assert sizes[0] >= min(n_battles, max(FIRST_ROUND, n_battles / looks))
    assert min(sizes) >= 1
    assert max(sizes[1:], default=0) - min(sizes[1:], default=0) <= 1


@given(st.integers(1, 5000), st.integers(1, 40))
def test_opening_the_first_round_adds_no_look_at_which_a_run_may_stop(n_battles, looks):
    plain, opened = round_sizes(n_battles, looks, opening=()), round_sizes(n_battles, looks)
    assert stopping_looks(opened) == stopping_looks(plain)
    assert set(np.cumsum(plain)) <= set(np.cumsum(opened))


def test_only_looks_from_sixty_battles_on_are_counted():
    assert stopping_looks((20, 20, 20, 20, 20)) == 3
    assert stopping_looks((10, 10, 10)) == 1
    assert stopping_looks((59, 1)) == 1


@pytest.mark.parametrize(("n_battles", "looks"), [(0, 5), (100, 0), (-1, 1)])
def test_nothing_to_plan_is_refused(n_battles, looks):
    with pytest.raises(OptionError, match="cannot be planned"):
        round_sizes(n_battles, looks)


# Pocock's constant


@pytest.mark.parametrize(
    ("looks", "constant"), [(1, 1.960), (2, 2.178), (3, 2.289), (4, 2.361), (5, 2.413), (10, 2.555), (20, 2.672)]
)
def test_the_constants_are_those_of_the_tables(looks, constant):
    assert critical(0.95, looks) == pytest.approx(constant, abs=5e-4)


@pytest.mark.parametrize(("level", "constant"), [(0.90, 2.122), (0.99, 2.986)])
def test_other_levels_have_their_own_constants(level, constant):
    assert critical(level, 5) == pytest.approx(constant, abs=5e-4)


def test_two_looks_agree_with_a_plain_double_integral():
    cut = 2.1
    root = cut * math.sqrt(2.0)

    def stays(first):
        return norm.pdf(first) * (norm.cdf(root - first) - norm.cdf(-root - first))

    assert chance_to_stay_inside(cut, 2) == pytest.approx(quad(stays, -cut, cut)[0], abs=1e-10)


def test_twelve_looks_agree_with_random_walks():
    walks = np.cumsum(np.random.default_rng(1).normal(size=(200_000, 12)), axis=1) / np.sqrt(np.arange(1, 13))
    inside = (np.abs(walks).max(axis=1) < critical(0.9, 12)).mean()
    assert inside == pytest.approx(0.9, abs=3 * math.sqrt(0.09 / 200_000))


@settings(max_examples=size(12, soak=100))
@given(st.floats(0.5, 0.999), st.integers(1, 12))
def test_more_looks_cost_more_but_never_as_much_as_bonferroni(level, looks):
    assert critical(level, looks) < critical(level, looks + 1)
    assert critical(level, looks) <= norm.ppf(1.0 - 0.5 * (1.0 - level) / looks) + 1e-8


def test_the_level_of_each_look_gives_the_same_constant_back():
    assert level_at_each_look(0.95, 1) == pytest.approx(0.95, abs=1e-9)
    assert norm.ppf(0.5 + 0.5 * level_at_each_look(0.95, 5)) == pytest.approx(critical(0.95, 5), abs=1e-8)


@pytest.mark.parametrize(("level", "looks"), [(0.95, 0), (0.0, 5), (1.0, 5), (math.nan, 5)])
def test_a_plan_without_looks_or_level_has_no_constant(level, looks):
    with pytest.raises(OptionError, match="no critical value"):
        critical(level, looks)


# Does a run that stopped early still tell the truth?

FEW, MANY = size(60, soak=100), 1000
"""Runs per world in every test run, and in a soak."""

OWN = partial(simulation.own_question_each, 40, 16_000)
SHARED = partial(simulation.shared_questions, 40, 60)
EQUAL_OWN = partial(simulation.own_question_each, 21, 12_600)
EQUAL_SHARED = partial(simulation.shared_questions, 21, 100)

TAU = Doubt(idiosyncrasy=40.0 / POINTS)
CLUSTERED = Doubt(alike=0.5)
ALL = Doubt(alike=0.5, idiosyncrasy=40.0 / POINTS, anchor_sd=15.0 / POINTS)


def said(what, stopped):
    sys.stdout.write(f"\n  {what}: {stopped}")
    return stopped


def assert_covers(coverage, low=0.94, high=1.0):
    """The true coverage may lie between low and high, given three standard errors of simulation."""
    assert coverage.share + 3 * coverage.error >= low, str(coverage)
    assert coverage.share - 3 * coverage.error <= high, str(coverage)


@pytest.mark.parametrize("position", ["top", pytest.param("middle", marks=pytest.mark.soak)])
def test_stopping_on_width_costs_no_coverage(position):
    rule = Rule(Until.parse("120"))
    make_field = partial(simulation.simulated_field, position)
    stopped = said(position, simulation.simulate_stopping(FEW, 1, rule=rule, make_field=make_field, cells=OWN()))
    assert stopped.early > 0.5
    assert_covers(stopped.rating)


@pytest.mark.parametrize(("doubt", "limit"), [(CLUSTERED, "140"), (ALL, "240")])
def test_stopping_on_width_covers_with_shared_questions_and_a_judge_with_likes(doubt, limit):
    rule = Rule(Until.parse(limit))
    make_field = partial(simulation.simulated_field, "middle")
    stopped = simulation.simulate_stopping(FEW, 2, rule=rule, make_field=make_field, cells=SHARED(), doubt=doubt)
    said(f"shared questions, {limit}", stopped)
    assert stopped.early > 0.5
    assert_covers(stopped.rating)


@pytest.mark.soak  # what the rule is for, not what it does
def test_telling_equals_apart_at_many_looks_happens_too_often_with_the_plain_interval():
    rule = Rule(Until.parse("rank:1"), battles=300, looks=5, pocock=False)
    stopped = simulation.simulate_stopping(
        2 * FEW, 3, rule=rule, make_field=simulation.field_with_an_equal, cells=EQUAL_OWN()
    )
    said("plain 1.96, five looks", stopped)
    # Five looks at 1.96 hold together with chance 0.858.
    assert_covers(stopped.rating, low=0.85, high=0.88)


def test_telling_equals_apart_is_as_rare_as_promised_with_pococks_constant():
    rule = Rule(Until.parse("rank:1"), battles=300, looks=5)
    stopped = simulation.simulate_stopping(
        size(FEW, soak=2 * FEW), 3, rule=rule, make_field=simulation.field_with_an_equal, cells=EQUAL_OWN()
    )
    said("Pocock, five looks", stopped)
    assert_covers(stopped.rating, low=0.945, high=0.975)
    assert_covers(stopped.rank, low=0.945)


@pytest.mark.soak
@pytest.mark.parametrize("position", simulation.POSITIONS)
@pytest.mark.parametrize(
    ("name", "cells", "doubt", "limit"),
    [
        ("own questions", OWN, Doubt(), "120"),
        ("shared questions", SHARED, CLUSTERED, "140"),
        ("likes of 40 points", OWN, TAU, "230"),
        ("likes of 77 points", OWN, Doubt(idiosyncrasy=77.0 / POINTS), "350"),
        ("everything", SHARED, ALL, "240"),
    ],
)
def test_soak_stopping_on_width(name, cells, doubt, limit, position):
    make_field = partial(simulation.simulated_field, position)
    rule = Rule(Until.parse(limit), battles=400)
    stopped = simulation.simulate_stopping(MANY, 4, rule=rule, make_field=make_field, cells=cells(), doubt=doubt)
    said(f"{name}, {position}, {limit}", stopped)
    assert_covers(stopped.rating)


@pytest.mark.soak
@pytest.mark.parametrize("pocock", [False, True])
@pytest.mark.parametrize(
    ("name", "cells", "doubt", "until"),
    [
        ("own questions", EQUAL_OWN, Doubt(), "rank:1"),
        ("shared questions", EQUAL_SHARED, CLUSTERED, "rank:1"),
        ("likes of 20 points", EQUAL_OWN, Doubt(idiosyncrasy=20.0 / POINTS), "rank:1"),
        ("likes of 40 points", EQUAL_OWN, TAU, "rank:2"),
        ("everything", EQUAL_SHARED, ALL, "rank:2"),
    ],
)
def test_soak_stopping_on_ranks_next_to_an_equal(name, cells, doubt, until, pocock):
    rule = Rule(Until.parse(until), battles=600, pocock=pocock)
    make_field = simulation.field_with_an_equal
    stopped = simulation.simulate_stopping(MANY, 5, rule=rule, make_field=make_field, cells=cells(), doubt=doubt)
    said(f"{name}, {until}, {'Pocock' if pocock else 'plain'}", stopped)
    assert_covers(stopped.rating, low=0.945 if pocock else 0.78)
