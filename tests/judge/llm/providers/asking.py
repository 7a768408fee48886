"""Short ways to ask, for tests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, TypeVar
from unittest.mock import patch

import pytest

from tests.fakes import FakeServer, Fault
from tiltyard.errors import ModelError
from tiltyard.judge.llm import BatchProvider, Provider, Reply, Request
from tiltyard.judge.llm.providers.anthropic import AnthropicProvider
from tiltyard.judge.llm.providers.openai import CompatibleProvider, OpenAIProvider

T = TypeVar("T")
KEY = "sk-planted-0123456789abcdef"

_certificates_read_once = cache(ssl.create_default_context)
"""Google's SDK reads all certificates for every client, a seventh of a second each; our server needs none of them."""


def question(user: str = "Which is better?", **changes: Any) -> Request:
    return Request(**{"model": "some-model", "system": "A rubric.", "user": user, "max_tokens": 100, **changes})


def make(kind: str, server: FakeServer, **options: Any) -> Any:
    if kind == "anthropic":
        return AnthropicProvider(api_key=KEY, base_url=server.anthropic_url, **options)
    if kind == "openai":
        return OpenAIProvider(api_key=KEY, base_url=server.openai_url, **options)
    if kind == "gemini":
        from tiltyard.judge.llm.providers.gemini import GeminiProvider

        with patch.object(ssl, "create_default_context", _certificates_read_once):
            return GeminiProvider(api_key=KEY, base_url=server.gemini_url, **options)
    return CompatibleProvider(api_key=KEY, base_url=server.openai_url, **options)


def use(provider: Provider, work: Callable[[Any], Awaitable[T]]) -> T:
    """Run some work with a provider, and close it."""

    async def run() -> T:
        try:
            return await work(provider)
        finally:
            await provider.aclose()

    return asyncio.run(run())


def ask(kind: str, server: FakeServer, request: Request) -> Reply:
    return use(make(kind, server), lambda provider: provider.ask(request))


def failed(kind: str, server: FakeServer, request: Request | None = None) -> ModelError:
    """The error that asking ends with."""
    with pytest.raises(ModelError) as caught:
        ask(kind, server, request or question())
    return caught.value


def all_failed(kind: str, server: FakeServer, faults: list[Fault]) -> list[ModelError]:
    """The error that asking ends with for each of the faults."""

    async def work(provider: Provider) -> list[ModelError]:
        errors = []
        for fault in faults:
            server.behaviour.faults = [fault]
            with pytest.raises(ModelError) as caught:
                await provider.ask(question())
            errors.append(caught.value)
        return errors

    return use(make(kind, server), work)


async def ended_batch(provider: BatchProvider, requests: list[tuple[str, Request]], tag: str = "run-1") -> str:
    """A batch that was handed over and waited for; its id."""
    batch_id = await provider.submit(requests, tag)
    while not (await provider.state(batch_id)).ended:
        await asyncio.sleep(0.001)
    return batch_id


async def read_into(ids: list[str], provider: BatchProvider, batch_id: str) -> None:
    """Read results, noting each id as it comes."""
    async for custom_id, _ in provider.results(batch_id):
        ids.append(custom_id)


def batch_replies(kind: str, server: FakeServer, requests: list[tuple[str, Request]]) -> list[tuple[str, Reply]]:
    """All lines of results of a batch, in the order they came."""

    async def work(provider: BatchProvider) -> list[tuple[str, Reply]]:
        return [line async for line in provider.results(await ended_batch(provider, requests))]

    return use(make(kind, server), work)
