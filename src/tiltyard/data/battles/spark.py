"""Counting battles on Spark: for data larger than one machine."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.data.battles.careful import RowProblem, explain
from tiltyard.data.battles.fast import spark_refusal, where_error
from tiltyard.data.battles.formats import LOG_FORMATS
from tiltyard.data.battles.frames import is_spark_frame
from tiltyard.data.battles.inputs import (
    KNOWN_SUFFIXES,
    SAMPLE_ROWS,
    FileKind,
    Header,
    PathLike,
    RawColumn,
    delimiter,
    header_of_rows,
    json_object,
    sql_holds,
    suffix_kind,
    text_holds,
)
from tiltyard.data.battles.layout import (
    BLANKS,
    STRICT_NUMBERS,
    Field,
    FieldKind,
    Layout,
    ReadBattlesOptions,
    choose_format,
    make_layout,
)
from tiltyard.data.battles.reading import Opened, Peek
from tiltyard.data.battles.settle import (
    LEAST_WEIGHT,
    MOST_WEIGHT,
    LabelColumn,
    RawBatch,
    Reason,
    Settled,
    validate_rows,
)
from tiltyard.data.battles.table import MISSING, BattleTable
from tiltyard.errors import BattleError, MissingExtra, NoBattles, OptionError, OptionValue, TiltyardError
from tiltyard.options import ReadingOptions
from tiltyard.types import Bools, Floats

GROUP = "number of the group"
"""The column that says which group of equal rows, by its number at the engine, a row of the table represents."""


class GroupScores(msgspec.Struct, frozen=True, eq=False):
    """What one battle of a group adds to the score of a parameter: three arrays side by side.

    `leverage` is what one battle adds to its cluster's leverage g, by the number of the group. The scores of a cluster
    are divided by 1 − g; clusters with a g above `most_leverage` are not summed but handed over.
    """

    group: NDArray[np.int64]
    parameter: NDArray[np.int64]
    score: Floats
    n_parameters: int
    leverage: Mapping[int, float]
    most_leverage: float


class ClusterSums(msgspec.Struct, frozen=True, eq=False):
    """Over the small clusters: the sum of s sᵀ (`squares`), and how many there are.

    `sizes_of` is, for each parameter, the sum over clusters of the squared number of its battles there; `sizes` is the
    same for all battles, and `largest` the number of battles in the largest cluster. `large` has a row for every group
    of each other cluster: the cluster's number, the group's, and how many battles.
    """

    squares: Floats
    clusters: float
    sizes_of: Floats
    sizes: float
    largest: float
    large: Floats


def groups(table: BattleTable) -> NDArray[np.int64]:
    """The group of every row."""
    return table.number_column(GROUP).astype(np.int64)


ROW = "v"
"""The column that holds a line of JSON as a VARIANT."""
FAULT = "fault"
"""The column that says why a line cannot be read at all (0: it can)."""
BROKEN = "broken cells"
UNTOUCHED = "raw of "
"""Prefix of a column's own value where its plain name is typed for a `where` expression."""
NAN, INFINITY = "double('NaN')", "double('Infinity')"
LISTED = 10_000
"""How many files are looked at to tell what kind they are."""


