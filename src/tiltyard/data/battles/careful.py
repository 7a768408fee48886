"""The careful reader: row by row, so that a bad row can be named and explained.

It is used where the fast reader found something wrong or could not read at all, and for rows that are Python objects
already. It applies the same rules (`validate_rows`), a batch of rows at a time. `read_typed_rows` does the same for
typed sources (Parquet, a frame), whose rows have numbers but no lines.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tiltyard.data.battles.battle import OUTCOME_LABELS, SOURCE_LABELS
from tiltyard.data.battles.fast import filtered, identifier, json_value, literal, load, session, where_error
from tiltyard.data.battles.formats import side_of
from tiltyard.data.battles.inputs import DAMAGED, UTF_8_MARK, BattleFile, FileKind, delimiter, is_text, to_utf_8
from tiltyard.data.battles.layout import (
    STRICT_NUMBERS,
    WRONG,
    Field,
    FieldKind,
    Layout,
    read_label,
    read_number,
    read_time,
)
from tiltyard.data.battles.settle import LEAST_WEIGHT, MOST_WEIGHT, LabelColumn, RawBatch, Reason, validate_rows
from tiltyard.data.battles.table import MISSING, BattleTable, Codes, concat, hash_text
from tiltyard.errors import BadRow, OptionValue

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class RowProblem(msgspec.Struct, frozen=True):
    """One bad row: why, where, and what it holds."""

    reason: Reason
    where: str
    detail: str

    @property
    def advice(self) -> tuple[str | OptionValue, ...]:
        word = OptionValue("map", {"winner:WORD": "model_a"})
        if self.reason is Reason.UNKNOWN_WINNER:
            return ("Correct the row, or say what the word means (", word, ")")
        if self.reason is Reason.AMBIGUOUS_WINNER:
            return ("Write model_a or model_b, or say what the word means with ", word)
        if self.reason is Reason.MISSING_SOURCE:
            labels = " or ".join(SOURCE_LABELS)
            return ("Say who decided with ", OptionValue("default_source"), f" ({labels}), or correct the row")
        if self.reason is Reason.NOT_UTF8:
            name = self.where.rpartition(":")[0]
            return (f"{to_utf_8('WINDOWS-1252', name)} (if it is Latin-1); or correct the row",)
        return ("Correct the row",)

    def error(self) -> BadRow:
        leave_out = (", or leave such rows out with ", OptionValue("on_bad", "skip"), ".")
        return BadRow(self.reason.label, self.where, self.detail, *self.advice, *leave_out)


class BadRows(msgspec.Struct):
    """The bad rows of a source: how many by reason, and the first few of each; `odd` is what else to look at.

    With `stop`, the first one is an error.
    """

    examples_each: int = 3
    stop: bool = False
    counts: dict[Reason, int] = msgspec.field(default_factory=dict)
    examples: dict[Reason, list[RowProblem]] = msgspec.field(default_factory=dict)
    odd: list[str] = msgspec.field(default_factory=list)

    def wants(self, reason: Reason) -> bool:
        """Whether to look closer at a row of a reason."""
        return self.stop or len(self.examples.get(reason, ())) < self.examples_each

    def add(self, problem: RowProblem) -> None:
        if self.stop:
            raise problem.error()
        self.examples.setdefault(problem.reason, []).append(problem)

    @property
    def skipped(self) -> dict[str, int]:
        return {reason.label: count for reason, count in sorted(self.counts.items())}


def explain(reason: Reason, row: Mapping[str, Any], layout: Layout) -> str:
    """What makes a row bad, by the source's own column names."""

    def value(name: str) -> str:
        return shown(value_of(row, layout.field(name)))

    def column(name: str) -> str:
        field = layout.field(name)
        return name if field is None else field.raw.name

    if reason is Reason.WRONG_TYPE:
        return _wrong_type(row, layout)
    if reason is Reason.SELF_BATTLE:
        return f"{column('model_a')} and {column('model_b')} are both {value('model_a')}"
    if reason is Reason.MISSING_MODEL:
        sides = [name for name in ("model_a", "model_b") if not str(value_of(row, layout.field(name)) or "").strip()]
        empty = (*sides, "model_a")[0]
        return f"{column(empty)} is {value(empty)}"
    if reason in (Reason.MISSING_WINNER, Reason.UNKNOWN_WINNER):
        return f"{column('winner')} is {value('winner')}{_expected_winner(row, layout)}"
    if reason is Reason.AMBIGUOUS_WINNER:
        text = str(value_of(row, layout.field("winner")))
        meant = layout.format.winners.get(text, side_of(text))
        side = "A" if text == str(value_of(row, layout.field("model_a"))) else "B"
        means = f"which means {'?' if meant is None else meant}, and is the name of the model on side {side}"
        return f"{column('winner')} is {shown(text)}, {means}"
    if reason in (Reason.MISSING_SOURCE, Reason.UNKNOWN_SOURCE):
        return f"{column('source')} is {value('source')}, expected {' or '.join(SOURCE_LABELS)}"
    if reason is Reason.BAD_WEIGHT:
        expected = f"0 or from {LEAST_WEIGHT:.6f} to {MOST_WEIGHT:,.0f}, a number of battles"
        return f"weight is {value('weight')}, expected {expected}"
    if reason is Reason.CONTRADICTION:
        return f"winner is {value('winner')} but {column('score_a')} is {value('score_a')} (1 = A won)"
    if reason is Reason.INCONSISTENT_WINNER:
        return f"inconsistent is true but winner is {value('winner')}, expected tie"
    low, high = 0.0, 1.0
    if (preference := layout.format.preference) is not None:
        low, high = sorted((end - preference.shift) / preference.scale + 0.0 for end in (0.0, 1.0))
    return f"{column('score_a')} is {value('score_a')}, expected a number from {low:g} to {high:g}"


