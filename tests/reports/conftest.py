"""One simulated run and its page for all tests of the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_tree import Page, read_page
from run_folders import make_run

from tiltyard.reports import write_report


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_run(tmp_path_factory.mktemp("runs") / "headline_20260502")
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def page_text(run_folder: Path) -> str:
    return (run_folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def page(page_text: str) -> Page:
    return read_page(page_text)
