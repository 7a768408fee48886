"""The sources of rows, each readable twice: fast by DuckDB, and carefully so that a bad row can be named."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltyard.battles.battle import Battle
from tiltyard.battles.careful import file_lines, read_carefully, row_lines
from tiltyard.battles.fast import check_where, load, session, where_error
from tiltyard.battles.frames import hand_over, is_frame
from tiltyard.battles.headers import Header, file_header, header_of_rows, merged_header, typed_header
from tiltyard.battles.inputs import FileKind, Part, find_parts
from tiltyard.battles.locate import locate
from tiltyard.battles.plan import Plan, Wishes, choose_format, make_plan
from tiltyard.battles.query import Rows, file_rows, identifier
from tiltyard.battles.settle import settle
from tiltyard.battles.table import BattleTable, concat
from tiltyard.errors import BattleError, NoBattles

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from tiltyard.battles.problems import Findings, Problem


class RowSource:
    """Rows of one shape that are read together."""

    def __init__(self, name: str, plan: Plan) -> None:
        self.name = name
        self.plan = plan

    def fast(self) -> BattleTable | None:
        """The battles by one pass of DuckDB, bad rows left out and counted; None when DuckDB cannot read them."""
        import duckdb

        try:
            with self.rows() as (connection, rows):
                check_where(connection, rows, self.plan)
                settled = settle(load(connection, rows, self.plan), self.plan)
        except duckdb.ConversionException as error:
            if self.plan.where is None:
                return None
            raise where_error(self.plan, error) from None
        except duckdb.Error:
            return None
        counts = settled.counts()
        return replace(settled.table, skipped={reason.label: count for reason, count in counts.items()})

    @contextmanager
    def rows(self) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The rows as SQL, with the connection that can read them."""
        raise NotImplementedError

    def careful(self, findings: Findings, *, stop: bool) -> BattleTable:
        """The battles of the good rows; bad ones are counted in `findings` and, with `stop`, the first is raised."""
        raise NotImplementedError


class TextFiles(RowSource):
    """Files of lines: JSON Lines, CSV, and JSON arrays."""

    def __init__(self, parts: Sequence[Part], header: Header, wishes: Wishes) -> None:
        super().__init__(_name(parts), make_plan(header, wishes, _name(parts)))
        self.parts = parts

    @contextmanager
    def rows(self) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The files as DuckDB reads them."""
        columns = [field.raw.top for field in self.plan.fields]
        if self.plan.where is not None:
            columns += self.plan.header.top_names
        with session() as connection:
            yield connection, file_rows(self.parts, self.plan.header, columns)

    def careful(self, findings: Findings, *, stop: bool) -> BattleTable:
        """The battles, line by line."""
        lines = (line for part in self.parts for line in file_lines(part))
        return read_carefully(lines, self.plan, _raise if stop else None, findings)


class ParquetFiles(RowSource):
    """Parquet files, scanned in place."""

    def __init__(self, parts: Sequence[Part], header: Header, wishes: Wishes) -> None:
        super().__init__(_name(parts), make_plan(header, wishes, _name(parts)))
        self.parts = parts

    @contextmanager
    def rows(self) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The files as DuckDB reads them."""
        with session() as connection:
            yield connection, file_rows(self.parts, self.plan.header, ())

    def careful(self, findings: Findings, *, stop: bool) -> BattleTable:
        """The battles, file by file, with the rows numbered."""
        tables = []
        for part in self.parts:
            with session() as connection:
                rows = file_rows([part], self.plan.header, ())
                tables.append(locate(connection, rows, self.plan, part.name, _raise if stop else None, findings))
        return concat(tables)


