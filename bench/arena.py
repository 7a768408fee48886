"""Rows about the live arena without a site: its engine in process, choosing, a long log, and a board watched for long.

Times are wall times: the work mostly waits for a disk. Databases are on a real disk, so that commits have their real
cost.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import Row, peak_mb, quantiles

CLIENTS = 64
CHOOSING_MS = 5.0
REPLAYED_PER_SECOND = 50_000
SIZES = ((10, 10), (50, 50), (200, 200), (1000, 10), (10, 1000), (1000, 1000))
BYTES_PER_VOTE = 3_000
"""Disk space per vote while its log is written, made into tables and verified."""
STEPS = ("replay", "rebuild", "start", "observatory", "verify")

SEED = 20_260_801
SPREAD = 180.0
"""Standard deviation of the true strengths, in Elo points."""
AT_ONCE = 20_000
"""Number of events written together."""
PLAYED = 20_000
"""Number of votes in an arena before choosing is timed."""
ANSWER = "An answer of ordinary length, which says what it has to say and then says it once more. " * 12


def load() -> str:
    """The machine's other load, on which wall times depend."""
    return f" (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores before)"


def arena(row: Row) -> None:
    """Serving and voting in process, choosing as the arena grows, and a long log."""
    row.title = f"the engine in process, {CLIENTS} voters waiting at a time{load()}"
    votes = row.size(20_000, 500)
    for kind in ("sqlite", "postgresql"):
        job = f"{votes:,} matchups, then their votes"
        if found := row.ours(job, kind, engine, home=row.data, kind=kind, cycles=votes):
            text = f"{kind}: the log verifies afterwards, with all {votes:,} votes: {found['speeds']}"
            row.check(text, found["clean"] and found["votes"] == votes)
    for models, prompts in SIZES[:3] if row.quick else SIZES:
        job = f"choose among {models} models, {prompts} prompts"
        options = {"models": models, "prompts": prompts, "rounds": row.size(500, 50)}
        if found := row.ours(job, "tiltyard", choosing, **options):
            lanes = ", ".join(f"{lane} {ms:.2f}" for lane, ms in found["lanes_ms"].items())
            mean = f"{found['mean_ms']:.2f} ms"
            text = f"{mean}, p99 {found['p99_ms']:.2f} ms ({lanes})"
            row.check(f"{job}: two different models that answered the prompt, every time: {text}", found["sound"])
            if (models, prompts) == (200, 200):
                row.goal(f"{job}: goal < {CHOOSING_MS:.0f} ms → {mean}", found["mean_ms"] < CHOOSING_MS)
    votes = row.size(1_000_000, 20_000)
    job = f"a log of {votes:,} votes"
    if shutil.disk_usage(row.data).free < 2 * BYTES_PER_VOTE * votes:
        row.skip(job, "sqlite", "not enough room on the disk")
    elif found := row.ours(job, "sqlite", long_log, home=row.data, votes=votes):
        seconds = {step: found[f"{step}_seconds"] for step in STEPS}
        speed, rebuilt = votes / seconds["replay"], votes / seconds["rebuild"]
        text = f"{speed:,.0f} (each served too; read, decoded and folded)"
        row.goal(f"{job}: goal replay ≥ {REPLAYED_PER_SECOND:,} votes/s → {text}", speed >= REPLAYED_PER_SECOND)
        row.check(
            f"{job}, {found['bytes'] / 1e6:,.0f} MB: tables rebuilt in {seconds['rebuild']:.1f} s ({rebuilt:,.0f} "
            f"votes/s), opened in {seconds['start']:.2f} s, a site's first board in {seconds['observatory']:.1f} s, "
            f"verified with all votes in {seconds['verify']:.1f} s, {found['peak_mb']:,.0f} MB",
            found["clean"] and found["votes"] == votes,
        )


# --- Arenas: empty databases, catalogs, long histories ---------------------------------------------------------------


@contextmanager
def database(kind: str, home: str, *, empty: bool = False) -> Iterator[str]:
    """The URL of a new arena in a new folder; `empty`: of a database without any table."""
    from tiltyard.arena.store import Store

    with tempfile.TemporaryDirectory(prefix="arena-", dir=home) as name:
        folder = Path(name)
        server: Any = None
        url = f"sqlite:///{folder / 'arena.db'}"
        if kind == "postgresql":
            from tests.arena.databases import DebianServer, WheelServer

            place = folder / "server"
            place.mkdir()
            for path in (folder, place):
                path.chmod(0o755)  # its server runs as somebody else
            try:
                server = WheelServer(place)
            except ImportError:
                server = DebianServer(place)
            url = server.url
        try:
            if not empty:
                Store.create(url).close()
            yield url
        finally:
            if server is not None:
                server.remove()


