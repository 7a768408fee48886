"""The addresses of answers that are files: opaque, the same headers on both sides, and nothing that tells who wrote.

An address is made from a matchup and a side with the site's secret, so nobody can guess one, and it needs no cookie: a
page in a sandboxed frame has none. What a browser may do with a file is said by the headers here (decision 6).
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator
from functools import cache

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tiltyard.arena.store import PART_BYTES, Store, StoredFile, files_of, read_part, shown_file
from tiltyard.data.bank import AnswerKind
from tiltyard.render import Html
from tiltyard.site.answer_links import OPERATOR, PUBLIC
from tiltyard.site.failures import Failure
from tiltyard.site.rendering import static_files
from tiltyard.site.site import site_of

SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "font-src data:; media-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; "
    "require-trusted-types-for 'script'; trusted-types default"
)
"""What a page may do: run its own scripts and styles. No network, no storage, no other window, no navigation.

No directive forbids frames made from a text (`srcdoc`): the cleaner takes them from the markup, and the policy of
Trusted Types in `frame_prologue.js` from what scripts make.
"""

INERT = "sandbox; default-src 'none'; style-src 'unsafe-inline'"
"""What every other file may do when somebody opens its address: nothing."""

NOT_FOUND = "there is no answer at this address. Open it from the page that showed it."

RANGE = re.compile(r"bytes=([0-9]{0,15})-([0-9]{0,15})\Z", re.IGNORECASE)
GZIP = re.compile(r"(?:x-)?gzip\s*(?:;\s*q=([01](?:\.[0-9]{0,3})?))?\s*\Z", re.IGNORECASE)

WITH_RANGES = frozenset({AnswerKind.AUDIO.value, AnswerKind.VIDEO.value})
COMPRESSED = frozenset({AnswerKind.SVG.value, AnswerKind.HTML.value, AnswerKind.VOXEL.value, AnswerKind.MODEL3D.value})


async def shown_answer(request: Request) -> Response:
    """The bytes of one answer of a matchup."""
    token = request.path_params["token"]
    site = site_of(request)
    named = site.answer_links.read(token)
    store = site.engine.arena.store
    result = None
    if named is not None and named[1] in (PUBLIC, OPERATOR):
        result = (await asyncio.to_thread(files_of, store, [named[0]])).get(named[0])
    elif named is not None:
        result = await asyncio.to_thread(shown_file, store, *named)
    is_off = result is not None and result.response_id in site.observatory.snapshot.answers_off
    if named is None or result is None or (is_off and named[1] != OPERATOR):
        raise Failure(404, "not_found", NOT_FOUND)
    return answer_with(request, store, result)


class PublicAnswer(msgspec.Struct, frozen=True):
    """An answer on a page about it: its text or description as markup and, where it is a file, its kind and address."""

    html: Html
    kind: str = AnswerKind.TEXT.value
    url: str = ""

    @property
    def is_empty(self) -> bool:
        return not self.html.strip()


def answer_with(request: Request, store: Store, file: StoredFile) -> Response:
    """A file as a response: whole, compressed, or the range that a player asked for."""
    headers = headers_of(file)
    if (settings := site_of(request).settings).answers_host:
        headers["content-security-policy"] = headers["content-security-policy"].replace(
            "frame-ancestors 'self'", f"frame-ancestors {settings.origin}"
        )
    if request.headers.get("sec-fetch-dest") == "document":
        headers["content-security-policy"] = INERT  # opened by its address, a page could go elsewhere
    zipped = file.kind in COMPRESSED and takes_gzip(request.headers.get("accept-encoding", ""))
    if zipped or file.kind == AnswerKind.HTML:
        headers |= {"content-encoding": "gzip"} if zipped else {"content-length": str(len(page_start()) + file.size)}
        if request.state.is_head:
            return Response(headers=headers)
        whole = _whole(store, file)
        return StreamingResponse(_zipped(whole) if zipped else whole, headers=headers)
    start, end, status = 0, file.size, 200
    part = range_of(request.headers.get("range", ""), file.size) if file.kind in WITH_RANGES else None
    if part is not None:
        if part[0] >= part[1]:
            headers["content-range"] = f"bytes */{file.size}"
            return Response(status_code=416, headers=headers)
        start, end, status = *part, 206
        headers["content-range"] = f"bytes {start}-{end - 1}/{file.size}"
    headers["content-length"] = str(end - start)
    if request.state.is_head:
        return Response(status_code=status, headers=headers)
    return StreamingResponse(_bytes(store, file.sha256, start, end), status, headers)


def headers_of(file: StoredFile) -> dict[str, str]:
    """The headers of a file: they follow from its kind and format alone, which both sides of a matchup share."""
    headers = {
        "content-type": file.media_type,
        "cache-control": "private, no-store",
        "content-security-policy": SANDBOX if file.kind == AnswerKind.HTML else INERT,
        "x-frame-options": "SAMEORIGIN",
        "vary": "accept-encoding, sec-fetch-dest",
        "x-dns-prefetch-control": "off",
        "connection-allowlist": "()",  # no connection at all, also none to where a page tries to go
    }
    if file.kind in WITH_RANGES:
        headers["accept-ranges"] = "bytes"
    return headers


def range_of(asked: str, size: int) -> tuple[int, int] | None:
    """The bytes from and up to which a header asks for, which may be none.

    None: the whole file, also where the header asks in another unit, for several ranges, or for nothing that can be
    understood; such a header is ignored (RFC 9110, 14.2).
    """
    result = RANGE.match(asked.strip())
    if result is None or result[1] == result[2] == "" or (result[1] and result[2] and int(result[1]) > int(result[2])):
        return None
    if result[1] == "":
        return max(0, size - int(result[2])), size
    return int(result[1]), size if result[2] == "" else min(size, int(result[2]) + 1)


def takes_gzip(accepted: str) -> bool:
    """Whether a browser's `Accept-Encoding` names gzip, and not to refuse it."""
    result = (GZIP.match(part.strip()) for part in accepted.split(","))
    return any(float(part[1] or 1) > 0 for part in result if part)


@cache
def page_start() -> bytes:
    """What stands before an answer that is a page: a script that answers the watchdog and closes what is left open."""
    return b"<!doctype html><script>%s</script>" % static_files()["frame_prologue.js"].content


async def _whole(store: Store, file: StoredFile) -> AsyncIterator[bytes]:
    if file.kind == AnswerKind.HTML:
        yield page_start()
    async for piece in _bytes(store, file.sha256, 0, file.size):
        yield piece


async def _bytes(store: Store, sha256: str, start: int, end: int) -> AsyncIterator[bytes]:
    """A part of a file, read piece by piece while it is sent."""
    number, skipped = divmod(start, PART_BYTES)
    left = end - start
    while left > 0 and (part := await asyncio.to_thread(read_part, store, sha256, number)):
        piece = part[skipped : skipped + left]
        yield piece
        left, skipped, number = left - len(piece), 0, number + 1


async def _zipped(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    async for piece in pieces:
        if packed := await asyncio.to_thread(packer.compress, piece):
            yield packed
    yield packer.flush()


ROUTES = [
    Route("/shown/{token}", shown_answer),
]