class SparkSource(Opened):
    """Paths that Spark reads, or a Spark DataFrame: battles are counted there, and summed by prompt."""

    engine = "spark"

    @cached_property
    def paths(self) -> list[PathLike]:
        """None: the files need not be on this machine."""
        return []

    @cached_property
    def opened_there(self) -> SparkRows:
        if is_spark_frame(self.data):
            frame = self.data.selectExpr("*", f"0 AS {FAULT}")
            return SparkRows(frame, typed_columns(self.data.schema), "the frame")
        if not self.items or not all(isinstance(path, str | Path) for path in self.items):
            what = f"the spark engine reads paths or a Spark DataFrame, not a {type(self.data).__name__}."
            raise BattleError(f"{what} Use the duckdb engine.")
        session, paths = _session(), list(map(str, self.items))
        if "-" in paths:
            raise OptionError("the spark engine cannot read standard input. Name files, or use the duckdb engine.")
        shown = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
        kind = _kind(session, paths, shown)
        try:
            if kind is FileKind.PARQUET:
                frame = session.read.option("mergeSchema", "true").parquet(*paths)
                return SparkRows(frame.selectExpr("*", f"0 AS {FAULT}"), typed_columns(frame.schema), shown)
            return _json_rows(session, paths, shown) if kind.is_json else _csv_rows(session, paths, kind, shown)
        except (BattleError, OptionError):
            raise
        except Exception as error:
            raise BattleError(f"Spark cannot read {shown}: {first_line(error)}.") from None

    def need_every_battle(self, what: str) -> None:
        raise OptionError(
            f"{what} needs every battle, and the spark engine only counts them. Do without it, or use ",
            OptionValue("engine", "duckdb"),
            ".",
        )

    def peek(self, options: ReadingOptions) -> Peek:
        """The format and columns, without those of times, which the engine does not read."""
        if options.format in LOG_FORMATS or options.tie_band is not None:
            here = OptionValue("engine", "duckdb")
            raise OptionError("the spark engine reads rows of battles, not logs with scores. Use ", here, ".")
        rows = self.opened_there
        seen = Peek.of([(choose_format(rows.header, options, rows.name), rows.header)])
        return msgspec.structs.replace(seen, columns=tuple(name for name in seen.columns if name != "timestamp"))

    def read(self, options: ReadBattlesOptions) -> BattleTable:
        """The battles as counts, one row per group of equal rows; the first column of `hashed` is that of clusters."""
        kept = [name for name in options.columns or () if name not in options.hashed]
        options = replace(options, columns=kept, counted=True, hashed=tuple(options.hashed)[:1])
        rows = self.opened_there
        layout = make_layout(rows.header, options, rows.name, choose_format(rows.header, options, rows.name))
        keys = key_columns(layout)
        battles = _staged(rows.frame, layout, keys)
        sql = COUNTS.format(keys=", ".join(key.name for key in keys))
        groups = _collect(layout, lambda: battles.sparkSession.sql(sql, battles=battles).limit(MOST_GROUPS + 1))
        if len(groups) > MOST_GROUPS:
            raise OptionError(
                f"{rows.name} holds more than {MOST_GROUPS:,} different outcomes of pairs: too many soft scores or "
                "models to count. Use the duckdb engine, or leave some out with ",
                OptionValue("where"),
            )
        groups.sort(key=lambda row: [(value is not None, str(value)) for value in row[: len(keys)]])
        settled = _settled(groups, layout, keys)
        skipped = settled.skipped
        if skipped and options.on_bad == "error":
            at = int(np.flatnonzero(settled.reasons)[0])
            reason, n = Reason(int(settled.reasons[at])), int(groups[at][len(keys)])
            where = f"{rows.name} ({n:,} such {'row' if n == 1 else 'rows'})"  # Spark knows no line numbers
            raise RowProblem(reason, where, _detail(reason, groups[at], layout, keys)).error()
        if not len(settled.table):
            why = ", ".join(f"{count} × {reason}" for reason, count in skipped.items()) or "no row is left"
            raise NoBattles(
                f"{rows.name}: no row is a battle ({why}). Check ", OptionValue("format"), " and ", OptionValue("where")
            )
        number = np.flatnonzero(settled.reasons == 0).astype(np.float64)
        table = replace(settled.table, columns={**settled.table.columns, GROUP: number}, skipped=skipped)
        for column in options.hashed:
            clusters = RemoteClusters(column, layout, battles, keys, [tuple(row[: len(keys)]) for row in groups])
            table = replace(table, clusters=clusters)
        return table


class SparkRows(msgspec.Struct, frozen=True, eq=False):
    """Rows at Spark: `frame` has the source's columns (or its lines, as VARIANT) and why a line cannot be read."""

    frame: Any
    header: Header
    name: str


