"""The fast reader: one pass of DuckDB over a source, and no Python object per row.

Text columns become enumerations: a row carries the small number of its text. Text files are first staged in one pass as
columns (grouped, where equal rows may be merged); Parquet files and frames are columns already.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.data.battles.inputs import BattleFile, FileKind, Header, RawColumn, delimiter
from tiltyard.data.battles.layout import BLANKS, STRICT_NUMBERS, WHOLE, Field, FieldKind, Layout
from tiltyard.data.battles.settle import LabelColumn, RawBatch
from tiltyard.data.battles.table import Codes
from tiltyard.errors import OptionError, OptionValue

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PARTS = {
    *("COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION", "FUNCTION", "OPERATOR", "CAST", "CASE", "BETWEEN"),
    *("COLLATE", "LAMBDA", "LAMBDA_REF", "TYPE"),
}
"""The classes of DuckDB's expressions that a condition may be made of."""

TIMES = {
    *("now", "today", "current_date", "current_time", "current_timestamp", "current_localtime"),
    *("current_localtimestamp", "get_current_time", "get_current_timestamp", "transaction_timestamp"),
}
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

    A word such as `user` that is none of the source's own `columns` is a function of DuckDB.
    """
    if "\0" in where:
        return "it has a zero byte"
    query = "SELECT CAST(json_serialize_sql(?) AS VARCHAR)"
    condition, rest = None, []
    for text in ("true", where, f"({where}\n)"):  # a plain one, by itself, and as it will be in a statement
        (answer,) = connection.execute(query, [f"SELECT 1 FROM t WHERE {text}\n"]).fetchone() or ("",)
        parsed = msgspec.json.decode(answer)
        if parsed["error"]:
            return str(parsed["error_message"]).strip().splitlines()[0]
        condition = parsed["statements"][0]["node"].pop("where_clause", None)
        rest.append(_without_places(parsed))
        if condition is None or rest[-1] != rest[0]:
            return "it is more than one condition"
    engine_words = ENGINE_WORDS - {name.lower() for name in columns}
    reasons = (_about_part(part, connection, engine_words) for part in _parts(condition))
    return next(filter(None, reasons), None)


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


def _about_part(part: dict[str, Any], connection: DuckDBPyConnection, engine_words: frozenset[str]) -> str | None:
    kind = part.get("class", "SUBQUERY")
    if kind not in PARTS:
        return "it has a subquery" if kind == "SUBQUERY" else f"it may not use {str(kind).lower()}"
    names = part["column_names"] if kind == "COLUMN_REF" else []
    if len(names) == 1 and names[0].lower() in engine_words:
        return f"it may not use {names[0].lower()}"
    if kind != "FUNCTION":
        return None
    name = str(part["function_name"]).lower()
    known = connection.execute(
        "SELECT DISTINCT function_type, stability, macro_definition FROM duckdb_functions() WHERE function_name = ?",
        [name],
    ).fetchall()
    called = [(stability, macro) for kind, stability, macro in known if kind in ("scalar", "macro", "aggregate")]
    of_the_row = not ENGINE.fullmatch(name) and all(
        stability in ("CONSISTENT", None) and (macro is None or refusal(macro, connection) is None)
        for stability, macro in called
    )
    refused = known and name not in TIMES and not (called and of_the_row)
    return f"it may not use the function {name}" if refused else None


LINE_BYTES = 1 << 21
LONG_LINE_BYTES = 1 << 27
RAW = "raw of "
"""Prefix of a column's untouched value where its plain name is typed for a `where` expression."""


def identifier(name: str) -> str:
    """A column name, quoted."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text, quoted."""
    return "'" + text.replace("'", "''") + "'"


