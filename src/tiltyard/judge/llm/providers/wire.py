"""What is sent and received as JSON: chat completions, and values of the expected type. No SDK and no network."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from tiltyard.data.bank import Image
from tiltyard.judge.llm.keys import redact
from tiltyard.judge.llm.provider import SPECIAL_TOKEN, UNREADABLE, Reply, Request, Stop, ToolCall, Usage, answer_start

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


class UnreadableLine(msgspec.Struct, frozen=True):
    """A line of a file of results that is not JSON, or too long: its number, its beginning, and what is wrong."""

    number: int
    beginning: bytes
    problem: str

    def result(self) -> tuple[str, Reply]:
        """The custom id that can be read in it, or "", and a reply that says what is wrong.

        It was paid for, but nobody knows how many tokens it took.
        """
        custom_id = _CUSTOM_ID.search(self.beginning)
        quoted = one_line(self.beginning[:_LONGEST_NAME].decode(errors="replace")).rstrip(".")
        words = f"line {self.number} {self.problem} (“{quoted}…”)"
        return custom_id[1].decode() if custom_id else "", Reply(error=UNREADABLE, text=words, usage=None, batched=True)


async def replies(
    lines: AsyncGenerator[object, None], id_field: str, read: Callable[[dict[str, Any]], Reply]
) -> AsyncGenerator[tuple[str, Reply], None]:
    """The replies in a file of results, each with the custom id that its line holds under `id_field`."""
    async with aclosing(lines):
        async for line in lines:
            if isinstance(line, UnreadableLine):
                yield line.result()
            else:
                entry = an_object(line)
                yield a_text(entry.get(id_field)) or "", read(entry)


async def decode_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Any | UnreadableLine, None]:
    """The values of JSON Lines, as their bytes arrive, or an `UnreadableLine`; blank lines are skipped."""
    number, size = 1, 0
    begun: list[bytes] = []
    async for chunk in chunks:
        for place, piece in enumerate(chunk.split(b"\n")):
            if place:
                line = b"".join(begun)
                if line.strip() or size > LONGEST_LINE:
                    yield _decoded(number, line, size)
                number, size, begun = number + 1, 0, []
            size += len(piece)
            begun.append(piece)
            if size > LONGEST_LINE:
                begun = [b"".join(begun)[:_BEGINNING]]
    line = b"".join(begun)
    if line.strip() or size > LONGEST_LINE:
        yield _decoded(number, line, size)


def _decoded(number: int, line: bytes, size: int) -> Any | UnreadableLine:
    if size > LONGEST_LINE:
        return UnreadableLine(number, line, f"has {size:,} bytes, more than the {LONGEST_LINE:,} that a reply may have")
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
    texts = []
    for part in content:
        text = part if isinstance(part, str) else an_object(part).get("text")
        if isinstance(text, str) and (text is part or part.get("type") in ("text", "output_text")):
            texts.append(text)
    return encodable("".join(texts))


def arguments_text(value: object) -> str:
    """The arguments of a tool call as JSON text: most servers send text, some the object itself."""
    if isinstance(value, str):
        return encodable(value)
    try:
        return encodable(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        return ""


_LONGEST_MESSAGE = 300


_UNSEEN = ("Cc", "Cf")
"""Control and format characters: escape sequences, characters that change the writing direction."""


def encodable(text: str) -> str:
    """The text with `?` for each lone surrogate: JSON can encode one, but UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()


def one_line(message: str, advice: str = "") -> str:
    """A message of one line, not too long, without secrets and terminal control characters."""
    plain = "".join(" " if unicodedata.category(letter) in _UNSEEN else letter for letter in encodable(message))
    line = " ".join(redact(plain).split())
    if len(line) > _LONGEST_MESSAGE:
        line = line[: _LONGEST_MESSAGE - 1] + "…"
    return f"{line.rstrip('.')}. {advice}".strip()


