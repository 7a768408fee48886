"""Rows that Spark reads: files of one kind wherever Spark finds them, or a DataFrame; their header and their fields.

The expressions that read a field mirror those of `query` for DuckDB: labels leave as text to be looked at in Python,
and a number is NaN where it is missing and infinite where it is not a number. Lines of JSON travel as Spark's VARIANT,
which keeps the difference between `5` and `"5"`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from tiltyard.battles.headers import SAMPLE_ROWS, CellType, Header, RawColumn, delimiter, header_of_rows, is_number
from tiltyard.battles.inputs import KNOWN_SUFFIXES, FileKind, suffix_kind
from tiltyard.battles.layout import BLANKS, STRICT_NUMBERS, Field, FieldKind, Layout
from tiltyard.battles.settle import Reason
from tiltyard.errors import BattleError, OptionError

ROW = "v"
"""The column that holds a line of JSON as a VARIANT."""


FAULT = "fault"
"""The column that says why a line cannot be read at all (0: it can)."""


NAN, INFINITY = "double('NaN')", "double('Infinity')"


LISTED = 10_000
"""How many files are looked at to tell what kind they are."""


BROKEN = "broken cells"


@dataclass(frozen=True, slots=True, eq=False)
class SparkRows:
    """Rows at Spark: `frame` has the source's columns (or its lines, as VARIANT) and why a line cannot be read."""

    session: Any
    frame: Any
    header: Header
    name: str


def find_rows(session: Any, data: Any) -> SparkRows:
    """The rows of a DataFrame, or of the files that some paths name."""
    if not isinstance(data, list):
        return SparkRows(session, data.selectExpr("*", f"0 AS {FAULT}"), typed_columns(data.schema), "the frame")
    if "-" in data:
        raise OptionError("the spark engine cannot read standard input. Name files, or use the duckdb engine.")
    shown = data[0] if len(data) == 1 else f"{data[0]} and {len(data) - 1} more"
    kind = _kind(session, data, shown)
    try:
        if kind is FileKind.PARQUET:
            frame = session.read.option("mergeSchema", "true").parquet(*data)
            return SparkRows(session, frame.selectExpr("*", f"0 AS {FAULT}"), typed_columns(frame.schema), shown)
        return _json_rows(session, data, shown) if kind.is_json else _csv_rows(session, data, kind, shown)
    except (BattleError, OptionError):
        raise
    except Exception as error:
        raise BattleError(f"Spark cannot read {shown}: {first_line(error)}.") from None


