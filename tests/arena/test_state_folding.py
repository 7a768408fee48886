"""The fold over events: the same state however it is reached."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena import ArenaState, Policy, VoteColumns
from tiltyard.arena import events as e
from tiltyard.arena.rules.policy import RatingRules
from tiltyard.arena.rules.ratings import rate_votes
from tiltyard.arena.rules.schedule import Schedule
from tiltyard.arena.rules.tallies import Tallies
from tiltyard.arena.store.checkpoints import decode_state, encode_state

CHOICES = tuple(e.Choice)
votes_of_few = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(1, 3), st.integers(0, 2), st.sampled_from(CHOICES), st.sampled_from([1, 1, -1])
    ),
    max_size=60,
)


def served(number: int, a: int, b: int, prompt: int = 0, lane: e.Lane = "coverage") -> e.MatchupServed:
    return e.MatchupServed(
        matchup_id=f"x{number}",
        voter=f"v{number % 7}",
        prompt_id=f"p{prompt}",
        model_a=f"m{a}",
        model_b=f"m{b}",
        response_a=f"r{a}",
        response_b=f"r{b}",
        lane=lane,
        reason="test",
        probability=0.1,
        seed=number,
        expires_at=10**15,
    )


def arena(models: int = 4, prompts: int = 3) -> ArenaState:
    state = ArenaState()
    for i in range(models):
        apply(state, e.ModelAdded(model=f"m{i}", display_name=f"M{i}"))
    for j in range(prompts):
        apply(state, e.PromptAdded(prompt_id=f"p{j}", text=""))
    return state


def apply(state: ArenaState, body: e.AnyBody) -> None:
    state.apply(state.seq + 1, e.Event(state.seq + 1, body))


def random_votes(state: ArenaState, n: int, seed: int, left_out: tuple[int, ...] = ()) -> None:
    rng = np.random.default_rng(seed)
    models, prompts = len(state.catalog.models), len(state.catalog.prompts)
    for number in range(n):
        a, b = rng.choice(models, 2, replace=False)
        apply(state, served(number, int(a), int(b), int(rng.integers(prompts))))
        choice = CHOICES[rng.integers(4)]
        left = number in left_out
        apply(state, e.Skipped(matchup_id=f"x{number}") if left else e.Voted(matchup_id=f"x{number}", choice=choice))


@given(votes_of_few)
def test_tallies_are_the_sums_of_the_signs_of_their_votes(votes: list[tuple[int, int, int, e.Choice, int]]) -> None:
    tallies = Tallies()
    tallies.grow(4, 3)
    wins, ties, on = Counter[tuple[int, int]](), Counter[tuple[int, int]](), Counter[tuple[int, int, int]]()
    for a, shift, prompt, choice, sign in votes:
        b = (a + shift) % 4
        tallies.count(a, b, prompt, choice, sign=sign)
        if choice in (e.Choice.A, e.Choice.B):
            wins[(a, b) if choice is e.Choice.A else (b, a)] += sign
            on[min(a, b), max(a, b), prompt] += sign
        elif choice is e.Choice.TIE:
            ties[a, b] += sign
            ties[b, a] += sign
    cells = np.ndindex(4, 4)
    assert all((tallies.wins.view[cell], tallies.ties.view[cell]) == (wins[cell], ties[cell]) for cell in cells)
    assert tallies.decisive_votes == wins.total()
    met = {(*pair, prompt): n for pair, prompts in tallies.pair_prompts.items() for prompt, n in prompts.items()}
    assert met == {key: n for key, n in on.items() if n}


def test_a_vote_counted_and_taken_out_leaves_no_trace() -> None:
    tallies = Tallies()
    tallies.grow(2, 1)
    for sign in (1, -1):
        for choice in CHOICES:
            tallies.count(0, 1, 0, choice, sign=sign)
        assert tallies.wins.view.sum() == (2 if sign == 1 else 0)
    assert not tallies.ties.view.any()
    assert not tallies.half_points_on.view.any()
    assert not tallies.pair_prompts


@pytest.mark.parametrize("gone", [(0,), (299,), (150, 290), (10, 280, 299)])
def test_tallies_and_ratings_after_votes_were_taken_out_are_those_of_a_log_without_them(gone: tuple[int, ...]) -> None:
    full, without, restored = arena(), arena(), arena()
    names = tuple(f"x{number}" for number in gone)
    for state in (full, without, restored):
        random_votes(state, 300, seed=5, left_out=gone if state is without else ())
    for state in (full, restored):
        apply(state, e.Excluded(matchup_ids=names, reason="test"))
    assert counts(full) == counts(without)
    assert full.excluded == set(names)
    apply(restored, e.Restored(matchup_ids=names, reason="test"))
    again = arena()
    random_votes(again, 300, seed=5)
    assert counts(restored) == counts(again)


def counts(state: ArenaState) -> tuple[object, ...]:
    """Who won against whom on what, and the ratings that follow."""
    tallies, rated = state.tallies, rate_votes(state.votes.table(state.catalog), state.policy.rating)
    grids = (tallies.wins, tallies.ties, tallies.both_bad, tallies.rated_on, tallies.half_points_on)
    columns = (rated.rating, rated.deviation, rated.volatility, rated.legacy)
    return (*(grid.view.tolist() for grid in grids), *(column.tolist() for column in columns), tallies.pair_prompts)


def facts(schedule: Schedule) -> tuple[object, ...]:
    return (
        *(schedule.shown, schedule.shown_as_a, schedule.lanes, list(schedule.window), schedule.in_window.tolist()),
        schedule.by_contender_lane.tolist(),
        *(schedule.in_flight, list(schedule.in_flight), schedule.in_flight_by_prompt, schedule.meetings),
        *(schedule.in_flight_on.view.tolist(), schedule.in_flight_pairs.view.tolist()),
    )


def test_what_flies_is_counted_the_same_after_thousands_of_landings() -> None:
    state = arena()
    random_votes(state, 2000, seed=1)
    for number in range(5000, 5040):
        apply(state, served(number, number % 4, (number + 1) % 4, number % 3))
    flying: dict[tuple[int, int], Counter[int]] = {}
    for r in state.schedule.in_flight.values():
        flying.setdefault((min(r.a, r.b), max(r.a, r.b)), Counter())[r.prompt] += 1
    assert state.schedule.in_flight_by_prompt == flying
    assert state.schedule.in_flight_on.view.sum() == 2 * 40


def test_a_frozen_state_goes_on_as_if_it_had_never_stopped() -> None:
    whole = arena()
    random_votes(whole, 150, seed=2)
    apply(whole, served(900, 1, 2))
    apply(whole, e.SettingsChanged(policy=Policy(window_matchups=4000, rating=RatingRules(volatility=0.01))))
    apply(whole, e.ModelDisabled(model="m3"))
    frozen = encode_state(whole)
    again = decode_state(frozen, VoteColumns(whole.votes))
    assert encode_state(again) == frozen
    for state in (whole, again):
        apply(state, e.Voted(matchup_id="x900", choice=e.Choice.B))
        apply(state, e.ModelAdded(model="m4", display_name="late"))
        apply(state, e.Undone(matchup_id="x900"))
        apply(state, e.Excluded(matchup_ids=("x3", "x77"), reason="test"))
    assert encode_state(again) == encode_state(whole)
    assert facts(again.schedule) == facts(whole.schedule)
