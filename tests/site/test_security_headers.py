"""What every answer carries: errors, HEAD, files and redirects included."""

from __future__ import annotations

import re
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.arena.engines import sql
from tests.forked import PATIENCE_SECONDS
from tests.site.sites import SmallSite, form_in, hidden_fields, small_site, vote_page
from tiltyard.site.app import create_app
from tiltyard.site.guard import HEADERS
from tiltyard.site.rendering import static_files
from tiltyard.site.settings import SiteSettings

ADDRESSES = ("/", "/leaderboard", "/votes/none", "/nothing", "/api/v1/leaderboard", "/api/v1/nothing", "/static/none")


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "OPTIONS"])
def test_every_answer_carries_the_security_headers(shared_site: SmallSite, address: str, method: str) -> None:
    answer = shared_site.client().request(method, address)
    for name, value in HEADERS:
        assert answer.headers[name.decode()] == value.decode(), (address, method)
    assert "cache-control" in answer.headers
    assert "strict-transport-security" not in answer.headers
    if method == "HEAD":
        assert answer.content == b""


@pytest.mark.parametrize("address", ["/leaderboard", "/healthz", "/nothing", "/api/v1/leaderboard"])
def test_a_head_request_leaves_the_connection_usable(live: str, address: str) -> None:
    place = urlsplit(live)
    with closing(HTTPConnection(place.hostname or "", place.port, timeout=PATIENCE_SECONDS)) as connection:
        connection.request("HEAD", address)
        head = connection.getresponse()
        assert head.read() == b""
        assert int(head.headers["content-length"]) > 0
        sock = connection.sock
        connection.request("GET", address)
        answer = connection.getresponse()
        assert answer.status == head.status
        assert len(answer.read()) > 0
        assert connection.sock is sock


def test_the_head_of_an_answer_in_several_parts_has_no_body(sqlite_site: SmallSite) -> None:
    async def parts(_: Request) -> StreamingResponse:
        return StreamingResponse(iter(["one", "two"]))

    sqlite_site.app.routes.append(Route("/parts", parts))
    assert sqlite_site.client().get("/parts").text == "onetwo"
    assert sqlite_site.client().head("/parts").content == b""


def test_an_error_inside_a_route_is_an_honest_500_with_all_headers(sqlite_site: SmallSite) -> None:
    async def broken(_: Request) -> None:
        raise ZeroDivisionError("not for visitors")

    sqlite_site.app.routes.append(Route("/broken", broken))
    answer = sqlite_site.client().get("/broken")
    assert answer.status_code == 500
    assert "not for visitors" not in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_site_that_has_not_opened_yet_says_so_with_all_headers_and_gives_no_cookie() -> None:
    starting = TestClient(create_app(SiteSettings(db="sqlite:///unopened.db")))
    for address, status in (("/healthz", 503), ("/nothing", 404)):
        answer = starting.get(address, headers={"cookie": f"tiltyard={'a' * 64}"})
        assert answer.status_code == status
        assert set(HEADERS) <= {(name.lower(), value) for name, value in answer.headers.raw}
        assert "set-cookie" not in answer.headers


def test_a_page_has_no_inline_script_or_style(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    start, page = client.get("/").text, vote_page(client).text
    result = client.get(client.post("/vote", data={**form_in(page), "choice": "A"}).headers["location"]).text
    for text in (start, page, result, client.get("/nothing").text):
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)
        assert re.findall(r"<script[^>]*>", text) == re.findall(r'<script type="module" src="/static/[^"]+">', text)


def test_the_cookie_is_random_out_of_reach_of_scripts_and_given_once(sqlite_site: SmallSite) -> None:
    assert "set-cookie" not in sqlite_site.client().get("/").headers
    client = sqlite_site.client()
    said = client.post("/start", data=hidden_fields(client.get("/").text)).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(said.split("; "))
    assert "Secure" not in said
    value = said.partition("=")[2].partition(";")[0]
    assert len(value) >= 22  # 6 bits a letter: 128 bits and more
    assert "set-cookie" not in client.get("/").headers


@pytest.mark.parametrize("forged", ["", "x", "a b", "é" * 40, "../" * 20, "a" * 4000])
def test_a_forged_cookie_is_replaced(shared_site: SmallSite, forged: str) -> None:
    cookie = f"{shared_site.cookies.name}={forged}".encode()
    client = shared_site.client()
    answer = client.post("/api/v1/matchups", headers={"cookie": cookie.decode("latin-1").encode("latin-1")})  # type: ignore[dict-item]
    assert answer.status_code == 201
    assert f"{shared_site.cookies.name}=" in answer.headers["set-cookie"]


def test_who_comes_by_https_gets_a_secure_cookie_and_is_told_to_stay(sqlite_url: str) -> None:
    with small_site(sqlite_url, public_url="https://arena.example.org") as site:
        answer = site.client().post("/api/v1/matchups")
        assert "; Secure" in answer.headers["set-cookie"]
        assert "strict-transport-security" in answer.headers


def test_only_a_trusted_proxy_is_believed(sqlite_url: str) -> None:
    with small_site(sqlite_url, proxies=("10.0.0.0/8",), rate_limit=True) as site:
        said = {"x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.9"}
        trusted = site.client("10.1.2.3")
        assert "; Secure" in trusted.post("/api/v1/matchups", headers=said).headers["set-cookie"]
        stranger = site.client("192.0.2.77")
        assert "; Secure" not in stranger.post("/api/v1/matchups", headers=said).headers["set-cookie"]
        assert site.client("203.0.113.9").post("/api/v1/matchups", headers=said).status_code == 201
        blocks = sql(site.url, "SELECT block FROM matchups ORDER BY seq")
        assert blocks[0] == blocks[2] != blocks[1]


def test_static_files_are_kept_for_long_and_pages_are_not(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    for file in static_files().values():
        answer = client.get(file.url)
        assert answer.content == file.content
        assert "immutable" in answer.headers["cache-control"]
    assert client.get("/").headers["cache-control"] == "no-store"
    assert client.get("/static/..%2fapp.py").status_code == 404
