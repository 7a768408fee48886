"""The grid of prompts × models: how each model did on each prompt, with a way to the answers behind a cell.

It is a plain table. Where scripts run, `grid.js` sorts it by any column, filters it, and shows long ones in portions.
A cell says with a sign, a number and a color whether its model won or lost there, so no color is needed to read it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tiltyard.bank import Prompt
from tiltyard.battles.battle import Outcome
from tiltyard.battles.table import BattleTable
from tiltyard.judging.records import prompt_columns
from tiltyard.pages import figures
from tiltyard.pages.escaping import shortened

PROMPT = "question_id"
MOST_CELLS = 40_000
"""Cells of one grid at the most: about 4 MB of page, which a browser sorts in a moment."""
TEXT_WIDTH = 160
"""Characters of a prompt in its row; a longer one unfolds, or is on the view that the row leads to."""
MOST_TEXT = 2_000_000
"""Characters of prompts that unfold in their rows; above that all are cut."""
LONG = 200
"""Prompts beyond so many are folded: a browser does not lay out what nobody has opened."""
EVEN = 0.5
KEPT_CELLS = 4_096
"""Contents of cells that are kept."""

LEGEND = (
    "▲ won more than it lost, ▼ lost more, = even. The percentage is the mean result, ties counting half; below it "
    "won–lost–tied."
)
LEADS = "A prompt or a cell leads to the answers and the judge’s words."


@dataclass(frozen=True, slots=True)
class GridCell:
    """How one model fared on one prompt.

    Parameters:
        score: The mean result: 1 won, 0 lost, a half for a tie; None: only both-bad battles.
        won: Battles it won.
        lost: Battles it lost.
        tied: Battles that were tied.
        both_bad: Battles in which both answers were bad.
    """

    score: float | None
    won: float
    lost: float
    tied: float
    both_bad: float = 0.0

    @property
    def net(self) -> float:
        """Wins minus losses."""
        return self.won - self.lost


@dataclass(frozen=True, slots=True)
class ChangeCell:
    """By how much one mean result on a prompt is above another.

    Parameters:
        change: The one mean minus the other.
        means: The other and the one, where they are not in columns of their own.
    """

    change: float
    means: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column of the grid.

    Parameters:
        title: Its head.
        lost: What the filter calls the prompts on which it shows a loss; empty: they cannot be chosen.
    """

    title: str
    lost: str = ""


@dataclass(frozen=True, slots=True)
class GridRow:
    """A prompt and what happened on it.

    Parameters:
        prompt: The prompt's id.
        cells: One for each column; None: no battle.
        text: The prompt's text, where it is known.
        category: What kind of prompt it is, where that is known.
        target: The address of its answers and the judge's words; empty: they are not at hand.
        targets: Addresses for single columns, where they differ from `target`.
        remark: What else to say of it, below its text.
    """

    prompt: str
    cells: tuple[GridCell | ChangeCell | None, ...]
    text: str | None = None
    category: str | None = None
    target: str = ""
    targets: tuple[str, ...] = ()
    remark: str = ""


def cells_by_prompt(battles: BattleTable, models: Sequence[str]) -> dict[str, tuple[GridCell | None, ...]]:
    """For every prompt a cell for each of these models, in their order; empty where prompts are unknown.

    Parameters:
        battles: The battles, both-bad ones included.
        models: The models, all of them in the table.
    """
    from tiltyard.decisions.prompts import scores  # the live site draws grids without it

    if PROMPT not in battles.columns or not models:
        return {}
    prompts = battles.text_column(PROMPT)
    place = np.full(len(battles.models), -1)
    place[[battles.models.index(name) for name in models]] = np.arange(len(models))
    shape = (len(prompts.labels), len(models))
    score_a, bad = scores(battles), battles.outcome == Outcome.BOTH_BAD
    sums = np.zeros((5, *shape))
    for model, score, won, lost in (
        (battles.model_a, score_a, Outcome.A, Outcome.B),
        (battles.model_b, 1.0 - score_a, Outcome.B, Outcome.A),
    ):
        ours = (prompts.codes >= 0) & (place[model] >= 0)
        cell = prompts.codes[ours] * len(models) + place[model[ours]]
        outcome = battles.outcome[ours]
        kinds = (outcome == won, outcome == lost, outcome == Outcome.TIE, bad[ours], np.where(bad, 0.0, score)[ours])
        for i, kind in enumerate(kinds):
            sums[i] += np.bincount(cell, battles.weight[ours] * kind, shape[0] * shape[1]).reshape(shape)
    seen = sums[:4].sum(axis=0) > 0
    rows: dict[str, list[GridCell | None]] = {}
    for p, m, cell in zip(*np.argwhere(seen).T.tolist(), sums[:, seen].T.tolist(), strict=True):
        rows.setdefault(prompts.labels[p], [None] * len(models))[m] = _cell(*cell)
    return {prompt: tuple(row) for prompt, row in rows.items()}


