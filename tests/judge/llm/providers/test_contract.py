"""The contract holds for every provider of ours, and notices one that breaks it."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes import FakeServer, Fault
from tests.forked import ROOT
from tests.judge.llm.providers.asking import all_failed, make, question, use
from tiltyard.errors import TryLater
from tiltyard.judge.llm import Reply, Request, Usage
from tiltyard.judge.llm.provider import BatchState
from tiltyard.judge.llm.providers.contract import ContractBroken, check_batch_provider, check_provider
from tiltyard.judge.llm.providers.http import http_client
from tiltyard.judge.llm.providers.scripted import ScriptedBatchProvider, ScriptedProvider


@pytest.mark.parametrize("kind", ["anthropic", "openai", "gemini", "local"])
def test_the_network_providers_keep_the_contract(kind: str, fake_server: FakeServer) -> None:
    use(make(kind, fake_server), lambda provider: check_provider(provider, model="some-model"))


@pytest.mark.parametrize("kind", ["anthropic", "openai", "gemini"])
def test_their_batches_keep_the_contract(kind: str, fake_server: FakeServer) -> None:
    fake_server.behaviour.batch_polls = 2
    use(make(kind, fake_server), lambda one: check_batch_provider(one, model="some-model", poll_seconds=0.001))


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_a_batch_that_someone_canceled_has_ended_without_answers(kind: str, fake_server: FakeServer) -> None:
    fake_server.behaviour.batch_polls = 99

    async def work(provider: Any) -> list[str | None]:
        batch_id = await provider.submit([("one", question()), ("two", question("other"))], "run-1")
        client = provider._client.messages if kind == "anthropic" else provider._client
        await client.batches.cancel(batch_id)
        assert (await provider.state(batch_id)).ended
        return [reply.error async for _, reply in provider.results(batch_id)]

    assert use(make(kind, fake_server), work) == ["canceled", "canceled"]


WITHOUT_AIOHTTP = """
import asyncio, sys
sys.modules["aiohttp"] = None
from tests.fakes import FakeServer, Fault
from tests.judge.llm.providers.asking import all_failed, make, use
from tiltyard.errors import TryLater
from tiltyard.judge.llm.providers.contract import check_batch_provider, check_provider
with FakeServer() as server:
    for kind in ("anthropic", "openai", "gemini"):
        use(make(kind, server), lambda one: check_provider(one, model="some-model"))
        use(make(kind, server), lambda one: check_batch_provider(one, model="some-model", poll_seconds=0))
        errors = all_failed(kind, server, [Fault(kind="drop"), Fault(kind="cut"), Fault(status=500)])
        assert all(isinstance(error, TryLater) for error in errors), errors
print("kept")
"""


@pytest.mark.soak
def test_the_contract_holds_in_a_process_without_aiohttp_too() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_AIOHTTP], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "kept\n", done.stderr


@pytest.mark.parametrize("kind", ["anthropic", "openai", "gemini"])
def test_the_contract_holds_without_clients_on_aiohttp(
    kind: str, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a soak aiohttp is really missing."""
    asked: list[str] = []

    def missing(**settings: Any) -> Any:
        asked.append(kind)
        raise ImportError("aiohttp")

    module = importlib.import_module(f"tiltyard.judge.llm.providers.{kind}")
    monkeypatch.setattr(
        module, "http_client", lambda caller, _, plain_client: http_client(caller, missing, plain_client)
    )
    use(make(kind, fake_server), lambda one: check_provider(one, model="some-model"))
    use(make(kind, fake_server), lambda one: check_batch_provider(one, model="some-model", poll_seconds=0))
    errors = all_failed(kind, fake_server, [Fault(kind="drop"), Fault(kind="cut"), Fault(status=500)])
    assert all(isinstance(error, TryLater) for error in errors), errors
    assert asked


def test_the_scripted_providers_keep_the_contract() -> None:
    provider = ScriptedBatchProvider(lambda request: "a few words", polls=2)
    asyncio.run(check_provider(provider, model="some-model"))
    asyncio.run(check_batch_provider(provider, model="some-model", poll_seconds=0))


class HalfPrice(ScriptedProvider):
    async def ask(self, request: Request) -> Reply:
        return Reply(text="text", usage=Usage(output_tokens=1), batched=True)


class Endless(ScriptedProvider):
    async def ask(self, request: Request) -> Reply:
        return Reply(text="text", usage=Usage(output_tokens=1))


class OldestFirst(ScriptedBatchProvider):
    async def recent_batches(self) -> AsyncIterator[BatchState]:
        for state in [state async for state in super().recent_batches()][::-1]:
            yield state


class Forgetful(ScriptedBatchProvider):
    async def results(self, batch_id: str) -> AsyncIterator[tuple[str, Reply]]:
        async for custom_id, reply in super().results(batch_id):
            if custom_id != "contract-1":
                yield custom_id, reply


@pytest.mark.parametrize(
    ("provider", "broken"),
    [
        (HalfPrice(lambda request: ""), "the price would be wrong"),
        (Endless(lambda request: ""), "cut off after one token"),
        (ScriptedProvider(lambda request: ""), "no answer to an ordinary request"),
    ],
)
def test_a_provider_that_breaks_it_is_told_how(provider: ScriptedProvider, broken: str) -> None:
    with pytest.raises(ContractBroken, match=broken):
        asyncio.run(check_provider(provider, model="some-model"))


@pytest.mark.parametrize(
    ("make_broken", "broken"),
    [
        (lambda: ScriptedProvider(lambda request: "ok"), "not all methods of a BatchProvider"),
        (lambda: Forgetful(lambda request: "ok text"), "first reading of the results"),
        (lambda: ScriptedBatchProvider(lambda request: "ok text", polls=99), "did not end within"),
    ],
)
def test_a_batch_provider_that_breaks_it_is_told_how(make_broken: Any, broken: str) -> None:
    with pytest.raises(ContractBroken, match=broken):
        asyncio.run(check_batch_provider(make_broken(), model="some-model", poll_seconds=0, most_polls=5))


def test_a_list_with_the_oldest_first_is_noticed() -> None:
    clock = iter(range(100)).__next__
    provider = OldestFirst(lambda request: "ok text", clock=lambda: float(clock()))
    asyncio.run(check_batch_provider(provider, model="some-model", poll_seconds=0))
    with pytest.raises(ContractBroken, match="not newest first"):
        asyncio.run(check_batch_provider(provider, model="some-model", poll_seconds=0))
