"""Several worker processes behind one address: started, watched, replaced and stopped by their parent.

A worker may take as long as it needs to start, and reports when it is ready; one that cannot start reports why. A
worker that ends is replaced. If none can start, the parent tries three times and then raises the reason. Nothing heavy
is imported here: a worker must be able to report that something else cannot be imported.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import connection
from types import FrameType
from typing import TYPE_CHECKING, Any

from tiltyard.errors import ArenaError, TiltyardError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess
    from socket import socket

TRIES = 3
"""Starts that may fail one after the other while no worker serves."""

PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
"""How long to wait before a start that follows a failed one: twice as long each time."""

TURN_SECONDS = 1.0
SILENT_SECONDS = 60.0
"""A serving worker reports every second. One that is silent for this long hangs, and is replaced."""

SLOW_SECONDS = 60.0
"""How often to log that a worker is still starting."""

END_SECONDS = 25.0
"""How long workers may take to answer pending requests when the site stops."""

BEAT = b"+"

_log = logging.getLogger("tiltyard.web")
_spawn = multiprocessing.get_context("spawn")


@dataclass(eq=False)
class WorkerProcess:
    """One process and its reports: a heartbeat every second while it serves, or the reason why it cannot."""

    process: SpawnProcess
    receiver: Connection
    born: float
    ready: bool = False
    leaving: bool = False
    silent_seconds: float = 0.0
    reason: str = ""
    slow_notes: int = 0

    def listen(self) -> None:
        """Read its reports."""
        try:
            while self.receiver.poll():
                message = self.receiver.recv_bytes()
                if message == BEAT:
                    self.ready, self.silent_seconds = True, 0.0
                else:
                    self.reason = message.decode(errors="replace")
        except (EOFError, OSError):
            return

    @property
    def why_it_ended(self) -> str:
        """Its own report, or how it ended."""
        code = self.process.exitcode
        return self.reason or (f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}")


class Workers:
    """Keeps `number` workers serving until a signal says to stop. SIGHUP replaces them one after the other.

    `target` names a function as `module:function`; it is called in each worker with the pipe to report into and the
    sockets to serve.
    """

    def __init__(self, target: str, sockets: Sequence[socket], number: int) -> None:
        self._target = target
        self._sockets = list(sockets)
        self._number = number
        self._workers: list[WorkerProcess] = []
        self._retiring: list[WorkerProcess] = []
        self._failed_starts = 0
        self._start_at = 0.0
        self._turned = time.monotonic()
        self._stops = 0

    def run(self) -> None:
        """Serve. Raises `ArenaError` if no worker can start."""
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._renew)
        try:
            while not self._stops:
                self._turn()
        finally:
            self._end()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stops += 1

    def _renew(self, _number: int, _frame: FrameType | None) -> None:
        self._retiring = [worker for worker in self._workers if not worker.leaving]

    def _turn(self) -> None:
        """Start missing workers, wait for news or a second, and check every worker."""
        wanted = self._number + (1 if self._retiring else 0)
        while len(self._workers) < wanted and time.monotonic() >= self._start_at:
            self._workers.append(self._started())
        news: list[Any] = [part for worker in self._workers for part in (worker.process.sentinel, worker.receiver)]
        if news:
            connection.wait(news, TURN_SECONDS)
        else:
            time.sleep(TURN_SECONDS / 10)
        passed, self._turned = time.monotonic() - self._turned, time.monotonic()
        for worker in list(self._workers):
            worker.silent_seconds += min(passed, TURN_SECONDS)  # a parent that was suspended has missed all heartbeats
            was_ready = worker.ready
            worker.listen()
            if worker.ready and not was_ready:
                self._failed_starts = 0
            self._look_at(worker)
        if self._retiring and len(self._workers) > self._number and all(worker.ready for worker in self._workers):
            self._let_go(self._retiring.pop(0))

    def _started(self) -> WorkerProcess:
        receiver, sender = _spawn.Pipe(duplex=False)
        process = _spawn.Process(target=_work, args=(self._target, sender, self._sockets))
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # Ctrl-C is for this process to pass on
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            sender.close()
        return WorkerProcess(process, receiver, time.monotonic())

    def _look_at(self, worker: WorkerProcess) -> None:
        if not worker.process.is_alive():
            self._gone(worker)
        elif worker.ready and worker.silent_seconds > SILENT_SECONDS:
            _log.error("worker %s has been silent for %.0f s and is replaced.", worker.process.pid, SILENT_SECONDS)
            worker.process.kill()
        elif not worker.ready and time.monotonic() - worker.born > SLOW_SECONDS * (worker.slow_notes + 1):
            worker.slow_notes += 1
            seconds = SLOW_SECONDS * worker.slow_notes
            _log.warning("worker %s has been starting for %.0f s; it is waited for.", worker.process.pid, seconds)

    def _gone(self, worker: WorkerProcess) -> None:
        """Note how a worker ended; if it never served, wait a little before the next one, or give up."""
        worker.listen()
        worker.process.join()
        worker.receiver.close()
        self._workers.remove(worker)
        if worker in self._retiring:
            self._retiring.remove(worker)
        if worker.leaving:
            return
        if worker.ready:
            _log.warning("worker %s ended (%s) and is replaced.", worker.process.pid, worker.why_it_ended)
        else:
            self._failed_starts += 1
            self._retiring.clear()
            if self._failed_starts >= TRIES and not any(other.ready for other in self._workers):
                raise ArenaError(f"no worker could start, tried {self._failed_starts} times: {worker.why_it_ended}")
            _log.error("worker %s could not start: %s", worker.process.pid, worker.why_it_ended)
        pause = min(LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * 2 ** min(self._failed_starts, 10))
        quick = time.monotonic() - worker.born < pause
        self._start_at = time.monotonic() + (pause if self._failed_starts or quick else 0.0)

    def _let_go(self, worker: WorkerProcess) -> None:
        """Ask a worker to answer pending requests, and end."""
        worker.leaving = True
        if worker.process.is_alive():
            worker.process.terminate()

    def _end(self) -> None:
        """Stop all workers: gracefully, or immediately after a second signal or a timeout."""
        for worker in self._workers:
            self._let_go(worker)
        until, signals = time.monotonic() + END_SECONDS, self._stops
        while (left := [worker for worker in self._workers if worker.process.is_alive()]) and self._stops == signals:
            if time.monotonic() > until:
                break
            connection.wait([worker.process.sentinel for worker in left], TURN_SECONDS / 10)
        for worker in self._workers:
            if worker.process.is_alive():
                worker.process.kill()
            worker.process.join()


def _work(target: str, sender: Connection, sockets: Sequence[socket]) -> None:
    """The main function of a worker: it serves, or reports in one line why it cannot."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        module, _, name = target.partition(":")
        getattr(import_module(module), name)(sender, sockets)
    except TiltyardError as error:
        sender.send_bytes(str(error).encode())
        sys.exit(1)
    except Exception as error:  # any error is reported to the parent in one line
        places = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
        message = " ".join(f"{type(error).__name__}: {error}".split())
        sender.send_bytes(f"{message} ({places[-1].filename}:{places[-1].lineno})".encode())
        sys.exit(1)
