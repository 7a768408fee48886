"""Responses that are the same for everyone: rendered once, outside the event loop, and cached."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from starlette.requests import Request

from tiltyard.site.failures import busy

Key = tuple[object, ...]
"""The first part says what is asked for, the others of which version."""

THREADS = 2
WAITING = 64
"""The most responses being rendered or waiting; further requests are told that the site is busy."""

FITS_WAITING = 8
"""The same of responses that take a fit of their own, which are made one at a time."""

FITS_OF_ONE = 3
"""How many of these one network may have; the others' requests find room."""

KEPT_ANSWERS = 128
KEPT_BYTES = 64 * 1024 * 1024


class PageCache:
    """Caches responses by their inputs. Concurrent requests for the same response share one rendering.

    With `of_one`, nobody has more than that many in the making.
    """

    def __init__(self, threads: int = THREADS, waiting: int | None = None, of_one: int | None = None) -> None:
        self._waiting = waiting
        self._of_one = of_one
        self._asked_by: Counter[str] = Counter()
        self._latest: dict[object, Key] = {}
        self._kept: OrderedDict[Key, bytes] = OrderedDict()
        self._bytes = 0
        self._making: dict[Key, Future[bytes]] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="tiltyard-pages")
        self.made = 0
        """How many responses were rendered."""

    def older(self, key: Key, who: str = "") -> tuple[Key, bytes] | None:
        """The last response to the same question, if the one for this key cannot be had or made for `who` now."""
        with self._lock:
            latest = self._latest.get(key[0])
            if latest is None or key in self._kept or key in self._making or self._has_room(who):
                return None
            return latest, self._kept[latest]

    def _has_room(self, who: str) -> bool:
        if self._of_one is not None and self._asked_by[who] >= self._of_one:
            return False
        return len(self._making) < (WAITING if self._waiting is None else self._waiting)

    async def get(self, key: Key, make: Callable[[], bytes], who: str = "") -> bytes:
        """The response for a key, rendered if it is not cached; `who` asks for it.

        An error in `make` is raised for everyone who waits for it.
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            making = self._making.get(key)
            if making is None:
                if not self._has_room(who):
                    raise busy("page")
                making = self._making[key] = Future()
                making.set_running_or_notify_cancel()  # a cancelled request must not cancel it for the others
                self._asked_by[who] += 1
                self._threads.submit(self._make, key, make, making, who)
        return await asyncio.wrap_future(making)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _make(self, key: Key, make: Callable[[], bytes], making: Future[bytes], who: str) -> None:
        try:
            made = make()
        except BaseException as error:  # raised for everyone who waits
            with self._lock:
                self._done(key, who)
            making.set_exception(error)
            return
        with self._lock:
            self._done(key, who)
            self.made += 1
            self._keep(key, made)
        making.set_result(made)

    def _done(self, key: Key, who: str) -> None:
        del self._making[key]
        self._asked_by[who] -= 1
        if not self._asked_by[who]:
            del self._asked_by[who]

    def _keep(self, key: Key, made: bytes) -> None:
        self._kept[key], self._latest[key[0]] = made, key
        self._bytes += len(made)
        while len(self._kept) > KEPT_ANSWERS or self._bytes > KEPT_BYTES:
            old, gone = self._kept.popitem(last=False)
            self._bytes -= len(gone)
            if self._latest.get(old[0]) == old:
                del self._latest[old[0]]


def tag_of(*parts: object) -> str:
    """A weak ETag that changes with any of these, without revealing them."""
    return f'W/"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}"'


def has_already(request: Request, tag: str) -> bool:
    """Whether the client says that it already has the response with this tag."""
    known = request.headers.get("if-none-match", "")
    return any(part.strip().removeprefix("W/") == tag.removeprefix("W/") for part in known.split(","))
