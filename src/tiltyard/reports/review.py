"""The self-contained page of a review: what it says, how the team agrees, and what its labels change."""

from __future__ import annotations

import math

import msgspec

from tiltyard.analysis.boards import Leaderboard, RatingEntry
from tiltyard.arena.review import (
    MORE_LABELS,
    Boards,
    ReviewResult,
    agreement_sentence,
    battle_rows,
    boards_of,
    conclusion,
    look,
    number,
    panel_words,
    percent,
    remarks,
)
from tiltyard.render import page, svg
from tiltyard.reports.page import own_file


class ReviewedDimension(msgspec.Struct, frozen=True):
    """What a review says on one dimension: a sentence where two models were reviewed, and the boards."""

    name: str
    sentence: str
    boards: Boards
    models: list[str]
    labelled: int
    more: str

    def entry(self, board: Leaderboard | None, model: str) -> RatingEntry | None:
        return None if board is None else next((one for one in board.entries if one.model == model), None)


def review_page(result: ReviewResult) -> str:
    """The text of `report.html`."""
    record = result.review.record
    names = list(dict.fromkeys(item.dimension for item in record.items))
    dimensions = [_dimension(result, name, several=len(names) > 1) for name in names]
    ends = [
        end
        for one in dimensions
        for board in (one.boards.judge, one.boards.people, one.boards.both)
        for entry in (() if board is None else board.entries)
        for end in (entry.rating, entry.ci_low, entry.ci_high)
        if end is not None
    ]
    return page(
        "reports/review.html",
        title="Review",
        style=own_file("style.css"),
        result=result,
        until=look(result),
        dimensions=dimensions,
        scale=svg.Scale.of(ends) if ends else None,
        agreement=agreement_sentence(result),
        remarks=remarks(result, name=lambda key: f"reviewer {key[:6]}"),
        percent=percent,
        number=number,
        kappa=lambda value: "–" if math.isnan(value) else f"{value:.2f}",
        panel=panel_words(result.panel),
    )


def _dimension(result: ReviewResult, name: str, *, several: bool) -> ReviewedDimension:
    items = [item for item in result.review.record.items if item.dimension == name]
    models = list(dict.fromkeys(model for item in items for model in (item.first, item.second)))
    rows = [row for row in battle_rows(result) if row.get("dimension", "") == name]
    labelled = len({(row["question_id"], *sorted((row["model_a"], row["model_b"]))) for row in rows})
    boards = boards_of(result, name if several else None)
    if (best := boards.both or boards.people or boards.judge) is not None:
        models.sort(key=lambda model: best.models.index(model) if model in best.models else len(best.models))
    width, after = boards.half_width, boards.after(labelled)
    more = ""
    if width is not None and after is not None:
        more = (
            f"±{width:.0f} points now with {labelled:,} labels, about ±{after:.0f} after {MORE_LABELS} more "
            "(the median of the models)"
        )
    return ReviewedDimension(name, conclusion(result, name), boards, models, labelled, more)
