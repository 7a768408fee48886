"""The row about the site over HTTP: full vote cycles, its pages, and a bare server of the same parts beside it."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from bench.arena import ANSWER, CLIENTS, database, load, opened, write_log
from bench.measure import ROOT, TILTYARD, Row, quantiles

CYCLES_PER_SECOND = 800
REQUEST_P99_MS = 100.0
PAGE_MS = 50.0
WARM = 10 * CLIENTS
"""Cycles before the measured ones."""
CHOICES = ("A", "B", "TIE", "BOTH_BAD")


def site(row: Row) -> None:
    """Full vote cycles over HTTP on loopback, generator included, and the pages beside them."""
    row.title = f"full vote cycles over HTTP with {CLIENTS} clients, both steps durable, generator included{load()}"
    for kind, numbers in (("sqlite", (1,)), ("postgresql", (1, 2))):
        count = row.size(20_000, 500)
        options = {"home": row.data, "kind": kind, "count": count}
        if found := row.peer(f"{count:,} cycles", f"bare skeleton, {kind}", bare_cycles, **options):
            text = (
                f"bare skeleton of the stack on {kind}, without matchmaking, log or ratings: every vote is there: "
                f"{found['speed']}; CPU a cycle: server {found['site_ms']:.2f} ms, clients {found['client_ms']:.2f} ms"
            )
            row.check(text, found["failed"] == 0 and found["all_there"])
        for workers in numbers:
            _cycles(row, kind, workers, page_every=0)
    _cycles(row, "sqlite", 1, page_every=10)
    models, votes = row.size(200, 30), row.size(20_000, 2_000)
    job = f"pages of {models} models, {votes:,} votes"
    options = {"models": models, "votes": votes, "rounds": row.size(100, 10)}
    if found := row.ours(job, "sqlite, 1 worker", pages, home=row.data, **options):
        made = found["made"]["p50_ms"]
        row.goal(
            f"{job}: goal leaderboard < {PAGE_MS:.0f} ms → {made:.1f} ms rendered (p99 {found['made']['p99_ms']:.0f}), "
            f"{found['kept']['p50_ms']:.1f} ms from the cache, {found['bytes'] / 1e3:,.0f} kB; CSV "
            f"{found['csv']['p50_ms']:.1f} ms, a model {found['model']['p50_ms']:.1f} ms",
            made < PAGE_MS,
        )


def _cycles(row: Row, kind: str, workers: int, *, page_every: int) -> None:
    count = row.size(20_000, 500)
    mixed = f", the board after every {page_every}th" if page_every else ""
    job, who = f"{count:,} cycles{mixed}", f"{kind}, {workers} worker{'s' * (workers > 1)}"
    options = {"kind": kind, "workers": workers, "count": count, "page_every": page_every}
    found = row.ours(job, who, cycles, home=row.data, **options)
    if found:
        paged = f", pages p99 {found['page']['p99_ms']:.0f} ms" if found["page"] else ""
        row.goal(
            f"{who}{mixed}: goal ≥ {CYCLES_PER_SECOND} cycles/s, p99 of a request < {REQUEST_P99_MS:.0f} ms → "
            f"{found['speed']}, cycles p99 {found['cycle']['p99_ms']:.0f} ms{paged}; CPU a cycle: site "
            f"{found['site_ms']:.2f} ms, clients {found['client_ms']:.2f} ms",
            found["per_second"] >= CYCLES_PER_SECOND and found["request"]["p99_ms"] < REQUEST_P99_MS,
        )
        text = f"{who}{mixed}: no request failed, the log verifies, and every acknowledged vote is in it"
        row.check(text, found["failed"] == 0 and found["clean"] and found["all_there"])


def cycles(home: str, kind: str, workers: int, count: int, page_every: int) -> dict[str, Any]:
    """Full vote cycles over HTTP, then whether every acknowledged vote is stored."""
    from tiltyard.arena.audit.verify import verify

    with database(kind, home) as url:
        with opened(url):
            pass
        with serving(url, workers) as (port, used):
            found = drive(port, used, count, page_every)
        verified = verify(url)
    return found | {"clean": verified.clean, "all_there": verified.votes == count + WARM}


def bare_cycles(home: str, kind: str, count: int) -> dict[str, Any]:
    """The same cycles against the bare server."""
    with database(kind, home, empty=True) as url:
        command = [sys.executable, "-m", "bench.website", url]
        with _served(lambda port: [*command, str(port)], 1) as (port, used):
            found = drive(port, used, count, 0)
        with connected(url) as (connection, _):
            (votes,) = connection.execute("SELECT count(*) FROM matchups WHERE choice IS NOT NULL").fetchone()
    return found | {"all_there": votes == count + WARM}


def pages(home: str, models: int, votes: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of the leaderboard of many models over HTTP: rendered each time, and from the cache."""
    from tiltyard.arena.audit.verify import rebuild

    words = sorted({"model"[start:end] for start in range(5) for end in range(start + 1, 6)})
    sorts = ("rank", "model", "rating", "confidence", "coverage", "spread", "average", "record", "votes")
    unasked = [f"q={q}&sort={sort}&direction={way}" for way in ("asc", "desc") for sort in sorts for q in words]
    queries = unasked[:rounds]  # every one shows all models, and none is cached yet

    async def fetched(client: Client, paths: list[str]) -> tuple[dict[str, float], int]:
        took, body = [], b""
        for path in paths:
            began = time.perf_counter()
            status, body = await client.ask("GET", path)
            took.append(time.perf_counter() - began)
            if status != 200:
                raise RuntimeError(f"{path} was answered with {status}")
        return quantiles(took), len(body)

    async def all_of_them(client: Client) -> dict[str, Any]:
        await fetched(client, ["/leaderboard"] * 3)
        made, size = await fetched(client, [f"/leaderboard?{query}" for query in queries])
        kept, _ = await fetched(client, ["/leaderboard"] * rounds)
        csv, _ = await fetched(client, [f"/leaderboard.csv?{query}" for query in queries])
        one, _ = await fetched(client, [f"/models/model-{number:04d}" for number in range(min(rounds, models))])
        return {"made": made, "kept": kept, "csv": csv, "model": one, "bytes": size}

    with tempfile.TemporaryDirectory(prefix="arena-", dir=home) as folder:
        url = f"sqlite:///{Path(folder) / 'arena.db'}"
        write_log(url, models, 20, votes)
        rebuild(url)
        with serving(url, 1) as (port, _):
            return asyncio.run(all_of_them(Client(port)))


