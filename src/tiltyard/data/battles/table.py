"""Battles by the million: `BattleTable`, codes and arrays instead of objects.

A row is one battle, or `weight` equal battles: `weight` is a frequency, so a table whose identical rows were merged
rates exactly like the table it came from. Counting a file larger than memory is therefore the same thing as reading
it: the reader merges as it goes and hands over a (much shorter) table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.data.battles.battle import FLAGS, TEXT_FIELDS, Battle, Outcome, Source, is_pair, other_slot
from tiltyard.errors import BattleError
from tiltyard.types import Bools, Floats, Int32s, looked_up, mixed, numbered, occurring, same_values

Int8s = NDArray[np.int8]

MISSING = -1
"""The code of an absent text value."""


class Codes(msgspec.Struct, frozen=True, eq=False):
    """A text column: each row holds the position of its text in `labels`, or `MISSING`.

    Parameters:
        codes: For each row the place of its text, or −1 where it has none.
        labels: The texts.
    """

    codes: Int32s
    labels: Sequence[str]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Codes:
        """A column of these texts."""
        place = {text: code for code, text in enumerate(dict.fromkeys(texts))}
        return cls(np.array([place[text] for text in texts], dtype=np.int32), tuple(place))

    @classmethod
    def of_hashes(cls, hashes: Hashes) -> Codes:
        """The column of texts with these hashes (0 where there is none)."""
        codes, distinct = numbered(hashes)
        return cls(codes, HashedLabels(distinct))

    def __getitem__(self, rows: Bools | NDArray[np.intp]) -> Codes:
        return Codes(self.codes[rows], self.labels)

    @property
    def by_label(self) -> Codes:
        """The same column with its labels in order; those of hashes are already."""
        if not isinstance(self.labels, tuple):
            return self
        place = np.full(len(self.labels) + 1, MISSING, dtype=np.int32)
        ordered = sorted(range(len(self.labels)), key=self.labels.__getitem__)
        place[ordered] = np.arange(len(ordered), dtype=np.int32)
        return Codes(looked_up(place, self.codes), tuple(self.labels[code] for code in ordered))

    def texts(self) -> list[str | None]:
        return [None if code == MISSING else self.labels[code] for code in self.codes]


Column = Codes | Floats
"""A column of a table: `Codes` for text, an array for numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class BattleTable:
    """Battles as columns.

    Parameters:
        models: The names, sorted.
        model_a: Place in `models` of each row's side A.
        model_b: Place in `models` of each row's side B.
        outcome: Code of `Outcome` of each row.
        source: Code of `Source` of each row.
        weight: How many equal battles each row stands for.
        score_a: The soft outcome (1 = A won), NaN where the outcome says it all, or None when no row is soft.
        columns: The optional columns by name: text as `Codes`, numbers (weights apart) as floats with NaN for
            missing; `timestamp` is seconds since 1970.
        skipped: How many bad rows were left out on reading, by reason.
        rows: How many rows of the source each row stands for; kept where rows of weight 0 were merged, else None.
        repeated: How many rows of the source repeat another one in every column.
        repeated_ids: How many rows of the source repeat the `battle_id` of another one.
        source_named: Whether rows or an option say who decided; else it is what the format usually holds.
        clusters: What sums the battles by cluster, where an engine (Spark) holds them and only counted them here.
    """

    models: tuple[str, ...]
    model_a: Int32s
    model_b: Int32s
    outcome: Int8s
    source: Int8s
    weight: Floats
    score_a: Floats | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    rows: Floats | None = None
    repeated: int = 0
    repeated_ids: int = 0
    source_named: bool = True
    clusters: Any = None

    def __post_init__(self) -> None:
        n = len(self.model_a)
        for name in ("model_b", "outcome", "source", "weight"):
            if len(getattr(self, name)) != n:
                raise BattleError(f"column {name} has {len(getattr(self, name))} rows, model_a has {n}")
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        object.__setattr__(self, "skipped", MappingProxyType(dict(self.skipped)))

    def __reduce__(self) -> tuple[type[BattleTable], tuple[Any, ...]]:
        values = (getattr(self, each.name) for each in fields(self))  # a mapping proxy cannot be pickled
        return BattleTable, tuple(dict(value) if isinstance(value, Mapping) else value for value in values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BattleTable) and same_values(self._values(), other._values())

    def _values(self) -> dict[str, Any]:
        texts = {name: one.texts() if isinstance(one, Codes) else one for name, one in self.columns.items()}
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"columns": texts}

    def __len__(self) -> int:
        return len(self.model_a)

    def __iter__(self) -> Iterator[Battle]:
        """One record per row, for code that goes through battles one by one; a large table is faster by columns."""
        texts = {name: column for name, column in self.columns.items() if isinstance(column, Codes)}
        numbers = {name: column for name, column in self.columns.items() if not isinstance(column, Codes)}
        for at in range(len(self)):
            given: dict[str, Any] = {
                name: column.labels[code]
                for name, column in texts.items()
                if name in TEXT_FIELDS and (code := int(column.codes[at])) != MISSING
            }
            values = {name: float(column[at]) for name, column in numbers.items() if not np.isnan(column[at])}
            given["timestamp"] = values.pop("timestamp", None)
            given |= {name: values.pop(name, 0.0) == 1.0 for name in FLAGS}
            score = np.nan if self.score_a is None else float(self.score_a[at])
            yield Battle(
                model_a=self.models[self.model_a[at]],
                model_b=self.models[self.model_b[at]],
                winner=Outcome.of_code(int(self.outcome[at])),
                source=Source.of_code(int(self.source[at])),
                score_a=None if np.isnan(score) else score,
                weight=float(self.weight[at]),
                controls={name: value for name, value in values.items() if is_pair(name, values)},
                **given,
            )

    def __repr__(self) -> str:
        extra = f", columns {', '.join(self.columns)}" if self.columns else ""
        return f"<BattleTable: {self.n_battles:,.0f} battles of {len(self.models):,} models{extra}>"

    @property
    def n_battles(self) -> float:
        """How many battles the rows stand for: the sum of the weights."""
        return float(self.weight.sum())

    @property
    def n_weightless(self) -> int:
        """How many rows of the source have weight 0: rows, but no battles."""
        absent = self.weight == 0.0
        return int(absent.sum() if self.rows is None else self.rows[absent].sum())

    @property
    def used(self) -> Bools:
        """Which of the models appear in a battle."""
        return occurring(self.model_a, len(self.models)) | occurring(self.model_b, len(self.models))

    def take(self, rows: Bools | NDArray[np.intp]) -> BattleTable:
        """The table of some rows, over the same models."""
        return replace(
            self,
            model_a=self.model_a[rows],
            model_b=self.model_b[rows],
            outcome=self.outcome[rows],
            source=self.source[rows],
            weight=self.weight[rows],
            score_a=None if self.score_a is None else self.score_a[rows],
            columns={name: column[rows] for name, column in self.columns.items()},
            rows=None if self.rows is None else self.rows[rows],
        )

    def in_canonical_order(self) -> BattleTable:
        """The same battles in an order that depends only on what they hold, so that sums over rows do too.

        Rows are ordered by a hash of their cells; texts count by their place among all texts of their column.
        """
        columns = {name: one.by_label if isinstance(one, Codes) else one for name, one in self.columns.items()}
        table = replace(self, columns={name: columns[name] for name in sorted(columns)})
        return table.take(np.argsort(_row_hashes(table)))

    def compact(self) -> BattleTable:
        """The same battles over only the models that appear in them."""
        used = self.used
        if used.all():
            return self
        code = np.cumsum(used, dtype=np.int32) - np.int32(1)
        return replace(
            self,
            models=tuple(name for name, keep in zip(self.models, used, strict=True) if keep),
            model_a=looked_up(code, self.model_a),
            model_b=looked_up(code, self.model_b),
        )

    def split(self, column: str) -> Iterator[tuple[str, BattleTable]]:
        """One table per value of a text column, in the order of the values; rows without a value are left out."""
        codes = self.text_column(column)
        for code in sorted(set(codes.codes.tolist()) - {MISSING}, key=lambda code: codes.labels[code]):
            yield codes.labels[code], self.take(codes.codes == code).compact()

    def column(self, name: str) -> Column:
        """A column by name."""
        if name not in self.columns:
            raise BattleError(f"these battles have no column {name!r}; they have {', '.join(self.columns) or 'none'}")
        return self.columns[name]

    def text_column(self, name: str) -> Codes:
        """A text column by name; numbers are read as their text."""
        column = self.column(name)
        if isinstance(column, Codes):
            return column
        values, codes = np.unique(column, return_inverse=True)
        missing_or_code = np.where(np.isnan(column), MISSING, codes).astype(np.int32)
        return Codes(missing_or_code, tuple(f"{value:.15g}" for value in values))

    def number_column(self, name: str) -> Floats:
        """A number column by name."""
        column = self.column(name)
        if isinstance(column, Codes):
            some = f", such as {column.labels[0]!r}" if column.labels else ""
            raise BattleError(
                f"column {name!r} holds text{some}: expected numbers. Leave a cell empty where there is none."
            )
        return column

    def swapped(self) -> BattleTable:
        """Every battle written from the other side."""
        other_side = np.array([outcome.swapped.code for outcome in Outcome], dtype=np.int8)
        columns = {other_slot(name): column for name, column in self.columns.items()}
        return replace(
            self,
            model_a=self.model_b,
            model_b=self.model_a,
            outcome=other_side[self.outcome],
            score_a=None if self.score_a is None else 1.0 - self.score_a,
            columns=columns,
        )


