"""The fast reader: one pass of DuckDB over a source, and no Python object per row.

Text columns are read through their distinct values. Where these are few, a row carries a small code (a DuckDB ENUM);
where they are many, a 64-bit hash. Text files are first staged in one pass as columns (grouped, where equal rows may be
merged); Parquet files and frames are columns already and are scanned in place.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.filters import refusal
from tiltyard.battles.inputs import FileKind, Part
from tiltyard.battles.layout import Field, FieldKind, Layout
from tiltyard.battles.query import Rows, filtered, holds_json_labels, identifier, literal, no_glob, staged
from tiltyard.battles.settle import LabelColumn, RawBatch
from tiltyard.battles.table import dense_codes
from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FEW = 50_000
"""Up to this many distinct texts a row carries a code; above, a hash."""
LITTLE_MEMORY = "384MB"
"""What DuckDB may hold before it spills to a temporary folder."""
MUCH_MEMORY = "80%"
"""The same, of the machine's memory, for what cannot be done with little."""
TEXT_ROW_BYTES = 200
ZIPPED_ROW_BYTES = 25
"""About what a row takes in a text file, and in one that is zipped."""
COUNT = "number of equal rows"
MODELS = {"model_a", "model_b"}
DIVISORS = (255, 4093, 16381, 65521, 65519, 65497, 65479)
"""By what hashes are divided, so that what is left takes one byte or two."""


class _Engine:
    """An in-memory DuckDB that spills to a temporary folder and never asks the network for anything."""

    def __init__(self, memory: str) -> None:
        import duckdb

        self.spill = Path(tempfile.gettempdir()) / f"tiltyard-{secrets.token_hex(8)}"
        self.connection = duckdb.connect(
            config={
                "threads": str(_cores()),
                "memory_limit": memory,
                "temp_directory": str(self.spill),
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            }
        )


class _SharedEngine:
    """The engine that sessions of this process use one after the other: starting one takes thirty milliseconds.

    After a failure a new one is started. Before a fork it is closed: the new process would have it without its threads,
    and could not even close it. (If a session is open in another thread then, it stays locked in the new process, whose
    sessions start engines of their own.)
    """

    def __init__(self) -> None:
        self.in_use = threading.Lock()
        self._engine: _Engine | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.close_if_free)

    def get(self) -> _Engine:
        if self._engine is not None and self._engine.spill.parent != Path(tempfile.gettempdir()):
            self.forget()  # its temporary folder may be gone
        if self._engine is None:
            self._engine = _Engine(LITTLE_MEMORY)
        return self._engine

    def close_if_free(self) -> None:
        if self.in_use.acquire(blocking=False):
            try:
                self.forget()
            finally:
                self.in_use.release()

    def forget(self) -> None:
        if self._engine is not None:
            self._engine.connection.close()
        self._engine = None


_shared = _SharedEngine()


@contextmanager
def session(*, large_limits: bool = False) -> Iterator[DuckDBPyConnection]:
    """A connection to DuckDB with temporary tables of its own; an engine of its own if it needs much memory."""
    if large_limits or not _shared.in_use.acquire(blocking=False):
        engine = _Engine(MUCH_MEMORY if large_limits else LITTLE_MEMORY)
        try:
            yield from _connected(engine)
        finally:
            engine.connection.close()
        return
    try:
        yield from _connected(_shared.get())
    except BaseException:
        _shared.forget()
        raise
    finally:
        _shared.in_use.release()


def give_back_memory() -> None:
    """Close the shared engine, unless it is in use: after a large source it holds on to a hundred megabytes."""
    _shared.close_if_free()


def _connected(engine: _Engine) -> Iterator[DuckDBPyConnection]:
    engine.spill.mkdir(mode=0o700)
    connection = engine.connection.cursor()
    try:
        connection.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = true")
        yield connection
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # how DuckDB passes on Ctrl-C
            raise KeyboardInterrupt from None
        raise
    finally:
        connection.close()
        shutil.rmtree(engine.spill, ignore_errors=True)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def needs_large_limits(error: Exception) -> bool:
    """True when DuckDB failed for want of memory, or at a line longer than it was told to expect."""
    import duckdb

    if isinstance(error, duckdb.OutOfMemoryException):
        return True
    message = str(error).lower()
    return "maximum_object_size" in message or "maximum line size" in message or "max_line_size" in message


def check_condition(layout: Layout) -> None:
    """Raise a clear error when `where` is anything but one condition, before it is part of any statement."""
    if layout.where is not None:
        with session() as connection:
            reason = refusal(layout.where, connection, layout.header)
        if reason is not None:
            raise where_error(layout, f"{reason}. Give one condition, such as category = 'law'")


