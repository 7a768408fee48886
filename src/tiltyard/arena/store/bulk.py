"""Bulk statements that bypass SQLAlchemy: many rows each, straight to the driver.

On SQLite a chunk of rows is one statement with all their values; on PostgreSQL all rows are sent as one JSON text,
which is the cheapest way. There are few distinct statement texts, so drivers can cache them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache, lru_cache
from itertools import chain
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

Row = tuple[Any, ...]

READ_AT_ONCE = 10_000

PIECES = (64, 16, 4, 1)
"""Rows in one statement on SQLite. The driver lets other threads run after every statement, so fewer statements are
faster."""


JSON_BYTES = 4_000_000
"""A text of rows is split when it gets longer than this: PostgreSQL keeps several copies while parsing it."""


class one_of(sa.ColumnElement[bool]):  # noqa: N801 - named like an SQL function
    """Whether a column holds one of the values of a list. The list is bound as one value, by `fetch`."""

    inherit_cache = False

    def __init__(self, column: sa.ColumnElement[Any], name: str) -> None:
        self.column = column
        self.values: sa.BindParameter[Any] = sa.bindparam(name, type_=sa.types.NullType())


@compiles(one_of, "sqlite")
def _one_of_sqlite(element: one_of, compiler: Any, **kwargs: Any) -> str:
    column, values = (compiler.process(part, **kwargs) for part in (element.column, element.values))
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608


@compiles(one_of, "postgresql")
def _one_of_postgresql(element: one_of, compiler: Any, **kwargs: Any) -> str:
    column, values = (compiler.process(part, **kwargs) for part in (element.column, element.values))
    return f"{column} = ANY({values})"


def fetch(connection: sa.Connection, query: sa.Select[Any], values: Mapping[str, object] | None = None) -> list[Row]:
    """All rows of a query as the driver gives them: plain tuples of numbers, texts and bytes."""
    text, names, known = _compiled(query, _DIALECTS.setdefault(connection.dialect.name, connection.dialect))
    given = {**known, **values} if values else known
    with closing(connection.connection.cursor()) as cursor:
        cursor.execute(text, given if names is None else [_listed(given[name]) for name in names])
        return list(cursor.fetchall())


def insert_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Insert rows that have a value for every column of the table, in its order."""
    if rows:
        _insert_rows(connection, table, table.columns.keys(), rows)


