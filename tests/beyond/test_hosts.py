"""One arena on two hosts behind nginx, with the configuration and the unit that are shipped in `deploy`.

The hosts are network namespaces on one machine, the database is one PostgreSQL, the proxy is Debian's nginx with TLS.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

from tests.arena.engines import sql
from tests.beyond.machines import ADMIN_SECRET, Host, Network, need_several_machines, network, network_server, proxy
from tests.beyond.visitors import Tally, Visitor, large_catalog, vote_together, voting, wait_until
from tests.forked import PATIENCE_SECONDS
from tests.site.sites import form_in, hidden_fields
from tests.sizes import size
from tiltyard.arena import Arena, DefenceRules, Policy
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store import Store, events_in_order, site_texts
from tiltyard.site.app import create_app
from tiltyard.site.settings import SiteSettings

NOTICE = "A demo, not a finding."
REPEATED_SHARE = 0.4
"""So many matchups may repeat a pair and prompt in flight. Four workers that choose at the same moment from the same
state often choose the same: 24 visitors at once have measured 6 to 16 %. Since a pair that waits is kept to three
prompts for its address block, and all visitors here are of one block, 25 % were measured. The bound was set after that.
It notices a herd (44 % in a prototype that reserved nothing), and promises no more."""


@dataclass(frozen=True)
class Town:
    """Two hosts behind a gate."""

    net: Network
    db: str
    gate: str
    hosts: tuple[Host, Host]
    folder: Path

    def through(self) -> list[str]:
        """Method, path, status and host of every request that came through the gate."""
        return (self.folder / "access.log").read_text().splitlines()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    need_several_machines()
    folder = tmp_path_factory.mktemp("gate")
    with ExitStack() as stack:
        net = stack.enter_context(network())
        url = stack.enter_context(network_server(net))
        Store.create(url).close()
        with Arena.open(url) as arena:
            often = Policy(defences=DefenceRules(publish_seconds=1))
            arena.append([e.SettingsChanged(policy=often), *large_catalog(), e.PhaseChanged(phase=3)])
            site_texts.set_site_text(arena.store, "notice", NOTICE)
        public = f"https://{net.address(1)}:8443"
        hosts = (Host(net, "a", 11, url, public), Host(net, "b", 12, url, public))
        for host in hosts:
            net.plug_in(host.name, host.place)
            stack.callback(host.kill)
            host.start()
        for host in hosts:
            host.wait()
        gate = stack.enter_context(proxy(net, list(hosts), folder))
        yield Town(net, url, gate, hosts, folder)


def kept_votes(town: Town) -> set[str]:
    return {name for (name,) in sql(town.db, "SELECT id FROM matchups WHERE vote_seq IS NOT NULL")}


def kept_since(town: Town, before: set[str], tally: Tally) -> set[str]:
    """The votes that the tables hold beyond `before`, once they hold all that was acknowledged, or not at all.

    An acknowledged vote is in the log; the tables follow it.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not set(tally.acknowledged) <= (kept := kept_votes(town)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return kept - before


def wait_for_equal_boards(town: Town) -> dict[str, object]:
    """The board of both hosts, once they agree on the head of the log."""
    end = sql(town.db, "SELECT max(seq) FROM events")[0][0]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        boards = [httpx.get(f"{host.url}/api/v1/leaderboard", verify=False).json() for host in town.hosts]
        same_head = all(board["seq"] >= end for board in boards) and boards[0]["head"] == boards[1]["head"]
        if same_head and boards[0]["publication"] == boards[1]["publication"]:  # ranges of ranks come a little later
            assert [_live(row) for row in boards[0]["rows"]] == [_live(row) for row in boards[1]["rows"]]
            board: dict[str, object] = boards[0]
            return board
        time.sleep(0.2)
    raise AssertionError(f"the boards stay apart: {[board['seq'] for board in boards]}, the log has {end}")


def first_pair(client: httpx.Client, host: str) -> tuple[dict[str, str], dict[str, str]]:
    """The form of somebody new who pressed the start button at a host, and their cookie."""
    page = client.get(f"{host}/")
    started = client.post(f"{host}/start", data=hidden_fields(page.text))
    assert started.status_code == 303
    cookie = {"cookie": started.headers["set-cookie"].split(";")[0]}
    return form_in(client.get(f"{host}/", headers=cookie).text), cookie


def _live(row: dict[str, object]) -> dict[str, object]:
    """What a line says of the state; intervals and movements follow with the next study."""
    return {name: row[name] for name in ("model", "rank", "rating", "deviation", "wins", "losses", "ties", "votes")}


def test_a_matchup_that_one_host_serves_is_voted_on_at_the_other(town: Town) -> None:
    one, other = town.hosts
    with httpx.Client(verify=False) as client:
        answer = client.post(f"{one.url}/api/v1/matchups")
        served = answer.json()
        cookie = {"cookie": answer.headers["set-cookie"].split(";")[0]}
        address = f"{other.url}/api/v1/matchups/{served['matchup_id']}"
        assert client.get(address, headers=cookie).json()["status"] == "open"
        assert client.get(address).status_code == 404  # somebody else
        voted = client.post(f"{address}/vote", json={"choice": "A"}, headers=cookie)
        assert voted.status_code == 200
        back = f"{one.url}/api/v1/matchups/{served['matchup_id']}/vote"
        assert client.post(back, json={"choice": "A"}, headers=cookie).json() == voted.json()
        assert client.post(back, json={"choice": "B"}, headers=cookie).status_code == 409
    voters = sql(town.db, f"SELECT voter FROM matchups WHERE id = '{served['matchup_id']}'")
    assert len(voters) == 1


def test_forms_hold_at_every_host_and_pages_carry_the_notice(town: Town) -> None:
    one, other = town.hosts
    with httpx.Client(verify=False) as client:
        fields, cookie = first_pair(client, one.url)
        answer = client.post(f"{other.url}/vote", data={**fields, "choice": "B"}, headers=cookie)
        assert answer.status_code == 303, answer.text
        result = client.get(f"{one.url}{answer.headers['location']}", headers=cookie)
        assert result.status_code == 200
        for host in town.hosts:
            assert NOTICE in client.get(f"{host.url}/leaderboard").text


def test_an_administrator_enters_at_one_host_works_at_the_other_and_leaves_both(town: Town) -> None:
    one, other = town.hosts
    with httpx.Client(verify=False) as client:
        session = _login(client, one.url)
        page = client.get(f"{other.url}/admin/models", headers=session)
        assert page.status_code == 200
        token = re.findall(r'name="token" value="([^"]*)"', page.text)[0]
        switched = {
            "token": re.findall(r'name="token" value="([^"]*)"', page.text)[-1],
            "name": "model-11",
            "to": "off",
        }
        assert client.post(f"{one.url}/admin/models", data=switched, headers=session).status_code == 303
        assert client.post(f"{other.url}/admin/logout", data={"token": token}, headers=session).status_code == 303
        for host in town.hosts:
            assert client.get(f"{host.url}/admin", headers=session).headers["location"] == "/admin/login"


def _login(client: httpx.Client, host: str) -> dict[str, str]:
    """The cookies of somebody who has entered."""
    page = client.get(f"{host}/admin/login")
    (token,) = re.findall(r'name="token" value="([^"]*)"', page.text)
    entered = client.post(f"{host}/admin/login", data={"token": token, "secret": ADMIN_SECRET})
    assert entered.status_code == 303, entered.text
    session = entered.headers["set-cookie"].split(";")[0]
    assert session.startswith("tiltyard-admin-")
    assert "secure" in entered.headers["set-cookie"].lower()
    return {"cookie": session}


def test_many_visitors_vote_through_the_gate_and_the_hosts_agree(town: Town) -> None:
    before = kept_votes(town)
    tally = vote_together(town.gate, town.net.visitors[:8], visitors=24, votes=4, look_seconds=0.5)
    assert len(set(tally.acknowledged)) == 24 * 4
    assert kept_since(town, before, tally) == set(tally.acknowledged)
    assert tally.stumbles == {}
    took_part = {line.split()[3] for line in town.through() if line.startswith("POST /api/v1/matchups")}
    assert took_part == {f"{host.net.address(host.place)}:8000" for host in town.hosts}
    board = wait_for_equal_boards(town)
    assert board["votes"] == len(kept_votes(town))
    check_flights(town)
    assert verify(town.db).clean


def check_flights(town: Town) -> None:
    """Not many pairs and prompts were served while they were in flight, though four workers chose at the same time."""
    store = Store.open(town.db)
    flying: Counter[tuple[str, str, str]] = Counter()
    where: dict[str, tuple[str, str, str]] = {}
    repeated = 0
    for event in events_in_order(store):
        body = event.body
        if isinstance(body, e.MatchupServed):
            first, second = sorted((body.model_a, body.model_b))
            cell = where[body.matchup_id] = (first, second, body.prompt_id)
            repeated += flying[cell] > 0
            flying[cell] += 1
        elif isinstance(body, e.Voted | e.Skipped | e.Expired):
            flying[where[body.matchup_id]] -= 1
    store.close()
    print(f"{repeated} of {len(where)} matchups repeat a pair and prompt in flight")  # noqa: T201
    assert repeated <= REPEATED_SHARE * len(where)


def counted_addresses(town: Town) -> set[str]:
    """What votes are counted under for the addresses that they came from; the addresses themselves are not kept."""
    return {key for (key,) in sql(town.db, "SELECT DISTINCT key FROM counters WHERE key LIKE 'vote:address:%'")}


def test_the_site_knows_where_visitors_really_come_from(town: Town) -> None:
    """What a visitor claims is not believed, and nobody is taken for the gate: each address has counters of its own."""
    after_vote = []
    for address, claimed in ((8, "203.0.113.9"), (8, "198.51.100.7"), (9, "203.0.113.9")):
        visitor = Visitor(town.gate, Tally(), town.net.visitors[address])
        visitor.client.headers["x-forwarded-for"] = claimed
        with visitor.client:
            visitor.vote("A")
        after_vote.append(counted_addresses(town))
    assert after_vote[0] == after_vote[1]
    assert after_vote[1] < after_vote[2]
    past_the_gate = httpx.post(f"{town.hosts[0].url}/api/v1/matchups", headers={"x-forwarded-for": "203.0.113.9"})
    assert past_the_gate.status_code == 201
    blocks = sql(town.db, "SELECT DISTINCT block FROM matchups")
    assert len(blocks) == 1  # that of the network in which everybody is, and none of those that were claimed


@pytest.fixture
def stranger(town: Town) -> Iterator[TestClient]:
    """A visitor of one more site over the same arena, which was not told the others' secret."""
    own = SiteSettings(db=town.db, secret="a secret that no other host knows", admin_secret=ADMIN_SECRET)
    with TestClient(create_app(own), follow_redirects=False) as client:
        yield client


def test_a_host_with_another_secret_knows_no_visitors_of_the_others(town: Town, stranger: TestClient) -> None:
    """What happens where TILTYARD_SECRET is not shared: whoever changes hosts is somebody new there."""
    one = town.hosts[0]
    with httpx.Client(verify=False) as client:
        fields, cookie = first_pair(client, one.url)
        session = _login(client, one.url)
    refused = stranger.post("/vote", data={**fields, "choice": "B"}, headers=cookie)
    assert refused.status_code == 403
    assert "Reload the page" in refused.text
    by_program = f"/api/v1/matchups/{fields['matchup_id']}/vote"
    assert stranger.post(by_program, json={"choice": "B"}, headers=cookie).status_code == 404
    assert stranger.get("/admin", headers=session).headers["location"] == "/admin/login"


def wait_for_its_turn(town: Town, host: Host) -> None:
    """Until the gate has sent votes to a host again, and they were taken."""
    seen, deadline = len(town.through()), time.monotonic() + PATIENCE_SECONDS
    taken = re.compile(rf"POST /api/v1/matchups/\S+/vote 200 {re.escape(host.net.address(host.place))}:8000$")
    while not any(taken.match(line) for line in town.through()[seen:]):
        assert time.monotonic() < deadline, "the gate does not come back to the host"
        time.sleep(0.1)


def test_a_host_that_dies_loses_nothing_and_the_gate_goes_on(town: Town) -> None:
    before, dying, visitors = kept_votes(town), town.hosts[1], size(3, soak=6)
    with voting(town.gate, town.net.visitors[:8], visitors=visitors) as tally:
        wait_until(tally, 2 * visitors)
        dying.kill()
        wait_until(tally, len(tally.acknowledged) + 3 * visitors)  # each some three times
        dying.start()
        dying.wait()
        wait_for_its_turn(town, dying)
    assert len(set(tally.acknowledged)) == len(tally.acknowledged)
    assert kept_since(town, before, tally) == set(tally.acknowledged)
    assert set(tally.stumbles) <= {0, 502, 504}
    assert sum(tally.stumbles.values()) <= 3 * visitors  # those who were waiting for it, and little more
    wait_for_equal_boards(town)
    assert verify(town.db).clean
