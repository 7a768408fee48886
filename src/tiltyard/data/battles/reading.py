"""Reading battles: a source is opened once (`Opened`), and read as a `BattleTable` (`read_battles`).

DuckDB reads a source in one pass. Small sources, and those with a bad row, are read row by row: the row can be named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import astuple

from tiltyard.data.battles.battle import REQUIRED_FIELDS, Battle
from tiltyard.data.battles.careful import (
    BadRows,
    RawRow,
    file_lines,
    kept_by_where,
    read_carefully,
    read_typed_rows,
    row_lines,
    value_of,
)
from tiltyard.data.battles.eval_logs import UNPAIRED, LoggedBattles, check_tie_band
from tiltyard.data.battles.fast import (
    LINE_BYTES,
    LONG_LINE_BYTES,
    check_condition,
    check_where,
    file_rows,
    give_back_memory,
    identifier,
    literal,
    load,
    needs_large_limits,
    repeated_ids,
    repeated_rows,
    session,
    where_error,
)
from tiltyard.data.battles.formats import Format, check_mapped, log_format, read_map, recognise
from tiltyard.data.battles.frames import ReusableFrame, is_frame, is_spark_frame
from tiltyard.data.battles.inputs import (
    BattleFile,
    FileKind,
    Header,
    PathLike,
    RawColumn,
    file_header,
    find_parts,
    header_of_rows,
    merged_header,
    typed_header,
)
from tiltyard.data.battles.layout import (
    Field,
    FieldKind,
    Layout,
    ReadBattlesOptions,
    Recognise,
    choose_format,
    make_layout,
    present_columns,
    read_label,
)
from tiltyard.data.battles.log_readers import LM_EVAL_SUMMARY, log_reader, read_logs, tool_of
from tiltyard.data.battles.settle import Settled, validate_rows
from tiltyard.data.battles.table import BattleTable, concat, has_equal_rows, merge_equal
from tiltyard.errors import BattleError, NoBattles, OptionError, OptionValue
from tiltyard.options import Decider, ReadingOptions, accepts_options, option

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_PAIRS = 5
"""At most this many groups of names are listed."""


def oddities(table: BattleTable) -> list[str]:
    """Sentences about what is odd in a table of battles; empty where nothing is."""
    sentences = []
    if table.repeated:
        rows = "1 row repeats" if table.repeated == 1 else f"{table.repeated:,} rows repeat"
        sentences.append(
            f"{rows} another row in every column, and each counts. If a battle was written twice, remove its copies; "
            "if not, a column battle_id tells battles apart"
        )
    if table.repeated_ids:
        rows = "1 row repeats" if table.repeated_ids == 1 else f"{table.repeated_ids:,} rows repeat"
        sentences.append(
            f"{rows} the battle_id of another row, and each counts. If a file was given twice, or a battle written "
            "twice, remove the copies; if not, give each battle an id of its own"
        )
    groups = look_alikes(table.models)
    if groups:
        named = "; ".join(" and ".join(map(repr, group)) for group in groups[:MOST_PAIRS])
        more = f" and {len(groups) - MOST_PAIRS} more" if len(groups) > MOST_PAIRS else ""
        sentences.append(
            f"names that differ only in capital letters or blanks are rated as different models: {named}{more}. "
            "If they are one model, give it one name"
        )
    return sentences


def look_alikes(names: Iterable[str]) -> list[tuple[str, ...]]:
    """The groups of names that are the same without regard to case and blanks."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault("".join(name.casefold().split()), []).append(name)
    return [tuple(sorted(group)) for group in groups.values() if len(group) > 1]


BattleData = PathLike | Iterable[PathLike] | BattleTable | Iterable[Battle | Mapping[str, Any]] | Any
"""Anything battles can be read from: see `read_battles`."""


class Peek(msgspec.Struct, frozen=True):
    """What a source of battles looks like: its format, our optional columns in it, and its own columns."""

    format: str
    columns: tuple[str, ...]
    raw_columns: tuple[str, ...]

    @classmethod
    def of(cls, seen: Iterable[tuple[Format, Header]]) -> Peek:
        pairs = list(seen)
        names = dict.fromkeys(spelling.name for spelling, _ in pairs)
        columns = dict.fromkeys(name for spelling, header in pairs for name in present_columns(header, spelling))
        raw = dict.fromkeys(name for _, header in pairs for name in header.top_names)
        return cls(" + ".join(names), tuple(columns), tuple(raw))


