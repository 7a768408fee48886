"""The readers of logs and exports of other tools: one small record each, in one table; others plug in by name.

A package adds a reader with an entry point of the group `tiltyard.readers`, whose name is that of the format and whose
value is a `LogReader`. It is used when the format is named. `check_log_reader` is its contract.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec

from tiltyard.battles.eval_exports import (
    EXPORT_ERRORS,
    deepeval_runs,
    langfuse_runs,
    open_webui_battles,
    otel_runs,
    phoenix_runs,
)
from tiltyard.battles.eval_logs import (
    JUDGMENT_KEYS,
    LM_EVAL_KEYS,
    LM_EVAL_SUMMARY,
    PAIR_KEYS,
    PROMPTFOO_START,
    SINGLE_KEYS,
    LoggedBattles,
    ScoredRun,
    document,
    inspect_runs,
    judgment_battles,
    lm_eval_runs,
    mt_bench_battles,
    mt_bench_runs,
    pair_scores,
    promptfoo_runs,
)
from tiltyard.battles.formats import FORMAT_NAMES
from tiltyard.battles.inputs import DAMAGED, UTF_8_MARK, FileKind, Part, damage, find_parts, json_object
from tiltyard.errors import BattleError, OptionError

GROUP = "tiltyard.readers"
"""The group of entry points."""
START_BYTES = 4096


class LogStart(msgspec.Struct, frozen=True):
    """The first bytes of a file of JSON, and the keys of its first line if that is an object."""

    content: bytes
    keys: frozenset[str]


class LogReader(msgspec.Struct, frozen=True, kw_only=True):
    """How the files of one tool are read.

    Parameters:
        name: What the format is called.
        recognises: Whether a file of JSON is one of its own, by its start; a reader that plugs in is named instead.
        runs: The scores in a file, by model; None where files hold votes.
        battles: The battles in some files, with a tie band; None: made of the scores.
    """

    name: str
    recognises: Callable[[LogStart], bool] = lambda _: False
    runs: Callable[[Part], list[ScoredRun]] | None = None
    battles: Callable[[Sequence[Part], float], LoggedBattles] | None = None


def _starts(pattern: bytes) -> Callable[[LogStart], bool]:
    return lambda start: re.match(pattern, start.content) is not None


READERS = {
    reader.name: reader
    for reader in (
        LogReader(
            name="inspect", recognises=_starts(rb'\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:'), runs=inspect_runs
        ),
        LogReader(name="promptfoo", runs=promptfoo_runs),  # told from a summary of lm-eval by the whole file
        LogReader(name="lm-eval", recognises=lambda start: start.keys >= LM_EVAL_KEYS, runs=lm_eval_runs),
        LogReader(
            name="mt-bench",
            recognises=lambda start: start.keys >= PAIR_KEYS or start.keys >= SINGLE_KEYS,
            runs=mt_bench_runs,
            battles=mt_bench_battles,
        ),
        LogReader(name="verdicts", recognises=lambda start: start.keys >= JUDGMENT_KEYS, battles=judgment_battles),
        LogReader(
            name="deepeval",
            recognises=_starts(rb'\{\s*"(testRunData"\s*:\s*\{\s*")?(testFile|testCases)"'),
            runs=deepeval_runs,
        ),
        LogReader(
            name="langfuse",
            recognises=lambda start: start.content[:1] in b"[{" and b'"experimentItemId"' in start.content,
            runs=langfuse_runs,
        ),
        LogReader(name="phoenix", recognises=_starts(rb'\[\s*\{\s*"example_id"\s*:'), runs=phoenix_runs),
        LogReader(name="otel", recognises=_starts(rb'\{\s*"resourceSpans"\s*:'), runs=otel_runs),
        LogReader(
            name="open-webui",
            recognises=_starts(rb'\[\s*\{\s*"id"\s*:[^{}]*"type"\s*:\s*"rating"'),
            battles=open_webui_battles,
        ),
    )
}
"""Every reader of our own, in the order in which a file is tried against them."""


@cache
def log_reader(name: str) -> LogReader | None:
    """The reader of that name, our own or one that plugs in; None where there is none."""
    if name in FORMAT_NAMES:
        return READERS.get(name)
    from importlib.metadata import entry_points

    found = next(iter(entry_points(group=GROUP, name=name)), None)
    if found is None:
        return None
    try:
        reader = found.load()
    except Exception as error:  # whatever a foreign package raises
        raise OptionError(f"the reader {name!r} of {found.value} cannot be loaded: {error}. Update it.") from None
    if not isinstance(reader, LogReader):
        raise OptionError(f"the reader {name!r} of {found.value} is no LogReader. Update it.")
    return reader


def tool_of(part: Part, format: str) -> str | None:
    """The tool that wrote a file: by its contents, or as named where that reader plugs in."""
    plugged = format not in READERS and format != "auto" and log_reader(format) is not None
    return format if plugged else recognise_log(part)


def recognise_log(part: Part) -> str | None:
    """The tool that wrote a file, by its contents; None for anything else."""
    if not part.kind.is_json:
        return "inspect" if part.kind is FileKind.ZIP else None
    try:
        with part.open() as file:
            content = file.read(START_BYTES).removeprefix(UTF_8_MARK).lstrip()
        if PROMPTFOO_START.match(content):
            whole = document(part)
            held = whole.get("results")
            if isinstance(held, dict) and isinstance(held.get("results"), list):
                return "promptfoo"
            return LM_EVAL_SUMMARY if "config" in whole or "configs" in whole else None
        with part.open() as file:
            line = next((line for line in file if line.strip()), b"")
    except DAMAGED as error:
        raise damage(part.name, error) from None
    keys = (json_object(line.removeprefix(UTF_8_MARK)) or {}).keys()
    start = LogStart(content, frozenset(keys))
    return next((reader.name for reader in READERS.values() if reader.recognises(start)), None)


def _reader(tool: str) -> LogReader:
    reader = log_reader(tool)
    assert reader is not None  # it was recognised, or looked up by name
    return reader


def read_logs(tool: str, parts: Sequence[Part], band: float) -> LoggedBattles:
    """The battles in the logs of one tool; two models may be in one log or in two."""
    reader = _reader(tool)
    if reader.battles is None:
        return pair_scores(read_runs(tool, parts), band)
    try:
        return reader.battles(parts, band)
    except DAMAGED as error:
        raise damage(parts[0].name, error) from None


def read_runs(tool: str, parts: Sequence[Part]) -> list[ScoredRun]:
    """The scores in the logs of one tool, by model."""
    reader, part = _reader(tool), parts[0]
    if reader.runs is None:
        raise BattleError(f"{part.name} holds votes, not scores. Compare or rate it without score options.")
    try:
        return [run for part in parts for run in reader.runs(part)]
    except DAMAGED as error:
        raise damage(part.name, error) from None
    except EXPORT_ERRORS as error:
        raise BattleError(
            f"{part.name} is not as {tool} writes it ({type(error).__name__}: {error}). Check what wrote it."
        ) from None


def check_log_reader(reader: LogReader, sample: str | Path) -> list[ScoredRun]:
    """The contract of a reader, for a test of your own: a real file of the tool is read as the rest relies on.

    Raises `OptionError` with what does not hold; returns the runs, for checks of your own.
    """
    (part,) = find_parts(sample)
    wrong = f"the reader {reader.name!r}, {part.name}: "
    if reader.runs is None:
        raise OptionError(wrong, "a reader needs `runs`.")
    runs = reader.runs(part)
    answers = [answer for run in runs for answer in run.answers]
    if not any(answer.scores for answer in answers):
        raise OptionError(wrong, "no answer with a score. Give a sample with some.")
    if runs != reader.runs(part):
        raise OptionError(wrong, "a second reading gives another result.")
    for run in runs:
        if not run.model or len({(one.prompt, one.repeat) for one in run.answers}) < len(run.answers):
            raise OptionError(wrong, f"{run.model!r} has no name, or two answers of one prompt and repeat.")
    for answer in answers:
        if not answer.prompt or not all(math.isfinite(value) for value in answer.scores.values()):
            raise OptionError(wrong, f"{answer.where}: no prompt, or a score that is not finite.")
        if not answer.scores and answer.fault is None and not answer.battles:
            raise OptionError(wrong, f"{answer.where}: without a score, `fault` says why.")
    return runs
