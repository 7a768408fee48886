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
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltyard.data.battles import OUTCOME_LABELS, SOURCE_LABELS, BattleTable, Codes

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


def column_file(table: BattleTable) -> bytes:
    """The bytes of the file."""
    entries, parts, at = [], [], 0
    for name, values, labels in _columns(table):
        kind = next(kind for kind, dtype in TYPES.items() if np.dtype(dtype) == values.dtype)
        entries.append({"name": name, "type": kind, "at": at} | ({} if labels is None else {"labels": labels}))
        parts.append(values.tobytes() + b"\0" * (-values.nbytes % 8))
        at += len(parts[-1])
    header = {"rows": len(table), "models": table.models, "columns": entries}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    text += b" " * (-(len(MAGIC) + 4 + len(text)) % 8)
    return b"".join([MAGIC, struct.pack("<I", len(text)), text, *parts])


def _columns(table: BattleTable) -> Iterator[tuple[str, Array, Sequence[str] | None]]:
    """The columns on which ratings depend, and those by which the page filters: name, numbers, labels of texts."""
    code = "<u2" if len(table.models) < 1 << 16 else "<u4"
    yield "model_a", table.model_a.astype(code), None
    yield "model_b", table.model_b.astype(code), None
    yield "winner", table.outcome.astype("<u1"), OUTCOME_LABELS
    yield "source", table.source.astype("<u1"), SOURCE_LABELS
    if (table.weight != 1.0).any():
        yield "weight", table.weight.astype("<f8"), None
    if table.score_a is not None:
        yield "score_a", table.score_a.astype("<f8"), None
    if "inconsistent" in table.columns:
        yield "inconsistent", (table.number_column("inconsistent") == 1.0).astype("<u1"), None
    for name in FILTERS:
        column = table.columns.get(name)
        if isinstance(column, Codes) and len(column.labels) <= MOST_LABELS:
            kind = "<u1" if len(column.labels) < 255 else "<u2"
            yield name, (column.codes + 1).astype(kind), tuple(column.labels)
    if "timestamp" in table.columns:
        days = np.floor(table.number_column("timestamp") / DAY)
        known = np.isfinite(days) & (np.abs(days) < 2**31)
        yield "day", np.where(known, np.where(known, days, 0.0), NO_DAY).astype("<i4"), None
