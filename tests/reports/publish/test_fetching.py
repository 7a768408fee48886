"""A board at an address: each file is asked for once, nothing leads elsewhere, and every answer ends."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from published_folders import everything
from typer.testing import CliRunner

from tiltyard.cli.main import make_app
from tiltyard.errors import OptionError, TiltyardError
from tiltyard.reports.publish import fetching
from tiltyard.verbs.publish import PublishedFolder

Answer = Callable[[BaseHTTPRequestHandler], None]


def verify(*arguments: str) -> Any:
    return CliRunner().invoke(make_app("verify"), ["verify", *arguments])


def begin(request: BaseHTTPRequestHandler, content: bytes) -> None:
    """Begin an answer as hosts do, which say what is a page."""
    request.send_response(200)
    if content[:9].lower() == b"<!doctype":
        request.send_header("content-type", "text/html; charset=utf-8")


@contextmanager
def served(
    files: dict[str, bytes], certificate: tuple[Path, Path] | None = None, **answers: Answer
) -> Iterator[tuple[str, Counter[str]]]:
    """Some files at a server, some of them answered in another way; its address, and how often each was asked for."""
    asked: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/board/")
            asked[name] += 1
            with suppress(OSError):
                file = name if name in files else name or "index.html"
                if file.replace(".", "_") in answers:
                    answers[file.replace(".", "_")](self)
                elif (content := files.get(file)) is not None:
                    begin(self, content)
                    self.end_headers()
                    self.wfile.write(content)
                else:
                    self.send_error(404)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server, scheme = ThreadingHTTPServer(("127.0.0.1", 0), Handler), "http"
    if certificate is not None:
        context, scheme = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "https"
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_port}/board", asked
    finally:
        server.shutdown()
        server.server_close()


def redirect(to: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("location", to)
        request.end_headers()

    return answer


def more(data: bytes) -> Answer:
    """The file and something behind it."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        begin(request, data)
        request.end_headers()
        request.wfile.write(data + b"<h1>9999</h1>")

    return answer


def dripping(request: BaseHTTPRequestHandler) -> None:
    """A byte now and then, without end."""
    request.send_response(200)
    request.end_headers()
    for _ in range(400):
        request.wfile.write(b" ")
        request.wfile.flush()
        time.sleep(0.02)


def test_every_file_of_an_address_is_asked_for_once(small: PublishedFolder) -> None:
    files = everything(small.folder)
    with served(files) as (address, asked):
        done = verify(address)
    assert done.exit_code == 0, done.output
    assert asked == dict.fromkeys([*files, ""], 1), "each file, and the address itself"
    assert "cannot be seen at an address" in done.stdout


def test_a_page_that_is_longer_than_it_says_is_found(small: PublishedFolder) -> None:
    files = everything(small.folder)
    with served(files, index_html=more(files["index.html"])) as (address, _):
        done = verify(address)
    assert done.exit_code == 3
    assert "WRONG: index.html is not the file that these battles give" in done.stdout


