"""People's labels in a run: a blind sheet is drawn, filled in, and corrects the boards, the manifest and the report."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest

import tiltyard as ty
from oracles.labelled_worlds import LabelledWorld, battle_rows
from tests.cli.conftest import Run
from tests.judge.tournament.folder import change, lines, make_folder, read_lines, script
from tiltyard.data.battles import Opened, SheetDraw, SheetKey, SheetMatchup, draw_matchups, from_spreadsheet, read_sheet
from tiltyard.errors import BattleError, ConfigError, NoBattles, OptionError
from tiltyard.judge.tournament import load_setup, write_sheet

MATERIAL = Path(ty.__file__).parent / "verbs" / "demo" / "material"
ENTRANTS = ("qwen-candid", "qwen-terse", "smollm2-lively", "smollm2-plain")
JUDGED = ty.read_battles(battle_rows(LabelledWorld("", models=4, prompts=40).draw(np.random.default_rng(1)))[0])


def fill(sheet: Path, filled: Path, names: dict[str, tuple[str, str]]) -> None:
    """People who like some entrants more than others; the first five rows stay empty."""
    rng, rows = random.Random(3), list(csv.DictReader(sheet.read_text(encoding="utf-8").splitlines(keepends=True)))
    for number, row in enumerate(rows):
        first, second = (ENTRANTS.index(name) for name in names[row["label_id"]])
        gap = second - first + rng.gauss(0.0, 2.0)
        row["winner"] = "" if number < 5 else "A" if gap > 0.5 else "B" if gap < -0.5 else "tie"
        row["voter"] = rng.choice(["ann", "bea", "cyn", "dot", "eve", "flo"])
    with filled.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def unblind(folder: Path, dimension: str) -> dict[str, tuple[str, str]]:
    """Who is behind every possible label id of a run."""
    key = SheetKey.of_folder(folder)
    assert key is not None
    battles = [row for row in read_lines(folder / "battles.jsonl") if row["dimension"] == dimension]
    pairs = [(row["question_id"], row["model_a"], row["model_b"]) for row in battles]
    shown = [SheetMatchup(dimension, prompt, *both) for prompt, a, b in pairs for both in ((a, b), (b, a))]
    return {key.label_id(one): (one.first, one.second) for one in shown}


def test_from_a_run_to_a_board_on_peoples_scale(tiltyard: Run, tmp_path: Path) -> None:
    shutil.copytree(MATERIAL, tmp_path / "m")
    folder, sheet, filled = tmp_path / "run", tmp_path / "sheet.csv", tmp_path / "filled.csv"
    again = ["run", str(tmp_path / "m" / "tournament.yaml"), "--mode", "headline", "--yes", "--limit-pairs", "110"]
    again += ["--output-dir", str(folder)]
    assert tiltyard(*again).returncode == 0
    drawn = tiltyard("battles", "draw", str(folder), "--dimension", "calibration", "--n", "65", "--out", str(sheet))
    assert "65 matchups of 110 judged ones drawn at random" in drawn.stderr
    text = sheet.read_text(encoding="utf-8")
    assert not any(name in text for name in ENTRANTS)
    fill(sheet, filled, unblind(folder, "calibration"))
    rated = tiltyard("rate", str(folder), "--people", str(filled), "--dimension", "calibration", "--format", "json")
    board = json.loads(rated.stdout)
    assert board["people"]["labels"] == 60
    assert board["left_out"]["label: not filled in"] == 5
    done = tiltyard(*again, "--calibrate", str(filled))
    assert "calibration, corrected by people's labels\nBradley–Terry · 110 battles" in done.stdout
    assert "factuality, corrected by people's labels\nno board: there is no label by people" in done.stdout
    written = json.loads((folder / "ratings" / "calibrated" / "calibration.json").read_text(encoding="utf-8"))
    assert written["ratings"] == board["ratings"]
    assert not (folder / "ratings" / "calibrated" / "factuality.json").exists()
    results = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["results"]
    assert results["calibration"]["calibration"]["people"]["lambda"] == written["people"]["lambda"]
    assert "no label by people" in results["calibration"]["factuality"]["missing"]
    page = (folder / "report.html").read_text(encoding="utf-8")
    front = page[page.index('id="board1"') :].partition("</section>")[0]
    assert "calibration <small>corrected by people’s labels</small>" in front
    assert all(f">{entry['rating']:.1f}<" in front for entry in written["ratings"])
    assert page.index('id="board1"') < page.index("Ratings by the judge alone, not corrected")
    plain = json.loads((folder / "ratings" / "calibration.json").read_text(encoding="utf-8"))
    widths = [{row["model"]: row["ci_high"] - row["ci_low"] for row in board["ratings"]} for board in (plain, written)]
    assert all(widths[0][model] < widths[1][model] for model in ENTRANTS)  # 60 labels leave more open than the judge
    first, second = written["ratings"][:2]
    ahead = f"{first['model']} is {first['rating'] - second['rating']:.0f} points ahead of {second['model']}."
    assert f"<b>calibration:</b> {first['model']} leads, but any other could be best. {ahead}" in page


def test_labels_may_stand_in_the_config_and_must_be_there(tiltyard: Run, tmp_path: Path) -> None:
    config = change(make_folder(tmp_path, judge="scripted/judge.yaml"), calibrate="people.csv")
    script(tmp_path / "judge.yaml")
    with pytest.raises(ConfigError, match=r"calibrate is 'people.csv', found neither at"):
        load_setup(config)
    people = tmp_path / "people.csv"
    people.write_text("question_id,model_a,model_b,winner\np1,otter,heron,model_a\n", encoding="utf-8")
    command = ["run", str(config), "--mode", "headline", "--yes", "--output-dir", str(tmp_path / "run")]
    stale = tmp_path / "run" / "ratings" / "calibrated" / "calibration.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}", encoding="utf-8")
    done = tiltyard(*command)
    assert done.returncode == 0
    assert not stale.exists()
    assert "1 labelled matchup is too few to correct a judge by" in done.stdout
    shutil.rmtree(tmp_path / "judgments")
    for mistyped in (
        "question_id,model_a,model_b,winner\np1,otter,heron,who knows\n",
        "label_id,model_a,model_b,winner\n0123456789abcdef,A,B,who knows\n",
    ):
        people.write_text(mistyped, encoding="utf-8")
        refused = tiltyard(*command)
        assert refused.returncode == 1
        assert "people.csv:2: unknown winner" in refused.stderr
        assert "on-bad" not in refused.stderr
        assert not (tmp_path / "judgments").exists()  # before anything was asked


def test_a_draw_takes_every_pair_in_proportion_and_sides_by_chance() -> None:
    drawn, of = draw_matchups(JUDGED, 120, np.random.default_rng(0), "d")
    assert (len(set(drawn)), of) == (120, 240)
    assert set(Counter(frozenset((one.first, one.second)) for one in drawn).values()) == {20}
    assert 35 < sum(one.first < one.second for one in drawn) < 85
    assert drawn != draw_matchups(JUDGED, 120, np.random.default_rng(1), "d")[0]
    assert len(draw_matchups(JUDGED, 10**6, np.random.default_rng(0))[0]) == 240


def rows_of(drawn: list[SheetMatchup], key: SheetKey, **cells: str) -> list[dict[str, str]]:
    plain = {"model_a": "A", "model_b": "B", "winner": "A", **cells}
    return [{"label_id": key.label_id(one), **plain} for one in drawn]


def test_a_sheet_says_who_won_whichever_side_was_shown_first() -> None:
    key = SheetKey(b"salt")
    drawn, _ = draw_matchups(JUDGED, 40, np.random.default_rng(0))
    table = read_sheet(rows_of(drawn, key, winner="B", voter="ann"), JUDGED, key)
    names = [(table.models[a], table.models[b]) for a, b in zip(table.model_a, table.model_b, strict=True)]
    assert names == [(one.first, one.second) for one in drawn]
    assert set(table.outcome.tolist()) == {1}
    assert table.text_column("question_id").texts() == [one.prompt_id for one in drawn]
    assert set(table.text_column("voter").texts()) == {"ann"}


@pytest.mark.parametrize(
    ("delimiter", "encoding", "first"),
    [
        (";", "utf-8-sig", ""),
        (";", "cp1252", ""),
        ("\t", "utf-16", ""),
        (";", "utf-8", "sep=;\r\n"),
        (",", "cp1252", ""),
    ],
)
def test_a_sheet_may_be_saved_as_spreadsheets_do(tmp_path: Path, delimiter: str, encoding: str, first: str) -> None:
    key = SheetKey(b"salt")
    rows = rows_of(draw_matchups(JUDGED, 40, np.random.default_rng(0))[0], key, voter="Zoë", remark="a, b")
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    for name in ("sheet.csv", "copies/one.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((first + text.getvalue()).encode(encoding))
    straight = read_sheet(rows, JUDGED, key)
    for name in ("sheet.csv", "copies"):
        table = read_sheet(from_spreadsheet(Opened(tmp_path / name)), JUDGED, key)
        assert table.model_a.tolist() == straight.model_a.tolist()
        assert table.outcome.tolist() == straight.outcome.tolist()
        assert set(table.text_column("voter").texts()) == {"Zoë"}


def test_labels_that_are_no_such_sheet_are_left_alone(tmp_path: Path) -> None:
    plain = tmp_path / "plain.csv"
    plain.write_text("question_id,model_a,model_b,winner\np1,a;label_id,b,A\n", encoding="utf-8")
    for given in (plain, str(plain), tmp_path, tmp_path / "missing.csv", tmp_path / "x.jsonl", [{"winner": "A"}]):
        opened = Opened(given)
        assert from_spreadsheet(opened) is opened


def test_a_winner_that_means_nothing_can_be_left_out_of_a_sheet() -> None:
    key = SheetKey(b"salt")
    rows = rows_of(draw_matchups(JUDGED, 40, np.random.default_rng(0))[0], key)
    rows[3]["winner"], rows[4]["winner"] = "who knows", ""
    with pytest.raises(BattleError, match="unknown winner"):
        read_sheet(rows, JUDGED, key)
    table = read_sheet(rows, JUDGED, key, "skip")
    assert len(table) == 38
    assert table.skipped == {"unknown winner": 1, "not filled in": 1}


def test_a_sheet_of_another_run_or_without_its_key_is_refused(tmp_path: Path) -> None:
    key = SheetKey(b"salt")
    drawn, _ = draw_matchups(JUDGED, 40, np.random.default_rng(0))
    with pytest.raises(NoBattles, match="was the sheet drawn from another folder"):
        read_sheet(rows_of(drawn, SheetKey(b"other")), JUDGED, key)
    with pytest.raises(NoBattles, match="no row of the label sheet has a winner"):
        read_sheet(rows_of(drawn, key, winner=""), JUDGED, key)
    with pytest.raises(OptionError, match="is beside the judged battles to tell"):
        ty.rate(JUDGED, people=rows_of(drawn, key))
    (tmp_path / "labelling.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BattleError, match="torn, or not the key of label sheets"):
        SheetKey.of_folder(tmp_path)


def test_a_sheet_is_not_overwritten_and_its_name_says_how_it_is_written(tiltyard: Run, tmp_path: Path) -> None:
    config = make_folder(tmp_path, judge="scripted/judge.yaml")
    script(tmp_path / "judge.yaml")
    folder = tmp_path / "run"
    tiltyard("run", str(config), "--mode", "headline", "--yes", "--output-dir", str(folder))
    draw = ["battles", "draw", str(folder), "--dimension", "factuality"]
    assert tiltyard(*draw, "--out", str(tmp_path / "s.jsonl")).returncode == 0
    assert "may hold labels" in tiltyard(*draw, "--out", str(tmp_path / "s.jsonl")).stderr
    assert "written as .jsonl or .csv" in tiltyard(*draw, "--out", str(tmp_path / "s.pdf")).stderr
    assert "has several dimensions" in tiltyard(*draw[:3], "--out", str(tmp_path / "t.csv")).stderr
    rows = read_lines(tmp_path / "s.jsonl")
    assert len(rows) == 9
    assert {row["gold_answer"] for row in rows} == {"Paris", "4", "Shakespeare"}
    assert {row["winner"] for row in rows} == {""}
    assert "there is no run folder" in tiltyard(*draw[:2], str(tmp_path / "no"), "--out", "x.csv").stderr


def test_a_sheet_shows_the_conversation_and_refuses_images_of_answers(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    line = {
        "dimension": "d",
        "prompt_id": "p1",
        "entrant_a": "otter",
        "entrant_b": "heron",
        "prompt_text": "And now?",
        "prompt_turns": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}],
        "prompt_images": [{"url": "https://example.org/map.png"}],
        "response_a": "=1+1",
        "response_b": "two",
        **dict.fromkeys(("source", "subject", "gold_answer", "expected_behavior")),
    }
    battle = {"model_a": "otter", "model_b": "heron", "winner": "tie", "source": "llm-judge"}
    (folder / "matches").mkdir(parents=True)
    lines(folder / "matches" / "matches.jsonl", [line])
    lines(folder / "battles.jsonl", [{**battle, "question_id": "p1", "dimension": "d"}])
    write_sheet(folder, tmp_path / "s.csv", n=5, new_salt=b"salt")
    (row,) = csv.DictReader((tmp_path / "s.csv").read_text(encoding="utf-8").splitlines(keepends=True))
    assert row["prompt"] == "User:\nHello\n\nAssistant:\nHi\n\nUser:\nAnd now?\n[image: https://example.org/map.png]"
    assert {row["response_a"], row["response_b"]} == {"'=1+1", "two"}  # no formula for a spreadsheet
    lines(folder / "matches" / "matches.jsonl", [{**line, "images_a": [{"path": "otter/cat.png"}]}])
    with pytest.raises(OptionError, match="hold images"):
        write_sheet(folder, tmp_path / "t.csv", n=5, new_salt=b"salt")


def labels_from(*numbers: list[int], draws: int = 1) -> dict[str, object] | None:
    """What the board says of the draw if these rows of each sheet are labelled."""
    key, sheets = SheetKey(b"salt"), []
    for seed in range(draws):
        drawn, of = draw_matchups(JUDGED, 60, np.random.default_rng(seed))
        ids = tuple(key.label_id(one) for one in drawn)
        key = key.with_draw(SheetDraw(of, ids))
        sheets.append(rows_of(drawn, key))
    rows = [sheet[n] for sheet, chosen in zip(sheets, numbers, strict=False) for n in chosen]
    for number, row in enumerate(rows):
        row["winner"] = "AB"[number % 3 == 0]
    board = ty.rate(JUDGED, people=read_sheet(rows, JUDGED, key))
    return msgspec.to_builtins(board.details.people.draw)


def test_labels_of_a_sheet_carry_its_draw() -> None:
    assert labels_from([*range(60)]) == {"of": 240, "first": 60, "left_out": 0}
    assert labels_from([*range(40)]) == {"of": 240, "first": 40, "left_out": 0}, "whoever stops early leaves none out"
    easy = [n for n in range(60) if n % 3]
    assert labels_from(easy) == {"of": 240, "first": 60, "left_out": 20}
    both = labels_from([*range(30)], [*range(30)], draws=2)
    assert both == {"of": 240, "first": 58, "left_out": 0}, "two matchups are among the first thirty of both sheets"
    assert labels_from([*range(60)], [], draws=2) == {"of": 240, "first": 60, "left_out": 0}, "one sheet was not sent"


def test_a_key_of_a_folder_without_draws_is_read_and_one_with_nonsense_is_refused(tmp_path: Path) -> None:
    (tmp_path / "labelling.json").write_text('{"salt": "00ff"}', encoding="utf-8")
    assert SheetKey.of_folder(tmp_path) == SheetKey(b"\x00\xff")
    key = SheetKey(b"\x00\xff").with_draw(SheetDraw(9, ("a", "b")))
    key.write(tmp_path)
    assert SheetKey.of_folder(tmp_path) == key
    assert key.with_draw(SheetDraw(9, ("a", "b"))) == key, "the same draw again is one draw"
    (tmp_path / "labelling.json").write_text('{"salt": "00ff", "draws": [{"of": "many"}]}', encoding="utf-8")
    with pytest.raises(BattleError, match="torn, or not the key"):
        SheetKey.of_folder(tmp_path)
