"""The report of a run folder, written."""

from __future__ import annotations

from pathlib import Path

from tiltyard.files import write_text
from tiltyard.judging import read_object, require
from tiltyard.reporting.page import report_files, run_values
from tiltyard.reporting.placement import placement_values, read_placement
from tiltyard.reporting.run import read_run
from tiltyard.reporting.site_map import MAIN, ONE_PAGE, SiteMap


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
        template, run, values = "reporting/placement.html", placed.run, placement_values(placed)
    else:
        run = read_run(folder)
        template, values = "reporting/run.html", run_values(run)
    written = set()
    for name, page in report_files(template, SiteMap(run, one_page), **values):
        write_text(folder / name, page)
        written.add(folder / name)
    for pattern in ("pair-*.html", "prompts-*.html"):
        for path in (folder / "report").glob(pattern):
            if path not in written:
                path.unlink()
    return folder / MAIN
