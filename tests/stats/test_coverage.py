"""Do nominal 95 % intervals hold the truth 95 % of the time? Counted in worlds whose truth is known.

Every assertion allows for Monte-Carlo error: three standard errors of the measured share, where one standard error is
at most √(p(1 − p)/n) = 0.22/√n at p = 0.95 (0.064 for 12 runs; smaller where a run has several models). `pytest -s`
prints the figures; `make soak` measures them with more runs and in more worlds.
"""

from __future__ import annotations

import sys

import pytest

from oracles import simulation
from tests.sizes import size

FEW, MANY = size(12, soak=300), 2000
"""Runs per world in a test that every run has, and in the tests of a soak."""

MORE = size(30, soak=900)
"""Runs per world where two rules are compared."""

BOOTSTRAPPED = size(8, soak=100)
"""Runs per world where a run is itself a few hundred fits."""


def said(what, coverage):
    sys.stdout.write(f"\n  {what}: {coverage}")
    return coverage


def assert_between(coverage, low, high):
    """The true coverage may lie between low and high, given three standard errors of simulation."""
    assert coverage.share + 3 * coverage.error >= low, str(coverage)
    assert coverage.share - 3 * coverage.error <= high, str(coverage)


# Row by row: battles that stand alone


def test_the_row_wise_sandwich_covers_in_an_arena():
    coverage = said("arena of 10, 300 battles", simulation.simulate_arena(FEW, 1, battles=300))
    assert_between(coverage, 0.945, 0.965)


def test_rao_kupper_fits_of_rao_kupper_battles_cover():
    coverage = said("Rao–Kupper, 300 battles", simulation.simulate_rao_kupper(FEW, 2, battles=300))
    assert_between(coverage, 0.945, 0.965)


def test_the_bootstrap_over_battles_covers():
    coverage = said("bootstrap over battles", simulation.simulate_arena(BOOTSTRAPPED, 3, ci="bootstrap", rounds=200))
    assert_between(coverage, 0.93, 0.955)


@pytest.mark.parametrize("battles", [2, 30])
def test_a_newcomer_with_few_battles_is_covered(battles):
    # Below 20 battles the wider of sandwich and Fisher makes the interval err on the wide side.
    coverage = said(f"newcomer with {battles} battles", simulation.simulate_rare_model(FEW, 4, battles=battles))
    assert_between(coverage, 0.95, 1.0 if battles < 20 else 0.965)


def test_a_newcomer_with_few_battles_is_covered_by_the_bootstrap_too():
    options = {"ci": "bootstrap", "rounds": 100}
    coverage = said("newcomer, bootstrap", simulation.simulate_rare_model(size(6, soak=60), 5, battles=5, **options))
    assert_between(coverage, 0.95, 1.0)


def test_models_held_by_the_half_win_prior_are_covered():
    coverage = said("unbeaten or winless newcomer", simulation.simulate_unbounded(size(80, soak=900), 6, battles=4))
    assert coverage.runs >= 10
    assert_between(coverage, 0.95, 1.0)


def test_ratings_and_coefficients_are_covered_where_style_and_slot_matter():
    ratings, coefficients = simulation.simulate_style(FEW, 7)
    assert_between(said("ratings beside slot and length", ratings), 0.94, 0.96)
    assert_between(said("slot and length coefficients", coefficients), 0.94, 0.96)


# By prompt: verdicts on one prompt depend on each other


@pytest.mark.parametrize(("entrants", "prompts"), [(4, 13), (12, 40)])
def test_the_sandwich_by_prompt_covers_in_a_judged_tournament(entrants, prompts):
    world = {"entrants": entrants, "prompts": prompts}
    single, ranks = simulation.simulate_tournament(FEW, 8, **world)
    # Below 20 prompts the wider of sandwich and Fisher counts, which for few entrants is a little too wide.
    assert_between(said(f"{entrants} entrants, {prompts} prompts", single), 0.94, 0.975 if prompts < 20 else 0.96)
    assert_between(said("… all true ranks at once", ranks), 0.95, 1.0)


@pytest.mark.parametrize(("entrants", "at_most"), [pytest.param(4, 0.95, marks=pytest.mark.soak), (12, 0.8)])
def test_the_same_verdicts_taken_row_by_row_are_covered_too_seldom(entrants, at_most):
    # The reason for clustering by default. Strong prompt effects: each entrant's strength varies by 2 logits.
    world = {"entrants": entrants, "prompts": 60, "spread": 2.0}
    by_row, _ = simulation.simulate_tournament(MORE, 9, cluster="none", **world)
    by_prompt, _ = simulation.simulate_tournament(MORE, 9, **world)
    assert said(f"{entrants} entrants row by row", by_row).share + 3 * by_row.error < at_most
    assert_between(said("… by prompt", by_prompt), 0.94, 0.96)


@pytest.mark.parametrize("entrants", [pytest.param(4, marks=pytest.mark.soak), 12])
def test_the_bootstrap_over_prompts_covers(entrants):
    single, ranks = simulation.simulate_tournament(
        BOOTSTRAPPED, 10, entrants=entrants, prompts=40, ci="bootstrap", rounds=200
    )
    assert_between(said(f"bootstrap over 40 prompts, {entrants} entrants", single), 0.925, 0.955)
    assert_between(said("… all true ranks at once", ranks), 0.95, 1.0)


def test_rao_kupper_fits_by_prompt_cover_what_rao_kupper_fits_tend_to():
    single, _ = simulation.simulate_tournament(FEW, 11, entrants=8, prompts=40, ties="rao-kupper")
    assert_between(said("Rao–Kupper by prompt", single), 0.935, 0.96)


