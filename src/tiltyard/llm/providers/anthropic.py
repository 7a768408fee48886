"""Anthropic: messages one at a time, and Message Batches at half price, through the official SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import anthropic
import msgspec
from anthropic.types import Message
from anthropic.types.messages import MessageBatch

from tiltyard.errors import ModelError, Refused, TryLater
from tiltyard.llm.keys import keep_secret
from tiltyard.llm.provider import BatchLimits, BatchState
from tiltyard.llm.providers.clients import connect_timeout, http_client
from tiltyard.llm.providers.failures import Caller, answered, streamed
from tiltyard.llm.providers.wording import encodable, one_line
from tiltyard.llm.records import Reply, Request, Stop, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from anthropic.types.messages import MessageBatchIndividualResponse

KEY_VARIABLE = "ANTHROPIC_API_KEY"
DEFAULT_BASE_URL = "https://api.anthropic.com"

_STOPS = {"max_tokens": Stop.LENGTH, "model_context_window_exceeded": Stop.LENGTH, "refusal": Stop.REFUSAL}
_POINTLESS = frozenset({"invalid_request_error", "not_found_error", "request_too_large"})
_LONGEST_CUSTOM_ID = "x" * 64


class AnthropicProvider:
    """Asks Anthropic's models. It belongs to the event loop of its first call; close it with `aclose`."""

    def __init__(self, *, api_key: str, base_url: str | None = None) -> None:
        keep_secret(api_key)
        self._caller = Caller("anthropic", KEY_VARIABLE, base_url or DEFAULT_BASE_URL, anthropic.APIError)
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key,
            base_url=self._caller.base_url,
            max_retries=0,
            timeout=connect_timeout(),
            http_client=http_client(anthropic.DefaultAioHttpClient, anthropic.DefaultAsyncHttpxClient),
        )

    def __repr__(self) -> str:
        return f"AnthropicProvider({self._caller.address!r})"

    @property
    def name(self) -> str:
        """`anthropic`."""
        return "anthropic"

    async def ask(self, request: Request) -> Reply:
        """The reply to one request."""
        waiting = self._client.messages.create(**_params(request), extra_body=request.options or None)
        return _reply(await answered(waiting, Message, self._caller, f"a request to {request.model}"))

    async def aclose(self) -> None:
        """Let go of connections."""
        await self._client.close()

    @property
    def batch_limits(self) -> BatchLimits:
        """100,000 requests or 256 MB."""
        return BatchLimits(requests=100_000, bytes=256_000_000)

    def encoded_size(self, request: Request) -> int:
        """How many bytes a request takes in a batch, with the longest custom id."""
        return len(msgspec.json.encode(_entry(_LONGEST_CUSTOM_ID, request))) + 1

    async def submit(self, requests: Sequence[tuple[str, Request]], tag: str) -> str:
        """Hand over a batch; its id. Anthropic keeps no marks of ours, so `tag` stays here."""
        entries = cast("Any", [_entry(custom_id, request) for custom_id, request in requests])
        waiting = self._client.messages.batches.create(requests=entries)
        about = f"a batch of {len(requests)} requests ({tag})"
        return (await answered(waiting, MessageBatch, self._caller, about)).id

    async def state(self, batch_id: str) -> BatchState:
        """Where a batch stands now."""
        return _state(await self._batch(batch_id))

    def results(self, batch_id: str) -> AsyncIterator[tuple[str, Reply]]:
        """The replies of an ended batch, streamed."""
        return streamed(self._results(batch_id), self._caller, f"a request for the results of batch {batch_id}")

    def recent_batches(self) -> AsyncIterator[BatchState]:
        """The batches of this account, newest first."""
        return streamed(self._recent_batches(), self._caller, "a request for the list of batches")

    async def _results(self, batch_id: str) -> AsyncGenerator[tuple[str, Reply], None]:
        batch = await self._batch(batch_id)
        if batch.results_url is None:
            raise _no_results(batch)
        lines = await self._client.messages.batches.results(batch_id)
        try:
            async for line in lines:
                yield line.custom_id, _batch_reply(line)
        finally:
            await lines.close()

    async def _recent_batches(self) -> AsyncGenerator[BatchState, None]:
        async for batch in self._client.messages.batches.list(limit=100):
            yield _state(batch)

    async def _batch(self, batch_id: str) -> MessageBatch:
        waiting = self._client.messages.batches.retrieve(batch_id)
        return await answered(waiting, MessageBatch, self._caller, f"a question about batch {batch_id}")


def _no_results(batch: MessageBatch) -> ModelError:
    if batch.archived_at is not None:
        return Refused(f"The results of batch {batch.id} are no longer kept by Anthropic. Send its requests again.")
    return TryLater(f"Batch {batch.id} has not ended yet. Ask for its results later.")


def _params(request: Request) -> dict[str, Any]:
    params: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": [{"role": role, "content": words} for role, words in request.messages],
    }
    if request.system:
        block: dict[str, Any] = {"type": "text", "text": request.system}
        if request.cache_system:
            block["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
        params["system"] = [block]
    return params


def _entry(custom_id: str, request: Request) -> dict[str, Any]:
    return {"custom_id": custom_id, "params": {**_params(request), **request.options}}


def _reply(message: Message, *, batched: bool = False) -> Reply:
    usage = message.usage
    return Reply(
        text=encodable("".join(block.text for block in message.content if block.type == "text")),
        stop=_STOPS.get(message.stop_reason or "", Stop.END),
        usage=Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_creation_input_tokens=usage.cache_creation_input_tokens or 0,
            cache_read_input_tokens=usage.cache_read_input_tokens or 0,
        ),
        model=message.model,
        batched=batched,
    )


def _batch_reply(line: MessageBatchIndividualResponse) -> Reply:
    """One line of results; where there is no message, `text` holds the provider's own words."""
    result = line.result
    if result.type == "succeeded":
        return _reply(result.message, batched=True)
    if result.type != "errored":
        return Reply(error=result.type, batched=True)
    kind, words = str(result.error.error.type), str(result.error.error.message)
    if "credit balance" in words.lower():
        kind = "billing_error"
    return Reply(text=one_line(words), error=f"errored: {kind}", final=kind in _POINTLESS, batched=True)


def _state(batch: MessageBatch) -> BatchState:
    counts = batch.request_counts
    return BatchState(
        batch_id=batch.id,
        ended=batch.processing_status == "ended",
        created_at=batch.created_at.timestamp(),
        size=counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired,
    )
