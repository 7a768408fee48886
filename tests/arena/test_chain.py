"""Whoever kept a head finds out every other history; the chain tells nothing of what it covers."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.arena.engines import answer, catalog, open_arena, play, sql
from tests.arena.rewriting import rewrite
from tiltyard.arena import events as e
from tiltyard.arena.chain import FIRST_HASH, LABELLED, label_of, leaf_of, link_event, new_salts, split
from tiltyard.arena.heads import Head
from tiltyard.arena.state import _HANDLERS
from tiltyard.arena.store.verify import Verification, verify
from tiltyard.arena.units import HOUR

VOTED = "SELECT seq FROM events WHERE kind = 'voted' ORDER BY seq"


@pytest.fixture(scope="module")
def original(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Head]]:
    """An arena in which two heads were kept by somebody: in the middle, and at the end."""
    url = f"sqlite:///{shutil.copy(sqlite_template, tmp_path_factory.mktemp('kept') / 'arena.db')}"
    heads = _with_heads(url)
    assert found(url, heads).clean
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
            heads.append(Head(*verify(url).head))
    return heads


def found(url: str, heads: list[Head]) -> Verification:
    return verify(url, heads)


def cut(url: str, _: list[Head]) -> None:
    """The last votes never happened."""
    last = sql(url, VOTED)[-3][0]
    rewrite(url, lambda run: run(f"DELETE FROM events WHERE seq >= {last}"))


def another_choice(url: str, _: list[Head]) -> None:
    """One early vote said something else."""
    (seq,) = sql(url, "SELECT seq FROM events WHERE kind = 'voted' AND body LIKE '%\"A\"%' ORDER BY seq LIMIT 1")[0]
    rewrite(url, lambda run: run(f"UPDATE events SET body = replace(body, '\"A\"', '\"B\"') WHERE seq = {seq}"))


def swapped(url: str, _: list[Head]) -> None:
    """Two votes changed places."""
    one, other = (int(str(seq)) for (seq,) in sql(url, VOTED)[2:4])

    def change(run: Callable[[str], None]) -> None:
        for back in (1, 0):  # what was served goes with its vote
            for seq, new in ((one - back, -1), (other - back, one - back), (-1, other - back)):
                run(f"UPDATE events SET seq = {new} WHERE seq = {seq}")

    rewrite(url, change)


def later(url: str, _: list[Head]) -> None:
    """A vote was cast at another hour."""
    (seq,) = sql(url, VOTED)[2]
    rewrite(url, lambda run: run(f"UPDATE events SET at = at + {HOUR} WHERE seq = {seq}"))


def salted_anew(url: str, _: list[Head]) -> None:
    """Nothing but the salts is different."""
    (seq,) = sql(url, VOTED)[2]
    rewrite(url, lambda run: run(f"UPDATE events SET salt = '{new_salts(1)[0]}' WHERE seq = {seq}"))


@pytest.mark.parametrize("attack", [cut, another_choice, swapped, later, salted_anew])
def test_a_history_made_to_fit_is_found_by_whoever_kept_a_head(
    kept: tuple[str, list[Head]], attack: Callable[[str, list[Head]], None]
) -> None:
    url, heads = kept
    attack(url, heads)
    assert found(url, []).clean, "without a head nothing can tell"
    seen = found(url, heads)
    assert {problem.table for problem in seen.problems} == {"head"}
    assert any(f"number {heads[1].seq}" in problem.where for problem in seen.problems)


def test_another_history_is_found_on_postgresql_too(postgresql_url: str) -> None:
    heads = _with_heads(postgresql_url)
    another_choice(postgresql_url, heads)
    assert found(postgresql_url, []).clean
    assert {problem.table for problem in found(postgresql_url, heads).problems} == {"head"}


def test_a_shorter_honest_database_is_not_the_one_whose_head_was_kept(sqlite_url: str, tmp_path: Path) -> None:
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        play(arena, 3)
    shutil.copy(tmp_path / "arena.db", tmp_path / "earlier.db")
    early = Head(*verify(sqlite_url).head)
    with open_arena(sqlite_url) as arena:
        play(arena, 3)
    late = Head(*verify(sqlite_url).head)
    shorter = f"sqlite:///{tmp_path / 'earlier.db'}"
    assert verify(shorter, heads=[early]).clean
    (problem,) = verify(shorter, heads=[early, late]).problems
    assert f"the log ends with number {early.seq}: it was cut" in problem.what
    assert verify(sqlite_url, heads=[early, late]).clean


def test_a_published_head_that_the_log_no_longer_has_is_named_without_being_given(kept: tuple[str, list[Head]]) -> None:
    url, heads = kept
    sql(url, f"INSERT INTO heads (seq, hash, at) VALUES ({heads[0].seq}, '{'a' * 64}', 1)")
    (problem,) = found(url, []).problems
    assert (problem.table, problem.where) == ("head", f"number {heads[0].seq}")


def test_the_links_by_hand() -> None:
    """One served matchup: its public part and its rest are hashed apart, each with its own half of the salt."""
    text = (
        '{"kind":"matchup_served","matchup_id":"m","voter":"v","prompt_id":"p","model_a":"x","model_b":"y",'
        '"response_a":"r1","response_b":"r2","lane":"coverage","reason":"why","probability":0.5,"seed":7,'
        '"expires_at":99,"block":"b"}'
    )
    public, private = split(text)
    assert public == (
        '{"kind":"matchup_served","matchup_id":"m","voter":"v","prompt_id":"p","model_a":"x","model_b":"y","block":"b"}'
    )
    at, salt = 5 * HOUR + 17, "a" * 22 + "b" * 22

    def sha(words: str) -> str:
        return hashlib.sha256(words.encode()).hexdigest()

    rest = sha(f"tiltyard rest 2\n{'b' * 22}\n{at}\n{private}")
    leaf = sha(f"tiltyard leaf 2\n{'a' * 22}\n{rest}\n{public}")
    assert leaf_of(at, text, salt).hash() == leaf
    assert link_event(FIRST_HASH, 1, at, text, salt) == sha(
        f"tiltyard link 2\n{FIRST_HASH}\n1\n5\nmatchup_served\nm\n{leaf}"
    )


def test_salts_are_long_and_never_the_same() -> None:
    salts = new_salts(1000)
    assert {len(salt) for salt in salts} == {44}
    assert len({salt[:22] for salt in salts} | {salt[22:] for salt in salts}) == 2000


BODIES = st.one_of(
    st.builds(
        e.MatchupServed,
        **{name: st.text(max_size=30) for name in ("matchup_id", "voter", "prompt_id", "model_a", "model_b", "reason")},
        response_a=st.text(max_size=30),
        response_b=st.text(max_size=30),
        lane=st.just("coverage"),
        probability=st.floats(0, 1),
        seed=st.integers(0, 2**62),
        expires_at=st.integers(0, 2**62),
    ),
    st.builds(
        e.Voted, matchup_id=st.text(), choice=st.sampled_from(e.Choice), undo_until=st.none() | st.integers(0, 2**62)
    ),
)


@given(BODIES)
def test_the_public_part_has_every_other_field_and_none_of_the_private_ones(body: e.MatchupServed | e.Voted) -> None:
    import msgspec

    text = e.encode_body(body)
    public, private = split(text)
    said, all_said = msgspec.json.decode(public), msgspec.json.decode(text)
    hidden = {"response_a", "response_b", "lane", "reason", "probability", "seed", "expires_at", "undo_until"}
    assert said == {name: value for name, value in all_said.items() if name not in hidden}
    assert len(public) + len(private) == len(text)
    assert label_of(text) == label_of(public) == (all_said["kind"], body.matchup_id)


def test_every_kind_on_which_a_board_depends_is_named_in_its_label() -> None:
    """A new kind that changes the state must be named from its first event on, or nobody could demand to see it."""
    kinds = {str(kind.__struct_config__.tag) for kind in _HANDLERS}
    assert kinds - LABELLED == {"response_added", "response_enabled", "response_disabled", "flagged"}
    for body in (e.Flagged(subject="voter", subject_id="v", flag="x"), answer(0, 0)):
        assert label_of(e.encode_body(body)) == ("other", "")
    assert label_of(e.encode_body(e.Excluded(matchup_ids=("a", "b"), reason="x"))) == ("excluded", "")


def test_text_that_looks_like_a_field_stays_where_it_is() -> None:
    body = e.Voted(matchup_id='x","choice":"A","undo_until":7', choice=e.Choice.A)
    assert split(e.encode_body(body)) == (e.encode_body(body), "")
