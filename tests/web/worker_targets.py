"""What workers do in the tests of those who watch them. Each notes its number, one line for each start."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tiltyard.errors import ArenaError
from tiltyard.web.workers import BEAT


def _note(word: str) -> None:
    with Path(os.environ["WORKER_NOTES"]).open("a", encoding="utf-8") as file:
        file.write(f"{word} {os.getpid()}\n")


def serve(sender: Connection, _sockets: Any) -> None:
    """Serves until it is told to stop, or nobody listens."""
    signal.signal(signal.SIGTERM, _end)
    _note("started")
    while True:
        try:
            sender.send_bytes(BEAT)
        except OSError:
            _note("orphaned")
            return
        time.sleep(0.05)


def _end(*_: object) -> None:
    _note("ended")
    raise SystemExit(0)


def start_slowly(sender: Connection, sockets: Any) -> None:
    """Takes its time: until there is a file `go` beside the notes, or a minute."""
    go, until = Path(os.environ["WORKER_NOTES"]).with_name("go"), time.monotonic() + 60.0
    while not go.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    serve(sender, sockets)


def fall_silent(sender: Connection, _sockets: Any) -> None:
    """Serves, then hangs."""
    _note("started")
    sender.send_bytes(BEAT)
    time.sleep(600)


def cannot_start(_sender: Connection, _sockets: Any) -> None:
    """Has no database."""
    _note("tried")
    raise ArenaError("the database is gone. Start it.")


def breaks(_sender: Connection, _sockets: Any) -> None:
    """Has a mistake in it."""
    _note("tried")
    raise KeyError("never\nthere")


def is_killed(_sender: Connection, _sockets: Any) -> None:
    """Runs out of memory, say."""
    _note("tried")
    os.kill(os.getpid(), signal.SIGKILL)


def cannot_start_again(sender: Connection, sockets: Any) -> None:
    """The first serves; whoever comes later cannot start."""
    try:
        Path(os.environ["WORKER_NOTES"]).with_name("first").touch(exist_ok=False)  # also where both start at once
    except FileExistsError:
        cannot_start(sender, sockets)
    serve(sender, sockets)
