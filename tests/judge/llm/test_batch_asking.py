"""Asking in batches: packing, polling, collecting, and what is asked again."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.judge.llm.clock import START, run_virtually
from tests.judge.llm.providers_in_memory import BatchesInMemory, Kept, Unlucky, answer, asks, larger_budget, request
from tiltyard.errors import Refused, TryLater
from tiltyard.judge.llm import Ask, AskingParts, AskingSettings, PriceTable, Reply, Stop, Usage, ask_all
from tiltyard.judge.llm.journal import Journal
from tiltyard.judge.llm.provider import BatchLimits

PRICES = PriceTable.load()


def ask(folder, sink, what, prepare=lambda provider: None, **options):
    """Ask in batches on a virtual clock; the provider, the totals, and how long it took."""
    settings = options.pop("settings", AskingSettings())
    limits = options.pop("limits", None)

    given = {name: options.pop(name) for name in ("watch", "trial", "recall") if name in options}

    async def work(now):
        provider = BatchesInMemory(now, limits=limits, **options.pop("provider", {}))
        prepare(provider)
        totals = await ask_all(
            what,
            provider,
            sink,
            AskingParts(prices=PRICES, settings=settings, now=now, rng=random.Random(1), **options),
            folder=folder,
            **given,
        )
        return provider, totals, now() - START

    return run_virtually(work)


def sizes(provider: BatchesInMemory) -> list[int]:
    return [len(batch.requests) for batch in provider.batches.values()]


def test_all_go_into_one_batch_and_cost_half(tmp_path: Path) -> None:
    kept = Kept()
    provider, totals, _ = ask(tmp_path, kept, asks(30))
    assert sizes(provider) == [30]
    assert not provider.asked
    assert len(kept.ended) == 30
    assert all(reply.batched for reply in kept.ended.values())
    assert totals.all.cost == pytest.approx(30 * (100 * 1 + 10 * 5) / 1e6 / 2)
    assert not Journal.in_folder(tmp_path, lambda: 0.0).open


def test_custom_ids_are_legal_unique_and_begin_with_the_intent(tmp_path: Path) -> None:
    provider, _, _ = ask(tmp_path, Kept(), asks(25), settings=AskingSettings(max_batch=10))
    ids = [custom_id for batch in provider.batches.values() for custom_id, _ in batch.requests]
    assert len(set(ids)) == 25
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", custom_id) for custom_id in ids)
    assert len({custom_id.rpartition("-")[0] for custom_id in ids}) == 3


def test_batches_are_split_at_the_requests_the_bytes_and_the_callers_limit(tmp_path: Path) -> None:
    one = BatchesInMemory(lambda: 0.0).encoded_size(request("question 10"))
    by_requests, _, _ = ask(tmp_path / "a", Kept(), asks(25), limits=BatchLimits(requests=10, bytes=10**9))
    by_bytes, _, _ = ask(tmp_path / "b", Kept(), asks(25), limits=BatchLimits(requests=1000, bytes=7 * one))
    by_caller, _, _ = ask(tmp_path / "c", Kept(), asks(25), settings=AskingSettings(max_batch=20))
    assert sizes(by_requests) == [10, 10, 5]
    assert sizes(by_bytes) == [7, 7, 7, 4]
    assert sizes(by_caller) == [20, 5]


def test_models_do_not_share_a_batch(tmp_path: Path) -> None:
    what = [Ask(f"k{n}", request(f"q{n}", model=("gpt-5", "gpt-4o")[n // 5]), "s") for n in range(10)]
    provider, _, _ = ask(tmp_path, Kept(), what)
    assert sizes(provider) == [5, 5]


def test_a_request_too_large_for_any_batch_fails_alone(tmp_path: Path) -> None:
    what = [*asks(3), Ask("big", request("x" * 5000), "s")]
    kept = Kept()
    _, totals, _ = ask(tmp_path, kept, what, limits=BatchLimits(requests=10, bytes=2000))
    assert kept.ended["big"].error == "too large for a batch"
    assert (totals.all.done, totals.all.failed) == (3, 1)


def test_few_asks_go_directly_below_the_floor(tmp_path: Path) -> None:
    below, _, _ = ask(tmp_path / "a", Kept(), asks(99), settings=AskingSettings(batch_floor=100))
    at, _, _ = ask(tmp_path / "b", Kept(), asks(100), settings=AskingSettings(batch_floor=100))
    never, _, _ = ask(tmp_path / "c", Kept(), asks(100), settings=AskingSettings(batch=False))
    assert (sizes(below), below.asked.total()) == ([], 99)
    assert (sizes(at), at.asked.total()) == ([100], 0)
    assert (sizes(never), never.asked.total()) == ([], 100)


def test_the_pause_between_polls_grows_from_first_to_longest(tmp_path: Path) -> None:
    provider, _, _ = ask(tmp_path, Kept(), asks(3), provider={"minutes": 30.0})
    pauses = [later - earlier for earlier, later in zip(provider.polled_at, provider.polled_at[1:], strict=False)]
    assert pauses[:4] == pytest.approx([30, 45, 67.5, 101.25])
    assert max(pauses) == pytest.approx(300)


def test_several_batches_are_polled_together(tmp_path: Path) -> None:
    _, _, seconds = ask(tmp_path, Kept(), asks(50), settings=AskingSettings(max_batch=5), provider={"minutes": 10.0})
    assert seconds < 20 * 60  # ten batches one after the other would take a hundred minutes


def test_expired_canceled_errored_and_missing_entries_are_sent_once_more(tmp_path: Path) -> None:
    bad = [Reply(error="expired"), Reply(error="canceled"), Reply(error="errored: api_error"), None]

    def prepare(provider):
        provider.outcome = lambda custom_id, asked, before: (
            bad[int(asked.user.split()[1])] if before == 0 and int(asked.user.split()[1]) < 4 else answer(asked)
        )

    kept = Kept()
    provider, totals, _ = ask(tmp_path, kept, asks(10), prepare)
    assert sizes(provider) == [10, 4]
    assert (totals.all.done, totals.all.failed) == (10, 0)
    assert max(provider.answered.values()) == 1


def test_an_entry_that_never_succeeds_ends_as_a_failure(tmp_path: Path) -> None:
    def prepare(provider):
        provider.outcome = lambda custom_id, asked, before: (
            Reply(error="expired") if asked.user == "question 0" else answer(asked)
        )

    kept = Kept()
    provider, totals, _ = ask(tmp_path, kept, asks(5), prepare, settings=AskingSettings(max_resubmits=2))
    assert sizes(provider) == [5, 1, 1]
    assert kept.ended["k0"].error == "expired"
    assert (totals.all.done, totals.all.failed) == (4, 1)


def test_an_entry_that_is_refused_for_good_is_not_sent_again(tmp_path: Path) -> None:
    def prepare(provider):
        provider.outcome = lambda custom_id, asked, before: Reply(error="errored: invalid_request_error", final=True)

    kept = Kept()
    provider, _, _ = ask(tmp_path, kept, asks(5), prepare)
    assert sizes(provider) == [5]
    assert kept.failed == set(kept.ended)


def test_strangers_and_repeated_results_are_ignored_and_counted(tmp_path: Path) -> None:
    class Repeating(BatchesInMemory):
        async def results(self, batch_id):
            async for item in super().results(batch_id):
                yield item
                yield item

    notices: list[str] = []
    kept = Kept()

    async def work(now):
        provider = Repeating(now)
        provider.strangers = 2
        return await ask_all(
            asks(5), provider, kept, AskingParts(prices=PRICES, now=now, notice=notices.append), folder=tmp_path
        )

    totals = run_virtually(work)
    assert totals.all.done == 5
    assert notices == [
        "batch batch_0000 answered 5 requests more than once: the first reply counts.",
        "batch batch_0000 held 4 replies to requests that are not ours: ignored.",
    ]


def test_truncated_replies_go_into_a_further_batch_with_more_tokens(tmp_path: Path) -> None:
    def prepare(provider):
        provider.reply = lambda asked: (
            answer(asked)
            if asked.max_tokens >= 20 or asked.user != "question 1"
            else Reply(stop=Stop.LENGTH, usage=Usage(output_tokens=10))
        )

    kept = Kept(larger_budget)
    provider, totals, _ = ask(tmp_path, kept, asks(5), prepare)
    assert sizes(provider) == [5, 1]
    assert totals.all.done == 5
    assert totals.all.usage.output_tokens == 5 * 10 + 10
    assert kept.heard[-1][0].attempt == 2


def test_results_that_break_off_are_read_again_from_the_start(tmp_path: Path) -> None:
    cuts = iter([3, 7])

    def prepare(provider):
        cut = [next(cuts)]

        def on_results(place):
            if place == cut[0]:
                cut[0] = next(cuts, -1)
                raise TryLater("connection lost")

        provider.on_results = on_results

    kept = Kept()
    provider, totals, _ = ask(tmp_path, kept, asks(10), prepare)
    assert provider.calls["results"] == 3
    assert totals.all.done == len(kept.heard) == 10


def test_a_full_queue_is_waited_for(tmp_path: Path) -> None:
    def prepare(provider):
        def on_submit(when):
            if when == "before" and any(not provider._state(batch).ended for batch in provider.batches.values()):
                raise TryLater("too many batches in progress", 10.0)

        provider.on_submit = on_submit

    kept = Kept()
    provider, totals, _ = ask(tmp_path, kept, asks(6), prepare, settings=AskingSettings(max_batch=2, max_tries=3))
    assert sizes(provider) == [2, 2, 2]
    assert totals.all.done == 6


def test_a_queue_that_never_opens_ends_the_run_with_its_word(tmp_path: Path) -> None:
    def prepare(provider):
        def on_submit(when):
            raise TryLater("too many batches in progress", 10.0)

        provider.on_submit = on_submit

    with pytest.raises(TryLater, match="too many batches"):
        ask(tmp_path, Kept(), asks(6), prepare)
    assert not Journal.in_folder(tmp_path, lambda: 0.0).open


def test_a_batch_that_was_accepted_though_the_connection_was_lost_is_found(tmp_path: Path) -> None:
    for keeps_tags in (True, False):
        lost = [True]

        def prepare(provider, lost=lost):
            def on_submit(when):
                if when == "after" and lost.pop():
                    raise TryLater("connection lost")
                lost.append(False)

            provider.on_submit = on_submit

        kept = Kept()
        provider, totals, _ = ask(tmp_path, kept, asks(6), prepare, provider={"keeps_tags": keeps_tags})
        assert sizes(provider) == [6]
        assert totals.all.done == 6


def test_a_batch_that_was_lost_on_the_way_is_sent_again(tmp_path: Path) -> None:
    lost = [True]

    def prepare(provider):
        def on_submit(when):
            if when == "before" and lost:
                lost.pop()
                raise TryLater("connection lost")

        provider.on_submit = on_submit

    provider, totals, seconds = ask(tmp_path, Kept(), asks(6), prepare)
    assert sizes(provider) == [6]
    assert totals.all.done == 6
    assert seconds > 60  # it was looked for as long as it might still have appeared


def test_a_network_that_stays_away_ends_the_run(tmp_path: Path) -> None:
    def prepare(provider):
        def on_submit(when):
            raise TryLater("no route to host")

        provider.on_submit = on_submit

    with pytest.raises(TryLater, match="no route"):
        ask(tmp_path, Kept(), asks(6), prepare)


def test_a_batch_that_reached_nobody_is_sent_again_at_once_and_looked_for_nowhere(tmp_path: Path) -> None:
    away = [True, True]

    def prepare(provider):
        def on_submit(when):
            if when == "before" and away:
                away.pop()
                raise TryLater("connection refused", unreachable=True)

        provider.on_submit = on_submit

    direct, _, undisturbed = ask(tmp_path / "undisturbed", Kept(), asks(6))
    provider, totals, seconds = ask(tmp_path / "away", Kept(), asks(6), prepare)
    assert sizes(provider) == sizes(direct) == [6]
    assert totals.all.done == 6
    assert seconds < undisturbed + 10


def test_an_outage_while_batches_run_is_borne_for_an_hour(tmp_path: Path) -> None:
    def away(minutes):
        def prepare(provider):
            def on_state():
                if provider.now() < START + 60 * minutes:
                    raise TryLater("no route to host")

            provider.on_state = on_state

        return prepare

    _, totals, _ = ask(tmp_path / "short", Kept(), asks(6), away(50))
    assert totals.all.done == 6
    with pytest.raises(TryLater, match="no route"):
        ask(tmp_path / "long", Kept(), asks(6), away(90))


def test_a_refused_batch_stops_the_run_and_leaves_nothing_open(tmp_path: Path) -> None:
    def prepare(provider):
        def on_submit(when):
            raise Refused("the key was not accepted")

        provider.on_submit = on_submit

    with pytest.raises(Refused, match="the key"):
        ask(tmp_path, Kept(), asks(6), prepare)
    assert not Journal.in_folder(tmp_path, lambda: 0.0).open


def test_no_more_requests_are_open_than_allowed(tmp_path: Path) -> None:
    """20,000 asks from a generator, 1,000 of them open at most: no more than that, and one parcel, are alive."""
    taken = ended = most_alive = 0

    def many():
        nonlocal taken, most_alive
        for number in range(20_000):
            taken += 1
            most_alive = max(most_alive, taken - ended)
            yield Ask(f"k{number}", request(f"q{number}"), "s")

    def sink(asked, reply):
        nonlocal ended
        ended += 1

    _, totals, _ = ask(tmp_path, sink, many(), settings=AskingSettings(max_batch=500, max_open=1000))
    assert ended == totals.all.done == 20_000
    assert most_alive <= 1501


@given(seed=st.integers(0, 10**9), count=st.integers(1, 30), max_batch=st.integers(1, 12), tags=st.booleans())
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_whatever_goes_wrong_every_key_ends_once_and_no_answer_is_paid_twice(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, max_batch: int, tags: bool
) -> None:
    luck = Unlucky(seed)

    def prepare(provider):
        provider.on_submit = lambda when: (luck.rejection(0.2), luck.lost(0.2)) if when == "before" else luck.lost(0.2)
        provider.on_state = lambda: luck.trouble(0.1)
        provider.on_results = lambda place: luck.lost(0.03)
        provider.outcome = lambda custom_id, asked, before: luck.entry(asked)

    kept = Kept(larger_budget)
    provider, totals, _ = ask(
        tmp_path_factory.mktemp("asking"),
        kept,
        asks(count),
        prepare,
        settings=AskingSettings(max_batch=max_batch, max_tries=50),
        provider={"keeps_tags": tags},
    )
    assert set(kept.ended) == {f"k{number}" for number in range(count)}
    assert totals.all.done + totals.all.failed == count
    assert totals.all.failed == len(kept.failed)
    assert max(provider.answered.values(), default=0) <= 1


@given(seed=st.integers(0, 10**9), count=st.integers(1, 60), concurrency=st.integers(1, 9))
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_whatever_goes_wrong_directly_every_key_ends_once(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, concurrency: int
) -> None:
    luck = Unlucky(seed)

    def reply(asked):
        luck.trouble(0.2)
        return luck.entry(asked) or Reply(error="missing")

    kept = Kept(larger_budget)
    provider, totals, _ = ask(
        tmp_path_factory.mktemp("asking"),
        kept,
        asks(count),
        settings=AskingSettings(batch=False, concurrency=concurrency, max_tries=50),
        provider={"reply": reply},
    )
    assert set(kept.ended) == {f"k{number}" for number in range(count)}
    assert totals.all.done + totals.all.failed == count
    assert not provider.batches
