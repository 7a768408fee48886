"""What a site keeps of its visitors: no address in any table, the privacy page, consent, and limits by network."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.site.sites import SCRAPER, SmallSite, small_site
from tiltyard.arena import Limits, Policy, SettingsChanged
from tiltyard.arena.store import site_texts
from tiltyard.errors import OptionError

ADDRESSES = ("203.0.113.77", "2001:db8:77:4242::7")


@pytest.fixture
def limited(sqlite_url: str) -> Iterator[SmallSite]:
    with small_site(sqlite_url, rate_limit=True) as site:
        yield site


def vote(site: SmallSite, address: str) -> int:
    """The status of a vote by somebody new from this address."""
    client = site.client(address)
    served = client.post("/api/v1/matchups")
    if served.status_code != 201:
        return int(served.status_code)
    name = served.json()["matchup_id"]
    return int(client.post(f"/api/v1/matchups/{name}/vote", json={"choice": "A"}).status_code)


def test_no_table_holds_an_address_in_any_form_that_can_be_read(limited: SmallSite, tmp_path: Path) -> None:
    for address in ADDRESSES:
        client = limited.client(address)
        name = client.post("/api/v1/matchups").json()["matchup_id"]
        assert client.post(f"/api/v1/matchups/{name}/skip", json={}).status_code == 200
        assert vote(limited, address) == 200
        assert client.post("/admin/login", data={"secret": "wrong"}).status_code in (401, 403)
    path = limited.url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as connection:
        everything = "\n".join(connection.iterdump())
    for hint in ("203.0.113", "2001:db8", "testclient", "cb00714d", "20010db8"):
        assert hint not in everything.lower(), hint
    blocks = [
        row[0] for row in sqlite3.connect(path).execute("SELECT DISTINCT vote_block FROM matchups WHERE vote_seq > 0")
    ]
    assert len(blocks) == 2
    assert "" not in blocks


def test_without_limits_no_block_is_written_and_nothing_is_counted(sqlite_url: str) -> None:
    with small_site(sqlite_url) as site:
        assert vote(site, ADDRESSES[0]) == 200
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        assert connection.execute("SELECT vote_block FROM matchups").fetchall() == [("",)]
        assert connection.execute("SELECT count(*) FROM counters WHERE key != 'probe'").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM address_blocks").fetchone() == (0,)


@pytest.mark.parametrize(
    "neighbours",
    [
        [f"203.0.113.{n}" for n in range(1, 9)],
        [f"2001:db8:1:{n:x}00::1" for n in range(1, 9)],  # one /48
        [f"2001:db8:{n:x}::1" for n in range(1, 20)],  # one /40
    ],
)
def test_the_networks_around_an_address_have_limits_of_their_own(limited: SmallSite, neighbours: list[str]) -> None:
    tight = msgspec.structs.replace(Limits(), address_votes_per_day=2, network_growth=3)
    limited.arena.append([SettingsChanged(policy=msgspec.structs.replace(Policy(), limits=tight))])
    limited.observatory.refresh()
    told = [vote(limited, address) for address in neighbours]
    assert told.count(200) == (6 if len(neighbours) == 8 else 18)
    assert set(told) == {200, 429}
    assert vote(limited, "198.51.100.1") == 200


def test_a_session_has_a_limit_by_the_hour_and_says_when_to_come_back(limited: SmallSite) -> None:
    tight = msgspec.structs.replace(Limits(), session_votes_per_hour=1)
    limited.arena.append([SettingsChanged(policy=msgspec.structs.replace(Policy(), limits=tight))])
    limited.observatory.refresh()
    client = limited.client(ADDRESSES[0])
    for status in (200, 429):
        name = client.post("/api/v1/matchups").json()["matchup_id"]
        told = client.post(f"/api/v1/matchups/{name}/vote", json={"choice": "A"})
        assert told.status_code == status
    assert "1 in one hour is the limit" in told.json()["error"]["message"]
    assert 3000 < int(told.headers["retry-after"]) <= 3900


def test_the_privacy_page_says_what_is_kept_and_what_the_operator_adds(sqlite_url: str) -> None:
    with small_site(
        sqlite_url, rate_limit=True, consent="You agree to <b>this</b>.", privacy="We.\n\nWrite us."
    ) as site:
        page = site.client().get("/privacy").text
        start = site.client().get("/").text
    for part in ("400 days", "Forget me", "<p>We.</p>", "<p>Write us.</p>", "48 of an IPv6 address"):
        assert part in page, part
    assert "You agree to &lt;b&gt;this&lt;/b&gt;." in start
    assert start.count('href="/privacy"') == 2
    with small_site(sqlite_url) as site:
        assert "IPv6" not in site.client().get("/privacy").text


def test_an_operators_texts_are_kept_between_starts_and_have_bounds(sqlite_url: str) -> None:
    with small_site(sqlite_url) as site:
        store = site.arena.store
        site_texts.set_site_text(store, "privacy", "one\nline\n\n\n two ")
        assert site_texts.site_text(store, "privacy") == "one line\n\ntwo"
        with pytest.raises(OptionError, match="room for 500"):
            site_texts.set_site_text(store, "consent", "x" * 501)


def test_most_votes_from_one_network_are_asked_about(limited: SmallSite) -> None:
    for number in range(101):
        assert vote(limited, f"203.0.113.{number % 50}") == 200
    assert "tiltyard_shared_block_share 1.0" in limited.client().get("/metrics", headers=SCRAPER).text
