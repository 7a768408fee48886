"""OpenAI and compatible servers: chat completions one at a time, and OpenAI's file batches at half price."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

import msgspec
import openai
from openai.types import Batch, FileObject

from tiltyard.errors import OptionError, Refused, TryLater
from tiltyard.judge.llm.keys import keep_secret
from tiltyard.judge.llm.presets import AZURE, LOCAL, ServerPreset
from tiltyard.judge.llm.provider import TIMEOUT_SECONDS, BatchLimits, BatchState, Reply, Request
from tiltyard.judge.llm.providers.http import (
    FILE_SECONDS,
    Caller,
    MakerProvider,
    NetworkProvider,
    answered,
    answered_object,
    as_it_came,
    http_client,
    results_file,
    socket_timeout,
    streamed,
)
from tiltyard.judge.llm.providers.wire import a_number, batch_reply, chat_reply, chat_request, decode_lines, replies
from tiltyard.render import plural

_ENDPOINT: Final = "/v1/chat/completions"
_TAG = "tiltyard"
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_LONGEST_CUSTOM_ID = "x" * 64


_NOT_OPENAI = {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
"""What the SDK takes from the environment for OpenAI is no other server's business."""


def _client(api_key: str, caller: Caller, **further: Any) -> openai.AsyncOpenAI:
    keep_secret(api_key)
    common = {
        "api_key": api_key,
        "max_retries": 0,
        "timeout": socket_timeout(caller),
        "http_client": http_client(caller, openai.DefaultAioHttpClient, openai.DefaultAsyncHttpxClient),
        **further,
    }
    if "api_version" in further:
        return openai.AsyncAzureOpenAI(azure_endpoint=caller.base_url, **common)
    return openai.AsyncOpenAI(base_url=caller.base_url, **common)


