"""The interface to language models: how a model is named, and what a provider has to implement.

A `Provider` answers requests; a `BatchProvider` also takes batches. Everything else (retries,
concurrency, journals, budgets) is written once, above them. A provider raises `TryLater` for what may succeed later,
`QuestionRefused` for a question that it will never answer, and `Refused` if no question will be answered; it never
retries by itself, and never puts a key into an error.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tiltyard.errors import OptionError
from tiltyard.llm.presets import PRESETS
from tiltyard.llm.records import Reply, Request

MAKERS = ("anthropic", "openai", "gemini")
"""The makers whose official SDK is used; they also take batches."""
PROVIDERS = (*MAKERS, *PRESETS, "scripted", "recorded")

TIMEOUT_SECONDS = 600.0
"""How long one request may take in all, from its first byte to the last of its answer, unless a setting says so."""

TAKES_IMAGES = frozenset(MAKERS)
"""Providers that are known to take images; of others the settings have to say so."""

_MAKERS = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gpt-|chatgpt-|o\d"), "openai"),
    (re.compile(r"gemini-"), "gemini"),
)


@dataclass(frozen=True, slots=True)
class ModelName:
    """A parsed model name: the provider, and the provider's name for the model."""

    provider: str
    """Who serves it: one of `PROVIDERS`, such as `anthropic`, `openai`, `gemini`, `openrouter`, `local`."""
    model: str
    """The model's name at the provider."""

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"

    def shared_address(self, base_url: str | None) -> str | None:
        """The judge's server address, if this model may use it too: only a local model may.

        The key of a provider such as OpenAI must not be sent to someone else's server.
        """
        return base_url if self.provider == "local" else None


def parse_model_name(text: str) -> ModelName:
    """Parse a model name; an unknown provider is an `OptionError`.

    Parameters:
        text: `provider/model`, the provider in small or capital letters; a bare `claude-…` means Anthropic, a bare
            `gpt-…` OpenAI, a bare `gemini-…` Gemini.
    """
    name = text.strip()
    provider, slash, model = name.partition("/")
    provider = provider.lower()
    if slash and provider in PROVIDERS and model:
        return ModelName(provider, model)
    if not slash:
        for pattern, maker in _MAKERS:
            if pattern.match(name):
                return ModelName(maker, name)
    named = ", ".join(f"{one}/MODEL" for one in (*MAKERS, *(preset for preset in PRESETS if preset != "local")))
    raise OptionError(
        f"Cannot tell who makes the model {text!r}. Write {named}, local/MODEL (any OpenAI-compatible server with a "
        "base_url), scripted/FILE or recorded/FILE; a bare claude-…, gpt-… or gemini-… works too."
    )


class Provider(Protocol):
    """Answers one request at a time."""

    @property
    def name(self) -> str:
        """The part of a model's name before the slash, such as `anthropic`, `openai` or `local`."""
        ...

    async def ask(self, request: Request) -> Reply:
        """The reply to one request; raises `TryLater`, `QuestionRefused` or `Refused` if there is none."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much fits into one batch."""

    requests: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state of a batch. `size` is its number of requests, `tag` our label for it, if the provider stores one.

    `unanswered` says why requests without a result have none, if the provider says so only of the whole batch.
    """

    batch_id: str
    ended: bool
    created_at: float
    size: int | None = None
    tag: str | None = None
    unanswered: str | None = None


@runtime_checkable
class BatchProvider(Provider, Protocol):
    """Also takes many requests at once, at half price, and answers within a day."""

    @property
    def batch_limits(self) -> BatchLimits:
        """How much fits into one batch."""
        ...

    def encoded_size(self, request: Request) -> int:
        """How many bytes a request takes in a batch."""
        ...

    async def submit(self, requests: Sequence[tuple[str, Request]], tag: str) -> str:
        """Submit a batch of (custom id, request) and return its id, with `tag` if the provider supports labels."""
        ...

    async def state(self, batch_id: str) -> BatchState:
        """The current state of a batch."""
        ...

    def results(self, batch_id: str) -> AsyncIterator[tuple[str, Reply]]:
        """The replies of an ended batch, streamed, in any order, each with its custom id.

        A line that cannot be read is a reply with the error `UNREADABLE`, under the id that stands in it, or "".
        """
        ...

    def recent_batches(self) -> AsyncIterator[BatchState]:
        """The batches of this account, newest first."""
        ...
