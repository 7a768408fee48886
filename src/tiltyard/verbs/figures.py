"""The numbers of an answer by name, as other tools keep them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tiltyard.analysis.boards import BoardsByValue, EloReport, Leaderboard
from tiltyard.analysis.decisions import (
    Difference,
    GateResult,
    MetricsComparison,
    MetricsGate,
    RunComparison,
    ScoreBoard,
    ScoreBoards,
)


class Figures(msgspec.Struct, frozen=True):
    """The numbers of one answer.

    Parameters:
        title: What they are about, such as `v2 against v1`.
        numbers: By name; several models, dimensions or metrics are told apart by a slash.
        labels: What is known besides: the models, the sentence, a verdict.
    """

    title: str
    numbers: Mapping[str, float]
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)


def _known(numbers: Mapping[str, float | None], within: str = "") -> dict[str, float]:
    return {f"{within}{name}": float(value) for name, value in numbers.items() if value is not None}


def _of_difference(one: Difference, within: str = "") -> dict[str, float]:
    numbers: dict[str, float | None] = {name: getattr(one, name) for name in ("difference", "low", "high")}
    numbers |= {"probability_better": one.probability_better, "n_prompts": one.n_prompts}
    numbers |= {name: getattr(one, name) for name in ("n_battles", "new_mean", "old_mean") if hasattr(one, name)}
    return _known(numbers, within)


def _of_differences(some: Mapping[str, Difference], about: Any, sentence: str) -> Figures:
    numbers: dict[str, float] = {}
    for name, one in some.items():
        numbers |= _of_difference(one, f"{name}/" if name else "")
    return Figures(
        f"{about.new} against {about.old}", numbers, {"new": about.new, "old": about.old, "sentence": sentence}
    )


def figures_of_comparison(answer: Difference | MetricsComparison | RunComparison) -> Figures:
    """Those of `compare`: of two models by one metric or several, or of each entrant of two runs."""
    if isinstance(answer, RunComparison):
        changes = {change.entrant: change.difference for change in answer.changes}
        return _of_differences(changes, answer, answer.sentence)
    some = getattr(answer, "metrics", {"": answer})
    return _of_differences(some, next(iter(some.values())), answer.sentence)


def figures_of_gate(result: GateResult | MetricsGate) -> Figures:
    """Those of `gate`: each difference, and whether it passed."""
    metrics = getattr(result, "metrics", {"": result})
    some = {metric: each.difference for metric, each in metrics.items()}
    one = _of_differences(some, next(iter(some.values())), " ".join(each.sentence for each in some.values()))
    gate = _known({"passed": float(result.passed)})
    for metric, each in metrics.items():
        gate |= _known({"margin": each.margin, "bound": each.bound}, f"{metric}/" if metric else "")
        for part in each.dimensions:
            gate |= _known({"difference": part.difference, "low": part.low, "high": part.high}, f"{part.value}/")
    return Figures(one.title, {**one.numbers, **gate}, {**one.labels, "verdict": result.verdict})


def figures_of_rating(answer: Leaderboard | BoardsByValue | ScoreBoard | ScoreBoards) -> Figures:
    """Those of `rate`: of ratings, or of mean scores, the mean of each model by metric."""
    if not isinstance(answer, ScoreBoard | ScoreBoards):
        return figures_of_boards(getattr(answer, "boards", {"": answer}))
    numbers: dict[str, float] = {}
    for board in [answer] if isinstance(answer, ScoreBoard) else answer.metrics.values():
        for one in board.entries:
            known = {"mean": one.mean, "low": one.low, "high": one.high, "rank": one.rank, "n_prompts": one.n_prompts}
            numbers |= _known(known, f"{board.metric}/{one.model}/" if board.metric else f"{one.model}/")
    return Figures("mean scores", numbers)


def figures_of_boards(boards: Mapping[str, Leaderboard | EloReport]) -> Figures:
    """Those of `rate` and `run`: the rating of each model, by dimension or value of a column."""
    numbers: dict[str, float] = {}
    for value, board in boards.items():
        for entry in board:
            known = {"rating": entry.rating, "ci_low": entry.ci_low, "ci_high": entry.ci_high, "rank": entry.rank}
            numbers |= _known(known, f"{value}/{entry.model}/" if value else f"{entry.model}/")
    return Figures("ratings", numbers)
