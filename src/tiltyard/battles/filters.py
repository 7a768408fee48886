"""What a `where` expression may be: one condition over a source's own columns, and nothing else.

The text goes into a statement of ours, so it is taken apart first by the parser that will read it: no second
statement, no subquery, no function that has an effect or tells about the machine. What is not known is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

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
    """A parsed tree without the places in the text."""
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
    """Why one part of a condition is refused, or None when it is not."""
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
