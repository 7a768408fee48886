"""A provider of another package, found by its entry point, and held to the contract of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiltyard.errors import OptionError
from tiltyard.judge.llm import make_provider, parse_model_name
from tiltyard.judge.llm.provider import registered
from tiltyard.judge.llm.providers.contract import ContractBroken, check_provider

CODE = """
from tiltyard.judge.llm.providers.scripted import ScriptedProvider

class AcmeProvider(ScriptedProvider):
    name = "acme"

def make(name, settings):
    assert settings.env["ACME_API_KEY"] == "k" and settings.base_url == "http://acme"
    return AcmeProvider(lambda request: f"{name.model} says much about this, and more than one token of it")

def broken(name, settings):
    return AcmeProvider(lambda request: "")
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package that registers providers."""
    (tmp_path / "acme_provider.py").write_text(CODE, encoding="utf-8")
    info = tmp_path / "acme_provider-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-provider\nVersion: 1.0\n", encoding="utf-8")
    hooks = "acme = acme_provider:make\nsilent = acme_provider:broken\ngone = acme_provider:nothing\n"
    (info / "entry_points.txt").write_text(
        f"[tiltyard.providers]\n{hooks}openai = acme_provider:make\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registered.cache_clear()
    yield
    registered.cache_clear()


def test_a_registered_provider_is_named_made_and_keeps_the_contract(acme: None) -> None:
    name = parse_model_name("acme/big-1")
    assert str(name) == "acme/big-1"
    provider = make_provider(name, env={"ACME_API_KEY": "k"}, base_url="http://acme")
    asyncio.run(check_provider(provider, model="big-1"))


def test_a_provider_that_says_nothing_breaks_the_contract(acme: None) -> None:
    provider = make_provider(parse_model_name("silent/x"), env={})
    with pytest.raises(ContractBroken, match="no answer to an ordinary request"):
        asyncio.run(check_provider(provider, model="x"))


def test_what_cannot_be_loaded_is_one_clear_line(acme: None) -> None:
    with pytest.raises(OptionError, match="gone/x: the provider that acme_provider:nothing registers cannot be loaded"):
        make_provider(parse_model_name("gone/x"), env={})


def test_nobody_takes_a_name_that_is_built_in(acme: None) -> None:
    assert set(registered()) == {"acme", "silent", "gone"}


def test_a_name_that_nobody_registers_is_refused() -> None:
    with pytest.raises(OptionError, match="Cannot tell who makes the model"):
        parse_model_name("acme/big-1")
