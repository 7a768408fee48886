"""Every server by name, through the real SDK: its address, its key and no other, its body."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeServer
from tests.forked import ROOT
from tests.judge.llm.providers.asking import question, use
from tiltyard.errors import OptionError, Refused
from tiltyard.judge.llm import BatchProvider, Provider, make_provider, parse_model_name
from tiltyard.judge.llm.presets import PRESETS, ServerPreset
from tiltyard.judge.llm.providers.contract import check_provider
from tiltyard.judge.llm.providers.wire import choice_words
from tiltyard.judge.verdicts.reading import reply_schema

CHOICES = ("A", "B", "TIE")
EACH = pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
MAKERS = {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"}


def key_of(variable: str) -> str:
    return f"planted-{variable.lower()}"


def everything(server: FakeServer) -> dict[str, str]:
    """The keys of all makers and servers, and addresses that lead to the fake server."""
    keys = {variable: key_of(variable) for variable in MAKERS | {one.key_variable for one in PRESETS.values()}}
    addresses = {one.address_variable: server.openai_url for one in PRESETS.values()}
    return keys | addresses | {"AZURE_OPENAI_ENDPOINT": server.anthropic_url, "OPENAI_BASE_URL": "http://127.0.0.1:9"}


def named(preset: ServerPreset, server: FakeServer, **changes: Any) -> Provider:
    return make_provider(parse_model_name(f"{preset.name}/some-model"), env=everything(server) | changes)


@EACH
def test_a_server_by_name_keeps_the_contract(preset: ServerPreset, fake_server: FakeServer) -> None:
    fake_server.behaviour.key = key_of(preset.key_variable)
    provider = named(preset, fake_server)
    assert provider.name == preset.name
    assert not isinstance(provider, BatchProvider)
    use(provider, lambda provider: check_provider(provider, model="some-model"))


@EACH
def test_it_gets_its_own_key_and_body_and_nothing_of_others(
    preset: ServerPreset, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in everything(fake_server).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-planted")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-planted")
    use(named(preset, fake_server), lambda provider: provider.ask(question(choices=CHOICES)))
    path, headers = fake_server.ledger.heard[-1]
    assert path == ("/openai/v1/chat/completions" if preset.name == "azure" else "/v1/chat/completions")
    assert headers["authorization"] == f"Bearer {key_of(preset.key_variable)}"
    assert headers.items() >= {(name.lower(), value) for name, value in preset.headers.items()}
    sent = str(headers)
    assert sent.count("planted") == 1, sent
    body = fake_server.ledger.accepted[-1].body
    assert body == {
        "model": "some-model",
        "messages": [{"role": "system", "content": "A rubric."}, {"role": "user", "content": "Which is better?"}],
        preset.limit: 100,
        **({"logprobs": True, "top_logprobs": 20} if preset.logprobs else {}),
    }


@EACH
def test_without_a_key_or_an_address_one_line_names_the_variable(preset: ServerPreset) -> None:
    name = parse_model_name(f"{preset.name}/some-model")
    if preset.base_url is None:
        variable = preset.address_variable if preset.name != "local" else "base_url"
        with pytest.raises(OptionError, match=f"needs the address of its server: .*{variable}"):
            make_provider(name, env={})
    elif preset.needs_key:
        with pytest.raises(Refused, match=f"set {preset.key_variable} in the environment"):
            make_provider(name, env=dict.fromkeys(MAKERS, "planted"))
    else:
        provider = make_provider(name, env={})
        assert preset.base_url in repr(provider)
        use(provider, lambda provider: provider.aclose())


def test_a_dated_version_of_azure_is_asked_by_deployment(fake_server: FakeServer) -> None:
    provider = named(PRESETS["azure"], fake_server, AZURE_OPENAI_API_VERSION="2024-10-21")
    reply = use(provider, lambda provider: provider.ask(question()))
    assert reply.error is None
    path, headers = fake_server.ledger.heard[-1]
    assert path == "/openai/deployments/some-model/chat/completions?api-version=2024-10-21"
    assert headers["api-key"] == key_of("AZURE_OPENAI_API_KEY")
    assert "authorization" not in headers


@pytest.mark.parametrize("ending", ["", "/", "/openai/v1", "/openai/v1/"])
def test_azures_address_may_end_as_people_copy_it(ending: str, fake_server: FakeServer) -> None:
    provider = named(PRESETS["azure"], fake_server, AZURE_OPENAI_ENDPOINT=fake_server.anthropic_url + ending)
    assert use(provider, lambda provider: provider.ask(question())).error is None


@EACH
def test_guided_choice_is_taken_where_the_server_knows_it(preset: ServerPreset, fake_server: FakeServer) -> None:
    name = parse_model_name(f"{preset.name}/some-model")
    for parameter in choice_words:
        make = {"env": everything(fake_server), "guided_choice": parameter}
        if parameter not in preset.guided_choice:
            with pytest.raises(OptionError, match=f"is not known to {preset.name}/"):
                make_provider(name, **make)
            continue
        use(make_provider(name, **make), lambda provider: provider.ask(question(choices=CHOICES)))
        assert fake_server.ledger.accepted[-1].body.items() >= choice_words[parameter](CHOICES).items()


@EACH
@pytest.mark.parametrize("as_tool", [False, True])
def test_a_structured_reply_is_asked_for_where_the_server_can_be_held_to_it(
    preset: ServerPreset, as_tool: bool, fake_server: FakeServer
) -> None:
    wanted = question(structured=reply_schema("tool" if as_tool else "json"))
    provider = named(preset, fake_server)
    if as_tool and "tool" not in preset.structured:
        with pytest.raises(Refused, match=r"Set the judge's `reply` to json"):
            use(provider, lambda provider: provider.ask(wanted))
        assert fake_server.ledger.calls["ask"] == 0
        return
    use(provider, lambda provider: provider.ask(wanted))
    body = fake_server.ledger.accepted[-1].body
    assert ("tools" in body, "response_format" in body) == (as_tool, not as_tool)


def row_of(preset: ServerPreset) -> str:
    """The row of the manual's table."""
    yes = {True: "yes", False: "no"}
    address = f"`{preset.base_url}`" if preset.base_url else "–"
    key = f"`{preset.key_variable}`" + ("" if preset.needs_key else " (optional)")
    forms = ", ".join(f"`{name}`" for name in preset.structured)
    guided = ", ".join(f"`{name}`" for name in preset.guided_choice) or "–"
    cells = [f"`{preset.name}/MODEL`", preset.title, address, f"`{preset.address_variable}`", key]
    return f"| {' | '.join([*cells, f'`{preset.limit}`', yes[preset.logprobs], forms, guided])} |"


def test_the_manual_has_the_table_of_all_servers() -> None:
    """Generated here, so that the table cannot say what is not so: copy what the failure shows."""
    lines = Path(ROOT, "docs/how-to/which-judge.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith(tuple(f"| `{name}/MODEL`" for name in PRESETS))]
    assert rows == [row_of(preset) for preset in PRESETS.values()]
