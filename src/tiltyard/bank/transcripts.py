"""Transcripts of agents: messages with tool calls and their results, as one text of limited length for a judge."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

LEAST_CHARACTERS = 1_000
"""The smallest limit: below it a transcript says nothing."""

_STEP_CHARACTERS = 200
"""What a step takes at least: its heading, and a note that it was cut. If there is less, whole steps are left out."""

_LONGEST_NAME = 60


class CalledFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The function of a tool call."""

    name: str
    arguments: Any = ""


class CalledTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of a message."""

    function: CalledFunction
    id: str | None = None


class TranscriptMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a transcript, in OpenAI's shape; other fields are ignored."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    """Who speaks; `tool` and `function` are results."""
    content: str | list[Any] | None = None
    """What is said: a text, or a list of parts, of which only text is shown."""
    tool_calls: tuple[CalledTool, ...] | None = None
    """The tools that are called."""
    name: str | None = None
    """The tool whose result it is; else it is found by `tool_call_id`."""
    tool_call_id: str | None = None
    """The call whose result it is."""


@dataclass(frozen=True, slots=True)
class RenderedTranscript:
    """A transcript as a judge is shown it."""

    text: str
    characters_cut: int = 0
    """How many characters of the steps were left out."""


def render_transcript(
    messages: Sequence[TranscriptMessage], limit: int, *, final_answer: str = ""
) -> RenderedTranscript:
    """A transcript as numbered steps, in at most `limit` characters; what is cut is said where it was.

    The longest steps are shortened first, all to the same length, keeping their beginning and end; the last step, which
    is the answer, keeps up to half of the room. If there are too many steps, those in the middle are left out.

    Parameters:
        messages: What was said and done, in order.
        limit: The most characters; at least 1,000.
        final_answer: The answer, where it is not the last message.
    """
    steps = _steps(messages, final_answer)
    limit = max(limit, LEAST_CHARACTERS)
    whole = _render(steps, _Cuts(limit, limit, len(steps)))
    if len(whole.text) <= limit and not whole.characters_cut:
        return whole
    most_steps = max(2, limit // _STEP_CHARACTERS)
    lengths = range(limit)
    fitting = bisect_right(
        lengths, limit, key=lambda length: len(_render(steps, _Cuts(length, limit // 2, most_steps)).text)
    )
    return _render(steps, _Cuts(max(fitting - 1, 0), limit // 2, most_steps))


@dataclass(frozen=True, slots=True)
class _Cuts:
    """How long a step and the last step may be, and how many steps there may be."""

    step: int
    last: int
    steps: int


def _steps(messages: Sequence[TranscriptMessage], final_answer: str) -> list[tuple[str, str]]:
    """Every step with its heading."""
    steps: list[tuple[str, str]] = []
    called: dict[str, str] = {}
    for message in messages:
        said = _text(message.content)
        calls = message.tool_calls or ()
        if message.role in ("tool", "function"):
            tool = message.name or called.get(message.tool_call_id or "", "tool")
            steps.append((f"{_short(tool)} returns", said))
        elif said or not calls:
            steps.append((message.role, said))
        for call in calls:
            called[call.id or ""] = call.function.name
            steps.append((f"{message.role} calls {_short(call.function.name)}", _arguments(call.function.arguments)))
    if final_answer.strip() and (not steps or steps[-1] != ("assistant", final_answer)):
        steps.append(("final answer", final_answer))
    return steps


def _render(steps: Sequence[tuple[str, str]], cuts: _Cuts) -> RenderedTranscript:
    first, gone = len(steps), 0
    if len(steps) > cuts.steps:
        first, gone = cuts.steps // 3, len(steps) - cuts.steps
    shown, cut = [], 0
    for place, (heading, said) in enumerate(steps):
        if first <= place < first + gone:
            cut += len(said)
            if place == first:
                shown.append(f"[… {gone:,} steps cut …]")
            continue
        most = cuts.step if place < len(steps) - 1 else max(cuts.step, cuts.last)
        text, left_out = _shorten(said, most)
        cut += left_out
        shown.append(f"[{place + 1}] {heading}:\n{text}")
    note = f", {cut:,} characters cut where marked" if cut else ""
    return RenderedTranscript("\n\n".join([f"Transcript of {len(steps):,} steps{note}.", *shown]), cut)


def _shorten(text: str, most: int) -> tuple[str, int]:
    """The beginning and the end of a text that is too long, and how many characters are gone."""
    if len(text) <= most:
        return text, 0
    start, end = most - most // 3, most // 3
    gone = len(text) - start - end
    return f"{text[:start]}[… {gone:,} characters cut …]{text[len(text) - end :]}", gone


def _text(content: str | list[Any] | None) -> str:
    if not isinstance(content, list):
        return content or ""
    parts = (part if isinstance(part, dict) else {"type": "text", "text": str(part)} for part in content)
    return "".join(str(part["text"]) if "text" in part else f"[{part.get('type', 'part')}]" for part in parts)


def _arguments(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def _short(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= _LONGEST_NAME else f"{line[:_LONGEST_NAME]}…"
