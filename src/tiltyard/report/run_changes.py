"""The page of two runs: what moved between them, how sure that is, and the prompts behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiltyard.bank import Prompt
from tiltyard.boards.text import percent as level_text
from tiltyard.decisions.prompts import PromptScore
from tiltyard.decisions.run_words import run_footnotes
from tiltyard.decisions.two_runs import EntrantChange, RunComparison
from tiltyard.decisions.words import between, signed, sureness
from tiltyard.pages import document as pages
from tiltyard.pages import svg
from tiltyard.pages.figures import plural
from tiltyard.pages.markup import Html, el, join, link, table
from tiltyard.report.comparison import ROOM_FOR_TEXTS, battle_block
from tiltyard.report.grid import ChangeCell, GridColumn, GridRow, grid, kinds_of, losses_first, most_telling, room_for
from tiltyard.report.judged import JudgedBattle, JudgedBattles
from tiltyard.report.page import own_file
from tiltyard.report.run import Run
from tiltyard.report.sections.prompts import answer_block, expected, image_policy, pictures, words

COLUMNS = 12
"""Entrants that have a column: those with new answers, then those that moved most."""
WITH_TEXTS = 3
"""Entrants whose answers and judgments are on the page."""
LEGEND = "▲ better than then, ▼ worse, = the same: the change of the mean result in percentage points, then → now."


def runs_page(found: RunComparison, *, new: Run | None = None, old: Run | None = None) -> str:
    """The text of a page about two runs: the sentence, who moved, and a grid of prompts × entrants; one file.

    Parameters:
        found: The comparison.
        new: The newer run, for answers and the judge's words; None: it is not a run folder.
        old: The older run.
    """
    chosen = _columns(found)
    views = {} if new is None or old is None else _views(chosen[:WITH_TEXTS], new, old)
    places = [("changes", "Entrants"), ("prompts", "Prompts")]
    said = found.sentence
    body = [
        el(
            "header",
            el("p", "Tiltyard · two runs", class_="over"),
            el("h1", el("bdi", found.new), " against ", el("bdi", found.old)),
            el("p", said[0].upper() + said[1:] if said.startswith(("no ", "cannot ")) else said, class_="lead"),
        ),
        el("nav", *[link(f"#{anchor}", name) for anchor, name in places], aria_label="Sections"),
        el(
            "main",
            _changes_section(found),
            _grid_section(found, chosen, {} if new is None else new.prompts, views),
            el("div", *views.values(), id="views"),
        ),
    ]
    style = own_file("style.css") + own_file("grid.css") + own_file("comparison.css")
    title, allow = f"{found.new} against {found.old}", image_policy(new) or image_policy(old)
    return pages.document(title, body, style=style, script=own_file("grid.js"), allow=allow)


def _columns(found: RunComparison) -> list[EntrantChange]:
    """The entrants that have a column: new answers first, then the largest changes."""
    order = sorted(found.changes, key=lambda one: (not one.answers_changed, -abs(one.difference.difference)))
    return order[:COLUMNS]


def _changes_section(found: RunComparison) -> Html:
    """Every entrant then and now, with its change on one scale."""
    ends = [end for one in found.changes for end in _ends(one) if end is not None]
    scale = svg.Scale.of([0.0, *ends])
    head: list[str | tuple[str, str]] = [
        "entrant",
        ("change", "num"),
        (join([svg.axis(scale), el("span", "picture", class_="aloud")]), "chart"),
        (level_text(found.level), "num"),
        ("then", "num extra"),
        ("now", "num extra"),
        ("better", "num extra"),
        ("place", "num extra"),
        ("answers", "extra"),
        ("moved", "extra"),
    ]
    notes = [el("li", note) for note in run_footnotes(found)]
    return el(
        "section",
        el("h2", "Entrants"),
        table(head, [_change_row(one, scale) for one in found.changes], class_="board estimates"),
        el("ul", *notes, class_="note"),
        id="changes",
    )


def _ends(one: EntrantChange) -> tuple[float | None, ...]:
    return (one.difference.difference, one.difference.low, one.difference.high)


def _change_row(one: EntrantChange, scale: svg.Scale) -> list[str]:
    change, low, high = one.difference.difference, one.difference.low, one.difference.high
    label = f"{one.entrant}: {signed(change)} points, {between(low, high)}"
    known = low is not None or high is not None
    moved = f"{one.rank_old} → {one.rank_new}" if one.rank_old != one.rank_new else str(one.rank_new)
    return [
        one.entrant,
        el("b", signed(change)),
        svg.interval(scale, change, low, high, label, guide=0.0) if known else Html(""),
        el("span", between(low, high), class_="span"),
        f"{one.rating_old:.0f}",
        f"{one.rating_new:.0f}",
        sureness(one.difference.probability_better),
        moved,
        {None: "–", True: "changed", False: "same"}[one.answers_changed],
        "more than noise" if one.beyond_noise else "within noise",
    ]


def _grid_section(
    found: RunComparison, chosen: Sequence[EntrantChange], prompts: Mapping[str, Prompt], views: Mapping[str, Html]
) -> Html:
    scores = [{one.prompt: one for one in change.difference.prompts} for change in chosen]
    names = dict.fromkeys(name for column in scores for name in column)
    if not names:
        said = "Not both runs say which prompt a battle is about, so no prompt can be shown."
        return el("section", el("h2", "Prompts"), el("p", said, class_="note"), id="prompts")
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
    return el(
        "section",
        el("h2", "Prompts"),
        grid(
            [GridColumn(one.entrant, f"where {one.entrant} got worse") for one in chosen],
            shown,
            label="The change on every prompt",
            left_out=_left_out(found, len(rows) - len(shown), len(names) - len(views) if views else 0, len(chosen)),
            legend=LEGEND,
            leads="A prompt or a cell leads to the answers then and now, and the judge’s words.",
        ),
        id="prompts",
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


def _left_out(found: RunComparison, rows: int, texts: int, columns: int) -> str:
    said = []
    if rows:
        said.append(f"{plural(rows, 'prompt')} with the smallest changes are left out, to keep the page usable.")
    if len(found.changes) > columns:
        said.append(f"{plural(len(found.changes) - columns, 'entrant')} with the smallest changes have no column.")
    if texts:
        said.append(
            f"The answers to {plural(texts, 'prompt')} with the smallest changes are left out, to keep the page "
            "usable; the runs’ report.html have them."
        )
    return " ".join(said)


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
        battles: list[Sequence[JudgedBattle]] = [found.get(prompt, ()) for found in judged]
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
    prompt = runs[0].prompts[prompt_id]
    parts: list[Html] = []
    for number, name in enumerate(entrants):
        answers = [
            (when, run.answers.get((prompt_id, name)), pictures(run, prompt_id, name))
            for when, run in zip(("now", "then"), runs, strict=True)
        ]
        known = [(when, text, images) for when, text, images in answers if text is not None]
        if len(known) == 2 and known[0][1:] == known[1][1:]:
            known = [("the same then and now", *known[0][1:])]
        blocks = [answer_block(number, f"{name}, {when}", text, images) for when, text, images in reversed(known)]
        parts.append(el("div", *blocks, class_="answers"))
        for when, run, judged in zip(("now", "then"), runs, battles, strict=True):
            own = [battle for battle in judged if name in battle.entrants]
            said = f"{name} {when}: {plural(len(own), 'judgment')}"
            blocks = [battle_block(run, battle) for battle in own]
            parts.append(el("details", el("summary", said), *blocks, class_="others") if own else Html(""))
    return el(
        "article",
        el("p", link("#prompts", "Prompts"), class_="up"),
        el("h3", prompt_id),
        words(prompt.text, "question", "Prompt"),
        pictures(runs[0], prompt_id),
        *expected(prompt),
        *parts,
        class_="view prompt",
        id=anchor,
    )
