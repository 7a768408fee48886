"""Judgments in brief: each says what its line says, and groups keep their order."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tiltyard.judge.verdicts import VerdictLabel
from tiltyard.reports import read_run
from tiltyard.reports.run import JudgedBattle, grouped, read_judged
from tiltyard.reports.sections import behaviour


def _verdict(word: str, *, swap: bool, judge: str = "j") -> dict[str, Any]:
    origin = {"cache_key": "k", "rubric_version": "1", "timestamp": "2026-05-02T10:00:00+00:00", "reasoning": "r"}
    return {**origin, "judge_model": judge, "position_swap": swap, "verdict": word}


def _line(prompt: str, raw: list[dict[str, Any]], *, winner: str | None = None) -> str:
    names = {"prompt_id": prompt, "dimension": "d", "entrant_a": "A", "entrant_b": "TIE", "winner": winner}
    return json.dumps({**names, "inconsistent": False, "status": "ok", "raw": raw})


def _read(folder: Path, lines: list[str]) -> list[JudgedBattle]:
    path = folder / "d.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return read_judged({"d": path}, folder)


def test_every_record_is_what_its_line_says(run_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run_folder, tmp_path / "run")
    path = folder / "verdicts" / "clarity.jsonl"
    path.write_text("\n" + path.read_text().replace("\n", "\n\n", 7))  # empty lines count as lines
    run = read_run(folder)
    assert [battle.number for battle in run.battles] == list(range(len(run.battles)))
    for battle in run.battles:
        line = (folder / battle.file).read_bytes().splitlines()[battle.line.number - 1]
        written = json.loads(line)
        shown = {name: getattr(battle, name) for name in ("prompt_id", "dimension", "entrant_a", "entrant_b", "winner")}
        assert shown == {name: written[name] for name in shown}
        assert (battle.status, battle.inconsistent) == (written["status"], written["inconsistent"])
        assert list(battle.slots) == [verdict["verdict"] for verdict in written["raw"]]
        assert list(battle.swaps) == [verdict["position_swap"] for verdict in written["raw"]]
        assert run.judgment(battle).prompt_id == written["prompt_id"]


def test_groups_keep_their_order(tmp_path: Path) -> None:
    words = [("x", "A", "A"), ("y", "A", "B"), ("x", "A", "B")]
    lines = [_line("p", [_verdict(a, swap=False, judge=j), _verdict(b, swap=True, judge=j)]) for j, a, b in words]
    groups = grouped(_read(tmp_path, lines), lambda battle: battle.judges[0])
    assert list(groups) == ["x", "y"]
    assert behaviour(groups["x"]).flips.value == 0.5


def test_an_entrant_or_judge_may_be_named_like_a_verdict(tmp_path: Path) -> None:
    lines = [_line("p", [_verdict("B", swap=False, judge="A")], winner="TIE")]
    lines += [_line("p", [_verdict("A", swap=False, judge="B")], winner="A")]
    battles = _read(tmp_path, lines)
    assert [(battle.winner, battle.judges) for battle in battles] == [("TIE", ("A",)), ("A", ("B",))]
    assert battles[1].slots[0] is VerdictLabel.A
    assert behaviour(battles).first_slot.hits == 1
