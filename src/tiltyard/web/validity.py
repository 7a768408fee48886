"""The validity page: the weekly report of the last seven days in the site's frame, and as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiltyard.pages.markup import Html, el, join, link
from tiltyard.report.weekly.page import Labels, bands, section, tiles, weekly_sections
from tiltyard.web.addresses import compare_address, model_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.arena.weekly import WeeklyReport


def validity_view(report: WeeklyReport, names: Mapping[str, str]) -> dict[str, Any]:
    """What the template shows; models are links under the names that visitors know."""

    def name(model: str) -> Html:
        return el("bdi", names.get(model, model))

    labels = Labels(
        model=lambda model: link(model_address(model), name(model)),
        pair=lambda above, below: link(compare_address(above, below), name(above), " – ", name(below)),
    )
    sections = weekly_sections(report, labels)
    return {
        "report": report,
        "tiles": tiles(report),
        "sections": join(section(anchor, *part) for anchor, part in sections.items()),
    }


def validity_values(report: WeeklyReport) -> dict[str, Any]:
    """What the page shows, as plain values: the report, and every model's band at the start of the week and now."""
    return {
        **report.to_dict(),
        "bands": [
            {
                "model": row.model,
                "rating_before": None if before is None else before.rating,
                "deviation_before": None if before is None else before.deviation,
                "rating": now.rating,
                "deviation": now.deviation,
                "left_band": row.model in report.stability.left_band,
            }
            for row, before, now in bands(report)
        ],
    }
