from __future__ import annotations

import pytest

from tiltyard.errors import OptionError
from tiltyard.judge.llm import parse_model_name
from tiltyard.judge.llm.provider import PROVIDERS


@pytest.mark.parametrize(
    ("text", "provider", "model"),
    [
        ("anthropic/claude-x", "anthropic", "claude-x"),
        ("openai/gpt-x", "openai", "gpt-x"),
        ("local/meta/llama:8b", "local", "meta/llama:8b"),
        ("scripted/judges/demo.yaml", "scripted", "judges/demo.yaml"),
        ("recorded/verdicts.jsonl", "recorded", "verdicts.jsonl"),
        ("claude-opus-9", "anthropic", "claude-opus-9"),
        ("gpt-6-mini", "openai", "gpt-6-mini"),
        ("o3", "openai", "o3"),
        ("o4-mini", "openai", "o4-mini"),
        ("gemini-3-pro", "gemini", "gemini-3-pro"),
        ("gemini/gemma-3", "gemini", "gemma-3"),
        ("openrouter/meta/llama-3:free", "openrouter", "meta/llama-3:free"),
        ("azure/my-deployment", "azure", "my-deployment"),
        ("mistral/mistral-small", "mistral", "mistral-small"),
        ("ollama/qwen2.5:7b", "ollama", "qwen2.5:7b"),
        ("vllm/Qwen/Qwen2.5-7B", "vllm", "Qwen/Qwen2.5-7B"),
        ("llamacpp/any", "llamacpp", "any"),
        ("VLLM/Qwen/Qwen2.5-7B", "vllm", "Qwen/Qwen2.5-7B"),
        ("OpenAI/GPT-x", "openai", "GPT-x"),
        (" claude-x ", "anthropic", "claude-x"),
    ],
)
def test_a_name_says_who_is_asked(text: str, provider: str, model: str) -> None:
    name = parse_model_name(text)
    assert (name.provider, name.model) == (provider, model)


@pytest.mark.parametrize(
    "text", ["", "llama-3", "meta-llama/Llama-3", "anthropic/", "/claude-x", "otter", "Claude-x", "ollama/"]
)
def test_a_name_that_says_nothing_is_one_clear_line(text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_model_name(text)
    assert all(f"{one}/" in str(caught.value) for one in PROVIDERS)
    assert "\n" not in str(caught.value)


def test_a_name_reads_back_as_it_was_written() -> None:
    assert str(parse_model_name("claude-x")) == "anthropic/claude-x"
    assert str(parse_model_name("VLLM/Qwen/Qwen2.5-7B")) == "VLLM/Qwen/Qwen2.5-7B"
