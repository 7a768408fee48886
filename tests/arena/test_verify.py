"""Whoever changes an arena's database by hand is found out, and told where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from tests.arena.databases import reading_above_the_store
from tests.arena.engines import catalog, open_arena, play, sql
from tests.arena.rewriting import chain_anew
from tests.records import replace
from tiltyard.arena import HOUR, ExplainVote, Head, HeadFile, clock, new_key
from tiltyard.arena import events as e
from tiltyard.arena.audit import Verification, state_head
from tiltyard.arena.audit.verify import rebuild, verify
from tiltyard.arena.rules.chain import link_events
from tiltyard.arena.rules.heads import Statement, signed
from tiltyard.arena.store import NewHead, Store, log, record_head
from tiltyard.arena.store.checkpoints import keep_checkpoint, load_state
from tiltyard.arena.store.files import CleanFile
from tiltyard.arena.store.matchups import COLUMNS
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


BROKEN = "the hash does not fit: event, time, order or hash was changed"


def test_findings_of_an_untouched_arena_say_how_much_was_checked(played: str) -> None:
    found = check(played)
    assert (found.votes, found.more_problems, found.since) == (23, 0, 0)
    assert [(found.events,)] == sql(played, "SELECT max(seq) FROM events")
    kinds = ("model_added", "excluded")
    rows = sql(played, f"SELECT count(*) FROM events WHERE kind IN {kinds}")[0][0]
    assert found.head.rows == 24 + 3 + int(str(rows)), "a row for each final vote, each prompt, each of these events"


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
    "change", ["at = at + 1", "body = body || ' '", f"hash = '{'a' * 64}'"], ids=["time", "text", "hash"]
)
def test_a_changed_time_text_or_hash_breaks_the_chain_there(played_url: str, change: str) -> None:
    sql(played_url, f"UPDATE events SET {change} WHERE seq = 10")
    assert said(played_url)[0] == f"events, number 10: {BROKEN}"


@reading_above_the_store
def test_whoever_forges_an_event_and_its_own_hash_breaks_the_chain_at_the_next_number(played_url: str) -> None:
    """Number 10 gets another time and the hash that fits it; number 11 was chained to the hash that was there."""
    ((previous,),) = sql(played_url, "SELECT hash FROM events WHERE seq = 9")
    ((at, text),) = sql(played_url, "SELECT at, body FROM events WHERE seq = 10")
    (forged,) = link_events(str(previous), [int(str(at)) + 1], [str(text)])
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
    found = check(played_url)
    kept = found.head
    assert verify(played_url, [kept]).clean
    ((vote,),) = sql(played_url, "SELECT max(seq) FROM events WHERE kind = 'voted'")
    sql(played_url, f"DELETE FROM texts WHERE at >= (SELECT at FROM events WHERE seq = {vote})")
    sql(played_url, f"DELETE FROM events WHERE seq >= {vote}")
    assert {problem.table for problem in check(played_url).problems} == {"checkpoints", "matchups"}
    assert "the log was cut" in str(verify(played_url, [kept]).problems[0])
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
    sql(played_url, "UPDATE texts SET text = 'Longer.' WHERE kind = 'comment'")
    (line,) = said(played_url)
    assert line.startswith("texts, comment ")
    sql(played_url, "DELETE FROM texts WHERE kind = 'comment'")
    assert check(played_url).clean


def test_a_changed_shortened_or_missing_file_is_named(played_url: str) -> None:
    shown = f"files, sha256 {PICTURE.sha256[:16]}…: "
    sql(played_url, "UPDATE files SET size = size + 1")
    assert said(played_url) == [f"{shown}has 512000 bytes, not 512001"]
    sql(played_url, "DELETE FROM file_parts WHERE number = 1")
    assert said(played_url) == [f"{shown}its bytes were changed: they have another hash"]
    sql(played_url, "DELETE FROM files")
    assert said(played_url) == [f"{shown}is missing: answers name it"]


def publish(url: str, pem: bytes | None = None) -> NewHead:
    """Publish the head of the arena now, as `tiltyard arena head` does."""
    store = Store.open(url)
    new = state_head(store, clock(), pem=pem)
    record_head(store, new, clock())
    store.close()
    return new


def test_verifying_since_a_signed_head_finds_what_came_after_it_and_reads_nothing_before(played_url: str) -> None:
    new = publish(played_url, new_key()[0])
    with open_arena(played_url) as arena:
        older = sql(played_url, "SELECT id FROM matchups WHERE status = 'voted' ORDER BY seq LIMIT 1")[0][0]
        arena.append([e.Excluded(matchup_ids=(str(older),), reason="test")])
        play(arena, 4)
    publish(played_url, new_key()[0])
    found = verify(played_url, since=new.file)
    assert found.clean
    assert found == replace(verify(played_url), since=new.until)
    sql(played_url, "UPDATE events SET at = at + 1 WHERE seq = 10")
    assert verify(played_url, since=new.file).clean
    assert not verify(played_url).clean
    sql(played_url, f"UPDATE events SET at = at + 1 WHERE seq = {new.until + 3}")
    sql(played_url, f"UPDATE matchups SET counts = 1 WHERE id = '{older}'")
    lines = [str(problem) for problem in verify(played_url, since=new.file).problems]
    assert f"events, number {new.until + 3}: {BROKEN}" in lines
    assert f"matchups, id {older}: not as the log says: counts" in lines


def test_a_start_that_was_not_signed_or_was_rewritten_is_refused_or_named(played_url: str) -> None:
    pem, _ = new_key()
    new = publish(played_url, pem)
    with pytest.raises(ArenaError, match="no signed head"):
        verify(played_url, since=signed(replace_statement(new.file, votes=7), pem))
    early = Head(new.head.rows - 1, "a" * 64)
    assert "lies before the head to begin at" in str(verify(played_url, [early], since=new.file).problems[0])
    other = Head(new.head.rows, "b" * 64)
    assert "was rewritten" in str(verify(played_url, [other], since=new.file).problems[0])
    sql(played_url, "UPDATE checkpoints SET state = substr(state, 2)")
    with pytest.raises(ArenaError, match="is not the one that was signed"):
        verify(played_url, since=new.file)
    sql(played_url, "DELETE FROM checkpoints")
    with pytest.raises(ArenaError, match="there is no checkpoint"):
        verify(played_url, since=new.file)


def replace_statement(file: HeadFile, **changes: Any) -> Statement:
    return replace(file.stated, **changes)


def test_checkpoints_of_signed_heads_are_kept(played_url: str) -> None:
    new = publish(played_url, new_key()[0])
    with open_arena(played_url) as arena:
        for _ in range(3):
            play(arena, 2)
            with arena.store.database.write(lock=True) as connection:
                keep_checkpoint(connection, load_state(connection)[0])
    numbers = [seq for (seq,) in sql(played_url, "SELECT seq FROM checkpoints ORDER BY seq")]
    assert numbers[0] == new.until
    assert len(numbers) == 3
    assert check(played_url).clean


PEM, KEY = new_key()
HEADS = "SELECT seq FROM events WHERE kind = 'head_published' ORDER BY seq"


@pytest.fixture
def published_url(played_url: str) -> str:
    """An arena that published three heads, the middle one signed."""
    publish(played_url)
    with open_arena(played_url) as arena:
        arena.append([e.PhaseChanged(phase=3)])
    for pem in (PEM, None):
        with open_arena(played_url) as arena:
            play(arena, 2)
        publish(played_url, pem)
    found = verify(played_url, keys=[KEY])
    assert (found.clean, len(found.published)) == (True, 3)
    return played_url


def forged(url: str, number: int, **changes: Any) -> list[str]:
    """What is said when one published head says something else, and the log is chained anew."""
    ((seq,), (text,)) = sql(url, HEADS)[number], sql(url, HEADS.replace("seq FROM", "body FROM"))[number]
    body = e.decode_body(str(text))
    assert isinstance(body, e.HeadPublished)
    new = e.encode_body(replace(body, **changes)).replace("'", "''")
    chain_anew(url, lambda run: run(f"UPDATE events SET body = '{new}' WHERE seq = {seq}"))
    return [str(problem) for problem in verify(url).problems]


def test_a_published_head_that_was_deleted_breaks_the_log(published_url: str) -> None:
    ((seq,), *_) = sql(published_url, HEADS)
    sql(published_url, f"DELETE FROM events WHERE seq = {seq}")
    assert f"events, number {seq}: is missing" in str(verify(published_url).problems[0])


def test_a_published_head_that_was_hidden_behind_another_kind_is_named(published_url: str) -> None:
    ((seq,), *_) = sql(published_url, HEADS)
    sql(published_url, f"UPDATE events SET kind = 'flagged' WHERE seq = {seq}")
    assert [str(problem) for problem in verify(published_url).problems] == [
        f"events, number {seq}: is listed as flagged, which its text is not"
    ]


def test_a_published_head_of_another_hash_number_or_place_is_named(published_url: str) -> None:
    heads = [one.body for one in verify(published_url).published]
    wrong = forged(published_url, 0, head=f"{'a' * 64}@{Head.parse(heads[-1].head).rows}")
    assert "something was rewritten" in " ".join(wrong)
    assert "something was rewritten" in " ".join(forged(published_url, 0, head=heads[0].head))
    moved = forged(published_url, 0, head=heads[-1].head, until=heads[-1].until - 30)
    assert "something was rewritten" in " ".join(moved)
    assert "are not public yet" in " ".join(forged(published_url, 0, head=heads[-1].head, until=10**6))


def test_a_signed_head_with_another_statement_signature_or_time_is_named(published_url: str) -> None:
    file = next(one.file for one in verify(published_url).published if one.file is not None)
    altered = replace(file, statement=file.statement.replace('"m0"', '"m9"'))
    assert any("the signature of the head is not by" in line for line in forged(published_url, 1, file=altered))
    boards = replace_statement(file, board=tuple((name, rating + 1, rd) for name, rating, rd in file.stated.board))
    assert any(
        "its board is not what the log says" in line for line in forged(published_url, 1, file=signed(boards, PEM))
    )
    later = replace_statement(file, at="2030-01-01T00:00:00Z")
    lines = forged(published_url, 1, file=signed(later, PEM))
    assert any(line.endswith("what was signed is another head, or another time") for line in lines)


def test_a_head_that_was_signed_while_another_was_published_is_no_problem(played_url: str) -> None:
    store = Store.open(played_url)
    slow = state_head(store, clock(), pem=PEM)
    with open_arena(played_url) as arena:
        play(arena, 2)
    record_head(store, state_head(store, clock()), clock())
    record_head(store, slow, clock())
    store.close()
    assert verify(played_url, keys=[KEY]).clean


def test_times_of_heads_are_in_order(published_url: str) -> None:
    (_, _, (seq,)) = sql(published_url, HEADS)
    chain_anew(published_url, lambda run: run(f"UPDATE events SET at = at - {HOUR} WHERE seq = {seq}"))
    (problem,) = verify(published_url).problems
    assert str(problem).endswith("is older than what was published before it")


def test_a_head_moved_to_another_time_than_was_signed_is_named(published_url: str) -> None:
    (_, (seq,), _) = sql(published_url, HEADS)
    chain_anew(published_url, lambda run: run(f"UPDATE events SET at = at + {2 * HOUR} WHERE seq >= {seq}"))
    problem, *_ = [one for one in verify(published_url).problems if one.table == "heads"]
    assert str(problem).endswith("what was signed is another head, or another time")


def test_a_key_that_never_signed_and_a_head_of_another_key_are_problems(published_url: str) -> None:
    _, stranger = new_key()
    assert verify(published_url, keys=[KEY]).clean
    lines = [str(problem) for problem in verify(published_url, keys=[stranger]).problems]
    assert len(lines) == 2
    assert f"it is signed by {KEY}, which was not given" in lines[0]
    assert lines[1] == f"heads, {stranger}: this key has signed no head of this arena"
    (line,) = [str(problem) for problem in verify(published_url, keys=[KEY, stranger]).problems]
    assert line == lines[1]