# --- Clients ---------------------------------------------------------------------------------------------------------


class Client:
    """A visitor with a cookie on a bare socket: as little work as possible, so that the measurement is of the site.

    One request at a time. A connection that the site has closed is made again.
    """

    def __init__(self, port: int) -> None:
        self._port, self._cookie = port, ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.retry_seconds: float | None = None
        """When the last answer said to come back."""

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body of the answer."""
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        reader, writer = self._streams
        kind = "content-type: application/json\r\n" if body else ""
        head = f"{method} {path} HTTP/1.1\r\nhost: bench\r\n{self._cookie}{kind}content-length: {len(body)}\r\n\r\n"
        try:
            writer.write(head.encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            answer = await reader.readexactly(int(fields["content-length"]))
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("the site closed the connection") from error
        if not self._cookie and fields.get("set-cookie", "").startswith("tiltyard"):
            self._cookie = f"cookie: {fields['set-cookie'].partition(';')[0]}\r\n"
        self.retry_seconds = float(fields["retry-after"]) if "retry-after" in fields else None
        return int(lines[0][9:12]), answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


def drive(port: int, used: Callable[[], float], count: int, page_every: int) -> dict[str, Any]:
    """Vote cycles with many clients at once; at a given interval a client also loads the board."""
    import uvloop

    async def client(visitor: Client, numbers: Iterator[int], took: dict[str, list[float]]) -> None:
        for number in numbers:
            began = time.perf_counter()
            status, body = await visitor.ask("POST", "/api/v1/matchups", b"{}")
            served = time.perf_counter()
            if status != 201:
                took["failed"].append(0.0)
                continue
            vote = json.dumps({"choice": CHOICES[number % 4]}).encode()
            status, _ = await visitor.ask("POST", f"/api/v1/matchups/{json.loads(body)['matchup_id']}/vote", vote)
            done = time.perf_counter()
            took["failed"] += [0.0] * (status != 200)
            took["request"] += (served - began, done - served)
            took["cycle"].append(done - began)
            if page_every and number % page_every == 0:
                status, _ = await visitor.ask("GET", "/leaderboard")
                took["failed"] += [0.0] * (status != 200)
                took["page"].append(time.perf_counter() - done)

    async def all_of_them() -> tuple[dict[str, list[float]], list[float]]:
        visitors = [Client(port) for _ in range(CLIENTS)]
        for total in (WARM, count):
            numbers, took, before = (
                iter(range(total)),
                defaultdict(list),
                (time.perf_counter(), used(), time.process_time()),
            )
            await asyncio.gather(*(client(visitor, numbers, took) for visitor in visitors))
        after = (time.perf_counter(), used(), time.process_time())
        for visitor in visitors:
            visitor.close()
        return took, [end - begin for begin, end in zip(before, after, strict=True)]

    took, (seconds, site_cpu, client_cpu) = uvloop.run(all_of_them())
    request, speed = quantiles(took["request"]), count / seconds
    return {
        "per_second": speed,
        "speed": f"{speed:,.0f} cycles/s, requests p50 {request['p50_ms']:.0f} ms p99 {request['p99_ms']:.0f} ms",
        "site_ms": 1000.0 * site_cpu / count,
        "client_ms": 1000.0 * client_cpu / count,
        "request": request,
        "cycle": quantiles(took["cycle"]),
        "page": quantiles(took["page"]) if took["page"] else None,
        "failed": len(took["failed"]),
    }


# --- Servers ---------------------------------------------------------------------------------------------------------


def serving(url: str, workers: int) -> AbstractContextManager[tuple[int, Callable[[], float]]]:
    """The port of a site in separate processes, and the CPU seconds that these have used."""
    command = [TILTYARD, "arena", "serve", "--db", url, "--workers", str(workers), "--no-rate-limit"]
    return _served(lambda port: [*command, "--port", str(port)], workers)


@contextmanager
def _served(command: Callable[[int], list[str]], workers: int) -> Iterator[tuple[int, Callable[[], float]]]:
    import psutil

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = os.environ | {"TILTYARD_SECRET": secrets.token_hex(32)}  # else a file of the user would keep one
    server = subprocess.Popen(command(port), cwd=ROOT, env=settings, stdout=subprocess.DEVNULL)
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


@contextmanager
def connected(url: str) -> Iterator[tuple[Any, str]]:
    """A connection to SQLite on the disk or to PostgreSQL, and how it marks a value."""
    if url.startswith("postgresql"):
        import psycopg

        with psycopg.connect(url) as connection:
            yield connection, "%s"
    else:
        import sqlite3

        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        for setting in ("journal_mode = WAL", "synchronous = FULL"):
            connection.execute(f"PRAGMA {setting}")
        yield connection, "?"
        connection.close()


def bare_server(url: str, port: int) -> None:
    """The best that this machine can do with the same parts: two plain routes, one writing thread, one commit for all
    that wait. A matchup is drawn at random and stored as one row; a vote is one change of that row. No matchmaking,
    log, ratings, limits or pages."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def write(loop: asyncio.AbstractEventLoop) -> None:
        with connected(url) as (connection, mark):
            connection.execute(
                "CREATE TABLE matchups (id TEXT PRIMARY KEY, voter TEXT, a INT, b INT, p INT, choice TEXT)"
            )
            connection.commit()
            insert = f"INSERT INTO matchups (id, voter, a, b, p) VALUES ({', '.join([mark] * 5)})"
            change = f"UPDATE matchups SET choice = {mark} WHERE id = {mark} AND voter = {mark} AND choice IS NULL"
            cursor = connection.cursor()
            while (first := waiting.get()) is not None:
                group = [first]
                while not waiting.empty() and (more := waiting.get()) is not None:
                    group.append(more)
                for statement, size in ((insert, 5), (change, 3)):
                    if rows := [row for row, _ in group if len(row) == size]:
                        cursor.executemany(statement, rows)
                connection.commit()
                loop.call_soon_threadsafe(lambda group=group: [done.set_result(None) for _, done in group])

    @asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        thread = threading.Thread(target=write, args=[asyncio.get_running_loop()], daemon=True)
        thread.start()
        yield
        waiting.put(None)
        thread.join()

    async def written(row: tuple[Any, ...]) -> None:
        done = asyncio.get_running_loop().create_future()
        waiting.put((row, done))
        await done

    async def healthz(_: Request) -> Response:
        return Response(b"{}")

    async def new_matchup(request: Request) -> Response:
        await request.body()
        voter, name = request.cookies.get("tiltyard") or secrets.token_urlsafe(32), secrets.token_urlsafe(18)
        await written((name, voter, *random.sample(range(38), 2), random.randrange(15)))
        shown = {"matchup_id": name, "prompt": "Why?", "response_a": ANSWER, "response_b": ANSWER}
        response = Response(json.dumps(shown), 201, media_type="application/json")
        if "tiltyard" not in request.cookies:
            response.set_cookie("tiltyard", voter)
        return response

    async def vote(request: Request) -> Response:
        choice = json.loads(await request.body())["choice"]
        await written((choice, request.path_params["name"], request.cookies["tiltyard"]))
        return Response(json.dumps({"choice": choice}), media_type="application/json")

    routes = [
        Route("/healthz", healthz),
        Route("/api/v1/matchups", new_matchup, methods=["POST"]),
        Route("/api/v1/matchups/{name}/vote", vote, methods=["POST"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    uvicorn.run(app, port=port, access_log=False, log_level="warning", backlog=4096)


if __name__ == "__main__":
    bare_server(sys.argv[1], int(sys.argv[2]))
