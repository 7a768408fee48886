"""What the fake server remembers: every request it accepted, by content, and every batch; on disk if asked to."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

GOOD = ("succeeded", "repeated")


def content_of(body: dict[str, Any]) -> str:
    """The name of what was asked: equal only for equal bodies."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Accepted:
    """One request that was accepted: alone or in a batch, and what became of it."""

    content: str
    body: dict[str, Any]
    outcome: str
    custom_id: str | None = None
    batch_id: str | None = None


@dataclass
class Batch:
    """A batch that was accepted. `entries` are (custom id, body, outcome)."""

    id: str
    wire: str
    created_at: float
    entries: list[tuple[str, dict[str, Any], str]]
    metadata: dict[str, str] | None = None
    input_file_id: str | None = None
    failure: dict[str, Any] | None = None
    canceled: bool = False
    archived: bool = False
    polls: int = 0


@dataclass
class Ledger:
    """Requests, batches and files, in the order they came. With a folder, a restarted server finds them again."""

    folder: Path | None = None
    accepted: list[Accepted] = field(default_factory=list)
    batches: dict[str, Batch] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    heard: deque[tuple[str, dict[str, str]]] = field(default_factory=lambda: deque(maxlen=100))
    """The address and headers of the latest calls."""
    cached: set[str] = field(default_factory=set)
    billed: Counter[str] = field(default_factory=Counter)
    """The tokens of all answers that were handed out, in our names for them, and how many answers there were."""
    _times: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if self.folder is None:
            return
        (self.folder / "files").mkdir(parents=True, exist_ok=True)
        for record in self._read("accepted.jsonl"):
            self._remember(Accepted(**record))
        for record in self._read("batches.jsonl"):
            self.batches[record["id"]] = Batch(**{**record, "entries": [tuple(e) for e in record["entries"]]})
        for path in sorted((self.folder / "files").iterdir()):
            self.files[path.name] = path.read_bytes()

    def accept(self, accepted: Accepted) -> None:
        """Count a request; from here on it is paid for."""
        self._remember(accepted)
        self._write("accepted.jsonl", asdict(accepted))

    def add_batch(self, batch: Batch) -> None:
        """Accept a batch and every request in it."""
        self.batches[batch.id] = batch
        self._write("batches.jsonl", asdict(batch))
        for custom_id, body, outcome in batch.entries:
            self.accept(Accepted(content_of(body), body, outcome, custom_id, batch.id))

    def add_file(self, content: bytes) -> str:
        """Keep an uploaded file; its id."""
        file_id = f"file-{len(self.files) + 1:04d}"
        self.files[file_id] = content
        if self.folder is not None:
            (self.folder / "files" / file_id).write_bytes(content)
        return file_id

    def times(self, content: str) -> int:
        """How often this content was accepted so far."""
        return self._times[content]

    def counts(self) -> Counter[str]:
        """How often each content was accepted, whatever became of it."""
        return Counter(self._times)

    def paid_twice(self) -> dict[str, int]:
        """The contents that were accepted again although an answer was there: what a client must never do."""
        answered = Counter(one.content for one in self.accepted if one.outcome in GOOD)
        return {content: times for content, times in answered.items() if times > 1}

    def summary(self) -> dict[str, Any]:
        """Everything worth knowing, as JSON, for a test in another process."""
        return {
            "accepted": len(self.accepted),
            "contents": len(self._times),
            "counts": dict(self._times),
            "outcomes": dict(Counter(one.outcome for one in self.accepted)),
            "paid_twice": self.paid_twice(),
            "batches": [{"id": b.id, "size": len(b.entries), "metadata": b.metadata} for b in self.batches.values()],
            "calls": dict(self.calls),
        }

    def _remember(self, accepted: Accepted) -> None:
        self.accepted.append(accepted)
        self._times[accepted.content] += 1

    def _read(self, name: str) -> list[dict[str, Any]]:
        assert self.folder is not None
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _write(self, name: str, record: dict[str, Any]) -> None:
        if self.folder is not None:
            with (self.folder / name).open("a") as stream:
                stream.write(json.dumps(record) + "\n")