class RowGroup(msgspec.Struct, frozen=True, eq=False):
    """Rows of one shape: files of one kind and format (`parts`), logs of one tool, a frame, or Python objects (`held`).

    `unpaired` is, for logs of another tool, how many answers have no other to be compared with.
    """

    name: str
    header: Header
    format: Format
    parts: Sequence[BattleFile] = ()
    frame: ReusableFrame | None = None
    held: Sequence[RawRow] | None = None
    unpaired: int | None = None


class Opened:
    """What somebody gave as battles or scores. Everything about it is found when first asked for, and only once.

    `data` is what was given; `items` are its paths or rows, `frame` is its frame, and None where it has none. What is
    known of files may be shared (`like`). `engine` is what should read it: `duckdb`, or `spark`.
    """

    engine = "duckdb"

    def __init__(self, data: Any, like: Opened | None = None) -> None:
        self.data: Any = data
        self.items: list[Any] | None = None
        self.frame: ReusableFrame | None = None
        self.header: Callable[[BattleFile], Header] = cache(_file_header) if like is None else like.header
        self.tool: Callable[[BattleFile, str], str | None] = cache(tool_of) if like is None else like.tool
        self.recognise: Recognise = cache(recognise) if like is None else like.recognise
        self.read_logs: Callable[[str, tuple[BattleFile, ...], float], LoggedBattles] = (
            cache(read_logs) if like is None else like.read_logs
        )
        self._groups: dict[Any, list[RowGroup]] = {}
        if isinstance(data, BattleTable):
            return
        if isinstance(data, str | Path | list | tuple):
            self.items = [data] if isinstance(data, str | Path) else list(data)
        elif is_spark_frame(data):
            self.engine = "spark"
        elif is_frame(data):
            self.frame = ReusableFrame(data)
        elif isinstance(data, Iterable) and not isinstance(data, Mapping):
            self.items = list(data)

    def __reduce__(self) -> tuple[type[Opened], tuple[Any]]:
        return type(self), (self.data if self.items is None else self.items,)

    @classmethod
    def of(cls, data: BattleData) -> Opened:
        return data if isinstance(data, Opened) else Opened(data)

    @cached_property
    def paths(self) -> list[PathLike]:
        """The paths; none where the data are in memory."""
        items = self.items or []
        return items if all(isinstance(item, str | Path) for item in items) else []

    @cached_property
    def parts_by_path(self) -> list[list[BattleFile]]:
        return [find_parts(path) for path in self.paths]

    @property
    def parts(self) -> list[BattleFile]:
        """The files; none where the data are in memory."""
        return [part for parts in self.parts_by_path for part in parts]

    @cached_property
    def rows(self) -> list[RawRow]:
        return list(row_lines(item.to_dict() if isinstance(item, Battle) else item for item in self.items or ()))

    @cached_property
    def header_in_memory(self) -> Header:
        """The columns of the frame, or of the rows in memory."""
        if self.frame is None:
            return header_of_rows((row.row for row in self.rows if row.fault is None), "json")
        with session() as connection:
            return _described(connection, frame_rows(connection, self.frame))

    def need_every_battle(self, what: str) -> None:
        """Refuse `what` looks at every battle where an engine only counts them."""

    def peek(self, options: ReadingOptions) -> Peek:
        """The format and columns, without reading the source through."""
        if isinstance(self.data, BattleTable):
            columns = tuple(self.data.columns)
            return Peek("tiltyard", columns, (*REQUIRED_FIELDS, *columns))
        return Peek.of((group.format, group.header) for group in self.groups(options))

    def read(self, options: ReadBattlesOptions) -> BattleTable:
        if isinstance(self.data, BattleTable):
            if options.map or options.tie_band is not None:
                raise OptionError("map and tie_band say how a source is read; a BattleTable has been read already.")
            return self.data
        sources = find_sources(self, options)
        tables = []
        for source in sources:
            read = source.read_with_duckdb()
            if read is None or (read.skipped and options.on_bad == "error"):
                read = source.read_by_row(BadRows(examples_each=0, stop=options.on_bad == "error"))
            has_source = source.layout.format.find("source", source.layout.header) is not None
            named = has_source or options.default_source is not None
            tables.append(replace(source.with_repeats(read), source_named=named))
        table = tables[0] if len(tables) == 1 else concat(tables)
        if not len(table):
            name, where = sources[0].name, sources[0].layout.where
            if table.skipped:
                why = ", ".join(f"{count} × {reason}" for reason, count in table.skipped.items())
                what = f"{name}: no row is a battle, all were skipped ({why}). Check the format ("
                raise NoBattles(what, OptionValue("format"), ").")
            if where is not None:
                raise NoBattles(f"{name}: no row satisfies ", OptionValue("where", where), ". Loosen it.")
            raise NoBattles(f"{name} has no battle, only a header. Check what wrote it.")
        return merge_equal(table) if options.counted else table

    def groups(self, options: ReadingOptions) -> list[RowGroup]:
        """The rows by their shape, in order; what a format says of them is found once for each way to read."""
        key = options.format, options.default_source, tuple((options.map or {}).items()), options.tie_band
        if key not in self._groups:
            groups = self._groups_of_files(options) if self.paths else [self._group_in_memory(options)]
            if options.tie_band is not None and all(group.unpaired is None for group in groups):
                raise OptionError("tie_band is about logs with scores, and there is none: these have outcomes already.")
            self._groups[key] = groups
        return self._groups[key]

    def _group_in_memory(self, options: ReadingOptions) -> RowGroup:
        if self.frame is None and self.items is None:
            what = f"battles cannot be read from a {type(self.data).__name__}. Give a path, a frame, or rows."
            raise BattleError(what)
        if self.frame is None and not self.items:
            raise NoBattles("there are no battles to read: the list is empty.")
        name, header = "the rows" if self.frame is None else "the frame", self.header_in_memory
        spelling = choose_format(header, options, name, self.recognise)
        held = self.rows if self.frame is None else None
        return RowGroup(name, header, spelling, frame=self.frame, held=held)

    def _groups_of_files(self, options: ReadingOptions) -> list[RowGroup]:
        logs, parts = self._logs_apart(options)
        groups = []
        for tool, files in logs.items():
            logged, name = self.read_logs(tool, tuple(files), check_tie_band(options.tie_band)), _name(files)
            header = header_of_rows((line.row for line in logged.rows if line.fault is None), "json")
            mapped = read_map(options.map)
            check_mapped(mapped, header, name)
            spelling = log_format(tool).mapped(mapped)
            groups.append(RowGroup(name, header, spelling, held=logged.rows, unpaired=logged.unpaired))
        shaped = []
        for part in parts:
            header = self.header(part)
            spelling = choose_format(header, options, part.name, self.recognise)
            shape = (part.kind, part.zipped, spelling.name, spelling.required, header.places)
            shaped.append((shape, part, header, spelling))
        for _, run in groupby(shaped, key=lambda item: item[0]):
            _, alike, headers, spellings = zip(*run, strict=True)
            groups.append(RowGroup(_name(alike), merged_header(headers), spellings[0], alike))
        return groups

    def _logs_apart(self, options: ReadingOptions) -> tuple[dict[str, list[BattleFile]], list[BattleFile]]:
        if options.format != "auto" and log_reader(options.format) is None:
            return {}, self.parts
        logs: dict[str, list[BattleFile]] = {}
        others: list[BattleFile] = []
        summaries: list[BattleFile] = []
        for part in self.parts:
            tool = self.tool(part, options.format)
            if tool == LM_EVAL_SUMMARY:
                summaries.append(part)
            elif tool is None or options.format not in ("auto", tool):
                others.append(part)
            else:
                logs.setdefault(tool, []).append(part)
        if summaries and "lm-eval" not in logs:
            raise BattleError(
                f"{summaries[0].name} is a summary of lm-evaluation-harness, without answers. Let it keep them "
                "(log_samples), and name the files samples_*.jsonl."
            )
        return logs, others


