"""Charts of a leaderboard as Altair objects, saved as SVG, PNG or HTML without a browser."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tiltyard.analysis.boards.leaderboard import Leaderboard
from tiltyard.analysis.boards.text import headline, rank_text
from tiltyard.errors import MissingExtra, OptionError
from tiltyard.files import whole_file
from tiltyard.render import CONTROLS, Html, page

INK = "#1f2933"
GREY = "#52606d"
DOT = "#1b5e9e"
EVALUATED = "#c2410c"
ROW_HEIGHT = 18
WIDTH = 460
SUFFIXES = (".svg", ".png", ".pdf", ".html")
SEPARATORS = dict.fromkeys(map(ord, "\t\n\r\u2028\u2029"), " ")
"""Vega takes no name with these, or with a control character."""
STYLE = "body { margin: 2rem; background: white } svg { display: block; max-width: 100%; height: auto; margin: auto }"


def interval_chart(board: Leaderboard) -> Any:
    """A dot and an interval per model, best on top, rank intervals on the right; an open side ends in an arrow head."""
    try:
        import altair as alt
        import vl_convert  # noqa: F401 - saving needs it; say so before anything is drawn
    except ImportError:
        raise MissingExtra("a plot", "plot") from None
    rows = _rows(board)
    ends = [value for row in rows for value in (row["rating"], row["low"], row["high"])]
    room = 0.04 * ((max(ends) - min(ends)) or 1.0)
    scale = alt.Scale(domain=[min(ends) - room, max(ends) + room], nice=False, zero=False)
    order = [row["model"] for row in rows]
    y = alt.Y(
        "model:N", sort=order, title=None, axis=alt.Axis(labelLimit=260, ticks=False, domain=False, labelPadding=8)
    )
    by_share = board.settings.method == "winrate"
    unit = "average win rate over opponents" if by_share else "rating (400 points = odds of 10 to 1)"
    x = alt.X("rating:Q", scale=scale, title=unit, axis=alt.Axis(tickCount=7, domain=False, ticks=False))
    colour = alt.Color(
        "source:N",
        scale=alt.Scale(domain=["human", "evaluated"], range=[DOT, EVALUATED]),
        legend=alt.Legend(title=None, orient="bottom") if len({row["source"] for row in rows}) > 1 else None,
    )
    tips = [
        "model:N",
        "rank:N",
        alt.Tooltip("rating:Q", format=".1f"),
        "interval:N",
        alt.Tooltip("battles:Q", format=","),
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=y, color=colour)
    line = base.mark_rule(strokeWidth=2.2).encode(x=alt.X("low:Q", scale=scale), x2="high:Q", tooltip=tips)
    dot = base.mark_point(filled=True, size=52, opacity=1).encode(x=x, tooltip=tips)
    below = (
        base.transform_filter("datum.open_low")
        .mark_point(shape="triangle-left", filled=True, size=60)
        .encode(x="low:Q")
    )
    above = (
        base.transform_filter("datum.open_high")
        .mark_point(shape="triangle-right", filled=True, size=60)
        .encode(x="high:Q")
    )
    place = base.mark_text(align="left", fontSize=10, color=GREY).encode(
        x=alt.value(WIDTH + 8), text="rank:N", color=alt.value(GREY)
    )
    title = alt.Title(
        "Average win rate" if by_share else "Ratings",
        subtitle=_one_line(headline(board)),
        anchor="start",
        color=INK,
        subtitleColor=GREY,
        offset=12,
    )
    chart = alt.layer(line, dot, below, above, place, title=title)
    return (
        chart.properties(width=WIDTH, height=alt.Step(ROW_HEIGHT))
        .configure(font="Helvetica, Arial, sans-serif", background="white")
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11, titleFontSize=11, labelColor=INK, titleColor=GREY, gridColor="#e4e7eb")
        .configure_axisX(titleFontWeight="normal", titlePadding=10)
        .configure_title(fontSize=14, subtitleFontSize=11)
    )


def save_chart(chart: Any, path: Path) -> None:
    """Save as SVG, PDF, PNG (twice the size, for print) or one HTML page without a script, by the file's suffix."""
    check_path(path)
    kind = path.suffix.lower().removeprefix(".")
    with whole_file(path) as part:
        if kind == "html":
            drawn = io.StringIO()
            chart.save(drawn, format="svg")
            text = page("render/chart.html", title=path.stem, style=STYLE, drawing=Html(drawn.getvalue()))
            part.write_text(text, encoding="utf-8")
        else:
            chart.save(str(part), format=kind, **({"scale_factor": 2} if kind == "png" else {}))


def check_path(path: Path) -> None:
    """Refuse what could not be drawn, before anything is rated: another kind of file, or no library to draw with."""
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"cannot plot to {path.name}: the name must end in {', '.join(SUFFIXES)}.")
    if not all(find_spec(library) for library in ("altair", "vl_convert")):
        raise MissingExtra("a plot", "plot")


def _one_line(text: str) -> str:
    """A name for a chart. Altair writes it into a script of its own pages, which `</script>` would end."""
    return text.translate({**CONTROLS, **SEPARATORS}).replace("</", "<\u2215")


def _rows(board: Leaderboard) -> list[dict[str, Any]]:
    """One row per model; an open side is drawn to the edge of what the others need."""
    closed = [value for entry in board for value in (entry.rating, entry.ci_low, entry.ci_high) if value is not None]
    least, most = min(closed), max(closed)
    has_interval = any(entry.ci_low is not None or entry.ci_high is not None for entry in board)
    rows = []
    for entry in board:
        open_low, open_high = has_interval and entry.ci_low is None, has_interval and entry.ci_high is None
        low = entry.ci_low if entry.ci_low is not None else (least if open_low else entry.rating)
        high = entry.ci_high if entry.ci_high is not None else (most if open_high else entry.rating)
        rows.append(
            {
                "model": _one_line(entry.model),
                "rank": rank_text(entry),
                "rating": entry.rating,
                "low": low,
                "high": high,
                "open_low": open_low,
                "open_high": open_high,
                "interval": f"{'…' if open_low else f'{low:.1f}'} – {'…' if open_high else f'{high:.1f}'}",
                "battles": entry.n_battles,
                "source": entry.source,
            }
        )
    return rows
