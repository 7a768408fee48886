"""The validity reports of finished weeks: written once, then kept as they are.

A report says what was known at the end of its week; a later exclusion of votes does not change it. Outside the chain:
reports follow from the log and can be written again.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import msgspec
from msgspec.structs import astuple

from tiltyard.arena.rules.units import SECOND
from tiltyard.arena.store.store import Store
from tiltyard.errors import OptionError

GRACE = 3600 * SECOND
"""How long after its end a week is finished: votes of its last minutes may still be undone, revealed or expire."""

_WEEK = re.compile(r"(\d{4})-W(\d{2})\Z")


class Week(msgspec.Struct, frozen=True):
    """A calendar week from Monday 0:00 to Monday 0:00 UTC (microseconds), such as `2026-W07` (ISO 8601)."""

    name: str
    since: int
    until: int

    @classmethod
    def at(cls, time: int) -> Week:
        return cls.of_monday(datetime.fromtimestamp(time / SECOND, UTC).date())

    @classmethod
    def named(cls, name: str) -> Week:
        """A week by its name; another text is an `OptionError`."""
        if result := _WEEK.match(name):
            with suppress(ValueError):
                return cls.of_monday(date.fromisocalendar(int(result[1]), int(result[2]), 1))
        raise OptionError(f"{name!r} is no week. Write a year and a week of it, such as 2026-W07.")

    @classmethod
    def of_monday(cls, day: date) -> Week:
        year, number, weekday = day.isocalendar()
        monday = day - timedelta(days=weekday - 1)
        since = int(datetime(monday.year, monday.month, monday.day, tzinfo=UTC).timestamp()) * SECOND
        return cls(f"{year}-W{number:02d}", since, since + 7 * 86_400 * SECOND)


class KeptWeek(msgspec.Struct, frozen=True):
    """A finished week whose report was kept."""

    week: str
    """Such as `2026-W07` (ISO 8601, UTC)."""
    since: int
    until: int
    seq: int
    """Events of the log by then."""
    phase: int
    status: str
    votes: int
    written_at: int


class WeekTexts(msgspec.Struct, frozen=True):
    """A report in its forms: a page by itself, the sections of a page, and JSON."""

    page: str
    sections: str
    report: str


_FACTS, _TEXTS = KeptWeek.__struct_fields__, WeekTexts.__struct_fields__


def weeks_with_votes(store: Store, now: int) -> list[Week]:
    """The finished weeks in which somebody voted, oldest first."""
    weeks = []
    with store.database.read() as connection:
        first = connection.value("SELECT min(vote_at) FROM matchups")
        while first is not None:
            week = Week.at(int(first))
            if week.until + GRACE > now:
                break
            weeks.append(week)
            first = connection.value("SELECT min(vote_at) FROM matchups WHERE vote_at >= ?", week.until)
    return weeks


def kept_weeks(store: Store) -> list[KeptWeek]:
    """The reports that are kept, newest first."""
    with store.database.read() as connection:
        rows = connection.rows(f"SELECT {', '.join(_FACTS)} FROM weekly_reports ORDER BY since DESC")
        return [KeptWeek(*row) for row in rows]


def week_texts(store: Store, week: str) -> WeekTexts | None:
    """The texts of a report; None if it is not kept."""
    with store.database.read() as connection:
        row = connection.one(f"SELECT {', '.join(_TEXTS)} FROM weekly_reports WHERE week = ?", week)
    return None if row is None else WeekTexts(*row)


def keep_week(store: Store, kept: KeptWeek, texts: WeekTexts, *, again: bool = False) -> None:
    """Keep a report. One that is there stays, unless it is to be written `again`."""
    row = (*astuple(kept), *astuple(texts))
    with store.database.write() as connection:
        if again:
            connection.execute("DELETE FROM weekly_reports WHERE week = ?", kept.week)
        connection.insert("weekly_reports", (*_FACTS, *_TEXTS), [row], or_ignore=True)
