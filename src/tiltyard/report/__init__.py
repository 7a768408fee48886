"""The report of a run: files in, one self-contained HTML page out, from the ratings down to the judge's words."""

from tiltyard.report.page import render_run, render_site
from tiltyard.report.run import Run, read_run
from tiltyard.report.writing import write_report

__all__ = ["Run", "read_run", "render_run", "render_site", "write_report"]
