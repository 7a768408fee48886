"""Reading scores: `read_scores`, from files of any shape, frames, rows and logs of other tools.

DuckDB reads every source and makes one row of each model, metric and prompt; no Python object is made for an answer.
Rows in memory and logs go through a temporary file, so that there is one way to read.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from tiltyard.battles.battle import Battle
from tiltyard.battles.careful import file_lines
from tiltyard.battles.eval_logs import (
    LM_EVAL_SUMMARY,
    PAIR_KEYS,
    ScoredAnswer,
    ScoredRun,
    distinct_names,
    pair_scores,
)
from tiltyard.battles.fast import (
    LONG_LINE_BYTES,
    cell_sql,
    cells_of,
    check_condition,
    check_where,
    file_rows,
    filtered,
    identifier,
    literal,
    session,
)
from tiltyard.battles.formats import (
    FORMAT_NAMES,
    LIKELY,
    LOG_FORMATS,
    OTHER_NAMES,
    PROMPT_COLUMNS,
    Format,
    listed,
    recognise,
)
from tiltyard.battles.frames import ReusableFrame, is_frame, reusable
from tiltyard.battles.inputs import (
    FileKind,
    Header,
    Part,
    PathLike,
    RawColumn,
    file_header,
    find_parts,
    header_of_rows,
    json_object,
    suffix_kind,
)
from tiltyard.battles.layout import Layout
from tiltyard.battles.log_readers import log_reader, read_runs, tool_of
from tiltyard.battles.reading import described, frame_rows, parquet_header
from tiltyard.battles.table import MISSING, BattleTable, Codes
from tiltyard.errors import BattleError, OptionError, OptionValue, ScoreError
from tiltyard.options import Help, ReadingOptions, ScoreOptions, takes
from tiltyard.scores.table import ModelScores, ScoreTable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ID_COLUMNS = (
    *PROMPT_COLUMNS,
    "id",
    "sample_id",
    "example_id",
    "item_id",
    "task_id",
    "test_id",
    "doc_id",
    "idx",
    "input",
)
"""Columns that say which prompt an answer is to; the first one present counts."""
MODEL_COLUMNS = ("model", "model_name", "model_id", "system", "entrant", "entrant_id")
REPEAT_COLUMNS = ("epoch", "repeat", "repetition", "trial", "attempt", "run", "seed")
"""Columns that number repeats: never scores."""
METRIC_COLUMNS = ("metric", "metric_name", "scorer")
SCORE_COLUMNS = (
    *("score", "correct", "is_correct", "passed", "pass", "success", "accuracy", "acc", "exact_match", "value"),
    *("grade", "rating", "reward"),
)
"""Usual names of the column of scores; the first one present counts."""
TIME_COLUMNS = ("timestamp", "tstamp", "time", "date", "created_at", "index", "turn", "")
CATEGORY_COLUMNS = ("category", "subject", "task", "dimension", "language")

YES = ("true", "yes", "pass", "passed", "correct", "right", "c", "t", "y")
NO = ("false", "no", "fail", "failed", "incorrect", "wrong", "i", "f", "n")
NOTHING = ("", "nan", "null", "none", "n/a", "na", "-")
"""Words in a column of scores: true, false, and no score at all."""

BAD_SCORE, NO_PROMPT, NO_MODEL = "not a score", "no prompt", "no model"
SEVERAL_LISTED = 8
NOT_BATTLES = Format("scores", {}, None)
LOWER = "tiltyard: lower is better"
"""The column of rows of a log that says of which metrics less is better."""


@dataclass(frozen=True, kw_only=True)
class ReadScoresOptions(ReadingOptions, ScoreOptions):
    """Options of `read_scores`."""

    columns: Annotated[
        Sequence[str], Help("Further columns of prompts to keep: categories and clusters.", metavar="COLUMN")
    ] = ()


class _Source(msgspec.Struct, frozen=True, eq=False):
    """Rows of one shape, and what is read from them.

    `model` is what the source is called where no column says it; `item` is its place among what was given.
    """

    name: str
    model: str
    item: int
    header: Header
    part: Part | None = None
    frame: ReusableFrame | None = None

    def find(self, names: Iterable[str], mapped: str | None = None) -> RawColumn | None:
        """The first of these columns that it has; one that was mapped must be there."""
        if mapped is not None:
            if mapped not in self.header:
                raise OptionError(f"{self.name} has no column {mapped!r}. Its columns are {self.listed}.")
            return self.header.columns[mapped]
        return next((self.header.columns[name] for name in names if name in self.header), None)

    @property
    def listed(self) -> str:
        """Its columns, for a message."""
        return listed(self.header.top_names)


def holds_scores(data: Any, options: ReadScoresOptions) -> bool:
    """Whether data are scores: those with a winner are battles, others with a column of numbers or flags are scores.

    A tie band says that scores of a log are to be battles.
    """
    if isinstance(data, ScoreTable) or options.score or options.lower_is_better or options.bounds:
        return True
    if isinstance(data, BattleTable) or options.tie_band is not None:
        return False
    if isinstance(data, Mapping):
        return True
    if options.format != "auto" and options.format not in FORMAT_NAMES:
        reader = log_reader(options.format)
        return reader is not None and reader.runs is not None
    if options.format not in ("auto", *LOG_FORMATS):
        return False
    try:
        with ExitStack() as stack:
            return all(_is_scores(header, tool, name, options) for name, header, tool in _looks(data, stack))
    except BattleError:
        return False


def _looks(data: Any, stack: ExitStack) -> Iterator[tuple[str, Header | None, str | None]]:
    """The name, the columns and, of a log, the tool of each source, without reading it through."""
    if is_frame(data):
        yield "the frame", _frame_header(reusable(data), stack), None
        return
    items: list[Any] = (
        [data] if isinstance(data, str | Path) else list(islice(iter(data), 200)) if _listed(data) else []
    )
    if items and all(isinstance(item, str | Path) for item in items):
        for part in find_parts(data if isinstance(data, str | Path) else list(data)):
            tool = tool_of(part, "auto")
            yield part.name, None if tool else _part_header(part), tool if tool != "mt-bench" else _mt_bench(part)
    elif items and all(isinstance(item, Mapping) for item in items):
        yield "the rows", header_of_rows(items, "json"), None
    else:
        yield "the data", None, "battles"


def _listed(data: Any) -> bool:
    return isinstance(data, Sequence) and not isinstance(data, str | bytes)


def _mt_bench(part: Part) -> str:
    """MT-bench has files of grades, and files of pairs that were judged: these are battles."""
    with part.open() as file:
        first = json_object(next((line for line in file if line.strip()), b"")) or {}
    return "battles" if first.keys() >= PAIR_KEYS else "mt-bench"


def _is_scores(header: Header | None, tool: str | None, name: str, options: ReadScoresOptions) -> bool:
    if header is None:
        return tool == LM_EVAL_SUMMARY or _has_scores(tool)
    try:
        recognise(header, name, source_is_given=True)
    except BattleError:
        pass
    else:
        return False
    if {*LIKELY["model_a"], *LIKELY["model_b"]} & {*header.top_names}:
        return False
    source = _Source(name, name, 0, header)
    mapped = _mapped(options.map)
    scores = [column.name for column in _candidates(source, mapped)]
    if {"winner", "model_a", "model_b"} & ({*header.top_names} | mapped.keys()):
        if scores and "model_a" not in header and "model_a" not in mapped:
            raise OptionError(
                f"{name} has a column winner, as battles have, and scores in {scores[0]}. To compare scores, pass ",
                OptionValue("score", scores[0]),
                "; battles also need model_a and model_b.",
            )
        return False
    if not scores and not mapped and source.find(ID_COLUMNS) is not None and len(header.top_names) > 1:
        raise OptionError(
            f"{name} names prompts, but has neither battles nor a column of numbers, or of true and false. If one "
            "holds scores, name it with ",
            OptionValue("score"),
            f"; its columns are {source.listed}.",
        )
    return bool(scores)


def _has_scores(tool: str | None) -> bool:
    reader = None if tool is None else log_reader(tool)
    return reader is not None and reader.runs is not None


def _mapped(given: Mapping[str, str] | None) -> dict[str, str]:
    """The mapping by our names: `question_id`, `model`, `score`, `metric`, `epoch`."""
    return {OTHER_NAMES.get(ours, ours): theirs for ours, theirs in (given or {}).items()}


def _candidates(source: _Source, mapped: Mapping[str, str]) -> list[RawColumn]:
    """The columns that may hold the scores: that of a usual name, else every one of numbers or flags."""
    if "score" in mapped:
        column = source.find((), mapped["score"])
        return [] if column is None else [column]
    named = source.find(SCORE_COLUMNS)
    if named is not None:
        return [named]
    taken = {*ID_COLUMNS, *MODEL_COLUMNS, *REPEAT_COLUMNS, *METRIC_COLUMNS, *CATEGORY_COLUMNS, *TIME_COLUMNS}
    taken |= set(mapped.values())
    return [
        column
        for name, column in source.header.columns.items()
        if column.inner is None and column.holds in ("number", "flag") and name not in taken
    ]


@takes(ReadScoresOptions)
def read_scores(data: Any, options: ReadScoresOptions) -> list[ScoreTable]:
    """The scores of files, frames, rows or logs: a table for each metric.

    One file may hold one model, whose name is then the file's, or several, with a column `model`. Rows that repeat a
    prompt are repeats. A cell without a score is an answer without one; any other text than yes and no is an error.

    Parameters:
        data: A path, a list of paths, a folder, a glob, a frame, an iterable of dicts, or a mapping from the names of
            models to any of these.
    """
    if isinstance(data, ScoreTable):
        return [data]
    with ExitStack() as stack:
        sources = _sources(data, options, stack)
        connection = stack.enter_context(session(large_limits=True))
        return _Reading(connection, sources, options).tables()


def _sources(data: Any, options: ReadScoresOptions, stack: ExitStack) -> list[_Source]:
    if isinstance(data, Mapping):
        if not data or not all(isinstance(name, str) for name in data):
            raise ScoreError("scores by model are a mapping from the names of models to files, frames or rows.")
        found = [(name, _sources(inner, options, stack)) for name, inner in data.items()]
        return [
            _Source(one.name, name, item, one.header, one.part, one.frame)
            for item, (name, some) in enumerate(found)
            for one in some
        ]
    if is_frame(data):
        frame = reusable(data)
        return [_Source("the frame", "scores", 0, _frame_header(frame, stack), frame=frame)]
    items: list[Any] = [data] if isinstance(data, str | Path) else list(data)
    if not items:
        raise ScoreError("there are no scores to read: the list is empty.")
    if all(isinstance(item, str | Path) for item in items):
        return _of_files(items, options, stack)
    if not all(isinstance(item, Mapping) for item in items):
        kinds = sorted({type(item).__name__ for item in items if not isinstance(item, Mapping)})
        hint = " Those are battles." if any(isinstance(item, Battle) for item in items) else ""
        raise ScoreError(
            f"scores cannot be read from a list of {', '.join(kinds)}.{hint} Give paths, a frame, or rows."
        )
    return [_spooled("the rows", "scores", 0, items, stack)]


def _of_files(items: Sequence[PathLike], options: ReadScoresOptions, stack: ExitStack) -> list[_Source]:
    parts = [(item, part) for item, given in enumerate(items) for part in find_parts(given)]
    tools = [tool_of(part, options.format) for _, part in parts]
    if options.format != "auto" and options.format not in tools:
        raise ScoreError(
            f"{parts[0][1].name} is not a log of {options.format}. Name the right format (", OptionValue("format"), ")."
        )
    names = _short_names([part for (_, part), tool in zip(parts, tools, strict=True) if tool is None])
    sources = []
    for (item, part), tool in zip(parts, tools, strict=True):
        if tool is None:
            sources.append(_Source(part.name, names[part.name], item, _part_header(part), part))
    for tool in dict.fromkeys(one for one in tools if one is not None and one != LM_EVAL_SUMMARY):
        logged = [(item, part) for (item, part), one in zip(parts, tools, strict=True) if one == tool]
        runs = [(item, run) for item, part in logged for run in read_runs(tool, [part])]
        for (item, run), name in zip(runs, distinct_names([run for _, run in runs]), strict=True):
            rows = _log_rows(name, run)
            if not rows:
                raise ScoreError(f"{run.file} has no scored answer. Check what wrote it.")
            sources.append(_spooled(run.file, name, item, rows, stack))
    if not sources:
        raise ScoreError(f"{parts[0][1].name} is a summary without answers. Name the files with the samples.")
    return sources


def _log_rows(model: str, run: ScoredRun) -> list[dict[str, Any]]:
    """The answers of a log as rows, one for each metric."""
    metrics = list(dict.fromkeys(metric for answer in run.answers for metric in answer.scores)) or [""]
    rows = []
    for answer in run.answers:
        about = {"model": model, "question_id": answer.prompt, "epoch": answer.repeat, "category": run.task}
        about = {**{key: value for key, value in answer.metadata.items() if key not in ("metric", "score")}, **about}
        for metric in metrics:
            value = answer.scores.get(metric)
            down = metric in answer.negated
            rows.append(
                {**about, "metric": metric, "score": -value if down and value is not None else value, LOWER: down}
            )
    return rows


def _short_names(parts: Sequence[Part]) -> dict[str, str]:
    """A name for each file: its own without the ending, and as many folders as tell it from others."""
    paths = {part.name: Path(part.name) for part in parts}
    for depth in range(1, 2 + max((len(path.parts) for path in paths.values()), default=0)):
        names = {name: "/".join((*path.parts[:-1], _stem(path))[-depth:]) for name, path in paths.items()}
        if len(set(names.values())) == len(names):
            break
    return names if parts else {}


def _stem(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    return name.rpartition(".")[0] if suffix_kind(name)[0] is not None else name


def _part_header(part: Part) -> Header:
    return parquet_header(part) if part.kind is FileKind.PARQUET else file_header(part)


def _frame_header(frame: ReusableFrame, stack: ExitStack) -> Header:
    connection = stack.enter_context(session())
    return described(connection, frame_rows(connection, frame))


def _spooled(name: str, model: str, item: int, rows: Sequence[Mapping[str, Any]], stack: ExitStack) -> _Source:
    """Rows in memory as a temporary file, which is removed when everything is read."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tiltyard-")))
    encode = msgspec.json.Encoder(enc_hook=_plain).encode
    (folder / "rows.jsonl").write_bytes(b"\n".join(map(encode, rows)) + b"\n")
    part = Part(folder / "rows.jsonl", name, FileKind.JSONL, zipped=False)
    return _Source(name, model, item, header_of_rows(rows, "json"), part)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


