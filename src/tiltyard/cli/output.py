"""Where results go: stdout or a file, in the format asked for; notes go to stderr."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tiltyard.errors import Message, OptionError, OptionValue, TiltyardError
from tiltyard.files import write_text
from tiltyard.options import GateOptions, PlanOptions, RateOptions, options_of

THE_ANSWER_IS_NO = 3
"""Exit code of a command that succeeded with a negative result."""

Format = Literal["table", "json", "csv", "md", "latex"]

_CONTROLS = (
    *(code for code in range(0x20) if chr(code) not in "\t\n"),
    *range(0x7F, 0xA0),  # delete, and the second set of control characters
    *(0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),  # which way text runs
    *(0x2028, 0x2029),  # line breaks
    *(0xAD, 0x34F, 0x115F, 0x1160, 0x180E, 0x200B, *range(0x2060, 0x2065), 0x2800, 0x3164, 0xFEFF, 0xFFA0),  # unseen
    *range(0xDC80, 0xDD00),  # bytes of a file's name that are not UTF-8
)
_SHOWN = {code: f"\\u{code:04x}" for code in _CONTROLS}

BY_SUFFIX: dict[str, Format] = {".json": "json", ".csv": "csv", ".md": "md", ".tex": "latex", ".txt": "table"}


def choose_shape(asked: str | None, out: Path | None, by_suffix: Mapping[str, str], what: str) -> str:
    """The requested format, else the one of the file's suffix; a table on the screen or for a file without a suffix."""
    if asked is not None or out is None or not out.suffix:
        return asked or "table"
    if out.suffix.lower() not in by_suffix:
        raise OptionError(f"--out {out.name}: {what} is written as {', '.join(by_suffix)}, or say --format.")
    return by_suffix[out.suffix.lower()]


def printable(text: str) -> str:
    """A text in which nothing steers a terminal: control characters are shown as JSON writes them.

    Names come from files of others. JSON stays the same value: it has such characters only within quotes.
    """
    return text.translate(_SHOWN)


def say(text: str = "", *, end: str = "\n") -> None:
    """Print a result on standard output."""
    sys.stdout.write(printable(text) + end)
    sys.stdout.flush()


def note(text: str, *, end: str = "\n") -> None:
    """A line for the person at the terminal, not part of the result."""
    sys.stderr.write(printable(text.spelled(as_flag) if isinstance(text, Message) else text) + end)
    sys.stderr.flush()


def deliver(text: str, out: Path | None, *, exact: bool = False) -> None:
    """Print, or write to a file and report it. With `exact`, for programs, every character also goes into a pipe."""
    text = text if text.endswith("\n") else text + "\n"
    if out is None:
        sys.stdout.write(text if exact and not sys.stdout.isatty() else printable(text))
        return
    try:
        write_text(out, text, new_folder=False)
    except OSError as error:
        raise TiltyardError(f"cannot write {out}: {error.strerror}. Check the folder.") from None
    note(f"wrote {out}")


def as_flag(choice: OptionValue) -> str:
    """An option of a message as it is typed: `on_bad="skip"` is `--on-bad skip`."""
    option = options_of(RateOptions, GateOptions, PlanOptions).get(choice.option)
    name = (option and option.help.flag) or f"--{choice.option.replace('_', '-')}"
    if isinstance(choice.value, dict):
        return " ".join(f"{name} {shlex.quote(f'{ours}={theirs}')}" for ours, theirs in choice.value.items())
    if isinstance(choice.value, list):
        return " ".join(f"{name} {shlex.quote(one)}" for one in choice.value)
    if choice.value in (None, True, ...):
        return name
    text = str(choice.value)
    return f'{name} "{text}"' if "'" in text and '"' not in text else f"{name} {shlex.quote(text)}"


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner while something takes long, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(printable(what)):
        yield
