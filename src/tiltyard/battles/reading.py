"""Reading battles: `read_battles`, from any source, as a `BattleTable`.

Every source can be read twice: fast by DuckDB, and carefully so that a bad row can be named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.battles import formats
from tiltyard.battles.battle import Battle, Source
from tiltyard.battles.careful import (
    BadRows,
    RawRow,
    RowProblem,
    file_lines,
    kept_by_where,
    locate,
    read_carefully,
    row_lines,
)
from tiltyard.battles.eval_logs import LM_EVAL_SUMMARY, UNPAIRED, check_tie_band, read_logs, recognise_log
from tiltyard.battles.fast import (
    LINE_BYTES,
    LONG_LINE_BYTES,
    Rows,
    check_condition,
    check_where,
    file_rows,
    give_back_memory,
    identifier,
    literal,
    load,
    needs_large_limits,
    plain_texts,
    repeated_rows,
    session,
    where_error,
)
from tiltyard.battles.formats import FORMATS, LOG_FORMATS, Format, check_mapped, read_map
from tiltyard.battles.frames import is_frame, reusable
from tiltyard.battles.inputs import (
    SEEN_ROWS,
    FileKind,
    Header,
    Part,
    PathLike,
    file_header,
    find_parts,
    header_of_rows,
    merged_header,
    typed_header,
)
from tiltyard.battles.layout import Layout, ReadOptions, choose_format, make_layout, present_columns
from tiltyard.battles.settle import Settled, settle
from tiltyard.battles.table import BattleTable, Codes, concat, merge_equal
from tiltyard.errors import BattleError, NoBattles, OptionError, OptionValue
from tiltyard.options import Decider, Help, OnBad, ReadingOptions, takes

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


def may_repeat(table: BattleTable) -> bool:
    """Whether two rows of a table are equal in all that was read of them, or seem so by their hashes."""
    mixed = np.zeros(len(table), dtype=np.uint64)
    keys: list[NDArray[Any]] = [table.model_a, table.model_b, table.outcome, table.source, _bits(table.weight)]
    keys += [column.codes if isinstance(column, Codes) else _bits(column) for column in table.columns.values()]
    if table.score_a is not None:
        keys.append(_bits(table.score_a))
    for key in keys:
        mixed ^= key.astype(np.int64, copy=False).view(np.uint64)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    mixed.sort()
    return bool((mixed[1:] == mixed[:-1]).any())


def _bits(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.ascontiguousarray(numbers).view(np.int64)


SMALL_BYTES = 1 << 18
"""Up to this size a text file is read before DuckDB would have started: 2 ms against 70 for twenty rows."""


MANY_ROWS = 200_000
"""After so many rows the memory that DuckDB took is given back, though starting it again takes thirty milliseconds."""


class RowSource:
    """Rows of one shape that are read together."""

    def __init__(self, name: str, layout: Layout) -> None:
        check_condition(layout)
        self.name = name
        self.layout = layout

    def fast(self) -> BattleTable | None:
        """The battles by one pass of DuckDB, bad rows left out and counted; None when DuckDB cannot read them."""
        import duckdb

        try:
            settled = self.settled()
        except duckdb.Error as error:
            if isinstance(error, duckdb.ConversionException) and self.layout.where is not None:
                raise where_error(self.layout, error) from None
            return None
        counts = settled.counts()
        return replace(settled.table, skipped={reason.label: count for reason, count in counts.items()})

    def settled(self) -> Settled:
        """Every row after the rules, by one pass of DuckDB; with more memory and longer lines where it needs them."""
        import duckdb

        try:
            return self._settled(large_limits=False)
        except duckdb.Error as error:
            if not needs_large_limits(error):
                raise
        return self._settled(large_limits=True)

    def _settled(self, *, large_limits: bool) -> Settled:
        with self.rows(large_limits=large_limits) as (connection, rows):
            check_where(connection, rows, self.layout)
            batch = load(connection, rows, self.layout)
        if batch.n_rows >= MANY_ROWS:
            give_back_memory()
        return settle(batch, self.layout)

    def with_repeats(self, table: BattleTable) -> BattleTable:
        """The table with the number of rows that repeat another in every column of the source.

        They are counted where battles can be told apart, by prompt or time, but have no id; and only where some are
        equal in what was read of them, which few files have.
        """
        layout = self.layout
        told_apart = {"question_id", "timestamp"} & set(table.columns)
        has_id = layout.format.find("battle_id", layout.header) is not None
        if layout.counted or has_id or not told_apart or not may_repeat(table):
            return table
        return replace(table, repeated=self.count_repeats())

    def count_repeats(self) -> int:
        """How many rows repeat another in every column; none where DuckDB cannot read them."""
        import duckdb

        try:
            with self.whole_rows() as (connection, rows):
                return repeated_rows(connection, rows, self.layout)
        except duckdb.Error:
            return 0

    @contextmanager
    def rows(self, *, large_limits: bool = False) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The rows as SQL, with the connection that reads them; `large_limits` allows more memory and longer lines."""
        raise NotImplementedError

    @contextmanager
    def whole_rows(self) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The rows with every column of the source."""
        with self.rows(large_limits=True) as opened:
            yield opened

    def careful(self, bad_rows: BadRows, *, stop: bool) -> BattleTable:
        """The battles of the good rows; bad ones are counted in `bad_rows` and, with `stop`, the first is raised."""
        raise NotImplementedError


class TextFiles(RowSource):
    """Files of lines: JSON Lines, CSV, and JSON arrays."""

    def __init__(self, parts: Sequence[Part], header: Header, options: ReadOptions) -> None:
        super().__init__(_name(parts), make_layout(header, options, _name(parts)))
        self.parts = parts

    def fast(self) -> BattleTable | None:
        """The battles by one pass of DuckDB; None also for small files, which are read sooner line by line."""
        return None if self._reads_alike() and self._is_small() else super().fast()

    def _reads_alike(self) -> bool:
        """Whether both readers give the same table, down to the numbers of clusters, on which resamples depend."""
        nested = any(field.hashed and field.raw.holds == "nested" for field in self.layout.fields)
        return self.layout.where is None and not nested

    def _is_small(self) -> bool:
        if any(part.zipped for part in self.parts):
            return False
        return sum(part.path.stat().st_size for part in self.parts) <= SMALL_BYTES

    @contextmanager
    def rows(self, *, large_limits: bool = False) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The files as DuckDB reads them."""
        columns = [field.raw.top for field in self.layout.fields]
        if self.layout.where is not None:
            columns += self.layout.header.top_names
        longest = LONG_LINE_BYTES if large_limits else LINE_BYTES
        with session(large_limits=large_limits) as connection:
            texts = plain_texts(self.layout)
            yield connection, file_rows(self.parts, self.layout.header, columns, longest=longest, texts=texts)

    def count_repeats(self) -> int:
        """How many rows repeat another in every column; small files are read line by line for it, too."""
        if self._reads_alike() and self._is_small():
            return _equal_lines((line for part in self.parts for line in file_lines(part)), self.layout)
        return super().count_repeats()

    @contextmanager
    def whole_rows(self) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The files as DuckDB reads them, with every column."""
        columns = [field.raw.top for field in self.layout.fields] + list(self.layout.header.top_names)
        with session(large_limits=True) as connection:
            yield connection, file_rows(self.parts, self.layout.header, columns, longest=LONG_LINE_BYTES)

    def careful(self, bad_rows: BadRows, *, stop: bool) -> BattleTable:
        """The battles, line by line."""
        lines = (line for part in self.parts for line in file_lines(part))
        return read_carefully(lines, self.layout, _raise if stop else None, bad_rows)


class ParquetFiles(RowSource):
    """Parquet files, scanned in place."""

    def __init__(self, parts: Sequence[Part], header: Header, options: ReadOptions) -> None:
        super().__init__(_name(parts), make_layout(header, options, _name(parts)))
        self.parts = parts

    @contextmanager
    def rows(self, *, large_limits: bool = False) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The files as DuckDB reads them."""
        with session(large_limits=large_limits) as connection:
            yield connection, file_rows(self.parts, self.layout.header, ())

    def careful(self, bad_rows: BadRows, *, stop: bool) -> BattleTable:
        """The battles, file by file, with the rows numbered."""
        tables = []
        for part in self.parts:
            with session(large_limits=True) as connection:
                rows = file_rows([part], self.layout.header, ())
                tables.append(locate(connection, rows, self.layout, part.name, _raise if stop else None, bad_rows))
        return concat(tables)


