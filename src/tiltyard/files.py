"""Writing files whole or not at all: a reader sees the old one or the new one, never half of either."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_LINE_ENDS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))
"""Characters that JSON may hold as they are and that some programs take for the end of a line, as JSON escapes them."""


def escape_line_ends(encoded: bytes) -> bytes:
    """The same JSON with U+0085, U+2028 and U+2029 escaped, so that a line is one line to every program."""
    for raw, escaped in _LINE_ENDS:
        encoded = encoded.replace(raw, escaped)
    return encoded


def json_line(value: Any) -> bytes:
    """A value as one line of a JSON Lines file, with its line break."""
    return escape_line_ends(msgspec.json.encode(value)) + b"\n"


def write_text(path: Path, text: str) -> None:
    """Write a text, with line ends as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8", newline="\n")
    part.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_lines(path: Path, rows: Iterable[Any]) -> None:
    """Write one JSON value per line, as they come: the rows need not fit into memory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        for row in rows:
            file.write(json_line(row))
    part.replace(path)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