def file_rows(
    parts: Sequence[BattleFile],
    header: Header,
    columns: Iterable[str],
    *,
    plain: Collection[str] = (),
    longest: int = LINE_BYTES,
) -> str:
    """What comes after FROM for the rows of files of one kind, with only these columns where the kind allows it.

    Columns of JSON are JSON, except `plain` ones, which are text. `longest` is how many bytes a line may have; the
    reader's buffers grow with it.
    """
    files = "[" + ", ".join(literal(no_glob(part.path)) for part in parts) + "]"
    kind, packed = parts[0].kind, "gzip" if parts[0].zipped else "none"
    if kind is FileKind.PARQUET:
        return f"read_parquet({files}, union_by_name = true)"
    if kind.is_json:
        layout = "newline_delimited" if kind is FileKind.JSONL else "array"
        types = {name: "VARCHAR" if name in plain else "JSON" for name in columns}
        declared = ", ".join(f"{literal(name)}: '{sql_type}'" for name, sql_type in types.items())
        return (
            f"read_json({files}, format = '{layout}', records = true, columns = {{{declared}}}, "
            f"compression = '{packed}', maximum_object_size = {8 * longest})"
        )
    declared = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header.places)
    return (
        f"read_csv({files}, auto_detect = false, header = true, delim = {literal(delimiter(kind))}, quote = '\"', "
        f"escape = '\"', columns = {{{declared}}}, compression = '{packed}', max_line_size = {longest})"
    )