class _Reading:
    """One connection that stages the answers of every source, and makes tables of them."""

    def __init__(self, connection: DuckDBPyConnection, sources: Sequence[_Source], options: ReadScoresOptions) -> None:
        self.connection, self.sources, self.options = connection, sources, options
        self.mapped = _mapped(options.map)
        self.columns = list(dict.fromkeys(options.columns))
        self.skipped: dict[str, int] = {}

    def tables(self) -> list[ScoreTable]:
        """A table for each metric, in the order in which they were asked for."""
        self._choose_columns()
        kept = ", ".join(f"{identifier(f'of {name}')} VARCHAR" for name in self.columns)
        self.connection.execute(
            "CREATE TEMP TABLE answers (item INTEGER, model VARCHAR, metric VARCHAR, prompt VARCHAR, score DOUBLE, "
            f"down BOOLEAN, number BIGINT{', ' if kept else ''}{kept})"
        )
        for source in self.sources:
            self._stage(source)
        self._tell_files_apart()
        metrics = [
            str(row[0]) for row in self._rows("SELECT metric, min(number) FROM answers GROUP BY 1 ORDER BY 2, 1")
        ]
        wanted = self.options.score
        if wanted and any(
            source.find(METRIC_COLUMNS, self.mapped.get("metric")) is not None for source in self.sources
        ):
            strange = [name for name in wanted if name not in metrics]
            if strange:
                raise OptionError(f"no metric {', '.join(strange)}. Scored are {listed(metrics)}.")
            metrics = list(wanted)
        if not metrics:
            raise ScoreError(
                f"{self.sources[0].name} holds no score. Check the file, or the condition (", OptionValue("where"), ")."
            )
        return self._tables(metrics)

    def _choose_columns(self) -> None:
        known = [name for name in CATEGORY_COLUMNS if all(name in source.header for source in self.sources)]
        self.columns = list(dict.fromkeys([*self.columns, *known]))
        for source in self.sources:
            for name in self.options.columns:
                source.find((), name)

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(query).fetchall()

    def _score_columns(self, source: _Source) -> list[RawColumn]:
        by_metric = source.find(METRIC_COLUMNS, self.mapped.get("metric"))
        if self.options.score and by_metric is None:
            found = [source.find((), name) for name in self.options.score]
            return [column for column in found if column is not None]
        columns = _candidates(source, self.mapped)
        if len(columns) == 1:
            return columns
        some = ", ".join(column.name for column in columns[:SEVERAL_LISTED])
        option = OptionValue("score", columns[0].name) if columns else OptionValue("score")
        what = (
            f"several columns could be the scores: {some}" if columns else "no column holds numbers, or true and false"
        )
        raise ScoreError(f"{source.name}: {what}. Say which with ", option, f". Its columns are {source.listed}.")

    def _stage(self, source: _Source) -> None:
        """Put the answers of one source into the table of all."""
        import duckdb

        layout = Layout(NOT_BATTLES, source.header, (), None, where=self.options.where or None, name=source.name)
        check_condition(layout)
        scores = self._score_columns(source)
        prompt = source.find(ID_COLUMNS, self.mapped.get("question_id"))
        model = source.find(MODEL_COLUMNS, self.mapped.get("model"))
        metric = source.find(METRIC_COLUMNS, self.mapped.get("metric"))
        if source.frame is not None:
            rows = frame_rows(self.connection, source.frame)
        else:
            assert source.part is not None
            rows = file_rows([source.part], source.header, source.header.top_names, longest=LONG_LINE_BYTES)
        try:
            check_where(self.connection, rows, layout)
            for column in scores:
                own = {
                    "model": literal(source.model) if model is None else _id_sql(model, layout),
                    "metric": literal(column.name) if metric is None else f"coalesce({_id_sql(metric, layout)}, '')",
                    "prompt": "NULL" if prompt is None else _id_sql(prompt, layout),
                    "score": _score_sql(column, layout),
                    "down": "false",
                }
                if LOWER in source.header:
                    own["down"] = f"{_text_sql(source.header.columns[LOWER], layout)} = 'true'"
                more = [
                    _id_sql(source.header.columns[name], layout) if name in source.header else "NULL"
                    for name in self.columns
                ]
                values = ", ".join(
                    [f"{sql} AS {name}" for name, sql in own.items()]
                    + ["row_number() OVER () AS number"]
                    + [f"{sql} AS {identifier(f'of {name}')}" for name, sql in zip(self.columns, more, strict=True)]
                )
                self.connection.execute(
                    f"INSERT INTO answers SELECT {source.item}, * FROM (SELECT {values} FROM {filtered(rows, layout)})"
                )
                self._check(source, column, prompt, model)
        except duckdb.Error as error:
            first = str(error).strip().splitlines()[0].rstrip(".").removeprefix("Invalid Input Error: ")
            raise ScoreError(f"{source.name} cannot be read: {first}. Check what wrote it.") from None

    def _check(self, source: _Source, column: RawColumn, prompt: RawColumn | None, model: RawColumn | None) -> None:
        """Stop at the first bad row of a source, or take bad rows out and count them."""
        rules = {BAD_SCORE: "isinf(score)"}
        if prompt is not None:
            rules[NO_PROMPT] = "prompt IS NULL"
        if model is not None:
            rules[NO_MODEL] = "model IS NULL"
        for reason, broken in rules.items():
            rule = f"item = {source.item} AND {broken}"
            bad = self._rows(f"SELECT min(number), count(*) FROM answers WHERE {rule}")
            first, count = bad[0]
            if not count:
                continue
            if self.options.on_bad == "error":
                cell = {BAD_SCORE: column, NO_PROMPT: prompt or column, NO_MODEL: model or column}[reason]
                raise self._bad_row(source, int(first), reason, cell)
            self.skipped[reason] = self.skipped.get(reason, 0) + int(count)
            self.connection.execute(f"DELETE FROM answers WHERE {rule}")

    def _bad_row(self, source: _Source, number: int, reason: str, column: RawColumn) -> ScoreError:
        where, value = f"{source.name}, row {number}", ""
        if source.part is not None and source.part.kind is not FileKind.PARQUET and self.options.where is None:
            line = next(islice(file_lines(source.part), number - 1, None), None)
            if line is not None:
                where = line.where
                cell = line.row.get(column.top)
                value = f" is {str(cell)[:60]!r}" if reason == BAD_SCORE else " is empty"
        advice = "Write a number up to 1e100, true or false, or leave it empty" if reason == BAD_SCORE else "Fill it in"
        return ScoreError(
            f"{where}: {reason}: {column.name}{value}. {advice}; ",
            OptionValue("on_bad", "skip"),
            " leaves such rows out.",
        )

    def _tell_files_apart(self) -> None:
        """Give one model in two files two names, where the files share prompts: v1/scores.csv and v2/scores.csv."""
        shared = self._rows(
            "SELECT 1 FROM (SELECT DISTINCT item, model FROM answers) GROUP BY model HAVING count(*) > 1"
        )
        twice = shared and self._rows(
            "SELECT model FROM (SELECT DISTINCT item, model, metric, prompt FROM answers) WHERE prompt IS NOT NULL "
            "GROUP BY model, metric, prompt HAVING count(*) > 1 LIMIT 1"
        )
        parts = [source.part for source in self.sources if source.part is not None]
        if not twice or len({source.item for source in self.sources}) < 2 or len(parts) < len(self.sources):
            return
        names = _short_names(parts)
        for source in self.sources:
            assert source.part is not None
            name = literal(names[source.part.name])
            self.connection.execute(f"UPDATE answers SET model = {name} WHERE item = {source.item}")

    def _tables(self, metrics: Sequence[str]) -> list[ScoreTable]:
        """A table for each metric. Texts of prompts become numbers once; everything after that is arrays."""
        columns = "".join(f", min({identifier(f'of {name}')}) AS {identifier(f'of {name}')}" for name in self.columns)
        self.connection.execute(
            "CREATE TEMP TABLE prompts AS SELECT CAST(row_number() OVER (ORDER BY first, prompt) - 1 AS INTEGER) AS "
            f"code, * FROM (SELECT prompt, min(number) AS first{columns} FROM answers WHERE prompt IS NOT NULL "
            "GROUP BY prompt)"
        )
        prompts = self.connection.execute("SELECT * EXCLUDE (code, first) FROM prompts ORDER BY code").fetchnumpy()
        models = [str(row[0]) for row in self._rows("SELECT DISTINCT model FROM answers ORDER BY model")]
        for name, values in (("model", models), ("metric", metrics)):
            self.connection.execute(f"CREATE TEMP TABLE {name}_codes ({name} VARCHAR, {name}_code INTEGER)")
            self.connection.executemany(
                f"INSERT INTO {name}_codes VALUES (?, ?)", [[v, n] for n, v in enumerate(values)]
            )
        rows = self.connection.execute(
            "SELECT coalesce(code, -1) AS code, model_code, metric_code, score, down FROM answers JOIN model_codes "
            "USING (model) JOIN metric_codes USING (metric) LEFT JOIN prompts USING (prompt)"
        ).fetchnumpy()
        found = _AnswerColumns(
            np.ma.filled(rows["code"], -1),
            np.ma.filled(rows["model_code"], -1),
            np.ma.filled(rows["metric_code"], -1),
            np.ma.filled(rows["score"].astype(float), np.nan),
            np.ma.filled(rows["down"], False),
        )
        files: dict[int, list[str]] = {item: [] for item in sorted({source.item for source in self.sources})}
        for item, model in self._rows("SELECT DISTINCT item, model FROM answers WHERE model IS NOT NULL ORDER BY 1, 2"):
            files[item].append(str(model))
        listed_models = tuple(tuple(some) for some in files.values())
        return [
            self._table(metric, models, prompts, found.only(found.metric == place), listed_models)
            for place, metric in enumerate(metrics)
        ]

    def _table(
        self,
        metric: str,
        models: Sequence[str],
        prompts: Mapping[str, Any],
        answers: _AnswerColumns,
        sources: tuple[tuple[str, ...], ...],
    ) -> ScoreTable:
        known = np.unique(answers.prompt[answers.prompt >= 0])
        place = np.full(len(prompts["prompt"]), -1, dtype=np.int64)
        place[known] = np.arange(len(known))
        kept = {}
        for code in np.unique(answers.model).tolist():
            own = answers.only((answers.model == code) & ((answers.prompt >= 0) | (len(known) == 0)))
            kept[models[code]] = _means(place[own.prompt] if len(known) else np.arange(len(own.score)), own.score)
        scored = answers.score[~np.isnan(answers.score)]
        shares = bool(np.all((scored == 0.0) | (scored == 1.0)))
        bounds = (0.0, 1.0) if shares else None
        if self.options.bounds is not None:
            bounds = (float(self.options.bounds[0]), float(self.options.bounds[1]))
            if len(scored) and (scored.min() < bounds[0] or scored.max() > bounds[1]):
                raise OptionError(
                    f"scores go from {scored.min():g} to {scored.max():g}, beyond ",
                    OptionValue("bounds", "{:g},{:g}".format(*bounds)),
                    ".",
                )
        return ScoreTable(
            metric=metric,
            models=kept,
            prompts=tuple(prompts["prompt"][known].tolist()),
            columns={name: _codes(prompts[f"of {name}"][known]) for name in self.columns},
            lower_is_better=self.options.lower_is_better or bool(answers.down.any()),
            shares=shares,
            bounds=bounds,
            sources=sources,
            skipped=dict(self.skipped),
            has_repeats=any(source.find(REPEAT_COLUMNS) is not None for source in self.sources),
        )