def first_line(error: Exception) -> str:
    """What Spark says, without its stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return (text if len(text) <= 300 else text[:297] + "...").rstrip(".")


def _kind(session: Any, paths: list[str], shown: str) -> FileKind:
    """The one kind of all files, by their names; Spark lists them, so that any file system will do."""
    listing = session.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        files = [row[0] for row in listing.load(paths).select("path").limit(LISTED).collect()]
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            raise BattleError(
                f"Spark finds no file at {shown}. Check the path; a folder or a glob would do too."
            ) from None
        raise BattleError(f"Spark cannot list {shown}: {first_line(error)}.") from None
    kinds = {kind for path in files if (kind := suffix_kind(path)[0]) is not None}
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
    rows = [row for line in sample if (row := json_object(line)) is not None]
    if not rows:
        raise BattleError(f"{shown}: none of the lines seen is a JSON object. One battle per line is expected.")
    fault = (
        f"CASE WHEN NOT is_valid_utf8(value) THEN {int(Reason.NOT_UTF8)} "
        f"WHEN {ROW} IS NULL OR NOT startswith(ltrim(value), '{{') THEN {int(Reason.BROKEN_LINE)} ELSE 0 END AS {FAULT}"
    )
    frame = lines.selectExpr("value", f"try_parse_json(value) AS {ROW}").selectExpr(ROW, fault)
    return SparkRows(frame, header_of_rows(rows, "json"), shown)


def _csv_rows(session: Any, paths: list[str], kind: FileKind, shown: str) -> SparkRows:
    options = {"header": "true", "sep": delimiter(kind), "quote": '"', "escape": '"', "enforceSchema": "false"}
    names = session.read.options(**options).csv(paths).columns
    schema = ", ".join(f"{quoted(column)} string" for column in (*names, BROKEN))
    frame = session.read.options(**options, columnNameOfCorruptRecord=BROKEN).schema(schema).csv(paths)
    sample = [row.asDict() for row in islice(frame.limit(SAMPLE_ROWS).toLocalIterator(), SAMPLE_ROWS)]
    columns = {name: RawColumn(name, text_holds(row[name] or "" for row in sample), top=name) for name in names}
    fault = f"CASE WHEN {quoted(BROKEN)} IS NOT NULL THEN {int(Reason.WRONG_LENGTH)} ELSE 0 END AS {FAULT}"
    return SparkRows(frame.selectExpr(*map(quoted, names), fault), Header(columns, "text"), shown)


def quoted(text: str) -> str:
    """A column name, quoted."""
    return "`" + text.replace("`", "``") + "`"


def typed_columns(schema: Any) -> Header:
    """The header of a source with declared types; what is inside a struct, and the first of a list, by its path."""
    columns: dict[str, RawColumn] = {}
    inside: list[RawColumn] = []
    for field in schema.fields:
        kind = field.dataType.simpleString()
        columns[field.name] = RawColumn(field.name, sql_holds(kind), kind, field.name)
        parts: list[tuple[str | int, str]] = [
            (part.name, part.dataType.simpleString()) for part in getattr(field.dataType, "fields", ())
        ]
        element = getattr(field.dataType, "elementType", None)
        if element is not None and sql_holds(element.simpleString()) != "nested":
            parts.append((0, element.simpleString()))
        for key, kind in parts:
            inside.append(RawColumn(f"{field.name}.{key}", sql_holds(kind), kind, field.name, key))
    for column in inside:
        columns.setdefault(column.name, column)
    return Header(columns, "typed")


def where_columns(header: Header) -> Iterable[str]:
    """Every column of a text source, typed as a `where` expression expects it, beside what the fields are read from."""
    yield FAULT
    if header.cells == "json":
        yield ROW
    for column in header.top_names:
        raw = header.columns[column]
        as_type = {"number": "double", "flag": "boolean"}.get(raw.holds)
        if header.cells == "json":
            value = f"variant_get({ROW}, {_path(raw)}, '{as_type}')" if as_type else _plain_text(raw)
        else:
            value = f"cast(nullif(trim({quoted(column)}), '') AS {as_type})" if as_type else quoted(column)
            yield f"{quoted(column)} AS {quoted(UNTOUCHED + column)}"
        yield f"{value} AS {quoted(column)}"


def field_value(field: Field, layout: Layout) -> str:
    """The expression that reads one field from the rows."""
    cells = layout.header.cells
    raw = f"to_json(variant_get({ROW}, {_path(field.raw)}))" if cells == "json" else _reference(field.raw, layout)
    if field.kind is FieldKind.NUMBER:
        return _number(raw, cells, field)
    if field.hashed:
        text = _plain_text(field.raw) if cells == "json" else f"cast({raw} AS string)"
        text = f"btrim({text}, {_literal(BLANKS)})"
        return f"nullif(regexp_replace({text}, '^(-?[0-9]+)[.]0$', '$1'), '')"
    if holds_json(field, layout) and cells == "typed":
        return f"to_json(named_struct('v', {raw}))"
    return raw


def holds_json(field: Field, layout: Layout) -> bool:
    """True when a label field leaves Spark as JSON: of a typed source, as the value `v` of an object."""
    return layout.header.cells == "json" or (layout.header.cells == "typed" and field.raw.sql_type != "string")


def _path(raw: RawColumn) -> str:
    inner = "" if raw.inner is None else f"[{json.dumps(raw.inner, ensure_ascii=False)}]"
    return _literal(f"$[{json.dumps(raw.top, ensure_ascii=False)}]{inner}")


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _reference(raw: RawColumn, layout: Layout) -> str:
    if layout.header.cells == "text":
        return quoted(raw.top if layout.where is None else UNTOUCHED + raw.top)
    if raw.inner is None:
        return quoted(raw.top)
    is_list = isinstance(raw.inner, int)
    return f"get({quoted(raw.top)}, {raw.inner})" if is_list else f"{quoted(raw.top)}.{quoted(str(raw.inner))}"


def _plain_text(raw: RawColumn) -> str:
    """The text of a JSON value: of a string its letters, of anything else its JSON."""
    path = _path(raw)
    return f"coalesce(try_variant_get({ROW}, {path}, 'string'), nullif(to_json(variant_get({ROW}, {path})), 'null'))"


def _number(raw: str, cells: str, field: Field) -> str:
    if cells == "typed":
        if field.raw.holds != "number":
            return f"CASE WHEN {raw} IS NULL THEN {NAN} ELSE {INFINITY} END"
        missing, value, odd = f"{raw} IS NULL", f"cast({raw} AS double)", ""
    else:
        missing = f"{raw} IS NULL OR {raw} = " + ("'null'" if cells == "json" else "''")
        value = f"try_cast({raw} AS double)"
        odd = f" OR {raw} RLIKE '[0-9.][dDfF] *$'"  # Java's 1d is not a number here
    strict = f" OR isnan({value})" if field.name in STRICT_NUMBERS else ""
    return (
        f"CASE WHEN {missing} THEN {NAN} WHEN {value} IS NULL{odd}{strict} OR abs({value}) = {INFINITY} "
        f"THEN {INFINITY} ELSE {value} END"
    )


MOST_GROUPS = 2_000_000
"""At most this many groups of equal rows leave Spark: beyond, the outcomes are hardly counts any more."""
MOST_PARAMETERS = 2_000
"""At most this many models have intervals by prompt: the square of their number leaves Spark."""
ROWS_IN_A_STATEMENT = 20_000
"""So many rows of scores travel in one statement."""
SMALL_TABLE = 500_000
"""Up to this many rows a table is sent to every worker whole."""

COUNTS = """
SELECT {keys}, count(*) AS rows, sum(weight) AS total
FROM {{battles}} GROUP BY {keys}
"""

SQUARES = """
WITH sums AS (
  SELECT {hint} battles.cluster, scores.parameter, sum(battles.weight * scores.score) AS pull,
    sum(battles.weight) AS size
  FROM {{battles}} AS battles JOIN {{scores}} AS scores ON {same_group}
  WHERE battles.cluster IS NOT NULL
  GROUP BY battles.cluster, scores.parameter
), pulls AS (
  SELECT sums.cluster, sums.parameter, sums.size,
    if(sums.parameter = {every}, 0.0, sums.pull / (1.0 - whole.pull)) AS pull
  FROM sums JOIN sums AS whole ON sums.cluster = whole.cluster AND whole.parameter = {every}
  WHERE whole.pull <= {most}
)
SELECT one.parameter AS i, other.parameter AS j, sum(one.pull * other.pull) AS square, count(*) AS clusters,
  sum(one.size * other.size) AS sizes, max(one.size) AS largest
