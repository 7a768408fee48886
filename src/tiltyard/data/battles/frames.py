"""Tables of other libraries: giving them to DuckDB as they are, and turning columns into one of them."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tiltyard.data.battles.battle import FLAGS, OUTCOME_LABELS, SOURCE_LABELS
from tiltyard.data.battles.table import BattleTable, Codes
from tiltyard.errors import BattleError, TiltyardError

Array = np.ndarray[Any, np.dtype[Any]]
BATCH_ROWS = 50_000
"""Rows of a stream that are held at once on their way to a file."""


def is_frame(data: object) -> bool:
    """True for a table of another library: pandas, polars, Arrow, DuckDB, Hugging Face datasets, or an Arrow stream."""
    homes = _homes(data)
    if homes & {"pyarrow", "datasets"} or hasattr(type(data), "__arrow_c_stream__"):
        return True
    return bool(homes & {"pandas", "polars", "duckdb", "_duckdb"}) and hasattr(type(data), "columns")


def is_spark_frame(data: object) -> bool:
    """True for a DataFrame of Spark, whose battles stay where they are."""
    return "pyspark" in _homes(data)


class ReusableFrame:
    """A frame that can be read any number of times; no row of it becomes a Python object.

    `shared` is what DuckDB scans in place. Where it cannot (a relation belongs to its own connection, a lazy frame is
    not there yet, a stream passes once), the frame went column by column to the Parquet file at `path`.
    """

    def __init__(self, data: Any) -> None:
        self.path: Path | None = None
        self.shared: Any = None
        if not _must_spool(data):
            self.shared = _as_shared(data)
            return
        folder = tempfile.mkdtemp(prefix="tiltyard-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / "frame.parquet"
        if "datasets" in _homes(data):
            _write_batches(data.with_format("arrow").iter(batch_size=BATCH_ROWS), self.path)
        elif hasattr(data, "sink_parquet"):
            data.sink_parquet(self.path)
        else:
            data.write_parquet(str(self.path))


def _must_spool(data: Any) -> bool:
    homes, kind = _homes(data), type(data).__name__
    if "datasets" in homes and isinstance(data, Mapping):
        names = ", ".join(map(str, data))
        raise BattleError(f"a {kind} holds several data sets ({names}). Give one of them: data[{next(iter(data))!r}].")
    if "polars" in homes:
        return not hasattr(data, "write_parquet") or not _installed("pyarrow")
    return bool(homes & {"duckdb", "_duckdb"}) or ("datasets" in homes and not hasattr(data, "__len__"))


def _as_shared(data: Any) -> Any:
    """The frame as DuckDB can scan it in place: a pandas or polars frame, or an Arrow table."""
    homes = _homes(data)
    if "datasets" in homes:
        return data.with_format("arrow")[:]
    if hasattr(data, "read_all"):
        return data.read_all()
    if "polars" in homes:
        import polars

        # Once: DuckDB would do it for every query. Texts stay as polars holds them.
        return data.to_arrow(compat_level=polars.CompatLevel.newest())
    if homes & {"pandas", "pyarrow"}:
        return data
    pyarrow = _imported("pyarrow", f"reading a {type(data).__name__} needs PyArrow")
    return pyarrow.RecordBatchReader.from_stream(data).read_all()


def _write_batches(batches: Iterable[Any], path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    writer = None
    try:
        for batch in batches:
            if writer is None:
                writer = parquet.ParquetWriter(path, batch.schema)
            writer.write_table(batch.cast(writer.schema))
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise BattleError(f"the stream changes its columns: {first}. Give its rows, iter(data), or a table.") from None
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise BattleError("the stream holds no row. Check what it was made from.")


def _homes(data: object) -> set[str]:
    """The packages that the data's class and its ancestors come from."""
    return {kind.__module__.split(".")[0] for kind in type(data).__mro__}


def _installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def _imported(library: str, need: str) -> Any:
    if not _installed(library):
        raise TiltyardError(f"{need}. Install it: pip install {library}")
    return importlib.import_module(library)


def columns_to_frame(columns: Mapping[str, Array | list[Any]]) -> Any:
    """Columns as what is installed: a pandas or polars frame, an Arrow table, else a list of rows (dictionaries)."""
    makers = {"pandas": columns_to_pandas, "polars": columns_to_polars, "pyarrow": columns_to_arrow}
    make = next((make for library, make in makers.items() if _installed(library)), columns_to_rows)
    return make(columns)


def columns_to_rows(columns: Mapping[str, Array | list[Any]]) -> list[dict[str, Any]]:
    """Columns as a list of rows, one dictionary each; what is missing is None. Needs no library."""
    cells = [_with_none(values) for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True)]


def columns_to_pandas(columns: Mapping[str, Array | list[Any]]) -> Any:
    """Columns as a pandas frame: a whole number that may be missing is an `Int64`."""
    pandas = _imported("pandas", "a pandas frame needs pandas")
    kinds = {"number": "float64", "flag": "bool"}
    series = {}
    for name, values in columns.items():
        kind = _kind(values)
        if kind == "whole":
            kinds["whole"] = "Int64" if any(value is None for value in values) else "int64"
        series[name] = pandas.Series(values, dtype=kinds.get(kind))
    return pandas.DataFrame(series)


def columns_to_polars(columns: Mapping[str, Array | list[Any]]) -> Any:
    """Columns as a polars frame; what is missing is null."""
    polars = _imported("polars", "a polars frame needs polars")
    kinds = {"whole": polars.Int64, "number": polars.Float64, "text": polars.String, "flag": polars.Boolean}
    series = [polars.Series(name, _with_none(values), dtype=kinds[_kind(values)]) for name, values in columns.items()]
    return polars.DataFrame(series)


def columns_to_arrow(columns: Mapping[str, Array | list[Any]]) -> Any:
    """Columns as an Arrow table; what is missing is null."""
    pyarrow = _imported("pyarrow", "an Arrow table needs PyArrow")
    kinds = {"whole": pyarrow.int64(), "number": pyarrow.float64(), "text": pyarrow.string(), "flag": pyarrow.bool_()}
    arrays = {name: pyarrow.array(_with_none(values), type=kinds[_kind(values)]) for name, values in columns.items()}
    return pyarrow.table(arrays)


def _kind(values: Array | list[Any]) -> str:
    """What a column holds; one without any value holds numbers that are all missing."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return {"b": "flag", "i": "whole", "u": "whole"}.get(values.dtype.kind, "number")
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} and kinds:
        return "flag"
    if kinds <= {int, float}:
        return "whole" if kinds == {int} else "number"
    return "text"


def _with_none(values: Array | list[Any]) -> list[Any]:
    plain: list[Any] = values.tolist() if isinstance(values, np.ndarray) else values
    return [None if value != value else value for value in plain]


def frame_columns(table: BattleTable) -> dict[str, Array]:
    """The columns of a battle row as arrays: text as Python strings (None = missing), numbers as floats."""
    return Unfolded(table).columns(slice(None))


class Unfolded:
    """A table with its texts looked up, so that any range of rows can be written out."""

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
                columns[name] = column[rows] == 1.0 if name in FLAGS else column[rows]
        if table.score_a is not None:
            columns["score_a"] = table.score_a[rows]
        if self.is_weighted:
            columns["weight"] = table.weight[rows]
        return columns
