"""Reading scores: `read_scores`, from files of any shape, frames, rows and logs of other tools.

DuckDB reads every source and makes one row of each model, metric and prompt; no Python object is made for an answer.
Rows in memory and logs go through a temporary file, so that there is one way to read.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tiltyard.data.battles import (
    FORMAT_NAMES,
    LIKELY,
    LM_EVAL_SUMMARY,
    LOG_FORMATS,
    LONG_LINE_BYTES,
    MISSING,
    NO_MAP,
    OTHER_NAMES,
    PAIR_KEYS,
    PROMPT_COLUMNS,
    Battle,
    BattleFile,
    BattleTable,
    Codes,
    FileKind,
    Format,
    Header,
    Layout,
    Opened,
    RawColumn,
    ReusableFrame,
    ScoredAnswer,
    ScoredRun,
    cell_sql,
    cells_of,
    check_condition,
    check_where,
    distinct_names,
    enumerated,
    file_lines,
    file_rows,
    filtered,
    frame_rows,
    header_of_rows,
    identifier,
    json_object,
    listed,
    literal,
    log_reader,
    pair_scores,
    path_ends,
    plain_columns,
    read_runs,
    session,
    suffix_kind,
    text_sql,
)
from tiltyard.data.scores.table import CLUSTER_COLUMNS, DirectionFrom, ModelScores, ScoreTable, direction_of_name
from tiltyard.errors import BattleError, OptionError, OptionValue, ScoreError
from tiltyard.options import ReadingOptions, ScoreOptions, accepts_options, directions, option
from tiltyard.types import order_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ID_COLUMNS = (
    *PROMPT_COLUMNS,
    *("id", "sample_id", "example_id", "item_id", "task_id", "test_id", "doc_id", "idx", "input"),
)
"""Columns that say which prompt an answer is to; the first one present counts."""
MODEL_COLUMNS = ("model", "model_name", "model_id", "system", "entrant", "entrant_id")
REPEAT_COLUMNS = ("epoch", "repeat", "repetition", "trial", "attempt", "run", "seed")
"""Columns that number repeats: never scores."""
METRIC_COLUMNS = ("metric", "metric_name", "scorer", "dimension")
"""Columns that say what a score is about; scores by different ones are never averaged."""
SCORE_COLUMNS = (
    *("score", "correct", "is_correct", "passed", "pass", "success", "accuracy", "acc", "exact_match", "value"),
    *("grade", "rating", "reward"),
)
"""Usual names of the column of scores; the first one present counts."""
TIME_COLUMNS = ("timestamp", "tstamp", "time", "date", "created_at", "index", "turn", "")
CATEGORY_COLUMNS = ("category", "subject", "task", "dimension", "language")

SCALE, SCALE_ENDS = "scale", re.compile("([0-9]+(?:[.][0-9]+)?)-([0-9]+(?:[.][0-9]+)?)")
"""The column that says what a score may be, such as 1-10."""
PERCENT = re.compile("percent|pct|%", re.IGNORECASE)
FEW_VALUES = 11
"""Whole scores in a range of at most so many values, such as 0 to 10, are a scale, whose ends need not be known."""

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

    columns: Sequence[str] = option(
        (), "Further columns of prompts to keep: categories and clusters.", metavar="COLUMN"
    )


class _Source(msgspec.Struct, frozen=True, eq=False):
    """Rows of one shape, and what is read from them.

    `model` is what the source is called where no column says it; `item` is its place among what was given.
    """

    name: str
    model: str
    item: int
    header: Header
    part: BattleFile | None = None
    frame: ReusableFrame | None = None

    def find(self, names: Iterable[str], mapped: str | None = None) -> RawColumn | None:
        """The one that was mapped, else the first of these columns that it has."""
        if mapped is not None:
            return self.column(mapped)
        return next((self.header.columns[name] for name in names if name in self.header), None)

    def column(self, name: str) -> RawColumn:
        """A column that was named, which must be there."""
        if name not in self.header:
            raise OptionError(f"{self.name} has no column {name!r}. Its columns are {self.listed}.")
        return self.header.columns[name]

    @property
    def listed(self) -> str:
        return listed(self.header.top_names)


def holds_scores(data: Any, options: ReadScoresOptions) -> bool:
    """Whether data are scores: those with a winner are battles, others with a column of numbers or flags are scores.

    A tie band says that scores of a log are to be battles.
    """
    opened = Opened.of(data)
    if isinstance(opened.data, ScoreTable) or options.score or options.bounds or options.scale == "log":
        return True
    if isinstance(opened.data, BattleTable) or options.tie_band is not None:
        return False
    if isinstance(opened.data, Mapping):
        return True
    if options.format not in ("auto", *FORMAT_NAMES):
        return _has_scores(options.format)
    if options.format not in ("auto", *LOG_FORMATS):
        return False
    try:
        if opened.paths:
            return all(_file_holds_scores(opened, part, options) for part in opened.parts)
        if opened.frame is not None:
            return _are_scores(opened, opened.header_in_memory, "the frame", options)
        are_rows = bool(opened.items) and all(isinstance(item, Mapping) for item in opened.items or ())
        return are_rows and _are_scores(opened, opened.header_in_memory, "the rows", options)
    except BattleError:
        return False


def _file_holds_scores(opened: Opened, part: BattleFile, options: ReadScoresOptions) -> bool:
    tool = opened.tool(part, "auto")
    if tool is None:
        return _are_scores(opened, opened.header(part), part.name, options)
    if tool == "mt-bench":  # it has files of grades, and files of pairs that were judged: these are battles
        with part.open() as file:
            first = json_object(next((line for line in file if line.strip()), b"")) or {}
        return not first.keys() >= PAIR_KEYS
    return tool == LM_EVAL_SUMMARY or _has_scores(tool)


def _has_scores(tool: str) -> bool:
    reader = log_reader(tool)
    return reader is not None and reader.runs is not None


def _are_scores(opened: Opened, header: Header, name: str, options: ReadScoresOptions) -> bool:
    try:
        opened.recognise(header, name, NO_MAP)
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


def _mapped(given: Mapping[str, str] | None) -> dict[str, str]:
    """The mapping by our names: `question_id`, `model`, `score`, `metric`, `epoch`."""
    return {OTHER_NAMES.get(ours, ours): theirs for ours, theirs in (given or {}).items()}


def _candidates(source: _Source, mapped: Mapping[str, str]) -> list[RawColumn]:
    """The columns that may hold the scores: that of a usual name, else every one of numbers or flags."""
    if "score" in mapped:
        return [source.column(mapped["score"])]
    named = source.find(SCORE_COLUMNS)
    return _numbers(source, mapped) if named is None else [named]


def _numbers(source: _Source, mapped: Mapping[str, str]) -> list[RawColumn]:
    """The columns of numbers or flags whose name does not say that they are something else than scores."""
    taken = {*ID_COLUMNS, *MODEL_COLUMNS, *REPEAT_COLUMNS, *METRIC_COLUMNS, *CATEGORY_COLUMNS, *TIME_COLUMNS}
    taken |= set(mapped.values())
    return [
        column
        for name, column in source.header.columns.items()
        if column.inner is None and column.holds in ("number", "flag") and name not in taken
    ]


@accepts_options(ReadScoresOptions)
def read_scores(data: Any, options: ReadScoresOptions) -> list[ScoreTable]:
    """The scores of files, frames, rows or logs: a table for each metric.

    One file may hold one model, whose name is then the file's, or several, with a column `model`. Rows that repeat a
    prompt are repeats. A cell without a score is an answer without one; any other text than yes and no is an error.

    Parameters:
        data: A path, a list of paths, a folder, a glob, a frame, an iterable of dicts, or a mapping from the names of
            models to any of these.
    """
    opened = Opened.of(data)
    if isinstance(opened.data, ScoreTable):
        return [opened.data]
    with ExitStack() as stack:
        sources = _sources(opened, options, stack)
        connection = stack.enter_context(session(large_limits=True))
        return _Reading(connection, sources, options).tables()


def _sources(opened: Opened, options: ReadScoresOptions, stack: ExitStack) -> list[_Source]:
    data = opened.data
    if isinstance(data, Mapping):
        if not data or not all(isinstance(name, str) for name in data):
            raise ScoreError("scores by model are a mapping from the names of models to files, frames or rows.")
        return [
            msgspec.structs.replace(source, model=name, item=item)
            for item, (name, inner) in enumerate(data.items())
            for source in _sources(Opened.of(inner), options, stack)
        ]
    if opened.frame is not None:
        return [_Source("the frame", "scores", 0, opened.header_in_memory, frame=opened.frame)]
    if opened.paths:
        return _of_files(opened, options, stack)
    items: list[Any] = opened.items or []
    if not items:
        raise ScoreError("there are no scores to read: the list is empty.")
    if not all(isinstance(item, Mapping) for item in items):
        kinds = sorted({type(item).__name__ for item in items if not isinstance(item, Mapping)})
        hint = " Those are battles." if any(isinstance(item, Battle) for item in items) else ""
        raise ScoreError(
            f"scores cannot be read from a list of {', '.join(kinds)}.{hint} Give paths, a frame, or rows."
        )
    return [_spooled("the rows", "scores", 0, items, stack)]


def _of_files(opened: Opened, options: ReadScoresOptions, stack: ExitStack) -> list[_Source]:
    parts = [(item, part) for item, files in enumerate(opened.parts_by_path) for part in files]
    files = [(item, part, opened.tool(part, options.format)) for item, part in parts]
    tools = dict.fromkeys(tool for *_, tool in files)
    if options.format not in ("auto", *tools):
        raise ScoreError(
            f"{parts[0][1].name} is not a log of {options.format}. Name the right format (", OptionValue("format"), ")."
        )
    tables = [(item, part) for item, part, tool in files if tool is None]
    names = _short_names([part for _, part in tables])
    sources = [_Source(part.name, names[part.name], item, opened.header(part), part) for item, part in tables]
    for tool in tools:
        if tool is None or tool == LM_EVAL_SUMMARY:
            continue
        runs = [(item, run) for item, part, wrote in files if wrote == tool for run in read_runs(tool, [part])]
        for (item, run), name in zip(runs, distinct_names([run for _, run in runs]), strict=True):
            rows = _log_rows(name, run)
            if not rows:
                raise ScoreError(f"{run.file} has no scored answer. Check what wrote it.")
            sources.append(_spooled(run.file, name, item, rows, stack))
    if not sources:
        raise ScoreError(f"{parts[0][1].name} is a summary without answers. Name the files with the samples.")
    return sources


def _log_rows(model: str, run: ScoredRun) -> list[dict[str, Any]]:
    metrics = list(dict.fromkeys(metric for answer in run.answers for metric in answer.scores)) or [""]
    asked = {(answer.prompt, metric) for answer in run.answers for metric in answer.scores}
    rows = []
    for answer in run.answers:
        about = {"model": model, "question_id": answer.prompt, "epoch": answer.repeat, "category": run.task}
        about = {**{key: value for key, value in answer.metadata.items() if key not in ("metric", "score")}, **about}
        for metric in metrics:
            if answer.scores and (answer.prompt, metric) not in asked:
                continue  # scored, and not by this metric
            value = answer.scores.get(metric)
            down = metric in answer.negated
            rows.append(
                {**about, "metric": metric, "score": -value if down and value is not None else value, LOWER: down}
            )
    return rows


def _short_names(parts: Sequence[BattleFile]) -> dict[str, str]:
    """A name for each file: its own without the ending, and as many folders as tell it from others."""
    paths = {part.name: Path(part.name) for part in parts}
    ends = path_ends([(*path.parts[:-1], _stem(path)) for path in paths.values()])
    return dict(zip(paths, ends, strict=True))


def _stem(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    return name.rpartition(".")[0] if suffix_kind(name)[0] is not None else name


def _spooled(name: str, model: str, item: int, rows: Sequence[Mapping[str, Any]], stack: ExitStack) -> _Source:
    """Rows in memory as a temporary file, which is removed when everything is read."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tiltyard-")))
    encode = msgspec.json.Encoder(enc_hook=_plain).encode
    (folder / "rows.jsonl").write_bytes(b"\n".join(map(encode, rows)) + b"\n")
    part = BattleFile(folder / "rows.jsonl", name, FileKind.JSONL, zipped=False)
    return _Source(name, model, item, header_of_rows(rows, "json"), part)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


