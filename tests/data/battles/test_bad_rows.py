from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from battle_rows import KINDS, rows, same, write_raw

from tiltyard.data.battles import careful, find_problems, read_battles
from tiltyard.errors import BadRow, BattleError, NoBattles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GOOD = {"model_a": "otter", "model_b": "heron", "winner": "model_a", "source": "human"}

DIRT: dict[str, tuple[dict[str, Any], str]] = {
    "unknown winner": ({"winner": "modle_a"}, "winner is 'modle_a', expected model_a, model_b, tie"),
    "missing winner": ({"winner": None}, "winner is missing"),
    "missing model name": ({"model_b": "  "}, "model_b is '  '"),
    "model against itself": ({"model_b": "otter"}, "model_a and model_b are both 'otter'"),
    "unknown source": ({"source": "dice"}, "source is 'dice', expected llm-judge or human"),
    "missing source": ({"source": None}, "source is missing"),
    "bad weight": ({"weight": -1}, "weight is "),
    "score out of range": ({"score_a": 1.5}, "score_a is "),
    "score contradicts winner": ({"score_a": 0.2}, "winner is 'model_a' but score_a is "),
    "inconsistent but not a tie": ({"inconsistent": True}, "inconsistent is true but winner is 'model_a'"),
    "wrong type": ({"timestamp": "yesterday"}, "timestamp is 'yesterday', expected seconds since 1970"),
}


def of_each_kind(kinds: Sequence[str]) -> list[Any]:
    """Every fault in one kind of file, the kinds in turn; in every kind in a soak."""
    return [
        pytest.param(reason, kind, marks=[pytest.mark.soak] if (number + at) % len(kinds) else [])
        for number, reason in enumerate(DIRT)
        for at, kind in enumerate(kinds)
    ]


def with_dirt(change: dict[str, Any]) -> list[dict[str, Any]]:
    """Three rows of which the second is bad; the columns are the same in all."""
    filler: dict[str, Any] = {"weight": 1, "score_a": None, "inconsistent": False, "timestamp": None}
    if isinstance(change.get("timestamp"), str):
        filler["timestamp"] = "2024-01-01T00:00:00Z"
    good = GOOD | {key: filler[key] for key in change if key in filler}
    return [good, good | change, good | {"model_b": "crane"}]


def place(path: Path, row: int) -> str:
    return f"{path}: row {row}" if path.suffix == ".parquet" else f"{path}:{row + (0 if 'jsonl' in path.name else 1)}"


@pytest.mark.parametrize(("reason", "kind"), of_each_kind(KINDS))
def test_a_bad_row_is_named_with_place_value_and_advice(reason: str, kind: str, tmp_path: Path) -> None:
    change, detail = DIRT[reason]
    path = write_raw(tmp_path / f"battles.{kind}", with_dirt(change))

    with pytest.raises(BadRow) as caught:
        read_battles(path)

    assert str(caught.value).startswith(f"{place(path, 2)}: {reason}: {detail}")
    assert 'on_bad="skip"' in str(caught.value)
    assert caught.value.reason == reason
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_bad_row_is_found_when_rows_are_merged_too(kind: str, tmp_path: Path) -> None:
    path = write_raw(tmp_path / f"battles.{kind}", with_dirt({"winner": "modle_a"}))

    with pytest.raises(BadRow, match="unknown winner") as caught:
        read_battles(path, counted=True, columns=())

    assert caught.value.where == place(path, 2)
    assert dict(read_battles(path, counted=True, on_bad="skip").skipped) == {"unknown winner": 1}


@pytest.mark.parametrize(("reason", "kind"), of_each_kind(["jsonl", "csv", "parquet"]))
def test_a_bad_row_can_be_skipped_and_is_counted(reason: str, kind: str, tmp_path: Path) -> None:
    change, _ = DIRT[reason]
    path = write_raw(tmp_path / f"battles.{kind}", with_dirt(change))

    table = read_battles(path, on_bad="skip")

    assert dict(table.skipped) == {reason: 1}
    first, _, last = with_dirt(change)
    assert same(table, read_battles([first, last]))


