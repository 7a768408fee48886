"""Writing a report into its run folder, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tiltyard.files import write_text
from tiltyard.judging.run_folder import read_object, require
from tiltyard.report.layout import MAIN, ONE_PAGE
from tiltyard.report.page import render_site
from tiltyard.report.placement import read_placement, render_placement_site
from tiltyard.report.run import read_run

if TYPE_CHECKING:
    from collections.abc import Iterator

OURS = ("pair-*.html", "prompts-*.html")


def write_report(folder: str | Path, *, one_page: int = ONE_PAGE) -> Path:
    """Write `report.html` from the files of a run folder, a tournament's or a placement's, and say where it is.

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
    manifest = read_object(require(folder / "manifest.json", folder))
    if manifest.get("kind") == "placement":
        return render_placement_site(read_placement(folder), one_page)
    return render_site(read_run(folder), one_page)
