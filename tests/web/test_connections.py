"""Connections that are opened and not used: they end, and keep nobody else out."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from tests.forked import PATIENCE_SECONDS
from tests.processes import wait_until
from tests.web.sites import LiveServer
from tiltyard.web.bodies import body_of
from tiltyard.web.guard import Guard
from tiltyard.web.protocol import Protocol
from tiltyard.web.settings import SiteSettings
from tiltyard.web.shedding import refused, timed_out

GET = b"GET / HTTP/1.1\r\nhost: here\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """`/` answers at once, `/body` when it has all of the body, `/slow` never, `/large` with far too much."""
    if scope["type"] != "http":
        return
    if scope["path"] == "/slow":
        await receive()
        while (await receive())["type"] != "http.disconnect":
            pass
        return
    body = await body_of(Request(scope, receive), 1_000) if scope["path"] == "/body" else b"here"
    size = 64 * 1024 * 1024 if scope["path"] == "/large" else len(body)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
    await send({"type": "http.response.body", "body": body.ljust(size)})


def broken(*_: object) -> Any:
    pytest.fail("nothing is broken")


@contextmanager
def serving(**limits: float) -> Iterator[LiveServer]:
    """A server with less patience than usual."""
    guard = Guard(app, SiteSettings(db="sqlite:///x"), broken)

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        await guard({**scope, "app": SimpleNamespace(state=SimpleNamespace())}, receive, send)

    server = LiveServer(guarded, http=type("Impatient", (Protocol,), limits))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def connected(server: LiveServer, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
    made.sendall(sent)
    return made


def answer(connection: socket.socket) -> bytes:
    """Everything until the other side hangs up."""
    found = b""
    try:
        while piece := connection.recv(65_536):
            found += piece
    except ConnectionError:
        pass
    return found


def asked(server: LiveServer, head: bytes = GET) -> bytes:
    with connected(server, head + b"connection: close\r\n\r\n") as connection:
        return answer(connection)


def test_hundreds_of_half_sent_requests_keep_nobody_out_and_are_ended() -> None:
    before = timed_out["head"]
    with serving(head_seconds=0.5) as server, ExitStack() as stack:
        half = [stack.enter_context(connected(server, GET)) for _ in range(200)]
        assert asked(server).startswith(b"HTTP/1.1 200")
        for connection in half:
            said = answer(connection)
            assert said.startswith(b"HTTP/1.1 408 Request Timeout")
            assert b"default-src 'none'" in said
        assert timed_out["head"] == before + 200
        assert asked(server).startswith(b"HTTP/1.1 200")


def test_a_head_that_comes_letter_by_letter_has_no_more_time_than_another() -> None:
    with serving(head_seconds=0.3) as server, connected(server, b"GET / HT") as connection:
        connection.settimeout(0.05)
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            try:
                connection.sendall(b"x")
                if connection.recv(1000) is not None:
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
        pytest.fail("it goes on for ever")


def test_a_second_request_on_a_connection_has_no_more_time_than_the_first() -> None:
    with serving(head_seconds=0.3) as server, connected(server, GET + b"\r\n") as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        connection.sendall(GET)
        assert answer(connection).rpartition(b"here")[2].startswith(b"HTTP/1.1 408")


def test_a_head_that_never_ends_is_refused() -> None:
    with serving(head_seconds=600.0) as server, connected(server, GET) as connection:
        with suppress(ConnectionError):
            for _ in range(100):
                connection.sendall(b"x-more: " + b"y" * 1_000 + b"\r\n")
        connection.settimeout(30)
        assert answer(connection)[:12] in (b"HTTP/1.1 431", b""), "what is not read makes the other side reset it"
        large = b"POST /body HTTP/1.1\r\nhost: here\r\ncontent-length: 900\r\nx: " + b"z" * 50_000 + b"\r\n"
        with connected(server, large + b"connection: close\r\n\r\n" + b"b" * 900) as other:
            assert answer(other).endswith(b"b" * 900)


def test_who_asks_for_a_websocket_is_answered_as_anybody_else() -> None:
    upgrade = b"upgrade: websocket\r\nconnection: Upgrade\r\n"
    with serving(head_seconds=0.5) as server, ExitStack() as stack:
        for head in (GET, b"POST /body HTTP/1.1\r\nhost: here\r\ncontent-length: 2\r\n"):
            for _ in range(20):
                connection = stack.enter_context(connected(server, head + upgrade + b"\r\n{}"))
                assert connection.recv(1000).startswith(b"HTTP/1.1 ")
        assert asked(server).startswith(b"HTTP/1.1 200")


def test_whoever_says_nothing_at_all_is_let_go_without_a_word() -> None:
    with serving(head_seconds=0.2) as server, connected(server) as connection:
        assert answer(connection) == b""


def test_a_body_that_does_not_come_is_not_waited_for_and_nothing_is_said_to_have_broken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    head = b"POST /body HTTP/1.1\r\nhost: here\r\ncontent-length: 100\r\n\r\nten bytes."
    with serving(body_seconds=0.3) as server, connected(server, head) as connection:
        assert answer(connection).startswith(b"HTTP/1.1 408")
        assert asked(server).startswith(b"HTTP/1.1 200")
    assert caplog.records == []


def test_a_body_that_comes_slowly_but_steadily_is_taken() -> None:
    head = b"POST /body HTTP/1.1\r\nhost: here\r\ncontent-length: 30\r\nconnection: close\r\n\r\n"
    with serving(body_seconds=0.4, body_rate=0.1) as server, connected(server, head + b"ten bytes.") as connection:
        for _ in range(2):
            time.sleep(0.3)
            connection.sendall(b"ten bytes.")
        assert answer(connection).endswith(b"ten bytes.ten bytes.ten bytes.")


def test_an_answer_that_nobody_takes_is_not_kept_for_ever() -> None:
    before = timed_out["answer"]
    with serving(answer_seconds=0.3) as server, connected(server, b"GET /large HTTP/1.1\r\nhost: here\r\n\r\n"):
        wait_until(lambda: timed_out["answer"] > before)
    assert timed_out["answer"] == before + 1


def test_where_there_are_too_many_connections_those_that_are_not_used_make_room() -> None:
    before = refused["connection"]
    half_body = b"POST /body HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\n"
    with serving(most_connections=10, head_seconds=600.0, body_seconds=600.0) as server, ExitStack() as stack:
        for number in range(40):
            stack.enter_context(connected(server, (b"", GET, half_body)[number % 3]))
        for _ in range(5):
            assert asked(server).startswith(b"HTTP/1.1 200")
        assert refused["connection"] > before


def test_where_all_connections_are_in_use_the_next_is_told_to_come_again() -> None:
    slow = b"GET /slow HTTP/1.1\r\nhost: here\r\n\r\n"
    with serving(most_connections=3) as server, ExitStack() as stack:
        used = [stack.enter_context(connected(server, slow)) for _ in range(3)]
        wait_until(lambda: sum(not connection.waits for connection in server.connections) == 3)
        said = asked(server)
        assert said.startswith(b"HTTP/1.1 503")
        assert b"retry-after: " in said
        used.pop().close()
        wait_until(lambda: len(server.connections) == 2)
        assert asked(server).startswith(b"HTTP/1.1 200")
