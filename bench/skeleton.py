"""A bare skeleton of the site, as the baseline of its load test: the best this machine can do with the same parts.

FastAPI with two plain routes, one writing thread, one commit for all that wait, SQLite on the disk. A matchup is drawn
at random and stored as one row; a vote is one change of that row. No matchmaking, log, ratings, limits or pages.
"""

from __future__ import annotations

import asyncio
import json
import queue
import random
import secrets
import sqlite3
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from bench.arena_data import ANSWER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MODELS, PROMPTS = 38, 15
SERVE = "INSERT INTO matchups (id, voter, a, b, prompt) VALUES (?, ?, ?, ?, ?)"
VOTE = "UPDATE matchups SET choice = ? WHERE id = ? AND voter = ? AND choice IS NULL"


class Writer:
    """One thread, one connection, one commit for all waiting requests. The loop is woken once for each commit."""

    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    async def write(self, statement: str, row: tuple[Any, ...]) -> int:
        """How many rows were changed, once they are on disk."""
        done = self._loop.create_future()
        self._queue.put((statement, row, done))
        return await done

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        for setting in ("journal_mode = WAL", "synchronous = FULL"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute(
            "CREATE TABLE matchups (id TEXT PRIMARY KEY, voter TEXT, a INT, b INT, prompt INT, choice TEXT)"
        )
        while (first := self._queue.get()) is not None:
            group = [first]
            while not self._queue.empty() and (more := self._queue.get()) is not None:
                group.append(more)
            connection.execute("BEGIN IMMEDIATE")
            done = [(future, connection.execute(text, row).rowcount) for text, row, future in group]
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(self._tell, done)
        connection.close()

    @staticmethod
    def _tell(done: list[tuple[asyncio.Future[int], int]]) -> None:
        for future, changed in done:
            if not future.done():
                future.set_result(changed)


def skeleton(path: str) -> FastAPI:
    """The two routes over a new database."""
    writer: Writer

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        nonlocal writer
        writer = Writer(path, asyncio.get_running_loop())
        yield
        writer.close()

    app = FastAPI(lifespan=lifespan)

    @app.get("/healthz")
    async def healthz() -> Response:
        return Response(b"{}")

    @app.post("/api/v1/matchups")
    async def new_matchup(request: Request) -> Response:
        await request.body()
        voter = request.cookies.get("tiltyard") or secrets.token_urlsafe(32)
        name, (a, b) = secrets.token_urlsafe(18), random.sample(range(MODELS), 2)
        await writer.write(SERVE, (name, voter, a, b, random.randrange(PROMPTS)))
        said = {"matchup_id": name, "prompt": "Why?", "response_a": ANSWER, "response_b": ANSWER}
        response = Response(json.dumps(said), 201, media_type="application/json")
        if "tiltyard" not in request.cookies:
            response.set_cookie("tiltyard", voter)
        return response

    @app.post("/api/v1/matchups/{name}/vote")
    async def vote(request: Request, name: str) -> Response:
        choice = json.loads(await request.body())["choice"]
        changed = await writer.write(VOTE, (choice, name, request.cookies["tiltyard"]))
        return Response(json.dumps({"choice": choice}), 200 if changed else 404, media_type="application/json")

    return app


def votes_kept(path: str) -> int:
    """How many votes are in the database."""
    with sqlite3.connect(path) as connection:
        return int(connection.execute("SELECT count(*) FROM matchups WHERE choice IS NOT NULL").fetchone()[0])
