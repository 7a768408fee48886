"""The grid of prompts × models: how each model did on each prompt, with a way to the answers behind a cell.

It is a plain table. Where scripts run, `grid.js` sorts it by any column, filters it, and shows long ones in portions.
A cell says with a sign, a number and a color whether its model won or lost there, so no color is needed to read it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from tiltyard.data.bank import Prompt
from tiltyard.data.battles import BattleTable, Outcome
from tiltyard.judge.verdicts import prompt_columns
from tiltyard.render import count, percent, plural, signed

PROMPT = "question_id"
MOST_CELLS = 40_000
"""Cells of one grid at the most: about 4 MB of page, which a browser sorts in a moment."""
MOST_TEXT = 2_000_000
"""Characters of prompts that unfold in their rows; above that all are cut."""
LONG = 200
"""Prompts beyond so many are folded: a browser does not lay out what nobody has opened."""
LEGEND = (
    "▲ won more than it lost, ▼ lost more, = even. The percentage is the mean result, ties counting half; below it "
    "won–lost–tied."
)
LEADS = "A prompt or a cell leads to the answers and the judge’s words."


class GridCell(msgspec.Struct, frozen=True):
    """How one model fared on one prompt; `score` is the mean result, ties counting half, None if all were both bad."""

    score: float | None
    won: float
    lost: float
    tied: float
    both_bad: float = 0.0

    @property
    def lean(self) -> float:
        """From −1 (lost all) to 1 (won all)."""
        return 0.0 if self.score is None else round(2.0 * self.score - 1.0, 9)

    @property
    def loss(self) -> tuple[float, float]:
        return (self.won - self.lost, 0.5 if self.score is None else self.score)

    @property
    def text(self) -> str:
        return "both bad" if self.score is None else f"{_sign(self.lean)} {percent(self.score)}"

    @property
    def small(self) -> str:
        counts = "–".join(count(n, 0 if n == round(n) else 1) for n in (self.won, self.lost, self.tied))
        return f"{counts}, {count(self.both_bad)} bad" if self.both_bad else counts


class ChangeCell(msgspec.Struct, frozen=True):
    """By how much one mean result on a prompt is above another, and the other and the one in `means`."""

    change: float
    means: tuple[float, float] | None = None

    @property
    def lean(self) -> float:
        return round(self.change, 9)

    @property
    def loss(self) -> tuple[float, float]:
        return (0.0, self.change)

    @property
    def text(self) -> str:
        return f"{_sign(self.lean)} {signed(100 * self.lean) if self.lean else 0}"

    @property
    def small(self) -> str:
        return "" if self.means is None else " → ".join(map(percent, self.means))


def _sign(lean: float) -> str:
    return "▲" if lean > 0 else "▼" if lean < 0 else "="


@dataclass(frozen=True, slots=True)
class GridRow:
    """A prompt and what happened on it, with a cell for each column; None: no battle.

    `target` is the address of its answers and the judge's words, empty where they are not at hand; `targets` are those
    of single columns where they differ; `remark` stands below its text; `weight` says how much it tells, where only the
    most telling rows are kept.
    """

    prompt: str
    cells: Sequence[GridCell | ChangeCell | None]
    text: str | None = None
    category: str | None = None
    target: str = ""
    targets: Sequence[str] = ()
    remark: str = ""
    weight: tuple[float, ...] = ()

    @property
    def losses(self) -> tuple[tuple[float, float], ...]:
        """A key by which prompts with most losses in the first column come first, those without a battle last."""
        return tuple((math.inf, 0.0) if cell is None else cell.loss for cell in self.cells)


def cells_by_prompt(battles: BattleTable, models: Sequence[str]) -> dict[str, list[GridCell | None]]:
    """For every prompt a cell for each of these models, in their order; empty where prompts are unknown."""
    from tiltyard.analysis.decisions import results_of_a  # the live site draws grids without it

    if PROMPT not in battles.columns or not models:
        return {}
    prompts = battles.text_column(PROMPT)
    place = np.full(len(battles.models), -1)
    place[[battles.models.index(name) for name in models]] = np.arange(len(models))
    shape = (len(prompts.labels), len(models))
    score_a, bad = results_of_a(battles), battles.outcome == Outcome.BOTH_BAD.code
    sums = np.zeros((5, *shape))
    for model, score, won, lost in (
        (battles.model_a, score_a, Outcome.A.code, Outcome.B.code),
        (battles.model_b, 1.0 - score_a, Outcome.B.code, Outcome.A.code),
    ):
        ours = (prompts.codes >= 0) & (place[model] >= 0)
        cell = prompts.codes[ours] * len(models) + place[model[ours]]
        outcome = battles.outcome[ours]
        kinds = (
            outcome == won,
            outcome == lost,
            outcome == Outcome.TIE.code,
            bad[ours],
            np.where(bad, 0.0, score)[ours],
        )
        for i, kind in enumerate(kinds):
            sums[i] += np.bincount(cell, battles.weight[ours] * kind, shape[0] * shape[1]).reshape(shape)
    seen = sums[:4].sum(axis=0) > 0
    rows: dict[str, list[GridCell | None]] = {}
    for p, m, cell in zip(*np.argwhere(seen).T.tolist(), sums[:, seen].T.tolist(), strict=True):
        won, lost, tied, both_bad, points = cell
        met = won + lost + tied
        row = rows.setdefault(prompts.labels[p], [None] * len(models))
        row[m] = GridCell(points / met if met else None, won, lost, tied, both_bad)
    return rows


def categories_by_prompt(battles: BattleTable) -> dict[str, str]:
    """The category of every prompt that has one; of several the most frequent."""
    if PROMPT not in battles.columns or "category" not in battles.columns:
        return {}
    prompts, values = battles.text_column(PROMPT), battles.text_column("category")
    both = (prompts.codes >= 0) & (values.codes >= 0)
    pairs = np.unique(np.stack([prompts.codes[both], values.codes[both]]), axis=1, return_counts=True)
    counts: dict[str, Counter[str]] = {}
    for p, v, n in zip(*pairs[0].tolist(), pairs[1].tolist(), strict=True):
        counts.setdefault(prompts.labels[p], Counter())[values.labels[v]] += n
    return {prompt: count.most_common(1)[0][0] for prompt, count in counts.items()}


def kind_column(prompts: Mapping[str, Prompt]) -> tuple[str, dict[str, str]]:
    """The column of a run's battles that tells its prompts apart, and its values by prompt.

    That is the category or, where all prompts have the same, the source or the subject.
    """
    known = {name: prompt_columns(prompt) for name, prompt in prompts.items()}
    for column in ("category", "prompt_source", "subject"):
        if len({columns.get(column) for columns in known.values()}) > 1:
            return column, {name: str(columns[column]) for name, columns in known.items() if column in columns}
    return "", {}


def grid(
    columns: Sequence[tuple[str, str]],
    rows: Sequence[GridRow],
    *,
    label: str,
    most: int | None = None,
    omitted: str = "",
    left_out: Sequence[str] = (),
    leads: str = LEADS,
    legend: str = LEGEND,
    most_text: int = MOST_TEXT,
) -> dict[str, Any]:
    """The grid with its filter, which appears only where scripts run, as the macro `grid` draws it.

    `columns` are heads, each with what the filter calls the prompts on which it shows a loss. `label` is what the table
    is called aloud. The rows of largest weight are kept, at `most` so many in their old order, and `omitted` says which
    are not; `left_out`, `leads` and `legend` are sentences: what else is missing, where links lead, what cells say.
    """
    kept = sorted(range(len(rows)), key=lambda i: (*(-weight for weight in rows[i].weight), i))[:most]
    if len(kept) < len(rows):
        left_out = [f"{plural(len(rows) - len(kept), 'prompt')} {omitted}", *left_out]
    rows = [rows[i] for i in sorted(kept)]
    unfold = sum(len(row.text or "") for row in rows if not row.target) <= most_text
    return {
        "columns": columns,
        "label": label,
        "legend": f"{legend} {leads}" if any(row.target for row in rows) else legend,
        "left_out": " ".join(left_out if unfold or not most_text else [*left_out, "Long prompts are cut."]),
        "searched": "prompt, answer, judge’s words" if any(row.target.startswith("#") for row in rows) else "prompt",
        "categories": sorted({row.category for row in rows if row.category}),
        "unfold": unfold,
        "rows": rows[:LONG],
        "rest": rows[LONG:],
    }
