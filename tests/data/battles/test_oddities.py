"""What is odd though no row is bad: rows that repeat another in every column, and names that look alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from battle_rows import KINDS, write_raw
from tests.within import run

import tiltyard as ty
from tiltyard.data.battles import oddities, read_battles
from tiltyard.data.battles.reading import look_alikes


def battles(n: int = 12, **more: Any) -> list[dict[str, Any]]:
    """Battles on different prompts, each row unlike the others."""
    sides = [("otter", "heron"), ("heron", "crane"), ("crane", "otter")]
    return [
        {
            "model_a": sides[at % 3][0],
            "model_b": sides[at % 3][1],
            "winner": ("model_a", "model_b")[at // 3 % 2],
            "source": "human",
            "question_id": f"q{at}",
            "comment": f"because {at}",
            **more,
        }
        for at in range(n)
    ]


@pytest.mark.parametrize("kind", [*KINDS, "rows"])
def test_rows_that_repeat_another_in_every_column_are_counted_and_kept(tmp_path: Path, kind: str) -> None:
    rows = [*battles(), *battles(3), *battles(1)]
    data: Any = rows if kind == "rows" else write_raw(tmp_path / f"battles.{kind}", rows)
    table = read_battles(data)
    assert table.repeated == 4
    assert len(table) == 16
    assert read_battles(data, where="question_id <> 'q2'").repeated == 3


def test_rows_that_differ_in_a_column_that_is_not_read_do_not_repeat(tmp_path: Path) -> None:
    rows = [*battles(), *({**row, "comment": "again"} for row in battles(3))]
    for kind in ("jsonl", "parquet"):
        assert read_battles(write_raw(tmp_path / f"battles.{kind}", rows)).repeated == 0
    assert read_battles(rows).repeated == 0


def test_equal_rows_say_nothing_where_battles_cannot_be_told_apart_or_have_an_id() -> None:
    bare = [{key: row[key] for key in ("model_a", "model_b", "winner", "source")} for row in battles()]
    assert read_battles(bare * 2).repeated == 0
    assert read_battles([*battles(battle_id="b1"), *battles(battle_id="b1")]).repeated == 0


def test_a_file_given_twice_is_said_by_check_rate_compare_and_gate(tmp_path: Path) -> None:
    write_raw(tmp_path / "battles.jsonl", [*battles(60), *battles(12)])
    says = "12 rows repeat another row in every column, and each counts."
    for arguments in (
        ("battles", "check", "battles.jsonl"),
        ("rate", "battles.jsonl"),
        ("compare", "otter", "heron", "--in", "battles.jsonl"),
        ("gate", "otter", "heron", "--in", "battles.jsonl"),
    ):
        done = run(tmp_path, *arguments)
        assert says in done.stdout, arguments


def test_names_that_differ_only_in_case_are_named(tmp_path: Path) -> None:
    rows = battles(60)
    for row in rows[:20]:
        row["model_a"] = row["model_a"].title()
    write_raw(tmp_path / "battles.jsonl", rows)
    for arguments in (
        ("battles", "check", "battles.jsonl"),
        ("rate", "battles.jsonl"),
        ("compare", "otter", "heron", "--in", "battles.jsonl"),
    ):
        done = run(tmp_path, *arguments)
        assert "'Otter' and 'otter'" in done.stdout, arguments
        assert "If they are one model, give it one name" in done.stdout
    assert not any("capital" in remark for remark in ty.rate(battles(60)).remarks)


def test_names_are_alike_without_regard_to_case_and_blanks() -> None:
    assert look_alikes(["gpt-4", "GPT-4", "gpt 4", "GPT4", "gpt-4o"]) == [("GPT-4", "gpt-4"), ("GPT4", "gpt 4")]


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_battle_id_that_comes_again_is_counted_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, small: bool
) -> None:
    """Ids 1, 1, 2, 3, and 1 with another result in a second file: two rows repeat an id; empty ids repeat none."""
    if not small:
        monkeypatch.setattr("tiltyard.data.battles.reading.SMALL_BYTES", 0)
    ids = ["1", "1", "2", "3", None, None]
    first = [{**row, "battle_id": one} for row, one in zip(battles(len(ids)), ids, strict=True)]
    again = [{**row, "battle_id": "1", "winner": "tie"} for row in battles(1)]
    files = [write_raw(tmp_path / f"1.{kind}", first), write_raw(tmp_path / f"2.{kind}", again)]
    table = read_battles(files)
    assert table.repeated_ids == 2
    assert oddities(table)[0].startswith("2 rows repeat the battle_id of another row, and each counts.")
    assert read_battles(files, where="battle_id <> '1'").repeated_ids == 0
    assert read_battles([files[0], files[0]]).repeated_ids == 5


def test_rate_says_that_battle_ids_come_twice() -> None:
    data = [{**row, "battle_id": str(n // 2)} for n, row in enumerate(battles(20))]
    assert any("10 rows repeat the battle_id" in remark for remark in ty.rate(data).remarks)
    assert not any("battle_id" in remark for remark in ty.rate(battles(20)).remarks)
