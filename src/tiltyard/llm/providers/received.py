"""Cleaning what a server sent: JSON values of the expected type, or absent; messages on one line.

It knows no SDK.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec

from tiltyard.llm.keys import redact
from tiltyard.llm.records import UNREADABLE, Reply

_LARGEST_COUNT = 2**53
_LONGEST_NAME = 80
LONGEST_LINE = 8_000_000
"""The longest line of a file of results, in bytes: one reply with its probabilities takes less."""
_BEGINNING = 2_000
"""How many bytes of an unreadable line are kept."""
_CUSTOM_ID = re.compile(rb'"(?:custom_id|key)"\s*:\s*"([\w-]{1,64})"')


class NotJSON(ValueError):
    """These bytes are not JSON, or only the beginning of some."""


def decode(data: bytes) -> Any:
    """The value of some JSON bytes; `NotJSON` if they are not JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        # the standard library accepts lone surrogates, NaN and Infinity as JSON; msgspec does not
        return json.loads(data)
    except (ValueError, RecursionError):
        pass
    raise NotJSON


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A line of a file of results that is not JSON, or too long: its number, its beginning, and what is wrong."""

    number: int
    beginning: bytes
    problem: str

    def result(self) -> tuple[str, Reply]:
        """The custom id that can be read in it, or "", and a reply that says what is wrong.

        It was paid for, but nobody knows how many tokens it took.
        """
        found = _CUSTOM_ID.search(self.beginning)
        quoted = one_line(self.beginning[:_LONGEST_NAME].decode(errors="replace")).rstrip(".")
        words = f"line {self.number} {self.problem} (“{quoted}…”)"
        return found[1].decode() if found else "", Reply(error=UNREADABLE, text=words, usage=None, batched=True)


async def decode_lines(
    chunks: AsyncIterator[bytes], longest: int = LONGEST_LINE
) -> AsyncIterator[Any | UnreadableLine]:
    """The values of JSON Lines, as their bytes arrive, or an `UnreadableLine`; blank lines are skipped."""
    number, size = 1, 0
    begun: list[bytes] = []
    async for chunk in chunks:
        for place, piece in enumerate(chunk.split(b"\n")):
            if place:
                line = b"".join(begun)
                if line.strip() or size > longest:
                    yield _decoded(number, line, size, longest)
                number, size, begun = number + 1, 0, []
            size += len(piece)
            begun.append(piece)
            if size > longest:
                begun = [b"".join(begun)[:_BEGINNING]]
    line = b"".join(begun)
    if line.strip() or size > longest:
        yield _decoded(number, line, size, longest)


def _decoded(number: int, line: bytes, size: int, longest: int) -> Any | UnreadableLine:
    if size > longest:
        return UnreadableLine(number, line, f"has {size:,} bytes, more than the {longest:,} that a reply may have")
    try:
        return decode(line)
    except NotJSON:
        return UnreadableLine(number, line[:_BEGINNING], "is not JSON")


def an_object(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def a_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def a_text(value: object) -> str | None:
    """The value if it is a text, in characters that a file can hold."""
    return encodable(value) if isinstance(value, str) else None


def a_name(value: object) -> str:
    """A text or number as a short word on one line; empty for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return " ".join(encodable(str(value)).split())[:_LONGEST_NAME]


def a_number(value: object) -> float | None:
    """A number, also one written as text; None for anything else, NaN included."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number


def a_count(value: object) -> int | None:
    """A whole number of things, also one written as text; None for anything else."""
    number = a_number(value)
    if number is None or not 0 <= number <= _LARGEST_COUNT or number != int(number):
        return None
    return int(number)


def joined_texts(content: object) -> str | None:
    """The text of a message whose content is a text or a list of parts; None if it is neither.

    Parts that are not text (thoughts, images, calls of tools) are left out.
    """
    if not isinstance(content, list):
        return a_text(content)
    parts = (part if isinstance(part, str) else _text_of(an_object(part)) for part in content)
    return encodable("".join(part for part in parts if part is not None))


def arguments_text(value: object) -> str:
    """The arguments of a tool call as JSON text: most servers send text, some the object itself."""
    if isinstance(value, str):
        return encodable(value)
    try:
        return encodable(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        return ""


def _text_of(part: dict[str, Any]) -> str | None:
    text = part.get("text")
    return text if part.get("type") in ("text", "output_text") and isinstance(text, str) else None


_LONGEST_MESSAGE = 300


_UNSEEN = ("Cc", "Cf")
"""Control and format characters: escape sequences, characters that change the writing direction."""


def encodable(said: str) -> str:
    """The text with `?` for each lone surrogate: JSON can encode one, but UTF-8 cannot."""
    return said.encode("utf-8", "replace").decode()


def one_line(said: str, advice: str = "") -> str:
    """A message of one line, not too long, without secrets and terminal control characters."""
    plain = "".join(" " if unicodedata.category(letter) in _UNSEEN else letter for letter in encodable(said))
    line = " ".join(redact(plain).split())
    if len(line) > _LONGEST_MESSAGE:
        line = line[: _LONGEST_MESSAGE - 1] + "…"
    return f"{line.rstrip('.')}. {advice}".strip()
