"""Anthropic: messages one at a time, and Message Batches at half price, through the official SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Any, cast

import anthropic
import msgspec
from anthropic.types.messages import MessageBatch

from tiltyard.data.bank import Image
from tiltyard.errors import Refused, TryLater
from tiltyard.judge.llm.provider import BatchLimits, BatchState, Reply, Request, Stop, ToolCall, Usage
from tiltyard.judge.llm.providers.http import (
    FILE_SECONDS,
    MakerProvider,
    answered,
    answered_object,
    as_it_came,
    http_client,
    results_file,
    socket_timeout,
    streamed,
)
from tiltyard.judge.llm.providers.wire import (
    a_count,
    a_list,
    a_name,
    a_text,
    an_object,
    arguments_text,
    decode_lines,
    joined_texts,
    name_and_words,
    replies,
)
from tiltyard.render import plural

_STOPS = {"max_tokens": Stop.LENGTH, "model_context_window_exceeded": Stop.LENGTH, "refusal": Stop.REFUSAL}
_POINTLESS = frozenset({"invalid_request_error", "not_found_error", "request_too_large"})
_CACHED = ("cache_creation_input_tokens", "cache_read_input_tokens")
_LONGEST_CUSTOM_ID = "x" * 64


class AnthropicProvider(MakerProvider):
    """Asks Anthropic's models."""

    maker = "anthropic"
    key_variables = ("ANTHROPIC_API_KEY",)
    address_variables = ("ANTHROPIC_BASE_URL",)
    default_base_url = "https://api.anthropic.com"
    api_error = anthropic.APIError

    def _connect(self, api_key: str) -> None:
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key,
            base_url=self._caller.base_url,
            max_retries=0,
            timeout=socket_timeout(self._caller),
            http_client=http_client(self._caller, anthropic.DefaultAioHttpClient, anthropic.DefaultAsyncHttpxClient),
        )

    async def ask(self, request: Request) -> Reply:
        create = self._client.messages.with_raw_response.create
        waiting = create(**_params(request), extra_body=_options(request) or None)
        about = f"a request to {request.model}"
        return _reply(await answered_object(as_it_came(waiting), self._caller, about, request=request))

    @property
    def batch_limits(self) -> BatchLimits:
        return BatchLimits(requests=100_000, bytes=256_000_000)

    def encoded_size(self, request: Request) -> int:
        return len(msgspec.json.encode(_entry(_LONGEST_CUSTOM_ID, request))) + 1

    async def submit(self, requests: Sequence[tuple[str, Request]], tag: str) -> str:
        """Submit a batch and return its id. Anthropic stores no labels, so `tag` is not sent."""
        entries = cast("Any", [_entry(custom_id, request) for custom_id, request in requests])
        waiting = self._client.messages.batches.create(requests=entries)
        about = f"a batch of {plural(len(requests), 'request')} ({tag})"
        return (await answered(waiting, MessageBatch, self._caller, about, seconds=FILE_SECONDS)).id

    async def state(self, batch_id: str) -> BatchState:
        return _state(await self._batch(batch_id))

    def results(self, batch_id: str) -> AsyncGenerator[tuple[str, Reply], None]:
        return streamed(self._results(batch_id), self._caller, f"a request for the results of batch {batch_id}")

    def recent_batches(self) -> AsyncGenerator[BatchState, None]:
        return streamed(self._recent_batches(), self._caller, "a request for the list of batches")

    async def _results(self, batch_id: str) -> AsyncGenerator[tuple[str, Reply], None]:
        batch = await self._batch(batch_id)
        if batch.results_url is None:
            if batch.archived_at is not None:
                gone = f"The results of batch {batch_id} are no longer kept by Anthropic."
                raise Refused(f"{gone} Send its requests again.")
            raise TryLater(f"Batch {batch_id} has not ended yet. Ask for its results later.")
        async with results_file(self._client.messages.batches.with_streaming_response.results(batch_id)) as answer:
            async for reply in replies(decode_lines(answer.iter_bytes()), "custom_id", _batch_reply):
                yield reply

    async def _recent_batches(self) -> AsyncGenerator[BatchState, None]:
        async for batch in self._client.messages.batches.list(limit=100):
            yield _state(batch)

    async def _batch(self, batch_id: str) -> MessageBatch:
        waiting = self._client.messages.batches.retrieve(batch_id)
        return await answered(waiting, MessageBatch, self._caller, f"a question about batch {batch_id}")


