"""Several writers of one log: one order, no gap, nothing chosen twice; and what stops a writer stops only itself."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import msgspec
import numpy as np
import psycopg
import pytest

from tests.arena.engines import CHOICES, catalog, open_arena, play, sql
from tests.arena.test_crash import Voters, check, seed
from tiltyard.arena import Arena, ArenaState, ServeMatchup, TooBusy
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.matchmaking import ChosenMatchup, SeenMatchups
from tiltyard.arena.rules.chain import FIRST_HASH, link_events
from tiltyard.arena.store import Store
from tiltyard.arena.store.checkpoints import encode_state
from tiltyard.arena.store.database import WRITER_LOCK
from tiltyard.errors import StoreError

LOCK = "SELECT pg_advisory_xact_lock(%s)"


def assert_one_order(url: str) -> None:
    """Numbers 1, 2, 3 …, each chained to the one before; and the table follows."""
    rows = sql(url, "SELECT seq, at, body, hash FROM events ORDER BY seq")
    seqs, times, texts, hashes = zip(*rows, strict=True)
    assert list(seqs) == list(range(1, len(rows) + 1))
    assert link_events(FIRST_HASH, times, texts) == list(hashes)
    assert verify(url).clean


def shown_twice_at_once(url: str) -> int:
    """How often a pair was served on a prompt on which it was open already, while others were free."""
    open_now: dict[str, tuple[frozenset[str], str]] = {}
    repeated = 0
    for (text,) in sql(url, "SELECT body FROM events ORDER BY seq"):
        body = e.decode_body(str(text))
        if isinstance(body, e.MatchupServed):
            shown = (frozenset((body.model_a, body.model_b)), body.prompt_id)
            repeated += shown in open_now.values()
            open_now[body.matchup_id] = shown
        elif isinstance(body, e.Voted | e.Skipped | e.Expired):
            open_now.pop(body.matchup_id)
    return repeated


def first_free(state: ArenaState, rng: np.random.Generator, seen: SeenMatchups) -> ChosenMatchup:
    """The first pair on the first prompt that nobody is looking at."""
    models, prompts = len(state.catalog.models), len(state.catalog.prompts)
    for a, b in combinations(range(models), 2):
        for prompt in range(prompts):
            if prompt not in state.schedule.in_flight_by_prompt.get((a, b), ()):
                return ChosenMatchup(a, b, prompt, lane="exploration", reason="free", probability=1.0)
    raise AssertionError("there are more pairs on prompts than voters")


def vote_often(arena: Arena, voter: str, votes: int) -> None:
    rng = np.random.default_rng(sum(voter.encode()))
    for _ in range(votes):
        served = arena.serve(voter)
        arena.vote(served.matchup_id, voter, CHOICES[rng.integers(4)])


def test_votes_through_two_writers_have_one_order_and_no_pair_is_shown_twice_at_once(arena_url: str) -> None:
    """Each takes the first that is not open: whoever did not know what the other just served would repeat it."""
    with (
        Arena(Store.open(arena_url), chooser=first_free) as one,
        Arena(Store.open(arena_url), chooser=first_free) as two,
    ):
        one.append(catalog())
        threads = [
            threading.Thread(target=vote_often, args=(arena, f"{name}{number}", 12))
            for number in range(4)
            for name, arena in (("a", one), ("b", two))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(240)
        assert one.read(encode_state) == two.read(encode_state)
    assert_one_order(arena_url)
    assert shown_twice_at_once(arena_url) == 0
    writers = Counter(str(voter)[0] for (voter,) in sql(arena_url, "SELECT voter FROM matchups WHERE counts = 1"))
    assert writers == {"a": 48, "b": 48}


def test_votes_of_two_processes_on_one_file_have_one_order(sqlite_url: str) -> None:
    seed(sqlite_url)
    running = [Voters(sqlite_url, name, clients=4, seconds=0.5) for name in ("one", "two")]
    for voters in running:
        voters.finish()
    assert all(voters.lines for voters in running)
    assert check(sqlite_url, [line for voters in running for line in voters.lines]) == verify(sqlite_url).votes
    assert_one_order(sqlite_url)


def test_a_frozen_holder_of_the_lock_delays_others_for_a_few_seconds_and_loses_its_session(postgresql_url: str) -> None:
    """It takes the lock and says nothing more: whoever has waited three seconds ends its session."""
    with open_arena(postgresql_url) as arena, psycopg.connect(postgresql_url) as frozen:
        arena.append(catalog())
        play(arena, 1)
        frozen.execute(LOCK, (WRITER_LOCK,))
        began = time.monotonic()
        play(arena, 2)
        assert 1.0 < time.monotonic() - began < 8.0
        with pytest.raises(psycopg.OperationalError):
            frozen.execute("SELECT 1")
    assert verify(postgresql_url).votes == 3


def test_a_holder_of_the_lock_that_is_at_work_is_waited_for(postgresql_url: str) -> None:
    with open_arena(postgresql_url) as arena, psycopg.connect(postgresql_url) as busy:
        arena.append(catalog())
        busy.execute(LOCK, (WRITER_LOCK,))
        began = time.monotonic()
        working = threading.Thread(target=lambda: (busy.execute("SELECT pg_sleep(4.5)"), busy.commit()))
        working.start()
        play(arena, 1)
        assert time.monotonic() - began > 4.0
        working.join(60)
        assert busy.execute("SELECT 1").fetchone() == (1,)
    assert verify(postgresql_url).votes == 1


def test_what_comes_while_the_lock_is_waited_for_joins_the_group_and_what_is_late_by_then_is_not_done(
    arena_url: str,
) -> None:
    with open_arena(arena_url) as arena:
        arena.append(catalog())
        store = Store.open(arena_url)
        late = ServeMatchup("late")
        late.deadline = time.monotonic() + 0.2
        with store.database.write(lock=True):
            first = arena.submit(ServeMatchup("first"))
            give_up = time.monotonic() + 60
            while not arena.load().group_seconds and time.monotonic() < give_up:
                time.sleep(0.01)
            refused, second = arena.submit(late), arena.submit(ServeMatchup("second"))
            time.sleep(max(0.0, late.deadline - time.monotonic()) + 0.05)
        store.close()
        assert first.result(60).matchup_id != second.result(60).matchup_id
        with pytest.raises(TooBusy):
            refused.result(60)
    served = sql(arena_url, "SELECT voter, served_at FROM matchups ORDER BY seq")
    assert [voter for voter, _ in served] == ["first", "second"]
    assert served[0][1] == served[1][1], "one group has one time"


def test_a_lock_of_another_number_is_left_alone(postgresql_url: str) -> None:
    with open_arena(postgresql_url) as arena, psycopg.connect(postgresql_url) as other:
        other.execute(LOCK, (WRITER_LOCK + 1,))
        arena.append(catalog())
        play(arena, 1)
        assert other.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_two_writers_refuse_nothing_whatever_isolation_the_database_has_by_default(
    postgresql_url: str, level: str
) -> None:
    with psycopg.connect(postgresql_url, autocommit=True) as operator:
        name = operator.info.dbname
        operator.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation TO '{level}'")
    with open_arena(postgresql_url) as one, open_arena(postgresql_url, seed=2) as two:
        one.append(catalog())
        jobs = [(arena, f"{name}-{number}") for name, arena in (("one", one), ("two", two)) for number in range(3)]
        with ThreadPoolExecutor(len(jobs)) as pool:
            for done in [pool.submit(vote_often, arena, voter, 15) for arena, voter in jobs]:
                done.result(240)
    assert verify(postgresql_url).votes == 90
    assert_one_order(postgresql_url)


def test_a_log_whose_end_was_taken_away_meanwhile_is_not_continued(arena_url: str) -> None:
    """A restored older backup, for one: what this process knows is no longer in the log."""
    with open_arena(arena_url) as arena:
        arena.append(catalog())
        play(arena, 2)
        store = Store.open(arena_url)
        with store.database.write(lock=True) as connection:
            last = connection.value("SELECT max(seq) FROM events")
            connection.execute("DELETE FROM events WHERE seq = ?", last)
        store.close()
        with pytest.raises(StoreError, match=f"event {last} of the log is another one than before"):
            arena.serve("ann")


def test_a_vote_on_the_other_writers_matchup_is_taken(arena_url: str) -> None:
    with open_arena(arena_url) as one, open_arena(arena_url, seed=2) as two:
        one.append(catalog())
        served = one.serve("ann")
        receipt = two.vote(served.matchup_id, "ann", e.Choice.TIE)
        assert msgspec.structs.asdict(one.vote(served.matchup_id, "ann", e.Choice.TIE)) == msgspec.structs.asdict(
            receipt
        )
    assert verify(arena_url).votes == 1
