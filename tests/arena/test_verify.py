"""Whoever changes an arena's database by hand is found out, and told where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import pytest

from tests.arena.databases import reading_above_the_store
from tests.arena.engines import catalog, open_arena, play, sql
from tiltyard.arena import events as e
from tiltyard.arena.chain import link_event, new_salts
from tiltyard.arena.commands import ExplainVote
from tiltyard.arena.heads import Head, HeadFile, new_key
from tiltyard.arena.service import clock
from tiltyard.arena.store import Store, log
from tiltyard.arena.store.checkpoints import keep_checkpoint, load_state
from tiltyard.arena.store.files import CleanFile
from tiltyard.arena.store.matchups import COLUMNS
from tiltyard.arena.store.verify import Verification, rebuild, verify
from tiltyard.arena.store.witnessing import record_head, state_head
from tiltyard.errors import ArenaError, StoreError

PICTURE = CleanFile(content=bytes(range(256)) * 2000, media_type="image/png")


@pytest.fixture(scope="module")
def played(shared_url: str) -> str:
    """An arena with a few votes: one undone, one revealed late, one excluded, one explained; a file, a checkpoint."""
    with open_arena(shared_url) as arena:
        arena.append(catalog())
        votes = play(arena, 23)
        undone, revealed = arena.serve("ann").matchup_id, arena.serve("ann").matchup_id
        for name in (undone, revealed):
            arena.vote(name, "ann", e.Choice.A, reveal=False)
        arena.undo(undone, "ann")
        arena.reveal(revealed, "ann")
        arena.submit(ExplainVote(revealed, "ann", (), "Shorter.")).result()
        with arena.store.database.write(lock=True) as connection:
            keep_checkpoint(connection, load_state(connection)[0])
        arena.append([e.Excluded(matchup_ids=(votes[3][0],), reason="test")])
        arena.skip(arena.serve("bob").matchup_id, "bob")
        drawn = e.PromptAdded(prompt_id="drawn", text="Draw.")
        image = e.ResponseAdded(
            response_id="d0", model="m0", prompt_id="drawn", text="a", answer_kind="image", file=PICTURE.sha256
        )
        arena.append([drawn, image], [PICTURE])
        arena.serve("somebody")
    assert check(shared_url).clean
    return shared_url


@pytest.fixture
def played_url(played: str, copied_arena: Callable[[str], str]) -> str:
    """The same, to be spoilt."""
    return copied_arena(played)


def check(url: str) -> Verification:
    """The findings, which do not depend on how much of the log is read at once."""
    found = verify(url)
    with patch.object(log, "PAGE", 7):
        assert verify(url).problems == found.problems
    return found


def said(url: str) -> list[str]:
    return [str(problem) for problem in check(url).problems]


def a_vote(url: str) -> int:
    """The number of a vote for A."""
    query = "SELECT seq FROM events WHERE kind = 'voted' AND body LIKE '%\"A\"%' ORDER BY seq LIMIT 1"
    return int(str(sql(url, query)[0][0]))


BROKEN = "the hash does not fit: event, time, salt, order or hash was changed"


def test_findings_of_an_untouched_arena_say_how_much_was_checked(played: str) -> None:
    found = check(played)
    assert (found.votes, found.more_problems, found.since) == (23, 0, 0)
    assert [found.head] == sql(played, "SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1")
    assert found.events == found.head[0]


def test_a_changed_event_breaks_the_chain_at_its_number_and_no_longer_fits_its_row(played_url: str) -> None:
    seq = a_vote(played_url)
    sql(played_url, f"UPDATE events SET body = replace(body, '\"A\"', '\"B\"') WHERE seq = {seq}")
    chain, *others = said(played_url)
    assert chain == f"events, number {seq}: {BROKEN}"
    assert any(line.startswith("matchups, id ") and line.endswith(": not as the log says: choice")
               for line in others)  # fmt: skip
    with pytest.raises(StoreError, match="the log is broken after number"):
        rebuild(played_url)


@reading_above_the_store
@pytest.mark.parametrize(
    "change", ["at = at + 1", f"salt = '{new_salts(1)[0]}'", f"hash = '{'a' * 64}'"], ids=["time", "salt", "hash"]
)
def test_a_changed_time_salt_or_hash_breaks_the_chain_there(played_url: str, change: str) -> None:
    sql(played_url, f"UPDATE events SET {change} WHERE seq = 10")
    assert said(played_url)[0] == f"events, number 10: {BROKEN}"


@reading_above_the_store
def test_whoever_forges_an_event_and_its_own_hash_breaks_the_chain_at_the_next_number(played_url: str) -> None:
    """Number 10 gets another time and the hash that fits it; number 11 was chained to the hash that was there."""
    ((previous,),) = sql(played_url, "SELECT hash FROM events WHERE seq = 9")
    ((at, text, salt),) = sql(played_url, "SELECT at, body, salt FROM events WHERE seq = 10")
    forged = link_event(str(previous), 10, int(str(at)) + 1, str(text), str(salt))
    sql(played_url, f"UPDATE events SET at = at + 1, hash = '{forged}' WHERE seq = 10")
    assert said(played_url) == [f"events, number 11: {BROKEN}"]


@reading_above_the_store
def test_a_missing_event_is_named(played_url: str) -> None:
    sql(played_url, "DELETE FROM events WHERE seq = 30")
    assert said(played_url)[0] == "events, number 30: is missing; 31 comes next"
    with pytest.raises(StoreError, match="the log is broken"):
        rebuild(played_url)


@reading_above_the_store
def test_events_in_another_order_are_found(played_url: str) -> None:
    for seq, new in ((2, -1), (3, 2), (-1, 3)):
        sql(played_url, f"UPDATE events SET seq = {new} WHERE seq = {seq}")
    assert said(played_url)[:2] == [f"events, number {seq}: {BROKEN}" for seq in (2, 3)]


@reading_above_the_store
def test_a_log_that_was_cut_is_found_by_whoever_kept_a_head_and_by_the_rows_that_it_left(played_url: str) -> None:
    kept = Head(*check(played_url).head)
    assert verify(played_url, [kept]).clean
    sql(played_url, f"DELETE FROM events WHERE seq > {kept.seq - 1}")
    assert [problem.table for problem in check(played_url).problems] == ["matchups"]
    assert f"the log ends with number {kept.seq - 1}: it was cut" in str(verify(played_url, [kept]).problems[0])
    rebuild(played_url)
    assert check(played_url).clean
    assert [problem.table for problem in verify(played_url, [kept]).problems] == ["head"]


VOTED = "(SELECT id FROM (SELECT id FROM matchups WHERE status = 'voted' ORDER BY seq LIMIT 1) AS one)"
EXCLUDED = "(SELECT id FROM (SELECT id FROM matchups WHERE status = 'voted' AND counts = 0) AS one)"
CHANGES = {
    **{name: f"{name} = {name} + 1" for name in ("seq", "a", "b", "prompt", "asked", "answer_a", "answer_b")},
    **{name: f"{name} = {name} + 1" for name in ("served_at", "expires_at", "closed_at", "vote_seq", "vote_at")},
    **{name: f"{name} = 'other'" for name in ("voter", "block", "vote_block", "lane", "unrendered")},
    "choice": "choice = CASE choice WHEN 'A' THEN 'B' ELSE 'A' END",
    "undo_until": "undo_until = 1",
    "status": "status = 'skipped'",
    "counts": "counts = 0",
}


def test_every_column_of_a_matchup_that_was_changed_is_named_and_can_be_made_again(played_url: str) -> None:
    assert {"id", *CHANGES} == set(COLUMNS)
    for column, change in CHANGES.items():
        ((name,),) = sql(played_url, f"SELECT id FROM matchups WHERE id = {VOTED}")
        sql(played_url, f"UPDATE matchups SET {change} WHERE id = '{name}'")
        assert f"matchups, id {name}: not as the log says: {column}" in said(played_url)
        rebuild(played_url)
    assert check(played_url).clean


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (f"UPDATE matchups SET counts = 1 WHERE id = {EXCLUDED}", "not as the log says: counts"),
        (
            "UPDATE matchups SET status = 'voted', counts = 1 WHERE status = 'undone'",
            "not as the log says: status, counts",
        ),
        ("UPDATE matchups SET status = 'expired' WHERE status = 'skipped'", "not as the log says: status"),
        ("UPDATE matchups SET lane = 'coverage' WHERE status = 'open'", "not as the log says: lane"),
        (f"DELETE FROM matchups WHERE id = {VOTED}", "is missing"),
        ("DELETE FROM matchups WHERE status = 'open'", "is missing"),
    ],
)
@reading_above_the_store
def test_a_changed_or_missing_matchup_is_named_and_can_be_made_again(played_url: str, change: str, what: str) -> None:
    sql(played_url, change)
    (line,) = said(played_url)
    assert line.startswith("matchups, id ")
    assert what in line
    rebuild(played_url)
    assert check(played_url).clean


def test_a_matchup_from_nowhere_is_named(played_url: str) -> None:
    copied = ", ".join("NULL" if column == "vote_seq" else column for column in COLUMNS[1:])
    sql(played_url, f"INSERT INTO matchups SELECT 'forged', {copied} FROM matchups WHERE id = {VOTED}")
    assert said(played_url) == ["matchups, id forged: does not follow from the log"]
    rebuild(played_url)
    assert check(played_url).clean


@reading_above_the_store
def test_many_differences_are_counted_beyond_the_first_few(played_url: str) -> None:
    sql(played_url, "UPDATE matchups SET lane = 'because'")
    found = check(played_url)
    assert (len(found.problems), found.more_problems) == (20, 7)


@pytest.mark.parametrize("change", ["seq = seq + 1", "state = substr(state, 2)"], ids=["of elsewhere", "spoilt"])
@reading_above_the_store
def test_a_checkpoint_that_is_not_the_state_there_is_named(played_url: str, change: str) -> None:
    sql(played_url, f"UPDATE checkpoints SET {change}")
    (line,) = said(played_url)
    assert line.startswith("checkpoints, seq ")
    assert line.endswith("differs from what the log says")
    rebuild(played_url)
    assert check(played_url).clean


@reading_above_the_store
def test_a_checkpoint_beyond_the_end_of_the_log_is_named(played_url: str) -> None:
    sql(played_url, "UPDATE checkpoints SET seq = 1000000")
    assert said(played_url) == ["checkpoints, seq 1000000: does not follow from the log"]


def test_a_changed_comment_is_named_and_a_deleted_one_is_nobodys_business(played_url: str) -> None:
    sql(played_url, "UPDATE comments SET comment = 'Longer.'")
    (line,) = said(played_url)
    assert line.startswith("comments, ")
    sql(played_url, "DELETE FROM comments")
    assert check(played_url).clean


def test_a_changed_shortened_or_missing_file_is_named(played_url: str) -> None:
    shown = f"files, sha256 {PICTURE.sha256[:16]}…: "
    sql(played_url, "UPDATE files SET size = size + 1")
    assert said(played_url) == [f"{shown}has 512000 bytes, not 512001"]
    sql(played_url, "DELETE FROM file_parts WHERE number = 1")
    assert said(played_url) == [f"{shown}its bytes were changed: they have another hash"]
    sql(played_url, "DELETE FROM files")
    assert said(played_url) == [f"{shown}is missing: answers name it"]


def signed_head(url: str) -> tuple[Head, HeadFile]:
    """The head of the arena now, signed, as `tiltyard arena head` keeps it."""
    store = Store.open(url)
    head, file = state_head(store, clock(), pem=new_key()[0])
    record_head(store, head, clock(), file)
    store.close()
    return head, file


def test_verifying_since_a_signed_head_finds_what_came_after_it_and_reads_nothing_before(played_url: str) -> None:
    head, file = signed_head(played_url)
    assert isinstance(file.stated.state, str)
    start = (head, file.stated.state)
    with open_arena(played_url) as arena:
        older = sql(played_url, "SELECT id FROM matchups WHERE status = 'voted' ORDER BY seq LIMIT 1")[0][0]
        arena.append([e.Excluded(matchup_ids=(str(older),), reason="test")])
        play(arena, 4)
    found = verify(played_url, (), *start)
    assert found.clean
    assert found == replace(verify(played_url), since=head.seq)
    sql(played_url, "UPDATE events SET at = at + 1 WHERE seq = 10")
    assert verify(played_url, (), *start).clean
    assert not verify(played_url).clean
    sql(played_url, f"UPDATE events SET at = at + 1 WHERE seq = {head.seq + 3}")
    sql(played_url, f"UPDATE matchups SET counts = 1 WHERE id = '{older}'")
    lines = [str(problem) for problem in verify(played_url, (), *start).problems]
    assert f"events, number {head.seq + 3}: {BROKEN}" in lines
    assert f"matchups, id {older}: not as the log says: counts" in lines


def test_a_start_that_was_not_signed_or_was_rewritten_is_refused_or_named(played_url: str) -> None:
    head, file = signed_head(played_url)
    assert isinstance(file.stated.state, str)
    with pytest.raises(ArenaError, match="there is no checkpoint"):
        verify(played_url, (), replace(head, seq=3), file.stated.state)
    with pytest.raises(ArenaError, match="is not the one that was signed"):
        verify(played_url, (), head, "0" * 64)
    other = verify(played_url, (), replace(head, hash="b" * 64), file.stated.state)
    assert next((problem.table, problem.where) for problem in other.problems) == ("head", f"number {head.seq}")


def test_checkpoints_of_signed_heads_are_kept(played_url: str) -> None:
    head, _ = signed_head(played_url)
    with open_arena(played_url) as arena:
        for _ in range(3):
            play(arena, 2)
            with arena.store.database.write(lock=True) as connection:
                keep_checkpoint(connection, load_state(connection)[0])
    numbers = [seq for (seq,) in sql(played_url, "SELECT seq FROM checkpoints ORDER BY seq")]
    assert numbers[0] == head.seq
    assert len(numbers) == 3
    assert check(played_url).clean