def check_where(connection: DuckDBPyConnection, rows: Rows, layout: Layout) -> None:
    """Raise a clear error when the `where` expression cannot be used on these rows."""
    if layout.where is None:
        return
    import duckdb

    try:
        connection.execute(f"EXPLAIN SELECT 1 FROM {filtered(rows, layout)}")
    except (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException) as error:
        raise where_error(layout, error) from None


def where_error(layout: Layout, error: Exception | str) -> OptionError:
    """The error for a `where` expression that is refused, here or by DuckDB."""
    first = str(error).strip().splitlines()[0]
    names = ", ".join(layout.header.top_names)
    return OptionError(f"where={layout.where!r} cannot be used: {first}. The columns are {names}.")


def repeated_rows(connection: DuckDBPyConnection, rows: Rows, layout: Layout) -> int:
    """How many rows repeat another in every column that they have."""
    hashes = f"SELECT hash(row_of_source) AS h FROM {filtered(rows, layout)} AS row_of_source"
    query = f"SELECT coalesce(sum(n - 1), 0) FROM (SELECT count(*) AS n FROM ({hashes}) GROUP BY h HAVING count(*) > 1)"
    (number,) = connection.execute(query).fetchone() or (0,)
    return int(number)


def load(connection: DuckDBPyConnection, rows: Rows, layout: Layout) -> RawBatch:
    """Every row of a source as raw columns, in the order of the source (unless equal rows are merged)."""
    select = staged(rows, layout)
    connection.execute(f"SET preserve_insertion_order = {not layout.counted}")
    grouped = layout.groups_early
    is_table = grouped or rows.header.cells != "typed"
    if grouped:
        select = f"SELECT *, count(*) AS {identifier(COUNT)} FROM ({select}) GROUP BY ALL"
    connection.execute(f"CREATE TEMP {'TABLE' if is_table else 'VIEW'} stage AS {select}")
    coders = _coders(connection, rows, layout)
    if rows.exact is not None and any(_in_doubt(field, coders[field.name]) for field in _coded(layout)):
        connection.execute("DROP TABLE stage")
        return load(connection, rows.exact, layout)
    outputs = [coders[field.name].sql(field.name) for field in _coded(layout)]
    outputs += [identifier(field.name) for field in layout.fields if field.hashed or not field.kind.is_label]
    if grouped:
        outputs.append(f"CAST({identifier(COUNT)} AS DOUBLE)")
    query = "SELECT " + ", ".join(f"{sql} AS c{at}" for at, sql in enumerate(outputs)) + " FROM stage"
    if layout.counted and not grouped:
        query = f"SELECT *, CAST(count(*) AS DOUBLE) AS c{len(outputs)} FROM ({query}) GROUP BY ALL"
    arrays = [np.asarray(array) for array in connection.execute(query).fetchnumpy().values()]
    return _batch(arrays, layout, coders)


def _batch(arrays: list[NDArray[Any]], layout: Layout, coders: Mapping[str, Coder]) -> RawBatch:
    """The fetched arrays under their names: labels, hashes, numbers, count, in the order they were asked for."""
    fetched = iter(arrays)
    labels = {field.name: coders[field.name].column(next(fetched)) for field in _coded(layout)}
    hashes, numbers = {}, {}
    for field in layout.fields:
        if field.hashed:
            hashes[field.name] = next(fetched)
        elif not field.kind.is_label:
            numbers[field.name] = next(fetched)
    return RawBatch(len(arrays[0]), labels, numbers, hashes, next(fetched, None))


def _coded(layout: Layout) -> list[Field]:
    """The fields whose texts are looked at."""
    return [field for field in layout.labels if not field.hashed]


@dataclass(frozen=True, slots=True)
class Coder:
    """How the texts of a field travel: as codes of an ENUM type, as parts, or as hashes.

    A part is what is left of a text's hash, shifted, when it is divided: two numbers under which all texts differ.
    DuckDB has the hashes of a column with few texts at once, and would look every row's text up in an ENUM type.
    """

    values: tuple[object, ...]
    enum_type: str | None = None
    hashes: NDArray[np.uint64] | None = None
    part: tuple[int, int] | None = None

    def sql(self, field: str) -> str:
        """The code, part or hash of a field's text; a missing text has the code, or part, after the last."""
        if self.part is not None:
            shift, divisor = self.part
            width, column = "UTINYINT" if divisor < 256 else "USMALLINT", identifier(field)
            left = f"CAST((hash({column}) >> {shift}) % {divisor}::UBIGINT AS {width})"
            return f"CASE WHEN {column} IS NULL THEN {divisor}::{width} ELSE {left} END"
        if self.hashes is not None:
            return f"CASE WHEN {identifier(field)} IS NULL THEN 0 ELSE hash({identifier(field)}) END"
        width = "UTINYINT" if len(self.values) < 255 else "USMALLINT"
        code = f"CAST(enum_code(CAST({identifier(field)} AS {self.enum_type})) AS {width})"
        return f"coalesce({code}, {len(self.values)}::{width})"

    def column(self, fetched: NDArray[Any]) -> LabelColumn:
        """The fetched codes, parts or hashes with the values they stand for."""
        if self.part is not None and self.hashes is not None:
            code = np.full(self.part[1] + 1, len(self.values), dtype=np.uint16)
            code[_left(self.hashes, *self.part)] = np.arange(len(self.values))
            return LabelColumn(code[fetched], self.values)
        if self.hashes is None:
            return LabelColumn(fetched, self.values)
        codes, distinct = dense_codes(fetched)
        return LabelColumn(codes, [self.values[at] for at in np.searchsorted(self.hashes, distinct)])


