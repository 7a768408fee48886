"""Reading request bodies: small forms and small JSON texts, read once and limited in size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from tiltyard.site.failures import Failure

R = TypeVar("R")

MOST_BYTES = 16_384
MOST_FIELDS = 100


async def form_of(request: Request) -> Mapping[str, str]:
    """The fields of a form; if a name occurs twice, the last value."""
    if media_type(request) != "application/x-www-form-urlencoded":
        raise Failure(415, "unsupported_media_type", "send a form: content-type application/x-www-form-urlencoded.")
    body = await _body_of(request)
    try:
        fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise Failure(400, "bad_request", "the form cannot be read: send UTF-8, percent-encoded.") from None
    return dict(fields)


def choice_of(form: Mapping[str, str], name: str, *known: str) -> str:
    """The value of a field that has one of few."""
    value = form.get(name, "")
    if value not in known:
        raise Failure(400, "bad_request", f"`{name}` is {' or '.join(known)}, not {value[:20]!r}.")
    return value


async def json_of(request: Request, kind: type[R]) -> R:
    """A JSON text as a value of this type. A key that is given twice is an error."""
    if media_type(request) != "application/json":
        raise Failure(415, "unsupported_media_type", "send JSON: content-type application/json.")
    body = await _body_of(request)
    try:
        value = msgspec.json.decode(body, type=kind)
        if body.count(b":") > 1:  # otherwise there is no second key
            json.loads(body, object_pairs_hook=_no_doubles)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        message = str(error).splitlines()[0]
        raise Failure(400, "bad_request", f"the JSON cannot be used: {message}.") from None
    return value


def _no_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key is given twice")
    return values


async def nothing_of(request: Request) -> None:
    """Check that a request without a body is empty or JSON, which other sites' forms cannot send."""
    if await _body_of(request) and media_type(request) != "application/json":
        raise Failure(415, "unsupported_media_type", "send JSON: content-type application/json.")


async def _body_of(request: Request) -> bytes:
    """All that was sent, if it is not too much."""
    length = request.headers.get("content-length", "0")
    too_large = Failure(413, "too_large", f"the request is larger than {MOST_BYTES} bytes.", {"connection": "close"})
    if length.isdecimal() and int(length) > MOST_BYTES:
        raise too_large
    body, more = b"", True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MOST_BYTES:
            raise too_large
    return body


def media_type(request: Request) -> str:
    """The stated content type of the body."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
