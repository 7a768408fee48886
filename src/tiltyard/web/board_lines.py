"""The lines of the board as markup. A line is kept as long as its values stay: a vote changes few of them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from tiltyard.pages.markup import Html
from tiltyard.web.rendering import environment
from tiltyard.web.words import t

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tiltyard.web.leaderboard import Line

KEPT_LINES = 4096

SAID = (
    *("column.average", "column.confidence", "column.consistency", "column.coverage", "column.interval"),
    *("column.overall", "column.record", "column.spread", "column.votes", "hint.places", "tip.both_bad"),
    *("tip.confidence", "tip.coverage", "tip.coverage_plain", "tip.rating", "both_bad", "moved", "moved_beyond"),
    *("moved_within", "raw", "shadow"),
)
WORDS = {key.replace(".", "_"): t(f"board.{key}") for key in SAID}
"""What every line says: looked up once, not two hundred times."""


def lines_html(lines: Iterable[Line], *, of_category: bool) -> Html:
    """Lines of the whole board, or of a category's, as rows of its table."""
    return Html("".join([_line_html(line, "category" if of_category else "overall") for line in lines]))


@lru_cache(maxsize=KEPT_LINES)
def _line_html(line: Line, kind: str) -> str:
    macros = environment().get_template("board_lines.html").module
    return str(getattr(macros, kind)(line, WORDS))