@contextmanager
def opened(url: str, models: int = 38, prompts: int = 15) -> Iterator[Any]:
    """An open arena with its catalog, in its last phase."""
    from tiltyard.arena import Arena

    with Arena.open(url) as arena:
        arena.append(catalog(models, prompts))
        yield arena


def catalog(models: int, prompts: int) -> list[Any]:
    """Models, prompts, every answer, and the last phase, as events."""
    from tiltyard.arena import events as e

    names, ids = ([f"{kind}-{n:04d}" for n in range(count)] for kind, count in (("model", models), ("prompt", prompts)))
    return [
        *(e.ModelAdded(model=name, display_name=f"Model {i:04d}", provider="Maker") for i, name in enumerate(names)),
        *(e.PromptAdded(prompt_id=p, text=f"Question {j}: why?", subject="why") for j, p in enumerate(ids)),
        *(
            e.ResponseAdded(response_id=f"r-{i}-{j}", model=name, prompt_id=p, text=ANSWER)
            for i, name in enumerate(names)
            for j, p in enumerate(ids)
        ),
        e.PhaseChanged(phase=4),
    ]


def history(models: int, prompts: int, votes: int, start: int = 0) -> Iterator[Any]:
    """Served matchups and their votes over known strengths, as events; pairs and prompts are drawn at random."""
    from tiltyard.arena import events as e

    rng = np.random.default_rng([SEED, models, prompts, start])
    strength = rng.normal(0.0, SPREAD, models)
    a = rng.integers(models, size=votes)
    b = (a + 1 + rng.integers(models - 1, size=votes)) % models
    prompt = rng.integers(prompts, size=votes)
    wins = rng.random(votes) < 1.0 / (1.0 + 10.0 ** ((strength[b] - strength[a]) / 400.0))
    other = rng.random(votes)
    rows = zip(*(column.tolist() for column in (a, b, prompt, wins, other)), strict=True)
    for number, (i, j, p, won, u) in enumerate(rows, start):
        at, name = 1_767_225_600_000_000 + 3_000_000 * number, f"h{number:015d}"
        yield e.Event(at, served(name, i, j, p, voter=f"v{number // 25:012d}", seed=number, expires=at + 7_200_000_000))
        choice = e.Choice.TIE if u < 0.08 else e.Choice.BOTH_BAD if u < 0.13 else e.Choice.A if won else e.Choice.B
        yield e.Event(at + 9_000_000, e.Voted(matchup_id=name, choice=choice))


def served(
    name: str, a: int, b: int, p: int, voter: str, lane: str = "coverage", seed: int = 0, expires: int = 0
) -> Any:
    from tiltyard.arena import events as e

    return e.MatchupServed(
        matchup_id=name,
        voter=voter,
        prompt_id=f"prompt-{p:04d}",
        model_a=f"model-{a:04d}",
        model_b=f"model-{b:04d}",
        response_a=f"r-{a}-{p}",
        response_b=f"r-{b}-{p}",
        lane=lane,
        reason="bench",
        probability=0.001,
        seed=seed,
        expires_at=expires,
    )


def write_log(url: str, models: int, prompts: int, votes: int) -> int:
    """Write a history and its chain, and nothing else; returns how many events."""
    from tiltyard.arena import events as e
    from tiltyard.arena.store import Store, log

    def everything() -> Iterator[Any]:
        yield from (e.Event(0, body) for body in catalog(models, prompts))
        for start in range(0, votes, 1_000_000):
            yield from history(models, prompts, min(1_000_000, votes - start), start)

    Store.create(url).close()
    store, seq, hash_, events = Store.open(url), 0, "0" * 64, everything()
    try:
        while part := list(itertools.islice(events, AT_ONCE)):
            with store.database.write(lock=True) as connection:
                hash_ = log.append_events(connection, part, seq, hash_)
            seq += len(part)
    finally:
        store.close()
    return seq


# --- The engine in process -------------------------------------------------------------------------------------------


