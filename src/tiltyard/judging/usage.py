"""`usage.json`: tokens, cache reads and writes, and money, per dimension and in all."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from tiltyard.llm.records import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tiltyard.judging.judge import JudgingResult, JudgingStats
    from tiltyard.judging.records import Judgment
    from tiltyard.llm.prices import PriceTable


def usage_report(judged: JudgingResult, prices: PriceTable) -> dict[str, Any]:
    """What the judging of a run took, canaries included; `cost_usd` is null where a price is not known.

    `replies_without_usage` were paid for, but the provider did not state their tokens: they are in no other figure.
    Tokens and cost are what this command asked for. Those under `verdicts` are of all verdicts that the run rests on,
    whichever command asked for them: after a crash or a second run, the first part is less. `failed` counts, by name,
    the queries that ended without a verdict.
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
        rows[dimension]["verdicts"] = _kept(judged.judgments.get(dimension, ()), prices)
        failed.update(stats.failures)
    return {"judge_model": judged.judge_model, "dimensions": rows, "total": {**total, "failed": dict(failed)}}


def _row(stats: JudgingStats) -> dict[str, Any]:
    return {
        "queries": stats.questions,
        "cache_hits": stats.cache_hits,
        "fresh_calls": stats.fresh_calls,
        **msgspec.structs.asdict(stats.usage),
        "cost_usd": stats.cost,
        "replies_without_usage": stats.replies_without_usage,
    }


def _kept(judgments: Iterable[Judgment], prices: PriceTable) -> dict[str, Any]:
    """Tokens and cost of the verdicts of these judgments."""
    usage, cost, count, without_usage = Usage(), 0.0, 0, 0
    known = True
    for judgment in judgments:
        for verdict in judgment.raw:
            stated = verdict.usage
            count += 1
            without_usage += stated is None
            usage += stated or Usage()
            price = prices.cost(verdict.judge_model, stated or Usage(), verdict.batched)
            known = known and price is not None
            cost += price or 0.0
    return {
        "count": count,
        **msgspec.structs.asdict(usage),
        "cost_usd": cost if known else None,
        "replies_without_usage": without_usage,
    }
