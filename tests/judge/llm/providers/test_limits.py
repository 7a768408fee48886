"""Limits of one request: how long its answer may be, how long it may take, and which headers go with it."""

from __future__ import annotations

import asyncio
import html
import json
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import quote as quote_all

import pytest

from tests.fakes import FakeServer, Fault
from tests.fakes.gate import bomb
from tests.judge.llm.providers.asking import KEY, question
from tests.judge.llm.providers_in_memory import Kept
from tiltyard.errors import QuestionRefused, Refused, TryLater
from tiltyard.judge.llm import (
    Ask,
    AskingParts,
    AskingSettings,
    PriceTable,
    Reply,
    ask_all,
    make_provider,
    parse_model_name,
    redact,
)
from tiltyard.judge.llm.keys import fill_in_headers

EACH = pytest.mark.parametrize("kind", ["anthropic", "openai", "gemini", "local"])


def asked(kind: str, server: FakeServer, **options: object) -> Reply:
    url = server.openai_url if kind in ("openai", "local") else server.anthropic_url
    env = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "LOCAL_API_KEY"), KEY)
    env |= {"TEAM_TOKEN": "team-secret-0001"}
    name = parse_model_name(f"{kind}/some-model")

    async def work() -> Reply:
        provider = make_provider(name, base_url=url, env=env, **options)  # type: ignore[arg-type]
        try:
            return await provider.ask(question())
        finally:
            await provider.aclose()

    return asyncio.run(work())


@EACH
def test_a_small_body_that_is_huge_when_decompressed_is_not_read(kind: str, fake_server: FakeServer) -> None:
    fake_server.behaviour.faults = [Fault(kind="bomb", route="ask", status=200)]
    with pytest.raises(QuestionRefused, match=r"is too long: more than 2,001,600 bytes\. It was not read") as error:
        asked(kind, fake_server)
    assert error.value.paid
    assert asked(kind, fake_server).text


def test_a_body_that_is_huge_when_decompressed_takes_little_memory(fake_server: FakeServer) -> None:
    """65 MB are sent in 64 kB: about the two megabytes of the limit are decompressed, in pieces of one."""
    asked("local", fake_server)
    fake_server.behaviour.faults = [Fault(kind="bomb", route="ask", status=200)]
    assert len(bomb()) < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(QuestionRefused):
            asked("local", fake_server)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 15_000_000


@EACH
def test_an_error_with_a_huge_body_is_the_error_it_is(kind: str, fake_server: FakeServer) -> None:
    fake_server.behaviour.faults = [Fault(kind="bomb", route="ask", status=503)]
    with pytest.raises(TryLater):
        asked(kind, fake_server)


def test_an_answer_that_is_too_long_fails_alone_and_is_not_kept(fake_server: FakeServer, tmp_path: Path) -> None:
    fake_server.behaviour.faults = [Fault(kind="bomb", route="ask", status=200, skip=2)]
    sink = Kept()

    async def work():
        provider = make_provider(parse_model_name("local/some-model"), base_url=fake_server.openai_url, env={})
        try:
            return await ask_all(
                [Ask(f"k{n}", question(f"question {n}"), "s") for n in range(6)],
                provider,
                sink,
                AskingParts(prices=PriceTable.load(), settings=AskingSettings(concurrency=1)),
                folder=tmp_path,
            )
        finally:
            await provider.aclose()

    totals = asyncio.run(work())
    assert (totals.all.done, totals.all.failed, totals.all.without_usage) == (5, 1, 1)
    (failed,) = (reply for reply in sink.ended.values() if reply.error)
    assert failed.error == "errored: answer too long"
    assert len(failed.text) < 100


@EACH
def test_a_server_that_drips_is_left_when_the_whole_request_has_taken_too_long(
    kind: str, fake_server: FakeServer
) -> None:
    fake_server.behaviour.faults = [Fault(kind="drip", route="ask", seconds=0.05)]
    began = time.monotonic()
    with pytest.raises(TryLater, match=r"no whole answer to .* within 0\.4 s \(timeout_seconds\)") as error:
        asked(kind, fake_server, timeout_seconds=0.4)
    assert time.monotonic() - began < 5
    assert error.value.timed_out


@EACH
def test_headers_go_with_every_request_and_may_name_variables(kind: str, fake_server: FakeServer) -> None:
    asked(kind, fake_server, headers={"X-Team": "Token ${TEAM_TOKEN}", "x-route": "blue"})
    _, heard = fake_server.ledger.heard[-1]
    assert heard["x-team"] == "Token team-secret-0001"
    assert heard["x-route"] == "blue"


def test_a_header_takes_the_place_of_the_one_that_the_sdk_sends(fake_server: FakeServer) -> None:
    asked("local", fake_server, headers={"authorization": "Bearer ${TEAM_TOKEN}"})
    _, heard = fake_server.ledger.heard[-1]
    assert heard["authorization"] == "Bearer team-secret-0001"


def test_the_value_of_a_header_is_in_no_error(fake_server: FakeServer) -> None:
    fake_server.behaviour.faults = [
        Fault(route="ask", status=401, message="bad token team-secret-0001, route blue-green-7")
    ]
    with pytest.raises(Refused) as error:
        asked("local", fake_server, headers={"X-Team": "${TEAM_TOKEN}", "X-Route": "blue-green-7"})
    assert "team-secret-0001" not in str(error.value)
    assert "blue-green-7" not in str(error.value)


@pytest.mark.parametrize("write", [str, html.escape, partial(quote_all, safe=""), lambda text: json.dumps(text)[1:-1]])
def test_the_value_of_a_header_is_hidden_however_a_server_repeats_it(write: Callable[[str], str]) -> None:
    token = 'abc/DEF+"<q>0001'
    fill_in_headers({"authorization": "Bearer ${ODD_TOKEN}"}, {"ODD_TOKEN": token})
    fill_in_headers({"authorization": "Bearer plain-token-0002"}, {})
    assert redact(f"no such token: {write(token)}, nor plain-token-0002") == "no such token: [hidden], nor [hidden]"


def test_a_header_without_its_variable_is_one_clear_error(fake_server: FakeServer) -> None:
    with pytest.raises(Refused, match=r"header X-Team names \$\{ABSENT\}: set ABSENT in the environment or in \.env"):
        asked("local", fake_server, headers={"X-Team": "${ABSENT}"})
    with pytest.raises(Refused, match=r"header X-Team .* characters that no header has"):
        asked("local", fake_server, headers={"X-Team": "a\nX-Admin: yes"})


def test_headers_do_not_follow_a_redirect_to_another_server(fake_server: FakeServer) -> None:
    with FakeServer() as other:
        away = Fault(route="ask", status=307, headers={"location": f"{other.openai_url}/chat/completions"})
        fake_server.behaviour.faults = [away]
        asked("local", fake_server, headers={"X-Team": "${TEAM_TOKEN}"})
        assert "x-team" in fake_server.ledger.heard[-1][1]
        assert "x-team" not in other.ledger.heard[-1][1]
