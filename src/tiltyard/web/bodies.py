"""Reading request bodies: small forms, small JSON texts and files, read once and limited in size."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from tiltyard.web.failures import Failure

R = TypeVar("R")

FORM_BYTES = 16_384
FORM_FIELDS = 100
JSON_BYTES = 16_384
HEAD_BYTES = 4096
"""The head of one part of a form with a file."""

BOUNDARY = re.compile(r'boundary=(?:"([^"\r\n]{1,70})"|([^;\s"]{1,70}))')
PART_NAME = re.compile(rb'[;\s]name="([^"\r\n]{1,60})"')


async def form_of(request: Request, most_bytes: int = FORM_BYTES) -> Mapping[str, str]:
    """The fields of a form; if a name occurs twice, the last value."""
    if media_type(request) != "application/x-www-form-urlencoded":
        raise Failure(415, "unsupported_media_type", "send a form: content-type application/x-www-form-urlencoded.")
    body = await body_of(request, most_bytes)
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            max_num_fields=FORM_FIELDS,
            errors="strict",
            strict_parsing=False,
        )
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
    body = await body_of(request, JSON_BYTES)
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
    if await body_of(request, JSON_BYTES) and media_type(request) != "application/json":
        raise Failure(415, "unsupported_media_type", "send JSON: content-type application/json.")


async def multipart_of(request: Request, target: Path, most_bytes: int) -> dict[str, str]:
    """The short fields of a form with a file, which is written to `target` while it arrives.

    Only the first file counts, and an empty one is none.
    """
    result = BOUNDARY.search(request.headers.get("content-type", ""))
    if media_type(request) != "multipart/form-data" or result is None:
        raise Failure(415, "unsupported_media_type", "send a form with a file: content-type multipart/form-data.")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most_bytes:
        raise _too_large(most_bytes)
    reader = _Parts(b"\r\n--" + (result[1] or result[2]).encode("latin-1"), target)
    total = 0
    try:
        async for piece in request.stream():
            total += len(piece)
            if total > most_bytes:
                raise _too_large(most_bytes)
            await asyncio.to_thread(reader.feed, piece)
        if not reader.ended:
            raise Failure(400, "bad_request", "the form was cut off. Send it again.")
    finally:
        reader.close()
    return reader.fields


class _Parts:
    """Reads a multipart form as it arrives, with little of it in memory."""

    def __init__(self, boundary: bytes, target: Path) -> None:
        self._boundary = boundary
        self._target = target
        self._rest = b"\r\n"
        self._name: str | None = None
        self._file: IO[bytes] | None = None
        self.fields: dict[str, str] = {}
        self.ended = False

    def feed(self, piece: bytes) -> None:
        """Take in the next bytes."""
        self._rest += piece
        while not self.ended:
            at = self._rest.find(self._boundary)
            if at < 0:
                keep = len(self._boundary) + HEAD_BYTES
                if len(self._rest) > 2 * keep:
                    self._take(self._rest[:-keep])
                    self._rest = self._rest[-keep:]
                return
            after = self._rest[at + len(self._boundary) :]
            if after.startswith(b"--"):
                self._take(self._rest[:at])
                self._next(None)
                self.ended = True
                return
            head, blank, rest = after.partition(b"\r\n\r\n")
            if not blank:
                if len(after) > HEAD_BYTES:
                    raise Failure(400, "bad_request", "the form cannot be read: a part's head is too long.")
                return
            self._take(self._rest[:at])
            self._next(head)
            self._rest = rest

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _take(self, data: bytes) -> None:
        if self._file is not None:
            self._file.write(data)
        elif self._name is not None:
            self.fields[self._name] = (self.fields.get(self._name, "") + data.decode("utf-8", "replace"))[:FORM_BYTES]

    def _next(self, head: bytes | None) -> None:
        """Begin the next part, or none."""
        self.close()
        if self._file is not None and self._target.stat().st_size == 0:
            self._target.unlink()
        self._file, self._name = None, None
        if head is None:
            return
        name = PART_NAME.search(head)
        if b"filename=" in head:
            self._file = None if self._target.exists() else self._target.open("wb")
        elif name is not None and len(self.fields) < FORM_FIELDS:
            self._name = name[1].decode("utf-8", "replace")
            self.fields[self._name] = ""


async def body_of(request: Request, most_bytes: int) -> bytes:
    """All that was sent, if it is not too much."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most_bytes:
        raise _too_large(most_bytes)
    body, more = b"", True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most_bytes:
            raise _too_large(most_bytes)
    return body


def media_type(request: Request) -> str:
    """The stated content type of the body."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _too_large(most_bytes: int) -> Failure:
    return Failure(413, "too_large", f"the request is larger than {most_bytes} bytes.", {"connection": "close"})
