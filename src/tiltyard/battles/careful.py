"""The careful reader: row by row, so that a bad row can be named.

It is used where the fast reader found something wrong or could not read at all, and for rows that are Python objects
already. It applies the same rules (`settle`), a batch of rows at a time. `locate` does the same for typed sources
(Parquet, a frame), whose rows have numbers but no lines.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tiltyard.battles.fast import load, session, where_error
from tiltyard.battles.headers import delimiter, is_text
from tiltyard.battles.inputs import DAMAGED, UTF_8_MARK, FileKind, Part
from tiltyard.battles.layout import STRICT_NUMBERS, Field, FieldKind, Layout, read_label, read_number, read_time
from tiltyard.battles.problems import BadRows, RowProblem, explain, shown, value_of
from tiltyard.battles.query import Rows, filtered, identifier, literal
from tiltyard.battles.settle import LabelColumn, RawBatch, Reason, settle
from tiltyard.battles.table import MISSING, BattleTable, Hashes, concat, hash_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH_ROWS = 20_000


ROW = "number of the row"


csv.field_size_limit(1 << 28)


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row as it was read: where it is, and its values by column; or why it cannot be read."""

    where: str
    row: Mapping[str, Any]
    fault: Reason | None = None
    detail: str = ""


OnProblem = Callable[[RowProblem], None]


def read_carefully(
    lines: Iterable[RawRow], layout: Layout, on_problem: OnProblem | None, bad_rows: BadRows
) -> BattleTable:
    """The battles of the good rows. Bad rows are counted in `bad_rows`; `on_problem` is called with each, in order."""
    tables = []
    stream = iter(lines)
    while batch := list(islice(stream, BATCH_ROWS)):
        good = [line for line in batch if line.fault is None]
        if layout.where is not None and good:
            kept = kept_by_where(good, layout)
            batch = [line for line in batch if line.fault is not None or id(line) in kept]
            good = [line for line in batch if line.fault is None]
        settled = settle(raw_batch([line.row for line in good], layout), layout)
        tables.append(settled.table)
        reasons = iter(settled.reasons.tolist())
        for line in batch:
            reason = Reason(next(reasons)) if line.fault is None else line.fault
            if reason is not Reason.FINE:
                _report(line, reason, layout, on_problem, bad_rows)
    table = concat(tables) if tables else settle(raw_batch([], layout), layout).table
    return replace(table, skipped=bad_rows.skipped)


def _report(line: RawRow, reason: Reason, layout: Layout, on_problem: OnProblem | None, bad_rows: BadRows) -> None:
    bad_rows.count(reason)
    if on_problem is None and not bad_rows.wants(reason):
        return
    problem = RowProblem(reason, line.where, line.detail or explain(reason, line.row, layout))
    if bad_rows.wants(reason):
        bad_rows.add(problem)
    if on_problem is not None:
        on_problem(problem)


def raw_batch(rows: list[Mapping[str, Any]], layout: Layout) -> RawBatch:
    """Rows as raw columns."""
    from_text = layout.header.cells == "text"
    labels = {item.name: _label_column(rows, item) for item in layout.labels}
    numbers = {}
    for item in layout.numbers:
        values = (value_of(row, item) for row in rows)
        if item.kind is FieldKind.TIME:
            read = [read_time(value, from_text=from_text) for value in values]
        else:
            strict = item.name in STRICT_NUMBERS
            read = [read_number(value, from_text=from_text, strict=strict) for value in values]
        numbers[item.name] = np.array(read, dtype=np.float64)
    hashes = {item.name: _hashes(labels[item.name], item) for item in layout.labels if item.hashed}
    return RawBatch(len(rows), labels, numbers, hashes)