def engine(home: str, kind: str, cycles: int) -> dict[str, Any]:
    """Matchups and votes per second with many voters at a time, then whether everything adds up."""
    from tiltyard.arena import events as e
    from tiltyard.arena.audit.verify import verify
    from tiltyard.arena.writing import commands

    with database(kind, home) as url:
        with opened(url) as arena:
            voters = [f"voter{number % 1000}" for number in range(cycles)]
            _flood(arena, [commands.ServeMatchup("warm") for _ in range(200)])
            serving, matchups = _flood(arena, [commands.ServeMatchup(voter) for voter in voters])
            choices = np.random.default_rng(SEED).integers(4, size=cycles)
            votes = [
                commands.SubmitVote(matchup.matchup_id, voter, tuple(e.Choice)[choice])
                for matchup, voter, choice in zip(matchups, voters, choices, strict=True)
            ]
            voting, _ = _flood(arena, votes)
        found = verify(url)
    return {
        "speeds": f"{serving.format('matchups')}, {voting.format('votes')}",
        "clean": found.clean,
        "votes": found.votes,
    }


def _flood(arena: Any, asks: list[Any]) -> tuple[str, list[Any]]:
    """Submit with `CLIENTS` in flight: a text of how many per second and how long each took, and the answers."""
    free, took, futures = threading.Semaphore(CLIENTS), [0.0] * len(asks), []

    def done(place: int, began: float) -> None:
        took[place] = time.perf_counter() - began
        free.release()

    start = time.perf_counter()
    for place, ask in enumerate(asks):
        free.acquire()
        began = time.perf_counter()
        futures.append(arena.submit(ask))
        futures[-1].add_done_callback(lambda _, place=place, began=began: done(place, began))
    answers = [future.result() for future in futures]
    speed, of_each = len(asks) / (time.perf_counter() - start), quantiles(took)
    return f"{speed:,.0f} {{}}/s (p50 {of_each['p50_ms']:.0f} ms, p99 {of_each['p99_ms']:.0f} ms)", answers


# --- Choosing --------------------------------------------------------------------------------------------------------


def choosing(models: int, prompts: int, rounds: int) -> dict[str, Any]:
    """Milliseconds to choose one matchup, by lane, in an arena that has seen some votes."""
    from tiltyard.arena import ArenaState, VoteColumns
    from tiltyard.arena import events as e
    from tiltyard.arena.matchmaking import SeenMatchups
    from tiltyard.arena.matchmaking.choosing import Matchmaker
    from tiltyard.arena.rules.ratings import rate_votes

    votes = VoteColumns()
    state = ArenaState(votes)

    def apply(body: Any, at: int = 0) -> None:
        state.apply(state.seq + 1, e.Event(at, body))

    for body in catalog(models, 0):
        apply(body)
    for j in range(prompts):
        apply(e.PromptAdded(prompt_id=f"prompt-{j:04d}", text="?"))
    state.catalog.answered.view[:] = 1
    state.catalog.response_ids.update({(i, j): f"r-{i}-{j}" for i in range(models) for j in range(prompts)})
    for event in history(models, prompts, PLAYED):
        state.apply(state.seq + 1, event)
    state.show(rate_votes(votes.table(state.catalog), state.policy.rating))
    rng, took, lanes = np.random.default_rng(SEED), [], dict[str, list[float]]()
    next_matchup, seen, sound = Matchmaker(), SeenMatchups(), True
    for number in range(-20, rounds):
        began = time.perf_counter()
        chosen = next_matchup(state, rng, seen)
        seconds = time.perf_counter() - began
        answered = state.catalog.answered.view[[chosen.a, chosen.b], chosen.prompt]
        sound = sound and chosen.a != chosen.b and bool(answered.all())
        seen.note((min(chosen.a, chosen.b), max(chosen.a, chosen.b), chosen.prompt), state.seq)
        body = served(f"c{number:08d}", chosen.a, chosen.b, chosen.prompt, "v", chosen.lane, expires=10**18)
        apply(body, state.at)
        if len(state.schedule.in_flight) > CLIENTS:
            apply(e.Voted(matchup_id=next(iter(state.schedule.in_flight)), choice=e.Choice.A), state.at)
        if number >= 0:
            took.append(seconds)
            lanes.setdefault(chosen.lane, []).append(seconds)
    by_lane = {lane: 1000.0 * float(np.mean(times)) for lane, times in sorted(lanes.items())}
    return {"mean_ms": 1000.0 * float(np.mean(took)), **quantiles(took), "lanes_ms": by_lane, "sound": sound}


# --- A long log ------------------------------------------------------------------------------------------------------


