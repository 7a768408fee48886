"""Conversations under way: the replies of their turns, kept in a file that only grows until a response is whole.

`conversations_<entrant>.jsonl` lies beside the entrant's responses. A line is one reply under the key of its ask, which
names everything that was sent, earlier turns included: a reply to other words is not found.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from tiltyard.errors import ModelError
from tiltyard.llm.journal import append_line
from tiltyard.llm.records import Reply  # noqa: TC001 - msgspec resolves it

if TYPE_CHECKING:
    from pathlib import Path


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a conversation. `turn` counts from 1."""

    key: str
    prompt_id: str
    turn: int
    reply: Reply


@dataclass(slots=True)
class TurnLog:
    """The kept replies of an entrant's conversations by key. Whoever reads or writes holds the lock of the asking."""

    path: Path
    _replies: dict[str, Reply] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, entrant_id: str) -> TurnLog:
        """Those beside the responses of an entrant; nothing is read yet."""
        return cls(folder / f"conversations_{entrant_id}.jsonl")

    def read(self) -> None:
        """Take in all that the file holds. The torn end that a kill leaves is cut off."""
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
        """Keep a reply: it is on disk when this returns. The first one under a key stays."""
        if key not in self._replies:
            append_line(self.path, Turn(key=key, prompt_id=prompt_id, turn=turn, reply=reply))
            self._replies[key] = reply
