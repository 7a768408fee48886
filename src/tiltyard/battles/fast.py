"""The fast reader: one pass of DuckDB over a source, and no Python object per row.

Text columns are read through their distinct values; where these are few, a row carries a small number, else a 64-bit
hash. Text files are first staged in one pass as columns (grouped, where equal rows may be merged); Parquet files and
frames are columns already and are scanned in place.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.inputs import FileKind, Header, Part, RawColumn, delimiter
from tiltyard.battles.layout import BLANKS, STRICT_NUMBERS, WHOLE, Field, FieldKind, Layout
from tiltyard.battles.settle import LabelColumn, RawBatch
from tiltyard.battles.table import dense_codes
from tiltyard.errors import OptionError, OptionValue

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PARTS = frozenset(
    (
        *("COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION", "FUNCTION", "OPERATOR", "CAST", "CASE", "BETWEEN"),
        *("COLLATE", "LAMBDA", "LAMBDA_REF", "TYPE"),
    )
)
"""The classes of DuckDB's expressions that a condition may be made of."""

CALLABLE = ("scalar", "macro", "aggregate")
"""The kinds of functions that can be called in an expression."""

TIMES = frozenset(
    (
        *("now", "today", "current_date", "current_time", "current_timestamp", "current_localtime"),
        *("current_localtimestamp", "get_current_time", "get_current_timestamp", "transaction_timestamp"),
    )
)
"""Functions that tell the time of the query, which a condition may compare with."""

ENGINE = re.compile(r"(current|pg|inet|has|json_(de)?serialize)_.*|(session_)?user|version|parse_duckdb_log_message")
"""Functions that tell about the engine or the session, not about the row."""

ENGINE_WORDS = frozenset(("current_catalog", "current_role", "current_schema", "current_user", "session_user", "user"))
"""Those of them that DuckDB takes without parentheses, where no column has the name."""

SPARK_SUBQUERY = re.compile(r"\((?:\s|--[^\r\n]*)*(select|from|table|values|with|map|reduce)\b(?!\s*\()", re.IGNORECASE)
SPARK_CALLS = re.compile(r"\b(reflect|try_reflect|java_method|identifier)\b", re.IGNORECASE)
"""Functions of Spark SQL that call any method of Java, or a function whose name is computed."""


def refusal(where: str, connection: DuckDBPyConnection, columns: Iterable[str] = ()) -> str | None:
    """Why a `where` expression may not be given to DuckDB, or None when it may.

    Parameters:
        where: The expression.
        connection: Where it would be used.
        columns: The source's own columns; a word such as `user` that is none of them is a function of DuckDB.
    """
    return _refusal(where, connection, frozenset(name.lower() for name in columns), frozenset())


def spark_refusal(where: str) -> str | None:
    """Why a `where` expression may not be given to Spark, or None when it may.

    Spark itself reads it as one expression. Its words are looked for even within quotes: its rules for quotes depend
    on its settings.
    """
    if "/*" in where:
        return "it has a comment"
    if SPARK_SUBQUERY.search(where):
        return "it has a subquery"
    called = SPARK_CALLS.search(where)
    return f"it may not use {called[1].lower()}" if called else None


def _refusal(where: str, connection: DuckDBPyConnection, columns: frozenset[str], within: frozenset[str]) -> str | None:
    if "\0" in where:
        return "it has a zero byte"
    plain = _parsed("true", connection)
    condition = _taken_out(plain)
    for text in (where, f"({where}\n)"):  # by itself, and as it will be in a statement
        parsed = _parsed(text, connection)
        if parsed["error"]:
            return str(parsed["error_message"]).strip().splitlines()[0]
        condition = _taken_out(parsed)
        if condition is None or _without_places(parsed) != _without_places(plain):
            return "it is more than one condition"
    reasons = (_about_part(part, connection, columns, within) for part in _parts(condition))
    return next((reason for reason in reasons if reason is not None), None)


def _parsed(where: str, connection: DuckDBPyConnection) -> Any:
    """A statement with this condition, as DuckDB's parser reads it."""
    query = "SELECT CAST(json_serialize_sql(?) AS VARCHAR)"
    (text,) = connection.execute(query, [f"SELECT 1 FROM t WHERE {where}\n"]).fetchone() or ("",)
    return msgspec.json.decode(text)


def _taken_out(parsed: Any) -> Any:
    """The condition of the first statement, which has none afterwards."""
    return parsed["statements"][0]["node"].pop("where_clause", None)


