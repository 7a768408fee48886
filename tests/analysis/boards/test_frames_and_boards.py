"""Battles from every table library give the same board, and a board goes back into each of them."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from board_rows import arena, assert_same_board

import tiltyard as ty
from tiltyard.analysis.boards import rate_by
from tiltyard.data.battles import Opened
from tiltyard.errors import BattleError

duckdb = pytest.importorskip("duckdb")
pandas = pytest.importorskip("pandas", reason="frames of pandas need pandas")
polars = pytest.importorskip("polars", reason="frames of polars need polars")
pyarrow = pytest.importorskip("pyarrow", reason="Arrow tables need pyarrow")
datasets = pytest.importorskip("datasets", reason="Hugging Face data sets need datasets")


class Stream:
    """Anything that speaks the Arrow PyCapsule interface, once."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        table, self.table = self.table, None
        return table.__arrow_c_stream__(requested_schema)


ROWS = arena(3, n=400, prompts=60)
ARROW = pyarrow.Table.from_pylist(ROWS)
FRAMES = {
    "pandas": lambda: pandas.DataFrame(ROWS),
    "pandas with Arrow strings": lambda: pandas.DataFrame(ROWS).astype("string[pyarrow]"),
    "pandas with categories": lambda: pandas.DataFrame(ROWS).astype("category"),
    "polars": lambda: polars.DataFrame(ROWS),
    "polars lazy": lambda: polars.DataFrame(ROWS).lazy(),
    "Arrow table": lambda: ARROW,
    "Arrow table in chunks": lambda: pyarrow.concat_tables([ARROW.slice(0, 150), ARROW.slice(150)]),
    "Arrow batch": lambda: ARROW.to_batches()[0],
    "Arrow reader": lambda: ARROW.to_reader(max_chunksize=90),
    "Arrow stream": lambda: Stream(ARROW),
    "DuckDB relation": lambda: duckdb.connect().from_arrow(ARROW),
    "data set": lambda: datasets.Dataset(ARROW),
    "data set with chosen rows": lambda: datasets.Dataset(pyarrow.concat_tables([ARROW, ARROW])).select(range(400)),
    "streaming data set": lambda: datasets.Dataset(ARROW).to_iterable_dataset(num_shards=3),
    "dicts": lambda: ROWS,
    "generator of dicts": lambda: (row for row in ROWS),
    "generator of battles": lambda: (ty.Battle.from_dict(row) for row in ROWS),
}


IN_ORDER = ("pandas", "polars lazy", "Arrow reader", "data set with chosen rows", "generator of dicts")
"""One of each way of reading is rated in the order of its rows, in every run; in a soak all are rated in both ways."""
VARIANTS = (
    *("pandas with Arrow strings", "pandas with categories", "Arrow table in chunks", "Arrow batch"),
    "data set with chosen rows",
)
"""Other contents of a frame that is read again in every run."""


@cache
def expected_board(method: Any) -> ty.Leaderboard:
    return ty.rate(ty.read_battles(ROWS), method=method)


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        *(pytest.param(kind, "bt", marks=[pytest.mark.soak] if kind in IN_ORDER else []) for kind in FRAMES),
        *(pytest.param(kind, "elo", marks=[] if kind in IN_ORDER else [pytest.mark.soak]) for kind in FRAMES),
    ],
)
def test_the_same_battles_give_the_same_board_from_every_library(kind: str, method: Any) -> None:
    assert_same_board(ty.rate(FRAMES[kind](), method=method), expected_board(method))


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(name, marks=[pytest.mark.soak] if name in VARIANTS else [])
        for name in FRAMES
        if "dicts" not in name and "battles" not in name
    ],
)
def test_a_frame_is_read_again_without_its_library(kind: str) -> None:
    held = Opened(FRAMES[kind]())
    assert Opened.of(held) is held
    first, again = ty.read_battles(held), ty.read_battles(held, where="question_id <> 'q0'")
    assert len(first) == 400
    assert 0 < len(again) < 400


def test_a_frame_is_filtered_and_split_like_a_file() -> None:
    frame = polars.DataFrame(ROWS).with_columns(category=polars.col("model_a").is_in(["a", "b"]).cast(polars.String))
    boards = rate_by(frame.lazy(), "category", ty.BradleyTerry())
    assert set(boards) == {"true", "false"}
    filtered = ty.rate(frame, where="category = 'true'")
    assert_same_board(boards["true"], filtered)