_TOP_LOGPROBS = 20
_STOPS = {"length": Stop.LENGTH, "content_filter": Stop.REFUSAL}
_CODES = {"batch_expired": "expired", "batch_cancelled": "canceled"}
_POINTLESS = frozenset({400, 404, 413, 422})
_SPECIAL_TOKENS = re.compile(rf"(\s*{SPECIAL_TOKEN})*\s*")
_ROUNDING = 1e-3
"""By how much a server's probabilities may exceed 1 in total."""

choice_words: dict[str, Callable[[Sequence[str]], dict[str, Any]]] = {
    "structured_outputs": lambda choices: {"structured_outputs": {"choice": list(choices)}},
    "guided_choice": lambda choices: {"guided_choice": list(choices)},
    "grammar": lambda choices: {"grammar": "root ::= " + " | ".join(json.dumps(choice) for choice in choices)},
}
"""How servers are told to allow only a few words, by the name of the parameter."""


def chat_request(
    request: Request, *, budget: str, logprobs: bool = False, guided_choice: str | None = None
) -> dict[str, Any]:
    """The body of a chat completion. `budget` is the server's name for the output token limit."""
    system = [("system", request.system)] if request.system else []
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": role, "content": words} for role, words in [*system, *request.messages]],
        budget: request.max_tokens,
    }
    if request.images:
        body["messages"][-1]["content"] = [_part(part) for part in request.user_parts]
    if logprobs and request.choices:
        body |= {"logprobs": True, "top_logprobs": _TOP_LOGPROBS}
        if guided_choice:
            body |= choice_words[guided_choice](request.choices)
    wanted = request.structured
    if wanted is not None:
        named = {"name": wanted.name, "strict": True}
        function = named | {"description": wanted.description, "parameters": wanted.schema}
        if wanted.as_tool:
            body["tools"] = [{"type": "function", "function": function}]
            body["tool_choice"] = {"type": "function", "function": {"name": wanted.name}}
        else:
            body["response_format"] = {"type": "json_schema", "json_schema": named | {"schema": wanted.schema}}
    return body | request.options


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    url = f"data:{part.media_type};base64,{part.encoded()}" if part.path else part.url
    return {"type": "image_url", "image_url": {"url": url}}


def chat_reply(completion: object, choices: Sequence[str] = (), *, batched: bool = False) -> Reply:
    """A completion as a reply. One without a message is an error, not an empty answer."""
    body = an_object(completion)
    usage, model = _usage(body.get("usage")), a_text(body.get("model"))
    answers = a_list(body.get("choices"))
    first = an_object(answers[0]) if answers else {}
    message = first.get("message")
    text = joined_texts(message.get("content")) or "" if isinstance(message, dict) else ""
    # OpenRouter puts what went wrong upstream beside an empty message
    failed = isinstance(first.get("error"), dict) and not text
    if failed or not isinstance(message, dict):
        problem = first.get("error") if failed else body.get("error")
        kind, words = name_and_words(problem, "no message" if answers else "no choices")
        return Reply(text=words, error=f"errored: {kind}", usage=usage or Usage(), model=model, batched=batched)
    declined = _refusal(message)
    reason = first.get("finish_reason")
    stop = _STOPS.get(reason, Stop.END) if isinstance(reason, str) else Stop.END
    tokens = an_object(first.get("logprobs")).get("content")
    return Reply(
        text=text if text or declined is None else declined,
        stop=stop if declined is None else Stop.REFUSAL,
        usage=usage,
        model=model,
        batched=batched,
        choice_probabilities=choice_probabilities(tokens, choices, text) if choices else None,
        calls=tuple(
            ToolCall(a_name(one.get("name")), arguments_text(one.get("arguments")))
            for one in (an_object(an_object(call).get("function")) for call in a_list(message.get("tool_calls")))
            if one
        ),
    )


