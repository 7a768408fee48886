"""The page of a difference: whether the new model is better, how sure that is, and the prompts behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tiltyard.battles.table import BattleTable
from tiltyard.boards.text import percent as level_text
from tiltyard.decisions.prompts import PromptScore
from tiltyard.decisions.records import Difference, EstimatedDifference
from tiltyard.decisions.words import between, footnotes, share, side, signed, sureness
from tiltyard.judging.run_folder import read_object, require
from tiltyard.pages import document as pages
from tiltyard.pages import svg
from tiltyard.pages.figures import count, plural
from tiltyard.pages.markup import Html, el, join, link, pairs, percent
from tiltyard.pages.markup import table as html_table
from tiltyard.report.grid import (
    ChangeCell,
    GridCell,
    GridColumn,
    GridRow,
    categories_by_prompt,
    cells_by_prompt,
    grid,
    kinds_of,
    losses_first,
    most_telling,
    room_for,
)
from tiltyard.report.judged import JudgedBattle
from tiltyard.report.page import own_file
from tiltyard.report.run import Run, read_run
from tiltyard.report.sections.battles import badge
from tiltyard.report.sections.prompts import answer_block, expected, image_policy, pictures, verdict_blocks, words

NO_BREAK = "\u00a0"
OTHERS = 8
"""Other models that have a column: those whom the two met most."""
ROOM_FOR_TEXTS = 12_000_000
"""Characters of answers and judge's words on a page at the most: what a browser opens in a second or two."""


def comparison_page(
    found: Difference,
    table: BattleTable,
    *,
    run: Run | None = None,
    texts: Mapping[str, str] | None = None,
    above: Sequence[Html] = (),
    head: Sequence[Html] = (),
    style: str = "",
    allow: str = "",
) -> str:
    """The text of `compare.html`: the sentence, the numbers, and a grid of prompts × models; one self-contained file.

    Parameters:
        found: The difference.
        table: The battles it was made from, after every filter.
        run: The run they come from, for texts, answers and the judge's words; None: there is no run folder.
        texts: Texts of prompts by id, where they do not come from a run.
        above: What stands above the page: the way back to a site.
        head: Further markup for the head of the page.
        style: Further style, for what stands above.
        allow: Further directives of the page's content security policy.
    """
    views = {} if run is None else _views(found, run, _dimensions(table))
    body = [
        *above,
        _header(found),
        _navigation(found),
        el(
            "main",
            _numbers_section(found),
            *[_parts_section(found, column) for column in _columns(found)],
            _grid_section(found, table, run, texts or {}, views),
            el("div", *views.values(), id="views"),
        ),
    ]
    style = own_file("style.css") + own_file("grid.css") + own_file("comparison.css") + style
    title, script = f"{found.new} against {found.old}", own_file("grid.js")
    return pages.document(title, body, style=style, script=script, head=head, allow=allow or image_policy(run))


def run_behind(folder: Path) -> Run:
    """The run in a folder, a tournament's or a placement's.

    Parameters:
        folder: The folder.
    """
    if read_object(require(folder / "manifest.json", folder)).get("kind") == "placement":
        from tiltyard.report.placement import read_placement

        return read_placement(folder).run
    return read_run(folder)


def _columns(found: Difference) -> list[str]:
    """The columns by whose values there is a difference."""
    return list(dict.fromkeys(part.column for part in found.parts))


def _header(found: Difference) -> Html:
    said = found.sentence
    if side(found.low, found.high) == "unclear":  # it begins with a word, not with a model's name
        said = said[0].upper() + said[1:]
    return el(
        "header",
        el("p", "Tiltyard · comparison", class_="over"),
        el("h1", el("bdi", found.new), " against ", el("bdi", found.old)),
        el("p", said, class_=f"lead {side(found.low, found.high)}"),
        pairs(_tiles(found), class_="tiles"),
    )


def _tiles(found: Difference) -> list[tuple[str, str]]:
    shown, direct = found.shown, found.direct
    points = join([signed(found.difference), el("small", between(found.low, found.high))])
    rates = "" if shown.win_rate_low is None else f"{share(shown.win_rate_low)} to {share(shown.win_rate_high)}"
    tiles: list[tuple[str, str]] = [
        ("difference in points", points),
        (f"sure that {found.new} is better", _sure(found.probability_better)),
        (f"win rate against {found.old}", join([percent(shown.win_rate, 1), el("small", rates)])),
    ]
    if direct is not None:
        bad = f", {count(direct.both_bad)} both bad" if direct.both_bad else ""
        record = "–".join(count(number) for number in (direct.wins, direct.losses, direct.ties))
        tiles.append(("won–lost–tied between the two", join([record, el("small", bad.lstrip(", "))])))
    return tiles


def _sure(probability: float | None) -> str:
    """How sure, short enough for a tile."""
    return sureness(probability).replace("more than", ">").replace("less than", "<").replace(" ", NO_BREAK)