class Frame(RowSource):
    """A table of another library, handed to DuckDB as it is."""

    def __init__(self, data: Any, wishes: Wishes) -> None:
        self.data = data
        with self._handed_over() as (connection, sql):
            header = _described(connection, sql)
        super().__init__("the frame", make_plan(header, wishes, "the frame"))

    @contextmanager
    def _handed_over(self) -> Iterator[tuple[DuckDBPyConnection, str]]:
        with session() as connection, tempfile.TemporaryDirectory(prefix="tiltyard-") as folder:
            yield connection, hand_over(connection, self.data, Path(folder))

    @contextmanager
    def rows(self) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The frame as DuckDB reads it."""
        with self._handed_over() as (connection, sql):
            yield connection, Rows(sql, self.plan.header)

    def careful(self, findings: Findings, *, stop: bool) -> BattleTable:
        """The battles, with the rows numbered."""
        with self.rows() as (connection, rows):
            return locate(connection, rows, self.plan, self.name, _raise if stop else None, findings)


class PythonRows(RowSource):
    """Battles or dicts that are in memory already."""

    def __init__(self, rows: Iterable[Battle | Mapping[str, Any]], wishes: Wishes) -> None:
        self.objects = [row.to_dict() if isinstance(row, Battle) else row for row in rows]
        if not self.objects:
            raise NoBattles("there is no battle to read: the list is empty.")
        header = header_of_rows((row for row in self.objects if isinstance(row, Mapping)), "json")
        super().__init__("the rows", make_plan(header, wishes, "the rows"))

    def fast(self) -> BattleTable | None:
        """None: the rows are Python objects, so reading them one by one is the way."""
        return None

    def careful(self, findings: Findings, *, stop: bool) -> BattleTable:
        """The battles, row by row."""
        return read_carefully(row_lines(self.objects), self.plan, _raise if stop else None, findings)


def find_sources(data: Any, wishes: Wishes) -> list[RowSource]:
    """The sources that some data stands for, in order; files of one kind and format are one source."""
    if isinstance(data, str | Path):
        return _file_sources(find_parts(data), wishes)
    if is_frame(data):
        return [Frame(data, wishes)]
    if isinstance(data, Mapping) or not isinstance(data, Iterable):
        raise BattleError(f"battles cannot be read from a {type(data).__name__}. Give a path, a frame, or rows.")
    items = list(data)
    if items and all(isinstance(item, str | Path) for item in items):
        return _file_sources(find_parts(items), wishes)
    return [PythonRows(items, wishes)]


def _file_sources(parts: Sequence[Part], wishes: Wishes) -> list[RowSource]:
    headers = [_parquet_header(part) if part.kind is FileKind.PARQUET else file_header(part) for part in parts]
    shapes = []
    for part, header in zip(parts, headers, strict=True):
        spelling = choose_format(header, wishes, part.name)
        names = () if part.kind.is_json or part.kind is FileKind.PARQUET else header.top_names
        shapes.append((part.kind, part.zipped, spelling.name, spelling.required, names))
    sources: list[RowSource] = []
    for _, run in groupby(zip(shapes, parts, headers, strict=True), key=lambda item: item[0]):
        _, group, seen = zip(*run, strict=True)
        kind = ParquetFiles if group[0].kind is FileKind.PARQUET else TextFiles
        sources.append(kind(group, merged_header(seen), wishes))
    return sources


def _parquet_header(part: Part) -> Header:
    import duckdb

    try:
        with session() as connection:
            return _described(connection, file_rows([part], Header({}, "typed"), ()).sql)
    except duckdb.Error as error:
        first = str(error).strip().splitlines()[0]
        raise BattleError(f"{part.name} cannot be read as Parquet: {first}. Check what wrote it.") from None


def _described(connection: DuckDBPyConnection, sql: str) -> Header:
    described = [(str(row[0]), str(row[1])) for row in connection.execute(f"DESCRIBE SELECT * FROM {sql}").fetchall()]
    nested = [name for name, sql_type in described if sql_type.startswith("STRUCT") and not sql_type.endswith("]")]
    inside: dict[str, Any] = {}
    if nested:
        columns = ", ".join(map(identifier, nested))
        row = connection.execute(f"SELECT {columns} FROM {sql} LIMIT 1").fetchone()
        inside = dict(zip(nested, row or (), strict=False))
    return typed_header(described, inside)


def _name(parts: Sequence[Part]) -> str:
    return parts[0].name if len(parts) == 1 else f"{parts[0].name} and {len(parts) - 1} more"


def _raise(problem: Problem) -> None:
    raise problem.error()
