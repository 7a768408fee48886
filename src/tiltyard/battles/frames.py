"""Tables of other libraries: handing them to DuckDB as they are, and turning battles into one of them."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np

from tiltyard.battles.outcome import OUTCOME_LABELS, SOURCE_LABELS
from tiltyard.battles.table import BattleTable, Codes
from tiltyard.errors import TiltyardError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from tiltyard.battles.battle import Battle

Array = np.ndarray[Any, np.dtype[Any]]


def is_frame(data: object) -> bool:
    """True for a pandas or polars frame, an Arrow table or reader, and a DuckDB relation."""
    home = _home(data)
    return home == "pyarrow" or (home in ("pandas", "polars", "duckdb", "_duckdb") and hasattr(type(data), "columns"))


def spool(data: Any, path: Path) -> bool:
    """Write a frame that DuckDB cannot share to a Parquet file, column by column; False when it can be shared.

    A relation belongs to its own connection, a lazy frame is not there yet, and a polars frame is shared by PyArrow.
    """
    home = _home(data)
    if home in ("duckdb", "_duckdb"):
        data.write_parquet(str(path))
    elif home == "polars" and not hasattr(data, "write_parquet"):
        data.sink_parquet(path)
    elif home == "polars" and importlib.util.find_spec("pyarrow") is None:
        data.write_parquet(path)
    else:
        return False
    return True


def _home(data: object) -> str:
    return type(data).__module__.split(".")[0]


def battles_to_frame(battles: BattleTable | Iterable[Battle | Mapping[str, Any]]) -> Any:
    """The battles as a dataframe with the columns of a battle row: pandas if it is installed, else polars."""
    table = battles
    if not isinstance(table, BattleTable):
        from tiltyard.battles.reading import read_battles

        table = read_battles(battles)
    return columns_to_frame(frame_columns(table))


def columns_to_frame(columns: Mapping[str, Array | list[Any]]) -> Any:
    """Columns as a dataframe: pandas if it is installed, else polars."""
    if importlib.util.find_spec("pandas") is not None:
        import pandas

        return pandas.DataFrame(columns)
    if importlib.util.find_spec("polars") is not None:
        import polars

        lists = {name: [None if value != value else value for value in values] for name, values in columns.items()}
        return polars.DataFrame(lists)
    raise TiltyardError("a dataframe needs pandas or polars. Install one: pip install pandas")


def frame_columns(table: BattleTable) -> dict[str, Array]:
    """The columns of a battle row as arrays: text as Python strings (None = missing), numbers as floats."""
    return Unfolded(table).columns(slice(None))


class Unfolded:
    """A table with its texts at hand, so that any stretch of rows can be written out."""

    def __init__(self, table: BattleTable) -> None:
        self.table = table
        self.texts = {
            "model_a": np.array([*table.models, None], dtype=object),
            "winner": np.array(OUTCOME_LABELS, dtype=object),
            "source": np.array(SOURCE_LABELS, dtype=object),
        }
        for name, column in table.columns.items():
            if isinstance(column, Codes):
                self.texts[name] = np.array([*column.labels, None], dtype=object)
        self.is_weighted = bool((table.weight != 1.0).any())

    def columns(self, rows: slice) -> dict[str, Array]:
        """The columns of a battle row, for some rows."""
        table, texts = self.table, self.texts
        columns: dict[str, Array] = {
            "model_a": texts["model_a"][table.model_a[rows]],
            "model_b": texts["model_a"][table.model_b[rows]],
            "winner": texts["winner"][table.outcome[rows]],
            "source": texts["source"][table.source[rows]],
        }
        for name, column in table.columns.items():
            if isinstance(column, Codes):
                columns[name] = texts[name][column.codes[rows]]
            else:
                columns[name] = column[rows] == 1.0 if name == "inconsistent" else column[rows]
        if table.score_a is not None:
            columns["score_a"] = table.score_a[rows]
        if self.is_weighted:
            columns["weight"] = table.weight[rows]
        return columns
