"""The verdict cache of a dimension: an append-only file and a small index into it.

Every line of `judgments_<dimension>.jsonl` is one verdict, keyed by the fingerprint of its request. The first readable
verdict of a key is final. Failures are kept as attempts, so an interrupted run knows how often it has asked. Each line
is written in one piece under a lock; a writer that is killed midway leaves a torn last line, which the next writer
terminates and every reader skips.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import threading
import time
import weakref
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import JudgingError
from tiltyard.files import json_line
from tiltyard.judging.records import Verdict

SYNC_SECONDS = 0.05
"""How long a written line may wait before it is synced to disk: `kill -9` loses nothing, a power cut might."""

FRESH = 1 << 16
"""New verdicts are merged into the index once there are this many, or an eighth of the index if that is more."""

_BLOCK = 1 << 23
_LINE = 1 << 12
_NOT_IN_A_NAME = re.compile(r"[^\w.-]")
_VERDICT = msgspec.json.Decoder(Verdict)


def cache_path(folder: str | Path, dimension: str) -> Path:
    """The file of a dimension's verdicts. Characters unsuitable for a file name become `_`."""
    return Path(folder) / f"judgments_{_NOT_IN_A_NAME.sub('_', dimension)}.jsonl"


class ReplyLengths(NamedTuple):
    """How many replies there were, and how many tokens they had together."""

    replies: int = 0
    tokens: int = 0

    def __add__(self, other: object) -> ReplyLengths:
        replies, tokens = other if isinstance(other, ReplyLengths) else (0, 0)
        return ReplyLengths(self.replies + replies, self.tokens + tokens)

    @property
    def mean(self) -> float:
        """Tokens of a reply, on average."""
        return self.tokens / max(1, self.replies)


