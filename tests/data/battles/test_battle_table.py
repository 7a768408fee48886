from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from battle_rows import rows, same
from tests.records import replace

from tiltyard.data.battles import (
    BattleTable,
    Codes,
    Outcome,
    battles_to_frame,
    concat,
    merge_equal,
    read_battles,
    write_battles,
)
from tiltyard.errors import BattleError


def test_written_from_the_other_side_twice_is_as_before() -> None:
    table = read_battles(rows())

    assert same(table.swapped().swapped(), table)
    assert table.swapped().outcome.tolist() == [Outcome.B.code, Outcome.TIE.code, Outcome.A.code, Outcome.BOTH_BAD.code]
    np.testing.assert_array_equal(table.swapped().number_column("len_b"), table.number_column("len_a"))


def test_tables_are_joined_over_all_their_models_and_columns() -> None:
    first, second = read_battles(rows()[:2]), read_battles(rows()[2:])

    assert same(concat([first, second]), read_battles(rows()))


def test_skipped_rows_add_up_over_tables() -> None:
    bad = rows()[0] | {"winner": "lift"}
    tables = [read_battles([rows()[0], bad], on_bad="skip"), read_battles([bad, bad, rows()[1]], on_bad="skip")]

    assert dict(concat(tables).skipped) == {"unknown winner": 3}


def test_equal_rows_are_merged_whatever_their_order() -> None:
    table = read_battles(rows() * 3)
    shuffled = table.take(np.random.default_rng(1).permutation(len(table)))

    merged = merge_equal(table)

    assert len(merged) == 4
    assert merged.n_battles == table.n_battles
    assert same(merged, merge_equal(shuffled))


def test_merging_copes_with_more_distinct_values_than_fit_in_one_number() -> None:
    rng = np.random.default_rng(2)
    n = 2000
    zeros = np.zeros(n, dtype=np.int8)
    columns = {f"c{at}": Codes(rng.integers(0, 2**30, n).astype(np.int32), ("x",) * 1) for at in range(4)}
    pair = np.zeros(n, dtype=np.int32), np.ones(n, dtype=np.int32)
    table = BattleTable(("a", "b"), *pair, zeros, zeros, np.ones(n), columns=columns)
    twice = table.take(np.r_[np.arange(n), np.arange(n)])

    assert len(merge_equal(twice)) == n
    assert (merge_equal(twice).weight == 2).all()


def test_a_table_splits_by_a_column_without_losing_a_battle() -> None:
    parts = dict(read_battles(rows()).split("question_id"))

    assert list(parts) == ["q1", "q2", "q3"]
    assert sum(part.n_battles for part in parts.values()) == 5
    assert parts["q2"].models == ("crane", "heron")


def test_a_column_that_is_absent_or_of_another_kind_is_an_error() -> None:
    table = read_battles(rows())

    with pytest.raises(BattleError, match="no column 'mood'"):
        table.text_column("mood")
    with pytest.raises(BattleError, match="holds text"):
        table.number_column("question_id")
    assert table.text_column("len_a").texts() == ["120", "10", None, None]


def test_columns_of_different_lengths_make_no_table() -> None:
    ones, two = np.zeros(1, dtype=np.int32), np.zeros(2, dtype=np.int32)
    with pytest.raises(BattleError, match="model_b has 2 rows"):
        BattleTable(("a",), ones, two, ones.astype(np.int8), ones.astype(np.int8), np.ones(1))


FLAGGED = [
    {**rows()[0], "source": "llm-judge", "one_order": True},
    {**rows()[1], "winner_first": True, "inconsistent": False},
    {**rows()[2], "source": "llm-judge", "one_order": True, "inconsistent": True, "winner": "tie"},
    rows()[3],
]


def flags(table: BattleTable) -> list[list[float]]:
    return [table.number_column(name).tolist() for name in ("one_order", "winner_first", "inconsistent")]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_flags_survive_every_way_in_and_out(tmp_path: Path, ending: str) -> None:
    table = read_battles(FLAGGED)
    told = [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    assert flags(table) == told
    write_battles(tmp_path / f"table.{ending}", table)
    write_battles(tmp_path / f"records.{ending}", list(table))
    ways = {
        "records": read_battles(list(table)),
        "dictionaries": read_battles([battle.to_dict() for battle in table]),
        "frame": read_battles(battles_to_frame(table)),
        "file": read_battles(tmp_path / f"table.{ending}"),
        "file of records": read_battles(tmp_path / f"records.{ending}"),
        "swapped": table.swapped(),
        "taken": table.take(np.arange(4)).compact(),
        "joined": concat([table.take(np.arange(2)), table.take(np.arange(2, 4))]),
        "pickled": pickle.loads(pickle.dumps(table)),
    }
    assert {name: flags(way) for name, way in ways.items()} == dict.fromkeys(ways, told)
    without = concat([table, read_battles(rows())])
    assert flags(without)[0] == [*told[0], 0, 0, 0, 0]


def test_a_copy_of_a_table_equals_it_and_another_one_does_not() -> None:
    table = read_battles(rows())
    for again in (copy.copy(table), copy.deepcopy(table), pickle.loads(pickle.dumps(table)), read_battles(list(table))):
        assert again == table
    assert table != table.swapped()
    assert table != read_battles(rows()[:2])
    assert table != "a table"
    assert all(one != table for one in (replace(table, skipped={"odd": 1}), replace(table, weight=table.weight * 2)))
