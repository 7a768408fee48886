"""A bare skeleton of the site, as the baseline of its load test: the best this machine can do with the same parts.

Starlette with two plain routes, one writing thread, one commit for all that wait, SQLite on the disk or PostgreSQL with
its own settings. A matchup is drawn at random and stored as one row; a vote is one change of that row. No matchmaking,
log, ratings, limits or pages. Requests, commits and their durability are those of the site; what is written is not.
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
from typing import TYPE_CHECKING, Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.arena_data import ANSWER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MODELS, PROMPTS = 38, 15
TABLE = "CREATE TABLE matchups (id TEXT PRIMARY KEY, voter TEXT, a INT, b INT, prompt INT, choice TEXT)"
KEPT = "SELECT count(*) FROM matchups WHERE choice IS NOT NULL"
Row = tuple[Any, ...]


class Rows(Protocol):
    """A table of matchups, with one transaction for all that wait."""

    def change(self, serves: list[Row], votes: list[Row]) -> set[str]:
        """Store matchups and votes, and commit; the matchups that were voted on."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class SqliteRows:
    """The table in a SQLite file."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for setting in ("journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {setting}")
        self._connection.execute(TABLE)

    def change(self, serves: list[Row], votes: list[Row]) -> set[str]:
        """Store matchups and votes, and commit; the matchups that were voted on."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for row in serves:
            execute("INSERT INTO matchups (id, voter, a, b, prompt) VALUES (?, ?, ?, ?, ?)", row)
        vote = "UPDATE matchups SET choice = ?3 WHERE id = ?1 AND voter = ?2 AND choice IS NULL"
        found = {row[0] for row in votes if execute(vote, row).rowcount}
        execute("COMMIT")
        return found

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class PostgresqlRows:
    """The table on a PostgreSQL server: one statement for all rows of a kind."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url)
        self._connection.execute(TABLE)
        self._connection.commit()

    def change(self, serves: list[Row], votes: list[Row]) -> set[str]:
        """Store matchups and votes, and commit; the matchups that were voted on."""
        found: set[str] = set()
        with self._connection.cursor() as cursor:
            if serves:
                given = "unnest(%s::text[], %s::text[], %s::int[], %s::int[], %s::int[])"
                cursor.execute(
                    f"INSERT INTO matchups SELECT *, NULL FROM {given}", [*map(list, zip(*serves, strict=True))]
                )
            if votes:
                given = "unnest(%s::text[], %s::text[], %s::text[]) AS given (id, voter, choice)"
                change = "UPDATE matchups AS m SET choice = given.choice FROM " + given
                where = "WHERE m.id = given.id AND m.voter = given.voter AND m.choice IS NULL RETURNING m.id"
                cursor.execute(f"{change} {where}", [*map(list, zip(*votes, strict=True))])
                found = {name for (name,) in cursor.fetchall()}
        self._connection.commit()
        return found

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def rows_at(place: str) -> Rows:
    """The table in a SQLite file, or at the URL of a PostgreSQL server."""
    return PostgresqlRows(place) if place.startswith("postgresql") else SqliteRows(place)


class Writer:
    """One thread, one connection, one commit for all waiting requests. The loop is woken once for each commit."""

    def __init__(self, place: str, loop: asyncio.AbstractEventLoop) -> None:
        self._place = place
        self._loop = loop
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    async def write(self, row: Row, *, is_vote: bool = False) -> bool:
        """Whether the row was stored or changed, once it is on disk."""
        done = self._loop.create_future()
        self._queue.put((is_vote, row, done))
        return bool(await done)

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        rows = rows_at(self._place)
        while (first := self._queue.get()) is not None:
            group = [first]
            while not self._queue.empty() and (more := self._queue.get()) is not None:
                group.append(more)
            found = rows.change(*([row for is_vote, row, _ in group if is_vote is kind] for kind in (False, True)))
            done = [(future, not is_vote or row[0] in found) for is_vote, row, future in group]
            self._loop.call_soon_threadsafe(self._tell, done)
        rows.close()

    @staticmethod
    def _tell(done: list[tuple[asyncio.Future[bool], bool]]) -> None:
        for future, changed in done:
            if not future.done():
                future.set_result(changed)


def skeleton(place: str) -> Starlette:
    """The two routes over a new database."""
    writer: Writer

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        nonlocal writer
        writer = Writer(place, asyncio.get_running_loop())
        yield
        writer.close()

    async def healthz(_: Request) -> Response:
        return Response(b"{}")

    async def new_matchup(request: Request) -> Response:
        await request.body()
        voter = request.cookies.get("tiltyard") or secrets.token_urlsafe(32)
        name, (a, b) = secrets.token_urlsafe(18), random.sample(range(MODELS), 2)
        await writer.write((name, voter, a, b, random.randrange(PROMPTS)))
        said = {"matchup_id": name, "prompt": "Why?", "response_a": ANSWER, "response_b": ANSWER}
        response = Response(json.dumps(said), 201, media_type="application/json")
        if "tiltyard" not in request.cookies:
            response.set_cookie("tiltyard", voter)
        return response

    async def vote(request: Request) -> Response:
        choice = json.loads(await request.body())["choice"]
        row = (request.path_params["name"], request.cookies["tiltyard"], choice)
        changed = await writer.write(row, is_vote=True)
        return Response(json.dumps({"choice": choice}), 200 if changed else 404, media_type="application/json")

    routes = [
        Route("/healthz", healthz),
        Route("/api/v1/matchups", new_matchup, methods=["POST"]),
        Route("/api/v1/matchups/{name}/vote", vote, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def votes_kept(place: str) -> int:
    """How many votes are in the database."""
    if place.startswith("postgresql"):
        import psycopg

        with psycopg.connect(place) as connection:
            return int(connection.execute(KEPT).fetchone()[0])  # type: ignore[index]
    with sqlite3.connect(place) as connection:
        return int(connection.execute(KEPT).fetchone()[0])
