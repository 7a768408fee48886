"""Scored answers of other tools as battles.

The rule: on one prompt, in one repeat and by one metric, every two models with a score are one battle. The higher score
wins if it is higher by more than the tie band; otherwise it is a tie.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tiltyard.data.battles.battle import Outcome
from tiltyard.data.battles.careful import RawRow
from tiltyard.data.battles.settle import Reason
from tiltyard.errors import BattleError, NoBattles, OptionError

BATTLE = "tiltyard_battle"
"""Where the metadata of a score holds a battle."""

UNPAIRED = "scored for one model only"
"""How answers are counted that have no other to be compared with."""

ROUNDING = 1e-9
"""Scores that differ by no more are equal: 0.1 + 0.2 is 0.3."""


class ScoredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer and its scores by metric, of which larger is better.

    `prompt` is a name that is the same in every log of the same prompts, and `checksum` must be equal where prompts of
    one name are. `fault` says why there is no score, and `battles` are rows that a scorer decided (`battle_score`).
    """

    where: str
    prompt: str
    repeat: int = 1
    scores: dict[str, float] = {}
    fault: str | None = None
    checksum: str | None = None
    metadata: dict[str, Any] = {}
    battles: list[dict[str, Any]] = []
    negated: list[str] = []
    """Metrics of which less is better: their scores are here with the other sign."""


class ScoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """The answers of one model in one log; `settings` are what tells this run from others of the same model."""

    model: str
    file: str
    task: str | None = None
    settings: dict[str, str] = {}
    judge_model: str | None = None
    answers: list[ScoredAnswer]


class LoggedBattles(NamedTuple):
    """The battles of some logs as rows, and how many answers have no other to be compared with."""

    rows: list[RawRow]
    unpaired: int = 0


def check_tie_band(band: float | None) -> float:
    """The tie band, checked."""
    if band is None:
        return 0.0
    if not math.isfinite(band) or band < 0:
        raise OptionError(f"tie_band is {band}: expected a difference of scores that is 0 or more")
    return float(band)


def pair_scores(runs: Sequence[ScoredRun], band: float) -> LoggedBattles:
    """The battles of scored runs, in the order in which their prompts were first seen."""
    named = [(name, run) for name, run in zip(distinct_names(runs), runs, strict=True) if run.answers]
    groups: dict[tuple[str, int, str], dict[str, tuple[ScoredRun, ScoredAnswer]]] = defaultdict(dict)
    rows: list[RawRow] = []
    for name, run in named:
        for answer in run.answers:
            if answer.fault is not None:
                rows.append(RawRow(answer.where, {}, Reason.MISSING_SCORE, f"{name}: {answer.fault}"))
            about: dict[str, Any] = {"question_id": answer.prompt, "category": run.task, "repeat": answer.repeat}
            about["metadata"] = answer.metadata or None
            rows += [RawRow(answer.where, {**about, **battle}) for battle in answer.battles]
            for metric in answer.scores:
                scored = groups[answer.prompt, answer.repeat, metric]
                _check_same(name, answer, scored)
                scored[name] = run, answer
    for (_, _, metric), scored in groups.items():
        rows += [_battle(one, other, metric, scored, band) for one, other in combinations(sorted(scored), 2)]
    if groups and not rows:
        prompts: dict[str, set[str]] = defaultdict(set)
        for name, run in named:
            prompts[name] |= {answer.prompt for answer in run.answers}
        listed = ", ".join(f"{name} ({len(seen)} prompt{'s' * (len(seen) != 1)})" for name, seen in prompts.items())
        raise NoBattles(
            f"no prompt was scored for two models: there is {listed}. Name the logs of both, made from the same "
            "prompts."
        )
    return LoggedBattles(rows, sum(len(scored) == 1 for scored in groups.values()))


def _check_same(name: str, answer: ScoredAnswer, scored: Mapping[str, tuple[ScoredRun, ScoredAnswer]]) -> None:
    """Refuse a second answer of one model, and another prompt of the same name."""
    for other_name, (_, other) in scored.items():
        if other_name == name:
            raise BattleError(f"{answer.where}: {name} was scored before, at {other.where}. Leave one of the two out.")
        if None not in (other.checksum, answer.checksum) and other.checksum != answer.checksum:
            raise BattleError(
                f"{answer.where}: not the same prompt as {other.where}, though both are called {answer.prompt!r}. "
                "Name logs that were made from the same prompts."
            )