class Frame(RowSource):
    """A table of another library, given to DuckDB as it is or, where that is not possible, as a Parquet file."""

    def __init__(self, data: Any, options: ReadOptions) -> None:
        self.held = reusable(data)
        path = self.held.path
        self.sql = "frame" if path is None else f"read_parquet({literal(str(path))})"
        with self._shared(large_limits=False) as connection:
            header = _described(connection, self.sql)
        super().__init__("the frame", make_layout(header, options, "the frame"))

    @contextmanager
    def _shared(self, *, large_limits: bool) -> Iterator[DuckDBPyConnection]:
        with session(large_limits=large_limits) as connection:
            if self.held.path is None:
                connection.register("frame", self.held.shared)
            yield connection

    @contextmanager
    def rows(self, *, large_limits: bool = False) -> Iterator[tuple[DuckDBPyConnection, Rows]]:
        """The frame as DuckDB reads it."""
        with self._shared(large_limits=large_limits) as connection:
            yield connection, Rows(self.sql, self.layout.header)

    def careful(self, bad_rows: BadRows, *, stop: bool) -> BattleTable:
        """The battles, with the rows numbered."""
        with self.rows(large_limits=True) as (connection, rows):
            return locate(connection, rows, self.layout, self.name, _raise if stop else None, bad_rows)


