"""The rows of the benchmark about the live arena: its engine in process, and the site over HTTP."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

from bench.measure import ONE_THREAD, Answer, in_worker, whole_process
from bench.report import Row

if TYPE_CHECKING:
    from pathlib import Path

    from bench.rows import Plan

CLIENTS = 64
CHOOSING_MS = 5.0
REPLAYED_PER_SECOND = 50_000
CYCLES_PER_SECOND = 800
REQUEST_P99_MS = 100.0
PAGE_MS = 50.0
SIZES = ((10, 10), (50, 50), (200, 200), (1000, 10), (10, 1000), (1000, 1000))
BYTES_PER_VOTE = 3_000
"""Disk space per vote while its log is written, made into tables and verified."""


def arena(plan: Plan) -> Row:
    """Serving and voting in process, choosing as the arena grows, and a long log."""
    row = Row("arena", f"the engine in process, {CLIENTS} voters waiting at a time{_load()}")
    for kind in ("sqlite", "postgresql"):
        _engine(row, plan, kind)
    for models, prompts in SIZES[:3] if plan.quick else SIZES:
        _choosing(row, plan, models, prompts)
    for votes in (plan.size(1_000_000, 20_000),):
        _long_log(row, plan, votes)
    return row


def site(plan: Plan) -> Row:
    """Full vote cycles over HTTP on loopback, generator included, and the pages beside them."""
    row = Row(
        "site", f"full vote cycles over HTTP with {CLIENTS} clients, both steps durable, generator included{_load()}"
    )
    for kind, workers in (("sqlite", (1,)), ("postgresql", (1, 2))):
        _skeleton(row, plan, kind)
        for number in workers:
            _cycles(row, plan, kind, number, page_every=0)
    _cycles(row, plan, "sqlite", 1, page_every=10)
    _pages(row, plan)
    return row


def _load() -> str:
    """The machine's other load, on which wall times depend."""
    return f" (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores before)"


def _done(plan: Plan, job: str, options: dict[str, Any]) -> Answer:
    """The cost of a job of `bench.arena_load` and its result. Its databases are beside the results, on disk."""
    home = plan.folder / "data"
    home.mkdir(parents=True, exist_ok=True)
    said = json.dumps(options | ({} if job == "choosing" else {"home": str(home)}))
    answer = whole_process([sys.executable, "-m", "bench.arena_load", job, said], settings=ONE_THREAD)
    if answer.problem:
        return answer
    return Answer(answer.cost, json.loads(answer.result.splitlines()[-1]))


def _noted(row: Row, job: str, who: str, answer: Answer) -> Any:
    found = row.add(job, who, answer, ours=True)
    if answer.problem:
        row.check(f"{job}, {who}: {answer.problem}", holds=False)
    return found


def _engine(row: Row, plan: Plan, kind: str) -> None:
    votes = plan.size(20_000, 500)
    job = f"{votes:,} matchups, then their votes"
    found = _noted(row, job, kind, _done(plan, "engine", {"kind": kind, "cycles": votes, "clients": CLIENTS}))
    if not found:
        return
    clean = found["clean"] and found["votes"] == votes
    figures = ", ".join(_speed(found[name], what) for what, name in (("matchups", "serve"), ("votes", "vote")))
    row.check(f"{kind}: the log verifies afterwards, with all {votes:,} votes: {figures}", clean)


def _speed(found: dict[str, float], what: str) -> str:
    return f"{found['per_second']:,.0f} {what}/s (p50 {found['p50_ms']:.0f} ms, p99 {found['p99_ms']:.0f} ms)"


def _choosing(row: Row, plan: Plan, models: int, prompts: int) -> None:
    job = f"choose among {models} models, {prompts} prompts"
    options = {"models": models, "prompts": prompts, "rounds": plan.size(500, 50)}
    found = _noted(row, job, "tiltyard", _done(plan, "choosing", options))
    if found:
        lanes = ", ".join(f"{lane} {ms:.2f}" for lane, ms in found["lanes_ms"].items())
        text = f"{found['mean_ms']:.2f} ms, p99 {found['p99_ms']:.2f} ms ({lanes})"
        row.check(f"{job}: two different models that answered the prompt, every time: {text}", found["sound"])
        if (models, prompts) == (200, 200):
            row.goal(f"{job}: goal < {CHOOSING_MS:.0f} ms → {found['mean_ms']:.2f} ms", found["mean_ms"] < CHOOSING_MS)


def _long_log(row: Row, plan: Plan, votes: int) -> None:
    job = f"a log of {votes:,} votes"
    if not _room(plan.folder, votes):
        row.add(job, "sqlite", Answer(None, problem="not enough room on the disk"), ours=True)
        return
    found = _noted(row, job, "sqlite", _done(plan, "long_log", {"votes": votes}))
    if not found:
        return
    speed, rebuilt = votes / found["replay_seconds"], votes / found["rebuild_seconds"]
    text = f"{speed:,.0f} (each served too; read, decoded and folded)"
    row.goal(f"{job}: goal replay ≥ {REPLAYED_PER_SECOND:,} votes/s → {text}", speed >= REPLAYED_PER_SECOND)
    row.check(
        f"{job}, {found['bytes'] / 1e6:,.0f} MB: tables rebuilt in {found['rebuild_seconds']:.1f} s ({rebuilt:,.0f} "
        f"votes/s), opened in {found['start_seconds']:.2f} s, a site's first board in "
        f"{found['observatory_seconds']:.1f} s, verified with all votes in {found['verify_seconds']:.1f} s, "
        f"{found['peak_mb']:,.0f} MB",
        found["clean"] and found["votes"] == votes,
    )


