"""What was said in a battle: `read_talk` turns one side's conversation, however it is written, into turns and replies.

Arenas publish a conversation as a list of messages `{role, content}`; the content is a text or a list of parts, and the
list may itself be a JSON text. Everything that reads a conversation ends here.
"""

from __future__ import annotations

import enum
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

Turns = Literal["first", "all"]


class Talk(NamedTuple):
    """One side of a battle: the user's messages, and the model's reply to each."""

    turns: tuple[str, ...]
    replies: tuple[str, ...]


class Silence(enum.IntEnum):
    """Why a side of a battle has nothing to show."""

    NO_TEXT = 1
    """There is no conversation, or no message, or no reply, or only blanks."""
    NOT_ONLY_TEXT = 2
    """A message carries something besides text, such as an image, that whoever sees the text alone would miss."""
    UNREADABLE = 3
    """What stands there is no list of messages."""


class NotText(Exception):
    """A message carries something besides text."""


def read_talk(conversation: object, turns: Turns) -> Talk | Silence:
    """The turns of a conversation (or its first one), or why there are none to show.

    A turn is what the user said before the model replied, and the reply; messages of the same side that follow each
    other are one text. System messages, a greeting by the model, and a last message that nobody replied to are left
    out.
    """
    if isinstance(conversation, str):
        try:
            conversation = msgspec.json.decode(conversation) if conversation.strip() else None
        except (msgspec.DecodeError, UnicodeError):
            return Silence.UNREADABLE
    if conversation is None:
        return Silence.NO_TEXT
    if not isinstance(conversation, list) or not all(isinstance(message, dict) for message in conversation):
        return Silence.UNREADABLE
    wanted = islice(_rounds(conversation), 1 if turns == "first" else None)
    try:
        texts = [(_joined(asked), _joined(replied)) for asked, replied in wanted]
    except NotText:
        return Silence.NOT_ONLY_TEXT
    if not texts or not all(asked.strip() and replied.strip() for asked, replied in texts):
        return Silence.NO_TEXT
    return Talk(tuple(asked for asked, _ in texts), tuple(replied for _, replied in texts))


def _rounds(messages: list[dict[str, object]]) -> Iterator[tuple[list[object], list[object]]]:
    """The contents of the user's messages and of the replies to them, turn by turn."""
    asked: list[object] = []
    replied: list[object] = []
    for message in messages:
        if message.get("role") == "user":
            if replied:
                yield asked, replied
                asked, replied = [], []
            asked.append(message.get("content"))
        elif message.get("role") == "assistant" and asked:
            replied.append(message.get("content"))
    if replied:
        yield asked, replied


def _joined(contents: list[object]) -> str:
    return _text(contents[0]) if len(contents) == 1 else "\n\n".join(map(_text, contents))


def _text(content: object) -> str:
    """The text of a message: of a plain content, or of its parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(_text, content))
    if isinstance(content, dict) and content.get("type", "text") == "text":
        text = content.get("text")
        if text is None or isinstance(text, str):
            return text or ""
    raise NotText
