"""What must hold between boards of related battles, at every door: relations instead of expected numbers."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from board_rows import assert_same_board, swapped
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.sizes import size

import tiltyard as ty
from tiltyard.analysis.boards import rate_by

OPTIONS = (
    {},
    {"cluster": "none"},
    {"ties": "rao-kupper"},
    {"ties": "half", "anytime": True},
    {"ties": "drop", "cluster": "voter"},
    {"control": ["len"]},
    {"ci": "bootstrap", "rounds": 25},
    {"shrink": True},
    {"both_bad": "half", "robustness": True},
    {"method": "winrate"},
    {"inconsistent": "drop", "level": 0.8},
)
DOORS = ("rows", "frame", "table", "jsonl", "csv", "parquet", "gz", "parts")

option_set = st.sampled_from(OPTIONS)
seeds = st.integers(0, 10_000)


def battles(seed: int, n: int = 120, *, weighted: bool = False) -> list[dict]:
    """Battles of five models with everything that a row may say, awkward names among them."""
    rng, names = np.random.default_rng(seed), ["a", "b-2", "ç d", "'e'", "F, g"]
    rows = []
    for _ in range(n):
        i, j = rng.choice(5, 2, replace=False)
        winner = rng.choice(["model_a", "model_b", "tie", "tie (bothbad)"], p=[0.45, 0.35, 0.15, 0.05])
        row = {"model_a": names[i], "model_b": names[j], "winner": str(winner), "source": "human"}
        row |= {
            "question_id": f"q{rng.integers(20)}",
            "voter": f"v{rng.integers(15)}",
            "category": "xy"[rng.integers(2)],
        }
        row |= {"len_a": float(rng.integers(5, 90)), "len_b": float(rng.integers(5, 90))}
        row |= {"timestamp": 1.7e9 + float(rng.integers(50))}
        rows.append(row | ({"weight": float(rng.choice([1.0, 0.37, 2.1, 1e-3]))} if weighted else {}))
    return rows


def rate(rows, **options):
    """The board, where these battles have one."""
    try:
        return ty.rate(rows, **options)
    except ty.TiltyardError:
        assume(False)


def through(door: str, rows: list[dict], folder: Path):
    """The rows as they come in by one of the ways in."""
    frame = pd.DataFrame(rows)
    if door in ("rows", "frame", "table"):
        return {"rows": rows, "frame": frame}.get(door) if door != "table" else ty.read_battles(rows)
    if door == "parts":
        for part in range(3):
            frame[part::3].to_json(folder / f"part{part}.jsonl", orient="records", lines=True)
        return folder
    path = folder / {"gz": "battles.jsonl.gz"}.get(door, f"battles.{door}")
    if door == "csv":
        frame.to_csv(path, index=False)
    elif door == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    return path


def contents(board) -> tuple:
    """Everything that a board says, but which file it came from."""
    said = json.loads(board.to_json())
    said.pop("battles_sha256", None)
    return json.dumps(said), {name: values.tobytes() for name, values in board.arrays.items()}


@given(seeds, st.booleans(), st.sampled_from(DOORS), option_set)
@settings(max_examples=size(5, soak=400), deadline=None)
def test_the_order_of_rows_changes_no_byte(seed, weighted, door, options):
    rows = battles(seed, weighted=weighted)
    shuffled = random.Random(seed).sample(rows, len(rows))
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        assert contents(rate(through(door, rows, Path(one)), **options)) == contents(
            rate(through(door, shuffled, Path(other)), **options)
        )


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_order_of_rows_changes_no_byte_of_boards_by_category(pool, weighted):
    rows = battles(3, 400, weighted=weighted)
    orders = rows, random.Random(1).sample(rows, 400)
    boards, again = (rate_by(some, "category", ty.BradleyTerry(), pool=pool) for some in orders)
    assert {name: contents(board) for name, board in boards.items()} == {
        name: contents(board) for name, board in again.items()
    }


@given(seeds, option_set)
@settings(max_examples=size(2, soak=200), deadline=None)
def test_every_door_gives_the_same_board(seed, options):
    assume(options.get("ci") != "bootstrap")  # draws follow the numbers of prompts, which a table has in another order
    rows, boards = battles(seed), []
    for door in DOORS:
        with TemporaryDirectory() as folder:
            boards.append(rate(through(door, rows, Path(folder)), **options))
    for board in boards[1:]:
        assert_same_board(boards[0], board)
        assert board.models == boards[0].models


@given(seeds, option_set)
@settings(max_examples=size(2, soak=200), deadline=None)
def test_a_battle_may_be_written_from_either_side(seed, options):
    rows = battles(seed)
    turned = [{**swapped(row), "len_a": row["len_b"], "len_b": row["len_a"]} for row in rows]
    assume(options.get("ci") != "bootstrap" and not options.get("control"))  # with controls the slot is fitted too
    assert_same_board(rate(rows, **options), rate(turned, **options))


@given(seeds, option_set)
@settings(max_examples=size(2, soak=200), deadline=None)
def test_models_may_be_called_anything(seed, options):
    rows, names = battles(seed), {"a": "zz", "b-2": "y", "ç d": "x", "'e'": "w", "F, g": "v"}
    renamed = [{**row, **{side: names[row[side]] for side in ("model_a", "model_b")}} for row in rows]
    assume(options.get("ci") != "bootstrap")  # rounds are drawn in the order of names
    assert_same_board(rate(rows, **options), rate(renamed, **options), names=names, tolerance=1e-5)


@given(seeds)
@settings(max_examples=size(2, soak=200), deadline=None)
def test_a_filter_is_the_same_as_where(seed):
    rows = [{**row, "dimension": row["category"]} for row in battles(seed)]
    assert_same_board(rate(rows, dimension="x"), rate(rows, where="dimension = 'x'"))
    by, alone = rate_by(rows, "category", ty.BradleyTerry()), rate([row for row in rows if row["category"] == "y"])
    assert_same_board(by["y"], alone)


@given(seeds, st.sampled_from(["a", "ç d"]), st.floats(-3000, 3000))
@settings(max_examples=size(2, soak=200), deadline=None)
def test_an_anchor_moves_all_ratings_alike_and_its_intervals_are_those_of_the_difference(seed, anchor, at):
    rows = battles(seed)
    plain, anchored = rate(rows), rate(rows, anchor=(anchor, at))
    assert anchored[anchor].rating == anchored[anchor].ci_low == anchored[anchor].ci_high == pytest.approx(at)
    for entry in anchored:
        assert entry.rating - plain[entry.model].rating == pytest.approx(at - plain[anchor].rating, abs=1e-6)
        assert (entry.rank, entry.rank_low, entry.rank_high) == (
            plain[entry.model].rank,
            plain[entry.model].rank_low,
            plain[entry.model].rank_high,
        )
        if entry.model != anchor:
            said = ty.compare(entry.model, anchor, battles=rows, slot=False)
            assert (entry.ci_low is None) == (said.low is None)
            if entry.ci_low is not None:
                assert entry.rating - entry.ci_low == pytest.approx(said.difference - said.low, abs=1e-6)


@given(seeds, st.sampled_from([{}, {"cluster": "none"}, {"ci": "bootstrap", "rounds": 60}]))
@settings(max_examples=size(2, soak=200), deadline=None)
def test_a_higher_level_is_a_wider_interval_and_only_an_anchor_has_none(seed, options):
    rows = battles(seed)
    boards = [rate(rows, level=level, **options) for level in (0.5, 0.8, 0.95, 0.999)]
    for narrow, wide in pairwise(boards):
        for entry in narrow:
            other = wide[entry.model]
            if entry.ci_low is not None and entry.ci_high is not None:
                assert other.ci_low < entry.ci_low < entry.ci_high < other.ci_high
            assert other.rank_low <= entry.rank_low <= entry.rank_high <= other.rank_high


@given(seeds, st.sampled_from(["bt", "winrate", "elo", "glicko2"]))
@settings(max_examples=size(2, soak=200), deadline=None)
def test_counts_are_those_counted_by_hand(seed, method):
    rows = battles(seed)
    for entry in rate(rows, method=method):
        mine = [row for row in rows if entry.model in (row["model_a"], row["model_b"])]
        won = sum(row[row["winner"]] == entry.model for row in mine if row["winner"] in row)
        tied, bad = (sum(row["winner"] == word for row in mine) for word in ("tie", "tie (bothbad)"))
        assert (entry.wins, entry.ties, entry.both_bad) == (won, tied, bad)
        assert (entry.n_battles, entry.losses) == (len(mine), len(mine) - won - tied - bad)


@given(seeds, st.integers(2, 4))
@settings(max_examples=size(2, soak=200), deadline=None)
def test_a_weight_is_as_many_copies(seed, copies):
    rows = battles(seed)
    weighted, written = [{**row, "weight": copies} for row in rows], [row for row in rows for _ in range(copies)]
    for options in ({"misfit": False}, {"misfit": False, "cluster": "none"}, {"method": "winrate"}):
        assert_same_board(rate(weighted, **options), rate(written, **options))


@given(seeds)
@settings(max_examples=size(2, soak=200), deadline=None)
def test_a_ledger_written_twice_has_the_same_ratings_and_by_prompt_the_same_intervals(seed):
    rows = battles(seed)
    once, twice = rate(rows), rate(rows + rows)
    for entry in once:
        assert twice[entry.model].rating == pytest.approx(entry.rating, abs=1e-5)
    by_row, by_row_twice = rate(rows, cluster="none"), rate(rows + rows, cluster="none")
    for entry in by_row:
        ends = [(one.ci_low, one.ci_high) for one in (entry, by_row_twice[entry.model])]
        if None not in (*ends[0], *ends[1]) and entry.n_battles >= 20:
            assert ends[1][1] - ends[1][0] < ends[0][1] - ends[0][0]


@given(seeds, option_set)
@settings(max_examples=size(2, soak=200), deadline=None)
def test_a_ratings_file_reads_back_as_it_was_written(seed, options):
    from tiltyard.analysis.boards import RatingsFile

    board = rate(battles(seed), **options)
    with TemporaryDirectory() as folder:
        board.to_json(Path(folder) / "board.json")
        again = RatingsFile.read(Path(folder) / "board.json")
        assert again.to_json() == (Path(folder) / "board.json").read_text(encoding="utf-8")
    assert [entry.to_dict() for entry in again.ratings] == [entry.to_dict() for entry in board]
    frame = board.to_pandas()
    assert frame["model"].tolist() == board.models
    assert frame["rating"].tolist() == [entry.rating for entry in board]


@pytest.mark.parametrize("method", ["bt", "elo-perm", "glicko2"])
@pytest.mark.parametrize("level", [1e-6, 0.5, 0.999999])
@pytest.mark.parametrize("rows", ["one", "thirty alike", "a hub", "both orders", "weights"])
def test_odd_battles_have_a_board_or_a_message_and_no_interval_without_a_width(method, level, rows):
    spokes = [("base", spoke, winner, f"q{spoke}") for spoke in "abcd" for winner in ("model_a", "model_b", "tie") * 8]
    orders = [("a", "b", winner, f"q{at}") for at in range(40) for winner in ("model_a", "model_b")]
    some = {"one": [("a", "b", "model_a", "q")], "thirty alike": [("a", "b", "model_a", "q")] * 30}
    some |= {"a hub": spokes, "both orders": orders, "weights": orders}
    given = [dict(zip(("model_a", "model_b", "winner", "question_id"), row, strict=True)) for row in some[rows]]
    if rows == "weights":
        given = [{**row, "weight": 1e-6 if at % 3 else 1e9} for at, row in enumerate(given)]
    try:
        board = ty.rate(given, method=method, level=level)
    except ty.TiltyardError:
        assert rows == "weights"
        return
    for entry in board:
        ends = [[entry.extra.get(f"{kind}_{end}") for end in ("low", "high")] for kind in ("ci95", "sampling")]
        for low, high in ((entry.ci_low, entry.ci_high), *ends):
            assert low is None or high is None or low < high
        assert entry.extra.get("sem") is None or entry.extra["sem"] > 0.0
    if rows == "a hub" and method == "bt":
        assert all(entry.ci_low is None and entry.note.startswith("no interval") for entry in board)
        assert "nothing to measure it against" in board["base"].note
