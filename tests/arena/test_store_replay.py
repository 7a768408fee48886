"""What is live and what a replay of the log gives are the same, to the last bit, on both databases."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.arena.databases import Databases, make_empty_arena, rule_above_the_store
from tests.arena.engines import CHOICES, Clock, any_matchup, catalog, open_arena, play, sql
from tests.sizes import size
from tiltyard.arena import Arena, ArenaState, Policy, VoteColumns
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import rebuild, verify
from tiltyard.arena.rules.policy import RatingRules
from tiltyard.arena.store import Store, events_in_order, load_votes
from tiltyard.arena.store.checkpoints import encode_state, keep_checkpoint, load_state
from tiltyard.arena.store.matchups import COLUMNS, public_until
from tiltyard.errors import ArenaError

steps_of_a_history = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *["votes"] * 6,
                *("checkpoint", "undo", "reveal", "skip", "expire", "exclude", "restore"),
                *("policy", "rules", "model", "disable"),
            ]
        ),
        st.integers(0, 1000),
    ),
    min_size=3,
    max_size=14,
)


class History:
    """Does what a list of steps says to an arena, and remembers what was voted on."""

    def __init__(self, arena: Arena, clock: Clock) -> None:
        self.arena = arena
        self.clock = clock
        self.voted: list[tuple[str, str]] = []
        self.models = 4

    def do(self, step: str, number: int) -> None:
        getattr(self, step)(number)
        self.clock.turn(number * 7)

    def votes(self, number: int) -> None:
        for round_ in range(number % 25):
            voter = f"voter{(number + round_) % 6}"
            served = self.arena.serve(voter)
            self.arena.vote(served.matchup_id, voter, CHOICES[(number // 3 + round_ * round_) % 4])
            self.voted.append((served.matchup_id, voter))

    def undo(self, number: int) -> None:
        served = self.arena.serve("undoer")
        self.arena.vote(served.matchup_id, "undoer", CHOICES[number % 4], reveal=False)
        self.arena.undo(served.matchup_id, "undoer")

    def reveal(self, number: int) -> None:
        names = [self.arena.serve("waiter").matchup_id for _ in range(2)]
        for name in names:
            self.arena.vote(name, "waiter", CHOICES[number % 4], reveal=False)
        self.arena.reveal(names[0], "waiter")
        self.voted += [(name, "waiter") for name in names]

    def skip(self, number: int) -> None:
        for voter in ("skipper", "sleeper"):
            served = self.arena.serve(voter)
        self.arena.skip(served.matchup_id, "sleeper")

    def exclude(self, number: int) -> None:
        ids = tuple(name for name, _ in self.voted[number % 5 :: 3])
        if ids:
            self.arena.append([e.Excluded(matchup_ids=ids, reason="test")])

    def restore(self, number: int) -> None:
        ids = tuple(name for name, _ in self.voted[number % 7 :: 2])
        if ids:
            self.arena.append([e.Restored(matchup_ids=ids, reason="test")])

    def checkpoint(self, number: int) -> None:
        """What the reader does once in a while: at the end of the public log."""
        with self.arena.store.database.write(lock=True) as connection:
            keep_checkpoint(connection, load_state(connection, public_until(connection, self.clock()))[0])

    def expire(self, number: int) -> None:
        self.arena.serve("sleeper")
        self.arena.expire_due(self.clock.now + 10**12)

    def policy(self, number: int) -> None:
        self.arena.append([e.SettingsChanged(policy=Policy(window_matchups=1 + number % 30))])

    def rules(self, number: int) -> None:
        rules = RatingRules(volatility=0.001 + number / 1e5, legacy_k=float(8 + number % 24))
        self.arena.append([e.SettingsChanged(policy=Policy(rating=rules))])

    def model(self, number: int) -> None:
        name = f"m{self.models}"
        answers = [
            e.ResponseAdded(response_id=f"{name}-{j}", model=name, prompt_id=f"p{j}", text="late") for j in (0, 1)
        ]
        self.arena.append([e.ModelAdded(model=name, display_name=name), *answers])
        self.models += 1

    def disable(self, number: int) -> None:
        kind = e.ModelDisabled if number % 2 else e.ModelEnabled
        self.arena.append([kind(model="m0"), e.PromptDisabled(prompt_id="p2")])


def walk(url: str, steps: list[tuple[str, int]]) -> bytes:
    """The state after the steps, frozen: always the same clock, ids and chance."""
    clock, ids, rng = Clock(), iter(f"matchup-{number}" for number in range(10_000)), np.random.default_rng(len(steps))
    with Arena(
        Store.open(url), chooser=any_matchup, now=clock, rng=rng, new_id=lambda: next(ids), idle_seconds=3600
    ) as arena:
        arena.append(catalog())
        history = History(arena, clock)
        for step, number in steps:
            history.do(step, number)
        return arena.read(encode_state)


def check_replay(url: str, live: bytes) -> None:
    """Fold, checkpoint, table and a second process agree; and what is made anew is what was there."""
    rows = table_of(url)
    whole = ArenaState()
    store = Store.open(url)
    for event in events_in_order(store):
        whole.apply(whole.seq + 1, event)
    assert encode_state(whole) == live
    assert isinstance(whole.votes, VoteColumns)
    with store.database.read() as connection:
        assert encode_state(load_state(connection)[0]) == live
        state, votes, _ = load_votes(connection)
    store.close()
    assert encode_state(state) == live
    assert list(votes) == list(whole.votes)
    with open_arena(url) as second:
        assert second.read(encode_state) == live
    found = verify(url)
    assert found.clean, found.problems
    rebuild(url)
    assert table_of(url) == rows
    assert verify(url).clean


def table_of(url: str) -> list[tuple[object, ...]]:
    return sql(url, f"SELECT {', '.join(COLUMNS)} FROM matchups ORDER BY id")


few = settings(
    max_examples=size(2, soak=20),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
EVERYTHING = [
    *(
        ("votes", 14),
        ("undo", 1),
        ("reveal", 2),
        ("model", 0),
        ("votes", 37),
        ("checkpoint", 0),
        ("exclude", 1),
        ("expire", 1),
        ("skip", 0),
        ("rules", 500),
    ),
    *(("votes", 64), ("restore", 3), ("policy", 4), ("disable", 1), ("votes", 87), ("exclude", 2), ("undo", 2)),
]


@pytest.fixture(scope="module")
def on_sqlite(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """An arena in which everything happened, and its state."""
    url = f"sqlite:///{shutil.copy(sqlite_template, tmp_path_factory.mktemp('everything') / 'arena.db')}"
    return url, walk(url, EVERYTHING)


@pytest.fixture(scope="module")
def on_postgresql(postgresql_databases: Databases) -> Iterator[tuple[str, bytes]]:
    """The same on the other database."""
    url = postgresql_databases.fresh()
    yield url, walk(url, EVERYTHING)
    postgresql_databases.drop(url)


def test_a_history_with_everything_in_it_replays_bit_for_bit_on_sqlite(on_sqlite: tuple[str, bytes]) -> None:
    check_replay(*on_sqlite)


def test_a_history_with_everything_in_it_replays_bit_for_bit_on_postgresql(on_postgresql: tuple[str, bytes]) -> None:
    check_replay(*on_postgresql)


@few
@given(steps_of_a_history)
def test_any_history_replays_bit_for_bit_on_sqlite(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    url = f"sqlite:///{tmp_path_factory.mktemp('history') / 'arena.db'}"
    make_empty_arena(url)
    check_replay(url, walk(url, steps))


@pytest.mark.soak
@settings(few, max_examples=20)
@given(steps_of_a_history)
def test_any_history_replays_bit_for_bit_on_postgresql(
    postgresql_databases: Databases, steps: list[tuple[str, int]]
) -> None:
    url = postgresql_databases.fresh()
    check_replay(url, walk(url, steps))


@pytest.mark.soak
@settings(few, max_examples=150)
@given(steps_of_a_history)
def test_many_histories_replay_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    url = f"sqlite:///{tmp_path_factory.mktemp('history') / 'arena.db'}"
    make_empty_arena(url)
    check_replay(url, walk(url, steps))


def test_both_databases_hold_the_same_log_matchups_and_state(
    on_sqlite: tuple[str, bytes], on_postgresql: tuple[str, bytes]
) -> None:
    """With the same clock, ids and chance."""
    written = "SELECT seq, at, kind, body FROM events ORDER BY seq"
    assert sql(on_sqlite[0], written) == sql(on_postgresql[0], written)
    assert table_of(on_sqlite[0]) == table_of(on_postgresql[0])
    assert on_sqlite[1] == on_postgresql[1]


@rule_above_the_store
def test_a_second_process_that_lags_behind_ends_in_the_same_state(arena_url: str) -> None:
    """It takes in undo, exclusion and new rules when the table already shows what came after them."""
    clock = Clock()
    with open_arena(arena_url, clock) as arena, open_arena(arena_url, clock) as second:
        arena.append(catalog())
        history = History(arena, clock)
        history.do("votes", 37)
        at = second.read(lambda state: state.seq)
        for step, number in EVERYTHING:
            history.do(step, number)
        live = arena.read(encode_state)
        assert second.read(encode_state) == live
        assert second.read(lambda state: state.seq) > at


@rule_above_the_store
def test_an_arena_starts_from_its_newest_checkpoint_and_not_from_the_beginning(arena_url: str) -> None:
    with open_arena(arena_url, Clock()) as arena:
        arena.append(catalog())
        play(arena, 60)
        with arena.store.database.write(lock=True) as connection:
            at = load_state(connection, 100)[0]
            keep_checkpoint(connection, at)
        live = arena.read(encode_state)
    sql(arena_url, "UPDATE events SET body = 'never looked at' WHERE seq < 100 AND kind = 'voted'")
    with open_arena(arena_url) as arena:
        assert arena.read(encode_state) == live


def test_settings_that_make_no_sense_never_reach_the_log(sqlite_url: str) -> None:
    with open_arena(sqlite_url) as arena:
        with pytest.raises(ArenaError):
            arena.append([e.PhaseChanged(phase=0)])
        assert arena.read(lambda state: state.seq) == 0
