"""Pages of a report: the files of a run, in one self-contained HTML file or in a few."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from tiltyard.analysis.boards import CENTRE, fit_sentences, fit_verdict, rank_text
from tiltyard.data.battles import read_missing
from tiltyard.files import write_text
from tiltyard.judge.tournament import JUDGE_PROMPTS, ROUNDS_FILE, JudgePrompts, ratings
from tiltyard.judge.verdicts import read_object, read_record, require
from tiltyard.render import package_text, page
from tiltyard.reports import front, scores, sections
from tiltyard.reports.placement import placement_values, read_placement
from tiltyard.reports.run import Run, read_run
from tiltyard.reports.sections import disagreements
from tiltyard.reports.site_map import MAIN, ONE_PAGE, Here, SiteMap

OUTCOMES = ("decisive", "tie", "inconsistent", "failed")


def run_values(run: Run) -> dict[str, Any]:
    """What the pages of a run show."""
    missing = read_missing(run.folder)
    by_dimension = {one.name: missing.only(dimensions={one.name}) for one in run.dimensions}
    wrong = disagreements(run)
    rounds, prompts = run.folder / ROUNDS_FILE, run.folder / JUDGE_PROMPTS
    return {
        "title": front.run_title(run),
        "outcomes": OUTCOMES,
        "score_views": scores,
        "style": own_file("grid.css"),
        "script": own_file("grid.js"),
        "weak": front.weak_points(run, {name: one.sentence for name, one in by_dimension.items() if one}, wrong),
        "categories_of": {one.name: view for one in run.dimensions if (view := sections.categories(run, one))},
        "rounds": read_object(rounds) if run.manifest.get("until") and rounds.is_file() else None,
        "judge_prompts": read_record(prompts, JudgePrompts).dimensions if prompts.is_file() else None,
        "disagreements": wrong,
        "centre": CENTRE,
        "ratings": ratings,
        "fit_verdict": fit_verdict,
        "fit_sentences": fit_sentences,
    }


def report_files(template: str, site_map: SiteMap, **values: Any) -> Iterator[tuple[str, str]]:
    """The main page, after the files beside it: a list per pair, and prompts with battles, where a run is split."""
    if site_map.split:
        for key in site_map.by_pair:
            here = Here(site_map, site_map.pair_file(key))
            yield here.file, report_page("reports/sibling.html", here, pair=key, prompts=(), **values)
        for file, homes in groupby(site_map.prompt_files.items(), key=itemgetter(1)):
            prompts, here = [prompt for prompt, _ in homes], Here(site_map, file)
            yield file, report_page("reports/sibling.html", here, pair=None, prompts=prompts, **values)
    yield MAIN, report_page(template, Here(site_map), **values)


def report_page(template: str, here: Here, *, style: str, script: str, **values: Any) -> str:
    """A page of the report as one HTML file."""
    # In the view of one battle, the answers of other entrants are hidden.
    hidden = ".prompt:has(.mark:target):not(:has(.x{0}.mark:target)) .answer.x{0}{{display:none}}\n"
    rules = "".join(hidden.format(place) for place in range(len(here.run.entrants)))
    return page(
        template,
        style=own_file("style.css") + style + rules,
        script=own_file("script.js") + script,
        allow=image_policy(here.run),
        here=here,
        run=here.run,
        sections=sections,
        front=front,
        rank_text=rank_text,
        **values,
    )


def image_policy(run: Run | None) -> str:
    """What a page may load for the images of a run: those in it, and nothing where there are none."""
    return "img-src data:" if run is not None and run.pictures else ""


def own_file(name: str) -> str:
    """The text of a file of this package."""
    return package_text("tiltyard.reports", name)


def write_report(folder: str | Path, *, one_page: int = ONE_PAGE) -> Path:
    """Write `report.html` from the files of a run folder, a tournament's or a placement's, and return its path.

    Up to `one_page` judgments it is one self-contained page; above, the battles go to `report/*.html` beside it. Each
    file is replaced in one step, `report.html` last; files of an earlier, larger report are removed.

    Parameters:
        folder: The folder of a run or placement.
        one_page: Up to how many judgments the report is one page; above, it has files beside it.
    """
    folder = Path(folder)
    manifest = read_object(require(folder / "manifest.json", folder))
    if manifest.get("kind") == "placement":
        placed = read_placement(folder)
        template, run, values = "reports/placement.html", placed.run, placement_values(placed)
    else:
        run = read_run(folder)
        template, values = "reports/run.html", run_values(run)
    written = set()
    for name, text in report_files(template, SiteMap(run, one_page), **values):
        write_text(folder / name, text)
        written.add(folder / name)
    for pattern in ("pair-*.html", "prompts-*.html"):
        for path in (folder / "report").glob(pattern):
            if path not in written:
                path.unlink()
    return folder / MAIN