WRONG_TYPES: list[tuple[str, Any]] = [
    ("model_a", 5),
    ("model_b", ["otter"]),
    ("winner", True),
    ("source", {"who": "human"}),
    ("question_id", ["q1"]),
    ("weight", "three"),
    ("score_a", "0.7"),
    ("timestamp", False),
    ("inconsistent", "perhaps"),
]


@pytest.mark.parametrize(("column", "value"), WRONG_TYPES)
def test_a_json_value_of_the_wrong_type_is_not_guessed_at(column: str, value: object, tmp_path: Path) -> None:
    path = write_raw(tmp_path / "battles.jsonl", [GOOD, GOOD | {column: value}])

    with pytest.raises(BadRow, match=rf"battles\.jsonl:2: wrong type: {column} is .*expected") as caught:
        read_battles(path)
    assert repr(value) in str(caught.value)


def test_json_values_of_wrong_types_are_all_skipped_and_counted(tmp_path: Path) -> None:
    wrong = [GOOD | {column: value} for column, value in WRONG_TYPES]
    table = read_battles(write_raw(tmp_path / "battles.jsonl", [GOOD, *wrong]), on_bad="skip")

    assert dict(table.skipped) == {"wrong type": len(wrong)}
    assert len(table) == 1


@pytest.mark.parametrize("text", ["three", "nan", "inf", "1.2.3"])
def test_a_csv_weight_that_is_no_number_is_a_wrong_type(text: str, tmp_path: Path) -> None:
    path = write_raw(tmp_path / "battles.csv", [GOOD | {"weight": 1}, GOOD | {"weight": text}])

    with pytest.raises(BadRow, match=rf"battles\.csv:3: wrong type: weight is '{text}', expected a finite number"):
        read_battles(path)


def test_a_typed_column_of_numbers_cannot_be_model_names(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "battles.parquet", [GOOD | {"model_a": 1}, GOOD | {"model_a": 2}])

    with pytest.raises(BadRow, match=r"battles\.parquet: row 1: wrong type: model_a is 1, expected text"):
        read_battles(path)


def test_a_nan_weight_in_parquet_is_bad_and_a_null_means_one(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "battles.parquet", [GOOD | {"weight": None}, GOOD | {"weight": float("nan")}])

    with pytest.raises(BadRow, match=r"row 2: wrong type: weight is nan"):
        read_battles(path)
    assert read_battles(path, on_bad="skip").n_battles == 1


BROKEN = {
    "torn last line": (b'{"model_a": "ot', "broken line", '{"model_a": "ot'),
    "no object": (b"[1, 2]\n", "broken line", "[1, 2] is not a JSON object"),
    "no JSON": (b"otter beats heron\n", "broken line", "otter beats heron"),
    "two on a line": (b'{"model_a": "x"} {"model_a": "y"}\n', "broken line", "is not JSON"),
    "not UTF-8": (b'{"model_a": "\xff\xfe", "model_b": "b"}\n', "not UTF-8 text", "byte 0xff at position 14"),
}


@pytest.mark.parametrize(
    ("dirt", "zipped"),
    [
        *((dirt, False) for dirt in BROKEN),
        *(pytest.param(dirt, True, marks=[pytest.mark.soak] if dirt != "not UTF-8" else []) for dirt in BROKEN),
    ],
)
def test_a_broken_json_line_is_named_or_skipped(dirt: str, zipped: bool, tmp_path: Path) -> None:
    line, reason, detail = BROKEN[dirt]
    whole = write_raw(tmp_path / "good.jsonl", rows())
    path = tmp_path / ("battles.jsonl.gz" if zipped else "battles.jsonl")
    content = whole.read_bytes() + b"\n" + line
    path.write_bytes(gzip.compress(content) if zipped else content)

    with pytest.raises(BadRow) as caught:
        read_battles(path)
    assert str(caught.value).startswith(f"{path}:6: {reason}: ")
    assert detail in str(caught.value)
    table = read_battles(path, on_bad="skip")
    assert dict(table.skipped) == {reason: 1}
    assert same(table, read_battles(rows()))


RAGGED = {
    "too many cells": (b"otter,heron,tie,human,5\n", "wrong number of cells", "5 where the header has 4"),
    "too few cells": (b"otter,heron\n", "wrong number of cells", "2 where the header has 4"),
    "not UTF-8": (b"otter,h\xe9ron,tie,human\n", "not UTF-8 text", "b'h\\xe9ron'"),
    "text after a quote": (b'otter,"heron"s,tie,human\n', "broken line", "expected after"),
    "open quote": (b'otter,"heron,tie,human\n', "broken line", "unexpected end of data"),
}


