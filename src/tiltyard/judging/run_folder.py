"""Reading the files of a run folder: each whole, or one clear line about what is wrong with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from tiltyard.errors import RunFolderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Finish = Callable[[Path], object]
    """What is done with a complete run folder: a report, usually."""

RUN = "tiltyard run"
"""The command that writes a tournament's folder; every reader here can be told of another."""


def again(command: str = RUN) -> str:
    """What to do about a file that is torn or not what stands there in a run."""
    return f"Write it again with `{command}`, which asks no question twice."


def require(path: Path, folder: Path, command: str = RUN) -> Path:
    """The path of a file that a finished run has."""
    if not folder.is_dir():
        raise RunFolderError(f"there is no run folder {folder}. Check the path.")
    if not path.is_file():
        raise RunFolderError(
            f"{folder} has no {path.relative_to(folder).as_posix()}: not a run folder, or its run has not finished. "
            f"Finish it with `{command}`, then report again."
        )
    return path


def read_object(path: Path, command: str = RUN) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error.strerror}.") from None
    except ValueError as error:
        raise RunFolderError(f"{path}: torn or not JSON ({error}). {again(command)}") from None
    if not isinstance(value, dict):
        raise RunFolderError(f"{path}: expected one JSON object, found {type(value).__name__}. {again(command)}")
    return value


class LineSpan(msgspec.Struct, frozen=True):
    """Where one line stands: its number, and where its bytes begin and end."""

    number: int
    start: int
    end: int


def read_lines(path: Path, decoder: msgspec.json.Decoder[Any], command: str = RUN) -> Iterator[tuple[LineSpan, Any]]:
    """Every record of a JSON Lines file with its place; a torn or wrong line is an error that names it."""
    start = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            place = LineSpan(number, start, start + len(line))
            start = place.end
            if line.strip():
                yield place, decode(line, decoder, path, number, command)


def decode(line: bytes, decoder: msgspec.json.Decoder[Any], path: Path, number: int, command: str = RUN) -> Any:
    """One record."""
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        what = "not what stands there in a run" if isinstance(error, msgspec.ValidationError) else "torn or not JSON"
        raise RunFolderError(f"{path}:{number}: {what} ({error}). {again(command)}") from None
