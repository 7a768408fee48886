"""The page of two runs: what moved between them, how sure that is, and the prompts behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiltyard.bank import Prompt
from tiltyard.boards.text import percent as level_text
from tiltyard.decisions.prompts import PromptScore
from tiltyard.decisions.two_runs import EntrantChange, RunComparison
from tiltyard.decisions.words import between, run_footnotes, signed, sureness
from tiltyard.pages import svg
from tiltyard.pages.escaping import Html
from tiltyard.pages.figures import plural
from tiltyard.pages.html import page, render
from tiltyard.report.comparison import ROOM_FOR_TEXTS, EstimateRow
from tiltyard.report.grid import (
    ChangeCell,
    GridColumn,
    GridRow,
    GridView,
    grid,
    kinds_of,
    losses_first,
    most_telling,
    room_for,
)
from tiltyard.report.judged import JudgedBattle, JudgedBattles
from tiltyard.report.page import image_policy, own_file
from tiltyard.report.run import Run

COLUMNS = 12
"""Entrants that have a column: those with new answers, then those that moved most."""
WITH_TEXTS = 3
"""Entrants whose answers and judgments are on the page."""
LEGEND = "▲ better than then, ▼ worse, = the same: the change of the mean result in percentage points, then → now."


def runs_page(result: RunComparison, *, new: Run | None = None, old: Run | None = None) -> str:
    """The text of a page about two runs: the sentence, who moved, and a grid of prompts × entrants; one file.

    Parameters:
        result: The comparison.
        new: The newer run, for answers and the judge's words; None: it is not a run folder.
        old: The older run.
    """
    chosen = _columns(result)
    views = {} if new is None or old is None else _views(chosen[:WITH_TEXTS], new, old)
    sentence = result.sentence
    return page(
        "report/runs.html",
        title=f"{result.new} against {result.old}",
        style=own_file("style.css") + own_file("grid.css") + own_file("comparison.css"),
        script=own_file("grid.js"),
        allow=image_policy(new) or image_policy(old),
        result=result,
        sentence=sentence[0].upper() + sentence[1:] if sentence.startswith(("no ", "cannot ")) else sentence,
        interval=level_text(result.level),
        scale=_scale(result),
        rows=[_change_row(one) for one in result.changes],
        notes=run_footnotes(result),
        grid=_grid(result, chosen, {} if new is None else new.prompts, views),
        views=views.values(),
    )


def _columns(result: RunComparison) -> list[EntrantChange]:
    """The entrants that have a column: new answers first, then the largest changes."""
    order = sorted(result.changes, key=lambda one: (not one.answers_changed, -abs(one.difference.difference)))
    return order[:COLUMNS]


def _scale(result: RunComparison) -> svg.Scale:
    changes = [one.difference for one in result.changes]
    return svg.Scale.of(
        [0.0, *(end for one in changes for end in (one.difference, one.low, one.high) if end is not None)]
    )


def _change_row(one: EntrantChange) -> EstimateRow:
    """An entrant then and now."""
    change, low, high = one.difference.difference, one.difference.low, one.difference.high
    cells = (
        signed(change),
        between(low, high),
        f"{one.rating_old:.0f}",
        f"{one.rating_new:.0f}",
        sureness(one.difference.probability_better),
        f"{one.rank_old} → {one.rank_new}" if one.rank_old != one.rank_new else str(one.rank_new),
        {None: "–", True: "changed", False: "same"}[one.answers_changed],
        "more than noise" if one.beyond_noise else "within noise",
    )
    label = f"{one.entrant}: {signed(change)} points, {between(low, high)}"
    return EstimateRow(one.entrant, change, low, high, label, cells)


def _grid(
    result: RunComparison, chosen: Sequence[EntrantChange], prompts: Mapping[str, Prompt], views: Mapping[str, Html]
) -> GridView | None:
    """The change on every prompt; None where the runs do not name prompts."""
    scores = [{one.prompt: one for one in change.difference.prompts} for change in chosen]
    names = dict.fromkeys(name for column in scores for name in column)
    if not names:
        return None
    kinds = kinds_of(prompts)
    anchors = {name: f"#p{place}" for place, name in enumerate(prompts) if name in views}
    rows = [
        GridRow(
            name, tuple(_cell(column.get(name)) for column in scores), _text(name, scores, prompts), kinds.get(name)
        )
        for name in names
    ]
    rows = [_leading(row, anchors.get(row.prompt, "")) for row in sorted(rows, key=losses_first)]
    shown = most_telling(rows, {row.prompt: _telling(row) for row in rows}, room_for(len(chosen)))
    return grid(
        [GridColumn(one.entrant, f"where {one.entrant} got worse") for one in chosen],
        shown,
        label="The change on every prompt",
        left_out=_left_out(result, len(rows) - len(shown), len(names) - len(views) if views else 0, len(chosen)),
        legend=LEGEND,
        leads="A prompt or a cell leads to the answers then and now, and the judge’s words.",
    )


def _leading(row: GridRow, target: str) -> GridRow:
    """The row with its way to the answers; only the first entrants have theirs on the page."""
    targets = tuple(target if place < WITH_TEXTS else "" for place in range(len(row.cells)))
    return GridRow(row.prompt, row.cells, row.text, row.category, target, targets)


def _cell(one: PromptScore | None) -> ChangeCell | None:
    if one is None or one.new_score is None or one.old_score is None:
        return None
    return ChangeCell(one.new_score - one.old_score, (one.old_score, one.new_score))


def _text(name: str, scores: Sequence[Mapping[str, PromptScore]], prompts: Mapping[str, Prompt]) -> str | None:
    if name in prompts:
        return prompts[name].text
    return next((column[name].text for column in scores if name in column), None)


def _telling(row: GridRow) -> tuple[float, ...]:
    """How much a prompt says: the change of the first entrants first."""
    return tuple(abs(cell.change) if isinstance(cell, ChangeCell) else 0.0 for cell in row.cells)


def _left_out(result: RunComparison, rows: int, texts: int, columns: int) -> str:
    sentences = []
    if rows:
        sentences.append(f"{plural(rows, 'prompt')} with the smallest changes are left out, to keep the page usable.")
    if len(result.changes) > columns:
        sentences.append(
            f"{plural(len(result.changes) - columns, 'entrant')} with the smallest changes have no column."
        )
    if texts:
        sentences.append(
            f"The answers to {plural(texts, 'prompt')} with the smallest changes are left out, to keep the page "
            "usable; the runs’ report.html have them."
        )
    return " ".join(sentences)


def _views(chosen: Sequence[EntrantChange], new: Run, old: Run) -> dict[str, Html]:
    """Answers then and now with the judge's words by prompt, the largest changes first while there is room."""
    judged = [_by_prompt(run, [one.entrant for one in chosen]) for run in (new, old)]
    changes: dict[str, list[float]] = {}
    for change in chosen:
        for one in change.difference.prompts:
            changes.setdefault(one.prompt, []).append(abs(one.change or 0.0))
    views: dict[str, Html] = {}
    room = ROOM_FOR_TEXTS
    place = {name: i for i, name in enumerate(new.prompts)}
    for prompt in sorted(changes, key=lambda prompt: [-value for value in changes[prompt]]):
        if prompt not in new.prompts:
            continue
        entrants = [one.entrant for one in chosen]
        battles: list[Sequence[JudgedBattle]] = [by_prompt.get(prompt, ()) for by_prompt in judged]
        view = _view(prompt, f"p{place[prompt]}", entrants, (new, old), battles)
        room -= len(view)
        if room < 0 and views:
            break
        views[prompt] = view
    return views


