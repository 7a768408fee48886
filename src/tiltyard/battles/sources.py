"""The sources of rows, each readable twice: fast by DuckDB, and carefully so that a bad row can be named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltyard.battles.battle import Battle
from tiltyard.battles.careful import file_lines, read_carefully, row_lines
from tiltyard.battles.fast import check_where, load, needs_room, session, where_error
from tiltyard.battles.frames import hold, is_frame
from tiltyard.battles.headers import Header, file_header, header_of_rows, merged_header, typed_header
from tiltyard.battles.inputs import FileKind, Part, find_parts
from tiltyard.battles.locate import locate
from tiltyard.battles.plan import Plan, Wishes, choose_format, make_plan
from tiltyard.battles.query import LINE_BYTES, LONG_LINE_BYTES, Rows, file_rows, identifier, literal
from tiltyard.battles.settle import Settled, settle
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
            settled = self._settled(roomy=False)
        except duckdb.Error as error:
            if isinstance(error, duckdb.ConversionException) and self.plan.where is not None:
                raise where_error(self.plan, error) from None
            if not needs_room(error):
                return None
            try:
                settled = self._settled(roomy=True)
            except duckdb.Error:
                return None
        counts = settled.counts()
        return replace(settled.table, skipped={reason.label: count for reason, count in counts.items()})

    def _settled(self, *, roomy: bool) -> Settled:
        with self.rows(roomy=roomy) as (connection, rows):
            check_where(connection, rows, self.plan)
            batch = load(connection, rows, self.plan)
        return settle(batch, self.plan)

    @contextmanager
    def rows(self, *, roomy: bool = False) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The rows as SQL, with the connection that can read them; `roomy` allows more memory and longer lines."""
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
    def rows(self, *, roomy: bool = False) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The files as DuckDB reads them."""
        columns = [field.raw.top for field in self.plan.fields]
        if self.plan.where is not None:
            columns += self.plan.header.top_names
        longest = LONG_LINE_BYTES if roomy else LINE_BYTES
        with session(roomy=roomy) as connection:
            yield connection, file_rows(self.parts, self.plan.header, columns, longest=longest)

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
    def rows(self, *, roomy: bool = False) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The files as DuckDB reads them."""
        with session(roomy=roomy) as connection:
            yield connection, file_rows(self.parts, self.plan.header, ())

    def careful(self, findings: Findings, *, stop: bool) -> BattleTable:
        """The battles, file by file, with the rows numbered."""
        tables = []
        for part in self.parts:
            with session(roomy=True) as connection:
                rows = file_rows([part], self.plan.header, ())
                tables.append(locate(connection, rows, self.plan, part.name, _raise if stop else None, findings))
        return concat(tables)


class Frame(RowSource):
    """A table of another library, handed to DuckDB as it is or, where that cannot be, by way of a Parquet file."""

    def __init__(self, data: Any, wishes: Wishes) -> None:
        self.held = hold(data)
        path = self.held.path
        self.sql = "frame" if path is None else f"read_parquet({literal(str(path))})"
        with self._shared(roomy=False) as connection:
            header = _described(connection, self.sql)
        super().__init__("the frame", make_plan(header, wishes, "the frame"))

    @contextmanager
    def _shared(self, *, roomy: bool) -> Iterator[DuckDBPyConnection]:
        with session(roomy=roomy) as connection:
            if self.held.path is None:
                connection.register("frame", self.held.shared)
            yield connection

    @contextmanager
    def rows(self, *, roomy: bool = False) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The frame as DuckDB reads it."""
        with self._shared(roomy=roomy) as connection:
            yield connection, Rows(self.sql, self.plan.header)

    def careful(self, findings: Findings, *, stop: bool) -> BattleTable:
        """The battles, with the rows numbered."""
        with self.rows(roomy=True) as (connection, rows):
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
    typed = _parquet_headers([part for part in parts if part.kind is FileKind.PARQUET])
    headers = [typed.get(part) or file_header(part) for part in parts]
    shapes = []
    for part, header in zip(parts, headers, strict=True):
        spelling = choose_format(header, wishes, part.name)
        names = () if part.kind.is_json or part.kind is FileKind.PARQUET else header.top_names
        shapes.append((part.kind, part.zipped, spelling.name, spelling.required, names))
    shaped = zip(shapes, parts, headers, strict=True)
    groups = [list(zip(*run, strict=True)) for _, run in groupby(shaped, key=lambda item: item[0])]
    if len(groups) > 1:
        wishes = wishes.with_texts()
    sources: list[RowSource] = []
    for _, group, seen in groups:
        kind = ParquetFiles if group[0].kind is FileKind.PARQUET else TextFiles
        sources.append(kind(group, merged_header(seen), wishes))
    return sources


def _parquet_headers(parts: Sequence[Part]) -> dict[Part, Header]:
    """The columns of Parquet files."""
    import duckdb

    if not parts:
        return {}
    headers = {}
    with session() as connection:
        for part in parts:
            try:
                headers[part] = _described(connection, file_rows([part], Header({}, "typed"), ()).sql)
            except duckdb.Error as error:
                first = str(error).strip().splitlines()[0]
                raise BattleError(f"{part.name} cannot be read as Parquet: {first}. Check what wrote it.") from None
    return headers


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
