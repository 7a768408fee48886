"""A closed arena: who has no invitation is told so, and an invitation takes the place of an address block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from tests.arena.engines import sql
from tests.site.sites import SmallSite, small_site
from tiltyard.arena import EntryRules, Limits, Policy, SettingsChanged, clock
from tiltyard.arena.store import all_invitations, make_invitations, revoke_invitations
from tiltyard.errors import OptionError

CLOSED = msgspec.structs.replace(Policy(), entry=EntryRules(invitation_only=True))


def close(site: SmallSite, policy: Policy = CLOSED) -> None:
    site.arena.append([SettingsChanged(policy=policy)])
    site.observatory.refresh()


@pytest.fixture
def closed(sqlite_url: str) -> Iterator[SmallSite]:
    with small_site(sqlite_url, rate_limit=True) as site:
        close(site)
        yield site


def pressed(client: TestClient, secret: str) -> Any:
    """The answer to pressing the button on the page of an invitation, or that page if it has none."""
    page = client.get(f"/invited/{secret}")
    token = re.search(r'name="token" value="([^"]+)"', page.text)
    if token is None:
        return page
    return client.post("/start", data={"token": token[1], "invitation": secret})


def _start_token(client: TestClient, secret: str) -> str:
    token = re.search(r'name="token" value="([^"]+)"', client.get(f"/invited/{secret}").text)
    assert token is not None
    return token[1]


def start(client: TestClient, secret: str) -> int:
    """Its status."""
    return int(pressed(client, secret).status_code)


def vote(client: TestClient) -> int:
    served = client.post("/api/v1/matchups")
    if served.status_code != 201:
        return int(served.status_code)
    path = f"/api/v1/matchups/{served.json()['matchup_id']}/vote"
    return int(client.post(path, json={"choice": "A"}).status_code)


def invite(site: SmallSite, n: int = 1, most: int = 1, label: str = "") -> list[str]:
    return make_invitations(site.arena.store, n, now=clock(), most=most, label=label)


def test_without_an_invitation_a_page_says_what_to_do_and_nothing_is_stored(closed: SmallSite) -> None:
    client = closed.client("203.0.113.9")
    page = client.get("/").text
    assert "Voting here is by invitation." in page
    assert "Start voting" not in page
    assert client.post("/api/v1/matchups").json()["error"]["code"] == "not_invited"
    refused = pressed(client, "made-up")
    assert refused.status_code == 403
    assert "See the leaderboard" in refused.text
    assert "Go to a new pair" not in refused.text  # there is none without an invitation
    assert sql(closed.url, "SELECT count(*) FROM voters") == [(0,)]


def test_a_link_for_one_is_used_once_and_looking_at_it_uses_nothing(closed: SmallSite) -> None:
    (secret,) = invite(closed)
    mail_program, first, second = (closed.client("203.0.113.9") for _ in range(3))
    assert "You are invited." in mail_program.get(f"/invited/{secret}").text
    assert [start(first, secret), start(first, secret), start(second, secret)] == [303, 303, 403]
    opened = second.get(f"/invited/{secret}")
    assert opened.status_code == 403
    assert "This invitation is used up. Ask whoever invited you for another." in opened.text
    raced = second.post("/start", data={"token": _start_token(second, invite(closed)[0]), "invitation": secret})
    assert raced.status_code == 403  # it was used while the page was open
    assert [vote(first), vote(second)] == [200, 403]
    assert "noindex" in first.get(f"/invited/{secret}").headers["x-robots-tag"]
    (kept,) = sql(closed.url, "SELECT name, uses FROM invitations WHERE uses > 0")
    assert kept[1] == 1
    assert secret not in str(kept)


def test_an_invitation_is_the_block_whatever_the_address(closed: SmallSite) -> None:
    for_many, alone = (*invite(closed, most=0, label="class"), *invite(closed))
    for address, secret in (("203.0.113.9", for_many), ("198.51.100.7", for_many), ("203.0.113.9", alone)):
        client = closed.client(address)
        assert start(client, secret) == 303
        assert vote(client) == 200
    first, second, third = (row[0] for row in sql(closed.url, "SELECT vote_block FROM matchups ORDER BY vote_seq"))
    assert first == second != third
    assert sql(closed.url, "SELECT count(*) FROM address_blocks") == [(0,)]


def test_limits_count_by_invitation_and_not_by_address(closed: SmallSite) -> None:
    tight = msgspec.structs.replace(CLOSED, limits=msgspec.structs.replace(Limits(), address_votes_per_day=2))
    close(closed, tight)
    for_many, *alone = (*invite(closed, most=0), *invite(closed, n=3))
    told = []
    for secret in (for_many, for_many, for_many, *alone):
        client = closed.client("203.0.113.9")
        assert start(client, secret) == 303
        told.append(vote(client))
    assert told == [200, 200, 429, 200, 200, 200]


def test_a_revoked_invitation_ends_the_voting_of_those_who_used_it_and_keeps_their_votes(closed: SmallSite) -> None:
    secrets = invite(closed, n=2, label="spring")
    clients = [closed.client(), closed.client()]
    assert [start(client, secret) for client, secret in zip(clients, secrets, strict=True)] == [303, 303]
    assert vote(clients[0]) == 200
    name = all_invitations(closed.arena.store)[0].name
    assert revoke_invitations(closed.arena.store, name, clock()) == 1
    assert sorted(vote(client) for client in clients) == [200, 403]
    assert revoke_invitations(closed.arena.store, "spring", clock()) == 1
    assert [vote(client) for client in clients] == [403, 403]
    with pytest.raises(OptionError, match="no invitation in use"):
        revoke_invitations(closed.arena.store, "spring", clock())
    assert {one.status(clock()) for one in all_invitations(closed.arena.store)} == {"revoked"}
    assert sql(closed.url, "SELECT count(vote_seq) FROM matchups") == [(2,)]


def test_someone_who_voted_before_the_arena_was_closed_needs_an_invitation_too(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        client = site.client("203.0.113.9")
        assert vote(client) == 200
        close(site)
        assert vote(client) == 403
        assert "by invitation" in client.get("/").text
        (secret,) = invite(site)
        assert start(client, secret) == 303
        assert vote(client) == 200
        assert len({row[0] for row in sql(site.url, "SELECT voter FROM matchups WHERE vote_seq > 0")}) == 1


def test_a_program_brings_its_invitation_in_a_header(closed: SmallSite) -> None:
    (secret,) = invite(closed)
    client = closed.client()
    assert client.post("/api/v1/matchups", headers={"x-invitation": secret}).status_code == 201
    assert client.post("/api/v1/matchups").status_code == 200
