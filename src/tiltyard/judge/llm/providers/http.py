"""The HTTP side of the official SDKs: their client, and the translation of their errors into ours.

An error becomes `TryLater`, `Refused` or `QuestionRefused`: one line, without keys.
"""

from __future__ import annotations

import asyncio
import email.utils
import math
import os
import re
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import httpx2

from tiltyard.errors import ModelError, OptionError, QuestionRefused, Refused, TryLater
from tiltyard.judge.llm.keys import keep_secret, redact
from tiltyard.judge.llm.provider import TIMEOUT_SECONDS, Request
from tiltyard.judge.llm.providers.wire import NotJSON, a_name, decode, one_line

if TYPE_CHECKING:
    import ssl

Answer = TypeVar("Answer")

_NETWORK: tuple[type[Exception], ...] = (httpx2.HTTPError, httpx2.StreamError, OSError, ValueError, RecursionError)
_UNREACHABLE: tuple[type[Exception], ...] = (httpx2.ConnectError, ConnectionRefusedError, socket.gaierror)
try:
    from aiohttp import ClientConnectorError, ClientError
except ImportError:  # the SDKs then run on httpx2 alone
    pass
else:
    _NETWORK = (*_NETWORK, ClientError)
    _UNREACHABLE = (*_UNREACHABLE, ClientConnectorError)

FILE_SECONDS = 3600.0
"""How long sending a batch, or reading its results, may take in all."""
SLOWEST = 50_000
"""Bytes a second: a file of results that takes longer than the time limit must come at least as fast as this."""
LARGEST_ANSWER = 2_000_000
"""The most bytes of an answer, decompressed; the probabilities of a reply's tokens come on top."""
BYTES_PER_TOKEN = 16
BYTES_PER_TOKEN_WITH_PROBABILITIES = 4_000
_LARGEST_ERROR = 64_000
"""The most bytes of an error that are read."""
_largest: ContextVar[float] = ContextVar("_largest", default=LARGEST_ANSWER)
"""The most bytes of the answer to the current call."""
_CUT_OFF = ("payload is not completed", "without sending complete message body")
"""How the two transports say that a connection ended in the middle of an answer."""
_LATER = frozenset({408, 409, 425, 429})
_ALL_QUESTIONS = frozenset({401, 402, 403, 404})
"""Errors about the key, the account, the model or the address: no other question would be answered either. The other
4xx codes concern one question."""
_FLAGGED = re.compile(r"moderation|flagged|content.?policy", re.IGNORECASE)
"""How gateways word a 403 that concerns one question."""
_LONGEST_WAIT_SECONDS = 3600.0
"""The longest wait that a provider's Retry-After can impose."""
_AS_STATUS = {"API_KEY_INVALID": 401, "FAILED_PRECONDITION": 403}
"""Errors that Google sends with status 400, though they are about the key or the account, by name."""
_NO_MONEY = frozenset({"insufficient_quota", "billing_error"})
_NO_CREDIT = re.compile(r"credit balance is too low|credits are depleted", re.IGNORECASE)
"""How Anthropic (400) and Google (429) say that the credit is used up."""
_OF_THE_DAY = re.compile(r"per[ -]?day|daily", re.IGNORECASE)
"""How makers say with a 429 that it is the quota of the day: in words, or in the name of Google's quota."""

