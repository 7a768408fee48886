"""Reading files of records: JSON Lines, with an error that names the line that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.errors import BankError


def read_objects(path: Path, what: str, *, torn_end: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every JSON object of a JSON Lines file with its line number; blank lines are skipped.

    With `torn_end`, a last line without its line break that cannot be read is skipped: a writer was killed there.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BankError(f"there is no {what} at {path}. Check the path.") from None
    except OSError as error:
        raise BankError(f"cannot read the {what} {path}: {error.strerror}.") from None
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if torn_end and number == len(lines):
                return
            raise BankError(f"{path}:{number}: not JSON ({error}). Correct or remove the line.") from None
        if not isinstance(record, dict):
            raise BankError(f"{path}:{number}: expected a JSON object, found {type(record).__name__}.")
        yield number, record


def convert(record: dict[str, Any], kind: type[Any], where: str) -> Any:
    """A record as a struct; a missing or wrong field is an error that names it."""
    try:
        return msgspec.convert(record, kind)
    except msgspec.ValidationError as error:
        raise BankError(f"{where}: {error}. Correct the line.") from None
