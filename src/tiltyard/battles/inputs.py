"""Where battles are read from: `find_parts` turns paths, folders, globs and standard input into files of known kind."""

from __future__ import annotations

import atexit
import enum
import glob
import gzip
import os
import shlex
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from tiltyard.errors import BattleError

PathLike = str | Path
"""A path, as text or `Path`."""


class FileKind(enum.Enum):
    """How the rows of a file are written down."""

    JSONL = "jsonl"
    JSON_ARRAY = "json"
    CSV = "csv"
    SEMICOLONS = "csv with semicolons"
    TSV = "tsv"
    PARQUET = "parquet"
    ZIP = "zip"
    """An archive: a log of another tool, never rows."""

    @property
    def is_json(self) -> bool:
        """True for the two kinds whose cells are JSON values."""
        return self in (FileKind.JSONL, FileKind.JSON_ARRAY)


SUFFIXES = {
    ".jsonl": FileKind.JSONL,
    ".ndjson": FileKind.JSONL,
    ".json": FileKind.JSONL,
    ".csv": FileKind.CSV,
    ".tsv": FileKind.TSV,
    ".parquet": FileKind.PARQUET,
    ".pq": FileKind.PARQUET,
}
KNOWN_SUFFIXES = ".jsonl, .ndjson, .json, .csv, .tsv (each also .gz) or .parquet"
ZIPPED_LOG = ".eval"
"""How the name of a zipped log ends, so that it is read with a folder."""


BATTLES = "battles.jsonl"
RUN_FOLDER = ("manifest.json", BATTLES)
"""A folder with these is that of a run or a placement, and its battles are in the second."""

OTHER_KINDS = {
    b"%PDF": "a PDF",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"SQLite format 3": "a database",
}
UTF_8_MARK = b"\xef\xbb\xbf"
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")

DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)
"""What unzipping raises on a file that is cut off or damaged."""


def to_utf_8(encoding: str, name: str) -> str:
    """How to make UTF-8 of a text file in another encoding."""
    path = Path(name)
    quoted = [shlex.quote(text) for text in (name, f"{path.stem}-utf8{path.suffix}")]
    return f"Save it as UTF-8: iconv -f {encoding} -t UTF-8 {quoted[0]} > {quoted[1]}"


def damage(name: str, error: Exception) -> BattleError:
    """What to tell about a file that cannot be unzipped."""
    return BattleError(f"{name} cannot be unzipped: {error}. Copy or write it again.")


@dataclass(frozen=True, slots=True)
class Part:
    """One file of battles: `path` is read, `name` is what messages call it."""

    path: Path
    name: str
    kind: FileKind
    zipped: bool

    def open(self) -> BinaryIO:
        """The file's bytes, unzipped."""
        if self.zipped:
            return cast("BinaryIO", gzip.open(self.path, "rb"))
        return self.path.open("rb")


def find_parts(data: PathLike | Iterable[PathLike]) -> list[Part]:
    """The files that a path, a list of paths, a folder, a glob or "-" stands for; those of a folder or glob sorted."""
    paths: list[PathLike] = [data] if isinstance(data, str | Path) else list(data)
    parts = [part for path in paths for part in _expand(path)]
    if not parts:
        raise BattleError("no battle file was named. Give a file, a folder, a glob or - for standard input.")
    return parts


def suffix_kind(path: PathLike) -> tuple[FileKind | None, bool]:
    """The kind that a file's name tells, and whether the file is zipped."""
    name = Path(path).name.lower()
    zipped = name.endswith(".gz")
    stem = name[:-3] if zipped else name
    kind = next((kind for suffix, kind in SUFFIXES.items() if stem.endswith(suffix)), None)
    return kind, zipped


def _expand(path: PathLike) -> list[Part]:
    if str(path) == "-":
        return [_spooled(sys.stdin.buffer, sys.stdin.buffer, "stdin")]
    place = Path(path)
    if place.is_dir() and all((place / name).is_file() for name in RUN_FOLDER):
        return [_part(place / BATTLES, str(place / BATTLES))]
    if place.is_dir():
        return _folder(place)
    if not place.exists():
        return [part for match in _matches(path) for part in _expand(match)]
    if not os.access(place, os.R_OK):
        raise BattleError(f"{path} may not be read. Check its rights.")
    if not place.is_file():
        return [_spooled_pipe(place)]
    return [_part(place, str(path))]


def _matches(path: PathLike) -> list[str]:
    """The files and folders that a glob stands for. A broken link is not one of them, though `glob` finds it."""
    found = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - an absolute pattern is fine too
    dangling = next((match for match in found if not Path(match).exists()), None)
    if dangling is not None:
        raise BattleError(f"there is no file {dangling}: it is a broken link. Remove the link, or name other files.")
    if not found:
        what = "no file matches" if glob.has_magic(str(path)) else "there is no file"
        raise BattleError(f"{what} {path}. Check the path; a folder, a glob or - (standard input) would do too.")
    return found


