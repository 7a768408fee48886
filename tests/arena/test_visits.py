"""Limits and visits when many come at once: never more than allowed, on either database, with one worker or two."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date

import pytest

from tests.arena.databases import rule_above_the_store
from tests.arena.engines import SECOND, START, Clock, catalog, open_arena, sql
from tests.forked import PATIENCE_SECONDS
from tiltyard.arena import DAY, Arena, Choice, TooMany
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.rules.policy import RetentionRules
from tiltyard.arena.rules.randomness import random_id, random_seed
from tiltyard.arena.store import Quota, QuotaCounter, Store, forget_cookie, load_votes, site_texts, tidy
from tiltyard.arena.writing import commands
from tiltyard.errors import StoreError

PERIOD = RetentionRules().network_days * DAY


@contextmanager
def workers(url: str) -> Iterator[tuple[Arena, Arena]]:
    """Two workers on PostgreSQL; on SQLite, which has one writer, the same one twice."""
    with open_arena(url) as one:
        if one.store.database.is_sqlite:
            yield one, one
            return
        with open_arena(url) as other:
            yield one, other


def outcome(future: Future[str]) -> str:
    """What somebody was told: a key, or that it was too much."""
    try:
        return future.result(PATIENCE_SECONDS)
    except TooMany:
        return "too many"


def test_a_quota_that_one_worker_is_using_makes_the_other_wait_and_see_it(postgresql_url: str) -> None:
    """The race itself: whoever counts has the lock of the log, so nobody looks before the other has noted."""
    quota, name = Quota("matchup:address:192.0.2.1", 1, 60), "matchup:address:192.0.2.1"
    one, other = Store.open(postgresql_url), Store.open(postgresql_url)

    def look() -> int:
        with other.database.write(lock=True) as connection:
            return QuotaCounter().used(connection, [quota], START)[name]

    with ThreadPoolExecutor(1) as pool:
        with one.database.write(lock=True) as connection:
            mine = QuotaCounter()
            assert mine.used(connection, [quota], START)[name] == 0
            found = pool.submit(look)
            time.sleep(0.2)
            assert not found.done()
            mine.note(connection, [quota], START)
        assert found.result(30) == 1
    one.close()
    other.close()


def test_a_quota_that_is_used_up_says_to_the_second_when_it_allows_one_more(arena_url: str) -> None:
    """Two in 60 seconds, in slots of 5 seconds that count for 65: used at 0 and 30, it is free again at 65."""
    usage, quota, other = QuotaCounter(), Quota("votes:ann", 2, 60), Quota("votes:bob", 2, 60)
    with open_arena(arena_url) as arena, arena.store.database.write() as connection:
        for second in (0, 30):
            usage.note(connection, [quota], second * SECOND)
        usage.note(connection, [other], 50 * SECOND)
        seconds = (40.0, 40.5, 64.0, 64.9)
        assert [usage.free_in(connection, quota, int(now * SECOND)) for now in seconds] == [25, 25, 1, 1]
        used = [usage.used(connection, [quota], now * SECOND)[quota.name] for now in (30, 64, 65, 94, 95)]
        assert used == [2, 2, 1, 1, 0]
        assert usage.free_in(connection, Quota("votes:ann", 1, 60), 64 * SECOND) == 31
        usage.note(connection, [quota, quota], 30 * SECOND)  # the same slot again: four in all, three of them at 30
        assert usage.free_in(connection, quota, 40 * SECOND) == 55


def test_two_workers_never_serve_more_than_a_limit_allows(arena_url: str) -> None:
    most = 5
    quota = (Quota("matchup:session:ann", most, 3600),)
    with workers(arena_url) as (one, other):
        one.append(catalog())
        asked = [arena.submit(commands.ServeMatchup("ann", quotas=quota)) for _ in range(12) for arena in (one, other)]
        errors = [future.exception(30) for future in asked]
    assert sum(error is None for error in errors) == most
    assert {type(error) for error in errors if error is not None} == {TooMany}
    assert len(sql(arena_url, "SELECT id FROM matchups")) == most


def test_two_workers_never_let_in_more_new_visitors_than_an_address_may_bring(arena_url: str) -> None:
    quota = (Quota("session:address:192.0.2.1", 4, 3600),)
    with workers(arena_url) as (one, other):
        asked = [
            arena.submit(commands.EnterVoter(f"cookie-{number}-{name}", quotas=quota))
            for number in range(8)
            for name, arena in (("one", one), ("other", other))
        ]
        told = [outcome(future) for future in asked]
    assert told.count("too many") == 12
    kept = {str(row[0]) for row in sql(arena_url, "SELECT voter FROM voters")}
    assert kept == set(told) - {"too many"}


def test_one_cookie_in_many_first_requests_is_one_visitor_and_one_session(arena_url: str) -> None:
    quota = (Quota("session:address:192.0.2.1", 1, 3600),)
    with workers(arena_url) as (one, other):
        asked = [
            arena.submit(commands.EnterVoter("a-cookie", quotas=quota)) for _ in range(10) for arena in (one, other)
        ]
        told = {outcome(future) for future in asked}
        assert len(told) == 1
        assert outcome(one.submit(commands.EnterVoter("another", quotas=quota))) == "too many"
        assert {outcome(other.submit(commands.EnterVoter("a-cookie", quotas=quota)))} == told
    assert told == {str(row[0]) for row in sql(arena_url, "SELECT voter FROM voters")}
    assert sql(arena_url, "SELECT sum(count) FROM counters") == [(1,)]


def secrets_of(store: Store) -> str:
    return site_texts.site_secrets(store, "", date(2026, 5, 3))


def test_every_worker_finds_the_same_secret_and_keeps_it(arena_url: str) -> None:
    stores = [Store.open(arena_url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(secrets_of, stores))
    assert len(found) == 1
    assert len(found.pop()) >= 43  # 6 bits a letter: 256 bits
    site_texts.set_site_text(stores[0], "notice", "hello")
    assert site_texts.site_text(stores[0], "notice") == "hello"
    assert len(set(map(secrets_of, stores))) == 1
    for store in stores:
        store.close()


def test_no_error_of_the_database_repeats_what_was_to_be_written(arena_url: str) -> None:
    store, text = Store.open(arena_url), "never-to-be-seen"
    site_texts.set_site_text(store, "notice", "hello")
    with pytest.raises(StoreError) as caught, store.database.write() as connection:
        connection.execute("INSERT INTO site_texts VALUES (?, ?)", "notice", text)
    assert text not in "".join(traceback.format_exception(caught.value))
    store.close()


def cast(arena: Arena, served_in: str, voted_in: str) -> tuple[str, str]:
    """The keys of the blocks that a matchup was served to and its vote came from, as the table holds them."""
    served = arena.serve("ann", block=served_in)
    arena.vote(served.matchup_id, "ann", Choice.A, block=voted_in)
    with arena.store.database.read() as connection:
        found = connection.one("SELECT block, vote_block FROM matchups WHERE id = ?", served.matchup_id)
    assert found is not None
    return found[0], found[1]


@rule_above_the_store
def test_a_block_has_one_random_key_in_the_log_which_changes_every_week(arena_url: str) -> None:
    clock = Clock(START // PERIOD * PERIOD)
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        home, again = cast(arena, "home", "home")
        assert home == again == cast(arena, "home", "")[1] != ""
        assert cast(arena, "", "") == ("", "")
        office, moved = cast(arena, "office", "home")
        assert moved == home != office
    with open_arena(arena_url, clock) as arena:  # another process, with nothing in memory
        assert cast(arena, "home", "office") == (home, office)
        clock.turn(PERIOD / SECOND)
        later, _ = cast(arena, "home", "home")
        assert later not in ("", home, office)
        tidy(arena.store, clock())
        with arena.store.database.read() as connection:
            assert connection.rows("SELECT key FROM address_blocks") == [(later,)]
            assert connection.value("SELECT count(*) FROM address_keys") == 1
    assert verify(arena_url).clean
    bodies = " ".join(str(body) for (body,) in sql(arena_url, "SELECT body FROM events"))
    assert "home" not in bodies
    assert bodies.count(f'"block":"{home}"') == 4  # a vote that came from where it was served repeats no key


def test_two_workers_give_a_new_block_the_same_key(arena_url: str) -> None:
    with workers(arena_url) as (one, other):
        one.append(catalog())
        asked = [arena.submit(commands.ServeMatchup("ann", block="home")) for _ in range(8) for arena in (one, other)]
        for future in asked:
            future.result(PATIENCE_SECONDS)
    assert len({block for (block,) in sql(arena_url, "SELECT block FROM matchups")}) == 1


def test_another_worker_reads_the_key_of_a_block_again_after_somebody_there_was_forgotten(arena_url: str) -> None:
    quota = (Quota("matchup:address:60:home", 1000, 60, hidden=True),)
    with open_arena(arena_url) as one, open_arena(arena_url) as other:
        one.append(catalog())
        ann = one.voter("cookie-of-ann")
        blocks = []
        for arena, forgets in ((one, False), (other, False), (one, True), (other, False)):
            if forgets:
                forget_cookie(arena.store, "cookie-of-ann")
            name = arena.serve("bob" if forgets else ann, quota, block="home").matchup_id
            blocks += [row[0] for row in sql(arena_url, f"SELECT block FROM matchups WHERE id = '{name}'")]
    assert blocks[0] == blocks[1] != blocks[2] == blocks[3]


def test_a_vote_table_knows_the_block_of_each_vote(sqlite_url: str) -> None:
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        keys = [cast(arena, name, name)[1] for name in ("", "home", "office", "home")]
        with arena.store.database.read() as connection:
            state, votes, _ = load_votes(connection)
    table = votes.table(state.catalog)
    assert table.blocks == (keys[1], keys[2])
    assert table.block.tolist() == [-1, 0, 1, 0]


def test_a_hidden_quota_is_stored_hashed_with_a_key_of_the_day_and_counts_over_midnight(arena_url: str) -> None:
    quota = Quota("vote:address:86400:a-network", 3, 86_400, hidden=True)
    store, one, other = Store.open(arena_url), QuotaCounter(), QuotaCounter()
    evening = START // DAY * DAY + 23 * 3600 * SECOND
    with store.database.write() as connection:
        one.note(connection, [quota, quota], evening)
        other.note(connection, [quota], evening + 2 * 3600 * SECOND)
    names = {str(key) for (key,) in sql(arena_url, "SELECT key FROM counters")}
    assert len(names) == 2, "yesterday's name and today's"
    assert not any("a-network" in name for name in names)
    with store.database.write() as connection:
        assert QuotaCounter().used(connection, [quota], evening + 3 * 3600 * SECOND)[quota.name] == 3
        assert one.free_in(connection, quota, evening + 3 * 3600 * SECOND) <= 23 * 3600
        assert QuotaCounter().used(connection, [quota], evening + 27 * 3600 * SECOND)[quota.name] == 0
    done = tidy(store, evening + 4 * DAY)
    assert (done.counts, done.keys) == (2, 2)
    with store.database.write() as connection:
        assert QuotaCounter().used(connection, [quota], evening + 4 * DAY)[quota.name] == 0
    store.close()


def test_who_was_not_here_for_long_is_forgotten_and_the_votes_stay(arena_url: str) -> None:
    clock = Clock(START)
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        gone, back = arena.voter("cookie-one"), arena.voter("cookie-two")
        for voter in (gone, back):
            arena.vote(arena.serve(voter).matchup_id, voter, Choice.A)
        clock.turn(300 * DAY / SECOND)
        arena.serve(back)
        clock.turn(101 * DAY / SECOND)
        assert tidy(arena.store, clock()).voters == 0, "nobody is forgotten unless it is said"
        assert tidy(arena.store, clock(), RetentionRules()).voters == 1
        assert arena.store.known_voter("cookie-one") is None
        assert arena.store.known_voter("cookie-two") == back
    assert verify(arena_url).votes == 2
    assert verify(arena_url).clean


def test_no_two_processes_draw_the_same_ids() -> None:
    """Ids are drawn ahead; a forked worker must not inherit those that are left."""
    ids = {random_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert {len(name) for name in ids} == {24}
    assert all(0 <= random_seed() < 2**62 for _ in range(600))
    context = multiprocessing.get_context("fork")
    with context.Pool(1) as pool:
        theirs = pool.apply(draw_ids, (300,))
    assert not ids.union(draw_ids(300)) & set(theirs)


def draw_ids(count: int) -> list[str]:
    return [random_id() for _ in range(count)]
