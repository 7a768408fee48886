"""A program `tiltyard` for shell scripts: what they start is forked from a process that has imported everything."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.forked import Forked, command

PROGRAM = """#!/bin/sh
call=$(mktemp -d "{folder}/call-XXXXXX")
printf '%s\\0' "$@" >"$call/arguments"
env -0 >"$call/environment"
mkfifo "$call/code"
printf '%s %s\\n' "$call" "$(pwd)" >"{folder}/calls"
read -r code <"$call/code"
cat "$call/streams.out"
cat "$call/streams.err" >&2
exit "$code"
"""


@contextmanager
def stand_in(folder: Path) -> Iterator[Path]:
    """A folder for `PATH` with the program in it. It works until the end of the block, one call after the other."""
    folder.mkdir()
    program = folder / "tiltyard"
    program.write_text(PROGRAM.format(folder=folder), encoding="utf-8")
    program.chmod(0o755)
    os.mkfifo(folder / "calls")
    calls = os.open(folder / "calls", os.O_RDWR)  # of which it is never the last end
    answering = threading.Thread(target=_answer, args=(calls,), daemon=True)
    answering.start()
    try:
        yield folder
    finally:
        os.write(calls, b"\n")
        answering.join()
        os.close(calls)


@pytest.fixture(params=["forked", pytest.param("started", marks=pytest.mark.soak)])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder for `PATH` with `tiltyard` in it: a stand-in, and in a soak one that starts the interpreter."""
    folder = tmp_path / "bin"
    if request.param == "forked":
        with stand_in(folder) as made:
            yield made
        return
    folder.mkdir()
    (folder / "tiltyard").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tiltyard "$@"\n', encoding="utf-8")
    (folder / "tiltyard").chmod(0o755)
    yield folder


def _answer(calls: int) -> None:
    """Run what is asked for, until an empty line is."""
    with open(calls, closefd=False, encoding="utf-8") as lines:
        while asked := lines.readline().strip():
            place, _, here = asked.partition(" ")
            call = Path(place)
            arguments = call.joinpath("arguments").read_bytes().decode().split("\0")[:-1]
            variables = call.joinpath("environment").read_bytes().decode().split("\0")[:-1]
            environment = dict(one.split("=", 1) for one in variables)
            done = Forked(Path(here), str(call / "streams"), command, *arguments, environment=environment).wait()
            call.joinpath("code").write_text(f"{done.returncode}\n", encoding="utf-8")
