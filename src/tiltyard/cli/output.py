"""Where results go: stdout or a file, in the format asked for; notes go to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tiltyard.errors import OptionError, TiltyardError
from tiltyard.files import write_text

THE_ANSWER_IS_NO = 3
"""Exit code of a command that did its work and found that the answer is no."""

Format = Literal["table", "json", "csv", "md"]

BY_SUFFIX: dict[str, Format] = {".json": "json", ".csv": "csv", ".md": "md", ".txt": "table"}


def choose_format(asked: Format | None, out: Path | None) -> Format:
    """The format asked for, else the one that the file's name tells; a table on the screen or in a file without one."""
    if asked is not None or out is None or not out.suffix:
        return asked or "table"
    if out.suffix.lower() not in BY_SUFFIX:
        raise OptionError(
            f"--out {out.name}: a leaderboard is written as {', '.join(BY_SUFFIX)}. End the name in one of these, say "
            "which with --format, or draw a picture with --plot (.svg, .png, .html)."
        )
    return BY_SUFFIX[out.suffix.lower()]


def deliver(text: str, out: Path | None) -> None:
    """Print, or write to a file and say so."""
    text = text if text.endswith("\n") else text + "\n"
    if out is None:
        sys.stdout.write(text)
        return
    try:
        write_text(out, text, new_folder=False)
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