FROM pulls AS one JOIN pulls AS other ON one.cluster = other.cluster AND one.parameter <= other.parameter
GROUP BY one.parameter, other.parameter
"""

LARGE = """
WITH known AS (
  SELECT {hint} battles.cluster, battles.weight, scores.score, scores.number
  FROM {{battles}} AS battles JOIN {{scores}} AS scores ON {same_group} AND scores.parameter = {every}
  WHERE battles.cluster IS NOT NULL
), large AS (
  SELECT cluster FROM known GROUP BY cluster HAVING sum(weight * score) > {most}
)
SELECT known.cluster, known.number, sum(known.weight) AS battles
FROM known JOIN large ON known.cluster = large.cluster GROUP BY known.cluster, known.number
"""

EVERY = -1
"""A parameter that every battle has: it counts the clusters, and its score is what a battle adds to their leverage."""


def _session() -> Any:
    """The session that is there, or a new one: of the master that Spark's own settings name, else of this machine."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the version of pandas, which is not used here
            sql = import_module("pyspark.sql")
    except ImportError:
        raise MissingExtra("the spark engine", "spark") from None
    session = sql.SparkSession.getActiveSession()
    if session is not None:
        return session
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None and "SPARK_REMOTE" not in os.environ:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on PATH"
        raise TiltyardError(f"the spark engine needs Java 17 or later: {where}. Install a JDK, or set JAVA_HOME.")
    builder = sql.SparkSession.builder.appName("tiltyard").config("spark.log.level", "ERROR")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return builder.getOrCreate()
    except Exception as error:  # a JVM that does not start, a master that does not answer: all are Spark's own words
        raise TiltyardError(f"Spark does not start: {first_line(error)}. Check Java and Spark's settings.") from None


