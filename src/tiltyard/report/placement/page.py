"""The page of a placement: from a one-sentence summary down to every judged battle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from tiltyard.pages.markup import Html, el, link
from tiltyard.report.page import ReportKind, document, own_file, sibling_files, views_on_page
from tiltyard.report.placement.counts import disagreements
from tiltyard.report.placement.folder import Placement
from tiltyard.report.placement.sections.battles import battle_filter, battles_section, examples_section, opponent_view
from tiltyard.report.placement.sections.judge import (
    calibration_section,
    families_section,
    judge_section,
    leave_one_out_section,
)
from tiltyard.report.placement.sections.opponents import languages_section, opponents_section
from tiltyard.report.placement.sections.rounds import rounds_section
from tiltyard.report.placement.sections.run import left_out_section, recompute_section, run_section
from tiltyard.report.placement.sections.standing import board_section, header, meaning_section
from tiltyard.report.sections.habits import failures_section
from tiltyard.report.sections.header import disagreeing, first_warnings, warning_list
from tiltyard.report.sections.prompts import prompt_index
from tiltyard.report.sections.run import usage_section
from tiltyard.report.site_map import MAIN, ONE_PAGE, Here, SiteMap

NAMES = {
    "meaning": "Meaning",
    "board": "Board",
    "rounds": "Rounds",
    "opponents": "Opponents",
    "languages": "Languages",
    "judge": "Judge",
    "calibration": "People",
    "families": "Families",
    "leave-one-out": "Leave one out",
    "examples": "Examples",
    "failures": "Failures",
    "left-out": "Left out",
    "usage": "Cost",
    "recompute": "Recompute",
    "run": "Run",
    "prompts": "Prompts",
    "battles": "Battles",
}
"""What the navigation calls each section, in the order of the page."""


def render_placement(placed: Placement) -> str:
    """The text of `report.html`; above `ONE_PAGE` judged battles it links to the files of `render_placement_site`.

    Parameters:
        placed: The placement.
    """
    return _main_page(Here(SiteMap(placed.run)), placed)


def render_placement_site(placed: Placement, one_page: int = ONE_PAGE) -> Iterator[tuple[str, str]]:
    """Every file of a placement's report, by its path in the run folder; `report.html` comes last.

    Parameters:
        placed: The placement.
        one_page: Up to how many judgments the report is one page; above, it has files beside it.
    """
    site_map = SiteMap(placed.run, one_page)
    yield from sibling_files(site_map, _kind(placed))
    yield MAIN, _main_page(Here(site_map), placed)


def _kind(placed: Placement) -> ReportKind:
    return ReportKind(
        title=f"{placed.model} among human battles: {placed.manifest.arena.name}",
        pair_view=lambda here, key: opponent_view(here, placed, key),
        filter_form=battle_filter,
        style=own_file("placement/style.css"),
        script=own_file("placement/script.js"),
    )


def _main_page(here: Here, placed: Placement) -> str:
    found = disagreements(placed)
    told = placed.manifest.calibration.warnings if placed.manifest.calibration else ()
    sections = _sections(here, placed, found)
    kind = _kind(placed)
    return document(
        here,
        kind,
        header(here, placed),
        warning_list([*first_warnings(here), *told, *disagreeing(found)]),
        el(
            "nav",
            *[link(here.section(anchor), NAMES[anchor]) for anchor, section in sections.items() if section],
            aria_label="Sections",
        ),
        el("main", *sections.values(), views_on_page(here, kind)),
    )


def _sections(here: Here, placed: Placement, found: list[str]) -> Mapping[str, Html]:
    """The sections by their anchors; one without anything to say is empty."""
    makers = {
        "meaning": partial(meaning_section, here, placed),
        "board": partial(board_section, here, placed),
        "rounds": partial(rounds_section, placed),
        "opponents": partial(opponents_section, here, placed),
        "languages": partial(languages_section, here, placed),
        "judge": partial(judge_section, placed),
        "calibration": partial(calibration_section, placed),
        "families": partial(families_section, placed),
        "leave-one-out": partial(leave_one_out_section, placed),
        "examples": partial(examples_section, here, placed),
        "failures": partial(failures_section, here),
        "left-out": partial(left_out_section, placed),
        "usage": partial(usage_section, here),
        "recompute": partial(recompute_section, placed),
        "run": partial(run_section, placed, found),
        "prompts": partial(prompt_index, here),
        "battles": partial(battles_section, here),
    }
    return {anchor: makers[anchor]() for anchor in NAMES}