def concat(tables: Sequence[BattleTable]) -> BattleTable:
    """Several tables one after the other; a column that some lack is missing there."""
    models = tuple(sorted({name for table in tables for name in table.models}))
    place = {name: code for code, name in enumerate(models)}
    recode = [np.array([place[name] for name in table.models], dtype=np.int32) for table in tables]
    scores = [np.full(len(table), np.nan) if table.score_a is None else table.score_a for table in tables]
    counted = any(table.rows is not None for table in tables)
    names = dict.fromkeys(name for table in tables for name in table.columns)
    skipped: Counter[str] = Counter()
    for table in tables:
        skipped.update(table.skipped)
    return BattleTable(
        models=models,
        model_a=np.concatenate([code[table.model_a] for code, table in zip(recode, tables, strict=True)]),
        model_b=np.concatenate([code[table.model_b] for code, table in zip(recode, tables, strict=True)]),
        outcome=np.concatenate([table.outcome for table in tables]),
        source=np.concatenate([table.source for table in tables]),
        weight=np.concatenate([table.weight for table in tables]),
        score_a=np.concatenate(scores) if any(table.score_a is not None for table in tables) else None,
        columns={name: _concat_column(name, tables) for name in names},
        skipped=skipped,
        rows=np.concatenate([_rows_or_one(table) for table in tables]) if counted else None,
        repeated=sum(table.repeated for table in tables),
        repeated_ids=sum(table.repeated_ids for table in tables),
        source_named=all(table.source_named for table in tables),
    )


