"""The pages of a difference, by battles or by scores: of two models, and of two runs; and the prompts behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tiltyard.analysis.boards import percent
from tiltyard.analysis.decisions import (
    EntrantChange,
    EstimatedDifference,
    PromptScore,
    RatingDifference,
    RunComparison,
    ScoreDifference,
)
from tiltyard.analysis.decisions import render as words
from tiltyard.data.battles import BattleTable
from tiltyard.judge.verdicts import read_object, require
from tiltyard.render import Html, environment, page, plural, svg
from tiltyard.reports.grid import (
    MOST_CELLS,
    ChangeCell,
    GridCell,
    GridRow,
    categories_by_prompt,
    cells_by_prompt,
    grid,
    kind_column,
)
from tiltyard.reports.page import image_policy, own_file
from tiltyard.reports.placement import read_placement
from tiltyard.reports.run import JudgedBattle, Run, grouped, read_run

OTHERS = 8
"""Other models that have a column: those whom the two met most."""
COLUMNS = 12
"""Entrants of two runs that have a column: those with new answers, then those that moved most."""
WITH_TEXTS = 3
"""Entrants of two runs whose answers and judgments are on the page."""
ROOM_FOR_TEXTS = 12_000_000
"""Characters of answers and judge's words on a page at the most: what a browser opens in a second or two."""


def comparison_page(
    result: RatingDifference,
    table: BattleTable,
    *,
    run: Run | None = None,
    texts: Mapping[str, str] | None = None,
    template: str = "reports/comparison.html",
    style: str = "",
    allow: str = "",
    **values: Any,
) -> str:
    """The text of `compare.html`: the sentence, the numbers, and a grid of prompts × models; one self-contained file.

    `table` are the battles that the difference was made from, after every filter; `run` is where they come from, for
    answers and the judge's words, and `texts` has prompts by id where there is no run. A site's page has a template of
    its own with further `style`, `values` and directives of the content security policy (`allow`).
    """
    views = {} if run is None else _views(result, run, table)
    return _page(
        template,
        result,
        style=style,
        allow=allow or image_policy(run),
        lead=words.side(result.low, result.high),
        grid=_grid(result, table, run, texts or {}, views),
        views=views,
        **values,
    )


def runs_page(result: RunComparison, *, new: Run | None = None, old: Run | None = None) -> str:
    """The text of a page about two runs: the sentence, who moved, and a grid of prompts × entrants; one file.

    Answers and the judge's words are shown where both are run folders.
    """
    order = sorted(result.changes, key=lambda one: (not one.answers_changed, -abs(one.difference.difference)))
    chosen = order[:COLUMNS]
    views = {} if new is None or old is None else _views_of_runs(chosen[:WITH_TEXTS], new, old)
    return _page(
        "reports/runs.html",
        result,
        allow=image_policy(new) or image_policy(old),
        grid=_grid_of_runs(result, chosen, new, views),
        views=views,
    )


def _page(template: str, result: RatingDifference | RunComparison, *, style: str = "", **values: Any) -> str:
    return page(
        template,
        title=f"{result.new} against {result.old}",
        style=own_file("style.css") + own_file("grid.css") + own_file("comparison.css") + style,
        script=own_file("grid.js"),
        result=result,
        words=words,
        interval=percent(result.level),
        scale_of=scale_of,
        **values,
    )


def run_behind(folder: Path) -> Run:
    """The run in a folder, a tournament's or a placement's."""
    if read_object(require(folder / "manifest.json", folder)).get("kind") == "placement":
        return read_placement(folder).run
    return read_run(folder)


def scale_of(differences: Iterable[EstimatedDifference | RatingDifference], factor: float = 1.0) -> svg.Scale:
    """A scale that holds zero and these differences with their intervals, in a unit with this factor."""
    ends = [factor * end for one in differences for end in (one.difference, one.low, one.high) if end is not None]
    return svg.Scale.of([0.0, *ends])


def _view(kind: str, **values: Any) -> Html:
    return Html(getattr(environment().get_template("reports/views.html").module, kind)(**values))


def _fitting(views: Iterable[tuple[str, Html]]) -> dict[str, Html]:
    """Answers and the judge's words by prompt, while there is room on the page."""
    kept: dict[str, Html] = {}
    room = ROOM_FOR_TEXTS
    for prompt, view in views:
        room -= len(view)
        if room < 0 and kept:
            break
        kept[prompt] = view
    return kept


def _anchors(run: Run | None) -> dict[str, str]:
    return {} if run is None else {name: f"p{place}" for place, name in enumerate(run.prompts)}


# Two models


