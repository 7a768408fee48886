"""Votes of compar:IA: the winner is named, and a tie names nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from battle_rows import KINDS, write_raw

from tiltyard.data.battles import Outcome, find_problems, read_battles
from tiltyard.errors import BadRow

if TYPE_CHECKING:
    from pathlib import Path


def vote(chosen: str | None, both_equal: bool | None, **more: Any) -> dict[str, Any]:
    return {
        "model_a_name": "otter",
        "model_b_name": "heron",
        "chosen_model_name": chosen,
        "both_equal": both_equal,
        **more,
    }


SOME_KINDS = pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in ("jsonl.gz", "csv", "parquet") else [pytest.mark.soak]) for kind in KINDS],
)
"""One kind of file for each way of reading in every run, every kind in a soak."""


@SOME_KINDS
def test_a_name_wins_from_either_side_and_a_tie_names_nobody(kind: str, tmp_path: Path) -> None:
    rows = [vote("otter", False), vote("heron", None), vote(None, True)]
    other_side = {"model_a_name": "heron", "model_b_name": "otter"}

    table = read_battles(write_raw(tmp_path / f"votes.{kind}", [*rows, *(row | other_side for row in rows)]))

    A, B, TIE = Outcome.A.code, Outcome.B.code, Outcome.TIE.code
    assert table.outcome.tolist() == [A, B, TIE, B, A, TIE]
    assert "is_tie" not in table.columns


@SOME_KINDS
def test_a_vote_that_names_no_winner_or_a_wrong_one_is_a_bad_row(kind: str, tmp_path: Path) -> None:
    good = vote("otter", False)
    rows = [good, vote(None, False), vote("crane", False), vote("otter", True), vote(None, None)]
    path = write_raw(tmp_path / f"votes.{kind}", rows)

    table = read_battles(path, on_bad="skip")
    battles, bad_rows = find_problems(path)

    assert len(table) == battles == 1
    assert dict(table.skipped) == bad_rows.skipped == {"missing winner": 2, "unknown winner": 2}
    details = [problem.detail for problems in bad_rows.examples.values() for problem in problems]
    assert "chosen_model_name is missing, expected 'otter' or 'heron', or both_equal true" in details
    assert "chosen_model_name is 'crane', expected 'otter' or 'heron', or both_equal true" in details
    said_true = "'True'" if "csv" in kind or kind == "tsv" else "True"
    assert f"chosen_model_name is 'otter' though both_equal is {said_true}" in details
    with pytest.raises(BadRow, match="missing winner"):
        read_battles(path)


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "parquet"])
def test_the_language_is_the_first_of_a_list(kind: str, tmp_path: Path) -> None:
    rows = [
        vote("otter", False, languages=["fr", "en"], total_conv_a_output_tokens=12, total_conv_b_output_tokens=30),
        vote("otter", False, languages=[], total_conv_a_output_tokens=5, total_conv_b_output_tokens=6),
        vote("otter", False, languages=None, total_conv_a_output_tokens=7, total_conv_b_output_tokens=8),
        vote("otter", False, languages=["en"], total_conv_a_output_tokens=9, total_conv_b_output_tokens=1),
    ]

    table = read_battles(write_raw(tmp_path / f"votes.{kind}", rows))

    assert table.text_column("language").texts() == ["fr", None, None, "en"]
    assert table.number_column("len_a").tolist() == [12, 5, 7, 9]
    assert read_battles(rows).text_column("language").texts() == ["fr", None, None, "en"]


def test_rows_are_told_apart_by_pair_and_dated_in_universal_time(tmp_path: Path) -> None:
    rows = [
        vote("otter", False, conversation_pair_id="p1", timestamp="1970-01-01T00:01:00"),
        vote("heron", False, conversation_pair_id="p2", timestamp="1970-01-01T02:00:00+02:00"),
    ]

    table = read_battles(write_raw(tmp_path / "votes.jsonl", rows))

    assert table.text_column("question_id").texts() == ["p1", "p2"]
    assert table.number_column("timestamp").tolist() == [60.0, 0.0]


def test_equal_votes_can_be_counted_while_reading(tmp_path: Path) -> None:
    rows = [vote("otter", False)] * 3 + [vote(None, True)] * 2 + [vote("heron", False)]

    table = read_battles(write_raw(tmp_path / "votes.jsonl", rows), columns=[], counted=True)

    weights = dict(zip(table.outcome.tolist(), table.weight.tolist(), strict=True))
    assert weights == {Outcome.A.code: 3.0, Outcome.B.code: 1.0, Outcome.TIE.code: 2.0}
