"""Reports of runs: files in, one self-contained HTML page out, from the ratings down to the judge's texts."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.reporting.comparison import comparison_page, run_behind, runs_page, score_page
    from tiltyard.reporting.grid import GridCell, GridRow
    from tiltyard.reporting.page import own_file, write_report
    from tiltyard.reporting.placement import read_placement
    from tiltyard.reporting.review import review_page
    from tiltyard.reporting.run import read_run
    from tiltyard.reporting.sections import board_view, rating_scale
    from tiltyard.reporting.weekly import bands, keep_finished_weeks, week_view, weekly_page, write_folder
    from tiltyard.reporting.weekly_text import rule_numbers, weekly_json, weekly_markdown, worth_knowing

__all__ = [
    "read_placement", "read_run", "write_report",
]

__getattr__ = names_on_demand(__name__)
