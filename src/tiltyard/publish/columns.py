"""Battles as a column file, `battles.cols`: what the page of a published board reads to count it again.

The bytes, all numbers little-endian: 8 bytes `TYCOLS1` and a line break; 4 bytes with the length of the header; the
header, JSON in UTF-8, filled up with spaces until the data begin at a multiple of 8; then one array after the other,
each at a multiple of 8 bytes. The header says how many `rows` there are, the names of the `models`, and for every
column its `name`, its `type` (`u8`, `u16`, `u32`, `i32`, `f64`), where it begins (`at`, counted from the beginning of
the data), and for texts its `labels`: a value of 0 is a missing text, 1 the first label.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import OUTCOME_LABELS, SOURCE_LABELS
from tiltyard.battles.table import BattleTable, Codes
from tiltyard.errors import BattleError

MAGIC = b"TYCOLS1\n"
NAME = "battles.cols"
FILTERS = ("dimension", "category", "language", "judge_model")
"""Text columns by which the page can filter."""

MOST_LABELS = 200
"""A text column with more values than this is no filter, and is left out."""

DAY = 86_400
NO_DAY = -(2**31)
TYPES = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "i32": "<i4", "f64": "<f8"}

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class StoredColumn:
    """One column of the file.

    Parameters:
        name: What it holds.
        values: The numbers.
        labels: The texts that the numbers stand for; None: they are numbers.
    """

    name: str
    values: Array
    labels: tuple[str, ...] | None = None


def column_file(table: BattleTable) -> bytes:
    """The bytes of the file.

    Parameters:
        table: The battles.
    """
    stored = list(stored_columns(table))
    entries, at = [], 0
    for column in stored:
        entry: dict[str, Any] = {"name": column.name, "type": _type_name(column.values), "at": at}
        if column.labels is not None:
            entry["labels"] = list(column.labels)
        entries.append(entry)
        at += _padded(column.values.nbytes)
    header = {"rows": len(table), "models": list(table.models), "columns": entries}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    text += b" " * (-(len(MAGIC) + 4 + len(text)) % 8)
    parts = [MAGIC, struct.pack("<I", len(text)), text]
    for column in stored:
        data = column.values.tobytes()
        parts += [data, b"\0" * (_padded(len(data)) - len(data))]
    return b"".join(parts)


def stored_columns(table: BattleTable) -> Iterator[StoredColumn]:
    """The columns of the file: those on which ratings depend, and those by which the page filters.

    Parameters:
        table: The battles.
    """
    code = "<u2" if len(table.models) < 1 << 16 else "<u4"
    yield StoredColumn("model_a", table.model_a.astype(code))
    yield StoredColumn("model_b", table.model_b.astype(code))
    yield StoredColumn("winner", table.outcome.astype("<u1"), OUTCOME_LABELS)
    yield StoredColumn("source", table.source.astype("<u1"), SOURCE_LABELS)
    if (table.weight != 1.0).any():
        yield StoredColumn("weight", table.weight.astype("<f8"))
    if table.score_a is not None:
        yield StoredColumn("score_a", table.score_a.astype("<f8"))
    if "inconsistent" in table.columns:
        yield StoredColumn("inconsistent", (table.number_column("inconsistent") == 1.0).astype("<u1"))
    for name in FILTERS:
        column = table.columns.get(name)
        if isinstance(column, Codes) and len(column.labels) <= MOST_LABELS:
            kind = "<u1" if len(column.labels) < 255 else "<u2"
            yield StoredColumn(name, (column.codes + 1).astype(kind), tuple(column.labels))
    if "timestamp" in table.columns:
        days = np.floor(table.number_column("timestamp") / DAY)
        known = np.isfinite(days) & (np.abs(days) < 2**31)
        yield StoredColumn("day", np.where(known, np.where(known, days, 0.0), NO_DAY).astype("<i4"))


def read_columns(data: bytes, source: str) -> tuple[tuple[str, ...], dict[str, StoredColumn]]:
    """The models and the columns of a file, as `stored_columns` made them.

    Parameters:
        data: The bytes.
        source: What to call it in errors.
    """
    try:
        if data[: len(MAGIC)] != MAGIC:
            raise ValueError("it does not begin as one")
        (length,) = struct.unpack_from("<I", data, len(MAGIC))
        start = len(MAGIC) + 4 + length
        header = json.loads(data[len(MAGIC) + 4 : start])
        columns = {}
        for entry in header["columns"]:
            values = np.frombuffer(data, TYPES[entry["type"]], header["rows"], start + entry["at"])
            labels = tuple(entry["labels"]) if "labels" in entry else None
            columns[str(entry["name"])] = StoredColumn(str(entry["name"]), values, labels)
        return tuple(header["models"]), columns
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise BattleError(f"{source}: not a column file of battles ({error}). Publish again.") from None


def _type_name(values: Array) -> str:
    return next(name for name, kind in TYPES.items() if np.dtype(kind) == values.dtype)


def _padded(size: int) -> int:
    return size + -size % 8
