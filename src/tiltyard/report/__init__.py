"""Reports of runs: files in, one self-contained HTML page out, from the ratings down to the judge's texts.

What makes the pages is imported when it is first used: the site needs only the weekly report, and starts without
tournaments, placements and everything below them (a tenth of a second of a worker's start).
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltyard.files import write_text
from tiltyard.report.site_map import MAIN, ONE_PAGE

if TYPE_CHECKING:
    from tiltyard.report.page import render_run, render_site
    from tiltyard.report.placement import Placement, read_placement, render_placement, render_placement_site
    from tiltyard.report.run import Run, read_run

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

_HOMES = {
    "page": ("render_run", "render_site"),
    "placement": ("Placement", "read_placement", "render_placement", "render_placement_site"),
    "run": ("Run", "read_run"),
}

OURS = ("pair-*.html", "prompts-*.html")


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"tiltyard.report.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def write_report(folder: str | Path, *, one_page: int = ONE_PAGE) -> Path:
    """Write `report.html` from the files of a run folder, a tournament's or a placement's, and return its path.

    Up to `one_page` judgments it is one self-contained page; above, the battles go to `report/*.html` beside it. Each
    file is replaced in one step, `report.html` last; files of an earlier, larger report are removed.

    Parameters:
        folder: The folder of a run or placement.
        one_page: Up to how many judgments the report is one page; above, it has files beside it.
    """
    folder = Path(folder)
    written = set()
    for name, page in _pages(folder, one_page):
        write_text(folder / name, page)
        written.add(folder / name)
    for pattern in OURS:
        for path in (folder / "report").glob(pattern):
            if path not in written:
                path.unlink()
    return folder / MAIN


def _pages(folder: Path, one_page: int) -> Iterator[tuple[str, str]]:
    """The files of the report that the manifest calls for."""
    from tiltyard.judging.run_folder import read_object, require
    from tiltyard.report.page import render_site
    from tiltyard.report.placement import read_placement, render_placement_site
    from tiltyard.report.run import read_run

    manifest = read_object(require(folder / "manifest.json", folder))
    if manifest.get("kind") == "placement":
        return render_placement_site(read_placement(folder), one_page)
    return render_site(read_run(folder), one_page)
