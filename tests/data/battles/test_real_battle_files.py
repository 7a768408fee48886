from __future__ import annotations

import csv
import gzip
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tiltyard.data.battles import Outcome, Source, battle_stats, find_problems, peek, read_battles
from tiltyard.errors import BadRow

if TYPE_CHECKING:
    from pathlib import Path


@cache
def csv_rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return list(csv.DictReader(file))


@cache
def arena_rows(path: Path) -> list[tuple[str, str, str, str]]:
    """Who met, who won, and whether it was about maths."""
    with gzip.open(path, "rt") as file:
        reader = csv.reader(file)
        names = next(reader)
        a, b, winner, maths = (names.index(name) for name in ("model_a", "model_b", "winner", "math"))
        return [(row[a], row[b], row[winner], row[maths]) for row in reader]


def test_the_first_of_the_arena_votes_for_a_model_against_itself_is_named(real_data: Path) -> None:
    path = real_data / "arena_140k" / "battles.csv.gz"

    with pytest.raises(BadRow, match=r"battles\.csv\.gz:3937: model against itself: .*gemini-2\.5-flash-preview-04-17"):
        read_battles(path)


@pytest.mark.soak
def test_the_careful_reader_finds_the_same_ten_of_all_the_arena_votes(real_data: Path) -> None:
    _, bad_rows = find_problems(real_data / "arena_140k" / "battles.csv.gz")

    assert bad_rows.skipped == {"model against itself": 10}


def test_ten_arena_votes_are_skipped_and_the_others_are_counted_as_a_plain_loop_counts_them(real_data: Path) -> None:
    path = real_data / "arena_140k" / "battles.csv.gz"
    by_hand = Counter(
        (a, b, {"both_bad": "tie (bothbad)"}.get(winner, winner)) for a, b, winner, _ in arena_rows(path) if a != b
    )

    table = read_battles(path, on_bad="skip", counted=True)

    assert len(table.models) == 53
    assert dict(table.skipped) == {"model against itself": 10}
    counted: dict[Any, float] = {}
    for a, b, outcome, weight in zip(table.model_a, table.model_b, table.outcome, table.weight, strict=True):
        counted[table.models[a], table.models[b], Outcome.of_code(outcome).value] = weight
    assert counted == by_hand


def test_arena_categories_can_be_kept_by_name(real_data: Path) -> None:
    path = real_data / "arena_140k" / "battles.csv.gz"

    table = read_battles(path, on_bad="skip", columns=["math"], where="math = 1")

    rows = [row for row in arena_rows(path) if row[3] == "1" and row[0] != row[1]]
    assert len(table) == len(rows)
    assert set(table.text_column("math").texts()) == {"1"}


@pytest.mark.parametrize(
    ("name", "rows", "left", "right", "tie"),
    [
        ("crowd-comparisons.csv", 8931, 2911, 2549, 3471),
        ("gpt3-crowd-comparisons.csv", 2139, 1352, 593, 194),
        ("gpt4-crowd-comparisons.csv", 2139, None, None, None),
    ],
)
def test_llmfao_is_read_as_left_against_right(
    real_data: Path, name: str, rows: int, left: int | None, right: int | None, tie: int | None
) -> None:
    path = real_data / "llmfao" / name

    table = read_battles(path)

    assert peek(path).format == "evalica"
    assert (len(table), len(table.models)) == (rows, 59)
    assert battle_stats(table).prompts == 13
    if left is not None:
        assert [int((table.outcome == outcome).sum()) for outcome in (0, 1, 2)] == [left, right, tie]
    first = csv_rows(path)[0]
    assert (table.models[table.model_a[0]], table.models[table.model_b[0]]) == (first["left"], first["right"])


def test_llmfao_workers_are_a_column_when_asked_for(real_data: Path) -> None:
    table = read_battles(real_data / "llmfao" / "crowd-comparisons.csv", columns=["worker"])

    assert len(table.text_column("worker").labels) == 124


@pytest.mark.parametrize(("name", "rows", "models"), [("simple", 16, 5), ("food", 30, 5)])
def test_the_tables_of_evalica_are_read(real_data: Path, name: str, rows: int, models: int) -> None:
    table = read_battles(real_data / "evalica" / f"{name}.csv")

    assert (len(table), len(table.models)) == (rows, models)
    assert set(table.source) == {Source.HUMAN.code}


def test_win_rates_of_alpaca_eval_come_out_of_its_rows(real_data: Path) -> None:
    """The published win rate is the mean of preference − 1, in per cent."""
    path = real_data / "alpaca_eval" / "battles_v2.csv.gz"
    table = read_battles(path, on_bad="skip", where="source = 'annotations'")
    with (real_data / "alpaca_eval" / "leaderboard_v2.csv").open() as file:
        published = {row[""]: float(row["win_rate"]) for row in csv.DictReader(file)}

    assert set(table.columns) == {"question_id", "category", "len_a", "len_b"}
    score = np.where(table.outcome == Outcome.A.code, 1.0, np.where(table.outcome == Outcome.B.code, 0.0, 0.5))
    assert table.score_a is not None
    score = np.where(np.isnan(table.score_a), score, table.score_a)
    checked = 0
    for code, model in enumerate(table.models):
        rows = table.model_a == code
        if model in published and rows.sum() == 805:
            assert 100 * score[rows].mean() == pytest.approx(published[model], abs=0.01)
            checked += 1
    assert checked == 50
