"""The manual's pages as the tests see them: their blocks, and a place where the blocks are run from top to bottom."""

from __future__ import annotations

import multiprocessing
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests import forked
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


def session(blocks: Connection) -> None:
    """A Python session in which every warning is an error: runs each block it is given, and says how that went."""
    names = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while (code := blocks.recv()) is not None:
            try:
                exec(compile(code, "<the manual>", "exec"), names)
                blocks.send("")
            except BaseException:
                blocks.send(traceback.format_exc())


def strict(script: str) -> None:
    """`python -W error SCRIPT`."""
    warnings.simplefilter("error")
    runpy.run_path(script, run_name="__main__")


def environment() -> dict[str, str]:
    """What a command runs with: this interpreter's commands first, plain output, 120 columns, no key."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {**kept, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"}


class Reader:
    """Someone who types in every block of a page, in one folder and one Python session."""

    def __init__(self, page: Path, folder: Path, *, address: str = SERVED) -> None:
        self.page = name_of(page)
        self.folder = folder
        self._address = address
        self._streams = (f"../{folder.name}-streams-{number}" for number in count(1))
        self._python: Forked | None = None
        self._blocks, self._typed = multiprocessing.Pipe()

    def type_in(self, kind: str, code: str) -> None:
        """Run a block, and fail unless it does what the page says."""
        code = code.replace(SERVED, self._address)
        if kind == "python":
            self._run_python(code)
        else:
            for step in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
                command, _, expected = step.partition("\n")
                self._run_command(command, expected)

    def leave(self) -> None:
        """End the Python session."""
        if self._python is not None:
            self._blocks.send(None)
            self._python.wait()
        self._blocks.close()
        self._typed.close()

    def _run_python(self, code: str) -> None:
        if self._python is None:
            self._python = self._forked(session, self._typed)
            self._typed.close()
        self._blocks.send(code)
        try:
            said = self._blocks.recv()
        except EOFError:
            said = f"Python ended: {self._python.wait()}"
        assert said == "", f"{self.page}:\n{code}\n{said}"

    def _forked(self, work: Callable[..., None], *arguments: Any) -> Forked:
        return Forked(self.folder, next(self._streams), work, *arguments, environment=environment(), together=True)

    def _run_command(self, command: str, expected: str) -> None:
        """Run a command and compare what it prints; a line `…` stands for any lines."""
        if command.startswith("tiltyard ") and not SHELL.search(QUOTED.sub("", command)):
            said = self._forked(forked.command, *shlex.split(command)[1:]).wait(PATIENCE_SECONDS).stdout
        else:
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            place = {"cwd": self.folder, "env": environment()}
            said = subprocess.run(command, shell=True, text=True, check=False, **streams, **place).stdout
        wanted = [line.rstrip() for line in expected.rstrip().splitlines()]
        pattern = "".join("(?:.*\n)*" if line == "…" else re.escape(line) + "\n" for line in wanted)
        printed = "".join(line.rstrip() + "\n" for line in said.rstrip().splitlines())
        assert re.fullmatch(pattern, printed), f"{self.page}: $ {command}\n{said}"