def _cell(won: float, lost: float, tied: float, both_bad: float, points: float) -> GridCell:
    met = won + lost + tied
    return GridCell(points / met if met else None, won, lost, tied, both_bad)


def categories_by_prompt(battles: BattleTable, column: str = "category") -> dict[str, str]:
    """The category of every prompt that has one; of several the most frequent.

    Parameters:
        battles: The battles.
        column: The column with the categories.
    """
    if PROMPT not in battles.columns or column not in battles.columns:
        return {}
    prompts, values = battles.text_column(PROMPT), battles.text_column(column)
    both = (prompts.codes >= 0) & (values.codes >= 0)
    pairs = np.unique(np.stack([prompts.codes[both], values.codes[both]]), axis=1, return_counts=True)
    counts: dict[str, Counter[str]] = {}
    for p, v, n in zip(*pairs[0].tolist(), pairs[1].tolist(), strict=True):
        counts.setdefault(prompts.labels[p], Counter())[values.labels[v]] += n
    return {prompt: count.most_common(1)[0][0] for prompt, count in counts.items()}


def kinds_of(prompts: Mapping[str, Prompt]) -> dict[str, str]:
    """What tells the prompts of a run apart; see `kind_column`.

    Parameters:
        prompts: The prompts by id.
    """
    return kind_column(prompts)[1]


def kind_column(prompts: Mapping[str, Prompt]) -> tuple[str, dict[str, str]]:
    """The column of a run's battles that tells its prompts apart, and its values by prompt.

    That is the category or, where all prompts have the same, the source or the subject.

    Parameters:
        prompts: The prompts by id.
    """
    known = {name: prompt_columns(prompt) for name, prompt in prompts.items()}
    for column in ("category", "prompt_source", "subject"):
        if len({columns.get(column) for columns in known.values()}) > 1:
            return column, {name: str(columns[column]) for name, columns in known.items() if column in columns}
    return "", {}


