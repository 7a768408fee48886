"""The scores of a run, as its report shows them: the answer in words, boards of means, and the judge's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tiltyard.analysis.decisions.compare_scores import compare_scores
from tiltyard.errors import TiltyardError
from tiltyard.judge.tournament import ANSWERS_FOLDER, SCORES_FILE, AnswerLine, DimensionScores
from tiltyard.judge.verdicts import SCALES, read_lines
from tiltyard.options import CompareOptions
from tiltyard.render import svg
from tiltyard.reports.front import listed
from tiltyard.reports.run import Run

MOST_PROMPTS = 100
"""Prompts whose answers a report shows with their scores: those on which the scores differ most."""


def answer(run: Run, scores: DimensionScores) -> str:
    """The answer by scores, in a sentence."""
    whole = scores.whole
    if whole is None:
        return "Criteria without weights are not averaged: see each of them."
    rows = (whole.board or {}).get("scores") or []
    if not rows:
        return "No answer has a readable score."
    if len(rows) == 1:
        return f"Only {rows[0]['model']} has scores."
    first, second = rows[0]["model"], rows[1]["model"]
    scale = SCALES[scores.scale]
    try:
        metric, bounds = [f"{whole.metric}:higher"], (scale.low, scale.high)
        options = CompareOptions(score=metric, bounds=bounds, by=())
        (sentence,) = (
            result.sentence for result in compare_scores(run.folder / SCORES_FILE, first, second, options).values()
        )
    except TiltyardError as error:
        return str(error)
    sentence = f"{sentence[0].upper()}{sentence[1:]}" if sentence.startswith("cannot") else sentence
    rivals = [row["model"] for row in rows[1:] if row["rank_low"] == 1]
    if len(rows) == 2 or rows[0]["mean"] == rows[1]["mean"]:
        return sentence
    others = "any other" if len(rivals) == len(rows) - 1 else listed(rivals, "or")
    return f"{first} leads, but {others} could be best. {sentence}" if rivals else f"{first} is best. {sentence}"


def means(scores: DimensionScores) -> dict[str, Any]:
    """The board of a dimension: for each model its mean, and those of the criteria beside it."""
    boards: dict[str, dict[str, Mapping[str, Any]]] = {
        one.metric: {row["model"]: row for row in one.board.get("scores", ())} for one in scores.metrics if one.board
    }
    first = next(iter(boards.values()), {})
    scale = SCALES[scores.scale]
    between = (0.25, 0.5, 0.75) if scale.high <= 1 else tuple(map(float, range(int(scale.low) + 1, int(scale.high), 2)))
    return {
        "models": list(first),
        "boards": boards,
        "missing": any(row.get("missing") is not None for row in first.values()),
        "whole": scores.whole is not None,
        "scale": svg.Scale(scale.low, scale.high, between),
        "digits": 2 if scale.high <= 1 else 1,
    }


def criterion(metric: str, dimension: str) -> str:
    """A metric's name within its dimension."""
    return metric.removeprefix(f"{dimension}.")


def prompts(run: Run, scores: DimensionScores) -> dict[str, Any]:
    """The prompts on which scores differ most: the text, and each entrant's answer, score and the judge's words."""
    path = run.folder / ANSWERS_FOLDER / f"{scores.dimension}.jsonl"
    by_prompt: dict[str, dict[str, AnswerLine]] = {}
    for _, line in read_lines(path, msgspec.json.Decoder(AnswerLine)) if path.is_file() else ():
        by_prompt.setdefault(line.prompt_id, {})[line.entrant] = line

    def spread(lines: Mapping[str, AnswerLine]) -> float:
        sums = [sum(one.scores.values()) for one in lines.values() if one.status == "ok"]
        return max(sums) - min(sums) if sums else 0.0

    ordered = sorted(by_prompt.items(), key=lambda item: -spread(item[1]))
    return {"shown": ordered[:MOST_PROMPTS], "total": len(ordered)}


def words(line: AnswerLine) -> list[tuple[str, str]]:
    """What each judge said of an answer, or why there is no score."""
    return [(one.judge_model, one.error or one.reasoning) for one in line.raw]
