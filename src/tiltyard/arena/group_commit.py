"""Many requests, one commit: durability costs a disk write per group, not per vote.

One thread owns the state and the writing connection. While it commits, requests gather; it takes all of them as the
next group. Nobody is answered before the commit that holds their request has returned.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from tiltyard.arena.background import Failures
from tiltyard.errors import ArenaError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

R = TypeVar("R")

_log = logging.getLogger("tiltyard.arena")

LARGEST_GROUP = 256
"""Requests in one transaction: beyond this, waiting longer saves nothing."""

LEAST_WEIGHT = 0.1
"""How much a group of one request says of the time that a request takes; a full group says all."""


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the writing thread is."""

    waiting: int
    """Requests that nobody has begun with."""
    group_seconds: float
    """How long the group in work has been in work; 0 if there is none."""
    wait_seconds: float
    """How long a new request would wait, as far as can be told."""


class Mailbox(Protocol):
    """Where requests go when they are done. Called in the writing thread, once for all requests of a group."""

    def take(self, done: Sequence[Ask[Any]]) -> None:
        """Tell those who wait for these."""
        ...


class Ask(Generic[R]):
    """One request on its way: who runs it leaves an answer or an error, which count once the group is committed."""

    def __init__(self) -> None:
        self.mailbox: Mailbox | None = None
        self._answer: R | None = None
        self._error: BaseException | None = None

    def answer(self, answer: R) -> None:
        """What to say if the commit succeeds."""
        self._answer = answer

    def refuse(self, error: BaseException) -> None:
        """What to raise if the commit succeeds."""
        self._error = error

    @property
    def refused(self) -> bool:
        """Whether there is nothing left to do for it."""
        return self._error is not None

    def reset(self) -> None:
        """Forget what was left: the group will run again."""
        self._answer, self._error = None, None

    def result(self) -> R:
        """What was answered, or the error. It holds from the moment at which the mailbox has the request."""
        if self._error is not None:
            raise self._error
        return self._answer  # type: ignore[return-value]


class GroupCommit:
    """A thread that hands groups of requests to `execute`, which commits them, and then delivers their answers.

    `execute` raises `StoreError` where the database failed: all requests of the group get that error. Any other error
    must come from one of the requests, so each is then run by itself, and only the one at fault gets it.
    `idle` is called about every `idle_seconds`, between groups. Whatever fails, the thread goes on: see `failures`.
    """

    def __init__(
        self, execute: Callable[[list[Ask[object]]], None], idle: Callable[[], None], idle_seconds: float
    ) -> None:
        self._execute = execute
        self._idle = idle
        self._idle_seconds = idle_seconds
        self._queue: queue.SimpleQueue[Ask[object] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._began: float | None = None
        self._size = 0
        self._seconds_each = 0.0
        self.failures = Failures("arena writer")
        self._thread = threading.Thread(target=self._work, name="arena writer", daemon=True)
        self._thread.start()

    def ask(self, ask: Ask[R], mailbox: Mailbox) -> None:
        """Take a request; the mailbox gets it back when it is done."""
        if self._closed.is_set():
            raise ArenaError("the arena is closed. Open it again.")
        ask.mailbox = mailbox
        self._queue.put(ask)  # type: ignore[arg-type]

    def close(self) -> None:
        """Finish what was asked, then stop."""
        if not self._closed.is_set():
            self._closed.set()
            self._queue.put(None)
            self._thread.join()

    def load(self) -> Load:
        """How busy the thread is now."""
        began, waiting, each = self._began, self._queue.qsize(), self._seconds_each
        passed = 0.0 if began is None else time.monotonic() - began
        left = max(passed, self._size * each - passed) if began is not None else 0.0
        return Load(waiting, passed, left + waiting * each)

    def _work(self) -> None:
        open_ = True
        while open_:
            group: list[Ask[object]] = []
            try:
                group, open_ = self._gather()
                if group:
                    self._timed(group)
                if open_:
                    self._idle()
            except BaseException as error:  # nobody but this thread writes: it must not end
                self.failures.note(error)
                self._began = None
            else:
                self.failures.clear()
        self._refuse_the_rest()

    def _timed(self, group: list[Ask[object]]) -> None:
        """Run a group, and note how long one of its requests took."""
        self._size = len(group)
        self._began = began = time.monotonic()
        self._run(group)
        self._began = None
        weight = max(LEAST_WEIGHT, len(group) / LARGEST_GROUP)
        self._seconds_each += weight * ((time.monotonic() - began) / len(group) - self._seconds_each)

    def _gather(self) -> tuple[list[Ask[object]], bool]:
        """Wait for a request, then take all that are there. False beside them: it is time to stop."""
        group: list[Ask[object]] = []
        try:
            ask = self._queue.get(timeout=self._idle_seconds)
            while ask is not None:
                group.append(ask)
                if len(group) == LARGEST_GROUP:
                    return group, True
                ask = self._queue.get_nowait()
        except queue.Empty:
            return group, True
        return group, False

    def _run(self, group: list[Ask[object]]) -> None:
        try:
            self._execute(group)
        except StoreError as error:
            _fail(group, error)
        except BaseException as error:  # whatever it is, it goes to whoever asked
            if len(group) == 1:
                _fail(group, error if isinstance(error, Exception) else RuntimeError(f"a request ended in {error!r}"))
            for ask in group if len(group) > 1 else ():
                ask.reset()
                self._run([ask])
        else:
            _deliver(group)

    def _refuse_the_rest(self) -> None:
        while True:
            try:
                ask = self._queue.get_nowait()
            except queue.Empty:
                return
            if ask is not None:
                _fail([ask], ArenaError("the arena was closed before this was done. Open it again."))


def _fail(group: list[Ask[object]], error: Exception) -> None:
    """The same words for each, and an error of its own: several threads may raise it."""
    for ask in group:
        ask.refuse(StoreError(str(error)) if isinstance(error, StoreError) else error)
    _deliver(group)


def _deliver(group: list[Ask[object]]) -> None:
    """Hand the requests back, all those of one mailbox together: waking a thread costs more than an answer."""
    by_mailbox: dict[Mailbox, list[Ask[object]]] = {}
    for ask in group:
        assert ask.mailbox is not None
        by_mailbox.setdefault(ask.mailbox, []).append(ask)
    for mailbox, done in by_mailbox.items():
        try:
            mailbox.take(done)
        except Exception:  # one who cannot be told must not keep the others waiting
            _log.exception("%d answers could not be handed back", len(done))