class VerdictCache:
    """The verdicts of one dimension by cache key. Several processes may add to the same file at once.

    The file and its folder are created when the first verdict is added: a quote or a dry run leaves nothing behind.
    What another process adds is seen at the next `add` or `refresh`. `unreadable_lines` counts the skipped lines;
    `reply_lengths` knows how long the replies were that were found in the file.

    Parameters:
        folder: The judge's folder.
        dimension: What is judged; each dimension has one rubric.
        sync_seconds: How long a written line may wait before it is synced to disk.
    """

    def __init__(self, folder: str | Path, dimension: str, *, sync_seconds: float = SYNC_SECONDS) -> None:
        self.path = cache_path(folder, dimension)
        self.unreadable_lines = 0
        self.reply_lengths: dict[str, ReplyLengths] = {}
        self._lock = threading.Lock()
        self._sync_seconds = sync_seconds
        self._sync_lock = threading.Lock()
        self._syncing = self._unsynced = False
        self._sync_error: OSError | None = None
        self._fresh: dict[str, int] = {}
        self._failed: dict[str, list[int]] = {}
        self._read_to = 0
        self._file: int | None = None
        self._open(create=False)
        self._sorted = self._load()

    def __len__(self) -> int:
        """How many keys have a readable verdict."""
        return len(self._sorted) + len(self._fresh)

    def __contains__(self, key: str) -> bool:
        """Whether there is a readable verdict for a key."""
        return key in self._fresh or self._sorted.find(key) is not None

    def get(self, key: str) -> Verdict | None:
        """The readable verdict of a key, or None."""
        offset = self._fresh.get(key)
        if offset is None:
            offset = self._sorted.find(key)
        return None if offset is None else self._verdict_at(offset)

    def find_all(self, heads: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Where the readable verdict of each key is, for `read`; -1 where there is none.

        Parameters:
            heads: The first 128 bits of each key, as two numbers.
        """
        places = self._sorted.find_all(heads)
        if self._fresh:
            fresh = _SortedIndex(array("Q"), array("Q")).with_more(self._fresh).find_all(heads)
            places = np.where(fresh >= 0, fresh, places)
        return places

    def read(self, place: int) -> Verdict:
        """The verdict at a place that `find_all` gave."""
        return self._verdict_at(place)

    @property
    def any_failed(self) -> bool:
        """Whether there is a failed attempt at any key."""
        return bool(self._failed)

    def attempts(self, key: str) -> list[Verdict]:
        """The failed attempts at a key, oldest first."""
        return [self._verdict_at(offset) for offset in self._failed.get(key, ())]

    def attempts_made(self, key: str) -> int:
        """How many failed attempts at a key there are."""
        return len(self._failed.get(key, ()))

    def add(self, verdict: Verdict) -> None:
        """Save a verdict; a key that already has a readable verdict, from any process, keeps it.

        On return the line is in the file; it is synced to disk within `sync_seconds` of the first unsynced line.
        """
        with self._lock, _FileLock(self._open(create=True)):
            self._catch_up()
            if verdict.cache_key not in self:
                self._append(verdict)

    def refresh(self) -> None:
        """Read what other processes have added."""
        with self._lock:
            self._open(create=False)
            self._catch_up()

    def flush(self) -> None:
        """Sync everything that was added to disk."""
        if self._file is not None:
            os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._close()

    def _open(self, *, create: bool) -> int:
        """The open file; -1 if there is none and none should be created."""
        if self._file is not None:
            return self._file
        try:
            if create:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0), 0o644)
        except FileNotFoundError:
            if not create:
                return -1
            raise JudgingError(f"cannot make the verdict cache {self.path}: its folder was removed.") from None
        except OSError as error:
            raise JudgingError(f"cannot open the verdict cache {self.path}: {error.strerror}.") from None
        self._close = weakref.finalize(self, os.close, self._file)
        return self._file

    def _load(self) -> _SortedIndex:
        """The index of the file; failures and the newest verdicts go to the small dictionaries."""
        digests, offsets = array("Q"), array("Q")
        for offset, verdict in self._new_verdicts():
            if verdict.verdict.readable:
                digests.extend(_digest(verdict.cache_key))
                offsets.append(offset)
            else:
                self._failed.setdefault(verdict.cache_key, []).append(offset)
        return _SortedIndex(digests, offsets)

    def _catch_up(self) -> None:
        for offset, verdict in self._new_verdicts():
            self._enter(verdict, offset)

    def _enter(self, verdict: Verdict, offset: int) -> None:
        key = verdict.cache_key
        if verdict.verdict.readable:
            if key not in self:
                self._fresh[key] = offset
                if len(self._fresh) >= max(FRESH, len(self._sorted) // 8):
                    self._sorted = self._sorted.with_more(self._fresh)
                    self._fresh = {}
        elif offset not in (places := self._failed.setdefault(key, [])):
            places.append(offset)

    def _append(self, verdict: Verdict) -> None:
        """Write one line at the end, closing a torn end first."""
        line = json_line(verdict)
        file = self._open(create=True)
        try:
            end = os.fstat(file).st_size
            torn = end > self._read_to
            written = os.write(file, b"\n" + line if torn else line)
            if written < len(line) + torn:
                raise JudgingError(f"the disk of {self.path} is full. Make room and run again: nothing is lost.")
            self._sync(file)
        except OSError as error:
            raise JudgingError(f"cannot write to the verdict cache {self.path}: {error.strerror}.") from None
        self._enter(verdict, end + torn)
        if not torn:
            self._read_to = end + len(line)

    def _sync(self, file: int) -> None:
        """Have the file synced soon, by a thread: a slow disk does not hold up the questions on their way."""
        if self._sync_error is not None:
            raise self._sync_error
        if self._sync_seconds <= 0:
            os.fsync(file)
            return
        with self._sync_lock:
            self._unsynced = True
            if not self._syncing:
                self._syncing = True
                threading.Thread(target=self._sync_until_done, args=(file,), daemon=True).start()

    def _sync_until_done(self, file: int) -> None:
        """Sync after a moment, and again while more lines come."""
        while True:
            time.sleep(self._sync_seconds)
            with self._sync_lock:
                self._syncing = self._unsynced
                self._unsynced = False
            if not self._syncing:
                return
            try:
                os.fsync(file)
            except OSError as error:  # the next line that is added raises it
                self._sync_error = error

    def _new_verdicts(self) -> Iterator[tuple[int, Verdict]]:
        """Every verdict added since the last time, with its position; unreadable lines are counted and skipped."""
        for offset, line, complete in self._new_lines():
            try:
                verdict = _VERDICT.decode(line)
                if complete and verdict.output_tokens:
                    old = self.reply_lengths.get(verdict.judge_model, ReplyLengths())
                    self.reply_lengths[verdict.judge_model] = old + ReplyLengths(1, verdict.output_tokens)
                yield offset, verdict
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self.unreadable_lines += complete and bool(line.strip())

    def _new_lines(self) -> Iterator[tuple[int, bytes, bool]]:
        """Every line since the last time; an unterminated last line is included, and again once it is terminated."""
        if self._file is None:
            return
        rest = b""
        # A read allocates as much memory as it asks for, and most of the time there is nothing new.
        end = os.fstat(self._file).st_size
        while (start := self._read_to + len(rest)) < end and (
            block := os.pread(self._file, min(_BLOCK, end - start), start)
        ):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                yield self._read_to, line, True
                self._read_to += len(line) + 1
        if rest:
            yield self._read_to, rest, False

    def _verdict_at(self, offset: int) -> Verdict:
        size, file = _LINE, self._open(create=False)
        data = os.pread(file, size, offset)
        while b"\n" not in data and len(data) == size:
            size *= 4
            data = os.pread(file, size, offset)
        return _VERDICT.decode(data.partition(b"\n")[0])


class _FileLock:
    """Exclusive access to the file among all processes. The system releases the lock when a process dies."""

    def __init__(self, file: int) -> None:
        self._file = file

    def __enter__(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)


class _SortedIndex:
    """From key to file position in 24 bytes per entry: 128 bits of each key, sorted.

    Of equal keys, the first in the file is kept.
    """

    def __init__(self, digests: array[int], offsets: array[int]) -> None:
        pairs = np.frombuffer(digests, np.uint64).reshape(-1, 2)
        order = np.argsort(pairs[:, 0], kind="stable")
        pairs = pairs[order]
        again = np.zeros(len(order), bool)
        again[1:] = (pairs[1:] == pairs[:-1]).all(axis=1)
        self._high = _column(pairs[~again, 0])
        self._low = _column(pairs[~again, 1])
        self._offset = _column(np.frombuffer(offsets, np.uint64)[order[~again]])

    def with_more(self, places: dict[str, int]) -> _SortedIndex:
        """An index with these keys added; none of them was in it before."""
        digests, offsets = array("Q", bytes(16 * len(self))), array("Q", self._offset)
        pairs = np.frombuffer(digests, np.uint64).reshape(-1, 2)
        pairs[:, 0], pairs[:, 1] = np.frombuffer(self._high, np.uint64), np.frombuffer(self._low, np.uint64)
        del pairs  # an array with a view on it cannot grow
        for key, offset in places.items():
            digests.extend(_digest(key))
            offsets.append(offset)
        return _SortedIndex(digests, offsets)

    def __len__(self) -> int:
        return len(self._high)

    def find_all(self, heads: NDArray[np.uint64]) -> NDArray[np.int64]:
        places = np.full(len(heads), -1, dtype=np.int64)
        if not self._high or not len(heads):
            return places
        high, low = np.frombuffer(self._high, np.uint64), np.frombuffer(self._low, np.uint64)
        place = np.searchsorted(high, heads[:, 0])
        place[place == len(high)] = 0
        near = high[place] == heads[:, 0]
        same = near & (low[place] == heads[:, 1])
        places[same] = np.frombuffer(self._offset, np.uint64)[place[same]].astype(np.int64)
        for number in np.flatnonzero(near & ~same).tolist():
            position = self._find(int(heads[number, 0]), int(heads[number, 1]))
            if position is not None:
                places[number] = position
        return places

    def find(self, key: str) -> int | None:
        return self._find(*_digest(key)) if self._high else None

    def _find(self, high: int, low: int) -> int | None:
        place = bisect_left(self._high, high)
        while place < len(self._high) and self._high[place] == high:
            if self._low[place] == low:
                return self._offset[place]
            place += 1
        return None


def _column(values: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> array[int]:
    return array("Q", values.tobytes())


def _digest(key: str) -> tuple[int, int]:
    """128 bits of a key: its own first bits if it is the fingerprint of a request."""
    try:
        if len(key) == 64:
            return int(key[:16], 16), int(key[16:32], 16)
    except ValueError:
        pass
    bits = hashlib.sha256(key.encode()).digest()
    return int.from_bytes(bits[:8]), int.from_bytes(bits[8:16])
