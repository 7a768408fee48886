"""The report of a run: files in, one self-contained HTML page out, from the ratings down to the judge's words."""

from tiltyard.report.page import render_run, render_site
from tiltyard.report.placement import Placement, read_placement, render_placement, render_placement_site
from tiltyard.report.run import Run, read_run
from tiltyard.report.writing import write_report

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
