from __future__ import annotations

import asyncio

import pytest

from tests.fakes import FakeServer, Fault, Said
from tests.judge.llm.providers.asking import ask, batch_replies, ended_batch, failed, make, question, read_into, use
from tiltyard.errors import Refused, TryLater
from tiltyard.judge.llm import BatchProvider, Reply, Stop, Usage
from tiltyard.judge.llm.provider import BatchLimits, BatchState
from tiltyard.judge.llm.providers.anthropic import AnthropicProvider

RUBRIC = "Judge carefully. " * 40


def test_an_answer_comes_with_its_text_stop_tokens_and_model(fake_server: FakeServer) -> None:
    fake_server.behaviour.judge = lambda system, user: f"{system}|{user}|VERDICT: A"
    reply = ask("anthropic", fake_server, question("Ünïcode?", system="Rubric"))
    assert reply == Reply(
        text="Rubric|Ünïcode?|VERDICT: A", usage=Usage(input_tokens=3, output_tokens=6), model="some-model"
    )


@pytest.mark.parametrize(("said", "stop"), [("end", Stop.END), ("length", Stop.LENGTH), ("refusal", Stop.REFUSAL)])
def test_why_it_stopped(said: str, stop: Stop, fake_server: FakeServer) -> None:
    fake_server.behaviour.judge = lambda system, user: Said("so far", said)  # type: ignore[arg-type]
    assert ask("anthropic", fake_server, question()).stop is stop


def test_an_answer_beyond_the_budget_is_cut_and_says_so(fake_server: FakeServer) -> None:
    fake_server.behaviour.judge = lambda system, user: "word " * 100
    reply = ask("anthropic", fake_server, question(max_tokens=10))
    assert (reply.stop, len(reply.text)) == (Stop.LENGTH, 40)


