"""Hostile input: whatever is sent, no 5xx, no script, no redirect to elsewhere, no header of the sender's making."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.records import replace
from tests.site.sites import MODELS, SmallSite, answer, form_in, vote_page
from tiltyard.arena.audit.verify import verify

MARK = "<script>zq9()</script>"
SOAK = pytest.mark.soak
HOSTILE = (
    *(MARK, f'"><img src=x onerror=zq9()>{MARK}', "x\r\nx-evil: 1", "\x00", "\ud800", "é" * 50, "../../../etc/passwd"),
    *("//elsewhere.example", "https://elsewhere.example", "' OR 1=1 --", "%00%0d%0a", "{{7*7}}", "\u202e", "a" * 6_000),
    *("-1", "1e999", "NaN", "[]", "A", "TIE", "", " "),
)
words = st.sampled_from(HOSTILE) | st.text(max_size=40)
PAGES = (
    *("/", "/votes/{}", "/models/{}", "/compare?a={}&b={}", "/leaderboard?sort={}&find={}", "/me", "/data"),
    *("/static/{}", "/validity", "/methods", "/admin", "/{}", "/api/v1/models/{}", "/api/v1/matchups/{}"),
    *("/healthz", "/metrics"),
)


def check_harmless(answer: Any) -> None:
    assert answer.status_code < 500, (answer.status_code, answer.text[:300])
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "x-evil" not in answer.headers
    assert MARK not in answer.text or "json" in answer.headers["content-type"]
    if "location" in answer.headers:
        assert re.match(r"/(?![/\\])", answer.headers["location"]), answer.headers["location"]


def escaped(word: str) -> str:
    return quote(word.encode("utf-8", "surrogatepass"), safe="")


@pytest.mark.parametrize("examples", [25, pytest.param(6_000, marks=SOAK)])
def test_any_form_is_answered_with_a_page_or_a_clear_refusal(sqlite_site: SmallSite, examples: int) -> None:
    client = sqlite_site.client()

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(
        st.sampled_from(["/start", "/vote", "/skip", "/undo", "/me/forget", "/admin/login"]),
        st.dictionaries(
            st.sampled_from(["choice", "matchup_id", "token", "secret", "csrf"]) | words, words, max_size=5
        ),
        st.sets(st.sampled_from(["token", "matchup_id"])),
    )
    def send(path: str, fields: dict[str, str], real: set[str]) -> None:
        own = form_in(vote_page(client).text)
        sent = {**fields, **{name: own[name] for name in real}}
        body = "&".join(f"{escaped(name)}={escaped(value)}" for name, value in sent.items())
        kind = {"content-type": "application/x-www-form-urlencoded"}
        check_harmless(client.post(path, content=body, headers=kind))

    send()
    assert verify(sqlite_site.url).clean


@pytest.mark.parametrize("examples", [40, pytest.param(6_000, marks=SOAK)])
def test_any_body_and_header_is_answered_or_clearly_refused(sqlite_site: SmallSite, examples: int) -> None:
    client = sqlite_site.client()
    kinds = [
        "application/json",
        "application/x-www-form-urlencoded",
        "text/plain",
        "multipart/form-data",
        "",
        "x" * 300,
    ]

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(
        st.sampled_from(
            ["/start", "/vote", "/undo", "/api/v1/matchups", "/api/v1/matchups/x/vote", "/api/v1/matchups/x/skip"]
        ),
        st.binary(max_size=200) | st.sampled_from([b"{" * 5_000, b"[" * 16_000, b'{"choice":"A"}', b"a" * 17_000]),
        st.sampled_from(kinds),
        st.dictionaries(
            st.sampled_from(
                ["cookie", "origin", "host", "x-forwarded-for", "if-none-match", "accept", "content-length"]
            ),
            st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60).map(str.strip),
            max_size=3,
        ),
    )
    def send(path: str, body: bytes, kind: str, headers: dict[str, str]) -> None:
        headers = {name: value for name, value in headers.items() if name != "content-length" or value.isdecimal()}
        check_harmless(client.post(path, content=body, headers={**headers, "content-type": kind}))

    send()


@pytest.mark.parametrize("examples", [40, pytest.param(6_000, marks=SOAK)])
def test_any_address_is_answered_with_a_page_or_a_clear_refusal(sqlite_site: SmallSite, examples: int) -> None:
    client = sqlite_site.client()

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(
        st.sampled_from(PAGES),
        words,
        words,
        st.sampled_from(["GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]),
    )
    def visit(page: str, first: str, second: str, method: str) -> None:
        check_harmless(client.request(method, page.format(escaped(first), escaped(second))))

    visit()


@pytest.mark.parametrize("examples", [2, pytest.param(400, marks=SOAK)])
def test_the_interface_keeps_to_its_own_description(live: str, examples: int) -> None:
    import schemathesis  # here, because it takes a second that every other test would wait for too
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks as conforming

    schema = schemathesis.openapi.from_url(f"{live}/api/v1/openapi.json")
    checks = [
        *(not_a_server_error, conforming.status_code_conformance, conforming.content_type_conformance),
        conforming.response_schema_conformance,
    ]
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 9
    for operation in operations:

        @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
        @given(operation.as_strategy())
        def ask(case: Any) -> None:
            case.call_and_validate(checks=checks)

        ask()


def test_a_models_hostile_answers_are_shown_and_do_nothing(sqlite_site: SmallSite) -> None:
    hostile = (
        f"{MARK}\n\n[x](javascript:zq9()) ![y](https://elsewhere.example/z.png) <svg/onload=zq9()> \u202eabc\u200b"
    )
    bodies = [
        answer(model, prompt, f"{hostile} {model} {prompt}" + " long" * (190_000 if model == 0 else 0))
        for model in range(len(MODELS))
        for prompt in range(3)
    ]
    sqlite_site.arena.append([replace(body, response_id=f"hostile-{i}") for i, body in enumerate(bodies)])
    client = sqlite_site.client()
    for _ in range(3):
        page = vote_page(client)
        result = client.get(client.post("/vote", data={**form_in(page.text), "choice": "A"}).headers["location"])
        for shown in (page, result):
            check_harmless(shown)
            assert "<svg/onload" not in shown.text
            assert 'href="javascript' not in shown.text
            assert "<img" not in shown.text
            assert "zq9()" in shown.text
