"""How Spark reads each field of a battle: the expressions, and the header they need.

They say what the expressions of `query` say to DuckDB: labels leave as text to be looked at in Python, and a number is
NaN where it is missing and infinite where it is none. Lines of JSON travel as Spark's VARIANT, which keeps the
difference between `5` and `"5"`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiltyard.battles.headers import CellType, Header, RawColumn
from tiltyard.battles.plan import STRICT_NUMBERS, Field, FieldKind, Plan

if TYPE_CHECKING:
    from collections.abc import Iterable

ROW = "v"
"""The column that holds a line of JSON as a VARIANT."""
FAULT = "fault"
"""The column that says why a line cannot be read at all (0: it can)."""
NAN, INFINITY = "double('NaN')", "double('Infinity')"


def name(text: str) -> str:
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
            value = f"cast(nullif(trim({name(column)}), '') AS {as_type})" if as_type else name(column)
            yield f"{name(column)} AS {name(_untouched(column))}"
        yield f"{value} AS {name(column)}"
    yield FAULT
    if kept:
        yield kept


def _untouched(column: str) -> str:
    return f"raw of {column}"


def field_value(field: Field, plan: Plan) -> str:
    """The expression that reads one field from the rows."""
    cells = plan.header.cells
    raw = f"to_json(variant_get({ROW}, {_path(field.raw)}))" if cells == "json" else _reference(field.raw, plan)
    if field.kind is FieldKind.NUMBER:
        return _number(raw, cells, field)
    if field.hashed:
        return f"nullif({_plain_text(field.raw) if cells == 'json' else f'cast({raw} AS string)'}, '')"
    if holds_json(field, plan) and cells == "typed":
        return f"to_json(named_struct('v', {raw}))"
    return raw


def holds_json(field: Field, plan: Plan) -> bool:
    """True when a label field leaves Spark as JSON: of a typed source, as the value `v` of an object."""
    return plan.header.cells == "json" or (plan.header.cells == "typed" and field.raw.sql_type != "string")


def _path(raw: RawColumn) -> str:
    inner = "" if raw.inner is None else f"[{raw.inner}]" if isinstance(raw.inner, int) else f"[{_key(raw.inner)}]"
    return _literal(f"$[{_key(raw.top)}]{inner}")


def _key(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _reference(raw: RawColumn, plan: Plan) -> str:
    if plan.header.cells == "text":
        return name(raw.top if plan.where is None else _untouched(raw.top))
    if raw.inner is None:
        return name(raw.top)
    return f"get({name(raw.top)}, {raw.inner})" if isinstance(raw.inner, int) else f"{name(raw.top)}.{name(raw.inner)}"


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
        value, odd = f"try_cast({raw} AS double)", f" OR {raw} RLIKE '[0-9.][dDfF] *$'"  # Java's 1d is no number here
    strict = f" OR isnan({value})" if field.name in STRICT_NUMBERS else ""
    return (
        f"CASE WHEN {missing} THEN {NAN} WHEN {value} IS NULL{odd}{strict} OR abs({value}) = {INFINITY} "
        f"THEN {INFINITY} ELSE {value} END"
    )
