"""The response cache: what each entrant answered, one file `responses_<entrant>.jsonl` each, and its style."""

from __future__ import annotations

import enum
import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.data.bank.prompts import convert, read_objects
from tiltyard.errors import BankError
from tiltyard.files import append_bytes, json_line

STYLE = ("len", "headings", "lists", "bold")
"""What is measured of an answer, by the names that control it: characters, headings, list items, bold passages."""

_FENCED = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+\S", re.MULTILINE)
_LIST_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\S", re.MULTILINE)
_BOLD = re.compile(r"\*\*(?=\S)[^\n]+?\*\*|(?<!\w)__(?=\S)[^\n]+?__(?!\w)")


def measure_style(text: str) -> tuple[int, int, int, int]:
    """Characters, Markdown headings, list items and bold passages of an answer; code blocks count as length only."""
    prose = _FENCED.sub("", text) if "```" in text or "~~~" in text else text
    headings = len(_HEADING.findall(prose)) if "#" in prose else 0
    bold = len(_BOLD.findall(prose)) if "**" in prose or "__" in prose else 0
    return len(text), headings, len(_LIST_ITEM.findall(prose)), bold


class AnswerStyles:
    """The style of many answers, each measured once, when it is first asked for; 16 bytes of numbers an answer."""

    def __init__(self) -> None:
        self._places: dict[str, dict[str, int]] = {}
        self._numbers = array("i")

    def place(self, entrant: str, prompt_id: str, text: Callable[[], str]) -> int:
        """The number of an answer among those measured; its text is looked at only the first time."""
        known = self._places.setdefault(entrant, {})
        position = known.get(prompt_id)
        if position is None:
            position = known[prompt_id] = len(self._numbers) // len(STYLE)
            self._numbers.extend(measure_style(text()))
        return position

    def table(self) -> NDArray[np.int32]:
        """All answers measured so far, a row each, in columns of `STYLE`."""
        return np.array(self._numbers, dtype=np.int32).reshape(-1, len(STYLE))


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


class RenderedTranscript(msgspec.Struct, frozen=True):
    """A transcript as a judge is shown it."""

    text: str
    characters_cut: int = 0
    """How many characters of the steps were left out."""


