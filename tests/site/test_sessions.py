"""Who counts as a visitor: only holders of cookies that we issued, from their first press of a button."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import date
from itertools import cycle
from pathlib import Path
from urllib.robotparser import RobotFileParser

import httpx2 as httpx
import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.arena.engines import sql
from tests.site.sites import (
    ADMIN_SECRET,
    IDENTIFYING,
    MODELS,
    SECRET,
    SmallSite,
    form_in,
    hidden_fields,
    small_site,
    vote_once,
    vote_page,
)
from tiltyard.arena import Limits, Policy, TooMany
from tiltyard.arena import events as e
from tiltyard.arena.store import Store
from tiltyard.arena.store.database import SCHEMA
from tiltyard.arena.store.forgetting import forget_again
from tiltyard.site import visitors
from tiltyard.site.admin_gate import GUESSES, Gate
from tiltyard.site.settings import SiteSettings
from tiltyard.site.visitors import Cookies, derived_key

TABLES = re.findall(r"CREATE TABLE (\w+)", SCHEMA.read_text())
OLD = "a-cookie-that-nobody-signed".ljust(43, "y")


def with_cookie(site: SmallSite, *values: str, address: str = "testclient") -> TestClient:
    """A visitor who always sends these cookies, and no other."""
    client = site.client(address)
    client.headers["cookie"] = "; ".join(f"{site.cookies.name}={value}" for value in values)
    return client


def given(answer: httpx.Response) -> str | None:
    """The cookie that an answer sets."""
    found = re.match(r"tiltyard-\w+=([^;]*)", answer.headers.get("set-cookie", ""))
    return found[1] if found else None


def rows(site: SmallSite) -> dict[str, int]:
    """How many rows every table has."""
    with site.arena.store.database.read() as connection:
        return {name: connection.value(f"SELECT count(*) FROM {name}") for name in TABLES}


def get_addresses(site: SmallSite) -> Iterator[str]:
    """Every address that can be looked at, with something real in it."""
    real = {"name": MODELS[0], "model": MODELS[0], "model:path": MODELS[0], "name:path": MODELS[0], "matchup_id": "m"}
    for route in site.app.routes:
        if isinstance(route, Route) and "GET" in (route.methods or ()):
            path = "/static/site.css" if route.path.startswith("/static") else route.path
            yield re.sub(r"\{([^}]*)\}", lambda found: real.get(found[1], "x"), path)
    yield from ("/leaderboard?find=x", f"/compare?a={MODELS[0]}&b={MODELS[1]}", "/api/v1/openapi.json", "/nothing")


def test_no_look_without_our_cookie_writes_anything(site: SmallSite) -> None:
    addresses = list(get_addresses(site))
    assert {"/", "/me", "/robots.txt", "/votes/m", "/api/v1/matchups/m", "/admin", "/leaderboard"} <= set(addresses)
    site.client().get("/healthz")  # which writes one row to see whether it can, and from then on changes that one
    before = rows(site)
    assert set(before) >= {"events", "voters", "matchups", "counters", "site_texts"}
    for address in addresses:
        assert site.client().get(address).status_code < 500, address
        assert site.client().head(address).status_code < 500, address
    for cookie in (OLD, site.cookies.issue(), site.cookies.issue()[:-1] + "_"):
        for address in ("/", "/me", "/votes/m", "/api/v1/matchups/m", "/leaderboard"):
            assert with_cookie(site, cookie).get(address).status_code < 500, address
    assert rows(site) == before


def test_somebody_new_sees_a_button_that_leads_to_the_first_pair(site: SmallSite) -> None:
    client = site.client()
    start = client.get("/")
    assert start.status_code == 200
    assert "Start voting" in start.text
    assert not any(name in start.text for name in IDENTIFYING)
    assert client.get("/").status_code == 200
    answer = client.post("/start", data=hidden_fields(start.text))
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    first = form_in(client.get("/").text)["matchup_id"]
    assert client.post("/start", data=hidden_fields(start.text)).status_code == 303
    assert form_in(client.get("/").text)["matchup_id"] == first  # pressing again changes nothing
    assert rows(site)["voters"] == 1


def test_the_start_form_is_taken_from_its_own_visit_alone(sqlite_site: SmallSite) -> None:
    ann, bob, nobody = (sqlite_site.client(address) for address in ("192.0.2.7", "198.51.100.7", "203.0.113.7"))
    hers, his = (hidden_fields(client.get("/").text) for client in (ann, bob))
    assert hers["token"] != his["token"]
    vote_page(bob)
    other_purpose = {"token": form_in(bob.get("/").text)["token"]}
    for client, fields in (
        (ann, his),
        (nobody, hers),
        (bob, other_purpose),
        (ann, {"token": ""}),
        (ann, {"token": "é"}),
    ):
        refused = client.post("/start", data=fields)
        assert (refused.status_code, refused.headers["content-type"]) == (403, "text/html; charset=utf-8")
    assert ann.post("/start", data=hers, headers={"origin": "https://elsewhere.example"}).status_code == 403
    assert ann.post("/start", data=hers, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert bob.post("/vote", data={**form_in(bob.get("/").text), **his, "choice": "A"}).status_code == 403
    assert rows(sqlite_site)["voters"] == 1
    assert ann.post("/start", data=hers, headers={"origin": "null"}).status_code == 303


def forgeries(cookies: Cookies) -> list[bytes]:
    ours = cookies.issue()
    swapped = cookies.issue()[:22] + ours[22:]
    flipped = [ours[:at] + ("A" if ours[at] != "A" else "B") + ours[at + 1 :] for at in (0, 21, 22, 40, 63)]
    wrong = (Cookies(["another arena's secret"], "").issue(), ours[:-1], ours + "A", ours[:22], ours[:43], ours.lower())
    odd = ("", "x", '"', f'"{ours}"', "A" * 64, "A" * 43, "../" * 20, "a" * 8_000, "; ;=;", "%00", f"{ours}\t x")
    return [*(text.encode() for text in (swapped, *flipped, *wrong, *odd)), "é".encode() * 32, b"\xff" * 64]


def test_a_cookie_that_we_did_not_issue_is_no_cookie(sqlite_site: SmallSite) -> None:
    made, cookies = set(), sqlite_site.cookies
    for forged in forgeries(cookies):
        headers = {b"cookie": cookies.name.encode() + b"=" + forged}
        start = sqlite_site.client().get("/", headers=headers)  # type: ignore[arg-type]
        served = sqlite_site.client().post("/api/v1/matchups", headers=headers)  # type: ignore[arg-type]
        assert (start.status_code, served.status_code) == (200, 201), forged
        new = given(served)
        assert given(start) is None
        assert new is not None
        assert cookies.is_ours(new)
        assert new.encode() not in forged
        made.add(cookies.hash(new))
    assert {row[0] for row in sql(sqlite_site.url, "SELECT cookie_hash FROM voters")} == made


def test_among_several_cookies_of_one_name_ours_counts(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    first = form_in(vote_page(client).text)["matchup_id"]
    ours = client.cookies[sqlite_site.cookies.name]
    for planted in (OLD, "A" * 64, "", "x" * 9_000, Cookies(["another arena's secret"], "").issue()):
        answer = with_cookie(sqlite_site, planted, ours).get("/")
        assert form_in(answer.text)["matchup_id"] == first
        assert given(answer) is None


def test_keys_of_different_purposes_and_secrets_have_nothing_in_common() -> None:
    purposes = ("voter cookie", "shown answer", "form token")
    keys = {derived_key(secret, purpose) for secret in (SECRET, SECRET + "x", "") for purpose in purposes}
    assert len(keys) == 9
    assert {len(key) for key in keys} == {32}
    fresh = Cookies([SECRET], "one")
    assert not fresh.is_ours(Cookies([SECRET + "x"], "one").issue())
    assert not fresh.is_ours(Cookies([SECRET], "two").issue()), "another arena with the same secret"
    assert Cookies([SECRET], "two").hash(ours := fresh.issue()) != fresh.hash(ours)
    assert not any(fresh.is_ours("A" * length) for length in (0, 63, 65, 60_000))
    assert fresh._is_signed.cache_info().currsize == 2, "what is too short or long does not fill the memory"
    assert len({fresh.issue() for _ in range(100)}) == 100


def test_an_unsigned_cookie_that_nobody_voted_with_is_worth_nothing(sqlite_site: SmallSite) -> None:
    answer = with_cookie(sqlite_site, OLD).post("/api/v1/matchups")
    assert answer.status_code == 201
    assert sqlite_site.cookies.is_ours(given(answer) or "")
    assert with_cookie(sqlite_site, OLD).get(f"/api/v1/matchups/{answer.json()['matchup_id']}").status_code == 404


def test_a_new_secret_starts_visitors_anew(sqlite_url: str) -> None:
    with small_site(sqlite_url) as site:
        client = site.client()
        vote_once(client)
        cookie = client.cookies[site.cookies.name]
    with small_site(sqlite_url, secret="quite another secret") as site:
        site.observatory.refresh()
        answer = with_cookie(site, cookie).get("/me")
        assert "to go" not in answer.text
        assert given(answer) is None
        assert site.arena.read(lambda state: int(state.tallies.wins.view.sum())) == 1, "votes stay"


def test_with_the_secret_before_it_visitors_keep_what_is_theirs_and_get_a_cookie_of_the_new_one(
    sqlite_url: str,
) -> None:
    with small_site(sqlite_url) as site:
        client = site.client()
        vote_once(client)
        old = client.cookies[site.cookies.name]
    with small_site(sqlite_url, secret=f"quite another secret,{SECRET}") as site:
        site.observatory.refresh()
        page = with_cookie(site, old).get("/me")
        assert "1 vote so far" in page.text
        new = given(page)
        assert new not in (None, old)
        assert given(with_cookie(site, new or "").get("/me")) is None
    with small_site(sqlite_url, secret="quite another secret") as site:
        site.observatory.refresh()
        assert "1 vote so far" in with_cookie(site, new or "").get("/me").text
        assert "1 vote so far" not in with_cookie(site, old).get("/me").text


def test_two_arenas_on_one_host_neither_share_nor_overwrite_a_cookie(tmp_path: Path) -> None:
    """A browser keeps cookies by host and name, and sends all of them to both."""
    urls = [f"sqlite:///{tmp_path / name}.db" for name in ("one", "two")]
    for url in urls:
        Store.create(url).close()
    with small_site(urls[0]) as one, small_site(urls[1]) as two:
        browser, other = one.client(), two.client()
        vote_once(browser)
        other.cookies = browser.cookies
        assert "Start voting" in other.get("/").text, "the cookie of one arena is none of the other"
        vote_once(other)
        assert len(dict(other.cookies)) == 2
        hashes = [sql(url, "SELECT cookie_hash, voter FROM voters") for url in urls]
        assert [len(found) for found in hashes] == [1, 1]
        assert not set(hashes[0][0]) & set(hashes[1][0])
        one.observatory.refresh()
        browser.cookies = other.cookies
        assert "1 vote so far" in browser.get("/me").text


def test_no_look_sets_a_cookie(sqlite_site: SmallSite) -> None:
    for address in get_addresses(sqlite_site):
        assert "set-cookie" not in sqlite_site.client().get(address).headers, address
        assert "set-cookie" not in sqlite_site.client().head(address).headers, address


def test_without_a_secret_of_its_own_a_site_keeps_its_visitors_over_restarts(usual_url: str) -> None:
    with small_site(usual_url, secret="") as site:
        client = site.client()
        fields = form_in(vote_page(client).text)
        cookie = client.cookies[site.cookies.name]
        kept = site.arena.store.outside.secrets(date.today())
        assert len(kept) >= 43
        assert kept not in repr(site.app.state.site)
        for address in get_addresses(site):
            said = client.get(address)
            assert kept not in said.text + str(said.headers)
    with small_site(usual_url, secret="") as site:
        again = with_cookie(site, cookie)
        assert form_in(again.get("/").text) == fields
        assert again.post("/vote", data={**fields, "choice": "A"}).status_code == 303
    for table in TABLES:
        assert kept not in str(sql(usual_url, f"SELECT * FROM {table}")), table


@pytest.fixture
def pair_of_sites(arena_url: str) -> Iterator[tuple[SmallSite, SmallSite]]:
    """Two sites with limits over one arena, as two workers are; on SQLite, which has one writer, the same one twice."""
    few = Limits(session_matchups_per_minute=8, address_sessions_per_hour=12)
    with small_site(arena_url, rate_limit=True) as one, ExitStack() as stack:
        one.arena.append([e.SettingsChanged(policy=Policy(limits=few))])
        one.observatory.refresh()
        on_sqlite = one.arena.store.database.is_sqlite
        yield one, one if on_sqlite else stack.enter_context(small_site(arena_url, rate_limit=True))


def test_many_requests_with_one_cookie_share_one_sessions_limit(pair_of_sites: tuple[SmallSite, SmallSite]) -> None:
    browser, sites = pair_of_sites[0].client(), cycle(pair_of_sites)
    browser.post("/start", data=hidden_fields(browser.get("/").text))
    cookie = browser.cookies[pair_of_sites[0].cookies.name]
    clients = [with_cookie(next(sites), cookie) for _ in range(12)]
    with ThreadPoolExecutor(10) as pool:
        statuses = list(pool.map(lambda client: client.post("/api/v1/matchups").status_code, clients))
    assert (statuses.count(201), statuses.count(200), statuses.count(429)) == (1, 7, 4), "one is open for all"
    assert len(sql(pair_of_sites[0].url, "SELECT voter FROM voters")) == 1
    counted = sql(pair_of_sites[0].url, "SELECT sum(count) FROM counters WHERE key LIKE 'session:address:3600:%'")
    assert counted == [(1,)]
    assert with_cookie(pair_of_sites[0], cookie).post("/api/v1/matchups").status_code == 429


def test_many_new_visitors_at_once_are_never_more_than_an_address_may_bring(
    pair_of_sites: tuple[SmallSite, SmallSite],
) -> None:
    sites = cycle(pair_of_sites)
    clients = [next(sites).client() for _ in range(16)]
    with ThreadPoolExecutor(10) as pool:
        statuses = list(pool.map(lambda client: client.post("/api/v1/matchups").status_code, clients))
    assert (statuses.count(201), statuses.count(429)) == (12, 4)
    assert len(sql(pair_of_sites[0].url, "SELECT voter FROM voters")) == 12


def test_wrong_secrets_tried_at_once_are_never_more_than_an_address_may_try(postgresql_url: str) -> None:
    settings = SiteSettings(db=postgresql_url, secret=SECRET, admin_secret=ADMIN_SECRET)
    store = Store.open(postgresql_url)
    gates = [Gate(settings, store) for _ in range(2)]

    def guess(number: int) -> str:
        try:
            return str(gates[number % 2].enter("192.0.2.1", "wrong"))
        except TooMany:
            return "too many"

    with ThreadPoolExecutor(6) as pool:
        told = list(pool.map(guess, range(12)))
    assert (told.count("None"), told.count("too many")) == (GUESSES, 12 - GUESSES)
    store.close()


def test_whoever_has_started_can_be_forgotten_without_a_vote(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    assert "/me/forget" not in client.get("/me").text, "nobody is kept yet"
    assert client.post("/api/v1/matchups", json={}).status_code == 201
    assert "/me/forget" in client.get("/me").text


def test_forgetting_takes_the_cookie_away_and_a_kept_one_leads_nowhere(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    where = vote_once(client)
    sqlite_site.observatory.refresh()
    old, token = client.cookies[sqlite_site.cookies.name], hidden_fields(client.get("/me").text)["token"]
    before = sql(sqlite_site.url, "SELECT voter FROM voters")
    assert client.post("/me/forget", data={"token": token}).status_code == 303
    assert not dict(client.cookies)
    assert sql(sqlite_site.url, "SELECT voter FROM voters") == []
    replayed = with_cookie(sqlite_site, old)
    assert replayed.get(where).status_code == 404
    assert "Start voting" in replayed.get("/").text
    served = replayed.post("/api/v1/matchups")
    assert served.status_code == 201
    after = sql(sqlite_site.url, "SELECT voter FROM voters")
    assert len(after) == 1
    assert after != before
    assert replayed.get(where).status_code == 404
    new = given(served) or ""
    assert sql(sqlite_site.url, "SELECT cookie_hash FROM voters") == [(sqlite_site.cookies.hash(new),)]
    assert sqlite_site.cookies.hash(new) != sqlite_site.cookies.hash(old)
    forget_again(sqlite_site.arena.store)
    assert sql(sqlite_site.url, "SELECT voter FROM voters") == after, "who came back is nobody that was forgotten"


def test_crawlers_may_read_what_is_public_and_list_nothing_personal(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    answer = client.get("/robots.txt")
    assert answer.headers["content-type"].startswith("text/plain")
    assert given(answer) is None
    robots = RobotFileParser()
    robots.parse(answer.text.splitlines())
    personal = (
        "/me",
        "/me?forgotten=1",
        "/votes/x",
        "/admin",
        "/admin/login",
        "/api/v1/matchups",
        "/api/v1/matchups/x",
    )
    public = ("/", "/leaderboard", "/models/x", "/compare", "/validity", "/methods", "/data", "/api/v1/leaderboard")
    assert not any(robots.can_fetch("Bot", address) for address in personal)
    assert all(robots.can_fetch("Bot", address) for address in public)
    assert {client.get(address).headers.get("x-robots-tag") for address in personal} == {"noindex"}
    assert {client.get(address).headers.get("x-robots-tag") for address in public} == {None}
    assert 'content="noindex"' not in client.get("/").text
    assert 'content="noindex"' in vote_page(client).text
    assert 'content="noindex"' in client.get("/me").text


def test_a_process_remembers_the_latest_visitors_and_no_more(
    sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for two: the third takes the place of the first, who is found in the database and takes the second's."""
    monkeypatch.setattr(visitors, "KNOWN_VISITORS", 2)
    ann, bob, eve = clients = [sqlite_site.client() for _ in range(3)]
    for client in clients:
        vote_page(client)
    cookies = sqlite_site.cookies
    names = {client: cookies.hash(client.cookies[cookies.name]) for client in clients}
    known = sqlite_site.app.state.site.visitors._voters
    assert list(known) == [names[bob], names[eve]]
    assert "/me/forget" in ann.get("/me").text
    assert list(known) == [names[eve], names[ann]]