def _name(parts: Sequence[BattleFile]) -> str:
    return parts[0].name if len(parts) == 1 else f"{parts[0].name} and {len(parts) - 1} more"


def frame_rows(connection: DuckDBPyConnection, frame: ReusableFrame) -> str:
    """What comes after FROM for a frame, given to DuckDB as it is or, where that is not possible, as a Parquet file."""
    if frame.path is not None:
        return f"read_parquet({literal(str(frame.path))})"
    connection.register("frame", frame.shared)
    return "frame"


def _file_header(part: BattleFile) -> Header:
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


SMALL_BYTES = 1 << 18
"""Up to this size a text file is read before DuckDB would have started: 2 ms against 70 for twenty rows."""

MANY_ROWS = 200_000
"""After so many rows the memory that DuckDB took is given back, though starting it again takes thirty milliseconds."""


class RowSource(RowGroup, frozen=True, eq=False, kw_only=True):
    """Rows of one shape with the layout by which they are read together."""

    layout: Layout

    def __post_init__(self) -> None:
        if self.layout.where is not None:
            check_condition(self.layout)

    @property
    def is_typed(self) -> bool:
        """Whether columns have declared types: Parquet files and frames, whose rows have numbers but no lines."""
        return self.layout.header.cells == "typed"

    @property
    def is_small(self) -> bool:
        """Whether rows are sooner read one by one, and both readers give the same table, down to cluster numbers."""
        nested = any(field.hashed and field.raw.holds == "nested" for field in self.layout.fields)
        if self.is_typed or self.layout.where is not None or nested or any(part.zipped for part in self.parts):
            return self.held is not None
        return self.held is not None or sum(part.path.stat().st_size for part in self.parts) <= SMALL_BYTES

    def read_with_duckdb(self) -> BattleTable | None:
        """The battles by one pass of DuckDB, bad rows left out and counted; None when rows are read one by one."""
        if self.is_small:
            return None
        import duckdb

        try:
            settled = self.settled()
        except duckdb.Error as error:
            if isinstance(error, duckdb.ConversionException) and self.layout.where is not None:
                raise where_error(self.layout, error) from None
            return None
        return replace(settled.table, skipped=settled.skipped)

    def settled(self, *, large_limits: bool = False) -> Settled:
        """Every row after the rules, by one pass of DuckDB; with more memory and longer lines where it needs them."""
        import duckdb

        try:
            with self._opened(large_limits=large_limits) as (connection, rows):
                check_where(connection, rows, self.layout)
                batch = load(connection, rows, self.layout)
        except duckdb.Error as error:
            if large_limits or not needs_large_limits(error):
                raise
            return self.settled(large_limits=True)
        if batch.n_rows >= MANY_ROWS:
            give_back_memory()
        return validate_rows(batch, self.layout)

    def read_by_row(self, bad_rows: BadRows) -> BattleTable:
        """The battles of the good rows, read one by one; bad ones are counted in `bad_rows`."""
        if self.is_typed:
            by_file = [msgspec.structs.replace(self, name=part.name, parts=[part]) for part in self.parts]
            tables = []
            for source in by_file or [self]:
                with source._opened(large_limits=True) as (connection, rows):
                    tables.append(read_typed_rows(connection, rows, self.layout, source.name, bad_rows))
            return replace(concat(tables), skipped=bad_rows.skipped)
        table = read_carefully(self._lines(), self.layout, bad_rows)
        return replace(table, skipped={**table.skipped, UNPAIRED: self.unpaired}) if self.unpaired else table

    def with_repeats(self, table: BattleTable) -> BattleTable:
        """The table with the number of rows that repeat another in every column of the source.

        They are counted where battles can be told apart, by prompt or time, but have no id; and only where some are
        equal in what was read of them, which few files have. Where they have ids, ids that come again are counted.
        Battles made of a log's scores may well be equal.
        """
        layout = self.layout
        if self.unpaired is not None:
            return table
        column = layout.format.find("battle_id", layout.header)
        if column is not None:
            return replace(table, repeated_ids=self._repeated_ids(layout.header.columns[column]))
        if layout.counted or not {"question_id", "timestamp"} & set(table.columns) or not has_equal_rows(table):
            return table
        if self.is_small:
            encode = msgspec.json.Encoder(enc_hook=str, order="sorted").encode
            return replace(table, repeated=_repeated(encode(row) for row in self._rows_read()))
        import duckdb

        try:
            with self._opened(large_limits=True, every_column=True) as (connection, rows):
                return replace(table, repeated=repeated_rows(connection, rows, layout))
        except duckdb.Error:
            return table

    def _repeated_ids(self, column: RawColumn) -> int:
        """How many rows repeat the id of another; rows without one repeat none."""
        field = Field("battle_id", FieldKind.TEXT, column)
        if self.is_small:
            read = (read_label(value_of(row, field), field.kind) for row in self._rows_read())
            return _repeated(text for text in read if isinstance(text, str))
        import duckdb

        layout = msgspec.structs.replace(self.layout, fields=(field,))
        try:
            with msgspec.structs.replace(self, layout=layout)._opened(large_limits=True) as (connection, rows):
                return repeated_ids(connection, rows, layout)
        except duckdb.Error:
            return 0

    def _rows_read(self) -> list[Mapping[str, Any]]:
        """The rows, read one by one, that can be read and that `where` keeps."""
        read = [line for line in self._lines() if line.fault is None]
        if self.layout.where is not None:
            kept = kept_by_where(read, self.layout)
            read = [line for line in read if id(line) in kept]
        return [line.row for line in read]

    def _lines(self) -> Iterable[RawRow]:
        return (line for part in self.parts for line in file_lines(part)) if self.held is None else self.held

    @contextmanager
    def _opened(
        self, *, large_limits: bool = False, every_column: bool = False
    ) -> Iterator[tuple[DuckDBPyConnection, str]]:
        """The rows as SQL, with the connection that reads them; `large_limits` allows more memory and longer lines."""
        with session(large_limits=large_limits) as connection:
            if self.frame is not None:
                yield connection, frame_rows(connection, self.frame)
                return
            columns = [field.raw.top for field in self.layout.fields]
            if every_column or self.layout.where is not None:
                columns += self.layout.header.top_names
            longest, plain = LONG_LINE_BYTES if large_limits else LINE_BYTES, self.layout.plain
            yield connection, file_rows(self.parts, self.layout.header, columns, plain=plain, longest=longest)


