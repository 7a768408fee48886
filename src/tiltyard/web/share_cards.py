"""Pictures to share: a board or a model of an arena."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.pages.figures import count, points
from tiltyard.pages.share_card import ACCENT, INK, INSET, LINE, MUTED, WIDTH, ShareCard, legible
from tiltyard.web.board_query import BoardQuery
from tiltyard.web.leaderboard import board_lines, said_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.arena.following.snapshots import Snapshot
    from tiltyard.web.leaderboard import BoardLine

ROWS = 6
"""Models on the picture of a board."""


def board_card(snapshot: Snapshot, title: str) -> bytes:
    """The first models of the board, with the sentence above it."""
    card, lines = ShareCard(title), board_lines(snapshot, BoardQuery())
    said = said_of(snapshot, BoardQuery())
    words = said.text
    for line in lines:
        words = words.replace(line.row.display_name, legible(line.row.display_name, line.row.model))
    y = card.paragraph(140, words, 36, 2) + 24
    if not said.too_few_votes:
        y = _rows(card, lines[:ROWS], y)
    card.foot(_votes(snapshot.board.votes))
    return card.png()


def _votes(number: int) -> str:
    return f"{count(number)} votes by people who did not know who wrote what"


def _rows(card: ShareCard, lines: Sequence[BoardLine], y: int) -> int:
    for line in lines:
        card.draw.line((INSET, y, WIDTH - INSET, y), fill=LINE, width=2)
        colour = MUTED if line.provisional else INK
        card.text(INSET, y + 9, str(line.row.rank), 30, colour, 60)
        card.text(INSET + 70, y + 9, legible(line.row.display_name, line.row.model), 30, colour, 540)
        card.text(WIDTH - INSET, y + 9, points(line.row.rating_shown), 30, colour, 120, right=True)
        _bar(card, line, y + 27)
        y += 52
    return y


def _bar(card: ShareCard, line: BoardLine, y: int) -> None:
    if line.span is not None and line.scale is not None:
        card.interval(line.scale, line.raw, line.span, y)


def model_card(snapshot: Snapshot, name: str, title: str) -> bytes | None:
    """One model's place and rating; None if it is not on the board."""
    line = next((line for line in board_lines(snapshot, BoardQuery()) if line.row.model == name), None)
    if line is None:
        return None
    card, row = ShareCard(title), line.row
    card.text(INSET, 190, legible(row.display_name, row.model), 76, INK, WIDTH - 2 * INSET)
    few = said_of(snapshot, BoardQuery()).too_few_votes or line.provisional
    said = [f"rank {row.rank} of {len(snapshot.board.rows)}"]
    if line.places and not few:
        said.append(f"could be {line.places[0]} to {line.places[1]}")
    card.text(INSET, 320, ", ".join(said) if not few else "too few votes for a rank", 44, ACCENT, WIDTH - 2 * INSET)
    if not few:
        card.text(INSET, 392, f"rating {points(row.rating_shown)}", 44, INK, WIDTH - 2 * INSET)
        _bar(card, line, 422)
    card.foot(_votes(row.votes))
    return card.png()
