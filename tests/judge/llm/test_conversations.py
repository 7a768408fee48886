"""Prompts of several turns: asked turn by turn with the model's own replies, kept between, nothing asked twice."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeServer
from tests.fakes.behaviour import first_time, talk_by_number
from tests.judge.llm.providers.asking import make
from tests.judge.llm.providers_in_memory import BatchesInMemory, DirectProvider
from tests.judge.llm.test_generation import OTTER, fill
from tiltyard.data.bank import Prompt, read_responses
from tiltyard.errors import BudgetReached, ModelError, OptionError, QuestionRefused
from tiltyard.judge.llm import (
    Ask,
    AskingParts,
    AskingSettings,
    EntrantSettings,
    PriceTable,
    Reply,
    Request,
    Stop,
    Usage,
    generate,
    quote,
)
from tiltyard.judge.llm.asking import Budget
from tiltyard.judge.llm.prices import most_usage

PROMPTS = [Prompt(prompt_id=name, text=f"{name}?") for name in ("one", "two", "three")]
TURNS = {"two": ("Name a bird.", "And a taller one?"), "three": ["Hello.", "Who?", "Why?"]}
KEPT = "conversations_otter.jsonl"


def reply(asked: Request) -> Reply:
    said = f"[{len(asked.earlier)} before] {asked.user}"
    return Reply(text=said, usage=Usage(input_tokens=10, output_tokens=1), model="claude-snapshot")


def talk(folder: Path, provider_of=lambda now: DirectProvider(reply), turns=TURNS, **options: Any):
    return fill(folder, provider_of, prompts=PROMPTS, turns=turns, **options)


def texts(folder: Path) -> dict[str, str]:
    return {name: response.response_text for name, response in read_responses(folder, "otter").items()}


WHOLE = {
    "one": "[0 before] one?",
    "two": "Turn 1:\n[0 before] Name a bird.\n\nTurn 2:\n[1 before] And a taller one?",
    "three": "Turn 1:\n[0 before] Hello.\n\nTurn 2:\n[1 before] Who?\n\nTurn 3:\n[2 before] Why?",
}


def test_each_turn_is_asked_with_the_models_own_replies_before_it(tmp_path: Path) -> None:
    asked: list[Request] = []

    def remember(request: Request) -> Reply:
        asked.append(request)
        return reply(request)

    generated, _ = talk(tmp_path, lambda now: DirectProvider(remember))
    assert texts(tmp_path) == WHOLE
    assert (generated.present, generated.written, generated.failed) == (0, 3, {})
    assert generated.totals.groups["otter"].done == 1 + 2 + 3
    last = next(request for request in asked if request.user == "Why?")
    assert last.earlier == (("Hello.", "[0 before] Hello."), ("Who?", "[1 before] Who?"))
    assert {request.system for request in asked} == {"Be brief."}


def test_a_turn_that_is_refused_fails_its_conversation_alone_and_is_asked_again_later(tmp_path: Path) -> None:
    class Strict(DirectProvider):
        async def ask(self, asked):
            if asked.user == "Who?":
                raise QuestionRefused("400: too long.", "invalid_request_error", "prompt is too long")
            return await super().ask(asked)

    generated, _ = talk(tmp_path, lambda now: Strict(reply))
    assert generated.failed == {"three": "turn 2: errored: invalid_request_error: prompt is too long"}
    assert set(texts(tmp_path)) == {"one", "two"}
    (line,) = (tmp_path / "failures_otter.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["prompt_id"] == "three"
    asked: list[str] = []
    talk(tmp_path, lambda now: DirectProvider(lambda request: asked.append(request.user) or reply(request)))
    assert asked == ["Who?", "Why?"]
    assert texts(tmp_path) == WHOLE
    assert not (tmp_path / "failures_otter.jsonl").exists()


def test_diagnostics_say_how_many_turns_there_were_and_what_they_took(tmp_path: Path) -> None:
    talk(tmp_path)
    made = {name: response.diagnostics or {} for name, response in read_responses(tmp_path, "otter").items()}
    assert {name: one["turns"] for name, one in made.items()} == {"one": 1, "two": 2, "three": 3}
    assert made["three"]["usage"]["input_tokens"] == 30
    assert made["three"]["model"] == "claude-snapshot"
    assert (made["three"]["stop"], made["three"]["batched"]) == ("end", False)


def test_all_prompts_of_a_turn_go_out_together(tmp_path: Path) -> None:
    generated, provider = talk(tmp_path, lambda now: BatchesInMemory(now, reply=reply))
    users = [sorted(request.user for _, request in batch.requests) for batch in provider.batches.values()]
    assert users == [["Hello.", "Name a bird.", "one?"], ["And a taller one?", "Who?"], ["Why?"]]
    assert texts(tmp_path) == WHOLE
    assert generated.written == 3
    assert (read_responses(tmp_path, "otter")["three"].diagnostics or {})["batched"] is True


def test_a_failed_turn_fails_its_prompt_by_name_and_the_next_run_goes_on_from_it(tmp_path: Path) -> None:
    bad = {"Who?": Reply(error="errored: api_error", final=True), "And a taller one?": Reply(text=" \n")}
    generated, _ = talk(tmp_path, lambda now: DirectProvider(lambda asked: bad.get(asked.user) or reply(asked)))
    assert generated.failed == {"three": "turn 2: errored: api_error", "two": "turn 2: empty reply (end)"}
    assert set(texts(tmp_path)) == {"one"}
    later, provider = talk(tmp_path)
    assert texts(tmp_path) == WHOLE
    assert (later.present, later.written, later.failed) == (1, 2, {})
    assert provider.asked.total() == 3  # Who?, Why?, And a taller one?


def test_what_a_budget_stopped_goes_on_where_it_was_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    """Every reply costs its 50 tokens in full; there is money for four of the six."""
    one = PriceTable.load().cost(OTTER.model, most_usage(OTTER.request(PROMPTS[0])), batched=False)
    assert one is not None

    def dear(asked: Request) -> Reply:
        return Reply(text=reply(asked).text, usage=Usage(output_tokens=50))

    with pytest.raises(BudgetReached):
        talk(tmp_path, lambda now: DirectProvider(dear), budget=Budget(4.5 * one))
    before = len((tmp_path / KEPT).read_text().splitlines()) + ("one" in texts(tmp_path))
    assert 3 <= before < 6
    _, provider = talk(tmp_path)
    assert provider.asked.total() == 6 - before
    assert texts(tmp_path) == WHOLE


def test_a_budget_is_one_for_all_turns(tmp_path: Path) -> None:
    one = PriceTable.load().cost(OTTER.model, most_usage(OTTER.request(PROMPTS[0])), batched=False)
    assert one is not None
    settings = AskingSettings(budget_usd=4.5 * one)
    with pytest.raises(BudgetReached):
        talk(
            tmp_path,
            lambda now: DirectProvider(lambda asked: Reply(text="x", usage=Usage(output_tokens=50))),
            settings=settings,
        )


def test_replies_to_other_words_or_of_another_model_are_not_used(tmp_path: Path) -> None:
    """The first turn is kept; then the second message, the first message or the model is another."""
    broken = {"And a taller one?": Reply(error="expired", final=True)}
    talk(tmp_path, lambda now: DirectProvider(lambda asked: broken.get(asked.user) or reply(asked)))
    for changes, expected in (
        ({"turns": {"two": ("Name a bird.", "A third?")}}, 1),
        ({"turns": {"two": ("Name a fish.", "A third?")}}, 2),
        ({"entrant": EntrantSettings(entrant_id="otter", model="other"), "turns": TURNS}, 2),
    ):
        folder = tmp_path / f"{expected}{len(changes)}"
        folder.mkdir()
        (folder / KEPT).write_bytes((tmp_path / KEPT).read_bytes())
        given = {"entrant": OTTER, **changes}
        _, provider = fill(folder, lambda now: DirectProvider(reply), prompts=PROMPTS[1:2], **given)
        assert provider.asked.total() == expected


def test_a_conversation_whose_replies_are_all_kept_is_written_without_asking(tmp_path: Path) -> None:
    talk(tmp_path)
    (tmp_path / "responses_otter.jsonl").unlink()
    generated, provider = talk(tmp_path)
    assert provider.asked.total() == 1  # the single turn
    assert texts(tmp_path) == WHOLE
    assert generated.written == 3


def test_the_torn_end_of_a_killed_writer_is_cut_off_and_that_turn_asked_again(tmp_path: Path) -> None:
    broken = {"Who?": Reply(error="expired", final=True), "And a taller one?": Reply(error="expired", final=True)}
    talk(tmp_path, lambda now: DirectProvider(lambda asked: broken.get(asked.user) or reply(asked)))
    path = tmp_path / KEPT
    assert len(path.read_bytes().splitlines()) == 2
    path.write_bytes(path.read_bytes()[:-9])
    _, provider = talk(tmp_path)
    assert provider.asked.total() == 3 + 1
    assert texts(tmp_path) == WHOLE
    assert all(json.loads(line) for line in path.read_bytes().splitlines())


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / KEPT).write_text('{"key": 3}\n')
    with pytest.raises(ModelError, match=r"conversations_otter\.jsonl:1: not a turn"):
        talk(tmp_path)


def test_a_single_turn_makes_no_file_of_conversations(tmp_path: Path) -> None:
    talk(tmp_path, turns={"two": ["Name a bird."]})
    assert texts(tmp_path)["two"] == "[0 before] Name a bird."
    assert not (tmp_path / KEPT).exists()


def test_a_reply_that_was_cut_off_goes_on_and_is_counted(tmp_path: Path) -> None:
    def cut(asked: Request) -> Reply:
        return Reply(text="Well", stop=Stop.LENGTH) if asked.user == "Who?" else reply(asked)

    generated, _ = talk(tmp_path, lambda now: DirectProvider(cut))
    assert (generated.written, generated.truncated) == (3, 1)
    assert (read_responses(tmp_path, "otter")["three"].diagnostics or {})["stop"] == "length"


def test_an_empty_message_fails_its_prompt_and_no_other(tmp_path: Path) -> None:
    generated, provider = talk(tmp_path, turns={**TURNS, "three": ["Hello.", " ", "Why?"]})
    assert generated.failed == {"three": "turn 2: the user's message is empty"}
    assert set(texts(tmp_path)) == {"one", "two"}
    assert provider.asked.total() == 4


@pytest.mark.parametrize("given", [(), [], "Hello."])
def test_no_turns_and_a_bare_text_are_one_clear_error(tmp_path: Path, given: Any) -> None:
    with pytest.raises(OptionError, match=r"turns of prompt 'two' are .*at least one message"):
        talk(tmp_path, turns={"two": given})


def test_a_response_of_another_number_of_turns_is_kept_and_mentioned(tmp_path: Path) -> None:
    talk(tmp_path, turns={})
    notices: list[str] = []
    generated, _ = talk(tmp_path, notice=notices.append)
    assert (generated.present, generated.written) == (3, 0)
    assert "2 responses of otter were made with another model, system text or number of turns" in notices[0]


def test_a_quote_of_conversations_counts_the_replies_that_will_be_sent_again() -> None:
    """Prompt two: "Name a bird." is 3 tokens, the system text 3; its second turn has 5, and 3 and a reply before it."""
    first, second = TURNS["two"]
    requests = [
        OTTER.request(PROMPTS[1], user=first),
        OTTER.request(PROMPTS[1], user=second, earlier=((first, "x" * 80),)),
    ]
    found = quote([Ask(request.fingerprint, request, "otter") for request in requests], PriceTable.load()).all
    assert (found.queries, found.input_tokens) == (2, (3 + 3) + (3 + 3 + 20 + 5))


MANY = [Prompt(prompt_id=f"p{number}", text=f"Question {number}?") for number in range(12)]
LONG = {f"p{number}": [f"{number}.{turn}" for turn in range(1 + number % 3)] for number in range(12)}


def over_http(server: FakeServer, kind: str, folder: Path, settings: AskingSettings):
    entrant = EntrantSettings(entrant_id="otter", model="some-model", system="Be brief.")

    async def work():
        provider = make(kind, server)
        try:
            return await generate(
                entrant,
                MANY,
                folder,
                provider,
                AskingParts(
                    prices=PriceTable.load(),
                    settings=settings,
                    sleep=lambda seconds: asyncio.sleep(min(seconds, 0.02)),
                    rng=random.Random(0),
                ),
                turns=LONG,
            )
        finally:
            await provider.aclose()

    return asyncio.run(work())


def expected_texts() -> dict[str, str]:
    found = {}
    for name, messages in LONG.items():
        said: list[str] = []
        for message in messages:
            said += [message, talk_by_number("Be brief.", [*said, message])]
        replies = said[1::2]
        several = "\n\n".join(f"Turn {number}:\n{text}" for number, text in enumerate(replies, 1))
        found[name] = several if len(replies) > 1 else replies[0]
    return found


@pytest.mark.parametrize(
    ("kind", "batch"),
    [
        ("anthropic", True),
        ("openai", False),
        ("local", False),
        pytest.param("anthropic", False, marks=pytest.mark.soak),
        pytest.param("openai", True, marks=pytest.mark.soak),
    ],
)
def test_conversations_over_http_in_both_wire_formats(tmp_path: Path, kind: str, batch: bool) -> None:
    with FakeServer() as server:
        server.behaviour.talk = talk_by_number
        server.behaviour.outcome = first_time({"expired": 0.1, "missing": 0.1, "errored:api_error": 0.1})
        settings = AskingSettings(batch=batch, poll_initial_seconds=0.01, poll_max_seconds=0.02)
        generated = over_http(server, kind, tmp_path, settings)
        assert (generated.written, generated.failed) == (12, {})
        assert texts(tmp_path) == expected_texts()
        assert server.ledger.paid_twice() == {}
