"""The unit of a difference: rating points, percentage points of a share, or that of the scores themselves."""

from __future__ import annotations

import math

import msgspec

from tiltyard.data.scores import ScoreTable
from tiltyard.errors import OptionError, OptionValue

PERCENT_MARKS = ("pp", "%")
MOST_DIGITS = 6


class Unit(msgspec.Struct, frozen=True):
    """How differences are written.

    Parameters:
        name: What follows a difference; empty for scores, whose unit nobody knows.
        factor: What a difference is multiplied by.
        digits: Digits behind the point.
    """

    name: str
    factor: float = 1.0
    digits: int = 0

    def plain(self, value: float) -> str:
        """37, −4, 3.8: a real minus sign."""
        text = f"{self.factor * value:.{self.digits}f}"
        return (text[1:] if float(text) == 0.0 and text[0] == "-" else text).replace("-", "−")

    def signed(self, value: float) -> str:
        """+37, −4, 0: a real minus sign."""
        text = self.plain(value)
        return text if text[0] == "−" or float(text) == 0.0 else f"+{text}"

    def between(self, low: float | None, high: float | None) -> str:
        """`12 to 61`, `12 or more`, `61 or less`, or nothing known."""
        if low is None and high is None:
            return "no interval"
        if high is None:
            return f"{self.plain(low or 0.0)} or more"
        return f"{self.plain(high)} or less" if low is None else f"{self.plain(low)} to {self.plain(high)}"

    def named(self, text: str) -> str:
        """A number with the unit's name."""
        return f"{text} {self.name}" if self.name else text

    def mean(self, value: float) -> str:
        """A mean score: 78.0 %, or as it is."""
        return f"{self.plain(value)} %" if self.factor == 100.0 else self.plain(value)

    def amount(self, given: float | str, option: str, *, least: float = 0.0) -> float:
        """A difference that somebody typed: 2pp for shares, else a number in the unit."""
        text, named = str(given).strip(), OptionValue(option, None)
        mark = next((mark for mark in PERCENT_MARKS if text.endswith(mark)), "")
        try:
            number = float(text.removesuffix(mark))
        except ValueError:
            raise OptionError(named, f" is {given!r}: expected a number, or percentage points such as 2pp.") from None
        if not math.isfinite(number) or number < least:
            raise OptionError(named, f" is {given}: expected a number that is {least:g} or more.")
        if mark and self.factor != 100.0:
            what = "rating points" if self.name == POINTS.name else "a number in the unit of the scores"
            raise OptionError(named, f" is {given}, and these are no shares: give {what}.")
        if self.factor == 100.0 and not mark and abs(number) > 1.0:
            raise OptionError(named, f" is {given}, more than the whole: write {number:g}pp for percentage points.")
        return number / 100.0 if mark else number


class RatioUnit(Unit, frozen=True):
    """Scores on a logarithmic scale: a difference is a ratio, and a mean a geometric one."""

    def plain(self, value: float) -> str:
        """1.80, of the logarithm of 1.8."""
        return f"{math.exp(value):.{self.digits}f}"

    def signed(self, value: float) -> str:
        """The ratio."""
        return self.plain(value)

    def mean(self, value: float) -> str:
        """A geometric mean, with four figures."""
        return f"{math.exp(value):.4g}"

    def amount(self, given: float | str, option: str, *, least: float = 0.0) -> float:
        """A ratio that somebody typed, 1.1x, as a logarithm."""
        text = str(given).strip()
        try:
            number = float(text.removesuffix("x"))
        except ValueError:
            number = math.nan
        if not text.endswith("x") or not 0.0 < number < math.inf or math.log(number) < least:
            lowest = "above 0x" if math.isinf(least) else "1x or more"
            raise OptionError(
                OptionValue(option, None),
                f" is {given}: on a logarithmic scale it is a ratio, {lowest}: 1.1x for a tenth more or less.",
            )
        return math.log(number)


POINTS = Unit("points")
SHARES = Unit("percentage points", 100.0, 1)


def unit_of(table: ScoreTable, half_width: float | None) -> Unit:
    """The unit of scores: of shares percentage points, else as many digits as their interval is worth."""
    if table.shares:
        return SHARES
    size = half_width if half_width and half_width > 0.0 else table.spread / 100.0
    digits = 2 if size <= 0.0 else 1 - math.floor(math.log10(size))
    if table.log:
        return RatioUnit("×", digits=min(max(digits - 1, 2), MOST_DIGITS))
    return Unit("", 1.0, min(max(digits, 0), MOST_DIGITS))
