"""`tiltyard place` as a user runs it: the board it prints, the folder it leaves, and that the folder rebuilds it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import tiltyard as ty
from tests.cli.conftest import Run
from tests.fakes import FakeServer
from tests.placement.arena_files import WrittenArena
from tests.placement.conftest import example, only_folder, read_json, read_lines, run_ok, served

FILES = {
    *("manifest.json", "panel.json", "texts.jsonl", "verdicts.jsonl", "battles.jsonl", "elo_ratings.json"),
    *("bootstrap_ratings.npz", "usage.json", "leaderboard.txt", "report.html"),
}


def test_a_plain_run_prints_the_board_and_tiltyard_rate_gives_its_ratings_again(tmp_path: Path, tiltyard: Run) -> None:
    shown = run_ok(tiltyard, *example())
    folder = only_folder(tmp_path)
    assert {path.name for path in folder.iterdir()} == FILES
    assert folder.name.startswith("arena-kestrel-2")
    assert (folder / "leaderboard.txt").read_text(encoding="utf-8").strip() in shown
    assert "kestrel is rated" in shown
    manifest = read_json(folder / "manifest.json")
    saved = read_json(folder / "elo_ratings.json")
    again = run_ok(tiltyard, *_rate(manifest["rate_command"], folder), "--format", "json")
    assert json.loads(again)["ratings"] == saved["ratings"]
    assert json.loads(again)["battles_sha256"] == saved["battles_sha256"]


def _rate(command: str, folder: Path) -> list[str]:
    words = shlex.split(command)[1:]
    return [str(folder / word) if word == "battles.jsonl" else word for word in words]


def test_the_ratings_file_has_the_contract_of_the_seed_and_one_evaluated_model(tmp_path: Path, tiltyard: Run) -> None:
    run_ok(tiltyard, *example("--n-battles", "60", "--bootstraps", "50", "--seed", "3"))
    folder = only_folder(tmp_path)
    report = ty.EloReport.read(folder / "elo_ratings.json")
    assert (report.arena, report.model) == ("arena", "kestrel")
    assert report.judge_model == read_json(folder / "manifest.json")["judge_model"]
    assert (report.n_bootstraps, report.seed) == (50, 3)
    sources = {entry.model: entry.source for entry in report.ratings}
    assert [name for name, source in sources.items() if source == "evaluated"] == ["kestrel"]
    assert set(sources.values()) == {"evaluated", "human"}
    assert len(sources) == 11
    with np.load(folder / "bootstrap_ratings.npz") as rounds:
        assert rounds["ratings"].shape == (50, 11)
        assert set(rounds["models"]) == set(sources)


def test_battles_are_inlined_whole_judged_ones_first(tmp_path: Path, tiltyard: Run) -> None:
    run_ok(tiltyard, *example("--n-battles", "30"))
    rows = read_lines(only_folder(tmp_path) / "battles.jsonl")
    assert [row["source"] for row in rows] == ["llm-judge"] * 30 + ["human"] * 420
    assert {row["model_a"] for row in rows[:30]} == {"kestrel"}
    assert all("question_id" in row for row in rows)
    assert all("judge_model" in row for row in rows[:30])
    assert not any("judge_model" in row for row in rows[30:])


@pytest.mark.parametrize(
    "options",
    [
        ("--calibrate", "300"),
        ("--fixed-anchors", "--bootstraps", "0"),
        ("--until", "rank:6", "--looks", "8", "--n-battles", "250"),
        ("--until", "250", "--n-battles", "200"),
        ("--no-inline-human", "--anchor", "egret=1200"),
        ("--swap", "random", "--sampling", "random", "--calibrate", "200"),
        ("--languages", "fr", "--min-opponent-battles", "10", "--sampling", "head"),
    ],
    ids=lambda options: " ".join(options),
)
def test_every_run_is_rebuilt_byte_for_byte_from_its_folder_alone(
    tmp_path: Path, tiltyard: Run, options: tuple[str, ...]
) -> None:
    shown = run_ok(tiltyard, *example(*options))
    moved = tmp_path / "elsewhere"
    only_folder(tmp_path).rename(moved)
    done = tiltyard("place", "--recompute", str(moved))
    assert done.returncode == 0, done.stderr
    assert "byte for byte" in done.stderr
    assert done.stdout.strip() in shown


def test_a_changed_battle_is_noticed(tmp_path: Path, tiltyard: Run) -> None:
    run_ok(tiltyard, *example("--n-battles", "30"))
    folder = only_folder(tmp_path)
    first, *others = read_lines(folder / "battles.jsonl")
    changed = {**first, "winner": "model_b" if first["winner"] == "model_a" else "model_a"}
    text = "".join(json.dumps(row) + "\n" for row in [changed, *others])
    (folder / "battles.jsonl").write_text(text, encoding="utf-8")
    done = tiltyard("place", "--recompute", str(folder))
    assert done.returncode == 1
    assert "do not follow from the saved battles" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_calibration_moves_the_rating_to_peoples_scale_and_widens_the_interval(tmp_path: Path, tiltyard: Run) -> None:
    run_ok(tiltyard, *example("--calibrate", "350", "--n-battles", "200"))
    folder = only_folder(tmp_path)
    found = read_json(folder / "manifest.json")["calibration"]
    entry = next(row for row in read_json(folder / "elo_ratings.json")["ratings"] if row["model"] == "kestrel")
    # The truth is 1060. The judge's own scale is stretched, and says much more.
    assert entry["ci_low"] < 1060 < entry["ci_high"]
    assert entry["judge_scale_rating"] > entry["rating"] + 50
    assert found["slope"] > 1.0
    assert set(found["variance_points2"]) == {"sampling", "idiosyncrasy", "slope", "anchors"}
    assert found["agreement"]["n"] > 100
    lines = read_lines(folder / "calibration.jsonl")
    assert len(lines) == 350
    assert {row["human_winner"] for row in lines} <= {"model_a", "model_b", "tie"}


def test_a_model_that_people_know_is_placed_by_the_judge_alone_and_compared(tmp_path: Path, tiltyard: Run) -> None:
    command = example("--leave-one-out", "--calibrate", "300")
    command[command.index("--model") + 1] = "dunlin"
    shown = run_ok(tiltyard, *command)
    folder = only_folder(tmp_path)
    found = read_json(folder / "manifest.json")["leave_one_out"]
    assert "people rate it" in shown
    board = {row["model"]: row for row in read_json(folder / "elo_ratings.json")["ratings"]}
    assert found["error"] == pytest.approx(board["dunlin"]["rating"] - found["human_rating"])
    rows = read_lines(folder / "battles.jsonl")
    human = [row for row in rows if row["source"] == "human"]
    assert not any("dunlin" in (row["model_a"], row["model_b"]) for row in human)
    assert board["dunlin"]["source"] == "evaluated"


def test_another_model_can_be_placed_on_the_same_panel(tmp_path: Path, tiltyard: Run) -> None:
    run_ok(tiltyard, *example("--n-battles", "25"))
    first = only_folder(tmp_path)
    panel = first / "panel.json"
    run_ok(tiltyard, *example("--panel", str(panel), "--n-battles", "25", "--out", "second", "--seed", "9"))
    (second,) = (tmp_path / "second").iterdir()
    assert read_json(second / "panel.json")["battles"] == read_json(panel)["battles"]
    assert read_json(second / "manifest.json")["panel"]["fingerprint"] == read_json(panel)["fingerprint"]
    changed = read_json(panel)
    changed["battles"][0]["opponent"] = "nobody"
    panel.write_text(json.dumps(changed), encoding="utf-8")
    done = tiltyard(*example("--panel", str(panel)))
    assert done.returncode == 1
    assert "do not match the fingerprint" in done.stderr


def test_answers_and_verdicts_come_from_a_server_and_nothing_is_paid_for_twice(
    tmp_path: Path, tiltyard: Run, arena: WrittenArena, server: FakeServer
) -> None:
    dry = tiltyard(*served(server, "--dry-run"))
    assert dry.returncode == 0, dry.stderr
    assert "queries" in dry.stderr
    assert not server.ledger.accepted
    assert not (tmp_path / "placements").exists()
    first = run_ok(tiltyard, *served(server))
    assert "local/newcomer is rated" in first
    asked = len(server.ledger.accepted)
    assert asked == 40 + 2 * 40  # an answer to each question, and both orders of each battle
    second = run_ok(tiltyard, *served(server))
    assert len(server.ledger.accepted) == asked
    assert first == second
    one, two = sorted((tmp_path / "placements").iterdir())
    assert (one / "elo_ratings.json").read_bytes() == (two / "elo_ratings.json").read_bytes()
    usage = read_json(one / "usage.json")
    assert usage["answers"]["asked"] == 40
    assert usage["dimensions"]["panel"]["fresh_calls"] == 80


def test_a_new_model_of_openais_is_not_asked_at_the_judges_server_unless_that_is_said(
    tmp_path: Path, tiltyard: Run, arena: WrittenArena, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    monkeypatch.setenv("LOCAL_API_KEY", "sk-of-ones-own-server")
    command = served(server, "--n-battles", "5", "--looks", "1")
    command[command.index("--model") + 1] = "openai/gpt-newcomer"
    with FakeServer() as makers:
        monkeypatch.setenv("OPENAI_BASE_URL", makers.openai_url)
        makers.behaviour.judge = server.behaviour.judge
        makers.behaviour.key = "sk-test-0123456789abcdef"
        server.behaviour.key = "sk-of-ones-own-server"  # a call with another is counted and turned away
        run_ok(tiltyard, *command)
        assert [one.body["model"] for one in makers.ledger.accepted] == ["gpt-newcomer"] * 5
        assert server.ledger.calls["ask"] == len(server.ledger.accepted) == 2 * 5
        server.behaviour.key = None
        run_ok(tiltyard, *command, "--model-base-url", server.openai_url, "--cache-dir", "elsewhere")
        assert len(makers.ledger.accepted) == 5
        assert "gpt-newcomer" in {one.body["model"] for one in server.ledger.accepted}


def test_one_order_drawn_by_lot_asks_half_as_much(
    tmp_path: Path, tiltyard: Run, arena: WrittenArena, server: FakeServer
) -> None:
    run_ok(tiltyard, *served(server, "--swap", "random"))
    assert len(server.ledger.accepted) == 40 + 40
    seats = read_json(only_folder(tmp_path) / "panel.json")["battles"]
    assert 8 <= sum(seat["first"] == "model" for seat in seats) <= 32  # 20 expected, four standard deviations


def test_whole_conversations_are_answered_turn_by_turn(tmp_path: Path, tiltyard: Run, server: FakeServer) -> None:
    from tests.placement.arena_files import write_arena

    write_arena(tmp_path / "arena.jsonl", models=[f"m{k}" for k in range(6)], rows=300, turns=2)
    run_ok(tiltyard, *served(server, "--turns", "all", "--n-battles", "20"))
    assert len(server.ledger.accepted) == 2 * 20 + 2 * 20
    texts = read_lines(only_folder(tmp_path) / "texts.jsonl")
    assert all(row["prompt"].startswith("Turn 1:") and "Turn 2:" in row["model_answer"] for row in texts)


def test_the_cap_per_language_holds(tmp_path: Path, tiltyard: Run, arena: WrittenArena, server: FakeServer) -> None:
    done = tiltyard(*served(server, "--per-language", "7"))
    assert done.returncode == 0, done.stderr
    assert "only 14 of the 40 battles asked for can be judged" in done.stderr
    texts = read_lines(only_folder(tmp_path) / "texts.jsonl")
    assert sorted(row["language"] for row in texts) == ["en"] * 7 + ["fr"] * 7


def test_a_placement_and_its_recomputation_print_any_format(tmp_path: Path, tiltyard: Run) -> None:
    done = tiltyard(*example("--n-battles", "30", "--calibrate", "200", "--format", "json"))
    assert done.returncode == 0, done.stderr
    folder = only_folder(tmp_path)
    saved = (folder / "elo_ratings.json").read_text(encoding="utf-8")
    assert done.stdout == saved
    assert "kestrel is rated" in done.stderr
    again = tiltyard("place", "--recompute", str(folder), "--format", "json")
    assert (again.returncode, again.stdout) == (0, saved)
    assert "byte for byte" in again.stderr
    names = {row["model"] for row in json.loads(saved)["ratings"]}
    for shape, start in (("csv", "model,rating,"), ("md", "Bradley"), ("table", "Bradley")):
        shown = run_ok(tiltyard, "place", "--recompute", str(folder), "--format", shape)
        assert shown.startswith(start)
        assert all(name in shown for name in names)


@pytest.mark.parametrize("options", [("--yes", "--dry-run"), ()], ids=["a dry run", "nobody agreed"])
def test_a_placement_that_asks_nothing_leaves_nothing_behind(
    tmp_path: Path, tiltyard: Run, options: tuple[str, ...]
) -> None:
    (tmp_path / "judge.yaml").write_text('rules: [{say: "VERDICT: A"}]', encoding="utf-8")
    command = [word for word in example() if word != "--yes"]
    command[command.index("--judge") + 1] = "scripted/judge.yaml"
    assert tiltyard(*command, *options).returncode == (0 if options else 1)
    assert [path.name for path in tmp_path.iterdir()] == ["judge.yaml"]


def test_a_placement_by_recorded_verdicts_leaves_its_folder_and_nothing_else(tmp_path: Path, tiltyard: Run) -> None:
    run_ok(tiltyard, *example("--n-battles", "20"))
    assert [path.name for path in tmp_path.iterdir()] == ["placements"]