def insert_numbered(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> list[int]:
    """Insert rows that have a value for every column but the first, which the database numbers; the numbers, growing.

    On SQLite the writer holds the only lock, so they are consecutive and the latest.
    """
    if not rows:
        return []
    names = table.columns.keys()[1:]
    with closing(connection.connection.cursor()) as cursor:
        if connection.dialect.name == "sqlite":
            _insert_rows(connection, table, names, rows)
            last = int(cursor.execute("SELECT last_insert_rowid()").fetchone()[0])
            return list(range(last - len(rows) + 1, last + 1))
        text = f'{_insert_json(table, tuple(names))} RETURNING "{table.columns.keys()[0]}"'
        return [n for piece in _json(rows) for n in sorted(row[0] for row in cursor.execute(text, (piece,)).fetchall())]


def update_rows(
    connection: sa.Connection, table: sa.Table, where: tuple[str, ...], put: tuple[str, ...], rows: Sequence[Row]
) -> int:
    """Update rows: each has first the values of the columns `where`, which identify it, then those to `put`.

    Returns how many.
    """
    if not rows:
        return 0
    with closing(connection.connection.cursor()) as cursor:
        if connection.dialect.name == "sqlite":
            return int(cursor.executemany(_update_numbered(table, where, put), rows).rowcount)
        return sum(cursor.execute(_update_json(table, where, put), (piece,)).rowcount for piece in _json(rows))


def ordered_rows(connection: sa.Connection, table: sa.Table, since: int | None = None) -> Iterator[list[Row]]:
    """All rows by primary key, or those with a `seq` of at least `since`, in pieces, not all of them in memory."""
    options = connection.execution_options(stream_results=True, yield_per=READ_AT_ONCE)
    result = options.exec_driver_sql(_select(table, since))
    for part in result.partitions(READ_AT_ONCE):
        yield [tuple(row) for row in part]


def _insert_rows(connection: sa.Connection, table: sa.Table, names: Sequence[str], rows: Sequence[Row]) -> None:
    with closing(connection.connection.cursor()) as cursor:
        if connection.dialect.name == "sqlite":
            done = 0
            for piece in PIECES:
                text = _insert_piece(table, tuple(names), piece)
                while len(rows) - done >= piece:
                    cursor.execute(text, list(chain.from_iterable(rows[done : done + piece])))
                    done += piece
        else:
            for given in _json(rows):
                cursor.execute(_insert_json(table, tuple(names)), (given,))


_DIALECTS: dict[str, sa.Dialect] = {}
"""The first of each kind: a query is compiled once for all databases of a kind, not once for each of their pools."""


@lru_cache(maxsize=256)
def _compiled(query: sa.Select[Any], dialect: sa.Dialect) -> tuple[str, Sequence[str] | None, Mapping[str, object]]:
    """The text of a query, its parameter names by position (None: the driver uses names), and its fixed values."""
    compiled = query.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    return str(compiled), compiled.positiontup, compiled.params


def _listed(value: object) -> object:
    return msgspec.json.encode(value).decode() if isinstance(value, list) else value


def _json(rows: Sequence[Row]) -> Iterator[str]:
    """Rows as JSON texts of a bounded length, though a single row may be longer."""
    piece, length = list[bytes](), 0
    for row in rows:
        piece.append(msgspec.json.encode(row))
        length += len(piece[-1])
        if length > JSON_BYTES:
            yield f"[{b','.join(piece).decode()}]"
            piece, length = [], 0
    if piece:
        yield f"[{b','.join(piece).decode()}]"


@cache
def _insert_piece(table: sa.Table, names: tuple[str, ...], rows: int) -> str:
    row = f"({', '.join('?' for _ in names)})"
    return f'INSERT INTO "{table.name}" ({_quoted(names)}) VALUES {", ".join([row] * rows)}'  # noqa: S608


@cache
def _insert_json(table: sa.Table, names: tuple[str, ...]) -> str:
    values = ", ".join(_value(table, name, place) for place, name in enumerate(names))
    return (
        f'INSERT INTO "{table.name}" ({_quoted(names)}) SELECT {values} '  # noqa: S608
        "FROM json_array_elements(%s::json) WITH ORDINALITY AS given (it, place) ORDER BY place"
    )


@cache
def _update_numbered(table: sa.Table, where: tuple[str, ...], put: tuple[str, ...]) -> str:
    result = " AND ".join(f'"{name}" = ?{place}' for place, name in enumerate(where, start=1))
    changed = ", ".join(f'"{name}" = ?{place}' for place, name in enumerate(put, start=len(where) + 1))
    return f'UPDATE "{table.name}" SET {changed} WHERE {result}'  # noqa: S608


@cache
def _update_json(table: sa.Table, where: tuple[str, ...], put: tuple[str, ...]) -> str:
    result = " AND ".join(f'there."{name}" = {_value(table, name, place)}' for place, name in enumerate(where))
    changed = ", ".join(f'"{name}" = {_value(table, name, place)}' for place, name in enumerate(put, len(where)))
    return (
        f'UPDATE "{table.name}" AS there SET {changed} '  # noqa: S608
        f"FROM json_array_elements(%s::json) AS given (it) WHERE {result}"
    )


def _value(table: sa.Table, name: str, place: int) -> str:
    """A value of a row sent as JSON, cast to the type of its column; numbers keep every digit."""
    kind = table.columns[name].type
    whole = "integer" if type(kind) is sa.Integer else "bigint"
    cast = whole if isinstance(kind, sa.Integer) else "double precision" if isinstance(kind, sa.Double) else "text"
    assert not isinstance(kind, sa.LargeBinary), "bytes cannot travel as JSON"
    return f"(it ->> {place})::{cast}"


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _select(table: sa.Table, since: int | None) -> str:
    names = _quoted(table.columns.keys())
    key = _quoted(table.primary_key.columns.keys())
    newer = "" if since is None else f' WHERE "seq" >= {int(since)}'
    return f'SELECT {names} FROM "{table.name}"{newer} ORDER BY {key}'  # noqa: S608
