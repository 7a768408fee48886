"""The SQL of the fast reader: where rows come from, and how each field is read from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiltyard.battles.headers import Header, RawColumn, delimiter
from tiltyard.battles.inputs import FileKind, Part
from tiltyard.battles.layout import BLANKS, STRICT_NUMBERS, WHOLE, Field, FieldKind, Layout

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
