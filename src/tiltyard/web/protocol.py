"""HTTP for the site: idle connections are closed, and no client's connections can lock out others."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tiltyard.web.guard import HEADERS, NOT_KEPT
from tiltyard.web.shedding import RETRY_SECONDS, refused, timed_out

if TYPE_CHECKING:
    import asyncio

STATUS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class Protocol(HttpToolsProtocol):
    """One connection. Its responses to malformed requests carry the security headers, too.

    A request's head must arrive within `head_seconds` of the connection or of its first byte; its body within
    `body_seconds` of the head, plus a second for every `body_rate` bytes received; and an answer must be read within
    `answer_seconds`. Above `most_connections` the connections idle for longest (`since`) are closed.
    """

    head_seconds = 10.0
    body_seconds = 20.0
    body_rate = 1024
    answer_seconds = 60.0
    most_connections = 2048
    most_head_bytes = 65_536

    _awaited = "head"
    _head_bytes = 0
    _spoken = False
    _deadline: float | None = None
    since = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, and close an idle one if there are too many."""
        super().connection_made(transport)
        self._expect("head", self.head_seconds)
        if len(self.connections) > self.most_connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        super().connection_lost(exc)
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def data_received(self, data: bytes) -> None:
        """Read on; a head that never ends is refused before it fills the memory."""
        super().data_received(data)
        self._head_bytes = self._head_bytes + len(data) if self._awaited == "head" and self._deadline else 0
        if self._head_bytes > self.most_head_bytes and not self.transport.is_closing():
            self._hang_up(431, "The head of the request is too large.")

    def on_message_begin(self) -> None:
        """The first byte of a request: from now on its head has a deadline, however slowly it arrives."""
        super().on_message_begin()
        self._spoken = True
        if self._awaited != "head" or self._deadline is None:
            self._expect("head", self.head_seconds)

    def on_headers_complete(self) -> None:
        """The head is complete; the body may follow."""
        self._expect("body", self.body_seconds)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body: a client that sends much may take longer."""
        if self._deadline is not None:
            self._deadline += len(body) / self.body_rate
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._deadline = None
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not read the response."""
        super().pause_writing()
        self._expect("answer", self.answer_seconds)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        if self._awaited == "answer":
            self._deadline = None

    def timeout_keep_alive_handler(self) -> None:
        """Nothing more came after a response; if that response was never read, do not wait for that either."""
        super().timeout_keep_alive_handler()
        self._expect("answer", self.answer_seconds)

    def send_400_response(self, msg: str) -> None:
        """Refuse what could not be read, and hang up."""
        self._hang_up(400, msg)

    @property
    def waits(self) -> bool:
        """Whether the client must act next: no request of it is being processed."""
        return self._deadline is not None or self.cycle is None or self.cycle.response_complete

    @property
    def _is_at_work(self) -> bool:
        """Whether the server must act next: it is answering an earlier request, or has paused reading."""
        answers = self.cycle is not None and not self.cycle.response_complete
        return bool(self.pipeline) or self.flow.read_paused or (self._awaited == "head" and answers)

    def _expect(self, what: str, seconds: float) -> None:
        self._awaited, self.since = what, self.loop.time()
        self._deadline = self.since + seconds
        if self._timer is not None and self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self.loop.call_at(self._deadline, self._look_at_the_time)

    def _look_at_the_time(self) -> None:
        """One timer per connection, which is rescheduled if there is no deadline now."""
        self._timer = None
        now = self.loop.time()
        if self._deadline is not None and self._is_at_work:
            self._deadline = now + self.body_seconds
        if self._deadline is None or now < self._deadline:
            at = now + min(self.head_seconds, self.body_seconds) if self._deadline is None else self._deadline
            self._timer = self.loop.call_at(at, self._look_at_the_time)
            return
        timed_out[self._awaited] += 1
        if self._awaited == "answer":
            self.transport.abort()
        elif not self._spoken:  # so the client expects no response
            self.transport.close()
        elif self._awaited == "body" and self.cycle.response_started:
            self.transport.close()  # the client has its response, but did not send the rest of the request
            self._expect("answer", self.answer_seconds)
        else:
            self._hang_up(408, f"The {self._awaited} of the request did not arrive in time.")

    def _make_room(self) -> None:
        """Close the connections idle for longest, a few at a time; if all are in use, close this one."""
        others: Any = self.connections
        waiting = [other for other in others if other is not self and other.waits]
        for other in nsmallest(max(1, self.most_connections // 20), waiting, key=lambda other: other.since):
            refused["connection"] += 1
            other.transport.abort()
        if not waiting:
            refused["connection"] += 1
            self._hang_up(503, "Too many connections. Come again in a moment.", (b"retry-after", b"%d" % RETRY_SECONDS))

    def _hang_up(self, status: int, message: str, *more: tuple[bytes, bytes]) -> None:
        """Respond without the application, and close."""
        text = message.encode("ascii", "replace")
        fields = [*HEADERS, NOT_KEPT, *more, (b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        fields.append((b"content-length", b"%d" % len(text)))
        head = b"".join(name + b": " + value + b"\r\n" for name, value in fields)
        self.transport.write(b"HTTP/1.1 %d %s\r\n" % (status, STATUS[status]) + head + b"\r\n" + text)
        self.transport.close()
        self._expect("answer", self.answer_seconds)
