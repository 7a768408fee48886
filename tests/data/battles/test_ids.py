"""One id however it is written: blanks around a text do not count, and 1, 1.0 and "1.0" are one prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from battle_rows import write_raw

from tiltyard.data.battles import BadRows, BattleTable, ReadBattlesOptions, read_battles
from tiltyard.data.battles.layout import BLANKS
from tiltyard.data.battles.reading import find_sources

BASE = {"model_a": " otter", "model_b": "heron\u00a0", "winner": " otter ", "source": "human ", "category": "law\t"}
SAME = {
    "jsonl": [1, 1.0, "1", " 1", "1.0", "1\u3000"],
    "csv": ["1", "1.0", " 1", "1 ", "\u20031\t"],
    "parquet": ["1", "1.0", " 1", "1\u2028", "\u00851"],
}


def rows(ids: list[Any]) -> list[dict[str, Any]]:
    return [BASE | {"question_id": given} for given in [*ids, "2", "问题"]]


def n_ids(table: BattleTable) -> int:
    return len(set(table.text_column("question_id").codes.tolist()) - {-1})


def test_blanks_are_what_python_strips() -> None:
    assert sorted(BLANKS) == [chr(code) for code in range(0x110000) if chr(code).isspace()]


@pytest.mark.parametrize("kind", SAME)
def test_an_id_is_one_however_it_is_written(tmp_path: Path, kind: str) -> None:
    path = write_raw(tmp_path / f"battles.{kind}", rows(SAME[kind]))
    for options in (ReadBattlesOptions(), ReadBattlesOptions(columns=(), hashed=frozenset(["question_id"]))):
        (source,) = find_sources(path, options)
        fast = source.read_with_duckdb()
        assert fast is not None
        for table in (fast, source.read_by_row(BadRows(stop=True))):
            assert n_ids(table) == 3, options
            assert table.models == ("heron", "otter")
            assert set(table.outcome.tolist()) == {0}
    assert read_battles(path).text_column("category").labels == ("law",)


def test_a_column_of_floats_has_the_ids_of_one_of_texts(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    texts = pandas.DataFrame(rows(["1", "1"]))
    floats = texts.assign(question_id=[1.0, None, 2.0, 3.5])
    labels = read_battles(floats).text_column("question_id").labels
    assert sorted(labels) == ["1", "2", "3.5"]
    hashed = read_battles(floats, columns=[], hashed=["question_id"])
    assert n_ids(hashed) == 3
    strings = read_battles(texts.assign(question_id=["1", "", "2", "3.5"]), columns=[], hashed=["question_id"])
    assert list(hashed.text_column("question_id").labels) == list(strings.text_column("question_id").labels)


def test_two_files_share_an_id_that_each_writes_its_own_way(tmp_path: Path) -> None:
    one = write_raw(tmp_path / "one.csv", rows(["7.0"]))
    two = write_raw(tmp_path / "two.jsonl", rows([7]))
    assert n_ids(read_battles([one, two], columns=[], hashed=["question_id"])) == 3


def test_a_model_with_a_blank_after_its_name_does_not_meet_itself() -> None:
    table = read_battles([BASE, BASE | {"model_b": "otter "}], on_bad="skip")
    assert table.skipped == {"model against itself": 1}
