"""The manual's pages as the tests see them: their blocks, and a place where the blocks are run from top to bottom."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import traceback
import warnings
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

import pytest

from tests import within
from tests.forked import PATIENCE_SECONDS, Forked

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVED = "http://127.0.0.1:8000"
QUOTED = re.compile(r'"[^"$`]*"|\'[^\']*\'')
SHELL = re.compile(r"[|&;<>()$`\\*?\[#~]")
"""What only a shell can do, outside of quotes."""


def name_of(page: Path) -> str:
    """A page's name in a test's name and in messages."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    """The page's code blocks in these languages, in order."""
    return [(kind, code) for kind, code in BLOCK.findall(page.read_text(encoding="utf-8")) if kind in languages]


def workplace(folder: Path) -> Path:
    """A folder with a fresh copy of the examples, as a clone has it."""
    left_behind = shutil.ignore_patterns("judgments", "runs", "__pycache__", ".ipynb_checkpoints")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=left_behind)
    return folder


def environment() -> dict[str, str]:
    """What a command runs with: this interpreter's commands first, plain output, 120 columns, no key."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {**kept, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"}


def strict(code: str) -> None:
    """`python -W error -c CODE`."""
    warnings.simplefilter("error")
    exec(compile(code, "<the manual>", "exec"), {"__name__": "__main__"})


class Reader:
    """Someone who types in every block of a page, in one folder and one Python session, whose warnings are errors.

    Commands and Python run in the test's own process, where the libraries are imported already.
    """

    def __init__(self, page: Path, folder: Path, *, address: str = SERVED) -> None:
        self.page = name_of(page)
        self.folder = folder
        self._address = address
        self._names = {"__name__": "__main__"}

    def type_in(self, kind: str, code: str) -> None:
        """Run a block, and fail unless it does what the page says."""
        code = code.replace(SERVED, self._address)
        with patch.dict(os.environ, environment(), clear=True):
            if kind == "python":
                self._run_python(code)
            else:
                for step in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
                    command, _, expected = step.partition("\n")
                    self._run_command(command, expected)

    def _run_python(self, code: str) -> None:
        if "StdioServerParameters" in code:  # its SDK writes to the standard error of the moment when it was imported
            done = Forked(self.folder, f"../{self.folder.name}-streams", strict, code).wait(PATIENCE_SECONDS)
            assert done.returncode == 0, f"{self.page}:\n{code}\n{done.stderr}"
            return
        with chdir(self.folder), warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                exec(compile(code, f"<{self.page}>", "exec"), self._names)
            except BaseException:
                pytest.fail(f"{self.page}:\n{code}\n{traceback.format_exc()}")

    def _run_command(self, command: str, expected: str) -> None:
        """Run a command and compare what it prints; a line `…` stands for any lines."""
        if command.startswith("tiltyard ") and not SHELL.search(QUOTED.sub("", command)):
            said = within.run_together(self.folder, *shlex.split(command)[1:])
        else:
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            said = subprocess.run(command, shell=True, text=True, check=False, cwd=self.folder, **streams).stdout
        wanted = [line.rstrip() for line in expected.rstrip().splitlines()]
        pattern = "".join("(?:.*\n)*" if line == "…" else re.escape(line) + "\n" for line in wanted)
        printed = "".join(line.rstrip() + "\n" for line in said.rstrip().splitlines())
        assert re.fullmatch(pattern, printed), f"{self.page}: $ {command}\n{said}"
