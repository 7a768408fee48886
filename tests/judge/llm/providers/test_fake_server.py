"""The server that the other tests trust: it counts what it accepts, and survives its clients and itself."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from tests.fakes import FakeServer, FakeServerProcess, Fault
from tests.fakes.behaviour import first_time
from tests.judge.llm.providers.asking import KEY, ask, batch_replies, ended_batch, failed, make, question, use
from tiltyard.judge.llm.providers.anthropic import AnthropicProvider


def test_it_counts_what_it_accepted_by_content(fake_server: FakeServer) -> None:
    ask("anthropic", fake_server, question("one"))
    ask("anthropic", fake_server, question("one"))
    ask("anthropic", fake_server, question("two"))
    assert sorted(fake_server.ledger.counts().values()) == [1, 2]
    assert list(fake_server.ledger.paid_twice().values()) == [2]


def test_what_was_never_answered_is_not_paid_twice(fake_server: FakeServer) -> None:
    fake_server.behaviour.faults = [Fault(kind="lose"), Fault(kind="drop"), Fault(status=500)]
    for _ in range(3):
        failed("anthropic", fake_server)
    ask("anthropic", fake_server, question())
    assert list(fake_server.ledger.counts().values()) == [2]
    assert fake_server.ledger.paid_twice() == {}


def test_a_share_of_a_batch_goes_wrong_once_and_right_the_second_time(fake_server: FakeServer) -> None:
    fake_server.behaviour.outcome = first_time({"expired": 0.3, "missing": 0.2})
    requests = [(f"id-{n}", question(f"number {n}")) for n in range(200)]
    first = dict(batch_replies("anthropic", fake_server, requests))
    missing = [pair for pair in requests if pair[0] not in first]
    expired = [pair for pair in requests if pair[0] in first and first[pair[0]].error]
    assert 20 <= len(missing) <= 60
    assert 40 <= len(expired) <= 80
    second = batch_replies("anthropic", fake_server, [*missing, *expired])
    assert all(reply.error is None for _, reply in second)
    assert fake_server.ledger.paid_twice() == {}


def test_skipped_calls_go_well_before_a_fault(fake_server: FakeServer) -> None:
    fake_server.behaviour.faults = [Fault(route="ask", skip=1)]
    ask("openai", fake_server, question())
    failed("openai", fake_server)
    ask("openai", fake_server, question())
    assert fake_server.ledger.calls["ask"] == 3


def test_a_process_of_its_own_keeps_its_batches_when_it_is_killed(tmp_path: Path) -> None:
    with FakeServerProcess(tmp_path, "--key", KEY, "--batch-polls", "0", "--strangers", "1") as server:
        provider = make("anthropic", server)  # type: ignore[arg-type]
        batch_id = use(provider, lambda provider: provider.submit([("one", question())], "run-1"))
        server.plant({"status": 529, "route": "ask"})
        failed("anthropic", server)  # type: ignore[arg-type]
        summary = server.summary()
    assert (summary["accepted"], summary["contents"], summary["paid_twice"]) == (1, 1, {})
    assert summary["calls"] == {"submit": 1, "ask": 1}
    with FakeServerProcess(tmp_path, "--outcomes", '{"expired": 1.0}') as server:
        server.set(batch_polls=0)

        async def work(provider: AnthropicProvider) -> list[str]:
            assert [state.batch_id async for state in provider.recent_batches()] == [batch_id]
            return [custom_id async for custom_id, _ in provider.results(batch_id)]

        assert use(make("anthropic", server), work) == ["one"]  # type: ignore[arg-type]
        assert server.summary()["accepted"] == 1


def test_results_are_read_in_a_stream_not_in_one_piece(tmp_path: Path) -> None:
    judge = "tests.fakes.behaviour:long_answer"
    requests = [(f"id-{n}", question(f"number {n:04d}", max_tokens=100_000)) for n in range(250)]
    with FakeServerProcess(tmp_path, "--judge", judge, "--batch-polls", "0") as server:

        async def work(provider: AnthropicProvider) -> tuple[int, int]:
            batch_id = await ended_batch(provider, requests)
            tracemalloc.start()
            characters = 0
            async for _, reply in provider.results(batch_id):
                characters += len(reply.text)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return characters, peak

        for kind in ("anthropic", "openai"):
            characters, peak = use(make(kind, server), work)  # type: ignore[arg-type]
            assert characters == 250 * 12 * 2000
            assert peak < 2_000_000, f"{kind}: {peak:,} bytes held while {characters:,} went through"
