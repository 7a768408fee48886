"""Gemini: `generateContent` one at a time, and batches from a file at half price, by plain HTTP."""

from __future__ import annotations

import datetime
import math
import mimetypes
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import httpx2
import msgspec

from tiltyard.data.bank import Image
from tiltyard.errors import Refused, TryLater
from tiltyard.judge.llm.provider import BatchLimits, BatchState, Reply, Request, Stop, ToolCall, Usage
from tiltyard.judge.llm.providers.http import (
    FILE_SECONDS,
    MakerProvider,
    answered,
    answered_object,
    http_client,
    results_file,
    streamed,
)
from tiltyard.judge.llm.providers.wire import (
    NotJSON,
    a_count,
    a_line,
    a_list,
    a_name,
    a_number,
    a_text,
    an_object,
    arguments_text,
    choice_probabilities,
    decode,
    decode_lines,
    encodable,
    one_line,
    replies,
)
from tiltyard.render import plural

_TOP_LOGPROBS = 20
_TOP_LEVEL = frozenset(
    {"tools", "toolConfig", "safetySettings", "systemInstruction", "cachedContent", "serviceTier", "store"}
)
"""Options that belong beside `generationConfig`; every other one belongs into it."""
_BLOCKED = (
    "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT "
    "IMAGE_RECITATION MODEL_ARMOR"
)
_STOPS = {"MAX_TOKENS": Stop.LENGTH, "CONTINUATION": Stop.LENGTH} | dict.fromkeys(_BLOCKED.split(), Stop.REFUSAL)
_NO_ANSWER = re.compile("MALFORMED|TOOL_CALL")
"""Reasons to stop after which the text is none that was meant: `UNEXPECTED_TOOL_CALL`, `MALFORMED_FUNCTION_CALL`, …"""
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
        wanted = request.structured
        function = {"name": wanted.name, "description": wanted.description, "parametersJsonSchema": wanted.schema}
        calling = {"mode": "ANY", "allowedFunctionNames": [wanted.name]}
        body |= {"tools": [{"functionDeclarations": [function]}], "toolConfig": {"functionCallingConfig": calling}}
    return body | {name: value for name, value in options.items() if name in _TOP_LEVEL}


def _part(part: str | Image) -> dict[str, Any]:
    """A text, the bytes of a file, or an address that Google fetches (with its type, if the address tells)."""
    if isinstance(part, str):
        return {"text": part}
    if part.path:
        return {"inlineData": {"mimeType": part.media_type, "data": part.encoded()}}
    kind, _ = mimetypes.guess_type(part.url.partition("?")[0])
    return {"fileData": {"fileUri": part.url, **({"mimeType": kind} if kind else {})}}


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
    functions = (
        an_object(an_object(p).get("functionCall")) for p in a_list(an_object(first.get("content")).get("parts"))
    )
    calls = tuple(ToolCall(a_name(one.get("name")), arguments_text(one.get("args", {}))) for one in functions if one)
    if usage is not None and (text or calls) and not usage.output_tokens:
        usage = None  # an answer of no tokens would be free; Google leaves out only counts of zero
    stop = _STOPS.get(reason, Stop.END)
    if stop is Stop.END and (text is None or _NO_ANSWER.search(reason)):
        kind = reason if reason not in ("", "STOP") else "no content"
        words = a_line(first.get("finishMessage"))
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


def error_of(problem: object) -> dict[str, str]:
    """The name and message of Google's error; `code` also has its general name if it has a more telling one."""
    error = an_object(problem)
    code = a_count(error.get("code"))
    status = a_name(error.get("status")) or _CODES.get(code or 0, a_name(code))
    details = [an_object(detail) for detail in a_list(error.get("details"))]
    quotas = [a_name(an_object(one).get("quotaId")) for detail in details for one in a_list(detail.get("violations"))]
    reasons = [quota for quota in quotas if "PerDay" in quota] + [a_name(detail.get("reason")) for detail in details]
    reason = next((reason for reason in reasons if reason), status)
    return {"type": reason or "error", "code": status, "message": a_text(error.get("message")) or ""}


def retry_seconds(problem: object) -> float | None:
    """How long Google asks to wait (`RetryInfo`), in seconds."""
    for detail in a_list(an_object(problem).get("details")):
        duration = _DURATION.fullmatch(a_name(an_object(detail).get("retryDelay")))
        if duration:
            return float(duration[1])
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
        kind, words = named["type"], a_line(named["message"])
    else:
        kind, words = "no candidates", ""
    return Reply(text=words, error=f"errored: {kind}", usage=usage or Usage(), model=model, batched=batched)


