"""What excluding votes would do: the promise is what then happens, and promising changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arena.small_worlds import Log, honest_chooser, new_log, play
from tests.sizes import size
from tiltyard.arena import copy_of, effects_of
from tiltyard.arena import events as e
from tiltyard.arena.store.checkpoints import encode_state
from tiltyard.arena.study.board import live_board


def small_log(seed: int, votes: int = 60) -> Log:
    log, rng = new_log(5, 4), np.random.default_rng(seed)
    play(log, votes, rng, honest_chooser(rng, np.linspace(200, -200, 5)), voters=6)
    return log


def matchups(log: Log) -> list[str]:
    return [vote.matchup_id for vote in log.book]


@settings(max_examples=size(10, soak=40))
@given(seed=st.integers(0, 50), picked=st.sets(st.integers(0, 59), min_size=1))
def test_the_promise_is_what_then_happens(seed: int, picked: set[int]) -> None:
    log = small_log(seed)
    names = tuple(matchups(log)[number] for number in sorted(picked))
    for change in (e.Excluded(matchup_ids=names, reason="x"), e.Restored(matchup_ids=names, reason="y")):
        promised = effects_of(copy_of(log.state, log.book), change)
        assert promised.before == live_board(log.rate())
        log.say(change)
        assert promised.after.rows == live_board(log.rate()).rows
        assert promised.after.publication == live_board(log.state).publication
        assert promised.votes == len(names)


def test_promising_leaves_the_state_and_its_votes_alone() -> None:
    log = small_log(3)
    before, votes = encode_state(log.state), list(log.book)
    effects_of(copy_of(log.state, log.book), e.Excluded(matchup_ids=tuple(matchups(log)), reason="all"))
    assert encode_state(log.state) == before
    assert list(log.book) == votes


def test_without_any_vote_everybody_is_where_they_started() -> None:
    log = small_log(4)
    promised = effects_of(copy_of(log.state, log.book), e.Excluded(matchup_ids=tuple(matchups(log)), reason="all"))
    assert promised.votes == 60
    assert {row.after.rating for row in promised.rows} == {log.state.policy.rating.rating}
    assert {row.after.votes for row in promised.rows} == {0}
    assert sum(row.votes_change for row in promised.rows) == -2 * 60
    assert promised.largest_rating_change == max(abs(row.rating_change) for row in promised.rows) > 0


def test_a_vote_that_is_out_already_does_not_turn_again() -> None:
    log = small_log(5)
    first, second, undone = matchups(log)[:3]
    log.say(e.Excluded(matchup_ids=(first,), reason="x"))
    log.say(e.Undone(matchup_id=undone))
    names = (first, second, undone)
    assert effects_of(copy_of(log.state, log.book), e.Excluded(matchup_ids=names, reason="y")).votes == 1
    assert effects_of(copy_of(log.state, log.book), e.Restored(matchup_ids=names, reason="y")).votes == 1


def test_places_gained_and_lost_add_up_to_nothing() -> None:
    log = new_log(3, 2)
    kept = [log.meet("m00", "m01", "p00", e.Choice.A) for _ in range(4)]
    out = [log.meet("m02", "m00", "p01", e.Choice.A) for _ in range(9)]
    promised = effects_of(copy_of(log.state, log.book), e.Excluded(matchup_ids=tuple(out), reason="x"))
    assert promised.rows[0].before.model == "m02"
    assert promised.after.rows[0].model == "m00"
    assert sum(row.rank_change for row in promised.rows) == 0
    assert promised.places_changed >= 2
    unharmed = effects_of(copy_of(log.state, log.book), e.Restored(matchup_ids=tuple(kept), reason="x"))
    assert unharmed.votes == unharmed.places_changed == 0
    assert not any(row.changed for row in unharmed.rows)


def test_a_copy_goes_its_own_way() -> None:
    log = small_log(6)
    copy = copy_of(log.state, log.book)
    assert encode_state(copy) == encode_state(log.state)
    copy.apply(copy.seq + 1, e.Event(copy.at, e.ModelDisabled(model="m00")))
    assert log.state.catalog.model_enabled[0]
    with pytest.raises(Exception, match="does not follow"):
        log.state.apply(copy.seq + 1, e.Event(copy.at, e.ModelDisabled(model="m00")))