@pytest.mark.parametrize("entrants", [pytest.param(4, marks=pytest.mark.soak), 12])
def test_equal_entrants_get_a_false_order_in_one_run_of_twenty(entrants):
    # Without the correction for many pairs the share of runs without one falls to 0.81 and to 0.18.
    _, ranks = simulation.simulate_tournament(size(14, soak=600), 12, entrants=entrants, prompts=60, equal=True)
    assert_between(said(f"{entrants} equal entrants, all ranks at once", ranks), 0.94, 0.965)


def test_equal_entrants_taken_row_by_row_get_a_false_order_in_most_runs():
    _, ranks = simulation.simulate_tournament(
        size(60, soak=600), 13, entrants=12, prompts=60, equal=True, spread=2.0, cluster="none"
    )
    assert said("12 equal entrants row by row", ranks).share + 3 * ranks.error < 0.4


def test_the_slots_advantage_is_covered_by_prompt():
    coverage = said("first slot, 13 prompts", simulation.simulate_slot_by_prompt(FEW, 16))
    assert_between(coverage, 0.94, 0.965)


# By voter: votes of one person depend on each other


def test_votes_of_zealous_voters_are_covered_when_clustered_by_voter_and_not_row_by_row():
    by_voter = said("60 voters, by voter", simulation.simulate_voters(size(40, soak=900), 14))
    by_row = said("60 voters, row by row", simulation.simulate_voters(size(40, soak=900), 14, cluster="none"))
    assert_between(by_voter, 0.93, 0.96)
    assert by_row.share + 3 * by_row.error < 0.9


# Permutation Elo


def test_the_shuffle_error_of_permutation_elo_is_no_interval_and_the_sampling_interval_is():
    sem, sampling = simulation.simulate_permutation_elo(BOOTSTRAPPED, 15)
    assert said("mean ± 1.96 SEM", sem).share + 3 * sem.error < 0.3
    assert_between(said("sampling interval", sampling), 0.915, 0.965)


# The same with more runs


@pytest.mark.soak
@pytest.mark.parametrize("ties", ["davidson", "rao-kupper"])
@pytest.mark.parametrize("battles", [200, 300, 1000, 5000])
def test_soak_arena(ties, battles):
    world = simulation.simulate_arena if ties == "davidson" else simulation.simulate_rao_kupper
    assert_between(said(f"arena, {ties}, {battles} battles", world(MANY, 21, battles=battles)), 0.945, 0.965)


@pytest.mark.soak
@pytest.mark.parametrize("battles", [2, 5, 10, 15, 25, 50])
@pytest.mark.parametrize("strength", [-1.5, 0.0, 1.5])
def test_soak_newcomers(battles, strength):
    coverage = simulation.simulate_rare_model(MANY, 22, battles=battles, strength=strength)
    assert_between(said(f"newcomer at {strength:+g}, {battles} battles", coverage), 0.94, 1.0)


@pytest.mark.soak
@pytest.mark.parametrize("battles", [1, 2, 4, 8])
def test_soak_unbounded(battles):
    coverage = simulation.simulate_unbounded(3 * MANY, 23, battles=battles)
    assert_between(said(f"unbeaten or winless after {battles} battles", coverage), 0.95, 1.0)


@pytest.mark.soak
@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("entrants", [4, 8, 12])
@pytest.mark.parametrize("prompts", [13, 19, 20, 25, 40, 80, 143])
def test_soak_tournaments(entrants, prompts, spread):
    world = {"entrants": entrants, "prompts": prompts, "spread": spread}
    single, ranks = simulation.simulate_tournament(MANY, 24, **world)
    assert_between(said(f"{world}", single), 0.94, 0.985 if prompts < 20 else 0.965)
    assert_between(said("… all true ranks at once", ranks), 0.95, 1.0)
    _, equal = simulation.simulate_tournament(MANY, 25, equal=True, **world)
    # Eight and more equal entrants on 13 to 40 prompts: 0.93 to 0.94 were measured, a little under nominal.
    least = 0.925 if entrants >= 8 and prompts <= 40 else 0.94
    assert_between(said("… all equal, all ranks at once", equal), least, 1.0 if prompts < 20 else 0.975)


@pytest.mark.soak
@pytest.mark.parametrize(("entrants", "prompts"), [(4, 40), (12, 40), (12, 143)])
def test_soak_bootstrap_over_prompts(entrants, prompts):
    options = {"entrants": entrants, "prompts": prompts, "ci": "bootstrap", "rounds": 1000}
    single, _ = simulation.simulate_tournament(500, 26, **options)
    assert_between(said(f"{options}", single), 0.93, 0.955)
    _, equal = simulation.simulate_tournament(500, 27, equal=True, **options)
    assert_between(said("… all equal, all ranks at once", equal), 0.92, 0.975)


@pytest.mark.soak
@pytest.mark.parametrize("voters", [30, 60, 200])
def test_soak_voters(voters):
    coverage = simulation.simulate_voters(1000, 28, voters=voters)
    assert_between(said(f"{voters} voters", coverage), 0.93, 0.96)


@pytest.mark.soak
@pytest.mark.parametrize(("entrants", "prompts"), [(4, 20), (4, 60), (12, 30)])
def test_soak_permutation_elo(entrants, prompts):
    sem, sampling = simulation.simulate_permutation_elo(400, 29, entrants=entrants, prompts=prompts, n_perms=500)
    said(f"{entrants} entrants, {prompts} prompts, ± SEM", sem)
    assert sem.share < 0.3
    assert_between(said("… sampling interval", sampling), 0.92, 0.96)