def _navigation(found: Difference) -> Html:
    places = [("numbers", "Numbers"), *((f"by-{i}", f"By {name}") for i, name in enumerate(_columns(found)))]
    places.append(("prompts", "Prompts"))
    return el("nav", *[link(f"#{anchor}", name) for anchor, name in places], aria_label="Sections")


def _numbers_section(found: Difference) -> Html:
    """The difference from the battles between the two, and from all battles; what a reader should know about both."""
    lines: list[tuple[str, EstimatedDifference]] = []
    direct = found.direct
    if direct is not None and direct.estimate is not None:
        lines.append(("against each other", direct.estimate))
    if direct is None or direct.n_battles - direct.both_bad < found.n_battles:
        lines.append(("all battles", found.estimate))
    notes = footnotes(found)
    if direct is None:
        notes = [f"{found.new} and {found.old} never met: the difference comes through the models both met", *notes]
    return el(
        "section",
        el("h2", "Numbers"),
        _estimates(found, lines, ("from", level_text(found.level)), _scale(estimate for _, estimate in lines)),
        el("ul", *[el("li", note) for note in notes], class_="note"),
        id="numbers",
    )


def _parts_section(found: Difference, column: str) -> Html:
    parts = [part for part in found.parts if part.column == column]
    known = [(part.value, part.estimate) for part in parts if part.estimate is not None]
    missing = [el("li", el("b", part.value), ": ", part.reason or "") for part in parts if part.estimate is None]
    scale = _scale([*(estimate for _, estimate in known), found.estimate])
    return el(
        "section",
        el("h2", f"By {column}"),
        el("p", "The intervals hold for all values at once, so each is wider than one alone would be.", class_="note"),
        _estimates(found, known, (column, "interval"), scale) if known else Html(""),
        el("ul", *missing, class_="note") if missing else Html(""),
        id=f"by-{_columns(found).index(column)}",
    )


def _scale(estimates: Iterable[EstimatedDifference]) -> svg.Scale:
    ends = [end for one in estimates for end in (one.difference, one.low, one.high) if end is not None]
    return svg.Scale.of([0.0, *ends])


def _estimates(
    found: Difference, lines: Sequence[tuple[str, EstimatedDifference]], heads: tuple[str, str], scale: svg.Scale
) -> Html:
    what, interval = heads
    head: list[str | tuple[str, str]] = [
        what,
        ("difference", "num"),
        (join([svg.axis(scale), el("span", "picture", class_="aloud")]), "chart"),
        (interval, "num"),
        (f"{found.new} is better", "num extra"),
        ("win rate", "num extra"),
        (interval, "num extra"),
        ("battles", "num extra"),
    ]
    return html_table(head, [_estimate_row(name, one, scale) for name, one in lines], class_="board estimates")


def _estimate_row(name: str, one: EstimatedDifference, scale: svg.Scale) -> list[str]:
    rates = "–" if one.win_rate_low is None else f"{share(one.win_rate_low)} to {share(one.win_rate_high)}"
    known = one.low is not None or one.high is not None
    label = f"{name}: {signed(one.difference)} points, {between(one.low, one.high)}"
    picture = svg.interval(scale, one.difference, one.low, one.high, label, guide=0.0) if known else Html("")
    return [
        name,
        el("b", signed(one.difference)),
        picture,
        el("span", between(one.low, one.high), class_="span"),
        sureness(one.probability_better),
        share(one.win_rate),
        el("span", rates, class_="span"),
        count(one.n_battles),
    ]


def _grid_section(
    found: Difference,
    battles: BattleTable,
    run: Run | None,
    texts: Mapping[str, str],
    views: Mapping[str, Html],
) -> Html:
    title = el("h2", "Prompts")
    if not found.prompts:
        said = "These battles do not say which prompt they are about, so no prompt can be shown."
        return el("section", title, el("p", said, class_="note"), id="prompts")
    others, unseen = _other_models(found, battles)
    columns, rows = _rows(found, battles, others)
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
    weights = {one.prompt: _telling(one) for one in found.prompts}
    shown = most_telling(rows, weights, room_for(len(columns)))
    left_out = _left_out(found, len(rows) - len(shown), unseen, run, len(views))
    label = f"Prompts on which {found.new} or {found.old} met anybody"
    return el("section", title, grid(columns, shown, label=label, left_out=left_out), id="prompts")


def _other_models(found: Difference, battles: BattleTable) -> tuple[list[str], int]:
    """The models the two met most, and how many more there are."""
    codes = [battles.models.index(name) for name in (found.new, found.old) if name in battles.models]
    met = np.zeros(len(battles.models))
    for ours, theirs in ((battles.model_a, battles.model_b), (battles.model_b, battles.model_a)):
        rows = np.isin(ours, codes)
        met += np.bincount(theirs[rows], battles.weight[rows], len(battles.models))
    met[codes] = 0.0
    names = [battles.models[i] for i in np.argsort(-met, kind="stable").tolist() if met[i] > 0]
    return names[:OTHERS], max(0, len(names) - OTHERS)


