"""Judgments that failed: how many, by name, and which questions."""

from __future__ import annotations

from collections import Counter

import msgspec

from tiltyard.judging.judge import JudgingResult
from tiltyard.judging.records import VerdictLabel

_LONGEST_WORDS = 300


class Counts(msgspec.Struct, frozen=True):
    """Judgments, failed verdicts (by name) and missing verdicts."""

    judgments: int
    failed_verdicts: Counter[str]
    missing_verdicts: int


def own_counts(judged: JudgingResult, dimension: str) -> Counts:
    """The counts of a dimension without its canaries: failures on those say nothing about the matches."""
    stats = judged.stats[dimension]
    canaries = list(judged.canaries.get(dimension, ()))
    heard = [verdict for judgment in canaries for verdict in judgment.raw]
    failed = Counter(stats.failures)
    failed.subtract(verdict.verdict.value for verdict in heard if not verdict.verdict.readable)
    per_case = stats.questions // max(1, stats.cases)
    missing = per_case * len(canaries) - len(heard) if judged.both_orders else 0
    return Counts(stats.cases - len(canaries), +failed, stats.missing - missing)


class FailedQuestion(msgspec.Struct, frozen=True):
    """A question that ended without a verdict. `entrant_a` was shown first, unless `position_swap`."""

    prompt_id: str
    entrant_a: str
    entrant_b: str
    position_swap: bool
    """Whether entrant_b's answer was shown first."""
    verdict: str
    """The name of the failure."""
    error: str
    """Why; for `error`, with the provider's message. For others the reply is in the report."""


def failed_questions(judged: JudgingResult, dimension: str, *, most: int) -> list[FailedQuestion]:
    """The first questions of a dimension that ended without a verdict, with the provider's reason if there is one.

    Where none failed, no verdict is read.
    """
    if not own_counts(judged, dimension).failed_verdicts:
        return []
    failed: list[FailedQuestion] = []
    for judgment in judged.judgments[dimension]:
        for verdict in judgment.raw:
            if len(failed) == most:
                return failed
            if not verdict.verdict.readable:
                label, why = verdict.verdict, verdict.error or verdict.verdict.value
                words = " ".join(verdict.reasoning.split()) if label is VerdictLabel.ERROR else ""
                why = f"{why}: {words[:_LONGEST_WORDS]}" if words else why
                who = judgment.prompt_id, judgment.entrant_a, judgment.entrant_b
                failed.append(FailedQuestion(*who, verdict.position_swap, label.value, why))
    return failed
