"""The one seam to the outside: how a model is named, and what a provider of language models has to do.

A provider that can answer is a `Provider`; one that also takes batches is a `BatchProvider`. Everything else (retries,
concurrency, journals, budgets) is written once, above them. A provider raises `TryLater` for what may succeed later,
`QuestionRefused` for a question that it will never answer, and `Refused` where no question will be answered; it never
retries by itself, and never puts a key into an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tiltyard.llm.records import Reply, Request

PROVIDERS = ("anthropic", "openai", "local", "scripted", "recorded")

_MAKERS = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gpt-|chatgpt-|o\d"), "openai"),
)


@dataclass(frozen=True, slots=True)
class ModelName:
    """Who is asked: the provider, and the model by the name that the provider knows it under."""

    provider: str
    """Who serves it: `anthropic`, `openai`, `local`, `scripted`, `recorded`."""
    model: str
    """The model's name at the provider."""

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"

    def shared_address(self, base_url: str | None) -> str | None:
        """The address of the judge's server, if this model may use it too: only a local one may.

        The key of a maker such as OpenAI must not go to somebody else's server.
        """
        return base_url if self.provider == "local" else None


def parse_model_name(text: str) -> ModelName:
    """The provider and model that a name means; an unknown provider is an `OptionError`.

    Parameters:
        text: `provider/model`; a bare `claude-…` or `gpt-…` means its maker.
    """
    name = text.strip()
    provider, slash, model = name.partition("/")
    if slash and provider in PROVIDERS and model:
        return ModelName(provider, model)
    if not slash:
        for pattern, maker in _MAKERS:
            if pattern.match(name):
                return ModelName(maker, name)
    raise OptionError(
        f"Cannot tell who makes the model {text!r}. Write anthropic/MODEL, openai/MODEL, local/MODEL (any "
        "OpenAI-compatible server with a base_url), scripted/FILE or recorded/FILE; a bare claude-… or gpt-… works too."
    )


class Provider(Protocol):
    """Answers one request at a time."""

    @property
    def name(self) -> str:
        """The word before the slash of a model's name, such as `anthropic`, `openai` or `local`."""
        ...

    async def ask(self, request: Request) -> Reply:
        """The reply to one request; raises `TryLater`, `QuestionRefused` or `Refused` where there is none."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much fits into one batch."""

    requests: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BatchState:
    """Where a batch stands. `size` is how many requests it holds, `tag` our mark on it, where the provider knows."""

    batch_id: str
    ended: bool
    created_at: float
    size: int | None = None
    tag: str | None = None


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
        """Hand over a batch of (custom id, request); its id. `tag` goes along where the provider keeps such marks."""
        ...

    async def state(self, batch_id: str) -> BatchState:
        """Where a batch stands now."""
        ...

    def results(self, batch_id: str) -> AsyncIterator[tuple[str, Reply]]:
        """The replies of an ended batch, streamed, in any order, each with its custom id."""
        ...

    def recent_batches(self) -> AsyncIterator[BatchState]:
        """The batches of this account, newest first."""
        ...
