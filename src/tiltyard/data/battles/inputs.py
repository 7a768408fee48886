"""Where battles are read from: files of known kind (`find_parts`), and what columns they have (`Header`)."""

from __future__ import annotations

import atexit
import csv
import enum
import glob
import gzip
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import msgspec

from tiltyard.errors import BattleError, OptionValue

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

BATTLES, SCORES = "battles.jsonl", "scores.jsonl"
MANIFEST, MATCHES, VERDICTS = "manifest.json", Path("matches") / "matches.jsonl", "verdicts"


def run_files(folder: Path) -> list[Path]:
    """The battles of the folder of a run or a placement; its verdicts, where a program that writes no battles ran it.

    Empty where the folder is that of no run, or nothing was judged.
    """
    if not (folder / MANIFEST).is_file():
        return []
    if (folder / BATTLES).is_file():
        return [folder / BATTLES]
    return [file for file in sorted((folder / VERDICTS).glob("*.jsonl")) if file.stat().st_size]


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


class BattleFile(msgspec.Struct, frozen=True):
    """One file of battles: `path` is read, `name` is what messages call it."""

    path: Path
    name: str
    kind: FileKind
    zipped: bool

    def open(self) -> BinaryIO:
        if self.zipped:
            return cast("BinaryIO", gzip.open(self.path, "rb"))
        return self.path.open("rb")


def suffix_kind(path: PathLike) -> tuple[FileKind | None, bool]:
    """The kind that a file's name tells, and whether the file is zipped."""
    name = Path(path).name.lower()
    zipped = name.endswith(".gz")
    stem = name[:-3] if zipped else name
    kind = next((kind for suffix, kind in SUFFIXES.items() if stem.endswith(suffix)), None)
    return kind, zipped


def find_parts(path: PathLike) -> list[BattleFile]:
    """The files that a path, a folder, a glob or "-" stands for; those of a folder or glob sorted."""
    if str(path) == "-":
        return [_spooled("-", "stdin")]
    place = Path(path)
    if place.is_dir():
        return [_part(file, str(file)) for file in run_files(place)] or _folder(place)
    if not place.exists():
        return [part for match in _matches(path) for part in find_parts(match)]
    if not os.access(place, os.R_OK):
        raise BattleError(f"{path} may not be read. Check its rights.")
    if not place.is_file():
        return [_spooled(str(place), str(place))]
    return [_part(place, str(path))]


def _matches(path: PathLike) -> list[str]:
    """The files and folders that a glob stands for. A broken link is not one of them, though `glob` finds it."""
    matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - an absolute pattern is fine too
    dangling = next((match for match in matches if not Path(match).exists()), None)
    if dangling is not None:
        raise BattleError(f"there is no file {dangling}: it is a broken link. Remove the link, or name other files.")
    if not matches:
        what = "no file matches" if glob.has_magic(str(path)) else "there is no file"
        raise BattleError(f"{what} {path}. Check the path; a folder, a glob or - (standard input) would do too.")
    return matches


def _folder(folder: Path) -> list[BattleFile]:
    if (folder / MATCHES).is_file() and not (folder / SCORES).is_file():
        raise BattleError(f"{folder} has matches but no verdict: its run has not finished, or skipped judging. Run it.")
    known = [path for path in folder.iterdir() if suffix_kind(path)[0] is not None or path.suffix == ZIPPED_LOG]
    files = sorted(path for path in known if path.is_file())
    if not files:
        raise BattleError(f"folder {folder} has no battle file. Expected files ending in {KNOWN_SUFFIXES}.")
    return [_part(file, str(file)) for file in files]


def _part(path: Path, name: str) -> BattleFile:
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
    return BattleFile(path, name, kind, zipped)


def _separated(start: bytes) -> FileKind:
    """The kind of a table by what separates the cells of its first line: spreadsheets save `.csv` with semicolons."""
    line = start.removeprefix(UTF_8_MARK).lstrip().split(b"\n", 1)[0]
    counts = {FileKind.CSV: line.count(b","), FileKind.SEMICOLONS: line.count(b";"), FileKind.TSV: line.count(b"\t")}
    return max(counts, key=counts.__getitem__)


def _start(path: Path, name: str, *, zipped: bool) -> bytes:
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


def _sniff(path: Path, name: str) -> tuple[FileKind, bool]:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    start = _start(path, name, zipped=zipped)
    if start.startswith(b"PAR1"):
        return FileKind.PARQUET, zipped
    if start.startswith(b"PK\x03\x04"):
        return FileKind.ZIP, zipped
    _refuse_utf_16(start, name)
    what = next((kind for magic, kind in OTHER_KINDS.items() if start.startswith(magic)), "binary data")
    if what != "binary data" or b"\0" in start:
        raise BattleError(f"{name} is {what}, not a file of battles. Expected a file ending in {KNOWN_SUFFIXES}.")
    text = start.removeprefix(UTF_8_MARK).lstrip()
    if not text:
        raise BattleError(f"{name} is empty. Remove it, or check what wrote it.")
    if text.startswith(b"{"):
        return FileKind.JSONL, zipped
    if text.startswith(b"["):
        return FileKind.JSON_ARRAY, zipped
    return _separated(text), zipped


