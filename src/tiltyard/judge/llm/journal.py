"""The journal of batches: every batch is recorded before it is submitted.

`batches.jsonl` is append-only; each line is on disk before work continues. An `intent` names every custom id
and its question; `trying` comes before each attempt to submit it, `submitted` right after with the batch's id;
`collected` when every reply is kept, `abandoned` when the batch certainly does not exist. An intent with neither of the
last two is open: its requests are never sent again. `folder_lock` allows one asking process per folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Literal

import msgspec

from tiltyard.errors import ModelError
from tiltyard.files import append_bytes, json_line
from tiltyard.judge.llm.provider import Ask

JOURNAL_FILE = "batches.jsonl"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One request of an intent: its custom id and the ask it belongs to. `tries` counts how often it was in a batch."""

    custom_id: str
    key: str
    group: str = msgspec.field(name="shelf")  # its name in the file
    attempt: int
    fingerprint: str
    max_tokens: int
    tries: int = 1

    def restored(self, ask: Ask) -> Ask | None:
        """The ask of this entry, made from an ask of this run with the same key; None if the requests differ.

        An entry is the same request, or a later attempt at it: then, by the fingerprint, only the token limit differs.
        """
        if self.fingerprint == ask.request.fingerprint:
            return Ask(ask.key, ask.request, ask.group, self.attempt)
        if self.attempt > ask.attempt:
            request = msgspec.structs.replace(ask.request, max_tokens=self.max_tokens)
            return Ask(ask.key, request, ask.group, self.attempt)
        return None


class Intent(msgspec.Struct, frozen=True, kw_only=True, tag="intent", tag_field="kind"):
    """What is about to be submitted as one batch."""

    intent: str
    provider: str
    model: str
    created_at: float
    entries: tuple[Entry, ...]


class Trying(msgspec.Struct, frozen=True, kw_only=True, tag="trying", tag_field="kind"):
    """The intent is about to be submitted (again)."""

    intent: str
    at: float


class Submitted(msgspec.Struct, frozen=True, kw_only=True, tag="submitted", tag_field="kind"):
    """The provider took the intent as this batch; `adopted` when that was found out later."""

    intent: str
    batch_id: str
    at: float
    adopted: bool = False


class Collected(msgspec.Struct, frozen=True, kw_only=True, tag="collected", tag_field="kind"):
    """Every reply of the intent is saved."""

    intent: str
    at: float


class Abandoned(msgspec.Struct, frozen=True, kw_only=True, tag="abandoned", tag_field="kind"):
    """The intent never became a batch; its requests may be sent again."""

    intent: str
    at: float
    why: str


Record = Intent | Trying | Submitted | Collected | Abandoned


class OpenIntent(msgspec.Struct):
    """An open intent and its state."""

    intent: Intent
    last_try_at: float
    batch_id: str | None = None

    @property
    def id(self) -> str:
        return self.intent.intent


def intent_of(custom_id: str) -> str:
    """The id of the intent in a custom id: everything before its number."""
    return custom_id.rpartition("-")[0]


class Journal(msgspec.Struct):
    """The journal of one folder, opened by the one process that holds the folder's lock."""

    path: Path
    now: Callable[[], float]
    new_id: Callable[[], str] = lambda: uuid.uuid4().hex[:20]
    open: dict[str, OpenIntent] = msgspec.field(default_factory=dict)
    batch_ids: set[str] = msgspec.field(default_factory=set)

    @classmethod
    def in_folder(cls, folder: Path, now: Callable[[], float]) -> Journal:
        """The journal of a folder with everything open in it; a line that a killed process left torn is cut off."""
        journal = cls(folder / JOURNAL_FILE, now)
        if journal.path.exists():
            whole = 0
            for record, end in _records(journal.path):
                journal._apply(record)
                whole = end
            os.truncate(journal.path, whole)
        return journal

    def intend(self, provider: str, asks: Sequence[tuple[Ask, int]]) -> OpenIntent:
        """Record a planned batch: its asks, each with the number of times it will have been in a batch."""
        name = self.new_id()
        entries = tuple(
            Entry(
                custom_id=f"{name}-{number}",
                key=ask.key,
                group=ask.group,
                attempt=ask.attempt,
                fingerprint=ask.request.fingerprint,
                max_tokens=ask.request.max_tokens,
                tries=tries,
            )
            for number, (ask, tries) in enumerate(asks)
        )
        model = asks[0][0].request.model
        self._write(Intent(intent=name, provider=provider, model=model, created_at=self.now(), entries=entries))
        return self.open[name]

    def trying(self, intent: OpenIntent) -> None:
        self._write(Trying(intent=intent.id, at=self.now()))

    def submitted(self, intent: OpenIntent, batch_id: str, *, adopted: bool = False) -> None:
        self._write(Submitted(intent=intent.id, batch_id=batch_id, at=self.now(), adopted=adopted))

    def collected(self, intent: OpenIntent) -> None:
        self._write(Collected(intent=intent.id, at=self.now()))

    def abandoned(self, intent: OpenIntent, why: str) -> None:
        self._write(Abandoned(intent=intent.id, at=self.now(), why=why))

    def _apply(self, record: Record) -> None:
        if isinstance(record, Intent):
            self.open[record.intent] = OpenIntent(record, record.created_at)
        elif isinstance(record, Submitted):
            self.batch_ids.add(record.batch_id)
            if record.intent in self.open:
                self.open[record.intent].batch_id = record.batch_id
        elif isinstance(record, Trying):
            if record.intent in self.open:
                self.open[record.intent].last_try_at = record.at
        else:
            self.open.pop(record.intent, None)

    def _write(self, record: Record) -> None:
        append_line(self.path, record)
        self._apply(record)


