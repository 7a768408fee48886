from __future__ import annotations

import gzip
import importlib.util
from typing import TYPE_CHECKING

import pytest
from battle_rows import KINDS, rows, same

from tiltyard.data.battles import Battle, battles_to_frame, read_battles, write_battles
from tiltyard.errors import BattleError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_is_read_back_as_it_was(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"battles.{kind}"

    assert write_battles(path, read_battles(rows())) == 4

    assert same(read_battles(path), read_battles(rows()))
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_rows_and_battles_are_written_like_a_table(tmp_path: Path) -> None:
    write_battles(tmp_path / "table.jsonl", read_battles(rows()))
    write_battles(tmp_path / "rows.jsonl", rows())
    write_battles(tmp_path / "battles.jsonl", (Battle.from_dict(row) for row in rows()))

    written = {path.read_bytes() for path in tmp_path.iterdir()}
    assert len(written) == 1


def test_a_json_line_holds_only_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "battles.jsonl"

    write_battles(path, [rows()[3]])

    expected = b'{"model_a":"otter","model_b":"crane","winner":"tie (bothbad)","source":"human","question_id":"q3"}\n'
    assert path.read_bytes() == expected


def test_the_same_battles_make_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.jsonl.gz", "two.jsonl.gz"):
        write_battles(tmp_path / name, rows())

    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "two.jsonl.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.jsonl.gz").read_bytes()).count(b"\n") == 4


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "battles.jsonl"
    write_battles(path, rows())
    before = path.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tiltyard.data.battles.writing.write_lines", full_disk)
    with pytest.raises(BattleError, match=r"cannot write .*No space left on device"):
        write_battles(path, rows()[:1])

    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_no_battles_make_an_empty_file(tmp_path: Path) -> None:
    assert write_battles(tmp_path / "battles.jsonl", []) == 0
    assert (tmp_path / "battles.jsonl").read_bytes() == b""
    write_battles(tmp_path / "battles.csv", [])
    assert (tmp_path / "battles.csv").read_text() == "model_a,model_b,winner,source\n"


@pytest.mark.parametrize("name", ["battles.xlsx", "battles", "battles.json", "battles.parquet.gz"])
def test_a_name_that_does_not_say_how_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BattleError, match=name):
        write_battles(tmp_path / name, rows())


def test_a_folder_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BattleError, match=r"cannot write .*absent.* No such file or directory"):
        write_battles(tmp_path / "absent" / "battles.jsonl", rows())


def test_a_frame_has_the_columns_of_a_battle_row() -> None:
    frame = battles_to_frame(read_battles(rows()))

    assert list(frame["winner"]) == ["model_a", "tie", "model_b", "tie (bothbad)"]
    assert list(frame["inconsistent"]) == [False, True, False, False]
    assert list(frame["weight"]) == [1, 1, 2, 1]
    assert same(read_battles(frame), read_battles(rows()))
    assert list(battles_to_frame(rows()).columns) == list(frame.columns)


def test_without_pandas_the_frame_is_of_what_there_is_and_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An install with all extras has none of the three, and its frame is rated like the battles."""
    table = read_battles(rows())
    installed = {"polars", "pyarrow"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in installed else None)

    frame = battles_to_frame(table)
    assert type(frame).__module__.startswith("polars")
    assert same(read_battles(frame), table)

    installed.remove("polars")
    frame = battles_to_frame(table)
    assert type(frame).__module__.startswith("pyarrow")
    assert same(read_battles(frame), table)

    installed.clear()
    frame = battles_to_frame(table)
    assert [row["winner"] for row in frame] == ["model_a", "tie", "model_b", "tie (bothbad)"]
    assert same(read_battles(frame), table)
