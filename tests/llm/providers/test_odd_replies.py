"""Replies with half a surrogate pair: JSON can spell one, UTF-8 cannot, and one such reply must not end a run."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from tests.fakes import FakeServer
from tests.llm.providers.asking import KEY, batch_replies, question, use
from tiltyard.errors import TryLater
from tiltyard.llm.providers.anthropic import AnthropicProvider
from tiltyard.llm.providers.chat import batch_reply, chat_reply
from tiltyard.llm.providers.openai import CompatibleProvider, OpenAIProvider, _decode
from tiltyard.llm.providers.scripted import ScriptedProvider
from tiltyard.llm.records import Reply

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


@pytest.fixture
def odd_server() -> Iterator[str]:
    """The address of a server whose every answer holds half a surrogate pair, spelled as JSON spells it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            body = json.dumps(MESSAGE if self.path.endswith("/messages") else COMPLETION).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_reply_with_half_a_surrogate_pair_can_be_written_down(odd_server: str) -> None:
    providers = [
        AnthropicProvider(api_key=KEY, base_url=odd_server),
        OpenAIProvider(api_key=KEY, base_url=f"{odd_server}/v1"),
        CompatibleProvider(base_url=f"{odd_server}/v1"),
    ]
    for provider in providers:
        reply: Reply = use(provider, lambda provider: provider.ask(question()))
        assert reply.text == "Yes ?."
        assert b"Yes ?." in msgspec.json.encode(reply)


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_one_odd_line_does_not_block_a_batch(kind: str, fake_server: FakeServer) -> None:
    fake_server.behaviour.judge = lambda system, user: f"Odd {HALF}." if user == "odd" else "Even 🦦."
    replies = dict(batch_replies(kind, fake_server, [("one", question("odd")), ("two", question("even"))]))
    assert {name: reply.text for name, reply in replies.items()} == {"one": "Odd ?.", "two": "Even 🦦."}


def test_a_refusal_and_the_words_of_an_error_can_be_written_down_too() -> None:
    declined = chat_reply({"choices": [{"message": {"refusal": f"No {HALF}"}}]})
    failed = batch_reply({"error": {"code": "odd", "message": f"Broken {HALF}"}})
    assert (declined.text, failed.text) == ("No ?", "Broken ?.")


def test_what_is_no_json_at_all_is_still_for_later() -> None:
    assert _decode(b'{"text": "\\ud83d"}', "file-1") == {"text": HALF}
    for line in (b'{"custom_id": "one', b"\xff\xfe{}"):
        with pytest.raises(TryLater, match="A line of file file-1 is not JSON"):
            _decode(line, "file-1")


def test_a_script_may_say_half_a_pair() -> None:
    assert (
        use(ScriptedProvider(lambda request: f"Yes {HALF}"), lambda provider: provider.ask(question())).text == "Yes ?"
    )