def _staged(frame: Any, layout: Layout, keys: list[KeyColumn]) -> Any:
    """One column per key, the weight, and the cluster of every row that `where` keeps."""
    if layout.where is not None:
        reason = spark_refusal(layout.where)
        if reason is not None:
            raise where_error(layout, f"{reason}. Give one condition, such as category = 'law'")
        if layout.header.cells != "typed":
            frame = frame.selectExpr(*where_columns(layout.header))
        try:
            frame = frame.where(f"{FAULT} <> 0 OR ({layout.where}\n)")
        except Exception as error:
            raise where_error(layout, first_line(error)) from None
    weight = layout.field("weight")
    value = "double(1)" if weight is None else field_value(weight, layout)
    cluster = next((field_value(field, layout) for field in layout.fields if field.hashed), "cast(NULL AS string)")
    frame = frame.selectExpr(
        FAULT,
        f"{value} AS given",
        f"{cluster} AS cluster",
        *(f"{field_value(key.field, layout)} AS {key.name}" for key in keys if key.field is not None),
    )
    return frame.selectExpr(
        *(f"{key.sql or key.name} AS {key.name}" for key in keys),
        "CASE WHEN isnan(given) THEN 1 ELSE given END AS weight",
        "cluster",
    )


def _collect(layout: Layout, query: Any) -> list[Any]:
    try:
        return list(query().collect())
    except Exception as error:
        if layout.where is not None and "CAST" in str(error):
            raise where_error(layout, first_line(error)) from None
        raise BattleError(f"Spark cannot read {layout.name}: {first_line(error)}.") from None


WEIGHT_SIGN = (
    f"CASE WHEN isnan(given) THEN 1 WHEN given = {INFINITY} THEN given WHEN given = 0 THEN 0 "
    f"WHEN given < {LEAST_WEIGHT} OR given > {MOST_WEIGHT} THEN -1 ELSE 1 END"
)
"""What is checked of one row's weight: that it is a number, in the range of weights, and not 0. They are summed."""


