"""What every matchup obeys, whichever lane chose it."""

from __future__ import annotations

from collections import Counter, deque
from copy import deepcopy
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arena.matchmaking_arenas import Yard, assert_probabilities_are_frequencies, triple
from tests.sizes import size
from tiltyard.arena import Policy
from tiltyard.arena import events as e
from tiltyard.arena.matchmaking import SeenMatchups
from tiltyard.arena.matchmaking.choosing import REPEATS, Matchmaker
from tiltyard.arena.rules.policy import LaneWeights
from tiltyard.errors import ArenaError


def test_the_same_state_past_and_seed_give_the_same_matchup() -> None:
    yard = Yard(9, 5)
    yard.everybody_meets(2)
    for seed in range(40):
        assert yard.next(seed, {(0, 1, 2): 7}) == yard.next(seed, {(0, 1, 2): 7})


def test_choosing_changes_nothing_in_the_state() -> None:
    yard = Yard(6, 4)
    yard.everybody_meets(1)
    schedule, tallies = yard.state.schedule, yard.state.tallies
    before = (
        schedule.in_window.tolist(),
        deepcopy(schedule.in_flight_by_prompt),
        tallies.wins.view.copy(),
        len(schedule.window),
    )
    yard.many(60)
    assert schedule.in_window.tolist() == before[0]
    assert schedule.in_flight_by_prompt == before[1]
    assert (tallies.wins.view == before[2]).all()
    assert len(schedule.window) == before[3]


@pytest.mark.parametrize("phase", [1, 2, 3, 4])
def test_two_models_and_one_prompt_are_an_arena(phase: int) -> None:
    yard = Yard(2, 1, phase=phase)
    seen: dict[tuple[int, int, int], int] = {}
    for number in range(30):
        matchup = yard.next(number, seen)
        assert triple(matchup) == (0, 1, 0)
        seen[0, 1, 0] = number
        yard.play(matchup.a, matchup.b, 0)