def _without_places(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_places(value) for key, value in tree.items() if not key.startswith("query_location")}
    return [_without_places(value) for value in tree] if isinstance(tree, list) else tree


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Every expression and every query in a parsed tree, from outside to inside."""
    if isinstance(tree, dict):
        if "class" in tree or "from_table" in tree or "node" in tree:
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for value in tree:
            yield from _parts(value)


def _about_part(
    part: dict[str, Any], connection: DuckDBPyConnection, columns: frozenset[str], within: frozenset[str]
) -> str | None:
    kind = part.get("class")
    if kind is None or kind == "SUBQUERY":
        return "it has a subquery"
    if kind not in PARTS:
        return f"it may not use {str(kind).lower()}"
    names = part["column_names"] if kind == "COLUMN_REF" else []
    if len(names) == 1 and names[0].lower() in ENGINE_WORDS - columns:
        return f"it may not use {names[0].lower()}"
    name = str(part.get("function_name", "")).lower() if kind == "FUNCTION" else ""
    if not name or name in within:
        return None
    known = connection.execute(
        "SELECT DISTINCT function_type, stability, macro_definition FROM duckdb_functions() WHERE function_name = ?",
        [name],
    ).fetchall()
    called = [(stability, macro) for kind, stability, macro in known if kind in CALLABLE]
    refused = bool(known) and not called
    for stability, macro in called:
        of_the_row = name in TIMES or (stability in ("CONSISTENT", None) and not ENGINE.fullmatch(name))
        inner = None if macro is None else _refusal(macro, connection, columns, within | {name})
        refused |= not of_the_row or inner is not None
    return f"it may not use the function {name}" if refused else None


LINE_BYTES = 1 << 21
LONG_LINE_BYTES = 1 << 27
RAW = "raw of "
"""Prefix of a column's untouched value where its plain name is typed for a `where` expression."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a source as SQL: what comes after FROM, with the source's own columns.

    `texts` are columns of a JSON file that are read as plain text, which is faster but does not tell `"1"` from `1`;
    where that matters, the rows `exact` do.
    """

    sql: str
    header: Header
    texts: frozenset[str] = frozenset()
    exact: Rows | None = None


def identifier(name: str) -> str:
    """A column name, quoted."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text, quoted."""
    return "'" + text.replace("'", "''") + "'"


def file_rows(
    parts: Sequence[Part],
    header: Header,
    columns: Iterable[str],
    *,
    longest: int = LINE_BYTES,
    texts: frozenset[str] = frozenset(),
) -> Rows:
    """The rows of files of one kind, with only these columns declared where the kind allows it.

    `longest` is how many bytes a line may have; the reader's buffers grow with it. `texts` are read as plain text.
    """
    files = "[" + ", ".join(literal(no_glob(part.path)) for part in parts) + "]"
    kind, zipped = parts[0].kind, parts[0].zipped
    packed = "gzip" if zipped else "none"
    if kind is FileKind.PARQUET:
        return Rows(f"read_parquet({files}, union_by_name = true)", header)
    if kind.is_json:
        layout = "newline_delimited" if kind is FileKind.JSONL else "array"
        columns = dict.fromkeys(columns)
        declared = ", ".join(f"{literal(name)}: '{'VARCHAR' if name in texts else 'JSON'}'" for name in columns)
        exact = file_rows(parts, header, columns, longest=longest) if texts else None
        sql = (
            f"read_json({files}, format = '{layout}', records = true, columns = {{{declared}}}, "
            f"compression = '{packed}', maximum_object_size = {8 * longest})"
        )
        return Rows(sql, header, texts, exact)
    declared = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header.top_names)
    sql = (
        f"read_csv({files}, auto_detect = false, header = true, delim = {literal(delimiter(kind))}, quote = '\"', "
        f"escape = '\"', columns = {{{declared}}}, compression = '{packed}', max_line_size = {longest})"
    )
    return Rows(sql, header)


def plain_texts(layout: Layout) -> frozenset[str]:
    """The columns of a JSON file of which nothing but labels are read: these may be read as plain text."""
    if layout.header.cells != "json" or layout.where is not None:
        return frozenset()
    labels = [field for field in layout.labels if field.raw.inner is None]
    return frozenset(field.raw.top for field in labels) - {
        field.raw.top for field in layout.fields if field not in labels
    }


