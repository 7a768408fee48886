"""The fold over events: the same state however it is reached."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiltyard.arena import events as e
from tiltyard.arena.policy import Policy, RatingRules
from tiltyard.arena.ratings import KEPT_EVERY, RatingTrack
from tiltyard.arena.schedule import Reserved, Schedule
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store.checkpoints import decode_state, encode_state
from tiltyard.arena.tallies import WORTH_ARRAYS, Tallies
from tiltyard.arena.votes import VoteColumns

CHOICES = tuple(e.Choice)
votes_of_few = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(1, 3), st.integers(0, 2), st.sampled_from(CHOICES), st.sampled_from([1, 1, -1])
    ),
    max_size=3 * WORTH_ARRAYS,
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
    state = ArenaState(VoteColumns())
    for i in range(models):
        apply(state, e.ModelAdded(model=f"m{i}", display_name=f"M{i}"))
    for j in range(prompts):
        apply(state, e.PromptAdded(prompt_id=f"p{j}", text=""))
    return state


def apply(state: ArenaState, body: e.AnyBody) -> None:
    state.apply(state.seq + 1, e.Event(state.seq + 1, body))


def random_votes(state: ArenaState, n: int, seed: int, *, look_every: int = 0) -> None:
    rng = np.random.default_rng(seed)
    models, prompts = len(state.catalog.models), len(state.catalog.prompts)
    for number in range(n):
        a, b = rng.choice(models, 2, replace=False)
        apply(state, served(number, int(a), int(b), int(rng.integers(prompts))))
        apply(state, e.Voted(matchup_id=f"x{number}", choice=CHOICES[rng.integers(4)]))
        if look_every and number % look_every == 0:
            assert state.track.now.seq == state.seq


@given(votes_of_few)
def test_tallies_added_by_the_array_are_those_added_one_by_one(
    votes: list[tuple[int, int, int, e.Choice, int]],
) -> None:
    together, single = Tallies(), Tallies()
    for tallies in (together, single):
        tallies.grow(4, 3)
    for a, shift, prompt, choice, sign in votes:
        for tallies in (together, single):
            tallies.count(a, (a + shift) % 4, prompt, choice, sign=sign)
        assert single.wins is not None  # looking settles what waits
    for name in ("wins", "ties", "both_bad", "decisive_on", "rated_on", "both_bad_on", "half_points_on"):
        assert (getattr(together, name).view == getattr(single, name).view).all(), name
    assert together.pair_prompts == single.pair_prompts


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


def test_ratings_of_votes_that_waited_are_those_of_votes_looked_at_one_by_one() -> None:
    waiting, looking = arena(), arena()
    random_votes(waiting, 300, seed=3)
    random_votes(looking, 300, seed=3, look_every=1)
    assert encode_state(waiting) == encode_state(looking)


@pytest.mark.parametrize("gone", [(0,), (299,), (150, 290), (10, 280, 299)])
def test_ratings_after_votes_were_taken_out_are_those_of_a_log_without_them(gone: tuple[int, ...]) -> None:
    without, full = RatingTrack(RatingRules()), arena()
    random_votes(full, 300, seed=5)
    apply(full, e.Excluded(matchup_ids=tuple(f"x{number}" for number in gone), reason="test"))
    without.grow(4)
    assert isinstance(full.book, VoteColumns)
    for number, vote in enumerate(full.book.votes):
        if number not in gone:
            without.vote(vote.seq, vote.a, vote.b, vote.choice)
    for mine, other in zip(full.track.now.columns(), without.now.columns(), strict=True):
        assert (mine == other).all()
    apply(full, e.Restored(matchup_ids=tuple(f"x{number}" for number in gone), reason="test"))
    again = arena()
    random_votes(again, 300, seed=5)
    for mine, other in zip(full.track.now.columns(), again.track.now.columns(), strict=True):
        assert (mine == other).all()


def test_an_undo_soon_after_the_vote_needs_no_history() -> None:
    track, without = RatingTrack(RatingRules()), RatingTrack(RatingRules())
    rng = np.random.default_rng(8)
    for each in (track, without):
        each.grow(3)
    for seq in range(1, 3 * KEPT_EVERY):
        a, b = (int(number) for number in rng.choice(3, 2, replace=False))
        choice = CHOICES[rng.integers(4)]
        track.vote(seq, a, b, choice)
        if seq != 3 * KEPT_EVERY - 5:
            without.vote(seq, a, b, choice)
    track.change([3 * KEPT_EVERY - 5])
    for mine, other in zip(track.now.columns(), without.now.columns(), strict=True):
        assert (mine == other).all()


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("rsvfw"), st.integers(0, 5)), max_size=40), st.integers(1, 6))
def test_early_matchups_end_where_the_log_puts_them(steps: list[tuple[str, int]], window: int) -> None:
    """r: reserve; s: another's matchup is chained; v: one is voted on; f: ours is chained; w: the window changes."""
    live, log = Schedule(window, 2), Schedule(window, 2)
    for schedule in (live, log):
        schedule.grow(4, 2)
    early: list[Reserved] = []
    for number, (step, choice) in enumerate(steps):
        lane = "contender" if choice % 3 else "coverage"
        new = Reserved(f"x{number}", "v", choice % 4, (choice + 1) % 4, choice % 2, lane, 0)
        if step == "r":
            live.reserve(new)
            early.append(new)
        elif step == "s":
            live.serve(new)
            log.serve(new)
        elif step == "f" and early:
            mine = early.pop(choice % len(early))
            live.serve(mine)
            log.serve(mine)
        elif step == "v" and log.in_flight:
            name = list(log.in_flight)[choice % len(log.in_flight)]
            assert live.resolve(name) == log.resolve(name)
        elif step == "w":
            live.resize(choice + 1, 2)
            log.resize(choice + 1, 2)
    assert live.early == len(early)
    for left in early[::2]:
        live.release(left.matchup_id)
    live.set_aside()
    assert facts(live) == facts(log)


