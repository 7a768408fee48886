"""Reports of runs: files in, one self-contained HTML page out, from the ratings down to the judge's texts."""

from tiltyard.reporting.placement import read_placement
from tiltyard.reporting.report import write_report
from tiltyard.reporting.run import read_run

__all__ = ["read_placement", "read_run", "write_report"]
