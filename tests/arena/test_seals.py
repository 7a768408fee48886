"""A verification that starts at a seal says so; what it cannot see is found by the full one, or by a kept head."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.arena.databases import rule_above_the_store
from tests.arena.engines import Clock, catalog, open_arena, play, sql
from tests.arena.rewriting import EVERY, rewrite
from tiltyard.arena import events as e
from tiltyard.arena.heads import Head
from tiltyard.arena.store.seals import Seals
from tiltyard.arena.store.verify import Verification, verify
from tiltyard.errors import ArenaError

SEGMENT = 60
DAY = 86_400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "seals"


def check(url: str, folder: Path, *, full: bool = False, heads: tuple[Head, ...] = ()) -> tuple[Verification, Seals]:
    seals = Seals(folder, full=full, segment_events=SEGMENT)
    found = verify(url, EVERY, heads, seals)
    if found.clean:
        seals.write()
    return found, seals


def live_on(url: str, clock: Clock, seed: int) -> list[str]:
    """More votes; one undone, one excluded that is older, one that was open before is voted on."""
    with open_arena(url, clock, seed, EVERY) as arena:
        if arena.read(lambda state: state.seq) == 0:
            arena.append(catalog())
            arena.serve("late")
        else:
            arena.append([e.ModelAdded(model="m1", display_name=f"Model 1, {seed}")])
        votes = [name for name, _, _ in play(arena, 30, seed)]
        late = arena.serve("late").matchup_id
        arena.vote(late, "late", e.Choice.B, reveal=False)
        arena.undo(late, "late")
        arena.append([e.Excluded(matchup_ids=tuple(votes[:2]), reason="test")])
        clock.turn(5)
        play(arena, 10, seed + 100)
        return votes


@pytest.fixture(scope="module")
def original(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """An arena whose first segments are sealed, and that went on."""
    home = tmp_path_factory.mktemp("sealed")
    url = f"sqlite:///{shutil.copy(sqlite_template, home / 'arena.db')}"
    return go_on_from_a_seal(url, home / "seals"), home / "seals"


@pytest.fixture
def sealed(original: tuple[str, Path], copied_arena: Callable[[str], str], folder: Path) -> str:
    """The same, to be spoilt."""
    shutil.copytree(original[1], folder)
    return copied_arena(original[0])


def go_on_from_a_seal(url: str, folder: Path) -> str:
    clock = Clock()
    votes = live_on(url, clock, 1)
    assert check(url, folder)[0].clean
    clock.turn(40 * DAY)  # into another month
    live_on(url, clock, 2)
    with open_arena(url, clock, 3, EVERY) as arena:  # votes from before the seal change their status after it
        arena.append([e.Excluded(matchup_ids=(votes[5], votes[9]), reason="old ones")])
        arena.append([e.Restored(matchup_ids=(votes[9], votes[0]), reason="old ones")])
    return url


@rule_above_the_store
def test_verification_goes_on_from_the_last_seal_and_seals_what_ended_since(arena_url: str, folder: Path) -> None:
    sealed = go_on_from_a_seal(arena_url, folder)
    first = Seals(folder)
    found, seals = check(sealed, folder)
    assert found.clean, found.problems
    assert first.last is not None
    assert found.since == first.last.seq == seals.last.seq > 0  # type: ignore[union-attr]
    whole = verify(sealed, EVERY)
    assert (found.events, found.votes, found.head) == (whole.events, whole.votes, whole.head)
    now = Seals(folder)
    assert len(now.kept) > len(first.kept)
    assert any(seal.seq % SEGMENT for seal in now.kept)  # the end of a month
    assert check(sealed, folder)[0].since == now.kept[-1].seq


def test_the_full_verification_makes_the_same_seals_and_compares_them(
    sealed: str, folder: Path, tmp_path: Path
) -> None:
    check(sealed, folder)
    found, _ = check(sealed, folder, full=True)
    assert found.clean
    assert found.since == 0
    check(sealed, tmp_path / "anew", full=True)
    made = [{path.name: path.read_bytes() for path in sorted(place.iterdir())} for place in (folder, tmp_path / "anew")]
    assert made[0] == made[1]


def test_what_is_changed_since_the_seal_is_found(sealed: str, folder: Path) -> None:
    changes = {
        "chain": "UPDATE events SET at = at + 1 WHERE id = (SELECT max(event_id) FROM chain)",
        "votes": "UPDATE votes SET voter = 'nobody' WHERE seq = (SELECT max(seq) FROM votes)",
        "matchups": "UPDATE matchups SET reason = '' WHERE served_at = (SELECT max(served_at) FROM matchups)",
        "standings": "UPDATE standings SET rating = rating + 1e-9 WHERE model = 2",
        "marks": "DELETE FROM marks WHERE seq = (SELECT max(seq) FROM marks)",
        "snapshots": "UPDATE snapshots SET rated = rated + 1 WHERE at = (SELECT max(at) FROM snapshots)",
        "changes": "UPDATE changes SET standing_before = 'undone' WHERE seq = (SELECT max(seq) FROM changes)",
        "models": "UPDATE models SET display_name = 'The best' WHERE model = 'm1'",
        "checkpoints": "DELETE FROM checkpoints",
    }
    for change in changes.values():
        sql(sealed, change)
    found, _ = check(sealed, folder)
    assert found.since > 0
    assert {problem.table for problem in found.problems} == set(changes)


def test_an_old_vote_whose_status_changed_since_the_seal_is_compared(sealed: str, folder: Path) -> None:
    sql(sealed, "UPDATE votes SET standing = 'counted' WHERE standing = 'excluded'")
    found, _ = check(sealed, folder)
    numbers = [int(problem.where.split()[1]) for problem in found.problems if problem.table == "votes"]
    assert min(numbers) < found.since


def test_a_changed_past_is_found_by_the_full_verification_and_by_the_sealed_head(sealed: str, folder: Path) -> None:
    """Whoever changes an event alone breaks the chain; whoever mends the chain changes every head after it."""
    kept = Head(*sql(sealed, "SELECT seq, hash FROM chain WHERE seq = 40")[0])  # type: ignore[arg-type]
    sql(sealed, "UPDATE events SET at = at + 1 WHERE id = (SELECT event_id FROM chain WHERE seq = 30)")
    found, _ = check(sealed, folder)
    assert found.clean
    assert found.since > 30  # it says that it did not look there
    full, _ = check(sealed, folder, full=True)
    assert [problem.where for problem in full.problems if problem.table == "chain"] == ["number 30"]
    rewrite(sealed, lambda run: run("UPDATE events SET at = at + 1 WHERE id = 31"))
    found, _ = check(sealed, folder, heads=(kept,))
    assert {problem.where for problem in found.problems if problem.table == "head"} == {
        "number 40",
        f"number {found.since}",
    }


def test_a_log_that_was_cut_before_the_seal_is_found(sealed: str, folder: Path) -> None:
    sql(sealed, "DELETE FROM chain WHERE seq > 50")
    found, _ = check(sealed, folder)
    assert f"number {found.since}" in {problem.where for problem in found.problems}


def test_seals_that_were_changed_exchanged_or_left_out_are_refused(sealed: str, folder: Path) -> None:
    check(sealed, folder)
    first, *_, last = sorted(folder.iterdir())
    text = last.read_text()
    last.write_text(text.replace('"votes":', '"votes":1'))
    with pytest.raises(ArenaError, match="was changed"):
        Seals(folder)
    last.write_text("{}")
    with pytest.raises(ArenaError, match="not a seal"):
        Seals(folder)
    last.write_text(text)
    first.unlink()
    with pytest.raises(ArenaError, match="before this one"):
        Seals(folder)


def test_a_seal_of_another_version_is_not_relied_on_and_is_made_anew(
    sealed: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiltyard.arena.store import state_bytes

    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(state_bytes, "VERSION", state_bytes.VERSION + 1)
    found, seals = check(sealed, folder)
    assert found.clean  # checkpoints of another version are passed over
    assert found.since == 0
    assert seals.last is None
    assert all((folder / name).read_bytes() != old for name, old in before.items())
    assert check(sealed, folder)[0].since > 0