def test_a_file_that_holds_a_frame_goes_when_the_frame_does() -> None:
    held = Opened(polars.DataFrame(ROWS).lazy())
    assert held.frame is not None
    path = held.frame.path
    assert path is not None
    assert path.exists()
    del held
    assert not path.parent.exists()


def test_several_data_sets_at_once_are_refused_with_their_names() -> None:
    splits = datasets.DatasetDict(train=datasets.Dataset(ARROW), test=datasets.Dataset(ARROW))
    with pytest.raises(
        BattleError, match=r"holds several data sets \(train, test\)\. Give one of them: data\['train'\]"
    ):
        ty.rate(splits)
    assert len(ty.rate(splits["test"])) == 5


def test_a_stream_that_changes_its_columns_is_refused_but_its_rows_are_read() -> None:
    late = [{**row, "dimension": None if at < 200 else "style"} for at, row in enumerate(ROWS)]
    stream = datasets.IterableDataset.from_generator(lambda: iter(late))
    with pytest.raises(BattleError, match=r"changes its columns: .* Give its rows, iter\(data\), or a table"):
        ty.rate(stream)
    assert len(ty.rate(iter(stream), dimension="style")) == 5


def test_an_empty_stream_is_a_clear_error() -> None:
    with pytest.raises(BattleError, match="holds no row"):
        ty.rate(datasets.IterableDataset.from_generator(lambda: iter(())))


def test_the_rows_of_a_frame_never_become_objects() -> None:
    import pyarrow

    n, rng = 100_000, np.random.default_rng(0)
    a = rng.integers(0, 20, n)
    names = pyarrow.array([f"model-{i}" for i in range(20)])
    table = pyarrow.table(
        {
            "model_a": names.take(pyarrow.array(a)),
            "model_b": names.take(pyarrow.array((a + rng.integers(1, 20, n)) % 20)),
            "source": pyarrow.array(["human"] * n),
            "winner": pyarrow.array(["model_a", "model_b"]).take(pyarrow.array(rng.integers(0, 2, n))),
        }
    )
    ty.rate(table.slice(0, 1000))
    tracemalloc.start()
    try:
        ty.rate(table, misfit=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / n < 40  # bytes of Python's own memory per row; a dict of four would take hundreds


@pytest.fixture(scope="module")
def board() -> ty.Leaderboard:
    return ty.rate(ROWS + arena(4, n=1, models="az"), robustness=True)


def test_a_board_becomes_a_frame_of_each_library(board: ty.Leaderboard) -> None:
    wide, narrow, arrow = board.to_pandas(), board.to_polars(), board.to_arrow()
    assert list(wide["model"]) == narrow["model"].to_list() == arrow["model"].to_pylist() == board.models
    assert wide["rating"].tolist() == narrow["rating"].to_list() == list(board.ratings.values())
    assert str(wide["rank"].dtype) == "int64"
    assert narrow.schema["wins"] == polars.Int64
    assert board.to_frame().equals(wide)


def test_an_open_end_of_an_interval_is_missing_in_a_frame(board: ty.Leaderboard) -> None:
    open_ended = [entry.model for entry in board if entry.ci_low is None or entry.ci_high is None]
    assert open_ended == ["z"]
    narrow = board.to_polars().filter(polars.col("model") == "z")
    assert (narrow["ci_low"].is_null() | narrow["ci_high"].is_null()).all()
    assert narrow["note"].to_list() == [board["z"].note]


def test_a_count_that_may_be_missing_stays_a_whole_number(board: ty.Leaderboard) -> None:
    assert str(board.to_pandas()["battles_to_swap_with_next"].dtype) == "Int64"
    assert board.to_polars().schema["battles_to_swap_with_next"] == polars.Int64


def test_any_arrow_reader_takes_a_board_as_it_is(board: ty.Leaderboard) -> None:
    assert pyarrow.table(board).equals(board.to_arrow())
    assert polars.DataFrame(board).equals(board.to_polars())


def test_without_the_library_one_line_says_what_to_install(tmp_path: Path) -> None:
    script = """
import sys
import tiltyard as ty
rows = [dict(model_a=a, model_b=b, winner="model_a", source="human") for a, b in ("xy", "yx")]
board = ty.rate(rows)
sys.path[:] = [place for place in sys.path if "site-packages" not in place]
for call in (board.to_pandas, board.to_polars, board.to_arrow):
    try:
        call()
    except ty.TiltyardError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    said = done.stdout.splitlines()
    libraries = ("pandas", "polars", "pyarrow")
    assert [line.split("Install it: ")[-1] for line in said] == [f"pip install {library}" for library in libraries]
