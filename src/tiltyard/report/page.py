"""Pages: the sections of a report in their order, in one self-contained HTML file or in a few."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from tiltyard.pages import document as pages
from tiltyard.pages.markup import Html, el, link
from tiltyard.report.counts import disagreements
from tiltyard.report.run import Dimension, Run
from tiltyard.report.sections.battles import battles_section, filter_form, pair_view
from tiltyard.report.sections.board import (
    baseline_section,
    board_section,
    elo_section,
    fit_section,
    k_section,
    people_section,
    win_rate_section,
)
from tiltyard.report.sections.categories import category_section
from tiltyard.report.sections.habits import failures_section, habits_section
from tiltyard.report.sections.header import glance, header, noted, run_title, warning_list, warnings
from tiltyard.report.sections.panel import panel_section
from tiltyard.report.sections.prompts import image_policy, prompt_index, prompt_view, results_section
from tiltyard.report.sections.run import (
    canary_section,
    gate_section,
    judge_prompt_section,
    rounds_section,
    run_section,
    usage_section,
)
from tiltyard.report.site_map import MAIN, ONE_PAGE, Here, SiteMap

SIDE_BY_SIDE = 5
"""With at most this many entrants, two heatmaps fit side by side."""


def render_run(run: Run) -> str:
    """The text of `report.html`. For a run of more than `ONE_PAGE` judgments it links to the files of `render_site`.

    Parameters:
        run: A run, read from its folder.
    """
    return _main_page(Here(SiteMap(run)))


def render_site(run: Run, one_page: int = ONE_PAGE) -> Iterator[tuple[str, str]]:
    """Every file of a report, by its path in the run folder; `report.html` comes last, so that its links always work.

    Parameters:
        run: A run, read from its folder.
        one_page: Up to how many judgments the report is one page; above, it has files beside it.
    """
    site_map = SiteMap(run, one_page)
    yield from sibling_files(site_map, _kind(run))
    yield MAIN, _main_page(Here(site_map))


@dataclass(frozen=True, slots=True)
class ReportKind:
    """What differs between kinds of report: title, list of a pair's battles, its filter, extra style and script."""

    title: str
    pair_view: Callable[[Here, tuple[int, int, int]], Html] = pair_view
    filter_form: Callable[[], Html] = filter_form
    style: str = ""
    script: str = ""


def sibling_files(site_map: SiteMap, kind: ReportKind) -> Iterator[tuple[str, str]]:
    """The files beside the page of a large run: a list per pair, and the prompts with their battles.

    A run of one page has none.
    """
    if not site_map.split:
        return
    for key in site_map.by_pair:
        here = Here(site_map, site_map.pair_file(key))
        yield here.file, _sibling(here, kind, kind.filter_form(), kind.pair_view(here, key))
    for file, homes in groupby(site_map.prompt_files.items(), key=itemgetter(1)):
        here = Here(site_map, file)
        yield file, _sibling(here, kind, *(prompt_view(here, prompt) for prompt, _ in homes))


def views_on_page(here: Here, kind: ReportKind) -> Html:
    """All lists and battles of a one-page run; each is shown when the address ends in its name."""
    views: list[Html] = []
    if not here.site_map.split:
        views = [kind.pair_view(here, key) for key in here.site_map.by_pair]
        views += [prompt_view(here, prompt) for prompt in here.run.prompts]
    return el("div", *views, id="views")


def _kind(run: Run) -> ReportKind:
    return ReportKind(run_title(run), style=own_file("grid.css"), script=own_file("grid.js"))


def _main_page(here: Here) -> str:
    run = here.run
    found = disagreements(run)
    kind = _kind(run)
    body = [
        header(here),
        warnings(here, found),
        _navigation(here),
        el(
            "main",
            gate_section(here),
            glance(here),
            rounds_section(here),
            *[_dimension(here, dimension) for dimension in run.dimensions],
            panel_section(here),
            results_section(here),
            failures_section(here),
            canary_section(here),
            judge_prompt_section(here),
            usage_section(here),
            run_section(here, found),
            prompt_index(here),
            battles_section(here),
            views_on_page(here, kind),
        ),
    ]
    return document(here, kind, *body)


def _dimension(here: Here, dimension: Dimension) -> Html:
    return el(
        "section",
        el("h2", dimension.name),
        baseline_section(here, dimension),
        people_section(here, dimension),
        board_section(here, dimension),
        fit_section(dimension),
        category_section(here, dimension),
        elo_section(here, dimension),
        el("div", win_rate_section(here, dimension), k_section(here, dimension), class_=_beside(here)),
        habits_section(here, dimension),
        id=f"d{here.site_map.dimensions[dimension.name]}",
        class_="dimension",
    )


def _beside(here: Here) -> str:
    """Two heatmaps are side by side while they are small."""
    return "beside" if len(here.run.entrants) <= SIDE_BY_SIDE else "stacked"


def _navigation(here: Here) -> Html:
    places = [("glance", "At a glance")] if any(d.board for d in here.run.dimensions) else []
    places += [("gate", "Go or no-go")] if gate_section(here) else []
    places += [("rounds", "Adaptive rounds")] if rounds_section(here) else []
    places += [(f"d{i}", name) for name, i in here.site_map.dimensions.items()]
    places += [("panel", "The judges")] if panel_section(here) else []
    places += [("results", "Prompt by prompt")]
    places += [("failures", "Failures")]
    places += [("canaries", "Canaries")] if canary_section(here) else []
    places += [("asked", "What the judge is sent")] if judge_prompt_section(here) else []
    places += [("usage", "Cost"), ("run", "The run"), ("prompts", "Prompts"), ("battles", "Battles")]
    return el("nav", *[link(here.section(anchor), name) for anchor, name in places], aria_label="Sections")


def _sibling(here: Here, kind: ReportKind, *views: Html) -> str:
    back = el("nav", link(here.section("battles"), "← The whole report"), aria_label="Sections")
    return document(here, kind, back, warning_list(noted(here.run)), el("main", *views, class_="sibling"))


def document(here: Here, kind: ReportKind, *body: Html) -> str:
    """A page of the report as one HTML file."""
    style = own_file("style.css") + kind.style + _entrant_rules(len(here.run.entrants))
    script = own_file("script.js") + kind.script
    return pages.document(kind.title, body, style=style, script=script, allow=image_policy(here.run))


def _entrant_rules(n_entrants: int) -> str:
    """In the view of one battle, the answers of other entrants are hidden."""
    rule = ".prompt:has(.mark:target):not(:has(.x{0}.mark:target)) .answer.x{0}{{display:none}}\n"
    return "".join(rule.format(place) for place in range(n_entrants))


def own_file(name: str) -> str:
    """The text of a file of this package."""
    return pages.package_text("tiltyard.report", name)