class _AnswerColumns(msgspec.Struct, frozen=True, eq=False):
    """Answers as arrays: codes of prompt (−1: unknown), model and metric, the score, and whether less is better."""

    prompt: Any
    model: Any
    metric: Any
    score: Any
    down: Any

    def only(self, kept: Any) -> _AnswerColumns:
        """Some of the answers."""
        if kept.all():
            return self
        return _AnswerColumns(self.prompt[kept], self.model[kept], self.metric[kept], self.score[kept], self.down[kept])


def _means(prompt: Any, score: Any) -> ModelScores:
    """The scores of one model by prompt; within a prompt they are added in the order of their size."""
    order = np.lexsort((score, prompt))  # a score that is missing comes last
    prompt, score = prompt[order], score[order]
    start = np.flatnonzero(np.diff(prompt, prepend=-1))
    there = ~np.isnan(score)
    count = np.add.reduceat(there.astype(np.int64), start)
    rows = np.diff(start, append=len(prompt))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.add.reduceat(np.where(there, score, 0.0), start) / count
        away = np.where(there, score - np.repeat(mean, rows), 0.0)
        variance = np.where(count > 1, np.add.reduceat(away * away, start) / (count - 1), np.nan)
    known = score[there]
    low, high = (float(known.min()), float(known.max())) if len(known) else (np.nan, np.nan)
    return ModelScores(prompt[start].astype(np.int64), mean, count, variance, rows - count, low, high)


