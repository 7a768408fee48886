"""An arena that version 0.1 wrote can be read, upgraded and continued by this version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arena.engines import sql
from tests.cli.conftest import Run
from tests.written_by_0_1.conftest import OldArena
from tiltyard.arena.chain import chain_hash
from tiltyard.arena.events import Choice
from tiltyard.arena.heads import Head
from tiltyard.arena.policy import Policy
from tiltyard.arena.service import Arena
from tiltyard.arena.store import maintenance
from tiltyard.arena.store.database import Database
from tiltyard.arena.store.verify import Verification, rebuild, verify
from tiltyard.arena.voting import Gone, TooLate
from tiltyard.errors import StoreError


def found_in(old: OldArena) -> Verification:
    return verify(old.url, old.facts["checkpoint_every"])


def upgrade(old: OldArena) -> str | None:
    """Bring the tables to this version; the step they stand at then."""
    database = Database(old.url)
    try:
        maintenance.upgrade(database)
        return maintenance.version(database)
    finally:
        database.close()


def test_an_arena_is_upgraded_in_place_and_verifies_with_the_head_it_had(old_arena: OldArena, tiltyard: Run) -> None:
    done = tiltyard("arena", "init", "--upgrade", "--db", old_arena.url)
    assert done.returncode == 0, done.stderr
    assert upgrade(old_arena) == maintenance.HEAD
    found = verify(old_arena.url, old_arena.facts["checkpoint_every"], [Head(*old_arena.facts["head"])])
    assert found.problems == ()
    assert (found.events, found.votes) == (old_arena.facts["events"] + 1, old_arena.facts["votes"])
    assert old_arena.facts["head"][1] in done.stderr
    again = tiltyard("arena", "init", "--upgrade", "--db", old_arena.url)
    assert (again.returncode, "version 2" in again.stderr, found_in(old_arena).head) == (0, False, found.head)
    copied_before(old_arena, done.stderr)


def copied_before(old_arena: OldArena, said: str) -> None:
    """A copy is made before an upgrade, or it is said how to make one."""
    if not old_arena.url.startswith("sqlite"):
        assert "pg_dump" in said
        return
    (copy,) = Path(old_arena.url.removeprefix("sqlite:///")).parent.glob("arena.db.before-*")
    database = Database(f"sqlite:///{copy}")
    assert maintenance.version(database) == "0002"
    database.close()
    assert str(copy) in said


def test_a_chain_that_changed_its_version_is_checked_from_its_first_event(old_arena: OldArena, tiltyard: Run) -> None:
    """A vote before the change is found out by both chains, also when the old one is made to fit again."""
    tiltyard("arena", "init", "--upgrade", "--db", old_arena.url)
    with Arena.open(old_arena.url) as arena:
        served = arena.serve("somebody-new")
        arena.vote(served.matchup_id, "somebody-new", Choice.B)
    assert found_in(old_arena).problems == ()
    changed = old_arena.facts["events"] + 1
    sql(old_arena.url, "UPDATE events SET at = at + 1 WHERE id = (SELECT event_id FROM chain WHERE seq = 30)")
    rows = sql(old_arena.url, "SELECT seq, at, body FROM chain JOIN events ON id = event_id ORDER BY seq")
    previous = "0" * 64
    whens = []
    for seq, at, body in rows[: changed - 1]:
        previous = chain_hash(previous, int(str(seq)), int(str(at)), str(body))
        whens.append(f"WHEN {seq} THEN '{previous}'")
    sql(old_arena.url, f"UPDATE chain SET hash = CASE seq {' '.join(whens)} END WHERE seq < {changed}")
    assert {(problem.table, problem.where) for problem in found_in(old_arena).problems} >= {
        ("chain", f"number {changed}")
    }


def test_programs_of_the_earlier_version_go_on_until_the_chain_changes(old_arena: OldArena, tiltyard: Run) -> None:
    """After `--rolling` events may come without a salt, as 0.1 writes them; afterwards they are refused."""
    assert tiltyard("arena", "init", "--upgrade", "--rolling", "--db", old_arena.url).returncode == 0
    assert list(found_in(old_arena).head) == old_arena.facts["head"]
    with Arena.open(old_arena.url) as arena:
        arena.vote(arena.serve("somebody-new").matchup_id, "somebody-new", Choice.B)
    assert found_in(old_arena).problems == ()
    old_row = (
        'INSERT INTO events (at, kind, body) VALUES (9, \'model_enabled\', \'{"kind":"model_enabled","model":"%s"}\')'
    )
    (model,) = sql(old_arena.url, "SELECT model FROM models ORDER BY number")[0]
    sql(old_arena.url, old_row % model)
    sql(old_arena.url, "INSERT INTO pending SELECT max(id) FROM events")
    assert tiltyard("arena", "init", "--upgrade", "--db", old_arena.url).returncode == 0
    found = found_in(old_arena)
    assert (found.problems, found.unchained, found.events) == ((), 0, old_arena.facts["events"] + 4)
    with pytest.raises(StoreError):
        sql(old_arena.url, old_row % model)


def test_every_kind_of_event_that_0_1_knew_is_in_it(upgraded_arena: OldArena) -> None:
    kinds = {kind for (kind,) in sql(upgraded_arena.url, "SELECT DISTINCT kind FROM events")}
    assert kinds == set(upgraded_arena.facts["kinds"])
    assert len(kinds) == 17


def test_an_upgraded_arena_goes_on_verifies_afterwards_and_can_be_made_again_from_its_log(
    upgraded_arena: OldArena,
) -> None:
    with Arena.open(upgraded_arena.url) as arena:
        served = arena.serve("somebody-new")
        arena.vote(served.matchup_id, "somebody-new", Choice.B)
    found = found_in(upgraded_arena)
    assert found.problems == ()
    assert found.votes == upgraded_arena.facts["votes"] + 1
    rebuild(upgraded_arena.url, upgraded_arena.facts["checkpoint_every"])
    assert found_in(upgraded_arena).problems == ()


def test_votes_whose_names_0_1_showed_are_final(upgraded_arena: OldArena) -> None:
    voted = "SELECT id, voter, status, undo_until FROM matchups WHERE status IN ('voted', 'undone')"
    rows = sql(upgraded_arena.url, voted)
    assert {status for _, _, status, _ in rows} == {"voted", "undone"}
    assert {undo_until for *_, undo_until in rows} == {None}
    with Arena.open(upgraded_arena.url) as arena:
        assert arena.read(lambda state: state.policy.undo_seconds) != Policy().undo_seconds
        for name, voter, status, _ in rows:
            if status == "voted":
                with pytest.raises(TooLate, match="final"):
                    arena.undo(str(name), str(voter))
            else:
                with pytest.raises(Gone):
                    arena.reveal(str(name), str(voter))
        served = arena.serve("somebody-new")
        arena.vote(served.matchup_id, "somebody-new", Choice.B, reveal=False)
        arena.undo(served.matchup_id, "somebody-new")
    assert found_in(upgraded_arena).problems == ()
