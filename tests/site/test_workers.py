"""Running a site: how many processes, what is refused, and how it stops."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx2 as httpx
import pytest

from tests.arena.engines import sql
from tests.forked import PATIENCE_SECONDS, Forked, script
from tests.processes import wait_for
from tests.site.sites import SECRET, catalog, form_in, vote_page
from tests.sizes import size
from tiltyard.arena import Arena, DefenceRules, Policy, SettingsChanged
from tiltyard.arena.audit.verify import verify
from tiltyard.errors import OptionError, StoreError
from tiltyard.site.serving import serve
from tiltyard.site.settings import SiteSettings

SERVE = """
import sys
from tiltyard.site.serving import serve
from tiltyard.site.settings import SiteSettings
settings = SiteSettings(db=sys.argv[1], secret={secret!r}, rate_limit=False)
serve(settings, port=int(sys.argv[2]), workers=int(sys.argv[3]))
"""


@contextmanager
def serving(url: str, workers: int) -> Iterator[tuple[str, Forked]]:
    """A site in processes of its own."""
    with Arena.open(url) as arena:
        if not arena.read(lambda state: len(state.catalog.models)):
            arena.append([SettingsChanged(policy=Policy(defences=DefenceRules(publish_seconds=1))), *catalog()])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = Forked.anywhere(script, SERVE.format(secret=SECRET), url, str(port), str(workers))
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{address}/static/site.css", process)
        yield address, process
    finally:
        if process.running:
            process.terminate()
        process.wait(PATIENCE_SECONDS)


def visitor(address: str) -> httpx.Client:
    """A visitor who opens a connection for every request, so that workers take turns."""
    return httpx.Client(base_url=address, verify=False, headers={"connection": "close"})


def vote_times(address: str, votes: int) -> list[str]:
    """The matchups that one visitor voted on."""
    voted = []
    with visitor(address) as client:
        for _ in range(votes):
            served = client.post("/api/v1/matchups")
            assert served.status_code == 201, served.text
            matchup = served.json()["matchup_id"]
            answer = client.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "A"})
            assert answer.status_code == 200, answer.text
            voted.append(matchup)
    return voted


def check_shared_forms(address: str) -> None:
    """A form that one worker made is taken by another, and so is the visitor."""
    with visitor(address) as client:
        for _ in range(4):
            answer = client.post("/skip", data=form_in(vote_page(client).text))
            assert answer.status_code == 303, answer.text


def test_two_workers_on_postgresql_are_one_arena(postgresql_url: str) -> None:
    with serving(postgresql_url, workers=2) as (address, _):
        check_shared_forms(address)
        with ThreadPoolExecutor(4) as pool:
            voted = [
                name for names in pool.map(lambda _: vote_times(address, size(3, soak=15)), range(4)) for name in names
            ]
        rows: list[dict[str, str]] = []
        until = time.monotonic() + PATIENCE_SECONDS
        while len(rows) < len(voted) and time.monotonic() < until:
            time.sleep(0.1)
            lines = httpx.get(f"{address}/api/v1/battles.jsonl", verify=False).text.splitlines()
            rows = [json.loads(line) for line in lines]
        assert len(rows) == len(voted) == 4 * size(3, soak=15)
        assert len({row["voter"] for row in rows}) == 4
    assert verify(postgresql_url).clean


def test_a_site_that_is_told_to_stop_answers_whoever_waits_and_loses_nothing(sqlite_url: str) -> None:
    acknowledged: list[str] = []
    with serving(sqlite_url, workers=1) as (address, process):

        def vote_on() -> None:
            try:
                with httpx.Client(base_url=address, verify=False) as client:
                    while True:
                        matchup = client.post("/api/v1/matchups").json()["matchup_id"]
                        if client.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "A"}).status_code == 200:
                            acknowledged.append(matchup)
            except httpx.TransportError:
                return

        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(vote_on) for _ in range(4)]
            while len(acknowledged) < 20:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            for job in running:
                job.result(PATIENCE_SECONDS)
        assert process.wait(PATIENCE_SECONDS).returncode in (0, -signal.SIGTERM)
    assert set(acknowledged) <= {name for (name,) in sql(sqlite_url, "SELECT id FROM matchups WHERE status = 'voted'")}
    assert verify(sqlite_url).clean


def test_several_workers_on_sqlite_are_refused(sqlite_url: str) -> None:
    with pytest.raises(OptionError, match="need PostgreSQL"):
        serve(SiteSettings(db=sqlite_url, secret=SECRET), workers=2)
    with pytest.raises(OptionError, match="at least 1"):
        serve(SiteSettings(db=sqlite_url, secret=SECRET), workers=0)


def test_a_site_without_an_arena_does_not_start(tmp_path: object) -> None:
    with pytest.raises(StoreError):
        serve(SiteSettings(db=f"sqlite:///{tmp_path}/none.db", secret=SECRET))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(OptionError, match="shorter"):
        SiteSettings(db="sqlite:///x", secret="short")
    with pytest.raises(OptionError, match="trusted proxies"):
        SiteSettings(db="sqlite:///x", trusted_proxies=("not an address",))
    with pytest.raises(OptionError, match="public URL"):
        SiteSettings(db="sqlite:///x", public_url="arena.example.org")
    assert SECRET not in repr(SiteSettings(db="sqlite:///x", secret=SECRET))