class PythonRows(RowSource):
    """Battles or dicts that are in memory already."""

    def __init__(self, rows: Iterable[Battle | Mapping[str, Any]], options: ReadOptions) -> None:
        self.objects = [row.to_dict() if isinstance(row, Battle) else row for row in rows]
        if not self.objects:
            raise NoBattles("there are no battles to read: the list is empty.")
        header = header_of_rows((row for row in self.objects if isinstance(row, Mapping)), "json")
        super().__init__("the rows", make_layout(header, options, "the rows"))

    def fast(self) -> BattleTable | None:
        """None: the rows are Python objects, so reading them one by one is the way."""
        return None

    def count_repeats(self) -> int:
        """How many rows repeat another in every key."""
        return _equal_lines(row_lines(self.objects), self.layout)

    def careful(self, bad_rows: BadRows, *, stop: bool) -> BattleTable:
        """The battles, row by row."""
        return read_carefully(row_lines(self.objects), self.layout, _raise if stop else None, bad_rows)


class LogFiles(RowSource):
    """Logs of another tool: scored answers of several models, or judgments, as battle rows."""

    def __init__(self, tool: str, parts: Sequence[Part], options: ReadOptions) -> None:
        logged = read_logs(tool, parts, check_tie_band(options.tie_band))
        self.lines, self.unpaired = logged.rows, logged.unpaired
        header = header_of_rows((line.row for line in self.lines if line.fault is None), "json")
        check_mapped(options.map, header, _name(parts))
        layout = make_layout(header, options, _name(parts), LOG_FORMATS[tool].mapped(options.map))
        super().__init__(_name(parts), layout)

    def fast(self) -> BattleTable | None:
        """None: the rows are Python objects, so reading them one by one is the way."""
        return None

    def count_repeats(self) -> int:
        """None: battles are made of the answers of a log, which may well be equal."""
        return 0

    def careful(self, bad_rows: BadRows, *, stop: bool) -> BattleTable:
        """The battles, with the answers counted that have no other to be compared with."""
        table = read_carefully(self.lines, self.layout, _raise if stop else None, bad_rows)
        return replace(table, skipped={**table.skipped, **({UNPAIRED: self.unpaired} if self.unpaired else {})})


def find_sources(data: Any, options: ReadOptions) -> list[RowSource]:
    """The sources in some data, in order; files of one kind and format are one source, and logs of one tool are."""
    sources = _sources(data, options)
    if options.tie_band is not None and not any(isinstance(source, LogFiles) for source in sources):
        raise OptionError("tie_band is about logs with scores, and there is none: these battles have outcomes already.")
    return sources


def _sources(data: Any, options: ReadOptions) -> list[RowSource]:
    if isinstance(data, str | Path):
        return _file_sources(find_parts(data), options)
    if is_frame(data):
        return [Frame(data, options)]
    if isinstance(data, Mapping) or not isinstance(data, Iterable):
        raise BattleError(f"battles cannot be read from a {type(data).__name__}. Give a path, a frame, or rows.")
    items = list(data)
    if items and all(isinstance(item, str | Path) for item in items):
        return _file_sources(find_parts(items), options)
    return [PythonRows(items, options)]


