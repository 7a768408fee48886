"""Asking one by one: width, patience, errors, interrupts."""

from __future__ import annotations

import asyncio
import itertools
import random
import traceback
from pathlib import Path

import pytest

from tests.judge.llm.clock import START, run_virtually
from tests.judge.llm.providers_in_memory import DirectProvider, Kept, answer, asks, larger_budget, request
from tiltyard.errors import ModelError, OptionError, QuestionRefused, Refused, TryLater
from tiltyard.judge.llm import (
    Ask,
    AskingParts,
    AskingSettings,
    PriceTable,
    Reply,
    Request,
    Stop,
    Totals,
    Trial,
    ask_all,
)
from tiltyard.judge.llm.asking import ConcurrencyLimit, backoff_seconds
from tiltyard.judge.llm.keys import keep_secret

PRICES = PriceTable.load()


def ask(folder, provider, sink, what, **options):
    settings = options.pop("settings", AskingSettings(concurrency=8))

    given = {name: options.pop(name) for name in ("watch", "trial", "recall") if name in options}

    async def work(now):
        totals = await ask_all(
            what,
            provider,
            sink,
            AskingParts(prices=PRICES, settings=settings, now=now, rng=random.Random(1), **options),
            folder=folder,
            **given,
        )
        return totals, now() - START

    return run_virtually(work)


def test_every_reply_reaches_the_sink_and_the_totals(tmp_path: Path) -> None:
    kept, steps = Kept(), []
    what = asks(20, "factuality") + [a for a in asks(25, "tone") if a.key not in {f"k{n}" for n in range(20)}]
    totals, _ = ask(tmp_path, DirectProvider(), kept, what, watch=steps.append)
    assert set(kept.ended) == {f"k{number}" for number in range(25)}
    assert (totals.groups["factuality"].sent, totals.groups["factuality"].done) == (20, 20)
    assert totals.groups["tone"].done == 5
    assert totals.all.usage.input_tokens == 25 * 100
    assert totals.all.cost == pytest.approx(25 * (100 * 1 + 10 * 5) / 1e6)
    assert sum(step.done for step in steps) == 25
    assert sum(step.cost for step in steps) == pytest.approx(totals.all.cost)


def test_the_width_starts_at_four_and_doubles_every_round_trip(tmp_path: Path) -> None:
    provider = DirectProvider(seconds=1.0)
    _, seconds = ask(tmp_path, provider, Kept(), asks(28), settings=AskingSettings(concurrency=64))
    assert seconds == pytest.approx(3.0)  # 4 + 8 + 16 = 28
    assert provider.most_out == 16


def test_no_more_are_out_than_allowed(tmp_path: Path) -> None:
    provider = DirectProvider()
    ask(tmp_path, provider, Kept(), asks(200), settings=AskingSettings(concurrency=5))
    assert provider.most_out == 5


def test_trouble_halves_the_width_once_for_all_that_were_out() -> None:
    width = ConcurrencyLimit(16)
    for _ in range(12):
        width.replied()
    assert width.now == 16
    width.back_off(sent_at=10.0, now=11.0)
    width.back_off(sent_at=10.0, now=11.0)
    assert width.now == 8
    width.back_off(sent_at=11.5, now=12.0)
    assert width.now == 4
    for _ in range(10):
        width.back_off(sent_at=20.0, now=20.0)
    assert width.now == 1


def test_after_trouble_the_width_grows_by_one_a_round_trip() -> None:
    width = ConcurrencyLimit(16)
    width.back_off(sent_at=0.0, now=1.0)
    assert width.now == 2
    for _ in range(3):
        width.replied()
    assert width.now == 3
    for _ in range(100_000):
        width.replied()
    assert width.now == 16


