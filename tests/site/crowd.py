"""A crowd at the door: 2,000 voters at once, for a minute or for eight hours, and what becomes of the site.

Voters read for a while before they vote, and come back when a refusal says so. `tests/site/test_crowd.py` runs it.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from bench.arena import database, opened
from bench.measure import quantiles
from bench.website import CHOICES, Client, serving

ARRIVAL_SECONDS = 5.0
"""The crowd arrives within this time."""
SETTLED_SHARE = 0.25
"""The first part of a run, in which caches fill, says nothing about growth."""
MOST_TIMES = 2_000_000
"""So many times are kept, at random, so that the crowd itself does not grow."""


@dataclass
class Look:
    """What happened since the look before: seconds since the start, answers, and megabytes of the site now."""

    at: float
    accepted: int
    shed: int
    failed: int
    votes: int
    p50_ms: float
    p99_ms: float
    rss_mb: float


@dataclass
class Crowd:
    """What all voters saw since the last look; every vote so far; whether each refusal said when to come back."""

    took: list[float] = field(default_factory=list)
    shed: int = 0
    failed: int = 0
    cut_off: int = 0
    votes: int = 0
    honest: bool = True
    why: Counter[str] = field(default_factory=Counter)
    """What failed requests said."""


def crowd(
    folder: str,
    kind: str = "sqlite",
    workers: int = 1,
    clients: int = 2000,
    seconds: float = 60.0,
    reading: float = 2.0,
    look_seconds: float = 60.0,
) -> dict[str, Any]:
    """Latency of accepted requests, share of refused ones and memory over time; then whether every vote is there.

    So many clients are there at the same time and stay so many seconds; each reads for `reading` seconds on average
    before it votes (0 hammers).
    """
    import uvloop

    from tiltyard.arena.audit.verify import verify

    with database(kind, folder) as url:
        with opened(url):
            pass
        with serving(url, workers) as (port, _):
            looks, took, seen = uvloop.run(_stay(port, clients, seconds, reading, look_seconds))
        found = verify(url)
    accepted, shed = sum(look.accepted for look in looks), sum(look.shed for look in looks)
    return {
        **quantiles(took),
        "accepted": accepted,
        "shed_share": shed / max(1, accepted + shed),
        "failed": sum(look.failed for look in looks),
        "why": dict(seen.why),
        "cut_off": seen.cut_off,
        "honest": seen.honest,
        "votes": seen.votes,
        "clean": found.clean and found.votes >= seen.votes,
        "bytes_per_vote": growth(looks),
        "looks": [asdict(look) for look in looks],
    }


def growth(looks: list[Look]) -> float | None:
    """Bytes of memory that each further vote took, once caches are full: a line through the later looks."""
    later = [look for look in looks if look.at > SETTLED_SHARE * looks[-1].at]
    votes = np.array([look.votes for look in later], float)
    if len(later) < 3 or votes[-1] == votes[0]:
        return None
    return float(np.polyfit(votes, [1e6 * look.rss_mb for look in later], 1)[0])


async def _stay(
    port: int, clients: int, seconds: float, reading: float, look_seconds: float
) -> tuple[list[Look], list[float], Crowd]:
    seen, began, looks, took = Crowd(), time.monotonic(), list[Look](), list[float]()
    voters = [asyncio.create_task(_voter(port, seen, random.Random(n), reading)) for n in range(clients)]
    while (left := began + seconds - time.monotonic()) > 0:
        await asyncio.sleep(min(left, look_seconds))
        now = quantiles(seen.took) if seen.took else {"p50_ms": 0.0, "p99_ms": 0.0}
        rss, at = await asyncio.to_thread(_site_mb), time.monotonic() - began
        looks.append(Look(at, len(seen.took), seen.shed, seen.failed, seen.votes, **now, rss_mb=rss))
        took += seen.took
        if len(took) > MOST_TIMES:
            took = random.sample(took, MOST_TIMES)
        seen.took, seen.shed, seen.failed = [], 0, 0
    for voter in voters:
        voter.cancel()
    await asyncio.gather(*voters, return_exceptions=True)
    await asyncio.sleep(0.2)  # their connections close
    return looks, took, seen


async def _voter(port: int, seen: Crowd, chance: random.Random, reading: float) -> None:
    """One voter: a pair, some reading, a vote, and again; after a failure a pause."""
    visitor = Client(port)
    try:
        await asyncio.sleep(chance.uniform(0.0, ARRIVAL_SECONDS))
        while True:
            try:
                body = await _answered(visitor, seen, chance, "/api/v1/matchups", b"{}")
                await asyncio.sleep(chance.expovariate(1.0 / reading) if reading else 0.0)
                vote = json.dumps({"choice": chance.choice(CHOICES)}).encode()
                await _answered(visitor, seen, chance, f"/api/v1/matchups/{json.loads(body)['matchup_id']}/vote", vote)
                seen.votes += 1
            except (OSError, ValueError, KeyError) as error:
                seen.failed += 1
                seen.why[f"{type(error).__name__}: {error}"[:60]] += 1
                await asyncio.sleep(chance.uniform(1.0, 3.0))
    finally:
        visitor.close()


async def _answered(visitor: Client, seen: Crowd, chance: random.Random, path: str, body: bytes) -> bytes:
    """The body of the first answer that is no refusal; whoever is refused comes back when told to."""
    while True:
        began = time.perf_counter()
        try:
            status, said = await visitor.ask("POST", path, body)
        except (ConnectionResetError, BrokenPipeError):
            seen.cut_off += 1
            continue  # closed at this very moment: the same request may safely be sent again
        if status != 503:
            seen.took.append(time.perf_counter() - began)
            if status not in (200, 201):
                raise ValueError(f"answered with {status}: {said[:40]!r}")
            return said
        seen.shed += 1
        wait = visitor.retry_seconds
        seen.honest = seen.honest and wait is not None and b'"busy"' in said
        await asyncio.sleep((wait or 2.0) * chance.uniform(1.0, 2.0))


def _site_mb() -> float:
    """The memory of the site's processes, which are this one's children."""
    import psutil

    family = psutil.Process().children(recursive=True)
    return sum(one.memory_info().rss for one in family if "python" in one.name() or "tiltyard" in one.name()) / 1e6


def allow_sockets(clients: int) -> None:
    """As many open files as the crowd needs, if the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < clients + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, clients + 200), hard))
