"""A database that fails or is slow: an honest 503, and never a lost vote shown as counted."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from tests.arena.databases import Databases, Server, own_server
from tests.arena.engines import sql
from tests.site.administrators import at_the_desk
from tests.site.sites import form_in, small_site, vote_page
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store.database import Database


@pytest.fixture(scope="module")
def mortal() -> Iterator[tuple[Server, Databases]]:
    """A server that these tests may kill; each starts it again."""
    with own_server() as server:
        yield server, Databases(server.url)


def test_a_database_that_is_gone_gives_503_and_the_same_vote_works_later(mortal: tuple[Server, Databases]) -> None:
    server, databases = mortal
    with small_site(databases.fresh()) as site:
        client = site.client()
        fields = {**form_in(vote_page(client).text), "choice": "A"}
        matchup = client.post("/api/v1/matchups").json()["matchup_id"]
        server.kill()
        for answer in (
            client.post("/vote", data=fields),
            client.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "B"}),
            client.post("/api/v1/matchups"),
            client.get("/"),
        ):
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
            assert "sqlite" not in answer.text
            assert "postgresql" not in answer.text
        server.start()
        assert client.post("/vote", data=fields).status_code == 303
        assert client.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "B"}).status_code == 200
        assert site.arena.read(lambda state: int(state.tallies.wins.view.sum())) == 2
    assert verify(site.url).clean


def test_while_the_database_does_not_answer_no_administrator_is_let_in(mortal: tuple[Server, Databases]) -> None:
    """The cookie is signed and in time, but only the database knows whether its holder has logged out."""
    server, databases = mortal
    with small_site(databases.fresh()) as site:
        desk = at_the_desk(site)
        assert desk.client.get("/admin").status_code == 200
        server.kill()
        answer = desk.client.get("/admin")
        assert answer.status_code == 503
        assert 'name="token"' not in answer.text
        server.start()
        assert desk.client.get("/admin").status_code == 200


def test_a_locked_database_gives_503_and_nothing_is_counted(filled_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Database.__init__, "__defaults__", (0.3,))  # seconds that it waits for the lock
    with small_site(filled_url) as site:
        client = site.client()
        fields = {**form_in(vote_page(client).text), "choice": "A"}
        blocker = sqlite3.connect(site.url.removeprefix("sqlite:///"), isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        answer = client.post("/vote", data=fields)
        assert answer.status_code == 503
        assert "nothing is shown as counted" in answer.text
        blocker.execute("ROLLBACK")
        blocker.close()
        assert site.arena.read(lambda state: int(state.tallies.wins.view.sum())) == 0
        assert client.post("/vote", data=fields).status_code == 303


def test_whatever_was_acknowledged_while_the_database_came_and_went_is_there(mortal: tuple[Server, Databases]) -> None:
    server, databases = mortal
    with small_site(databases.fresh()) as site:
        acknowledged: list[str] = []
        uncertain: list[tuple[TestClient, str]] = []
        end = threading.Event()

        def vote_on() -> None:
            client = site.client()
            while not end.is_set():
                served = client.post("/api/v1/matchups")
                if served.status_code != 201:
                    assert served.status_code == 503
                    end.wait(0.02)
                    continue
                matchup = served.json()["matchup_id"]
                answer = client.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "A"})
                if answer.status_code == 200:
                    acknowledged.append(matchup)
                else:
                    assert answer.status_code == 503
                    uncertain.append((client, matchup))

        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(vote_on) for _ in range(4)]
            while len(acknowledged) < 15:
                end.wait(0.01)
            server.kill()
            end.wait(0.3)
            server.start()
            before = len(acknowledged)
            while len(acknowledged) < before + 15:
                end.wait(0.01)
            end.set()
            for job in running:
                job.result(240)
        for client, matchup in uncertain:  # an uncertain vote can be sent again, and counts once
            assert client.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "A"}).status_code == 200
        kept = {name for (name,) in sql(site.url, "SELECT id FROM matchups WHERE status = 'voted'")}
        assert kept == {*acknowledged, *(matchup for _, matchup in uncertain)}
    assert verify(site.url).clean


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "tiltyard.site")
