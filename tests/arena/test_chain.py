"""Whoever kept a head finds out every other history of the public rows."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.arena.engines import catalog, open_arena, play, sql
from tests.arena.rewriting import rewrite
from tiltyard.arena import HOUR, Head, salted_digest
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.rules.chain import FIRST_HASH, link_events, link_line

VOTED = "SELECT seq FROM events WHERE kind = 'voted' ORDER BY seq"


@pytest.fixture(scope="module")
def original(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Head]]:
    """An arena in which two heads were kept by somebody: in the middle, and at the end."""
    url = f"sqlite:///{shutil.copy(sqlite_template, tmp_path_factory.mktemp('kept') / 'arena.db')}"
    heads = _with_heads(url)
    assert verify(url, heads).clean
    return url, heads


@pytest.fixture
def kept(original: tuple[str, list[Head]], copied_arena: Callable[[str], str]) -> tuple[str, list[Head]]:
    """The same, to be spoilt."""
    url, heads = original
    return copied_arena(url), list(heads)


def _with_heads(url: str) -> list[Head]:
    heads = []
    with open_arena(url) as arena:
        arena.append(catalog())
        for seed in range(2):
            play(arena, 8, seed=seed)
            heads.append(verify(url).head)
    return heads


def cut(url: str) -> None:
    """The last votes never happened."""
    last = sql(url, VOTED)[-3][0]
    rewrite(url, lambda run: run(f"DELETE FROM events WHERE seq >= {last}"))


def another_choice(url: str) -> None:
    """One early vote said something else."""
    (seq,) = sql(url, "SELECT seq FROM events WHERE kind = 'voted' AND body LIKE '%\"A\"%' ORDER BY seq LIMIT 1")[0]
    rewrite(url, lambda run: run(f"UPDATE events SET body = replace(body, '\"A\"', '\"B\"') WHERE seq = {seq}"))


def swapped(url: str) -> None:
    """Two votes changed places."""
    one, other = (int(str(seq)) for (seq,) in sql(url, VOTED)[2:4])

    def change(run: Callable[[str], None]) -> None:
        for back in (1, 0):  # what was served goes with its vote
            for seq, new in ((one - back, -1), (other - back, one - back), (-1, other - back)):
                run(f"UPDATE events SET seq = {new} WHERE seq = {seq}")

    rewrite(url, change)


def later(url: str) -> None:
    """A vote was cast at another hour."""
    (seq,) = sql(url, VOTED)[2]
    rewrite(url, lambda run: run(f"UPDATE events SET at = at + {HOUR} WHERE seq = {seq}"))


def skipped(url: str) -> None:
    """An early vote was a skip."""
    (seq,) = sql(url, VOTED)[2]
    ((text,),) = sql(url, f"SELECT body FROM events WHERE seq = {seq}")
    name = str(text).split('"matchup_id":"')[1].split('"')[0]
    body = f'{{"kind":"skipped","matchup_id":"{name}"}}'
    rewrite(url, lambda run: run(f"UPDATE events SET kind = 'skipped', body = '{body}' WHERE seq = {seq}"))


@pytest.mark.parametrize("attack", [cut, another_choice, swapped, later, skipped])
def test_a_history_made_to_fit_is_found_by_whoever_kept_a_head(
    kept: tuple[str, list[Head]], attack: Callable[[str], None]
) -> None:
    url, heads = kept
    attack(url)
    assert verify(url).clean, "without a head nothing can tell"
    seen = verify(url, heads)
    assert {problem.table for problem in seen.problems} == {"head"}
    assert any(f"row {heads[1].rows}" in problem.where for problem in seen.problems)


def test_another_history_is_found_on_postgresql_too(postgresql_url: str) -> None:
    heads = _with_heads(postgresql_url)
    another_choice(postgresql_url)
    assert verify(postgresql_url).clean
    assert {problem.table for problem in verify(postgresql_url, heads).problems} == {"head"}


def test_what_no_public_row_says_changes_no_head(kept: tuple[str, list[Head]]) -> None:
    """Which lane chose a matchup, and a time within its hour, are no row's."""
    url, heads = kept
    (seq,) = sql(url, VOTED)[2]
    rewrite(url, lambda run: run(f"UPDATE events SET at = at / {HOUR} * {HOUR} WHERE seq = {seq}"))
    assert verify(url, heads).clean


def test_a_shorter_honest_database_is_not_the_one_whose_head_was_kept(sqlite_url: str, tmp_path: Path) -> None:
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        play(arena, 3)
    shutil.copy(tmp_path / "arena.db", tmp_path / "earlier.db")
    early = verify(sqlite_url).head
    with open_arena(sqlite_url) as arena:
        play(arena, 3)
    late = verify(sqlite_url).head
    shorter = f"sqlite:///{tmp_path / 'earlier.db'}"
    assert verify(shorter, heads=[early]).clean
    (problem,) = verify(shorter, heads=[early, late]).problems
    assert f"the public rows end with {early.rows}: the log was cut" in problem.what
    assert verify(sqlite_url, heads=[early, late]).clean


def sha(words: str) -> str:
    return hashlib.sha256(words.encode()).hexdigest()


def test_the_hashes_by_hand() -> None:
    first = sha(f"{'0' * 64} 7 one")
    assert link_events(FIRST_HASH, [7, 8], ["one", "two"]) == [first, sha(f"{first} 8 two")]
    assert link_line(FIRST_HASH, b'{"a":1}') == sha("0" * 64 + sha('{"a":1}'))
    assert salted_digest("salt", "a\ntext") == sha("salt\na\ntext")


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63), st.text()), min_size=1), st.data())
def test_no_other_events_have_the_same_hash(events: list[tuple[int, str]], data: st.DataObject) -> None:
    """Whatever moves from a time into its text, from one text into the next, or out of the log."""
    other = data.draw(st.lists(st.tuples(st.integers(-(2**63), 2**63), st.text()), min_size=1))
    same = [link_events(FIRST_HASH, *zip(*one, strict=True))[-1] for one in (events, other)]  # type: ignore[arg-type]
    assert (same[0] == same[1]) == (events == other)
