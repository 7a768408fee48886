"""Files of others, at an address or packed: one host, bounded in time, bytes and the length of a line."""

from __future__ import annotations

import gzip
import ipaddress
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from tiltyard.errors import OptionError, TiltyardError
from tiltyard.files import write_bytes
from tiltyard.reports.publish.folder import MANIFEST, MOST_BYTES, read_manifest

SILENT_SECONDS, ALL_SECONDS = 60.0, 3_600.0
"""How long a site may say nothing, and how long all of its answers may take."""

MOST_MANIFEST, MOST_LINE = 64_000_000, 16_000_000
"""Bytes of a manifest, and of a line."""

CHUNK = 1 << 16

DISTRUST = "Do not trust it."

SLOWEST = 1_000
"""Bytes a second that an answer has to bring, once it has had the time that it may be silent."""


class RemoteHost:
    """What one address answers: only its own host is asked, and its answers end.

    Parameters:
        address: Where to begin: it says the host.
    """

    def __init__(self, address: str) -> None:
        try:
            place = urlsplit(address)
        except ValueError as error:
            raise OptionError(f"{address} is no address ({error}). Check how it is written.") from None
        self.host = place.hostname or ""
        self._left, self._until = MOST_BYTES, time.monotonic() + ALL_SECONDS
        self._connection: HTTPConnection | None = None
        site = self

        class Guarded(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                site._connection = self
                peer = self.sock.getpeername()[0].split("%")[0]
                if self.host == site.host and not _is_own(site.host) and not ipaddress.ip_address(peer).is_global:
                    self.close()
                    raise OSError(f"it is at {peer}, which is no public address; if that is meant, give it as such")

        class GuardedSecurely(HTTPSConnection, Guarded):
            pass

        class OnePlace(HTTPRedirectHandler):
            def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
                to = urlsplit(newurl)
                safer = (place.scheme, to.scheme) in (("http", "https"), (place.scheme, place.scheme))
                if not safer or (to.hostname, to.port) != (place.hostname, place.port):
                    fp.close()
                    raise OSError(f"it leads to another place: {newurl[:200]}")
                return super().redirect_request(req, fp, code, msg, headers, newurl)

        class Directly(HTTPHandler, HTTPSHandler):
            def http_open(self, req: Request) -> Any:
                return self.do_open(Guarded, req)

            def https_open(self, req: Request) -> Any:
                return self.do_open(GuardedSecurely, req)

        self._opener = build_opener(Directly, OnePlace)

    def chunks(self, address: str, most: int = MOST_BYTES) -> Iterator[bytes]:
        """What an address answers, piece by piece, and at most one byte more than `most`."""
        self._check_bounds(address)
        late = threading.Timer(SILENT_SECONDS, self._hang_up)
        late.start()
        try:
            with self._opener.open(address, timeout=SILENT_SECONDS) as answer:
                late.cancel()
                yield from self._read(answer, address, most)
        except HTTPError as error:
            error.close()
            raise OptionError(
                f"cannot fetch {address}: it answers {error.code}. Check it, or try again later."
            ) from None
        except (OSError, ValueError, HTTPException) as error:
            reason = str(getattr(error, "reason", error))[:200]
            raise OptionError(f"cannot fetch {address}: {reason}. Check the address, or download the files.") from None
        finally:
            late.cancel()

    def _hang_up(self) -> None:
        """End what has not begun to answer, though it may say something now and then."""
        connected = self._connection and self._connection.sock
        if connected:
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def _read(self, answer: Any, address: str, most: int) -> Iterator[bytes]:
        if odd := odd_header(answer.headers, is_page=urlsplit(address).path.endswith((".html", "/"))):
            raise TiltyardError(f"{address} is sent with {odd[:200]!r}: browsers show it otherwise. {DISTRUST}")
        begun, read = time.monotonic(), 0
        while most >= 0 and (data := answer.read1(min(CHUNK, most + 1))):
            most -= len(data)
            read += len(data)
            self._left -= len(data)
            seconds = time.monotonic() - begun
            if seconds > SILENT_SECONDS and read < SLOWEST * seconds:
                raise OptionError(f"{address} gave {read:,} bytes in {seconds:.0f} seconds. Try again later.")
            self._check_bounds(address)
            yield data

    def _check_bounds(self, address: str) -> None:
        if self._left < 0 or time.monotonic() > self._until:
            bounds = f"{MOST_BYTES:,} bytes or {ALL_SECONDS:,.0f} seconds in all"
            raise OptionError(f"{address}: stopped after {bounds}. Download the files, and check the folder.")

    def lines(self, address: str) -> Iterator[bytes]:
        """The lines that an address answers."""
        rest = b""
        for data in self.chunks(address):
            *whole, rest = (rest + data).split(b"\n")
            yield from (line + b"\n" for line in whole)
            if len(rest) > MOST_LINE:
                raise TiltyardError(f"{address} has a line of more than {MOST_LINE:,} bytes. {DISTRUST}")
        if rest:
            yield rest

    def file(self, address: str, most: int) -> bytes | None:
        """A file, cut off after one byte more than `most`; None: there is none."""
        try:
            return b"".join(self.chunks(address, most))
        except OptionError as error:
            cause = error.__context__
            if isinstance(cause, HTTPError) and cause.code in (403, 404, 410):
                return None
            raise


def odd_header(headers: Message, *, is_page: bool) -> str:
    """A header with which a browser shows other things than the bytes say; empty: there is none."""
    if headers.defects or headers.get_payload():  # Python ends there; browsers leave such a line out, and read on
        return "a line that is no header"
    for name, value in headers.items():
        key, words = name.lower(), value.lower().replace("\\", "")
        kind, *rest = (part.strip(' "') for part in words.split(";"))
        odd = key == "refresh" or (key == "link" and "style" in words)
        if key == "content-encoding":
            odd = kind != "identity"
        elif key == "content-type":
            charsets = {part.partition("=")[2].strip("' \"") for part in rest if part.startswith("charset")}
            odd = bool(charsets - {"utf-8", "utf8", "us-ascii"})
            odd |= kind != "text/html" if is_page else "html" in kind or "multipart" in kind
        if odd:
            return f"{name}: {value}"
    return "no Content-Type" if is_page and "content-type" not in headers else ""


def _is_own(host: str) -> bool:
    """Whether a host, as it was given, is one of this machine or of its own network."""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost"


def fetch_folder(address: str, folder: Path) -> bool:
    """Fetch every file of a published folder once; False: there is none.

    Parameters:
        address: Where it is served: the address of the folder, or of a page at its top.
        folder: Where to keep the files.
    """
    base = address.split("#")[0].split("?")[0].removesuffix(MANIFEST)
    base = base.rpartition("/")[0] if base.endswith(".html") else base.rstrip("/")
    site = RemoteHost(base)
    data = None if base.endswith((".jsonl", ".jsonl.gz")) else site.file(f"{base}/{MANIFEST}", MOST_MANIFEST)
    if data is None:
        return False
    for name, file in read_manifest(data, f"{base}/{MANIFEST}").files.items():
        content = site.file(f"{base}/{quote(name)}", file.bytes)
        if content is not None:
            write_bytes(folder / name, content)
        if name == "index.html" and site.file(f"{base}/", file.bytes) != content:
            raise TiltyardError(f"{base}/ answers with another page than {base}/index.html. {DISTRUST}")
    write_bytes(folder / MANIFEST, data)
    return True


def bounded_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, packed or not, as long as they are lines and it ends."""
    left = MOST_BYTES
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b" or path.suffix == ".gz"
            file.seek(0)
            lines = gzip.GzipFile(fileobj=file) if packed else file
            while line := lines.readline(MOST_LINE + 1):
                left -= len(line)
                if len(line) > MOST_LINE or left < 0:
                    bounds = f"{MOST_LINE:,} bytes, or more than {MOST_BYTES:,} in all"
                    raise TiltyardError(f"{path} has a line of more than {bounds}. {DISTRUST}")
                yield line
    except (EOFError, OSError, zlib.error) as error:
        raise OptionError(f"{path} is cut off or not a gzip file ({error}). Download it again.") from None
