from __future__ import annotations

import numpy as np
import pytest
from battle_rows import rows, same

from tiltyard.battles import BattleTable, Codes, Outcome, read_battles
from tiltyard.battles.table import concat, merge_equal
from tiltyard.errors import BattleError


def test_written_from_the_other_side_twice_is_as_before() -> None:
    table = read_battles(rows())

    assert same(table.swapped().swapped(), table)
    assert table.swapped().outcome.tolist() == [Outcome.B, Outcome.TIE, Outcome.A, Outcome.BOTH_BAD]
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