def _repeated(values: Iterable[Hashable]) -> int:
    count = Counter(values)
    return count.total() - len(count)


def find_sources(data: BattleData, options: ReadBattlesOptions) -> list[RowSource]:
    """The rows of some data by their shape, each with the layout by which it is read."""
    groups = Opened.of(data).groups(options)
    if len(groups) > 1:  # hashes of one could not be compared with those of another
        options = options.with_texts()
    return [
        RowSource(*astuple(group), layout=make_layout(group.header, options, group.name, group.format))
        for group in groups
    ]


@accepts_options(ReadBattlesOptions)
def read_battles(data: BattleData, options: ReadBattlesOptions) -> BattleTable:
    """The battles of a file, of several, or of a table in memory.

    Files are JSON Lines, CSV, TSV (each also gzipped), a JSON array, or Parquet. A bad row is a `BadRow` error, or with
    `on_bad="skip"` left out and counted in the table's `skipped`.

    Parameters:
        data: A path, a list of paths, a folder, a glob, "-" (standard input), a pandas or polars frame, an Arrow
            table, a DuckDB relation, an iterable of `Battle` or of dicts, or a `BattleTable` (returned as it is).
    """
    return Opened.of(data).read(options)


def peek(
    data: BattleData,
    format: str = "auto",
    default_source: Decider | None = None,
    map: Mapping[str, str] | None = None,
) -> Peek:
    """The format and columns of a source, without reading it through.

    Parameters:
        data: Where the battles are; see `read_battles`.
        format: The format of the battles; `auto` recognises it by the header.
        default_source: Who decided where a row does not say: `human` or `llm-judge`.
        map: Columns under other names, ours first; see `read_battles`.
    """
    return Opened.of(data).peek(ReadingOptions(format=format, default_source=default_source, map=map))


@dataclass(frozen=True, kw_only=True)
class ProblemOptions(ReadingOptions):
    """Options of `find_problems`."""

    examples_each: int = option(3, "How many rows to keep of each kind of problem.")


@accepts_options(ProblemOptions)
def find_problems(data: BattleData, options: ProblemOptions) -> tuple[float, BadRows]:
    """How many battles a source holds, and its bad rows: counts by reason, the first few of each, and what else is odd.

    Parameters:
        data: Where the battles are; see `read_battles`.
    """
    bad_rows = BadRows(options.examples_each)
    battles = 0.0
    for source in find_sources(data, options.part(ReadBattlesOptions)):
        table = source.read_with_duckdb()
        if table is None or table.skipped:
            table = source.read_by_row(bad_rows)
        bad_rows.odd += [odd for odd in oddities(source.with_repeats(table)) if odd not in bad_rows.odd]
        battles += table.n_battles
    return battles, bad_rows
