from __future__ import annotations

import io
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from battle_rows import KINDS, rows, same, write_raw

from tiltyard.data.battles import (
    Battle,
    BattleTable,
    Codes,
    Outcome,
    ReadBattlesOptions,
    Source,
    peek,
    read_battles,
    reading,
)
from tiltyard.data.battles.reading import find_sources
from tiltyard.errors import BattleError, NoBattles, OptionError

if TYPE_CHECKING:
    from pathlib import Path


HASHED = ReadBattlesOptions(hashed=frozenset({"question_id"}))
"""Clusters are numbered by hash, and resamples depend on the numbers."""


def texts(table: BattleTable, name: str) -> list[str | None]:
    column = table.columns[name]
    assert isinstance(column, Codes)
    return column.texts()


SOME = ("jsonl.gz", "csv", "parquet")
"""One kind of file for each way of reading."""


@pytest.fixture(params=[pytest.param(kind, marks=[] if kind in SOME else [pytest.mark.soak]) for kind in KINDS])
def some_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of some kinds in every run, and of every kind in a soak."""
    return write_raw(tmp_path / f"battles.{request.param}", rows())


@pytest.fixture(params=KINDS)
def battle_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_raw(tmp_path / f"battles.{request.param}", rows())


def test_a_frame_saved_with_its_index_is_read_and_a_file_without_headings_is_named(tmp_path: Path) -> None:
    lines = [",model_a,model_b,winner,source,", "0,otter,heron,model_a,human,x", "1,heron,otter,tie,human,y"]
    (tmp_path / "b.csv").write_text("\n".join(lines) + "\n")
    table = read_battles(tmp_path / "b.csv")
    assert (table.n_battles, table.outcome.tolist()) == (2, [Outcome.A.code, Outcome.TIE.code])
    assert "unnamed" not in " ".join(map(str, peek(tmp_path / "b.csv").columns))
    (tmp_path / "none.csv").write_text(", ,\notter,heron,tie\n")
    with pytest.raises(BattleError, match=r"none.csv: no column of its first line has a heading"):
        read_battles(tmp_path / "none.csv")


def test_every_column_of_every_kind_of_file_is_read_without_the_careful_reader(
    battle_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "read_carefully", None)
    table = read_battles(battle_file)

    assert table.models == ("crane", "heron", "otter")
    assert [table.models[code] for code in table.model_a] == ["otter", "heron", "crane", "otter"]
    assert [table.models[code] for code in table.model_b] == ["heron", "crane", "otter", "crane"]
    assert table.outcome.tolist() == [Outcome.A.code, Outcome.TIE.code, Outcome.B.code, Outcome.BOTH_BAD.code]
    assert table.source.tolist() == [Source.HUMAN.code, Source.LLM_JUDGE.code, Source.LLM_JUDGE.code, Source.HUMAN.code]
    assert table.weight.tolist() == [1, 1, 2, 1]
    assert table.n_battles == 5
    np.testing.assert_array_equal(table.score_a, [np.nan, np.nan, 0.25, np.nan])
    assert texts(table, "question_id") == ["q1", "q2", "q1", "q3"]
    assert texts(table, "judge_model") == [None, "judge-1", None, None]
    assert texts(table, "category") == [None, None, "maths", None]
    np.testing.assert_array_equal(table.number_column("timestamp"), [1700000000.5, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(table.number_column("inconsistent"), [0, 1, 0, 0])
    np.testing.assert_array_equal(table.number_column("len_a"), [120, 10, np.nan, np.nan])
    assert not table.skipped


def test_counting_clean_files_needs_no_careful_reader(some_file: Path) -> None:
    (source,) = find_sources(some_file, ReadBattlesOptions(counted=True))
    assert source.read_with_duckdb() is not None


def test_a_small_file_is_read_without_duckdb_unless_it_is_zipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_raw(tmp_path / "battles.jsonl", rows())
    zipped = write_raw(tmp_path / "battles.jsonl.gz", rows())
    ways: list[dict[str, Any]] = [{}, {"counted": True, "columns": ["category"]}, {"hashed": ["question_id"]}]
    by_duckdb = [read_battles(path, **way) for way in ways]
    monkeypatch.setattr(reading, "SMALL_BYTES", path.stat().st_size)

    for options in (ReadBattlesOptions(), ReadBattlesOptions(counted=True), HASHED):
        assert find_sources(path, options)[0].read_with_duckdb() is None
    assert zipped.stat().st_size <= path.stat().st_size
    assert find_sources(zipped, ReadBattlesOptions())[0].read_with_duckdb() is not None
    assert find_sources(path, ReadBattlesOptions(where="weight = 2"))[0].read_with_duckdb() is not None
    assert all(same(read_battles(path, **way), table) for way, table in zip(ways, by_duckdb, strict=True))
    monkeypatch.setattr(reading, "SMALL_BYTES", path.stat().st_size - 1)
    assert find_sources(path, ReadBattlesOptions())[0].read_with_duckdb() is not None


def test_only_the_columns_asked_for_are_kept(some_file: Path) -> None:
    assert set(read_battles(some_file, columns=()).columns) == set()
    assert set(read_battles(some_file, columns=["question_id", "len_a"]).columns) == {"question_id", "len_a"}


def test_a_column_of_any_name_is_kept_when_asked_for(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "battles.jsonl", [row | {"worker": number} for number, row in enumerate(rows())])

    assert "worker" not in read_battles(path).columns
    assert texts(read_battles(path, columns=["worker"]), "worker") == ["0", "1", "2", "3"]


def test_a_column_that_is_not_there_is_an_error_that_lists_those_that_are(some_file: Path) -> None:
    with pytest.raises(OptionError, match=r"no column mood.*columns are model_a, model_b"):
        read_battles(some_file, columns=["mood"])


def test_a_known_column_that_is_not_there_is_simply_absent(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "battles.csv", [row for row in rows() if "language" not in row][:1])

    assert "language" not in read_battles(path, columns=["language", "question_id"]).columns


def test_a_key_that_appears_late_in_a_long_file_is_found(tmp_path: Path) -> None:
    row = {"model_a": "otter", "model_b": "heron", "winner": "tie", "source": "human"}
    late = row | {"judge_model": "judge-1", "len_a": 1, "len_b": 2}
    path = write_raw(tmp_path / "battles.jsonl", [row] * 9000 + [late])

    table = read_battles(path)

    assert texts(table, "judge_model")[-1] == "judge-1"
    assert table.number_column("len_b")[-1] == 2


def test_where_keeps_the_rows_that_satisfy_it(some_file: Path) -> None:
    assert len(read_battles(some_file, where="question_id = 'q1' and model_a <> 'crane'")) == 1
    assert len(read_battles(some_file, where="len_a > 5 and source = 'human' -- and nobody else")) == 1


def test_where_needs_no_careful_reader(some_file: Path) -> None:
    (source,) = find_sources(some_file, ReadBattlesOptions(where="source = 'human'"))
    assert source.read_with_duckdb() is not None


def test_where_loses_no_column_that_first_appears_far_into_a_file(tmp_path: Path) -> None:
    late = [row | {"voter": "someone"} for row in rows()]
    path = write_raw(tmp_path / "battles.jsonl", rows() * 1500 + late + rows() * 3500)
    kept = read_battles(path, where="source = 'human'", columns=["voter"])

    assert "voter" not in find_sources(path, ReadBattlesOptions())[0].layout.header
    assert texts(kept, "voter").count("someone") == 2
    assert len(kept) == 2 * 5001


UNUSABLE = [("mood = 'sunny'", "mood"), ("len_a >", "where="), ("no_such_function(len_a)", "no_such_function")]


@pytest.mark.parametrize(
    ("kind", "where", "message"),
    [
        pytest.param(kind, *words, marks=[pytest.mark.soak] if kind != SOME[at] else [])
        for at, words in enumerate(UNUSABLE)
        for kind in KINDS
    ],
)
def test_a_where_that_cannot_be_used_is_one_clear_line(tmp_path: Path, kind: str, where: str, message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        read_battles(write_raw(tmp_path / f"battles.{kind}", rows()), where=where)
    assert "\n" not in str(caught.value)
    assert "The columns are model_a, model_b" in str(caught.value)


def test_a_where_that_keeps_nothing_says_so(some_file: Path) -> None:
    with pytest.raises(NoBattles, match="no row satisfies where="):
        read_battles(some_file, where="model_a = 'nobody'")


def test_counted_merges_equal_rows_and_adds_their_weights(some_file: Path, tmp_path: Path) -> None:
    twice = write_raw(tmp_path / ("twice" + some_file.name.removeprefix("battles")), rows() * 2)

    table = read_battles(twice, counted=True, columns=["question_id"])

    assert len(table) == 4
    assert table.n_battles == 10
    whole = read_battles(twice, columns=["question_id"])
    for code in range(4):
        assert table.weight[table.outcome == code].sum() == whole.weight[whole.outcome == code].sum()


def test_counted_rows_come_in_an_order_of_their_own(tmp_path: Path) -> None:
    forth = write_raw(tmp_path / "forth.csv", rows())
    back = write_raw(tmp_path / "back.csv", rows()[::-1])

    assert same(read_battles(forth, counted=True), read_battles(back, counted=True))


def test_a_hashed_column_tells_the_same_values_apart_without_their_texts(some_file: Path) -> None:
    column = read_battles(some_file, columns=[], hashed=["question_id"]).columns["question_id"]

    assert isinstance(column, Codes)
    first, second, third, fourth = column.codes.tolist()
    assert first == third
    assert len({first, second, fourth}) == 3
    assert len(column.labels) == 3


def test_the_same_value_in_files_of_different_kinds_is_the_same_cluster(tmp_path: Path) -> None:
    write_raw(tmp_path / "1.jsonl", rows()[:1])
    write_raw(tmp_path / "2.csv", rows()[2:3])

    column = read_battles(tmp_path, columns=[], hashed=["question_id"]).columns["question_id"]

    assert isinstance(column, Codes)
    assert column.codes.tolist() == [0, 0]


def test_rows_keep_the_order_of_the_file(tmp_path: Path) -> None:
    names = [f"q{number}" for number in range(130_000)]
    row = {"model_a": "otter", "model_b": "heron", "winner": "tie", "source": "human", "question_id": "NAME"}
    line = json.dumps(row) + "\n"
    path = tmp_path / "battles.jsonl"
    path.write_text("".join(line.replace("NAME", name) for name in names), encoding="utf-8")

    assert texts(read_battles(path, columns=["question_id"]), "question_id") == names


def test_a_file_sorted_by_model_is_read_like_any_other(tmp_path: Path) -> None:
    """What the first rows show says nothing about the others."""
    models = [f"m{number // 300}" for number in range(6_000)]
    many = [rows()[0] | {"model_a": model, "model_b": f"{model}+"} for model in models]
    table = read_battles(write_raw(tmp_path / "battles.jsonl", many))
    assert [table.models[code] for code in table.model_a] == models


def test_a_folder_a_glob_and_a_list_are_the_files_one_after_the_other(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    write_raw(folder / "part-0.jsonl", rows()[:1])
    write_raw(folder / "part-1.jsonl", rows()[1:])
    (folder / "README.md").write_text("not a battle")
    whole = read_battles(rows())

    assert same(read_battles(folder), whole)
    assert same(read_battles(str(folder / "part-*.jsonl")), whole)
    assert same(read_battles([folder / f"part-{number}.jsonl" for number in range(2)]), whole)


def test_files_of_different_kinds_and_formats_are_read_together(tmp_path: Path) -> None:
    write_raw(tmp_path / "1.jsonl", rows()[:1])
    write_raw(tmp_path / "2.csv", rows()[1:2])
    write_raw(tmp_path / "3.parquet", rows()[2:])
    write_raw(tmp_path / "4.csv", [{"left": "otter", "right": "crane", "winner": "left"}])

    table = read_battles(tmp_path)

    assert same(table.take(np.arange(4)), read_battles(rows()).take(np.arange(4)))
    assert table.n_battles == 6


def test_a_part_without_battles_does_not_spoil_the_others(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("model_a,model_b,winner,source\n")
    write_raw(tmp_path / "2.jsonl", rows())

    assert same(read_battles(tmp_path), read_battles(rows()))


def test_csv_files_may_differ_in_their_columns(tmp_path: Path) -> None:
    write_raw(tmp_path / "1.csv", [rows()[0]])
    write_raw(tmp_path / "2.csv", [{key: rows()[3][key] for key in reversed(rows()[3])}])

    assert texts(read_battles(tmp_path), "question_id") == ["q1", "q3"]


@pytest.mark.parametrize("kind", KINDS)
def test_standard_input_may_hold_any_kind_of_file(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_raw(tmp_path / f"battles.{kind}", rows())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))

    assert "question_id" in peek("-").columns
    assert same(read_battles("-"), read_battles(rows()))


def test_a_named_pipe_is_read_once_and_remembered(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = write_raw(tmp_path / "battles.csv", rows()).read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()

    assert "question_id" in peek(pipe).columns
    assert same(read_battles(pipe), read_battles(rows()))
    writer.join(60)


def test_a_name_with_glob_characters_is_just_a_name(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "battles [v1]*.csv", rows())

    assert len(read_battles(path)) == 4


def test_a_json_array_is_read_too(tmp_path: Path) -> None:
    import json

    path = tmp_path / "battles.json"
    path.write_text(json.dumps(rows(), indent=1))

    assert same(read_battles(path), read_battles(rows()))


def test_a_byte_order_mark_is_not_part_of_the_first_name(tmp_path: Path) -> None:
    for kind in ("csv", "jsonl"):
        path = write_raw(tmp_path / f"battles.{kind}", rows())
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert len(read_battles(path)) == 4


def test_timestamps_are_seconds_however_they_are_written(tmp_path: Path) -> None:
    spellings = ["2023-11-14T22:13:20Z", "2023-11-14T23:13:20+01:00", "2023-11-14 22:13:20", "2023-11-14T22:13:20.000"]
    for kind in ("jsonl", "csv"):
        path = write_raw(tmp_path / f"battles.{kind}", [rows()[3] | {"timestamp": text} for text in spellings])
        assert read_battles(path).number_column("timestamp").tolist() == [1700000000.0] * 4
        assert find_sources(path, ReadBattlesOptions())[0].read_with_duckdb() is not None


def test_ids_that_are_numbers_are_read_as_text(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "battles.jsonl", [rows()[3] | {"question_id": 7}, rows()[3] | {"question_id": "7"}])

    table = read_battles(path)

    assert texts(table, "question_id") == ["7", "7"]


def test_a_table_is_returned_as_it_is() -> None:
    table = read_battles(rows())

    assert read_battles(table) is table


def test_frames_of_every_library_equal_the_file(tmp_path: Path) -> None:
    import duckdb
    import pandas
    import polars

    path = write_raw(tmp_path / "battles.parquet", rows())
    table = read_battles(path)
    frames = {
        "polars": polars.read_parquet(path),
        "polars lazy": polars.scan_parquet(path),
        "arrow": polars.read_parquet(path).to_arrow(),
        "arrow reader": polars.read_parquet(path).to_arrow().to_reader(),
        "pandas": pandas.DataFrame(rows()),
        "duckdb": duckdb.connect().sql(f"from '{path}'"),
    }
    for name, frame in frames.items():
        assert same(read_battles(frame), table), name
        if name == "arrow reader":
            continue  # it can be read only once
        assert "question_id" in peek(frame).columns, name
        assert len(read_battles(frame, where="source = 'human'")) == 2, name


def test_rows_and_battles_in_memory_equal_the_file(tmp_path: Path) -> None:
    table = read_battles(write_raw(tmp_path / "battles.jsonl", rows()))

    assert same(read_battles(rows()), table)
    assert same(read_battles(iter(rows())), table)
    assert same(read_battles([Battle.from_dict(row) for row in rows()]), table)
    assert len(read_battles(rows(), where="len_a >= 10")) == 2


def test_numpy_numbers_in_rows_are_numbers() -> None:
    table = read_battles([rows()[0] | {"weight": np.float32(2), "question_id": np.int64(5)}])

    assert table.n_battles == 2
    assert texts(table, "question_id") == ["5"]


def test_peek_tells_format_and_columns_without_reading(some_file: Path) -> None:
    seen = peek(some_file)

    assert seen.format == "tiltyard"
    assert set(seen.columns) == set(read_battles(some_file).columns)
    assert "winner" in seen.raw_columns


def test_the_default_source_fills_in_only_where_a_row_says_nothing(tmp_path: Path) -> None:
    without = {key: value for key, value in rows()[1].items() if key != "source"}
    path = write_raw(tmp_path / "battles.jsonl", [rows()[0], without])

    table = read_battles(path, default_source="llm-judge")

    assert table.source.tolist() == [Source.HUMAN.code, Source.LLM_JUDGE.code]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "chess"}, "unknown format 'chess'"),
        ({"default_source": "dice"}, "default_source is 'dice'"),
        ({"on_bad": "ignore"}, "on_bad is 'ignore'"),
        ({"columns": "question_id"}, "lists of column names"),
    ],
)
def test_an_option_that_makes_no_sense_is_an_error(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_battles(rows(), **options)  # type: ignore[arg-type]


def test_nothing_to_read_is_an_error_that_says_what_was_looked_for(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    folder = tmp_path / "folder"
    folder.mkdir()
    header = tmp_path / "header.csv"
    header.write_text("model_a,model_b,winner,source\n")
    for data, message in [
        (tmp_path / "absent.jsonl", r"there is no file .*absent\.jsonl"),
        (str(tmp_path / "absent-*.jsonl"), r"no file matches .*absent"),
        (empty, r"empty\.jsonl is empty"),
        (folder, r"folder has no battle file"),
        (header, r"header\.csv has no battle"),
        ([], "list is empty"),
        (5, "cannot be read from a int"),
    ]:
        with pytest.raises(BattleError, match=message):
            read_battles(data)


def test_importing_battles_loads_no_reader() -> None:
    import subprocess

    code = (
        "import sys, tiltyard.data.battles; print(sorted({'duckdb', 'pandas', 'polars', 'pyarrow'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_polars_frames_need_no_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    import polars

    frame = polars.read_parquet(write_raw(tmp_path / "battles.parquet", rows()))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    assert same(read_battles(frame), read_battles(rows()))


@pytest.mark.parametrize(("link", "named"), [("gone.jsonl", "gone.jsonl"), ("gone.jsonl", "*.jsonl"), ("g*", "g*")])
def test_a_link_to_nothing_is_no_file(tmp_path: Path, link: str, named: str) -> None:
    (tmp_path / link).symlink_to(tmp_path / "never-was.jsonl")
    with pytest.raises(BattleError, match=r"there is no file .*: it is a broken link") as caught:
        read_battles(tmp_path / named)
    assert str(tmp_path / link) in str(caught.value)
    assert "\n" not in str(caught.value)
