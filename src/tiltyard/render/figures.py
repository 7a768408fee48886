"""Formatting of numbers and dates: thousands separators, a real minus sign, a dash for missing values."""

from __future__ import annotations

import math
from datetime import UTC, datetime


def count(value: float, digits: int = 0) -> str:
    """A number with thousands separators: 12,345."""
    return f"{value:,.{digits}f}".replace("-", "−")


def plain_count(value: float) -> str:
    """A count with thousands separated, and one digit where it is no whole number."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def points(value: float | None, digits: int = 0) -> str:
    """A figure without separators: 1012.4."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 0) -> str:
    """A figure with its sign: +3."""
    return "–" if value is None else f"{value:+.{digits}f}".replace("-", "−")


def percent(share: float | None, digits: int = 0) -> str:
    """A share as a percentage: 12 %."""
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def signed_percent(share: float) -> str:
    """A share with its sign: +3.1 %; a dash if it is not a number."""
    return "–" if math.isnan(share) else f"{100 * share:+.1f} %".replace("-", "−")


def plural(count: int, noun: str) -> str:
    """How many of something: 1 reply, 12 replies, 2 batches."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("ly") else f"{count:,} {noun}{'es' if noun[-1] == 'h' else 's'}"


def day(at: int) -> str:
    """A time in microseconds as a date and time in UTC: 2026-11-15 21:40 UTC."""
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%d %H:%M UTC")


def long_date(text: str, *, time: bool = False) -> str:
    """A time of a file as a date in words: 15 November 2026, 21:40 UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    at = at.astimezone(UTC) if at.tzinfo is not None else at
    return f"{at.day} {at:%B %Y}" + (f", {at:%H:%M} UTC" if time else "")


def money(value: float | None, *, without_usage: int = 0) -> str:
    """A price in USD, or "unknown" for all replies or for those `without_usage`."""
    more = f" + unknown for {plural(without_usage, 'reply')}" if without_usage and value is not None else ""
    return "unknown" if value is None else f"${value:,.2f}{more}"
