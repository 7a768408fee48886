"""Every test here may run commands as a user does, and have a server to ask; no key or address of the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import tiltyard, tiltyard_forked, tiltyard_from_scratch
from tests.fakes import FakeServer
from tests.fakes.fixtures import fake_server, running_fake_server

__all__ = ["fake_server", "running_fake_server", "tiltyard", "tiltyard_forked", "tiltyard_from_scratch"]

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever keys, addresses and prices the user has, the tests do not see them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    for maker in ("ANTHROPIC", "OPENAI", "LOCAL"):
        for what in ("API_KEY", "BASE_URL", "AUTH_TOKEN"):
            monkeypatch.delenv(f"{maker}_{what}", raising=False)


@pytest.fixture
def anthropic_server(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """A server that commands take for Anthropic's; its batches have ended when first looked at."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", fake_server.anthropic_url)
    fake_server.behaviour.batch_polls = 0
    return fake_server


@pytest.fixture
def openai_server(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """A server that commands take for OpenAI's; its batches have ended when first looked at."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", fake_server.openai_url)
    fake_server.behaviour.batch_polls = 0
    return fake_server