def no_glob(path: Path) -> str:
    """A path in which no character is a wildcard."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in str(path))


def filtered(rows: str, layout: Layout, extra: str | None = None) -> str:
    """The rows with the `where` expression applied; `extra` is a further column to carry along.

    The rows of a text file then have every column twice: typed under its own name, untouched under a prefixed one. A
    column that the first rows do not have is only carried along untouched, for the fields that are read from it.
    """
    if layout.where is None:
        return rows
    header = layout.header
    if header.cells != "typed":
        columns = [identifier(extra)] if extra else []
        unseen = {field.raw.top for field in layout.fields}.difference(header.top_names)
        columns += [f"{identifier(name)} AS {identifier(RAW + name)}" for name in sorted(unseen) if not extra]
        for name in header.top_names:
            column, quoted = header.columns[name], identifier(name)
            is_json = header.cells == "json" and name not in layout.plain
            plain = f"{quoted} ->> '$'" if is_json and column.holds != "nested" else quoted
            sql_type = {"number": "DOUBLE", "flag": "BOOLEAN"}.get(column.holds)
            typed = f"CAST(({plain}) AS {sql_type})" if sql_type else f"({plain})"
            columns += [f"{quoted} AS {identifier(RAW + name)}", f"{typed} AS {quoted}"]
        rows = f"(SELECT {', '.join(columns)} FROM {rows})"
    return f"(SELECT * FROM {rows} WHERE ({layout.where}\n))"


def _field_sql(field: Field, layout: Layout) -> str:
    """How one field is read: a text to be looked at in Python, a number, or a hash."""
    raw, cells = cell_sql(field.raw, layout), cells_of(field.raw, layout)
    if field.kind is FieldKind.NUMBER:
        return _number(raw, cells, field)
    if field.kind is FieldKind.TIME:
        return _time(raw, cells, field.raw)
    if field.hashed:
        return _id_hash(raw, cells, field.raw)
    return f"CAST(to_json({raw}) AS VARCHAR)" if cells == "typed" else f"CAST({raw} AS VARCHAR)"


def _id_hash(raw: str, cells: str, column: RawColumn) -> str:
    """The hash of a text as `read_label` reads it: without blanks around it, and a whole number without its `.0`.

    Most texts begin and end with a letter, which is seen at once; taking blanks away costs fifty times as much. It is
    written once: what a query has twice, DuckDB computes for every row. Without a text the hash is 0.
    """
    text = f"({raw} ->> '$')" if cells == "json" else f"CAST({raw} AS VARCHAR)"
    if cells == "typed" and (column.sql_type or "").startswith(("FLOAT", "DOUBLE", "DECIMAL")):
        number = f"CAST({raw} AS DOUBLE)"
        text = f"CASE WHEN NOT isnan({number}) THEN CAST({number} AS VARCHAR) END"
    read = f"regexp_replace(trim({text}, {literal(BLANKS)}), {literal(f'^({WHOLE.pattern[:-4]})[.]0$')}, '\\1')"
    odd = f"{text} < '!' OR {text} >= '\x7f' OR {text}[-1] NOT BETWEEN '!' AND '~' OR ends_with({text}, '.0')"
    return (
        f"CASE WHEN {odd} THEN coalesce(nullif(hash(nullif({read}, '')), hash(NULL)), 0) "
        f"WHEN {text} IS NULL THEN 0 ELSE hash({text}) END"
    )


def cell_sql(raw: RawColumn, layout: Layout) -> str:
    """A column of the filtered rows, or what is within it, as SQL."""
    prefix = RAW if layout.where is not None and layout.header.cells != "typed" else ""
    column = identifier(prefix + raw.top)
    if raw.inner is None:
        return column
    key = f"[{raw.inner}]" if isinstance(raw.inner, int) else '."' + raw.inner.replace('"', '\\"') + '"'
    path = literal("$" + key)
    return f"({column} -> {path})" if layout.header.cells == "json" else f"(to_json({column}) -> {path})"


def cells_of(raw: RawColumn, layout: Layout) -> str:
    """How the values of a column are written: `json`, `text` or `typed`."""
    if layout.header.cells != "typed":
        return "text" if raw.top in layout.plain else layout.header.cells
    if raw.inner is not None or raw.sql_type == "JSON":
        return "json"
    kind = (raw.sql_type or "").upper()
    return "text" if kind == "VARCHAR" or kind.startswith("ENUM") else "typed"


def text_sql(column: RawColumn, layout: Layout) -> str:
    """The values of a column as text."""
    cell, cells = cell_sql(column, layout), cells_of(column, layout)
    return f"({cell} ->> '$')" if cells == "json" else f"CAST({cell} AS VARCHAR)"


NAN, INFINITY = "CAST('nan' AS DOUBLE)", "CAST('inf' AS DOUBLE)"
"""What stands for a missing number, and for a value that is none."""


def _number(raw: str, cells: str, field: Field) -> str:
    if cells == "typed" and field.raw.holds != "number":
        return f"CASE WHEN {raw} IS NULL THEN {NAN} ELSE {INFINITY} END"
    value = f"TRY_CAST(CAST({raw} AS VARCHAR) AS DOUBLE)" if cells != "typed" else f"CAST({raw} AS DOUBLE)"
    strict = f" OR isnan({value})" if field.name in STRICT_NUMBERS else ""
    odd = f"{value} IS NULL{strict} OR isinf({value})"
    return f"CASE WHEN {_is_missing(raw, cells)} THEN {NAN} WHEN {odd} THEN {INFINITY} ELSE {value} END"


def _time(raw: str, cells: str, column: RawColumn) -> str:
    if cells == "typed":
        numeric = column.holds == "number"
        value = f"CAST({raw} AS DOUBLE)" if numeric else f"epoch(CAST({raw} AS TIMESTAMPTZ))"
        if column.holds in ("flag", "nested"):
            value = INFINITY
        return f"CASE WHEN {raw} IS NULL THEN {NAN} ELSE {value} END"
    text = f"({raw} ->> '$')" if cells == "json" else raw
    number = f"TRY_CAST(CAST({raw} AS VARCHAR) AS DOUBLE)"
    seconds = f"coalesce({number}, epoch(TRY_CAST({text} AS TIMESTAMPTZ)), {INFINITY})"
    return f"CASE WHEN {_is_missing(raw, cells)} THEN {NAN} ELSE {seconds} END"


def _is_missing(raw: str, cells: str) -> str:
    return f"({raw} IS NULL OR {raw} = '')" if cells == "text" else f"{raw} IS NULL"


LITTLE_MEMORY, MUCH_MEMORY = "384MB", "80%"
"""What DuckDB may hold before it spills to a temporary folder; and for what cannot be done with little."""
TEXT_ROW_BYTES, ZIPPED_ROW_BYTES = 200, 25
"""About what a row takes in a text file, and in one that is zipped."""
COUNT = "number of equal rows"


class _Engine:
    """An in-memory DuckDB that spills to a temporary folder and never asks the network for anything."""

    def __init__(self, memory: str) -> None:
        import duckdb

        self.spill = Path(tempfile.gettempdir()) / f"tiltyard-{secrets.token_hex(8)}"
        self.connection = duckdb.connect(
            config={
                "threads": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
                "memory_limit": memory,
                "temp_directory": str(self.spill),
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            }
        )


_idle: list[_Engine] = []
"""Engines for the next session: starting one takes thirty milliseconds."""


def give_back_memory() -> None:
    """Close the engines that no session uses: after a large source they hold on to a hundred megabytes."""
    while _idle:
        _idle.pop().connection.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=give_back_memory)  # the new process would have them without their threads


@contextmanager
def session(*, large_limits: bool = False) -> Iterator[DuckDBPyConnection]:
    """A connection to DuckDB with temporary tables of its own; after a failure its engine is not used again."""
    engine = _idle.pop() if _idle and not large_limits else _Engine(MUCH_MEMORY if large_limits else LITTLE_MEMORY)
    engine.spill.mkdir(mode=0o700, parents=True)
    connection = engine.connection.cursor()
    reusable = False
    try:
        connection.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = true")
        yield connection
        reusable = not large_limits
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # how DuckDB passes on Ctrl-C
            raise KeyboardInterrupt from None
        raise
    finally:
        connection.close()
        shutil.rmtree(engine.spill, ignore_errors=True)
        if reusable:
            _idle.append(engine)
        else:
            engine.connection.close()


def needs_large_limits(error: Exception) -> bool:
    """True when DuckDB failed for want of memory, or at a line longer than it was told to expect."""
    import duckdb

    limits = ("maximum_object_size", "maximum line size", "max_line_size")
    return isinstance(error, duckdb.OutOfMemoryException) or any(limit in str(error).lower() for limit in limits)


def check_condition(layout: Layout) -> None:
    """Raise a clear error when `where` is anything but one condition, before it is part of any statement."""
    if layout.where is None:
        return
    with session() as connection:
        reason = refusal(layout.where, connection, layout.header)
    if reason is not None:
        raise where_error(layout, f"{reason}. Give one condition, such as category = 'law'")


def check_where(connection: DuckDBPyConnection, rows: str, layout: Layout) -> None:
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


def repeated_rows(connection: DuckDBPyConnection, rows: str, layout: Layout) -> int:
    """How many rows repeat another in every column that they have."""
    hashes = f"SELECT hash(row_of_source) AS h FROM {filtered(rows, layout)} AS row_of_source"
    (number,) = connection.execute(f"SELECT count(*) - count(DISTINCT h) FROM ({hashes})").fetchone() or (0,)
    return int(number)


def repeated_ids(connection: DuckDBPyConnection, rows: str, layout: Layout) -> int:
    """How many rows repeat the id of another; the id is the layout's only field. Sorting hashes beats counting them."""
    raw = layout.fields[0].raw
    ids = f"SELECT nullif({text_sql(raw, layout)}, '') AS id FROM {filtered(rows, layout)}"
    query = f"SELECT hash(id) AS h FROM ({ids}) WHERE id IS NOT NULL"
    hashes = np.sort(np.asarray(connection.execute(query).fetchnumpy()["h"]))
    return int((hashes[1:] == hashes[:-1]).sum())


