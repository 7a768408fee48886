"""The page of a difference: whether the new model is better, how sure that is, and the prompts behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tiltyard.battles.table import BattleTable
from tiltyard.boards.text import percent as level_text
from tiltyard.decisions.prompts import PromptScore
from tiltyard.decisions.records import Difference, EstimatedDifference
from tiltyard.decisions.words import between, footnotes, share, side, signed, sureness
from tiltyard.judging.run_folder import read_object, require
from tiltyard.pages import svg
from tiltyard.pages.escaping import Html
from tiltyard.pages.figures import count, plural
from tiltyard.pages.html import page, render
from tiltyard.report.grid import (
    ChangeCell,
    GridCell,
    GridColumn,
    GridRow,
    GridView,
    categories_by_prompt,
    cells_by_prompt,
    grid,
    kinds_of,
    losses_first,
    most_telling,
    room_for,
)
from tiltyard.report.judged import JudgedBattle
from tiltyard.report.page import image_policy, own_file
from tiltyard.report.run import Run, read_run

NO_BREAK = "\u00a0"
OTHERS = 8
"""Other models that have a column: those whom the two met most."""
ROOM_FOR_TEXTS = 12_000_000
"""Characters of answers and judge's words on a page at the most: what a browser opens in a second or two."""


def comparison_page(
    result: Difference,
    table: BattleTable,
    *,
    run: Run | None = None,
    texts: Mapping[str, str] | None = None,
    template: str = "report/comparison.html",
    style: str = "",
    allow: str = "",
    **values: Any,
) -> str:
    """The text of `compare.html`: the sentence, the numbers, and a grid of prompts × models; one self-contained file.

    Parameters:
        result: The difference.
        table: The battles it was made from, after every filter.
        run: The run they come from, for texts, answers and the judge's words; None: there is no run folder.
        texts: Texts of prompts by id, where they do not come from a run.
        template: The page; one of a site has the way back to the site.
        style: Further style, for what stands above.
        allow: Further directives of the page's content security policy.
        values: Further values of the template.
    """
    views = {} if run is None else _views(result, run, _dimensions(table))
    columns = list(dict.fromkeys(part.column for part in result.parts))
    lead = side(result.low, result.high)
    return page(
        template,
        title=f"{result.new} against {result.old}",
        style=own_file("style.css") + own_file("grid.css") + own_file("comparison.css") + style,
        script=own_file("grid.js"),
        allow=allow or image_policy(run),
        result=result,
        lead=lead,
        # An unclear sentence begins with a word, not with a model's name.
        sentence=result.sentence[0].upper() + result.sentence[1:] if lead == "unclear" else result.sentence,
        tiles=_tiles(result),
        columns=columns,
        numbers=_numbers(result),
        parts=[_part(result, column) for column in columns],
        grid=_grid(result, table, run, texts or {}, views),
        views=views.values(),
        **values,
    )


def run_behind(folder: Path) -> Run:
    """The run in a folder, a tournament's or a placement's.

    Parameters:
        folder: The folder.
    """
    if read_object(require(folder / "manifest.json", folder)).get("kind") == "placement":
        from tiltyard.report.placement import read_placement

        return read_placement(folder).run
    return read_run(folder)


def _tiles(result: Difference) -> list[tuple[str, str | float, str]]:
    """Figures with what is small below them; a share is a number."""
    shown, direct = result.shown, result.direct
    rates = "" if shown.win_rate_low is None else f"{share(shown.win_rate_low)} to {share(shown.win_rate_high)}"
    sure = sureness(result.probability_better).replace("more than", ">").replace("less than", "<")
    tiles: list[tuple[str, str | float, str]] = [
        ("difference in points", signed(result.difference), between(result.low, result.high)),
        (f"sure that {result.new} is better", sure.replace(" ", NO_BREAK), ""),
        (f"win rate against {result.old}", shown.win_rate, rates),
    ]
    if direct is not None:
        bad = f"{count(direct.both_bad)} both bad" if direct.both_bad else ""
        record = "–".join(count(number) for number in (direct.wins, direct.losses, direct.ties))
        tiles.append(("won–lost–tied between the two", record, bad))
    return tiles


@dataclass(frozen=True, slots=True)
class EstimateRow:
    """One difference as a row: every figure in words, and its interval for the picture."""

    name: str
    value: float
    low: float | None
    high: float | None
    label: str
    cells: Sequence[str]


