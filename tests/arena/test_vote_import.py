"""Votes that were cast elsewhere are brought into a new arena, once, and count like its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.arena.engines import START, Clock, catalog, open_arena, play, sql
from tests.within import run
from tiltyard.arena import Arena, import_votes, open_export
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.intake import vote_import
from tiltyard.arena.intake.vote_import import ImportedVotes
from tiltyard.errors import ArenaError, BattleError

WINNERS = ("model_a", "model_b", "tie", "tie (bothbad)")


def votes(number: int, **changes: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    return [
        {
            "model_a": f"m{a}",
            "model_b": f"m{b}",
            "winner": WINNERS[rng.integers(4)],
            "question_id": f"p{rng.integers(3)}",
            "voter": f"person{place % 7}",
            "timestamp": 1_600_000_000 + 60 * place,
            **changes,
        }
        for place, (a, b) in enumerate(rng.permuted(np.tile(np.arange(4), (number, 1)), axis=1)[:, :2].tolist())
    ]


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def arena(sqlite_url: str) -> Any:
    with open_arena(sqlite_url, Clock(START)) as arena:
        arena.append(catalog())
        yield arena


def test_imported_votes_count_are_marked_and_can_be_exported_again(
    arena: Arena, sqlite_url: str, tmp_path: Path
) -> None:
    rows = votes(40)
    assert import_votes(arena, written(tmp_path / "votes.jsonl", rows)) == ImportedVotes(0, 40, 0)
    play(arena, 5)
    arena.close()
    assert verify(sqlite_url).votes == 45
    marked = sql(sqlite_url, "SELECT id, voter, lane FROM matchups WHERE lane = 'imported'")
    assert len(marked) == 40
    assert all(name.startswith("imported-") and voter.startswith("imported-") for name, voter, _ in marked)
    assert len({voter for _, voter, _ in marked}) == 7
    with open_export(sqlite_url) as export:
        out = list(export.rows)[:40]
    assert [(one["model_a"], one["model_b"], one["winner"]) for one in out] == [
        (one["model_a"], one["model_b"], one["winner"]) for one in rows
    ]


def test_an_import_that_was_interrupted_is_completed_by_running_it_again(
    arena: Arena, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vote_import, "AT_ONCE", 10)
    rows = votes(40, weight=1) + votes(2, weight=0)
    for row in rows:
        del row["timestamp"]
    path, submitted = written(tmp_path / "votes.jsonl", rows), arena.submit

    def breaking(command: Any) -> Any:
        if getattr(command, "before", 0) == 20:
            raise ArenaError("the power went")
        return submitted(command)

    monkeypatch.setattr(arena, "submit", breaking)
    with pytest.raises(ArenaError, match="the power went"):
        import_votes(arena, path)
    monkeypatch.setattr(arena, "submit", submitted)
    assert import_votes(arena, path) == ImportedVotes(20, 22, 2)
    assert import_votes(arena, path) == ImportedVotes(42, 0, 2)
    arena.close()
    assert verify(sqlite_url).votes == 40
    assert sql(sqlite_url, "SELECT count(*) FROM events WHERE kind = 'excluded'") == [(1,)]


def test_votes_are_imported_into_a_new_arena_only_and_from_one_file(arena: Arena, tmp_path: Path) -> None:
    path = written(tmp_path / "votes.jsonl", votes(12))
    play(arena, 3)
    with pytest.raises(ArenaError, match="3 matchups were served here already"):
        import_votes(arena, path)


def test_another_file_does_not_continue_the_first(arena: Arena, tmp_path: Path) -> None:
    first, other = (written(tmp_path / name, votes(n)) for name, n in (("a.jsonl", 12), ("b.jsonl", 30)))
    rows = votes(30)
    rows[11]["winner"] = "tie" if rows[11]["winner"] != "tie" else "model_a"
    written(other, rows)
    import_votes(arena, first)
    with pytest.raises(ArenaError, match="not the first votes of"):
        import_votes(arena, other)
    play(arena, 1)
    with pytest.raises(ArenaError, match="13 matchups were served"):
        import_votes(arena, first)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_a": "otter"}, "no such answer. Import models"),
        ({"question_id": "p9"}, "no such answer. Import models"),
        ({"timestamp": 9e12}, "not in the past"),
    ],
)
def test_a_vote_that_cannot_be_one_is_named_and_nothing_is_imported(
    arena: Arena, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    rows = votes(5)
    rows[-1] |= change
    with pytest.raises(ArenaError, match=message):
        import_votes(arena, written(tmp_path / "votes.jsonl", rows))
    assert arena.read(lambda state: state.catalog.matchups) == 0


def test_votes_without_prompts_are_refused(arena: Arena, tmp_path: Path) -> None:
    rows = [{name: row[name] for name in ("model_a", "model_b", "winner")} for row in votes(3)]
    with pytest.raises(BattleError, match="question_id"):
        import_votes(arena, written(tmp_path / "votes.jsonl", rows))


def test_an_imported_vote_cannot_be_written_by_hand(arena: Arena) -> None:
    with pytest.raises(ArenaError, match="not written by hand"):
        arena.append([e.Voted(matchup_id="imported-000000000", choice=e.Choice.A)])


def test_columns_of_votes_with_other_names_are_mapped(arena: Arena, sqlite_url: str, tmp_path: Path) -> None:
    others = {"question_id": "task", "winner": "better"}
    rows = [{others.get(name, name): value for name, value in row.items()} for row in votes(10)]
    path = written(tmp_path / "votes.jsonl", rows)
    arena.close()
    command = ["arena", "import", "--db", sqlite_url, "--votes", str(path), "--map", "question_id=task"]
    refused = run(tmp_path, *command)
    assert refused.returncode == 1
    assert "winner" in refused.stderr
    done = run(tmp_path, *command, "--map", "winner=better")
    assert done.returncode == 0, done.stderr
    assert "votes: 10 imported" in done.stderr
    alone = run(tmp_path, "arena", "import", "--db", sqlite_url, "--map", "a=b", "--models", "m.yaml")
    assert "--map names columns of --votes" in alone.stderr
