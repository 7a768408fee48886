"""Battles in groups: by opponent and by language, each with its outcomes and the ratings' prediction."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.pages import svg
from tiltyard.pages.markup import Html, el, join, link, number, percent, rating, table
from tiltyard.report.counts import behaviour
from tiltyard.report.judged import JudgedBattle
from tiltyard.report.placement.counts import Results, count_results
from tiltyard.report.placement.folder import UNKNOWN_LANGUAGE, Placement
from tiltyard.report.sections.habits import SCALE, source_anchor
from tiltyard.report.site_map import Here


def opponents_section(here: Here, placed: Placement) -> Html:
    """Every opponent, best first, with its rating and its battles with the model."""
    groups = placed.run.battles.grouped(placed.opponent)
    names = [name for name in placed.run.entrants if name in groups]
    rows = []
    for name in names:
        entry = placed.entries.get(name)
        label = link(here.pair(placed.dimension, placed.model, name), name)
        rows.append([label, rating(entry.rating if entry else None, 0), *_cells(placed, name, groups[name])])
    return el(
        "section",
        el("h2", "Opponents"),
        el(
            "p",
            "Dot and line: the model’s score with ties counting half, and its 95 % Wilson interval. Dashed: the score "
            "predicted by the ratings. Click an opponent to see its battles.",
            class_="note",
        ),
        _table(["opponent", ("its rating", "num")], rows, "opponents"),
        id="opponents",
    )


def languages_section(here: Here, placed: Placement) -> Html:
    """The same by the language of the question, where a language is known."""
    groups = placed.run.battles.grouped(placed.language)
    if set(groups) <= {UNKNOWN_LANGUAGE}:
        return Html("")
    names = sorted(groups, key=lambda name: (-len(groups[name]), name))
    rows = [
        [link(here.section(source_anchor(here, name)), name), *_cells(placed, name, groups[name])] for name in names
    ]
    return el(
        "section",
        el("h2", "Languages"),
        el(
            "p",
            "Far from its dashed line, the model is better or worse in a language than overall; "
            "the board does not take languages into account.",
            class_="note",
        ),
        _table(["language"], rows, "languages"),
        id="languages",
    )


def _table(first: Sequence[str | tuple[str, str]], rows: Sequence[Sequence[str]], class_: str) -> Html:
    axis = svg.axis(svg.Scale(0.0, 100.0, (25.0, 50.0, 75.0)), " %")
    head = [
        *first,
        ("battles", "num extra"),
        ("won–lost–tied", "num"),
        ("changed", "num extra"),
        ("failed", "num extra"),
        ("score", "num"),
        (axis, "chart"),
        ("expected", "num"),
    ]
    return table(head, rows, class_=f"board groups {class_}")


def _cells(placed: Placement, name: str, battles: Sequence[JudgedBattle]) -> list[str]:
    counted = count_results(placed, battles)
    flips = behaviour(battles).flips
    return [
        number(counted.n),
        join([number(counted.won), "–", number(counted.lost), "–", number(counted.tied)]),
        number(flips.hits if flips.n else None),
        number(counted.failed),
        el("b", percent(counted.score)),
        _strip(name, counted),
        percent(counted.expected),
    ]


def _strip(name: str, counted: Results) -> Html:
    if counted.score is None or counted.interval is None:
        return Html("")
    expected = "" if counted.expected is None else f", expected {100 * counted.expected:.0f} %"
    label = f"{name}: score {100 * counted.score:.0f} % of {counted.n}{expected}"
    return svg.interval(SCALE, counted.score, *counted.interval, label, guide=counted.expected)
