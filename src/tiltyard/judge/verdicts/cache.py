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
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import JudgingError
from tiltyard.files import json_line, sync_to_disk
from tiltyard.judge.verdicts.records import Verdict

SYNC_SECONDS = 1.0
"""How often written lines are synced to disk: `kill -9` loses nothing, a power cut might."""

FRESH = 1 << 16
"""New verdicts are merged into the index once there are this many, or half of the index if that is more."""

Digests = NDArray[np.bytes_]
"""128 bits of each key, as `S16`."""

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
    `reply_lengths` knows how long the replies were that were found in the file. Memory holds 24 bytes for each
    readable verdict: half of its key, and its place in the file.

    Parameters:
        folder: The judge's folder.
        dimension: What is judged; each dimension has one rubric.
        sync_seconds: How often written lines are synced to disk; 0 is each line.
    """

    def __init__(self, folder: str | Path, dimension: str, *, sync_seconds: float = SYNC_SECONDS) -> None:
        self.path = cache_path(folder, dimension)
        self.unreadable_lines = 0
        self.reply_lengths: dict[str, ReplyLengths] = {}
        self._sync_seconds = sync_seconds
        self._synced_at = float("-inf")
        self._digests: Digests = np.empty(0, "S16")
        self._places = np.empty(0, np.int64)
        self._fresh: dict[bytes, int] = {}
        self._failed: dict[str, list[int]] = {}
        self._read_to = 0
        self._file: int | None = None
        self.refresh()

    def __len__(self) -> int:
        """How many keys have a readable verdict."""
        self._merge()
        return len(self._digests)

    def __contains__(self, key: str) -> bool:
        """Whether there is a readable verdict for a key."""
        return self._place(key) >= 0

    def get(self, key: str) -> Verdict | None:
        """The readable verdict of a key, or None."""
        place = self._place(key)
        return None if place < 0 else self.read(place)

    def find_all(self, digests: Digests) -> NDArray[np.int64]:
        """Where the readable verdict of each key is, for `read`; -1 where there is none."""
        self._merge()
        return self._search(digests)

    def read(self, place: int) -> Verdict:
        """The verdict at a place that `find_all` gave."""
        size, file = _LINE, self._open(create=False)
        data = os.pread(file, size, place)
        while b"\n" not in data and len(data) == size:
            size *= 4
            data = os.pread(file, size, place)
        return _VERDICT.decode(data.partition(b"\n")[0])

    @property
    def any_failed(self) -> bool:
        """Whether there is a failed attempt at any key."""
        return bool(self._failed)

    def attempts(self, key: str) -> list[Verdict]:
        """The failed attempts at a key, oldest first."""
        return [self.read(place) for place in self._failed.get(key, ())]

    def attempts_made(self, key: str) -> int:
        """How many failed attempts at a key there are."""
        return len(self._failed.get(key, ()))

    def add(self, verdict: Verdict) -> None:
        """Save a verdict; a key that already has a readable verdict, from any process, keeps it.

        On return the line is in the file; the next one to be added after `sync_seconds`, or `flush`, syncs it to disk.
        """
        file = self._open(create=True)
        fcntl.flock(file, fcntl.LOCK_EX)  # the system releases it if the process dies
        try:
            self._catch_up()
            if verdict.cache_key not in self:
                self._append(file, verdict)
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

    def refresh(self) -> None:
        """Read what other processes have added."""
        self._open(create=False)
        self._catch_up()

    def flush(self) -> None:
        """Sync everything that was added to disk."""
        if self._file is not None:
            sync_to_disk(self.path.parent)
            os.fsync(self._file)

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
        weakref.finalize(self, os.close, self._file)
        return self._file

    def _append(self, file: int, verdict: Verdict) -> None:
        """Write one line at the end, closing a torn end first."""
        line = json_line(verdict)
        try:
            end = os.fstat(file).st_size
            torn = end > self._read_to
            written = os.write(file, b"\n" + line if torn else line)
            if written < len(line) + torn:
                raise JudgingError(f"the disk of {self.path} is full. Make room and run again: nothing is lost.")
            if time.monotonic() - self._synced_at >= self._sync_seconds:
                os.fsync(file)
                self._synced_at = time.monotonic()
        except OSError as error:
            raise JudgingError(f"cannot write to the verdict cache {self.path}: {error.strerror}.") from None
        self._enter(verdict, end + torn)
        if not torn:
            self._read_to = end + len(line)

    def _catch_up(self) -> None:
        """Enter every verdict added since the last time; unreadable lines are counted and skipped."""
        for place, line, complete in self._new_lines():
            try:
                verdict = _VERDICT.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self.unreadable_lines += complete and bool(line.strip())
                continue
            if complete and verdict.output_tokens:
                old = self.reply_lengths.get(verdict.judge_model, ReplyLengths())
                self.reply_lengths[verdict.judge_model] = old + ReplyLengths(1, verdict.output_tokens)
            self._enter(verdict, place)

    def _enter(self, verdict: Verdict, place: int) -> None:
        if verdict.verdict.readable:
            self._fresh.setdefault(_digest(verdict.cache_key), place)
            if len(self._fresh) >= max(FRESH, len(self._digests) // 2):
                self._merge()
        elif place not in (places := self._failed.setdefault(verdict.cache_key, [])):
            places.append(place)

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

    def _merge(self) -> None:
        """Sort the fresh keys into the index; of equal keys, the first in the file is kept."""
        if self._fresh:
            digests = np.concatenate([self._digests, np.array(list(self._fresh), "S16")])
            self._digests, first = np.unique(digests, return_index=True)
            self._places = np.concatenate([self._places, np.array(list(self._fresh.values()), np.int64)])[first]
            self._fresh = {}

    def _search(self, digests: Digests) -> NDArray[np.int64]:
        if not len(self._digests):
            return np.full(len(digests), -1, np.int64)
        near = np.minimum(np.searchsorted(self._digests, digests), len(self._digests) - 1)
        return np.where(self._digests[near] == digests, self._places[near], -1)

    def _place(self, key: str) -> int:
        digest = _digest(key)
        place = int(self._search(np.array([digest], "S16"))[0])
        return self._fresh.get(digest, -1) if place < 0 else place


def _digest(key: str) -> bytes:
    """128 bits of a key: its own first bits if it is the fingerprint of a request."""
    try:
        if len(key) == 64:
            return bytes.fromhex(key)[:16]
    except ValueError:
        pass
    return hashlib.sha256(key.encode()).digest()[:16]
