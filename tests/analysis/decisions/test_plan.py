"""How many prompts, verdicts or votes: closed forms, all results counted out, and simulated power."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analysis.decisions.planned_worlds import PlannedWorld, measured_power
from tests.records import replace
from tests.sizes import size

import tiltyard as ty
from oracles.simulation import table_of
from oracles.worlds import World
from tiltyard.analysis.boards import BradleyTerry
from tiltyard.analysis.decisions import Assumptions, CallPrice, Goal, plan_difference, plan_from_battles, plan_top
from tiltyard.analysis.decisions.contrast import contrast
from tiltyard.errors import OptionError
from tiltyard.stats import POINTS_PER_LOGIT

DECISIVE = Assumptions(ties=0.0, flips=0.0)


def points_of(win_rate: float) -> float:
    return POINTS_PER_LOGIT * math.log(win_rate / (1.0 - win_rate))


def allowed(promised: float, runs: int) -> float:
    """Three points, and three standard errors of a share over so many runs."""
    return 0.03 + 3.0 * math.sqrt(promised * (1.0 - promised) / runs)


# The textbook


@pytest.mark.parametrize(("win_rate", "prompts"), [(0.55, 618), (0.60, 155), (0.525, 2473)])
def test_one_sided_5_percent_and_power_80_percent_is_the_textbooks_number_of_decisive_prompts(win_rate, prompts):
    # n = ((1.645 + 0.842)/(2·0.05))² = 618 decisive prompts for a win rate 5 points above a half, 155 for 10 points;
    # 52.5 : 47.5, a net preference of 5 points, takes four times 618.
    plan = plan_difference(DECISIVE, goal=Goal(one_sided=True), differences=[points_of(win_rate)])
    assert plan.rows[0].needed.clusters["prompt"] == pytest.approx(prompts, rel=0.03)
    assert plan.rows[0].win_rate == pytest.approx(win_rate)


def test_with_one_verdict_per_prompt_only_decided_verdicts_count_whatever_the_spread():
    # Var ln(W/L) = 1/w + 1/l = 1/(0.7·p·(1 − p)) with 30 % ties and flips, at equality
    for spread in (0.0, 1.0, 2.0):
        assert Assumptions(spread=spread).variance(1e-6) == pytest.approx(4.0 / 0.7, rel=1e-4)
    p = 1.0 / (1.0 + math.exp(-100.0 / POINTS_PER_LOGIT))
    assert DECISIVE.variance(100.0) == pytest.approx(1.0 / (p * (1.0 - p)), rel=1e-6)


def test_repeats_leave_what_a_prompt_itself_adds():
    once, often = Assumptions(spread=1.0), Assumptions(spread=1.0, repeats=10_000)
    alike = Assumptions(spread=0.0, repeats=10)
    assert 0.2 * once.variance(20) < often.variance(20) < once.variance(20)
    assert alike.variance(20) == pytest.approx(Assumptions(spread=0.0).variance(20) / 10)


def test_a_field_of_models_without_prompt_effects_halves_as_the_complete_graph_says():
    # All pairs of m equal models: Var(θ_i − θ_j) = 2/(m·c) per prompt, c = (1 − ties)/4 the information of a battle
    for m in (2, 3, 6):
        assumed = Assumptions(ties=0.2, flips=0.0, spread=0.0, models=m)
        assert assumed.variance(1e-6) == pytest.approx(2.0 / (m * 0.2), rel=1e-5)


@settings(max_examples=size(6, soak=200))
@given(st.floats(0.0, 0.6), st.floats(0.0, 0.3), st.floats(0.0, 2.0), st.integers(1, 5), st.integers(2, 5))
def test_a_larger_difference_takes_no_more_and_more_power_takes_more(ties, flips, spread, repeats, models):
    assumed = Assumptions(ties=ties, flips=flips, spread=spread, repeats=repeats, models=models)
    found = plan_difference(assumed, differences=[10.0, 20.0, 40.0]).rows
    prompts = [row.needed.clusters["prompt"] for row in found]
    assert prompts[0] > prompts[1] > prompts[2]
    surer = plan_difference(assumed, differences=[10.0], goal=Goal(power=0.9)).rows[0]
    assert surer.needed.clusters["prompt"] > prompts[0]
    assert all(row.power >= 0.8 for row in found)
    assert found[0].needed.battles == prompts[0] * repeats * models * (models - 1) // 2
    assert found[0].needed.calls == 2 * found[0].needed.battles


def test_counting_out_all_results_follows_the_rule_that_compare_follows():
    n, points, goal, assumed = 9, 250.0, Goal(), Assumptions(flips=0.0, ties=0.2, spread=0.0)
    nu = 0.2 / 0.8 * 2.0
    shares = np.array([math.exp(0.5 * points / POINTS_PER_LOGIT), math.exp(-0.5 * points / POINTS_PER_LOGIT), nu])
    shares /= shares.sum()
    chance = 0.0
    for won in range(1, n + 1):
        for lost in range(1, n + 1 - won):
            tied = n - won - lost
            result = np.repeat([0, 1, 2], [won, lost, tied])
            table = table_of(2, np.zeros(n), np.ones(n), result, np.arange(n))
            low, _ = contrast(BradleyTerry(misfit=False).solve(table), "m00", "m01").ends(goal.level)
            ways = math.factorial(n) / (math.factorial(won) * math.factorial(lost) * math.factorial(tied))
            if low is not None and low > 0.0:
                chance += ways * float(np.prod(shares ** np.array([won, lost, tied])))
    unbeaten = (shares[0] + shares[2]) ** n
    assert chance <= assumed.exact_chance(goal, points, n) <= chance + unbeaten


@pytest.mark.parametrize("points", [60.0, 90.0])
def test_counted_out_and_reckoned_by_the_noncentral_t_are_one(points):
    growth = Assumptions().growth()
    for prompts in (150, 230):
        smooth = Goal().chance(points, Assumptions().variance(points) / prompts, prompts - 1.0)
        assert growth.chance(Goal(), points, float(prompts)) == pytest.approx(smooth, abs=0.015)


# Promises, by simulation

WORLDS = {
    "plain": (PlannedWorld(100.0, spread=0.0), Goal()),
    "flips": (PlannedWorld(120.0, flips=0.25), Goal()),
    "few prompts": (PlannedWorld(220.0, spread=0.5), Goal()),
    "repeats": (PlannedWorld(120.0, spread=1.5, flips=0.1, repeats=4), Goal()),
    "field": (PlannedWorld(100.0, spread=1.0, models=4), Goal()),
    "field with flips and repeats": (PlannedWorld(80.0, spread=0.7, flips=0.2, repeats=2, models=3), Goal(power=0.9)),
    "margin": (PlannedWorld(0.0, flips=0.2), Goal(margin=90.0)),
    "margin, repeats": (PlannedWorld(0.0, spread=1.2, repeats=3), Goal(margin=90.0, alpha=0.1)),
    "one-sided": (PlannedWorld(100.0), Goal(one_sided=True)),
    "any time": (PlannedWorld(150.0), Goal(anytime=True)),
}
QUICK = {"flips": 60, "field": 30, "margin": 60}
CASES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.soak) for name in WORLDS]


@pytest.mark.parametrize("name", CASES)
def test_a_plan_from_nothing_keeps_its_promise(name):
    world, goal = WORLDS[name]
    assumed = Assumptions(world.tie_rate, world.flips, world.spread, world.repeats, world.models)
    row = plan_difference(assumed, goal=goal, differences=[world.points]).rows[0]
    runs = size(QUICK.get(name, 2500), soak=2500)
    power = measured_power(world, goal, row.needed.clusters["prompt"], runs, seed=len(name))
    assert power == pytest.approx(row.power, abs=allowed(row.power, runs)), (name, row.needed)
    assert row.power == pytest.approx(goal.power, abs=0.06)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_a_plan_from_a_pilot_keeps_its_promise(seed):
    rng = np.random.default_rng(seed)
    points, spread, flips = rng.uniform((60, 0.0, 0.0), (160, 1.5, 0.3)).tolist()
    world = PlannedWorld(points, spread, flips, int(rng.integers(1, 4)), int(rng.integers(2, 5)))
    pilot = world.draw(2500, rng)
    row = plan_from_battles(pilot, "m00", "m01", differences=[world.points]).rows[0]
    power = measured_power(world, Goal(), row.needed.clusters["prompt"], 2500, seed)
    assert power == pytest.approx(row.power, abs=allowed(row.power, 2500)), world


@pytest.mark.soak
@pytest.mark.parametrize("power", [0.6, 0.8, 0.9])
def test_the_top_of_a_board_separates_as_often_as_promised(power):
    world = World("field", models=5, battles=120_000, prompts=6000, interaction=0.8, strength_range=1.2)
    truth = [f"m{code:02d}" for code in np.argsort(-world.truth())]
    plan = plan_top(world.draw(np.random.default_rng(1)), 2, goal=Goal(power=power))
    assert plan.need.times is not None
    later = replace(world, battles=round(120_000 * plan.need.times), prompts=round(6000 * plan.need.times))
    held = []
    for child in np.random.SeedSequence(2).spawn(800):
        board = BradleyTerry(misfit=False).fit(later.draw(np.random.default_rng(child)))
        held.append(
            all((board[name].rank_low, board[name].rank_high) == (i + 1, i + 1) for i, name in enumerate(truth[:2]))
        )
    assert np.mean(held) == pytest.approx(power, abs=allowed(power, 800))


# From battles


def rows_of(seed: int, prompts: int, *, source: str = "llm-judge", gap: float = 0.2) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for prompt in range(prompts):
        here = gap + rng.normal(0.0, 1.0)
        for _ in range(2):
            won = rng.random() < 1.0 / (1.0 + math.exp(-here))
            winner = "tie" if rng.random() < 0.2 else "model_a" if won else "model_b"
            rows.append(
                {"model_a": "v2", "model_b": "v1", "winner": winner, "source": source, "question_id": f"q{prompt}"}
            )
    return rows


def test_a_pilot_says_what_assumptions_that_are_true_say():
    world = PlannedWorld(30.0, spread=1.0, flips=0.2, repeats=3)
    pilot = plan_from_battles(world.draw(3000, np.random.default_rng(5)), "m00", "m01", differences=[30.0, 60.0])
    assumed = plan_difference(Assumptions(world.tie_rate, 0.2, 1.0, 3), differences=[30.0, 60.0])
    for one, other in zip(pilot.rows, assumed.rows, strict=True):
        assert one.needed.clusters["prompt"] == pytest.approx(other.needed.clusters["prompt"], rel=0.12)


def test_what_there_is_counts_and_twice_as_much_leaves_less_to_gather():
    rows = rows_of(1, 60)
    plan = plan_from_battles(rows, "v2", "v1", differences=[40.0])
    row = plan.rows[0]
    assert plan.pilot is not None
    assert (plan.pilot.have.clusters, plan.pilot.have.battles, plan.pilot.have.calls) == ({"prompt": 60}, 120, 240)
    assert row.more.clusters["prompt"] == row.needed.clusters["prompt"] - 60
    assert row.needed.clusters["prompt"] == math.ceil(60 * row.times)
    assert row.needed.votes is None
    again = [{**one, "question_id": f"r{one['question_id']}"} for one in rows]
    both = plan_from_battles([*rows, *again], "v2", "v1", differences=[40.0]).rows[0]
    assert both.times == pytest.approx(row.times / 2, rel=0.03)
    assert both.power_now is not None
    assert row.power_now is not None
    assert both.power_now > row.power_now


def test_the_present_difference_comes_first_and_the_names_may_change_places():
    forward, backward = (plan_from_battles(rows_of(2, 80), *names) for names in (("v2", "v1"), ("v1", "v2")))
    assert [row.present for row in forward.rows] == [True, False, False, False, False]
    assert forward.pilot is not None
    assert backward.pilot is not None
    assert forward.pilot.difference == pytest.approx(-backward.pilot.difference)
    assert [row.times for row in forward.rows] == pytest.approx([row.times for row in backward.rows], rel=1e-6)
    assert forward.sentence.startswith("v2 against v1 is +")


def test_the_margin_agrees_with_what_the_gate_says_it_needs():
    rows = rows_of(3, 400, gap=0.0)
    plan = plan_from_battles(rows, "v2", "v1", goal=Goal(margin=30.0))
    said = ty.compare("v2", "v1", battles=rows).gate(margin=30.0).to_dict()["needed_prompts"]
    assert [row.difference for row in plan.rows] == [0.0]
    assert plan.rows[0].needed.clusters["prompt"] == pytest.approx(said, rel=0.03)


def test_votes_of_people_are_votes_and_their_voters_grow_too():
    rows = [{**row, "voter": f"w{i % 37}"} for i, row in enumerate(rows_of(4, 90, source="human"))]
    row = plan_from_battles(rows, "v2", "v1", differences=[50.0]).rows[0]
    assert row.needed.calls is None
    assert row.needed.votes == math.ceil(180 * row.times)
    assert set(row.needed.clusters) == {"prompt", "voter"}
    alone = plan_from_battles(rows, "v2", "v1", differences=[50.0], cluster="voter").rows[0]
    assert set(alone.needed.clusters) == {"voter"}


def test_votes_that_are_not_rated_have_to_be_cast_too():
    rows = rows_of(5, 60, source="human")
    bad = [{**row, "winner": "tie (bothbad)"} for row in rows[:30]]
    plain, more = (plan_from_battles(data, "v2", "v1", differences=[50.0]).pilot for data in (rows, rows + bad))
    assert plain is not None
    assert more is not None
    assert (plain.have.votes, more.have.votes) == (120, 150)
    dropped = plan_from_battles(rows + bad, "v2", "v1", differences=[50.0], ties="drop", both_bad="drop").pilot
    assert dropped is not None
    assert dropped.have.votes == 150


def test_money_is_calls_times_the_price_and_unknown_stays_unknown():
    price = CallPrice("judge", 0.002, 0.001, "2026-01-01", 1000.0, 100.0)
    row = plan_difference(price=price, differences=[50.0]).rows[0]
    assert row.more.calls is not None
    assert row.cost == pytest.approx(0.002 * row.more.calls)
    assert row.cost_batch == pytest.approx(0.001 * row.more.calls)
    dark = plan_difference(price=CallPrice("new-judge", None, None, None, 1000.0, 100.0), differences=[50.0])
    assert dark.rows[0].cost is None
    assert "unknown" in str(dark)
    assert "the price of new-judge is not known" in str(dark)


def test_the_smallest_difference_that_a_size_shows_takes_that_size():
    plan = plan_difference(sizes=[400])
    points = plan.smallest[400]
    assert points is not None
    assert plan_difference(differences=[points]).rows[0].needed.clusters["prompt"] == pytest.approx(400, abs=2)
    assert f"400 prompts show a difference of +{points:.0f} points" in str(plan)


def test_sizes_that_show_nothing_and_models_that_are_behind_are_said_in_words():
    goal = Goal(margin=30.0, anytime=True)
    text = str(plan_difference(goal=goal, differences=[-10.0], sizes=[50]))
    assert text.startswith("a model 10 points behind passes a margin of 30 points")
    assert "50 prompts are too few to show any difference" in text


def test_no_fewer_than_thirty_prompts_are_planned_and_the_chance_is_said():
    row = plan_difference(differences=[500.0]).rows[0]
    assert row.needed.clusters["prompt"] == 30
    assert row.power > 0.97
    assert "fewer than 30" in str(plan_difference(differences=[500.0]))


def test_a_small_pilot_says_how_little_it_knows():
    text = str(plan_from_battles(rows_of(6, 20), "v2", "v1"))
    assert "known from battles worth 20 prompts" in text
    assert "worth" not in str(plan_from_battles(rows_of(6, 400), "v2", "v1"))


# A whole board


def field(seed: int, strengths: dict[str, float], prompts: int = 120) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    names = sorted(strengths)
    rows = []
    for prompt in range(prompts):
        here = {name: strengths[name] + rng.normal(0.0, 0.5) for name in names}
        for a in names:
            for b in names:
                if a < b:
                    won = rng.random() < 1.0 / (1.0 + math.exp(here[b] - here[a]))
                    winner = "model_a" if won else "model_b"
                    rows.append(
                        {"model_a": a, "model_b": b, "winner": winner, "source": "human", "question_id": str(prompt)}
                    )
    return rows


def test_a_board_whose_top_is_apart_says_so_and_asks_for_nothing():
    plan = plan_top(field(1, {"a": 2.5, "b": 1.2, "c": 0.0, "d": -1.0}), 2)
    assert plan.need.times is not None
    assert plan.need.times <= 1.0
    assert plan.need.more is not None
    assert plan.need.more.votes == 0
    assert all(pair.apart_now for pair in plan.pairs)
    assert "are apart from the others already" in plan.sentence


def test_equals_at_the_top_are_said_to_be_too_close():
    rows = field(2, {"a": 1.0, "b": 1.0, "c": -1.0})
    # Every battle once more with a and b exchanged: no difference is left between the two.
    swap = {"a": "b", "b": "a", "c": "c"}
    rows += [{**row, "model_a": swap[row["model_a"]], "model_b": swap[row["model_b"]]} for row in rows]
    plan = plan_top(rows, 1)
    assert plan.need.times is None
    assert plan.pairs[0].too_close
    assert "no sensible number of battles tells them apart" in plan.sentence
    assert "too close" in str(plan)
    assert json.loads(plan.to_json())["pairs"][0]["too_close"] is True


def test_all_pairs_at_once_take_at_least_as_much_as_the_closest():
    plan = plan_top(field(3, {"a": 0.6, "b": 0.4, "c": 0.2, "d": 0.0}), 3)
    assert plan.need.times is not None
    assert plan.need.times >= max(pair.times or 0.0 for pair in plan.pairs) * 0.97
    assert [pair.first for pair in plan.pairs] == ["a", "b", "c"]
    assert plan.pairs[-1].second == "d"
    later = plan_top(field(3, {"a": 0.6, "b": 0.4, "c": 0.2, "d": 0.0}), 3, goal=Goal(anytime=True))
    assert later.need.times is not None
    assert later.need.times > plan.need.times


def test_a_board_plan_is_the_same_every_time():
    rows = field(4, {"a": 0.6, "b": 0.4, "c": 0.0})
    assert plan_top(rows, 2).to_json() == plan_top(rows, 2).to_json()


# What is refused


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Goal(alpha=0.0), "alpha"),
        (lambda: Goal(power=1.0), "power"),
        (lambda: Goal(margin=30.0, one_sided=True), "one-sided already"),
        (lambda: Assumptions(ties=0.6, flips=0.5), "nothing decided"),
        (lambda: Assumptions(repeats=0), "repeats"),
        (lambda: Assumptions(models=1), "models"),
        (lambda: Assumptions(spread=math.nan), "spread"),
        (lambda: plan_difference(differences=[]), "at least one"),
        (lambda: plan_difference(differences=[0.0]), "no sample shows"),
        (lambda: plan_difference(differences=[-5.0]), "no sample shows"),
        (lambda: plan_difference(goal=Goal(margin=30.0), differences=[-30.0]), "minus the margin of 30"),
        (lambda: plan_difference(Assumptions(flips=0.1), people=True), "flips"),
        (lambda: plan_difference(sizes=[0]), "size"),
        (lambda: plan_from_battles(rows_of(1, 40), "v2", "v2"), "compared with itself"),
        (lambda: plan_from_battles(rows_of(1, 40), "v3", "v1"), "v3"),
        (lambda: plan_from_battles(rows_of(1, 2), "v2", "v1"), "plan from assumptions"),
        (lambda: plan_from_battles([{**row, "winner": "model_a"} for row in rows_of(1, 9)], "v2", "v1"), "won or lost"),
        (lambda: plan_top(field(1, {"a": 1.0, "b": 0.0}), 2), "top"),
        (lambda: plan_top(field(1, {"a": 1.0, "b": 0.0}), 1, goal=Goal(margin=10.0)), "no margin"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_is_refused_in_a_sentence(make, says):
    with pytest.raises(OptionError, match=says):
        make()
