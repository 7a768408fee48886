"""Recorded verdicts as judge: verdicts are read from a file instead of asking a model.

A row names a pair and the verdict on it: `prompt_id, entrant_a, entrant_b, verdict`. The verdict (`A`, `B`, `TIE`, or a
named failure) refers to the answers as they were shown, entrant_a's as A. The other order is a row with the entrants
swapped, or a column `verdict_swapped` (again as shown: A is then entrant_b's answer). The files
`verdicts/<dimension>.jsonl` of a run can be read directly, and so can rows `prompt, left, right, winner`.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.data.bank import read_objects
from tiltyard.errors import BankError, JudgingError
from tiltyard.judge.llm import Progress
from tiltyard.judge.verdicts.plan import JudgingPlan
from tiltyard.judge.verdicts.records import Matchup, Verdict, VerdictLabel
from tiltyard.judge.verdicts.verdicts import JudgingOptions, JudgingStats, Verdicts

_WORDS = {word.value.lower(): word for word in VerdictLabel if word is not VerdictLabel.SCORED}
_SIDES = {"left": "A", "right": "B", "tie": "TIE"}
_Shown = tuple[str, str, str]
"""Prompt, the entrant shown as A, the entrant shown as B."""


class _Word(msgspec.Struct, frozen=True):
    label: VerdictLabel
    reasoning: str
    timestamp: str
    where: str
    score_a: float | None = None


class RecordedJudge:
    """Answers from a file of recorded verdicts (JSON Lines or CSV), and refuses a pair that is not in it.

    Parameters:
        path: The file of verdicts (JSON Lines or CSV).
        name: The judge's name in verdicts; None means `recorded/` and the file's name.
    """

    def __init__(self, path: str | Path, *, name: str | None = None) -> None:
        self._path = Path(path)
        self._name = name or f"recorded/{self._path.name}"
        self._words: dict[str | None, dict[_Shown, _Word]] = {}
        for where, row in _rows(self._path):
            for dimension, shown, word in _read_row(row, where):
                known = self._words.setdefault(dimension, {}).setdefault(shown, word)
                if known.label is not word.label:
                    raise JudgingError(
                        f"{where}: {word.label.value} for prompt {shown[0]!r}, {shown[1]!r} against {shown[2]!r}, "
                        f"but {known.where} says {known.label.value}. Remove one of them."
                    )
        if not self._words:
            raise JudgingError(f"{self._path}: the file holds no verdict.")

    @property
    def name(self) -> str:
        """`recorded/` and the name of the file."""
        return self._name

    @property
    def both_orders(self) -> bool:
        """Whether the file has both orders of every pair."""
        return all(
            (prompt, second, first) in words for words in self._words.values() for prompt, first, second in words
        )

    async def judge(self, plan: JudgingPlan, options: JudgingOptions) -> Verdicts:
        """The recorded verdicts on a plan; a pair missing from the file is an error that names it."""
        if plan.scoring:
            raise JudgingError(
                f"{self.name} holds verdicts on pairs, and judge.task asks for scores. Set it to pairs, or compare "
                "files of scores with `tiltyard compare`."
            )
        verdicts: dict[str, list[tuple[Verdict, ...]]] = {}
        for dimension in plan.dimensions:
            version = plan.rubrics[dimension].version
            verdicts[dimension] = [self._recall(case.matchup, version) for case in plan.cases_and_canaries(dimension)]
        recalled = _RecordedVerdicts(verdicts)
        if options.watch is not None:
            for dimension, stats in recalled.stats.items():
                options.watch(Progress(dimension, cached=stats.cache_hits))
        return recalled

    async def aclose(self) -> None:
        """Does nothing: there is no connection to close."""

    def _recall(self, matchup: Matchup, rubric_version: str) -> tuple[Verdict, ...]:
        """The verdicts recorded for a matchup, under its dimension or without one; forward first."""
        verdicts = []
        for swapped in (False, True):
            first, second = (matchup.entrant_a, matchup.entrant_b)[:: -1 if swapped else 1]
            shown = (matchup.prompt_id, first, second)
            word = self._words.get(matchup.dimension, {}).get(shown) or self._words.get(None, {}).get(shown)
            if word is not None:
                key = "\0".join((self.name, matchup.dimension, *shown))
                verdicts.append(
                    Verdict(
                        cache_key=hashlib.sha256(key.encode()).hexdigest(),
                        rubric_version=rubric_version,
                        judge_model=self.name,
                        position_swap=swapped,
                        verdict=word.label,
                        reasoning=word.reasoning,
                        timestamp=word.timestamp,
                        score_a=word.score_a,
                    )
                )
        if not verdicts:
            raise JudgingError(
                f"{self.name} has no verdict on prompt {matchup.prompt_id!r}, {matchup.entrant_a!r} against "
                f"{matchup.entrant_b!r}, on {matchup.dimension!r}. Add the pair to {self._path}, or ask a live judge."
            )
        return tuple(verdicts)


class _RecordedVerdicts:
    """Verdicts that all existed before the run."""

    def __init__(self, verdicts: dict[str, list[tuple[Verdict, ...]]]) -> None:
        self._verdicts = verdicts
        self.stats: dict[str, JudgingStats] = {}
        for dimension, by_case in verdicts.items():
            labels = Counter(verdict.verdict for case in by_case for verdict in case)
            total = sum(labels.values())
            failures = {word.value: count for word, count in labels.items() if not word.readable}
            hits = total - sum(failures.values())
            self.stats[dimension] = JudgingStats(len(by_case), total, cache_hits=hits, failures=failures)

    def verdicts(self, dimension: str, place: int) -> tuple[Verdict, ...]:
        return self._verdicts[dimension][place]


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if path.suffix.lower() in (".csv", ".tsv"):
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
                for row in reader:
                    yield f"{path}:{reader.line_num}", row
        except UnicodeDecodeError:
            raise JudgingError(f"{path}: the file is not UTF-8. Save it as UTF-8.") from None
        except csv.Error as error:
            raise JudgingError(f"{path}:{reader.reader.line_num}: {error}. Correct the line.") from None
        except OSError as error:
            raise JudgingError(f"cannot read the recorded verdicts {path}: {error.strerror}. Check the path.") from None
        return
    try:
        for number, record in read_objects(path, "file of recorded verdicts"):
            yield f"{path}:{number}", record
    except BankError as error:
        raise JudgingError(str(error)) from None


def _read_row(row: Mapping[str, Any], where: str) -> Iterator[tuple[str | None, _Shown, _Word]]:
    """The verdicts of a row: dimension, the pair as shown, the verdict."""
    if "left" in row and "right" in row and "winner" in row:
        row = {
            "prompt_id": row.get("prompt"),
            "entrant_a": row["left"],
            "entrant_b": row["right"],
            "verdict": _SIDES.get(str(row["winner"]).lower(), row["winner"]),
        }
    for name in ("prompt_id", "entrant_a", "entrant_b"):
        if row.get(name) in (None, ""):
            raise JudgingError(
                f"{where}: the row has no {name}. A recorded verdict names prompt_id, entrant_a and entrant_b."
            )
    prompt, first, second = (str(row[name]) for name in ("prompt_id", "entrant_a", "entrant_b"))
    dimension = str(row["dimension"]) if row.get("dimension") else None
    words = list(_words_of(row, where))
    if not words and "raw" not in row:  # a run writes an empty `raw` for a matchup that was never judged
        raise JudgingError(f"{where}: the row has no verdict. It needs `verdict`, `verdict_swapped` or `raw`.")
    for swapped, word in words:
        yield dimension, (prompt, second, first) if swapped else (prompt, first, second), word


def _words_of(row: Mapping[str, Any], where: str) -> Iterator[tuple[bool, _Word]]:
    """Each verdict of a row, with whether it was given on the swapped order."""
    when = str(row.get("timestamp") or "")
    for swapped, suffix in ((False, ""), (True, "_swapped")):
        if row.get(f"verdict{suffix}"):
            label = _label(row[f"verdict{suffix}"], where)
            yield swapped, _Word(label, str(row.get(f"reasoning{suffix}") or ""), when, where)
    raw = row.get("raw") or ()
    if not isinstance(raw, list | tuple) or any(not isinstance(one, dict) or "verdict" not in one for one in raw):
        raise JudgingError(f"{where}: `raw` must be a list of verdicts, as a run writes it.")
    judges = {str(record.get("judge_model")) for record in raw}
    if len(judges) > 1:
        raise JudgingError(
            f"{where}: these are the verdicts of a panel, {', '.join(sorted(judges))}, which no single judge gave. "
            "Name the judges themselves; what they said is cached."
        )
    for record in raw:
        if record.get("repeat"):
            continue  # a recording is what was said the first time
        word = _Word(
            _label(record["verdict"], where),
            str(record.get("reasoning") or ""),
            str(record.get("timestamp") or when),
            where,
            _share(record.get("score_a"), where),
        )
        yield bool(record.get("position_swap")), word


def _label(value: object, where: str) -> VerdictLabel:
    try:
        return _WORDS[str(value).strip().lower()]
    except KeyError:
        known = ", ".join(_WORDS.values())
        raise JudgingError(f"{where}: unknown verdict {value!r}. It is one of {known}.") from None


def _share(value: object, where: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise JudgingError(f"{where}: score_a is {value!r}; it is a number from 0 to 1.")
    return float(value)
