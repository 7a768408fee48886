"""What a model is called: `provider/model`, or a bare name that gives its maker away."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiltyard.errors import OptionError

PROVIDERS = ("anthropic", "openai", "local", "scripted", "recorded")

_MAKERS = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gpt-|chatgpt-|o\d"), "openai"),
)


@dataclass(frozen=True, slots=True)
class ModelName:
    """Who is asked: the provider, and the model by the name that the provider knows it under."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


def parse_model_name(text: str) -> ModelName:
    """The provider and model that a name means; an unknown provider is an `OptionError`."""
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
