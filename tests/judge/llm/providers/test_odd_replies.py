"""Valid but odd replies, through the real SDKs: each is read or named, and none of them ends a run."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.fakes import FakeServer, anthropic_wire, openai_wire
from tests.judge.llm.providers.asking import KEY, batch_replies, make, question, use
from tiltyard.errors import ModelError, TryLater
from tiltyard.judge.llm import Provider, Reply, Stop, Usage
from tiltyard.judge.llm.providers import anthropic as anthropic_provider
from tiltyard.judge.llm.providers import openai as openai_provider
from tiltyard.judge.llm.providers.anthropic import AnthropicProvider
from tiltyard.judge.llm.providers.openai import CompatibleProvider, OpenAIProvider
from tiltyard.judge.llm.providers.scripted import ScriptedProvider
from tiltyard.judge.llm.providers.wire import NotJSON, batch_reply, chat_reply, decode

HALF = "\ud83d"
MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "some-model",
    "content": [{"type": "text", "text": f"Yes {HALF}."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
COMPLETION: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 0,
    "model": "some-model",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": f"Yes {HALF}."}},
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}


class OddServer:
    """A server that answers every question with the bytes it was given last."""

    def __init__(self) -> None:
        self.body: bytes | None = None
        self.content_type = "application/json"
        self.announced: int | None = None
        """The length that the header announces, where it is not that of the body."""
        self.url = ""


@pytest.fixture(scope="module")
def running_odd_server() -> Iterator[OddServer]:
    odd = OddServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            usual = MESSAGE if self.path.endswith("/messages") else COMPLETION
            body = json.dumps(usual).encode() if odd.body is None else odd.body
            self.send_response(200)
            self.send_header("content-type", odd.content_type)
            self.send_header("content-length", str(len(body) if odd.announced is None else odd.announced))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        odd.url = f"http://127.0.0.1:{server.server_port}"
        yield odd
        server.shutdown()
        thread.join(60)


@pytest.fixture
def odd_server(running_odd_server: OddServer) -> OddServer:
    """A server whose every answer holds half a surrogate pair, as JSON spells it, until it is told otherwise."""
    running_odd_server.body, running_odd_server.announced = None, None
    running_odd_server.content_type = "application/json"
    return running_odd_server


def ask_odd(kind: str, server: OddServer, *bodies: bytes) -> list[Reply | ModelError]:
    """What comes of asking once for each of these answers of the server, and once for its usual one without any."""
    provider: Any = make(
        kind, SimpleNamespace(openai_url=f"{server.url}/v1", anthropic_url=server.url, gemini_url=server.url)
    )

    async def ask(provider: Provider) -> list[Reply | ModelError]:
        found: list[Reply | ModelError] = []
        for body in bodies:
            server.body = body
            try:
                found.append(await provider.ask(question(choices=("A", "B", "TIE"))))
            except ModelError as error:
                found.append(error)
        return found

    return use(provider, ask)


def test_a_reply_with_half_a_surrogate_pair_can_be_written_down(odd_server: OddServer) -> None:
    providers = [
        AnthropicProvider(api_key=KEY, base_url=odd_server.url),
        OpenAIProvider(api_key=KEY, base_url=f"{odd_server.url}/v1"),
        CompatibleProvider(base_url=f"{odd_server.url}/v1"),
    ]
    for provider in providers:
        reply: Reply = use(provider, lambda provider: provider.ask(question()))
        assert reply.text == "Yes ?."
        assert b"Yes ?." in msgspec.json.encode(reply)


@pytest.mark.parametrize("kind", ["anthropic", "openai", "gemini"])
def test_one_odd_line_does_not_block_a_batch(kind: str, fake_server: FakeServer) -> None:
    fake_server.behaviour.judge = lambda system, user: f"Odd {HALF}." if user == "odd" else "Even 🦦."
    replies = dict(batch_replies(kind, fake_server, [("one", question("odd")), ("two", question("even"))]))
    assert {name: reply.text for name, reply in replies.items()} == {"one": "Odd ?.", "two": "Even 🦦."}


def test_a_refusal_and_the_words_of_an_error_can_be_written_down_too() -> None:
    declined = chat_reply({"choices": [{"message": {"refusal": f"No {HALF}"}}]})
    failed = batch_reply({"error": {"code": "odd", "message": f"Broken {HALF}"}})
    assert (declined.text, failed.text) == ("No ?", "Broken ?.")


def test_what_is_no_json_at_all_is_told_from_what_is() -> None:
    assert decode(b'{"text": "\\ud83d", "chance": NaN}')["text"] == HALF
    for line in (b'{"custom_id": "one', b"\xff\xfe{}", b"[" * 100_000, b"1" * 5000 + b"x", b""):
        with pytest.raises(NotJSON):
            decode(line)


def test_a_script_may_say_half_a_pair() -> None:
    assert (
        use(ScriptedProvider(lambda request: f"Yes {HALF}"), lambda provider: provider.ask(question())).text == "Yes ?"
    )


KNOWN = Usage(input_tokens=3, output_tokens=2)
TEXT_PARTS = [{"type": "text", "text": "VERD"}, {"type": "image"}, "ICT: ", 7, {"type": "text", "text": None}, "A"]
THOUGHTS = {"reasoning": "VERDICT: B", "reasoning_content": "VERDICT: B"}


def completion(message: object = None, /, **changes: Any) -> dict[str, Any]:
    """A completion with another message, choice or top level."""
    first = {**COMPLETION["choices"][0], "message": message, **changes.pop("choice", {})}
    return {**COMPLETION, "choices": [first], **changes}


ODD_COMPLETIONS: list[tuple[str, Any, Reply]] = [
    ("parts", completion({"content": TEXT_PARTS}), Reply(text="VERDICT: A", usage=KNOWN)),
    ("thoughts beside it", completion({"content": "VERDICT: A", **THOUGHTS}), Reply(text="VERDICT: A", usage=KNOWN)),
    ("thoughts alone", completion({"content": None, **THOUGHTS}), Reply(usage=KNOWN)),
    ("a number", completion({"content": 7}), Reply(usage=KNOWN)),
    ("an object", completion({"content": {"text": "A"}}), Reply(usage=KNOWN)),
    ("a list as reason", completion({"content": "A"}, choice={"finish_reason": []}), Reply(text="A", usage=KNOWN)),
    ("logprobs n/a", completion({"content": "A"}, choice={"logprobs": "n/a"}), Reply(text="A", usage=KNOWN)),
    ("no tokens", completion({"content": "A"}, choice={"logprobs": {"content": 1}}), Reply(text="A", usage=KNOWN)),
    ("model 7", completion({"content": "A"}, model=7), Reply(text="A", usage=KNOWN, model=None)),
    ("no usage", completion({"content": "A"}, usage=None), Reply(text="A", usage=None)),
    ("usage in words", completion({"content": "A"}, usage={"prompt_tokens": "many"}), Reply(text="A", usage=None)),
    (
        "usage below 0",
        completion({"content": "A"}, usage={"prompt_tokens": -3, "completion_tokens": 2}),
        Reply(text="A", usage=None),
    ),
    (
        "usage as text",
        completion({"content": "A"}, usage={"prompt_tokens": "3", "completion_tokens": 2.0}),
        Reply(text="A", usage=KNOWN),
    ),
    (
        "declined in a part",
        completion({"content": [{"type": "refusal", "refusal": "No."}]}),
        Reply(text="No.", stop=Stop.REFUSAL, usage=KNOWN),
    ),
    (
        "an error beside an empty message",
        completion({"content": ""}, choice={"finish_reason": "error", "error": {"code": 502, "message": "Upstream"}}),
        Reply(text="Upstream.", error="errored: 502", usage=KNOWN),
    ),
    ("no message", completion(None), Reply(error="errored: no message", usage=KNOWN)),
    ("a choice that is none", {**COMPLETION, "choices": ["A"]}, Reply(error="errored: no message", usage=KNOWN)),
    ("no choices", {**COMPLETION, "choices": []}, Reply(error="errored: no choices", usage=KNOWN)),
    ("choices in an object", {"choices": {"0": "A"}}, Reply(error="errored: no choices", model=None)),
    (
        "an error with status 200",
        {"error": {"message": "Overloaded", "code": 503}},
        Reply(text="Overloaded.", error="errored: 503", model=None),
    ),
    ("nothing", {}, Reply(error="errored: no choices", model=None)),
]
ODD_MESSAGES: list[tuple[str, Any, Reply]] = [
    (
        "blocks",
        {**MESSAGE, "content": [{"type": "thinking", "thinking": "VERDICT: B"}, *TEXT_PARTS]},
        Reply(text="VERDICT: A", usage=KNOWN),
    ),
    ("no blocks", {**MESSAGE, "content": []}, Reply(usage=KNOWN)),
    ("a list as reason", {**MESSAGE, "content": "A", "stop_reason": ["refusal"]}, Reply(text="A", usage=KNOWN)),
    ("no usage", {**MESSAGE, "content": "A", "usage": None}, Reply(text="A", usage=None)),
    ("half a usage", {**MESSAGE, "content": "A", "usage": {"output_tokens": 2}}, Reply(text="A", usage=None)),
    (
        "odd cache",
        {**MESSAGE, "content": "A", "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": {}}},
        Reply(text="A", usage=KNOWN),
    ),
    (
        "usage as text",
        {**MESSAGE, "content": "A", "usage": {"input_tokens": "3", "output_tokens": "2"}},
        Reply(text="A", usage=KNOWN),
    ),
    ("null", {**MESSAGE, "content": None}, Reply(error="errored: no content", usage=KNOWN)),
    (
        "an error with status 200",
        {"type": "error", "error": {"type": "api_error", "message": "Oh"}},
        Reply(text="Oh.", error="errored: api_error", model=None),
    ),
    ("nothing", {}, Reply(error="errored: no content", model=None)),
]
ANSWER: dict[str, Any] = {
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2},
    "modelVersion": "some-model",
}


def candidate(*parts: object, **changes: Any) -> dict[str, Any]:
    """An answer of Gemini with one candidate of these parts."""
    first = {"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP", **changes.pop("first", {})}
    return {**ANSWER, "candidates": [first], **changes}


A = {"text": "A"}
BLOCKED = {"promptFeedback": {"blockReason": "SAFETY"}}
REFUSED = Reply(text="Blocked by Google (SAFETY).", stop=Stop.REFUSAL, usage=KNOWN)
ODD_ANSWERS: list[tuple[str, Any, Reply]] = [
    (
        "thoughts",
        candidate({"text": "VERDICT: B", "thought": True}, {"text": "VERDICT: A"}),
        Reply(text="VERDICT: A", usage=KNOWN),
    ),
    (
        "parts",
        candidate({"text": "VERDICT"}, {"inlineData": {}}, 7, {"text": ": A"}),
        Reply(text="VERDICT: A", usage=KNOWN),
    ),
    ("no text", candidate({"text": 7}), Reply(usage=KNOWN)),
    ("no parts", candidate(first={"content": {"role": "model"}}), Reply(error="errored: no content", usage=KNOWN)),
    ("no content", candidate(first={"content": None}), Reply(error="errored: no content", usage=KNOWN)),
    (
        "all budget thought away",
        candidate(
            first={"content": {"role": "model"}, "finishReason": "MAX_TOKENS"},
            usageMetadata={"promptTokenCount": 3, "thoughtsTokenCount": 97},
        ),
        Reply(stop=Stop.LENGTH, usage=Usage(input_tokens=3, output_tokens=97)),
    ),
    ("cut", candidate(A, first={"finishReason": "MAX_TOKENS"}), Reply(text="A", stop=Stop.LENGTH, usage=KNOWN)),
    ("safety", candidate(first={"content": None, "finishReason": "SAFETY"}), REFUSED),
    ("blocked prompt", {**ANSWER, **BLOCKED}, REFUSED),
    ("blocked prompt, empty list", {**ANSWER, **BLOCKED, "candidates": []}, REFUSED),
    (
        "blocked prompt with words, no usage",
        {"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "Because"}},
        Reply(text="Blocked by Google (OTHER): Because.", stop=Stop.REFUSAL, usage=None),
    ),
    ("recited", candidate(A, first={"finishReason": "RECITATION"}), Reply(text="A", stop=Stop.REFUSAL, usage=KNOWN)),
    (
        "a call of nothing",
        candidate(first={"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "call x("}),
        Reply(text="call x(.", error="errored: MALFORMED_FUNCTION_CALL", usage=KNOWN),
    ),
    (
        "a call that nobody asked for",
        candidate(A, first={"finishReason": "UNEXPECTED_TOOL_CALL"}),
        Reply(error="errored: UNEXPECTED_TOOL_CALL", usage=KNOWN),
    ),
    ("a new reason", candidate(A, first={"finishReason": "TIRED"}), Reply(text="A", usage=KNOWN)),
    ("a list as reason", candidate(A, first={"finishReason": ["SAFETY"]}), Reply(text="A", usage=KNOWN)),
    ("logprobs n/a", candidate(A, first={"logprobsResult": "n/a"}), Reply(text="A", usage=KNOWN)),
    (
        "odd logprobs",
        candidate(A, first={"logprobsResult": {"chosenCandidates": [1], "topCandidates": [{}]}}),
        Reply(text="A", usage=KNOWN),
    ),
    ("no usage", candidate(A, usageMetadata=None), Reply(text="A", usage=None)),
    ("usage without an answer", candidate(A, usageMetadata={"promptTokenCount": 3}), Reply(text="A", usage=None)),
    (
        "usage in words",
        candidate(A, usageMetadata={"promptTokenCount": 3, "candidatesTokenCount": "two"}),
        Reply(text="A", usage=None),
    ),
    (
        "everything counted",
        candidate(
            A,
            usageMetadata={
                "promptTokenCount": 30,
                "cachedContentTokenCount": 20,
                "candidatesTokenCount": 2,
                "thoughtsTokenCount": "40",
                "toolUsePromptTokenCount": 5,
                "totalTokenCount": 77,
            },
        ),
        Reply(text="A", usage=Usage(input_tokens=15, output_tokens=42, cache_read_input_tokens=20)),
    ),
    ("model 7", candidate(A, modelVersion=7), Reply(text="A", usage=KNOWN, model=None)),
    ("no candidates", ANSWER, Reply(error="errored: no candidates", usage=KNOWN)),
    ("a candidate that is none", {**ANSWER, "candidates": ["A"]}, Reply(error="errored: no candidates", usage=KNOWN)),
    (
        "an error with status 200",
        {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}},
        Reply(text="Overloaded.", error="errored: UNAVAILABLE", model=None),
    ),
    ("nothing", {}, Reply(error="errored: no candidates", model=None)),
]
ODD = {"anthropic": ODD_MESSAGES, "gemini": ODD_ANSWERS, "local": ODD_COMPLETIONS}
EACH = pytest.mark.parametrize("kind", ["anthropic", "gemini", "local"])


@EACH
def test_an_odd_reply_is_read_or_named(kind: str, odd_server: OddServer) -> None:
    odd = ODD[kind]
    found = ask_odd(kind, odd_server, *(json.dumps(body).encode() for _, body, _ in odd))
    for (what, body, reply), one in zip(odd, found, strict=True):
        model = "some-model" if "some-model" in (body.get("model"), body.get("modelVersion")) else None
        assert one == msgspec.structs.replace(reply, model=model), what
        assert msgspec.json.decode(msgspec.json.encode(one), type=Reply) == one


@EACH
def test_an_answer_that_is_incomplete_or_garbled_is_asked_for_again_at_the_same_pace(
    kind: str, odd_server: OddServer
) -> None:
    bodies = [b'{"id": "chat', b"", b"  ", b'{"a":' * 50_000, b'{"n": ' + b"9" * 5000, b'{"t": "\xff"}']
    for error in ask_odd(kind, odd_server, *bodies):
        assert isinstance(error, TryLater)
        assert "is incomplete or garbled" in str(error)
        assert error.damaged


@EACH
def test_an_answer_whose_connection_closes_is_asked_for_again_at_the_same_pace(
    kind: str, odd_server: OddServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd_server.announced = 500
    found = ask_odd(kind, odd_server, b'{"id": ')
    from tiltyard.judge.llm.providers import gemini as gemini_provider

    for module in (anthropic_provider, openai_provider, gemini_provider):
        monkeypatch.setattr(module, "http_client", lambda caller, aiohttp_client, plain_client: plain_client())
    found += ask_odd(kind, odd_server, b'{"id": ')
    for error in found:
        assert isinstance(error, TryLater)
        assert "No answer from" in str(error)
        assert error.damaged


@EACH
def test_a_closed_port_and_an_unknown_host_are_known_to_be_unreachable(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiltyard.judge.llm.providers import gemini as gemini_provider

    nobody = OddServer()
    for _ in range(2):  # on aiohttp, then on httpx2
        for url in ("http://127.0.0.1:9", "http://no-such-host.invalid:8000"):
            nobody.url = url
            (found,) = ask_odd(kind, nobody, b"")
            assert isinstance(found, TryLater)
            assert found.unreachable
            assert not found.damaged
        for module in (anthropic_provider, openai_provider, gemini_provider):
            monkeypatch.setattr(module, "http_client", lambda caller, aiohttp_client, plain_client: plain_client())


@EACH
def test_what_is_no_answer_of_the_api_says_so_whatever_it_calls_itself(kind: str, odd_server: OddServer) -> None:
    for content_type in ("application/json", "text/html"):
        odd_server.content_type = content_type
        for error in ask_odd(kind, odd_server, b"<html>Log in</html>", b"[]", b"null", b'"A"', b"Bad gateway"):
            assert isinstance(error, TryLater)
            assert "is no answer of this API. Check the base_url." in str(error)


@pytest.mark.parametrize(
    "line",
    [
        None,
        7,
        [],
        {},
        {"custom_id": 3},
        {"custom_id": "one", "response": {"status_code": [], "body": []}},
        {"custom_id": "one", "error": {"code": {}, "message": 3}},
        {"response": {"status_code": "200", "body": 1}},
    ],
)
def test_an_odd_line_of_a_batch_is_an_error_of_its_request(line: object) -> None:
    reply = batch_reply(line)
    assert reply.error is not None
    assert reply.batched
    assert anthropic_provider._batch_reply(line if isinstance(line, dict) else {}).error is not None


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_odd_lines_do_not_hide_the_others(kind: str, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [None, [], {"custom_id": ["one"]}, {"custom_id": "one", "result": 7, "response": 7}]
    usual = anthropic_wire.json.dumps

    def dumps(value: Any, **options: Any) -> str:
        if isinstance(value, dict) and "custom_id" in value:
            return "\n\n".join(usual(line) for line in [*lines, value])
        return usual(value, **options)

    monkeypatch.setattr(anthropic_wire, "json", SimpleNamespace(dumps=dumps))
    monkeypatch.setattr(openai_wire, "json", SimpleNamespace(dumps=dumps, loads=json.loads))
    found = batch_replies(kind, fake_server, [("two", question())])
    assert [custom_id for custom_id, _ in found] == ["", "", "", "one", "two"]
    assert [reply.error is None for _, reply in found] == [False, False, False, False, True]