def battle_score(
    model_a: str,
    model_b: str,
    forward: str,
    backward: str | None = None,
    *,
    judge_model: str | None = None,
    explanation: str | None = None,
    **columns: Any,
) -> dict[str, Any]:
    """What a scorer of Inspect that compares two answers returns, as the arguments of its `Score`.

    The score is 1 if `model_a` won, 0 if `model_b` did, and ½ for a tie or where the two orders disagree, so Inspect's
    own mean is the share won. The battle itself is in the score's metadata, where `read_battles` finds it in the log.

    Parameters:
        model_a: Whose answer was shown first.
        model_b: Whose answer was shown second.
        forward: The verdict in that order: `A`, `B` or `TIE`.
        backward: The verdict with the answers swapped, of the answers as they were shown; None: one order was judged.
        judge_model: Who judged.
        explanation: The judge's words.
        columns: Further columns of the battle row, such as `category`.
    """
    first = _verdict(forward, "forward")
    second = first if backward is None else _verdict(backward, "backward").swapped
    winner = first if first is second else Outcome.TIE
    row: dict[str, Any] = {"model_a": model_a, "model_b": model_b, "winner": winner.value, **columns}
    row |= {"judge_model": judge_model} if judge_model is not None else {}
    row |= {"inconsistent": True} if first is not second else {}
    value = {Outcome.A: 1.0, Outcome.B: 0.0}.get(winner, 0.5)
    return {"value": value, "answer": winner.value, "explanation": explanation, "metadata": {BATTLE: row}}


def _verdict(word: str, name: str) -> Outcome:
    known = {"A": Outcome.A, "B": Outcome.B, "TIE": Outcome.TIE}
    if word.strip().upper() not in known:
        raise OptionError(f"{name} is {word!r}: expected A, B or TIE. A verdict that cannot be read is no tie.")
    return known[word.strip().upper()]


def _battle(
    one: str, other: str, metric: str, scored: Mapping[str, tuple[ScoredRun, ScoredAnswer]], band: float
) -> RawRow:
    (run, answer), (_, against) = scored[one], scored[other]
    lead = answer.scores[metric] - against.scores[metric]
    winner = Outcome.TIE if abs(lead) <= band + ROUNDING else Outcome.A if lead > 0 else Outcome.B
    row: dict[str, Any] = {
        "model_a": one,
        "model_b": other,
        "winner": winner.value,
        "question_id": answer.prompt,
        "dimension": metric or None,
        "category": run.task,
        "judge_model": run.judge_model,
        "value_a": answer.scores[metric],
        "value_b": against.scores[metric],
        "repeat": answer.repeat,
        "metadata": answer.metadata or None,
    }
    return RawRow(f"{answer.where} and {against.where}", row)


def distinct_names(runs: Sequence[ScoredRun]) -> list[str]:
    """A name for each run: its model; where several runs of one model share prompts, also what tells them apart."""
    names = [run.model for run in runs]
    for model in dict.fromkeys(names):
        members = [at for at, run in enumerate(runs) if run.model == model]
        scored = [
            {(answer.prompt, answer.repeat, metric) for answer in runs[at].answers for metric in answer.scores}
            for at in members
        ]
        if len(set().union(*scored)) < sum(map(len, scored)):
            for at, mark in zip(members, _marks([runs[at] for at in members]), strict=True):
                names[at] = f"{model} ({mark})"
    return names


def _marks(runs: Sequence[ScoredRun]) -> list[str]:
    """What tells runs of one model apart: the settings that differ, else the shortest part of the path that does."""
    keys = sorted({key for run in runs for key in run.settings})
    differing = [key for key in keys if len({run.settings.get(key) for run in runs}) > 1]
    marks = [", ".join(f"{key}={run.settings.get(key, '–')}" for key in differing) for run in runs]
    if differing and len(set(marks)) == len(runs):
        return marks
    return path_ends([Path(run.file).with_suffix("").parts for run in runs])


def path_ends(paths: Sequence[Sequence[str]]) -> list[str]:
    """Of each path as many of its last parts as tell all of them apart."""
    ends: list[str] = []
    for depth in range(1, 1 + max(map(len, paths), default=0)):
        ends = ["/".join(parts[-depth:]) for parts in paths]
        if len(set(ends)) == len(paths):
            break
    return ends