def _grid(
    result: RatingDifference, battles: BattleTable, run: Run | None, texts: Mapping[str, str], views: Mapping[str, Html]
) -> dict[str, Any] | None:
    """The prompts with the heaviest losses first; None where battles do not name any.

    The two against each other come first, then by how much they differ, then every model alone.
    """
    if not result.prompts:
        return None
    new, old, direct = result.new, result.old, result.direct
    met = _met(result, battles)
    models = [new, old, *met[:OTHERS]]
    field = direct is None or result.n_battles > direct.n_battles - direct.both_bad
    columns = [(f"{new} against {old}", f"where {new} lost to {old}")] if direct is not None else []
    if field:
        columns.append((f"{new} minus {old}", f"where {new} did worse than {old}"))
        columns += [(name, f"where {name} lost") for name in models]
    cells = cells_by_prompt(battles, models) if field else {}
    kinds = categories_by_prompt(battles) or ({} if run is None else kind_column(run.prompts)[1])
    known, anchors = {} if run is None else run.prompts, _anchors(run)
    rows = []
    for one in result.prompts:
        line: list[GridCell | ChangeCell | None] = [_between(one)] if direct is not None else []
        if field:
            line.append(None if one.change is None else ChangeCell(one.change))
            line += cells.get(one.prompt) or [None] * len(models)
        text = one.text or texts.get(one.prompt) or (known[one.prompt].text if one.prompt in known else None)
        target = f"#{anchors[one.prompt]}" if one.prompt in views else ""
        rows.append(GridRow(one.prompt, line, text, kinds.get(one.prompt), target, weight=_telling(one)))
    rows.sort(key=lambda row: row.losses)
    left_out = []
    if len(met) > OTHERS:
        left_out.append(f"{plural(len(met) - OTHERS, 'model')} that the two met least have no column.")
    lacking = sum(one.prompt in known for one in result.prompts) - len(views)
    if lacking:
        left_out.append(
            f"The answers to {plural(lacking, 'prompt')} on which the two differ least are left out, to keep the page "
            "usable; the run’s report.html has them."
        )
    return grid(
        columns,
        rows,
        label=f"Prompts on which {new} or {old} met anybody",
        most=MOST_CELLS // len(columns),
        omitted="on which the two differ least are left out, to keep the page usable.",
        left_out=left_out,
    )


def _met(result: RatingDifference, battles: BattleTable) -> list[str]:
    codes = [battles.models.index(name) for name in (result.new, result.old) if name in battles.models]
    met = np.zeros(len(battles.models))
    for ours, theirs in ((battles.model_a, battles.model_b), (battles.model_b, battles.model_a)):
        rows = np.isin(ours, codes)
        met += np.bincount(theirs[rows], battles.weight[rows], len(battles.models))
    met[codes] = 0.0
    return [battles.models[i] for i in np.argsort(-met, kind="stable").tolist() if met[i] > 0]


def _between(one: PromptScore) -> GridCell | None:
    met = one.wins + one.losses + one.ties
    if met + one.both_bad == 0.0:
        return None
    mean = (one.wins + 0.5 * one.ties) / met if met else None
    return GridCell(mean, one.wins, one.losses, one.ties, one.both_bad)


def _telling(one: PromptScore) -> tuple[float, ...]:
    """How much a prompt says about the two: who won it how often, then by how much they differ on it."""
    return (abs(one.net), abs(one.change or 0.0), one.wins + one.losses + one.ties)


def _views(result: RatingDifference, run: Run, battles: BattleTable) -> dict[str, Html]:
    """Answers and the judge's words by prompt, the most telling prompts first while there is room."""
    two, anchors = (result.new, result.old), _anchors(run)
    named = battles.text_column("dimension") if "dimension" in battles.columns else None
    dimensions = set() if named is None else {named.labels[c] for c in np.unique(named.codes).tolist() if c >= 0}
    judged = [
        battle
        for battle in run.battles
        if not set(two).isdisjoint(battle.entrants) and (not dimensions or battle.dimension in dimensions)
    ]
    by_prompt = grouped(judged, lambda battle: battle.prompt_id)

    def view(prompt: str) -> Html:
        """Both answers, what the judge said of the two, and folded the rest of what it said of either."""
        rest = [battle for battle in by_prompt.get(prompt, []) if set(battle.entrants) != set(two)]
        return _view(
            "compared",
            run=run,
            prompt=run.prompts[prompt],
            anchor=anchors[prompt],
            two=two,
            place={name: i for i, name in enumerate(run.entrants)},
            own=[battle for battle in by_prompt.get(prompt, []) if set(battle.entrants) == set(two)],
            rest=rest,
            met=list(dict.fromkeys(name for battle in rest for name in battle.entrants if name not in two)),
        )

    ordered = sorted(result.prompts, key=lambda one: tuple(-weight for weight in _telling(one)))
    kept = _fitting((one.prompt, view(one.prompt)) for one in ordered if one.prompt in run.prompts)
    return {prompt: kept[prompt] for prompt in run.prompts if prompt in kept}


# Two runs