def _room(folder: Path, votes: int) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    return shutil.disk_usage(folder).free > 2 * BYTES_PER_VOTE * votes


def _skeleton(row: Row, plan: Plan, kind: str) -> None:
    """What the same stack achieves on this machine without any of the arena's work."""
    count = plan.size(20_000, 500)
    answer = _done(plan, "skeleton_cycles", {"kind": kind, "count": count, "clients": CLIENTS})
    found = row.add(f"{count:,} cycles", f"bare skeleton, {kind}", answer, ours=False)
    if found:
        request = found["request"]
        figures = (
            f"{found['per_second']:,.0f} cycles/s, requests p50 {request['p50_ms']:.0f} ms p99 {request['p99_ms']:.0f} "
            f"ms; CPU a cycle: server {found['site_cpu_ms']:.2f} ms, clients {found['client_cpu_ms']:.2f} ms"
        )
        text = (
            f"bare skeleton of the stack on {kind}, without matchmaking, log or ratings: every vote is there: {figures}"
        )
        row.check(text, found["failed"] == 0 and found["all_there"])


def _cycles(row: Row, plan: Plan, kind: str, workers: int, *, page_every: int) -> None:
    count = plan.size(20_000, 500)
    mixed = f", the board after every {page_every}th" if page_every else ""
    job, who = f"{count:,} cycles{mixed}", f"{kind}, {workers} worker{'s' if workers > 1 else ''}"
    options = {"kind": kind, "workers": workers, "count": count, "clients": CLIENTS, "page_every": page_every}
    found = _noted(row, job, who, _done(plan, "cycles", options))
    if not found:
        return
    fast, request, whole = found["per_second"], found["request"], found["cycle"]
    pages = f", pages p99 {found['page']['p99_ms']:.0f} ms" if found["page"] else ""
    row.goal(
        f"{who}{mixed}: goal ≥ {CYCLES_PER_SECOND} cycles/s, p99 of a request < {REQUEST_P99_MS:.0f} ms → {fast:,.0f} "
        f"cycles/s, requests p50 {request['p50_ms']:.0f} ms p99 {request['p99_ms']:.0f} ms, cycles p99 "
        f"{whole['p99_ms']:.0f} ms{pages}; CPU a cycle: site {found['site_cpu_ms']:.2f} ms, clients "
        f"{found['client_cpu_ms']:.2f} ms",
        fast >= CYCLES_PER_SECOND and request["p99_ms"] < REQUEST_P99_MS,
    )
    text = f"{who}{mixed}: no request failed, the log verifies, and every acknowledged vote is in it"
    row.check(text, found["failed"] == 0 and found["clean"] and found["all_there"])


def _pages(row: Row, plan: Plan) -> None:
    models, votes = plan.size(200, 30), plan.size(20_000, 2_000)
    job = f"pages of {models} models, {votes:,} votes"
    options = {"models": models, "votes": votes, "rounds": plan.size(100, 10)}
    found = _noted(row, job, "sqlite, 1 worker", _done(plan, "pages", options))
    if not found:
        return
    made, kept, csv, model = (found[name]["p50_ms"] for name in ("made", "kept", "csv", "model"))
    row.goal(
        f"{job}: goal leaderboard < {PAGE_MS:.0f} ms → {made:.1f} ms rendered (p99 {found['made']['p99_ms']:.0f}), "
        f"{kept:.1f} ms from the cache, {found['bytes'] / 1e3:,.0f} kB; CSV {csv:.1f} ms, "
        f"a model {model:.1f} ms",
        made < PAGE_MS,
    )


def watched(plan: Plan) -> Row:
    """How often a board that is looked at every day ever shows a wrong range of ranks."""
    size = {"arenas": plan.size(200, 3), "votes": plan.size(10_000, 600), "looks": plan.size(100, 10)}
    row = Row(
        "watched", f"{size['arenas']} arenas of {size['votes']:,} votes with the real lanes, {size['looks']} looks"
    )
    found = row.add("simulation", "tiltyard", in_worker("watch", size), ours=True)
    slack = plan.size(0, 30) / 100
    for world, by_rule in (found or {}).items():
        for rule, shares in by_rule.items():
            text = (
                f"{world}, {rule}: a wrong range at some look {100 * shares['ever_wrong']:.1f} %, at the last "
                f"{100 * shares['last_wrong']:.1f} %; intervals {100 * shares['intervals']:.1f} %; "
                f"{shares['told_apart']:.1f} pairs told apart"
            )
            watches = rule == "any time"
            row.check(
                text if watches else f"{text} (for contrast)", not watches or shares["ever_wrong"] <= 0.05 + slack
            )
    return row
