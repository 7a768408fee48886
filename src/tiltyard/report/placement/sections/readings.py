"""The same model rated in two ways, one below the other on one scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.pages import svg
from tiltyard.pages.markup import Html, el, rating, table
from tiltyard.report.sections.board import span

if TYPE_CHECKING:
    from collections.abc import Sequence

Reading = tuple[str, float, float | None, float | None]
"""What it is, the rating, and the two ends of its interval."""


def readings(lines: Sequence[Reading], interval_head: str) -> Html:
    """A row for each reading: its name, the rating, the picture, the interval."""
    scale = svg.Scale.of([end for _, *ends in lines for end in ends if end is not None])
    rows = [
        [name, el("b", rating(value)), svg.interval(scale, value, low, high, f"{name}: {value:.1f}"), span(low, high)]
        for name, value, low, high in lines
    ]
    head: list[str | tuple[str, str]] = ["", ("rating", "num"), (svg.axis(scale), "chart"), (interval_head, "num")]
    return table(head, rows, class_="board readings")