_spools: dict[object, BattleFile] = {}


def _spooled(source: str, name: str) -> BattleFile:
    """Standard input or a pipe, which can be read only once, as a temporary file that is removed at the end.

    Asked again for the same source, it gives the same file.
    """
    key = sys.stdin.buffer if source == "-" else source
    if key not in _spools:
        with tempfile.NamedTemporaryFile(prefix="tiltyard-", delete=False) as spool:
            if source == "-":
                shutil.copyfileobj(sys.stdin.buffer, spool)
            else:
                with Path(source).open("rb") as pipe:
                    shutil.copyfileobj(pipe, spool)
        path = Path(spool.name)
        atexit.register(path.unlink, missing_ok=True)
        if path.stat().st_size == 0:
            raise BattleError(f"{name} is empty. Pipe battles into it, or name a file.")
        _spools[key] = BattleFile(path, name, *_sniff(path, name))
    return _spools[key]


SAMPLE_BYTES = 1 << 17
SAMPLE_ROWS = 2000

CellType = Literal["number", "flag", "text", "nested"]


class RawColumn(msgspec.Struct, frozen=True):
    """One column of a source, by its own name.

    `holds` says what was seen in it. `top` is the column to read and `inner` the key (or, of a list, the place) within
    it, for a nested value.
    `sql_type` is the declared type where the source has one (Parquet, frames), else None.
    """

    name: str
    holds: CellType
    sql_type: str | None = None
    top: str = ""
    inner: str | int | None = None


class Header(msgspec.Struct, frozen=True, eq=False):
    """The columns of a source. `cells` says how its values are written: as JSON, as CSV text, or as typed values.

    `places` names every column of a CSV file in its place, also those without a heading, which are left out elsewhere.
    """

    columns: Mapping[str, RawColumn]
    cells: Literal["json", "text", "typed"]
    places: tuple[str, ...] = ()

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def top_names(self) -> tuple[str, ...]:
        """The columns as they are in the file, without the keys inside nested ones."""
        return tuple(name for name, column in self.columns.items() if column.inner is None)


def file_header(part: BattleFile) -> Header:
    """The columns of a text file, from its first lines (and some further in, where that is cheap)."""
    if part.kind is FileKind.ZIP:
        raise BattleError(
            f"{part.name} is a zip archive. Unpack it, or name its format if it is a log (", OptionValue("format"), ")."
        )
    try:
        if part.kind.is_json:
            return header_of_rows(_json_sample(part), "json")
        names, rows = _csv_sample(part)
    except DAMAGED as error:
        raise damage(part.name, error) from None
    columns = {
        name: RawColumn(name, text_holds([row[at] for row in rows if at < len(row)]), top=name)
        for at, name in enumerate(names)
        if name.strip()
    }
    places = tuple(name if name.strip() else f"unnamed column {at}" for at, name in enumerate(names, start=1))
    return Header(columns, "text", places)


def header_of_rows(rows: Iterable[Mapping[str, Any]], cells: Literal["json", "text"]) -> Header:
    """The columns of some rows: every key seen, with the keys of nested objects as `outer.inner`.

    The first of a list of plain values is `outer.0`.
    """
    seen: dict[tuple[str, str | int | None], CellType | None] = {}
    shapes: set[tuple[object, ...]] = set()
    for row in rows:
        shape = (*row, *map(type, row.values()))
        if shape in shapes:  # most rows are like the one before
            continue
        nested = [(key, value) for key, value in row.items() if isinstance(value, dict | list)]
        if not nested:
            shapes.add(shape)
        for key, value in row.items():
            seen[key, None] = _wider(seen.get((key, None)), _holds(value))
        for key, value in nested:
            if isinstance(value, dict):
                for inner, value_inside in value.items():
                    seen[key, inner] = _wider(seen.get((key, inner)), _holds(value_inside))
            elif value and _holds(value[0]) != "nested":
                seen[key, 0] = _wider(seen.get((key, 0)), _holds(value[0]))
    columns: dict[str, RawColumn] = {}
    for (key, inside), holds in sorted(seen.items(), key=lambda item: item[0][1] is not None):
        name = key if inside is None else f"{key}.{inside}"
        columns.setdefault(name, RawColumn(name, holds or "text", top=key, inner=inside))
    return Header(columns, cells)


def typed_header(described: Iterable[tuple[str, str]], first_rows: Mapping[str, Any]) -> Header:
    """The columns of a typed source, from its declared types; `first_rows` shows what is inside its nested columns."""
    described = list(described)
    columns = {name: RawColumn(name, sql_holds(sql), sql_type=sql, top=name) for name, sql in described}
    for name, sql in described:
        if sql.endswith("[]") and (holds := sql_holds(sql[:-2])) != "nested":
            columns.setdefault(f"{name}.0", RawColumn(f"{name}.0", holds, "JSON", name, 0))
    for name, value in first_rows.items():
        if isinstance(value, dict):
            for inner, value_inside in value.items():
                key = f"{name}.{inner}"
                columns.setdefault(key, RawColumn(key, _holds(value_inside) or "text", "JSON", name, inner))
    return Header(columns, "typed")


