"""Pictures of whole boards: ratings and places by day, and ratings against prices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tiltyard.arena.following.parts import History
from tiltyard.pages.figures import plural
from tiltyard.pages.markup import Html, el
from tiltyard.web.charts import BROAD, Plot
from tiltyard.web.leaderboard import BoardLine

NAMES_WIDTH = 190
LINES = 10
"""Models whose lines are drawn: the first of today's board."""

LABEL_GAP = 15
PRICED = 2
"""The fewest models with a price for which a plot is drawn."""


def rating_history(found: History, names: Mapping[str, str]) -> Html | None:
    """The ratings of the first models by day; None for fewer than two days."""
    values = found.rating[:, :LINES]
    known = values[~np.isnan(values)]
    if len(found.days) < 2 or not len(known):
        return None
    late = values[len(values) // 10 :]
    low, high = float(np.nanmin(late)), float(np.nanmax(late))
    plot = Plot(low, high, 360, BROAD, NAMES_WIDTH)
    label = f"Ratings of the first {min(LINES, len(found.models))} models of today by day"
    return _lines(plot, found, names, lambda day, one: float(values[day, one]), label)


def place_history(found: History, names: Mapping[str, str]) -> Html | None:
    """Their places by day; None for fewer than two days."""
    places = found.place[:, :LINES]
    if len(found.days) < 2 or not places.any():
        return None
    plot = Plot(1.0, float(max(places.max(), 2)), 320, BROAD, NAMES_WIDTH, falls=True)
    label = f"Places of the first {min(LINES, len(found.models))} models of today by day"
    return _lines(plot, found, names, lambda day, one: float(places[day, one]) or math.nan, label)


def _lines(
    plot: Plot, found: History, names: Mapping[str, str], value: Callable[[int, int], float], label: str
) -> Html:
    last = len(found.days) - 1
    marks, ends = plot.frame(), []
    for one, model in enumerate(found.models[:LINES]):
        points = [(day, value(day, one)) for day in range(len(found.days))]
        seen = [(plot.x(day / last), plot.y(at)) for day, at in points if not math.isnan(at)]
        if not seen:
            continue
        path = "L".join(f"{x:g} {y:g}" for x, y in seen)
        marks.append(el("path", d=f"M{path}", class_=f"line line{one}"))
        marks.append(el("circle", cx=seen[-1][0], cy=seen[-1][1], r=3.5, class_=f"end line{one}"))
        ends.append((seen[-1][1], names.get(model, model), one))
    at = -math.inf
    for y, name, one in sorted(ends):
        at = max(y, at + LABEL_GAP)
        marks.append(el("text", _short(name), x=plot.x(1) + 10, y=round(at + 4, 1), class_=f"name line{one}"))
    marks += [plot.foot(0, found.days[0], "start"), plot.foot(1, found.days[-1], "end")]
    return plot.drawn(label, marks)


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def price_plot(lines: Sequence[BoardLine]) -> Html | None:
    """Ratings (up) against prices (across, each step ten times as dear); None if too few models have a price."""
    priced = [(line, line.facts.price) for line in lines if line.facts.price]
    if len(priced) < PRICED:
        return None
    logs = [math.log10(price) for _, price in priced if price]
    left, right = math.floor(min(logs) * 2 - 0.2) / 2, math.ceil(max(logs) * 2 + 0.2) / 2
    rated = [line.row.rating_shown for line, _ in priced]
    plot = Plot(min(rated), max(rated), 360, BROAD, 120)
    marks = plot.frame()
    for tick in range(math.ceil(left), math.floor(right) + 1):
        share = (tick - left) / (right - left)
        marks.append(el("path", d=f"M{plot.x(share):g} 12V{plot.height - 30}", class_="grid"))
        marks.append(plot.foot(share, f"${10.0**tick:g}"))
    taken: list[tuple[float, float]] = []
    for line, price in sorted(priced, key=lambda one: -one[0].row.rating_shown):
        x, y = plot.x((math.log10(price or 1.0) - left) / (right - left)), plot.y(line.row.rating_shown)
        said = f"{line.row.display_name}: {line.row.rating_shown:.0f} for ${price:g}"
        marks.append(el("circle", el("title", said), cx=x, cy=y, r=4.5, class_="dot"))
        if all(abs(y - other) > LABEL_GAP - 2 or abs(x - beside) > 150 for beside, other in taken):
            marks.append(el("text", _short(line.row.display_name), x=x + 8, y=y + 4, class_="name"))
            taken.append((x, y))
    label = f"Rating (up) against the price of a million tokens (across) of {plural(len(priced), 'model')}"
    return plot.drawn(label, marks)