def shown(value: object) -> str:
    """A value for a message, shortened; `missing` when there is none."""
    if value is None:
        return "missing"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def value_of(row: Mapping[str, Any], field: Field | None) -> Any:
    """The value of a field in a row of the source."""
    if field is None:
        return None
    value = row.get(field.raw.top)
    if field.raw.inner is None:
        return value
    if isinstance(field.raw.inner, int):
        return value[field.raw.inner] if isinstance(value, list) and len(value) > field.raw.inner else None
    return value.get(field.raw.inner) if isinstance(value, Mapping) else None


def _expected_winner(row: Mapping[str, Any], layout: Layout) -> str:
    models = [shown(value_of(row, layout.field(name))) for name in ("model_a", "model_b")]
    if not layout.format.winner_is_a_name:
        words = list(layout.format.winners)
        if layout.format.any_spelling:
            words = [word for word in words if word in OUTCOME_LABELS or side_of(word) is None] + models
        return f", expected {', '.join(words)}"
    is_tie = layout.field("is_tie")
    if is_tie is not None and read_label(value_of(row, is_tie), FieldKind.FLAG) == "true":
        return f" though {is_tie.raw.name} is {shown(value_of(row, is_tie))}"
    return f", expected {models[0]} or {models[1]}" + ("" if is_tie is None else f", or {is_tie.raw.name} true")


def _wrong_type(row: Mapping[str, Any], layout: Layout) -> str:
    for item in layout.fields:
        value = value_of(row, item)
        if item.kind.is_label:
            wrong = read_label(value, item.kind) is WRONG
        else:
            wrong = _read_number(value, item, layout) == float("inf")
        if wrong:
            return f"{item.raw.name} is {shown(value)}, expected {item.kind.value}"
    return "a value of the wrong type"


def _read_number(value: object, item: Field, layout: Layout) -> float:
    from_text = layout.header.cells == "text"
    if item.kind is FieldKind.TIME:
        return read_time(value, from_text=from_text)
    return read_number(value, from_text=from_text, strict=item.name in STRICT_NUMBERS)


BATCH_ROWS = 20_000
ROW = "number of the row"
csv.field_size_limit(1 << 28)


class RawRow(msgspec.Struct, frozen=True):
    """One row as it was read: where it is, and its values by column; or why it cannot be read."""

    where: str
    row: Mapping[str, Any]
    fault: Reason | None = None
    detail: str = ""


def read_carefully(lines: Iterable[RawRow], layout: Layout, bad_rows: BadRows) -> BattleTable:
    """The battles of the good rows; bad ones are counted in `bad_rows`."""
    tables = []
    stream = iter(lines)
    while batch := list(islice(stream, BATCH_ROWS)):
        good = [line for line in batch if line.fault is None]
        if layout.where is not None and good:
            kept = kept_by_where(good, layout)
            batch = [line for line in batch if line.fault is not None or id(line) in kept]
            good = [line for line in batch if line.fault is None]
        settled = validate_rows(raw_batch([line.row for line in good], layout), layout)
        tables.append(settled.table)
        reasons = iter(settled.reasons.tolist())
        for line in batch:
            reason = Reason(next(reasons)) if line.fault is None else line.fault
            if reason is Reason.FINE:
                continue
            bad_rows.counts[reason] = bad_rows.counts.get(reason, 0) + 1
            if bad_rows.wants(reason):
                detail = line.detail or explain(reason, line.row, layout)
                bad_rows.add(RowProblem(reason, line.where, detail))
    table = concat(tables) if tables else validate_rows(raw_batch([], layout), layout).table
    return replace(table, skipped=bad_rows.skipped)