def _file_sources(parts: Sequence[Part], options: ReadOptions) -> list[RowSource]:
    logs, parts = _logs_apart(parts, options)
    if logs and (parts or len(logs) > 1):
        options = options.with_texts()
    sources: list[RowSource] = [LogFiles(tool, files, options) for tool, files in logs.items()]
    return sources + _row_sources(parts, options) if parts else sources


def _logs_apart(parts: Sequence[Part], options: ReadOptions) -> tuple[dict[str, list[Part]], list[Part]]:
    if options.format != "auto" and options.format not in LOG_FORMATS:
        return {}, list(parts)
    logs: dict[str, list[Part]] = {}
    others: list[Part] = []
    summaries: list[Part] = []
    for part in parts:
        tool = recognise_log(part)
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


def _row_sources(parts: Sequence[Part], options: ReadOptions) -> list[RowSource]:
    typed = _parquet_headers([part for part in parts if part.kind is FileKind.PARQUET])
    headers = [typed.get(part) or file_header(part) for part in parts]
    shapes = []
    for part, header in zip(parts, headers, strict=True):
        spelling = choose_format(header, options, part.name)
        names = () if part.kind.is_json or part.kind is FileKind.PARQUET else header.top_names
        shapes.append((part.kind, part.zipped, spelling.name, spelling.required, names))
    shaped = zip(shapes, parts, headers, strict=True)
    groups = [list(zip(*run, strict=True)) for _, run in groupby(shaped, key=lambda item: item[0])]
    if len(groups) > 1:
        options = options.with_texts()
    sources: list[RowSource] = []
    for _, group, seen in groups:
        kind = ParquetFiles if group[0].kind is FileKind.PARQUET else TextFiles
        sources.append(kind(group, merged_header(seen), options))
    return sources


def _parquet_headers(parts: Sequence[Part]) -> dict[Part, Header]:
    if not parts:
        return {}
    import duckdb

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
    header = typed_header(described, inside)
    texts = [name for name in header.top_names if header.columns[name].holds == "text"]
    if not texts or any(known.fits(header) for known in FORMATS):
        return header
    few = connection.execute(f"SELECT {', '.join(map(identifier, texts))} FROM {sql} LIMIT {SEEN_ROWS}").fetchall()
    return replace(header, sample=tuple(dict(zip(texts, row, strict=True)) for row in few))


def _equal_lines(lines: Iterable[RawRow], layout: Layout) -> int:
    """How many of the lines that `where` keeps repeat another in everything."""
    read = [line for line in lines if line.fault is None]
    if layout.where is not None:
        kept = kept_by_where(read, layout)
        read = [line for line in read if id(line) in kept]
    encode = msgspec.json.Encoder(enc_hook=str, order="sorted").encode
    return len(read) - len({encode(line.row) for line in read})


def _name(parts: Sequence[Part]) -> str:
    return parts[0].name if len(parts) == 1 else f"{parts[0].name} and {len(parts) - 1} more"


def _raise(problem: RowProblem) -> None:
    raise problem.error()


BattleData = PathLike | Iterable[PathLike] | BattleTable | Iterable[Battle | Mapping[str, Any]] | Any
"""Anything battles can be read from: see `read_battles`."""


@dataclass(frozen=True, kw_only=True)
class ReadBattlesOptions(ReadingOptions):
    """Options of `read_battles`."""

    columns: Annotated[
        Collection[str] | None, Help("The optional columns to keep.", default="all that are known, and control pairs")
    ] = None
    counted: Annotated[bool, Help("Merge equal rows and add their weights, while reading.")] = False
    hashed: Annotated[
        Collection[str],
        Help("Text columns that keep only which rows share a value (four bytes a row), not the texts."),
    ] = ()
    numbers: Annotated[Collection[str], Help("Columns that must hold numbers: a text in one is a bad row.")] = ()


@takes(ReadBattlesOptions)
def read_battles(data: BattleData, options: ReadBattlesOptions) -> BattleTable:
    """The battles of a file, of several, or of a table in memory.

    Files are JSON Lines, CSV, TSV (each also gzipped), a JSON array, or Parquet. A bad row is a `BadRow` error, or with
    `on_bad="skip"` left out and counted in the table's `skipped`.

    Parameters:
        data: A path, a list of paths, a folder, a glob, "-" (standard input), a pandas or polars frame, an Arrow
            table, a DuckDB relation, an iterable of `Battle` or of dicts, or a `BattleTable` (returned as it is).
    """
    if isinstance(data, BattleTable):
        if options.map or options.tie_band is not None:
            raise OptionError("map and tie_band say how a source is read; a BattleTable has been read already.")
        return data
    sources = find_sources(data, make_options(options))
    tables = [_read(source, options.on_bad) for source in sources]
    table = tables[0] if len(tables) == 1 else concat(tables)
    if not len(table):
        raise _nothing(sources[0], table)
    return merge_equal(table) if options.counted else table