@pytest.mark.parametrize("dirt", RAGGED)
def test_a_broken_csv_line_is_named_or_skipped(dirt: str, tmp_path: Path) -> None:
    line, reason, detail = RAGGED[dirt]
    path = tmp_path / "battles.csv"
    path.write_bytes(b'model_a,model_b,winner,source\notter,"her\non",tie,human\n' + line)

    with pytest.raises(BadRow) as caught:
        read_battles(path)
    assert str(caught.value).startswith(f"{path}:4: {reason}: ")
    assert detail in str(caught.value)
    table = read_battles(path, on_bad="skip")
    assert dict(table.skipped) == {reason: 1}
    assert table.models == ("her\non", "otter")


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read carefully in several batches, without the twenty thousand rows of one."""
    monkeypatch.setattr(careful, "BATCH_ROWS", 500)


@pytest.mark.usefixtures("small_batches")
def test_the_first_bad_row_is_the_one_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "battles.jsonl"
    write_raw(path, [GOOD] * 700 + [GOOD | {"winner": "lift"}] + [GOOD | {"winner": "rite"}])
    path.write_bytes(path.read_bytes() + b"torn")

    with pytest.raises(BadRow, match=r"battles\.jsonl:701: unknown winner: winner is 'lift'"):
        read_battles(path)


def test_in_several_files_the_file_is_named(tmp_path: Path) -> None:
    for kind in ("jsonl.gz", "csv", "parquet"):
        folder = tmp_path / kind
        folder.mkdir()
        write_raw(folder / f"1.{kind}", [GOOD, GOOD])
        write_raw(folder / f"2.{kind}", [GOOD, GOOD | {"winner": "lift"}])
        with pytest.raises(BadRow) as caught:
            read_battles(folder)
        assert str(caught.value).startswith(place(folder / f"2.{kind}", 2))


def test_rows_that_where_leaves_out_are_not_judged(tmp_path: Path) -> None:
    dirty = [GOOD | {"category": "good"}, GOOD | {"winner": "lift", "category": "bad"}]
    for kind in ("jsonl.gz", "csv", "parquet"):
        path = write_raw(tmp_path / f"battles.{kind}", dirty)
        assert len(read_battles(path, where="category = 'good'")) == 1
        with pytest.raises(BadRow) as caught:
            read_battles(path, where="category in ('good', 'bad')")
        assert caught.value.where == place(path, 2)


def test_where_holds_for_the_careful_reader_too(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "battles.jsonl", rows())
    path.write_bytes(path.read_bytes() + b"torn")

    table = read_battles(path, where="question_id = 'q1'", on_bad="skip")

    assert len(table) == 2
    assert dict(table.skipped) == {"broken line": 1}


def test_rows_in_memory_are_named_by_their_number() -> None:
    import polars

    for data in ([GOOD, GOOD | {"winner": "lift"}], polars.DataFrame([GOOD, GOOD | {"winner": "lift"}])):
        with pytest.raises(BadRow, match="row 2: unknown winner: winner is 'lift'"):
            read_battles(data)
    with pytest.raises(BadRow, match="row 2: broken line: 5 is not a battle"):
        read_battles([GOOD, 5])


def test_a_file_of_which_every_row_is_skipped_holds_no_battles(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "battles.csv", [GOOD | {"winner": "lift"}] * 2)

    with pytest.raises(NoBattles, match=r"all were skipped \(2 × unknown winner\)"):
        read_battles(path, on_bad="skip")


def test_a_header_of_no_known_format_lists_columns_and_formats(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "battles.csv", [{"home": "a", "away": "b", "score": 3}])

    with pytest.raises(BattleError, match=r"columns are home, away, score; known formats are .*lmarena"):
        read_battles(path)


def test_a_file_that_only_claims_to_be_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "battles.parquet"
    path.write_bytes(b"not parquet at all")

    with pytest.raises(BattleError, match=r"battles\.parquet cannot be read as Parquet"):
        read_battles(path)


def test_a_header_with_a_name_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "battles.csv"
    path.write_text("model_a,model_b,winner,source,source\na,b,tie,human,human\n")

    with pytest.raises(BattleError, match="'source' more than once"):
        read_battles(path)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_all_problems_of_a_file_are_counted_and_the_first_few_shown(kind: str, tmp_path: Path) -> None:
    path = write_raw(
        tmp_path / f"battles.{kind}", [GOOD, *[GOOD | {"winner": "lift"}] * 5, GOOD | {"model_b": "otter"}, GOOD]
    )

    battles, bad_rows = find_problems(path, examples_each=2)

    assert battles == 2
    assert bad_rows.skipped == {"model against itself": 1, "unknown winner": 5}
    shown = {reason.label: [problem.where for problem in found] for reason, found in bad_rows.examples.items()}
    assert shown == {
        "unknown winner": [place(path, 2), place(path, 3)],
        "model against itself": [place(path, 7)],
    }


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("kind", ["jsonl.gz", "csv.gz"])
def test_a_zipped_file_that_is_cut_off_is_a_fault_not_a_short_file(kind: str, tmp_path: Path) -> None:
    many = [GOOD | {"question_id": f"{n * n * 7919 % 99991}"} for n in range(2600)]
    path = write_raw(tmp_path / f"battles.{kind}", many)
    path.write_bytes(path.read_bytes()[:-400])

    with pytest.raises(BadRow, match=r"broken line: the rest of the file cannot be unzipped"):
        read_battles(path)
    table = read_battles(path, on_bad="skip")
    assert 500 < len(table) < 2600
    assert sum(table.skipped.values()) >= 1


def test_a_small_zipped_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    path = write_raw(tmp_path / "battles.jsonl.gz", [GOOD])
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(BattleError, match=r"battles\.jsonl\.gz cannot be unzipped"):
        read_battles(path)
    path.write_bytes(b"plain text")
    with pytest.raises(BattleError, match=r"battles\.jsonl\.gz cannot be unzipped"):
        read_battles(path)


def test_a_latin_1_file_is_told_how_to_become_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_bytes("model_a,model_b,winner\nmodèle,otter,A\n".encode("latin-1"))
    with pytest.raises(BadRow, match=r"votes\.csv:2: not UTF-8 text: .*iconv -f WINDOWS-1252 -t UTF-8 .*votes\.csv > "):
        read_battles(path)
    path.write_bytes("model_a,model_b,winner\nmodèle,otter,A\n".encode("utf-16"))
    with pytest.raises(BattleError, match=r"votes\.csv is UTF-16 text\. Save it as UTF-8: iconv -f UTF-16 -t UTF-8 "):
        read_battles(path)


def in_kind(kind: str, winner: str) -> str:
    """Two battles in a kind of file, with a name that is not ASCII."""
    rows = [{"model_a": "modèle", "model_b": "otter", winner: side} for side in "AB"]
    if kind == "json":
        return json.dumps(rows, ensure_ascii=False)
    if kind == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    sign = "\t" if kind == "tsv" else ","
    return "".join(sign.join(cells) + "\n" for cells in (rows[0], *(row.values() for row in rows)))


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json"])
def test_every_kind_of_file_says_how_it_becomes_utf_8_and_may_start_with_a_mark(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"votes.{kind}"
    encodings = {"utf-16-le": "UTF-16LE", "utf-16-be": "UTF-16BE", "utf-16": "UTF-16", "latin-1": "WINDOWS-1252"}
    for encoding, name in encodings.items():
        path.write_bytes(in_kind(kind, "winner").encode(encoding))
        with pytest.raises(BattleError, match=rf"Save it as UTF-8: iconv -f {name} -t UTF-8 "):
            read_battles(path)
    path.write_bytes(in_kind(kind, "winner").encode("utf-8-sig"))
    assert read_battles(path).models == ("modèle", "otter")


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_a_header_in_latin_1_is_not_guessed_at(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"votes.{kind}"
    path.write_bytes(in_kind(kind, "préféré").encode("latin-1"))
    with pytest.raises(BattleError, match=r"is not UTF-8 text\. Save it as UTF-8: iconv -f WINDOWS-1252 ") as caught:
        read_battles(path)
    assert "\ufffd" not in str(caught.value)
