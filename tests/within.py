"""A command in the test's own process: what a user's command does, without a process of its own to start.

`main()` is called with its arguments, in a folder, an environment and streams of its own, and its exit code is kept.
A fork and the pages it copies cost as much again as a whole small run. What only a process shows (signals, kills, a
full disk, what is said at the very end) needs one: `tests.forked`.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import TextIO
from unittest.mock import patch

import typer.main

from tests.forked import PLAIN_TERMINAL
from tiltyard.cli import main

UNSEEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
"""What Python does not show a user of a command; any other warning is an error, as everywhere in the tests."""

_made_once = patch.multiple(main, make_app=cache(main.make_app), gc=SimpleNamespace(freeze=lambda: None))
_got_once = patch.object(typer.main, "get_command", cache(typer.main.get_command))


def run(
    folder: Path, *arguments: str, stdin: str = "", terminal: Mapping[str, str] = PLAIN_TERMINAL
) -> CompletedProcess[str]:
    """`tiltyard …` in a folder, at a plain terminal or another."""
    out, err = io.BytesIO(), io.BytesIO()
    with patch.dict(os.environ, terminal):
        code = _ended(folder, arguments, stdin, out, err)
    return CompletedProcess(arguments, code, out.getvalue().decode(), err.getvalue().decode())


def run_together(folder: Path, *arguments: str) -> str:
    """What `tiltyard … 2>&1` says, at the terminal that the environment describes."""
    said = io.BytesIO()
    _ended(folder, arguments, "", said, said)
    return said.getvalue().decode()


def _ended(folder: Path, arguments: tuple[str, ...], stdin: str, out: io.BytesIO, err: io.BytesIO) -> int:
    """The exit code of a command that writes into these."""
    stdout, stderr = _Text(out), _Text(err, line_buffering=True)
    try:
        with chdir(folder), _at_work(("tiltyard", *arguments), stdin, stdout, stderr):
            return _exit_code()
    finally:
        for stream in (stdout, stderr):
            stream.flush()
            stream.detach()


class _Text(io.TextIOWrapper):
    """A stream of text, whatever the machine's language."""

    def __init__(self, raw: io.BytesIO, *, line_buffering: bool = False) -> None:
        super().__init__(raw, encoding="utf-8", newline="", line_buffering=line_buffering)


@contextmanager
def _at_work(arguments: tuple[str, ...], given: str, out: TextIO, err: TextIO) -> Iterator[None]:
    streams = patch.multiple(sys, argv=[*arguments], stdin=_Text(io.BytesIO(given.encode())), stdout=out, stderr=err)
    with streams, _made_once, _got_once, warnings.catch_warnings():
        for unseen in UNSEEN:
            warnings.simplefilter("ignore", unseen)
        yield


def _exit_code() -> int:
    try:
        main.main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    return 0