def _params(request: Request) -> dict[str, Any]:
    params: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": [{"role": role, "content": words} for role, words in request.messages],
    }
    if request.images:
        params["messages"][-1]["content"] = [_part(part) for part in request.user_parts]
    if request.system:
        block: dict[str, Any] = {"type": "text", "text": request.system}
        if request.cache_system:
            block["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
        params["system"] = [block]
    wanted = request.structured
    if wanted is not None and wanted.as_tool:
        tool = {"name": wanted.name, "description": wanted.description, "input_schema": wanted.schema}
        params["tools"] = [tool]
        params["tool_choice"] = {"type": "tool", "name": wanted.name, "disable_parallel_tool_use": True}
    return params


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    source = {"type": "base64", "media_type": part.media_type, "data": part.encoded()} if part.path else None
    return {"type": "image", "source": source or {"type": "url", "url": part.url}}


def _options(request: Request) -> dict[str, Any]:
    """The options of a request, with the schema of its reply beside other parts of `output_config` (`effort`)."""
    wanted = request.structured
    if wanted is None or wanted.as_tool:
        return request.options
    output = {
        **an_object(request.options.get("output_config")),
        "format": {"type": "json_schema", "schema": wanted.schema},
    }
    return {**request.options, "output_config": output}


def _entry(custom_id: str, request: Request) -> dict[str, Any]:
    return {"custom_id": custom_id, "params": {**_params(request), **_options(request)}}


def _reply(answer: object, *, batched: bool = False) -> Reply:
    """A message as a reply. One without content is an error, not an empty answer."""
    message = an_object(answer)
    usage, model = _usage(message.get("usage")), a_text(message.get("model"))
    text = joined_texts(message.get("content"))
    if text is None:
        kind, words = name_and_words(message.get("error"), "no content")
        return Reply(text=words, error=f"errored: {kind}", usage=usage or Usage(), model=model, batched=batched)
    reason = message.get("stop_reason")
    stop = _STOPS.get(reason, Stop.END) if isinstance(reason, str) else Stop.END
    blocks = [an_object(block) for block in a_list(message.get("content"))]
    calls = tuple(
        ToolCall(a_name(block.get("name")), arguments_text(block.get("input")))
        for block in blocks
        if block.get("type") == "tool_use"
    )
    return Reply(text=text, stop=stop, usage=usage, model=model, batched=batched, calls=calls)


def _usage(value: object) -> Usage | None:
    usage = an_object(value)
    counts = {name: a_count(usage.get(name)) for name in ("input_tokens", "output_tokens")}
    counts |= {name: a_count(usage.get(name) or 0) for name in _CACHED}
    known = {name: count for name, count in counts.items() if count is not None}
    return Usage(**known) if len(known) == len(counts) else None


def _batch_reply(line: dict[str, Any]) -> Reply:
    """One line of results; without a message, `text` holds the provider's error text."""
    result = an_object(line.get("result"))
    kind = a_name(result.get("type"))
    if kind == "succeeded":
        return _reply(result.get("message"), batched=True)
    if kind != "errored":
        return Reply(error=kind or "errored: no result", batched=True)
    kind, words = name_and_words(an_object(result.get("error")).get("error"), "no reason given")
    if "credit balance" in words.lower():
        kind = "billing_error"
    return Reply(text=words, error=f"errored: {kind}", final=kind in _POINTLESS, batched=True)


def _state(batch: MessageBatch) -> BatchState:
    """What a batch says of itself. The SDK does not check types: a gateway may leave out anything."""
    counts = an_object(batch.model_dump().get("request_counts"))
    sizes = [a_count(counts.get(name)) for name in ("processing", "succeeded", "errored", "canceled", "expired")]
    return BatchState(
        batch_id=batch.id,
        ended=batch.processing_status == "ended",
        created_at=batch.created_at.timestamp() if isinstance(batch.created_at, datetime) else 0.0,
        size=None if None in sizes else sum(size or 0 for size in sizes),
    )
