"""The pictures of the weekly report: exposure against its tolerance, bands then and now, ranks over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiltyard.arena.weekly import BoardAt, WeeklyReport
from tiltyard.pages.escaping import Html, text
from tiltyard.pages.svg import HEIGHT, MARGIN, WIDTH, Scale, dot, grid, interval, path, picture, words
from tiltyard.validity.calibration import CalibrationBin
from tiltyard.validity.churn import Known, top_order

ROW = 26
CHART_WIDTH = 900
NAME_ROOM = 190
RANK_ROOM = 34
FURTHEST = 0.4
"""Exposures further off than this are drawn at the edge of their picture."""


def off_scale(offs: Sequence[float], tolerance: float) -> Scale:
    """A scale of shares off target, the same to both sides."""
    known = [abs(off) for off in offs if not np.isnan(off)]
    widest = min(FURTHEST, max([*known, 1.5 * tolerance]))
    return Scale.of([-100 * widest, 100 * widest])


def exposure_picture(scale: Scale, off: float, tolerance: float, label: str) -> Html:
    """How far a model's exposure is from its target, with the tolerance shaded."""
    left, right = scale.x(-100 * tolerance), scale.x(100 * tolerance)
    within = abs(off) <= tolerance + 1e-12
    marks = [
        path(f"M{left:g} 0H{right:g}V{HEIGHT}H{left:g}z", "band"),
        *grid(scale, HEIGHT),
        path(f"M{scale.x(0):g} {HEIGHT / 2:g}H{scale.x(100 * off):g}", "bar"),
        dot(scale.x(100 * off), HEIGHT / 2, class_="dot" if within else "dot out"),
    ]
    return picture(label, marks)


def band_scale(looks: Sequence[BoardAt]) -> Scale:
    """A scale that covers the bands of the first and the last sample."""
    ends = [
        end for look in (looks[0], looks[-1]) for known in look.standings.values() for end in (known.low, known.high)
    ]
    return Scale.of(ends or [0.0])


def band_picture(scale: Scale, before: Known | None, now: Known, label: str) -> Html:
    """A model's rating with its band now, over the shaded band of the start."""
    band = None if before is None else (before.low, before.high)
    return interval(scale, now.rating, now.low, now.high, label, band=band)


def share_picture(share: float, needed: float, label: str) -> Html:
    """A bar from 0 to 1 with a mark at its target."""
    room = WIDTH - 2 * MARGIN
    marks = [
        path(f"M{MARGIN} 9h{room}v12h-{room}z", "band"),
        path(f"M{MARGIN} 9h{room * min(share, 1.0):.2f}v12h-{room * min(share, 1.0):.2f}z", "area"),
        path(f"M{MARGIN + room * needed:.2f} 4V26", "guide"),
    ]
    return picture(label, marks)


def prediction_picture(piece: CalibrationBin) -> Html:
    """The observed score of a bin with its interval, and a mark at the prediction; 0 to 100 %."""
    scale = Scale(0.0, 100.0, (0.0, 25.0, 50.0, 75.0, 100.0))
    low, high = 100 * piece.observed_low, 100 * piece.observed_high
    label = f"predicted {100 * piece.predicted:.0f} %, observed {100 * piece.observed:.0f} %, {low:.0f} to {high:.0f} %"
    drawn = 100 * piece.predicted
    marks = [
        *grid(scale, HEIGHT),
        path(f"M{scale.x(drawn):g} 3V{HEIGHT - 3}", "guide"),
        path(f"M{scale.x(low):g} {HEIGHT / 2:g}H{scale.x(high):g}", "bar"),
        dot(scale.x(100 * piece.observed), HEIGHT / 2),
    ]
    return picture(label, marks)


def rank_chart(report: WeeklyReport) -> Html:
    """The places of the top models over time; a model whose place changed is highlighted."""
    looks = [look for look in report.looks if look.standings]
    last = top_order(looks[-1].standings, report.churn.top)
    orders = [top_order(look.standings, len(look.standings)) for look in looks]
    shown = list(dict.fromkeys([*last, *(model for order in orders for model in order[: report.churn.top])]))
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
    """One model's line, with a gap where it was not on the board."""
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
    title = text(f"{model}: {', '.join('–' if place is None else str(place) for place in line)}")
    class_ = "way moved" if _moved(line) else "way"
    return f'<g class="{class_}"><title>{title}</title><path d="{"".join(steps)}"/>{"".join(dots)}</g>'


def _rank_label(model: str, line: Sequence[int | None], step: float, n_looks: int) -> str:
    first, place = line[0], line[-1]
    assert place is not None
    x = RANK_ROOM + (n_looks - 1) * step + 12
    left = "" if first is None else words(RANK_ROOM - 12, ROW * first + 4, str(first), anchor="end")
    return f"<g>{left}{words(f'{x:.1f}', ROW * place + 4, f'{place}  {model}', class_='name')}</g>"
