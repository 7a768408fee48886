"""Gemini's format: a `Request` as a body, an answer as a `Reply`, a batch as a state. It knows no SDK, no network."""

from __future__ import annotations

import datetime
import math
import mimetypes
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from tiltyard.bank.images import Image
from tiltyard.llm.provider import BatchState
from tiltyard.llm.providers.chat import choice_probabilities
from tiltyard.llm.providers.received import (
    a_count,
    a_list,
    a_name,
    a_number,
    a_text,
    an_object,
    arguments_text,
    encodable,
    one_line,
)
from tiltyard.llm.records import Reply, ReplySchema, Request, Stop, ToolCall, Usage

_TOP_LOGPROBS = 20
_TOP_LEVEL = frozenset(
    {"tools", "toolConfig", "safetySettings", "systemInstruction", "cachedContent", "serviceTier", "store"}
)
"""Options that belong beside `generationConfig`; every other one belongs into it."""
_STOPS = {"MAX_TOKENS": Stop.LENGTH, "CONTINUATION": Stop.LENGTH} | dict.fromkeys(
    (
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "MODEL_ARMOR",
    ),
    Stop.REFUSAL,
)
_CODES = {
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARGUMENT",
    4: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND",
    7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED",
    9: "FAILED_PRECONDITION",
    11: "OUT_OF_RANGE",
    13: "INTERNAL",
    14: "UNAVAILABLE",
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
}
"""Google's error codes inside a batch: mostly those of gRPC, sometimes those of HTTP."""
_POINTLESS = frozenset({"INVALID_ARGUMENT", "NOT_FOUND", "OUT_OF_RANGE"})
_ENDED = {"SUCCEEDED": None, "PARTIALLY_SUCCEEDED": None, "FAILED": "errored", "CANCELLED": "canceled"}
_ENDED |= {"EXPIRED": "expired"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)s")


def gemini_request(request: Request) -> dict[str, Any]:
    """The body of `generateContent`.

    Options are sent as they are: `tools`, `safetySettings` and a few others beside `generationConfig`, the rest in it.
    With `responseLogprobs: true` the alternatives to each token are asked for, so that choices get probabilities.
    Most models refuse that, so it is not asked for by itself.
    """
    options = dict(request.options)
    config: dict[str, Any] = {"maxOutputTokens": request.max_tokens}
    if request.choices and options.get("responseLogprobs") is True:
        config["logprobs"] = _TOP_LOGPROBS
    if request.structured is not None and not request.structured.as_tool:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": request.structured.schema}
    config |= options.pop("generationConfig", {})
    config |= {name: value for name, value in options.items() if name not in _TOP_LEVEL}
    roles = {"user": "user", "assistant": "model"}
    body: dict[str, Any] = {
        "contents": [{"role": roles[role], "parts": [{"text": words}]} for role, words in request.messages],
        "generationConfig": config,
    }
    if request.images:
        body["contents"][-1]["parts"] = [_part(part) for part in request.user_parts]
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.structured is not None and request.structured.as_tool:
        body |= _forced_call(request.structured)
    return body | {name: value for name, value in options.items() if name in _TOP_LEVEL}


def _part(part: str | Image) -> dict[str, Any]:
    """A text, the bytes of a file, or an address that Google fetches (with its type, if the address tells)."""
    if isinstance(part, str):
        return {"text": part}
    if part.path:
        return {"inlineData": {"mimeType": part.media_type, "data": part.encoded()}}
    kind, _ = mimetypes.guess_type(part.url.partition("?")[0])
    return {"fileData": {"fileUri": part.url, **({"mimeType": kind} if kind else {})}}


def _forced_call(wanted: ReplySchema) -> dict[str, Any]:
    """The tool of a structured reply, and that it has to be called."""
    function = {"name": wanted.name, "description": wanted.description, "parametersJsonSchema": wanted.schema}
    return {
        "tools": [{"functionDeclarations": [function]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [wanted.name]}},
    }


