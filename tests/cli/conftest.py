"""Running commands as a user does: another process, its exit code, its two streams."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def tiltyard(tmp_path: Path) -> Run:
    """Run `tiltyard …` in an empty folder."""

    def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tiltyard", *arguments],
            cwd=tmp_path,
            input=stdin,
            env={**os.environ, "COLUMNS": "160", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def birds() -> str:
    """The example file: 1,200 simulated votes on eight models."""
    return str(ROOT / "examples" / "birds.jsonl")
