"""The page of the HTTP interface says what the site's own document says, and what the site answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.arena.databases import sqlite_template, sqlite_url
from tests.reference.pages import REFERENCE, ROOT, below, code, section, sections_of
from tests.site.sites import SCRAPER, SmallSite, small_site
from tiltyard.site.app import CALLS
from tiltyard.site.failures import BY_STATUS
from tiltyard.site.health import Readiness
from tiltyard.site.openapi import openapi

__all__ = ["sqlite_template", "sqlite_url"]

PAGE = REFERENCE / "http-api.md"
WEB = ROOT / "src" / "tiltyard" / "site"


@pytest.fixture
def site(sqlite_url: str) -> Iterator[SmallSite]:
    with small_site(sqlite_url) as made:
        yield made


def test_every_call_of_the_document_is_on_the_page_and_no_other_is(site: SmallSite, http_page: str) -> None:
    document = site.client().get("/api/v1/openapi.json").json()
    calls = {
        f"`{method.upper()} {path}`": call
        for path, calls in document["paths"].items()
        for method, call in calls.items()
    }
    told = {part.title: part.lines for part in below(sections_of(http_page), "Calls")}
    assert set(told) == set(calls)
    for title, call in calls.items():
        assert call["description"].splitlines()[0] in told[title]
    documented = {int(row["status"]) for row in section(PAGE, "Errors").rows}
    answered = {int(status) for call in calls.values() for status in call["responses"]}
    assert {status for status in answered if status >= 400} <= documented


def test_every_field_of_every_body_is_on_the_page(http_page: str) -> None:
    schemas = openapi(CALLS, "Tiltyard")["components"]["schemas"]
    returned = {kind.__name__ for call in CALLS for kind in call.returns}
    bodies = {name.removesuffix("Body"): schemas[name] for name in returned}
    (part,) = [part for part in sections_of(http_page) if part.title == "Bodies"]
    written = {(code(row["body"])[0], code(row["field"])[0]): row["what"] for row in part.rows}
    assert set(written) == {(name, field) for name, schema in bodies.items() for field in schema.get("properties", {})}
    assert all(written.values())
    for name in bodies:
        assert f"`{name}`" in http_page


def test_every_error_code_of_the_site_is_on_the_page_with_its_status() -> None:
    said = re.compile(r'Failure\(\s*(\d+), "(\w+)"')
    raised = {
        (int(status), name) for path in WEB.glob("*.py") for status, name in said.findall(path.read_text("utf-8"))
    }
    standing = {(status, name) for status, (name, _) in BY_STATUS.items()}
    written = {(int(row["status"]), code(row["code"])[0]) for row in section(PAGE, "Errors").rows}
    assert written == raised | standing


def test_an_error_has_the_shape_that_the_page_shows(site: SmallSite) -> None:
    answer = site.client().post("/api/v1/matchups/none/vote", json={"choice": "A"})
    assert answer.status_code == 404
    assert set(answer.json()) == {"error"}
    assert set(answer.json()["error"]) == {"code", "message"}


def test_the_other_addresses_answer_what_the_page_says(site: SmallSite) -> None:
    client = site.client()
    rows = section(PAGE, "Other addresses").rows
    for row in rows:
        if "address" in row:
            assert client.get(code(row["address"])[0].removeprefix("GET "), headers=SCRAPER).status_code == 200
    figures = {name for row in rows if "figure of `/metrics`" in row for name in code(row["figure of `/metrics`"])}
    shown = client.get("/metrics", headers=SCRAPER).text
    assert set(re.findall(r"^# TYPE (\w+)", shown, re.MULTILINE)) == figures
    assert {code(row["status"])[0] for row in rows if "status" in row} == set(Readiness)
    health = set(client.get("/healthz").json())
    sentence = next(line for line in section(PAGE, "Other addresses").lines if line.startswith("`/healthz` returns"))
    following = Path(PAGE).read_text(encoding="utf-8").partition(sentence)[2].splitlines()[1]
    assert health <= set(code(f"{sentence} {following}"))


def test_the_conventions_are_kept(site: SmallSite) -> None:
    client = site.client()
    made = client.post("/api/v1/matchups")
    assert made.status_code == 201
    assert [name.partition("-")[0] for name in made.cookies] == ["tiltyard"]
    assert client.post("/api/v1/matchups", headers={"origin": "https://elsewhere.example"}).status_code == 403
    board = client.get("/api/v1/leaderboard")
    assert client.get("/api/v1/leaderboard", headers={"if-none-match": board.headers["etag"]}).status_code == 304
    assert client.get("/api/v1/battles.jsonl").headers["x-log-seq"].isdecimal()
