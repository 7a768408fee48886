"""Writing a report into its run folder, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from tiltyard.files import write_text
from tiltyard.report.page import render_site
from tiltyard.report.run import read_run
from tiltyard.report.site import MAIN, ONE_PAGE

OURS = ("pair-*.html", "prompts-*.html")


def write_report(folder: str | Path, *, one_page: int = ONE_PAGE) -> Path:
    """Write `report.html` from the files of a run folder, and say where it is.

    Up to `one_page` judgments it is one self-contained page; above, the battles go to `report/*.html` beside it. Each
    file is replaced in one step, `report.html` last; files of an earlier, larger report are removed.
    """
    folder = Path(folder)
    written = set()
    for name, page in render_site(read_run(folder), one_page):
        write_text(folder / name, page)
        written.add(folder / name)
    for pattern in OURS:
        for path in (folder / "report").glob(pattern):
            if path not in written:
                path.unlink()
    return folder / MAIN
