"""How rows are read: a `Layout` lists the fields of a source that become columns of a `BattleTable`.

At the end, what one cell means for its field (`read_label`, `read_number`, `read_time`): the same for every reader.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import msgspec
import numpy as np

from tiltyard.data.battles import formats
from tiltyard.data.battles.battle import FLAGS, OPTIONAL_FIELDS, TEXT_FIELDS, Source, is_pair
from tiltyard.data.battles.formats import ColumnMap, Format, listed, read_map
from tiltyard.data.battles.inputs import Header, RawColumn
from tiltyard.errors import BattleError, OptionError, OptionValue
from tiltyard.options import ReadingOptions, option


class FieldKind(enum.Enum):
    """How the values of a field are read; its value says what is expected of them."""

    NAME = "text"
    """Text that must be text: model names, winners, sources."""
    WINNER = "text, 1 or 2"
    """Text or a number, where any usual spelling of a winner is read."""
    TEXT = "text or a number"
    """Any plain value, as text."""
    FLAG = "true or false"
    NUMBER = "a finite number"
    TIME = "seconds since 1970 or an ISO date and time"

    @property
    def is_label(self) -> bool:
        return self in (FieldKind.NAME, FieldKind.WINNER, FieldKind.TEXT, FieldKind.FLAG)


CORE = ("model_a", "model_b", "winner", "is_tie", "source", "score_a", "weight")

KINDS = {
    **dict.fromkeys(("model_a", "model_b", "winner", "source"), FieldKind.NAME),
    **dict.fromkeys(TEXT_FIELDS, FieldKind.TEXT),
    **dict.fromkeys(("score_a", "weight"), FieldKind.NUMBER),
    "timestamp": FieldKind.TIME,
    **dict.fromkeys((*FLAGS, "is_tie"), FieldKind.FLAG),
}

STRICT_NUMBERS = ("weight",)
"""Fields in which a NaN is a fault, not a missing value."""


class Field(msgspec.Struct, frozen=True):
    """One of our columns and the column of the source that it is read from."""

    name: str
    kind: FieldKind
    raw: RawColumn
    hashed: bool = False


class Layout(msgspec.Struct, frozen=True):
    """Everything that decides how rows become battles; the same for the fast and for the careful reader.

    `plain` are columns of JSON of which only the text counts: DuckDB then need not keep them as JSON.
    """

    format: Format
    header: Header
    fields: tuple[Field, ...]
    default_source: Source | None
    where: str | None = None
    counted: bool = False
    name: str = "the battles"
    plain: frozenset[str] = frozenset()

    @property
    def labels(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.kind.is_label)

    @property
    def numbers(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if not field.kind.is_label)

    def field(self, name: str) -> Field | None:
        return next((field for field in self.fields if field.name == name), None)


@dataclass(frozen=True, kw_only=True)
class ReadBattlesOptions(ReadingOptions):
    """Options of `read_battles`."""

    columns: Collection[str] | None = option(
        None, "The optional columns to keep.", default="all that are known, and control pairs"
    )
    counted: bool = option(False, "Merge equal rows and add their weights, while reading.")
    hashed: Collection[str] = option(
        (), "Text columns that keep only which rows share a value (four bytes a row), not the texts."
    )
    numbers: Collection[str] = option((), "Columns that must hold numbers: a text in one is a bad row.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.columns, str) or isinstance(self.hashed, str):
            raise OptionError("columns and hashed are lists of column names, not one text")

    def with_texts(self) -> ReadBattlesOptions:
        """The same options with every text kept, for sources whose hashes could not be compared."""
        columns = None if self.columns is None else (*self.columns, *self.hashed)
        return replace(self, columns=columns, hashed=())


Recognise = Callable[[Header, str, ColumnMap], Format]
"""How the format of a source with a name is recognised by its header."""


def choose_format(
    header: Header,
    options: ReadingOptions,
    where: str,
    recognise: Recognise = formats.recognise,
) -> Format:
    """The format that was asked for, or the one that the header shows."""
    if options.format in formats.LOG_FORMATS:
        raise BattleError(
            f"{where} is not a log of {options.format}. Name the right format (", OptionValue("format"), ")."
        )
    mapped = read_map(options.map)
    if options.format != "auto":
        return formats.named(options.format, header, where, mapped)
    spelling = recognise(header, where, mapped)
    if options.default_source is None:
        formats.check_source(spelling, header, where, mapped)
    return spelling


def make_layout(header: Header, options: ReadBattlesOptions, where: str, spelling: Format) -> Layout:
    """The layout for a source with this header and format; `where` names the source in messages."""
    names = list(dict.fromkeys((*CORE, *_wanted(header, spelling, options, where))))
    found = (_field(name, header, spelling, options) for name in names)
    fields = tuple(field for field in found if field is not None)
    decider = spelling.default_source
    if options.default_source is not None:
        decider = Source(options.default_source)
    return Layout(
        format=spelling,
        header=header,
        fields=fields,
        default_source=decider,
        where=options.where or None,
        counted=options.counted,
        name=where,
        plain=plain_columns(header, [field.raw for field in fields if not field.hashed]),
    )


def plain_columns(header: Header, kept: Iterable[RawColumn] = ()) -> frozenset[str]:
    """The columns of JSON rows that may be read as text: none that is nested, or is to be `kept` as it is."""
    if header.cells != "json":
        return frozenset()
    tops = {column.top for column in header.columns.values() if column.inner is None and column.holds != "nested"}
    return frozenset(tops - {column.top for column in kept})


def present_columns(header: Header, spelling: Format) -> tuple[str, ...]:
    """Our optional columns that a source has: the known ones, then its control pairs."""
    known = [name for name in OPTIONAL_FIELDS if spelling.find(name, header) is not None]
    return tuple(dict.fromkeys((*known, *_pairs(header, spelling))))


def _wanted(header: Header, spelling: Format, options: ReadBattlesOptions, where: str) -> Sequence[str]:
    if options.columns is None:
        late = [name for name in OPTIONAL_FIELDS if header.cells == "json" and name in spelling.columns]
        return (*present_columns(header, spelling), *late)
    wanted = (*options.columns, *options.hashed)
    others = [name for name in wanted if name not in (*OPTIONAL_FIELDS, *CORE)]
    unknown = [name for name in others if _raw(name, header, spelling) is None]
    if unknown:
        raise OptionError(f"{where} has no column {', '.join(unknown)}. Its columns are {listed(header.top_names)}.")
    return wanted


def _pairs(header: Header, spelling: Format) -> list[str]:
    numbers = {name for name in header.top_names if header.columns[name].holds == "number"}
    mapped = {
        name: raw for name in spelling.columns if name[-2:] in ("_a", "_b") and (raw := spelling.find(name, header))
    }
    numbers |= {name for name, raw in mapped.items() if header.columns[raw].holds == "number"}
    return sorted(name for name in numbers if is_pair(name, numbers))


def _field(name: str, header: Header, spelling: Format, options: ReadBattlesOptions) -> Field | None:
    raw = _raw(name, header, spelling)
    if raw is None:
        late = spelling.columns.get(name, ("",))[0] if header.cells == "json" else ""
        if not late or "." in late:
            return None
        raw = RawColumn(late, "text", top=late)  # a later line may have it
    is_number = name in options.numbers or name in _pairs(header, spelling)
    kind = KINDS.get(name) or (FieldKind.NUMBER if is_number else FieldKind.TEXT)
    if name == "winner" and spelling.any_spelling:
        kind = FieldKind.WINNER
    return Field(name, kind, raw, hashed=kind is FieldKind.TEXT and name in options.hashed)


def _raw(name: str, header: Header, spelling: Format) -> RawColumn | None:
    known = name in spelling.columns or name in KINDS
    column = spelling.find(name, header) if known else name
    return None if column is None else header.columns.get(column)


BAD_NUMBER: Final = math.inf
"""Marks a value in a number column that is not a finite number."""


class Wrong:
    """The reading of a value whose type does not fit its field."""


WRONG: Final = Wrong()
CellText = str | None | Wrong

BLANKS = "".join(map(chr, (*range(9, 14), *range(28, 33), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B))))
BLANKS += "\u2028\u2029\u202f\u205f\u3000"
"""What counts as a blank around a text: what `str.strip` takes away."""

WHOLE = re.compile("-?[0-9]+[.]0")
"""A whole number that is written like a fraction, as tables write a column with gaps."""

_FLAGS = {"true": "true", "1": "true", "1.0": "true", "false": "false", "0": "false", "0.0": "false"}


def read_label(value: object, kind: FieldKind) -> CellText:
    """The text of a value, None when it is missing, or `WRONG` when the field cannot hold it.

    Blanks around a text are not part of it. A whole number is one id however it is written: 1, 1.0 and "1.0" are "1".
    """
    if kind is FieldKind.NAME:
        if value is None:
            return None
        return value.strip() or None if isinstance(value, str) else WRONG
    if kind is FieldKind.WINNER:
        value = _unboxed(value)
        if isinstance(value, bool):
            return WRONG
        return read_label(value, FieldKind.NAME if isinstance(value, str) else FieldKind.TEXT)
    text = _plain_text(value)
    if kind is FieldKind.TEXT or text is None or text is WRONG:
        return text
    return _FLAGS.get(str(text).strip().lower(), WRONG)


def read_number(value: object, *, from_text: bool, strict: bool) -> float:
    """The number of a value: NaN when it is missing, `BAD_NUMBER` when it is not a finite number.

    `from_text` allows numbers written as text, as CSV has them. A NaN is a missing value unless `strict`.
    """
    value = _unboxed(value)
    if value is None or (from_text and value == ""):
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float, str) if from_text else (int, float)):
        return BAD_NUMBER
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return BAD_NUMBER
    if math.isnan(number):
        return BAD_NUMBER if strict else math.nan
    return number if math.isfinite(number) else BAD_NUMBER


def read_time(value: object, *, from_text: bool) -> float:
    """Seconds since 1970: of a number, or of an ISO date and time (UTC unless it says otherwise)."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if not isinstance(value, str) or value == "":
        return read_number(value, from_text=from_text, strict=False)
    number = read_number(value, from_text=True, strict=False)
    if from_text and math.isfinite(number):
        return number
    try:
        return read_time(datetime.fromisoformat(value.strip()), from_text=False)
    except ValueError:
        return BAD_NUMBER


def _unboxed(value: object) -> object:
    """A NumPy scalar as the Python value it holds; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _plain_text(value: object) -> CellText:
    value = _unboxed(value)
    if isinstance(value, str):
        text = value.strip()
        return text.removesuffix(".0") if WHOLE.fullmatch(text) else text or None
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value) if isinstance(value, int) else WRONG
