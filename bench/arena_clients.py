"""Voters on bare sockets: as little work as possible per request, so that the measurement is of the site."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from itertools import count as counted
from typing import cast

CHOICES = ("A", "B", "TIE", "BOTH_BAD")


@dataclass
class Driven:
    """What clients measured: seconds of each cycle, request and page, and the number of unexpected answers."""

    seconds: float = 0.0
    cycles: list[float] = field(default_factory=list)
    requests: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)
    failed: int = 0


class Connection(asyncio.Protocol):
    """One persistent connection with its cookie; one request at a time."""

    def __init__(self) -> None:
        self._got = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None
        self._cookie = b""
        self.retry_seconds: float | None = None
        """When the last answer said to come back."""
        self.is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the site closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._got += data
        end = self._got.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._got[:end]).lower()
        start = head.find(b"content-length: ") + 16
        length = int(head[start : head.find(b"\r\n", start) if head.find(b"\r\n", start) > 0 else len(head)])
        if len(self._got) < end + 4 + length:
            return
        if not self._cookie and (place := head.find(b"set-cookie: tiltyard=")) >= 0:
            raw = bytes(self._got[place + 12 : end])
            self._cookie = b"cookie: " + raw[: raw.find(b";")] + b"\r\n"
        place = head.find(b"retry-after: ")
        self.retry_seconds = None if place < 0 else float(head[place + 13 :].split(b"\r\n", 1)[0])
        body = bytes(self._got[end + 4 : end + 4 + length])
        status = int(head[9:12])
        self._got.clear()
        assert self._answer is not None
        if not self._answer.done():  # somebody may have stopped waiting
            self._answer.set_result((status, body))

    def ask(self, method: bytes, path: str, body: bytes = b"") -> asyncio.Future[tuple[int, bytes]]:
        """Status and body of the next answer."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        kind = b"content-type: application/json\r\n" if body else b""
        head = b"%b %b HTTP/1.1\r\nhost: bench\r\n%b%bcontent-length: %d\r\n\r\n" % (
            *(method, path.encode(), self._cookie, kind),
            len(body),
        )
        self._transport.write(head + body)
        return self._answer

    def goes_on_as(self, other: Connection) -> None:
        """Be the visitor of another connection, which was closed."""
        self._cookie = other._cookie

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def drive(port: int, clients: int, count: int, page_every: int = 0) -> Driven:
    """Run vote cycles with many clients at once; at a given interval a client also loads the board."""
    import uvloop

    return uvloop.run(_drive(port, clients, count, page_every))


async def _drive(port: int, clients: int, count: int, page_every: int) -> Driven:
    driven, numbers = Driven(), counted()
    connections = [await _connected(port) for _ in range(clients)]
    began = time.perf_counter()
    await asyncio.gather(*(_client(one, driven, numbers, count, page_every) for one in connections))
    driven.seconds = time.perf_counter() - began
    for connection in connections:
        connection.close()
    return driven


async def _connected(port: int) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


async def _client(connection: Connection, driven: Driven, numbers: counted, count: int, page_every: int) -> None:
    now = time.perf_counter
    while (number := next(numbers)) < count:
        began = now()
        status, body = await connection.ask(b"POST", "/api/v1/matchups", b"{}")
        served = now()
        if status != 201:
            driven.failed += 1
            continue
        name = json.loads(body)["matchup_id"]
        said = b'{"choice":"%b"}' % CHOICES[number % 4].encode()
        status, _ = await connection.ask(b"POST", f"/api/v1/matchups/{name}/vote", said)
        done = now()
        driven.failed += status != 200
        driven.requests += (served - began, done - served)
        driven.cycles.append(done - began)
        if page_every and number % page_every == 0:
            status, _ = await connection.ask(b"GET", "/leaderboard")
            driven.failed += status != 200
            driven.pages.append(now() - done)


def fetch(port: int, paths: list[str]) -> tuple[list[float], int]:
    """Seconds of each page, one after the other, and the size of the last."""
    return asyncio.run(_fetch(port, paths))


async def _fetch(port: int, paths: list[str]) -> tuple[list[float], int]:
    connection, took, size = await _connected(port), [], 0
    for path in paths:
        began = time.perf_counter()
        status, body = await connection.ask(b"GET", path)
        took.append(time.perf_counter() - began)
        if status != 200:
            raise RuntimeError(f"{path} was answered with {status}")
        size = len(body)
    connection.close()
    return took, size
