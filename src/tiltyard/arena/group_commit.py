"""Many requests, one commit: durability costs a disk write per group, not per vote.

One thread owns the state and the writing connection. While it commits, new requests queue up and become the next group.
No request is answered before the commit that contains it has returned.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tiltyard.arena.thread_health import ThreadHealth
from tiltyard.errors import ArenaError, StoreError

if TYPE_CHECKING:
    from tiltyard.arena.commands import Command

R = TypeVar("R")

_log = logging.getLogger("tiltyard.arena")

LARGEST_GROUP = 256
"""The most requests in one transaction: larger groups save nothing."""

SHORT_LINE = 64
"""So many requests are soon in one transaction, whatever the last one took: they are no long line."""

LEAST_WEIGHT = 0.1
"""The weight of a single-request group in the estimate of a request's duration; a full group has weight 1."""


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the writing thread is."""

    waiting: int
    """Requests that are still waiting."""
    group_seconds: float
    """How long the current group has been running; 0 if there is none."""
    wait_seconds: float
    """How long a new request would wait, estimated."""
    line_seconds: float = 0.0
    """How much of that is a long line of requests before it, and not a commit that takes its time."""


class Mailbox(Protocol):
    """Receives finished requests. Called in the writing thread, once for all requests of a group."""

    def take(self, done: Sequence[Command[Any]]) -> None:
        """Notify those who wait for these."""
        ...


class GroupCommit:
    """A thread that hands groups of requests to `execute`, which commits them, and then delivers their answers.

    `execute` raises `StoreError` if the database failed: all requests of the group get that error. Any other error must
    come from one of the requests, so each is then run separately, and only the faulty one gets it. `idle` is called
    about every `idle_seconds`, between groups. The thread survives any failure: see `failures`.
    """

    def __init__(
        self, execute: Callable[[list[Command[object]]], None], idle: Callable[[], None], idle_seconds: float
    ) -> None:
        self._execute = execute
        self._idle = idle
        self._idle_seconds = idle_seconds
        self._queue: queue.SimpleQueue[Command[object] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._began: float | None = None
        self._size = 0
        self._seconds_each = 0.0
        self.failures = ThreadHealth("arena writer")
        self._thread = threading.Thread(target=self._work, name="arena writer", daemon=True)
        self._thread.start()

    def submit(self, command: Command[R], mailbox: Mailbox) -> None:
        """Take a command; the mailbox gets it back when it is done."""
        if self._closed.is_set():
            raise ArenaError("the arena is closed. Open it again.")
        command.mailbox = mailbox
        self._queue.put(command)  # type: ignore[arg-type]

    def close(self) -> None:
        """Finish all queued requests, then stop."""
        if not self._closed.is_set():
            self._closed.set()
            self._queue.put(None)
            self._thread.join()

    def load(self) -> Load:
        """How busy the thread is now."""
        began, waiting, each = self._began, self._queue.qsize(), self._seconds_each
        passed = 0.0 if began is None else time.monotonic() - began
        left = max(passed, self._size * each - passed) if began is not None else 0.0
        return Load(waiting, passed, left + waiting * each, waiting * each if waiting > SHORT_LINE else 0.0)

    def _work(self) -> None:
        open_ = True
        while open_:
            group: list[Command[object]] = []
            try:
                group, open_ = self._gather()
                if group:
                    self._timed(group)
                if open_:
                    self._idle()
            except BaseException as error:  # only this thread writes, so it must not end
                self.failures.note(error)
                self._began = None
            else:
                self.failures.clear()
        self._refuse_the_rest()

    def _timed(self, group: list[Command[object]]) -> None:
        """Run a group, and note how long one of its requests took."""
        self._size = len(group)
        self._began = began = time.monotonic()
        self._run(group)
        self._began = None
        weight = max(LEAST_WEIGHT, len(group) / LARGEST_GROUP)
        self._seconds_each += weight * ((time.monotonic() - began) / len(group) - self._seconds_each)

    def _gather(self) -> tuple[list[Command[object]], bool]:
        """Wait for a command, then take all that are queued; also returns whether to continue."""
        group: list[Command[object]] = []
        try:
            command = self._queue.get(timeout=self._idle_seconds)
            while command is not None:
                group.append(command)
                if len(group) == LARGEST_GROUP:
                    return group, True
                command = self._queue.get_nowait()
        except queue.Empty:
            return group, True
        return group, False

    def _run(self, group: list[Command[object]]) -> None:
        try:
            self._execute(group)
        except StoreError as error:
            _fail(group, error)
        except BaseException as error:  # any error goes back to the caller
            if len(group) == 1:
                _fail(group, error if isinstance(error, Exception) else RuntimeError(f"a request ended in {error!r}"))
            for command in group if len(group) > 1 else ():
                command.reset()
                self._run([command])
        else:
            _deliver(group)

    def _refuse_the_rest(self) -> None:
        while True:
            try:
                command = self._queue.get_nowait()
            except queue.Empty:
                return
            if command is not None:
                _fail([command], ArenaError("the arena was closed before this was done. Open it again."))


def _fail(group: list[Command[object]], error: Exception) -> None:
    """Refuse every command with the same message; each gets its own error, since several threads may raise it."""
    for command in group:
        command.refuse(StoreError(str(error)) if isinstance(error, StoreError) else error)
    _deliver(group)


def _deliver(group: list[Command[object]]) -> None:
    """Deliver the commands, all those of one mailbox together, because waking a thread is expensive."""
    by_mailbox: dict[Mailbox, list[Command[object]]] = {}
    for command in group:
        assert command.mailbox is not None
        by_mailbox.setdefault(command.mailbox, []).append(command)
    for mailbox, done in by_mailbox.items():
        try:
            mailbox.take(done)
        except Exception:  # a failing mailbox must not block the others
            _log.exception("%d answers could not be handed back", len(done))