def first_line(error: Exception) -> str:
    """What Spark says, without its stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return (text if len(text) <= 300 else text[:297] + "...").rstrip(".")


def _kind(session: Any, paths: list[str], shown: str) -> FileKind:
    """The one kind of all files, by their names; Spark lists them, so that any file system will do."""
    listing = session.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = [row[0] for row in listing.load(paths).select("path").limit(LISTED).collect()]
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            raise BattleError(
                f"Spark finds no file at {shown}. Check the path; a folder or a glob would do too."
            ) from None
        raise BattleError(f"Spark cannot list {shown}: {first_line(error)}.") from None
    kinds = {kind for path in found if (kind := suffix_kind(path)[0]) is not None}
    if len(kinds) != 1:
        seen = " and ".join(sorted(kind.value for kind in kinds)) or "no file"
        raise BattleError(f"{shown} holds {seen}: Spark reads files of one kind, ending in {KNOWN_SUFFIXES}.")
    return kinds.pop()


def _json_rows(session: Any, paths: list[str], shown: str) -> SparkRows:
    lines = session.read.text(paths).where(r"length(btrim(value, ' \t\r\n')) > 0")
    lines = lines.selectExpr("trim(LEADING '\ufeff' FROM value) AS value")
    sample = [row[0] for row in lines.limit(SAMPLE_ROWS).collect()]
    if sample and sample[0].lstrip().startswith("["):
        raise BattleError(
            f"{shown} is a JSON array, which cannot be read in parts. Convert it: tiltyard battles convert."
        )
    rows = [row for line in sample if isinstance(row := _decoded(line), dict)]
    if not rows:
        raise BattleError(f"{shown}: none of the lines seen is a JSON object. One battle per line is expected.")
    fault = (
        f"CASE WHEN NOT is_valid_utf8(value) THEN {int(Reason.NOT_UTF8)} "
        f"WHEN {ROW} IS NULL OR NOT startswith(ltrim(value), '{{') THEN {int(Reason.BROKEN_LINE)} ELSE 0 END AS {FAULT}"
    )
    frame = lines.selectExpr("value", f"try_parse_json(value) AS {ROW}").selectExpr(ROW, fault)
    return SparkRows(session, frame, header_of_rows(rows, "json"), shown)


def _decoded(line: str) -> object:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _csv_rows(session: Any, paths: list[str], kind: FileKind, shown: str) -> SparkRows:
    options = {"header": "true", "sep": delimiter(kind), "quote": '"', "escape": '"', "enforceSchema": "false"}
    names = session.read.options(**options).csv(paths).columns
    schema = ", ".join(f"{quoted(column)} string" for column in (*names, BROKEN))
    frame = session.read.options(**options, columnNameOfCorruptRecord=BROKEN).schema(schema).csv(paths)
    sample = [row.asDict() for row in islice(frame.limit(SAMPLE_ROWS).toLocalIterator(), SAMPLE_ROWS)]
    columns = {column: RawColumn(column, _text_holds(sample, column), top=column) for column in names}
    fault = f"CASE WHEN {quoted(BROKEN)} IS NOT NULL THEN {int(Reason.WRONG_LENGTH)} ELSE 0 END AS {FAULT}"
    return SparkRows(session, frame.selectExpr(*map(quoted, names), fault), Header(columns, "text"), shown)


def _text_holds(sample: list[dict[str, Any]], column: str) -> Any:
    given = [row[column] for row in sample if (row[column] or "").strip()]
    return "number" if given and all(is_number(value) for value in given) else "text"


def quoted(text: str) -> str:
    """A column name, quoted."""
    return "`" + text.replace("`", "``") + "`"


def typed_columns(schema: Any) -> Header:
    """The header of a source with declared types; what is inside a struct, and the first of a list, by its path."""
    columns: dict[str, RawColumn] = {}
    inside: list[RawColumn] = []
    for field in schema.fields:
        kind = field.dataType.simpleString()
        columns[field.name] = RawColumn(field.name, _holds(kind), kind, field.name)
        for part in getattr(field.dataType, "fields", ()):
            inner = part.dataType.simpleString()
            inside.append(RawColumn(f"{field.name}.{part.name}", _holds(inner), inner, field.name, part.name))
        element = getattr(field.dataType, "elementType", None)
        if element is not None and _holds(element.simpleString()) != "nested":
            first = element.simpleString()
            inside.append(RawColumn(f"{field.name}.0", _holds(first), first, field.name, 0))
    for column in inside:
        columns.setdefault(column.name, column)
    return Header(columns, "typed")


def _holds(kind: str) -> CellType:
    word = kind.split("(")[0].split("<")[0]
    if word in ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"):
        return "number"
    if word in ("struct", "array", "map", "binary", "variant"):
        return "nested"
    return "flag" if word == "boolean" else "text"


def where_columns(header: Header) -> Iterable[str]:
    """Every column of a text source, typed as a `where` expression expects it, beside what the fields are read from."""
    kept = ROW if header.cells == "json" else None
    for column in header.top_names:
        raw = header.columns[column]
        as_type = {"number": "double", "flag": "boolean"}.get(raw.holds)
        if kept:
            value = f"variant_get({ROW}, {_path(raw)}, '{as_type}')" if as_type else _plain_text(raw)
        else:
            value = f"cast(nullif(trim({quoted(column)}), '') AS {as_type})" if as_type else quoted(column)
            yield f"{quoted(column)} AS {quoted(_untouched(column))}"
        yield f"{value} AS {quoted(column)}"
    yield FAULT
    if kept:
        yield kept


def _untouched(column: str) -> str:
    return f"raw of {column}"


def field_value(field: Field, layout: Layout) -> str:
    """The expression that reads one field from the rows."""
    cells = layout.header.cells
    raw = f"to_json(variant_get({ROW}, {_path(field.raw)}))" if cells == "json" else _reference(field.raw, layout)
    if field.kind is FieldKind.NUMBER:
        return _number(raw, cells, field)
    if field.hashed:
        text = _plain_text(field.raw) if cells == "json" else f"cast({raw} AS string)"
        text = f"btrim({text}, {_literal(BLANKS)})"
        return f"nullif(regexp_replace({text}, '^(-?[0-9]+)[.]0$', '$1'), '')"
    if holds_json(field, layout) and cells == "typed":
        return f"to_json(named_struct('v', {raw}))"
    return raw


def holds_json(field: Field, layout: Layout) -> bool:
    """True when a label field leaves Spark as JSON: of a typed source, as the value `v` of an object."""
    return layout.header.cells == "json" or (layout.header.cells == "typed" and field.raw.sql_type != "string")


def _path(raw: RawColumn) -> str:
    inner = "" if raw.inner is None else f"[{raw.inner}]" if isinstance(raw.inner, int) else f"[{_key(raw.inner)}]"
    return _literal(f"$[{_key(raw.top)}]{inner}")


def _key(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _reference(raw: RawColumn, layout: Layout) -> str:
    if layout.header.cells == "text":
        return quoted(raw.top if layout.where is None else _untouched(raw.top))
    if raw.inner is None:
        return quoted(raw.top)
    return (
        f"get({quoted(raw.top)}, {raw.inner})"
        if isinstance(raw.inner, int)
        else f"{quoted(raw.top)}.{quoted(raw.inner)}"
    )


def _plain_text(raw: RawColumn) -> str:
    """The text of a JSON value: of a string its letters, of anything else its JSON."""
    path = _path(raw)
    return f"coalesce(try_variant_get({ROW}, {path}, 'string'), nullif(to_json(variant_get({ROW}, {path})), 'null'))"


def _number(raw: str, cells: str, field: Field) -> str:
    if cells == "typed":
        if field.raw.holds != "number":
            return f"CASE WHEN {raw} IS NULL THEN {NAN} ELSE {INFINITY} END"
        missing, value, odd = f"{raw} IS NULL", f"cast({raw} AS double)", ""
    else:
        missing = f"{raw} IS NULL OR {raw} = " + ("'null'" if cells == "json" else "''")
        value, odd = (
            f"try_cast({raw} AS double)",
            f" OR {raw} RLIKE '[0-9.][dDfF] *$'",
        )  # Java's 1d is not a number here
    strict = f" OR isnan({value})" if field.name in STRICT_NUMBERS else ""
    return (
        f"CASE WHEN {missing} THEN {NAN} WHEN {value} IS NULL{odd}{strict} OR abs({value}) = {INFINITY} "
        f"THEN {INFINITY} ELSE {value} END"
    )