class KeyColumn(msgspec.Struct, frozen=True):
    """One of the columns that Spark groups by: a field of the layout, or (`sql`) something made from the row."""

    name: str
    sql_type: str
    field: Field | None = None
    sql: str | None = None


def key_columns(layout: Layout) -> list[KeyColumn]:
    """What rows must have in common to be counted together."""
    keys = [
        KeyColumn(FAULT, "int"),
        KeyColumn("weight_sign", "double", sql=f"double({WEIGHT_SIGN})"),
        KeyColumn("has_cluster", "boolean", sql="cluster IS NOT NULL"),
    ]
    for at, field in enumerate(layout.fields):
        if field.hashed or field.name == "weight":
            continue
        if field.kind is FieldKind.TIME:
            raise OptionError(f"the spark engine does not read times: it cannot split by {field.name!r}.")
        is_label = field.kind.is_label
        sql = None if is_label else f"nullif(k{at}, {NAN})"
        keys.append(KeyColumn(f"k{at}", "string" if is_label else "double", field, sql))
    return keys


def _settled(groups: Sequence[Sequence[Any]], layout: Layout, keys: list[KeyColumn]) -> Settled:
    """The groups after all rules; each is its keys, how many rows of the source, and their weight.

    Spark's CSV reader puts U+FFFD where bytes are not text.
    """
    columns = {key.name: [row[at] for row in groups] for at, key in enumerate(keys)}
    fault = np.array(columns[FAULT], dtype=np.int8)
    if layout.header.cells == "text":
        odd = [any("\ufffd" in value for value in row if isinstance(value, str)) for row in groups]
        fault[(fault == 0) & np.array(odd, dtype=bool)] = Reason.NOT_UTF8
    labels, numbers = {}, {"weight": np.array(columns["weight_sign"])}
    for key in keys:
        values = columns[key.name]
        if key.field is not None and key.field.kind.is_label:
            distinct = dict.fromkeys(value for value in values if value is not None)
            place = {value: code for code, value in enumerate(distinct)}
            codes = np.array([place.get(value, MISSING) for value in values], dtype=np.int32)
            is_json = holds_json(key.field, layout)
            labels[key.field.name] = LabelColumn(codes, [_label(value, is_json=is_json) for value in place])
        elif key.field is not None:
            numbers[key.field.name] = np.array(values, dtype=np.float64)
    for side in ("model_a", "model_b"):
        labels[side].codes[fault > 0] = MISSING
    fields = tuple(field for field in layout.fields if not field.hashed)
    rows, total = (np.array([row[len(keys) + at] for row in groups], dtype=np.float64) for at in (0, 1))
    batch = RawBatch(len(groups), labels, numbers, count=rows, total=total)
    settled = validate_rows(batch, msgspec.structs.replace(layout, fields=fields))
    return msgspec.structs.replace(settled, reasons=np.where(fault > 0, fault, settled.reasons).astype(np.int8))


def _detail(reason: Reason, group: Sequence[Any], layout: Layout, keys: list[KeyColumn]) -> str:
    if reason >= Reason.BROKEN_LINE:
        return "Spark cannot tell which; the duckdb engine names file and line"
    if reason is Reason.BAD_WEIGHT:
        return f"weight is negative, below {LEAST_WEIGHT:.6f} or above {MOST_WEIGHT:,.0f}"
    row: dict[str, Any] = {}
    for key, value in zip(keys, group, strict=False):
        if key.name == "weight_sign" and np.isinf(value):
            return "weight is not a finite number"
        if key.field is None:
            continue
        raw = key.field.raw
        read = _label(value, is_json=holds_json(key.field, layout)) if key.field.kind.is_label else value
        if isinstance(read, float) and np.isinf(read):
            return f"{raw.name} is not a finite number"
        if raw.inner is None:
            row[raw.top] = read
        elif isinstance(raw.inner, int):
            row[raw.top] = [read]
        else:
            row.setdefault(raw.top, {})[raw.inner] = read
    return explain(reason, row, layout)


