"""Pages of a report: the files of a run, in one self-contained HTML file or in a few."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from tiltyard.judging.panel import judge_in_words
from tiltyard.pages.html import package_text, page
from tiltyard.report import sections
from tiltyard.report.counts import behaviour, disagreements
from tiltyard.report.run import Run
from tiltyard.report.site_map import MAIN, ONE_PAGE, Here, SiteMap

OUTCOMES = ("decisive", "tie", "inconsistent", "failed")


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
    """What differs between kinds of report: the title, the list of a pair's battles, extra style and script."""

    title: str
    lists: str = "report/run_lists.html"
    """The template with the macro `pair`."""
    pair_view: Callable[[Here, tuple[int, int, int]], Any] = sections.pair_view
    outcomes: Sequence[str] = OUTCOMES
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
        yield here.file, _sibling(here, kind, pair=kind.pair_view(here, key))
    for file, homes in groupby(site_map.prompt_files.items(), key=itemgetter(1)):
        yield file, _sibling(Here(site_map, file), kind, prompts=[prompt for prompt, _ in homes])


def _sibling(here: Here, kind: ReportKind, *, pair: Any = None, prompts: Sequence[str] = ()) -> str:
    told = sections.note_alone(here.run)
    return report_page(
        "report/sibling.html", here, kind, pair_template=kind.lists, told=told, pair=pair, prompts=prompts
    )


def _kind(run: Run) -> ReportKind:
    return ReportKind(sections.run_title(run), style=own_file("grid.css"), script=own_file("grid.js"))


def _main_page(here: Here) -> str:
    run = here.run
    disagreeing = disagreements(run)
    single = sum(n for battle, n in run.battles.counted() if battle.settled and len(battle.said) == 1)
    values = {
        "leaders": sections.leaders(run),
        "without_board": [
            (one.name, sections.why_no_board(run, one)) for one in run.dimensions if one.best_board is None
        ],
        "doubts": list(sections.doubts(run)),
        "judge": judge_in_words(str(run.manifest.get("judge_model") or "an unnamed judge")),
        "orders": f"judged in both orders but for {single:,} pairs" if single else "every pair judged in both orders",
        "when": sections.when(run),
        "behaviour": behaviour(run.battles),
        "n_failed": sum(n for battle, n in run.battles.counted() if not battle.settled),
        "n_decisive": sum(n for battle, n in run.battles.counted() if battle.winner is not None),
        "cost": sections.cost(run),
        "told": sections.run_warnings(run, disagreeing),
        "gate": sections.gate(run),
        "glance": sections.glance(run),
        "rounds": sections.rounds(run),
        "round_heads": sections.ROUND_COLUMNS.values(),
        "dimensions": [sections.dimension_view(here, one) for one in run.dimensions],
        "panel": sections.panel(run),
        "grids": [(one.name, sections.results_grid(here, one)) for one in run.dimensions],
        "failures": sections.failures(run),
        "canaries": (run.manifest.get("results") or {}).get("canaries"),
        "judge_prompts": sections.judge_prompts(run),
        "usage": sections.usage(run),
        "manifest_facts": sections.manifest_facts(run),
        "disagreements": len(disagreeing),
        "sources": sections.prompts_by_source(run),
        "pair_view": sections.pair_view,
    }
    return report_page("report/run.html", here, _kind(run), places=_places(here, values), **values)


def _places(here: Here, values: dict[str, Any]) -> list[tuple[str, str]]:
    """The sections that the page leads to."""
    places = [("glance", "At a glance")] if values["glance"] else []
    places += [("gate", "Go or no-go")] if values["gate"] else []
    places += [("rounds", "Adaptive rounds")] if values["rounds"] else []
    places += [(f"d{i}", name) for name, i in here.site_map.dimensions.items()]
    places += [("panel", "The judges")] if values["panel"] else []
    places += [("results", "Prompt by prompt"), ("failures", "Failures")]
    places += [("canaries", "Canaries")] if values["canaries"] else []
    places += [("asked", "What the judge is sent")] if values["judge_prompts"] else []
    return [*places, ("usage", "Cost"), ("run", "The run"), ("prompts", "Prompts"), ("battles", "Battles")]


def report_page(template: str, here: Here, kind: ReportKind, **values: Any) -> str:
    """A page of the report as one HTML file."""
    style = own_file("style.css") + kind.style + _entrant_rules(len(here.run.entrants))
    script = own_file("script.js") + kind.script
    return page(
        template,
        title=kind.title,
        style=style,
        script=script,
        allow=image_policy(here.run),
        here=here,
        outcomes=kind.outcomes,
        **values,
    )


def image_policy(run: Run | None) -> str:
    """What a page may load for the images of a run: those in it, and nothing where there are none."""
    return "img-src data:" if run is not None and run.pictures else ""


def _entrant_rules(n_entrants: int) -> str:
    """In the view of one battle, the answers of other entrants are hidden."""
    rule = ".prompt:has(.mark:target):not(:has(.x{0}.mark:target)) .answer.x{0}{{display:none}}\n"
    return "".join(rule.format(place) for place in range(n_entrants))


def own_file(name: str) -> str:
    """The text of a file of this package."""
    return package_text("tiltyard.report", name)
