"""A stand-in for Anthropic's batches that takes millions of requests, which it stores on disk, not in memory.

`python -m bench.batch_server FOLDER [PORT]` prints its port and serves on loopback until it is stopped; restarted in
the same folder, it still has its batches. A batch has ended when it is first polled. Unlike the tests' fake server it
keeps no record of its requests, so it can take 10⁷ of them.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

REASONING_CHARACTERS = 400
LINES_AT_ONCE = 500
KEEP_ALIVE_SECONDS = 600
"""Otherwise a client that collects for minutes between two batches would send the next one into a closed connection."""
ANSWERS = re.compile(r"\[ANSWER ([AB]) \w+\]\nentrant-(\d+) on (\w+)")


class _Said(msgspec.Struct):
    content: str


class _Block(msgspec.Struct):
    text: str


class _Params(msgspec.Struct):
    model: str
    messages: list[_Said]
    system: list[_Block]


class _Entry(msgspec.Struct):
    custom_id: str
    params: _Params


class _Batch(msgspec.Struct):
    requests: list[_Entry]


def verdict(user: str) -> str:
    """`A`, `B` or `TIE`: a higher number wins more often, and one pair in seven flips with the order."""
    (_, first, prompt), (_, second, _) = ANSWERS.findall(user)
    low, high = sorted((int(first), int(second)))
    draw = hashlib.sha256(f"{low}-{high}-{prompt}".encode()).digest()
    if draw[2] % 7 == 0:
        return "A"
    if draw[1] % 10 == 0:
        return "TIE"
    better = high if draw[0] < 128 + 6 * (high - low) else low
    return "A" if int(first) == better else "B"


def result_line(entry: _Entry) -> bytes:
    """One line of results, as Anthropic writes it."""
    user = entry.params.messages[0].content
    text = f"VERDICT: {verdict(user)}".rjust(REASONING_CHARACTERS, "x").replace("xVERDICT", "x\nVERDICT")
    usage = {"input_tokens": (len(user) + len(entry.params.system[0].text)) // 4, "output_tokens": len(text) // 4}
    message = {
        "id": f"msg_{entry.custom_id}",
        "type": "message",
        "role": "assistant",
        "model": entry.params.model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {**usage, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    }
    said = {"custom_id": entry.custom_id, "result": {"type": "succeeded", "message": message}}
    return msgspec.json.encode(said) + b"\n"


class BatchServer:
    """The routes, over a folder with one file for each batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sizes: dict[str, tuple[int, int]] = {}
        for path in sorted(folder.glob("msgbatch_*[0-9]")):
            self._know(path)

    async def create(self, request: Request) -> Response:
        """Accept a batch; its body goes straight to disk, and counts once it is complete."""
        path = self.folder / f"msgbatch_{len(self.sizes) + 1:06d}"
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            async for chunk in request.stream():
                file.write(chunk)
        self._know(part.replace(path))
        return JSONResponse(self._shown(path.name, request))

    def _know(self, path: Path) -> None:
        requests = len(msgspec.json.decode(path.read_bytes(), type=_Batch).requests)
        self.sizes[path.name] = (requests, path.stat().st_size)

    async def retrieve(self, request: Request) -> Response:
        """The state of a batch: it has ended."""
        return JSONResponse(self._shown(request.path_params["batch_id"], request))

    async def results(self, request: Request) -> Response:
        """The replies to a batch, generated as they are sent."""
        batch = msgspec.json.decode((self.folder / request.path_params["batch_id"]).read_bytes(), type=_Batch)
        return StreamingResponse(_lines(batch), media_type="application/x-jsonl")

    async def list(self, request: Request) -> Response:
        """All batches, newest first."""
        data = [self._shown(name, request) for name in reversed(self.sizes)]
        return JSONResponse({"data": data, "has_more": False, "first_id": None, "last_id": None})

    async def summary(self, request: Request) -> Response:  # noqa: ARG002 - passed by Starlette
        """How many requests and bytes each batch had."""
        return JSONResponse(list(self.sizes.values()))

    def app(self) -> Starlette:
        """The application."""
        batches = "/v1/messages/batches"
        return Starlette(
            routes=[
                Route(batches, self.create, methods=["POST"]),
                Route(batches, self.list, methods=["GET"]),
                Route(batches + "/{batch_id}", self.retrieve, methods=["GET"]),
                Route(batches + "/{batch_id}/results", self.results, methods=["GET"]),
                Route("/summary", self.summary, methods=["GET"]),
            ]
        )

    def _shown(self, name: str, request: Request) -> dict[str, Any]:
        taken_at = (self.folder / name).stat().st_mtime
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(taken_at))
        counts = {"processing": 0, "succeeded": self.sizes[name][0], "errored": 0, "canceled": 0, "expired": 0}
        times = {"created_at": stamp, "expires_at": stamp, "ended_at": stamp}
        return {
            "id": name,
            "type": "message_batch",
            "processing_status": "ended",
            "request_counts": counts,
            **times,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{request.base_url}v1/messages/batches/{name}/results",
        }


async def _lines(batch: _Batch) -> AsyncIterator[bytes]:
    for start in range(0, len(batch.requests), LINES_AT_ONCE):
        yield b"".join(map(result_line, batch.requests[start : start + LINES_AT_ONCE]))


def main() -> None:
    """Serve until the process is stopped."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    os.write(1, f"{sock.getsockname()[1]}\n".encode())
    app = BatchServer(Path(sys.argv[1])).app()
    quiet = {"log_level": "critical", "access_log": False, "ws": "none", "lifespan": "off", "loop": "asyncio"}
    config = uvicorn.Config(app, timeout_keep_alive=KEEP_ALIVE_SECONDS, **quiet)
    uvicorn.Server(config).run(sockets=[sock])


if __name__ == "__main__":
    main()
