"""How a dimension's own matches were judged: the canaries, which are judged along with them, counted out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.judging.judge import Judged


@dataclass(frozen=True, slots=True)
class Counts:
    """Judgments, verdicts that failed (by name) and verdicts that were never given."""

    judgments: int
    failed_verdicts: Mapping[str, int]
    missing_verdicts: int


def own_counts(judged: Judged, dimension: str) -> Counts:
    """The counts of a dimension without its canaries: a judge that fails on those has failed on none of the matches."""
    stats = judged.stats[dimension]
    canaries = list(judged.canaries.get(dimension, ()))
    heard = [verdict for judgment in canaries for verdict in judgment.raw]
    failed = Counter(stats.failures)
    failed.subtract(verdict.verdict.value for verdict in heard if not verdict.verdict.readable)
    missing = 2 * len(canaries) - len(heard) if judged.both_orders else 0
    return Counts(stats.cases - len(canaries), dict(+failed), stats.missing - missing)
