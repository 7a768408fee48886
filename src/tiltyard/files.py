"""Writing files whole or not at all: a reader sees the old one or the new one, never half of either.

Every file that a user names or finds is written here; a test looks for writers elsewhere. What only grows (the batch
journal, verdict caches, responses and conversations) is appended to by its own module, which says what a kill leaves.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

_NAME_SHOWN = 40
_OPEN_FILES = ("/dev", "/dev/fd", "/proc/self/fd")
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

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


@contextmanager
def whole_file(path: Path, *, durable: bool = False, private: bool = False) -> Iterator[Path]:
    """A name beside `path` to write under: the file takes its place when the block ends, and vanishes if it fails.

    The name is new each time, so two processes that write the same file do not meet; the later one wins. A link stays
    a link and its target is replaced; a pipe or device (`/dev/stdout`) is written to as it is. With `durable` the file
    is on the disk when the block has ended, else when the system writes it. With `private` a new file may be read by
    its owner alone.
    """
    if path.exists() and (not path.is_file() or str(path.parent) in _OPEN_FILES):
        yield path
        return
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name[:_NAME_SHOWN]}.{secrets.token_hex(6)}.part")
    try:
        if private:
            part.touch(mode=0o600)
        yield part
        if target.exists():
            shutil.copymode(target, part)
        if durable:
            sync_to_disk(part)
        part.replace(target)
        if durable:
            sync_to_disk(target.parent)
    except OSError as error:
        of_part = error.filename == str(part) or (error.filename is None and error.errno in _OF_THE_DISK)
        if not of_part:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        part.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes left unfinished in a folder whose files are all written."""
    for part in folder.rglob(".*.part"):
        part.unlink(missing_ok=True)


def append_bytes(path: Path, content: bytes) -> None:
    """Add bytes at the end of a file; they are on the disk when it returns, and so is a new file's name."""
    fresh = not path.exists()
    with path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if fresh:
        sync_to_disk(path.parent)


def sync_to_disk(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk when it returns."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _in_its_folder(path: Path, *, private: bool = False) -> Iterator[Path]:
    """The same, in a folder that is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, private=private) as part:
        yield part


def write_bytes(path: Path, content: bytes, *, new_folder: bool = True) -> None:
    """Write bytes; the folder is made if need be, unless a user named it who may have mistyped it."""
    with _in_its_folder(path) if new_folder else whole_file(path) as part:
        part.write_bytes(content)


def write_private(path: Path, content: bytes) -> None:
    """Write bytes that only the user may read, and have them on the disk when it returns."""
    with whole_file(path, durable=True, private=True) as part:
        part.write_bytes(content)


def write_text(path: Path, text: str, *, new_folder: bool = True) -> None:
    """Write a text, with line ends as they are."""
    write_bytes(path, text.encode("utf-8"), new_folder=new_folder)


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """JSON as every file of ours has it: indented, not a number written as null."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _finite(msgspec.to_builtins(value))
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def write_lines(path: Path, rows: Iterable[Any], *, private: bool = False) -> None:
    """Write one JSON value per line, as they come: the rows need not fit into memory."""
    with _in_its_folder(path, private=private) as part, part.open("wb") as file:
        for row in rows:
            file.write(json_line(row))


def write_arrays(path: Path, arrays: dict[str, Any], *, compressed: bool = False) -> None:
    """Write NumPy arrays by name as one `.npz`."""
    import numpy as np

    with _in_its_folder(path) as part, part.open("wb") as file:
        (np.savez_compressed if compressed else np.savez)(file, **arrays)


def copy_file(source: Path, path: Path) -> None:
    """Copy a file's bytes."""
    with _in_its_folder(path) as part:
        shutil.copyfile(source, part)


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