def room_for(n_columns: int) -> int:
    """How many prompts a grid of that many columns may show.

    Parameters:
        n_columns: Its columns.
    """
    return max(1, MOST_CELLS // max(1, n_columns))


@dataclass(frozen=True, slots=True)
class ShownCell:
    """What a cell says: its text, what is small below it, and its shade from 0 (lost all) to 6 (won all)."""

    shown: str
    small: str
    shade: int


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row of the grid as it is drawn."""

    short: str
    unfolded: str
    about: str
    category: str
    remark: str
    target: str
    cells: tuple[tuple[ShownCell | None, str], ...]


@dataclass(frozen=True, slots=True)
class GridView:
    """The grid with its filter, as the macro `grid` draws it."""

    label: str
    legend: str
    left_out: str
    searched: str
    choices: list[tuple[str, str, list[tuple[str, str]]]]
    heads: list[str | tuple[str, str]]
    rows: list[ShownRow]
    rest: list[ShownRow]
    """Rows that are folded."""


def grid(
    columns: Sequence[GridColumn],
    rows: Sequence[GridRow],
    *,
    label: str,
    left_out: str = "",
    leads: str = LEADS,
    legend: str = LEGEND,
    most_text: int = MOST_TEXT,
) -> GridView:
    """The grid with its filter, which appears only where scripts run.

    Parameters:
        columns: The columns.
        rows: The prompts, in the order in which they are shown first.
        label: What the table is called aloud.
        left_out: A sentence about what is not in it.
        leads: A sentence about where links lead.
        legend: What the cells say.
        most_text: Characters of prompts that unfold in their rows at the most.
    """
    unfold = sum(len(row.text or "") for row in rows if not row.target) <= most_text
    if not unfold and most_text:
        left_out = f"{left_out} Long prompts are cut.".strip()
    names = sorted({row.category for row in rows if row.category})
    lost = [(str(place), column.lost) for place, column in enumerate(columns, start=1) if column.lost]
    choices = [("Category", "category", [(name, name) for name in names])] if len(names) > 1 else []
    choices += [("Prompts", "losses", lost)] if lost else []
    shown = [_row(row, unfold=unfold) for row in rows]
    return GridView(
        label=label,
        legend=f"{legend} {leads}" if any(row.target for row in rows) else legend,
        left_out=left_out,
        searched="prompt, answer, judge’s words" if any(row.target.startswith("#") for row in rows) else "prompt",
        choices=choices,
        heads=["prompt", *((column.title, "res") for column in columns)],
        rows=shown[:LONG],
        rest=shown[LONG:],
    )


def _row(row: GridRow, *, unfold: bool) -> ShownRow:
    """The prompt's text, or its id where the text is unknown; below it id and category."""
    short = shortened(row.text or row.prompt, TEXT_WIDTH)
    targets = row.targets or (row.target,) * len(row.cells)
    return ShownRow(
        short=short or "(empty)",
        unfolded=row.text if unfold and row.text and short.endswith("…") else "",
        about="" if row.text is None else shortened(row.prompt, 60),
        category=row.category or "",
        remark=row.remark,
        target=row.target,
        cells=tuple((None if cell is None else _shown(cell), to) for cell, to in zip(row.cells, targets, strict=True)),
    )


@lru_cache(maxsize=KEPT_CELLS)
def _shown(cell: GridCell | ChangeCell) -> ShownCell:
    """What a cell says: in all grids of a run or a site, the same few things again and again."""
    if isinstance(cell, ChangeCell):
        lean = round(cell.change, 9)
        points = f"{_sign(lean)} {figures.signed(100 * lean) if lean else 0}"
        means = "" if cell.means is None else " → ".join(map(figures.percent, cell.means))
        return ShownCell(points, means, _shade(lean))
    lean = 0.0 if cell.score is None else round(2.0 * (cell.score - EVEN), 9)
    share = "both bad" if cell.score is None else f"{_sign(lean)} {figures.percent(cell.score)}"
    return ShownCell(share, _counts(cell), _shade(lean))


def _sign(lean: float) -> str:
    return "▲" if lean > 0 else "▼" if lean < 0 else "="


def _shade(lean: float) -> int:
    """From 0 (lost all) to 6 (won all); 3 only where it is even."""
    return 3 + round(min(max(abs(lean) * 3.0, 0.51), 3.0)) * (1 if lean > 0 else -1 if lean < 0 else 0)


def _counts(cell: GridCell) -> str:
    counts = "–".join(figures.count(n, 0 if n == round(n) else 1) for n in (cell.won, cell.lost, cell.tied))
    bad = cell.both_bad
    return f"{counts}, {figures.count(bad)} bad" if bad else counts


def losses_first(row: GridRow) -> tuple[tuple[float, float], ...]:
    """A key that puts the prompts first on which the first column shows most losses, then the second, and so on.

    Prompts without a battle come last.

    Parameters:
        row: The row.
    """
    return tuple(_loss(cell) for cell in row.cells)


def _loss(cell: GridCell | ChangeCell | None) -> tuple[float, float]:
    if cell is None:
        return (math.inf, 0.0)
    if isinstance(cell, ChangeCell):
        return (0.0, cell.change)
    return (cell.net, EVEN if cell.score is None else cell.score)


def spread(row: GridRow) -> float:
    """How differently the columns fared on a prompt: the best mean result minus the worst.

    Parameters:
        row: The row.
    """
    means = [cell.score for cell in row.cells if isinstance(cell, GridCell) and cell.score is not None]
    return max(means) - min(means) if means else -1.0


def most_telling(rows: Sequence[GridRow], weights: Mapping[str, tuple[float, ...]], most: int) -> list[GridRow]:
    """At most so many of the rows: those with the largest weights, in their old order.

    Parameters:
        rows: The rows.
        weights: How telling each prompt is, by id.
        most: How many.
    """
    if len(rows) <= most:
        return list(rows)
    kept = sorted(range(len(rows)), key=lambda i: (*(-w for w in weights[rows[i].prompt]), i))[:most]
    return [rows[i] for i in sorted(kept)]
