"""A board as pages show it: entries with their places, intervals on one scale, and what stands above and below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiltyard.boards import EloReport, Leaderboard, RatingEntry
from tiltyard.boards.text import interval_text, percent, rank_text
from tiltyard.pages.svg import Scale


@dataclass(frozen=True, slots=True)
class BoardLineView:
    """One line of a board: its places, the words of its picture, and how many lines above it are left out."""

    entry: RatingEntry
    places: str
    label: str
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class BoardView:
    """A board as the macro `board` draws it; `guide` and `band` are as in `svg.interval`."""

    rows: Sequence[BoardLineView]
    scale: Scale
    interval_head: str
    guide: float | None = None
    band: tuple[float | None, float | None] | None = None


def board_view(board: Leaderboard, places: Iterable[int] | None = None, placed: RatingEntry | None = None) -> BoardView:
    """The lines of a board, all or those of some places counted from 0; others are compared with the placed one."""
    shown = list(range(len(board)) if places is None else places)
    entries = [board.entries[place] for place in shown]
    gaps = [place - before - 1 for before, place in zip([shown[0] - 1, *shown], shown, strict=False)]
    rows = [
        BoardLineView(
            entry,
            rank_text(entry),
            f"{entry.model}: {entry.rating:.1f}, interval {interval_text(entry)}, place {rank_text(entry)}",
            gap,
        )
        for entry, gap in zip(entries, gaps, strict=True)
    ]
    guide, band = (None, None) if placed is None else (placed.rating, (placed.ci_low, placed.ci_high))
    return BoardView(rows, rating_scale(entries), interval_head(board), guide, band)


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
