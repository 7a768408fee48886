from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import certifi
import httpx2
import pytest

from tests.fakes import FakeServer
from tests.judge.llm.providers.asking import KEY, question, use
from tiltyard.errors import OptionError, Refused
from tiltyard.judge.llm import BatchProvider, make_provider, parse_model_name
from tiltyard.judge.llm.providers.http import Caller, http_client


def addresses(server: FakeServer) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": server.anthropic_url,
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": server.openai_url,
        "GOOGLE_API_KEY": KEY,
        "GEMINI_BASE_URL": server.gemini_url,
        "LOCAL_BASE_URL": server.openai_url,
        "LOCAL_API_KEY": KEY,
    }


@pytest.mark.parametrize(
    "name", ["anthropic/claude-x", "openai/gpt-x", "gemini/gemini-x", "local/llama", "claude-x", "gpt-x", "gemini-x"]
)
def test_a_name_and_the_environment_are_enough(name: str, fake_server: FakeServer) -> None:
    fake_server.behaviour.key = KEY
    model = parse_model_name(name)
    provider = make_provider(model, env=addresses(fake_server))
    assert provider.name == model.provider
    assert isinstance(provider, BatchProvider) is (model.provider != "local")
    reply = use(provider, lambda provider: provider.ask(question(model=model.model)))
    assert reply.model == model.model


@pytest.mark.parametrize("name", ["anthropic/claude-x", "openai/gpt-x", "gemini-x", "local/llama"])
def test_a_given_base_url_wins(name: str, fake_server: FakeServer) -> None:
    env = {variable: "http://127.0.0.1:9" if "URL" in variable else KEY for variable in addresses(fake_server)}
    model = parse_model_name(name)
    base_url = fake_server.anthropic_url if model.provider in ("anthropic", "gemini") else fake_server.openai_url
    provider = make_provider(model, base_url=base_url, env=env)
    assert use(provider, lambda provider: provider.ask(question())).error is None


def test_keys_and_addresses_come_from_a_env_file(
    tmp_path: Path, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in addresses(fake_server):
        monkeypatch.delenv(variable, raising=False)
    lines = [f"{variable}={value}" for variable, value in addresses(fake_server).items()]
    (tmp_path / ".env").write_text("\n".join(lines))
    fake_server.behaviour.key = KEY
    provider = make_provider(parse_model_name("claude-x"), folders=[tmp_path])
    assert use(provider, lambda provider: provider.ask(question())).error is None


@pytest.mark.parametrize(
    ("name", "variable"),
    [("claude-x", "ANTHROPIC_API_KEY"), ("gpt-x", "OPENAI_API_KEY"), ("gemini-x", "GEMINI_API_KEY")],
)
def test_a_missing_key_names_its_variable(name: str, variable: str) -> None:
    with pytest.raises(Refused, match=f"set {variable} in the environment or in .env"):
        make_provider(parse_model_name(name), env={})


def test_a_local_model_needs_an_address() -> None:
    with pytest.raises(OptionError, match="needs the address of its server"):
        make_provider(parse_model_name("local/llama"), env={})


def test_a_script_is_found_beside_the_config_or_in_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "judge.yaml").write_text("rules: [{say: hello}]")
    name = parse_model_name("scripted/judge.yaml")
    provider = make_provider(name, folders=[tmp_path / "config", tmp_path])
    assert use(provider, lambda provider: provider.ask(question())).text == "hello"
    with pytest.raises(OptionError, match=r"no script at .*config.judge\.yaml or .*judge\.yaml"):
        make_provider(name, folders=[tmp_path / "config", tmp_path / "other"])


def test_a_recording_is_not_asked() -> None:
    with pytest.raises(OptionError, match="not a model that can be asked"):
        make_provider(parse_model_name("recorded/verdicts.jsonl"), env={})


def test_guided_choice_is_for_local_models() -> None:
    with pytest.raises(OptionError, match="is for local"):
        make_provider(parse_model_name("claude-x"), env={"ANTHROPIC_API_KEY": KEY}, guided_choice="grammar")


WITHOUT_SDKS = """
import sys
sys.modules["anthropic"] = sys.modules["openai"] = sys.modules["google"] = sys.modules["httpx2"] = None
from pathlib import Path
from tiltyard.errors import MissingExtra
from tiltyard.judge.llm.provider import parse_model_name
from tiltyard.judge.llm.providers import make_provider
for name in ("anthropic/claude-x", "openai/gpt-x", "local/llama", "ollama/llama", "gemini-x"):
    try:
        make_provider(parse_model_name(name), base_url="http://localhost:1", env={"ANTHROPIC_API_KEY": "k"})
    except MissingExtra as error:
        print(error)
print(make_provider(parse_model_name("scripted/judge.yaml"), folders=[Path(sys.argv[1])]).name)
"""


def test_a_missing_sdk_says_what_to_install_and_scripts_need_none(tmp_path: Path) -> None:
    (tmp_path / "judge.yaml").write_text("rules: [{say: hello}]")
    done = subprocess.run([sys.executable, "-c", WITHOUT_SDKS, tmp_path], capture_output=True, text=True, check=True)
    advice = "needs the [judge] extra. In the folder of your clone: pip install '.[judge]'"
    assert done.stdout.splitlines() == [
        f"Asking anthropic/claude-x {advice}",
        f"Asking openai/gpt-x {advice}",
        f"Asking local/llama {advice}",
        f"Asking ollama/llama {advice}",
        f"Asking gemini/gemini-x {advice.replace('judge', 'gemini')}",
        "scripted",
    ]


def test_certificates_are_read_once_for_all_clients_and_anew_where_the_environment_names_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def told_of() -> ssl.SSLContext:
        found: list[ssl.SSLContext] = []

        def client(**settings: Any) -> httpx2.AsyncClient:
            found.append(settings["verify"])
            return httpx2.AsyncClient(**settings)

        http_client(Caller("local", "K", "http://localhost", Exception), client, client)
        return found[0]

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    usual = told_of()
    assert usual.verify_mode == ssl.CERT_REQUIRED
    assert usual.check_hostname
    assert told_of() is usual
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    assert told_of() is not usual
    assert told_of().get_ca_certs()