def batch_reply(line: object) -> Reply:
    """One line of a batch's output or error file; without a completion, `text` holds the provider's error text."""
    entry = an_object(line)
    response = an_object(entry.get("response"))
    status, body = a_count(response.get("status_code")) or 0, response.get("body")
    if status == 200:
        return chat_reply(body, batched=True)
    problem = entry.get("error") or an_object(body).get("error")
    code = an_object(problem).get("code")
    if isinstance(code, str) and code in _CODES:
        return Reply(error=_CODES[code], batched=True)
    kind, words = name_and_words(problem, f"status {status}")
    return Reply(text=words or one_line(kind), error=f"errored: {kind}", final=status in _POINTLESS, batched=True)


def choice_probabilities(tokens: object, choices: Sequence[str], text: str) -> dict[str, float] | None:
    """How likely each choice was as the first word of the answer; None if the server did not say.

    Read from the alternatives to the answer's first non-blank token, after any thoughts between `<think>` and
    `</think>`. An alternative counts for a choice if it equals it, or is a prefix of this choice and no other (`T` for
    `TIE`). None if the tokens do not match the `text`, or the numbers are not probabilities.
    """
    start = answer_start(text)
    entries = [an_object(token) for token in a_list(tokens)]
    spelled = [a_text(entry.get("token")) or "" for entry in entries]
    joined = "".join(spelled)
    begin = answer_start(joined)
    if start is None or begin is None:
        return None
    answer, place = text[start:].strip(), 0
    for entry, token in zip(entries, spelled, strict=True):
        if place >= begin and token.strip():
            spoken = joined[place:].strip()
            # the tokens spell all of the answer, possibly followed by special tokens, or its beginning
            same = answer.startswith(spoken) or (
                spoken.startswith(answer) and _SPECIAL_TOKENS.fullmatch(spoken, len(answer)) is not None
            )
            return _shares(entry.get("top_logprobs"), choices) if same else None
        place += len(token)
    return None


def _shares(alternatives: object, choices: Sequence[str]) -> dict[str, float] | None:
    shares = dict.fromkeys(choices, 0.0)
    known = [an_object(alternative) for alternative in a_list(alternatives)]
    for alternative in known:
        choice = _choice_of((a_text(alternative.get("token")) or "").strip(), choices)
        if choice is None:
            continue
        logarithm = a_number(alternative.get("logprob"))
        if logarithm is None or logarithm > _ROUNDING:
            return None
        shares[choice] += math.exp(min(logarithm, 0.0))
    return shares if known and math.fsum(shares.values()) <= 1 + _ROUNDING else None


def _choice_of(token: str, choices: Sequence[str]) -> str | None:
    for choice in choices:
        if token.upper() == choice.upper():
            return choice
    begun = [choice for choice in choices if token and choice.startswith(token)]
    return begun[0] if len(begun) == 1 else None


def _refusal(message: dict[str, Any]) -> str | None:
    parts = [an_object(part) for part in a_list(message.get("content"))]
    declined = [message.get("refusal"), *(part.get("refusal") for part in parts if part.get("type") == "refusal")]
    texts = [words for words in declined if words]
    return "".join(a_text(words) or "" for words in texts) if texts else None


def name_and_words(problem: object, otherwise: str) -> tuple[str, str]:
    """The name of an error (or a default), and the provider's message."""
    error = an_object(problem)
    kind = a_name(error.get("type")) or a_name(error.get("code")) or otherwise
    return kind, a_line(error.get("message")) or a_line(problem)


def a_line(value: object) -> str:
    """A text as one line for a message; empty for anything else."""
    text = a_text(value)
    return one_line(text) if text else ""


def _usage(value: object) -> Usage | None:
    """OpenAI includes cached tokens in the prompt's; we count them separately.

    None if the server does not state them.
    """
    usage = an_object(value)
    details = an_object(usage.get("prompt_tokens_details"))
    prompt, output = a_count(usage.get("prompt_tokens")), a_count(usage.get("completion_tokens"))
    read, written = (a_count(details.get(name) or 0) for name in ("cached_tokens", "cache_write_tokens"))
    if prompt is None or output is None or read is None or written is None:
        return None
    return Usage(
        input_tokens=max(0, prompt - read - written),
        output_tokens=output,
        cache_creation_input_tokens=written,
        cache_read_input_tokens=read,
    )
