"""What columns a source of battles has, seen cheaply: `Header`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

import msgspec

from tiltyard.battles.inputs import DAMAGED, UTF_8_MARK, FileKind, Part, damage, to_utf_8
from tiltyard.errors import BattleError

SAMPLE_BYTES = 1 << 17
SAMPLE_ROWS = 2000
SEEN_ROWS = 200
"""Of so many rows the values are kept."""

CellType = Literal["number", "flag", "text", "nested"]


@dataclass(frozen=True, slots=True)
class RawColumn:
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


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a source. `cells` says how its values are written: as JSON, as CSV text, or as typed values.

    `sample` holds the plain values of a few rows, from which columns under other names are guessed.
    """

    columns: Mapping[str, RawColumn]
    cells: Literal["json", "text", "typed"]
    sample: tuple[Mapping[str, object], ...] = ()

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


def file_header(part: Part) -> Header:
    """The columns of a text file, from its first lines (and some further in, where that is cheap).

    A file is looked at once, however often it is asked about, until it changes.
    """
    seen = part.path.stat()
    return _file_header(part, (seen.st_size, seen.st_mtime_ns, seen.st_ino))


@lru_cache(maxsize=64)
def _file_header(part: Part, version: tuple[int, int, int]) -> Header:  # noqa: ARG001 - a changed file is another one
    if part.kind is FileKind.ZIP:
        raise BattleError(f"{part.name} is a zip archive. Unpack it, or name its format if it is a log (format=...).")
    try:
        if part.kind.is_json:
            return header_of_rows(_json_sample(part), "json")
        names, rows = _csv_sample(part)
    except DAMAGED as error:
        raise damage(part.name, error) from None
    columns = {
        name: RawColumn(name, _text_holds([row[at] for row in rows if at < len(row)]), top=name)
        for at, name in enumerate(names)
    }
    return Header(columns, "text", tuple(dict(zip(names, row, strict=False)) for row in rows[:SEEN_ROWS]))


def header_of_rows(rows: Iterable[Mapping[str, Any]], cells: Literal["json", "text"]) -> Header:
    """The columns of some rows: every key seen, with the keys of nested objects as `outer.inner`.

    The first of a list of plain values is `outer.0`.
    """
    seen: dict[tuple[str, str | int | None], CellType | None] = {}
    sample: list[Mapping[str, object]] = []
    for row in rows:
        if len(sample) < SEEN_ROWS:
            sample.append({key: value for key, value in row.items() if isinstance(value, str | int | float)})
        for key, value in row.items():
            seen[key, None] = _wider(seen.get((key, None)), _holds(value))
            if isinstance(value, dict):
                for inner, value_inside in value.items():
                    seen[key, inner] = _wider(seen.get((key, inner)), _holds(value_inside))
            elif isinstance(value, list) and value and _holds(value[0]) != "nested":
                seen[key, 0] = _wider(seen.get((key, 0)), _holds(value[0]))
    columns: dict[str, RawColumn] = {}
    for (key, inside), holds in sorted(seen.items(), key=lambda item: item[0][1] is not None):
        name = key if inside is None else f"{key}.{inside}"
        columns.setdefault(name, RawColumn(name, holds or "text", top=key, inner=inside))
    return Header(columns, cells, tuple(sample))


def typed_header(described: Iterable[tuple[str, str]], first_rows: Mapping[str, Any]) -> Header:
    """The columns of a typed source, from its declared types; `first_rows` shows what is inside its nested columns."""
    described = list(described)
    columns = {name: RawColumn(name, _sql_holds(sql), sql_type=sql, top=name) for name, sql in described}
    for name, sql in described:
        if sql.endswith("[]") and (holds := _sql_holds(sql[:-2])) != "nested":
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
            columns[name] = replace(column, holds=holds)
    return Header(columns, first.cells, first.sample)


def _holds(value: object) -> CellType | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "nested"


def _wider(one: CellType | None, other: CellType | None) -> CellType | None:
    """What a column holds that was seen to hold both."""
    if one is None or other is None or one == other:
        return one or other
    return "nested" if "nested" in (one, other) else "text"


def _text_holds(values: Iterable[str]) -> CellType:
    given = [value for value in values if value.strip()]
    return "number" if given and all(is_number(value) for value in given) else "text"


def is_number(text: str) -> bool:
    """True when a CSV cell reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _sql_holds(sql_type: str) -> CellType:
    kind = sql_type.split("(")[0].strip().upper()
    if sql_type.endswith("]") or kind in ("STRUCT", "MAP", "LIST", "UNION", "JSON", "BLOB", "ARRAY"):
        return "nested"
    if kind == "BOOLEAN":
        return "flag"
    if kind.endswith("INT") or kind in ("INTEGER", "UINTEGER", "FLOAT", "DOUBLE", "DECIMAL", "REAL"):
        return "number"
    return "text"


def _json_sample(part: Part) -> list[dict[str, Any]]:
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
        sample = [row for line in lines if (row := _object(line)) is not None]
        if not sample and not is_text(b"".join(lines).decode(errors="surrogateescape")):
            raise _not_utf_8(part)
    if not sample:
        raise BattleError(f"{part.name}: none of the lines seen is a JSON object. One battle per line is expected.")
    return sample


def _sample_lines(part: Part) -> list[bytes]:
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


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return row if isinstance(row, dict) else None


def _csv_sample(part: Part) -> tuple[list[str], list[list[str]]]:
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
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BattleError(f"{part.name}: the header has {', '.join(map(repr, twice))} more than once. Rename one.")
    return names, rows


def _not_utf_8(part: Part) -> BattleError:
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
