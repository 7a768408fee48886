"""A run that ended in the middle, and the one after it: nothing is lost, nothing answered is paid again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.judge.llm.clock import run_virtually
from tests.judge.llm.providers_in_memory import BatchesInMemory, Kept, Unlucky, answer, asks, larger_budget, request
from tiltyard.errors import ModelError, Refused, TryLater
from tiltyard.judge.llm import (
    JOURNAL_FILE,
    Ask,
    AskingParts,
    AskingSettings,
    PriceTable,
    Reply,
    Stop,
    ask_all,
    forget_batch,
    list_batches,
)
from tiltyard.judge.llm.journal import Journal

PRICES = PriceTable.load()
DAY = 86_400.0


class Killed(BaseException):
    """The process ends here."""


class Story:
    """Several runs in one folder against one provider, each of which may be killed."""

    def __init__(self, folder: Path, now: Callable[[], float], **provider: object) -> None:
        self.folder = folder
        self.now = now
        self.provider = BatchesInMemory(now, **provider)  # type: ignore[arg-type]
        self.notices: list[str] = []
        self.settings = AskingSettings()

    async def run(self, what, sink):
        return await ask_all(
            what,
            self.provider,
            sink,
            AskingParts(
                prices=PRICES, settings=self.settings, now=self.now, notice=self.notices.append, rng=random.Random(0)
            ),
            folder=self.folder,
        )

    async def killed_run(self, what, sink, when=None):
        """A run that is killed: at the provider's next hook `when`, or (None) while it waits for the batch."""
        if when is not None:
            with pytest.raises(Killed):
                await self.run(what, sink)
            return
        task = asyncio.create_task(self.run(what, sink))
        await asyncio.sleep(200.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def kill_once(self, when: str) -> None:
        """Kill at the next submission, `before` or `after` it is accepted; later ones go through."""

        def on_submit(now: str) -> None:
            if now == when:
                self.provider.on_submit = lambda when: None
                raise Killed

        self.provider.on_submit = on_submit

    @property
    def sizes(self) -> list[int]:
        return [len(batch.requests) for batch in self.provider.batches.values()]

    @property
    def open(self) -> int:
        return len(Journal.in_folder(self.folder, self.now).open)


def tell(tmp_path: Path, tale, **provider):
    async def work(now):
        return await tale(Story(tmp_path, now, **provider))

    return run_virtually(work)


def test_a_batch_under_way_is_taken_up_again(tmp_path: Path) -> None:
    async def tale(story):
        await story.killed_run(asks(8), Kept())
        assert "1 batch under way without us" in story.notices[-1]
        assert story.open == 1
        kept = Kept()
        totals = await story.run(asks(8), kept)
        assert story.sizes == [8]
        assert (totals.all.sent, totals.all.found, totals.all.done) == (8, 8, 8)
        assert story.open == 0

    tell(tmp_path, tale)


@pytest.mark.parametrize("keeps_tags", [True, False])
def test_a_batch_whose_id_was_never_written_is_found_and_adopted(tmp_path: Path, keeps_tags: bool) -> None:
    async def tale(story):
        story.kill_once("after")
        await story.killed_run(asks(8), Kept(), "submit")
        story.provider.strangers = 2
        kept = Kept()
        await story.run(asks(8), kept)
        assert story.sizes == [8]
        assert len(kept.ended) == 8
        assert "had been accepted after all" in " ".join(story.notices)

    tell(tmp_path, tale, keeps_tags=keeps_tags)


@pytest.mark.parametrize("keeps_tags", [True, False])
def test_a_batch_that_never_arrived_is_sent_after_a_second_look(tmp_path: Path, keeps_tags: bool) -> None:
    async def tale(story):
        story.kill_once("before")
        await story.killed_run(asks(8), Kept(), "submit")
        began = story.now()
        await story.run(asks(8), Kept())
        assert story.sizes == [8]
        assert min(batch.state.created_at for batch in story.provider.batches.values()) >= began + 60

    tell(tmp_path, tale, keeps_tags=keeps_tags)


def test_other_peoples_batches_of_the_same_size_are_not_adopted(tmp_path: Path) -> None:
    """One foreign batch has ended, one runs for a day, one is ours: only that is taken, and nothing is sent again."""

    async def tale(story):
        foreign = [(f"theirs-{n}", request(f"their question {n}")) for n in range(8)]
        story.kill_once("after")
        await story.killed_run(asks(8), Kept(), "submit")
        story.provider.batches[story.provider.accept(foreign)].ends_at = 0.0
        story.provider.batches[story.provider.accept(foreign)].ends_at = story.now() + DAY
        kept = Kept()
        began = story.now()
        await story.run(asks(8), kept)
        assert all(reply.text.startswith("answer to question") for reply in kept.ended.values())
        assert story.sizes == [8, 8, 8]
        assert story.now() - began < DAY

    tell(tmp_path, tale)


def test_while_a_foreign_batch_might_be_ours_nothing_is_sent(tmp_path: Path) -> None:
    async def tale(story):
        story.kill_once("before")
        await story.killed_run(asks(8), Kept(), "submit")
        foreign = story.provider.accept([(f"theirs-{n}", request(f"their question {n}")) for n in range(8)])
        story.provider.batches[foreign].ends_at = story.now() + DAY
        kept = Kept()
        began = story.now()
        await story.run(asks(8), kept)
        ours = list(story.provider.batches.values())[-1]
        assert ours.state.created_at >= began + DAY
        assert story.sizes == [8, 8]
        assert len(kept.ended) == 8

    tell(tmp_path, tale)


def test_a_run_that_asks_for_less_leaves_the_rest_for_later(tmp_path: Path) -> None:
    async def tale(story):
        await story.killed_run(asks(8), Kept())
        first, second = Kept(), Kept()
        await story.run(asks(8)[:3], first)
        assert set(first.ended) == {"k0", "k1", "k2"}
        assert story.open == 1
        assert "1 open batch (8 requests)" in story.notices[-1]
        await story.run(asks(8)[3:], second)
        assert len(second.ended) == 5
        assert story.sizes == [8]

    tell(tmp_path, tale)


def test_a_run_about_something_else_leaves_open_batches_alone(tmp_path: Path) -> None:
    async def tale(story):
        await story.killed_run(asks(8), Kept())
        calls = story.provider.calls["state"]
        other = [Ask("other", request("another question"), "tone")]
        story.provider.minutes = 0.0
        await story.run(other, Kept())
        assert story.provider.calls["state"] == calls + 1
        assert story.open == 1

    tell(tmp_path, tale)


def test_the_same_key_with_another_request_is_another_question(tmp_path: Path) -> None:
    async def tale(story):
        await story.killed_run(asks(2), Kept())
        changed = [Ask(ask.key, request(ask.request.user + ", edited"), ask.group) for ask in asks(2)]
        kept = Kept()
        await story.run(changed, kept)
        assert {reply.text for reply in kept.ended.values()} == {
            "answer to question 0, edited",
            "answer to question 1, edited",
        }

    tell(tmp_path, tale)


def test_what_is_in_a_batch_is_not_asked_directly(tmp_path: Path) -> None:
    async def tale(story):
        await story.killed_run(asks(8), Kept())
        story.settings = AskingSettings(batch=False)
        kept = Kept()
        await story.run(asks(12), kept)
        assert len(kept.ended) == 12
        assert story.provider.asked.total() == 4
        assert story.sizes == [8]

    tell(tmp_path, tale)


def test_a_larger_budget_under_way_is_recognised_by_a_caller_who_forgot_it(tmp_path: Path) -> None:
    """The first attempt was truncated, the second is under way; a caller that begins at the first gets the second."""

    def short(asked):
        return answer(asked) if asked.max_tokens >= 20 else Reply(stop=Stop.LENGTH)

    async def tale(story):
        task = asyncio.create_task(story.run(asks(4), Kept(larger_budget)))
        while len(story.provider.batches) < 2:
            await asyncio.sleep(10.0)
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        kept = Kept(larger_budget)
        await story.run(asks(4), kept)
        assert [(ask.attempt, ask.request.max_tokens) for ask, _ in kept.heard] == [(2, 20)] * 4
        assert story.sizes == [4, 4]
        assert story.open == 0

    tell(tmp_path, tale, reply=short)


def test_a_crash_between_a_truncated_reply_and_its_second_attempt_repeats_nothing(tmp_path: Path) -> None:
    def short(asked):
        return answer(asked) if asked.max_tokens >= 20 else Reply(stop=Stop.LENGTH)

    async def tale(story):
        task = asyncio.create_task(story.run(asks(4), Kept(larger_budget)))
        await asyncio.sleep(1.0)
        story.kill_once("before")
        with pytest.raises(Killed):
            await task
        kept = Kept(larger_budget)
        await story.run(asks(4), kept)
        assert len(kept.ended) == 4
        assert set(story.provider.accepted.values()) == {1}

    tell(tmp_path, tale, reply=short)


@pytest.mark.parametrize("second", ["killed", "lost"])
def test_two_mishaps_between_a_truncated_reply_and_its_second_attempt_repeat_nothing(
    tmp_path: Path, second: str
) -> None:
    """The second attempt comes to nothing (killed, or lost on the way); a kill comes just before it is sent again."""

    def short(asked):
        return answer(asked) if asked.max_tokens >= 20 else Reply(stop=Stop.LENGTH)

    async def tale(story):
        mishaps = [None, Killed() if second == "killed" else TryLater("connection lost")]
        measured = []

        def on_submit(when):
            mishap = mishaps.pop(0) if mishaps and when == "before" else None
            if mishap is not None:
                raise mishap

        def encoded_size(asked):
            measured.append(asked)
            if len(measured) == 9:  # four first attempts, four second ones, and the first of those once more
                raise Killed
            return 1

        story.provider.on_submit = on_submit
        story.provider.encoded_size = encoded_size
        for _ in range(2 if second == "killed" else 1):
            with pytest.raises(Killed):
                await story.run(asks(4), Kept(larger_budget))
        assert len(measured) == 9
        kept = Kept(larger_budget)
        await story.run(asks(4), kept)
        assert len(kept.ended) == 4
        assert set(story.provider.accepted.values()) == {1}

    tell(tmp_path, tale, reply=short)


def test_a_journal_torn_anywhere_in_its_last_line_is_mended(tmp_path: Path) -> None:
    async def tale(story):
        await story.killed_run(asks(2), Kept())

    tell(tmp_path, tale)
    whole = (tmp_path / JOURNAL_FILE).read_bytes()
    last = whole[:-1].rfind(b"\n") + 1
    for end in (last, last + 1, (last + len(whole)) // 2, len(whole) - 1):
        (tmp_path / JOURNAL_FILE).write_bytes(whole[:end])
        journal = Journal.in_folder(tmp_path, lambda: 0.0)
        assert [intent.batch_id for intent in journal.open.values()] == [None]
        assert (tmp_path / JOURNAL_FILE).read_bytes() == whole[:last]
    (tmp_path / JOURNAL_FILE).write_bytes(whole[: last // 2])
    assert not Journal.in_folder(tmp_path, lambda: 0.0).open
    assert (tmp_path / JOURNAL_FILE).read_bytes() == b""


def test_a_journal_damaged_in_the_middle_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / JOURNAL_FILE).write_bytes(b'{"kind":"coll\n{"kind":"collected","intent":"x","at":1}\n')
    with pytest.raises(ModelError, match=r"batches.jsonl:1: the journal of batches is damaged"):
        Journal.in_folder(tmp_path, lambda: 0.0)


def test_the_journal_is_on_disk_before_the_provider_hears_of_the_batch(tmp_path: Path) -> None:
    seen = []

    async def tale(story):
        def on_submit(when):
            lines = (tmp_path / JOURNAL_FILE).read_bytes().splitlines()
            seen.append([msgspec.json.decode(line)["kind"] for line in lines])

        story.provider.on_submit = on_submit
        await story.run(asks(3), Kept())

    tell(tmp_path, tale)
    assert seen == [["intent"], ["intent"]]
    lines = [msgspec.json.decode(line) for line in (tmp_path / JOURNAL_FILE).read_bytes().splitlines()]
    assert [line["kind"] for line in lines] == ["intent", "submitted", "collected"]
    assert {entry["key"] for entry in lines[0]["entries"]} == {"k0", "k1", "k2"}
    assert lines[0]["entries"][0]["fingerprint"] == asks(1)[0].request.fingerprint


def test_results_that_no_provider_keeps_any_more_are_asked_anew(tmp_path: Path) -> None:
    async def tale(story):
        await story.killed_run(asks(4), Kept())
        await asyncio.sleep(30 * DAY)
        await story.run(asks(4), Kept())
        assert story.sizes == [4, 4]

    tell(tmp_path, tale)


def test_a_batch_the_provider_does_not_know_says_how_to_go_on(tmp_path: Path) -> None:
    def gone():
        raise Refused("There is no batch batch_0000.")

    async def tale(story):
        await story.killed_run(asks(4), Kept())
        story.provider.on_state = gone
        with pytest.raises(Refused, match="There is no batch batch_0000") as caught:
            await story.run(asks(4), Kept())
        assert story.sizes == [4]
        assert f"`tiltyard judge journal {tmp_path}` can forget it" in str(caught.value)
        (batch,) = list_batches(tmp_path)
        assert (batch.name, batch.state, batch.requests) == (next(iter(story.provider.batches)), "open", 4)
        assert forget_batch(tmp_path, batch.name, story.now) == 4
        assert [(one.state, one.why) for one in list_batches(tmp_path)] == [("abandoned", "forgotten")]
        story.provider.on_state = lambda: None
        await story.run(asks(4), Kept())
        assert story.sizes == [4, 4]

    tell(tmp_path, tale)


class Store:
    """A sink that outlives its process, and is killed after some number of replies."""

    def __init__(self) -> None:
        self.ended: dict[str, Reply] = {}
        self.kill_in: int | None = None

    def __call__(self, ask: Ask, reply: Reply) -> Ask | None:
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                self.kill_in = None
                raise Killed
        further = larger_budget(ask, reply)
        if further is None:
            self.ended[ask.key] = reply
        return further

    def missing(self, what: list[Ask]) -> list[Ask]:
        return [ask for ask in what if ask.key not in self.ended]


@given(seed=st.integers(0, 10**9), count=st.integers(1, 20), max_batch=st.integers(1, 8), tags=st.booleans())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_killed_and_started_over_and_over_nothing_is_lost_and_no_answer_paid_twice(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, max_batch: int, tags: bool
) -> None:
    luck, rng, store = Unlucky(seed), random.Random(seed), Store()

    def perhaps_die(chance):
        if luck.strikes(chance):
            raise Killed

    async def tale(story):
        story.settings = AskingSettings(max_batch=max_batch, max_tries=50)
        provider = story.provider
        provider.on_submit = lambda when: (perhaps_die(0.2), luck.lost(0.1))
        provider.on_state = lambda: (perhaps_die(0.1), luck.trouble(0.1))
        provider.on_results = lambda place: (perhaps_die(0.03), luck.lost(0.03))
        provider.outcome = lambda custom_id, asked, before: luck.entry(asked)
        while True:
            store.kill_in = rng.randrange(30) if luck.strikes(0.3) else None
            try:
                await story.run(store.missing(asks(count)), store)
                return provider
            except Killed:
                await asyncio.sleep(rng.random() * 100)

    provider = tell(tmp_path_factory.mktemp("asking"), tale, keeps_tags=tags)
    assert set(store.ended) == {f"k{number}" for number in range(count)}
    assert max(provider.answered.values(), default=0) <= 1