def _declined(reason: str, message: object) -> str:
    text = a_text(message)
    return one_line(f"Blocked by Google ({reason}){': ' + text if text else ''}")


def _text(content: object) -> str | None:
    """The text of an answer without its thoughts; None if it has no parts."""
    parts = an_object(content).get("parts")
    if not isinstance(parts, list):
        return None
    spoken = [part for part in map(an_object, parts) if part.get("thought") is not True]
    return encodable("".join(part["text"] for part in spoken if isinstance(part.get("text"), str)))


def _usage(value: object) -> Usage | None:
    """Google includes cached tokens in the prompt's, counts thoughts apart, and leaves out counts of zero.

    None if the prompt's tokens are not stated, or a count is not one.
    """
    counts = an_object(value)
    names = ("candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount", "toolUsePromptTokenCount")
    prompt = a_count(counts.get("promptTokenCount"))
    answer, thoughts, cached, tools = (a_count(counts.get(name) or 0) for name in names)
    if prompt is None or answer is None or thoughts is None or cached is None or tools is None:
        return None
    return Usage(
        input_tokens=max(0, prompt - cached) + tools,
        output_tokens=answer + thoughts,
        cache_read_input_tokens=min(cached, prompt),
    )


def _probabilities(result: object, choices: Sequence[str], text: str) -> dict[str, float] | None:
    log_probabilities = an_object(result)
    chosen, steps = a_list(log_probabilities.get("chosenCandidates")), a_list(log_probabilities.get("topCandidates"))
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


_API_VERSION = "v1beta"
_LONGEST_CUSTOM_ID = "x" * 64
_PAGE = 100
_LINES = "application/jsonl"


