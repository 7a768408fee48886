"""A board as pages show it: entries with their places, and intervals on one scale."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tiltyard.boards import EloReport, Leaderboard, RatingEntry
from tiltyard.boards.text import interval_text, percent, rank_text
from tiltyard.pages.svg import Scale


def board_view(
    board: Leaderboard, places: Iterable[int] | None = None, placed: RatingEntry | None = None
) -> dict[str, Any]:
    """A board as the macro `board` draws it, or its lines at some places counted from 0.

    A row is an entry, its ranks, its interval, and how many lines above it are left out. Others are compared with the
    placed one.
    """
    shown = list(range(len(board)) if places is None else places)
    entries = [board.entries[place] for place in shown]
    gaps = [place - before - 1 for before, place in zip([shown[0] - 1, *shown], shown, strict=False)]
    return {
        "rows": [(one, rank_text(one), interval_text(one), gap) for one, gap in zip(entries, gaps, strict=True)],
        "scale": rating_scale(entries),
        "interval_head": interval_head(board),
        "guide": placed and placed.rating,
        "band": placed and (placed.ci_low, placed.ci_high),
    }


def rating_scale(entries: Iterable[RatingEntry]) -> Scale:
    """A scale that holds these ratings with their intervals."""
    ends = [end for entry in entries for end in (entry.rating, entry.ci_low, entry.ci_high) if end is not None]
    return Scale.of(ends)


def interval_head(board: Leaderboard) -> str:
    """The head of the column of intervals."""
    level = (board.settings.get("interval") or {}).get("level")
    return f"{percent(level)} interval" if level else "interval"


def as_leaderboard(report: EloReport) -> Leaderboard:
    """The leaderboard of a ratings file."""
    details = report.details
    n_battles = details.get("n_battles")
    return Leaderboard(
        entries=report.ratings,
        settings=details,
        n_battles=float(n_battles) if n_battles is not None else sum(e.n_battles for e in report.ratings) / 2,
        left_out=details.get("left_out") or {},
        remarks=tuple(details.get("remarks") or ()),
    )
