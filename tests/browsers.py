"""A real browser for tests; fixtures say for how long."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's chromium, driven by Playwright. Where CI is set it must be there.

    While it is open, an event loop runs in this thread: close it before tests that want a loop of their own.
    """
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None and not os.environ.get("CI"):
        pytest.skip("no chromium: install Debian's package `chromium` to run the tests in a real browser")
    assert found is not None, "CI is set, and there is no chromium: install Debian's package `chromium`"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()
