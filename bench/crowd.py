"""A crowd at the door: 2,000 voters at once, for a minute or for eight hours, and what becomes of the site.

`python -m bench.crowd` prints a line at every look: answered and refused requests, how long accepted ones took, and the
memory of the site's processes. Voters read for a while before they vote, and come back when a refusal says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.arena_clients import CHOICES, Connection
from bench.arena_data import catalog, database
from bench.arena_load import quantiles, site
from bench.measure import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

ARRIVAL_SECONDS = 5.0
"""The crowd arrives within this time."""

SETTLED_SHARE = 0.25
"""The first part of a run, in which caches fill, says nothing about growth."""


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
    tell: Callable[[Look], None] | None = None,
) -> dict[str, Any]:
    """Latency of accepted requests, share of refused ones and memory over time; then whether every vote is there.

    Parameters:
        folder: Where the database is made.
        kind: `sqlite` or `postgresql`.
        workers: Processes of the site.
        clients: Voters who are there at the same time.
        seconds: How long they stay.
        reading: Seconds that a voter reads before voting, on average; 0 hammers.
        look_seconds: Time between two looks.
        tell: Gets every look.
    """
    import uvloop

    from tiltyard.arena import events as e
    from tiltyard.arena.service import Arena
    from tiltyard.arena.store.verify import verify

    with database(kind, Path(folder)) as url:
        with Arena.open(url) as arena:
            arena.append([*catalog(38, 15), e.PhaseChanged(phase=4)])
        with site(url, workers) as (port, _):
            looks, took, seen = uvloop.run(_stay(port, clients, seconds, reading, look_seconds, tell))
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
    if not looks:
        return None
    later = [look for look in looks if look.at > SETTLED_SHARE * looks[-1].at]
    votes = np.array([look.votes for look in later], float)
    if len(later) < 3 or votes[-1] == votes[0]:
        return None
    return float(np.polyfit(votes, [1e6 * look.rss_mb for look in later], 1)[0])


async def _stay(
    port: int, clients: int, seconds: float, reading: float, look_seconds: float, tell: Callable[[Look], None] | None
) -> tuple[list[Look], list[float], Crowd]:
    seen, began, looks, took = Crowd(), time.monotonic(), list[Look](), list[float]()
    voters = [asyncio.create_task(_voter(port, seen, random.Random(n), reading)) for n in range(clients)]
    while (left := began + seconds - time.monotonic()) > 0:
        await asyncio.sleep(min(left, look_seconds))
        now = quantiles(seen.took) if seen.took else {"p50_ms": 0.0, "p99_ms": 0.0}
        rss = await asyncio.to_thread(_site_mb)
        accepted, at = len(seen.took), time.monotonic() - began
        looks.append(Look(at, accepted, seen.shed, seen.failed, seen.votes, **now, rss_mb=rss))
        took = _kept(took, seen.took)
        seen.took, seen.shed, seen.failed = [], 0, 0
        if tell is not None:
            tell(looks[-1])
    for voter in voters:
        voter.cancel()
    await asyncio.gather(*voters, return_exceptions=True)
    await asyncio.sleep(0.2)  # their connections close
    return looks, took, seen


def _kept(took: list[float], new: list[float], most: int = 2_000_000) -> list[float]:
    """A bounded sample of all times, so that the crowd itself does not grow."""
    return [*took, *new] if len(took) + len(new) <= most else random.sample([*took, *new], most)


class _Visitor:
    """A voter with a cookie, who connects again where the site has closed an idle connection."""

    def __init__(self, port: int, seen: Crowd, chance: random.Random) -> None:
        self._port, self._seen, self._chance = port, seen, chance
        self._connection: Connection | None = None

    async def answered(self, path: str, body: bytes) -> bytes:
        """The body of the first answer that is no refusal; whoever is refused comes back when told to."""
        while True:
            connection = await self._connected()
            began = time.perf_counter()
            try:
                status, said = await connection.ask(b"POST", path, body)
            except ConnectionError:
                self._seen.cut_off += 1
                continue  # closed at this very moment: the same request may safely be sent again
            if status != 503:
                self._seen.took.append(time.perf_counter() - began)
                if status not in (200, 201):
                    raise ValueError(f"answered with {status}: {said[:40]!r}")
                return said
            self._seen.shed += 1
            wait = connection.retry_seconds
            self._seen.honest = self._seen.honest and wait is not None and b'"busy"' in said
            await asyncio.sleep((wait or 2.0) * self._chance.uniform(1.0, 2.0))

    def leave(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    async def _connected(self) -> Connection:
        older = self._connection
        if older is None or older.is_closed:
            made = asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", self._port)
            _, self._connection = await made
            if older is not None:
                self._connection.goes_on_as(older)
        assert self._connection is not None
        return self._connection


async def _voter(port: int, seen: Crowd, chance: random.Random, reading: float) -> None:
    """One voter: a pair, some reading, a vote, and again."""
    visitor = _Visitor(port, seen, chance)
    try:
        await asyncio.sleep(chance.uniform(0.0, ARRIVAL_SECONDS))
        while True:
            await _vote(visitor, seen, chance, reading)
    finally:
        visitor.leave()


async def _vote(visitor: _Visitor, seen: Crowd, chance: random.Random, reading: float) -> None:
    try:
        body = await visitor.answered("/api/v1/matchups", b"{}")
        await asyncio.sleep(chance.expovariate(1.0 / reading) if reading else 0.0)
        said = b'{"choice":"%b"}' % chance.choice(CHOICES).encode()
        await visitor.answered(f"/api/v1/matchups/{json.loads(body)['matchup_id']}/vote", said)
        seen.votes += 1
    except (OSError, ValueError, KeyError) as error:
        seen.failed += 1
        seen.why[f"{type(error).__name__}: {error}"[:60]] += 1
        await asyncio.sleep(chance.uniform(1.0, 3.0))


def _site_mb() -> float:
    """The memory of the site's processes, which are this one's children."""
    import psutil

    family = psutil.Process().children(recursive=True)
    return sum(one.memory_info().rss for one in family if "python" in one.name()) / 1e6


def main() -> None:
    """Run one crowd and print what became of it."""
    import tempfile

    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--kind", default="sqlite", choices=("sqlite", "postgresql"))
    options.add_argument("--workers", default=1, type=int)
    options.add_argument("--clients", default=2000, type=int)
    options.add_argument("--seconds", default=60.0, type=float)
    options.add_argument("--reading", default=2.0, type=float, help="seconds before a vote, on average; 0 hammers")
    options.add_argument("--look-seconds", default=60.0, type=float)
    chosen = vars(options.parse_args())
    allow_sockets(chosen["clients"])
    home = ROOT / "bench" / "results" / "data"
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="crowd-", dir=home) as folder:
        found = crowd(folder, **chosen, tell=lambda look: print(json.dumps(asdict(look)), flush=True))
    print(json.dumps({name: value for name, value in found.items() if name != "looks"}))


def allow_sockets(clients: int) -> None:
    """As many open files as the crowd needs, if the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < clients + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, clients + 200), hard))


if __name__ == "__main__":
    main()
