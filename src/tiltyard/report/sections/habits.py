"""The judge’s biases: how often the verdict changed with the order, and how often it chose the answer shown first."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.pages import svg
from tiltyard.pages.markup import Html, el, join, link, number, percent, table
from tiltyard.report.counts import Behaviour, Share, behaviour, behaviour_by, verdict_counts
from tiltyard.report.judged import JudgedBattle, JudgedBattles
from tiltyard.report.run import Dimension, Run
from tiltyard.report.site_map import Here
from tiltyard.tournament.ratings import JudgeHabits

SCALE = svg.Scale(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))
MOST_LINKS = 200


def habits_section(here: Here, dimension: Dimension) -> Html:
    """Flip rate and first-slot rate with Wilson intervals: overall, by judge, by source, by pair."""
    battles = here.run.battles.of_dimension(dimension.name)
    whole = behaviour(battles)
    heading, anchor = el("h3", "The judge’s habits"), f"h{here.site_map.dimensions[dimension.name]}"
    if not whole.first_slot.n and not whole.flips.n:
        return el("section", heading, el("p", "No verdict was readable.", class_="note"), id=anchor)
    groups: list[tuple[str, list[tuple[str, Behaviour]]]] = [
        ("", [("all judgments", whole)]),
        ("by judge", list(behaviour_by(battles, lambda battle: ", ".join(battle.judges) or "none").items())),
        ("by source", _by_source(here, battles)),
        ("by pair", _by_pair(here, dimension, battles)),
    ]
    told = el("ul", *[el("li", line) for line in habit_lines(here.run, dimension.name)], class_="told")
    return el("section", heading, told, el("p", _note(whole), class_="note"), habits_table(groups), id=anchor)


def habit_lines(run: Run, dimension: str) -> list[str]:
    """What the judge's habits mean for the board, as the terminal says it: order, position, length, repeats."""
    found = ((run.manifest.get("results") or {}).get("dimensions") or {}).get(dimension) or {}
    lines = JudgeHabits.from_record(found["habits"]).lines() if "habits" in found else []
    plain = [line.removeprefix("judge: ").removeprefix("WARNING: ") for line in lines]
    return [f"{line[0].upper()}{line[1:]}." for line in plain]


def habits_table(groups: Sequence[tuple[str, Sequence[tuple[str, Behaviour]]]]) -> Html:
    """Both rates with their intervals, row by row; a group's title is a row above it."""
    rows: list[Sequence[str]] = []
    for title, group in groups:
        if title:
            rows.append([_group_head(title)])
        rows += [_row(name, habits) for name, habits in group]
    axis = svg.axis(svg.Scale(0.0, 100.0, (25.0, 50.0, 75.0)), " %")
    head: list[str | tuple[str, str]] = [
        "",
        ("changed with the order", "num"),
        (axis, "chart"),
        ("chose the one shown first", "num"),
        (axis, "chart"),
    ]
    return table(head, rows, class_="board habits")


def _by_source(here: Here, battles: JudgedBattles) -> list[tuple[str, Behaviour]]:
    sources = {name: prompt.source or "no source" for name, prompt in here.run.prompts.items()}
    found = behaviour_by(battles, lambda battle: sources[battle.prompt_id])
    return [(link(here.section(source_anchor(here, name)), name), habits) for name, habits in found.items()]


def _by_pair(here: Here, dimension: Dimension, battles: JudgedBattles) -> list[tuple[str, Behaviour]]:
    number_of = here.site_map.dimensions[dimension.name]
    names = here.run.entrants
    found = behaviour_by(battles, lambda one: "{}-{}-{}".format(*here.site_map.pair_key(one.dimension, *one.entrants)))
    rows: list[tuple[str, Behaviour]] = []
    for key in (key for key in here.site_map.by_pair if key[0] == number_of):
        label = link(here.pair(dimension.name, names[key[1]], names[key[2]]), f"{names[key[1]]} – {names[key[2]]}")
        rows.append((label, found["{}-{}-{}".format(*key)]))
    return rows


def _group_head(title: str) -> Html:
    return el("th", title, scope="colgroup", colspan=5, class_="group")


def _row(name: str, habits: Behaviour) -> list[str]:
    return [
        name,
        _figure(habits.flips),
        _strip(habits.flips, "changed with the order", None),
        _figure(habits.first_slot),
        _strip(habits.first_slot, "chose the one shown first", 0.5),
    ]


def source_anchor(here: Here, source: str) -> str:
    """The anchor of a source in the list of prompts."""
    names = list(dict.fromkeys(prompt.source or "no source" for prompt in here.run.prompts.values()))
    return f"s{names.index(source)}"


def _figure(share: Share) -> Html:
    return join([percent(share.value, 1), " ", el("small", number(share.hits), " of ", number(share.n))])


def _strip(share: Share, what: str, guide: float | None) -> Html:
    if share.value is None or share.interval is None:
        return Html("")
    low, high = share.interval
    label = f"{what}: {100 * share.value:.1f} %, interval {100 * low:.1f} to {100 * high:.1f} %"
    return svg.interval(SCALE, share.value, low, high, label, guide=guide)


def _note(habits: Behaviour) -> Html:
    return join(
        [
            "Every pair was shown in both orders. ",
            number(habits.flips.hits),
            " of ",
            number(habits.flips.n),
            " judgments changed with the order: ",
            number(habits.opposite),
            " named the other winner, ",
            number(habits.flips.hits - habits.opposite),
            " said tie in one order. A judge without position bias chooses the answer shown first half the time "
            "(dashed). 95 % Wilson intervals.",
        ]
    )


def failures_section(here: Here) -> Html:
    """Verdicts that could not be used, by name, and every judgment that failed for it."""
    names = [word for word in verdict_counts(here.run.battles) if not word.readable]
    failed = here.run.battles.of_kind(lambda battle: not battle.settled)
    if not failed and not names:
        body = el("p", "None: every verdict was readable.", class_="note")
        return el("section", el("h2", "Failures"), body, id="failures")
    rows = []
    for dimension in here.run.dimensions:
        battles = here.run.battles.of_dimension(dimension.name)
        counts = verdict_counts(battles)
        asked = counts.total()
        lost = sum(n for battle, n in battles.counted() if not battle.settled)
        rows.append([dimension.name, number(asked), *(number(counts[name]) for name in names), number(lost)])
    head: list[str | tuple[str, str]] = [
        "dimension",
        ("verdicts", "num"),
        *((name, "num") for name in names),
        ("judgments failed", "num"),
    ]
    items = [
        el(
            "li",
            link(here.battle(battle), f"{' – '.join(battle.entrants)}, {battle.prompt_id}"),
            f" {_words(battle)}",
        )
        for battle in failed[:MOST_LINKS]
    ]
    more = len(failed) - len(items)
    if more:
        items.append(el("li", f"and {more:,} more, marked in the lists of their pairs"))
    return el(
        "section",
        el("h2", "Failures"),
        el("p", "Failed judgments are left out of every rating and win rate.", class_="note"),
        table(head, rows),
        el("details", el("summary", number(len(failed)), " failed judgments"), el("ul", *items, class_="columns")),
        id="failures",
    )


def _words(battle: JudgedBattle) -> str:
    return f"({battle.dimension}: {', '.join(battle.word(place) for place in range(max(2, len(battle.said))))})"