def facts(schedule: Schedule) -> tuple[object, ...]:
    return (
        *(schedule.shown, schedule.shown_as_a, schedule.lanes, list(schedule.window), schedule.in_window.tolist()),
        schedule.by_contender_lane.tolist(),
        *(schedule.in_flight, list(schedule.in_flight), +schedule.in_flight_by_prompt, schedule.meetings),
        *(schedule.in_flight_on.view.tolist(), schedule.in_flight_pairs.view.tolist()),
    )


def test_what_flies_is_counted_the_same_after_thousands_of_landings() -> None:
    state = arena()
    random_votes(state, 2000, seed=1)
    for number in range(5000, 5040):
        apply(state, served(number, number % 4, (number + 1) % 4, number % 3))
    flying = Counter((min(r.a, r.b), max(r.a, r.b), r.prompt) for r in state.schedule.in_flight.values())
    assert state.schedule.in_flight_by_prompt == flying
    assert state.schedule.in_flight_on.view.sum() == 2 * 40


def test_a_frozen_state_goes_on_as_if_it_had_never_stopped() -> None:
    whole = arena()
    random_votes(whole, 150, seed=2)
    apply(whole, served(900, 1, 2))
    apply(whole, e.SettingsChanged(policy=Policy(window_matchups=4000, rating=RatingRules(volatility=0.01))))
    apply(whole, e.ModelDisabled(model="m3"))
    frozen = encode_state(whole)
    again = decode_state(frozen, whole.book)
    assert again is not None
    assert encode_state(again) == frozen
    whole_votes = list(whole.book.votes) if isinstance(whole.book, VoteColumns) else []
    for state in (whole, again):
        book = VoteColumns()
        for vote in whole_votes:
            book.cast(vote)
        state.book = state.track.history = book
        apply(state, e.Voted(matchup_id="x900", choice=e.Choice.B))
        apply(state, e.ModelAdded(model="m4", display_name="late"))
        apply(state, e.Undone(matchup_id="x900"))
        apply(state, e.Excluded(matchup_ids=("x3", "x77"), reason="test"))
    assert encode_state(again) == encode_state(whole)
    assert facts(again.schedule) == facts(whole.schedule)


@pytest.mark.soak
def test_plain_and_compiled_loops_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run: the test of this name in tests/ratings/test_glicko2.py."""
    pytest.importorskip("numba")
    frozen = []
    for mode in ("always", "never"):
        monkeypatch.setenv("TILTYARD_COMPILE", mode)
        state = arena(12, 5)
        random_votes(state, 600, seed=11)
        frozen.append(encode_state(state))
    assert frozen[0] == frozen[1]
