"""Self-contained HTML over a run, a placement, a week of an arena or a comparison, down to the judge's texts."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.reports.comparison import comparison_page, run_behind, runs_page, score_page
    from tiltyard.reports.grid import GridCell, GridRow
    from tiltyard.reports.page import own_file, write_report
    from tiltyard.reports.placement import read_placement
    from tiltyard.reports.review import review_page
    from tiltyard.reports.run import read_run
    from tiltyard.reports.sections import board_view, rating_scale
    from tiltyard.reports.weekly import bands, keep_finished_weeks, week_view, weekly_page, write_folder
    from tiltyard.reports.weekly_text import rule_numbers, weekly_json, weekly_markdown, worth_knowing

__all__ = [
    "read_placement", "read_run", "write_report",
]

__getattr__ = names_on_demand(__name__)