@pytest.mark.parametrize(("damaged", "fastest", "slowest"), [(False, 200, 1200), (True, 0, 120)])
def test_answers_that_come_damaged_do_not_slow_the_others_down(
    tmp_path: Path, damaged: bool, fastest: float, slowest: float
) -> None:
    """Of 480 answers of half a second, three in ten are cut off: with sixteen at once that is a minute's work."""
    chance = random.Random(7)

    class Damaged(DirectProvider):
        async def ask(self, asked):
            reply = await super().ask(asked)
            if chance.random() < 0.3:
                raise TryLater("incomplete", damaged=damaged)
            return reply

    kept = Kept()
    settings = AskingSettings(concurrency=16)
    totals, seconds = ask(tmp_path, Damaged(seconds=0.5), kept, asks(480), settings=settings)
    assert len(kept.ended) == 480
    assert fastest < seconds < slowest
    assert (totals.all.without_usage > 480 * 0.3) is damaged  # what came damaged was paid for


def test_a_rate_limited_provider_is_asked_at_its_pace(tmp_path: Path) -> None:
    """The provider bears four at a time and says 429 to the fifth: all is answered, and few requests are refused."""
    refused = 0

    class Narrow(DirectProvider):
        async def ask(self, asked):
            nonlocal refused
            if self.out >= 4:
                refused += 1
                raise TryLater("429", 2.0)
            return await super().ask(asked)

    kept = Kept()
    _, seconds = ask(tmp_path, Narrow(), kept, asks(400), settings=AskingSettings(concurrency=32))
    assert len(kept.ended) == 400
    assert not kept.failed
    assert refused < 80
    assert seconds < 400  # four at a time take 100 s, one at a time 400 s


def test_the_providers_word_about_when_to_return_counts_for_everyone(tmp_path: Path) -> None:
    asked_at = []

    class Once(DirectProvider):
        async def ask(self, asked):
            asked_at.append(asyncio.get_running_loop().time() - START)
            if len(asked_at) == 1:
                raise TryLater("429", 30.0)
            return await super().ask(asked)

    ask(tmp_path, Once(seconds=1.0), Kept(), asks(20), settings=AskingSettings(concurrency=4))
    assert not [moment for moment in asked_at if 0 < moment < 30]
    assert len(asked_at) == 21


@pytest.mark.parametrize(("tries", "longest"), [(1, 1.0), (2, 2.0), (5, 16.0), (12, 60.0)])
def test_the_pause_doubles_up_to_a_minute_and_chance_takes_at_most_half(tries: int, longest: float) -> None:
    pauses = [backoff_seconds(tries, None, random.Random(seed)) for seed in range(200)]
    assert longest / 2 <= min(pauses) < max(pauses) <= longest
    assert 7.0 <= backoff_seconds(tries, 7.0, random.Random(0)) <= 7.7


def test_an_ask_that_never_gets_through_fails_under_its_name(tmp_path: Path) -> None:
    calls = 0

    class Deaf(DirectProvider):
        async def ask(self, asked):
            nonlocal calls
            calls += 1
            raise TryLater("no route to host")

    kept = Kept()
    totals, _ = ask(tmp_path, Deaf(), kept, asks(1), settings=AskingSettings(max_tries=4))
    assert calls == 4
    assert kept.ended["k0"].error == "no answer in 4 tries"
    assert kept.ended["k0"].text == "no route to host"
    assert (totals.all.done, totals.all.failed) == (0, 1)


def test_a_server_that_is_not_there_ends_the_run_soon_and_says_so(tmp_path: Path) -> None:
    class Nobody(DirectProvider):
        async def ask(self, asked):
            raise TryLater("No answer from http://localhost:9: connection refused.", unreachable=True)

    said: list[str] = []
    with pytest.raises(Refused, match=r"connection refused\. Nobody was there in 6 tries: check the address"):
        ask(tmp_path, Nobody(), Kept(), asks(500), notice=said.append, settings=AskingSettings(concurrency=8))
    assert said == ["No answer from http://localhost:9: connection refused. Trying again for a while."]


def test_a_server_that_goes_away_after_an_answer_costs_only_the_questions_meanwhile(tmp_path: Path) -> None:
    class Leaving(DirectProvider):
        async def ask(self, asked):
            if asked.user == "question 0":
                return await super().ask(asked)
            await asyncio.sleep(10.0)
            raise TryLater("connection refused", unreachable=True)

    kept = Kept()
    totals, _ = ask(tmp_path, Leaving(), kept, asks(3))
    assert (totals.all.done, totals.all.failed) == (1, 2)
    assert kept.ended["k1"].error == "no answer in 6 tries"


