"""What generating stores beside an entrant's responses: the turns of unfinished conversations, and failures.

`conversations_<entrant>.jsonl` only grows until a response is complete. A line is one reply under the key of its ask, a
fingerprint of everything that was sent including earlier turns, so a reply to different texts is not reused.
`failures_<entrant>.jsonl` names every prompt without a response, and why; it is rewritten after each run.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tiltyard.errors import ModelError
from tiltyard.files import write_lines
from tiltyard.llm.journal import append_line
from tiltyard.llm.records import Reply


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a conversation. `turn` counts from 1."""

    key: str
    prompt_id: str
    turn: int
    reply: Reply


@dataclass(slots=True)
class TurnLog:
    """The saved replies of an entrant's conversations by key. Readers and writers hold the folder's lock."""

    path: Path
    _replies: dict[str, Reply] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, entrant_id: str) -> TurnLog:
        """The replies beside the responses of an entrant; nothing is read yet."""
        return cls(folder / f"conversations_{entrant_id}.jsonl")

    def read(self) -> None:
        """Read the whole file. A torn last line, left by a killed process, is cut off."""
        self._replies.clear()
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole != len(data):
            os.truncate(self.path, whole)
        decoder = msgspec.json.Decoder(Turn)
        for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
            try:
                turn = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ModelError(
                    f"{self.path}:{number}: not a turn of a conversation ({error}). Remove the line: that turn is then "
                    "asked for, and paid, once more."
                ) from None
            self._replies[turn.key] = turn.reply

    def get(self, key: str) -> Reply | None:
        """The reply kept under a key."""
        return self._replies.get(key)

    def keep(self, key: str, prompt_id: str, turn: int, reply: Reply) -> None:
        """Save a reply: it is on disk when this returns. The first one under a key is kept."""
        if key not in self._replies:
            append_line(self.path, Turn(key=key, prompt_id=prompt_id, turn=turn, reply=reply))
            self._replies[key] = reply


class FailedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `failures_<entrant>.jsonl`: a prompt without a response, and why."""

    prompt_id: str
    error: str
    timestamp: str


@dataclass(slots=True)
class FailureLog:
    """The prompts of an entrant that failed in earlier runs."""

    path: Path
    _lines: dict[str, FailedPrompt] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, entrant_id: str) -> FailureLog:
        """The failures file beside the responses of an entrant; nothing is read yet."""
        return cls(folder / f"failures_{entrant_id}.jsonl")

    def __contains__(self, prompt_id: str) -> bool:
        return prompt_id in self._lines

    def read(self) -> None:
        """Read the file; an unreadable line is skipped, since the file only affects the order of asking."""
        if not self.path.exists():
            return
        for line in self.path.read_bytes().split(b"\n"):
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                found = msgspec.json.decode(line, type=FailedPrompt)
                self._lines[found.prompt_id] = found

    def write(self, failed: Mapping[str, str], answered: Collection[str], timestamp: str) -> None:
        """Write every prompt that failed, now or before, and is not answered; without any, there is no file."""
        new = {name: FailedPrompt(prompt_id=name, error=why, timestamp=timestamp) for name, why in failed.items()}
        lines = [line for name, line in (self._lines | new).items() if name not in answered]
        if lines:
            write_lines(self.path, lines)
        else:
            self.path.unlink(missing_ok=True)
