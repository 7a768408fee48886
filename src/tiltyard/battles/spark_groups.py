"""Groups of equal rows as Spark counted them, judged by the rules that every other source is judged by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tiltyard.battles.plan import FieldKind
from tiltyard.battles.problems import Problem, explain
from tiltyard.battles.settle import LabelColumn, RawBatch, Reason, Settled, settle
from tiltyard.battles.spark_fields import FAULT, INFINITY, NAN, holds_json
from tiltyard.battles.table import MISSING, Floats, Mask
from tiltyard.errors import BadRow, OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tiltyard.battles.plan import Field, Plan

WEIGHT_SIGN = (
    f"CASE WHEN isnan(given) THEN 1 WHEN given = {INFINITY} THEN given WHEN given < 0 THEN -1 WHEN given = 0 THEN 0 "
    "ELSE 1 END"
)
"""All that is asked of one row's weight: that it is a number, not negative, and not 0. The weights are summed."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One of the columns that Spark groups by: a field of the plan, or (`sql`) something made from the row."""

    name: str
    sql_type: str
    field: Field | None = None
    sql: str | None = None


def key_columns(plan: Plan) -> list[KeyColumn]:
    """What rows must have in common to be counted together."""
    keys = [
        KeyColumn(FAULT, "int"),
        KeyColumn("weight_sign", "double", sql=f"double({WEIGHT_SIGN})"),
        KeyColumn("has_cluster", "boolean", sql="cluster IS NOT NULL"),
    ]
    for at, field in enumerate(plan.fields):
        if field.hashed or field.name == "weight":
            continue
        if field.kind is FieldKind.TIME:
            raise OptionError(f"the spark engine does not read times: it cannot split by {field.name!r}.")
        name = f"k{at}"
        if field.kind.is_label:
            keys.append(KeyColumn(name, "string", field))
        else:
            keys.append(KeyColumn(name, "double", field, f"nullif({name}, {NAN})"))
    return keys


@dataclass(frozen=True, slots=True, eq=False)
class SparkGroups:
    """The groups, in an order that depends on nothing but their keys."""

    plan: Plan
    keys: list[KeyColumn]
    found: Sequence[Sequence[Any]]
    rows: NDArray[np.int64]
    total: Floats

    @classmethod
    def of(cls, found: Sequence[Sequence[Any]], plan: Plan, keys: list[KeyColumn]) -> SparkGroups:
        """The groups that Spark found: its rows are the keys, how many rows of the source, and their weight."""
        n = len(keys)
        ordered = sorted(found, key=lambda row: [(value is not None, str(value)) for value in row[:n]])
        rows = np.array([row[n] for row in ordered], dtype=np.int64)
        total = np.array([row[n + 1] for row in ordered], dtype=np.float64)
        return cls(plan, keys, ordered, rows, total)

    @property
    def has_cluster(self) -> Mask:
        """Which groups hold rows that share a cluster with others."""
        return np.array([row[self._at("has_cluster")] for row in self.found], dtype=bool)

    def key_values(self) -> list[tuple[Any, ...]]:
        """What Spark grouped by, group by group."""
        return [tuple(row[: len(self.keys)]) for row in self.found]

    def settled(self) -> Settled:
        """The groups after all rules: those that are battles as a table, and the reason of each that is not."""
        fault = self._faults()
        labels, numbers = {}, {"weight": np.array([row[self._at("weight_sign")] for row in self.found])}
        for at, key in enumerate(self.keys):
            if key.field is None:
                continue
            values = [row[at] for row in self.found]
            if key.field.kind.is_label:
                labels[key.field.name] = _label_column(values, is_json=holds_json(key.field, self.plan))
            else:
                numbers[key.field.name] = np.array(values, dtype=np.float64)
        for side in ("model_a", "model_b"):
            labels[side].codes[fault > 0] = MISSING
        fields = tuple(field for field in self.plan.fields if not field.hashed)
        batch = RawBatch(len(self.found), labels, numbers, count=self.rows.astype(np.float64), total=self.total)
        settled = settle(batch, replace(self.plan, fields=fields))
        return replace(settled, reasons=np.where(fault > 0, fault, settled.reasons).astype(np.int8))

    def skipped(self, settled: Settled) -> dict[str, int]:
        """How many rows are no battles, by reason."""
        return {reason.label: count for reason, count in settled.counts().items()}

    def first_problem(self, settled: Settled, name: str) -> BadRow:
        """What to tell about bad rows: which values, and how many rows have them; Spark knows no line numbers."""
        at = int(np.flatnonzero(settled.reasons)[0])
        reason, n = Reason(int(settled.reasons[at])), int(self.rows[at])
        where = f"{name} ({n:,} such {'row' if n == 1 else 'rows'})"
        return Problem(reason, where, self._detail(reason, at)).error()

    def _detail(self, reason: Reason, at: int) -> str:
        if reason >= Reason.BROKEN_LINE:
            return "Spark cannot tell which; the duckdb engine names file and line"
        if reason is Reason.BAD_WEIGHT:
            return "weight is negative"
        row: dict[str, Any] = {}
        for key, value in zip(self.keys, self.found[at], strict=False):
            if key.name == "weight_sign" and np.isinf(value):
                return "weight is not a finite number"
            if key.field is None:
                continue
            raw = key.field.raw
            read = _label(value, is_json=holds_json(key.field, self.plan)) if key.field.kind.is_label else value
            if isinstance(read, float) and np.isinf(read):
                return f"{raw.name} is not a finite number"
            if raw.inner is None:
                row[raw.top] = read
            elif isinstance(raw.inner, int):
                row[raw.top] = [read]
            else:
                row.setdefault(raw.top, {})[raw.inner] = read
        return explain(reason, row, self.plan)

    def _faults(self) -> NDArray[np.int8]:
        """Why a line could not be read; Spark's CSV reader puts U+FFFD where bytes are no text."""
        fault = np.array([row[self._at(FAULT)] for row in self.found], dtype=np.int8)
        if self.plan.header.cells == "text":
            odd = [any("\ufffd" in value for value in row if isinstance(value, str)) for row in self.found]
            fault[(fault == 0) & np.array(odd, dtype=bool)] = Reason.NOT_UTF8
        return fault

    def _at(self, name: str) -> int:
        return next(at for at, key in enumerate(self.keys) if key.name == name)


def _label_column(values: list[str | None], *, is_json: bool) -> LabelColumn:
    place: dict[str, int] = {}
    codes = np.array(
        [MISSING if value is None else place.setdefault(value, len(place)) for value in values], dtype=np.int32
    )
    return LabelColumn(codes, [_label(value, is_json=is_json) for value in place])


def _label(value: str | None, *, is_json: bool) -> Any:
    """The value that a label stands for; JSON of a typed column is the value `v` of an object."""
    if value is None or not is_json:
        return value
    decoded = msgspec.json.decode(value)
    return decoded.get("v") if isinstance(decoded, dict) else decoded
