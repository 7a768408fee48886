"""Rows by the thousand, past the layers that one row at a time can afford."""

from __future__ import annotations

from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import sqlalchemy as sa

Row = tuple[Any, ...]

READ_AT_ONCE = 10_000


def insert_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Insert rows that have a value for every column of the table, in its order."""
    if rows:
        connection.exec_driver_sql(_insert(table, connection.dialect.name), list(rows))


def ordered_rows(connection: sa.Connection, table: sa.Table) -> Iterator[list[Row]]:
    """All rows by primary key, in pieces, without holding the table in memory."""
    options = connection.execution_options(stream_results=True, yield_per=READ_AT_ONCE)
    result = options.exec_driver_sql(_select(table))
    for part in result.partitions(READ_AT_ONCE):
        yield [tuple(row) for row in part]


def raw_rows(connection: sa.Connection, query: sa.Select[Any], values: dict[str, object]) -> list[Row]:
    """All rows of a query as the driver gives them: plain tuples of numbers, texts and bytes."""
    compiled = query.compile(dialect=connection.dialect, compile_kwargs={"render_postcompile": True})
    known = compiled.construct_params(values)
    names = compiled.positiontup
    with closing(connection.connection.cursor()) as cursor:
        cursor.execute(str(compiled), known if names is None else tuple(known[name] for name in names))
        return list(cursor.fetchall())


@cache
def _insert(table: sa.Table, dialect: str) -> str:
    mark = "?" if dialect == "sqlite" else "%s"
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    return f'INSERT INTO "{table.name}" ({names}) VALUES ({", ".join(mark for _ in table.columns)})'  # noqa: S608


@cache
def _select(table: sa.Table) -> str:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    key = ", ".join(f'"{column.name}"' for column in table.primary_key)
    return f'SELECT {names} FROM "{table.name}" ORDER BY {key}'  # noqa: S608