def _label(value: str | None, *, is_json: bool) -> Any:
    """The value that a label stands for; JSON of a typed column is the value `v` of an object."""
    if value is None or not is_json:
        return value
    decoded = msgspec.json.decode(value)
    return decoded.get("v") if isinstance(decoded, dict) else decoded


class RemoteClusters(msgspec.Struct, frozen=True, eq=False):
    """The clusters of battles that Spark holds; `column` is the one whose equal values make battles dependent.

    `groups` is what Spark grouped by (`keys`), group by group.
    """

    column: str
    layout: Layout
    battles: Any
    keys: list[KeyColumn]
    groups: list[tuple[Any, ...]]

    def shared(self, table: BattleTable) -> Bools:
        """Which rows of a counted table hold battles that have a cluster; the others are independent."""
        at = [key.name for key in self.keys].index("has_cluster")
        return np.array([row[at] for row in self.groups], dtype=np.bool_)[groups(table)]

    def sums(self, scores: GroupScores) -> ClusterSums:
        n = scores.n_parameters
        if n > MOST_PARAMETERS:
            raise OptionError(
                f"intervals by {self.column} of {n:,} models are too large to leave Spark: at most {MOST_PARAMETERS:,} "
                "may. Use ",
                OptionValue("cluster", "none"),
                ", ",
                OptionValue("ci", "none"),
                " or ",
                OptionValue("min_battles"),
            )
        table = self._score_table(scores)
        same_group = " AND ".join(f"battles.{key.name} <=> scores.{key.name}" for key in self.keys)
        hint = "/*+ BROADCAST(scores) */" if len(scores.group) <= SMALL_TABLE else ""
        words = {"same_group": same_group, "hint": hint, "every": EVERY, "most": scores.most_leverage}

        def collect(statement: str) -> list[Any]:
            sql, session = statement.format(**words), self.battles.sparkSession
            return _collect(self.layout, lambda: session.sql(sql, battles=self.battles, scores=table))

        squares, sizes, clusters, largest = np.zeros((n + 1, n + 1)), np.zeros(n + 1), 0.0, 0.0
        for i, j, square, count, size, most in collect(SQUARES):
            squares[i, j] = squares[j, i] = square
            if i == j:
                sizes[i] = size
            if i == j == EVERY:
                clusters, largest = float(count), float(most)
        place: dict[Any, int] = {}
        large = [(place.setdefault(name, len(place)), group, battles) for name, group, battles in collect(LARGE)]
        rows = np.array(large, dtype=np.float64).reshape(-1, 3)
        return ClusterSums(squares[:n, :n], clusters, sizes[:n], float(sizes[EVERY]), largest, rows)

    def _score_table(self, scores: GroupScores) -> Any:
        """The scores as a small table at Spark, with the keys of their groups.

        They travel as JSON inside the statement, because a table made of Python objects would need Python at every
        worker.
        """
        triples = list(zip(scores.group.tolist(), scores.parameter.tolist(), scores.score.tolist(), strict=True))
        triples += [(group, EVERY, scores.leverage[group]) for group in np.unique(scores.group).tolist()]
        names = [*(key.name for key in self.keys), "parameter", "score", "number"]
        types = ", ".join(f"{key.name}: {key.sql_type}" for key in self.keys)
        types += ", parameter: int, score: double, number: int"
        tables = []
        for start in range(0, len(triples), ROWS_IN_A_STATEMENT):
            part = triples[start : start + ROWS_IN_A_STATEMENT]
            values = [(*self.groups[group], parameter, score, group) for group, parameter, score in part]
            rows = [dict(zip(names, row, strict=True)) for row in values]
            sql = f"SELECT inline(from_json(:rows, 'array<struct<{types}>>'))"
            tables.append(self.battles.sparkSession.sql(sql, args={"rows": msgspec.json.encode(rows).decode()}))
        return reduce(lambda one, other: one.unionAll(other), tables)