def _records(path: Path) -> Iterator[tuple[Record, int]]:
    """The records of a journal, each with where its line ends. An unterminated last line is being written, or torn."""
    decoder = msgspec.json.Decoder(Record)
    end = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            end += len(line)
            try:
                yield decoder.decode(line), end
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ModelError(
                    f"{path}:{number}: the journal of batches is damaged ({error}). Restore it from a copy; "
                    "without it, batches that are under way would be paid for twice."
                ) from None


class JournalBatch(msgspec.Struct, kw_only=True):
    """One batch of a journal, for display. `name` is the provider's id, or ours if that is unknown.

    `state` is `open` (its requests are not sent again), `collected`, or `abandoned` with the reason in `why`.
    """

    name: str
    provider: str
    model: str
    requests: int
    created_at: float
    state: Literal["open", "collected", "abandoned"] = "open"
    why: str = ""


def list_batches(folder: Path) -> list[JournalBatch]:
    """Every batch in the journal of a folder, oldest first. Nothing is changed, and no lock is needed."""
    path = folder / JOURNAL_FILE
    if not path.is_file():
        raise ModelError(f"there is no {path}: no batch was ever sent from {folder}. Check the path.")
    batches: dict[str, JournalBatch] = {}
    for record, _ in _records(path):
        if isinstance(record, Intent):
            batches[record.intent] = JournalBatch(
                name=record.intent,
                provider=record.provider,
                model=record.model,
                requests=len(record.entries),
                created_at=record.created_at,
            )
        elif batch := batches.get(record.intent):
            if isinstance(record, Submitted):
                batch.name = record.batch_id
            elif isinstance(record, Collected):
                batch.state = "collected"
            elif isinstance(record, Abandoned):
                batch.state, batch.why = "abandoned", record.why
    return list(batches.values())


def forget_batch(folder: Path, name: str, now: Callable[[], float]) -> int:
    """Abandon an open batch, so that its requests are sent, and paid for, again; returns how many there are.

    Use it for a batch that the provider no longer has. `name` is as in `JournalBatch`.
    """
    known = [batch.name for batch in list_batches(folder) if batch.state == "open"]
    with _lock_file(folder) as descriptor:
        if not _take(descriptor):
            raise ModelError(f"a process is asking in {folder}. Wait until it has ended, or stop it, then try again.")
        journal = Journal.in_folder(folder, now)
        for intent in journal.open.values():
            if name in (intent.batch_id, intent.id):
                journal.abandoned(intent, "forgotten")
                return len(intent.intent.entries)
    listed = f"Open are {', '.join(known)}." if known else "No batch is open."
    raise ModelError(f"{folder / JOURNAL_FILE} has no open batch {name}. {listed}")


def append_line(path: Path, record: object) -> None:
    """Add a record to a JSON Lines file; the whole line is on disk when this returns."""
    append_bytes(path, json_line(record))


LOCK_FILE = "asking.lock"
_LOOK_AGAIN_SECONDS = 0.5
_SHARED: ContextVar[dict[Path, Journal]] = ContextVar("journals of folders that tasks of this process share")


@asynccontextmanager
async def shared_folder(
    folder: Path,
    now: Callable[[], float],
    *,
    notice: Callable[[str], None],
    sleep: Callable[[float], Awaitable[None]],
) -> AsyncIterator[None]:
    """Tasks started inside the block may ask in the folder side by side: they share its lock and its journal."""
    async with folder_lock(folder, notice=notice, sleep=sleep):
        token = _SHARED.set({folder.resolve(): Journal.in_folder(folder, now)})
        try:
            yield
        finally:
            _SHARED.reset(token)


def shared_journal(folder: Path) -> Journal | None:
    """The journal that the tasks of this process share, inside `shared_folder`; None elsewhere."""
    return _SHARED.get({}).get(folder.resolve())


@asynccontextmanager
async def folder_lock(
    folder: Path, *, notice: Callable[[str], None], sleep: Callable[[float], Awaitable[None]]
) -> AsyncIterator[None]:
    """Exclusive use of the folder inside the block; if another process holds it, wait and say so once.

    The lock is `flock` on a permanent file, so it needs a file system with locks (a local disk, NFS 4).
    """
    if shared_journal(folder) is not None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with _lock_file(folder) as descriptor:
        if not _take(descriptor):
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "another process"
            notice(
                f"process {holder} is asking in {folder}: waiting until it has ended, then going on with what is left."
            )
            while not _take(descriptor):
                await sleep(_LOOK_AGAIN_SECONDS)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield


@contextlib.contextmanager
def _lock_file(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
