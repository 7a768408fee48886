"""A run of its own process, to be killed: `python -m tests.judge.llm.killable FOLDER [options]`.

With `--kill-at N` it ends itself with SIGKILL at the N-th point where something could be half done: in the middle of a
write, before and after it is on disk, before and after the provider accepts, at each reply. Without, it prints how
many points it passed. The provider's state lies in FOLDER/provider, the work in FOLDER/work.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from tests.judge.llm.providers_in_memory import answer, asks, larger_budget
from tiltyard.judge.llm import (
    Ask,
    AskingParts,
    AskingSettings,
    PriceTable,
    Provider,
    Reply,
    Request,
    Stop,
    Usage,
    ask_all,
    make_provider,
)
from tiltyard.judge.llm.journal import append_line
from tiltyard.judge.llm.provider import BatchLimits, BatchState, ModelName


class Fuse:
    """Counts the points passed, and ends the process at one of them."""

    def __init__(self, kill_at: int | None) -> None:
        self.passed = 0
        self._kill_at = kill_at
        self._write, self._fsync = os.write, os.fsync
        os.write, os.fsync = self._half_write, self._watched_fsync  # type: ignore[assignment]

    def point(self) -> None:
        self.passed += 1
        if self.passed == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _half_write(self, descriptor: int, data: memoryview) -> int:
        self.point()
        if self.passed + 1 == self._kill_at:
            self._write(descriptor, data[: len(data) // 2])
        self.point()
        return self._write(descriptor, data)

    def _watched_fsync(self, descriptor: int) -> None:
        self.point()
        self._fsync(descriptor)
        self.point()


class FolderProvider:
    """A provider whose batches are files, one each: what is there was accepted. It keeps no tags."""

    def __init__(self, folder: Path, fuse: Fuse) -> None:
        self._folder = folder
        self._fuse = fuse
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def name(self) -> str:
        return "folder"

    @property
    def batch_limits(self) -> BatchLimits:
        return BatchLimits(requests=7, bytes=10**6)

    def encoded_size(self, request: Request) -> int:
        return len(msgspec.json.encode(request))

    async def ask(self, request: Request) -> Reply:
        raise NotImplementedError

    async def aclose(self) -> None:
        pass

    async def submit(self, requests: Sequence[tuple[str, Request]], tag: str) -> str:
        self._fuse.point()
        before = accepted(self._folder)
        entries = [(custom_id, request, self._outcome(request, before)) for custom_id, request in requests]
        batch_id = f"batch_{len(list(self._folder.glob('batch_*'))):04d}"
        record = {"created_at": time.time(), "entries": entries}
        unfinished = self._folder / "unfinished"
        unfinished.write_bytes(msgspec.json.encode(record))
        self._fuse.point()
        unfinished.rename(self._folder / batch_id)
        self._fuse.point()
        return batch_id

    def _outcome(self, request: Request, before: Counter[str]) -> Reply | None:
        """One question in five is lost the first time, one in five needs twenty tokens."""
        number = int(request.user.split()[1])
        if number % 5 == 0 and not before[request.fingerprint]:
            return None if number % 2 else Reply(error="expired")
        if number % 5 == 1 and request.max_tokens < 20:
            return Reply(text="cut", stop=Stop.LENGTH, usage=Usage(output_tokens=10))
        return answer(request)

    async def state(self, batch_id: str) -> BatchState:
        self._fuse.point()
        record = json.loads((self._folder / batch_id).read_bytes())
        ended = time.time() > record["created_at"] + 0.01
        return BatchState(batch_id, ended, record["created_at"], len(record["entries"]))

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Reply]]:
        for custom_id, _, outcome in read_batch(self._folder / batch_id):
            self._fuse.point()
            if outcome is not None:
                yield custom_id, outcome

    async def recent_batches(self) -> AsyncIterator[BatchState]:
        for path in sorted(self._folder.glob("batch_*"), reverse=True):
            self._fuse.point()
            yield await self.state(path.name)


def read_batch(path: Path) -> list[tuple[str, Request, Reply | None]]:
    record = json.loads(path.read_bytes())
    return msgspec.convert(record["entries"], list[tuple[str, Request, Reply | None]])


def accepted(folder: Path) -> Counter[str]:
    """How often each request was accepted."""
    paths = folder.glob("batch_*")
    return Counter(request.fingerprint for path in paths for _, request, _ in read_batch(path))


def answered(folder: Path) -> Counter[str]:
    """How often each request was accepted and answered."""
    entries = [entry for path in folder.glob("batch_*") for entry in read_batch(path)]
    return Counter(request.fingerprint for _, request, outcome in entries if outcome and not outcome.error)


class LineStore:
    """A sink on disk: one line for each key that ended."""

    def __init__(self, path: Path, fuse: Fuse) -> None:
        self.path = path
        self._fuse = fuse

    def missing(self, what: list[Ask]) -> list[Ask]:
        have = {json.loads(line)["key"] for line in whole_lines(self.path)}
        return [ask for ask in what if ask.key not in have]

    def __call__(self, ask: Ask, reply: Reply) -> Ask | None:
        self._fuse.point()
        further = larger_budget(ask, reply)
        if further is None:
            line = {"key": ask.key, "text": reply.text, "error": reply.error, "attempt": ask.attempt}
            append_line(self.path, line)
        self._fuse.point()
        return further


def whole_lines(path: Path) -> list[bytes]:
    """The lines of a file that end; a torn one, with what was written behind it, is cut off."""
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) != len(data):
        path.write_bytes(whole)
    return whole.splitlines()


def _provider(options: argparse.Namespace, fuse: Fuse) -> Provider:
    if options.maker is None:
        return FolderProvider(options.folder / "provider", fuse)
    env = {f"{options.maker.upper()}_API_KEY": "sk-test"}
    return make_provider(ModelName(options.maker, "some-model"), base_url=options.base_url, env=env)


async def _run(options: argparse.Namespace, fuse: Fuse) -> None:
    store = LineStore(options.folder / "work" / "replies.jsonl", fuse)
    provider = _provider(options, fuse)

    def missing():
        yield from store.missing(asks(options.count))

    settings = AskingSettings(
        batch=not options.direct,
        concurrency=4,
        max_batch=7,
        poll_initial_seconds=0.02,
        poll_max_seconds=0.02,
        adoption_grace_seconds=0.05,
    )
    try:
        totals = await ask_all(
            missing(),
            provider,
            store,
            AskingParts(
                prices=PriceTable.load(),
                settings=settings,
                notice=lambda line: print(line, file=sys.stderr, flush=True),  # noqa: T201
                rng=random.Random(0),
            ),
            folder=options.folder / "work",
        )
    finally:
        await provider.aclose()
    print(json.dumps({"points": fuse.passed, "sent": totals.all.sent, "done": totals.all.done}))  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kill-at", type=int)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--maker", help="whose server to ask instead")
    parser.add_argument("--base-url", help="the address of that server")
    parser.add_argument("--direct", action="store_true")
    options = parser.parse_args()
    (options.folder / "work").mkdir(parents=True, exist_ok=True)
    asyncio.run(_run(options, Fuse(options.kill_at)))


if __name__ == "__main__":
    main()
