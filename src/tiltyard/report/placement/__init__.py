"""The report of a placement: one new model's rating among those that people voted on, down to the judge's texts."""

from tiltyard.report.placement.folder import Placement, read_placement
from tiltyard.report.placement.page import render_placement, render_placement_site

__all__ = ["Placement", "read_placement", "render_placement", "render_placement_site"]
