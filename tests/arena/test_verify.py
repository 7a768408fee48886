"""Whoever changes an arena's database by hand is found out, and told where."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from tests.arena.databases import reading_above_the_store
from tests.arena.engines import catalog, open_arena, play, sql
from tiltyard.arena import events as e
from tiltyard.arena.chain import chain_hash, link_event
from tiltyard.arena.store import Store, state_bytes
from tiltyard.arena.store.tables import checkpoints
from tiltyard.arena.store.verify import Verification, rebuild, verify
from tiltyard.errors import StoreError


@pytest.fixture(scope="module")
def played(shared_url: str) -> str:
    """An arena with a few votes, one of them undone, one revealed late, one excluded."""
    with open_arena(shared_url, checkpoint_every=40) as arena:
        arena.append(catalog())
        votes = play(arena, 23)
        undone, revealed = arena.serve("ann").matchup_id, arena.serve("ann").matchup_id
        for name in (undone, revealed):
            arena.vote(name, "ann", e.Choice.A, reveal=False)
        arena.undo(undone, "ann")
        arena.reveal(revealed, "ann")
        arena.append([e.Excluded(matchup_ids=(votes[3][0],), reason="test")])
        arena.serve("somebody")
    assert check(shared_url).clean
    return shared_url


@pytest.fixture
def played_url(played: str, copied_arena: Callable[[str], str]) -> str:
    """The same, to be spoilt."""
    return copied_arena(played)


def check(url: str) -> Verification:
    return verify(url, checkpoint_every=40)


def tables(found: Verification) -> set[str]:
    return {problem.table for problem in found.problems}


def test_findings_of_an_untouched_arena_say_how_much_was_checked(played_url: str) -> None:
    found = check(played_url)
    assert (found.votes, found.unchained, found.more_problems) == (23, 0, 0)
    assert found.events == found.head[0] == sql(played_url, "SELECT max(seq) FROM chain")[0][0]
    assert found.head[1] == sql(played_url, f"SELECT hash FROM chain WHERE seq = {found.events}")[0][0]


def test_a_changed_vote_breaks_the_chain_at_its_number(played_url: str) -> None:
    event_id, seq = sql(
        played_url,
        "SELECT id, seq FROM events JOIN chain ON id = event_id WHERE kind = 'voted' AND body LIKE '%\"A\"%' LIMIT 1",
    )[0]
    sql(played_url, f"UPDATE events SET body = replace(body, '\"A\"', '\"B\"') WHERE id = {event_id}")
    found = check(played_url)
    assert any(problem.table == "chain" and problem.where == f"number {seq}" for problem in found.problems)
    assert {"votes", "matchups", "standings"} <= tables(found)
    with pytest.raises(StoreError, match=f"number {seq}"):
        rebuild(played_url)


@reading_above_the_store
def test_a_changed_time_breaks_the_chain(played_url: str) -> None:
    sql(played_url, "UPDATE events SET at = at + 1 WHERE id = (SELECT event_id FROM chain WHERE seq = 30)")
    assert "chain, number 30" in str(check(played_url).problems[0])


def test_a_checkpoint_of_an_earlier_version_is_passed_over_and_a_spoilt_one_is_not(
    played_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_bytes, "VERSION", state_bytes.VERSION - 1)
    rebuild(played_url, checkpoint_every=40)
    monkeypatch.undo()
    assert check(played_url).clean
    with open_arena(played_url, checkpoint_every=40) as arena:
        assert arena.read(lambda state: len(state.catalog.prompt_off_at)) > 0
    store = Store.open(played_url)
    with store.database.write() as connection:
        connection.execute(sa.update(checkpoints).values(state=b"spoilt"))
    store.close()
    assert tables(check(played_url)) == {"checkpoints"}


def test_a_hash_is_of_the_one_before_its_number_its_time_and_its_text() -> None:
    """The first number, by hand: SHA-256 of 64 zeros, 1, 7 and {} on four lines. Any other ingredient, another hash."""
    assert chain_hash("0" * 64, 1, 7, "{}") == hashlib.sha256(b"0" * 64 + b"\n1\n7\n{}").hexdigest()
    changed = [("f" * 64, 1, 7, "{}"), ("0" * 64, 2, 7, "{}"), ("0" * 64, 1, 8, "{}"), ("0" * 64, 1, 7, "{ }")]
    assert len({chain_hash("0" * 64, 1, 7, "{}"), *(chain_hash(*parts) for parts in changed)}) == 5


@reading_above_the_store
def test_whoever_forges_an_event_and_its_own_hash_breaks_the_chain_at_the_next_number(played_url: str) -> None:
    """Number 30 gets another time and the hash that fits it; number 31 was chained to the hash that was there."""
    previous, seq, at, text, event_id, salt = sql(
        played_url,
        "SELECT before.hash, c.seq, at, body, id, salt FROM chain c JOIN events ON id = c.event_id"
        " JOIN chain before ON before.seq = c.seq - 1 WHERE c.seq = 30",
    )[0]
    sql(played_url, f"UPDATE events SET at = {at + 1} WHERE id = {event_id}")
    sql(played_url, f"UPDATE chain SET hash = '{link_event(previous, seq, at + 1, text, salt)}' WHERE seq = 30")
    broken = [problem.where for problem in check(played_url).problems if problem.table == "chain"]
    assert broken == ["number 31"]


@reading_above_the_store
def test_a_missing_event_is_named(played_url: str) -> None:
    sql(played_url, "DELETE FROM events WHERE id = (SELECT event_id FROM chain WHERE seq = 30)")
    assert "number 30" in str(check(played_url).problems[0])


@reading_above_the_store
def test_a_missing_place_in_the_chain_is_named(played_url: str) -> None:
    sql(played_url, "DELETE FROM chain WHERE seq = 30")
    found = check(played_url)
    assert "number 30" in str(found.problems[0])
    assert found.unchained == 1
    assert "pending" in tables(found)


@reading_above_the_store
def test_events_in_another_order_are_found(played_url: str) -> None:
    first, second = (sql(played_url, f"SELECT event_id FROM chain WHERE seq = {seq}")[0][0] for seq in (2, 3))
    for seq, event_id in ((2, -1), (3, first), (2, second)):
        sql(played_url, f"UPDATE chain SET event_id = {event_id} WHERE seq = {seq}")
    wrong = [problem.where for problem in check(played_url).problems if problem.table == "chain"]
    assert wrong == ["number 2", "number 3"]


EDITS = [
    ("standings", "UPDATE standings SET rating = rating + 1e-9 WHERE model = 2"),
    ("votes", "UPDATE votes SET standing = 'counted' WHERE standing = 'excluded'"),
    ("votes", "UPDATE votes SET block = '' WHERE block != ''"),
    ("matchups", "UPDATE matchups SET block = 'elsewhere' WHERE block != ''"),
    ("votes", "DELETE FROM votes WHERE seq = (SELECT min(seq) FROM votes)"),
    ("matchups", "UPDATE matchups SET status = 'skipped' WHERE status = 'undone'"),
    ("matchups", "DELETE FROM matchups WHERE status = 'open'"),
    ("models", "UPDATE models SET display_name = 'The best' WHERE number = 1"),
    ("prompts", "UPDATE prompts SET text = 'Other?' WHERE number = 0"),
    ("responses", "UPDATE responses SET text = 'Better.' WHERE response_id = 'r0-0'"),
    ("responses", "INSERT INTO responses VALUES ('zzz', 0, 0, 'from nowhere', 'text', '')"),
    ("changes", "DELETE FROM changes"),
    ("marks", "UPDATE marks SET seq = seq + 1"),
    ("checkpoints", "DELETE FROM checkpoints"),
    ("pending", "INSERT INTO pending VALUES (1)"),
]


@pytest.mark.soak
@pytest.mark.parametrize(("table", "change"), EDITS)
def test_an_edited_projection_is_named_and_can_be_made_again(played_url: str, table: str, change: str) -> None:
    sql(played_url, change)
    found = check(played_url)
    assert tables(found) == {table}
    rebuild(played_url, checkpoint_every=40)
    assert check(played_url).clean


def several() -> list[dict[str, str]]:
    """Every edit, as few edits at once as have no table in common: the first has one of every table."""
    batches: list[dict[str, str]] = []
    for table, change in EDITS:
        free = next((batch for batch in batches if table not in batch), None)
        if free is None:
            batches.append(free := {})
        free[table] = change
    return batches


@pytest.mark.parametrize(
    ("shared_url", "edits"),
    [
        pytest.param(kind, edits, id=f"{kind}-{name}", marks=[pytest.mark.soak] if at and kind != "sqlite" else [])
        for kind in ("sqlite", "postgresql")
        for at, (name, edits) in enumerate(zip(("every table", "three tables", "two tables"), several(), strict=True))
    ],
    indirect=["shared_url"],
    scope="module",
)
def test_edits_of_several_tables_at_once_are_named_and_made_good(played_url: str, edits: dict[str, str]) -> None:
    for change in edits.values():
        sql(played_url, change)
    assert tables(check(played_url)) == set(edits)
    rebuild(played_url, checkpoint_every=40)
    assert check(played_url).clean


@reading_above_the_store
def test_events_that_have_no_place_yet_are_counted_and_are_no_problem(played_url: str) -> None:
    store = Store.open(played_url)
    store.append([e.ModelDisabled(model="m1"), e.ModelEnabled(model="m1")], at=1)
    store.close()
    found = check(played_url)
    assert (found.unchained, found.clean) == (2, True)
    rebuild(played_url, checkpoint_every=40)
    with open_arena(played_url, checkpoint_every=40) as arena:
        arena.serve("somebody")
    assert check(played_url).unchained == 0
    assert check(played_url).clean


@reading_above_the_store
def test_many_differences_are_counted_beyond_the_first_few(played_url: str) -> None:
    sql(played_url, "UPDATE matchups SET reason = 'because'")
    found = check(played_url)
    assert (len(found.problems), found.more_problems) == (20, 6)