@pytest.mark.parametrize("phase", [1, 4])
def test_who_has_no_answer_to_a_prompt_is_not_served_on_it(phase: int) -> None:
    """Models 0 and 1 answered prompt 0, models 2 and 3 prompt 1: nobody else meets."""
    yard = Yard(0, 2, phase=phase)
    for number in range(4):
        yard.add_model(number, [number // 2])
    served = {triple(yard.next(seed)) for seed in range(60)}
    assert served == {(0, 1, 0), (2, 3, 1)}


@pytest.mark.parametrize("phase", [1, 4])
def test_without_a_pair_that_shares_a_prompt_there_is_nothing_to_serve(phase: int) -> None:
    yard = Yard(0, 2, phase=phase)
    yard.add_model(0, [0])
    yard.add_model(1, [1])
    with pytest.raises(ArenaError, match=r"nothing to serve: .* Import answers or enable some"):
        yard.next(0)
    yard.answer(1, 0)
    assert triple(yard.next(0)) == (0, 1, 0)
    yard.tell(e.ModelDisabled(model="m1"))
    with pytest.raises(ArenaError, match="nothing to serve"):
        yard.next(0)


@pytest.mark.parametrize("phase", [1, 4])
def test_a_voter_sees_everything_once_before_the_oldest_comes_again(phase: int) -> None:
    yard = Yard(4, 3, phase=phase)
    seen: dict[tuple[int, int, int], int] = {}
    order = []
    for number in range(18):
        matchup = yard.next(number, seen)
        assert triple(matchup) not in seen
        seen[triple(matchup)] = number
        order.append(triple(matchup))
        yard.play(matchup.a, matchup.b, matchup.prompt)
    assert len(set(order)) == 4 * 3 // 2 * 3
    again = yard.next(18, seen)
    assert triple(again) == order[0]
    assert "oldest again" in again.reason
    assert again.probability == 1.0
    assert again.lane == ("legacy" if phase == 1 else REPEATS)


def test_what_was_disabled_or_never_answered_is_not_served() -> None:
    yard = Yard(6, 4)
    yard.add_model(6, [1])
    yard.tell(e.ModelDisabled(model="m2"), e.PromptDisabled(prompt_id="p3"))
    for matchup in yard.many(100):
        assert 2 not in (matchup.a, matchup.b)
        assert matchup.prompt != 3
        assert 6 not in (matchup.a, matchup.b) or matchup.prompt == 1
    assert any(6 in (matchup.a, matchup.b) for matchup in yard.many(100))
    yard.tell(e.ModelEnabled(model="m2"), e.PromptEnabled(prompt_id="p3"))
    later = yard.many(120)
    assert any(2 in (matchup.a, matchup.b) for matchup in later)
    assert any(matchup.prompt == 3 for matchup in later)


def test_matchups_in_flight_are_not_served_a_second_time() -> None:
    yard = Yard(12, 6)
    out = []
    for seed in range(80):
        matchup = yard.next(seed)
        yard.serve(matchup.a, matchup.b, matchup.prompt, matchup.lane)
        out.append(triple(matchup))
    assert len(set(out)) == len(out)


def test_sides_are_a_fair_coin() -> None:
    yard = Yard(5, 3)
    yard.everybody_meets(1)
    as_a = sum(matchup.a < matchup.b for matchup in yard.many(400))
    assert abs(as_a - 200) <= 4 * (400**0.5) / 2


def test_lanes_are_drawn_by_their_weights_when_all_can_serve() -> None:
    yard = Yard(12, 5)
    yard.everybody_meets(8)
    lanes = Counter(matchup.lane for matchup in yard.many(600))
    for lane, weight in {"coverage": 0.4, "contender": 0.3, "uncertainty": 0.2, "exploration": 0.1}.items():
        assert abs(lanes[lane] - 600 * weight) <= 4 * (600 * weight * (1 - weight)) ** 0.5


def test_a_closed_contender_lane_hands_its_draws_to_coverage_and_says_so() -> None:
    yard = Yard(12, 5)
    yard.everybody_meets(2)
    served = yard.many(400)
    lanes = Counter(matchup.lane for matchup in served)
    assert lanes["contender"] == 0
    assert abs(lanes["coverage"] - 280) <= 4 * (400 * 0.7 * 0.3) ** 0.5
    instead = [matchup for matchup in served if matchup.reason.startswith("in place of contender: ")]
    assert {matchup.lane for matchup in instead} == {"coverage"}
    assert abs(len(instead) - 120) <= 4 * (400 * 0.3 * 0.7) ** 0.5


@pytest.mark.parametrize(
    ("rounds", "models", "phase"),
    [(0, 4, 4), (3, 5, 4), (8, 10, 4), (3, 5, 1)],
    ids=["cold", "closed", "open", "legacy"],
)
def test_probabilities_are_the_frequencies(rounds: int, models: int, phase: int) -> None:
    yard = Yard(models, 3, phase=phase)
    yard.everybody_meets(rounds)
    yard.serve(0, 1, 2)
    assert_probabilities_are_frequencies(yard.many(size(500, soak=1500)))


@pytest.mark.parametrize("phase", [1, 4])
def test_probabilities_allow_for_what_a_voter_has_seen(phase: int) -> None:
    yard = Yard(5, 2, phase=phase)
    yard.everybody_meets(16)
    pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    seen = {
        (i, j, p): number for number, (i, j) in enumerate(pairs) for p in range(2) if (i, j) not in ((0, 1), (2, 3))
    }
    seen[0, 1, 0] = 99
    served = yard.many(300, seen)
    assert {triple(matchup) for matchup in served} <= {(0, 1, 1), (2, 3, 0), (2, 3, 1)}
    assert_probabilities_are_frequencies(served)


def test_no_model_takes_more_than_a_quarter_of_the_traffic() -> None:
    yard = Yard(20, 4)
    for number in range(400):
        yard.play(number % 20, (number + 1 + number // 20 % 19) % 20, 0)
    yard.add_model(20, range(4))
    latest: deque[int] = deque(maxlen=40)
    total, draws = 0, size(120, soak=300)
    for seed in range(draws):
        matchup = yard.next(seed)
        yard.play(matchup.a, matchup.b, matchup.prompt)
        latest.append(20 in (matchup.a, matchup.b))
        total += latest[-1]
        assert sum(latest) <= 10
    assert total > draws / 8


def test_the_cap_gives_way_for_a_voter_who_has_seen_all_the_rest() -> None:
    yard = Yard(13, 1)
    for seed in range(60):
        matchup = yard.next(seed)
        yard.play(matchup.a, matchup.b, 0)
    for number in range(15):
        yard.play(0, 1 + number % 12, 0)
    assert all(0 not in (matchup.a, matchup.b) for matchup in yard.many(100))
    seen = {(i, j, 0): 0 for i in range(1, 13) for j in range(i + 1, 13)}
    assert all(0 in (matchup.a, matchup.b) for matchup in yard.many(40, seen))


def test_lanes_without_weight_are_not_drawn() -> None:
    weights = LaneWeights(coverage=0.0, contender=0.0, uncertainty=1.0, exploration=0.0)
    yard = Yard(5, 3, policy=Policy(lanes=weights))
    assert {matchup.lane for matchup in yard.many(50)} == {"uncertainty"}


@settings(max_examples=size(8, soak=100))
@given(
    models=st.integers(2, 9),
    prompts=st.integers(1, 7),
    seed=st.integers(0, 10_000),
    voters=st.integers(1, 6),
    missing=st.floats(0.0, 0.5),
)
def test_every_rule_holds_in_any_small_arena(models: int, prompts: int, seed: int, voters: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    yard = Yard(0, prompts, policy=Policy(contender_opens_at=10, window_matchups=50))
    answered = rng.random((models, prompts)) >= missing
    answered[:2, 0] = True
    for model in range(models):
        yard.add_model(model, np.flatnonzero(answered[model]).tolist())
    shared = answered.astype(int) @ answered.T
    seen: list[dict[tuple[int, int, int], int]] = [{} for _ in range(voters)]
    last: dict[tuple[int, int], deque[int]] = {}
    flying: list[str] = []
    for turn in range(80):
        past = seen[int(rng.integers(voters))]
        matchup = Matchmaker()(yard.state, np.random.default_rng([seed, turn]), SeenMatchups(past))
        i, j, prompt = triple(matchup)
        assert i != j
        assert answered[i, prompt]
        assert answered[j, prompt]
        assert 0.0 < matchup.probability <= 1.0 + 1e-9
        meetings = last.setdefault((i, j), deque(maxlen=10))
        meetings.append(prompt)
        assert meetings.count(prompt) <= max(2, ceil(10 / shared[i, j]))
        assert ((i, j, prompt) in past) == ("oldest again" in matchup.reason)
        past[i, j, prompt] = turn
        flying.append(yard.serve(matchup.a, matchup.b, prompt, matchup.lane))
        if len(flying) > 5:
            choice = list(e.Choice)[int(rng.integers(4))]
            yard.tell(e.Voted(matchup_id=flying.pop(int(rng.integers(6))), choice=choice))


# --- a pair that is given ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", [*e.LANES, "legacy"])
def test_a_pair_that_was_skipped_comes_on_every_other_prompt_before_there_is_none_left(lane: e.Lane) -> None:
    yard, seen = Yard(5, 6, phase=1 if lane == "legacy" else 4), SeenMatchups()
    yard.everybody_meets(2)
    choose = Matchmaker()
    for turn in range(6):
        again = Matchmaker().prompt_for_pair(yard.state, np.random.default_rng(turn), seen, (3, 1), lane=lane)
        assert again == choose.prompt_for_pair(yard.state, np.random.default_rng(turn), seen, (1, 3), lane=lane)
        assert again is not None
        assert (sorted((again.a, again.b)), again.lane) == ([1, 3], lane)
        assert triple(again) not in dict(seen.triples())
        assert 1 / (6 - turn) <= again.probability + 1e-9 <= 1 + 2e-9
        seen.note(triple(again), turn)
    assert Matchmaker().prompt_for_pair(yard.state, np.random.default_rng(0), seen, (1, 3), lane=lane) is None


def test_a_given_pair_meets_where_it_lacks_most_and_on_either_side() -> None:
    """Both have two decisive votes on prompts 0 and 1, none on 2 and 3, and a matchup of theirs is open on 3."""
    yard = Yard(3, 4)
    for prompt in (0, 0, 1, 1):
        yard.play(0, 2, prompt)
        yard.play(1, 2, prompt)
    yard.serve(0, 1, 3)
    found = [
        Matchmaker().prompt_for_pair(yard.state, np.random.default_rng(seed), SeenMatchups(), (0, 1))
        for seed in range(40)
    ]
    assert {(again.prompt, again.probability) for again in found if again} == {(2, 1.0)}
    assert {again.a for again in found if again} == {0, 1}


@pytest.mark.parametrize(("lane", "prompt"), [("coverage", 0), ("uncertainty", 0), ("contender", 1)])
def test_a_given_pair_meets_by_the_rule_of_the_lane_that_chose_it(lane: e.Lane, prompt: int) -> None:
    """The two have met on prompt 0 alone, and each has two more decisive votes on prompt 1, against others."""
    yard = Yard(4, 2)
    yard.play(0, 1, 0)
    for model in (0, 1):
        yard.play(model, 2, 1)
        yard.play(model, 3, 1)
    again = Matchmaker().prompt_for_pair(yard.state, np.random.default_rng(0), SeenMatchups(), (0, 1), lane=lane)
    assert again is not None
    assert (again.prompt, again.probability, again.lane) == (prompt, 1.0, lane)


def test_a_given_pair_among_given_prompts_has_the_chance_of_one_of_them() -> None:
    yard = Yard(3, 4)
    found = [
        Matchmaker().prompt_for_pair(
            yard.state, np.random.default_rng(seed), SeenMatchups(), (0, 1), lane="legacy", among=(1, 3)
        )
        for seed in range(20)
    ]
    assert {(again.prompt, again.probability) for again in found if again} == {(1, 0.5), (3, 0.5)}


def test_a_given_pair_that_shares_no_enabled_prompt_or_met_too_often_on_the_only_one_is_not_shown() -> None:
    yard = Yard(3, 1)
    yard.add_model(3, [])
    assert Matchmaker().prompt_for_pair(yard.state, np.random.default_rng(0), SeenMatchups(), (0, 3)) is None
    assert Matchmaker().prompt_for_pair(yard.state, np.random.default_rng(0), SeenMatchups(), (1, 1)) is None
    yard.tell(e.ModelDisabled(model="m2"))
    assert Matchmaker().prompt_for_pair(yard.state, np.random.default_rng(0), SeenMatchups(), (0, 2)) is None
    assert Matchmaker().prompt_for_pair(yard.state, np.random.default_rng(0), SeenMatchups(), (0, 1)) is not None
