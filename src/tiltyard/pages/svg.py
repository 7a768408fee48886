"""Small pictures for table cells, all on one scale: a dot with its interval, a histogram, an axis.

They contain no text except the axis labels; every picture has a label that says what it shows. Strokes and fills are
classes of the style sheet, and lightness alone is enough to read them, so they survive greyscale printing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiltyard.pages.markup import Html, el

WIDTH = 320
HEIGHT = 30
HISTOGRAM_HEIGHT = 44
SHARES_HEIGHT = 14
MARGIN = 7


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high` across the width of a picture."""

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float], n_ticks: int = 6) -> Scale:
        """A scale that holds all values, with room on both sides and round ticks."""
        low, high = min(values), max(values)
        room = 0.05 * (high - low) or 1.0
        low, high = low - room, high + room
        step = _round_step((high - low) / n_ticks)
        first = math.ceil(low / step)
        count = math.floor(high / step) - first + 1
        return cls(low, high, tuple(round((first + i) * step, 10) for i in range(count)))

    def x(self, value: float) -> float:
        """The x position of a value; values outside the scale go to the edge."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 2)


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, … that is not below."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))


def picture(label: str, *marks: Html, height: int = HEIGHT, class_: str = "strip") -> Html:
    """An SVG of the common width that a screen reader announces as one image."""
    return el(
        "svg", el("title", label), *marks, class_=class_, viewBox=f"0 0 {WIDTH} {height}", role="img", aria_label=label
    )


def grid(scale: Scale, height: int) -> list[Html]:
    """Faint lines at the ticks, through the whole height, so that rows of pictures read as one chart."""
    return [el("path", d=f"M{scale.x(tick):g} 0V{height}", class_="grid") for tick in scale.ticks]


def axis(scale: Scale, unit: str = "") -> Html:
    """The labels of the ticks, above a column of pictures. Labels that would leave the picture are left out."""
    marks = [
        el("text", f"{tick:g}{unit}", x=scale.x(tick), y=14, text_anchor="middle")
        for tick in scale.ticks
        if 16 <= scale.x(tick) <= WIDTH - 16
    ]
    return el("svg", *marks, class_="strip axis", viewBox=f"0 0 {WIDTH} 18", aria_hidden="true")


def interval(
    scale: Scale,
    value: float,
    low: float | None,
    high: float | None,
    label: str,
    *,
    guide: float | None = None,
    band: tuple[float | None, float | None] | None = None,
) -> Html:
    """A dot and its interval; an open side runs to the edge and ends in an arrow head.

    `guide` is a dashed line and `band` a shaded range through the whole height, so that rows can be compared with it.
    """
    middle = HEIGHT / 2
    marks = grid(scale, HEIGHT)
    if band is not None:
        left, right = _ends(scale, *band)
        marks.insert(0, el("path", d=f"M{left:g} 0H{right:g}V{HEIGHT}H{left:g}z", class_="band"))
    if guide is not None:
        marks.append(el("path", d=f"M{scale.x(guide):g} 0V{HEIGHT}", class_="guide"))
    marks += _bar(scale, low, high, middle)
    marks.append(el("circle", cx=scale.x(value), cy=middle, r=4.5, class_="dot"))
    return picture(label, *marks)


def _bar(scale: Scale, low: float | None, high: float | None, y: float) -> list[Html]:
    left, right = _ends(scale, low, high)
    marks = [el("path", d=f"M{left:g} {y:g}H{right:g}", class_="bar")]
    marks += [_cap(left, y)] if low is not None else [_arrow(left, y, 1)]
    marks += [_cap(right, y)] if high is not None else [_arrow(right, y, -1)]
    return marks


def _ends(scale: Scale, low: float | None, high: float | None) -> tuple[float, float]:
    return 1.0 if low is None else scale.x(low), WIDTH - 1.0 if high is None else scale.x(high)


def _cap(x: float, y: float) -> Html:
    return el("path", d=f"M{x:g} {y - 4:g}V{y + 4:g}", class_="bar")


def _arrow(x: float, y: float, inwards: int) -> Html:
    return el("path", d=f"M{x:g} {y:g}l{6 * inwards} -4.5v9z", class_="dot")


def histogram(
    scale: Scale,
    counts: Sequence[int],
    most: int,
    label: str,
    *,
    mean: float,
    low: float | None = None,
    high: float | None = None,
) -> Html:
    """A distribution over the whole scale in equal bins, the tallest of all rows `most`; below it mean and interval."""
    foot = HISTOGRAM_HEIGHT - 12
    room = foot - 4
    edge = (WIDTH - 2 * MARGIN) / len(counts)
    filled = [place for place, count in enumerate(counts) if count] or [0]
    hill = counts[filled[0] : filled[-1] + 1]
    steps = "".join(f"V{foot - room * count / most:.1f}h{edge:.2f}" for count in hill)
    start = MARGIN + filled[0] * edge
    marks = [
        *grid(scale, HISTOGRAM_HEIGHT),
        el("path", d=f"M{start:.2f} {foot}{steps}V{foot}z", class_="area"),
    ]
    if low is not None and high is not None:
        marks += _bar(scale, low, high, HISTOGRAM_HEIGHT - 6)
    marks.append(el("circle", cx=scale.x(mean), cy=HISTOGRAM_HEIGHT - 6, r=3.5, class_="dot"))
    return picture(label, *marks, height=HISTOGRAM_HEIGHT)


def shares(parts: Sequence[float], label: str) -> Html:
    """Parts of a whole as segments of one bar, in order, each with the class of its position."""
    whole = sum(parts) or 1.0
    marks, x = [], 0.0
    for place, part in enumerate(parts):
        width = WIDTH * part / whole
        marks.append(el("path", d=f"M{x:.2f} 0h{width:.2f}v{SHARES_HEIGHT}h{-width:.2f}z", class_=f"part part{place}"))
        x += width
    return picture(label, *marks, height=SHARES_HEIGHT)