def merged_header(headers: Iterable[Header]) -> Header:
    """The columns of several files of one kind: every column of any, holding what it holds in all."""
    first, *others = headers
    columns = dict(first.columns)
    for header in others:
        for name, column in header.columns.items():
            known = columns.get(name, column)
            holds = _wider(known.holds, column.holds) or "text"
            columns[name] = msgspec.structs.replace(column, holds=holds)
    return Header(columns, first.cells, first.places)


def _holds(value: object) -> CellType | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "nested"


def _wider(one: CellType | None, other: CellType | None) -> CellType | None:
    if one is None or other is None or one == other:
        return one or other
    return "nested" if "nested" in (one, other) else "text"


def text_holds(values: Iterable[str]) -> CellType:
    """What the cells of a CSV column hold: numbers, if every one that is not blank reads as one."""
    given = [value for value in values if value.strip()]
    try:
        return "number" if [float(value) for value in given] else "text"
    except ValueError:
        return "text"


def sql_holds(sql_type: str) -> CellType:
    """What a column of a declared type holds, by the names that DuckDB and Spark have for types."""
    kind = re.split("[(<]", sql_type)[0].strip().upper()
    nested = ("STRUCT", "MAP", "LIST", "UNION", "JSON", "BLOB", "ARRAY", "BINARY", "VARIANT")
    if sql_type.endswith("]") or kind in nested:
        return "nested"
    if kind == "BOOLEAN":
        return "flag"
    if kind.endswith("INT") or kind in ("INTEGER", "UINTEGER", "FLOAT", "DOUBLE", "DECIMAL", "REAL"):
        return "number"
    return "text"


def _json_sample(part: BattleFile) -> list[dict[str, Any]]:
    if part.kind is FileKind.JSON_ARRAY:
        with part.open() as file:
            try:
                rows = msgspec.json.decode(file.read().removeprefix(UTF_8_MARK))
            except UnicodeDecodeError:
                raise _not_utf_8(part) from None
            except msgspec.DecodeError as error:
                raise BattleError(f"{part.name} is not a JSON array: {error}. Repair it or write it again.") from None
        sample = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    else:
        lines = _sample_lines(part)
        sample = [row for line in lines if (row := json_object(line)) is not None]
        if not sample and not is_text(b"".join(lines).decode(errors="surrogateescape")):
            raise _not_utf_8(part)
    if not sample:
        raise BattleError(f"{part.name}: none of the lines seen is a JSON object. One battle per line is expected.")
    return sample


def _sample_lines(part: BattleFile) -> list[bytes]:
    """Lines from the start of a file and, unless it is zipped, from its middle and its end."""
    with part.open() as file:
        lines = file.readlines(SAMPLE_BYTES)
        size = 0 if part.zipped else part.path.stat().st_size
        if file.tell() < size:
            for place in (size // 2, max(file.tell(), size - SAMPLE_BYTES)):
                file.seek(place)
                file.readline()
                lines += file.read(SAMPLE_BYTES).split(b"\n")[:-1]
    if lines:
        lines[0] = lines[0].removeprefix(UTF_8_MARK)
    return lines


def json_object(line: bytes | str) -> dict[str, Any] | None:
    """The JSON object that a line holds; None for anything else."""
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return row if isinstance(row, dict) else None


def _csv_sample(part: BattleFile) -> tuple[list[str], list[list[str]]]:
    with part.open() as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        reader = csv.reader(text, delimiter=delimiter(part.kind))
        try:
            names = next((row for row in reader if row), None)
            rows = list(islice(reader, SAMPLE_ROWS))
        except csv.Error as error:
            raise BattleError(f"{part.name} cannot be read as {part.kind.value.upper()}: {error}.") from None
    if not names:
        raise BattleError(f"{part.name} is empty. Remove it, or check what wrote it.")
    if not is_text("".join(names)):
        raise _not_utf_8(part)
    if not "".join(names).strip():
        raise BattleError(f"{part.name}: no column of its first line has a heading. Name the columns there.")
    twice = sorted({name for name in names if name.strip() and names.count(name) > 1})
    if twice:
        raise BattleError(f"{part.name}: the header has {', '.join(map(repr, twice))} more than once. Rename one.")
    return names, rows


def _not_utf_8(part: BattleFile) -> BattleError:
    return BattleError(f"{part.name} is not UTF-8 text. {to_utf_8('WINDOWS-1252', part.name)} (if it is Latin-1).")


def is_text(cell: str) -> bool:
    """False where a byte that is not UTF-8 was carried through as a lone surrogate."""
    try:
        cell.encode()
    except UnicodeEncodeError:
        return False
    return True


def delimiter(kind: FileKind) -> str:
    """What separates the cells of a line."""
    return {FileKind.TSV: "\t", FileKind.SEMICOLONS: ";"}.get(kind, ",")