def batch_line(custom_id: str, request: Request) -> bytes:
    """One line of the file of a batch."""
    return msgspec.json.encode({"key": custom_id, "request": gemini_request(request)}) + b"\n"


def gemini_reply(answer: object, choices: Sequence[str] = (), *, batched: bool = False) -> Reply:
    """An answer as a reply. A blocked prompt is a refusal; an answer without a candidate is an error."""
    body = an_object(answer)
    model = a_text(body.get("modelVersion"))
    candidates = a_list(body.get("candidates"))
    first = an_object(candidates[0]) if candidates else {}
    usage = _usage(body.get("usageMetadata"))
    if not first:
        return _without_candidate(body, usage, model, batched=batched)
    reason = a_name(first.get("finishReason"))
    text = _text(first.get("content"))
    calls = _calls(first.get("content"))
    if usage is not None and (text or calls) and not usage.output_tokens:
        usage = None  # an answer of no tokens would be free; Google leaves out only counts of zero
    stop = _STOPS.get(reason, Stop.END)
    if text is None and stop is Stop.END:
        kind = reason if reason not in ("", "STOP") else "no content"
        words = _line(first.get("finishMessage"))
        return Reply(text=words, error=f"errored: {kind}", usage=usage or Usage(), model=model, batched=batched)
    if stop is Stop.REFUSAL and not text:
        text = _declined(reason, first.get("finishMessage"))
    return Reply(
        text=text or "",
        stop=stop,
        usage=usage,
        model=model,
        batched=batched,
        choice_probabilities=_probabilities(first.get("logprobsResult"), choices, text or "") if choices else None,
        calls=calls,
    )


def batch_reply(entry: dict[str, Any]) -> Reply:
    """One line of the results of a batch; without an answer, `text` holds Google's error text."""
    if isinstance(entry.get("response"), dict):
        return gemini_reply(entry["response"], batched=True)
    problem = an_object(entry.get("error") or entry.get("status"))
    if not problem:
        return Reply(error="errored: no response", batched=True)
    kind = error_of(problem)["type"]
    if kind in ("CANCELLED", "DEADLINE_EXCEEDED"):
        return Reply(error={"CANCELLED": "canceled"}.get(kind, "expired"), batched=True)
    words = one_line(a_text(problem.get("message")) or kind)
    return Reply(text=words, error=f"errored: {kind}", final=kind in _POINTLESS, batched=True)


def batch_state(batch: dict[str, Any], asked_for: str) -> BatchState:
    """The state of a batch, and why a request of it may have no answer."""
    metadata = an_object(batch.get("metadata"))
    state = a_name(metadata.get("state")).removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
    problem = an_object(batch.get("error"))
    ended = state in _ENDED or batch.get("done") is True
    unanswered = _ENDED.get(state)
    if ended and (problem or unanswered == "errored"):
        named = error_of(problem)["type"] if problem else "batch failed"
        unanswered = one_line(f"errored: {named}: {a_text(problem.get('message')) or 'no reason given'}").rstrip(".")
    return BatchState(
        batch_id=a_text(batch.get("name")) or asked_for,
        ended=ended,
        created_at=_moment(metadata.get("createTime")),
        size=a_count(an_object(metadata.get("batchStats")).get("requestCount")),
        tag=a_text(metadata.get("displayName")),
        unanswered=unanswered,
    )


def responses_file(batch: dict[str, Any]) -> str | None:
    """The name of the file with the results of a batch; None if it has none."""
    for place in (batch.get("response"), an_object(batch.get("metadata")).get("output")):
        name = a_text(an_object(place).get("responsesFile"))
        if name:
            return name
    return None


def error_of(problem: object) -> dict[str, str]:
    """The name and message of Google's error; `code` also has its general name if it has a more telling one."""
    found = an_object(problem)
    code = a_count(found.get("code"))
    status = a_name(found.get("status")) or _CODES.get(code or 0, a_name(code))
    reasons = (a_name(an_object(detail).get("reason")) for detail in a_list(found.get("details")))
    reason = next((reason for reason in reasons if reason), status)
    return {"type": reason or "error", "code": status, "message": a_text(found.get("message")) or ""}


