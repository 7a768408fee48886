"""Boards by category: where each entrant of a dimension is best and worst."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tiltyard.battles.reading import read_battles
from tiltyard.boards import BradleyTerry, RatingEntry
from tiltyard.boards.bradley_terry import CENTRE
from tiltyard.errors import TiltyardError
from tiltyard.judging.run_folder import require
from tiltyard.pages.markup import Html, el, join, number, rating, table
from tiltyard.report.grid import kind_column
from tiltyard.report.run import Dimension
from tiltyard.report.sections.board import order, span
from tiltyard.report.site_map import Here

MOST_CATEGORIES = 40
"""With more values than this, a column names prompts rather than kinds of prompts."""

Entries = dict[str, dict[str, "RatingEntry"]]
"""By category and entrant."""


def category_section(here: Here, dimension: Dimension) -> Html:
    """Where each entrant is best and worst, with intervals, and every board by category, folded.

    Nothing where the bank does not tell prompts apart.
    """
    column, kinds = kind_column(here.run.prompts)
    if dimension.board is None or not 1 < len(set(kinds.values())) <= MOST_CATEGORIES:
        return Html("")
    entries, missing = _rated(here, dimension, kinds)
    if len(entries) < 2:
        return Html("")
    names = [name for name in order(here, dimension) if sum(name in board for board in entries.values()) > 1]
    rows = [_extremes(name, entries) for name in names]
    head: list[str | tuple[str, str]] = [
        "entrant",
        "best on",
        ("rating", "num"),
        ("95 % interval", "num"),
        "worst on",
        ("rating", "num"),
        ("95 % interval", "num"),
        "the two intervals",
    ]
    return el(
        "section",
        el("h3", f"By {_words(column)}"),
        el("p", _note(dimension, column, len(entries)), class_="note"),
        table(head, rows, class_="categories"),
        el(
            "details",
            el("summary", "all ", number(len(entries)), " boards"),
            _every_board(names, entries),
            class_="card",
        ),
        el("ul", *[el("li", line) for line in missing], class_="note") if missing else Html(""),
    )


def _words(column: str) -> str:
    return column.removeprefix("prompt_")


def _note(dimension: Dimension, column: str, n_boards: int) -> str:
    shown = f"tiltyard rate RUN --dimension {dimension.name} --by {column}"
    return (
        f"One Bradley–Terry board per {_words(column)}, each with a mean of {CENTRE:g}, by the judge alone. Each has "
        f"95 % intervals of its own, which do not hold for all {n_boards} at once; and the best and worst of several "
        f"are partly chance, the more so where their intervals overlap. The same numbers: {shown}."
    )


def _rated(here: Here, dimension: Dimension, kinds: Mapping[str, str]) -> tuple[Entries, list[str]]:
    """The entries of each category's board, and why a category has none."""
    path = require(here.run.folder / "battles.jsonl", here.run.folder)
    table = read_battles(path, columns=["question_id", "dimension"])
    questions, dimensions = table.text_column("question_id"), table.text_column("dimension")
    mine = np.array([label == dimension.name for label in dimensions.labels] or [False])[dimensions.codes]
    kind_of = np.array([kinds.get(label, "") for label in questions.labels] or [""])[questions.codes]
    estimator = BradleyTerry(only_connected=True, misfit=False)
    entries: Entries = {}
    missing = []
    for kind in sorted(set(kinds.values())):
        try:
            board = estimator.fit(table.take(mine & (kind_of == kind)).compact())
        except TiltyardError as error:
            missing.append(f"{kind}: no board: {error}")
        else:
            entries[kind] = {entry.model: entry for entry in board}
    return entries, missing


def _extremes(name: str, entries: Entries) -> list[str]:
    """An entrant's best and worst category."""
    own = {kind: board[name] for kind, board in entries.items() if name in board}
    best, worst = (choose(own, key=lambda kind: own[kind].rating) for choose in (max, min))
    low, high = own[best].ci_low, own[worst].ci_high
    apart = low is not None and high is not None and low > high
    return [
        name,
        el("b", best),
        rating(own[best].rating, 0),
        span(own[best].ci_low, own[best].ci_high),
        el("b", worst),
        rating(own[worst].rating, 0),
        span(own[worst].ci_low, own[worst].ci_high),
        "do not overlap" if apart else "overlap",
    ]


def _every_board(names: list[str], entries: Entries) -> Html:
    head: list[str | tuple[str, str]] = ["", *((name, "num") for name in names)]

    def cell(entry: RatingEntry | None) -> Html:
        if entry is None:
            return number(None)
        return join([el("b", rating(entry.rating, 0)), " ", el("small", span(entry.ci_low, entry.ci_high))])

    return table(head, [[kind, *(cell(board.get(name)) for name in names)] for kind, board in entries.items()])
