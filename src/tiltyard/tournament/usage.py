"""`usage.json`: tokens, cache reads and writes, and money, per dimension and in all."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from tiltyard.judging.judge import Judged, JudgingStats


def usage_report(judged: Judged) -> dict[str, Any]:
    """What the judging of a run took, canaries included; `cost_usd` is null where a price is not known.

    `failed` counts, by name, the queries that ended without a verdict.
    """
    rows = {dimension: _row(stats) for dimension, stats in judged.stats.items()}
    total: dict[str, Any] = {}
    for row in rows.values():
        for name, value in row.items():
            old = total.get(name, 0)
            total[name] = None if old is None or value is None else old + value
    failed: Counter[str] = Counter()
    for dimension, stats in judged.stats.items():
        rows[dimension]["failed"] = dict(stats.failures)
        failed.update(stats.failures)
    return {"judge_model": judged.judge_model, "dimensions": rows, "total": {**total, "failed": dict(failed)}}


def _row(stats: JudgingStats) -> dict[str, Any]:
    return {
        "queries": stats.questions,
        "cache_hits": stats.cache_hits,
        "fresh_calls": stats.fresh_calls,
        **msgspec.structs.asdict(stats.usage),
        "cost_usd": stats.cost,
    }