def retry_seconds(problem: object) -> float | None:
    """How long Google asks to wait (`RetryInfo`), in seconds."""
    for detail in a_list(an_object(problem).get("details")):
        found = _DURATION.fullmatch(a_name(an_object(detail).get("retryDelay")))
        if found:
            return float(found[1])
    return None


def _without_candidate(body: dict[str, Any], usage: Usage | None, model: str | None, *, batched: bool) -> Reply:
    feedback = an_object(body.get("promptFeedback"))
    reason = a_name(feedback.get("blockReason"))
    if reason:
        words = _declined(reason, feedback.get("blockReasonMessage"))
        return Reply(text=words, stop=Stop.REFUSAL, usage=usage, model=model, batched=batched)
    problem = body.get("error")
    if isinstance(problem, dict):
        named = error_of(problem)
        kind, words = named["type"], _line(named["message"])
    else:
        kind, words = "no candidates", ""
    return Reply(text=words, error=f"errored: {kind}", usage=usage or Usage(), model=model, batched=batched)


def _line(message: object) -> str:
    said = a_text(message)
    return one_line(said) if said else ""


def _declined(reason: str, message: object) -> str:
    said = a_text(message)
    return one_line(f"Blocked by Google ({reason}){': ' + said if said else ''}")


def _text(content: object) -> str | None:
    """The text of an answer without its thoughts; None if it has no parts."""
    parts = an_object(content).get("parts")
    if not isinstance(parts, list):
        return None
    said = [part for part in map(an_object, parts) if part.get("thought") is not True]
    return encodable("".join(part["text"] for part in said if isinstance(part.get("text"), str)))


def _calls(content: object) -> tuple[ToolCall, ...]:
    calls = (an_object(an_object(part).get("functionCall")) for part in a_list(an_object(content).get("parts")))
    return tuple(ToolCall(a_name(call.get("name")), arguments_text(call.get("args", {}))) for call in calls if call)


def _usage(value: object) -> Usage | None:
    """Google includes cached tokens in the prompt's, counts thoughts apart, and leaves out counts of zero.

    None if the prompt's tokens are not stated, or a count is not one.
    """
    found = an_object(value)
    names = ("candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount", "toolUsePromptTokenCount")
    prompt = a_count(found.get("promptTokenCount"))
    answer, thoughts, cached, tools = (a_count(found.get(name) or 0) for name in names)
    if prompt is None or answer is None or thoughts is None or cached is None or tools is None:
        return None
    return Usage(
        input_tokens=max(0, prompt - cached) + tools,
        output_tokens=answer + thoughts,
        cache_read_input_tokens=min(cached, prompt),
    )


def _probabilities(result: object, choices: Sequence[str], text: str) -> dict[str, float] | None:
    """Those of the choices, from the alternatives to each token."""
    found = an_object(result)
    chosen, steps = a_list(found.get("chosenCandidates")), a_list(found.get("topCandidates"))
    if len(chosen) != len(steps):
        return None
    tokens = [
        {
            "token": an_object(token).get("token"),
            "top_logprobs": [
                # a logarithm of zero is left out, like every zero
                {"token": an_object(one).get("token"), "logprob": a_number(an_object(one).get("logProbability", 0.0))}
                for one in a_list(an_object(step).get("candidates"))
            ],
        }
        for token, step in zip(chosen, steps, strict=True)
    ]
    return choice_probabilities(tokens, choices, text)


def _moment(value: object) -> float:
    """An RFC 3339 time in seconds; infinite for anything else, so that such a batch is looked at first, not skipped."""
    try:
        return datetime.datetime.fromisoformat(a_text(value) or "").timestamp()
    except ValueError:
        return math.inf
