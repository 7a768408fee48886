"""Judgments held as columns say what a list of records would say, in a fraction of the memory."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tiltyard.judging.records import VerdictLabel
from tiltyard.report import read_run
from tiltyard.report.counts import behaviour, behaviour_by, verdict_counts
from tiltyard.report.judged import counted, read_judged
from tiltyard.report.sections import tally

if TYPE_CHECKING:
    from pathlib import Path

    from tiltyard.report.judged import JudgedBattle, JudgedBattles


@pytest.fixture(scope="module")
def battles(run_folder: Path) -> JudgedBattles:
    return read_run(run_folder).battles


def _verdict(word: str, *, swap: bool, judge: str = "j") -> dict[str, Any]:
    origin = {"cache_key": "k", "rubric_version": "1", "timestamp": "2026-05-02T10:00:00+00:00", "reasoning": "r" * 400}
    return {**origin, "judge_model": judge, "position_swap": swap, "verdict": word}


def _line(prompt: str, raw: list[dict[str, Any]], *, winner: str | None = None) -> str:
    names = {"prompt_id": prompt, "dimension": "d", "entrant_a": "A", "entrant_b": "TIE", "winner": winner}
    return json.dumps({**names, "inconsistent": False, "status": "ok", "raw": raw})


def _read(folder: Path, lines: list[str]) -> JudgedBattles:
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


def test_counts_over_kinds_are_those_of_the_judgments_one_by_one(battles: JudgedBattles) -> None:
    listed = list(battles)
    assert len(list(battles.counted())) < len(listed) == sum(count for _, count in counted(battles))
    assert tally(battles) == tally(listed)
    assert behaviour(battles) == behaviour(listed)
    words = Counter(word for battle in listed for word in battle.said)
    assert list(verdict_counts(battles).items()) == list(words.items()), "also in their order"


def test_groups_and_choices_hold_the_same_judgments_in_the_same_order(battles: JudgedBattles) -> None:
    def prompt(battle: JudgedBattle) -> str:
        return battle.prompt_id

    expected: dict[str, list[JudgedBattle]] = {}
    chosen = [battle for battle in battles if battle.dimension == "clarity" and battle.settled]
    for battle in chosen:
        expected.setdefault(battle.prompt_id, []).append(battle)
    settled = battles.of_dimension("clarity").of_kind(lambda battle: battle.settled)
    assert list(settled) == chosen
    groups = settled.grouped(prompt)
    assert [(name, list(group)) for name, group in groups.items()] == list(expected.items())
    habits = {name: behaviour(group) for name, group in expected.items()}
    assert list(behaviour_by(settled, prompt).items()) == list(habits.items())


def test_they_are_a_sequence(battles: JudgedBattles) -> None:
    listed = list(battles)
    assert (battles[0], battles[-1]) == (listed[0], listed[-1])
    assert list(battles[5:60:7]) == listed[5:60:7]
    assert list(reversed(battles[:9])) == listed[8::-1]
    assert not battles[:0]
    with pytest.raises(IndexError):
        battles[len(listed)]


def test_groups_keep_their_order(tmp_path: Path) -> None:
    words = [("x", "A", "A"), ("y", "A", "B"), ("x", "A", "B")]
    lines = [_line("p", [_verdict(a, swap=False, judge=j), _verdict(b, swap=True, judge=j)]) for j, a, b in words]
    groups = behaviour_by(_read(tmp_path, lines), lambda battle: battle.judges[0])
    assert list(groups) == ["x", "y"]
    assert groups["x"].flips.value == 0.5


def test_an_entrant_or_judge_may_be_named_like_a_verdict(tmp_path: Path) -> None:
    lines = [_line("p", [_verdict("B", swap=False, judge="A")], winner="TIE")]
    lines += [_line("p", [_verdict("A", swap=False, judge="B")], winner="A")]
    battles = _read(tmp_path, lines)
    assert [(battle.winner, battle.judges) for battle in battles] == [("TIE", ("A",)), ("A", ("B",))]
    assert battles[1].slots[0] is VerdictLabel.A
    assert behaviour(battles).first_slot.hits == 1


def test_a_judgment_takes_some_twenty_bytes_of_memory(tmp_path: Path) -> None:
    kinds = [("A", "B"), ("B", "A"), ("TIE", "TIE"), ("A", "A")]
    raw = [[_verdict(one, swap=False), _verdict(two, swap=True)] for one, two in kinds]
    lines = [_line(f"p{number % 50}", raw[number % 4]) for number in range(3_000)]
    tracemalloc.start()
    battles = _read(tmp_path, lines)
    groups = battles.grouped(lambda battle: battle.prompt_id)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(groups) == 50
    assert held / len(battles) < 45, "24 in columns, 4 in a group, spare room as arrays grow, and what is shared"