def no_glob(path: Path) -> str:
    """A path in which no character is a wildcard."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in str(path))


def staged(rows: Rows, layout: Layout) -> str:
    """A SELECT of one column per field of the layout, named like the field, of the rows that `where` keeps."""
    columns = [f"{field_sql(field, layout, rows)} AS {identifier(field.name)}" for field in layout.fields]
    return f"SELECT {', '.join(columns)} FROM {filtered(rows, layout)}"


def filtered(rows: Rows, layout: Layout, extra: str | None = None) -> str:
    """The rows with the `where` expression applied; `extra` is a further column to carry along."""
    if layout.where is None:
        return rows.sql
    source = rows.sql if rows.header.cells == "typed" else _typed_for_where(rows, layout, extra)
    return f"(SELECT * FROM {source} WHERE ({layout.where}\n))"


def _typed_for_where(rows: Rows, layout: Layout, extra: str | None) -> str:
    """The rows of a text file with every column twice: typed under its own name, untouched under a prefixed one.

    A column that the first rows do not have is only carried along untouched, for the fields that are read from it.
    """
    columns = [identifier(extra)] if extra else []
    unseen = {field.raw.top for field in layout.fields}.difference(rows.header.top_names)
    columns += [f"{identifier(name)} AS {identifier(RAW + name)}" for name in sorted(unseen) if not extra]
    for name in rows.header.top_names:
        column, quoted = rows.header.columns[name], identifier(name)
        columns.append(f"{quoted} AS {identifier(RAW + name)}")
        columns.append(f"{_typed(column, quoted, rows.header.cells == 'json')} AS {quoted}")
    return f"(SELECT {', '.join(columns)} FROM {rows.sql})"


def _typed(column: RawColumn, quoted: str, is_json: bool) -> str:
    plain = f"{quoted} ->> '$'" if is_json else quoted
    if column.holds == "nested":
        return quoted
    sql_type = {"number": "DOUBLE", "flag": "BOOLEAN"}.get(column.holds)
    return f"CAST(({plain}) AS {sql_type})" if sql_type else f"({plain})"


def field_sql(field: Field, layout: Layout, rows: Rows) -> str:
    """How one field is read: a text to be looked at in Python, a number, or a hash."""
    raw, cells = _reference(field.raw, layout), _cells(field.raw, rows)
    if field.kind is FieldKind.NUMBER:
        return _number(raw, cells, field)
    if field.kind is FieldKind.TIME:
        return _time(raw, cells, field.raw)
    if field.hashed:
        return _id_hash(raw, cells, field.raw)
    if cells == "typed":
        return f"CAST(to_json({raw}) AS VARCHAR)"
    return f"CAST({raw} AS VARCHAR)"


def _id_hash(raw: str, cells: str, column: RawColumn) -> str:
    """The hash of a text as `read_label` reads it: without blanks around it, and a whole number without its `.0`.

    Most texts begin and end with a letter, which is seen at once; taking blanks away costs fifty times as much.
    """
    text = f"({raw} ->> '$')" if cells == "json" else f"CAST({raw} AS VARCHAR)"
    if cells == "typed" and (column.sql_type or "").startswith(("FLOAT", "DOUBLE", "DECIMAL")):
        number = f"CAST({raw} AS DOUBLE)"
        text = f"CASE WHEN NOT isnan({number}) THEN CAST({number} AS VARCHAR) END"
    last, trimmed = f"{text}[-1]", f"trim({text}, {literal(BLANKS)})"
    return (
        f"CASE WHEN {text} >= '!' AND {text} < '\x7f' AND {last} BETWEEN '!' AND '~' AND "
        f"NOT ends_with({text}, '.0') THEN hash({text}) "
        f"WHEN NOT ({_may_start_blank(text)} OR {_may_start_blank(last)} OR ends_with({text}, '.0')) THEN hash({text}) "
        f"WHEN coalesce({trimmed}, '') = '' THEN 0 "
        f"WHEN regexp_full_match({trimmed}, {literal(WHOLE.pattern)}) THEN hash({trimmed}[:-3]) "
        f"ELSE hash({trimmed}) END"
    )


def _may_start_blank(text: str) -> str:
    """Whether a text begins with a character of a range that has blanks in it."""
    ranges = (("\x7f", "\u00a1"), ("\u1680", "\u1681"), ("\u2000", "\u2060"), ("\u3000", "\u3001"))
    within = [f"({text} >= {literal(low)} AND {text} < {literal(high)})" for low, high in ranges]
    return "(" + " OR ".join([f"{text} < '!'", *within]) + ")"


def holds_json_labels(field: Field, rows: Rows) -> bool:
    """True when the texts of a label field are JSON values, not plain text."""
    return _cells(field.raw, rows) != "text"


def _reference(raw: RawColumn, layout: Layout) -> str:
    prefix = RAW if layout.where is not None and layout.header.cells != "typed" else ""
    column = identifier(prefix + raw.top)
    if raw.inner is None:
        return column
    key = f"[{raw.inner}]" if isinstance(raw.inner, int) else '."' + raw.inner.replace('"', '\\"') + '"'
    path = literal("$" + key)
    return f"({column} -> {path})" if layout.header.cells == "json" else f"(to_json({column}) -> {path})"


def _cells(raw: RawColumn, rows: Rows) -> str:
    """How the values of a column are written: `json`, `text` or `typed`."""
    if raw.top in rows.texts:
        return "text"
    if rows.header.cells != "typed":
        return rows.header.cells
    if raw.inner is not None or raw.sql_type == "JSON":
        return "json"
    kind = (raw.sql_type or "").upper()
    return "text" if kind == "VARCHAR" or kind.startswith("ENUM") else "typed"


def _number(raw: str, cells: str, field: Field) -> str:
    if cells == "typed" and field.raw.holds != "number":
        return f"CASE WHEN {raw} IS NULL THEN CAST('nan' AS DOUBLE) ELSE CAST('inf' AS DOUBLE) END"
    value = f"TRY_CAST(CAST({raw} AS VARCHAR) AS DOUBLE)" if cells != "typed" else f"CAST({raw} AS DOUBLE)"
    strict = f" OR isnan({value})" if field.name in STRICT_NUMBERS else ""
    missing = _is_missing(raw, cells)
    return (
        f"CASE WHEN {missing} THEN CAST('nan' AS DOUBLE) "
        f"WHEN {value} IS NULL{strict} OR isinf({value}) THEN CAST('inf' AS DOUBLE) ELSE {value} END"
    )


def _time(raw: str, cells: str, column: RawColumn) -> str:
    if cells == "typed":
        numeric = column.holds == "number"
        value = f"CAST({raw} AS DOUBLE)" if numeric else f"epoch(CAST({raw} AS TIMESTAMPTZ))"
        if column.holds in ("flag", "nested"):
            value = "CAST('inf' AS DOUBLE)"
        return f"CASE WHEN {raw} IS NULL THEN CAST('nan' AS DOUBLE) ELSE {value} END"
    text = f"({raw} ->> '$')" if cells == "json" else raw
    number = f"TRY_CAST(CAST({raw} AS VARCHAR) AS DOUBLE)"
    return (
        f"CASE WHEN {_is_missing(raw, cells)} THEN CAST('nan' AS DOUBLE) "
        f"ELSE coalesce({number}, epoch(TRY_CAST({text} AS TIMESTAMPTZ)), CAST('inf' AS DOUBLE)) END"
    )


def _is_missing(raw: str, cells: str) -> str:
    return f"({raw} IS NULL OR {raw} = '')" if cells == "text" else f"{raw} IS NULL"


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
    return OptionError(OptionValue("where", layout.where), f" cannot be used: {first}. The columns are {names}.")


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
    return [field for field in layout.labels if not field.hashed]


@dataclass(frozen=True, slots=True)
class Coder:
    """How the texts of a field travel: as hashes, or as parts of them where these tell all texts apart.

    A part is what is left of a text's hash, shifted, when it is divided: it takes one byte or two.
    """

    values: tuple[object, ...]
    hashes: NDArray[np.uint64]
    part: tuple[int, int] | None

    def sql(self, field: str) -> str:
        """The part or hash of a field's text; a missing text has the part after the last, or the hash 0."""
        column = identifier(field)
        if self.part is None:
            return f"CASE WHEN {column} IS NULL THEN 0 ELSE hash({column}) END"
        shift, divisor = self.part
        width = "UTINYINT" if divisor < 256 else "USMALLINT"
        left = f"CAST((hash({column}) >> {shift}) % {divisor}::UBIGINT AS {width})"
        return f"CASE WHEN {column} IS NULL THEN {divisor}::{width} ELSE {left} END"

    def column(self, fetched: NDArray[Any]) -> LabelColumn:
        """The fetched parts or hashes with the values they stand for."""
        if self.part is None:
            codes, distinct = dense_codes(fetched)
            return LabelColumn(codes, [self.values[at] for at in np.searchsorted(self.hashes, distinct)])
        code = np.full(self.part[1] + 1, len(self.values), dtype=np.uint16)
        code[_left(self.hashes, *self.part)] = np.arange(len(self.values))
        return LabelColumn(code[fetched], self.values)


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
    for field in _coded(layout):
        if field.name not in coders:
            names = shared if field.name == "model_a" else (field.name,)
            texts, hashes = _distinct_texts(connection, [identifier(name) for name in names])
            values: tuple[object, ...] = tuple(map(_json_value, texts)) if written[field.name] else tuple(texts)
            coders |= dict.fromkeys(names, Coder(values, hashes, _telling_part(hashes)))
    return coders


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
            counts = connection.execute(f"SELECT num_rows FROM parquet_file_metadata([{files}])").fetchall()
        rows += sum(number for (number,) in counts)
    return rows
