"""Servers in processes of their own, and how long a test waits for them: as long as they live, within reason."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable

import httpx2 as httpx

from tests.forked import PATIENCE_SECONDS, Forked


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes] | Forked) -> None:
    """Until somebody answers there; a process that ended is an error at once, and its stderr is in the report."""
    until = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None:
        try:
            httpx.get(url, verify=False, timeout=PATIENCE_SECONDS)
        except httpx.TransportError:
            assert time.monotonic() < until, f"nobody answers at {url} after {PATIENCE_SECONDS:.0f} s"
            time.sleep(0.05)
        else:
            return
    said = process.wait().stderr if isinstance(process, Forked) else "see its stderr"
    raise AssertionError(f"the server of {url} ended with {process.returncode}; {said}")


def wait_until(true: Callable[[], object]) -> None:
    """Until something holds."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)
