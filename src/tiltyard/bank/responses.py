"""The response cache: what each entrant answered, one file `responses_<entrant>.jsonl` each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tiltyard.bank.records import convert, read_objects
from tiltyard.errors import BankError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One entrant's answer to one prompt. Unknown fields of a file are ignored."""

    entrant_id: str
    prompt_id: str
    response_text: str
    p_correct: float | None = None
    diagnostics: dict[str, Any] | None = None
    timestamp: str | None = None


def responses_path(folder: str | Path, entrant_id: str) -> Path:
    """The file of an entrant's responses."""
    return Path(folder) / f"responses_{entrant_id}.jsonl"


def read_responses(folder: str | Path, entrant_id: str) -> dict[str, Response]:
    """An entrant's responses by prompt id; of two to one prompt the later counts. A torn last line is passed over."""
    path = responses_path(folder, entrant_id)
    responses: dict[str, Response] = {}
    for number, record in read_objects(path, "response file", torn_end=True):
        record.setdefault("entrant_id", entrant_id)
        response: Response = convert(record, Response, f"{path}:{number}")
        if response.entrant_id != entrant_id:
            raise BankError(f"{path}:{number}: entrant_id is {response.entrant_id!r}, the file is of {entrant_id!r}.")
        responses[response.prompt_id] = response
    return responses


def append_responses(folder: str | Path, entrant_id: str, responses: Iterable[Response]) -> None:
    """Add responses to an entrant's file, safely: whole lines, on disk before this returns, a torn end closed first."""
    path = responses_path(folder, entrant_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = b"".join(msgspec.json.encode(response) + b"\n" for response in responses)
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                lines = b"\n" + lines
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
