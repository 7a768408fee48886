"""Gemini: `generateContent` one at a time, and batches from a file at half price, through Google's official SDK.

The SDK sends; every body that comes back is read here (`gemini_wire.py`), because the SDK's classes leave out why a
batch failed, and stumble over what a gateway may send.
"""

from __future__ import annotations

import io
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import httpx2
from google import genai
from google.genai import types

from tiltyard.errors import Refused, TryLater
from tiltyard.llm.asking import plural
from tiltyard.llm.keys import keep_secret
from tiltyard.llm.provider import TIMEOUT_SECONDS, BatchLimits, BatchState
from tiltyard.llm.providers.gemini_wire import (
    batch_line,
    batch_reply,
    batch_state,
    error_of,
    gemini_reply,
    gemini_request,
    responses_file,
    retry_seconds,
)
from tiltyard.llm.providers.http import (
    FILE_SECONDS,
    Caller,
    answered_object,
    http_client,
    is_results_file,
    results_file,
    streamed,
)
from tiltyard.llm.providers.received import NotJSON, UnreadableLine, a_list, a_text, an_object, decode, decode_lines
from tiltyard.llm.records import Reply, Request

KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
"""Where the key is looked for, in this order."""
ADDRESS_VARIABLES = ("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com"

_API_VERSION = "v1beta"
_LONGEST_CUSTOM_ID = "x" * 64
_PAGE = 100

# It names the variable whose key it would take; the key is ours, whatever the environment holds.
logging.getLogger("google_genai").setLevel(logging.ERROR)

_received: ContextVar[list[httpx2.Response] | None] = ContextVar("_received", default=None)
"""The answers to the current call, noted before the SDK interprets them."""


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


async def _note(response: httpx2.Response) -> None:
    """Read each answer before the SDK does, and raise what is none: its own retries of an upload block the loop."""
    if response.status_code == 200 and is_results_file():
        return
    await response.aread()
    if response.status_code != 200:
        raise _HTTPStatus(response)
    uploading = "x-goog-upload-offset" in response.request.headers
    if uploading and "x-goog-upload-status" not in response.headers:
        raise ValueError("the upload was answered without a status")
    seen = _received.get()
    if seen is not None:
        seen.append(response)


@dataclass(frozen=True, slots=True)
class _Raw:
    """The last answer to a call, as it came."""

    http_response: httpx2.Response


async def _raw(waiting: Awaitable[object]) -> _Raw:
    """The answer to an SDK call as it came, whatever the SDK makes of its body."""
    seen: list[httpx2.Response] = []
    token = _received.set(seen)
    try:
        await waiting
    except Exception:
        if not seen:
            raise
    finally:
        _received.reset(token)
    return _Raw(seen[-1])


class GeminiProvider:
    """Asks Google's Gemini models. It belongs to the event loop of its first call; close it with `aclose`.

    Parameters:
        api_key: The key, sent only to `base_url`.
        base_url: The server's address; None is Google's.
        headers: Further headers of every request, for a gateway.
        timeout_seconds: How long one request may take in all.
    """

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        keep_secret(api_key)
        self._api_key = api_key
        self._caller = Caller(
            "gemini", KEY_VARIABLES[0], base_url or DEFAULT_BASE_URL, _HTTPStatus, headers or {}, timeout_seconds
        )
        self._http = http_client(self._caller, _aiohttp_client, httpx2.AsyncClient)
        hooks = self._http.event_hooks
        self._http.event_hooks = {**hooks, "response": [*hooks["response"], _note]}
        # Everything that the SDK would otherwise take from the environment is stated.
        self._client = genai.Client(
            api_key=api_key,
            vertexai=False,
            http_options=types.HttpOptions(
                base_url=self._caller.base_url,
                api_version=_API_VERSION,
                timeout=round(1000 * (timeout_seconds + 1)),
                httpx_async_client=self._http,
            ),
        )

    def __repr__(self) -> str:
        return f"GeminiProvider({self._caller.address!r})"

    @property
    def name(self) -> str:
        """`gemini`."""
        return "gemini"

    async def ask(self, request: Request) -> Reply:
        """The reply to one request."""
        waiting = self._client.aio.models.generate_content(
            model=_checked(request.model),
            contents=request.user,
            config=types.GenerateContentConfig(
                automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
                automatic_continuation=False,
                should_return_http_response=True,
                http_options=types.HttpOptions(extra_body=gemini_request(request)),
            ),
        )
        about = f"a request to {request.model}"
        answer = await answered_object(_raw(waiting), self._caller, about, request=request)
        return gemini_reply(answer, request.choices)

    async def aclose(self) -> None:
        """Close connections."""
        await self._client.aio.aclose()
        self._client.close()
        await self._http.aclose()

    @property
    def batch_limits(self) -> BatchLimits:
        """A file of 2 GB; Google states no number of requests, so ours keeps the results small enough to read."""
        return BatchLimits(requests=50_000, bytes=2_000_000_000)

    def encoded_size(self, request: Request) -> int:
        """How many bytes a request takes in a batch, with the longest custom id."""
        return len(batch_line(_LONGEST_CUSTOM_ID, request))

    async def submit(self, requests: Sequence[tuple[str, Request]], tag: str) -> str:
        """Upload a batch as a file, start it and return its id. The tag is its display name."""
        about = f"a batch of {plural(len(requests), 'request')} ({tag})"
        content = b"".join(batch_line(custom_id, request) for custom_id, request in requests)
        upload = self._client.aio.files.upload(
            file=io.BytesIO(content),
            config=types.UploadFileConfig(display_name=tag, mime_type="application/jsonl"),
        )
        stored = await answered_object(_raw(upload), self._caller, about, seconds=FILE_SECONDS)
        uploaded = an_object(stored.get("file"))
        file_name = a_text(uploaded.get("name"))
        if not file_name:
            raise TryLater(f"{self._caller.address} took the file of {about}, but did not say its name.")
        create = self._client.aio.batches.create(
            model=_checked(requests[0][1].model),
            src=file_name,
            config=types.CreateBatchJobConfig(display_name=tag),
        )
        batch_id = a_text((await answered_object(_raw(create), self._caller, about)).get("name"))
        if not batch_id:
            raise TryLater(f"{self._caller.address} took {about}, but did not say its name.")
        return batch_id

    async def state(self, batch_id: str) -> BatchState:
        """The current state of a batch."""
        return batch_state(await self._batch(batch_id), batch_id)

    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Reply]]:
        """The replies of an ended batch: none if it failed, expired or was canceled before it had any."""
        batch = await self._batch(batch_id)
        if not batch_state(batch, batch_id).ended:
            raise TryLater(f"Batch {batch_id} has not ended yet. Ask for its results later.")
        file_name = responses_file(batch)
        if file_name is None:
            return
        about = f"a request for the results of batch {batch_id}"
        try:
            async for line in streamed(self._lines(file_name), self._caller, about):
                if isinstance(line, UnreadableLine):
                    yield line.result()
                    continue
                entry = an_object(line)
                yield a_text(entry.get("key")) or "", batch_reply(entry)
        except Refused:
            failure = Refused(f"The results of batch {batch_id} are no longer kept by Google. Send its requests again.")
        else:
            return
        raise failure

    async def recent_batches(self) -> AsyncIterator[BatchState]:
        """The batches of this account, newest first: Google does not promise an order, so all are listed first."""
        about = "a request for the list of batches"
        found: list[BatchState] = []
        page_token: str | None = None
        while True:
            config = types.ListBatchJobsConfig(page_size=_PAGE, page_token=page_token)
            page = await answered_object(_raw(self._client.aio.batches.list(config=config)), self._caller, about)
            found += [batch_state(an_object(one), "") for one in a_list(page.get("operations"))]
            page_token = a_text(page.get("nextPageToken"))
            if not page_token:
                break
        for state in sorted(found, key=lambda state: state.created_at, reverse=True):
            yield state

    async def _lines(self, file_name: str) -> AsyncGenerator[object, None]:
        """The lines of a file, as they arrive: the SDK would read it whole."""
        url = f"{self._caller.base_url.rstrip('/')}/{_API_VERSION}/{file_name}:download"
        opening = self._http.stream("GET", url, params={"alt": "media"}, headers={"x-goog-api-key": self._api_key})
        async with results_file(opening) as answer:
            async for line in decode_lines(answer.aiter_bytes()):
                yield line

    async def _batch(self, batch_id: str) -> dict[str, Any]:
        name = f"batches/{batch_id.removeprefix('batches/')}"
        waiting = self._client.aio.batches.get(name=name)
        return await answered_object(_raw(waiting), self._caller, f"a question about batch {batch_id}")


def _checked(model: str) -> str:
    if ".." in model or "?" in model or "&" in model:
        raise Refused(f"gemini/{model} is not a name of a model. Write it as Google does, such as gemini/gemini-x-pro.")
    return model


def _aiohttp_client(**settings: Any) -> httpx2.AsyncClient:
    """OpenAI's client on aiohttp, where it is installed: Google's own repeats lost requests by itself."""
    from openai import DefaultAioHttpClient

    return DefaultAioHttpClient(**settings)
