"""`usage.json`: tokens, cache reads and writes, and money, per dimension and in all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from tiltyard.judging.judge import Judged, JudgingStats


def usage_report(judged: Judged) -> dict[str, Any]:
    """What the judging of a run took; `cost_usd` is null where a price is not known."""
    rows = {dimension: _row(stats) for dimension, stats in judged.stats.items()}
    total: dict[str, Any] = {}
    for row in rows.values():
        for name, value in row.items():
            old = total.get(name, 0)
            total[name] = None if old is None or value is None else old + value
    return {"judge_model": judged.judge_model, "dimensions": rows, "total": total}


def _row(stats: JudgingStats) -> dict[str, Any]:
    return {
        "queries": stats.questions,
        "cache_hits": stats.cache_hits,
        "fresh_calls": stats.fresh_calls,
        **msgspec.structs.asdict(stats.usage),
        "cost_usd": stats.cost,
    }