def long_log(home: str, votes: int, models: int = 100, prompts: int = 50) -> dict[str, Any]:
    """A log of this many votes: folded in memory, made into tables, opened, verified. Seconds of each."""
    from tiltyard.arena import Arena, ArenaState, VoteColumns
    from tiltyard.arena.audit.verify import rebuild, verify
    from tiltyard.arena.rules.ratings import rate_votes
    from tiltyard.arena.store import Store, events_in_order
    from tiltyard.arena.study import Observatory

    def replay() -> None:
        """The state and its ratings from the log alone, without any table."""
        store, columns = Store.open(url), VoteColumns()
        state = ArenaState(columns)
        for event in events_in_order(store):
            state.apply(state.seq + 1, event)
        store.close()
        rate_votes(columns.table(state.catalog), state.policy.rating)

    def start() -> None:
        with Arena.open(url) as arena:
            assert arena.read(lambda state: state.seq) == written

    def observatory() -> None:
        """The first snapshot of a site, with everything computed from all votes."""
        following = Observatory(url)
        following.refresh()
        following.close()

    with tempfile.TemporaryDirectory(prefix="arena-", dir=home) as folder:
        url = f"sqlite:///{Path(folder) / 'arena.db'}"
        written = write_log(url, models, prompts, votes)
        found: dict[str, Any] = {"bytes": sum(file.stat().st_size for file in Path(folder).glob("arena.db*"))}
        steps = (replay, lambda: rebuild(url), start, observatory, lambda: verify(url))
        for name, step in zip(STEPS, steps, strict=True):
            began = time.perf_counter()
            verified = step()
            found[f"{name}_seconds"] = time.perf_counter() - began
    return found | {"clean": verified.clean, "votes": verified.votes, "peak_mb": peak_mb()}


# --- A board that is looked at every day -----------------------------------------------------------------------------

TASTES = {"taste_sd": 90.0, "voters": 200}
WORLDS: dict[str, dict[str, Any]] = {
    "8 equal models, voters alike": {"models": 8, "sd": 0.0},
    "8 equal models, tastes, Zipf voters": {"models": 8, "sd": 0.0, "diligence": "zipf", **TASTES},
    "20 models, tastes, lognormal voters": {"models": 20, "sd": 60.0, "diligence": "lognormal", **TASTES},
}


def watched(row: Row) -> None:
    """How often a board that is looked at every day ever shows a wrong range of ranks.

    With the real lanes. At every look the votes so far are rated as the site does, with ranges of ranks for any time
    and, on the same votes, with ranges for a single look.
    """
    size = {"arenas": row.size(200, 3), "votes": row.size(10_000, 600), "looks": row.size(100, 10)}
    row.title = f"{size['arenas']} arenas of {size['votes']:,} votes with the real lanes, {size['looks']} looks"
    for world, by_rule in (row.ours("simulation", "tiltyard", watch, **size) or {}).items():
        for rule, (ever, last, intervals, apart) in by_rule.items():
            text = (
                f"{world}, {rule}: a wrong range at some look {100 * ever:.1f} %, at the last {100 * last:.1f} %; "
                f"intervals {100 * intervals:.1f} %; {apart:.1f} pairs told apart"
            )
            if rule == "any time":
                row.check(text, ever <= 0.05 + row.size(0, 30) / 100)
            else:
                row.check(f"{text} (for contrast)", holds=True)


def watch(arenas: int, votes: int, looks: int) -> dict[str, dict[str, list[float]]]:
    """By world and rule, means over arenas: a wrong range at some look, at the last; intervals; pairs told apart."""
    from tiltyard.arena.rules.policy import IntervalRules
    from tiltyard.arena.simulation import SimulationSettings, simulate
    from tiltyard.arena.simulation.ledger import MemoryArena
    from tiltyard.arena.simulation.population import World
    from tiltyard.arena.simulation.published import check_published

    kinds = {"any time": IntervalRules(), "single look": IntervalRules(anytime=False)}
    kept = ("sd", "tie_rate", "both_bad_rate", "wobble_sd", "taste_sd")
    means: dict[str, dict[str, list[float]]] = {}
    for name, options in WORLDS.items():
        found: dict[str, list[tuple[bool, bool, float, int]]] = {kind: [] for kind in kinds}
        for seed in range(arenas):
            settings = SimulationSettings(**options, votes=votes, seed=seed, looks=0, curve_points=0)
            engine = MemoryArena(seed)
            simulate(settings, engine)
            drawn = {key: getattr(settings, key) for key in kept}
            world = World.draw(np.random.default_rng([seed, 0]), settings.models, settings.prompts, **drawn)
            cast = engine.votes()
            for kind, rules in kinds.items():
                seen = [
                    check_published(cast[: votes * look // looks], engine.state.catalog, rules, world, misfit=False)
                    for look in range(1, looks + 1)
                ]
                wrong = [check.ranks_hold is False for check in seen]
                found[kind].append((any(wrong), wrong[-1], seen[-1].intervals or 0.0, seen[-1].told_apart))
        means[name] = {kind: np.mean(rows, axis=0).tolist() for kind, rows in found.items()}
    return means