@dataclass(frozen=True, slots=True)
class EstimatesView:
    """Differences on one scale, with the heads of their columns and what to know about them."""

    rows: Sequence[EstimateRow]
    what: str
    interval: str
    scale: svg.Scale
    notes: Sequence[str | tuple[str, str]]


def _numbers(result: Difference) -> EstimatesView:
    """The difference from the battles between the two, and from all battles; what a reader should know about both."""
    lines: list[tuple[str, EstimatedDifference]] = []
    direct = result.direct
    if direct is not None and direct.estimate is not None:
        lines.append(("against each other", direct.estimate))
    if direct is None or direct.n_battles - direct.both_bad < result.n_battles:
        lines.append(("all battles", result.estimate))
    notes = footnotes(result)
    if direct is None:
        notes = [f"{result.new} and {result.old} never met: the difference comes through the models both met", *notes]
    rows = [_estimate_row(name, one) for name, one in lines]
    return EstimatesView(rows, "from", level_text(result.level), _scale(estimate for _, estimate in lines), notes)


def _part(result: Difference, column: str) -> EstimatesView:
    """The differences by the values of a column, and why some have none."""
    parts = [part for part in result.parts if part.column == column]
    known = [(part.value, part.estimate) for part in parts if part.estimate is not None]
    missing = [(part.value, part.reason or "") for part in parts if part.estimate is None]
    scale = _scale([*(estimate for _, estimate in known), result.estimate])
    return EstimatesView([_estimate_row(value, one) for value, one in known], column, "interval", scale, missing)


def _scale(estimates: Iterable[EstimatedDifference]) -> svg.Scale:
    ends = [end for one in estimates for end in (one.difference, one.low, one.high) if end is not None]
    return svg.Scale.of([0.0, *ends])


def _estimate_row(name: str, one: EstimatedDifference) -> EstimateRow:
    rates = "–" if one.win_rate_low is None else f"{share(one.win_rate_low)} to {share(one.win_rate_high)}"
    label = f"{name}: {signed(one.difference)} points, {between(one.low, one.high)}"
    cells = (
        signed(one.difference),
        between(one.low, one.high),
        sureness(one.probability_better),
        share(one.win_rate),
        rates,
        count(one.n_battles),
    )
    return EstimateRow(name, one.difference, one.low, one.high, label, cells)


def _grid(
    result: Difference, battles: BattleTable, run: Run | None, texts: Mapping[str, str], views: Mapping[str, Html]
) -> GridView | None:
    """The grid of prompts; None where battles do not name any."""
    if not result.prompts:
        return None
    others, unseen = _other_models(result, battles)
    columns, rows = _rows(result, battles, others)
    anchors = {} if run is None else {name: f"#p{i}" for i, name in enumerate(run.prompts) if name in views}
    kinds = categories_by_prompt(battles) or ({} if run is None else kinds_of(run.prompts))
    known = texts if run is None else {**{name: prompt.text for name, prompt in run.prompts.items()}, **texts}
    rows = [
        replace(
            row,
            text=row.text or known.get(row.prompt),
            category=kinds.get(row.prompt),
            target=anchors.get(row.prompt, ""),
        )
        for row in rows
    ]
    weights = {one.prompt: _telling(one) for one in result.prompts}
    shown = most_telling(rows, weights, room_for(len(columns)))
    left_out = _left_out(result, len(rows) - len(shown), unseen, run, len(views))
    return grid(columns, shown, label=f"Prompts on which {result.new} or {result.old} met anybody", left_out=left_out)


def _other_models(result: Difference, battles: BattleTable) -> tuple[list[str], int]:
    """The models the two met most, and how many more there are."""
    codes = [battles.models.index(name) for name in (result.new, result.old) if name in battles.models]
    met = np.zeros(len(battles.models))
    for ours, theirs in ((battles.model_a, battles.model_b), (battles.model_b, battles.model_a)):
        rows = np.isin(ours, codes)
        met += np.bincount(theirs[rows], battles.weight[rows], len(battles.models))
    met[codes] = 0.0
    names = [battles.models[i] for i in np.argsort(-met, kind="stable").tolist() if met[i] > 0]
    return names[:OTHERS], max(0, len(names) - OTHERS)