def test_a_rate_limit_without_end_stops_the_run_after_a_quarter_of_an_hour(tmp_path: Path) -> None:
    """The quota is enough for 30 of 2,000 questions; the minute that is asked for each time is waited in vain."""
    asked = 0

    class Limited(DirectProvider):
        async def ask(self, request):
            nonlocal asked
            asked += 1
            if asked > 30:
                raise TryLater("429: slow down.", 60.0)
            return await super().ask(request)

    kept, seconds = Kept(), []

    async def work(now):
        with pytest.raises(TryLater, match=r"slow down.*15 minutes.*run the same again later.*requests_per_minute"):
            await ask_all(asks(2000), Limited(), kept, AskingParts(prices=PRICES, now=now), folder=tmp_path)
        seconds.append(now() - START)

    run_virtually(work)
    assert len(kept.ended) - len(kept.failed) == 30
    assert seconds[0] < 1000
    assert asked < 30 + 16 * 17


def test_a_wait_longer_than_that_is_not_begun(tmp_path: Path) -> None:
    class Later(DirectProvider):
        async def ask(self, asked):
            raise TryLater("429: come back in an hour.", 3600.0)

    async def work(now):
        with pytest.raises(TryLater, match="in an hour"):
            await ask_all(asks(5), Later(), Kept(), AskingParts(prices=PRICES, now=now), folder=tmp_path)
        assert now() - START < 1

    run_virtually(work)


def test_an_outage_shorter_than_that_is_borne_with_again_and_again(tmp_path: Path) -> None:
    """Ten minutes of 429 before every hundredth answer."""
    answered = 0

    class Moody(DirectProvider):
        async def ask(self, asked):
            nonlocal answered
            answered += 1
            if answered % 100 == 0:
                raise TryLater("429", 600.0)
            return await super().ask(asked)

    kept = Kept()
    _, seconds = ask(tmp_path, Moody(), kept, asks(500))
    assert not kept.failed
    assert seconds > 3000


def test_a_question_that_runs_out_of_time_is_asked_once(tmp_path: Path) -> None:
    """Its answer may have been paid for, and would take as long the next time."""

    class Dripping(DirectProvider):
        async def ask(self, asked):
            await super().ask(asked)
            if asked.user == "question 1":
                await asyncio.sleep(600)
                raise TryLater("no whole answer within 600 s", timed_out=True)
            return answer(asked)

    kept, provider = Kept(), Dripping()
    _, seconds = ask(tmp_path, provider, kept, asks(3))
    assert set(provider.asked.values()) == {1}
    assert kept.failed == {"k1"}
    assert kept.ended["k1"].error == "no answer in 1 try"
    assert kept.ended["k1"].usage is None
    assert seconds < 700


def test_what_a_provider_of_somebody_elses_raises_is_one_line_without_keys(tmp_path: Path) -> None:
    keep_secret("sk-planted-in-a-plug-in")

    class Careless(DirectProvider):
        async def ask(self, asked):
            try:
                raise OSError("Authorization: sk-planted-in-a-plug-in")
            except OSError as error:
                raise KeyError("sk-planted-in-a-plug-in") from error

    with pytest.raises(ModelError, match=r"KeyError: '\[hidden\]'.*report it") as caught:
        ask(tmp_path, Careless(), Kept(), asks(3))
    assert "sk-planted" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_an_error_that_may_pass_is_tried_again_and_a_final_one_is_not(tmp_path: Path) -> None:
    errors = {"question 0": Reply(error="errored: overloaded"), "question 1": Reply(error="too long", final=True)}
    provider = DirectProvider(lambda asked: errors.get(asked.user) or answer(asked))
    kept = Kept()
    ask(tmp_path, provider, kept, asks(3), settings=AskingSettings(max_resubmits=2))
    assert kept.failed == {"k0", "k1"}
    assert sorted(provider.asked.values()) == [1, 1, 3]


