"""Reading battles: `read_battles`, from any source, as a `BattleTable`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from tiltyard.battles import formats
from tiltyard.battles.battle import Battle
from tiltyard.battles.formats import Format
from tiltyard.battles.headers import Header
from tiltyard.battles.inputs import PathLike
from tiltyard.battles.layout import ReadOptions, present_columns
from tiltyard.battles.mapping import read_map
from tiltyard.battles.oddities import oddities
from tiltyard.battles.outcome import Source
from tiltyard.battles.problems import BadRows
from tiltyard.battles.sources import RowSource, find_sources
from tiltyard.battles.table import BattleTable, concat, merge_equal
from tiltyard.errors import BattleError, NoBattles, OptionError

BattleData = PathLike | Iterable[PathLike] | BattleTable | Iterable[Battle | Mapping[str, Any]] | Any
"""Anything battles can be read from: see `read_battles`."""
OnBad = Literal["error", "skip"]
"""`error` or `skip`."""


def read_battles(
    data: BattleData,
    *,
    format: str = "auto",
    columns: Collection[str] | None = None,
    where: str | None = None,
    default_source: str | Source | None = None,
    on_bad: OnBad = "error",
    counted: bool = False,
    hashed: Collection[str] = (),
    numbers: Collection[str] = (),
    map: Mapping[str, str] | None = None,
    tie_band: float | None = None,
) -> BattleTable:
    """The battles of a file, of several, or of a table in memory.

    Files are JSON Lines, CSV, TSV (each also gzipped), a JSON array, or Parquet.

    A bad row is a `BadRow` error, or with `on_bad="skip"` left out and counted in the table's `skipped`. With
    `counted`, equal rows are merged and their weights added, while reading. Text columns named in `hashed` keep only
    which rows share a value (four bytes a row), not the texts. Columns named in `numbers` must hold numbers: a text in
    one is a bad row.

    Parameters:
        data: A path, a list of paths, a folder, a glob, "-" (standard input), a pandas or polars frame, an Arrow
            table, a DuckDB relation, an iterable of `Battle` or of dicts, or a `BattleTable` (returned as it is).
        format: The name of a foreign format; `auto` recognises it by the header.
        columns: The optional columns to keep (None: all that are known, and the control pairs).
        where: A DuckDB expression over the source's own columns.
        default_source: Who decided where a row does not say: `human` or `llm-judge`.
        on_bad: `error` stops at the first bad row, `skip` leaves bad rows out and counts them.
        counted: Whether equal rows are merged and their weights added while reading.
        hashed: Text columns that keep only which rows share a value (four bytes a row), not the texts.
        numbers: Columns that must hold numbers: a text in one is a bad row.
        map: Columns under other names, ours first: `{"winner": "choice", "prompt": "question"}`.
            `{"winner:0": "model_b"}` says what a word in the winner's column means.
        tie_band: For logs with scores: a tie is a difference of scores that is not larger. By default only equal
            scores tie.
    """
    if isinstance(data, BattleTable):
        if map or tie_band is not None:
            raise OptionError("map and tie_band say how a source is read; a BattleTable has been read already.")
        return data
    if on_bad not in ("error", "skip"):
        raise OptionError(f"unknown on_bad {on_bad!r}: expected error or skip")
    options = make_options(format, columns, where, default_source, counted, hashed, map)
    options = replace(options, numbers=frozenset(numbers), tie_band=tie_band)
    sources = find_sources(data, options)
    tables = [_read(source, on_bad) for source in sources]
    table = tables[0] if len(tables) == 1 else concat(tables)
    if not len(table):
        raise _nothing(sources[0], table)
    return merge_equal(table) if counted else table


@dataclass(frozen=True, slots=True)
class Peek:
    """What a source of battles looks like: its format, our optional columns in it, and its own columns."""

    format: str
    columns: tuple[str, ...]
    raw_columns: tuple[str, ...]


def peek(
    data: BattleData,
    format: str = "auto",
    default_source: str | Source | None = None,
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
    options = make_options(format, None, None, default_source, False, (), map)
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


def find_problems(
    data: BattleData,
    *,
    format: str = "auto",
    where: str | None = None,
    default_source: str | Source | None = None,
    examples_each: int = 3,
    map: Mapping[str, str] | None = None,
    tie_band: float | None = None,
) -> tuple[float, BadRows]:
    """How many battles a source holds, and its bad rows: counts by reason, the first few of each, and what else is odd.

    Parameters:
        data: Where the battles are; see `read_battles`.
        format: The format of the battles; `auto` recognises it by the header.
        where: A DuckDB expression over the source's own columns; only rows that satisfy it are read.
        default_source: Who decided where a row does not say: `human` or `llm-judge`.
        examples_each: How many rows to keep of each kind of problem.
        map: Columns under other names, ours first; see `read_battles`.
        tie_band: For logs with scores: a tie is a difference of scores that is not larger.
    """
    bad_rows = BadRows(examples_each)
    battles = 0.0
    options = make_options(format, None, where, default_source, False, (), map)
    for source in find_sources(data, replace(options, tie_band=tie_band)):
        table = source.fast()
        if table is None or table.skipped:
            table = source.careful(bad_rows, stop=False)
        bad_rows.odd += [odd for odd in oddities(source.with_repeats(table)) if odd not in bad_rows.odd]
        battles += table.n_battles
    return battles, bad_rows


def make_options(
    spelling: str,
    columns: Collection[str] | None,
    where: str | None,
    default_source: str | Source | None,
    counted: bool,
    hashed: Collection[str],
    map: Mapping[str, str] | None = None,
) -> ReadOptions:
    """What a caller asked for, checked."""
    if isinstance(columns, str) or isinstance(hashed, str):
        raise OptionError("columns and hashed are lists of column names, not one text")
    if spelling != "auto" and spelling not in formats.FORMAT_NAMES:
        raise OptionError(f"unknown format {spelling!r}: expected auto or one of {', '.join(formats.FORMAT_NAMES)}")
    source = default_source
    if isinstance(source, str):
        try:
            source = Source.from_label(source)
        except BattleError as error:
            raise OptionError(f"default_source: {error}") from None
    kept = None if columns is None else tuple(columns)
    return ReadOptions(spelling, kept, where or None, source, counted, frozenset(hashed), map=read_map(map))


def _read(source: RowSource, on_bad: OnBad) -> BattleTable:
    """The battles of one source: by the fast reader, else by the careful one."""
    table = source.fast()
    if table is None or (table.skipped and on_bad == "error"):
        table = source.careful(BadRows(examples_each=0), stop=on_bad == "error")
    return source.with_repeats(table)


def _nothing(source: RowSource, table: BattleTable) -> NoBattles:
    if table.skipped:
        why = ", ".join(f"{count} × {reason}" for reason, count in table.skipped.items())
        return NoBattles(f"{source.name}: no row is a battle, all were skipped ({why}). Check the format (format=...).")
    if source.layout.where is not None:
        return NoBattles(f"{source.name}: no row satisfies where={source.layout.where!r}. Loosen it.")
    return NoBattles(f"{source.name} has no battle, only a header. Check what wrote it.")