class _HTTPStatus(Exception):
    """An answer with an error status, in the form that `http.translate` reads."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status_code = response.status_code
        try:
            body = decode(response.content)
        except NotJSON:
            body = None
        # Some endpoints wrap the error in a list.
        problem = an_object(body[0] if isinstance(body, list) and body else body).get("error")
        self.body = {"error": error_of(problem)} if isinstance(problem, dict) else response.text
        headers = dict(response.headers)
        seconds = retry_seconds(problem)
        if seconds is not None:
            headers.setdefault("retry-after", str(seconds))
        self.response = SimpleNamespace(headers=headers)
        super().__init__(f"status {self.status_code}")


class GeminiProvider(MakerProvider):
    """Asks Google's Gemini models."""

    _client: httpx2.AsyncClient
    maker = "gemini"
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    address_variables = ("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
    default_base_url = "https://generativelanguage.googleapis.com"
    api_error = _HTTPStatus

    def _connect(self, api_key: str) -> None:
        self._client = http_client(self._caller, httpx2.AsyncClient, httpx2.AsyncClient)
        self._key = {"x-goog-api-key": api_key}
        self._base = self._caller.base_url.rstrip("/")

    async def _send(
        self,
        url: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """The answer to a request: a POST if it has a body, which is encoded unless it is bytes."""
        content = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        response = await self._client.request(
            "GET" if body is None else "POST",
            url,
            content=content,
            params=params,
            headers={"content-type": "application/json"} | dict(self._key if headers is None else headers),
        )
        if response.status_code != 200:
            raise _HTTPStatus(response)
        return response

    async def _call(self, path: str, about: str, body: object = None, **further: Any) -> dict[str, Any]:
        limits = {name: further.pop(name) for name in ("seconds", "request") if name in further}
        waiting = self._send(f"{self._base}/{_API_VERSION}/{path}", body, **further)
        return await answered_object(waiting, self._caller, about, **limits)

    async def ask(self, request: Request) -> Reply:
        path = f"{_model_path(request.model)}:generateContent"
        answer = await self._call(path, f"a request to {request.model}", gemini_request(request), request=request)
        return gemini_reply(answer, request.choices)

    async def aclose(self) -> None:
        await self._client.aclose()

    @property
    def batch_limits(self) -> BatchLimits:
        """A file of 2 GB; Google states no number of requests, so ours keeps the results small enough to read."""
        return BatchLimits(requests=50_000, bytes=2_000_000_000)

    def encoded_size(self, request: Request) -> int:
        return len(batch_line(_LONGEST_CUSTOM_ID, request))

    async def submit(self, requests: Sequence[tuple[str, Request]], tag: str) -> str:
        """Upload a batch as a file, start it and return its id. The tag is its display name."""
        about = f"a batch of {plural(len(requests), 'request')} ({tag})"
        content = b"".join(batch_line(custom_id, request) for custom_id, request in requests)
        file_name = await self._upload(content, tag, about)
        batch = {"displayName": tag, "inputConfig": {"fileName": file_name}}
        path = f"{_model_path(requests[0][1].model)}:batchGenerateContent"
        batch_id = a_text((await self._call(path, about, {"batch": batch})).get("name"))
        if not batch_id:
            raise TryLater(f"{self._caller.address} took {about}, but did not say its name.")
        return batch_id

    async def _upload(self, content: bytes, tag: str, about: str) -> str:
        start = self._send(
            f"{self._base}/upload/{_API_VERSION}/files",
            {"file": {"displayName": tag, "mimeType": _LINES}},
            headers=self._key
            | {
                "x-goog-upload-protocol": "resumable",
                "x-goog-upload-command": "start",
                "x-goog-upload-header-content-length": str(len(content)),
                "x-goog-upload-header-content-type": _LINES,
            },
        )
        address = (await answered(start, httpx2.Response, self._caller, about)).headers.get("x-goog-upload-url")
        if not address:
            raise TryLater(f"{self._caller.address} did not say where to upload {about}.")
        send = self._send(
            address, content, headers={"x-goog-upload-offset": "0", "x-goog-upload-command": "upload, finalize"}
        )
        stored = await answered_object(send, self._caller, about, seconds=FILE_SECONDS)
        file_name = a_text(an_object(stored.get("file")).get("name"))
        if not file_name:
            raise TryLater(f"{self._caller.address} took the file of {about}, but did not say its name.")
        return file_name

    async def state(self, batch_id: str) -> BatchState:
        return batch_state(await self._batch(batch_id), batch_id)

    async def results(self, batch_id: str) -> AsyncGenerator[tuple[str, Reply], None]:
        """The replies of an ended batch: none if it failed, expired or was canceled before it had any."""
        batch = await self._batch(batch_id)
        if not batch_state(batch, batch_id).ended:
            raise TryLater(f"Batch {batch_id} has not ended yet. Ask for its results later.")
        places = (batch.get("response"), an_object(batch.get("metadata")).get("output"))
        names = (a_text(an_object(place).get("responsesFile")) for place in places)
        file_name = next((name for name in names if name), None)
        if file_name is None:
            return
        about = f"a request for the results of batch {batch_id}"
        try:
            async for reply in replies(streamed(self._lines(file_name), self._caller, about), "key", batch_reply):
                yield reply
        except Refused:
            failure = Refused(f"The results of batch {batch_id} are no longer kept by Google. Send its requests again.")
        else:
            return
        raise failure

    async def recent_batches(self) -> AsyncGenerator[BatchState, None]:
        """The batches of this account, newest first: Google does not promise an order, so all are listed first."""
        about = "a request for the list of batches"
        batches: list[BatchState] = []
        params = {"pageSize": str(_PAGE)}
        while True:
            page = await self._call("batches", about, params=params)
            batches += [batch_state(an_object(one), "") for one in a_list(page.get("operations"))]
            page_token = a_text(page.get("nextPageToken"))
            if not page_token:
                break
            params = params | {"pageToken": page_token}
        for state in sorted(batches, key=lambda state: state.created_at, reverse=True):
            yield state

    async def _lines(self, file_name: str) -> AsyncGenerator[object, None]:
        url = f"{self._base}/{_API_VERSION}/{file_name}:download"
        opening = self._client.stream("GET", url, params={"alt": "media"}, headers=self._key)
        async with results_file(opening) as answer:
            if answer.status_code != 200:
                await answer.aread()
                raise _HTTPStatus(answer)
            async for line in decode_lines(answer.aiter_bytes()):
                yield line

    async def _batch(self, batch_id: str) -> dict[str, Any]:
        return await self._call(f"batches/{batch_id.removeprefix('batches/')}", f"a question about batch {batch_id}")


def _model_path(model: str) -> str:
    if ".." in model or "?" in model or "&" in model or "#" in model:
        raise Refused(f"gemini/{model} is not a name of a model. Write it as Google does, such as gemini/gemini-x-pro.")
    return model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
