"""The verbs about files of battles: `check`, `stats`, `inspect`, `eval_records`; and what converts and draws them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.analysis.boards import Evaluator as Evaluator
from tiltyard.analysis.boards import RatingsFile, rate, write_eval_records
from tiltyard.data.battles import BadRows, BattleStats, Opened, Peek, battle_stats, find_problems, peek
from tiltyard.data.battles import kind_to_write as kind_to_write
from tiltyard.data.battles import read_battles as read_battles
from tiltyard.data.battles import write_battles as write_battles
from tiltyard.data.battles import write_dataset as write_dataset
from tiltyard.data.battles import write_lines as write_lines
from tiltyard.data.scores import ReadScoresOptions, holds_scores, read_scores
from tiltyard.errors import Message, OptionError, OptionValue, TiltyardError
from tiltyard.judge.tournament import write_sheet as write_sheet
from tiltyard.judge.verdicts import read_object
from tiltyard.options import ReadingOptions, accepts_options
from tiltyard.verbs.rendered import Rendered

STATS_COLUMNS = ("question_id", "judge_model", "dimension", "inconsistent")


class CheckedBattles(msgspec.Struct, frozen=True):
    """What is wrong with battles: how many rows there are of each kind of problem, and the first few."""

    battles: float
    bad_rows: BadRows
    format: str
    """Their format; empty where a row is bad."""

    @property
    def passed(self) -> bool:
        return not self.bad_rows.counts

    @property
    def message(self) -> Message:
        """The problems in words, with options in the advice."""
        odd = [f"{one}." for one in self.bad_rows.odd]
        if self.passed:
            good = f"{counted(self.battles, 'battle')}, no problem found (format: {self.format})."
            return Message("\n".join([good, *odd]))
        bad = sum(self.bad_rows.counts.values())
        parts: list[str | OptionValue] = [f"{counted(bad, 'bad row')}, {counted(self.battles, 'good battle')}."]
        for reason, count in sorted(self.bad_rows.counts.items()):
            parts.append(f"\n\n{reason.label}: {counted(count, 'row')}")
            examples = self.bad_rows.examples.get(reason, [])
            parts += [f"\n  {problem.where}: {problem.detail}" for problem in examples]
            if count > len(examples):
                parts.append(f"\n  … and {count - len(examples):,} more")
            if examples and any(isinstance(part, OptionValue) for part in examples[0].advice):
                parts += ["\n  ", *examples[0].advice, "."]
        return Message(*parts, "\n" if odd else "", *(f"\n{one}" for one in odd))


@accepts_options(ReadingOptions)
def check(files: Any, options: ReadingOptions) -> CheckedBattles:
    """What is wrong with battles: each kind of problem, how often, and the first few.

    Parameters:
        files: Where the battles are; see `read_battles`.
    """
    options.refuse(["on_bad"], ": every bad row is counted. Leave it out.")
    opened = Opened.of(files)
    battles, bad_rows = find_problems(opened, **options.given())
    return CheckedBattles(battles, bad_rows, "" if bad_rows.counts else _peek(opened, options).format)


def _peek(files: Any, options: ReadingOptions) -> Peek:
    return peek(files, options.format, options.default_source, options.map)


@accepts_options(ReadingOptions)
def stats(files: Any, options: ReadingOptions) -> Rendered:
    """Count what battles hold: models, outcomes, who met whom, and who cannot be compared.

    Parameters:
        files: Where the battles are; see `read_battles`.
    """
    present = _peek(files, options).columns
    columns = [name for name in STATS_COLUMNS if name in present]
    hashed = [name for name in columns if name == "question_id"]
    table = read_battles(files, **vars(options), columns=columns, counted=not hashed, hashed=hashed)
    counts = battle_stats(table)
    rows = _rows(counts)
    width = max(len(name) for name, _ in rows)
    return Rendered(counts.to_dict(), "\n".join(f"{name:<{width}}  {value}" for name, value in rows))


@accepts_options(ReadingOptions)
def inspect(files: Any, options: ReadingOptions) -> Rendered:
    """What files hold: battles or scores, their columns and models, and what is wrong with them.

    Parameters:
        files: Files, or a folder.
    """
    opened, reading = Opened.of(files), options.part(ReadScoresOptions)
    headers = [opened.header(part) for part in opened.parts if opened.tool(part, options.format) is None]
    columns = list(dict.fromkeys(name for header in headers for name in header.top_names))
    given = {name: value for name, value in vars(options).items() if name != "on_bad"}
    values: dict[str, Any] = {"holds": "unknown", "columns": columns}
    try:
        if holds_scores(opened, reading):
            tables = {one.metric: one for one in read_scores(opened, **vars(reading))}
            metrics = {name: {"models": [*one.models], "n_prompts": len(one.prompts)} for name, one in tables.items()}
            values |= {"holds": "scores", "metrics": metrics}
            lines = [
                f"{name}: {counted(len(one.prompts), 'prompt')}, {counted(len(one.models), 'model')}"
                for name, one in tables.items()
            ]
        else:
            checked, counts = check(opened, **given), stats(opened, **given, on_bad="skip")
            values |= {"holds": "battles", "format": checked.format, "counts": counts.values}
            lines = [counts.text]
            if not checked.passed:
                values["problems"] = str(checked.message)
                lines.append(checked.message)
    except TiltyardError as error:
        values["problems"] = str(error)
        lines = [str(error)]
    return Rendered(values, "\n".join([f"holds {values['holds']}; columns: {', '.join(columns)}", *lines]))


def eval_records(out: str | Path, source: str | Path, by: Evaluator) -> list[Path]:
    """Write ratings as records of Every Eval Ever, a shared format of evaluation results: one file for each model.

    Parameters:
        out: The folder to write `data/…` into.
        source: A run folder, a ratings file, or battles, which are rated first.
        by: Who evaluated.
    """
    path, when = Path(source), None
    reports: dict[str, RatingsFile]
    if (path / "manifest.json").is_file():
        files = sorted((path / "ratings").glob("*.json")) or sorted(path.glob("elo_ratings.json"))
        if not files:
            raise OptionError(f"{source} has no ratings: its run has not finished, or nothing could be rated.")
        when = read_object(path / "manifest.json").get("finished_at")
        reports = {"" if one.stem == "elo_ratings" else one.stem: RatingsFile.read(one) for one in files}
    elif path.suffix == ".json" and path.is_file() and b'"ratings"' in path.read_bytes():
        reports = {"": RatingsFile.read(path)}
    else:
        reports = {"": RatingsFile.of(rate(source))}
    return write_eval_records(out, reports, by, retrieved_at=round(time.time(), 3), when=when)


def counted(number: float, noun: str) -> str:
    """A number and what is counted."""
    return f"{_number(number)} {noun}{'' if number == 1 else 's'}"


def reasons(skipped: Mapping[str, int]) -> str:
    """Why rows were skipped, and how many."""
    return ", ".join(f"{count:,} × {reason}" for reason, count in skipped.items())


def _rows(stats: BattleStats) -> list[tuple[str, str]]:
    spread = {name: _number(value) for name, value in stats.battles_per_model.items()}
    islands = "1 (every model can be compared with every other)"
    if len(stats.islands) > 1:
        sizes = ", ".join(f"{len(island)} ({_names(island, 3)})" for island in stats.islands[:5])
        islands = f"{len(stats.islands)}: models in different islands cannot be compared; {sizes}"
    rows = [
        ("battles", _number(stats.battles)),
        ("models", _number(stats.models)),
        ("prompts", "" if stats.prompts is None else _number(stats.prompts)),
        ("decided by", ", ".join(f"{label} {_number(count)}" for label, count in stats.sources.items())),
        ("decisive", _share(stats.decisive, stats.battles)),
        ("ties", _share(stats.outcomes["tie"], stats.battles)),
        ("both bad", _share(stats.outcomes["tie (bothbad)"], stats.battles)),
        ("battles per model", f"{spread['min']} to {spread['max']}, median {spread['median']}"),
        ("pairs that met", f"{_number(stats.pairs_met)} of {_number(stats.pairs_possible)}"),
        ("islands", islands),
        ("never won", _names(stats.never_won)),
        ("never lost", _names(stats.never_lost)),
        ("soft scores", _share(stats.soft, stats.battles) if stats.soft else ""),
        ("inconsistent", _share(stats.inconsistent, stats.battles) if stats.inconsistent else ""),
        ("dimensions", _names(stats.dimensions) if stats.dimensions else ""),
        ("judges", _names(stats.judges) if stats.judges else ""),
        ("rows skipped", reasons(stats.skipped)),
    ]
    return [(name, text) for name, text in rows if text or name == "decided by"]


def _names(names: tuple[str, ...], at_most: int = 8) -> str:
    rest = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + rest if names else "none"


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def _share(part: float, whole: float) -> str:
    return f"{_number(part)} ({part / whole:.1%})" if whole else _number(part)
