"""The report of a run: files in, one self-contained HTML page out, from the ratings down to the judge's words.

Names are imported when they are first used: the arena's site needs the markup alone, and starts the sooner.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "page": ("render_run", "render_site"),
    "placement": ("Placement", "read_placement", "render_placement", "render_placement_site"),
    "run": ("Run", "read_run"),
    "writing": ("write_report",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"tiltyard.report.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