def _label_column(rows: list[Mapping[str, Any]], item: Field) -> LabelColumn:
    """The distinct readings of a field, and their codes; what cannot be read keeps its value, to be found wrong."""
    place: dict[object, int] = {}
    values: list[object] = []
    codes = np.empty(len(rows), dtype=np.int32)
    for at, row in enumerate(rows):
        value = value_of(row, item)
        reading = read_label(value, item.kind)
        if reading is None:
            codes[at] = MISSING
            continue
        if reading not in place:
            place[reading] = len(values)
            values.append(value)
        codes[at] = place[reading]
    return LabelColumn(codes, values)


def _hashes(column: LabelColumn, item: Field) -> Hashes:
    """The hashes of a column's texts, 0 for missing ones."""
    texts = [read_label(value, item.kind) for value in column.values]
    known = [hash_text(text) if isinstance(text, str) else 0 for text in texts]
    hashes: Hashes = np.array([*known, 0], dtype=np.uint64)[column.codes]
    return hashes


def kept_by_where(lines: list[RawRow], layout: Layout) -> set[int]:
    """The ids of the lines that satisfy the `where` expression; DuckDB decides, on the rows written out as JSON."""
    import duckdb

    names = layout.header.top_names
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as folder, session() as connection:
        path = Path(folder) / "rows.jsonl"
        rows = ({ROW: at} | {name: line.row.get(name) for name in names} for at, line in enumerate(lines))
        path.write_bytes(msgspec.json.Encoder(enc_hook=str).encode_lines(rows))
        declared = ", ".join(f"{literal(name)}: 'JSON'" for name in names)
        sql = (
            f"read_json({literal(str(path))}, format = 'newline_delimited', records = true, "
            f"columns = {{{literal(ROW)}: 'INTEGER', {declared}}})"
        )
        header = replace(layout.header, cells="json")
        source = filtered(Rows(sql, header), replace(layout, header=header), extra=ROW)
        try:
            kept = connection.execute(f'SELECT "{ROW}" FROM {source}').fetchall()
        except duckdb.Error as error:
            raise where_error(layout, error) from None
    return {id(lines[at]) for (at,) in kept}


def file_lines(part: Part) -> Iterator[RawRow]:
    """The rows of a text file, with the place of each as `file:line`; a zipped one that is cut off ends in a fault."""
    read = {FileKind.JSONL: _json_lines, FileKind.JSON_ARRAY: _json_array}.get(part.kind, _csv_lines)
    try:
        yield from read(part)
    except DAMAGED as error:
        yield RawRow(part.name, {}, Reason.BROKEN_LINE, f"the rest of the file cannot be unzipped ({error})")


def row_lines(rows: Iterable[object]) -> Iterator[RawRow]:
    """Rows that are Python objects, with the place of each as `row N`."""
    for number, row in enumerate(rows, start=1):
        where = f"row {number}"
        if isinstance(row, Mapping):
            yield RawRow(where, row)
        else:
            yield RawRow(where, {}, Reason.BROKEN_LINE, f"{shown(row)} is not a battle or a mapping")


def _json_lines(part: Part) -> Iterator[RawRow]:
    decode = msgspec.json.Decoder().decode
    with part.open() as file:
        for number, line in enumerate(file, start=1):
            text = line.removeprefix(UTF_8_MARK) if number == 1 else line
            if text.isspace():
                continue
            where = f"{part.name}:{number}"
            try:
                row = decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                yield _unreadable(where, text, error)
                continue
            yield _line(where, row)


def _json_array(part: Part) -> Iterator[RawRow]:
    with part.open() as file:
        rows = msgspec.json.decode(file.read().removeprefix(UTF_8_MARK))
    for number, row in enumerate(rows, start=1):
        yield _line(f"{part.name}: row {number}", row)


def _line(where: str, row: object) -> RawRow:
    if isinstance(row, dict):
        return RawRow(where, row)
    return RawRow(where, {}, Reason.BROKEN_LINE, f"{shown(row)} is not a JSON object")


