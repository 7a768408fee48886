"""Whether the site says truly how it is, to load balancers and monitors."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.arena.databases import rule_above_the_store
from tests.arena.engines import sql
from tests.site.administrators import staffed_site, vote_often
from tests.site.holding import held
from tests.site.sites import IDENTIFYING, SCRAPER, SmallSite, vote_once
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store import KindCounts, backlog, latest_events
from tiltyard.site import engine

LINE = re.compile(r'[a-z_]+(\{([a-z]+="[^"\\\n]*",?)+\})? -?[0-9.e+-]+\Z')


@pytest.fixture
def staffed(usual_url: str) -> Iterator[SmallSite]:
    with staffed_site(usual_url) as site:
        yield site


@pytest.fixture
def staffed_anywhere(arena_url: str) -> Iterator[SmallSite]:
    with staffed_site(arena_url) as site:
        yield site


def figures(client: TestClient) -> dict[str, float]:
    """The figures without labels, by name."""
    answer = client.get("/metrics", headers=SCRAPER)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    assert all(LINE.match(line) for line in lines), lines
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_a_site_that_takes_votes_is_well(staffed: SmallSite) -> None:
    answer = staffed.client().get("/healthz")
    assert answer.status_code == 200
    said = answer.json()
    assert (said["status"], said["store"], said["writer"]) == ("ready", True, True)


def test_health_is_asked_by_machines_and_hands_out_no_cookie(staffed: SmallSite) -> None:
    for address in ("/healthz", "/metrics"):
        answer = staffed.client().get(address, headers=SCRAPER)
        assert "set-cookie" not in answer.headers
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        head = staffed.client().head(address, headers=SCRAPER)
        assert (head.status_code, head.content) == (200, b"")


def test_without_a_writer_the_site_is_broken_and_says_when_to_come_back(sqlite_url: str) -> None:
    with staffed_site(sqlite_url) as site:
        site.arena.close()
        answer = site.client().get("/healthz")
        assert answer.status_code == 503
        assert answer.json()["status"] == "broken"
        assert not answer.json()["writer"]
        assert int(answer.headers["retry-after"]) > 0
        assert figures(site.client())["tiltyard_up"] == 0


def test_without_its_database_the_site_is_broken(sqlite_url: str) -> None:
    with staffed_site(sqlite_url) as site:
        path = Path(sqlite_url.removeprefix("sqlite:///"))
        site.arena.store.database.close()  # connections that are open would go on with the lost file
        site.observatory.close()
        for file in path.parent.glob("arena.db*"):
            file.unlink()
        path.mkdir()
        answer = site.client().get("/healthz")
        assert answer.status_code == 503
        said = answer.json()
        assert (said["status"], said["store"]) == ("broken", False)
        assert site.client().get("/metrics", headers=SCRAPER).status_code == 200
        path.rmdir()


@pytest.mark.parametrize("lost", ["removed", "replaced", "log of writes"])
def test_an_arena_whose_files_disappear_takes_no_votes_and_the_site_says_at_once_that_it_is_broken(
    sqlite_url: str, lost: str
) -> None:
    """SQLite goes on writing to a deleted file: votes that nobody will ever see must not be acknowledged."""
    with staffed_site(sqlite_url) as site:
        path, client = Path(sqlite_url.removeprefix("sqlite:///")), site.client()
        matchup = client.post("/api/v1/matchups").json()["matchup_id"]
        assert client.get("/healthz").json()["status"] == "ready"
        log_is_lost = lost == "log of writes"
        path.with_name("arena.db-wal").unlink() if log_is_lost else path.rename(path.with_name("kept.db"))
        if lost == "replaced":
            shutil.copy(path.with_name("kept.db"), path)
        answer = client.get("/healthz")
        assert (answer.status_code, answer.json()["status"]) == (503, "broken")
        assert "database" in answer.json()["trouble"]
        assert answer.json()["why"].startswith("arena.db-wal was removed" if log_is_lost else f"arena.db was {lost}")
        assert str(path.parent) not in answer.json()["why"]
        assert figures(client)["tiltyard_up"] == 0
        address = f"/api/v1/matchups/{matchup}/vote"
        assert [client.post(address, json={"choice": "A"}).status_code for _ in range(5)] == [503] * 5


@rule_above_the_store
def test_figures_count_what_visitors_did(staffed_anywhere: SmallSite) -> None:
    client = staffed_anywhere.client()
    vote_once(client)
    vote_once(client, "BOTH_BAD")
    page = client.get("/").text
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))
    assert client.post("/skip", data=fields).status_code == 303
    client.get("/")
    found = figures(client)
    assert found["tiltyard_matchups_total"] == 4
    assert found["tiltyard_votes_total"] == 2
    assert found["tiltyard_skips_total"] == 1
    assert found["tiltyard_expirations_total"] == 0
    assert found["tiltyard_matchups_in_flight"] == 1
    assert found["tiltyard_log_events"] == staffed_anywhere.arena.read(lambda state: state.seq)
    assert found["tiltyard_up"] == 1
    vote_often(staffed_anywhere, "ann", "AB")
    assert figures(client)["tiltyard_votes_total"] == 4


def test_requests_are_counted_by_route_and_status_not_by_what_visitors_write(staffed: SmallSite) -> None:
    client = staffed.client()
    for _ in range(3):
        client.get("/votes/no-such-matchup")
    client.get('/no/such"page%0A')
    client.request("BREW", "/")
    counted = {
        re.sub(r'worker="\d+",', "", name): value
        for name, value in figures(client).items()
        if name.startswith("tiltyard_http_requests_total")
    }
    name = "tiltyard_http_requests_total"
    assert counted[f'{name}{{method="GET",route="/votes/{{matchup_id}}",status="404"}}'] == 3
    assert counted[f'{name}{{method="GET",route="none",status="404"}}'] == 1
    assert any('method="other"' in name for name in counted)
    assert "no-such-matchup" not in "".join(counted)


def test_figures_name_no_model(staffed: SmallSite) -> None:
    client = staffed.client()
    vote_once(client)
    client.get("/models/zyxwolf-one")
    for address in ("/metrics", "/healthz"):
        text = client.get(address, headers=SCRAPER).text
        assert not [name for name in IDENTIFYING if name.lower() in text.lower()]


def test_figures_are_for_whoever_has_the_admin_secret_and_guesses_are_limited(staffed: SmallSite) -> None:
    client = staffed.client()
    assert [client.get("/metrics").status_code for _ in range(9)] == [401] * 9
    assert [client.get("/metrics", headers={"authorization": f"Bearer {n}"}).status_code for n in range(5)] == [401] * 5
    assert client.get("/metrics", headers=SCRAPER).status_code == 429
    assert staffed.client("203.0.113.9").get("/metrics", headers=SCRAPER).status_code == 200
    assert set(client.get("/healthz").json()) == {"status", "store", "writer", "trouble", "why", "version"}


def test_kinds_are_counted_on_from_where_they_were(staffed_anywhere: SmallSite) -> None:
    counts = KindCounts()
    store = staffed_anywhere.arena.store
    first = counts.follow(store)
    assert first["model_added"] == 4
    vote_often(staffed_anywhere, "ann", "ABT")
    later = counts.follow(store)
    assert (later["voted"], later["matchup_served"], later["model_added"]) == (3, 3, 4)
    assert counts.follow(store) == later == KindCounts().follow(store)
    assert sum(later.values()) == backlog(store).head_seq


def test_the_latest_events_come_first(staffed_anywhere: SmallSite) -> None:
    found = latest_events(staffed_anywhere.arena.store, ["model_added"], 2)
    assert [event.seq for event in found] == [4, 3]


def last_probe(site: SmallSite) -> list[tuple[object, ...]]:
    return sql(site.url, "SELECT expires_at FROM counters WHERE key = 'probe'")


def test_health_is_found_out_by_writing_once_for_all_who_ask(
    staffed_anywhere: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PROBE_SECONDS", 3600.0)
    head = staffed_anywhere.arena.read(lambda state: state.seq)
    assert staffed_anywhere.client().get("/healthz").json()["status"] == "ready"
    probe = last_probe(staffed_anywhere)
    assert len(probe) == 1
    for _ in range(10):
        assert staffed_anywhere.client().get("/healthz").json()["status"] == "ready"
    assert last_probe(staffed_anywhere) == probe
    monkeypatch.setattr(engine, "PROBE_SECONDS", 0.0)
    assert staffed_anywhere.client().get("/healthz").json()["status"] == "ready"
    assert staffed_anywhere.arena.read(lambda state: state.seq) == head  # outside the log
    assert last_probe(staffed_anywhere) > probe
    assert verify(staffed_anywhere.url).clean


def test_a_database_that_can_only_be_read_is_broken_until_it_can_be_written_again(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PROBE_SECONDS", 0.0)
    with staffed_site(sqlite_url) as site:
        client, database = site.client(), site.arena.store.database
        connected = database._connected

        def read_only() -> sqlite3.Connection:
            connection: sqlite3.Connection = connected()
            connection.execute("PRAGMA query_only = ON")
            return connection

        with monkeypatch.context() as patched:
            patched.setattr(database, "_connected", read_only)
            database._idle.clear()
            answer = client.get("/healthz")
            assert (answer.status_code, answer.json()["status"]) == (503, "broken")
            assert answer.json()["trouble"] == ["writer"]
            assert answer.json()["store"], "it can still be read"
            assert figures(client)["tiltyard_up"] == 0
        database._idle.clear()
        assert client.get("/healthz").json()["status"] == "ready"


def test_a_full_disk_is_broken_until_there_is_room_again(
    sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PROBE_SECONDS", 0.0)
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True)
    if made.returncode:
        pytest.skip("a small disk can be mounted by root alone")
    try:
        shutil.copy(sqlite_template, disk / "arena.db")
        with staffed_site(f"sqlite:///{disk}/arena.db") as site:
            client = site.client()
            assert client.get("/healthz").json()["status"] == "ready"
            fill(disk / "filler")
            assert client.get("/healthz").json()["status"] == "broken", "before the first vote that finds no room"
            matchups = [client.post("/api/v1/matchups").status_code for _ in range(20)]
            assert matchups[-1] == 503
            answer = client.get("/healthz")
            assert (answer.status_code, answer.json()["status"]) == (503, "broken")
            assert "no room left" in answer.json()["why"]
            (disk / "filler").unlink()
            assert client.get("/healthz").json()["status"] == "ready"
            assert client.post("/api/v1/matchups").status_code == 201
        assert verify(f"sqlite:///{disk}/arena.db").clean
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(path: Path) -> None:
    """A file that takes all the room there is."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 4096)


def test_a_writer_that_is_slow_is_busy_and_one_that_is_stuck_is_broken(
    staffed: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(engine, "STUCK_SECONDS", 3600.0)
    with held(staffed.arena, waiting=3):
        answer = staffed.client().get("/healthz")
        said = answer.json()
        assert (answer.status_code, said["status"], said["writer"], said["trouble"]) == (200, "busy", True, [])
        found = figures(staffed.client())
        assert found["tiltyard_writer_waiting"] >= 3
        assert (found["tiltyard_up"], found["tiltyard_busy"]) == (1, 1)
        assert found["tiltyard_writer_group_seconds"] > 0
        monkeypatch.setattr(engine, "STUCK_SECONDS", 0.0)
        assert staffed.client().get("/healthz").status_code == 503
    monkeypatch.setattr(engine, "PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(engine, "STUCK_SECONDS", 3600.0)
    assert staffed.client().get("/healthz").json()["status"] == "ready"
