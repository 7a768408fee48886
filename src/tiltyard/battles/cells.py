"""One value at a time: what a cell of a source means for a field, the same for every reader."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

import numpy as np

from tiltyard.battles.plan import FieldKind

BAD_NUMBER: Final = math.inf
"""Stands in a number column for a value that is no number, and for numbers that are not finite."""


class Wrong:
    """The reading of a value whose type does not fit its field."""


WRONG: Final = Wrong()
Reading = str | None | Wrong

_TRUE = ("true", "1", "1.0")
_FALSE = ("false", "0", "0.0")


def read_label(value: object, kind: FieldKind) -> Reading:
    """The text of a value, None when it is missing, or `WRONG` when the field cannot hold it."""
    if kind is FieldKind.NAME:
        if value is None:
            return None
        if isinstance(value, str):
            return str(value) if value.strip() else None
        return WRONG
    text = _plain_text(value)
    if kind is FieldKind.TEXT or text is None or text is WRONG:
        return text
    flag = str(text).strip().lower()
    return "true" if flag in _TRUE else "false" if flag in _FALSE else WRONG


def read_number(value: object, *, from_text: bool, strict: bool) -> float:
    """The number of a value: NaN when it is missing, `BAD_NUMBER` when it is no finite number.

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


def _plain_text(value: object) -> Reading:
    value = _unboxed(value)
    if value is None or isinstance(value, str):
        return str(value) if value else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value) if isinstance(value, int) else WRONG