def render_transcript(
    messages: Sequence[TranscriptMessage], limit: int, *, final_answer: str = ""
) -> RenderedTranscript:
    """A transcript as numbered steps, in at most `limit` characters; what is cut is said where it was.

    The longest steps are shortened first, all to the same length, keeping their beginning and end; the last step, which
    is the answer, keeps up to half of the room. If there are too many steps, those in the middle are left out. A limit
    is at least 1,000 characters; `final_answer` is the answer, where it is not the last message.
    """
    steps = _steps(messages, final_answer)
    limit = max(limit, LEAST_CHARACTERS)
    whole = _render(steps, limit, limit, len(steps))
    if len(whole.text) <= limit and not whole.characters_cut:
        return whole
    most_steps = max(2, limit // _STEP_CHARACTERS)
    fitting = bisect_right(
        range(limit), limit, key=lambda length: len(_render(steps, length, limit // 2, most_steps).text)
    )
    return _render(steps, max(fitting - 1, 0), limit // 2, most_steps)


def _steps(messages: Sequence[TranscriptMessage], final_answer: str) -> list[tuple[str, str]]:
    steps: list[tuple[str, str]] = []
    called: dict[str, str] = {}
    for message in messages:
        text = _text(message.content)
        calls = message.tool_calls or ()
        if message.role in ("tool", "function"):
            tool = message.name or called.get(message.tool_call_id or "", "tool")
            steps.append((f"{_short(tool)} returns", text))
        elif text or not calls:
            steps.append((message.role, text))
        for call in calls:
            called[call.id or ""] = call.function.name
            arguments = call.function.arguments
            shown = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
            steps.append((f"{message.role} calls {_short(call.function.name)}", shown))
    if final_answer.strip() and (not steps or steps[-1] != ("assistant", final_answer)):
        steps.append(("final answer", final_answer))
    return steps


def _render(steps: Sequence[tuple[str, str]], longest: int, longest_last: int, most: int) -> RenderedTranscript:
    """The steps in at most so many characters each, and the last one in so many, if there are at most so many."""
    first, gone = len(steps), 0
    if len(steps) > most:
        first, gone = most // 3, len(steps) - most
    shown, cut = [], 0
    for place, (heading, body) in enumerate(steps):
        if first <= place < first + gone:
            cut += len(body)
            if place == first:
                shown.append(f"[… {gone:,} steps cut …]")
            continue
        room = longest if place < len(steps) - 1 else max(longest, longest_last)
        if len(body) > room:  # keep the beginning and the end
            start, end = room - room // 3, room // 3
            left_out = len(body) - start - end
            body = f"{body[:start]}[… {left_out:,} characters cut …]{body[len(body) - end :]}"
            cut += left_out
        shown.append(f"[{place + 1}] {heading}:\n{body}")
    note = f", {cut:,} characters cut where marked" if cut else ""
    return RenderedTranscript("\n\n".join([f"Transcript of {len(steps):,} steps{note}.", *shown]), cut)


def _text(content: str | list[Any] | None) -> str:
    if not isinstance(content, list):
        return content or ""
    parts = (part if isinstance(part, dict) else {"type": "text", "text": str(part)} for part in content)
    return "".join(str(part["text"]) if "text" in part else f"[{part.get('type', 'part')}]" for part in parts)


def _short(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= _LONGEST_NAME else f"{line[:_LONGEST_NAME]}…"


PEOPLE_CHARACTERS = 400_000
"""The most characters of a transcript that people are shown: steps are folded, so more than a judge gets."""

_RENDERED = re.compile(r"Transcript of [0-9,]+ steps(?:, [0-9,]+ characters cut where marked)?\.\n\n")
_STEP = re.compile(r"^\[([0-9]+)\] ([^\n]+):\n", re.MULTILINE)


class TranscriptStep(msgspec.Struct, frozen=True):
    """A step of a transcript as people read it."""

    number: int
    heading: str
    body: str

    @property
    def is_tool(self) -> bool:
        return " calls " in self.heading or self.heading.endswith(" returns")


def read_steps(text: str) -> list[TranscriptStep]:
    """The steps of a text that `render_transcript` made; none of any other text."""
    begin = _RENDERED.match(text)
    if begin is None:
        return []
    marks: list[re.Match[str]] = []
    for mark in _STEP.finditer(text, begin.end()):
        last = int(marks[-1][1]) if marks else 0
        if int(mark[1]) == last + 1 or (int(mark[1]) > last and " steps cut …]" in text[: mark.start()]):
            marks.append(mark)
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return [
        TranscriptStep(int(mark[1]), mark[2], text[mark.end() : end].removesuffix("\n\n"))
        for mark, end in zip(marks, ends, strict=True)
    ]


def for_people(response: Response) -> Response:
    """The answer as people are shown it: a transcript becomes a text of numbered steps."""
    if not response.transcript:
        return response
    text = render_transcript(response.transcript, PEOPLE_CHARACTERS, final_answer=response.response_text).text
    return msgspec.structs.replace(response, response_text=text, transcript=msgspec.UNSET)


TAIL_BYTES = 1 << 16
"""The end of a file is looked for in steps of this size."""


class AnswerKind(enum.StrEnum):
    """What an answer is to the eye. Everything but a text is a file."""

    TEXT = "text"
    IMAGE = "image"
    SVG = "svg"
    HTML = "html"
    VOXEL = "voxel"
    MODEL3D = "model3d"
    AUDIO = "audio"
    VIDEO = "video"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One entrant's answer to one prompt. Unknown fields of a file are ignored.

    Parameters:
        entrant_id: The entrant.
        prompt_id: The prompt.
        response_text: The answer; of an answer that is a file, a description, or nothing.
        p_correct: The entrant's own confidence, where it gave one.
        diagnostics: How the answer was made: model, stop, tokens, seed.
        timestamp: When.
        images: Images that belong to the answer: addresses, or paths of files beside its file.
        transcript: The steps of an agent instead of a text, or before it: messages with tool calls and results.
        kind: What the answer is, if it is not a text: then it is a file.
        file: The path of that file, beside the row's file or in a folder there.
    """

    entrant_id: str
    prompt_id: str
    response_text: str
    p_correct: float | None = None
    diagnostics: dict[str, Any] | None = None
    timestamp: str | None = None
    images: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    transcript: tuple[TranscriptMessage, ...] | msgspec.UnsetType = msgspec.UNSET
    kind: AnswerKind | msgspec.UnsetType = msgspec.UNSET
    file: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def answer_kind(self) -> AnswerKind:
        """What the answer is."""
        return AnswerKind.TEXT if self.kind is msgspec.UNSET else self.kind


def responses_path(folder: str | Path, entrant_id: str) -> Path:
    """The file of an entrant's responses.

    Parameters:
        folder: The folder of responses.
        entrant_id: The entrant.
    """
    return Path(folder) / f"responses_{entrant_id}.jsonl"


def read_responses(folder: str | Path, entrant_id: str) -> dict[str, Response]:
    """An entrant's responses by prompt id; the later of two to one prompt counts. A torn last line is skipped.

    Parameters:
        folder: The folder of responses.
        entrant_id: The entrant.
    """
    path = responses_path(folder, entrant_id)
    responses: dict[str, Response] = {}
    for number, record in read_objects(path, "response file", torn_end=True):
        record.setdefault("entrant_id", entrant_id)
        response = _response(record, f"{path}:{number}")
        if response.entrant_id != entrant_id:
            raise BankError(f"{path}:{number}: entrant_id is {response.entrant_id!r}, the file is of {entrant_id!r}.")
        responses[response.prompt_id] = response
    return responses


def _response(record: dict[str, Any], where: str) -> Response:
    """A row; of a picture, the file is the first of its images, which judges are shown."""
    if record.get("transcript") or record.get("file") or record.get("kind", "text") != "text":
        record.setdefault("response_text", "")
    response: Response = convert(record, Response, where)
    if bool(response.file) == (response.answer_kind is AnswerKind.TEXT):
        if response.file:
            raise BankError(f"{where}: has a `file` and no `kind`. Say what it is: {', '.join(list(AnswerKind)[1:])}.")
        raise BankError(f"{where}: is of kind {response.kind}, and has no `file`. Name the file beside this one.")
    if response.file and response.kind is AnswerKind.IMAGE:
        return msgspec.structs.replace(response, images=(response.file, *(response.images or ())))
    return response


def answer_path(folder: str | Path, response: Response) -> Path:
    """Where the file of an answer is: inside the folder of its row, also where links lead."""
    name = response.file or ""
    whose = f"the answer of {response.entrant_id!r} to {response.prompt_id!r}"
    path = Path(folder) / name
    try:
        real, home = path.resolve(), Path(folder).resolve()
        inside = real.is_relative_to(home) and not Path(name).is_absolute() and "\\" not in name
        there = inside and real.is_file()
    except (OSError, ValueError):
        inside = there = False
    if not inside:
        raise BankError(f"{whose}: the file {name!r} is not inside {folder}. Put it beside the responses file.")
    if not there:
        raise BankError(f"{whose}: there is no file {name!r} in {folder}. Check the name.")
    return real


def require_text(response: Response, reader: str) -> None:
    """Refuse an answer that has more than its text, for a reader that shows only that."""
    for name in ("file", "images", "transcript"):
        if getattr(response, name):
            whose = f"{response.entrant_id!r} to {response.prompt_id!r}"
            raise BankError(f"the answer of {whose} has `{name}`, which {reader} does not show.")


def append_responses(folder: str | Path, entrant_id: str, responses: Iterable[Response]) -> None:
    """Add responses to an entrant's file: whole lines, on disk before this returns, a torn end cut off first.

    Parameters:
        folder: The folder of responses.
        entrant_id: The entrant.
        responses: Answers to add.
    """
    path = responses_path(folder, entrant_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = b"".join(map(json_line, responses))
    with path.open("a+b") as file:
        end = start = file.seek(0, os.SEEK_END)
        tail = b""
        while start and b"\n" not in tail:
            start = max(0, start - TAIL_BYTES)
            file.seek(start)
            tail = file.read(end - start)
        last = tail[tail.rfind(b"\n") + 1 :]
        try:
            msgspec.json.decode(last or b"0")
        except (msgspec.DecodeError, UnicodeDecodeError):
            file.truncate(end - len(last))
        else:
            file.write(b"\n" if last else b"")
    append_bytes(path, lines)