def _by_prompt(run: Run, entrants: Sequence[str]) -> dict[str, JudgedBattles]:
    met = run.battles.of_kind(lambda battle: not set(entrants).isdisjoint(battle.entrants))
    return met.grouped(lambda battle: battle.prompt_id)


def _view(
    prompt_id: str,
    anchor: str,
    entrants: Sequence[str],
    runs: tuple[Run, Run],
    battles: Sequence[Sequence[JudgedBattle]],
) -> Html:
    """One prompt: each entrant's answers then and now, and what the judge said of them in either run."""
    parts = []
    for name in entrants:
        answers = [
            (when, run.answers[prompt_id, name], run.pictures.get((prompt_id, name), ()))
            for when, run in (("then", runs[1]), ("now", runs[0]))
            if (prompt_id, name) in run.answers
        ]
        if len(answers) == 2 and answers[0][1:] == answers[1][1:]:
            answers = [("the same then and now", *answers[0][1:])]
        judged = [
            (when, run, [battle for battle in some if name in battle.entrants])
            for when, run, some in zip(("now", "then"), runs, battles, strict=True)
        ]
        parts.append((name, answers, judged))
    prompt = runs[0].prompts[prompt_id]
    return render("report/changed_view.html", run=runs[0], prompt=prompt, anchor=anchor, parts=parts)
