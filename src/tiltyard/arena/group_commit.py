"""Many requests, one commit: durability costs a disk write per group, not per vote.

One thread owns the state and the writing connection. While it commits, requests gather; it takes all of them as the
next group. Nobody is answered before the commit that holds their request has returned.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

from tiltyard.errors import ArenaError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")

LARGEST_GROUP = 256
"""Requests in one transaction: beyond this, waiting longer saves nothing."""


class Ask(Generic[R]):
    """One request on its way: who runs it leaves an answer or an error, which count once the group is committed."""

    def __init__(self) -> None:
        self.future: Future[R] = Future()
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

    def deliver(self) -> None:
        """Say it."""
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._answer)  # type: ignore[arg-type]


class GroupCommit:
    """A thread that hands groups of requests to `execute`, which commits them, and then delivers their answers.

    `execute` raises `StoreError` where the database failed: all requests of the group get that error. Any other error
    must come from one of the requests, so each is then run by itself, and only the one at fault gets it.
    `idle` is called about every `idle_seconds`, between groups.
    """

    def __init__(
        self, execute: Callable[[list[Ask[object]]], None], idle: Callable[[], None], idle_seconds: float
    ) -> None:
        self._execute = execute
        self._idle = idle
        self._idle_seconds = idle_seconds
        self._queue: queue.SimpleQueue[Ask[object] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="arena writer", daemon=True)
        self._thread.start()

    def ask(self, ask: Ask[R]) -> Future[R]:
        """The answer to come."""
        if self._closed.is_set():
            raise ArenaError("the arena is closed. Open it again.")
        self._queue.put(ask)  # type: ignore[arg-type]
        return ask.future

    def close(self) -> None:
        """Finish what was asked, then stop."""
        if not self._closed.is_set():
            self._closed.set()
            self._queue.put(None)
            self._thread.join()

    def _work(self) -> None:
        open_ = True
        while open_:
            group, open_ = self._gather()
            if group:
                self._run(group)
            if open_:
                self._idle()
        self._refuse_the_rest()

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
            for ask in group:
                _fail([ask], StoreError(str(error)))
        except Exception as error:  # whatever it is, it goes to whoever asked
            if len(group) == 1:
                _fail(group, error)
            for ask in group if len(group) > 1 else ():
                ask.reset()
                self._run([ask])
        else:
            for ask in group:
                ask.deliver()

    def _refuse_the_rest(self) -> None:
        while True:
            try:
                ask = self._queue.get_nowait()
            except queue.Empty:
                return
            if ask is not None:
                _fail([ask], ArenaError("the arena was closed before this was done. Open it again."))


def _fail(group: list[Ask[object]], error: BaseException) -> None:
    for ask in group:
        ask.future.set_exception(error)
