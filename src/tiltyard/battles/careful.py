"""The careful reader: line by line, so that a bad row can be named.

It is used where the fast reader found something wrong or could not read at all, and for rows that are Python objects
already. It ends in the same rules (`settle`), a batch of rows at a time.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tiltyard.battles.cells import read_label, read_number, read_time
from tiltyard.battles.fast import session, where_error
from tiltyard.battles.headers import delimiter
from tiltyard.battles.inputs import DAMAGED, FileKind, Part
from tiltyard.battles.plan import STRICT_NUMBERS, Field, FieldKind, Plan
from tiltyard.battles.problems import Findings, Problem, explain, shown, value_of
from tiltyard.battles.query import Rows, filtered, literal
from tiltyard.battles.settle import LabelColumn, RawBatch, Reason, settle
from tiltyard.battles.table import MISSING, BattleTable, concat

BATCH_ROWS = 20_000
ROW = "number of the row"

csv.field_size_limit(1 << 28)


@dataclass(frozen=True, slots=True)
class Line:
    """One row as it stands: its place, and its values by column; or the fault that keeps it from being read."""

    where: str
    row: Mapping[str, Any]
    fault: Reason | None = None
    detail: str = ""


OnProblem = Callable[[Problem], None]


def read_carefully(lines: Iterable[Line], plan: Plan, on_problem: OnProblem | None, findings: Findings) -> BattleTable:
    """The battles of the good rows. Bad rows are counted in `findings`; `on_problem` is told of each, in order."""
    tables = []
    stream = iter(lines)
    while batch := list(islice(stream, BATCH_ROWS)):
        good = [line for line in batch if line.fault is None]
        if plan.where is not None and good:
            kept = _where(good, plan)
            batch = [line for line in batch if line.fault is not None or id(line) in kept]
            good = [line for line in batch if line.fault is None]
        settled = settle(raw_batch([line.row for line in good], plan), plan)
        tables.append(settled.table)
        reasons = iter(settled.reasons.tolist())
        for line in batch:
            reason = Reason(next(reasons)) if line.fault is None else line.fault
            if reason is not Reason.FINE:
                _report(line, reason, plan, on_problem, findings)
    table = concat(tables) if tables else settle(raw_batch([], plan), plan).table
    return replace(table, skipped=findings.skipped)


def _report(line: Line, reason: Reason, plan: Plan, on_problem: OnProblem | None, findings: Findings) -> None:
    findings.count(reason)
    if on_problem is None and not findings.wants(reason):
        return
    problem = Problem(reason, line.where, line.detail or explain(reason, line.row, plan))
    if findings.wants(reason):
        findings.add(problem)
    if on_problem is not None:
        on_problem(problem)


def raw_batch(rows: list[Mapping[str, Any]], plan: Plan) -> RawBatch:
    """Rows as raw columns."""
    from_text = plan.header.cells == "text"
    labels = {item.name: _label_column(rows, item) for item in plan.labels}
    numbers = {}
    for item in plan.numbers:
        values = (value_of(row, item) for row in rows)
        if item.kind is FieldKind.TIME:
            read = [read_time(value, from_text=from_text) for value in values]
        else:
            strict = item.name in STRICT_NUMBERS
            read = [read_number(value, from_text=from_text, strict=strict) for value in values]
        numbers[item.name] = np.array(read, dtype=np.float64)
    return RawBatch(len(rows), labels, numbers)


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


def _where(lines: list[Line], plan: Plan) -> set[int]:
    """The ids of the lines that satisfy the `where` expression; DuckDB decides, on the rows written out as JSON."""
    import duckdb

    names = plan.header.top_names
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as folder, session() as connection:
        path = Path(folder) / "rows.jsonl"
        rows = ({ROW: at} | {name: line.row.get(name) for name in names} for at, line in enumerate(lines))
        path.write_bytes(msgspec.json.Encoder(enc_hook=str).encode_lines(rows))
        declared = ", ".join(f"{literal(name)}: 'JSON'" for name in names)
        sql = (
            f"read_json({literal(str(path))}, format = 'newline_delimited', records = true, "
            f"columns = {{{literal(ROW)}: 'INTEGER', {declared}}})"
        )
        header = replace(plan.header, cells="json")
        source = filtered(Rows(sql, header), replace(plan, header=header), extra=ROW)
        try:
            kept = connection.execute(f'SELECT "{ROW}" FROM {source}').fetchall()
        except duckdb.Error as error:
            raise where_error(plan, error) from None
    return {id(lines[at]) for (at,) in kept}


def file_lines(part: Part) -> Iterator[Line]:
    """The rows of a text file, with the place of each as `file:line`; a zipped one that is cut off ends in a fault."""
    read = {FileKind.JSONL: _json_lines, FileKind.JSON_ARRAY: _json_array}.get(part.kind, _csv_lines)
    try:
        yield from read(part)
    except DAMAGED as error:
        yield Line(part.name, {}, Reason.BROKEN_LINE, f"the rest of the file cannot be unzipped ({error})")


def row_lines(rows: Iterable[object]) -> Iterator[Line]:
    """Rows that are Python objects, with the place of each as `row N`."""
    for number, row in enumerate(rows, start=1):
        where = f"row {number}"
        if isinstance(row, Mapping):
            yield Line(where, row)
        else:
            yield Line(where, {}, Reason.BROKEN_LINE, f"{shown(row)} is not a battle or a mapping")


def _json_lines(part: Part) -> Iterator[Line]:
    decode = msgspec.json.Decoder().decode
    with part.open() as file:
        for number, line in enumerate(file, start=1):
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if text.isspace():
                continue
            where = f"{part.name}:{number}"
            try:
                row = decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                yield _unreadable(where, text, error)
                continue
            yield _line(where, row)


def _json_array(part: Part) -> Iterator[Line]:
    with part.open() as file:
        rows = msgspec.json.decode(file.read())
    for number, row in enumerate(rows, start=1):
        yield _line(f"{part.name}: row {number}", row)


def _line(where: str, row: object) -> Line:
    if isinstance(row, dict):
        return Line(where, row)
    return Line(where, {}, Reason.BROKEN_LINE, f"{shown(row)} is not a JSON object")


def _unreadable(where: str, text: bytes, error: Exception) -> Line:
    try:
        seen = text.decode().strip()
    except UnicodeDecodeError as broken:
        return Line(where, {}, Reason.NOT_UTF8, f"byte {text[broken.start]:#04x} at position {broken.start + 1}")
    return Line(where, {}, Reason.BROKEN_LINE, f"{shown(seen)} is not JSON ({error})")


def _csv_lines(part: Part) -> Iterator[Line]:
    """CSV rows; bytes that are no UTF-8 are carried through as lone surrogates and found row by row."""
    with part.open() as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        reader = csv.reader(text, delimiter=delimiter(part.kind), strict=True)
        names = next(row for row in reader if row)
        while True:
            where = f"{part.name}:{reader.line_num + 1}"
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield Line(where, {}, Reason.BROKEN_LINE, f"{error}")
                continue
            if cells is None:
                return
            if cells:
                yield _csv_line(where, names, cells)


def _csv_line(where: str, names: list[str], cells: list[str]) -> Line:
    if len(cells) != len(names):
        detail = f"{len(cells)} where the header has {len(names)}: {shown(','.join(cells))}"
        return Line(where, {}, Reason.WRONG_LENGTH, detail)
    odd = next((cell for cell in cells if not cell.isascii() and not _is_text(cell)), None)
    if odd is not None:
        return Line(where, {}, Reason.NOT_UTF8, f"{odd.encode(errors='surrogateescape')!r}")
    return Line(where, {name: cell or None for name, cell in zip(names, cells, strict=True)})


def _is_text(cell: str) -> bool:
    try:
        cell.encode()
    except UnicodeEncodeError:
        return False
    return True
