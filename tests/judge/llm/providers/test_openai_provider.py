from __future__ import annotations

import json

import pytest

from tests.fakes import FakeServer, Fault, Said
from tests.judge.llm.providers.asking import ask, batch_replies, ended_batch, make, question, read_into, use
from tiltyard.errors import OptionError, TryLater
from tiltyard.judge.llm import BatchProvider, Reply, Stop, Usage
from tiltyard.judge.llm.provider import BatchLimits, BatchState
from tiltyard.judge.llm.providers.openai import CompatibleProvider, OpenAIProvider
from tiltyard.judge.llm.providers.wire import choice_probabilities


def test_an_answer_comes_with_its_text_stop_tokens_and_model(fake_server: FakeServer) -> None:
    fake_server.behaviour.judge = lambda system, user: f"{system}|{user}|VERDICT: A"
    reply = ask("openai", fake_server, question("Ünïcode?", system="Rubric"))
    assert reply == Reply(
        text="Rubric|Ünïcode?|VERDICT: A", usage=Usage(input_tokens=3, output_tokens=6), model="some-model"
    )


@pytest.mark.parametrize(("said", "stop"), [("end", Stop.END), ("length", Stop.LENGTH), ("refusal", Stop.REFUSAL)])
def test_why_it_stopped(said: str, stop: Stop, fake_server: FakeServer) -> None:
    fake_server.behaviour.judge = lambda system, user: Said("so far", said)  # type: ignore[arg-type]
    assert ask("openai", fake_server, question()).stop is stop


def test_only_what_was_asked_for_is_sent(fake_server: FakeServer) -> None:
    ask("openai", fake_server, question(choices=("A", "B")))
    ask("local", fake_server, question(system="", options={"seed": 7}))
    openai, local = (one.body for one in fake_server.ledger.accepted)
    assert openai == {
        "model": "some-model",
        "messages": [{"role": "system", "content": "A rubric."}, {"role": "user", "content": "Which is better?"}],
        "max_completion_tokens": 100,
    }
    assert local == {
        "model": "some-model",
        "messages": [{"role": "user", "content": "Which is better?"}],
        "max_tokens": 100,
        "seed": 7,
    }