@dataclass(frozen=True, slots=True)
class Peek:
    """What a source of battles looks like: its format, our optional columns in it, and its own columns."""

    format: str
    columns: tuple[str, ...]
    raw_columns: tuple[str, ...]


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
    if isinstance(data, BattleTable):
        return Peek("tiltyard", tuple(data.columns), ("model_a", "model_b", "winner", "source", *data.columns))
    options = make_options(ReadBattlesOptions(format=format, default_source=default_source, map=map))
    return peek_headers((source.layout.format, source.layout.header) for source in find_sources(data, options))


def peek_headers(seen: Iterable[tuple[Format, Header]]) -> Peek:
    """What sources of these formats and headers look like together."""
    names: list[str] = []
    columns: list[str] = []
    raw: list[str] = []
    for spelling, header in seen:
        names.append(spelling.name)
        columns += present_columns(header, spelling)
        raw += header.top_names
    return Peek(" + ".join(dict.fromkeys(names)), tuple(dict.fromkeys(columns)), tuple(dict.fromkeys(raw)))


def available_columns(data: BattleData, format: str = "auto") -> tuple[str, ...]:
    """Our optional columns that a source has, in a fixed order, without reading it through.

    Parameters:
        data: Where the battles are; see `read_battles`.
        format: The format of the battles; `auto` recognises it by the header.
    """
    return peek(data, format).columns


@dataclass(frozen=True, kw_only=True)
class ProblemOptions(ReadingOptions):
    """Options of `find_problems`."""

    examples_each: Annotated[int, Help("How many rows to keep of each kind of problem.")] = 3


@takes(ProblemOptions)
def find_problems(data: BattleData, options: ProblemOptions) -> tuple[float, BadRows]:
    """How many battles a source holds, and its bad rows: counts by reason, the first few of each, and what else is odd.

    Parameters:
        data: Where the battles are; see `read_battles`.
    """
    bad_rows = BadRows(options.examples_each)
    battles = 0.0
    for source in find_sources(data, make_options(options.part(ReadBattlesOptions))):
        table = source.fast()
        if table is None or table.skipped:
            table = source.careful(bad_rows, stop=False)
        bad_rows.odd += [odd for odd in oddities(source.with_repeats(table)) if odd not in bad_rows.odd]
        battles += table.n_battles
    return battles, bad_rows


def make_options(options: ReadBattlesOptions) -> ReadOptions:
    """What a caller asked for, checked."""
    if isinstance(options.columns, str) or isinstance(options.hashed, str):
        raise OptionError("columns and hashed are lists of column names, not one text")
    if options.format != "auto" and options.format not in formats.FORMAT_NAMES:
        known = ", ".join(formats.FORMAT_NAMES)
        raise OptionError(f"unknown format {options.format!r}: expected auto or one of {known}")
    return ReadOptions(
        format=options.format,
        columns=None if options.columns is None else tuple(options.columns),
        where=options.where or None,
        default_source=None if options.default_source is None else Source.from_label(options.default_source),
        counted=options.counted,
        hashed=frozenset(options.hashed),
        numbers=frozenset(options.numbers),
        map=read_map(options.map),
        tie_band=options.tie_band,
    )


def _read(source: RowSource, on_bad: OnBad) -> BattleTable:
    table = source.fast()
    if table is None or (table.skipped and on_bad == "error"):
        table = source.careful(BadRows(examples_each=0), stop=on_bad == "error")
    return source.with_repeats(table)


def _nothing(source: RowSource, table: BattleTable) -> NoBattles:
    if table.skipped:
        why = ", ".join(f"{count} × {reason}" for reason, count in table.skipped.items())
        return NoBattles(
            f"{source.name}: no row is a battle, all were skipped ({why}). Check the format (",
            OptionValue("format"),
            ").",
        )
    if source.layout.where is not None:
        return NoBattles(f"{source.name}: no row satisfies ", OptionValue("where", source.layout.where), ". Loosen it.")
    return NoBattles(f"{source.name} has no battle, only a header. Check what wrote it.")
