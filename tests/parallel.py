"""All tests on every core: they are collected once, then this process forks workers that share them out.

`--forks N` instead of xdist's `-n N`, whose workers each import every library and collect six thousand tests of
their own: half a minute of CPU time each, before the first test. Forked workers have it all from the start.

A worker that dies fails the test it was running, and another takes its place.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import pytest

from tests import forked

FIRST = ("site", "beyond", "docs", "reference", "house", "reports", "stats", "judge", "arena")
"""Folders whose tests share servers or wait for processes: they are handed out while portions are still large, which
leaves quick ones, one by one, for an even end. A portion of them ends with a file."""

REST = 12
"""How many tests another portion may be longer, to end with a file."""

SECONDS_TO_CLOSE = 60.0

_FORKS = multiprocessing.get_context("fork")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="Run the tests in this many processes, forked from this one.")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("forks") and _whole(config):
        forked.start_server()  # all tests: it imports on another core while they are collected on this one


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests in forked workers, where that was asked for."""
    number = session.config.getoption("forks")
    if not number or session.config.option.collectonly or not session.items:
        return None
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        return None  # the plain loop says so
    terminal: Any = session.config.pluginmanager.getplugin("terminalreporter")
    terminal.showfspath = False  # files are tested side by side
    if _whole(session.config):
        _look_for_constants()
    _Controller(session, number).run()
    return True


def _whole(config: pytest.Config) -> bool:
    """Whether all tests are run, and not some that were named."""
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS


def _look_for_constants() -> None:
    """Hypothesis reads the source of all that is imported for constants to try: once, before workers are forked."""
    from hypothesis import given, settings, strategies

    @settings(max_examples=1, database=None)
    @given(strategies.text(), strategies.floats())
    def tried(_text: str, _number: float) -> None:
        pass

    tried()


def portions(items: list[pytest.Item], workers: int) -> Iterator[list[int]]:
    """The numbers of all tests in portions for whoever is free: large ones first, single tests at the end."""
    rank = {folder: place for place, folder in enumerate(FIRST)}
    order = sorted(range(len(items)), key=lambda number: rank.get(items[number].path.parent.name, len(FIRST)))
    start = 0
    while start < len(order):
        end = start + max(1, (len(order) - start) // (6 * workers))
        rest = len(order) if items[order[end - 1]].path.parent.name in FIRST else REST
        for _ in range(rest):  # of a file, whose tests may share what is slow to make
            if end == len(order) or items[order[end]].path != items[order[end - 1]].path:
                break
            end += 1
        yield order[start:end]
        start = end


@dataclass
class _Worker:
    """A forked process, as the controller sees it."""

    process: ForkProcess
    pipe: Connection
    running: int | None = None
    waiting: deque[int] = field(default_factory=deque)
    """What it was given and has not begun."""


class _Controller:
    """Hands out portions of tests, and reports what comes back as if the tests had run here."""

    def __init__(self, session: pytest.Session, workers: int) -> None:
        self._session = session
        self._config = session.config
        self._portions = portions(session.items, workers)
        self._returned: deque[list[int]] = deque()
        self._begun = 0
        self._workers = [self._fork() for _ in range(workers)]

    def run(self) -> None:
        """Until every test is reported, or the first that must be the last."""
        try:
            while self._workers:
                for worker in self._ready():
                    self._hear(worker)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        finally:
            for worker in self._workers:
                worker.process.terminate()
            for worker in self._workers:
                _let_end(worker)

    def _fork(self) -> _Worker:
        ours, theirs = multiprocessing.Pipe()
        base = self._config._tmp_path_factory.getbasetemp() / f"worker-{self._begun}"  # type: ignore[attr-defined]
        base.mkdir(mode=0o700)
        self._begun += 1
        process = _FORKS.Process(target=_work, args=(self._session, theirs, base))
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _ready(self) -> list[_Worker]:
        """Workers that said something, or died."""
        known: dict[Any, _Worker] = {}
        for worker in self._workers:
            known |= {worker.pipe: worker, worker.process.sentinel: worker}
        return list({id(found): found for found in (known[one] for one in wait(list(known)))}.values())

    def _hear(self, worker: _Worker) -> None:
        """All that a worker has said so far."""
        ended = not worker.process.is_alive()
        with suppress(EOFError, ConnectionResetError):
            while worker.pipe.poll():
                self._note(worker, *worker.pipe.recv())
        if ended:
            self._workers.remove(worker)
            if worker.process.exitcode:
                self._bury(worker)

    def _note(self, worker: _Worker, word: str, said: Any) -> None:
        hook = self._config.hook
        if word == "more":
            portion = self._returned.popleft() if self._returned else next(self._portions, [])
            worker.waiting.extend(portion)
            worker.pipe.send(portion)
        elif word == "start":
            worker.running = worker.waiting.popleft()
            assert worker.running == said
            item = self._session.items[said]
            hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        elif word == "report":
            hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=self._config, data=said))
        elif word == "finish":
            worker.running = None
            item = self._session.items[said]
            hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _bury(self, worker: _Worker) -> None:
        """A worker died: its test failed, and another worker does the rest."""
        if worker.running is not None:
            item = self._session.items[worker.running]
            said = f"the worker that ran this test ended with {worker.process.exitcode}"
            report = pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")
            self._config.hook.pytest_runtest_logreport(report=report)
        if worker.waiting:
            self._returned.append(list(worker.waiting))
        elif worker.running is None:
            raise pytest.UsageError(f"a worker ended with {worker.process.exitcode} while it ran no test")
        self._workers.append(self._fork())