def _in_doubt(field: Field, coder: Coder) -> bool:
    """Whether a plain text could have been another JSON value, and would then be read otherwise."""
    for text in coder.values:
        try:
            value = msgspec.json.decode(str(text))
        except (msgspec.DecodeError, UnicodeError):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or field.kind is FieldKind.NAME:
            return True
    return False


def _coders(connection: DuckDBPyConnection, rows: Rows, layout: Layout) -> dict[str, Coder]:
    """One coder per label field; the two model columns share theirs unless their values are written differently."""
    coders: dict[str, Coder] = {}
    written = {field.name: holds_json_labels(field, rows) for field in _coded(layout)}
    shared = ("model_a", "model_b") if written["model_a"] == written["model_b"] else ("model_a",)
    for at, field in enumerate(_coded(layout)):
        if field.name not in coders:
            names = shared if field.name == "model_a" else (field.name,)
            kind = f"labels{at}{'' if rows.exact is None else '_plain'}"
            coder = _coder(connection, names, kind, is_json=written[field.name])
            coders |= dict.fromkeys(names, coder)
    return coders


def _coder(connection: DuckDBPyConnection, fields: Sequence[str], name: str, *, is_json: bool) -> Coder:
    """The coder of the texts of some fields."""
    texts, hashes = _distinct_texts(connection, [identifier(field) for field in fields])
    values: tuple[object, ...] = tuple(map(_json_value, texts)) if is_json else tuple(texts)
    if len(texts) > FEW:
        return Coder(values, None, hashes)
    part = _telling_part(hashes)
    if part is not None:
        return Coder(values, None, hashes, part)
    connection.execute(f"CREATE TEMP TYPE {name} AS ENUM ({', '.join(map(literal, texts)) or literal('')})")
    return Coder(values, name)


def _left(hashes: NDArray[np.uint64], shift: int, divisor: int) -> NDArray[np.uint64]:
    return (hashes >> np.uint64(shift)) % np.uint64(divisor)


def _telling_part(hashes: NDArray[np.uint64]) -> tuple[int, int] | None:
    """A shift and a divisor, small if possible, that leave something else of each hash; None if none is found."""
    for divisor in DIVISORS:
        if len(hashes) ** 2 < 16 * divisor:  # otherwise all but certainly two leave the same
            for shift in range(0, 48, 3):
                if len(set(_left(hashes, shift, divisor).tolist())) == len(hashes):
                    return shift, divisor
    return None


def _distinct_texts(connection: DuckDBPyConnection, columns: Sequence[str]) -> tuple[list[str], NDArray[np.uint64]]:
    """The distinct texts of some columns in the order of their hashes, and the hashes."""
    every = " UNION ".join(f"SELECT DISTINCT {column} AS text FROM stage" for column in columns)
    query = f"SELECT text, hash(text) AS hash FROM ({every}) WHERE text IS NOT NULL ORDER BY hash, text"
    fetched = connection.execute(query).fetchnumpy()
    return np.asarray(fetched["text"]).tolist(), np.asarray(fetched["hash"])


def _json_value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:  # DuckDB lets NaN and Infinity pass, which are numbers of a kind but not JSON
        return float("nan")


def about_rows(parts: Sequence[Part]) -> float:
    """About how many rows files have, without reading them: Parquet files say it, text files by their size."""
    typed = [part for part in parts if part.kind is FileKind.PARQUET]
    rows = sum(
        part.path.stat().st_size / (ZIPPED_ROW_BYTES if part.zipped else TEXT_ROW_BYTES)
        for part in parts
        if part.kind is not FileKind.PARQUET
    )
    if typed:
        files = ", ".join(literal(no_glob(part.path)) for part in typed)
        with session() as connection:
            said = connection.execute(f"SELECT num_rows FROM parquet_file_metadata([{files}])").fetchall()
        rows += sum(number for (number,) in said)
    return rows
