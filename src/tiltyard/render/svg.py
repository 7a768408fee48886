"""Pictures of all pages, as SVG: intervals, histograms and shares for table cells, and plots with two axes.

Every picture has a label that says what it shows. Strokes and fills are classes of the style sheets, and lightness
alone is enough to read them, so they survive greyscale printing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from tiltyard.render.escaping import Html, text

WIDTH = 320
HEIGHT = 30
HISTOGRAM_HEIGHT = 44
SHARES_HEIGHT = 14
THIN_HEIGHT = 16
MARGIN = 7


class Scale(msgspec.Struct, frozen=True):
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

    def share(self, value: float) -> float:
        """The place of a value between both ends, from 0 to 1; values outside the scale go to the edge."""
        return (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)

    def x(self, value: float) -> float:
        """The x position of a value in a picture for a table cell."""
        return round(MARGIN + self.share(value) * (WIDTH - 2 * MARGIN), 2)

    def holds(self, end: float | None) -> bool:
        """Whether the end of an interval is on the scale."""
        return end is not None and self.low <= end <= self.high


SHARES = Scale(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))
PERCENTS = Scale(0.0, 100.0, (25.0, 50.0, 75.0))
"""Shares from 0 to 1, and the labels of their axis."""


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, … that is not below."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))


def path(d: str, class_: str) -> str:
    """A line or an area."""
    return f'<path d="{d}" class="{class_}"/>'


def dot(x: float, y: float, r: float = 4.5, class_: str = "dot") -> str:
    """A filled circle."""
    return f'<circle cx="{x}" cy="{y}" r="{r}" class="{class_}"/>'


def words(x: float | str, y: float, label: str, *, anchor: str = "", class_: str = "") -> str:
    """A text in a picture."""
    more = (f' text-anchor="{anchor}"' if anchor else "") + (f' class="{class_}"' if class_ else "")
    return f'<text x="{x}" y="{y}"{more}>{text(label)}</text>'


def picture(
    label: str,
    marks: Iterable[str],
    *,
    width: int = WIDTH,
    height: int = HEIGHT,
    class_: str = "strip",
    stretched: bool = False,
    titled: bool = True,
) -> Html:
    """An SVG that a screen reader announces as one image; its title is what a pointer shows."""
    name, more = text(label), ' preserveAspectRatio="none"' if stretched else ""
    return Html(
        f'<svg class="{class_}" viewBox="0 0 {width} {height}"{more} role="img" aria-label="{name}">'
        f"{f'<title>{name}</title>' if titled else ''}{''.join(marks)}</svg>"
    )


def grid(scale: Scale, height: int) -> list[str]:
    """Faint lines at the ticks, through the whole height, so that rows of pictures read as one chart."""
    return [path(f"M{scale.x(tick):g} 0V{height}", "grid") for tick in scale.ticks]


def axis(scale: Scale, unit: str = "") -> Html:
    """The labels of the ticks, above a column of pictures. Labels that would leave the picture are left out."""
    ticks = [(tick, scale.x(tick)) for tick in scale.ticks]
    marks = [words(x, 14, f"{tick:g}{unit}", anchor="middle") for tick, x in ticks if 16 <= x <= WIDTH - 16]
    return Html(f'<svg class="strip axis" viewBox="0 0 {WIDTH} 18" aria-hidden="true">{"".join(marks)}</svg>')


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
        marks.insert(0, path(f"M{left:g} 0H{right:g}V{HEIGHT}H{left:g}z", "band"))
    if guide is not None:
        marks.append(path(f"M{scale.x(guide):g} 0V{HEIGHT}", "guide"))
    return picture(label, [*marks, *_bar(scale, low, high, middle), dot(scale.x(value), middle)])


def thin_interval(
    scale: Scale, value: float, low: float | None, high: float | None, label: str, *, tick: float | None = None
) -> Html:
    """A dot and its interval in a picture as wide as its cell; a side that leaves the scale ends in an arrow head.

    `tick` is a second value, drawn as a short upright line.
    """
    left, right = _ends(scale, low, high)
    d, middle = f"M{left:g} {THIN_HEIGHT // 2}H{right:g}", THIN_HEIGHT // 2
    for x, end, inwards in ((left, low, 1), (right, high, -1)):
        d += f"M{x:g} 4v8" if scale.holds(end) else f"M{x + 7 * inwards:g} 4l{-7 * inwards} 4l{7 * inwards} 4"
    marks = [path(d, "bar"), path(f"M{scale.x(value):g} {middle}h.01", "spot")]
    if tick is not None:
        marks.append(path(f"M{scale.x(tick):g} 1v14", "tick"))
    return picture(label, marks, height=THIN_HEIGHT, stretched=True, titled=False)


def _bar(scale: Scale, low: float | None, high: float | None, y: float) -> list[str]:
    left, right = _ends(scale, low, high)
    marks = [path(f"M{left:g} {y:g}H{right:g}", "bar")]
    for x, end, inwards in ((left, low, 1), (right, high, -1)):
        cap = path(f"M{x:g} {y - 4:g}V{y + 4:g}", "bar")
        marks.append(path(f"M{x:g} {y:g}l{6 * inwards} -4.5v9z", "dot") if end is None else cap)
    return marks


def _ends(scale: Scale, low: float | None, high: float | None) -> tuple[float, float]:
    return 1.0 if low is None else scale.x(low), WIDTH - 1.0 if high is None else scale.x(high)


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
    marks = [*grid(scale, HISTOGRAM_HEIGHT), path(f"M{start:.2f} {foot}{steps}V{foot}z", "area")]
    if low is not None and high is not None:
        marks += _bar(scale, low, high, HISTOGRAM_HEIGHT - 6)
    marks.append(dot(scale.x(mean), HISTOGRAM_HEIGHT - 6, 3.5))
    return picture(label, marks, height=HISTOGRAM_HEIGHT)


def shares(parts: Sequence[float], label: str, classes: Sequence[str] = (), class_: str = "strip") -> Html:
    """Parts of a whole as segments of one bar, in order, each with its class or the class of its position.

    With classes of its own, the bar is as wide as what it stands in.
    """
    whole = sum(parts) or 1.0
    marks, x = [], 0.0
    for place, part in enumerate(parts):
        width = WIDTH * part / whole
        d = f"M{x:.2f} 0h{width:.2f}v{SHARES_HEIGHT}h{-width:.2f}z"
        marks.append(path(d, classes[place] if classes else f"part part{place}"))
        x += width
    return picture(label, marks, height=SHARES_HEIGHT, class_=class_, stretched=bool(classes))


PLOT_WIDTH = 560
BROAD = 960
"""The widths of plots: of ordinary ones, and of those that use the whole page."""

LEFT, RIGHT, TOP, BOTTOM = 54, 14, 12, 30


class Plot:
    """A frame with two scales: values left, and a share of the width below."""

    def __init__(
        self, low: float, high: float, height: int, width: int = PLOT_WIDTH, right: int = RIGHT, *, falls: bool = False
    ) -> None:
        self.scale = Scale.of([low, high], 4)
        self.height = height
        self.width = width
        self.right = right
        self.falls = falls
        """Whether small values are on top, as places are."""

    def x(self, share: float) -> float:
        return round(LEFT + share * (self.width - LEFT - self.right), 1)

    def y(self, value: float) -> float:
        share = self.scale.share(value)
        share = 1.0 - share if self.falls else share
        return round(self.height - BOTTOM - share * (self.height - TOP - BOTTOM), 1)

    def line(self, points: Iterable[tuple[float, float]]) -> str:
        """The steps of a path through points that are positions already."""
        return "L".join(f"{x:g} {y:g}" for x, y in points)

    def frame(self, unit: str = "") -> list[str]:
        marks = []
        for tick in self.scale.ticks:
            y = self.y(tick)
            marks.append(path(f"M{LEFT} {y:g}H{self.width - self.right}", "grid"))
            marks.append(words(LEFT - 6, y + 4, f"{tick:g}{unit}", anchor="end"))
        return marks

    def titles(self, up: str, across: str) -> list[str]:
        """What the two axes say, inside the frame: above the highest value, and at the right end of the lowest."""
        right = self.width - self.right
        return [words(LEFT + 4, 15, up), words(right, self.height - BOTTOM - 5, across, anchor="end")]

    def foot(self, share: float, label: str, anchor: str = "middle") -> str:
        return words(self.x(share), self.height - 9, label, anchor=anchor)

    def drawn(self, label: str, marks: Iterable[str]) -> Html:
        """The picture, in a box that scrolls where it is too narrow."""
        class_ = "plot" if self.width == PLOT_WIDTH else "plot broad"
        inner = picture(label, marks, width=self.width, height=self.height, class_=class_)
        return Html(f'<div class="scroll plotted" tabindex="0" role="group" aria-label="{text(label)}">{inner}</div>')