_MEANING = {
    400: "the request is malformed",
    401: "the key was not accepted",
    402: "the account cannot pay",
    403: "the key may not do this",
    404: "no such model or address",
    408: "time-out",
    413: "the request is too large",
    422: "the request is malformed",
    429: "rate limit",
    529: "overloaded",
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who was asked, for messages: the provider, its key's variable, its address, its SDK's error class."""

    provider: str
    key_variable: str
    base_url: str
    api_error: type[Exception]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        try:
            address = httpx2.URL(self.base_url)
        except httpx2.InvalidURL:
            address = httpx2.URL("")
        if address.scheme not in {"http", "https"} or not address.host:
            shown = self.base_url.rpartition("@")[2]  # what comes before it may be a password
            raise OptionError(f"{shown!r} is not a base_url: write it like http://localhost:8000/v1.")
        if address.userinfo:
            raise OptionError(f"The base_url of {address.host} holds a user or password: put a key into .env instead.")

    @property
    def address(self) -> str:
        """The address without a query."""
        return str(httpx2.URL(self.base_url).copy_with(query=None, fragment=None))


class NetworkProvider:
    """What the providers on the network share. They belong to the event loop of their first call."""

    _client: Any

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._caller.address!r})"

    @property
    def name(self) -> str:
        return self._caller.provider

    async def aclose(self) -> None:
        await self._client.close()


class MakerProvider(NetworkProvider):
    """A provider of one maker's models. It belongs to the event loop of its first call; close it with `aclose`."""

    maker: ClassVar[str]
    key_variables: ClassVar[tuple[str, ...]]
    """Where the key is looked for, in this order."""
    address_variables: ClassVar[tuple[str, ...]]
    default_base_url: ClassVar[str]
    api_error: ClassVar[type[Exception]]

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        keep_secret(api_key)
        address = base_url or self.default_base_url
        super().__init__(
            Caller(self.maker, self.key_variables[0], address, self.api_error, headers or {}, timeout_seconds)
        )
        self._connect(api_key)

    def _connect(self, api_key: str) -> None:
        raise NotImplementedError


async def answered(
    waiting: Awaitable[object], kind: type[Answer], caller: Caller, about: str, *, seconds: float | None = None
) -> Answer:
    """The result of an SDK call, checked for its type; SDK and network failures are raised as a `ModelError`.

    It may take as long as the caller's requests may, or `seconds`.

    The new error is raised outside the `except` block of the old one, here and in `streamed`: the old one references
    the request, and the request the key. For the same reason neither is a context manager, which would chain the old
    error to the new.
    """
    limit = caller.timeout_seconds if seconds is None else seconds
    try:
        async with asyncio.timeout(limit) as deadline:
            answer = await waiting
    except (caller.api_error, *_NETWORK) as error:
        failure = translate(error, caller, about)
        if deadline.expired():
            slow = f"{caller.address} gave no whole answer to {about} within {limit:g} s (timeout_seconds)."
            failure = TryLater(slow, timed_out=True)
    else:
        if isinstance(answer, kind):
            return answer
        failure = Refused(_no_answer(caller, about))
    raise failure


async def as_it_came(waiting: Awaitable[Any]) -> httpx2.Response:
    """The answer to an SDK's call `with_raw_response`: their classes do not check types, and some inputs break them."""
    response: httpx2.Response = (await waiting).http_response
    return response


async def answered_object(
    waiting: Awaitable[httpx2.Response],
    caller: Caller,
    about: str,
    *,
    seconds: float | None = None,
    request: Request | None = None,
) -> dict[str, Any]:
    """The JSON object that a server returns; failures are raised as in `answered`.

    The answer to a `request` may be longer, the more tokens it asks for.
    """
    largest = LARGEST_ANSWER
    if request is not None:
        each = BYTES_PER_TOKEN_WITH_PROBABILITIES if request.choices else BYTES_PER_TOKEN
        largest += each * request.max_tokens
    token = _largest.set(largest)
    try:
        data = (await answered(waiting, httpx2.Response, caller, about, seconds=seconds)).content
    finally:
        _largest.reset(token)
    try:
        answer = decode(data)
    except NotJSON:
        # One that begins like an object was cut off or garbled on its way; another may be a gateway's page.
        if not data.strip() or data.lstrip().startswith(b"{"):
            garbled = f"The answer of {caller.address} to {about} is incomplete or garbled."
            raise TryLater(garbled, damaged=True) from None
        answer = None
    if not isinstance(answer, dict):
        raise TryLater(_no_answer(caller, about))
    return answer


def _no_answer(caller: Caller, about: str) -> str:
    # a proxy's log-in page also comes with status 200
    return f"What {caller.address} sent for {about} is no answer of this API. Check the base_url."


async def streamed(items: AsyncGenerator[Answer, None], caller: Caller, about: str) -> AsyncGenerator[Answer, None]:
    """The items one by one; failures are raised as in `answered`."""
    failure: ModelError | None = None
    async with aclosing(items):
        try:
            async for item in items:
                yield item
        except (caller.api_error, *_NETWORK) as error:
            failure = translate(error, caller, about)
    if failure is not None:
        raise failure


def translate(error: Exception, caller: Caller, about: str) -> ModelError:
    """`TryLater` if it may succeed later, `QuestionRefused` if only this question never will, else `Refused`."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        reasons = [error]  # the SDK's error and its causes; the innermost one says most
        while isinstance(cause := reasons[-1].__cause__, Exception):
            reasons.append(cause)
        too_long = next((one for one in reasons if isinstance(one, AnswerTooLong)), None)
        if too_long is not None:
            return QuestionRefused(
                f"The answer of {caller.address} to {about} is too long: {too_long}. It was not read.",
                "answer too long",
                str(too_long),
                paid=True,
            )
        words = f"No answer from {caller.address} to {about}: {type(reasons[-1]).__name__} {reasons[-1]}"
        damaged = any(isinstance(one, AnswerTooSlow) or any(cut in str(one) for cut in _CUT_OFF) for one in reasons)
        unreachable = any(isinstance(one, _UNREACHABLE) for one in reasons)
        return TryLater(one_line(words), damaged=damaged, unreachable=unreachable)
    names, words = _error_body(error)
    meant = next((_AS_STATUS[name] for name in names if name in _AS_STATUS), status)
    message = f"{caller.provider} did not answer {about}: {_MEANING.get(meant, 'HTTP error')} ({status}): {words}"
    if status == 402 or _NO_MONEY & names.keys() or _NO_CREDIT.search(words):
        return Refused(one_line(message, "Top up the account, then run again."))
    if status == 429 and _OF_THE_DAY.search(" ".join((*names, words))):
        return Refused(one_line(message, "That is the quota of the day: run again when it is renewed, or raise it."))
    if status in _LATER or not 400 <= status < 500:
        return TryLater(one_line(message), retry_after(getattr(getattr(error, "response", None), "headers", {})))
    line = one_line(message, _advice(meant, caller))
    if meant not in _ALL_QUESTIONS or (meant == 403 and _FLAGGED.search(words)):
        name = redact(a_name(next(iter(names), f"status {status}")))
        return QuestionRefused(line, name, one_line(words))
    return Refused(line)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """The seconds to wait according to the provider (a number or an HTTP date), at most an hour; None if not stated."""
    for header, per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(header, "")) / per_second
        except ValueError:
            continue
        if math.isfinite(seconds):
            return min(max(0.0, seconds), _LONGEST_WAIT_SECONDS)
    try:
        moment = email.utils.parsedate_to_datetime(headers.get("retry-after", "")).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    return min(max(0.0, moment - (time.time() if now is None else now)), _LONGEST_WAIT_SECONDS)


def _error_body(error: Exception) -> tuple[dict[str, None], str]:
    """The names (type, then code) and message in an error's body; only OpenAI's SDK unwraps `error`."""
    body: Any = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(inner, dict):
        return {}, str(body or error)
    names = dict.fromkeys(str(inner[field]) for field in ("type", "code") if inner.get(field))
    return names, str(inner.get("message") or ", ".join(sorted(names)))


def _advice(status: int, caller: Caller) -> str:
    if status == 401:
        return f"Check {caller.key_variable} in the environment or .env."
    if status in {403, 404}:
        return f"Check the model's name, and what {caller.key_variable} may use at {caller.address}."
    if status == 413:
        return "Shorten the prompt, or send smaller batches."
    return "Asking the same again is pointless: change the request or its options."


_CONNECTIONS = 1000
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables that name other certificates than the system's."""


def socket_timeout(caller: Caller) -> httpx2.Timeout:
    """A minute to connect, as the SDKs' five seconds are too short when many connect at once.

    Between two bytes it is a little more than the whole request may take, so that the whole request's limit is met
    first.
    """
    return httpx2.Timeout(caller.timeout_seconds + 1, connect=min(60.0, caller.timeout_seconds + 1))


class AnswerTooLong(ValueError):
    """An answer has more bytes than it may have."""


class AnswerTooSlow(TimeoutError):
    """An answer drips, or has no end."""


class _LimitedBody(httpx2.AsyncByteStream):
    """The decompressed bytes of an answer, up to a limit: more is an error, and of an error the rest is left out."""

    def __init__(self, compressed: httpx2.Response, largest: float, seconds: float) -> None:
        self._compressed = compressed
        self._largest = largest
        self._seconds = seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        is_error = self._compressed.status_code >= 400
        largest = _LARGEST_ERROR if is_error else self._largest
        size, since = 0, time.monotonic()
        async with aclosing(self._compressed.aiter_bytes()) as pieces:
            async for piece in pieces:
                size += len(piece)
                if size > largest and is_error:
                    return
                if size > largest:
                    raise AnswerTooLong(f"more than {largest:,.0f} bytes")
                if time.monotonic() - since > min(self._seconds + size / SLOWEST, FILE_SECONDS):
                    raise AnswerTooSlow(f"over {self._seconds:g} s, and slower than {SLOWEST:,} bytes a second")
                yield piece

    async def aclose(self) -> None:
        await self._compressed.aclose()


@asynccontextmanager
async def results_file(opening: AbstractAsyncContextManager[Answer]) -> AsyncIterator[Answer]:
    """An answer that is a file of results: it may be as long as it likes, since it is read line by line."""
    token = _largest.set(math.inf)
    try:
        answer = await opening.__aenter__()
    finally:
        _largest.reset(token)
    try:
        yield answer
    finally:
        await opening.__aexit__(None, None, None)


def http_client(
    caller: Caller,
    aiohttp_client: Callable[..., httpx2.AsyncClient],
    plain_client: Callable[..., httpx2.AsyncClient],
) -> httpx2.AsyncClient:
    """A client on aiohttp if that is installed (a fifth of the processor time per call), else on httpx2.

    It sends the caller's headers to the caller's server only, wherever that redirects to, and limits every answer.
    """
    home = httpx2.URL(caller.base_url)

    async def add_headers(request: httpx2.Request) -> None:
        if (request.url.scheme, request.url.netloc) == (home.scheme, home.netloc):
            request.headers.update(caller.headers)
        else:  # a redirect takes all headers along
            for name in caller.headers:
                request.headers.pop(name, None)

    async def limit_body(response: httpx2.Response) -> None:
        """Let an answer be read only up to its limits; it is decompressed here, in pieces, as it is read."""
        compressed = httpx2.Response(
            response.status_code, headers=response.headers, stream=response.stream, request=response.request
        )
        response.stream = _LimitedBody(compressed, _largest.get(), caller.timeout_seconds)
        for name in ("content-encoding", "content-length"):
            response.headers.pop(name, None)

    settings = {
        "event_hooks": {"request": [add_headers], "response": [limit_body]},
        "timeout": socket_timeout(caller),
        "limits": httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
        "verify": trusted(*map(os.environ.get, CERTIFICATES)),
    }
    try:
        return aiohttp_client(**settings)
    except (ImportError, RuntimeError):  # which of the two depends on the SDK
        return plain_client(**settings)


@cache
def trusted(*_places: str | None) -> ssl.SSLContext:
    """The certificates that clients trust, by where the environment says they are.

    Reading them takes 0.1 s, which a panel of judges need not spend on each of its members.
    """
    return httpx2.create_ssl_context()
