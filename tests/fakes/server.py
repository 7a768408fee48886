"""The fake server: in a thread of the test, or as a process of its own that stays up while clients are killed.

`python -m tests.fakes.server --port 0 --state DIR` prints its port on one line and serves until it is ended.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import socket
import threading
import time
import urllib.request
from copy import deepcopy
from pathlib import Path
from types import TracebackType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.fakes import anthropic_wire, gemini_wire, openai_wire
from tests.fakes.answering import World
from tests.fakes.behaviour import Behaviour, Fault, first_time
from tests.fakes.gate import Gate
from tests.fakes.ledger import Ledger
from tests.forked import PATIENCE_SECONDS, Forked, module


def make_app(world: World) -> ASGIApp:
    """The app: all wire formats, and `/_fake/…` for a test in another process."""

    async def summary(request: Request) -> Response:
        return JSONResponse(world.ledger.summary())

    async def faults(request: Request) -> Response:
        world.behaviour.faults.extend(Fault(**fault) for fault in await request.json())
        return JSONResponse({"faults": len(world.behaviour.faults)})

    async def settings(request: Request) -> Response:
        for name, value in (await request.json()).items():
            setattr(world.behaviour, name, value)
        return JSONResponse({})

    control = [
        Route("/_fake/summary", summary),
        Route("/_fake/faults", faults, methods=["POST"]),
        Route("/_fake/settings", settings, methods=["POST"]),
    ]
    wires = (anthropic_wire, openai_wire, gemini_wire)
    return Gate(Starlette(routes=[*(route for wire in wires for route in wire.routes(world)), *control]), world)


def _listen(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(2048)
    return sock


def _uvicorn(app: ASGIApp) -> uvicorn.Server:
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, ws="none", lifespan="off", loop="asyncio", timeout_keep_alive=60
    )
    return uvicorn.Server(config)


class _Addresses:
    port: int

    @property
    def anthropic_url(self) -> str:
        """What ANTHROPIC_BASE_URL should say."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        """What OPENAI_BASE_URL, or the base_url of a local model, should say."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def gemini_url(self) -> str:
        """What GEMINI_BASE_URL should say."""
        return self.anthropic_url


class FakeServer(_Addresses):
    """The server in a thread. `behaviour` may be changed while it runs; `ledger` says what it was asked."""

    def __init__(self, behaviour: Behaviour | None = None, *, folder: Path | None = None) -> None:
        self._world = World(behaviour or Behaviour(), Ledger(folder))
        self._socket = _listen(0)
        self.port = self._socket.getsockname()[1]
        self._server = _uvicorn(make_app(self._world))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    @property
    def behaviour(self) -> Behaviour:
        """How it answers and what goes wrong."""
        return self._world.behaviour

    @property
    def ledger(self) -> Ledger:
        """What it was asked."""
        return self._world.ledger

    def reset(self) -> None:
        """Forget everything that was set and asked."""
        self._world.behaviour, self._world.ledger = Behaviour(), Ledger()

    def remember(self, ledger: Ledger) -> None:
        """Go on with a copy of what a server was asked before."""
        self._world.ledger = deepcopy(ledger)

    def __enter__(self) -> FakeServer:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(60)
        self._socket.close()


class FakeServerProcess(_Addresses):
    """The server in a process of its own, with its state in a folder; `options` are those of the command."""

    def __init__(self, folder: Path, *options: str) -> None:
        arguments = ("--port", "0", "--state", str(folder), *options)
        self._process = Forked.anywhere(module, "tests.fakes.server", *arguments, pipe=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> FakeServerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def summary(self) -> dict[str, Any]:
        """What it was asked so far (`Ledger.summary`)."""
        return self._call("summary", None)

    def plant(self, *faults: dict[str, Any]) -> None:
        """Let something go wrong: the fields of `Fault`."""
        self._call("faults", list(faults))

    def set(self, **settings: Any) -> None:
        """Change plain fields of `Behaviour`: `batch_polls`, `strangers`, …"""
        self._call("settings", settings)

    def _call(self, what: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.anthropic_url}/_fake/{what}", data=data, headers=headers)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            request, timeout=PATIENCE_SECONDS
        ) as answer:
            return json.loads(answer.read())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path, help="a folder that survives the server")
    parser.add_argument("--judge", default="tests.fakes.behaviour:verdict_by_hash", metavar="MODULE:FUNCTION")
    parser.add_argument("--talk", metavar="MODULE:FUNCTION", help="answers instead, and sees earlier turns too")
    parser.add_argument("--key", help="the only key that is accepted")
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--batch-polls", type=int, default=1)
    parser.add_argument("--batch-seconds", type=float, default=0.0)
    parser.add_argument("--strangers", type=int, default=0)
    parser.add_argument("--largest-page", type=int, default=1000)
    parser.add_argument(
        "--outcomes", default="{}", help='first-time shares: {"expired": 0.1, "errored:api_error": 0.1}'
    )
    parser.add_argument("--faults", default="[]", help='a list of faults: [{"kind": "status", "status": 529}]')
    return parser


def _function(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def main(arguments: list[str] | None = None) -> None:
    """Serve until the process is ended."""
    options = _parser().parse_args(arguments)
    behaviour = Behaviour(
        judge=_function(options.judge),
        talk=_function(options.talk) if options.talk else None,
        key=options.key,
        latency_seconds=options.latency,
        batch_polls=options.batch_polls,
        batch_seconds=options.batch_seconds,
        outcome=first_time(json.loads(options.outcomes)),
        strangers=options.strangers,
        largest_page=options.largest_page,
        faults=[Fault(**fault) for fault in json.loads(options.faults)],
    )
    sock = _listen(options.port)
    os.write(1, f"{sock.getsockname()[1]}\n".encode())
    _uvicorn(make_app(World(behaviour, Ledger(options.state)))).run(sockets=[sock])


if __name__ == "__main__":
    main()
