"""Serving and voting, on both databases."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.arena.databases import rule_above_the_store
from tests.arena.engines import Clock, answer, board_of, catalog, open_arena, play, sql
from tests.forked import PATIENCE_SECONDS
from tiltyard.arena import PHASES, ChoiceDiffers, Command, Gone, NotYours, TooLate, TooMany
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store import Quota, forget_cookie
from tiltyard.arena.writing import commands
from tiltyard.errors import ArenaError

A, B, TIE, BOTH_BAD = e.Choice


def test_a_vote_is_answered_with_the_names_and_counts_once(arena_url: str) -> None:
    with open_arena(arena_url) as arena:
        arena.append(catalog())
        served = arena.serve("ann")
        assert served.prompt.startswith("Question")
        receipt = arena.vote(served.matchup_id, "ann", A)
        assert receipt.names is not None
        assert {receipt.names.model_a, receipt.names.model_b} < {"m0", "m1", "m2", "m3"}
        assert arena.vote(served.matchup_id, "ann", A) == receipt
        assert arena.read(lambda state: int(state.tallies.wins.view.sum())) == 1
    assert verify(arena_url).clean


def test_what_is_served_says_nothing_of_who_wrote_it(sqlite_url: str) -> None:
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        served = arena.serve("ann")
        said = " ".join(str(getattr(served, name)) for name in served.__struct_fields__)
    assert not any(f"m{i}" in said.split() or f"Model {i}" in said for i in range(4))
    assert set(served.__struct_fields__) == {
        *("matchup_id", "prompt", "response_a", "response_b", "expires_at", "kind", "again")
    }
    assert len(served.matchup_id) >= 22  # 6 bits a letter: 128 bits and more


@rule_above_the_store
def test_another_choice_is_refused_and_changes_nothing(arena_url: str) -> None:
    with open_arena(arena_url) as arena:
        arena.append(catalog())
        served = arena.serve("ann")
        arena.vote(served.matchup_id, "ann", TIE)
        with pytest.raises(ChoiceDiffers):
            arena.vote(served.matchup_id, "ann", A)
        assert arena.read(lambda state: (int(state.tallies.ties.view.sum()), int(state.tallies.wins.view.sum()))) == (
            2,
            0,
        )


@rule_above_the_store
def test_a_matchup_of_another_voter_does_not_exist(arena_url: str) -> None:
    with open_arena(arena_url) as arena:
        arena.append(catalog())
        served = arena.serve("ann")
        for step in (lambda: arena.vote(served.matchup_id, "bob", A), lambda: arena.skip(served.matchup_id, "bob")):
            with pytest.raises(NotYours):
                step()
        with pytest.raises(NotYours):
            arena.vote("no-such-matchup", "ann", A)
        with pytest.raises(NotYours):
            arena.vote("nul\x00'; DROP TABLE votes", "ann", A)
        arena.vote(served.matchup_id, "ann", A)


@rule_above_the_store
def test_a_skipped_matchup_is_burnt(arena_url: str) -> None:
    with open_arena(arena_url) as arena:
        arena.append(catalog())
        served = arena.serve("ann")
        arena.skip(served.matchup_id, "ann")
        arena.skip(served.matchup_id, "ann")
        with pytest.raises(Gone):
            arena.vote(served.matchup_id, "ann", A)
        assert arena.read(lambda state: len(state.schedule.in_flight)) == 0
    assert verify(arena_url).clean


@rule_above_the_store
def test_a_vote_after_two_hours_is_too_late_and_closes_the_matchup(arena_url: str) -> None:
    clock = Clock()
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        served = arena.serve("ann")
        clock.turn(7200)
        with pytest.raises(Gone):
            arena.vote(served.matchup_id, "ann", A)
        with pytest.raises(Gone):
            arena.vote(served.matchup_id, "ann", A)
        assert arena.read(lambda state: len(state.schedule.in_flight)) == 0
    assert sql(arena_url, "SELECT kind FROM events WHERE kind = 'expired'") == [("expired",)]
    assert verify(arena_url).clean


@rule_above_the_store
def test_matchups_that_nobody_voted_on_are_closed_in_one_sweep(arena_url: str) -> None:
    clock = Clock()
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        for number in range(7):
            arena.serve(f"voter{number}")
        assert arena.expire_due(clock.now) == 0
        clock.turn(7201)
        late = arena.serve("late")
        assert arena.expire_due(clock.now) == 7
        assert arena.read(lambda state: list(state.schedule.in_flight)) == [late.matchup_id]
    assert verify(arena_url).clean


def test_an_undone_vote_leaves_no_trace_in_the_ratings_and_the_matchup_stays_burnt(arena_url: str) -> None:
    clock = Clock()
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        play(arena, 20)
        before = board_of(arena)
        served = arena.serve("ann")
        arena.vote(served.matchup_id, "ann", A, reveal=False)
        clock.turn(4.9)
        arena.undo(served.matchup_id, "ann")
        arena.undo(served.matchup_id, "ann")
        after = board_of(arena)
        with pytest.raises(Gone):
            arena.vote(served.matchup_id, "ann", A)
    assert after == before
    assert verify(arena_url).clean


@rule_above_the_store
def test_an_undo_after_its_time_is_too_late(arena_url: str) -> None:
    clock = Clock()
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        served = arena.serve("ann")
        with pytest.raises(TooLate):
            arena.undo(served.matchup_id, "ann")
        arena.vote(served.matchup_id, "ann", B, reveal=False)
        clock.turn(5.1)
        with pytest.raises(TooLate):
            arena.undo(served.matchup_id, "ann")
        with pytest.raises(TooLate):
            arena.skip(served.matchup_id, "ann")
        assert arena.read(lambda state: int(state.tallies.wins.view.sum())) == 1


def test_sixty_four_clients_with_one_ballot_make_one_vote(arena_url: str) -> None:
    with open_arena(arena_url) as arena:
        arena.append(catalog())
        served = arena.serve("ann")
        said: Counter[str] = Counter()
        ready = threading.Barrier(64)

        def client(number: int) -> None:
            ready.wait(60)
            try:
                arena.vote(served.matchup_id, "ann", A if number % 2 else B)
                said["yes"] += 1
            except ChoiceDiffers:
                said["differs"] += 1

        threads = [threading.Thread(target=client, args=(number,)) for number in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(240)
        assert said == {"yes": 32, "differs": 32}
        assert arena.read(lambda state: int(state.tallies.wins.view.sum())) == 1
    assert len(sql(arena_url, "SELECT * FROM events WHERE kind = 'voted'")) == 1
    assert verify(arena_url).clean


@rule_above_the_store
def test_nothing_to_serve_is_said_to_the_one_who_asked(arena_url: str) -> None:
    with open_arena(arena_url) as arena:
        with pytest.raises(ArenaError, match="nothing to serve"):
            arena.serve("ann")
        arena.append(catalog(models=2, prompts=1))
        assert arena.serve("ann").prompt == "Question 0?"


def test_a_limit_holds_across_restarts(arena_url: str) -> None:
    clock = Clock()
    quota = (Quota("matchups:ann", most=3, seconds=60),)
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        for _ in range(2):
            arena.serve("ann", quota)
    with open_arena(arena_url, clock) as arena:
        arena.serve("ann", quota)
        with pytest.raises(TooMany) as refused:
            arena.serve("ann", quota)
        arena.serve("bob", (Quota("matchups:bob", most=3, seconds=60),))
        assert 55 < refused.value.retry_seconds <= 65
        clock.turn(refused.value.retry_seconds - 1.5)
        with pytest.raises(TooMany):
            arena.serve("ann", quota)
        clock.turn(1.5)
        arena.serve("ann", quota)


@rule_above_the_store
def test_events_by_hand_are_checked_before_they_are_written(arena_url: str) -> None:
    with open_arena(arena_url) as arena:
        arena.append(catalog())
        wrong: list[e.AnyBody] = [
            e.ModelEnabled(model="nobody"),
            e.PromptDisabled(prompt_id="nothing"),
            e.ResponseAdded(response_id="x", model="nobody", prompt_id="p0", text="x"),
            e.ResponseAdded(response_id="r0-0", model="m0", prompt_id="p0", text="something else"),
            e.PhaseChanged(phase=9),
            e.Excluded(matchup_ids=("never-voted-on",), reason="test"),
            e.Voted(matchup_id="x", choice=A),
            e.PromptAdded(prompt_id="p9", text="half a text\x00"),
        ]
        for body in wrong:
            with pytest.raises(ArenaError):
                arena.append([e.ModelAdded(model="m9", display_name="Nine"), body])
        assert arena.read(lambda state: state.catalog.has_model("m9")) is False
        arena.append([answer(0, 0)])  # the same again is fine
    assert verify(arena_url).clean


def test_a_cookie_leads_to_one_random_key_until_it_is_forgotten(arena_url: str) -> None:
    with open_arena(arena_url) as arena:
        key = arena.voter("hash-of-a-cookie")
        assert arena.voter("hash-of-a-cookie") == key
        assert arena.voter("another") != key
        forget_cookie(arena.store, "hash-of-a-cookie")
        assert arena.voter("hash-of-a-cookie") != key


def test_a_function_that_fails_on_the_state_fails_for_its_caller_alone(sqlite_url: str) -> None:
    with open_arena(sqlite_url) as arena:
        with pytest.raises(ZeroDivisionError):
            arena.read(lambda state: 1 // 0)
        assert arena.read(lambda state: state.seq) == 0


def test_a_closed_arena_says_so(sqlite_url: str) -> None:
    arena = open_arena(sqlite_url)
    arena.close()
    with pytest.raises(ArenaError, match="closed"):
        arena.serve("ann")


class Letters:
    """A mailbox that keeps what it gets, group by group."""

    def __init__(self) -> None:
        self.groups: list[list[Command[Any]]] = []
        self._came = threading.Semaphore(0)

    def take(self, done: Sequence[Command[Any]]) -> None:
        self.groups.append(list(done))
        for _ in done:
            self._came.release()

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self._came.acquire(timeout=PATIENCE_SECONDS)


def test_all_that_was_committed_together_is_told_together_and_each_with_its_own_answer(arena_url: str) -> None:
    letters = Letters()
    with open_arena(arena_url) as arena:
        arena.append(catalog())
        started, go_on = threading.Event(), threading.Event()

        def hold(_: object) -> None:
            started.set()
            go_on.wait(60)

        held = arena.submit(commands.ReadState(hold))
        started.wait(60)
        asked = [commands.ServeMatchup("ann"), commands.SubmitVote("nothing", "ann", A), commands.ServeMatchup("bob")]
        for ask in asked:
            arena.post(ask, letters)
        go_on.set()
        held.result(60)
        letters.wait(3)
        assert letters.groups == [asked]
        assert asked[0].result().matchup_id != asked[2].result().matchup_id
        with pytest.raises(NotYours):
            asked[1].result()


def test_each_of_the_four_phases_can_be_set_and_no_other(sqlite_url: str) -> None:
    with open_arena(sqlite_url) as arena:
        assert PHASES == (1, 2, 3, 4)
        for phase in PHASES:
            arena.append([e.PhaseChanged(phase=phase)])
            assert arena.read(lambda state: state.phase) == phase
        for phase in (0, 5):
            with pytest.raises(ArenaError, match=f"there is no phase {phase}; the phases are 1 to 4"):
                arena.append([e.PhaseChanged(phase=phase)])


@pytest.mark.parametrize("bad", ["a\nb", "a\x85b", "a\u2028b", "\x07"])
def test_an_id_with_a_control_character_is_refused(sqlite_url: str, bad: str) -> None:
    bodies = (
        e.ModelAdded(model=bad, display_name="M"),
        e.PromptAdded(prompt_id=bad, text="Why?\nSo."),
        e.ResponseAdded(response_id=bad, model="m", prompt_id="p", text="So."),
    )
    with open_arena(sqlite_url) as arena:
        arena.append([e.ModelAdded(model="m", display_name="M"), e.PromptAdded(prompt_id="p", text="Why?\nSo.")])
        for body in bodies:
            with pytest.raises(ArenaError, match="control character"):
                arena.append([body])
        with pytest.raises(ArenaError, match="no such matchup"):
            arena.vote(bad, "ann", e.Choice.A)


@pytest.mark.parametrize("bad", ["nul \x00", "half of two \ud83d"])
def test_a_text_that_cannot_be_stored_is_refused_whatever_it_is_a_text_of(sqlite_url: str, bad: str) -> None:
    model = e.ModelAdded(model="m", display_name="M")
    prompt = e.PromptAdded(prompt_id="p", text="Why?")
    answer = e.ResponseAdded(response_id="r", model="m", prompt_id="p", text="So.")
    fields = {
        model: ("model", "display_name", "provider"),
        prompt: ("prompt_id", "text"),
        answer: ("response_id", "text"),
    }
    with open_arena(sqlite_url) as arena:
        for body, names in fields.items():
            for name in names:
                with pytest.raises(ArenaError, match="NUL character or half a surrogate pair"):
                    arena.append([msgspec.structs.replace(body, **{name: bad})])
            with pytest.raises(ArenaError, match="empty name"):
                arena.append([msgspec.structs.replace(body, **{names[0]: ""})])
        arena.append([model, prompt, answer])
