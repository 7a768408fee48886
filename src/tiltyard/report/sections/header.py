"""The top of the page: what ran, who could be first, and what a reader must know first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiltyard.battles.missing_verdicts import read_missing
from tiltyard.boards.text import rank_text
from tiltyard.judging.panel import judge_in_words
from tiltyard.pages.markup import Html, el, join, link, number, pairs, percent, rating, table
from tiltyard.report.counts import behaviour, verdict_counts
from tiltyard.report.run import Dimension, Run
from tiltyard.report.sections.run import verdicts_cost
from tiltyard.report.site_map import Here
from tiltyard.tournament.ratings import JudgeHabits


def header(here: Here) -> Html:
    """Title, conclusion in words, and the run in figures."""
    run = here.run
    return el(
        "header",
        el("p", "Tiltyard · judged tournament", class_="over"),
        el("h1", run_title(run)),
        el("p", _conclusion(here), class_="conclusion"),
        el("p", _subtitle(run), class_="sub"),
        el("p", when(run), class_="when"),
        _tiles(here),
    )


MOST_IN_TITLE = 4
"""How many entrants a title names."""


def run_title(run: Run) -> str:
    """The run in a line: its mode, and who met."""
    mode = str(run.manifest.get("mode") or "tournament").capitalize()
    names = list(run.entrants)
    if len(names) > MOST_IN_TITLE:
        names[MOST_IN_TITLE - 1 :] = [f"{len(names) - MOST_IN_TITLE + 1} more"]
    return f"{mode} run: {in_words(names)}"


def in_words(names: Sequence[str]) -> str:
    """Names as a sentence has them: `a, b and c`."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part) if names else ""


def _conclusion(here: Here) -> Html:
    """What follows from the run, in words: who is best in each dimension, and what speaks against believing it."""
    run = here.run
    alike: dict[frozenset[str], list[Dimension]] = {}
    without: list[Html] = []
    for dimension in run.dimensions:
        name = link(here.section(f"d{here.site_map.dimensions[dimension.name]}"), dimension.name)
        if dimension.best_board is None:
            without.append(join(["On ", name, " there is no board: ", why_no_board(run, dimension), "."]))
            continue
        alike.setdefault(frozenset(could_be_first(dimension)), []).append(dimension)
    sentences = [_who_is_best(here, where) for _, where in sorted(alike.items(), key=lambda one: len(one[0]) != 1)]
    doubts = list(_doubts(run))
    if doubts:
        without.append(el("b", f"Do not rely on it: {'; '.join(doubts)}."))
    return join([*sentences, *without], " ")


def _who_is_best(here: Here, where: Sequence[Dimension]) -> Html:
    """A sentence about the dimensions in which the same entrants could be first."""
    links = [link(here.section(f"d{here.site_map.dimensions[one.name]}"), one.name) for one in where]
    dimensions = join([join(links[:-1], ", "), " and " if len(links) > 1 else "", links[-1]])
    board, names = where[0].best_board, [el("b", name) for name in could_be_first(where[0])]
    if len(names) == 1:
        return join([names[0], " is best on ", dimensions, "; first place is settled."])
    everybody = board is not None and 2 < len(names) == len(board.ratings)
    who = el("b", "any of them") if everybody else join([join(names[:-1], ", "), " or ", names[-1]])
    return join(["On ", dimensions, " it is open who is best: ", who, "."])


def could_be_first(dimension: Dimension) -> list[str]:
    """The entrants that could be first, by the board to read first."""
    board = dimension.best_board
    return [] if board is None else [entry.model for entry in board.ratings if (entry.rank_low or entry.rank) == 1]


def _doubts(run: Run) -> Iterator[str]:
    """What speaks against the judge: canaries that it missed, and verdicts that go by the order of the answers."""
    results = run.manifest.get("results") or {}
    missed = {name: found for name, found in (results.get("canaries") or {}).items() if found["missed"]}
    if missed:
        where = [f"{len(found['missed'])} of {found['asked']} canaries on {name}" for name, found in missed.items()]
        yield f"the judge missed {in_words(where)}, pairs with a clearly better answer"
    for name, found in (results.get("dimensions") or {}).items():
        if "habits" in found and (habits := JudgeHabits.from_record(found["habits"])).unreliable:
            share = 100 * (habits.flips.value or 0.0)
            yield f"on {name} the judge changed {share:.0f} % of its verdicts with the order of the answers"


def _subtitle(run: Run) -> Html:
    judge = judge_in_words(str(run.manifest.get("judge_model") or "an unnamed judge"))
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
    """What all verdicts of the run cost, whichever command asked for them; empty if no price is known.

    Beside it: what the last command paid, if that is less, and how many replies of unknown cost are left out.
    """
    usage = run.usage or {}
    total, rows = usage.get("total") or {}, list((usage.get("dimensions") or {}).values())
    paid, unknown = total.get("cost_usd"), total.get("replies_without_usage") or 0
    kept = verdicts_cost(rows) if total.get("cache_hits") else None
    cost = paid if kept is None else max(kept, paid or 0.0)
    if cost is None:
        return []
    if kept is not None:
        unknown = max(unknown, sum((row.get("verdicts") or {}).get("replies_without_usage") or 0 for row in rows))
    parts = [number(cost, 2)]
    if unknown:
        parts.append(el("small", "unknown for ", number(unknown), " reply" if unknown == 1 else " replies"))
    if kept is not None:
        parts.append(el("small", "last command: ", number(paid, 2), class_="below"))
    return [("US $, all verdicts", "usage", join(parts))]


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
                f": {', '.join(one['canary'] for one in missed)}.",
                el(
                    "details",
                    el("summary", "what it chose"),
                    el("ul", *[el("li", f"{one['canary']} ({one['kind']}): {one['answer']}") for one in missed]),
                ),
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
