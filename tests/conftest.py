"""What all tests share: one Hypothesis profile, a limit on waiting, the real data where it is at hand.

`oracles` becomes importable here.
"""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import signal
import sys
from pathlib import Path

# Whatever the machine's habit, these processes compile what they import once; NumPy has one thread, as in the command.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell starts what runs in the background (`make test &`) deaf to interrupts, and so would be all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Databases and journals are synced to disk at every step, and a test's disk had better be memory, where there is room.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4_000_000_000:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

gc.disable()  # until everything is imported: see `pytest_collection_finish`

import pytest  # noqa: E402 - the lines above change how it and others are imported
from hypothesis import HealthCheck, settings  # noqa: E402

from tests import leftovers  # noqa: E402
from tests.browsers import awake_browser, browser, tab, tab_of_all  # noqa: E402, F401 - fixtures for all
from tests.missing import told  # noqa: E402
from tests.sizes import size  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))

ANY_SPEED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}
settings.register_profile("suite", derandomize=True, max_examples=40, **ANY_SPEED)
settings.register_profile("soak", **ANY_SPEED)
settings.load_profile("suite")
"""A slow machine fails no test, and `make test` tries the same examples every time: red means that the code changed.

New examples, and more of them, are looked for by `make soak`, which asks for the other profile with
`--hypothesis-profile`.
"""

SOAK_SECONDS = 4 * 3600
"""How long one soak test may take; every other test has the `timeout` of pyproject.toml."""

REAL_DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_configure(config: pytest.Config) -> None:
    """Have what tests leave behind removed at the end, or reported."""
    config.pluginmanager.register(leftovers, leftovers.__name__)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give soak tests their longer limit, and in `make soak` all, which try more there."""
    for item in items:
        if (item.get_closest_marker("soak") or size(False, soak=True)) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SOAK_SECONDS))


def pytest_collection_finish() -> None:
    """Leave what was imported to itself: looking for garbage in it again and again was an eighth of the CPU time.

    Looking at what is new less often than Python does by itself saves a twentieth more.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_unconfigure() -> None:
    """Let go of it, so that libraries that count their objects at the end of a process find none left."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped for want of a program, and how to install it."""
    skipped = terminalreporter.stats.get("skipped", [])
    lines = told([report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)])
    if lines:
        terminalreporter.section("not everything was tested", yellow=True)
    for line in lines:
        terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's arenas keep their key files and deletions: many of them are copies of one arena."""
    folder = tmp_path_factory.getbasetemp() / f"state-{secrets.token_hex(6)}"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "tiltyard"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of other people's data, which a user's clone does not have."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"the real data is not at {REAL_DATA}: it is not part of the repository")
    return REAL_DATA
