"""Running commands as a user does: a folder, an exit code, two streams; and another process, where that matters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tests import within
from tests.forked import PATIENCE_SECONDS, PLAIN_TERMINAL, Forked, command

ROOT = Path(__file__).parents[2]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def tiltyard(tmp_path: Path) -> Run:
    """Run `tiltyard …` in the test's folder, in the test's own process (see `tests.within`)."""
    return partial(within.run, tmp_path)


@pytest.fixture
def tiltyard_forked(tmp_path: Path) -> Run:
    """Run `tiltyard …` in the test's folder, in a process that starts quickly."""
    numbers = count(1)

    def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        name = f"../{tmp_path.name}-streams-{next(numbers)}"
        given = None if stdin is None else tmp_path / f"{name}.in"
        if given is not None:
            given.write_text(stdin or "", encoding="utf-8")
        return Forked(tmp_path, name, command, *arguments, stdin=given).wait()

    return run


@pytest.fixture
def tiltyard_from_scratch(tmp_path: Path) -> Run:
    """Run `python -m tiltyard …` in the test's folder, from the start of the interpreter."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tiltyard", *arguments],
            cwd=tmp_path,
            env={**os.environ, **PLAIN_TERMINAL},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    return run


@pytest.fixture
def birds() -> str:
    """The example file: 1,200 simulated votes on eight models."""
    return str(ROOT / "examples" / "birds.jsonl")