def _rows(result: Difference, battles: BattleTable, others: Sequence[str]) -> tuple[list[GridColumn], list[GridRow]]:
    """The columns, and the prompts with the heaviest losses first.

    The two against each other come first, then by how much they differ, then every model alone.
    """
    new, old = result.new, result.old
    models = [new, old, *others]
    met = result.direct is not None
    field = result.direct is None or result.n_battles > result.direct.n_battles - result.direct.both_bad
    columns = [GridColumn(f"{new} against {old}", f"where {new} lost to {old}")] if met else []
    if field:
        columns.append(GridColumn(f"{new} minus {old}", f"where {new} did worse than {old}"))
        columns += [GridColumn(name, f"where {name} lost") for name in models]
    cells = cells_by_prompt(battles, models) if field else {}
    rows = []
    for one in result.prompts:
        line: list[GridCell | ChangeCell | None] = [_between(one)] if met else []
        if field:
            line.append(None if one.change is None else ChangeCell(one.change))
            line += cells.get(one.prompt) or (None,) * len(models)
        rows.append(GridRow(one.prompt, tuple(line), one.text))
    return columns, sorted(rows, key=losses_first)


def _between(one: PromptScore) -> GridCell | None:
    met = one.wins + one.losses + one.ties
    if met + one.both_bad == 0.0:
        return None
    mean = (one.wins + 0.5 * one.ties) / met if met else None
    return GridCell(mean, one.wins, one.losses, one.ties, one.both_bad)


def _telling(one: PromptScore) -> tuple[float, ...]:
    """How much a prompt says about the two: who won it how often, then by how much they differ on it."""
    return (abs(one.net), abs(one.change or 0.0), one.wins + one.losses + one.ties)


def _left_out(result: Difference, rows: int, models: int, run: Run | None, views: int) -> str:
    """What the page does not show, in sentences."""
    sentences = []
    if rows:
        sentences.append(
            f"{plural(rows, 'prompt')} on which the two differ least are left out, to keep the page usable."
        )
    if models:
        sentences.append(f"{plural(models, 'model')} that the two met least have no column.")
    if run is not None:
        lacking = sum(one.prompt in run.prompts for one in result.prompts) - views
        if lacking:
            sentences.append(
                f"The answers to {plural(lacking, 'prompt')} on which the two differ least are left out, to keep the "
                "page usable; the run’s report.html has them."
            )
    return " ".join(sentences)


def _dimensions(battles: BattleTable) -> set[str] | None:
    """The dimensions of these battles; None where they do not say."""
    if "dimension" not in battles.columns:
        return None
    column = battles.text_column("dimension")
    return {column.labels[code] for code in np.unique(column.codes).tolist() if code >= 0} or None


def _views(result: Difference, run: Run, dimensions: set[str] | None) -> dict[str, Html]:
    """Answers and the judge's words by prompt, the most telling prompts first while there is room."""
    two = {result.new, result.old}
    judged = run.battles.of_kind(
        lambda battle: bool(two & set(battle.entrants)) and (dimensions is None or battle.dimension in dimensions)
    )
    by_prompt = judged.grouped(lambda battle: battle.prompt_id)
    number = {name: i for i, name in enumerate(run.prompts)}
    views: dict[str, Html] = {}
    room = ROOM_FOR_TEXTS
    for one in sorted(result.prompts, key=lambda one: tuple(-weight for weight in _telling(one))):
        if one.prompt not in run.prompts:
            continue
        view = _view(result, run, one.prompt, f"p{number[one.prompt]}", by_prompt.get(one.prompt, []))
        room -= len(view)
        if room < 0 and views:
            break
        views[one.prompt] = view
    return dict(sorted(views.items(), key=lambda item: number[item[0]]))


def _view(result: Difference, run: Run, prompt_id: str, anchor: str, battles: Sequence[JudgedBattle]) -> Html:
    """One prompt: both answers, what the judge said of the two, and folded the rest of what it said of either."""
    two = (result.new, result.old)
    rest = [battle for battle in battles if set(battle.entrants) != set(two)]
    return render(
        "report/compared_view.html",
        run=run,
        prompt=run.prompts[prompt_id],
        anchor=anchor,
        two=two,
        place={name: i for i, name in enumerate(run.entrants)},
        own=[battle for battle in battles if set(battle.entrants) == set(two)],
        rest=rest,
        met=list(dict.fromkeys(name for battle in rest for name in battle.entrants if name not in two)),
    )
