"""The report of a placement: values that its template `placement.html` asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tiltyard.boards.text import footnotes, headline
from tiltyard.pages.svg import Scale
from tiltyard.ratings.quantiles import normal_quantile
from tiltyard.report.boards import board_view, interval_head
from tiltyard.report.counts import Behaviour, behaviour
from tiltyard.report.front import weak_points
from tiltyard.report.page import own_file, report_files, report_page
from tiltyard.report.placement.counts import OUTCOMES, Results, count_results, disagreements, expected_score, outcome
from tiltyard.report.placement.folder import UNKNOWN_LANGUAGE, Placement
from tiltyard.report.run import JudgedBattle, grouped
from tiltyard.report.sections import source_address
from tiltyard.report.site_map import ONE_PAGE, Here, SiteMap

AROUND, ENDS = 8, 2
"""Places above and below the model that the picture shows, and those at the top and at the bottom of the board."""

MOST_ROUNDS = 24
OF_EACH = 2
"""Examples of each outcome."""

UNMEASURED = "the interval is for sampling error only: how the judge differs from people was not measured"

Reading = tuple[str, float, float | None, float | None]
"""What it is, the rating, and the two ends of its interval."""

Group = tuple[str, str, float | None, Results, Behaviour]
"""The battles with an opponent or in a language: its name, its address, its rating, and what is counted."""


def render_placement(placed: Placement) -> str:
    """The text of `report.html`; above `ONE_PAGE` judged battles it links to the files of `render_placement_site`.

    Parameters:
        placed: The placement.
    """
    return report_page("report/placement.html", Here(SiteMap(placed.run)), **_values(placed))


def render_placement_site(placed: Placement, one_page: int = ONE_PAGE) -> Iterator[tuple[str, str]]:
    """Every file of a placement's report, by its path in the run folder; `report.html` comes last.

    Parameters:
        placed: The placement.
        one_page: Up to how many judgments the report is one page; above, it has files beside it.
    """
    return report_files("report/placement.html", SiteMap(placed.run, one_page), **_values(placed))


def _values(placed: Placement) -> dict[str, Any]:
    board, wrong, told = placed.board, disagreements(placed), placed.manifest.calibration
    return {
        "title": f"{placed.model} among human battles: {placed.manifest.arena.name}",
        "pair_template": "report/placement_lists.html",
        "outcomes": OUTCOMES,
        "style": own_file("placement/style.css"),
        "script": own_file("placement/script.js"),
        "placed": placed,
        "manifest": placed.manifest,
        "disagreements": wrong,
        "weak": weak_points(placed.run, {}, wrong, told.warnings if told else [UNMEASURED]),
        "level": interval_head(board),
        "half_width": normal_quantile(0.95),
        "board": board_view(board, shown_places(len(board), board.entries.index(placed.entry)), placed.entry),
        "headline": headline(board),
        "notes": footnotes(board),
        "scale_of": scale_of,
        "count_results": count_results,
        "outcome_for": outcome,
        "shown_rounds": shown_rounds,
        "opponents_of": opponents,
        "languages_of": languages,
        "habits_of": habits,
        "surprising": surprising,
    }


def shown_places(n: int, place: int) -> list[int]:
    """The places to show: both ends and those around the model; a gap of one is filled."""
    wanted = {*range(ENDS), *range(place - AROUND, place + AROUND + 1), *range(n - ENDS, n)}
    return [i for i in range(n) if i in wanted or {i - 1, i + 1} <= wanted]


def scale_of(lines: Sequence[Reading]) -> Scale:
    """A scale that holds all readings."""
    return Scale.of([end for _, *ends in lines for end in ends if end is not None])


def shown_rounds(placed: Placement) -> dict[str, Any] | None:
    """The rounds that are drawn, evenly spaced with the first and the last, and a scale for them."""
    rounds = [line for line in placed.manifest.rounds if line.rating is not None]
    if not rounds:
        return None
    most = min(len(rounds), MOST_ROUNDS)
    shown = [rounds[round((len(rounds) - 1) * i / max(most - 1, 1))] for i in range(most)]
    own, last = placed.entry.extra.get("judge_scale_rating"), rounds[-1].rating or 0.0
    return {
        "rows": shown,
        "scale": Scale.of([e for one in shown for e in (one.rating, one.ci_low, one.ci_high) if e is not None]),
        "last": last,
        "n": len(rounds),
        "on_judges_scale": own is not None and abs(last - own) < abs(last - placed.entry.rating),
    }


def opponents(here: Here, placed: Placement) -> list[Group]:
    """Every opponent, best first, with its rating and its battles with the model."""
    groups = grouped(placed.run.battles, placed.opponent)
    return [
        (
            name,
            here.pair(placed.dimension, placed.model, name),
            placed.rating(name),
            count_results(placed, groups[name]),
            behaviour(groups[name]),
        )
        for name in placed.run.entrants
        if name in groups
    ]


def languages(here: Here, placed: Placement) -> list[Group]:
    """The same by the language of the question, where a language is known."""
    groups = grouped(placed.run.battles, placed.language)
    if set(groups) <= {UNKNOWN_LANGUAGE}:
        return []
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [
        (name, source_address(here, name), None, count_results(placed, battles), behaviour(battles))
        for name, battles in ordered
    ]


def habits(placed: Placement) -> list[tuple[str, list[tuple[str, Behaviour, str]]]]:
    """The judge's habits: overall, and by language where there are several."""
    groups = [("", [("all judgments", behaviour(placed.run.battles), "")])]
    by_language = [(name, behaviour(some), "") for name, some in grouped(placed.run.battles, placed.language).items()]
    if len(by_language) > 1:
        groups.append(("by language", sorted(by_language, key=lambda one: (-one[1].first_slot.n, one[0]))))
    return groups


def surprising(placed: Placement, kind: str) -> list[JudgedBattle]:
    """The least likely battles of an outcome, of different opponents."""
    happened = {"won": 1.0, "lost": 0.0}.get(kind, 0.5)

    def likely(battle: JudgedBattle) -> float:
        expected = expected_score(placed, placed.opponent(battle))
        return 1.0 if expected is None else 1.0 - abs(happened - expected)

    chosen: dict[str, JudgedBattle] = {}
    for battle in sorted((b for b in placed.run.battles if outcome(placed.model, b) == kind), key=likely):
        chosen.setdefault(placed.opponent(battle), battle)
    return list(chosen.values())[:OF_EACH]
