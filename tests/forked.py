"""Processes that start at once: forked from one that has imported everything already.

Importing the package and its SDKs takes seconds, and a test that starts a command a dozen times has better things to
wait for. A forked process is a process like any other: it has an exit code and two streams, and can be interrupted
and killed. What it does not show is the start of the interpreter: `PYTHON…` variables come too late for it, and so does
whatever a module reads when it is first imported. Tests of those start `python` themselves.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

ROOT = Path(__file__).parents[1]
PLAIN_TERMINAL = {"COLUMNS": "160", "NO_COLOR": "1"}

PATIENCE_SECONDS = 400.0
"""How long a process may take to answer, or to end: four times what two busy cores without byte code have needed for
two hosts with two workers each. It is never spent waiting for a process that has ended."""

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.forked_imports"])


def start_server() -> None:
    """Start the process from which the others are forked, unless it runs already."""
    with chdir(ROOT):  # where it finds the tests
        forkserver._forkserver.ensure_running()


def inherit_server() -> None:
    """Use the server that this process's parent started, if it did: it is not this process's to look after."""
    server: Any = forkserver._forkserver
    if server._forkserver_pid is not None:
        server.ensure_running = lambda: None


class Forked:
    """A process that runs a function in `folder`, with its streams in files there; else as `subprocess.Popen`.

    With `pipe` its standard output can be read as it comes, from `stdout`; with `together` both streams are one file.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        work: Callable[..., None],
        *arguments: Any,
        environment: Mapping[str, str] | None = None,
        stdin: Path | None = None,
        pipe: bool = False,
        together: bool = False,
    ) -> None:
        out = folder / f"{name}.out"
        self.streams = out, out if together else folder / f"{name}.err"
        reading, writing = multiprocessing.Pipe(duplex=False) if pipe else (None, None)
        self._reading = reading
        self.stdout = open(reading.fileno(), closefd=False, encoding="utf-8") if reading else None  # noqa: SIM115
        variables = {**os.environ, **PLAIN_TERMINAL} if environment is None else dict(environment)
        place = _Place(folder, variables, stdin or Path(os.devnull), *self.streams, writing)
        start_server()
        self.process: ForkServerProcess = _FORKS.Process(target=_enter, args=(place, work, arguments))
        self.process.start()
        if writing is not None:
            writing.close()

    @classmethod
    def anywhere(cls, work: Callable[..., None], *arguments: Any, **options: Any) -> Forked:
        """One in a folder of its own, which goes with it."""
        folder = Path(tempfile.mkdtemp(prefix="ty-forked-"))
        made = cls(folder, "streams", work, *arguments, **options)
        weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
        return made

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.is_alive()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, once it has one."""
        return self.process.exitcode

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        """Interrupt it, or whatever the signal says."""
        os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> bool:
        """`kill -9`; whether it was still running."""
        was_running = self.process.is_alive()
        self.process.kill()
        self.process.join(60)
        return was_running and self.process.exitcode == -9

    def wait(self, timeout: float = PATIENCE_SECONDS) -> CompletedProcess[str]:
        """Its exit code and what it said, but for what was read from its pipe before."""
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self.process), timeout)
        piped = self._close_pipe()
        out, err = (stream.read_text(encoding="utf-8") if stream.exists() else "" for stream in self.streams)
        return CompletedProcess([], self.process.exitcode, out if piped is None else piped, err)

    def _close_pipe(self) -> str | None:
        """What was still to be read from the pipe, to its end."""
        if self.stdout is None or self._reading is None:
            return None
        rest = "" if self.stdout.closed else self.stdout.read()
        self.stdout.close()
        self._reading.close()
        return rest


@dataclass(frozen=True)
class _Place:
    """Where a process works: its folder, its environment, its streams."""

    folder: Path
    environment: dict[str, str]
    stdin: Path
    out: Path
    err: Path
    pipe: Connection | None


def _enter(place: _Place, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Become a process of one's own: folder, environment and streams. Then work."""
    os.chdir(place.folder)
    os.environ.clear()
    os.environ.update(place.environment)
    os.dup2(os.open(place.stdin, os.O_RDONLY), 0)
    os.dup2(_writing(place.out) if place.pipe is None else place.pipe.fileno(), 1)
    os.dup2(1 if place.out == place.err else _writing(place.err), 2)
    if place.pipe is not None:
        place.pipe.close()
    sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115 (they live as long as the process)
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False, encoding="utf-8")  # noqa: SIM115
    try:
        work(*arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _writing(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)


def command(*arguments: str) -> None:
    """`tiltyard …`."""
    from tiltyard.cli.main import main

    sys.argv = ["tiltyard", *arguments]
    main()


def module(name: str, *arguments: str) -> None:
    """`python -m NAME …`."""
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def script(text: str, *arguments: str) -> None:
    """`python -c TEXT …`."""
    sys.argv = ["-c", *arguments]
    exec(compile(text, "<script>", "exec"), {"__name__": "__main__"})