def _folder(folder: Path) -> list[Part]:
    files = sorted(
        file
        for file in folder.iterdir()
        if file.is_file() and (suffix_kind(file)[0] is not None or file.suffix == ZIPPED_LOG)
    )
    if not files:
        raise BattleError(f"folder {folder} has no battle file. Expected files ending in {KNOWN_SUFFIXES}.")
    return [_part(file, str(file)) for file in files]


def _part(path: Path, name: str) -> Part:
    kind, zipped = suffix_kind(path)
    if path.stat().st_size == 0:
        raise BattleError(f"{name} is empty. Remove it, or check what wrote it.")
    if kind is FileKind.PARQUET and zipped:
        raise BattleError(f"{name}: a zipped Parquet file cannot be read. Unzip it first.")
    if kind is None or path.name.lower().removesuffix(".gz").endswith(".json"):
        kind, zipped = _sniff(path, name)
    elif kind is not FileKind.PARQUET:
        start = _start(path, name, zipped=zipped)
        _refuse_utf_16(start, name)
        kind = _separated(start) if kind is FileKind.CSV else kind
    return Part(path, name, kind, zipped)


def _separated(start: bytes) -> FileKind:
    """The kind of a table by what separates the cells of its first line: spreadsheets save `.csv` with semicolons."""
    line = start.removeprefix(UTF_8_MARK).lstrip().split(b"\n", 1)[0]
    counts = {FileKind.CSV: line.count(b","), FileKind.SEMICOLONS: line.count(b";"), FileKind.TSV: line.count(b"\t")}
    return max(counts, key=counts.__getitem__)


def _start(path: Path, name: str, *, zipped: bool) -> bytes:
    """The first bytes of a file, unzipped."""
    with gzip.open(path, "rb") if zipped else path.open("rb") as stream:
        try:
            return stream.read(65536)
        except DAMAGED as error:
            raise damage(name, error) from None


def _refuse_utf_16(start: bytes, name: str) -> None:
    """Text in UTF-16 starts with its mark, or has a zero at every other place: first letters are mostly ASCII."""
    encoding = "UTF-16" if start.startswith(UTF_16_MARKS) else None
    zeros = [start[:200][place::2].count(0) for place in (0, 1)]
    if encoding is None and max(zeros) >= 8 + 10 * min(zeros) and 4 * max(zeros) > len(start[:200]):
        encoding = "UTF-16BE" if zeros[0] > zeros[1] else "UTF-16LE"
    if encoding is not None:
        raise BattleError(f"{name} is UTF-16 text. {to_utf_8(encoding, name)}.")


def _refuse_other_kinds(start: bytes, name: str) -> None:
    """A file that is no text is named as what it is, instead of having its bytes taken for columns."""
    _refuse_utf_16(start, name)
    kind = next((kind for magic, kind in OTHER_KINDS.items() if start.startswith(magic)), None)
    if kind or b"\0" in start:
        what = kind or "binary data"
        raise BattleError(f"{name} is {what}, not a file of battles. Expected a file ending in {KNOWN_SUFFIXES}.")


def _sniff(path: Path, name: str) -> tuple[FileKind, bool]:
    """The kind that a file's first bytes tell."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    start = _start(path, name, zipped=zipped)
    if start.startswith(b"PAR1"):
        return FileKind.PARQUET, zipped
    if start.startswith(b"PK\x03\x04"):
        return FileKind.ZIP, zipped
    _refuse_other_kinds(start, name)
    text = start.removeprefix(UTF_8_MARK).lstrip()
    if not text:
        raise BattleError(f"{name} is empty. Remove it, or check what wrote it.")
    if text.startswith(b"{"):
        return FileKind.JSONL, zipped
    if text.startswith(b"["):
        return FileKind.JSON_ARRAY, zipped
    return _separated(text), zipped


_spools: list[tuple[object, Part]] = []


def _spooled_pipe(place: Path) -> Part:
    for known, part in _spools:
        if known == place:
            return part
    with place.open("rb") as pipe:
        return _spooled(pipe, place, str(place))


def _spooled(stream: BinaryIO, source: object, name: str) -> Part:
    """What can be read only once, as a temporary file that is removed when the process ends.

    Asked again for the same source, it gives the same file.
    """
    for known, part in _spools:
        if known == source:
            return part
    with tempfile.NamedTemporaryFile(prefix="tiltyard-", delete=False) as spool:
        shutil.copyfileobj(stream, spool)
    path = Path(spool.name)
    atexit.register(path.unlink, missing_ok=True)
    if path.stat().st_size == 0:
        raise BattleError(f"{name} is empty. Pipe battles into it, or name a file.")
    part = Part(path, name, *_sniff(path, name))
    _spools.append((source, part))
    return part
