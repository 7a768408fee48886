"""How a dimension's own matches were judged: the canaries, which are judged along with them, counted out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from tiltyard.judging.records import VerdictLabel

if TYPE_CHECKING:
    from tiltyard.judging.judge import JudgingResult
    from tiltyard.judging.records import Verdict

_LONGEST_WORDS = 300


@dataclass(frozen=True, slots=True)
class Counts:
    """Judgments, verdicts that failed (by name) and verdicts that were never given."""

    judgments: int
    failed_verdicts: Counter[str]
    missing_verdicts: int


@dataclass(frozen=True, slots=True)
class FailedQuestion:
    """A question that ended without a verdict. `entrant_a` was shown first, unless `position_swap`."""

    prompt_id: str
    entrant_a: str
    entrant_b: str
    position_swap: bool
    verdict: str
    error: str


def failed_questions(judged: JudgingResult, dimension: str, *, most: int) -> list[FailedQuestion]:
    """The first questions of a dimension that ended without a verdict, each with why, in the provider's words if any.

    Where none failed, no verdict is read.
    """
    if not own_counts(judged, dimension).failed_verdicts:
        return []
    found = (
        FailedQuestion(
            judgment.prompt_id,
            judgment.entrant_a,
            judgment.entrant_b,
            verdict.position_swap,
            verdict.verdict.value,
            _why(verdict),
        )
        for judgment in judged.judgments[dimension]
        if judgment.status != "ok"
        for verdict in judgment.raw
        if not verdict.verdict.readable
    )
    return list(islice(found, most))


def _why(verdict: Verdict) -> str:
    """What a failure is called, and for an error what the provider said; for others the reply is in the report."""
    why = verdict.error or verdict.verdict.value
    said = " ".join(verdict.reasoning.split()) if verdict.verdict is VerdictLabel.ERROR else ""
    return f"{why}: {said[:_LONGEST_WORDS]}" if said else why


def own_counts(judged: JudgingResult, dimension: str) -> Counts:
    """The counts of a dimension without its canaries: a judge that fails on those has failed on none of the matches."""
    stats = judged.stats[dimension]
    canaries = list(judged.canaries.get(dimension, ()))
    heard = [verdict for judgment in canaries for verdict in judgment.raw]
    failed = Counter(stats.failures)
    failed.subtract(verdict.verdict.value for verdict in heard if not verdict.verdict.readable)
    missing = 2 * len(canaries) - len(heard) if judged.both_orders else 0
    return Counts(stats.cases - len(canaries), +failed, stats.missing - missing)