def _rows_or_one(table: BattleTable) -> Floats:
    return np.ones(len(table)) if table.rows is None else table.rows


def _concat_column(name: str, tables: Sequence[BattleTable]) -> Column:
    present = [table.columns[name] for table in tables if name in table.columns]
    if all(isinstance(column, np.ndarray) for column in present):
        absent = 0.0 if name in FLAGS else np.nan
        filled = [table.columns.get(name, np.full(len(table), absent)) for table in tables]
        return np.concatenate([np.asarray(column, dtype=np.float64) for column in filled])
    place: dict[str, int] = {}
    parts = []
    for table in tables:
        if name not in table.columns:
            parts.append(np.full(len(table), MISSING, dtype=np.int32))
            continue
        column = table.text_column(name)
        recode = np.array([place.setdefault(text, len(place)) for text in column.labels] or [0], dtype=np.int32)
        parts.append(np.where(column.codes == MISSING, np.int32(MISSING), recode[column.codes]).astype(np.int32))
    return Codes(np.concatenate(parts), tuple(place))


def merge_equal(table: BattleTable) -> BattleTable:
    """The table with equal rows merged, their weights added, in an order that depends on nothing but the battles."""
    keys: list[NDArray[Any]] = [table.model_a, table.model_b, table.outcome, table.source]
    keys += [_key(column) for column in table.columns.values()]
    if table.score_a is not None:
        keys.append(_key(table.score_a))
    weightless = bool((table.weight == 0.0).any())
    if weightless:
        keys.append((table.weight == 0.0).astype(np.int32))
    one, number = _distinct(keys, len(table))

    def summed(values: Floats) -> Floats:
        line = number
        if (values != np.floor(values)).any():  # fractions add up to the same bits in one order only
            order = np.lexsort((values, number))
            line, values = number[order], values[order]
        return np.bincount(line, values).astype(np.float64, copy=False)[number[one]]

    rows = summed(_rows_or_one(table)) if weightless else None
    return replace(table.take(one), weight=summed(table.weight), rows=rows)