def _unreadable(where: str, text: bytes, error: Exception) -> RawRow:
    try:
        seen = text.decode().strip()
    except UnicodeDecodeError as broken:
        return RawRow(where, {}, Reason.NOT_UTF8, f"byte {text[broken.start]:#04x} at position {broken.start + 1}")
    return RawRow(where, {}, Reason.BROKEN_LINE, f"{shown(seen)} is not JSON ({error})")


def _csv_lines(part: Part) -> Iterator[RawRow]:
    """CSV rows; bytes that are not UTF-8 are carried through as lone surrogates and found row by row."""
    with part.open() as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        reader = csv.reader(text, delimiter=delimiter(part.kind), strict=True)
        names = next(row for row in reader if row)
        while True:
            where = f"{part.name}:{reader.line_num + 1}"
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield RawRow(where, {}, Reason.BROKEN_LINE, f"{error}")
                continue
            if cells is None:
                return
            if cells:
                yield _csv_line(where, names, cells)


def _csv_line(where: str, names: list[str], cells: list[str]) -> RawRow:
    if len(cells) != len(names):
        detail = f"{len(cells)} where the header has {len(names)}: {shown(','.join(cells))}"
        return RawRow(where, {}, Reason.WRONG_LENGTH, detail)
    odd = next((cell for cell in cells if not cell.isascii() and not is_text(cell)), None)
    if odd is not None:
        return RawRow(where, {}, Reason.NOT_UTF8, f"{odd.encode(errors='surrogateescape')!r}")
    return RawRow(where, {name: cell or None for name, cell in zip(names, cells, strict=True)})


def locate(
    connection: DuckDBPyConnection,
    rows: Rows,
    layout: Layout,
    name: str,
    on_problem: OnProblem | None,
    bad_rows: BadRows,
) -> BattleTable:
    """The battles of the good rows; of the bad ones, the counts and the first few by number and value."""
    layout = layout.without_merging()
    numbered = replace(rows, sql=f"(SELECT *, row_number() OVER () AS {identifier(ROW)} FROM {rows.sql})")
    settled = settle(load(connection, numbered, layout), layout)
    for reason, count in settled.counts().items():
        bad_rows.count(reason, count)
    bad = np.flatnonzero(settled.reasons)
    if len(bad):
        query = f"SELECT {identifier(ROW)} AS n FROM {filtered(numbered, layout)}"
        numbers = np.asarray(connection.execute(query).fetchnumpy()["n"]).tolist()
        chosen = bad[:1] if on_problem is not None else _first_few(settled.reasons, bad_rows)
        for at in chosen:
            reason = Reason(int(settled.reasons[at]))
            detail = explain(reason, _row(connection, numbered, layout, numbers[at]), layout)
            problem = RowProblem(reason, f"{name}: row {numbers[at]}", detail)
            bad_rows.add(problem)
            if on_problem is not None:
                on_problem(problem)
    return replace(settled.table, skipped=bad_rows.skipped)


def _first_few(reasons: np.ndarray[Any, np.dtype[np.int8]], bad_rows: BadRows) -> list[int]:
    chosen: list[int] = []
    for reason in Reason:
        if reason is not Reason.FINE:
            room = bad_rows.examples_each - len(bad_rows.examples.get(reason, ()))
            chosen += np.flatnonzero(reasons == reason)[: max(room, 0)].tolist()
    return sorted(chosen)


def _row(connection: DuckDBPyConnection, rows: Rows, layout: Layout, number: int) -> dict[str, Any]:
    """One row by its number, as Python values under the source's own column names."""
    names = list(dict.fromkeys(field.raw.top for field in layout.fields))
    values = ", ".join(f"to_json({identifier(name)})" for name in names)
    found = connection.execute(f"SELECT {values} FROM {rows.sql} WHERE {identifier(ROW)} = {number}").fetchone()
    return {name: _value(value) for name, value in zip(names, found or (), strict=False)}


def _value(text: str | None) -> object:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return float("nan")
