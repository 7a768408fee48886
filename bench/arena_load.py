"""The jobs of the rows `arena` and `site`, each in a separate process: `python -m bench.arena_load JOB OPTIONS`.

Times are wall times: the jobs mostly wait for a disk or a server. Databases are on a real disk, so that commits have
their real cost.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.arena_data import SEED, catalog, database, history, write_log
from bench.measure import ROOT, peak_mb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

PLAYED = 20_000
"""Number of votes in an arena before choosing is timed."""
IN_FLIGHT = 64
MODEL_WORD = "model"
"""Prefix of every model's name."""


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile in milliseconds."""
    found = np.quantile(np.array(seconds), [0.5, 0.99]) * 1000.0
    return {"p50_ms": float(found[0]), "p99_ms": float(found[1])}


# --- The engine in process -------------------------------------------------------------------------------------------


def engine(
    folder: str, kind: str, cycles: int, clients: int = 64, models: int = 38, prompts: int = 15
) -> dict[str, Any]:
    """Matchups and votes per second with this many concurrent voters, then whether everything adds up."""
    from tiltyard.arena import commands
    from tiltyard.arena import events as e
    from tiltyard.arena.service import Arena
    from tiltyard.arena.store.verify import verify

    with database(kind, Path(folder)) as url:
        with Arena.open(url) as arena:
            arena.append([*catalog(models, prompts), e.PhaseChanged(phase=4)])
            voters = [f"voter{number % 1000}" for number in range(cycles)]
            rng = np.random.default_rng(SEED)
            _flood(arena, [commands.ServeMatchup("warm") for _ in range(200)], clients)
            served, matchups = _flood(arena, [commands.ServeMatchup(voter) for voter in voters], clients)
            choices = [tuple(e.Choice)[number] for number in rng.integers(4, size=cycles)]
            asked = [
                commands.SubmitVote(matchup.matchup_id, voter, choice)
                for matchup, voter, choice in zip(matchups, voters, choices, strict=True)
            ]
            voted, _ = _flood(arena, asked, clients)
        found = verify(url)
    return {"serve": served, "vote": voted, "clean": found.clean, "votes": found.votes, "peak_mb": peak_mb()}


def _flood(arena: Any, asks: list[Any], clients: int) -> tuple[dict[str, float], list[Any]]:
    """Submit with this many in flight: how many per second, and how long each took."""
    free, took = threading.Semaphore(clients), [0.0] * len(asks)

    def done(place: int, began: float) -> Callable[[Any], None]:
        def note(_: Any) -> None:
            took[place] = time.perf_counter() - began
            free.release()

        return note

    start, futures = time.perf_counter(), []
    for place, ask in enumerate(asks):
        free.acquire()
        began = time.perf_counter()
        future = arena.submit(ask)
        future.add_done_callback(done(place, began))
        futures.append(future)
    answers = [future.result() for future in futures]
    seconds = time.perf_counter() - start
    return {"per_second": len(asks) / seconds, **quantiles(took)}, answers


# --- Choosing --------------------------------------------------------------------------------------------------------


def choosing(models: int, prompts: int, rounds: int) -> dict[str, Any]:
    """Milliseconds to choose one matchup, by lane, in an arena that has seen some votes."""
    from tiltyard.arena import events as e
    from tiltyard.arena.matchmaking import Matchmaker, SeenMatchups
    from tiltyard.arena.ratings import rate_votes
    from tiltyard.arena.state import ArenaState
    from tiltyard.arena.votes import VoteColumns

    votes = VoteColumns()
    state = ArenaState(votes)
    for body in (*catalog(models, 1)[: models + 1], e.PhaseChanged(phase=4)):
        state.apply(state.seq + 1, e.Event(0, body))
    for j in range(1, prompts):
        state.apply(state.seq + 1, e.Event(0, e.PromptAdded(prompt_id=f"prompt-{j:04d}", text="?")))
    state.catalog.answered.view[:] = 1
    state.catalog.response_ids.update({(i, j): f"r-{i}-{j}" for i in range(models) for j in range(prompts)})
    for event in history(models, prompts, PLAYED):
        state.apply(state.seq + 1, event)
    state.show(rate_votes(votes.table(state.catalog), state.policy.rating))
    rng, took, lanes = np.random.default_rng(SEED), [], dict[str, list[float]]()
    next_matchup, seen = Matchmaker(), SeenMatchups()
    sound = True
    for number in range(-20, rounds):
        began = time.perf_counter()
        chosen = next_matchup(state, rng, seen)
        seconds = time.perf_counter() - began
        answered = state.catalog.answered.view[[chosen.a, chosen.b], chosen.prompt]
        sound = sound and chosen.a != chosen.b and bool(answered.all())
        seen.note((min(chosen.a, chosen.b), max(chosen.a, chosen.b), chosen.prompt), state.seq)
        _serve_and_vote(state, chosen, number)
        if number >= 0:
            took.append(seconds)
            lanes.setdefault(chosen.lane, []).append(seconds)
    by_lane = {lane: 1000.0 * float(np.mean(times)) for lane, times in sorted(lanes.items())}
    mean = 1000.0 * float(np.mean(took))
    return {"mean_ms": mean, **quantiles(took), "lanes_ms": by_lane, "sound": sound, "peak_mb": peak_mb()}


def _serve_and_vote(state: Any, chosen: Any, number: int) -> None:
    """Serve what was chosen, and vote on the matchup served some rounds ago."""
    from tiltyard.arena import events as e

    models, prompts = state.catalog.models, state.catalog.prompts
    body = e.MatchupServed(
        matchup_id=f"c{number:08d}",
        voter="v",
        prompt_id=prompts[chosen.prompt].prompt_id,
        model_a=models[chosen.a].model,
        model_b=models[chosen.b].model,
        response_a="",
        response_b="",
        lane=chosen.lane,
        reason="",
        probability=float(chosen.probability),
        seed=0,
        expires_at=10**18,
    )
    state.apply(state.seq + 1, e.Event(state.at, body))
    if len(state.schedule.in_flight) > IN_FLIGHT:
        oldest = next(iter(state.schedule.in_flight))
        state.apply(state.seq + 1, e.Event(state.at, e.Voted(matchup_id=oldest, choice=e.Choice.A)))


# --- A long log ------------------------------------------------------------------------------------------------------


def long_log(folder: str, votes: int, models: int = 100, prompts: int = 50) -> dict[str, Any]:
    """A log of this many votes: folded in memory, made into tables, opened, verified. Seconds of each."""
    from tiltyard.arena import events as e
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.verify import rebuild, verify

    url = f"sqlite:///{Path(folder) / 'arena.db'}"
    Store.create(url).close()
    first = [e.Event(0, body) for body in (*catalog(models, prompts), e.PhaseChanged(phase=4))]

    def everything() -> Iterator[Any]:
        yield from first
        for start in range(0, votes, 1_000_000):
            yield from history(models, prompts, min(1_000_000, votes - start), start)

    written = write_log(url, everything())
    found: dict[str, Any] = {"events": written, "bytes": sum(f.stat().st_size for f in Path(folder).glob("arena.db*"))}
    found["replay_seconds"] = _timed(lambda: _folded(url))
    found["rebuild_seconds"] = _timed(lambda: rebuild(url))
    found["start_seconds"] = _timed(lambda: _opened(url, written))
    found["observatory_seconds"] = _timed(lambda: _observed(url))
    began = time.perf_counter()
    verified = verify(url)
    found |= {"verify_seconds": time.perf_counter() - began, "clean": verified.clean, "votes": verified.votes}
    return found | {"peak_mb": peak_mb()}


def _timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _folded(url: str) -> None:
    """The state and its ratings from the log alone, without any table: read, decoded, applied and rated."""
    from tiltyard.arena.ratings import rate_votes
    from tiltyard.arena.state import ArenaState
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.reading import events_in_order
    from tiltyard.arena.votes import VoteColumns

    store, votes = Store.open(url), VoteColumns()
    state = ArenaState(votes)
    try:
        for event in events_in_order(store):
            state.apply(state.seq + 1, event)
    finally:
        store.close()
    rate_votes(votes.table(state.catalog), state.policy.rating)


def _opened(url: str, events: int) -> None:
    from tiltyard.arena.service import Arena

    with Arena.open(url) as arena:
        assert arena.read(lambda state: state.seq) == events


def _observed(url: str) -> None:
    """The first snapshot of a site, with everything computed from all votes."""
    from tiltyard.arena.following.observatory import Observatory

    observatory = Observatory(url)
    try:
        observatory.refresh()
    finally:
        observatory.close()


# --- The site over HTTP ----------------------------------------------------------------------------------------------


def serve(db: str, port: int, workers: int) -> dict[str, Any]:
    """The site itself, until it is told to stop."""
    from tiltyard.web.serving import serve as serve_site
    from tiltyard.web.settings import SiteSettings

    serve_site(SiteSettings(db=db, rate_limit=False), port=port, workers=workers)
    return {}


def serve_skeleton(path: str, port: int) -> dict[str, Any]:
    """The bare skeleton, until it is told to stop."""
    import uvicorn

    from bench.skeleton import skeleton

    uvicorn.run(skeleton(path), port=port, access_log=False, log_level="warning", backlog=4096)
    return {}


def site(url: str, workers: int) -> AbstractContextManager[tuple[int, Callable[[], float]]]:
    """The port of a site in separate processes, and the CPU seconds that these have used."""
    return _served("serve", {"db": url, "workers": workers}, workers)


@contextmanager
def _served(job: str, options: dict[str, Any], workers: int) -> Iterator[tuple[int, Callable[[], float]]]:
    import socket
    import urllib.request

    import psutil

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    said = json.dumps(options | {"port": port})
    server = subprocess.Popen([sys.executable, "-m", "bench.arena_load", job, said], cwd=ROOT)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                    break
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the site did not start") from None
                time.sleep(0.1)
        time.sleep(1.0 if workers > 1 else 0.0)  # the other workers may still be starting
        family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        yield port, lambda: sum(sum(process.cpu_times()[:2]) for process in family)
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def cycles(
    folder: str, kind: str, workers: int, count: int, clients: int = 64, page_every: int = 0, models: int = 38
) -> dict[str, Any]:
    """Full vote cycles over HTTP, load generator included, then whether every acknowledged vote is stored."""
    from bench.arena_clients import drive
    from tiltyard.arena import events as e
    from tiltyard.arena.service import Arena
    from tiltyard.arena.store.verify import verify

    with database(kind, Path(folder)) as url:
        with Arena.open(url) as arena:
            arena.append([*catalog(models, 15), e.PhaseChanged(phase=4)])
        with site(url, workers) as (port, used):
            drive(port, clients, 10 * clients)
            before, own = used(), time.process_time()
            driven = drive(port, clients, count, page_every)
            site_cpu, client_cpu = used() - before, time.process_time() - own
        began = time.perf_counter()
        found = verify(url)
        seconds = time.perf_counter() - began
    votes = count + 10 * clients
    return {
        "per_second": count / driven.seconds,
        "site_cpu_ms": 1000.0 * site_cpu / count,
        "client_cpu_ms": 1000.0 * client_cpu / count,
        "cycle": quantiles(driven.cycles),
        "request": quantiles(driven.requests),
        "page": quantiles(driven.pages) if driven.pages else None,
        "failed": driven.failed,
        "clean": found.clean,
        "all_there": found.votes == votes,
        "verify_seconds": seconds,
    }


def skeleton_cycles(folder: str, count: int, clients: int = 64, kind: str = "sqlite") -> dict[str, Any]:
    """The same cycles against the bare skeleton of the stack."""
    from bench.arena_clients import drive
    from bench.skeleton import votes_kept

    with database(kind, Path(folder), empty=True) as url:
        place = url.removeprefix("sqlite:///")
        with _served("serve_skeleton", {"path": place}, 1) as (port, used):
            drive(port, clients, 10 * clients)
            before, own = used(), time.process_time()
            driven = drive(port, clients, count)
            server_cpu, client_cpu = used() - before, time.process_time() - own
        kept = votes_kept(place)
    return {
        "per_second": count / driven.seconds,
        "site_cpu_ms": 1000.0 * server_cpu / count,
        "client_cpu_ms": 1000.0 * client_cpu / count,
        "request": quantiles(driven.requests),
        "failed": driven.failed,
        "all_there": kept == count + 10 * clients,
    }


def pages(folder: str, models: int, votes: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of the leaderboard of many models over HTTP: rendered each time, and from the cache."""
    from bench.arena_clients import fetch
    from tiltyard.arena import events as e
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.verify import rebuild

    url = f"sqlite:///{Path(folder) / 'arena.db'}"
    Store.create(url).close()

    def everything() -> Iterator[Any]:
        yield from (e.Event(0, body) for body in (*catalog(models, 20), e.PhaseChanged(phase=4)))
        yield from history(models, 20, votes)

    write_log(url, everything())
    rebuild(url)
    with site(url, 1) as (port, _):
        fetch(port, ["/leaderboard"] * 3)
        made, size = fetch(port, [f"/leaderboard?{_unasked(number)}" for number in range(rounds)])
        kept, _ = fetch(port, ["/leaderboard"] * rounds)
        csv, _ = fetch(port, [f"/leaderboard.csv?{_unasked(number)}" for number in range(rounds)])
        one, _ = fetch(port, [f"/models/model-{number:04d}" for number in range(min(rounds, models))])
    return {
        "made": quantiles(made),
        "kept": quantiles(kept),
        "csv": quantiles(csv),
        "model": quantiles(one),
        "bytes": size,
    }


def _unasked(number: int) -> str:
    """A query that shows every model and is not cached yet."""
    words = [MODEL_WORD[start:end] for start in range(5) for end in range(start + 1, 6)]
    sorts = ("rank", "model", "rating", "confidence", "coverage", "spread", "average", "record", "votes")
    turn, word = divmod(number, len(words))
    return f"q={words[word]}&sort={sorts[turn % len(sorts)]}&direction={('asc', 'desc')[turn // len(sorts) % 2]}"


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    "engine": engine,
    "choosing": choosing,
    "long_log": long_log,
    "serve": serve,
    "serve_skeleton": serve_skeleton,
    "cycles": cycles,
    "skeleton_cycles": skeleton_cycles,
    "pages": pages,
}
ON_DISK = ("engine", "long_log", "cycles", "skeleton_cycles", "pages")


def main() -> None:
    """One job; its result as JSON on the last line."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    home = options.pop("home", None)
    place: Any = tempfile.TemporaryDirectory(prefix="arena-", dir=home) if name in ON_DISK else nullcontext()
    with place as folder:
        if folder is not None:
            options["folder"] = folder
        found = JOBS[name](**options)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
