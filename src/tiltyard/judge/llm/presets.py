"""Servers that speak OpenAI's chat completions, by name: their address, key and what they support.

One line of `PRESETS` is all that `openrouter/MODEL`, `ollama/MODEL` and the others need. It knows neither SDK nor
network.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class ServerPreset(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one kind of server.

    Its key is read from its own variable only, so that no maker's key reaches another's server.
    """

    name: str
    title: str
    base_url: str | None
    """Its usual address; None if everyone has their own."""
    address_variable: str
    key_variable: str
    needs_key: bool = False
    """Whether it answers nobody without a key."""
    limit: str = "max_tokens"
    """Its name for the limit on output tokens."""
    logprobs: bool = True
    """Whether it is asked for the probabilities of a one-word answer."""
    guided_choice: tuple[str, ...] = ()
    """Its parameters that allow only some words, by name."""
    structured: tuple[str, ...] = ("json", "tool")
    """The structured forms of reply that it can be held to."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    version_variable: str | None = None
    """The variable with the version of its interface, if it has several."""


LOCAL = ServerPreset(
    name="local",
    title="any other server",
    base_url=None,
    address_variable="LOCAL_BASE_URL",
    key_variable="LOCAL_API_KEY",
    guided_choice=("grammar", "guided_choice", "structured_outputs"),
)

AZURE = ServerPreset(
    name="azure",
    title="Azure OpenAI",
    base_url=None,
    address_variable="AZURE_OPENAI_ENDPOINT",
    key_variable="AZURE_OPENAI_API_KEY",
    needs_key=True,
    limit="max_completion_tokens",
    logprobs=False,
    version_variable="AZURE_OPENAI_API_VERSION",
)

PRESETS: dict[str, ServerPreset] = {
    preset.name: preset
    for preset in (
        ServerPreset(
            name="openrouter",
            title="OpenRouter",
            base_url="https://openrouter.ai/api/v1",
            address_variable="OPENROUTER_BASE_URL",
            key_variable="OPENROUTER_API_KEY",
            needs_key=True,
            headers={"X-Title": "Tiltyard"},
        ),
        AZURE,
        ServerPreset(
            name="mistral",
            title="Mistral",
            base_url="https://api.mistral.ai/v1",
            address_variable="MISTRAL_BASE_URL",
            key_variable="MISTRAL_API_KEY",
            needs_key=True,
            logprobs=False,  # it refuses parameters that it does not know
        ),
        ServerPreset(
            name="ollama",
            title="Ollama",
            base_url="http://localhost:11434/v1",
            address_variable="OLLAMA_BASE_URL",
            key_variable="OLLAMA_API_KEY",
            structured=("json",),  # it offers tools, but does not force a call
        ),
        ServerPreset(
            name="vllm",
            title="vLLM",
            base_url="http://localhost:8000/v1",
            address_variable="VLLM_BASE_URL",
            key_variable="VLLM_API_KEY",
            guided_choice=("structured_outputs", "guided_choice"),
        ),
        ServerPreset(
            name="llamacpp",
            title="llama.cpp's server",
            base_url="http://localhost:8080/v1",
            address_variable="LLAMACPP_BASE_URL",
            key_variable="LLAMACPP_API_KEY",
            guided_choice=("grammar",),
            structured=("json",),  # it cannot be told which tool to call
        ),
        LOCAL,
    )
}
"""The servers by the first part of a model's name."""
