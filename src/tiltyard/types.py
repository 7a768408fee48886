"""Names of the arrays that most modules pass around; large ones in pieces, and their order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Annotated, Any, Self, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import Message, OptionValue

FileStem = Annotated[str, msgspec.Meta(pattern=r"^[^./\\:\x00][^/\\:\x00]*$")]
"""A name that is part of the name of a file, so that no name leads out of a folder."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Int32s = NDArray[np.int32]
Scalar = TypeVar("Scalar", bound=np.generic)
Whole = TypeVar("Whole", bound=np.integer[Any])
AnyInts = NDArray[np.integer[Any]]
"""Whole numbers of any width: those of a column with a number for every battle are no wider than they must be."""

ROWS_AT_ONCE = 1 << 16
"""Rows that are looked at together where there are very many: what is made of them stays in the processor's cache."""


def pieces(n: int) -> Iterator[slice]:
    """Slices of at most ROWS_AT_ONCE that together are the rows 0 … n − 1."""
    return (slice(start, min(start + ROWS_AT_ONCE, n)) for start in range(0, n, ROWS_AT_ONCE))


def looked_up(table: NDArray[Scalar], codes: AnyInts) -> NDArray[Scalar]:
    """`table[codes]`, without a wide copy of all codes at once."""
    result = np.empty(len(codes), dtype=table.dtype)
    for piece in pieces(len(codes)):
        result[piece] = table[codes[piece]]
    return result


def order_of(codes: AnyInts) -> Ints:
    """The order in which whole numbers from 0 on rise, equal ones as they stand: `argsort`, in a third of the time."""
    order = np.empty(len(codes), dtype=np.int64)
    done = 0
    for at, _ in in_order(codes):
        order[done : done + len(at)] = at
        done += len(at)
    return order


def mixed(columns: Iterable[NDArray[Any]], rows: int) -> NDArray[np.uint64]:
    """A number for every row, the same for rows that are equal in every column (and else with chance 2⁻⁶⁴)."""
    hashes = np.zeros(rows, dtype=np.uint64)
    columns = list(columns)
    for piece in pieces(rows):
        number = hashes[piece]
        for column in columns:
            values = column[piece]
            number ^= values.view(np.uint64) if values.dtype == np.float64 else values.astype(np.uint64)
            number *= np.uint64(0x9E3779B97F4A7C15)
            number ^= number >> np.uint64(29)
    return hashes


def in_order(codes: NDArray[Whole]) -> Iterator[tuple[Ints, NDArray[Whole]]]:
    """Whole numbers from 0 on as they rise, in pieces: their places, and the numbers.

    Numbers and places are packed into one and sorted together, for which processors have instructions. Large numbers
    lose their last bits to that; pieces in which this shows are sorted again.
    """
    bits = len(codes).bit_length()
    place = (1 << bits) - 1
    lost = max(int(codes.max(initial=0)).bit_length() + bits - 63, 0)
    packed = np.empty(len(codes), dtype=np.int64)
    for piece in pieces(len(codes)):
        packed[piece] = (codes[piece] >> lost).astype(np.int64, copy=False) << bits
        packed[piece] |= np.arange(piece.start, piece.stop)
    packed.sort()
    start = 0
    while start < len(codes):
        end = min(start + ROWS_AT_ONCE, len(codes))
        if lost:  # what looks equal stays together
            end = int(np.searchsorted(packed, packed[end - 1] | place, side="right"))
        at = packed[start:end] & place
        ordered = codes[at]
        if lost and (ordered[1:] < ordered[:-1]).any():
            again = np.argsort(ordered, kind="stable")
            at, ordered = at[again], ordered[again]
        yield at, ordered
        start = end


def numbered(values: NDArray[Whole]) -> tuple[Int32s, NDArray[Whole]]:
    """Codes 0, 1, … of values in the order of the values, −1 for a value of 0; and the distinct values above 0."""
    codes = np.empty(len(values), dtype=np.int32)
    distinct, last, code = [values[:0]], values.dtype.type(0), -1
    for at, ordered in in_order(values):
        new = np.append(last, ordered[:-1]) != ordered
        distinct.append(ordered[new])
        number = np.cumsum(new, dtype=np.int32) + np.int32(code)
        codes[at] = number
        last, code = ordered[-1], int(number[-1])
    return codes, np.concatenate(distinct)


def occurring(codes: AnyInts, size: int) -> Bools:
    """Which of the codes 0 … size − 1 occur; a negative one counts from the end."""
    result = np.zeros(size, dtype=bool)
    for piece in pieces(len(codes)):
        result[codes[piece]] = True
    return result


class Comparable:
    """A record that equals another of its type with the same values, where arrays and NaN are among them."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return same_values(self, other)


class Result(Comparable):
    """What a verb returns: plain values, JSON, and texts for people. It prints as the command does."""

    __slots__ = ()

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return self.render().splitlines()[0]

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values: what `--format json` prints."""
        raise NotImplementedError

    def to_json(self) -> str:
        """The answer as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def render(self, format: str = "table") -> str:
        """The answer as a text: `table`, `json`, `md`, and what else it has."""
        raise NotImplementedError

    def spelled(self, spell: Callable[[OptionValue], str]) -> Self:
        """The same, with options in its remarks, and in those of what it holds, spelled as a front end does."""

        def again(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: again(one) for name, one in value.items()}
            return value.spelled(spell) if isinstance(value, Message | Result) else value

        of: Any = self
        values = {each.name: getattr(of, each.name) for each in fields(of)}
        changed = {name: again(values[name]) for name in ("difference", "metrics") if name in values}
        listed = {name: tuple(map(again, values[name])) for name in ("remarks", "notes") if name in values}
        spelled: Self = replace(of, **changed, **listed)
        return spelled

    def __str__(self) -> str:
        return self.render()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.sentence}>"


def named(record: Any, names: str) -> dict[str, Any]:
    """Some values of a record by name; the names stand in one text."""
    return {name: getattr(record, name) for name in names.split()}


def same_values(one: object, other: object) -> bool:
    """Whether two values are the same: records, mappings and sequences by what they hold; NaN is NaN."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f")
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_values(one[key], other[key]) for key in one)
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str | bytes):
        return len(one) == len(other) and all(map(same_values, one, other))
    if type(one) is not type(other):
        return False
    if is_dataclass(one) or isinstance(one, msgspec.Struct):
        names = (
            one.__struct_fields__
            if isinstance(one, msgspec.Struct)
            else [each.name for each in fields(one) if each.compare]
        )
        return all(same_values(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other) or (one != one and other != other)