def _codes(values: Any) -> Codes:
    texts = [
        None if text is None or text is np.ma.masked else str(text) for text in np.ma.filled(values, None).tolist()
    ]
    labels = sorted({text for text in texts if text is not None})
    place = {text: code for code, text in enumerate(labels)}
    return Codes(np.array([MISSING if text is None else place[text] for text in texts], dtype=np.int32), labels)


LARGEST = 1e100
"""The square of a larger score would be none."""
BAD = "CAST('inf' AS DOUBLE)"
"""What stands for a cell that is no score."""
WHOLE_NUMBER = re.compile("^(-?[0-9]+)[.]0+$")


def _text_sql(column: RawColumn, layout: Layout) -> str:
    cell, cells = cell_sql(column, layout), cells_of(column, layout)
    return f"trim({cell} ->> '$')" if cells == "json" else f"trim(CAST({cell} AS VARCHAR))"


def _id_sql(column: RawColumn, layout: Layout) -> str:
    """A name or an id as text: 1, 1.0 and "1" are the same."""
    text = _text_sql(column, layout)
    whole = f"regexp_replace({text}, {literal(WHOLE_NUMBER.pattern)}, '\\1')"
    return f"nullif(CASE WHEN ends_with({text}, '0') THEN {whole} ELSE {text} END, '')"


