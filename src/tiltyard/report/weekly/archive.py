"""Reports of finished weeks: written once from the log as it was, kept in the arena, and copied to a folder."""

from __future__ import annotations

import time
from itertools import takewhile
from pathlib import Path

from tiltyard.arena.following.evidence import study_of
from tiltyard.arena.following.replay import period_of_log
from tiltyard.arena.store import Store
from tiltyard.arena.store.reading import events_in_order
from tiltyard.arena.store.weeks import KeptWeek, Week, WeekTexts, keep_week, kept_weeks, week_texts, weeks_with_votes
from tiltyard.arena.weekly import WeeklyReport, weekly_report
from tiltyard.files import write_text
from tiltyard.pages.html import page
from tiltyard.report.weekly.page import kept_sections, style, weekly_page
from tiltyard.report.weekly.text import weekly_json, weekly_markdown


def keep_finished_weeks(store: Store, now: int | None = None, *, again: bool = False) -> list[str]:
    """Write the report of every finished week that has none yet; the weeks that were written, oldest first.

    Parameters:
        store: The arena.
        now: The time (microseconds); None: that of this computer.
        again: Whether to write the others again too, such as after an upgrade.
    """
    now = int(time.time() * 1e6) if now is None else now
    there = set() if again else {kept.week for kept in kept_weeks(store)}
    written = []
    for week in weeks_with_votes(store, now):
        if week.name not in there:
            report, seq = report_of(store, week)
            facts = KeptWeek(
                week=week.name,
                since=week.since,
                until=week.until,
                seq=seq,
                phase=report.board.phase,
                status=report.board.publication.status,
                votes=report.votes,
                written_at=now,
            )
            texts = WeekTexts(
                page=weekly_page(report, f"Validity report {week.name}"),
                sections=kept_sections(report, {row.model: row.display_name for row in report.board.rows}),
                markdown=weekly_markdown(report),
                report=weekly_json(report),
            )
            keep_week(store, facts, texts, again=again)
            written.append(week.name)
    return written


def report_of(store: Store, week: Week) -> tuple[WeeklyReport, int]:
    """The report of a week from the log as it was at its end, and the number of its last event."""
    # Events of several servers are nearly in clock order: the log of a week ends with the first event after it.
    events = takewhile(lambda event: event.at < week.until, events_in_order(store))
    state, period = period_of_log(events, week.since)
    study, _ = study_of(state, period.votes)
    return weekly_report(state, period, study), state.seq


def write_folder(store: Store, folder: Path) -> int:
    """Copy every kept report to a folder, as page, Markdown and JSON, with a page that lists them; how many are new.

    Files that are there with the same text are left alone.
    """
    weeks = kept_weeks(store)
    new = 0
    for kept in weeks:
        texts = week_texts(store, kept.week)
        assert texts is not None
        forms = ((texts.page, "html"), (texts.markdown, "md"), (texts.report, "json"))
        new += sum([_write(folder / f"{kept.week}.{suffix}", text) for text, suffix in forms]) > 0
    index = page("report/weeks.html", title="Validity reports", style=style(), weeks=weeks)
    _write(folder / "index.html", index)
    return new


def _write(path: Path, text: str) -> bool:
    if path.is_file() and path.read_bytes() == text.encode():
        return False
    write_text(path, text)
    return True
