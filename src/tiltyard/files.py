"""Writing files whole or not at all: a reader sees the old one or the new one, never half of either."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


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
            file.write(msgspec.json.encode(row) + b"\n")
    part.replace(path)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
