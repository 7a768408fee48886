"""What can be published besides a file of battles: an arena, a run's folder, a placement's."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from published_folders import changed, check, everything
from tests.site.sites import small_site
from tests.sizes import size
from typer.testing import CliRunner

import tiltyard as ty
from tiltyard import publish
from tiltyard.arena import Choice, Policy, new_key
from tiltyard.arena import events as e
from tiltyard.arena.audit import state_head
from tiltyard.arena.store import Store, record_head
from tiltyard.cli.main import make_app
from tiltyard.errors import ArenaError, RunFolderError

GOLDEN = Path(__file__).parents[2] / "golden"


def command(*arguments: str) -> Any:
    return CliRunner().invoke(make_app(arguments[0]), arguments)


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """An arena with votes, one excluded, a retired prompt and a signed head; its address and public key."""
    url = f"sqlite:///{tmp_path_factory.mktemp('arena') / 'arena.db'}"
    Store.create(url).close()
    pem, public = new_key()
    rng = np.random.default_rng(3)
    with small_site(url) as made:
        for number in range(60):
            voter = f"voter-{number % 8}"
            served = made.arena.serve(voter)
            made.arena.vote(served.matchup_id, voter, Choice.A if rng.random() < 0.6 else Choice.B)
        made.arena.append([e.PhaseChanged(phase=4), e.PromptDisabled(prompt_id="p2")])
        new = state_head(made.arena.store, made.arena.now(), title="Test arena", pem=pem)
        record_head(made.arena.store, new, made.arena.now())
    return url, public


def test_an_arena_is_published_with_its_witness_and_every_battle_is_proved(
    arena: tuple[str, str], tmp_path: Path
) -> None:
    url, key = arena
    done = publish(url, tmp_path / "site", title="Test arena", texts=True)
    assert {"witness.jsonl.gz", "head.json", "models.json"} <= set(everything(done.folder))
    found = command("verify", str(done.folder), "--key", key)
    assert found.exit_code == 0, found.output
    assert "votes: 60 counted" in found.stdout
    assert "battles of its witness give under these rules" in found.stdout
    rows = (done.folder / "battles.jsonl").read_text("utf-8").splitlines()
    other = {**json.loads(rows[5]), "winner": "tie"}
    forged = tmp_path / "forged.jsonl"
    forged.write_text("\n".join([*rows[:5], json.dumps(other), *rows[6:]]) + "\n", encoding="utf-8")
    anew = publish(forged, tmp_path / "anew", title="Test arena")
    shutil.copy(done.folder / "witness.jsonl.gz", anew.folder)
    data = (anew.folder / "witness.jsonl.gz").read_bytes()
    (anew.folder / "witness.jsonl.gz").write_bytes(b"")
    changed(anew.folder, "witness.jsonl.gz", lambda _: data)
    manifest = anew.folder / "published.json"
    for source, problem in (
        ("battles", "witness.jsonl.gz is no file of this folder"),
        ("arena", "battles.jsonl is not the file that these battles give: line 6 differs"),
    ):
        said = {**json.loads(manifest.read_bytes()), "source": source}
        manifest.write_text(json.dumps(said), encoding="utf-8")
        told = command("verify", str(anew.folder))
        assert told.exit_code == 3
        assert f"WRONG: {problem}" in told.stdout
    assert command("verify", str(done.folder), "--head", "0" * 64 + "@3").exit_code == 3


def test_no_text_of_a_prompt_that_can_be_voted_on_is_published(arena: tuple[str, str], tmp_path: Path) -> None:
    url, _ = arena
    blind = publish(url, tmp_path / "blind", texts=True)
    names = ("Question *number* 0?", "An answer with")
    for name, data in everything(blind.folder).items():
        content = gzip.decompress(data) if name.endswith(".gz") else data
        assert names[1].encode() not in content, name
        assert name.endswith(".gz") or names[0].encode() not in content, name
    with small_site(url) as made:
        made.arena.append([e.SettingsChanged(policy=Policy(texts_public="always"))])
    seen = publish(url, tmp_path / "seen", texts=True)
    assert json.loads((seen.folder / "prompts.json").read_bytes())["p0"] == "Question *number* 0?"
    assert command("verify", str(seen.folder)).exit_code == 0
    changed(seen.folder, "prompts.json", lambda data: data.replace(b"Question *number* 0?", b"Which is *better*?"))
    told = command("verify", str(seen.folder))
    assert (told.exit_code, "WRONG: prompts.json is " in told.stdout) == (3, True)
    assert b"This arena is not blind" in (seen.folder / "index.html").read_bytes()
    assert "prompts.json" not in everything(publish(url, tmp_path / "plain").folder)


def test_of_an_arena_nothing_is_published_that_the_manual_denies(tmp_path: Path) -> None:
    """The columns of every file with a row for each vote, and no byte of what has no column."""
    url, hidden = f"sqlite:///{tmp_path / 'arena.db'}", ["network-", "Ann Example"]
    Store.create(url).close()
    with small_site(url) as made:
        for number in range(12):
            voter, block = f"voter-{number % 3}", f"network-{number % 3}"
            served = made.arena.serve(voter, block=block)
            hidden.append(served.matchup_id)
            made.arena.vote(served.matchup_id, voter, Choice.A, reveal=number != 5, block=block)
            if number == 5:
                made.arena.undo(served.matchup_id, voter)
        made.arena.append(
            [
                e.PhaseChanged(phase=4),
                e.Excluded(matchup_ids=(hidden[2],), reason="Ann Example asked for it"),
                e.Flagged(subject="voter", subject_id="voter-1", flag="fast", detail="Ann Example"),
            ]
        )
        skipped = made.arena.serve("voter-0", block="network-0").matchup_id
        made.arena.skip(skipped, "voter-0")
    files = everything(publish(url, tmp_path / "site").folder)
    opened = {name: gzip.decompress(data) if name.endswith(".gz") else data for name, data in files.items()}
    for name, data in opened.items():
        assert [word for word in (*hidden, skipped) if word.encode() in data] == [], name
    rows = [json.loads(line) for line in opened["witness.jsonl.gz"].splitlines()]
    columns = {row["kind"]: set(row) - {"kind", "hour"} for row in rows if "kind" in row}
    assert columns.pop("vote") == {"receipt", "voter", "prompt", "model_a", "model_b", "choice", "unrendered"}
    assert columns.pop("excluded") == {"receipts"}
    assert columns.keys() == {"model", "prompt", "phase"}
    assert sum("kind" not in row for row in rows) <= 2, "the header, and final weights"
    battle = {"model_a", "model_b", "winner", "source", "question_id", "voter", "timestamp", "weight"}
    battles = [json.loads(line) for line in opened["battles.jsonl"].splitlines()]
    assert {name for row in battles for name in row} <= battle
    assert {row["voter"] for row in battles} == {"v1", "v2", "v3"}
    assert {row["timestamp"] % 3600 for row in battles} == {0}


def test_an_arena_in_phase_one_is_not_published(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'arena.db'}"
    Store.create(url).close()
    with small_site(url) as made:
        made.arena.append([e.PhaseChanged(phase=1)])
    with pytest.raises(ArenaError, match="phase 1"):
        publish(url, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_a_run_and_a_placement_are_published_as_they_rate_themselves(tmp_path: Path) -> None:
    run = publish(GOLDEN / "tournament" / "run", tmp_path / "run", texts=True)
    assert run.publication.kind == "run"
    for one in run.publication.boards:
        stated = ty.RatingsFile.read(GOLDEN / "tournament" / "run" / "ratings" / f"{one.dimension}.json")
        assert {entry.model: entry.rating for entry in stated.ratings} == pytest.approx(one.board.ratings, abs=1e-9)
    assert check(run.folder).problems == []
    placed = publish(GOLDEN / "placement", tmp_path / "placement")
    evaluated = [entry.model for entry in placed.publication.boards[0].board if entry.source == "evaluated"]
    assert evaluated == [json.loads((GOLDEN / "placement" / "elo_ratings.json").read_bytes())["model"]]
    if size(False, soak=True):  # fifty-five comparisons are made again; those of the run above in every run
        assert check(placed.folder).problems == []
    torn = Path(shutil.copytree(GOLDEN / "placement", tmp_path / "torn"))
    said = json.loads((torn / "manifest.json").read_bytes())
    (torn / "manifest.json").write_text(json.dumps({**said, "finished_at": None}), encoding="utf-8")
    with pytest.raises(RunFolderError, match="has not finished"):
        publish(torn, tmp_path / "no")
