"""Reports of runs: files in, one self-contained HTML page out, from the ratings down to the judge's texts."""

from __future__ import annotations

from pathlib import Path

from tiltyard.files import write_text
from tiltyard.judging.run_folder import read_object, require
from tiltyard.reporting.page import render_run, render_site
from tiltyard.reporting.placement import Placement, read_placement, render_placement, render_placement_site
from tiltyard.reporting.run import Run, read_run
from tiltyard.reporting.site_map import MAIN, ONE_PAGE

__all__ = [
    "Placement",
    "Run",
    "read_placement",
    "read_run",
    "render_placement",
    "render_placement_site",
    "render_run",
    "render_site",
    "write_report",
]


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
        pages = render_placement_site(read_placement(folder), one_page)
    else:
        pages = render_site(read_run(folder), one_page)
    written = set()
    for name, page in pages:
        write_text(folder / name, page)
        written.add(folder / name)
    for pattern in ("pair-*.html", "prompts-*.html"):
        for path in (folder / "report").glob(pattern):
            if path not in written:
                path.unlink()
    return folder / MAIN
