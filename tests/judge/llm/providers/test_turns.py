"""Earlier turns reach every provider as messages, alone and in a batch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeServer
from tests.judge.llm.providers.asking import ask, batch_replies, make, question
from tiltyard.judge.llm import Reply
from tiltyard.judge.llm.providers.scripted import ScriptedProvider, answer_by_rules

EARLIER = (("Name a bird.", "The heron."), ("Another «naïve» one.", "The otter.\nNo: the crane. 🦦"))
ASKED = question("Which is taller?", earlier=EARLIER)
TURNS = [
    {"role": "user", "content": "Name a bird."},
    {"role": "assistant", "content": "The heron."},
    {"role": "user", "content": "Another «naïve» one."},
    {"role": "assistant", "content": "The otter.\nNo: the crane. 🦦"},
    {"role": "user", "content": "Which is taller?"},
]


def before_turns(kind: str) -> list[dict[str, str]]:
    """OpenAI's format has the system text among the messages."""
    return [] if kind == "anthropic" else [{"role": "system", "content": "A rubric."}]


@pytest.mark.parametrize("kind", ["anthropic", "openai", "local"])
def test_the_turns_are_sent_in_order_before_the_question(kind: str, fake_server: FakeServer) -> None:
    fake_server.behaviour.talk = lambda system, messages: f"{system} {len(messages)}"
    reply = ask(kind, fake_server, ASKED)
    assert reply.text == "A rubric. 5"
    assert fake_server.ledger.accepted[0].body["messages"] == before_turns(kind) + TURNS
    assert reply.usage.input_tokens > ask(kind, fake_server, question("Which is taller?")).usage.input_tokens


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_a_batch_sends_them_too(kind: str, fake_server: FakeServer) -> None:
    fake_server.behaviour.talk = lambda system, messages: " | ".join(messages[::2])
    replies = dict(batch_replies(kind, fake_server, [("one", ASKED), ("two", question())]))
    assert replies["one"].text == "Name a bird. | Another «naïve» one. | Which is taller?"
    assert replies["two"].text == "Which is better?"
    sent = [entry[1]["messages"] for batch in fake_server.ledger.batches.values() for entry in batch.entries]
    assert sent[0] == before_turns(kind) + TURNS
    provider = make(kind, fake_server)
    added = sum(len(text.encode()) for turn in EARLIER for text in turn)
    assert provider.encoded_size(ASKED) >= provider.encoded_size(question("Which is taller?")) + added


@pytest.mark.parametrize("kind", ["anthropic", "openai", "gemini"])
def test_the_fake_server_refuses_a_conversation_that_no_real_one_takes(kind: str, fake_server: FakeServer) -> None:
    requests = [("blank", question(earlier=(("Name a bird.", " "),))), ("good", ASKED)]
    replies = dict(batch_replies(kind, fake_server, requests))
    assert replies["blank"].error in ("errored: invalid_request_error", "errored: INVALID_ARGUMENT")
    assert replies["blank"].final
    assert replies["good"].error is None


def scripted(request: Any, *rules: dict[str, Any]) -> Reply:
    return asyncio.run(ScriptedProvider(answer_by_rules(rules)).ask(request))


def test_a_script_sees_the_whole_conversation(tmp_path: Path) -> None:
    rules = ({"when": ["heron", "taller"], "say": "The crane."}, {"say": "Hm."})
    assert scripted(ASKED, *rules).text == "The crane."
    assert scripted(question("Which is taller?"), *rules).text == "Hm."
    choice = {"say": [str(number) for number in range(50)]}
    picked = {scripted(question("And?", earlier=(("Hello.", f"Hi {n}."),)), choice).text for n in range(10)}
    assert len(picked) > 1
    texts = ["A rubric.", *(turn["content"] for turn in TURNS)]
    assert scripted(ASKED, *rules).usage.input_tokens == sum(map(len, texts)) // 4
