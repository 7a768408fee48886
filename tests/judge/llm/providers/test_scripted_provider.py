from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.judge.llm.providers.asking import question, use
from tiltyard.errors import OptionError, Refused, TryLater
from tiltyard.judge.llm import BatchProvider, Reply, Request, Stop
from tiltyard.judge.llm.provider import BatchLimits, BatchState
from tiltyard.judge.llm.providers.scripted import ScriptedBatchProvider, ScriptedProvider, read_script

SCRIPT = """
batches: kept
polls: 1
rules:
  - {when: [A rubric, otter], say: "VERDICT: A"}
  - {when: heron, say: "I would rather not", stop: refusal}
  - {when: crane, error: expired}
  - {when: finch, error: "errored: invalid_request_error", final: true}
  - {say: ["VERDICT: A", "VERDICT: B", "VERDICT: TIE"]}
"""


def script_at(tmp_path: Path, text: str = SCRIPT) -> ScriptedProvider:
    path = tmp_path / "script.yaml"
    path.write_text(text)
    return read_script(path)


def answers(provider: ScriptedProvider, *users: str) -> list[Reply]:
    return [use(provider, lambda provider, user=user: provider.ask(question(user))) for user in users]


def test_a_function_answers_and_its_text_is_cut_at_the_budget() -> None:
    provider = ScriptedProvider(lambda request: f"{request.user} " * 50)
    (reply,) = answers(provider, "long")
    assert reply.stop is Stop.END
    cut = asyncio.run(provider.ask(question("long", max_tokens=5)))
    assert (cut.stop, cut.text, cut.usage.output_tokens) == (Stop.LENGTH, ("long " * 50)[:20], 5)
    assert sorted(provider.asked.values()) == [1, 1]


def test_a_function_may_give_a_whole_reply_or_fail() -> None:
    def answer(request: Request) -> Reply:
        if request.user == "later":
            raise TryLater("busy", 3)
        return Reply(text="no", stop=Stop.REFUSAL)

    provider = ScriptedProvider(answer)
    assert answers(provider, "now") == [Reply(text="no", stop=Stop.REFUSAL)]
    with pytest.raises(TryLater):
        answers(provider, "later")


def test_the_first_rule_that_fits_answers(tmp_path: Path) -> None:
    provider = script_at(tmp_path)
    otter, heron, crane, finch = answers(provider, "otter or heron", "heron", "crane", "finch")
    assert otter.text == "VERDICT: A"
    assert heron.stop is Stop.REFUSAL
    assert (crane.error, crane.final) == ("expired", False)
    assert (finch.error, finch.final) == ("errored: invalid_request_error", True)


def test_a_list_is_picked_from_by_content_the_same_every_time(tmp_path: Path) -> None:
    users = [f"number {n}" for n in range(60)]
    first = [reply.text for reply in answers(script_at(tmp_path), *users)]
    assert first == [reply.text for reply in answers(script_at(tmp_path), *users)]
    assert set(first) == {"VERDICT: A", "VERDICT: B", "VERDICT: TIE"}


def test_batches_in_a_folder_outlive_the_process(tmp_path: Path) -> None:
    sent = [(f"id-{n}", question(f"number {n}")) for n in range(3)]
    first = script_at(tmp_path)
    assert isinstance(first, BatchProvider)
    batch_id = asyncio.run(first.submit(sent, "run-1"))
    again = script_at(tmp_path)
    assert isinstance(again, ScriptedBatchProvider)

    async def work(provider: ScriptedBatchProvider) -> tuple[list[BatchState], dict[str, Reply]]:
        listed = [state async for state in provider.recent_batches()]
        states = [*listed, await provider.state(batch_id), await provider.state(batch_id)]
        return states, {custom_id: reply async for custom_id, reply in provider.results(batch_id)}

    states, replies = use(again, work)
    assert [(state.batch_id, state.ended, state.size, state.tag) for state in states] == [
        (batch_id, False, 3, "run-1"),
        (batch_id, False, 3, "run-1"),
        (batch_id, True, 3, "run-1"),
    ]
    assert set(replies) == {"id-0", "id-1", "id-2"}
    assert all(reply.batched for reply in replies.values())
    assert again.asked == {request.fingerprint: 1 for _, request in sent}
    assert asyncio.run(again.submit(sent, "run-2")) != batch_id


def test_batches_keep_their_limits_and_are_not_over_before_they_end() -> None:
    provider = ScriptedBatchProvider(lambda request: "ok", polls=1, limits=BatchLimits(1, 1000), clock=lambda: 5.0)
    with pytest.raises(Refused, match="1 to 1 requests"):
        asyncio.run(provider.submit([("a", question()), ("b", question())], "run"))
    with pytest.raises(Refused, match="no batch"):
        asyncio.run(provider.state("batch_9"))
    batch_id = asyncio.run(provider.submit([("a", question())], "run"))

    async def first() -> tuple[str, Reply]:
        return await anext(provider.results(batch_id))

    with pytest.raises(TryLater):
        asyncio.run(first())
    assert asyncio.run(provider.state(batch_id)) == BatchState(batch_id, False, 5.0, 1, "run")
    assert asyncio.run(first())[0] == "a"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2]", "needs `rules`"),
        ("rules: []\nspeed: 9", "nothing else"),
        ("rules: [{when: x}]", "rule 1 needs `say` or `error`"),
        ("rules: [{say: x}, {says: y}]", "rule 2 needs"),
        ("rules: [{say: []}]", "empty list"),
        ("rules: [{say: x, stop: never}]", "one of end, length, refusal"),
        ("rules: [", "cannot be read as a script"),
        ("rules: [{say: 2026-02-30}]", "cannot be read as a script (ValueError)"),
        ("rules: [{say: x}]\nbatches: true\npolls: many", "`polls` is 'many'. It is a whole number"),
        ("rules: [{say: x}]\npolls: -1", "`polls` is -1"),
        ("rules: [{when: 5, say: x}]", "rule 1: `when` is 5. It is a text or a list of texts"),
        ("rules: [{say: x}, {when: [5], say: x}]", "rule 2: `when` is [5]"),
    ],
)
def test_a_wrong_script_is_one_clear_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(OptionError, match=r"script\.yaml") as caught:
        script_at(tmp_path, text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_request_that_no_rule_fits_is_refused(tmp_path: Path) -> None:
    provider = script_at(tmp_path, "rules: [{when: otter, say: x}]")
    assert not isinstance(provider, BatchProvider)
    with pytest.raises(Refused, match="no rule fits"):
        answers(provider, "heron")