def headed(data: bytes, name: str, value: str) -> Answer:
    """The file, sent with a header."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        begin(request, data)
        request.send_header(name, value)
        request.end_headers()
        request.wfile.write(data)

    return answer


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("Content-Type", "text/html; charset=utf-7", "show it otherwise"),
        ("Content-Type", "text/plain", "show it otherwise"),
        ("Content-Encoding", "br", "show it otherwise"),
        ("Refresh", "0; url=https://example.org", "show it otherwise"),
        ("Link", "<x.css>; rel=stylesheet", "show it otherwise"),
        ("Link", '<x.css>; rel="style\\sheet"', "show it otherwise"),
        ("Link", "<x>; rel=canonical", ""),
        ("Content-Type", "text/html; charset=UTF-8", ""),
    ],
)
def test_a_header_that_changes_what_a_browser_shows_is_refused(
    small: PublishedFolder, name: str, value: str, told: str
) -> None:
    files = everything(small.folder)
    with served(files, index_html=headed(files["index.html"], name, value)) as (address, _):
        done = verify(address)
    assert (done.exit_code == 0) == (not told), done.output
    assert told in str(done.exception)


def test_a_header_is_looked_at_each_time_that_it_is_sent(small: PublishedFolder) -> None:
    files = everything(small.folder)
    for name, harmless, other in (
        ("Link", "<a>; rel=next", "<x.css>; rel=stylesheet"),
        ("Content-Type", "text/html; charset=utf-8", "text/html; charset=utf-16le"),
    ):

        def twice(request: BaseHTTPRequestHandler, headers: Any = (name, harmless, other)) -> None:
            begin(request, files["index.html"])
            for value in headers[1:]:
                request.send_header(headers[0], value)
            request.end_headers()
            request.wfile.write(files["index.html"])

        with served(files, index_html=twice) as (address, _):
            assert "show it otherwise" in str(verify(address).exception), name


@pytest.mark.parametrize(("name", "value"), [("X y", "1"), ("X ", "1"), ("X", "a\r"), ("Ré", "1")])
def test_a_line_that_is_no_header_hides_none_behind_it(small: PublishedFolder, name: str, value: str) -> None:
    """Python takes it for the end of the headers, browsers go on: they followed the refresh."""
    files = everything(small.folder)

    def hiding(request: BaseHTTPRequestHandler) -> None:
        begin(request, files["index.html"])
        request.send_header(name, value)
        request.send_header("Refresh", "0; url=other.html")
        request.end_headers()
        request.wfile.write(files["index.html"])

    with served(files, index_html=hiding) as (address, _):
        assert "show it otherwise" in str(verify(address).exception)


def test_a_host_that_leads_in_a_circle_and_an_address_that_is_none_are_told_in_one_line() -> None:
    with served({}, witness_jsonl=redirect("/board/witness.jsonl")) as (address, _):
        told = str(verify(f"{address}/witness.jsonl").exception)
    assert "it answers 302." in told
    assert "\n" not in told
    assert isinstance(verify("http://[::1").exception, OptionError)


def test_what_is_no_page_is_not_sent_as_one_and_the_address_shows_the_front_page(small: PublishedFolder) -> None:
    files = everything(small.folder)
    rows = headed(files["battles.jsonl"], "content-type", "text/html")
    with served(files, battles_jsonl=rows) as (address, _):
        assert "show it otherwise" in str(verify(address).exception)
    other = files["index.html"].replace(b"</h1>", b" (best: model-9)</h1>", 1)
    with served({**files, "": other}) as (address, _):
        assert "answers with another page" in str(verify(address).exception)


def test_an_address_leads_nowhere_else(small: PublishedFolder) -> None:
    files = everything(small.folder)
    with served({"secret": b"a secret"}) as (other, asked):
        for to in (f"{other}/secret", "ftp://127.0.0.1/x", "file:///etc/passwd", "data:,x", "//example.org/x"):
            with served(files, methods_html=redirect(to)) as (address, _):
                done = verify(address)
            assert isinstance(done.exception, OptionError), to
            assert "cannot fetch" in str(done.exception)
        assert not asked
    with served({**files, "m": files["methods.html"]}, methods_html=redirect("/board/m")) as (address, _):
        assert verify(address).exit_code == 0, "the same host is no other place"


def test_a_name_that_leads_into_the_own_network_is_refused(
    small: PublishedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = socket.getaddrinfo

    def lookup(host: str, *more: Any, **options: Any) -> Any:
        return known("127.0.0.1" if host == "boards.example.org" else host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with served(everything(small.folder)) as (address, asked):
        done = verify(address.replace("127.0.0.1", "boards.example.org"))
        assert "which is no public address" in str(done.exception)
        assert not asked
        assert verify(address.replace("127.0.0.1", "localhost")).exit_code == 0


@pytest.mark.parametrize("size", [-2, 10**15])
def test_sizes_that_no_file_has_are_refused(small: PublishedFolder, size: int) -> None:
    files = everything(small.folder)
    said = json.loads(files["published.json"])
    said["files"]["index.html"]["bytes"] = size
    with served({**files, "published.json": json.dumps(said).encode()}) as (address, _):
        done = verify(address)
    assert isinstance(done.exception, TiltyardError)
    assert f"cannot have {size:,} bytes" in str(done.exception)


def test_an_answer_that_does_not_end_is_cut_off(
    small: PublishedFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = everything(small.folder)
    monkeypatch.setattr("tiltyard.reports.publish.fetching.ALL_SECONDS", 0.3)
    with served(files, published_json=dripping) as (address, _):
        done = verify(address)
    assert "stopped after" in str(done.exception)
    monkeypatch.setattr("tiltyard.reports.publish.fetching.ALL_SECONDS", 30.0)
    monkeypatch.setattr("tiltyard.reports.publish.fetching.MOST_BYTES", 10_000)
    with served(files) as (address, _):
        done = verify(address)
    assert "stopped after 10,000 bytes" in str(done.exception)
    monkeypatch.setattr("tiltyard.reports.publish.fetching.MOST_LINE", 100)
    for source in (address, str(tmp_path / "witness.jsonl")):
        if source == address:
            with served({"witness.jsonl": b"{" * 3_000}) as (address, _):
                done = verify(f"{address}/witness.jsonl")
        else:
            Path(source).write_bytes(b"{" * 3_000)
            done = verify(source)
        assert "has a line of more than 100 bytes" in str(done.exception)


def test_files_that_are_not_there_take_no_longer_than_all(
    small: PublishedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = json.loads((small.folder / "published.json").read_bytes())
    said["files"] = {f"{number}.json": {"sha256": "0" * 64, "bytes": 0} for number in range(500)}
    monkeypatch.setattr("tiltyard.reports.publish.fetching.ALL_SECONDS", 0.3)
    with served({"published.json": json.dumps(said).encode()}) as (address, asked):
        done = verify(address)
    assert "stopped after" in str(done.exception)
    assert len(asked) < 500


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that it signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key, public = folder / "key.pem", folder / "public.pem"
    made = ("openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1")
    names = ("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(public))
    subprocess.run([*made, *names], check=True, capture_output=True)
    return public, key


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("drip", [b"HTTP/1.1 100 Continue\r\n\r\n", b"x", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_host_that_drips_is_left(
    monkeypatch: pytest.MonkeyPatch, certificate: tuple[Path, Path], drip: bytes, secure: bool
) -> None:
    monkeypatch.setattr(fetching, "SILENT_SECONDS", 1.0)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))

    def dripping(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(drip)
        for _ in range(100):
            handler.wfile.write(drip if drip.startswith(b"HTTP/1.1 100") else b"x")
            handler.wfile.flush()
            time.sleep(0.1)

    begun = time.monotonic()
    with served({}, certificate if secure else None, published_json=dripping) as (address, asked):
        done = verify(address)
    assert asked["published.json"] == 1
    assert done.exit_code == 1
    assert isinstance(done.exception, OptionError)
    assert time.monotonic() - begun < 8.0