def test_the_rubric_is_marked_for_an_hour_and_its_tokens_are_told_apart(fake_server: FakeServer) -> None:
    first = ask("anthropic", fake_server, question(system=RUBRIC, cache_system=True))
    second = ask("anthropic", fake_server, question(system=RUBRIC, cache_system=True))
    marked = {"type": "text", "text": RUBRIC, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert [one.body["system"] for one in fake_server.ledger.accepted] == [[marked], [marked]]
    tokens = len(RUBRIC) // 4
    assert (first.usage.cache_creation_input_tokens, first.usage.cache_read_input_tokens) == (tokens, 0)
    assert (second.usage.cache_creation_input_tokens, second.usage.cache_read_input_tokens) == (0, tokens)


def test_only_what_was_asked_for_is_sent(fake_server: FakeServer) -> None:
    ask("anthropic", fake_server, question(choices=("A", "B")))
    ask("anthropic", fake_server, question(system=""))
    plain, bare = (one.body for one in fake_server.ledger.accepted)
    assert plain == {
        "model": "some-model",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Which is better?"}],
        "system": [{"type": "text", "text": "A rubric."}],
    }
    assert "system" not in bare


def test_options_go_along_alone_and_in_a_batch(fake_server: FakeServer) -> None:
    fake_server.behaviour.refuses_sampling = False
    request = question(options={"temperature": 0, "thinking": {"type": "disabled"}})
    ask("anthropic", fake_server, request)
    batch_replies("anthropic", fake_server, [("one", request)])
    alone, batched = fake_server.ledger.accepted
    assert alone.body["temperature"] == 0
    assert alone.body["thinking"] == {"type": "disabled"}
    assert alone.content == batched.content


def test_a_model_that_refuses_temperature_says_so(fake_server: FakeServer) -> None:
    error = failed("anthropic", fake_server, question(options={"temperature": 0}))
    assert isinstance(error, Refused)
    assert "temperature: Extra inputs are not permitted" in str(error)


def test_a_large_budget_needs_no_streaming(fake_server: FakeServer) -> None:
    assert ask("anthropic", fake_server, question(max_tokens=100_000)).stop is Stop.END


def test_many_requests_at_once(fake_server: FakeServer) -> None:
    fake_server.behaviour.latency_seconds = 0.05

    async def work(provider: AnthropicProvider) -> list[Reply]:
        return await asyncio.gather(*(provider.ask(question(f"number {n}")) for n in range(150)))

    replies = use(make("anthropic", fake_server), work)
    assert len(replies) == 150
    assert set(fake_server.ledger.counts().values()) == {1}


def test_a_batch_comes_back_out_of_order_with_every_id(fake_server: FakeServer) -> None:
    requests = [(f"id-{n}", question(f"number {n}")) for n in range(20)]
    lines = batch_replies("anthropic", fake_server, requests)
    assert [custom_id for custom_id, _ in lines] != [custom_id for custom_id, _ in requests]
    for custom_id, reply in lines:
        assert reply.batched
        assert reply.text == fake_server.behaviour.judge("A rubric.", custom_id.replace("id-", "number "))


def test_what_became_of_each_entry_of_a_batch(fake_server: FakeServer) -> None:
    outcomes = {
        "good": "succeeded",
        "late": "expired",
        "gone": "canceled",
        "busy": "errored:overloaded_error",
        "bad": "errored:invalid_request_error",
        "lost": "missing",
    }
    fake_server.behaviour.outcome = lambda custom_id, body, before: outcomes[custom_id]
    fake_server.behaviour.strangers = 1
    replies = dict(batch_replies("anthropic", fake_server, [(name, question(name)) for name in outcomes]))
    assert set(replies) == {"good", "late", "gone", "busy", "bad", "stranger-0"}
    assert {name: (replies[name].error, replies[name].final) for name in replies if name != "stranger-0"} == {
        "good": (None, False),
        "late": ("expired", False),
        "gone": ("canceled", False),
        "busy": ("errored: overloaded_error", False),
        "bad": ("errored: invalid_request_error", True),
    }
    assert replies["bad"].text == "planted error."
    assert all(reply.batched for reply in replies.values())


def test_a_malformed_request_shows_only_at_the_end_of_its_batch(fake_server: FakeServer) -> None:
    ((_, reply),) = batch_replies("anthropic", fake_server, [("one", question(options={"temperature": 1}))])
    assert (reply.error, reply.final) == ("errored: invalid_request_error", True)
    assert "temperature" in reply.text


def test_truncated_and_refused_replies_come_in_batches_too(fake_server: FakeServer) -> None:
    fake_server.behaviour.judge = lambda system, user: Said("no", "refusal") if user == "r" else "word " * 999
    replies = dict(batch_replies("anthropic", fake_server, [("r", question("r")), ("t", question("t"))]))
    assert (replies["r"].stop, replies["t"].stop) == (Stop.REFUSAL, Stop.LENGTH)


def test_where_a_batch_stands(fake_server: FakeServer) -> None:
    fake_server.behaviour.batch_polls = 2

    async def work(provider: AnthropicProvider) -> list[BatchState]:
        batch_id = await provider.submit([("one", question()), ("two", question("other"))], "run-1")
        return [await provider.state(batch_id) for _ in range(3)]

    states = use(make("anthropic", fake_server), work)
    assert [(state.ended, state.size) for state in states] == [(False, 2), (False, 2), (True, 2)]


def test_results_before_the_end_are_for_later(fake_server: FakeServer) -> None:
    fake_server.behaviour.batch_polls = 99

    async def work(provider: AnthropicProvider) -> None:
        batch_id = await provider.submit([("one", question())], "run-1")
        with pytest.raises(TryLater, match="has not ended yet"):
            await anext(provider.results(batch_id))

    use(make("anthropic", fake_server), work)


def test_results_that_were_thrown_away_are_not_coming_back(fake_server: FakeServer) -> None:
    async def work(provider: AnthropicProvider) -> None:
        batch_id = await ended_batch(provider, [("one", question())])
        fake_server.ledger.batches[batch_id].archived = True
        with pytest.raises(Refused, match="no longer kept"):
            await anext(provider.results(batch_id))

    use(make("anthropic", fake_server), work)


def test_results_that_break_off_can_be_read_again(fake_server: FakeServer) -> None:
    async def work(provider: AnthropicProvider) -> tuple[list[str], list[str]]:
        batch_id = await ended_batch(provider, [(f"id-{n}", question(f"{n}")) for n in range(10)])
        fake_server.behaviour.faults = [Fault(kind="cut", route="results", after_bytes=1500)]
        before: list[str] = []
        with pytest.raises(TryLater):
            await read_into(before, provider, batch_id)
        return before, [custom_id async for custom_id, _ in provider.results(batch_id)]

    before, after = use(make("anthropic", fake_server), work)
    assert 0 < len(before) < 10
    assert len(after) == 10


def test_a_reader_may_stop_in_the_middle(fake_server: FakeServer) -> None:
    async def work(provider: AnthropicProvider) -> Reply:
        batch_id = await ended_batch(provider, [(f"id-{n}", question(f"{n}")) for n in range(50)])
        lines = provider.results(batch_id)
        await anext(lines)
        await lines.aclose()  # type: ignore[attr-defined]
        return await provider.ask(question())

    assert use(make("anthropic", fake_server), work).error is None


def test_all_pages_of_the_list_are_read_newest_first(fake_server: FakeServer) -> None:
    fake_server.behaviour.largest_page = 3

    async def work(provider: AnthropicProvider) -> tuple[list[str], list[str]]:
        sent = [await provider.submit([("one", question(f"{n}"))], "run-1") for n in range(8)]
        return sent, [state.batch_id async for state in provider.recent_batches()]

    sent, listed = use(make("anthropic", fake_server), work)
    assert listed == sent[::-1]
    assert fake_server.ledger.calls["list"] == 3


def test_a_batch_whose_answer_was_lost_is_in_the_list(fake_server: FakeServer) -> None:
    fake_server.behaviour.faults = [Fault(kind="lose", route="submit")]

    async def work(provider: AnthropicProvider) -> list[BatchState]:
        with pytest.raises(TryLater):
            await provider.submit([("one", question())], "run-1")
        return [state async for state in provider.recent_batches()]

    (state,) = use(make("anthropic", fake_server), work)
    assert state.size == 1


def test_limits_and_sizes(fake_server: FakeServer) -> None:
    provider = make("anthropic", fake_server)
    assert isinstance(provider, BatchProvider)
    assert provider.batch_limits == BatchLimits(requests=100_000, bytes=256_000_000)
    request = question("日本語 " * 10)
    use(provider, lambda provider: provider.submit([("x" * 64, request)], "run-1"))
    sent = fake_server.ledger.accepted[0].body
    assert provider.encoded_size(request) >= len(str(sent).encode()) - 20


def test_a_custom_id_that_is_refused_names_itself(fake_server: FakeServer) -> None:
    with pytest.raises(Refused, match="custom_id 'a b' is malformed"):
        use(make("anthropic", fake_server), lambda provider: provider.submit([("a b", question())], "run-1"))