def has_equal_rows(table: BattleTable) -> bool:
    """Whether two rows are equal in every column, or seem so by their hashes."""
    hashes = _row_hashes(table)
    hashes.sort()
    return bool((hashes[1:] == hashes[:-1]).any())


def _row_hashes(table: BattleTable) -> NDArray[np.uint64]:
    numbers = [table.weight, *([] if table.score_a is None else [table.score_a])]
    columns = (table.model_a, table.model_b, table.outcome, table.source, *numbers, *table.columns.values())
    return mixed([column.codes if isinstance(column, Codes) else column for column in columns], len(table))


def _key(column: Column) -> NDArray[np.int64] | Int32s:
    """Integers that are equal where a column's values are; missing numbers count as equal."""
    if isinstance(column, Codes):
        return column.codes
    return np.unique(column, return_inverse=True)[1].astype(np.int64)


def _distinct(keys: Sequence[NDArray[Any]], n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """One row of each set of equal rows, sorted by their keys; and a number for each row that its set shares."""
    packed, size = np.zeros(n, dtype=np.int64), 1
    for key in keys:
        low, high = (int(key.min()), int(key.max())) if n else (0, 0)
        width = high - low + 1
        if width == 1:
            continue
        if size * width >= 2**62:
            packed = np.unique(packed, return_inverse=True)[1].astype(np.int64)
            size = int(packed.max()) + 1
        packed *= width
        packed += key
        packed -= low
        size *= width
    if size > 4 * n:
        _, one, number = np.unique(packed, return_index=True, return_inverse=True)
        return one, number
    one = np.full(size, n)  # few possible keys: counting is faster than sorting
    one[packed] = np.arange(n)
    return one[one < n], packed


Hashes = NDArray[np.uint64]


class HashedLabels(Sequence[str]):
    """The labels of a column of which only the hashes are known; a label is the hash in hexadecimal."""

    def __init__(self, hashes: Hashes) -> None:
        self.hashes = hashes

    def __len__(self) -> int:
        return len(self.hashes)

    def __getitem__(self, at: int) -> str:  # type: ignore[override]
        return f"{int(self.hashes[at]):016x}"


_SEED, _BY_LENGTH, _BY_WORD, _ALL_BITS = 0xE17A1465, 0xC6A4A7935BD1E995, 0xD6E8FEB86659FD93, (1 << 64) - 1


def hash_text(text: str) -> int:
    """The hash of a text, the one that DuckDB gives.

    Clusters of a small file, on whose numbers random draws depend, are then numbered alike by both readers.
    """
    data = text.encode()
    value = _SEED ^ (len(data) * _BY_LENGTH & _ALL_BITS)
    for start in range(0, len(data), 8):
        value = (value ^ int.from_bytes(data[start : start + 8], "little")) * _BY_WORD & _ALL_BITS
    for _ in range(2):
        value = (value ^ value >> 32) * _BY_WORD & _ALL_BITS
    return value ^ value >> 32
