"""`report`: the report of a run or a placement, from its files."""

from __future__ import annotations

from pathlib import Path

from tiltyard.reporting import write_report


def report(folder: str | Path) -> Path:
    """Rebuild the report of a run or a placement from the files of its folder, and return the path of its page.

    Parameters:
        folder: The folder of a run or a placement.
    """
    return write_report(folder)
