"""How `mutate.py` asks the tests: forked processes over copies of the package, and a note of which test calls what.

A process is forked from one that has imported the heavy libraries, so it starts at once. It runs tests over its own
copy of `src`, where a source may be changed. Limits are in seconds of computing: a busy machine changes nothing.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".mutate" / "calls.json"

HEAVY = (
    *("numpy", "scipy.special", "scipy.stats", "scipy.optimize", "scipy.sparse.csgraph", "duckdb", "msgspec"),
    *("starlette.applications", "psycopg", "uvicorn", "jinja2", "markdown_it", "nh3", "httpx2"),
    *("hypothesis", "schemathesis", "starlette.testclient", "rich", "typer", "yaml"),
    *("anthropic", "openai"),
)
LONGEST_TEST = 4.0
LONGEST_FILE = 60.0
"""Seconds of computing; slower tests, and those after so many seconds of one file, are not asked."""

HANGS_AFTER = 60.0
"""Seconds of computing after which a test counts as failed."""

LOST_AFTER = 900.0
"""Seconds by the clock after which a process is given up: it waits for something that does not come."""

Found = dict[str, Any]


class TooSlow(BaseException):
    """A test computed for too long. No `Exception`: Hypothesis would look for a smaller example of it."""


@dataclass(frozen=True, slots=True)
class TestRun:
    """A test that passed: how long it took, and which functions it called (`module:function`)."""

    name: str
    seconds: float
    calls: frozenset[str]

    @property
    def file(self) -> str:
        """The file it is in."""
        return self.name.partition("::")[0]


class Workers:
    """Forks processes, a few at a time, each over its own copy of the package."""

    def __init__(self, number: int, folder: Path, libraries: Iterable[str] = HEAVY) -> None:
        for module in libraries:
            with suppress(ImportError):
                importlib.import_module(module)
        self._free = [folder / str(place) for place in range(number)]
        self._running: dict[int, tuple[Path, float, Callable[[Found], None]]] = {}
        for place in self._free:
            _copy_package(place)

    def start(self, work: Callable[[Path], Found], done: Callable[[Found], None]) -> None:
        """Do some work in a process of its own as soon as there is room, and hand on what it found."""
        while not self._free:
            self._wait()
        place = self._free.pop()
        pid = os.fork()
        if pid == 0:
            _work_and_leave(place, work)
        self._running[pid] = (place, time.monotonic(), done)

    def finish(self) -> None:
        """Wait for all."""
        while self._running:
            self._wait()

    def _wait(self) -> None:
        """Wait until a process has ended, and give up those that are lost."""
        time.sleep(0.02)
        for pid, (place, started, done) in list(self._running.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._running[pid]
                self._free.append(place)
                answer = place / "found.json"
                if answer.is_file():
                    found = json.loads(answer.read_text())
                    answer.unlink()
                else:
                    found = {}
                    _copy_package(place)  # it could not put right what it changed
                done(found)
            elif time.monotonic() - started > LOST_AFTER:
                os.kill(pid, signal.SIGKILL)


def _copy_package(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__"))


def _work_and_leave(place: Path, work: Callable[[Path], Found]) -> None:
    """What a forked process does: it works on its own copy of the package, and leaves its answer in a file."""
    source = str(place / "src")
    os.environ |= {"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1", "TILTYARD_CACHE_DIR": str(place / "compiled")}
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(ROOT), source]
    os.chdir(ROOT)
    output = os.open(place / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        (place / "found.json").write_text(json.dumps(work(place)))
    finally:
        os._exit(0)


def run_tests(place: Path, arguments: Iterable[str], plugin: object) -> int:
    """Run tests in this process: 0 if they pass, 1 if one fails, 2 if they cannot be collected, more for trouble."""
    options = ["-q", "-x", "-m", "not soak", "-p", "no:cacheprovider", f"--basetemp={place / 'tmp'}"]
    return int(pytest.main([*options, "-W", "ignore::pytest.PytestAssertRewriteWarning", *arguments], [plugin]))


@contextmanager
def computing_limit(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` in what takes longer than this to compute."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"more than {seconds:g} seconds of computing")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _computed() -> float:
    """Seconds this process and those that it waited for have computed."""
    mine, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return mine.ru_utime + mine.ru_stime + others.ru_utime + others.ru_stime


@dataclass(eq=False)
class CallTracer:
    """Notes which functions of some modules each test calls; what fixtures call counts for the whole file."""

    names: Mapping[str, str]
    """Modules by the path of their source."""
    seconds: dict[str, float] = field(default_factory=dict)
    called: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    shared: set[str] = field(default_factory=set)
    _now: set[str] = field(default_factory=set)
    _since: float = 0.0

    def run(self, place: Path, file: str) -> Found:
        """The tests of a file that pass soon enough: seconds and calls by name."""
        run_tests(place, ["--maxfail=1000", file], self)
        quick = {name: seconds for name, seconds in self.seconds.items() if seconds <= LONGEST_TEST}
        return {name: [round(seconds, 3), sorted(self.called[name] | self.shared)] for name, seconds in quick.items()}

    def _trace(self, frame: FrameType, _event: str, _argument: object) -> None:
        module = self.names.get(frame.f_code.co_filename)
        if module is not None:
            self._now.add(f"{module}:{frame.f_code.co_qualname.partition('.<locals>')[0]}")

    def pytest_runtest_logstart(self) -> None:
        """A test begins. It is traced from now on: a test that was stopped before may have ended the tracing."""
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        self._since = _computed()

    def pytest_runtest_logfinish(self) -> None:
        """A test has ended, and for a long file that is enough."""
        if _computed() > LONGEST_FILE:
            pytest.exit("enough of this file")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep what one part of a test called and took."""
        (self.called[report.nodeid] if report.when == "call" else self.shared).update(self._now)
        self._now.clear()
        took, self._since = _computed() - self._since, _computed()
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + (
            took if report.passed else LONGEST_TEST + 1
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Stop a test that takes too long."""
        with computing_limit(LONGEST_TEST):
            return (yield)


@dataclass(eq=False)
class FirstFailure:
    """Notes the first test that fails, and whether it hung."""

    by: str = "the tests cannot be collected"
    hung: bool = False

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a failure."""
        if report.failed:
            self.by, self.hung = report.nodeid, TooSlow.__name__ in str(report.longrepr)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """A test that never ends has failed."""
        with computing_limit(HANGS_AFTER):
            return (yield)


def which_test_calls_what(
    workers: Workers, files: list[Path], names: Mapping[str, Path], *, reuse: bool, say: Callable[[str], None]
) -> list[TestRun]:
    """Every quick test of some files, and the functions of the named modules that it calls.

    What was noted before is kept until the test file or one of the modules changes, or as it is with `reuse`.
    """
    notes: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    code = b"".join(path.read_bytes() for path in names.values())
    for number, file in enumerate(files):
        key, name = hashlib.sha256(code + file.read_bytes()).hexdigest(), str(file.relative_to(ROOT))
        if name in notes and (reuse or notes[name]["key"] == key):
            continue

        def look(place: Path, name: str = name) -> Found:
            paths = {str(place / path.relative_to(ROOT)): module for module, path in names.items()}
            return CallTracer(paths).run(place, name)

        def note(found: Found, name: str = name, key: str = key) -> None:
            notes[name] = {"key": key, "tests": found}
            KEPT.parent.mkdir(exist_ok=True)
            KEPT.write_text(json.dumps(notes))

        say(f"[{number + 1}/{len(files)}] {name}")
        workers.start(look, note)
    workers.finish()
    asked = [notes[str(file.relative_to(ROOT))]["tests"] for file in files]
    return [TestRun(name, seconds, frozenset(calls)) for found in asked for name, (seconds, calls) in found.items()]