def test_a_truncated_reply_is_asked_again_with_more_tokens(tmp_path: Path) -> None:
    provider = DirectProvider(lambda asked: answer(asked) if asked.max_tokens >= 40 else Reply(stop=Stop.LENGTH))
    kept = Kept(larger_budget)
    totals, _ = ask(tmp_path, provider, kept, asks(3))
    assert [reply.stop for reply in kept.ended.values()] == [Stop.END] * 3
    assert [asked.attempt for asked, _ in kept.heard].count(3) == 3
    assert (totals.all.sent, totals.all.done, totals.all.failed) == (9, 3, 0)


def test_a_refusal_stops_what_is_new_and_keeps_what_was_out(tmp_path: Path) -> None:
    """Question 2 is refused after half a second; 0, 1 and 3 were sent with it, take a second, and are kept."""

    class Strict(DirectProvider):
        async def ask(self, asked):
            if asked.user == "question 2":
                await asyncio.sleep(0.5)
                raise Refused("no such model. Check its name.")
            return await super().ask(asked)

    kept, tally, provider = Kept(), Totals(), Strict()
    with pytest.raises(Refused, match="no such model"):
        ask(tmp_path, provider, kept, iter(asks(1000)), tally=tally)
    assert set(kept.ended) == {"k0", "k1", "k3"}
    assert tally.all.done == 3


def test_a_question_that_is_refused_fails_alone(tmp_path: Path) -> None:
    class Strict(DirectProvider):
        async def ask(self, asked):
            if asked.user == "question 2":
                raise QuestionRefused("400: too long. Shorten it.", "invalid_request_error", "too long")
            return await super().ask(asked)

    kept = Kept()
    totals, _ = ask(tmp_path, Strict(), kept, asks(50))
    assert kept.failed == {"k2"}
    reply = kept.ended["k2"]
    assert (reply.error, reply.text, reply.final) == ("errored: invalid_request_error", "too long", True)
    assert (totals.all.done, totals.all.failed, totals.all.sent) == (49, 1, 50)


@pytest.mark.parametrize("concurrency", [1, 7, 64])
def test_a_trial_holds_the_others_back_until_one_goes_well(tmp_path: Path, concurrency: int) -> None:
    """Where all fail exactly five are asked, however many may be out; where the fifth is answered, all are."""

    def sink(asked, reply):
        if reply.error is None:
            trial.succeeded()
        else:
            trial.failed("error", reply.error, "no")
        return

    for good, count in ((set(), 5), ({"question 4"}, 200)):
        provider = DirectProvider(
            lambda asked, good=good: answer(asked) if asked.user in good else Reply(error="errored: x", final=True)
        )
        trial = Trial(lambda failures: ModelError(f"{failures.count} of {failures.total}: {failures.why}"), enough=5)
        settings = AskingSettings(concurrency=concurrency)
        if good:
            ask(tmp_path, provider, sink, asks(200), settings=settings, trial=trial)
        else:
            with pytest.raises(ModelError, match="5 of 5: errored: x"):
                ask(tmp_path, provider, sink, asks(200), settings=settings, trial=trial)
        assert len(provider.asked) == count


def test_a_refusal_does_not_wait_for_those_who_pause(tmp_path: Path) -> None:
    class Mixed(DirectProvider):
        async def ask(self, asked):
            if asked.user == "question 0":
                await asyncio.sleep(0.5)
                raise TryLater("come back in ten minutes", 600.0)
            await asyncio.sleep(1.0)
            raise Refused("wrong key")

    seconds = []

    async def work(now):
        with pytest.raises(Refused):
            await ask_all(asks(3), Mixed(), Kept(), AskingParts(prices=PRICES, now=now), folder=tmp_path)
        seconds.append(now() - START)

    run_virtually(work)
    assert seconds[0] == pytest.approx(1.0)


def test_a_sink_that_cannot_write_stops_the_run(tmp_path: Path) -> None:
    def sink(asked, reply):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        ask(tmp_path, DirectProvider(), sink, asks(50))


