"""The validity page: the weekly report of the last seven days in the site's frame, and as plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tiltyard.arena.board import SHADOW_PHASE
from tiltyard.arena.following.snapshots import Study
from tiltyard.arena.weekly import WeeklyReport
from tiltyard.report.weekly.page import bands, week_view
from tiltyard.web.addresses import compare_address, model_address
from tiltyard.web.leaderboard import public_board, public_row


def validity_view(report: WeeklyReport, names: Mapping[str, str]) -> dict[str, Any]:
    """What the template shows; models are links under the names that visitors know."""
    return week_view(report, names, model_address, compare_address)


PUBLIC_IN_SHADOW = ("since", "until", "phase", "votes", "voters", "blind", "events", "flags", "exclusions")


def validity_values(study: Study) -> dict[str, Any]:
    """What the page shows, as plain values: the report, and every model's band at the start of the week and now.

    `contested` are models whose latest votes differ from earlier ones, which an operator looks into; `blocks_to_swap`
    says how many address blocks it takes to swap two neighbours. In phase 1 only
    what is public then; everything else is null.
    """
    report = study.weekly
    values = _values(report) | {
        "contested": [asdict(model) for model in study.contested],
        "blocks_to_swap": [
            {"above": above, "below": below, "blocks": blocks}
            for (above, below), blocks in study.blocks_to_swap.items()
        ],
    }
    if report.board.phase == SHADOW_PHASE:
        return {name: value if name in PUBLIC_IN_SHADOW else None for name, value in values.items()}
    return values


def kept_values(report: str, phase: int) -> dict[str, Any]:
    """The JSON of a kept report, as far as its phase makes it public."""
    values: dict[str, Any] = json.loads(report)
    board = values["board"]
    return {**values, "board": {**board, "rows": [public_row(row, phase) for row in board["rows"]]}}


def _values(report: WeeklyReport) -> dict[str, Any]:
    return {
        **report.to_dict(),
        "board": public_board(report.board),
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
