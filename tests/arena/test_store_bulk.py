"""Statements straight to the driver, on both databases: rows arrive as they were, and failures are told as ever."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tiltyard.arena.store import Store, log
from tiltyard.arena.store.bulk import PIECES, fetch, insert_numbered, insert_rows, one_of, update_rows
from tiltyard.arena.store.tables import chain, events, matchups, standings
from tiltyard.errors import StoreError

AWKWARD = (0.1 + 0.2, 1e-300, 5e-324, 1.7976931348623157e308, 2.0**-1074 * 3, 1 / 3)


def matchup_row(name: str, probability: float = 0.5, seed: int = 1) -> tuple[object, ...]:
    texts = ("r'1", 'r"2', "coverage", "é \\ 漢 \u2028", probability, seed)
    return (name, "voter", 1, 2, 3, *texts, 4, 5, "open", None, None, None, "b", "")


@pytest.fixture
def store(arena_url: str) -> Store:
    return Store.open(arena_url)


def test_texts_whole_numbers_and_floats_arrive_to_the_last_bit(store: Store) -> None:
    rows = [matchup_row(f"m{i}", value, 2**63 - 1 - i) for i, value in enumerate(AWKWARD)]
    with store.database.write() as connection:
        insert_rows(connection, matchups, rows)
        assert fetch(connection, sa.select(matchups).order_by(matchups.c.id)) == rows
    store.close()


@pytest.mark.parametrize("count", [0, 1, 3, PIECES[0] - 1, PIECES[0], 2 * PIECES[0] + 21])
def test_numbered_rows_get_growing_numbers_in_their_order_however_many_they_are(store: Store, count: int) -> None:
    with store.database.write() as connection:
        before = insert_numbered(connection, events, [(0, "kind", "before", "salt")])
        ids = insert_numbered(connection, events, [(i, "kind", f"body {i}", None) for i in range(count)])
        assert ids == sorted(ids)
        assert not ids or ids[0] > before[0]
        found = fetch(connection, sa.select(events.c.id, events.c.body).where(one_of(events.c.id, "ids")), {"ids": ids})
        assert sorted(found) == [(number, f"body {i}") for i, number in enumerate(ids)]
    store.close()


def test_only_rows_that_stand_as_they_were_seen_are_changed_and_counted(store: Store) -> None:
    with store.database.write() as connection:
        insert_rows(connection, matchups, [matchup_row(name) for name in ("a", "b", "c")])
        changed = update_rows(
            connection,
            matchups,
            ("id", "status"),
            ("status", "choice", "closed_at"),
            [("a", "open", "voted", "A", 9), ("b", "skipped", "voted", "B", 9), ("d", "open", "voted", "B", 9)],
        )
        query = sa.select(matchups.c.id, matchups.c.status, matchups.c.choice).order_by(matchups.c.id)
        assert changed == 1
        assert fetch(connection, query) == [("a", "voted", "A"), ("b", "open", None), ("c", "open", None)]
    store.close()


def test_floats_that_are_changed_arrive_to_the_last_bit(store: Store) -> None:
    with store.database.write() as connection:
        insert_rows(connection, standings, [(i, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0) for i in range(len(AWKWARD))])
        update_rows(connection, standings, ("model",), ("rating",), list(enumerate(AWKWARD)))
        found = fetch(connection, sa.select(standings.c.rating).order_by(standings.c.model))
        assert [value.hex() for (value,) in found] == [value.hex() for value in AWKWARD]
    store.close()


def test_names_of_a_list_are_values_and_never_part_of_the_statement(store: Store) -> None:
    odd = ["a' OR '1'='1", '"]', "\\", "漢", ""]
    query = sa.select(matchups.c.id).where(one_of(matchups.c.id, "ids")).order_by(matchups.c.id)
    with store.database.write() as connection:
        insert_rows(connection, matchups, [matchup_row(name) for name in ("plain", *odd[:3])])
        assert {name for (name,) in fetch(connection, query, {"ids": odd})} == set(odd[:3])
        assert fetch(connection, query, {"ids": []}) == []
    store.close()


def test_a_statement_that_fails_is_one_clear_line_and_leaves_nothing(store: Store) -> None:
    def twice() -> None:
        with store.database.write() as connection:
            insert_rows(connection, matchups, [matchup_row("twice")])
            insert_rows(connection, matchups, [matchup_row("twice")])

    with pytest.raises(StoreError, match=r"cannot write to .*Nothing was saved"):
        twice()
    with store.database.read() as connection:
        assert fetch(connection, sa.select(matchups.c.id)) == []
    store.close()


def test_looking_for_pending_events_does_not_go_through_the_log(sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    with store.database.read() as connection:
        asked = log._unchained.compile(connection.engine, compile_kwargs={"literal_binds": True})
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked}").all()
    assert [row[3] for row in plan if "SCAN" in row[3]] == ["SCAN pending"]
    store.close()


def test_an_empty_log_has_no_head(store: Store) -> None:
    with store.database.write() as connection:
        assert log.head(connection)[0] == 0
        insert_rows(connection, chain, [(1, 1, "first"), (2, 2, "second")])
        assert log.head(connection) == (2, "second")
    store.close()
