"""Gemini over HTTP: what is sent, what a batch may become, and what stays secret."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeServer, Fault, Said
from tests.judge.llm.providers.asking import (
    KEY,
    all_failed,
    ask,
    batch_replies,
    ended_batch,
    failed,
    make,
    question,
    use,
)
from tiltyard.data.bank import ImageFinder
from tiltyard.errors import QuestionRefused, Refused, TryLater
from tiltyard.judge.llm import Reply, ReplySchema, ShownImage, Stop, Usage
from tiltyard.judge.llm.provider import ToolCall
from tiltyard.judge.llm.providers import gemini as wire

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"

EARLIER = (("Name a bird.", "The heron."),)
BODY = {
    "contents": [
        {"role": "user", "parts": [{"text": "Name a bird."}]},
        {"role": "model", "parts": [{"text": "The heron."}]},
        {"role": "user", "parts": [{"text": "Which is taller?"}]},
    ],
    "systemInstruction": {"parts": [{"text": "A rubric."}]},
    "generationConfig": {"maxOutputTokens": 100, "temperature": 0, "thinkingConfig": {"thinkingBudget": 0}},
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
}
OPTIONS = {
    "temperature": 0,
    "generationConfig": {"thinkingConfig": {"thinkingBudget": 0}},
    "safetySettings": BODY["safetySettings"],
}


def test_the_same_body_is_sent_alone_and_in_a_batch(fake_server: FakeServer) -> None:
    asked = question("Which is taller?", earlier=EARLIER, options=OPTIONS)
    reply = ask("gemini", fake_server, asked)
    assert (reply.text, reply.model) == (fake_server.behaviour.judge("A rubric.", "Which is taller?"), "some-model")
    batch_replies("gemini", fake_server, [("one", asked)])
    assert [one.body for one in fake_server.ledger.accepted] == [BODY, BODY]


SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string"}},
    "required": ["verdict"],
    "additionalProperties": False,
}


def test_a_json_object_is_asked_for_by_its_schema() -> None:
    wanted = ReplySchema(name="verdict", schema=SCHEMA)
    body = wire.gemini_request(question(structured=wanted, options={"temperature": 0}))
    assert body["generationConfig"] == {
        "maxOutputTokens": 100,
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
        "temperature": 0,
    }
    assert "tools" not in body


def test_a_forced_call_of_a_tool_is_asked_for_and_read(fake_server: FakeServer) -> None:
    wanted = question(structured=ReplySchema(name="verdict", schema=SCHEMA, description="Says it.", as_tool=True))
    fake_server.behaviour.judge = lambda system, user: '{"verdict": "A"}'
    for reply in (
        ask("gemini", fake_server, wanted),
        *dict(batch_replies("gemini", fake_server, [("k", wanted)])).values(),
    ):
        assert reply.calls == (ToolCall("verdict", '{"verdict": "A"}'),)
        assert reply.text == ""
    assert fake_server.ledger.accepted[0].body["tools"][0]["functionDeclarations"] == [
        {"name": "verdict", "description": "Says it.", "parametersJsonSchema": SCHEMA}
    ]


def test_images_are_sent_as_bytes_or_addresses_before_the_words(tmp_path: Path, fake_server: FakeServer) -> None:
    (tmp_path / "cat.png").write_bytes(PNG)
    names = ["cat.png", "https://example.org/otter.jpg?size=1", "https://example.org/otter"]
    images = ImageFinder(tmp_path).find(names, "row 1")
    asked = question("Which?", images=tuple(ShownImage(image=one, before=f"[{n}]") for n, one in enumerate(images)))
    assert ask("gemini", fake_server, asked).error is None
    batch_replies("gemini", fake_server, [("one", asked)])
    for accepted in fake_server.ledger.accepted:
        assert accepted.body["contents"][-1]["parts"] == [
            {"text": "[0]"},
            {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(PNG).decode()}},
            {"text": "[1]"},
            {"fileData": {"fileUri": names[1], "mimeType": "image/jpeg"}},
            {"text": "[2]"},
            {"fileData": {"fileUri": names[2]}},
            {"text": "Which?"},
        ]


@pytest.mark.parametrize("part", [{"functionCall": 7}, {"functionCall": {}}, {"functionCall": None}])
def test_a_call_that_is_none_is_left_out(part: dict[str, Any]) -> None:
    assert wire.gemini_reply({"candidates": [{"content": {"parts": [part]}}]}).calls == ()


def test_a_body_without_system_text_has_none() -> None:
    assert "systemInstruction" not in wire.gemini_request(question(system=""))


def test_probabilities_are_asked_for_only_where_the_user_says_that_the_model_has_them(fake_server: FakeServer) -> None:
    choices = ("A", "B", "TIE")
    fake_server.behaviour.judge = lambda system, user: "A"
    assert ask("gemini", fake_server, question(choices=choices)).choice_probabilities is None
    wished = question(choices=choices, options={"responseLogprobs": True})
    error = failed("gemini", fake_server, wished)
    assert isinstance(error, QuestionRefused)
    assert "Logprobs is not enabled" in str(error)
    fake_server.behaviour.first_token = lambda system, user: {"A": 0.75, "B": 0.2, "T": 0.04, "Hm": 0.01}
    found = ask("gemini", fake_server, wished).choice_probabilities
    assert found == pytest.approx({"A": 0.75, "B": 0.2, "TIE": 0.04})
    assert fake_server.ledger.accepted[-1].body["generationConfig"] == {
        "maxOutputTokens": 100,
        "logprobs": 20,
        "responseLogprobs": True,
    }


def test_a_certain_token_whose_logarithm_of_zero_is_left_out_counts_whole() -> None:
    result = {"chosenCandidates": [{"token": "A"}], "topCandidates": [{"candidates": [{"token": "A"}]}]}
    answer = {"candidates": [{"content": {"parts": [{"text": "A"}]}, "logprobsResult": result}]}
    assert wire.gemini_reply(answer, ("A", "B")).choice_probabilities == {"A": 1.0, "B": 0.0}


def test_tokens_are_billed_to_the_last_one(fake_server: FakeServer) -> None:
    fake_server.behaviour.cache_minimum_tokens = 1
    replies = [ask("gemini", fake_server, question(f"question {n}")) for n in range(3)]
    replies += [reply for _, reply in batch_replies("gemini", fake_server, [("one", question("another"))])]
    assert all(reply.usage for reply in replies)
    total = sum((reply.usage for reply in replies if reply.usage), Usage())
    billed = dict(fake_server.ledger.billed)
    assert billed.pop("answers") == 4
    assert {name: getattr(total, name) for name in billed} == billed
    assert [reply.batched for reply in replies] == [False, False, False, True]


def test_a_blocked_prompt_is_a_refusal_and_a_cut_answer_says_so(fake_server: FakeServer) -> None:
    fake_server.behaviour.judge = lambda system, user: Said("", "nothing") if user == "bad" else "word " * 100
    replies = dict(
        batch_replies("gemini", fake_server, [("bad", question("bad")), ("long", question("long", max_tokens=5))])
    )
    assert replies["bad"].stop is Stop.REFUSAL
    assert "PROHIBITED_CONTENT" in replies["bad"].text
    assert replies["long"].stop is Stop.LENGTH


def test_google_says_how_long_to_wait_in_the_body(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    details = [{"@type": "QuotaFailure"}, {"@type": "RetryInfo", "retryDelay": "34.5s"}]
    assert wire.retry_seconds({"details": details}) == 34.5
    assert wire.retry_seconds({"details": [{"retryDelay": "soon"}, {"retryDelay": 7}, None]}) is None
    from tests.fakes import gate

    monkeypatch.setattr(gate.gemini_wire, "error_body", lambda *_: {"error": {"code": 429, "details": details}})
    waits = [
        error.retry_after for error in all_failed("gemini", fake_server, [Fault(), Fault(headers={"retry-after": "3"})])
    ]  # type: ignore[attr-defined]
    assert waits == [34.5, 3]


def test_a_wrong_key_and_a_country_are_about_every_question(fake_server: FakeServer) -> None:
    fake_server.behaviour.key = "another key"
    error = failed("gemini", fake_server)
    assert type(error) is Refused
    assert "the key was not accepted (400)" in str(error)
    assert "Check GEMINI_API_KEY" in str(error)
    fake_server.behaviour.key = None
    blocked = Fault(status=400, message="User location is not supported", error_type="FAILED_PRECONDITION")
    empty = Fault(status=429, message="Your prepayment credits are depleted.")
    country, money = all_failed("gemini", fake_server, [blocked, empty])
    assert (type(country), type(money)) == (Refused, Refused)
    assert "Top up the account" in str(money)


def test_an_error_page_or_list_is_still_one_line(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fakes import gate

    for body in ([{"error": {"code": 503, "message": "busy"}}], "<html>", None, {"error": "busy"}, [], [3]):
        monkeypatch.setattr(gate.gemini_wire, "error_body", lambda *_, body=body: body)
        (error,) = all_failed("gemini", fake_server, [Fault(status=503)])
        assert isinstance(error, TryLater)
        assert "(503)" in str(error)
        assert "\n" not in str(error)


def test_a_name_that_no_model_has_is_refused_before_it_is_sent(fake_server: FakeServer) -> None:
    assert type(failed("gemini", fake_server, question(model="x?key=1"))) is Refused
    assert fake_server.ledger.calls["ask"] == 0


def test_nothing_of_googles_environment_changes_where_the_key_goes(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_server.behaviour.key = KEY
    for variable in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, "another-key-0123456789")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "someone")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v9")
    assert ask("gemini", fake_server, question()).error is None


async def _broken(provider: Any, server: FakeServer, **changes: Any) -> tuple[str | None, list[tuple[str, Reply]]]:
    batch_id = await ended_batch(provider, [("one", question()), ("two", question("other"))])
    for name, value in changes.items():
        setattr(next(iter(server.ledger.batches.values())), name, value)
    state = await provider.state(batch_id)
    assert state.ended
    return state.unanswered, [line async for line in provider.results(batch_id)]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"canceled": True}, "canceled"),
        ({"failure": {"code": 3, "message": "line 1 is malformed"}}, "errored: INVALID_ARGUMENT: line 1 is malformed"),
        ({"failure": {"code": 99}}, "errored: 99: no reason given"),
    ],
)
def test_a_batch_without_results_says_why(changes: dict[str, Any], why: str, fake_server: FakeServer) -> None:
    found = use(make("gemini", fake_server), lambda provider: _broken(provider, fake_server, **changes))
    assert found == (why, [])


def test_results_that_are_no_longer_kept_are_refused(fake_server: FakeServer) -> None:
    with pytest.raises(Refused, match="no longer kept by Google") as caught:
        use(make("gemini", fake_server), lambda provider: _broken(provider, fake_server, archived=True))
    assert caught.value.__context__ is None or KEY not in repr(caught.value.__context__)


def test_a_batch_is_found_again_by_its_name_whatever_the_order_of_the_list(fake_server: FakeServer) -> None:
    fake_server.behaviour.largest_page = 2

    async def work(provider: Any) -> list[Any]:
        for number in range(5):
            await provider.submit([("one", question(f"{number}"))], f"run-{number}")
        for number, batch in enumerate(fake_server.ledger.batches.values()):
            batch.created_at += (number % 2) * 1000
        return [state async for state in provider.recent_batches()]

    listed = use(make("gemini", fake_server), work)
    assert sorted(state.tag for state in listed) == [f"run-{number}" for number in range(5)]
    times = [state.created_at for state in listed]
    assert times == sorted(times, reverse=True)
    assert {state.size for state in listed} == {1}


def test_a_batch_with_an_odd_state_is_looked_at_and_not_taken_for_ended() -> None:
    for batch in ({}, {"name": 7, "metadata": {"state": ["x"], "createTime": "soon"}}, {"metadata": "none"}):
        state = wire.batch_state(batch, "batches/one")
        assert (state.batch_id, state.ended, state.created_at) == ("batches/one", False, float("inf"))
    assert wire.batch_state({"done": True, "metadata": {"state": "JOB_STATE_NEW"}}, "x").ended


def test_an_upload_that_is_not_confirmed_is_tried_later_without_blocking(fake_server: FakeServer) -> None:
    async def work(provider: Any) -> None:
        await provider.submit([("one", question())], "run-1")

    for fault in (
        Fault(route="upload", status=503),
        Fault(route="upload", skip=1),
        Fault(route="upload", kind="garbage"),
    ):
        fake_server.behaviour.faults = [fault]
        with pytest.raises(TryLater):
            use(make("gemini", fake_server), work)
    assert fake_server.ledger.batches == {}


@pytest.mark.parametrize(
    ("line", "error", "final"),
    [
        ({"error": {"code": 3, "message": "bad"}}, "errored: INVALID_ARGUMENT", True),
        ({"error": {"code": 13}}, "errored: INTERNAL", False),
        ({"error": {"code": 8, "message": "quota"}}, "errored: RESOURCE_EXHAUSTED", False),
        ({"error": {"code": 1}}, "canceled", False),
        ({"error": {"code": 4}}, "expired", False),
        ({"error": {"code": []}}, "errored: error", False),
        ({"status": {"code": 400}}, "errored: INVALID_ARGUMENT", True),
        ({"response": 7}, "errored: no response", False),
        ({"response": {}}, "errored: no candidates", False),
        ({}, "errored: no response", False),
    ],
)
def test_every_line_of_results_is_an_answer_or_a_named_error(line: dict[str, Any], error: str, final: bool) -> None:
    reply = wire.batch_reply(line)
    assert (reply.error, reply.final, reply.batched) == (error, final, True)
    json.dumps(reply.text)


def test_googles_quota_of_a_day_is_known_by_its_name(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fakes import gate

    day = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "50"}
    minute = {"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}
    for violations, kind in (([minute, day], Refused), ([minute], TryLater)):
        details = [{"violations": violations}, {"retryDelay": "26s"}]
        body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota!", "details": details}}
        monkeypatch.setattr(gate.gemini_wire, "error_body", lambda *_, body=body: body)  # type: ignore[attr-defined]
        (error,) = all_failed("gemini", fake_server, [Fault()])
        assert type(error) is kind
        assert ("quota of the day" in str(error)) is (kind is Refused)