class CompatibleProvider(NetworkProvider):
    """Asks any server that speaks OpenAI's chat completions: vLLM, llama.cpp, Ollama, a gateway.

    With `request.choices` it asks for log-probabilities, where the server knows them, and returns those of the choices.
    `api_key` is never that of another maker. `guided_choice` is the server's parameter that allows only the `choices`:
    `structured_outputs` or `guided_choice` (vLLM), `grammar` (llama.cpp). `version` is a dated version of Azure's
    interface, which is then asked by deployment; None is its undated one.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None = None,
        guided_choice: str | None = None,
        preset: ServerPreset = LOCAL,
        version: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        if guided_choice is not None and guided_choice not in preset.guided_choice:
            known = ", ".join(sorted(preset.guided_choice))
            advice = f"Choose one of {known}, or leave it out." if known else "Leave it out."
            raise OptionError(f"guided_choice {guided_choice!r} is not known to {preset.name}/… models. {advice}")
        further: dict[str, Any] = {"default_headers": {**_NOT_OPENAI, **preset.headers}}
        if preset is AZURE:
            base_url = base_url.rstrip("/").removesuffix("/openai/v1") + ("" if version else "/openai/v1")
            further |= {"api_version": version} if version else {}
        super().__init__(
            Caller(preset.name, preset.key_variable, base_url, openai.APIError, headers or {}, timeout_seconds)
        )
        self._client = _client(api_key or "none", self._caller, **further)
        self._preset = preset
        self._guided_choice = guided_choice

    async def ask(self, request: Request) -> Reply:
        if request.structured is not None and request.structured.as_tool and "tool" not in self._preset.structured:
            raise Refused(f"{self.name}/… models cannot be made to call a tool. Set the judge's `reply` to json.")
        body = chat_request(
            request,
            budget=self._preset.limit,
            logprobs=self._preset.logprobs,
            guided_choice=self._guided_choice,
        )
        return await _ask(self._client, self._caller, request, body)


class OpenAIProvider(MakerProvider):
    """Asks OpenAI's models."""

    maker = "openai"
    key_variables = ("OPENAI_API_KEY",)
    address_variables = ("OPENAI_BASE_URL",)
    default_base_url = "https://api.openai.com/v1"
    api_error = openai.APIError

    def _connect(self, api_key: str) -> None:
        self._client = _client(api_key, self._caller)

    async def ask(self, request: Request) -> Reply:
        body = chat_request(request, budget="max_completion_tokens")
        return await _ask(self._client, self._caller, request, body)

    @property
    def batch_limits(self) -> BatchLimits:
        return BatchLimits(requests=50_000, bytes=200_000_000)

    def encoded_size(self, request: Request) -> int:
        return len(_line(_LONGEST_CUSTOM_ID, request))

    async def submit(self, requests: Sequence[tuple[str, Request]], tag: str) -> str:
        """Upload a batch as a file, start it and return its id. The tag is stored as metadata."""
        about = f"a batch of {plural(len(requests), 'request')} ({tag})"
        content = b"".join(_line(custom_id, request) for custom_id, request in requests)
        upload = self._client.files.create(file=("batch.jsonl", content, "application/jsonl"), purpose="batch")
        waiting = self._client.batches.create(
            input_file_id=(await answered(upload, FileObject, self._caller, about, seconds=FILE_SECONDS)).id,
            endpoint=_ENDPOINT,
            completion_window="24h",
            metadata={_TAG: tag},
        )
        return (await answered(waiting, Batch, self._caller, about)).id

    async def state(self, batch_id: str) -> BatchState:
        return _state(await self._batch(batch_id))

    async def results(self, batch_id: str) -> AsyncGenerator[tuple[str, Reply], None]:
        """The replies of an ended batch, streamed: those that succeeded, then those that did not."""
        batch = await self._batch(batch_id)
        if batch.status not in _ENDED:
            raise TryLater(f"Batch {batch_id} has not ended yet ({batch.status}). Ask for its results later.")
        if batch.status == "failed":
            files, problem = [batch.input_file_id], {"error": _failure(batch)}
        else:
            files, problem = [name for name in (batch.output_file_id, batch.error_file_id) if name], None
        for file_id in files:
            lines = streamed(self._lines(file_id), self._caller, f"a request for the file {file_id}")
            async for reply in replies(lines, "custom_id", lambda line: batch_reply(problem or line)):
                yield reply

    def recent_batches(self) -> AsyncGenerator[BatchState, None]:
        return streamed(self._recent_batches(), self._caller, "a request for the list of batches")

    async def _recent_batches(self) -> AsyncGenerator[BatchState, None]:
        async for batch in self._client.batches.list(limit=100):
            yield _state(batch)

    async def _batch(self, batch_id: str) -> Batch:
        waiting = self._client.batches.retrieve(batch_id)
        return await answered(waiting, Batch, self._caller, f"a question about batch {batch_id}")

    async def _lines(self, file_id: str) -> AsyncGenerator[object, None]:
        async with results_file(self._client.files.with_streaming_response.content(file_id)) as answer:
            async for line in decode_lines(answer.iter_bytes()):
                yield line


async def _ask(client: openai.AsyncOpenAI, caller: Caller, request: Request, body: dict[str, Any]) -> Reply:
    known = {name: body.pop(name) for name in ("model", "messages")}
    waiting = client.chat.completions.with_raw_response.create(**known, extra_body=body)
    about = f"a request to {request.model}"
    return chat_reply(await answered_object(as_it_came(waiting), caller, about, request=request), request.choices)


def _line(custom_id: str, request: Request) -> bytes:
    body = chat_request(request, budget="max_completion_tokens")
    entry = {"custom_id": custom_id, "method": "POST", "url": _ENDPOINT, "body": body}
    return msgspec.json.encode(entry) + b"\n"


def _failure(batch: Batch) -> dict[str, Any]:
    """Why a batch never started, as the error of each of its requests."""
    problems = (batch.errors.data if batch.errors else None) or []
    if not problems:
        return {"code": "batch_failed", "message": "The batch failed."}
    return {"code": problems[0].code or "batch_failed", "message": problems[0].message}


def _state(batch: Batch) -> BatchState:
    return BatchState(
        batch_id=batch.id,
        ended=batch.status in _ENDED,
        created_at=a_number(batch.created_at) or 0.0,
        size=batch.request_counts.total if batch.request_counts else None,
        tag=(batch.metadata or {}).get(_TAG),
    )
