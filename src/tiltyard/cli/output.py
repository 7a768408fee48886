"""Where results go: stdout or a file, in the format asked for; notes go to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tiltyard.errors import TiltyardError

Format = Literal["table", "json", "csv", "md"]

BY_SUFFIX: dict[str, Format] = {".json": "json", ".csv": "csv", ".md": "md", ".txt": "table"}


def choose_format(asked: Format | None, out: Path | None) -> Format:
    """The format asked for, else the one that the file's name tells, else a table."""
    if asked is not None:
        return asked
    return BY_SUFFIX.get(out.suffix.lower(), "table") if out is not None else "table"


def deliver(text: str, out: Path | None) -> None:
    """Print, or write to a file and say so."""
    text = text if text.endswith("\n") else text + "\n"
    if out is None:
        sys.stdout.write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TiltyardError(f"cannot write {out}: {error.strerror}. Check the folder.") from None
    note(f"wrote {out}")


def note(text: str) -> None:
    """A line for the person at the terminal, not part of the result."""
    sys.stderr.write(text + "\n")


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner while something takes long, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
