"""The top of the page: what ran, who could be first, and what a reader must know first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.battles.missing_verdicts import read_missing
from tiltyard.boards.text import rank_text
from tiltyard.pages.markup import Html, el, join, link, number, pairs, percent, rating, table
from tiltyard.report.counts import behaviour, verdict_counts
from tiltyard.report.sections.run import verdicts_cost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.report.run import Dimension, Run
    from tiltyard.report.site_map import Here


def header(here: Here) -> Html:
    """Title, the answer in a sentence per dimension, and the run in figures."""
    run = here.run
    mode = str(run.manifest.get("mode") or "tournament")
    return el(
        "header",
        el("p", "Tiltyard · judged tournament", class_="over"),
        el("h1", f"{mode.capitalize()} run"),
        el("p", _subtitle(run), class_="sub"),
        el("p", when(run), class_="when"),
        el("ul", *[el("li", _who_leads(here, dimension)) for dimension in run.dimensions], class_="leads"),
        _tiles(here),
    )


def _subtitle(run: Run) -> Html:
    judge = str(run.manifest.get("judge_model") or "an unnamed judge")
    single = sum(n for battle, n in run.battles.counted() if battle.settled and len(battle.said) == 1)
    orders = f"judged in both orders but for {single:,} pairs" if single else "every pair judged in both orders"
    return join(
        [
            join([number(len(run.entrants)), " entrants, ", number(len(run.prompts)), " prompts, "]),
            join([number(len(run.dimensions)), " dimension" + ("" if len(run.dimensions) == 1 else "s")]),
            join([", ", orders, " by ", el("b", judge)]),
        ]
    )


def when(run: Run) -> str:
    """When it ran, and with which versions."""
    started, finished = run.manifest.get("started_at"), run.manifest.get("finished_at")
    versions = run.manifest.get("versions") or {}
    parts = [f"started {started}" if started else "", f"finished {finished}" if finished else ""]
    parts += [f"{name} {version}" for name, version in versions.items()]
    return " · ".join(part for part in parts if part)


def _who_leads(here: Here, dimension: Dimension) -> Html:
    name = link(here.section(f"d{here.site_map.dimensions[dimension.name]}"), dimension.name, class_="dimension")
    if dimension.board is None:
        return join([name, "no board: " + why_no_board(here.run, dimension)])
    first = [entry.model for entry in dimension.board.ratings if (entry.rank_low or entry.rank) == 1]
    if len(first) == 1:
        return join([name, el("span", el("b", first[0]), " leads; first place is settled")])
    leaders = join([el("b", model) for model in first[:-1]], ", ")
    return join([name, el("span", leaders, " and ", el("b", first[-1]), " could each be first")])


def why_no_board(run: Run, dimension: Dimension) -> str:
    """Why a dimension has no Bradley–Terry board, as recorded by the run."""
    results = (run.manifest.get("results") or {}).get("dimensions") or {}
    reason = (results.get(dimension.name) or {}).get("bradley_terry")
    return str(reason) if reason and reason != "ok" else f"ratings/{dimension.name}.json is not in the run folder"


def _tiles(here: Here) -> Html:
    """The run in figures, each linked to its source."""
    run = here.run
    habits = behaviour(run.battles)
    failed = sum(n for battle, n in run.battles.counted() if not battle.settled)
    decisive = sum(n for battle, n in run.battles.counted() if battle.winner is not None)
    habits_at = "h0" if run.dimensions else "battles"
    items: list[tuple[str, str, str]] = [
        ("judgments", "battles", number(len(run.battles))),
        ("decisive", "battles", join([number(decisive), share_of(decisive, len(run.battles))])),
        ("changed with the order", habits_at, percent(habits.flips.value, 1)),
        ("chose the one shown first", habits_at, percent(habits.first_slot.value, 1)),
        ("failed", "failures", join([number(failed), share_of(failed, len(run.battles))])),
    ]
    return tiles(here, [*items, *cost_tile(run)])


def cost_tile(run: Run) -> list[tuple[str, str, str]]:
    """What the run cost, and how many replies of unknown cost that leaves out; empty if no price is known."""
    total = (run.usage or {}).get("total") or {}
    cost, unknown = total.get("cost_usd"), total.get("replies_without_usage") or 0
    if cost is None:
        return []
    more = el("small", "unknown for ", number(unknown), " reply" if unknown == 1 else " replies") if unknown else ""
    kept = verdicts_cost(list((run.usage or {}).get("dimensions", {}).values())) if total.get("cache_hits") else None
    earlier = "" if kept is None else el("small", "all verdicts: ", number(kept, 2))
    return [("US $", "usage", join([number(cost, 2), more, earlier]))]


def tiles(here: Here, items: Sequence[tuple[str, str, str]]) -> Html:
    """Figures in a row: label, anchor of the source, and value."""
    return pairs([(link(here.section(anchor), what), value) for what, anchor, value in items], class_="tiles")


def share_of(part: int, whole: int) -> Html:
    """A part of the whole, small, behind a figure."""
    return el("small", f"{100 * part / whole:.1f} %") if whole else Html("")


def warnings(here: Here, found: list[str]) -> Html:
    """Warnings: an unfinished run, failures by name, what was left out, numbers that disagree."""
    return warning_list(
        [*_missed_canaries(here), *first_warnings(here), *_missing(here), *_dropped(here.run), *disagreeing(found)]
    )


def _missed_canaries(here: Here) -> list[str]:
    """A warning for every dimension whose judge missed canaries, with what it said."""
    canaries = (here.run.manifest.get("results") or {}).get("canaries") or {}
    return [
        join(
            [
                el("b", f"{dimension}: the judge missed {len(missed)} of {found['asked']} "),
                link(here.section("canaries"), "canaries"),
                el("b", ", pairs with a clearly better answer. Do not trust this board."),
                el("ul", *[el("li", f"{one['canary']} ({one['kind']}): {one['said']}") for one in missed]),
            ]
        )
        for dimension, found in canaries.items()
        if (missed := found["missed"])
    ]


def first_warnings(here: Here) -> list[str]:
    """Warnings common to all kinds of run: its note, that it has not finished, and failures by name."""
    run = here.run
    lines: list[str] = noted(run)
    if run.manifest.get("finished_at") is None:
        lines.append("According to the manifest, this run has not finished.")
    failures = [(word, count) for word, count in verdict_counts(run.battles).most_common() if not word.readable]
    if failures:
        named = ", ".join(f"{count} {name}" for name, count in failures)
        lines.append(
            join(["Unusable verdicts, left out of every rating: ", link(here.section("failures"), named), "."])
        )
    return lines


def noted(run: Run) -> list[str]:
    """The note of the tournament file, if it has one."""
    return [el("b", str(run.manifest["note"]))] if run.manifest.get("note") else []


def disagreeing(found: Sequence[str]) -> list[str]:
    """A warning for every number that disagrees with the verdicts."""
    return [f"Numbers disagree: {line}." for line in found]


def warning_list(lines: Sequence[str]) -> Html:
    """Warnings above everything else; empty if there are none."""
    if not lines:
        return Html("")
    return el("ul", *[el("li", line) for line in lines], class_="warnings", aria_label="What to know first")


def _missing(here: Here) -> list[str]:
    """By dimension, how many matchups have no verdict, by entrant and reason."""
    missing = read_missing(here.run.folder)
    found = [(dimension.name, missing.only(dimensions={dimension.name})) for dimension in here.run.dimensions]
    return [
        join([f"{name}: ", link(here.section("failures"), one.sentence), ". They are in no rating."])
        for name, one in found
        if one
    ]


def _dropped(run: Run) -> list[str]:
    """What the match list had to leave out, in sentences; unknown entries are listed with the manifest."""
    dropped = run.manifest.get("dropped") or {}
    left_out = run.manifest.get("entrants_without_answers") or []
    lines = [f"Left out because there are no answers: {', '.join(map(str, left_out))}."] if left_out else []
    prompts = dropped.get("prompts_without_every_answer")
    if prompts:
        lacking = ", ".join(f"{name} lacks {count}" for name, count in (dropped.get("answers_missing") or {}).items())
        lines.append(f"{len(prompts)} prompts dropped because not every entrant answered them ({lacking}).")
    for dimension, count in (dropped.get("prompts_without_gold_answer") or {}).items():
        lines.append(f"{dimension}: {count} prompts skipped because they have no gold answer.")
    return lines


def glance(here: Here) -> Html:
    """Entrants × dimensions: the range of places, and the rating."""
    boards = [(dimension, board) for dimension in here.run.dimensions if (board := dimension.best_board) is not None]
    if not boards:
        return Html("")
    lines = {
        (dimension.name, entry.model): (rank_text(entry), entry.rating, entry.rank)
        for dimension, board in boards
        for entry in board.ratings
    }

    def cell(dimension: str, entrant: str) -> Html:
        if (dimension, entrant) not in lines:
            return number(None)
        rank, value, _ = lines[dimension, entrant]
        target = here.entrant(dimension, entrant)
        return join([link(target, rank, class_="rank"), " ", el("small", rating(value, 0))])

    def standing(entrant: str) -> float:
        places = [lines[dimension.name, entrant][2] for dimension, _ in boards if (dimension.name, entrant) in lines]
        return sum(places) / len(places) if places else float("inf")

    rows = [
        [el("b", entrant), *(cell(dimension.name, entrant) for dimension, _ in boards)]
        for entrant in sorted(here.run.entrants, key=standing)
    ]
    head: list[str | tuple[str, str]] = ["entrant", *((dimension.name, "num") for dimension, _ in boards)]
    note = "Each entrant’s 95 % range of ranks, adjusted for all comparisons, and its Bradley–Terry rating."
    corrected = [dimension.name for dimension, _ in boards if dimension.calibrated is not None]
    if corrected:
        note += f" Corrected by people’s labels: {', '.join(corrected)}."
    return el(
        "section",
        el("h2", "At a glance"),
        el("p", note, class_="note"),
        table(head, rows, class_="glance"),
        id="glance",
    )