def _grid_of_runs(
    result: RunComparison, chosen: Sequence[EntrantChange], new: Run | None, views: Mapping[str, Html]
) -> dict[str, Any] | None:
    """The change on every prompt; None where the runs do not name prompts."""
    scores = [{one.prompt: one for one in change.difference.prompts} for change in chosen]
    names = dict.fromkeys(name for column in scores for name in column)
    if not names:
        return None
    prompts = {} if new is None else new.prompts
    kinds, anchors = kind_column(prompts)[1], _anchors(new)
    rows = []
    for name in names:
        found = [column.get(name) for column in scores]
        cells = [
            None
            if one is None or one.new_score is None or one.old_score is None
            else ChangeCell(one.new_score - one.old_score, (one.old_score, one.new_score))
            for one in found
        ]
        weight = tuple(0.0 if cell is None else abs(cell.change) for cell in cells)
        texts = (column[name].text for column in scores if name in column)
        text = prompts[name].text if name in prompts else next(texts, None)
        target = f"#{anchors[name]}" if name in views else ""
        targets = [target] * WITH_TEXTS + [""] * len(cells)  # only the first entrants have their answers on the page
        rows.append(GridRow(name, cells, text, kinds.get(name), target, targets, weight=weight))
    rows.sort(key=lambda row: row.losses)
    left_out = []
    if len(result.changes) > len(chosen):
        few = plural(len(result.changes) - len(chosen), "entrant")
        left_out.append(f"{few} with the smallest changes have no column.")
    if views and len(views) < len(names):
        left_out.append(
            f"The answers to {plural(len(names) - len(views), 'prompt')} with the smallest changes are left out, to "
            "keep the page usable; the runs’ report.html have them."
        )
    return grid(
        [(one.entrant, f"where {one.entrant} got worse") for one in chosen],
        rows,
        label="The change on every prompt",
        most=MOST_CELLS // len(chosen),
        omitted="with the smallest changes are left out, to keep the page usable.",
        left_out=left_out,
        legend="▲ better than then, ▼ worse, = the same: the change of the mean result in percentage points, then → "
        "now.",
        leads="A prompt or a cell leads to the answers then and now, and the judge’s words.",
    )


def _views_of_runs(chosen: Sequence[EntrantChange], new: Run, old: Run) -> dict[str, Html]:
    """Answers then and now with the judge's words by prompt, the largest changes first while there is room."""
    runs, anchors = {"now": new, "then": old}, _anchors(new)
    judged = {when: grouped(run.battles, lambda battle: battle.prompt_id) for when, run in runs.items()}
    changes: dict[str, list[float]] = {}
    for change in chosen:
        for one in change.difference.prompts:
            changes.setdefault(one.prompt, []).append(-abs(one.change or 0.0))

    def view(prompt: str) -> Html:
        """Each entrant's answers then and now, and what the judge said of them in either run."""
        parts = []
        for name in (one.entrant for one in chosen):
            answers = [
                (when, run.answers[prompt, name], run.pictures.get((prompt, name), ()))
                for when, run in reversed(runs.items())
                if (prompt, name) in run.answers
            ]
            if len(answers) == 2 and answers[0][1:] == answers[1][1:]:
                answers = [("the same then and now", *answers[0][1:])]
            battles: list[tuple[str, Run, list[JudgedBattle]]] = [
                (when, run, [battle for battle in judged[when].get(prompt, []) if name in battle.entrants])
                for when, run in runs.items()
            ]
            parts.append((name, answers, battles))
        return _view("changed", run=new, prompt=new.prompts[prompt], anchor=anchors[prompt], parts=parts)

    ordered = sorted(changes, key=lambda prompt: changes[prompt])
    return _fitting((prompt, view(prompt)) for prompt in ordered if prompt in new.prompts)


PROMPTS_LISTED = 10


class DifferenceRow(msgspec.Struct, frozen=True):
    """One difference of a table: all prompts, or those of one category; no estimate, with the reason."""

    name: str
    means: tuple[float, float] | None
    one: EstimatedDifference | None
    reason: str = ""


def score_page(answers: Sequence[ScoreDifference]) -> str:
    """The page of two models by one metric or several."""
    first = answers[0]
    sections = [_section(answer) for answer in answers]
    return page(
        "reports/scores.html",
        title=f"{first.new} against {first.old}",
        style=own_file("style.css") + own_file("comparison.css"),
        first=first,
        sections=sections,
        words=words,
    )


def _section(answer: ScoreDifference) -> dict[str, Any]:
    """What a page shows of one metric: titled tables of differences with a note and a scale, and lists of prompts."""
    means, tables = (answer.new_mean, answer.old_mean), []
    for column in dict.fromkeys(part.column for part in answer.parts):
        parts = [part for part in answer.parts if part.column == column]
        rows = [DifferenceRow(part.value, part.means, part.estimate, part.reason or "") for part in parts]
        note = "The intervals hold for all values at once, so each is wider than one alone would be."
        tables.append((f"By {column}", [DifferenceRow("all prompts", means, answer.estimate), *rows], note))
    tables = tables or [("", [DifferenceRow(words.sample(answer), means, answer.estimate)], "")]
    scales = [scale_of((row.one for row in rows if row.one), answer.unit.factor) for _, rows, _ in tables]
    return {
        "answer": answer,
        "side": words.side(answer.low, answer.high),
        "tables": [(*table, scale) for table, scale in zip(tables, scales, strict=True)],
        "prompts": [(title[0].upper() + title[1:], some) for title, some in words.prompt_lists(answer, PROMPTS_LISTED)],
        "notes": words.footnotes(answer),
    }
