"""Rows that Spark reads: files of one kind wherever Spark finds them, or a DataFrame, with their header."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from tiltyard.battles.headers import SAMPLE_ROWS, Header, RawColumn, delimiter, header_of_rows, is_number
from tiltyard.battles.inputs import KNOWN_SUFFIXES, FileKind, suffix_kind
from tiltyard.battles.settle import Reason
from tiltyard.battles.spark_fields import FAULT, ROW, name, typed_columns
from tiltyard.errors import BattleError, OptionError

LISTED = 10_000
"""So many files are looked at to tell what kind they are."""
BROKEN = "broken cells"


@dataclass(frozen=True, slots=True, eq=False)
class SparkRows:
    """Rows at Spark: `frame` has the source's columns (or its lines, as VARIANT) and why a line cannot be read."""

    session: Any
    frame: Any
    header: Header
    name: str


def find_rows(session: Any, data: Any) -> SparkRows:
    """The rows of a DataFrame, or of the files that some paths stand for."""
    if not isinstance(data, list):
        return SparkRows(session, data.selectExpr("*", f"0 AS {FAULT}"), typed_columns(data.schema), "the frame")
    if "-" in data:
        raise OptionError("the spark engine cannot read standard input. Name files, or use the duckdb engine.")
    shown = data[0] if len(data) == 1 else f"{data[0]} and {len(data) - 1} more"
    kind = _kind(session, data, shown)
    try:
        if kind is FileKind.PARQUET:
            frame = session.read.option("mergeSchema", "true").parquet(*data)
            return SparkRows(session, frame.selectExpr("*", f"0 AS {FAULT}"), typed_columns(frame.schema), shown)
        return _json_rows(session, data, shown) if kind.is_json else _csv_rows(session, data, kind, shown)
    except (BattleError, OptionError):
        raise
    except Exception as error:
        raise BattleError(f"Spark cannot read {shown}: {first_line(error)}.") from None


def first_line(error: Exception) -> str:
    """What Spark says, without its stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return (text if len(text) <= 300 else text[:297] + "...").rstrip(".")


def _kind(session: Any, paths: list[str], shown: str) -> FileKind:
    """The one kind of all files, by their names; Spark lists them, so that any file system will do."""
    listing = session.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = [row[0] for row in listing.load(paths).select("path").limit(LISTED).collect()]
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            raise BattleError(
                f"Spark finds no file at {shown}. Check the path; a folder or a glob would do too."
            ) from None
        raise BattleError(f"Spark cannot list {shown}: {first_line(error)}.") from None
    kinds = {kind for path in found if (kind := suffix_kind(path)[0]) is not None}
    if len(kinds) != 1:
        seen = " and ".join(sorted(kind.value for kind in kinds)) or "no file"
        raise BattleError(f"{shown} holds {seen}: Spark reads files of one kind, ending in {KNOWN_SUFFIXES}.")
    return kinds.pop()


def _json_rows(session: Any, paths: list[str], shown: str) -> SparkRows:
    lines = session.read.text(paths).where(r"length(btrim(value, ' \t\r\n')) > 0")
    lines = lines.selectExpr("trim(LEADING '\ufeff' FROM value) AS value")
    sample = [row[0] for row in lines.limit(SAMPLE_ROWS).collect()]
    if sample and sample[0].lstrip().startswith("["):
        raise BattleError(
            f"{shown} is a JSON array, which cannot be read in parts. Convert it: tiltyard battles convert."
        )
    rows = [row for line in sample if isinstance(row := _decoded(line), dict)]
    if not rows:
        raise BattleError(f"{shown}: none of the lines seen is a JSON object. One battle per line is expected.")
    fault = (
        f"CASE WHEN NOT is_valid_utf8(value) THEN {int(Reason.NOT_UTF8)} "
        f"WHEN {ROW} IS NULL OR NOT startswith(ltrim(value), '{{') THEN {int(Reason.BROKEN_LINE)} ELSE 0 END AS {FAULT}"
    )
    frame = lines.selectExpr("value", f"try_parse_json(value) AS {ROW}").selectExpr(ROW, fault)
    return SparkRows(session, frame, header_of_rows(rows, "json"), shown)


def _decoded(line: str) -> object:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _csv_rows(session: Any, paths: list[str], kind: FileKind, shown: str) -> SparkRows:
    options = {"header": "true", "sep": delimiter(kind), "quote": '"', "escape": '"', "enforceSchema": "false"}
    names = session.read.options(**options).csv(paths).columns
    schema = ", ".join(f"{name(column)} string" for column in (*names, BROKEN))
    frame = session.read.options(**options, columnNameOfCorruptRecord=BROKEN).schema(schema).csv(paths)
    sample = [row.asDict() for row in islice(frame.limit(SAMPLE_ROWS).toLocalIterator(), SAMPLE_ROWS)]
    columns = {column: RawColumn(column, _text_holds(sample, column), top=column) for column in names}
    fault = f"CASE WHEN {name(BROKEN)} IS NOT NULL THEN {int(Reason.WRONG_LENGTH)} ELSE 0 END AS {FAULT}"
    return SparkRows(session, frame.selectExpr(*map(name, names), fault), Header(columns, "text"), shown)


def _text_holds(sample: list[dict[str, Any]], column: str) -> Any:
    given = [row[column] for row in sample if (row[column] or "").strip()]
    return "number" if given and all(is_number(value) for value in given) else "text"
