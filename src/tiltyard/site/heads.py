"""What outlives the operator: the public history of heads (`/heads`), and the witness file."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from pathlib import Path
from typing import IO

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tiltyard.arena import Arena, WitnessHeader
from tiltyard.arena.audit import witness_lines
from tiltyard.arena.store import PublishedHead, head_history
from tiltyard.files import json_text
from tiltyard.site.api import pieces, written
from tiltyard.site.openapi import Call, HeadLine, HeadsBody, SignedHead
from tiltyard.site.site import Site, site_of

SHOWN = 200
"""Heads on the page; the JSON has them all."""

CHECKED = {"cache-control": "no-cache"}


class WitnessFiles:
    """The latest witness file of this process, written anew when more is public."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._head = ""
        self._until = -1

    def open(self, site: Site) -> tuple[IO[bytes], str]:
        """The file, for one reader, and the head that it leads to."""
        with self._lock:
            until = site.observatory.snapshot.seq
            if self._file is None or until != self._until:
                self._replace(site.engine.arena, site.settings.title, until)
                self._until = until
            assert self._file is not None
            return Path(self._file.name).open("rb"), self._head

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = None

    def _replace(self, arena: Arena, title: str, until: int) -> None:
        file = tempfile.NamedTemporaryFile(prefix="tiltyard-witness-")  # noqa: SIM115 - closed when it is replaced
        try:
            lines = witness_lines(arena.store, arena.now(), title, until)
            file.write(first := next(lines))
            file.writelines(lines)
            file.flush()
        except BaseException:
            file.close()
            raise
        if self._file is not None:
            self._file.close()  # it vanishes; whoever reads it has it open
        self._file = file
        self._head = msgspec.json.decode(first, type=WitnessHeader).head


async def heads_json(request: Request) -> Response:
    """Every published head, newest first; a signed one with its statement, key and signature."""
    history = await asyncio.to_thread(_public_history, site_of(request))
    heads = [
        HeadLine(
            str(row.head),
            written(row.at),
            SignedHead(row.file.statement, row.file.key, row.file.signature) if row.file else None,
        )
        for row in history
    ]
    body = json_text(HeadsBody(keys=keys_of(history), heads=heads))
    return Response(body, media_type="application/json", headers=CHECKED)


def _public_history(site: Site) -> list[PublishedHead]:
    """The heads to which the witness leads by now."""
    until = site.observatory.snapshot.seq
    return [head for head in head_history(site.engine.arena.store) if head.body.until <= until]


def keys_of(history: list[PublishedHead]) -> list[str]:
    """The public keys by which heads were signed, the latest first."""
    return list(dict.fromkeys(row.file.key for row in history if row.file is not None and row.file.key))


async def witness(request: Request) -> Response:
    """One line per public row: final votes, exclusions, models, prompts voted on, rules.

    The first line states the head (also in the header `x-log-head`); the last one has weights, if votes weigh less than
    1. `tiltyard verify` on this site's address recomputes head and board from it. It ends where the
    board does, with the last full hour.
    """
    site, files = site_of(request), request.app.state.witness_files
    async with request.app.state.exports.turn():
        file, head = await asyncio.to_thread(files.open, site)
    headers = {"content-disposition": 'attachment; filename="witness.jsonl"', "x-log-head": head}
    return StreamingResponse(pieces(file), media_type="application/x-ndjson", headers=headers)


async def heads_page(request: Request) -> Response:
    """The history of heads, for people."""
    site = site_of(request)
    history = await asyncio.to_thread(_public_history, site)
    address = site.settings.public_url or str(request.base_url).rstrip("/")
    view = {"heads": history[:SHOWN], "total": len(history), "keys": keys_of(history), "address": address}
    return site.page("heads.html", view, here="data", headers=CHECKED)


CALLS = [
    Call("/api/v1/heads", heads_json, "The history of the log's heads", (HeadsBody,)),
    Call("/api/v1/witness.jsonl", witness, "The public rows, for anybody to recompute head and board"),
]
ROUTES = [Route("/heads", heads_page)]