def test_an_interrupt_waits_for_replies_on_their_way_and_keeps_them(tmp_path: Path) -> None:
    kept, provider, notices = Kept(), DirectProvider(seconds=3.0), []

    async def work(now):
        task = asyncio.create_task(
            ask_all(
                iter(asks(1000)),
                provider,
                kept,
                AskingParts(prices=PRICES, notice=notices.append, now=now),
                folder=tmp_path,
            )
        )
        await asyncio.sleep(4.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtually(work)
    assert len(kept.ended) == 4 + 8 == sum(provider.asked.values())
    assert "8 replies on the way" in notices[0]


def test_an_interrupt_does_not_wait_for_ever(tmp_path: Path) -> None:
    kept, provider = Kept(), DirectProvider(seconds=3600.0)
    settings = AskingSettings(interrupt_grace_seconds=10.0)

    async def work(now):
        task = asyncio.create_task(
            ask_all(
                iter(asks(9)), provider, kept, AskingParts(prices=PRICES, settings=settings, now=now), folder=tmp_path
            )
        )
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return now() - START

    assert run_virtually(work) == pytest.approx(11.0)
    assert not kept.ended


def test_asks_are_taken_one_by_one(tmp_path: Path) -> None:
    """Of 20,000 asks from a generator no more are alive than there are workers."""
    taken = most_alive = ended = 0

    def many():
        nonlocal taken, most_alive
        for number in range(20_000):
            taken += 1
            most_alive = max(most_alive, taken - ended)
            yield Ask(f"k{number}", request("q"), "s")

    def sink(asked, reply):
        nonlocal ended
        ended += 1

    class Instant(DirectProvider):
        async def ask(self, asked):
            return Reply(text="yes")

    totals, _ = ask(tmp_path, Instant(), sink, many(), settings=AskingSettings(concurrency=16))
    assert ended == totals.all.done == 20_000
    assert most_alive <= 17


def test_batches_asked_for_where_there_are_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="memory takes no batches"):
        ask(tmp_path, DirectProvider(), Kept(), asks(1), settings=AskingSettings(batch=True))


@pytest.mark.parametrize(
    "wrong", [{"concurrency": 0}, {"max_batch": 0}, {"poll_max_seconds": 1.0}, {"budget_usd": -1.0}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="must be at least"):
        AskingSettings(**wrong)


def test_no_minute_has_more_requests_than_allowed(tmp_path: Path) -> None:
    """Thirty a minute is one every two seconds, however many calls share the pace."""
    sent: list[float] = []

    class Timed(DirectProvider):
        async def ask(self, asked: Request) -> Reply:
            sent.append(asyncio.get_running_loop().time())
            return await super().ask(asked)

    settings = AskingSettings(concurrency=16, requests_per_minute=30)

    async def work(now):
        pace = settings.pace(now)
        for number in range(2):
            folder = tmp_path / str(number)
            await ask_all(
                asks(40),
                Timed(),
                Kept(),
                AskingParts(prices=PRICES, settings=settings, now=now),
                folder=folder,
                pace=pace,
            )

    run_virtually(work)
    assert len(sent) == 80
    assert max(sum(start <= moment < start + 60 for moment in sent) for start in sent) == 30
    assert sent[-1] - sent[0] == pytest.approx(79 * 2.0)


def test_tokens_per_minute_follow_what_the_provider_counts(tmp_path: Path) -> None:
    """Each request counts 110 tokens, whatever was estimated: 1100 a minute are ten requests."""
    settings = AskingSettings(concurrency=4, tokens_per_minute=1100)
    kept = Kept()
    _, seconds = ask(tmp_path, DirectProvider(seconds=0.1), kept, asks(60), settings=settings)
    assert len(kept.ended) == 60
    assert seconds == pytest.approx(6 * 60, rel=0.15)


def test_tries_after_a_failure_keep_to_the_pace_too(tmp_path: Path) -> None:
    calls = itertools.count()

    class Flaky(DirectProvider):
        async def ask(self, asked: Request) -> Reply:
            if next(calls) % 2 == 0:
                raise TryLater("later", 0.0)
            return await super().ask(asked)

    _, seconds = ask(tmp_path, Flaky(), Kept(), asks(10), settings=AskingSettings(requests_per_minute=6))
    assert seconds >= (next(calls) - 1) * 10


@pytest.mark.parametrize("name", ["timeout_seconds", "requests_per_minute", "tokens_per_minute"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_a_limit_is_a_number_above_zero(name: str, value: float) -> None:
    with pytest.raises(OptionError, match=rf"{name} is .*; it must be a number above 0\."):
        AskingSettings(**{name: value})