def load(connection: DuckDBPyConnection, rows: str, layout: Layout) -> RawBatch:
    """Every row of a source as raw columns, in the order of the source (unless equal rows are merged)."""
    columns = [f"{_field_sql(field, layout)} AS {identifier(field.name)}" for field in layout.fields]
    select = f"SELECT {', '.join(columns)} FROM {filtered(rows, layout)}"
    connection.execute(f"SET preserve_insertion_order = {not layout.counted}")
    if layout.counted:
        select = f"SELECT *, CAST(count(*) AS DOUBLE) AS {identifier(COUNT)} FROM ({select}) GROUP BY ALL"
    is_table = layout.counted or layout.header.cells != "typed"
    connection.execute(f"CREATE TEMP {'TABLE' if is_table else 'VIEW'} stage AS {select}")
    values: dict[str, list[object]] = {}
    outputs = [identifier(COUNT)] if layout.counted else []
    for field in sorted(layout.fields, key=lambda field: not field.hashed):  # numbering hashes takes memory: first
        column = identifier(field.name)
        if field.kind.is_label and not field.hashed:
            texts, column = enumerated(connection, "stage", field.name)
            is_json = cells_of(field.raw, layout) != "text"
            values[field.name] = [json_value(text) for text in texts] if is_json else texts
        outputs.append(column)
    by_column = not layout.counted and (is_table or layout.where is None)  # then all have their rows in the same order
    fetched: dict[str, NDArray[Any]] = {}
    hashed: dict[str, Codes] = {}
    hashed_names = {field.name for field in layout.fields if field.hashed}
    for some in [[column] for column in outputs] if by_column else [outputs]:
        for name, array in connection.execute(f"SELECT {', '.join(some)} FROM stage").fetchnumpy().items():
            if name in hashed_names:
                hashed[name] = Codes.of_hashes(np.asarray(array))
            else:
                fetched[name] = np.asarray(array)
        del array  # not held while the next one is read
    return RawBatch(
        n_rows=len(fetched["model_a"]),
        labels={name: LabelColumn(fetched[name], texts) for name, texts in values.items()},
        numbers={field.name: fetched[field.name] for field in layout.numbers},
        hashed=hashed,
        count=fetched.get(COUNT),
    )


