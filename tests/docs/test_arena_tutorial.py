"""The tutorial about an arena, from top to bottom, beside the server that it tells the reader to start."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.docs.manual import DOCS, Reader, blocks, environment, workplace
from tests.forked import PATIENCE_SECONDS, Forked, command
from tests.processes import free_port

PAGE = DOCS / "tutorials" / "running-an-arena.md"


def wait_for(address: str, server: Forked) -> None:
    """Come back when the server answers."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        assert server.poll() is None, f"the server ended with {server.returncode}"
        try:
            with urlopen(f"{address}/healthz", timeout=PATIENCE_SECONDS) as answer:
                assert answer.status == 200
                return
        except URLError:
            assert time.monotonic() < end, f"no server at {address}"
            time.sleep(0.1)


def look_around(address: str) -> None:
    """Open every page that the tutorial sends its reader to."""
    paths = re.findall(r"^\| `(/\S*)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(paths) == 7
    for path in ["/", *paths]:
        with urlopen(address + path, timeout=PATIENCE_SECONDS) as answer:
            assert answer.status == 200
            assert "<h1" in answer.read().decode(), path


def test_the_arena_tutorial_runs_beside_its_server(tmp_path: Path) -> None:
    folder, port = workplace(tmp_path), free_port()
    address = f"http://127.0.0.1:{port}"
    reader = Reader(PAGE, folder, address=address)
    server: Forked | None = None
    try:
        for kind, code in blocks(PAGE, "python", "console", "sh"):
            if kind == "sh":
                assert code.startswith("tiltyard arena serve")
                words = [*code.split()[1:], "--port", str(port)]
                server = Forked(folder, "../server", command, *words, environment=environment())
                wait_for(address, server)
                look_around(address)
            elif server is not None and server.poll() is None and "arena verify" in code:
                server.send_signal(signal.SIGINT)  # the reader's Ctrl-C
                assert server.wait(PATIENCE_SECONDS).returncode == 0
                reader.type_in(kind, code)
            else:
                reader.type_in(kind, code)
    finally:
        if server is not None and server.poll() is None:
            server.kill()
    assert server is not None
