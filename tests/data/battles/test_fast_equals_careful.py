"""The two readers agree: what the fast one reads, the careful one reads the same, and both count the same faults."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from battle_rows import same, write_raw
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import size

from tiltyard.data.battles import BadRows, Codes, ReadBattlesOptions, read_battles, session, write_battles
from tiltyard.data.battles.reading import find_sources
from tiltyard.data.battles.table import hash_text
from tiltyard.types import numbered

# Text that every kind of file can carry: anything but lone surrogates, which are not UTF-8, and NUL, which is not text.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8)
NAMES = st.one_of(st.sampled_from(["otter", "heron", "crane", 'the "best"', "a,b", "naïve 🦦"]), TEXT)
NUMBERS = st.one_of(st.integers(-5, 10_000), st.floats(-1e9, 1e9))


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


CLEAN_ROWS = st.fixed_dictionaries(
    {
        "model_a": st.sampled_from(["otter", "heron", 'the "best"', "naïve 🦦"]),
        "model_b": st.sampled_from(["crane", "a,b", "egret\ttail"]),
        "winner": st.sampled_from(["model_a", "model_b", "tie", "tie (bothbad)"]),
        "source": st.sampled_from(["human", "llm-judge"]),
        "question_id": optional(TEXT),
        "judge_model": optional(st.sampled_from(["judge-1", "judge-2"])),
        "category": optional(TEXT),
        "weight": optional(st.integers(0, 5)),
        "timestamp": optional(st.floats(0, 2e9)),
        "len_a": st.integers(0, 5000),
        "len_b": optional(st.floats(0, 5000)),
    }
)
DIRTY_ROWS = st.fixed_dictionaries(
    {
        "model_a": optional(NAMES),
        "model_b": optional(NAMES),
        "winner": optional(st.sampled_from(["model_a", "model_b", "tie", "tie (bothbad)", "left", "TIE"])),
        "source": optional(st.sampled_from(["human", "llm-judge", "dice"])),
        "question_id": optional(TEXT),
        "inconsistent": optional(st.booleans()),
        "score_a": optional(st.floats(-0.2, 1.2)),
        "weight": optional(NUMBERS),
        "len_a": optional(NUMBERS),
        "len_b": optional(NUMBERS),
    }
)
MANY = settings(max_examples=size(3, soak=40))
KINDS = pytest.mark.parametrize("kind", ["jsonl", "csv", pytest.param("tsv", marks=pytest.mark.soak), "parquet"])


@KINDS
@MANY
@given(rows=st.lists(CLEAN_ROWS, min_size=1, max_size=12), counted=st.booleans())
def test_both_readers_read_clean_rows_the_same(kind: str, rows: list[dict[str, Any]], counted: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_raw(Path(folder) / f"battles.{kind}", rows)
        (source,) = find_sources(path, ReadBattlesOptions())
        fast = source.read_with_duckdb()
        assert fast is not None
        careful = source.read_by_row(BadRows(stop=True))
        assert same(fast, careful)
        in_memory = read_battles(rows, columns=list(fast.columns), counted=counted)
        assert same(read_battles(path, counted=counted), in_memory)


@KINDS
@MANY
@given(rows=st.lists(DIRTY_ROWS, min_size=1, max_size=12))
def test_both_readers_find_the_same_faults(kind: str, rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_raw(Path(folder) / f"battles.{kind}", rows)
        (source,) = find_sources(path, ReadBattlesOptions(default_source=None, format="tiltyard"))
        fast = source.read_with_duckdb()
        assert fast is not None
        bad_rows = BadRows()
        careful = source.read_by_row(bad_rows)
        assert same(fast, careful)
        assert dict(fast.skipped) == bad_rows.skipped
        assert len(fast) + sum(fast.skipped.values()) == len(rows)


@pytest.mark.parametrize(
    "kind",
    [
        "jsonl.gz",
        "csv",
        "parquet",
        *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("jsonl", "csv.gz", "tsv")),
    ],
)
@MANY
@given(rows=st.lists(CLEAN_ROWS, min_size=1, max_size=12))
def test_what_is_written_is_read_back(kind: str, rows: list[dict[str, Any]]) -> None:
    table = read_battles(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"battles.{kind}"
        assert write_battles(path, table) == len(rows)
        assert same(read_battles(path), table)


@given(
    values=st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1]), max_size=200),
)
def test_codes_of_hashes_are_dense_and_tell_values_apart(values: list[int]) -> None:
    hashes = np.array(values, dtype=np.uint64)

    codes, distinct = numbered(hashes)

    assert sorted(set(codes.tolist()) - {-1}) == list(range(len(distinct)))
    assert [0 if code < 0 else int(distinct[code]) for code in codes] == values


def test_hashed_texts_tell_rows_apart_like_the_texts_do(tmp_path: Path) -> None:
    row = {"model_a": "otter", "winner": "tie", "source": "human"}
    rows = [row | {"model_b": f"heron {n % 13}", "question_id": f"q{n % 57}"} for n in range(500)]
    rows[7]["question_id"] = None  # type: ignore[assignment]
    for kind in ("jsonl", "csv", "parquet"):
        path = write_raw(tmp_path / f"battles.{kind}", rows)
        hashed = read_battles(path, columns=[], hashed=["question_id"]).columns["question_id"]
        texts = read_battles(path).columns["question_id"]
        assert isinstance(hashed, Codes)
        assert isinstance(texts, Codes)
        pairs = set(zip(hashed.codes.tolist(), texts.codes.tolist(), strict=True))
        assert len(pairs) == len(hashed.labels) + 1 == 58
        assert (-1, -1) in pairs


def test_a_table_with_soft_scores_and_weights_survives_every_kind_of_file(tmp_path: Path) -> None:
    rows = [
        {"model_a": "otter", "model_b": "heron", "winner": "model_a", "source": "human", "score_a": 0.1 + 0.2 + 0.3},
        {"model_a": "otter", "model_b": "heron", "winner": "tie", "source": "human", "weight": math.pi},
        {"model_a": "otter", "model_b": "heron", "winner": "tie", "source": "human", "inconsistent": True},
    ]
    table = read_battles(rows)
    for kind in ("jsonl", "csv", "tsv", "parquet"):
        write_battles(tmp_path / f"battles.{kind}", table)
        assert same(read_battles(tmp_path / f"battles.{kind}"), table)


@settings(max_examples=size(15, soak=100))
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=20))
def test_a_text_has_the_hash_that_duckdb_gives_it(texts: list[str]) -> None:
    with session() as connection:
        by_duckdb = [connection.execute("SELECT hash(?::VARCHAR)", [text]).fetchall()[0][0] for text in texts]
    assert [hash_text(text) for text in texts] == by_duckdb


@settings(max_examples=size(8, soak=200))
@given(st.lists(CLEAN_ROWS, min_size=1, max_size=12))
def test_both_readers_number_clusters_alike(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_raw(Path(folder) / "battles.jsonl", rows)
        (source,) = find_sources(path, ReadBattlesOptions(columns=(), hashed=frozenset({"question_id"})))
        fast, careful = source.read_with_duckdb(), source.read_by_row(BadRows(examples_each=0, stop=True))
    assert fast is not None
    one, other = fast.columns.get("question_id"), careful.columns.get("question_id")
    assert (one is None) == (other is None)
    if isinstance(one, Codes) and isinstance(other, Codes):
        assert one.codes.tolist() == other.codes.tolist()
        assert list(one.labels) == list(other.labels)