def raw_batch(rows: list[Mapping[str, Any]], layout: Layout) -> RawBatch:
    """Rows as raw columns."""
    labels = {item.name: _label_column(rows, item) for item in layout.labels}
    numbers = {
        item.name: np.array([_read_number(value_of(row, item), item, layout) for row in rows], dtype=np.float64)
        for item in layout.numbers
    }
    hashed = {}
    for item in layout.labels:
        if item.hashed:
            texts = [read_label(value, item.kind) for value in labels[item.name].values]
            known = [hash_text(text) if isinstance(text, str) else 0 for text in texts]
            hashes = np.array([*known, 0], dtype=np.uint64)[labels[item.name].codes]
            hashed[item.name] = Codes.of_hashes(hashes)
    return RawBatch(len(rows), labels, numbers, hashed)


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
        as_json = msgspec.structs.replace(layout.header, cells="json")
        written = msgspec.structs.replace(layout, header=as_json, plain=frozenset())
        source = filtered(sql, written, extra=ROW)
        try:
            kept = connection.execute(f'SELECT "{ROW}" FROM {source}').fetchall()
        except duckdb.Error as error:
            raise where_error(layout, error) from None
    return {id(lines[at]) for (at,) in kept}


def file_lines(part: BattleFile) -> Iterator[RawRow]:
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


def _json_lines(part: BattleFile) -> Iterator[RawRow]:
    decode = msgspec.json.Decoder().decode
    with part.open() as file:
        for number, line in enumerate(file, start=1):
            text = line.removeprefix(UTF_8_MARK) if number == 1 else line
            if text.isspace():
                continue
            where = f"{part.name}:{number}"
            try:
                yield _json_row(where, decode(text))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                yield _unreadable(where, text, error)


def _unreadable(where: str, text: bytes, error: Exception) -> RawRow:
    try:
        seen = text.decode().strip()
    except UnicodeDecodeError as broken:
        return RawRow(where, {}, Reason.NOT_UTF8, f"byte {text[broken.start]:#04x} at position {broken.start + 1}")
    return RawRow(where, {}, Reason.BROKEN_LINE, f"{shown(seen)} is not JSON ({error})")


def _json_array(part: BattleFile) -> Iterator[RawRow]:
    with part.open() as file:
        rows = msgspec.json.decode(file.read().removeprefix(UTF_8_MARK))
    for number, row in enumerate(rows, start=1):
        yield _json_row(f"{part.name}: row {number}", row)


def _json_row(where: str, row: object) -> RawRow:
    if isinstance(row, dict):
        return RawRow(where, row)
    return RawRow(where, {}, Reason.BROKEN_LINE, f"{shown(row)} is not a JSON object")


def _csv_lines(part: BattleFile) -> Iterator[RawRow]:
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


def read_typed_rows(
    connection: DuckDBPyConnection, rows: str, layout: Layout, name: str, bad_rows: BadRows
) -> BattleTable:
    """The battles of a typed source; of the bad rows, the counts and the first few by number and value."""
    layout = msgspec.structs.replace(layout, counted=False)
    numbered = f"(SELECT *, row_number() OVER () AS {identifier(ROW)} FROM {rows})"
    settled = validate_rows(load(connection, numbered, layout), layout)
    for reason, count in settled.counts().items():
        bad_rows.counts[reason] = bad_rows.counts.get(reason, 0) + count
    bad = np.flatnonzero(settled.reasons).tolist()
    if bad:
        query = f"SELECT {identifier(ROW)} AS n FROM {filtered(numbered, layout)}"
        numbers = np.asarray(connection.execute(query).fetchnumpy()["n"]).tolist()
        names = list(dict.fromkeys(field.raw.top for field in layout.fields))
        values = ", ".join(f"to_json({identifier(name)})" for name in names)
    for at in bad:
        reason = Reason(int(settled.reasons[at]))
        if bad_rows.wants(reason):
            query = f"SELECT {values} FROM {numbered} WHERE {identifier(ROW)} = {numbers[at]}"
            cells = map(json_value, connection.execute(query).fetchone() or ())
            detail = explain(reason, dict(zip(names, cells, strict=False)), layout)
            bad_rows.add(RowProblem(reason, f"{name}: row {numbers[at]}", detail))
    return settled.table
