"""Battles or scores as somebody gave them, opened once: `Opened`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltyard.battles.battle import Battle
from tiltyard.battles.careful import RawRow, row_lines
from tiltyard.battles.eval_logs import LoggedBattles
from tiltyard.battles.fast import file_rows, identifier, literal, session
from tiltyard.battles.formats import recognise
from tiltyard.battles.frames import ReusableFrame, is_frame, is_spark_frame
from tiltyard.battles.inputs import (
    FileKind,
    Header,
    Part,
    PathLike,
    file_header,
    find_parts,
    header_of_rows,
    typed_header,
)
from tiltyard.battles.layout import Recognise
from tiltyard.battles.log_readers import read_logs, tool_of
from tiltyard.battles.table import BattleTable
from tiltyard.errors import BattleError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BattleData = PathLike | Iterable[PathLike] | BattleTable | Iterable[Battle | Mapping[str, Any]] | Any
"""Anything battles can be read from: see `read_battles`."""


class Opened:
    """What somebody gave as battles or scores. Everything about it is found when first asked for, and only once.

    `data` is what was given; `items` are its paths or rows, `frame` is its frame, and None where it has none. What is
    known of files may be shared (`like`).
    """

    def __init__(self, data: Any, like: Opened | None = None) -> None:
        self.data: Any = data
        self.items: list[Any] | None = None
        self.header: Callable[[Part], Header] = cache(_file_header) if like is None else like.header
        self.tool: Callable[[Part, str], str | None] = cache(tool_of) if like is None else like.tool
        self.recognise: Recognise = cache(recognise) if like is None else like.recognise
        self.read_logs: Callable[[str, tuple[Part, ...], float], LoggedBattles] = (
            cache(read_logs) if like is None else like.read_logs
        )
        self.frame = ReusableFrame(data) if is_frame(data) and not is_spark_frame(data) else None
        if isinstance(data, str | Path):
            self.items = [data]
        elif isinstance(data, Iterable) and not (self.frame or isinstance(data, Mapping | BattleTable)):
            self.items = None if is_spark_frame(data) else list(data)

    def __reduce__(self) -> tuple[type[Opened], tuple[Any]]:
        return Opened, (self.data if self.items is None else self.items,)

    @classmethod
    def of(cls, data: BattleData) -> Opened:
        return data if isinstance(data, cls) else cls(data)

    @cached_property
    def paths(self) -> list[PathLike]:
        """The paths; none where the data are in memory."""
        items = self.items or []
        return items if all(isinstance(item, str | Path) for item in items) else []

    @cached_property
    def parts_by_path(self) -> list[list[Part]]:
        return [find_parts(path) for path in self.paths]

    @property
    def parts(self) -> list[Part]:
        """The files; none where the data are in memory."""
        return [part for parts in self.parts_by_path for part in parts]

    @cached_property
    def rows(self) -> list[RawRow]:
        """The rows in memory."""
        return list(row_lines(item.to_dict() if isinstance(item, Battle) else item for item in self.items or ()))

    @cached_property
    def header_in_memory(self) -> Header:
        """The columns of the frame, or of the rows in memory."""
        if self.frame is None:
            return header_of_rows((row.row for row in self.rows if row.fault is None), "json")
        with session() as connection:
            return _described(connection, frame_rows(connection, self.frame))


def frame_rows(connection: DuckDBPyConnection, frame: ReusableFrame) -> str:
    """What comes after FROM for a frame, given to DuckDB as it is or, where that is not possible, as a Parquet file."""
    if frame.path is not None:
        return f"read_parquet({literal(str(frame.path))})"
    connection.register("frame", frame.shared)
    return "frame"


def _file_header(part: Part) -> Header:
    if part.kind is not FileKind.PARQUET:
        return file_header(part)
    import duckdb

    try:
        with session() as connection:
            return _described(connection, file_rows([part], Header({}, "typed"), ()))
    except duckdb.Error as error:
        first = str(error).strip().splitlines()[0]
        raise BattleError(f"{part.name} cannot be read as Parquet: {first}. Check what wrote it.") from None


def _described(connection: DuckDBPyConnection, sql: str) -> Header:
    """The columns of a typed source that is given as SQL."""
    rows = connection.execute(f"DESCRIBE SELECT * FROM {sql}").fetchall()
    typed = [(str(row[0]), str(row[1])) for row in rows]
    nested = [name for name, sql_type in typed if sql_type.startswith("STRUCT") and not sql_type.endswith("]")]
    inside: dict[str, Any] = {}
    if nested:
        columns = ", ".join(map(identifier, nested))
        row = connection.execute(f"SELECT {columns} FROM {sql} LIMIT 1").fetchone()
        inside = dict(zip(nested, row or (), strict=False))
    return typed_header(typed, inside)