def _rows(found: Difference, battles: BattleTable, others: Sequence[str]) -> tuple[list[GridColumn], list[GridRow]]:
    """The columns, and the prompts with the heaviest losses first.

    The two against each other come first, then by how much they differ, then every model alone.
    """
    new, old = found.new, found.old
    models = [new, old, *others]
    met = found.direct is not None
    field = found.direct is None or found.n_battles > found.direct.n_battles - found.direct.both_bad
    columns = [GridColumn(f"{new} against {old}", f"where {new} lost to {old}")] if met else []
    if field:
        columns.append(GridColumn(f"{new} minus {old}", f"where {new} did worse than {old}"))
        columns += [GridColumn(name, f"where {name} lost") for name in models]
    cells = cells_by_prompt(battles, models) if field else {}
    rows = []
    for one in found.prompts:
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


def _left_out(found: Difference, rows: int, models: int, run: Run | None, views: int) -> str:
    """What the page does not show, in sentences."""
    said = []
    if rows:
        said.append(f"{plural(rows, 'prompt')} on which the two differ least are left out, to keep the page usable.")
    if models:
        said.append(f"{plural(models, 'model')} that the two met least have no column.")
    if run is not None:
        lacking = sum(one.prompt in run.prompts for one in found.prompts) - views
        if lacking:
            said.append(
                f"The answers to {plural(lacking, 'prompt')} on which the two differ least are left out, to keep the "
                "page usable; the run’s report.html has them."
            )
    return " ".join(said)


def _dimensions(battles: BattleTable) -> set[str] | None:
    """The dimensions of these battles; None where they do not say."""
    if "dimension" not in battles.columns:
        return None
    column = battles.text_column("dimension")
    return {column.labels[code] for code in np.unique(column.codes).tolist() if code >= 0} or None


def _views(found: Difference, run: Run, dimensions: set[str] | None) -> dict[str, Html]:
    """Answers and the judge's words by prompt, the most telling prompts first while there is room."""
    two = {found.new, found.old}
    judged = run.battles.of_kind(
        lambda battle: bool(two & set(battle.entrants)) and (dimensions is None or battle.dimension in dimensions)
    )
    by_prompt = judged.grouped(lambda battle: battle.prompt_id)
    number = {name: i for i, name in enumerate(run.prompts)}
    views: dict[str, Html] = {}
    room = ROOM_FOR_TEXTS
    for one in sorted(found.prompts, key=lambda one: tuple(-weight for weight in _telling(one))):
        if one.prompt not in run.prompts:
            continue
        view = _view(found, run, one.prompt, f"p{number[one.prompt]}", by_prompt.get(one.prompt, []))
        room -= len(view)
        if room < 0 and views:
            break
        views[one.prompt] = view
    return dict(sorted(views.items(), key=lambda item: number[item[0]]))


def _view(found: Difference, run: Run, prompt_id: str, anchor: str, battles: Sequence[JudgedBattle]) -> Html:
    """One prompt: both answers, what the judge said of the two, and folded the rest of what it said of either."""
    prompt, two = run.prompts[prompt_id], (found.new, found.old)
    place = {name: i for i, name in enumerate(run.entrants)}
    own = [battle for battle in battles if set(battle.entrants) == set(two)]
    rest = [battle for battle in battles if set(battle.entrants) != set(two)]
    met = dict.fromkeys(name for battle in rest for name in battle.entrants if name not in two)

    def answers(names: Iterable[str]) -> Html:
        known = [name for name in names if (prompt_id, name) in run.answers]
        blocks = [answer_block(place[n], n, run.answers[prompt_id, n], pictures(run, prompt_id, n)) for n in known]
        return el("div", *blocks, class_="answers")

    about = [word for word in (prompt.source, prompt.subject) if word]
    others = el(
        "details",
        el("summary", f"Other models on this prompt: {', '.join(met)}"),
        answers(met),
        *[battle_block(run, battle) for battle in rest],
        class_="others",
    )
    return el(
        "article",
        el("p", link("#prompts", "Prompts"), *[f" / {word}" for word in about], class_="up"),
        el("h3", prompt_id),
        words(prompt.text, "question", "Prompt"),
        pictures(run, prompt_id),
        *expected(prompt),
        answers(two),
        *[battle_block(run, battle) for battle in own],
        Html("") if own else el("p", "The two did not meet on this prompt.", class_="note"),
        others if rest else Html(""),
        class_="view prompt",
        id=anchor,
    )


def battle_block(run: Run, battle: JudgedBattle) -> Html:
    """One judgment with what the judge said in each order."""
    return el(
        "section",
        el("h4", battle.dimension, ": ", join(battle.entrants, " against "), " ", badge(battle)),
        el("div", *verdict_blocks(battle, run.judgment(battle)), class_="verdicts"),
        class_="battle",
    )
