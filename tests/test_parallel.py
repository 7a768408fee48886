"""Tests in forked workers: every one is run once and reported as it ended, even if it takes its worker with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import PATIENCE_SECONDS
from tests.parallel import REST, portions

ROOT = Path(__file__).parents[1]
VARIABLES = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}

SAMPLE = """
import time
import pytest

@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("shared")
    yield made
    with open("closed", "a") as file:
        time.sleep(0.2)
        file.write("x")

@pytest.mark.parametrize("number", range(9))
def test_passes(number, folder, tmp_path):
    with open("ran", "a") as file:
        file.write(f"{number}\\n")
    assert folder.parent == tmp_path.parent

def test_fails():
    print("words of the test")
    assert [1] == [2]

def test_catches_everything():
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        pass

@pytest.mark.parametrize("number", range(9))
def test_comes_too_late(number):
    with open("late", "a") as file:
        file.write("x")

"""

WORSE = """
import os
import time
import pytest

def test_dies():
    os._exit(3)

@pytest.mark.skip(reason="it has one")
def test_is_skipped():
    pass

@pytest.mark.timeout(1)
def test_hangs():
    time.sleep(60)
"""

LITTER = """
import subprocess
import tempfile

def test_of_temporary_files():
    tempfile.mkdtemp()
    subprocess.run("mktemp", check=True)

def test_of_files_here():
    open("forgotten.txt", "w").close()
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_sample.py").write_text(SAMPLE, encoding="utf-8")
    (folder / "test_worse.py").write_text(WORSE, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.parallel", "--forks", "2", *options],
        cwd=folder,
        env={**os.environ, **VARIABLES, "PYTEST_DEBUG_TEMPROOT": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_every_test_is_run_once_and_reported_as_it_ended(tmp_path: Path) -> None:
    done = run(tmp_path, "-p", "pytest_timeout", "-k", "not catches and not late")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search("3 failed, 9 passed, 1 skipped", done.stdout), done.stdout
    assert sorted((tmp_path / "ran").read_text().split()) == [str(number) for number in range(9)]
    assert "words of the test" in done.stdout
    assert "the worker that ran this test ended with 3" in done.stdout
    assert "Timeout (>1.0s)" in done.stdout


def test_what_tests_share_is_closed_once_by_the_worker_that_opened_it(tmp_path: Path) -> None:
    done = run(tmp_path, "-k", "passes or skipped")  # a worker that dies closes nothing
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "closed").read_text() == "x"


def test_the_first_failure_may_end_the_run_and_everything_is_closed(tmp_path: Path) -> None:
    done = run(tmp_path, "-x", "--forks", "1", "test_sample.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert not (tmp_path / "late").exists(), "a test that catches the interrupt is still the last"
    assert (tmp_path / "closed").read_text() == "x"


def test_a_run_leaves_nothing_behind_and_fails_where_a_test_does(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    assert request.config.pluginmanager.has_plugin("tests.leftovers")
    started_in, temporary = tmp_path / "here", tmp_path / "temporary"
    started_in.mkdir()
    temporary.mkdir()
    (started_in / "test_sample.py").write_text(LITTER, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "tests.parallel", "-p", "tests.leftovers", "--forks", "1"]
    variables = {**VARIABLES, "PYTEST_DEBUG_TEMPROOT": str(tmp_path), "TMPDIR": str(temporary)}
    for named, code in (("temporary", 0), ("here", 1)):
        done = subprocess.run(
            [*command, "-k", named],
            cwd=started_in,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert ("forgotten.txt" in done.stdout) == (code == 1)
        assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("workers", [1, 4])
def test_portions_hold_every_test_once_and_grow_small(workers: int, request: pytest.FixtureRequest) -> None:
    items = request.session.items
    found = list(portions(items, workers))
    assert sorted(number for portion in found for number in portion) == list(range(len(items)))
    assert len(found[-1]) <= 1 + REST