def _let_end(worker: _Worker) -> None:
    """Give a worker that was told to end the time to close its servers; whatever it still says goes unheard."""
    until = time.monotonic() + SECONDS_TO_CLOSE
    while worker.process.is_alive() and time.monotonic() < until:
        if worker.pipe.poll(0.05):
            os.read(worker.pipe.fileno(), 65536)
    worker.process.kill()
    worker.process.join()


def _work(session: pytest.Session, pipe: Connection, base: Path) -> None:
    """What a worker does: ask for tests and run them, until there are none or somebody says that it is enough."""
    _settle(session.config, base)
    reports = _Reports(session.config, pipe)
    session.config.pluginmanager.register(reports, "reports-of-a-worker")
    told: list[int] = []

    def enough(number: int, _frame: object) -> None:
        told.append(number)  # a test may catch what is raised next
        if not reports.closing:
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, enough)
    try:
        _run(session, pipe, told)
    except KeyboardInterrupt:
        told.append(signal.SIGINT)
    if told:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        session._setupstate.teardown_exact(None)  # its servers and databases


def _run(session: pytest.Session, pipe: Connection, told: list[int]) -> None:
    given = _given(pipe)
    number = next(given, None)
    while number is not None and not told:
        pipe.send(("start", number))
        following = next(given, None)  # a test tears down what the next one does not need
        item = session.items[number]
        item.config.hook.pytest_runtest_protocol(
            item=item, nextitem=None if following is None else session.items[following]
        )
        pipe.send(("finish", number))
        number = following


def _given(pipe: Connection) -> Iterator[int]:
    while True:
        pipe.send(("more", None))
        portion: list[int] = pipe.recv()
        if not portion:
            return
        yield from portion


def _settle(config: pytest.Config, base: Path) -> None:
    """Become a process of one's own: captured output and folders apart, and the terminal left to the controller."""
    plugins: Any = config.pluginmanager
    terminal = plugins.unregister(name="terminalreporter")
    plugins.register(_Writer(terminal._tw), "terminalreporter")
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    config._tmp_path_factory._basetemp = base  # type: ignore[attr-defined]
    forked.inherit_server()


class _Writer:
    """What is left of the terminal's reporter in a worker: stacks are written to it when a test takes too long."""

    def __init__(self, writer: Any) -> None:
        self._tw = writer


class _Reports:
    """Sends what happened to the controller."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self._config = config
        self._pipe = pipe
        self.closing = False
        """What is being closed is closed to its end: after a failure with `-x`, that is all that tests share."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        self.closing = True
        try:
            return (yield)
        finally:
            self.closing = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.send(("report", said))
