"""The report of an arena's week as pages: for the site, for a file, and for a folder of all weeks."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tiltyard.arena import BoardRow, Known, WeeklyReport, top_order, weekly_report
from tiltyard.arena.store import (
    KeptWeek,
    Store,
    WeekTexts,
    events_in_order,
    keep_week,
    kept_weeks,
    week_texts,
    weeks_with_votes,
)
from tiltyard.arena.study import period_of_log, study_of
from tiltyard.files import write_text
from tiltyard.render import MARGIN, WIDTH, Html, Scale, environment, escaping, package_text, page, path, picture, words
from tiltyard.reports import weekly_text as text
from tiltyard.reports.weekly_text import weekly_json

ROW, CHART_WIDTH, NAME_ROOM, RANK_ROOM = 26, 900, 190, 34
"""Sizes of the chart of places."""

FURTHEST = 0.4
"""Exposures further off than this are drawn at the edge of their picture."""

Address = Callable[..., str]
"""The address of a model, or of two models; empty: it has none."""


def style() -> str:
    """The style sheet of weekly reports."""
    return package_text("tiltyard.reports", "style.css") + package_text("tiltyard.reports", "weekly.css")


def weekly_page(report: WeeklyReport, title: str = "Validity report") -> str:
    """The report as one HTML file."""
    return page("reports/week.html", title=title, style=style(), **week_view(report))


def week_view(
    report: WeeklyReport,
    names: Mapping[str, str] | None = None,
    model_address: Address = lambda *_models: "",
    pair_address: Address = lambda *_models: "",
) -> dict[str, Any]:
    """What the sections show; without names, models stand under their ids."""
    named = report if names is None else by_shown_name(report)
    fair, rows = report.coverage_fairness, report.board.rows
    offs = [abs(one.off) for one in fair.models if one.off is not None]
    widest = min(FURTHEST, max([*offs, 1.5 * fair.tolerance]))
    standings = [known for look in (report.looks[0], report.looks[-1]) for known in look.standings.values()]
    return {
        "report": report,
        "named": named,
        "sentences": text,
        "names": names,
        "model_address": model_address,
        "pair_address": pair_address,
        "off_scale": Scale.of([-100 * widest, 100 * widest]),
        "exposures": [
            (row, one.exposures, one.target, math.nan if one.off is None else one.off, one.within)
            for row, one in zip(rows, fair.models, strict=True)
        ],
        "band_scale": Scale.of([end for known in standings for end in (known.low, known.high)] or [0.0]),
        "bands": bands(report) if rows else [],
        "share_picture": share_picture,
        "rank_chart": rank_chart(named) if rows else None,
    }


def by_shown_name(report: WeeklyReport) -> WeeklyReport:
    """The same report for its sentences and its chart, with models under their display names.

    Where two models share a name, their ids tell them apart.
    """
    rows = report.board.rows
    shared = Counter(row.display_name for row in rows)
    names = {
        row.model: row.display_name if shared[row.display_name] == 1 else f"{row.display_name} ({row.model})"
        for row in rows
    }
    parts = ("sides", "quality", "confidence_stability", "top_churn", "looks")
    offline = report.offline and replace(report.offline, misfit=_renamed(report.offline.misfit, names))
    return replace(report, offline=offline, **{name: _renamed(getattr(report, name), names, name) for name in parts})


NAMING = ("model", "against", "off_balance", "left_band", "rose", "fell", "entered", "left")
"""Fields that name models."""


def _renamed(part: Any, names: Mapping[str, str], field: str = "") -> Any:
    """A part of a report with models under their display names."""
    if isinstance(part, str):
        return names.get(part, part) if field in NAMING else part
    if isinstance(part, Mapping):
        if field == "standings":
            return {names.get(model, model): known for model, known in part.items()}
        return {key: _renamed(value, names, key) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return type(part)(_renamed(one, names, field) for one in part)
    if isinstance(part, msgspec.Struct):
        return replace(part, **{name: _renamed(getattr(part, name), names, name) for name in part.__struct_fields__})
    return part


def bands(report: WeeklyReport) -> list[tuple[BoardRow, Known | None, Known]]:
    """The standings of each model of the board at the start of the period and now."""
    before, now = report.looks[0].standings, report.looks[-1].standings
    return [(row, before.get(row.model), now[row.model]) for row in report.board.rows]


def share_picture(share: float, needed: float, label: str) -> Html:
    """A bar from 0 to 1 with a mark at its target."""
    room = WIDTH - 2 * MARGIN
    marks = [
        path(f"M{MARGIN} 9h{room}v12h-{room}z", "band"),
        path(f"M{MARGIN} 9h{room * min(share, 1.0):.2f}v12h-{room * min(share, 1.0):.2f}z", "area"),
        path(f"M{MARGIN + room * needed:.2f} 4V26", "guide"),
    ]
    return picture(label, marks)


def rank_chart(report: WeeklyReport) -> Html:
    """The places of the top models over time; a model whose place changed is highlighted."""
    looks = [look for look in report.looks if look.standings]
    last = top_order(looks[-1].standings, report.top_churn.top)
    orders = [top_order(look.standings, len(look.standings)) for look in looks]
    shown = list(dict.fromkeys([*last, *(model for order in orders for model in order[: report.top_churn.top])]))
    places = {model: [order.index(model) + 1 if model in order else None for order in orders] for model in shown}
    deepest = max(place for line in places.values() for place in line if place is not None)
    step = (CHART_WIDTH - NAME_ROOM - RANK_ROOM) / max(len(looks) - 1, 1)
    marks = [_rank_line(model, places[model], step) for model in sorted(shown, key=lambda name: _moved(places[name]))]
    marks += [_rank_label(model, places[model], step, len(looks)) for model in shown if places[model][-1] is not None]
    height = ROW * (deepest + 1)
    label = f"Places of {len(shown)} models over {len(looks)} looks; now {', '.join(last)}"
    return picture(label, marks, width=CHART_WIDTH, height=height, class_="ranks")


def _moved(line: Sequence[int | None]) -> bool:
    return len({place for place in line if place is not None}) > 1


def _rank_line(model: str, line: Sequence[int | None], step: float) -> str:
    steps, drawing = [], False
    for number, place in enumerate(line):
        if place is None:
            drawing = False
            continue
        steps.append(f"{'L' if drawing else 'M'}{RANK_ROOM + number * step:.1f} {ROW * place:g}")
        drawing = True
    dots = [
        f'<circle cx="{RANK_ROOM + number * step:.1f}" cy="{ROW * place}" r="3"/>'
        for number, place in enumerate(line)
        if place is not None
    ]
    title = escaping.text(f"{model}: {', '.join('–' if place is None else str(place) for place in line)}")
    class_ = "way moved" if _moved(line) else "way"
    return f'<g class="{class_}"><title>{title}</title><path d="{"".join(steps)}"/>{"".join(dots)}</g>'


def _rank_label(model: str, line: Sequence[int | None], step: float, n_looks: int) -> str:
    first, place = line[0], line[-1]
    assert place is not None
    x = RANK_ROOM + (n_looks - 1) * step + 12
    left = "" if first is None else words(RANK_ROOM - 12, ROW * first + 4, str(first), anchor="end")
    return f"<g>{left}{words(f'{x:.1f}', ROW * place + 4, f'{place}  {model}', class_='name')}</g>"


def keep_finished_weeks(store: Store, now: int | None = None, *, again: bool = False) -> list[str]:
    """Write the report of every finished week that has none yet; the weeks that were written, oldest first.

    `now` is in microseconds. `again` writes the others again too, such as after an upgrade.
    """
    now = int(time.time() * 1e6) if now is None else now
    there = set() if again else {kept.week for kept in kept_weeks(store)}
    written = []
    for week in weeks_with_votes(store, now):
        if week.name not in there:
            # Events of several servers are nearly in clock order: a week's log ends with the first event after it.
            events = takewhile(lambda event: event.at < week.until, events_in_order(store))  # noqa: B023
            state, period = period_of_log(events, week.since)
            report = weekly_report(state, period, study_of(state, period.votes)[0])
            names = {row.model: row.display_name for row in report.board.rows}
            parts: Any = environment().get_template("reports/week_parts.html").make_module(week_view(report, names))
            facts = KeptWeek(
                week=week.name,
                since=week.since,
                until=week.until,
                seq=state.seq,
                phase=report.board.phase,
                status=str(report.board.publication.status),
                votes=report.votes,
                written_at=now,
            )
            texts = WeekTexts(
                page=weekly_page(report, f"Validity report {week.name}"),
                sections=str(parts.whole()),
                report=weekly_json(report),
            )
            keep_week(store, facts, texts, again=again)
            written.append(week.name)
    return written


def write_folder(store: Store, folder: Path) -> int:
    """Copy every kept report to a folder, as page and JSON, with a page that lists them; how many are new.

    Files that are there with the same text are left alone.
    """
    weeks = kept_weeks(store)
    new = 0
    for kept in weeks:
        texts = week_texts(store, kept.week)
        assert texts is not None
        forms = ((texts.page, "html"), (texts.report, "json"))
        new += sum([_write(folder / f"{kept.week}.{suffix}", text) for text, suffix in forms]) > 0
    index = page("reports/weeks.html", title="Validity reports", style=style(), weeks=weeks)
    _write(folder / "index.html", index)
    return new


def _write(path: Path, text: str) -> bool:
    if path.is_file() and path.read_bytes() == text.encode():
        return False
    write_text(path, text)
    return True
