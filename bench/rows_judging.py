"""The row of the benchmark about judging: planning, the verdict cache, requests at once, batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.measure import in_worker
from bench.report import Row

if TYPE_CHECKING:
    from bench.measure import Cost
    from bench.rows import Plan

CONCURRENCY = 64
MAX_OVERHEAD = 0.10
MAX_GROWTH = 0.10
REPLY_CHARACTERS = 2000


def judging(plan: Plan) -> Row:
    """Everything except the judge's own computation."""
    pairs, entries = plan.size(100_000, 2_000), plan.size(1_000_000, 20_000)
    row = Row("judging", f"judging, {pairs:,} pairs in both orders; {entries:,} kept verdicts; {CONCURRENCY} at once")
    _settling(row, pairs)
    _cache(row, entries)
    for latency in (0.2, 0.05):
        _overhead(row, plan, latency)
    _batches(row, plan)
    return row


def _settling(row: Row, pairs: int) -> None:
    made = row.add(f"plan {pairs:,} pairs", "tiltyard", in_worker("judging_plan", {"pairs": pairs}), ours=True)
    job = f"plan + settle {pairs:,} pairs, all cached"
    settled = row.add(job, "tiltyard", in_worker("judging_settle", {"pairs": pairs}), ours=True)
    if made:
        row.check(f"two different questions for each pair: {made['questions']:,}", made["questions"] == 2 * pairs)
    if settled:
        ended = settled["ended"]
        right = settled["asked"] == 0 and ended == dict.fromkeys(("a", "b", "tie", "inconsistent"), pairs // 4)
        text = ", ".join(f"{name} {count:,}" for name, count in sorted(ended.items()))
        row.check(f"pairs end as the kept verdicts say and nothing is asked: {text}", right)


def _cache(row: Row, entries: int) -> None:
    size = {"entries": entries}
    loaded = row.add(f"load {entries:,} verdicts", "tiltyard", in_worker("cache_load", size), ours=True)
    if loaded:
        text = f"a cache of {loaded['mb']:,.0f} MB has every verdict: {loaded['entries']:,}"
        row.check(text, loaded["entries"] == entries)
    for what, whole in (("is it there", False), ("the verdict", True)):
        job = f"look up {entries:,} keys: {what}"
        found = row.add(job, "tiltyard", in_worker("cache_look_up", size | {"whole": whole}), ours=True)
        if found:
            row.check(f"{job}: {found['found']:,} found", found["found"] == entries)


def _overhead(row: Row, plan: Plan, latency: float) -> None:
    """Ours compared with the bare SDK, on the same transport and on its default one."""
    requests = plan.size(6_400, 320)
    size = {"requests": requests, "concurrency": CONCURRENCY, "latency": latency, "repeats": 2}
    job = f"{requests:,} requests of {1000 * latency:.0f} ms"
    answers = {"tiltyard": in_worker("requests_ours", size)}
    answers["anthropic SDK, aiohttp as ours"] = in_worker("requests_bare", size | {"aiohttp": True})
    answers["anthropic SDK as it comes"] = in_worker("requests_bare", size | {"aiohttp": False})
    found = {who: row.add(job, who, answer, ours=who == "tiltyard") for who, answer in answers.items()}
    ours = answers["tiltyard"].cost
    _same_requests(row, job, requests, found)
    for who, answer in answers.items():
        if who == "tiltyard" or not ours or not answer.cost:
            continue
        text, wall = _compared(ours, answer.cost, requests)
        row.goal(
            f"{job}: goal under {100 * MAX_OVERHEAD:.0f} % more wall time than {who} → {text}", wall < MAX_OVERHEAD
        )


def _compared(ours: Cost, bare: Cost, requests: int) -> tuple[str, float]:
    wall = ours.wall_seconds / bare.wall_seconds - 1
    cpu = 1000 * (ours.cpu_seconds - bare.cpu_seconds) / requests
    return f"{100 * wall:+.1f} % ({cpu:+.2f} ms of CPU per request)", wall


def _same_requests(row: Row, job: str, requests: int, found: dict[str, Any]) -> None:
    there = [result for result in found.values() if result]
    same = len({result["digest"] for result in there}) == 1
    whole = all(result["answers"] == result["requests"] == requests for result in there)
    row.check(f"{job}: the server saw the same {requests:,} requests from all, and all were answered", same and whole)


def _batches(row: Row, plan: Plan) -> None:
    for requests in (plan.size(20_000, 1_000), plan.size(100_000, 5_000)):
        job = f"batch of {requests:,} sent and collected"
        size = {"requests": requests, "characters": REPLY_CHARACTERS}
        found = row.add(job, "tiltyard", in_worker("batch_collected", size), ours=True)
        if not found:
            continue
        row.check(f"{job}: {found['replies']:,} replies, all kept", _all_ties(found, requests))
        before, grown = found["before"], found["most"] - found["before"]
        streamed = requests * REPLY_CHARACTERS / 1e6
        row.goal(
            f"{job}: goal under {100 * MAX_GROWTH:.0f} % more memory while {streamed:,.0f} MB of replies stream in "
            f"→ {before:,.0f} MB at the first, {grown:+,.0f} MB at most after it",
            grown < MAX_GROWTH * before,
        )


def _all_ties(found: dict[str, Any], requests: int) -> bool:
    return found["replies"] == requests and found["ended"] == {"tie": requests // 2}