def test_cached_tokens_of_the_prompt_are_told_apart(fake_server: FakeServer) -> None:
    rubric = "Judge carefully. " * 40
    ask("openai", fake_server, question(system=rubric))
    usage = ask("openai", fake_server, question(system=rubric)).usage
    assert usage == Usage(input_tokens=4, output_tokens=usage.output_tokens, cache_read_input_tokens=len(rubric) // 4)


def test_a_batch_is_a_tagged_file_and_comes_back_with_every_id(fake_server: FakeServer) -> None:
    requests = [(f"id-{n}", question(f"number {n}", options={"seed": n})) for n in range(20)]
    lines = batch_replies("openai", fake_server, requests)
    assert [custom_id for custom_id, _ in lines] != [custom_id for custom_id, _ in requests]
    for custom_id, reply in lines:
        assert reply.batched
        assert reply.text == fake_server.behaviour.judge("A rubric.", custom_id.replace("id-", "number "))
    (batch,) = fake_server.ledger.batches.values()
    assert batch.metadata == {"tiltyard": "run-1"}
    first = json.loads(fake_server.ledger.files["file-0001"].splitlines()[0])
    assert (first["custom_id"], first["method"], first["url"]) == ("id-0", "POST", "/v1/chat/completions")


def test_one_request_is_the_same_alone_and_in_a_batch(fake_server: FakeServer) -> None:
    request = question(options={"temperature": 0})
    ask("openai", fake_server, request)
    batch_replies("openai", fake_server, [("one", request)])
    alone, batched = fake_server.ledger.accepted
    assert alone.content == batched.content


def test_both_the_output_and_the_error_file_are_read(fake_server: FakeServer) -> None:
    outcomes = {
        "good": "succeeded",
        "late": "expired",
        "gone": "canceled",
        "busy": "errored:server_error",
        "bad": "errored:invalid_request_error",
        "lost": "missing",
    }
    fake_server.behaviour.outcome = lambda custom_id, body, before: outcomes[custom_id]
    replies = dict(batch_replies("openai", fake_server, [(name, question(name)) for name in outcomes]))
    assert {name: (reply.error, reply.final) for name, reply in replies.items()} == {
        "good": (None, False),
        "late": ("expired", False),
        "gone": ("canceled", False),
        "busy": ("errored: server_error", False),
        "bad": ("errored: invalid_request_error", True),
    }
    assert all(reply.batched for reply in replies.values())


def test_a_batch_without_one_good_reply_has_no_output_file(fake_server: FakeServer) -> None:
    fake_server.behaviour.outcome = lambda custom_id, body, before: "expired"
    assert [reply.error for _, reply in batch_replies("openai", fake_server, [("one", question())])] == ["expired"]


def test_a_batch_that_never_started_is_an_error_of_each_request(fake_server: FakeServer) -> None:
    lines = batch_replies("openai", fake_server, [("same", question("1")), ("same", question("2"))])
    assert [(name, reply.error, reply.final) for name, reply in lines] == [
        ("same", "errored: duplicate_custom_id", False),
        ("same", "errored: duplicate_custom_id", False),
    ]
    assert lines[0][1].text == "The custom_id is not unique."


def test_where_a_batch_stands_and_whose_it_is(fake_server: FakeServer) -> None:
    fake_server.behaviour.batch_polls = 1

    async def work(provider: OpenAIProvider) -> list[BatchState]:
        batch_id = await provider.submit([("one", question()), ("two", question("other"))], "run-1")
        return [await provider.state(batch_id) for _ in range(2)]

    states = use(make("openai", fake_server), work)
    assert [(state.ended, state.size, state.tag) for state in states] == [(False, 2, "run-1"), (True, 2, "run-1")]


def test_results_before_the_end_are_for_later(fake_server: FakeServer) -> None:
    fake_server.behaviour.batch_polls = 99

    async def work(provider: OpenAIProvider) -> None:
        batch_id = await provider.submit([("one", question())], "run-1")
        with pytest.raises(TryLater, match="has not ended yet"):
            await anext(provider.results(batch_id))

    use(make("openai", fake_server), work)


def test_results_that_break_off_can_be_read_again(fake_server: FakeServer) -> None:
    async def work(provider: OpenAIProvider) -> tuple[list[str], list[str]]:
        batch_id = await ended_batch(provider, [(f"id-{n}", question(f"{n}")) for n in range(10)])
        fake_server.behaviour.faults = [Fault(kind="cut", route="results", after_bytes=1500)]
        before: list[str] = []
        with pytest.raises(TryLater):
            await read_into(before, provider, batch_id)
        return before, [custom_id async for custom_id, _ in provider.results(batch_id)]

    before, after = use(make("openai", fake_server), work)
    assert 0 < len(before) < 10
    assert len(after) == 10


def test_all_pages_of_the_list_are_read_newest_first(fake_server: FakeServer) -> None:
    fake_server.behaviour.largest_page = 2

    async def work(provider: OpenAIProvider) -> tuple[list[str], list[BatchState]]:
        sent = [await provider.submit([("one", question(f"{n}"))], f"run-{n}") for n in range(5)]
        return sent, [state async for state in provider.recent_batches()]

    sent, listed = use(make("openai", fake_server), work)
    assert [state.batch_id for state in listed] == sent[::-1]
    assert [state.tag for state in listed] == [f"run-{n}" for n in range(4, -1, -1)]
    assert fake_server.ledger.calls["list"] == 3


@pytest.mark.parametrize("route", ["upload", "submit"])
def test_a_batch_that_is_turned_away_was_not_accepted(route: str, fake_server: FakeServer) -> None:
    fake_server.behaviour.faults = [Fault(route=route, headers={"retry-after": "3"})]
    with pytest.raises(TryLater) as caught:
        use(make("openai", fake_server), lambda provider: provider.submit([("one", question())], "run-1"))
    assert caught.value.retry_after == 3
    assert fake_server.ledger.accepted == []


def test_limits_and_sizes(fake_server: FakeServer) -> None:
    provider = make("openai", fake_server)
    assert isinstance(provider, BatchProvider)
    assert not isinstance(make("local", fake_server), BatchProvider)
    assert provider.batch_limits == BatchLimits(requests=50_000, bytes=200_000_000)
    request = question("日本語 " * 10)
    use(provider, lambda provider: provider.submit([("x" * 64, request)], "run-1"))
    assert provider.encoded_size(request) == len(fake_server.ledger.files["file-0001"])


def test_the_probabilities_of_the_choices_come_from_the_first_token(fake_server: FakeServer) -> None:
    fake_server.behaviour.judge = lambda system, user: "A"
    fake_server.behaviour.first_token = lambda system, user: {"A": 0.5, " B": 0.2, "T": 0.1, "The": 0.2}
    reply = ask("local", fake_server, question(choices=("A", "B", "TIE")))
    assert reply.choice_probabilities == pytest.approx({"A": 0.5, "B": 0.2, "TIE": 0.1})
    body = fake_server.ledger.accepted[0].body
    assert (body["logprobs"], body["top_logprobs"]) == (True, 20)


def test_a_server_without_log_probabilities_still_answers(fake_server: FakeServer) -> None:
    reply = ask("local", fake_server, question(choices=("A", "B")))
    assert reply.choice_probabilities is None
    assert "VERDICT" in reply.text


def test_choices_are_read_past_blanks_and_only_where_they_are_meant() -> None:
    def token(text: str) -> dict[str, object]:
        return {"token": text, "logprob": 0.0, "top_logprobs": [{"token": text, "logprob": 0.0}]}

    assert choice_probabilities([token("\n"), token("B")], ("A", "B"), "\nB") == {"A": 0.0, "B": 1.0}
    assert choice_probabilities([token("Hm"), token("B")], ("A", "B"), "HmB") == {"A": 0.0, "B": 0.0}
    assert choice_probabilities([], ("A", "B"), "B") is None
    assert choice_probabilities([{**token("B"), "top_logprobs": []}], ("A", "B"), "B") is None
    assert choice_probabilities([token("A")], ("A1", "A2"), "A") == {"A1": 0.0, "A2": 0.0}


@pytest.mark.parametrize(
    ("way", "sent"),
    [
        ("guided_choice", ["A", "B"]),
        ("structured_outputs", {"choice": ["A", "B"]}),
        ("grammar", 'root ::= "A" | "B"'),
    ],
)
def test_the_answer_can_be_held_to_the_choices(way: str, sent: object, fake_server: FakeServer) -> None:
    provider = CompatibleProvider(base_url=fake_server.openai_url, guided_choice=way)
    use(provider, lambda provider: provider.ask(question(choices=("A", "B"))))
    assert fake_server.ledger.accepted[0].body[way] == sent


def test_an_unknown_way_to_hold_the_answer_is_one_line() -> None:
    with pytest.raises(OptionError, match="grammar, guided_choice, structured_outputs"):
        CompatibleProvider(base_url="http://localhost:1/v1", guided_choice="prayer")


def test_a_local_server_never_sees_the_key_of_openai(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-real-one-1234")
    fake_server.behaviour.key = "none"
    provider = CompatibleProvider(base_url=fake_server.openai_url)
    assert use(provider, lambda provider: provider.ask(question())).error is None
