"""The manual's pages as the tests see them: their blocks, and a place where the blocks are run from top to bottom."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVED = "http://127.0.0.1:8000"
INTERPRETER = """
import json, os, sys, traceback
names = {"__name__": "__main__"}
with os.fdopen(int(sys.argv[1]), "w") as answers:
    for line in sys.stdin:
        said = ""
        try:
            exec(compile(json.loads(line), "<the manual>", "exec"), names)
        except BaseException:
            said = traceback.format_exc()
        print(json.dumps(said), file=answers, flush=True)
"""


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


class Reader:
    """Someone who types in every block of a page, in one folder and one Python session."""

    def __init__(self, page: Path, folder: Path, *, address: str = SERVED) -> None:
        self.page = name_of(page)
        self.folder = folder
        self._address = address
        self._python: subprocess.Popen[str] | None = None
        self._answers: TextIO = io.StringIO()

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
            self._python.communicate(timeout=120)
            self._answers.close()

    def _run_python(self, code: str) -> None:
        if self._python is None:
            self._python = self._new_session()
        assert self._python.stdin is not None
        self._python.stdin.write(json.dumps(code) + "\n")
        self._python.stdin.flush()
        answer = self._answers.readline()
        assert answer, f"{self.page}: Python ended at\n{code}"
        assert json.loads(answer) == "", f"{self.page}:\n{code}\n{json.loads(answer)}"

    def _new_session(self) -> subprocess.Popen[str]:
        """A Python that runs what it is given, and says on a line of its own how that went."""
        read, write = os.pipe()
        session = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", INTERPRETER, str(write)],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[write],
            text=True,
        )
        os.close(write)
        self._answers = os.fdopen(read)
        return session

    def _run_command(self, command: str, expected: str) -> None:
        """Run a command and compare what it prints; a line `…` stands for any lines."""
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        wanted = [line.rstrip() for line in expected.rstrip().splitlines()]
        pattern = "".join("(?:.*\n)*" if line == "…" else re.escape(line) + "\n" for line in wanted)
        printed = "".join(line.rstrip() + "\n" for line in done.stdout.rstrip().splitlines())
        assert re.fullmatch(pattern, printed), f"{self.page}: $ {command}\n{done.stdout}"