class _Block(msgspec.Struct, frozen=True, eq=False):
    """The rows of one source with one of its columns of scores, and the columns that name prompts and models.

    `names` are the model and the metric of all of them, where no column says it.
    """

    source: _Source
    score: RawColumn
    prompt: RawColumn | None
    model: RawColumn | None
    names: Mapping[str, str]


class _Reading:
    """One connection that stages the answers of every source, and makes tables of them."""

    def __init__(self, connection: DuckDBPyConnection, sources: Sequence[_Source], options: ReadScoresOptions) -> None:
        self.connection, self.sources, self.options = connection, sources, options
        self.mapped, self.directions = _mapped(options.map), directions(options.score)
        self.columns = list(dict.fromkeys(options.columns))
        self.beside: list[str] = []
        self.blocks: list[_Block] = []
        self.skipped: dict[str, int] = {}

    def tables(self) -> list[ScoreTable]:
        """A table for each metric, in the order in which they were asked for."""
        self._choose_columns()
        kept = "".join(f", {identifier(f'of {name}')} VARCHAR" for name in self.columns)
        self.connection.execute(
            "CREATE TEMP TABLE answers (block INTEGER, prompt VARCHAR, score DOUBLE, down BOOLEAN, model VARCHAR, "
            f"metric VARCHAR{kept})"
        )
        for source in self.sources:
            self._stage(source)
        answers = self._tell_files_apart(self._checked(self._fetched()))
        codes, labels = answers.codes["metric"], answers.labels["metric"]
        first = {labels[code]: int(answers.numbers(codes == code).min()) for code in _there(codes).tolist()}
        metrics, wanted = sorted(first, key=lambda name: (first[name], name)), list(self.directions)
        if wanted and any(self._metric_column(source) is not None for source in self.sources):
            if strange := [name for name in wanted if name not in metrics]:
                raise OptionError(f"no metric {', '.join(strange)}. Scored are {listed(metrics)}.")
            metrics = wanted
        if not metrics:
            raise ScoreError(
                f"{self.sources[0].name} holds no score. Check the file, or the condition (", OptionValue("where"), ")."
            )
        return self._tables(answers, metrics)

    def _choose_columns(self) -> None:
        headers, taken = [source.header for source in self.sources], {*self.mapped.values(), *self.directions}
        in_all = [name for name in headers[0] if all(name in header for header in headers)]
        flat = [name for name in in_all if all(header.columns[name].holds != "nested" for header in headers)]
        known = [name for name in (*CATEGORY_COLUMNS, SCALE) if name in in_all]
        known += [name for name in CLUSTER_COLUMNS if name in flat and name not in taken]
        self.columns = list(dict.fromkeys([*self.columns, *known]))
        for source in self.sources:
            for name in self.options.columns:
                source.column(name)

    def _metric_column(self, source: _Source) -> RawColumn | None:
        return source.find(METRIC_COLUMNS, self.mapped.get("metric"))

    def _score_columns(self, source: _Source) -> list[RawColumn]:
        by_metric = self._metric_column(source)
        if self.directions and by_metric is None:
            return [source.column(name) for name in self.directions]
        columns = _candidates(source, self.mapped)
        if len(columns) == 1:
            if by_metric is None and "score" not in self.mapped:
                others = (column.name for column in _numbers(source, self.mapped) if column not in columns)
                self.beside += [name for name in others if name not in (*self.columns, *self.beside)]
            return columns
        option, what = OptionValue("score"), "no column holds numbers, or true and false"
        if columns:
            some = ", ".join(column.name for column in columns[:SEVERAL_LISTED])
            option, what = OptionValue("score", columns[0].name), f"several columns could be the scores: {some}"
        raise ScoreError(f"{source.name}: {what}. Say which with ", option, f". Its columns are {source.listed}.")

    def _stage(self, source: _Source) -> None:
        import duckdb

        scores = self._score_columns(source)
        prompt = source.find(ID_COLUMNS, self.mapped.get("question_id"))
        model = source.find(MODEL_COLUMNS, self.mapped.get("model"))
        metric = self._metric_column(source)
        more = [source.header.columns.get(name) for name in self.columns]
        read = [column for column in (*scores, prompt, model, metric, *more) if column is not None]
        plain = plain_columns(source.header, [column for column in read if column.inner is not None])
        where = self.options.where or None
        layout = Layout(NOT_BATTLES, source.header, (), None, where=where, name=source.name, plain=plain)
        check_condition(layout)
        if source.frame is not None:
            rows = frame_rows(self.connection, source.frame)
        else:
            assert source.part is not None
            columns = source.header.top_names if layout.where else [column.top for column in read]
            if LOWER in source.header:
                columns = [*columns, LOWER]
            rows = file_rows([source.part], source.header, columns, plain=plain, longest=LONG_LINE_BYTES)
        down = f"{text_sql(source.header.columns[LOWER], layout)} = 'true'" if LOWER in source.header else "false"
        try:
            check_where(self.connection, rows, layout)
            for column in scores:
                values = [
                    str(len(self.blocks)),
                    "NULL" if prompt is None else _id_sql(prompt, layout),
                    _score_sql(column, layout),
                    down,
                    *("NULL" if one is None else text_sql(one, layout) for one in (model, metric, *more)),
                ]
                self.connection.execute(f"INSERT INTO answers SELECT {', '.join(values)} FROM {filtered(rows, layout)}")
                names = {"model": source.model} if model is None else {}
                names |= {"metric": column.name} if metric is None else {}
                self.blocks.append(_Block(source, column, prompt, model, names))
        except duckdb.Error as error:
            first = str(error).strip().splitlines()[0].rstrip(".").removeprefix("Invalid Input Error: ")
            raise ScoreError(f"{source.name} cannot be read: {first}. Check what wrote it.") from None

    def _fetched(self) -> _Answers:
        """The staged answers as arrays: a text that many rows share is a code, that of a prompt its hash."""
        outputs = ["block", "CASE WHEN prompt IS NULL THEN 0 ELSE hash(prompt) END AS prompt", "score", "down"]
        texts: dict[str, list[str]] = {}
        names = ("model", "metric", *(f"of {name}" for name in self.columns))
        for name in names:
            if not all(name in block.names for block in self.blocks):
                texts[name], sql = enumerated(self.connection, "answers", name)
                outputs.append(sql)
        fetched = self.connection.execute(f"SELECT {', '.join(outputs)} FROM answers").fetchnumpy()
        block = np.asarray(fetched["block"])
        codes, labels = {}, {}
        for name in names:
            own = [block.names.get(name, "" if name == "metric" else None) for block in self.blocks]
            read = [WHOLE_NUMBER.sub(r"\1", text.strip()) or None for text in texts.get(name, ())]
            labels[name] = tuple(sorted({text for text in (*read, *own) if text is not None}))
            place = {text: code for code, text in enumerate(labels[name])} | {None: MISSING}
            default = np.array([place[text] for text in own], dtype=np.int32)
            if name not in texts:
                codes[name] = default[block]
                continue
            codes[name] = np.array([place[text] for text in (*read, None)], dtype=np.int32)[np.asarray(fetched[name])]
            if (default != MISSING).any():
                codes[name] = np.where(codes[name] == MISSING, default[block], codes[name])
        return _Answers(
            row=np.arange(len(block)),
            block=block,
            prompt=np.asarray(fetched["prompt"]),
            score=np.ma.filled(fetched["score"].astype(np.float64, copy=False), np.nan),
            down=np.ma.filled(fetched["down"], False),
            codes=codes,
            labels=labels,
            starts=np.searchsorted(block, np.arange(len(self.blocks))),
        )

    def _checked(self, answers: _Answers) -> _Answers:
        """The answers without bad rows, which are counted; or an error at the first of them.

        A cell that is no score leaves an answer without one: it counts as any that is empty.
        """
        unscored = np.isinf(answers.score)
        bad = unscored, answers.prompt == 0, answers.codes["model"] == MISSING
        if not any(rule.any() for rule in bad):
            return answers
        kept = np.ones(len(answers.row), dtype=bool)
        for place, block in enumerate(self.blocks):
            cells = {BAD_SCORE: block.score, NO_PROMPT: block.prompt, NO_MODEL: block.model}
            counted = answers.block == place
            for (reason, column), rule in zip(cells.items(), bad, strict=True):
                if column is not None and reason != BAD_SCORE:
                    kept &= ~(rule & (answers.block == place))
                rows = np.flatnonzero(counted & rule)
                if column is None or not len(rows):
                    continue
                if self.options.on_bad == "error":
                    raise self._bad_row(block.source, int(answers.numbers(rows).min()), reason, column)
                self.skipped[reason] = self.skipped.get(reason, 0) + len(rows)
                counted[rows] = False
        return msgspec.structs.replace(answers, score=np.where(unscored, np.nan, answers.score)).only(kept)

    def _bad_row(self, source: _Source, number: int, reason: str, column: RawColumn) -> ScoreError:
        where, value = f"{source.name}, row {number}", ""
        if source.part is not None and source.part.kind is not FileKind.PARQUET and self.options.where is None:
            for line in islice(file_lines(source.part), number - 1, number):
                where, cell = line.where, line.row.get(column.top)
                value = f" is {str(cell)[:60]!r}" if reason == BAD_SCORE else " is empty"
        advice = "Write a number up to 1e100, true or false, or leave it empty" if reason == BAD_SCORE else "Fill it in"
        skip = OptionValue("on_bad", "skip")
        return ScoreError(f"{where}: {reason}: {column.name}{value}. {advice}; ", skip, " leaves such rows out.")

    def _tell_files_apart(self, answers: _Answers) -> _Answers:
        """Give one model in two files two names, where the files share prompts: v1/scores.csv and v2/scores.csv."""
        parts = [source.part for source in self.sources if source.part is not None]
        if len({source.item for source in self.sources}) < 2 or len(parts) < len(self.sources):
            return answers
        item = self._items[answers.block]
        n_models = len(answers.labels["model"])
        in_files = np.bincount(_there(item * n_models + answers.codes["model"]) % n_models, minlength=n_models)
        doubtful = (in_files > 1)[answers.codes["model"]] & (answers.prompt != 0)
        if not doubtful.any():
            return answers
        columns = (answers.codes["model"], answers.codes["metric"], answers.prompt.view(np.int64), item)
        keys = np.unique(np.stack([column[doubtful] for column in columns], axis=1), axis=0)
        if not (keys[1:, :3] == keys[:-1, :3]).all(axis=1).any():
            return answers
        names = _short_names(parts)
        labels = sorted(names.values())
        code = {source.item: labels.index(names[part.name]) for source, part in zip(self.sources, parts, strict=True)}
        codes = np.array([code[block.source.item] for block in self.blocks])[answers.block]
        return msgspec.structs.replace(
            answers, codes={**answers.codes, "model": codes}, labels={**answers.labels, "model": tuple(labels)}
        )

    @property
    def _items(self) -> Any:
        """The place of each block's source among what was given."""
        return np.array([block.source.item for block in self.blocks])

    def _tables(self, answers: _Answers, metrics: Sequence[str]) -> list[ScoreTable]:
        """A table for each metric. Prompts are numbered by where they first appear."""
        hashes, first, code = _first_seen(answers.prompt)
        last = int(answers.block[first].max())
        texts = self.connection.execute(f"SELECT prompt FROM answers WHERE block <= {last}").fetchnumpy()["prompt"]
        prompts = np.asarray(texts)[answers.row[first]]
        columns = {}
        for name in self.columns:
            labels, codes = answers.labels[f"of {name}"], answers.codes[f"of {name}"]
            least = np.full(len(hashes), len(labels), dtype=np.int32)
            np.minimum.at(least, code, np.where(codes == MISSING, len(labels), codes))
            columns[name] = Codes(np.where(least == len(labels), MISSING, least).astype(np.int32), labels)
        answers = msgspec.structs.replace(answers, prompt=np.where(answers.prompt != 0, code, -1))
        files: dict[int, list[str]] = {item: [] for item in sorted({source.item for source in self.sources})}
        n_models = len(answers.labels["model"])
        for both in _there(self._items[answers.block] * n_models + answers.codes["model"]).tolist():
            files[both // n_models].append(answers.labels["model"][both % n_models])
        listed_models = tuple(tuple(some) for some in files.values())
        return [self._table(metric, prompts, columns, answers.of_metric(metric), listed_models) for metric in metrics]

    def _table(
        self,
        metric: str,
        prompts: Any,
        columns: Mapping[str, Codes],
        answers: _Answers,
        sources: tuple[tuple[str, ...], ...],
    ) -> ScoreTable:
        scored = answers.score[~np.isnan(answers.score)]
        bounds, log = self._bounds(metric, answers, scored), self.options.scale == "log"
        if log:
            if len(scored) and scored.min() <= 0.0:
                chosen = OptionValue("scale", "log")
                raise OptionError(f"{metric} goes down to {scored.min():g}, and ", chosen, " is for scores above 0.")
            answers = msgspec.structs.replace(answers, score=np.log(answers.score))
            bounds = None if bounds is None or bounds[0] <= 0.0 else (math.log(bounds[0]), math.log(bounds[1]))
        asked = np.zeros(len(prompts) + 1, dtype=bool)
        asked[answers.prompt] = True
        known = np.flatnonzero(asked[:-1])
        place = np.cumsum(asked) - 1
        kept = {}
        for code in _there(answers.codes["model"]).tolist():
            own = answers.only((answers.codes["model"] == code) & ((answers.prompt >= 0) | (len(known) == 0)))
            at = place[own.prompt] if len(known) else np.arange(len(own.score))
            kept[answers.labels["model"][code]] = _means(at, own.score)
        direction, lower = self._direction(metric, answers)
        whole = bool((scored == np.floor(scored)).all() and (not len(scored) or np.ptp(scored) < FEW_VALUES))
        return ScoreTable(
            metric=metric,
            models=kept,
            prompts=tuple(prompts[known].tolist()),
            columns={name: column[known] for name, column in columns.items()},
            direction=direction,
            lower_is_better=lower,
            shares=not log and _are_shares(scored),
            bounds=bounds,
            sources=sources,
            skipped=dict(self.skipped),
            has_repeats=any(source.find(REPEAT_COLUMNS) is not None for source in self.sources),
            few_values=whole and direction_of_name(metric) is None,
            log=log,
            beside=tuple(self.beside),
        )

    def _bounds(self, metric: str, answers: _Answers, scored: Any) -> tuple[float, float] | None:
        """The lowest and the highest possible score: as stated, as a column says, or of shares and percentages."""
        if self.options.bounds is not None:
            low, high = map(float, self.options.bounds)
            if len(scored) and (scored.min() < low or scored.max() > high):
                raise OptionError(
                    f"scores go from {scored.min():g} to {scored.max():g}, beyond ",
                    OptionValue("bounds", f"{low:g},{high:g}"),
                    ".",
                )
            return low, high
        scales = [(0.0, 1.0)] if _are_shares(scored) else [(0.0, 100.0)] if PERCENT.search(metric) else []
        if SCALE in self.columns:
            labels = answers.labels[f"of {SCALE}"]
            codes = np.unique(answers.codes[f"of {SCALE}"])
            stated = [SCALE_ENDS.fullmatch(labels[code]) for code in codes if code >= 0]
            scales = [(float(one[1]), float(one[2])) for one in stated if one and len(stated) == 1] or scales
        inside = (ends for ends in scales if len(scored) and ends[0] <= scored.min() <= scored.max() <= ends[1])
        return next(inside, None)

    def _direction(self, metric: str, answers: _Answers) -> tuple[DirectionFrom, bool]:
        """Whether less is better, and what says so: the option, the log, the metric's name, or nothing."""
        said = self.directions.get(metric)
        if said:
            return "option", said == {"lower"}
        judged = all({"scale", "judge_model"} <= {*source.header.top_names} for source in self.sources)
        if judged or answers.down.any():
            return "log", bool(answers.down.any())
        guess = direction_of_name(metric)
        return ("default", False) if guess is None else ("name", guess == "lower")


class _Answers(msgspec.Struct, frozen=True, eq=False):
    """Answers as arrays.

    `row` is the place in the staged table, in which each block starts at a place of `starts`. `prompt` is a hash (0:
    not known), later the prompt's place. `codes` are places in the sorted `labels`.
    """

    row: Any
    block: Any
    prompt: Any
    score: Any
    down: Any
    codes: Mapping[str, Any]
    labels: Mapping[str, tuple[str, ...]]
    starts: Any

    def only(self, kept: Any) -> _Answers:
        if kept.all():
            return self
        arrays = {name: getattr(self, name)[kept] for name in ("row", "block", "prompt", "score", "down")}
        return msgspec.structs.replace(self, **arrays, codes={name: codes[kept] for name, codes in self.codes.items()})

    def of_metric(self, metric: str) -> _Answers:
        return self.only(self.codes["metric"] == self.labels["metric"].index(metric))

    def numbers(self, rows: Any) -> Any:
        """The number of rows among those of their block, from 1."""
        return self.row[rows] - self.starts[self.block[rows]] + 1


def _are_shares(scored: Any) -> bool:
    return bool(np.all((scored == 0.0) | (scored == 1.0)))


def _there(codes: Any) -> Any:
    return np.flatnonzero(np.bincount(codes, minlength=1))


def _first_seen(values: Any) -> tuple[Any, Any, Any]:
    """The distinct values in the order of their first rows, these rows, and the place of each row's value."""
    order = order_of(values)
    ordered = values[order]
    new = np.append(True, ordered[1:] != ordered[:-1])[: len(values)]
    rows = order[new]
    is_first = np.zeros(len(values), dtype=bool)
    is_first[rows] = True
    codes = np.empty(len(values), dtype=np.int64)
    codes[order] = (np.cumsum(is_first) - 1)[rows][np.cumsum(new) - 1]
    first = np.flatnonzero(is_first)
    return values[first], first, codes


def _means(prompt: Any, score: Any) -> ModelScores:
    """The scores of one model by prompt; within a prompt they are added in the order of their size."""
    if (prompt[1:] <= prompt[:-1]).any():
        order = np.lexsort((score, prompt))  # a score that is missing comes last
        prompt, score = prompt[order], score[order]
    start = np.flatnonzero(np.diff(prompt, prepend=-1))
    there = ~np.isnan(score)
    rows = np.diff(start, append=len(prompt))
    mean, count, variance = score, there.astype(np.int64), np.full(len(score), np.nan)
    if len(start) < len(score):
        count = np.add.reduceat(count, start)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.add.reduceat(np.where(there, score, 0.0), start) / count
            away = np.where(there, score - np.repeat(mean, rows), 0.0)
            variance = np.where(count > 1, np.add.reduceat(away * away, start) / (count - 1), np.nan)
    known = score[there]
    low, high = (float(known.min()), float(known.max())) if len(known) else (np.nan, np.nan)
    return ModelScores(prompt[start].astype(np.int64), mean, count, variance, rows - count, low, high)


LARGEST = 1e100
"""The square of a larger score would be none."""
BAD = "CAST('inf' AS DOUBLE)"
"""What stands for a cell that is no score."""
WHOLE_NUMBER = re.compile("^(-?[0-9]+)[.]0+$")
"""A whole number that is written with zeros behind its point: it is read without them."""


def _id_sql(column: RawColumn, layout: Layout) -> str:
    """An id as text, without blanks around it: 1, 1.0 and "1" are the same. Few texts need more than a look."""
    text = text_sql(column, layout)
    whole = f"regexp_replace(trim({text}), {literal(WHOLE_NUMBER.pattern)}, '\\1')"
    odd = f"{text} < '!' OR ends_with({text}, ' ') OR (ends_with({text}, '0') AND contains({text}, '.'))"
    return f"CASE WHEN {odd} THEN nullif({whole}, '') ELSE {text} END"


def _score_sql(column: RawColumn, layout: Layout) -> str:
    """A score: NULL or NaN where there is none, infinite where the cell holds anything else than a number, yes or no.

    Words are looked up in one place: what a query has twice, DuckDB computes for every row.
    """
    cell, cells = cell_sql(column, layout), cells_of(column, layout)
    if cells == "typed" and column.holds in ("number", "flag"):
        number = f"CAST({cell} AS DOUBLE)"
        return f"CASE WHEN isnan({number}) THEN NULL WHEN abs({number}) > {LARGEST:g} THEN {BAD} ELSE {number} END"
    text = text_sql(column, layout)
    number = f"TRY_CAST({text} AS DOUBLE)"
    words = {**dict.fromkeys(YES, 1.0), **dict.fromkeys(NO, 0.0), **dict.fromkeys(NOTHING, np.nan)}
    meant = f"map({list(words)}, {[f'{value}' for value in words.values()]}::DOUBLE[])[lower(trim({text}))]"
    word = f"coalesce({meant}, {BAD})"
    return f"CASE WHEN abs({number}) <= {LARGEST:g} THEN {number} WHEN {text} IS NOT NULL THEN {word} END"


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
