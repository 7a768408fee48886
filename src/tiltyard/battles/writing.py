"""Writing battles: `write_battles` to a file, whole or not at all, and `battles_to_frame` to a dataframe."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import numpy as np

from tiltyard.battles.battle import FLAGS, Battle
from tiltyard.battles.fast import session
from tiltyard.battles.frames import Array, Unfolded, columns_to_frame, frame_columns
from tiltyard.battles.headers import delimiter
from tiltyard.battles.inputs import KNOWN_SUFFIXES, FileKind, PathLike, suffix_kind
from tiltyard.battles.query import literal
from tiltyard.battles.reading import read_battles
from tiltyard.battles.table import BattleTable, Codes
from tiltyard.errors import BattleError
from tiltyard.files import escape_line_ends, whole_file

CHUNK_ROWS = 50_000

Battles = BattleTable | Iterable[Battle | Mapping[str, Any]]
"""A `BattleTable`, or an iterable of `Battle` or of dicts."""


def write_battles(path: PathLike, battles: Battles) -> int:
    """Write battles as rows of our own format and say how many rows were written.

    The file's name says how: `.jsonl`, `.csv` or `.tsv` (each also `.gz`), or `.parquet`. The file appears when it is
    complete, under its own name; until then any older file stays as it was.

    Parameters:
        path: Where to; the name says how (`.jsonl`, `.csv`, `.tsv`, each also `.gz`, or `.parquet`).
        battles: A table, or an iterable of `Battle` or of dicts.
    """
    kind, zipped = kind_to_write(path)
    table = as_table(battles)
    try:
        with whole_file(Path(path)) as unfinished:
            if kind is FileKind.PARQUET:
                _write_parquet(unfinished, table)
            else:
                with _opened(unfinished, zipped) as stream:
                    write_lines(stream, table, kind)
    except OSError as error:
        raise BattleError(f"cannot write {path}: {error.strerror or error}. Check the folder and its rights.") from None
    return len(table)


def kind_to_write(path: PathLike) -> tuple[FileKind, bool]:
    """How a file of this name is written, and whether it is gzipped; other names are refused."""
    kind, zipped = suffix_kind(path)
    if kind is None or Path(path).name.lower().removesuffix(".gz").endswith(".json"):
        raise BattleError(f"cannot tell how to write {path}. End its name in {KNOWN_SUFFIXES.replace('.json, ', '')}.")
    if kind is FileKind.PARQUET and zipped:
        raise BattleError(f"{path}: a Parquet file is packed already. Drop the .gz.")
    return kind, zipped


def as_table(battles: Battles) -> BattleTable:
    """The battles as a table; an empty one for no battles."""
    if isinstance(battles, BattleTable):
        return battles
    rows = list(battles)
    return read_battles(rows) if rows else _empty()


def write_lines(stream: BinaryIO, table: BattleTable, kind: FileKind = FileKind.JSONL) -> None:
    """Write a table to a stream as JSON Lines, CSV or TSV."""
    if kind is FileKind.JSONL:
        encoder = msgspec.json.Encoder()
        for rows in _row_chunks(table):
            stream.write(escape_line_ends(encoder.encode_lines(rows)))
        return
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    unfolded = Unfolded(table)
    # The csv module leaves a lone carriage return unquoted, though readers take it for the end of a line.
    odd = any("\r" in text for texts in unfolded.texts.values() for text in texts if text)
    writer = csv.DictWriter(
        text,
        list(unfolded.columns(slice(0, 0))),
        delimiter=delimiter(kind),
        lineterminator="\n",
        quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL,
    )
    writer.writeheader()
    for rows in _row_chunks(table):
        writer.writerows(rows)
    text.detach()


def _row_chunks(table: BattleTable) -> Iterator[list[dict[str, Any]]]:
    """The rows as dicts that hold only what is not missing, a stretch at a time."""
    unfolded = Unfolded(table)
    for start in range(0, len(table), CHUNK_ROWS):
        columns = unfolded.columns(slice(start, start + CHUNK_ROWS))
        values = [_plain_values(column) for column in columns.values()]
        yield [
            {name: value for name, value in zip(columns, row, strict=True) if value is not None}
            for row in zip(*values, strict=True)
        ]


def _plain_values(column: Array) -> list[Any]:
    """Python values: None for missing, whole numbers without a decimal point, false flags left out."""
    if column.dtype == bool:
        return [True if value else None for value in column.tolist()]
    values: list[Any] = column.tolist()
    if column.dtype != np.float64:
        return values
    return [None if value != value else int(value) if value.is_integer() else value for value in values]


def column_types(table: BattleTable) -> dict[str, str]:
    """The columns of a battle row that a table has, each with its type in Parquet: VARCHAR, DOUBLE or BOOLEAN."""
    columns = {"model_a": "VARCHAR", "model_b": "VARCHAR", "winner": "VARCHAR", "source": "VARCHAR"}
    for name in list(Unfolded(table).columns(slice(0, 0)))[4:]:
        is_text = isinstance(table.columns.get(name), Codes)
        columns[name] = "VARCHAR" if is_text else "BOOLEAN" if name in FLAGS else "DOUBLE"
    return columns


def _write_parquet(path: Path, table: BattleTable) -> None:
    """By way of JSON Lines, which DuckDB turns into Parquet in one stream."""
    columns = column_types(table)
    declared = ", ".join(f"{literal(name)}: '{sql_type}'" for name, sql_type in columns.items())
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as folder, session() as connection:
        lines = Path(folder) / "battles.jsonl"
        with lines.open("wb") as stream:
            write_lines(stream, table)
        source = f"read_json({literal(str(lines))}, format = 'newline_delimited', columns = {{{declared}}})"
        connection.execute(f"COPY (SELECT * FROM {source}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd)")


@contextmanager
def _opened(path: Path, zipped: bool) -> Iterator[BinaryIO]:
    with path.open("wb") as stream:
        if not zipped:
            yield stream
            return
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=6, mtime=0) as packed:
            yield cast("BinaryIO", packed)


def _empty() -> BattleTable:
    no_codes, no_bytes = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int8)
    return BattleTable((), no_codes, no_codes, no_bytes, no_bytes, np.zeros(0))


def battles_to_frame(battles: Battles) -> Any:
    """The battles with the columns of a battle row, as a frame of whatever library is installed.

    That is a pandas frame, else a polars frame, else an Arrow table, else a list of dictionaries. `rate` and
    `read_battles` take each of them.

    Parameters:
        battles: Battles: a table, or whatever `read_battles` takes.
    """
    return columns_to_frame(frame_columns(read_battles(battles)))
