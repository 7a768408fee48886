"""A run leaves nothing behind, neither in the temporary folder nor in the folder that it was started in.

From here on temporary files have a folder of this run's own, which goes with it: what is killed cannot clean up, and
neither does every browser. What pytest keeps of a test that failed lies beside it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from multiprocessing.util import Finalize
from pathlib import Path

import pytest

CACHES = {".pytest_cache", ".hypothesis", "__pycache__", ".mypy_cache", ".ruff_cache", ".import_linter_cache"}
"""What makes the next run of the tests, or of `make check` beside them, quicker; `make clean` removes it."""

os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
STARTED_IN, THERE_BEFORE = Path.cwd(), {*Path.cwd().iterdir()}
TEMPORARY = Path(tempfile.mkdtemp(prefix="tiltyard-tests-"))
TEMPORARY.chmod(0o755)  # PostgreSQL runs as a user of its own
os.environ["TMPDIR"] = tempfile.tempdir = str(TEMPORARY)
Finalize(None, shutil.rmtree, (TEMPORARY, True), exitpriority=-200)  # after multiprocessing's own folder, at -100
os.environ["XDG_STATE_HOME"] = str(TEMPORARY / "state")  # and not the home of whoever runs the tests


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fail the run if there is something new where it was started."""
    left = sorted(path.name for path in {*STARTED_IN.iterdir()} - THERE_BEFORE if path.name not in CACHES)
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    yield
    if left:
        session.config.get_terminal_writer().line(f"Tests left behind in {STARTED_IN}: {', '.join(left)}", red=True)