def _score_sql(column: RawColumn, layout: Layout) -> str:
    """A score: NULL where there is none, infinite where the cell holds anything else than a number, yes or no."""
    cell, cells = cell_sql(column, layout), cells_of(column, layout)
    if cells == "typed" and column.holds in ("number", "flag"):
        number = f"CAST({cell} AS DOUBLE)"
        return f"CASE WHEN isnan({number}) THEN NULL WHEN abs({number}) > {LARGEST:g} THEN {BAD} ELSE {number} END"
    text = f"lower({_text_sql(column, layout)})"
    plain = f"({cell} ->> '$')" if cells == "json" else f"CAST({cell} AS VARCHAR)"
    number = f"TRY_CAST({plain} AS DOUBLE)"
    words = {value: ", ".join(map(literal, some)) for value, some in (("1.0", YES), ("0.0", NO), ("NULL", NOTHING))}
    cases = " ".join(f"WHEN {text} IN ({some}) THEN {value}" for value, some in words.items())
    known = f"WHEN abs({number}) <= {LARGEST:g} THEN {number} WHEN {text} IS NULL THEN NULL {cases}"
    return f"CASE {known} ELSE {BAD} END"


def as_battles(tables: Sequence[ScoreTable], band: float = 0.0) -> list[dict[str, Any]]:
    """The scores as battle rows: on each prompt the higher mean wins, unless the lead is within the band.

    Right for grades without a unit, and for "which is better more often"; it forgets by how much. For an answer in the
    unit of the scores, compare them as they are.
    """
    rows: list[dict[str, Any]] = []
    for table in tables:
        sign = -1.0 if table.lower_is_better else 1.0
        runs = []
        for name, one in table.models.items():
            scored = np.flatnonzero(one.count > 0).tolist()
            prompts = [table.prompts[int(one.prompts[at])] for at in scored] if table.prompts else []
            answers = [
                ScoredAnswer(
                    where=f"{name}, {prompt}", prompt=prompt, scores={table.metric: sign * float(one.mean[at])}
                )
                for at, prompt in zip(scored, prompts, strict=False)
            ]
            runs.append(ScoredRun(model=name, file=name, answers=answers))
        rows += [{**row.row, "source": "llm-judge"} for row in pair_scores(runs, band).rows]
    if not rows:
        raise ScoreError("no prompt has a score of two models: there is no battle to make of them.")
    return rows