def enumerated(connection: DuckDBPyConnection, table: str, name: str) -> tuple[list[Any], str]:
    """The texts of a column, and as SQL their places there; a row without a text has the place after the last.

    TRY_CAST, which never fails, is computed once for each text in the dictionary of a Parquet file; CAST for every row.
    """
    column, kind = identifier(name), identifier(f"texts of {name}")
    distinct = f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL"
    connection.execute(f"CREATE TEMP TYPE {kind} AS ENUM ({distinct})")
    (texts,) = connection.execute(f"SELECT enum_range(CAST(NULL AS {kind}))").fetchone() or ([],)
    return texts, f"coalesce(enum_code(TRY_CAST({column} AS {kind})), {len(texts)}) AS {column}"


def json_value(text: str | None) -> object:
    """The value of a JSON text; DuckDB lets NaN and Infinity pass, which are numbers of a kind but not JSON."""
    try:
        return None if text is None else msgspec.json.decode(text)
    except msgspec.DecodeError:
        return float("nan")


def about_rows(parts: Sequence[BattleFile]) -> float:
    """About how many rows files have, without reading them: Parquet files say it, text files by their size."""
    typed = [literal(no_glob(part.path)) for part in parts if part.kind is FileKind.PARQUET]
    texts = [part for part in parts if part.kind is not FileKind.PARQUET]
    rows = sum(part.path.stat().st_size / (ZIPPED_ROW_BYTES if part.zipped else TEXT_ROW_BYTES) for part in texts)
    if typed:
        with session() as connection:
            counts = connection.execute(f"SELECT num_rows FROM parquet_file_metadata([{', '.join(typed)}])").fetchall()
        rows += sum(number for (number,) in counts)
    return rows
